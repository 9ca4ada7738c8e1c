"""Tolerances for the comparison with R, each with a description of the quantity compared.

Relative to the largest value compared, unless said otherwise. What is smaller than a tolerance and larger than
rounding is the other side's stopping rule.
"""

GLMNET_GRID = 1e-10
"""Penalties of ``glmnet(alpha = 0)`` except the first, and lambda_max of ``alpha = 0.001``."""

GLMNET_COEFFICIENTS = 1e-8
"""``coef(glmnet(thresh = 1e-22))`` at every penalty except the first; coefficients per standard deviation."""

CV_GLMNET_EXACT = 1e-8
"""Leave-one-out errors, both standardised in each fold as in ``cv.glmnet``."""

CV_GLMNET_CHOICE = 2
"""Grid points between ``lambda.min`` and the best penalty with one standardisation for all rows. Not relative."""

CV_GLMNET_ERRORS = 0.1
"""Leave-one-out errors, standardised in each fold and once, at penalties near the best; of order 1/n."""

LM_RIDGE = 1e-9
"""``MASS::lm.ridge``: coefficients and generalised cross-validation (converted to its definition)."""

LM = 1e-9
"""``lm``: coefficients and fitted values at a penalty of 0, intervals with all columns unpenalised."""

MODEL_MATRIX = 1e-10
"""Columns of ``model.matrix`` and of formulaic. Absolute; the columns are of order 1."""

SUSIE_PIP = 0.05
"""Inclusion probabilities of clear signals and clear non-signals, compared with susieR. Absolute."""

FRONT_END = 1e-10
"""All numbers of the R package and of the Python package, after conversion by reticulate and to text."""

FRONT_END_LIMITS = 2e-8
"""Limits of intervals, which each language solves for itself: what the stopping rule of quantiles allows."""

MGCV = 1e-11
"""``gam(sp = )``: predictions from smooth curves, also outside the data."""

MGCV_FAMILIES = 1e-6
"""``gam(family = , sp = )``, binomial and Poisson: linear predictors and standard deviations, by Newton's method."""

MGCV_REML = 2e-5
"""``gam(family = poisson(), method = "REML")``: the penalty, where a flat criterion is largest."""
