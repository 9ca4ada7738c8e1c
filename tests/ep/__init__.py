"""Tests of the EP numerics."""
