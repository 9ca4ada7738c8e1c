"""The options of ``SpikeSlab.fit``: their defaults and their checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from pybayesridge.checks import positive, positive_int
from pybayesridge.ep.methods import FitOptions, SelectionMethod
from pybayesridge.progress import Show
from pybayesridge.registry import check_options
from pybayesridge.selection.tallies import Estimate
from pybayesridge.text import number

TOL = 1e-4
"""Tolerance of EP's residual, unless another is given."""

MCSE = 0.01
"""Largest Monte Carlo standard error of an inclusion probability, unless another is given."""

CHAINS = 4

DAMPING = 0.5
"""The share of the new sites in an update of damped EP, unless another is given."""


def checked_options(
    methods: Mapping[str, SelectionMethod],
    entry: SelectionMethod,
    *,
    tol: float,
    maxiter: int | None,
    damping: float,
    hyper: str | None,
    mcse: float,
    chains: int,
    rng: np.random.Generator | int,
    expected_size: float,
    check: bool,
) -> FitOptions:
    """The checked options of a method, or a ValueError for those that it does not take."""
    if hyper not in (None, "average", "maximize"):
        raise ValueError(f"hyper must be 'average' or 'maximize', not {hyper!r}")
    if not isinstance(check, bool | np.bool_):
        raise ValueError(f"check must be True or False, not {check!r}")
    positive("tol", tol)
    if not 0 < positive("damping", damping) <= 1:
        raise ValueError(f"damping must lie in (0, 1], not {damping!r}")
    most = entry.maxiter if maxiter is None else positive_int("maxiter", maxiter)
    seed = isinstance(rng, int | np.integer | np.random.Generator) and not isinstance(rng, bool)
    check_options(
        methods,
        entry,
        {
            "damping": damping != DAMPING,
            "hyper": hyper is not None and hyper not in entry.hypers,
            "tol": tol != TOL,
            "check": bool(check),
            "mcse": positive("mcse", mcse) != MCSE,
            "chains": positive_int("chains", chains) != CHAINS,
            "rng": not seed or (not isinstance(rng, np.random.Generator) and rng != 0),
            "expected_size": expected_size != 1.0,
        },
    )
    if not seed or (not isinstance(rng, np.random.Generator) and rng < 0):
        raise ValueError(f"rng must be a seed (an integer of at least 0) or a numpy Generator, not {rng!r}")
    average = (hyper or next(iter(entry.hypers), None)) == "average"
    return FitOptions(float(tol), most, float(damping), average, float(mcse), chains, rng, expected_size)


def with_progress(options: FitOptions, show: Show | None) -> FitOptions:
    """The options with a function that shows how far sampling is; the same where there is nothing to show it on."""
    if show is None:
        return options

    def progress(steps: int, estimate: Estimate | None) -> None:
        text = f"sampling: {steps:,} steps"
        if estimate is not None:
            largest = float(estimate.se.max(initial=0.0))
            text += f", largest standard error {number(largest, 2)} (mcse {number(options.mcse, 2)})"
        show(text)

    return replace(options, progress=progress)
