"""Formulas, by formulaic."""
