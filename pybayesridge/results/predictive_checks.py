"""Posterior predictive checks: statistics of the response and of responses replicated from the posterior."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd

from pybayesridge._types import FloatArray, RandomLike
from pybayesridge.binomial.likelihood import probability
from pybayesridge.checks import positive_int
from pybayesridge.results.arguments import check_alpha, target_position
from pybayesridge.text import listed, repeated

if TYPE_CHECKING:
    from pybayesridge.results.arviz import Draws

Statistic: TypeAlias = str | Callable[[FloatArray], float]

NAMED: dict[str, Callable[[FloatArray], FloatArray]] = {
    "mean": lambda y: y.mean(axis=-1),
    "sd": lambda y: y.std(axis=-1, ddof=1) if y.shape[-1] > 1 else np.zeros(y.shape[:-1]),
    "min": lambda y: y.min(axis=-1),
    "max": lambda y: y.max(axis=-1),
}
"""Statistics of the last axis."""

ELEMENTS = 4_000_000
"""Numbers of replicated responses, or of coefficients, that are held at once."""


def ppc(
    self: Any,
    stat: Statistic | Sequence[Statistic] | Mapping[str, Callable[[FloatArray], float]] | None = None,
    *,
    draws: int = 1000,
    alpha: float = 0.05,
    rng: RandomLike = 0,
    target: str | int | None = None,
) -> pd.DataFrame:
    """Posterior predictive check: compare statistics of the response with those of replicated responses.

    A replicated response is drawn for the rows of the fit, with coefficients and noise from the posterior. The
    posterior has seen the response, so that `p` varies less around one half than a p-value of a correct model: a
    value near 0 or 1 shows a misfit, a value near one half is no proof. For a stricter check see ``pit()``.

    Parameters
    ----------
    stat : {"mean", "sd", "min", "max"}, callable, sequence or dict, optional
        Statistics; the four named ones by default. A callable takes a response (n,) and returns a number; a dict
        names callables.
    draws : int, default 1000
        How many responses to replicate.
    alpha : float, default 0.05
        One minus the probability of the intervals.
    rng : numpy.random.Generator, int or None
        Source of randomness; by default the numbers are the same at each call.
    target : str or int, optional
        Which target, by name or position; needed where there are several.

    Returns
    -------
    DataFrame
        A row for each statistic: ``observed``, ``mean``, ``lower`` and ``upper`` of the replicated responses, and
        ``p``, the posterior predictive p-value: the share of replicated statistics above the observed one, equal ones
        counted half.

    Raises
    ------
    ValueError
        For an unknown statistic or target, one that is not a number, or if the rows were removed.

    Examples
    --------
    >>> import statsmodels.api as sm
    >>> from pybayesridge import BayesRidge
    >>> longley = sm.datasets.longley.load_pandas().data
    >>> res = BayesRidge.from_formula("TOTEMP ~ GNP + UNEMP", longley).fit()
    >>> res.ppc(["mean", "max"])["p"].round(1).to_dict()
    {'mean': 0.5, 'max': 0.8}
    """
    tails = [check_alpha(alpha) / 2, 1 - alpha / 2]
    functions = statistics(stat)
    observed, found = replicated_statistics(self, functions, positive_int("draws", draws), rng, target, "ppc")
    rows = {}
    for name, values in found.items():
        above = (values > observed[name]).mean() + 0.5 * (values == observed[name]).mean()
        rows[name] = [observed[name], values.mean(), *np.quantile(values, tails), above]
    return pd.DataFrame.from_dict(rows, orient="index", columns=["observed", "mean", "lower", "upper", "p"])


def statistics(stat: Any) -> dict[str, Callable[[FloatArray], Any]]:
    """Statistics by name."""
    if stat is None:
        return dict(NAMED)
    if isinstance(stat, Mapping):
        named = list(stat.items())
    else:
        given = [stat] if isinstance(stat, str) or callable(stat) else list(stat)
        named = [(each if isinstance(each, str) else getattr(each, "__name__", "statistic"), each) for each in given]
    names = [str(name) for name, _ in named]
    if not names or repeated(names):
        raise ValueError(
            f"stat names {listed(repeated(names))} twice: pass a dict from names to functions"
            if names
            else "stat is empty: name a statistic, or leave it out"
        )
    out = {}
    for name, each in named:
        if callable(each):
            out[str(name)] = each
        elif each in NAMED:
            out[str(name)] = NAMED[each]
        else:
            raise ValueError(f"stat must be one of {listed(NAMED)} or a function of the response, not {each!r}")
    return out


def replicated_statistics(
    res: Any,
    functions: Mapping[str, Callable[[FloatArray], Any]],
    draws: int,
    rng: RandomLike,
    target: Any,
    what: str,
) -> tuple[dict[str, float], dict[str, FloatArray]]:
    """Each statistic of the response, and of `draws` replicated responses, (draws,)."""
    y, parts = replicated(res, draws, rng, target, what)
    observed = {name: float(_value(name, function, y[None])[0]) for name, function in functions.items()}
    out: dict[str, list[FloatArray]] = {name: [] for name in functions}
    for part in parts:
        for name, function in functions.items():
            out[name].append(_value(name, function, part))
    return observed, {name: np.concatenate(values) for name, values in out.items()}


def replicated(
    self: Any, draws: int, rng: RandomLike, target: Any, what: str
) -> tuple[FloatArray, Iterator[FloatArray]]:
    """The response (n,) of one target, and `draws` replicated responses in pieces (some, n)."""
    i = target_position(self.model.data.targets, target, what)
    if self.model.endog is None:
        raise ValueError(self.model.why_no_rows)
    y = self.model.endog.reshape(len(self.model.endog), -1)[:, i]
    step = max(ELEMENTS // max(self.model.nobs, len(self.model.exog_names), 1), 1)
    sizes = [min(step, draws - begin) for begin in range(0, draws, step)]
    generator = np.random.default_rng(rng)
    return y, (_one_piece(self, size, generator, i) for size in sizes)


def _one_piece(res: Any, size: int, generator: np.random.Generator, i: int) -> FloatArray:
    """One response for each of `size` draws, (size, n)."""
    factors = res.model.noise_factors(res.model.nobs, None, own=True)
    if res.posterior.design.in_blocks:
        mean, sigma2 = res._draw_rows(size, generator, i)  # noqa: SLF001
        return generator.normal(mean, np.sqrt(sigma2[:, None] * factors))
    drawn: Draws = res._draw_chain(size, generator)  # noqa: SLF001
    if res.model.family == "binomial":
        rows = res.model.likelihood()
        eta = res.model.predict(drawn.beta[..., 0].T, which="linear").T
        trials = (rows.successes + rows.failures).astype(int)
        return generator.binomial(trials, probability(eta, rows.link)).astype(np.float64)
    assert drawn.sigma2 is not None
    mean = res.model.predict(drawn.beta[:, :, i].T).T
    return generator.normal(mean, np.sqrt(drawn.sigma2[:, [i]] * factors))


def _value(name: str, function: Callable[[FloatArray], Any], y: FloatArray) -> FloatArray:
    """A statistic of each row of `y` (m, n), (m,)."""
    if function in NAMED.values():
        return np.asarray(function(y), dtype=np.float64)
    values = [function(row) for row in y]
    if any(np.ndim(value) != 0 or not np.isfinite(value) for value in values):
        raise ValueError(f"the statistic {name!r} must be one finite number of a response, got {values[0]!r}")
    return np.array(values, dtype=np.float64)
