"""Variable selection for Gaussian responses: the posterior of the sets of columns, or expectation propagation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pybayesridge.compiled.library import compile_if_possible
from pybayesridge.design.crossproducts import CrossProducts
from pybayesridge.design.design import Design
from pybayesridge.ep.methods import SelectionMethod, Task
from pybayesridge.ep.model.hyperparameters import Hyperparameters
from pybayesridge.ep.model.least_squares import Data
from pybayesridge.ep.model.result import ColumnSites
from pybayesridge.ep.model.rotation import Rotation, orthogonal_groups
from pybayesridge.ep.posterior import StartingPoint
from pybayesridge.ep.selection import data_of, data_of_products
from pybayesridge.linalg.blas import one_pool
from pybayesridge.progress import line
from pybayesridge.recipes import Recipe
from pybayesridge.results.spike_slab import SpikeSlabResults
from pybayesridge.selection.doubt import check_selection, doubts_of
from pybayesridge.selection.enumeration import MAX_UNITS
from pybayesridge.selection.options import options_of, stored, with_progress
from pybayesridge.selection.posterior import posterior_of
from pybayesridge.text import listed

if TYPE_CHECKING:
    from pybayesridge.models.spike_slab import SpikeSlab


def fit(model: SpikeSlab, entry: SelectionMethod, options: dict[str, Any], recipe: Recipe) -> SpikeSlabResults:
    """Fit a model by one of its methods with checked options."""
    start = options["start"]
    chosen = options_of(entry, options, model.expected_size)
    if start is not None and not entry.takes_start:
        raise ValueError(f"start is for expectation propagation, not for method={entry.name!r}")
    if "mcse" in entry.options and len(model.data.exog_columns) > MAX_UNITS:
        # A design with other last digits would have other walks.
        compile_if_possible()
    design, (data, rotation) = model.prepare(lambda *made: prepared(model, *made))
    task = Task(
        data,
        float(design.n),
        model.known(design),
        model.groups_of(design),
        rotation,
        vanishes=bool(design.y_vanishes[0]),
        start=None if start is None else _start(model, start, design, rotation),
    )
    with one_pool(float(data.root.size) * min(data.root.shape)), line(at_once=options["disp"]) as show:
        chosen = with_progress(chosen, show)
        selection = entry.fit(task, chosen)
        checked = check_selection(task, selection, chosen.progress) if options["check"] else None
    posterior = posterior_of(design, data, selection)
    return SpikeSlabResults(
        model,
        posterior,
        method=entry.name,
        tol=chosen.tol if posterior.exact is None else chosen.mcse,
        maxiter=chosen.maxiter,
        fit_options=stored(options),
        recipe=recipe,
        check=checked,
        doubts=doubts_of(posterior, task.groups) if checked is None else (),
    )


def prepared(model: SpikeSlab, design: Design, products: CrossProducts) -> tuple[Data, Rotation]:
    """The data, rotated within groups, and how they were rotated."""
    data = data_of(design) if design.has_rows else data_of_products(design, products)
    return orthogonal_groups(data, model.groups_of(design))


def _start(model: SpikeSlab, start: Any, design: Design, rotation: Rotation) -> tuple[Hyperparameters, ColumnSites]:
    """Where to start, from an earlier fit."""
    point = start.starting_point() if isinstance(start, SpikeSlabResults) else start
    if not isinstance(point, StartingPoint):
        raise ValueError(f"start must be results of a SpikeSlab, not {type(start).__name__}")
    if not point.noise_var > 0:
        raise ValueError("start is a fit without noise, of a response that the unpenalised columns fit exactly")
    names = tuple(model.data.exog_columns[j] for j in design.columns)
    if names != point.columns:
        odd = sorted(set(names) ^ set(point.columns)) or list(names)
        raise ValueError(f"start is a fit of other columns: {listed(odd)} differ")
    hyper, sites = point.in_design(design)
    return hyper, rotation.unknown(sites)
