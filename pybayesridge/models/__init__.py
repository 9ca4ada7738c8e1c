"""The models."""

from pybayesridge.models import (  # noqa: F401 - the families that family="binomial" looks up
    binary,
    binary_selection,
)
