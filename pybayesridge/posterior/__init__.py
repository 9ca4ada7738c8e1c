"""Posteriors as mixtures: quantiles and probabilities of linear functions of the coefficients."""
