"""Families: what a response is, how it is coded, and what every output calls it."""
