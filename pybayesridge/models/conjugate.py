"""Ridge regression of Gaussian responses: the posterior at each penalty in closed form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pybayesridge._types import ArrayLike, FloatArray
from pybayesridge.data.frames import unmasked
from pybayesridge.data.prepare import in_order
from pybayesridge.recipes import Recipe
from pybayesridge.results.ridge import BayesRidgeResults
from pybayesridge.ridge.fit import FitOptions
from pybayesridge.ridge.loocv import FullLeverageError
from pybayesridge.ridge.many import fit_targets
from pybayesridge.ridge.methods import RidgeMethod
from pybayesridge.ridge.spectrum import rotate

if TYPE_CHECKING:
    from pybayesridge.models.ridge import BayesRidge


def fit(model: BayesRidge, entry: RidgeMethod, options: dict[str, Any], recipe: Recipe) -> BayesRidgeResults:
    """Fit a model by one of its methods with checked options."""
    lam = options["lam"]
    chosen = FitOptions(
        tol=options["tol"],
        maxiter=options["maxiter"],
        grid=options["grid"],
        lam=None if lam is None else _penalties(lam, model.data.targets),
        parameterization=options["parameterization"],
        accelerate=options["accelerate"],
    )
    noise = model.noise(options["dof"])
    design, spectrum = model.prepare(rotate)
    try:
        found = fit_targets(entry.fit, design, spectrum, model.prior_of_tau2, noise, chosen)
    except FullLeverageError as error:
        raise FullLeverageError(model.data.row_labels.tolist()[error.row]) from None
    model.prepared = found.spectrum
    return BayesRidgeResults(
        model,
        design,
        found,
        method=entry.name,
        dof=options["dof"],
        parameterization=options["parameterization"],
        tol=chosen.tol,
        maxiter=chosen.maxiter,
        recipe=recipe,
    )


def _penalties(lam: ArrayLike | Mapping[str, float], targets: Sequence[str]) -> FloatArray:
    """The penalty of each target, (q,)."""
    q, lam = len(targets), in_order("lam", lam, targets, "targets")
    try:
        if np.asarray(lam).dtype.kind not in "fiuO":
            raise TypeError
        out = np.broadcast_to(np.asarray(unmasked(lam), dtype=np.float64), (q,)).copy()
    except (TypeError, ValueError):
        raise ValueError(f"lam must be a number, or one for each of {q} targets, not {lam!r}") from None
    if not (np.isfinite(out) & (out >= 0)).all():
        raise ValueError(f"lam must be finite and not negative, not {lam!r}")
    return out
