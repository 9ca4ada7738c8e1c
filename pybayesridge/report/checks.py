"""The report: how well the model predicts rows that are left out, and whether replicated responses look like ours."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from pybayesridge.exceptions import PrecisionWarning
from pybayesridge.plots.frame import percent
from pybayesridge.report.figures import Album
from pybayesridge.report.parts import Target, ends, rows_there, table_of
from pybayesridge.text import listed, number

if TYPE_CHECKING:
    from pybayesridge.results.leave_one_out import LeaveOneOutScore

DRAWS, FEWEST_DRAWS = 1000, 200
"""Replicated responses at most, and at least."""

NUMBERS = 20_000_000
"""Of all replicated responses, roughly."""

PIT = (
    "Leave-one-out probability integral transform: if the predictive distributions describe the data, the histogram "
    "is flat and its bars end in the grey band. A U shape means that predictive intervals are too narrow, a hump "
    "that they are too wide."
)

DENSITIES = "Density of the observed response, and of responses replicated from the posterior for the same rows."
FREQUENCIES = (
    "Numbers of rows with each value of the response, on a scale of square roots, and of responses replicated from "
    "the posterior for the same rows, with 95 % intervals."
)


def add_model_checks(out: Target, res: Any, i: int, album: Album | None, alpha: float) -> None:
    """Add the section on model checks of one target."""
    if not rows_there(res):
        return
    has_density = _say_score(out, res, i)
    if not res.has_joint_posterior:
        return
    family = res.model.distribution
    draws = int(np.clip(NUMBERS // res.model.nobs, FEWEST_DRAWS, DRAWS))
    try:
        found = res.ppc(family.summaries, draws=draws, alpha=alpha, target=i)
    except ValueError as error:  # of pooled fits whose responses were imputed
        out.checks.texts.append(f"There are no predictive checks: {error}.")
        return
    out.checks.tables.append(
        table_of(
            f"Statistics of the response and of {draws:,} replicated responses, with {percent(alpha)} intervals; "
            "p is the share of replicated values above the observed one",
            "statistic",
            ["observed", "p", "mean", *ends(alpha)],
            list(found.index),
            found[["observed", "p", "mean", "lower", "upper"]].to_numpy(),
            shares=(1,),
            interval=True,
        )
    )
    if album is None or not (family.has_density or family.in_whole_numbers):
        return
    if has_density and family.has_noise:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrecisionWarning)
            out.checks.pictures.append(album.picture(lambda ax: res.plot_pit(target=i, ax=ax), PIT))
    out.checks.pictures.append(
        album.picture(
            lambda ax: res.plot_ppc(target=i, ax=ax),
            DENSITIES if family.has_density else FREQUENCIES,
        )
    )


def _say_score(out: Target, res: Any, i: int) -> bool:
    """Say what the leave-one-out score is; whether there is one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrecisionWarning)
        try:
            score: LeaveOneOutScore = res.loo(target=i)
        except ValueError as error:
            out.checks.texts.append(f"There is no leave-one-out predictive score: {error}.")
            return False
    mass = res.model.distribution.mass
    out.checks.texts.append(
        f"The leave-one-out predictive score (elpd) is {score.elpd:,.1f}, with standard error {number(score.se, 2)}. "
        f"It is the sum over {score.rows_in_words} of the log {mass} predicted for a row from all other rows. The "
        f"effective number of parameters (p_loo) is {number(score.p_loo, 2)}. Scores of fits to the same rows can be "
        "compared; the larger, the better."
    )
    if score.in_doubt:
        out.checks.texts.append(
            f"The predictions of {len(score.in_doubt):,} row(s) rest on few draws of the sampler, and the score may "
            f"be inaccurate: {listed(score.in_doubt)}."
        )
    return True
