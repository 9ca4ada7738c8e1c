"""The evidence, its gradient, and hyperparameters learned or averaged."""
