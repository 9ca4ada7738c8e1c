"""Comparison of fits by their evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd

from pybayesridge._types import FloatArray
from pybayesridge.results.arguments import named_fits
from pybayesridge.results.bands import BandRidgeResults
from pybayesridge.results.generalized_ridge import GeneralizedRidgeResults
from pybayesridge.results.ridge import BayesRidgeResults
from pybayesridge.results.spike_slab import SpikeSlabResults
from pybayesridge.text import listed

if TYPE_CHECKING:
    from pybayesridge.results.returned import AnyResults

    Fits: TypeAlias = Mapping[str, AnyResults] | Sequence[AnyResults]

SAME_RESPONSE = 1e-10
"""Largest relative difference of what is equal for fits of the same response and rows."""


def compare_evidence(fits: Fits) -> pd.DataFrame:
    """Compare fits of the same response by their evidence.

    Parameters
    ----------
    fits : dict of str to results, or list of results
        Of a list the names are "(1)", "(2)" and so on. Selections, or ridges: not both. Of the same response, rows,
        weights and unpenalised columns. Fits whose evidence has the hyperparameters integrated out (selections by
        ``"exact"``, or by ``"ep"`` with ``hyper="average"``; ridges by every method but ``"fixed"``) are not
        comparable with fits whose evidence is at given or estimated ones. Ridges must also agree in family and
        link, ``dof`` and in whether the noise variance is known.

    Returns
    -------
    DataFrame
        A row for each fit, the highest evidence first: ``log_evidence`` (of a ridge its ``log_marginal``),
        ``difference`` to the highest, ``probability`` (the fits being equally probable before), ``expected_size`` (of
        a ridge ``df_model``, the effective degrees of freedom), ``converged``; of selections ``evidence_biased``, and
        of exact ones ``log_evidence_se``, the Monte Carlo standard error. For yes/no responses the evidence of a
        ridge is that of the approximation.

    Raises
    ------
    ValueError
        If the fits are not comparable, or one has no evidence: it has no noise, or is a selection for yes/no
        responses by sampling (``method="ep"`` has one).

    Examples
    --------
    >>> import statsmodels.api as sm
    >>> from pybayesridge import SpikeSlab, compare_evidence
    >>> longley = sm.datasets.longley.load_pandas().data
    >>> fits = {
    ...     name: SpikeSlab.from_formula(f"TOTEMP ~ GNP + {name}", longley).fit() for name in ("UNEMP", "YEAR")
    ... }
    >>> compare_evidence(fits)["probability"].round(1).to_dict()
    {'UNEMP': 0.6, 'YEAR': 0.4}
    """
    inner: dict[str, Any] = named_fits(fits)
    odd = [
        name
        for name, fit in inner.items()
        if not isinstance(fit, (BayesRidgeResults, BandRidgeResults, GeneralizedRidgeResults, SpikeSlabResults))
    ]
    if odd:
        raise ValueError(f"{listed(odd)} are not results of a SpikeSlab or a BayesRidge")
    selects = {isinstance(fit, SpikeSlabResults) for fit in inner.values()}
    if len(selects) > 1:
        raise ValueError(
            "the evidence of a SpikeSlab and that of a BayesRidge leave out different constants: compare fits of one "
            "kind, or use compare_loo()"
        )
    if selects == {True}:
        _comparable_selections(inner)
    else:
        _comparable_ridges(inner)
    _of_one_response(inner)
    return _table(inner, selects == {True})


def _comparable_selections(fits: Mapping[str, Any]) -> None:
    sampled = [name for name, fit in fits.items() if not fit.method_entry.gives_evidence]
    if sampled:
        raise ValueError(
            f"{listed(sampled)} have no evidence: the sampler for family='binomial' does not give it; use method='ep'"
        )
    _alike(
        "family or link",
        {name: (fit.model.distribution.kind_of_response, fit.model.distribution.link) for name, fit in fits.items()},
    )
    if len({fit.posterior.selection.integrated for fit in fits.values() if fit.learned}) > 1:
        raise ValueError(
            "evidence with the hyperparameters integrated out (method='exact', or method='ep' with hyper='average') "
            "cannot be compared with evidence at their estimates (hyper='maximize', 'damped', 'pcep'): fit all alike"
        )


def _comparable_ridges(fits: Mapping[str, Any]) -> None:
    many = [name for name, fit in fits.items() if not fit.model.one_target]
    if many:
        raise ValueError(f"{listed(many)} have several targets: fit each on its own to compare its evidence")

    settings = ("link", "flat_in")
    _alike(
        "family, link or flat_in",
        {
            name: (fit.model.distribution.kind_of_response, *(getattr(fit.model, each, None) for each in settings))
            for name, fit in fits.items()
        },
    )
    _alike(
        "whether the penalty is given (method='fixed') or integrated out",
        {name: fit.method_entry.given for name, fit in fits.items()},
    )
    _alike("dof", {name: getattr(fit, "dof", None) for name, fit in fits.items()})
    _alike(
        "whether the noise variance is known (sigma2)",
        {name: getattr(fit.model, "known_sigma2", None) is not None for name, fit in fits.items()},
    )


def _alike(what: str, values: Mapping[str, object]) -> None:
    """Refuse fits of which `what` differs."""
    first = next(iter(values))
    differing = [name for name, value in values.items() if value != values[first]]
    if differing:
        raise ValueError(
            f"{listed(differing)} and {first!r} differ in {what}, so that their evidence cannot be compared: "
            "fit all alike"
        )


def _of_one_response(fits: Mapping[str, Any]) -> None:
    """Refuse fits of different responses, rows or unpenalised columns, and fits without evidence."""
    selects = isinstance(next(iter(fits.values())), SpikeSlabResults)
    first = _response(next(iter(fits.values())))
    for name, fit in fits.items():
        names, numbers = _response(fit)
        same = names == first[0] and numbers.shape == first[1].shape
        if not same or not np.allclose(numbers, first[1], rtol=SAME_RESPONSE, atol=0):
            raise ValueError(f"the fit {name!r} is of another response, other rows or other unpenalised columns")
        if selects and fit.posterior.selection.noiseless:
            raise ValueError(
                f"the fit {name!r} has no evidence: the unpenalised columns fit the response exactly; give noise_var"
            )
        if not selects and fit.shown_fact("log_marginal") is None:
            raise ValueError(f"the fit {name!r} has no evidence: use method='exact'")
        if not selects and not np.isfinite(fit.log_marginal):
            raise ValueError(f"the fit {name!r} has no evidence: its log marginal likelihood is {fit.log_marginal}")


def _response(fit: Any) -> tuple[list[str], FloatArray]:
    """What fits of the same response, rows and unpenalised columns have in common: names and numbers."""
    model, design = fit.model, fit.posterior.design
    if not model.distribution.needs_rows:
        return model.data.targets, np.append(design.y_norm, design.nu)
    likelihood = model.likelihood()
    names = [*model.data.targets, *(model.exog_names[i] for i in model.positions(design)[0])]
    return names, np.concatenate([likelihood.observed, likelihood.size, likelihood.copies])


def _table(fits: Mapping[str, Any], selects: bool) -> pd.DataFrame:
    columns: dict[str, dict[str, Any]] = {
        "log_evidence": {name: fit.log_evidence if selects else float(fit.log_marginal) for name, fit in fits.items()}
    }
    size = "expected_size" if selects else "df_model"
    columns[size] = {name: float(getattr(fit, size)) for name, fit in fits.items()}
    columns["converged"] = {name: fit.converged for name, fit in fits.items()}
    if selects:
        columns["evidence_biased"] = {name: fit.evidence_biased for name, fit in fits.items()}
    out = pd.DataFrame(columns).sort_values("log_evidence", ascending=False)
    difference = out["log_evidence"] - out["log_evidence"].max()
    out.insert(1, "difference", difference)
    out.insert(2, "probability", np.exp(difference) / np.exp(difference).sum())
    errors = {name: fit.log_evidence_se for name, fit in fits.items() if selects and fit.exact_sets is not None}
    if errors:
        out["log_evidence_se"] = pd.Series(errors, dtype=np.float64).reindex(out.index)
    return out
