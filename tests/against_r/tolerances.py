"""How closely we agree with R: the one table of tolerances of this folder, and what it was compared with.

Relative to the largest value compared, unless said otherwise. What is smaller than a tolerance and larger than
rounding is the other side's stopping rule.
"""

GLMNET_GRID = 1e-10
"""The penalties of ``glmnet(alpha = 0)``, from the second on, and lambda_max of ``alpha = 0.001``."""

GLMNET_COEFFICIENTS = 1e-8
"""``coef(glmnet(thresh = 1e-22))`` at every penalty from the second on, as coefficients per standard deviation."""

CV_GLMNET_EXACT = 1e-8
"""Leave-one-out errors of ``cv.glmnet``, standardised anew in every fold, when we do the same."""

CV_GLMNET_CHOICE = 2
"""Grid points between ``lambda.min`` and ours, whose standardisation is that of all rows. Not relative."""

CV_GLMNET_ERRORS = 0.1
"""Leave-one-out errors of ``cv.glmnet`` beside ours, at penalties within a decade of the best; of order 1/n."""

LM_RIDGE = 1e-9
"""``MASS::lm.ridge``: coefficients and, translated, generalised cross-validation."""

LM = 1e-9
"""``lm`` beside a penalty of 0 (coefficients, fitted values) and beside unpenalised columns (intervals)."""

MODEL_MATRIX = 1e-10
"""Columns of ``model.matrix`` beside formulaic's. Absolute, columns being of order 1."""

SUSIE_PIP = 0.05
"""Inclusion probabilities of clear signals and clear non-signals beside susieR's. Absolute."""

FRONT_END = 1e-10
"""The R package beside the Python package: every number, through reticulate and back as text."""
