"""The report of a spike-and-slab regression."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from pybayesridge._types import IntArray
from pybayesridge.exceptions import PrecisionWarning
from pybayesridge.plots.frame import MOST_NAMES, percent
from pybayesridge.report.parts import EMBEDDED, Picture, Remark, Table, Target, table_of
from pybayesridge.report.shared import (
    Album,
    ends,
    left_out_error,
    order_by,
    residual_remarks,
    row_pictures,
    rows_there,
)
from pybayesridge.text import TOP, number

if TYPE_CHECKING:
    from pybayesridge.results.spike_slab import SpikeSlabResults

NAME = "Spike-and-slab regression"

EP = (
    "Hernández-Lobato, J. M., Hernández-Lobato, D. (2011). Convergent Expectation Propagation in Linear Models with "
    "Spike-and-slab Priors. arXiv:1112.2289."
)

TEMPERED_GIBBS = (
    "Zanella, G., Roberts, G. (2019). Scalable Importance Tempering and Bayesian Variable Selection. Journal of the "
    "Royal Statistical Society: Series B, 81(3), 489–517."
)

SHOWN = 10
"""Names of a set that are written out."""

FDR = 0.1
"""Bayesian false discovery rate of the columns that the report selects."""

HYPERPARAMETERS = ("prior_inclusion", "slab_var", "noise_var")

DERIVED = {
    "prior_share": "share of {variance} that the hyperparameters expect the columns to explain",
    "size": "number of columns (or groups) included",
}
"""Rows that follow from them, and from the sets of columns."""

SPIKE = (
    "Each coefficient with a prior is either exactly zero (the spike) or drawn from a normal distribution (the "
    "slab); its inclusion probability is the posterior probability that it is not zero."
)


def model(res: SpikeSlabResults) -> dict[str, object]:
    """Values on which the formulas of the model depend."""
    return {
        "weights": res.model.weighted,
        "by_column": np.ndim(res.prior_inclusion) == 1,
        "groups": bool(res.group_members()),
    }


def citations(res: SpikeSlabResults) -> list[str]:
    """The papers of the method; enumeration needs none."""
    if res.exact_sets is None:
        return [EP]
    return [TEMPERED_GIBBS] if res.exact_sets.method == "sampler" else []


def words(res: SpikeSlabResults) -> list[str]:
    """The model and the method in plain language."""
    return [
        f"The response is modelled as a linear function of the columns plus normal noise. {SPIKE}",
        *words_on_selection(res),
    ]


def words_on_selection(res: SpikeSlabResults) -> list[str]:
    """The hyperparameters, the groups and the method."""
    out = []
    if res.learned:
        entry, integrated = res.method_entry, res.posterior.selection.integrated
        sentence = entry.learning_integrated if integrated else entry.learning
        out.append(sentence.format(names=", ".join(res.learned)))
    of = "single columns"
    if res.group_members():
        out.append(
            "The columns of a group (a term of the formula, or a group defined in the call) are included or excluded "
            "together and have one inclusion probability."
        )
        of = "single columns or groups"
    out.append(
        f"{_treatment(res)} Inclusion probabilities refer to {of}: if "
        "several are correlated and one of them is needed, each may still have a small probability."
    )
    return out


def _treatment(res: SpikeSlabResults) -> str:
    """How the posterior was computed."""
    exact, treatment = res.exact_sets, str(res.method_entry.treatment)
    if exact is None:
        return treatment
    if exact.method == "enumeration":
        return f"{treatment} It is a sum over all sets, without Monte Carlo error."
    return (
        f"{treatment} Sets were sampled from it by tempered Gibbs sampling (Zanella and Roberts, "
        f"2019) in {exact.n_iter:,} steps. The largest Monte Carlo standard error of an inclusion probability is "
        f"{number(exact.max_se, 2)}."
    )


def target(res: SpikeSlabResults, i: int, album: Album | None, alpha: float) -> Target:
    """Everything about the response."""
    out = Target(res.model.data.targets[i])
    out.tables = tables_on_selection(res, alpha)
    out.findings = _findings(res)
    out.check = _check(res)
    out.remarks = _remarks(res)
    if album is not None:
        _draw(res, album, alpha, out)
    return out


def tables_on_selection(res: SpikeSlabResults, alpha: float) -> list[Table]:
    """Coefficients, groups, hyperparameters and credible sets, as far as there are any."""
    out = [_coefficients(res, alpha)]
    if res.group_members():
        out.append(_groups(res))
    out.append(_hyperparameters(res, alpha))
    if res.default_sets:
        out.append(_credible_sets(res))
    return out


def by_inclusion(res: SpikeSlabResults) -> IntArray:
    """Positions of the coefficients that are in the file: unpenalised ones, then the most probable ones."""
    return order_by(res.inclusion_prob, res.model.positions(res.posterior.design)[0])[:EMBEDDED]


def _coefficients(res: SpikeSlabResults, alpha: float) -> Table:
    names, at = res.model.exog_names, by_inclusion(res)
    scale = "data" if res.model.family == "gaussian" else "link"
    values = np.column_stack(
        [res.inclusion_prob, res.params, res.bse, res.cond_mean, np.sqrt(res.cond_var), res.conf_int(alpha)]
    )[at]
    return table_of(
        f"Coefficients, on the scale of the {scale}, with {percent(alpha)} intervals (marginal over inclusion)",
        "coefficient",
        ["inclusion probability", "mean", "sd", "mean given inclusion", "sd given inclusion", *ends(alpha)],
        [names[j] for j in at],
        values,
        shares=(0,),
        interval=True,
        left_out=len(names) - at.size,
        file="coefficients.csv",
    )


def _groups(res: SpikeSlabResults) -> Table:
    prob, members = res.group_inclusion_prob, res.group_members()
    at = np.argsort(-prob.to_numpy(), kind="stable")[:EMBEDDED]
    sizes = [len(members.get(prob.index[i], [""])) for i in at]
    return table_of(
        "Terms or groups",
        "group",
        ["inclusion probability", "columns"],
        [str(prob.index[i]) for i in at],
        np.column_stack([prob.to_numpy()[at], sizes]),
        shares=(0,),
        left_out=prob.size - at.size,
        file="groups.csv",
    )


def _credible_sets(res: SpikeSlabResults) -> Table:
    names = res.unit_names
    return table_of(
        "Credible sets: at least one column of each has a coefficient that is not zero, with the stated probability. "
        "The columns of a set can replace each other; purity is the least absolute correlation of two of them.",
        "columns",
        ["number", "probability", "purity"],
        [_some([names[j] for j in one.units]) for one in res.default_sets],
        np.array([(one.units.size, one.probability, one.purity) for one in res.default_sets]),
        shares=(1, 2),
        file="credible_sets.csv",
    )


def _some(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else "")


def _hyperparameters(res: SpikeSlabResults, alpha: float) -> Table:
    """Values; where they are integrated out the posterior means and intervals."""
    prior, at = res.prior_inclusion, res.model.positions(res.posterior.design)[1]
    binary = res.model.family == "binomial"
    of = HYPERPARAMETERS[:2] if binary else HYPERPARAMETERS
    values = [float(np.mean(prior[at])) if isinstance(prior, np.ndarray) else prior]
    values += [float(getattr(res, name)) for name in of[1:]]
    how = "learned" if res.exact_sets is None else "integrated out"
    names = [f"{name} ({how if name in res.learned else 'given'})" for name in of]
    if np.ndim(prior):
        names[0] = "prior_inclusion (by column; mean)"
    table = np.array(values, dtype=np.float64)[:, None]
    if res.exact_sets is None:
        return table_of("Hyperparameters", "", ["value"], names, table)
    found = res.hyperparameters(alpha)
    learned = [name in res.learned for name in of]
    intervals = np.where(np.array(learned)[:, None], found.loc[list(of), ["lower", "upper"]], np.nan)
    rows = found.loc[list(DERIVED)].to_numpy()
    variance = "the latent variance" if binary else "variance"
    return table_of(
        f"Hyperparameters: posterior means and {percent(alpha)} intervals of those that were not given",
        "",
        ["mean", *ends(alpha)],
        [*names, *(text.format(variance=variance) for text in DERIVED.values())],
        np.vstack([np.column_stack([table, intervals]), rows]),
        interval=True,
    )


def findings_on_selection(res: SpikeSlabResults) -> list[str]:
    """How many columns are in, and which."""
    chosen = res.median_model()
    p = res.posterior.design.p
    if chosen:
        which = _some(chosen)
        out = [f"{len(chosen):,} of {p:,} columns have an inclusion probability above one half: {which}."]
    else:
        out = [f"None of {p:,} columns has an inclusion probability above one half."]
    return [*out, _selected(res), f"The expected number of included columns is {res.expected_size:.2f}."]


def _findings(res: SpikeSlabResults) -> list[str]:
    out = findings_on_selection(res)
    if np.isfinite(res.rsquared):
        out.append(f"In-sample R-squared is {res.rsquared:.3f}.")
    if np.isfinite(res.log_evidence):
        out.append(
            f"The log evidence is {res.log_evidence:.2f}; it can be compared with that of other fits of the same "
            "response."
        )
    return out


def _selected(res: SpikeSlabResults) -> str:
    """The columns selected by false discovery rate, and how many false ones are expected among them."""
    chosen = res.select(FDR)
    if chosen.empty:
        return f"No column can be selected with an expected false discovery rate of at most {100 * FDR:g} %."
    false = float((1.0 - chosen["inclusion_prob"]).sum())
    several = len(chosen) > 1
    return (
        f"With an expected false discovery rate of at most {100 * FDR:g} %, {len(chosen):,} "
        f"{'columns are' if several else 'column is'} selected, of which {number(false, 2)} "
        f"{'are' if several else 'is'} expected to be false: {_some(chosen.index.tolist())}."
    )


def _check(res: SpikeSlabResults) -> list[str]:
    if not rows_there(res):
        return []
    noise = f"the {'estimated' if 'noise_var' in res.learned else 'given'} noise SD is {number(_noise_sd(res))}."
    error = left_out_error(res)
    if error is None:
        return [
            "Fitted values are compared with the rows used for the fit, which is optimistic; to assess prediction, "
            f"use rows that were held out. The residual SD is {number(float(np.std(res.resid)))}; {noise}"
        ]
    root = float(np.sqrt(np.average(error**2, weights=res.model.weights)))
    return [
        "Each row was predicted from all other rows, with the same scaling of the columns. The root mean squared "
        f"error is {number(root)}; {noise}"
    ]


def _noise_sd(res: SpikeSlabResults) -> float:
    return float(np.sqrt(res.noise_var))


def remarks_on_selection(res: SpikeSlabResults) -> list[Remark]:
    """That the fit converged, and how many columns are undecided."""
    out = []
    if res.converged and not res.posterior.selection.noiseless:
        entry, size = res.method_entry, number(res.residual, 2)
        out.append(Remark("good", f"{entry.approximation} converged ({entry.measure.lower()} {size})."))
    open_ = int(((res.inclusion_prob > 0.1) & (res.inclusion_prob < 0.9)).sum())
    if open_:
        which = "1 column is" if open_ == 1 else f"{open_:,} columns are"
        out.append(Remark("note", f"{which} undecided (inclusion probability 0.1 to 0.9)."))
    return out


def _remarks(res: SpikeSlabResults) -> list[Remark]:
    out = remarks_on_selection(res)
    if rows_there(res) and not res.posterior.selection.noiseless:
        weights = res.model.weights
        sigma = float(np.sqrt(res.noise_var))
        residual = res.resid * (1.0 if weights is None else np.sqrt(weights))
        out += residual_remarks(residual / sigma, res.model.data.row_labels, sigma)
    return out


def pictures_of_selection(res: SpikeSlabResults, album: Album, alpha: float) -> list[Picture]:
    """Inclusion probabilities, coefficients and the number of columns in."""
    out = []
    p = res.posterior.design.p
    shown = len(res.model.exog_names) - res.model.k_constant
    if p:
        draw = album.rows if p <= MOST_NAMES else album.picture
        size: dict[str, int] = {"count": p} if p <= MOST_NAMES else {}
        out.append(
            draw(
                lambda ax: res.plot_inclusion(ax=ax), "Inclusion probabilities; the dashed line is one half.", **size
            )
        )
    if shown:
        out.append(
            album.rows(
                lambda ax: res.plot_coefficients(alpha, ax=ax),
                f"Posterior means and {percent(alpha)} intervals given inclusion, per standard deviation of the "
                "column. Darker and larger marks have a higher inclusion probability.",
                min(shown, TOP),
            )
        )
    if p:
        out.append(
            album.picture(
                lambda ax: res.plot_n_included(ax=ax),
                "Posterior probabilities of the number of included columns or groups."
                if res.exact_sets is not None
                else "Number of included columns, if columns (or groups) are included independently of each other, "
                "as the approximation assumes.",
            )
        )
    return out


def _draw(res: SpikeSlabResults, album: Album, alpha: float, out: Target) -> None:
    out.pictures = pictures_of_selection(res, album, alpha)
    if res.energy_trace.size > 1:
        out.pictures.append(
            album.picture(lambda ax: res.plot_trace(ax=ax), "Energy by iteration; it should level off.")
        )
    if rows_there(res):
        out.checks.append(_observed_and_predicted(res, album))
        out.checks += row_pictures(res, 0, album)


def _observed_and_predicted(res: SpikeSlabResults, album: Album) -> Picture:
    """Observed against left-out predictions, or against fitted values if there are none."""
    if left_out_error(res) is None:
        return album.picture(lambda ax: res.plot_fit(ax=ax), "The closer to the line, the closer the fit.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrecisionWarning)
        return album.picture(
            lambda ax: res.plot_fit(left_out=True, ax=ax),
            "Leave-one-out predictions: the closer to the line, the better.",
        )
