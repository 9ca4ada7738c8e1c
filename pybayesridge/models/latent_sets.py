"""Variable selection for responses that are not Gaussian: with auxiliary variables, or sites of the rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pybayesridge.compiled.library import compile_if_possible
from pybayesridge.design.design import Design
from pybayesridge.ep.methods import SelectionMethod
from pybayesridge.ep.model.least_squares import Data
from pybayesridge.ep.model.rotation import Rotation
from pybayesridge.models.sets import prepared
from pybayesridge.progress import line
from pybayesridge.recipes import Recipe
from pybayesridge.results.generalized_spike_slab import GeneralizedSpikeSlabResults
from pybayesridge.selection.doubt import doubts_of
from pybayesridge.selection.options import options_of, stored, with_progress
from pybayesridge.sites.separation import check_unpenalized
from pybayesridge.sites.sets import SetsTask, rows_of_design

if TYPE_CHECKING:
    from pybayesridge.models.spike_slab import SpikeSlab


def fit(
    model: SpikeSlab, entry: SelectionMethod, options: dict[str, Any], recipe: Recipe
) -> GeneralizedSpikeSlabResults:
    """Fit a model by one of its methods with checked options."""
    chosen = options_of(entry, options, model.expected_size)
    if "mcse" in entry.options:
        # A design with other last digits would have other walks.
        compile_if_possible()
    design, (data, rotation) = model.prepare(lambda *made: prepared(model, *made))
    # The response is not scaled: it stands for itself in the likelihood.
    design = replace(design, y_norm=np.ones(1), y_on_z=np.zeros((design.block.k, 1)))
    with line(at_once=options["disp"]) as show:
        posterior = entry.fit(_task(model, design, data, rotation), with_progress(chosen, show))
    return GeneralizedSpikeSlabResults(
        model,
        posterior,
        method=entry.name,
        tol=chosen.tol if posterior.exact is None else chosen.mcse,
        maxiter=chosen.maxiter,
        fit_options=stored(options),
        recipe=recipe,
        doubts=doubts_of(posterior, model.groups_of(design)),
    )


def _task(model: SpikeSlab, design: Design, data: Data, rotation: Rotation) -> SetsTask:
    """Check what the rows must be like, and bring them to the scale of the prior."""
    likelihood = model.likelihood()
    check_unpenalized(*model.unpenalized_rows(), likelihood)
    known = model.known(design)
    p = known.prior_inclusion
    if design.p == 0 or (p is not None and not ((p > 0) & (p < 1)).any()):
        raise ValueError(
            "no column can be both in and out: for such responses SpikeSlab needs at least one column that "
            "varies and whose prior_inclusion lies between 0 and 1; use BayesRidge"
        )
    x, c = rows_of_design(design)
    return SetsTask(design, data, rotation, x, c, likelihood, known, model.groups_of(design))
