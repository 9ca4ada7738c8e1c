"""Bayesian linear models for people who read regression tables."""
