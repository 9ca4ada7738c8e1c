"""The options of ``SpikeSlab.fit`` for the numerics, and what is shown of sampling."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from pybayesridge.ep.methods import SelectionMethod, SelectionOptions
from pybayesridge.progress import Show
from pybayesridge.selection.estimates import FEWEST_DRAWS, Estimate
from pybayesridge.selection.sampler import AGREEMENT, OPTIONAL_STOPPING, allowed_mean_error
from pybayesridge.text import number


def options_of(entry: SelectionMethod, checked: Mapping[str, Any], expected_size: float) -> SelectionOptions:
    """The checked options of ``fit`` for the numerics; `maxiter` and `hyper` that are None are the method's own."""
    return SelectionOptions(
        **{name: checked[name] for name in ("tol", "damping", "mcse", "chains", "rng")},
        maxiter=entry.maxiter if checked["maxiter"] is None else checked["maxiter"],
        average=(checked["hyper"] or next(iter(entry.hypers), None)) == "average",
        expected_size=expected_size,
    )


def stored(checked: Mapping[str, Any]) -> dict[str, Any]:
    """The checked options with which a fit can be repeated, by name; without a generator, whose state is gone."""
    names = ("mcse", "chains", "rng", "tol", "maxiter", "damping", "hyper")
    kept = {name: checked[name] for name in names if not isinstance(checked[name], np.random.Generator)}
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in kept.items()}


def with_progress(options: SelectionOptions, show: Show | None) -> SelectionOptions:
    """The options with a function that shows how far sampling is; the same where there is nothing to show it on."""
    if show is None:
        return options

    begin, seen, needed = time.monotonic(), None, 0.0

    def progress(steps: int, estimate: Estimate | None) -> None:
        nonlocal seen, needed
        text = f"sampling: {steps:,} steps"
        if estimate is not None:
            passed = time.monotonic() - begin
            if estimate is not seen:
                seen, needed = estimate, passed * min(longer(estimate, options.mcse), options.maxiter / max(steps, 1))
            largest = float(estimate.se.max(initial=0.0))
            text += f", largest standard error {number(largest, 2)} (mcse {number(options.mcse, 2)})"
            if needed > passed:
                text += f", about {duration(needed - passed)} left"
        show(text)

    return replace(options, progress=progress)


def longer(estimate: Estimate, mcse: float) -> float:
    """How many times as long the walk has to be as it is, if variances fall as it grows."""
    error = float(estimate.se.max(initial=0.0)) / mcse
    mean = estimate.mean_error / allowed_mean_error(mcse)
    apart = (estimate.agreement**2 - 1.0) / (AGREEMENT**2 - 1.0)
    return max((OPTIONAL_STOPPING * max(error, mean)) ** 2, apart, FEWEST_DRAWS / estimate.effective)


def duration(seconds: float) -> str:
    """A time in the unit that suits it."""
    for unit, size, most in (("s", 1.0, 90.0), ("min", 60.0, 5400.0)):
        if seconds < most:
            return f"{max(round(seconds / size), 1):,} {unit}"
    return f"{seconds / 3600.0:,.1f} h"
