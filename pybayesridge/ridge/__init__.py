"""The numerics of Bayesian ridge regression: arrays in, frozen dataclasses out."""
