"""Directions of coefficients, and statements on several contrasts together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pybayesridge._types import ArrayLike, FloatArray, IntArray, RandomLike
from pybayesridge.posterior.laws import Ask
from pybayesridge.quantile_tables import NO_ROW_SPACE
from pybayesridge.results.arguments import target_position
from pybayesridge.results.contrast import law_of, read_contrasts

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame

    from pybayesridge.results.estimates import LinearEstimates

HEADS = ("P(>0)", "P(=0)")
"""Heads of the columns of a summary; the second for variable selection."""

DIRECTION = f"{HEADS[0]} is the posterior probability that the coefficient is positive."
"""The note to the first."""

DIRECTION_OR_ZERO = (
    f"{HEADS[0]} and {HEADS[1]} are the posterior probabilities that the coefficient is positive and that it is "
    "exactly zero; the remainder is that of a negative coefficient."
)
"""The note to both."""

DRAWS, FEWER, MANY = 20_000, 4_000, 1_000
"""Draws for the probability of an ellipsoid, and those of fits with so many coefficients."""

BLOCK = 1_000
"""Draws of all coefficients that are held at once."""

DEPENDENT = 1e-9
"""Smaller eigenvalues of the correlations of contrasts, relative to the largest, are zero but for rounding."""


def directions(res: LinearEstimates, positions: Sequence[int] | IntArray, target: int) -> tuple[FloatArray, ...]:
    """Posterior probabilities that some coefficients are positive and, of a SpikeSlab, exactly 0: (m,) each."""
    found = res.ask(Ask(mean=False, sd=False, above=True), positions, target)
    return tuple(each[:, 0] for each in (found.above, found.mass_at_zero) if each is not None)


def joint_contrast(
    res: LinearEstimates,
    contrasts: str | Sequence[str] | Mapping[str, str] | ArrayLike | pd.Series | IntoDataFrame,
    *,
    target: str | int | None = None,
    rng: RandomLike = 0,
) -> pd.Series:
    """Posterior statement on several contrasts together, such as whether all can be zero.

    Parameters
    ----------
    contrasts : str, sequence of str, dict, array-like, Series or frame
        As for :meth:`contrast`. The name of a term of the formula, such as ``"C(site)"`` or ``"site:dose"``, stands
        for all its coefficients.
    target : str or int, optional
        Which target, by name or position; needed where there are several.
    rng : numpy.random.Generator, int or None
        `content` is a share of 20,000 draws from the posterior (of 4,000 if there are 1,000 coefficients or more), by
        default the same at each call.

    Returns
    -------
    Series
        For a ridge ``content``: the posterior probability of the smallest ellipsoid around the posterior mean, with
        axes by the posterior covariance, that contains zero. Near 1 zero is far out; a credible ellipsoid of
        probability 0.95 contains zero if the content is at most 0.95. ``mcse`` is its Monte Carlo standard error.
        For ``SpikeSlab.fit("exact")`` ``prob_zero``: the posterior probability that all contrasts are exactly zero,
        by the sets of columns that were kept, and if these were sampled its ``mcse``.

    Raises
    ------
    ValueError
        For a contrast as in :meth:`contrast`; for SpikeSlab by expectation propagation, which has no joint
        probabilities of sets; if the posterior has no covariance.

    Examples
    --------
    >>> import statsmodels.api as sm
    >>> from pybayesridge import BayesRidge
    >>> longley = sm.datasets.longley.load_pandas().data
    >>> res = BayesRidge.from_formula("TOTEMP ~ GNP + UNEMP + ARMED", longley).fit()
    >>> res.joint_contrast("UNEMP, ARMED").round(2).to_dict()
    {'content': 0.98, 'mcse': 0.0}
    """
    i = target_position(res.model.data.targets, target, "joint_contrast")
    if not res.has_joint_posterior:
        raise ValueError(NO_ROW_SPACE.format(what="a contrast"))
    weights, value, _ = read_contrasts(terms_written_out(res, contrasts), list(res.model.exog_names))
    law = law_of(res, weights, -value, i)
    if res.parts[0].posterior.has_point_masses:
        found, error = law.all_zero()
        if np.isnan(found) and res.parts[0].posterior.design.p == 0:
            raise ValueError(
                "joint_contrast() of a SpikeSlab is of penalised columns, and no column of this fit is penalised and "
                "varies: use BayesRidge"
            )
        if np.isnan(found):
            raise ValueError(res.model.lane.without_joint_posterior("joint_contrast() of a SpikeSlab"))
        return pd.Series({"prob_zero": found} | ({} if error is None else {"mcse": error}))
    mean, covariance = _moments(res, weights, value, i)
    whitened = _whitening(covariance)
    zero = whitened @ mean
    if not np.allclose(
        covariance @ (whitened.T @ zero), mean, rtol=0, atol=1e-6 * np.sqrt(np.diag(covariance)).max()
    ):
        return pd.Series({"content": 1.0, "mcse": 0.0})
    generator, inside = np.random.default_rng(rng), 0
    draws = DRAWS if len(res.model.exog_names) < MANY else FEWER
    for _ in range(draws // BLOCK):
        drawn = res.sample(BLOCK, generator)
        b = drawn if res.model.one_target else drawn[res.model.data.targets[i]]
        distance = (b.to_numpy() @ weights.T - value - mean) @ whitened.T
        inside += int(((distance**2).sum(axis=1) <= (zero**2).sum()).sum())
    share = (inside + 1) / (draws + 2)  # which is neither 0 nor 1
    return pd.Series({"content": inside / draws, "mcse": float(np.sqrt(share * (1 - share) / draws))})


def terms_written_out(res: LinearEstimates, contrasts: Any) -> Any:
    """Contrasts with the coefficients of each term in place of its name."""
    given = [contrasts] if isinstance(contrasts, str) else contrasts
    spec = res.model.formula_spec
    if spec is None or not isinstance(given, list | tuple) or not all(isinstance(each, str) for each in given):
        return contrasts
    names = set(res.model.exog_names)
    terms = {term: [name for name in columns if name in names] for term, columns in spec.columns_of_terms().items()}
    by_factors = {frozenset(term.split(":")): columns for term, columns in terms.items()}
    parts = [part.strip() for each in given for part in ([each] if each in names else _between_commas(each))]
    out: list[str] = []
    for part in parts:
        found = None if part in names else by_factors.get(frozenset(each.strip(" `") for each in part.split(":")))
        out += found or [part]
    return contrasts if out == parts else out


def _between_commas(text: str) -> list[str]:
    """The parts of a text between commas that stand outside parentheses and brackets."""
    depth, out = 0, [""]
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            out.append("")
        else:
            out[-1] += letter
    return out


def _moments(
    res: LinearEstimates, weights: FloatArray, value: FloatArray, target: int
) -> tuple[FloatArray, FloatArray]:
    """Posterior mean (m,) and covariance (m, m) of contrasts: variances of their sums and differences."""
    m = len(weights)
    first, second = np.triu_indices(m)
    both = np.vstack([weights, weights[first] + weights[second], weights[first] - weights[second]])
    answer = law_of(res, both, np.zeros(len(both)), target).ask(Ask())
    if not (np.isfinite(answer.mean).all() and np.isfinite(answer.sd).all()):
        raise ValueError(
            "the posterior has no covariance: its tail is too heavy. Use contrast(), which has quantiles"
        )
    variance = answer.sd[m:, 0] ** 2
    plus, minus = np.split(variance, 2)
    covariance = np.zeros((m, m))
    covariance[first, second] = covariance[second, first] = (plus - minus) / 4
    return answer.mean[:m, 0] - value, covariance


def _whitening(covariance: FloatArray) -> FloatArray:
    """Rows that make independent unit variables of contrasts, (rank, m)."""
    sd = np.sqrt(np.diag(covariance))
    unit = np.where(sd > 0, sd, 1.0)
    size, vectors = np.linalg.eigh(covariance / unit[:, None] / unit)
    keep = size > DEPENDENT * size.max()
    out: FloatArray = (vectors[:, keep] / np.sqrt(size[keep])).T / unit
    return out
