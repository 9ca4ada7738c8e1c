"""The models as scikit-learn estimators: ``pip install 'pybayesridge[sklearn]'``."""

try:
    import sklearn  # noqa: F401
    from sklearn.utils import Tags  # noqa: F401 - new in 1.6
except ImportError as error:
    raise ImportError(
        "pybayesridge.sklearn needs scikit-learn 1.6 or newer: pip install 'pybayesridge[sklearn]'"
    ) from error

from pybayesridge.sklearn.classifier import BayesRidgeClassifier
from pybayesridge.sklearn.ridge import BayesRidgeRegressor
from pybayesridge.sklearn.spike_slab import SpikeSlabRegressor
from pybayesridge.sklearn.spike_slab_classifier import SpikeSlabClassifier

__all__ = ["BayesRidgeClassifier", "BayesRidgeRegressor", "SpikeSlabClassifier", "SpikeSlabRegressor"]
