"""Comparison of spike-and-slab fits by their evidence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pybayesridge.text import listed

if TYPE_CHECKING:
    from pybayesridge.results.labelled import SpikeSlabResultsWrapper
from pybayesridge.results.spike_slab import SpikeSlabResults


def compare_evidence(fits: Mapping[str, SpikeSlabResults | SpikeSlabResultsWrapper]) -> pd.DataFrame:
    """Compare fits of the same response by their evidence.

    Parameters
    ----------
    fits : dict of str to SpikeSlab results
        Of the same response, rows, weights and unpenalised columns.

    Returns
    -------
    DataFrame
        A row for each fit, the highest evidence first: ``log_evidence``, ``difference`` to the highest,
        ``probability`` (the fits being equally probable before), ``expected_size``, ``converged``,
        ``evidence_biased``; of exact fits also ``log_evidence_se``, the Monte Carlo standard error.

    Raises
    ------
    ValueError
        If the fits are not of the same response, or one has no evidence: it has no noise, or yes/no responses.

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
    if not fits:
        raise ValueError("there are no fits to compare")
    inner: dict[str, Any] = {name: getattr(fit, "unlabelled", fit) for name, fit in fits.items()}
    odd = [name for name, fit in inner.items() if not isinstance(fit, SpikeSlabResults)]
    if odd:
        raise ValueError(f"{listed(odd)} are not results of a SpikeSlab")
    binary = [name for name, fit in inner.items() if fit.model.family == "binomial"]
    if binary:
        raise ValueError(f"{listed(binary)} have no evidence: the sampler for family='binomial' does not give it")
    if len({fit.posterior.selection.integrated for fit in inner.values() if fit.learned}) > 1:
        raise ValueError(
            "evidence with the hyperparameters integrated out (method='exact', or method='ep' with hyper='average') "
            "cannot be compared with evidence at their estimates (hyper='maximize', 'damped', 'pcep'): fit all alike"
        )
    first = next(iter(inner.values()))
    for name, fit in inner.items():
        mine, other = fit.posterior.design, first.posterior.design
        same = mine.nu == other.nu and np.allclose(mine.y_norm, other.y_norm, rtol=1e-10, atol=0)
        if not same or fit.model.data.ynames != first.model.data.ynames:
            raise ValueError(f"the fit {name!r} is of another response, other rows or other unpenalised columns")
        if fit.posterior.selection.noiseless:
            raise ValueError(
                f"the fit {name!r} has no evidence: the unpenalised columns fit the response exactly; give noise_var"
            )
    table_ = pd.DataFrame(
        {
            "log_evidence": {name: fit.log_evidence for name, fit in inner.items()},
            "expected_size": {name: fit.expected_size for name, fit in inner.items()},
            "converged": {name: fit.converged for name, fit in inner.items()},
            "evidence_biased": {name: fit.evidence_biased for name, fit in inner.items()},
        }
    ).sort_values("log_evidence", ascending=False)
    difference = table_["log_evidence"] - table_["log_evidence"].max()
    table_.insert(1, "difference", difference)
    table_.insert(2, "probability", np.exp(difference) / np.exp(difference).sum())
    errors = {name: fit.log_evidence_se for name, fit in inner.items() if fit.exact_sets is not None}
    if errors:
        table_["log_evidence_se"] = pd.Series(errors, dtype=np.float64).reindex(table_.index)
    return table_
