"""Predictive checks: each row predicted from the others, and the weights of several models by these predictions."""
