"""The models."""

from pybayesridge.models import binary  # noqa: F401 - the family that BayesRidge(family="binomial") looks up
