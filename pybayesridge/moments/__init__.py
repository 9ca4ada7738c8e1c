"""Sufficient statistics in place of rows."""
