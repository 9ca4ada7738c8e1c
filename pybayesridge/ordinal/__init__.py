"""Ordered categories: the likelihood of cut points and linear predictor, and posteriors of both."""
