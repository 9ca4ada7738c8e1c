"""The report of a selection: which columns are in, and what that rests on."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from pybayesridge._types import FloatArray
from pybayesridge.exceptions import PrecisionWarning
from pybayesridge.plots.frame import MOST_NAMES, height_for, percent
from pybayesridge.plots.selection import rows_shown
from pybayesridge.report.coefficients import Listed, by_inclusion
from pybayesridge.report.figures import HEIGHT, Album
from pybayesridge.report.parts import EMBEDDED, Picture, Remark, Table, ends, rows_there, table_of
from pybayesridge.report.residuals import explained_words, residual_remarks, row_pictures
from pybayesridge.text import TOP, number

if TYPE_CHECKING:
    from pybayesridge.results.selection_estimates import SelectionEstimates

NAME = "Spike-and-slab regression"

EP = (
    "Hernández-Lobato, J. M., Hernández-Lobato, D. (2011). Convergent Expectation Propagation in Linear Models with "
    "Spike-and-slab Priors. arXiv:1112.2289."
)

SHOWN = 10
"""Names of a set that are written out."""

FDR = 0.1
"""Bayesian false discovery rate of the columns that the report selects."""

FEW_FALSE = 0.01
"""Smaller expected numbers of false columns are not written out."""

HYPERPARAMETERS = ("prior_inclusion", "slab_var", "noise_var")

DERIVED = {
    "prior_share": "share of {variance} that the hyperparameters expect the columns to explain",
    "size": "number of included columns",
    "groups_included": "number of included groups (each column outside them counted as one)",
}
"""Rows that follow from them, and from the sets of columns."""

ERRORS = {
    "inclusion_prob": "inclusion probabilities",
    "mean": "means of coefficients",
    "sd": "standard deviations of coefficients",
    "odds_ratio": "odds ratios",
    "size": "number of included columns",
    "groups_included": "number of included groups",
    "prior_share": "share of variance expected a priori",
    "log_evidence": "log evidence",
}
"""What has a Monte Carlo error."""

SPIKE = (
    "Each coefficient with a prior is either exactly zero (the spike) or drawn from a normal distribution (the "
    "slab); its inclusion probability is the posterior probability that it is not zero."
)


def formulas(res: SelectionEstimates) -> dict[str, object]:
    """Values on which the formulas of the model depend."""
    return {"by_column": np.ndim(res.arrays.prior_inclusion) == 1, "groups": bool(res.group_members())}


def citations(res: SelectionEstimates) -> list[str]:
    """The papers of the method: of the exact posterior, that of the variables that make the rows normal."""
    return [EP] if res.exact_sets is None else list(filter(None, [res.model.distribution.augmentation]))


def words(res: SelectionEstimates) -> list[str]:
    """The model and the method in plain language."""
    out = [f"{res.model.distribution.model_in_words} {SPIKE}"]
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


def _treatment(res: SelectionEstimates) -> str:
    """How the posterior was computed."""
    exact, treatment = res.exact_sets, str(res.method_entry.treatment)
    if exact is None:
        return treatment
    how = exact.computation.in_words.format(steps=f"{exact.n_iter:,}", error=number(exact.max_se, 2))
    return f"{treatment} {how}"


def coefficients(res: SelectionEstimates, i: int, alpha: float) -> Listed:
    """The coefficients."""
    return by_inclusion(res, alpha)


def tables(res: SelectionEstimates, i: int, alpha: float) -> list[Table]:
    """Groups, hyperparameters, credible sets and Monte Carlo errors, as far as there are any."""
    out = [_groups(res)] if res.group_members() else []
    out.append(_hyperparameters(res, alpha))
    out += _shape(res, alpha)
    if res.default_sets:
        out.append(_credible_sets(res))
    return out + _monte_carlo(res)


def _monte_carlo(res: SelectionEstimates) -> list[Table]:
    """Monte Carlo errors of a fit by sampling."""
    table, exact = res.monte_carlo_errors, res.exact_sets
    if table is None or exact is None or not exact.computation.sampled:
        return []
    groups = table.groupby("quantity", sort=False)
    found = groups.agg({"mcse": "max", "effective": "min", "agreement": "max"})
    return [
        table_of(
            "Monte Carlo standard errors. Of several numbers, such as coefficients, the largest error, the smallest "
            "effective number of independent draws and the worst agreement of the walkers, which started from "
            "different sets (potential scale reduction, 1 at best)",
            "",
            ["standard error", "effective draws", "agreement"],
            [ERRORS.get(str(name), str(name)) for name in found.index],
            found.to_numpy(dtype=np.float64),
            shares=(2,),
        )
    ]


def _groups(res: SelectionEstimates) -> Table:
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


def _credible_sets(res: SelectionEstimates) -> Table:
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


def _hyperparameters(res: SelectionEstimates, alpha: float) -> Table:
    """Values; where they are integrated out the posterior means and intervals."""
    prior, at = res.arrays.prior_inclusion, res.model.positions(res.posterior.design)[1]
    family = res.model.distribution
    of = HYPERPARAMETERS if family.has_noise else HYPERPARAMETERS[:2]
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
    derived = {name: text for name, text in DERIVED.items() if name in found.index}
    rows = found.loc[list(derived)].to_numpy()
    return table_of(
        f"Hyperparameters: posterior means and {percent(alpha)} intervals of those that were not given",
        "",
        ["mean", *ends(alpha)],
        [*names, *(text.format(variance=family.variance) for text in derived.values())],
        np.vstack([np.column_stack([table, intervals]), rows]),
        by_row=True,
    )


def _shape(res: SelectionEstimates, alpha: float) -> list[Table]:
    """The further parameter of the family where expectation propagation integrates it out."""
    if res.shape_grid is None:
        return []
    found = res.hyperparameters(alpha)
    heads = ["mean", *ends(alpha)]
    return [table_of("Dispersion: posterior mean and interval", "", heads, list(found.index), found.to_numpy())]


def _which_are_in(res: SelectionEstimates) -> list[str]:
    """How many columns are in, and which."""
    chosen = res.median_model()
    p = res.posterior.design.p
    if chosen:
        which = _some(chosen)
        out = [f"{len(chosen):,} of {p:,} columns have an inclusion probability above one half: {which}."]
    else:
        out = [f"None of {p:,} columns has an inclusion probability above one half."]
    size = f"The expected number of included columns is {res.expected_size:.2f}"
    if not res.units.single:
        groups = float(res.group_inclusion_prob.sum())
        size += f", and that of included groups {groups:.2f}, each column outside them counted as one"
    return [*out, _selected(res), f"{size}."]


def findings(res: Any, i: int, shown: Listed, alpha: float) -> list[str]:
    """Which columns are in; with normal noise also what they explain."""
    out = _which_are_in(res)
    if not res.model.distribution.is_linear:
        return out
    if res.exact_posterior is not None:
        explained = res.explained_variance(alpha).to_numpy()
        out.append(explained_words("columns subject to selection explain", explained, alpha))
    if np.isfinite(res.arrays.rsquared):
        out.append(f"In-sample R-squared is {res.arrays.rsquared:.3f}.")
    if np.isfinite(res.log_evidence):
        out.append(
            f"The log evidence is {res.log_evidence:.2f}; it can be compared with that of other fits of the same "
            "response."
        )
    return out


def _selected(res: SelectionEstimates) -> str:
    """The columns selected by false discovery rate, and how many false ones are expected among them."""
    chosen = res.select(FDR)
    if chosen.empty:
        return f"No column can be selected with an expected false discovery rate of at most {100 * FDR:g} %."
    false = float((1.0 - chosen["inclusion_prob"]).sum())
    expected = number(false, 2) if false >= FEW_FALSE else f"fewer than {FEW_FALSE:g}"
    several = len(chosen) > 1
    return (
        f"With an expected false discovery rate of at most {100 * FDR:g} %, {len(chosen):,} "
        f"{'columns are' if several else 'column is'} selected, of which {expected} "
        f"{'are' if several else 'is'} expected to be false: {_some(chosen.index.tolist())}."
    )


def check(res: SelectionEstimates, i: int) -> list[str]:
    """How far rows with normal noise are from their predictions."""
    if not rows_there(res):
        return []
    noise = f"the {'estimated' if 'noise_var' in res.learned else 'given'} noise SD is {number(_noise_sd(res))}."
    error = _left_out_error(res)
    if error is None:
        return [
            "Fitted values are compared with the rows used for the fit, which is optimistic; to assess prediction, "
            f"use rows that were held out. The residual SD is {number(float(np.std(res.arrays.resid)))}; {noise}"
        ]
    root = float(np.sqrt(np.average(error**2, weights=res.model.weights)))
    return [
        "Each row was predicted from all other rows, with the same scaling of the columns. The root mean squared "
        f"error is {number(root)}; {noise}"
    ]


def _noise_sd(res: Any) -> float:
    return float(np.sqrt(res.noise_var))


def remarks(res: SelectionEstimates, i: int) -> list[Remark]:
    """That the fit converged, how many columns are undecided, and rows that stand out."""
    out = []
    if res.converged and not res.posterior.selection.noiseless:
        entry, size = res.method_entry, number(res.residual, 2)
        out.append(Remark("good", f"{entry.approximation} converged ({entry.measure.lower()} {size})."))
    open_ = int(((res.arrays.inclusion_prob > 0.1) & (res.arrays.inclusion_prob < 0.9)).sum())
    if open_:
        which = "1 column is" if open_ == 1 else f"{open_:,} columns are"
        out.append(Remark("note", f"{which} undecided (inclusion probability 0.1 to 0.9)."))
    if rows_there(res) and res.model.distribution.is_linear and not res.posterior.selection.noiseless:
        weights = res.model.weights
        sigma = _noise_sd(res)
        residual = res.arrays.resid * (1.0 if weights is None else np.sqrt(weights))
        out += residual_remarks(residual / sigma, res.model.data.row_labels, sigma)
    return out


def pictures(res: Any, i: int, album: Album, alpha: float) -> list[Picture]:
    """Inclusion probabilities, coefficients, the number of columns in, and the iterations."""
    out = []
    p = res.posterior.design.p
    shown = len(res.model.exog_names) - res.model.k_constant
    if p:
        rows = rows_shown(res.arrays.inclusion_prob[res.model.positions(res.posterior.design)[1]])
        height = height_for(rows) if p <= MOST_NAMES else HEIGHT
        text = "Inclusion probabilities; the dashed line is one half."
        out.append(album.picture(lambda ax: res.plot_inclusion(ax=ax), text, height))
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
                "Posterior probabilities of the number of included columns."
                if res.exact_sets is not None
                else "Number of included columns, if columns (or groups) are included independently of each other, "
                "as the approximation assumes.",
            )
        )
    if res.model.distribution.is_linear and res.energy_trace.size > 1:
        out.append(album.picture(lambda ax: res.plot_trace(ax=ax), "Energy by iteration; it should level off."))
    return out


def row_by_row(res: Any, i: int, album: Album) -> list[Picture]:
    """Predictions and residuals, of rows with normal noise."""
    return [_observed_and_predicted(res, album), *row_pictures(res, 0, album)]


def _observed_and_predicted(res: Any, album: Album) -> Picture:
    """Observed against left-out predictions, or against fitted values if there are none."""
    if _left_out_error(res) is None:
        return album.picture(lambda ax: res.plot_fit(ax=ax), "The closer to the line, the closer the fit.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrecisionWarning)
        return album.picture(
            lambda ax: res.plot_fit(left_out=True, ax=ax),
            "Leave-one-out predictions: the closer to the line, the better.",
        )


def _left_out_error(res: Any) -> FloatArray | None:
    """Observed minus predicted values of rows left out, (n,); None where a row cannot be predicted."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrecisionWarning)
        try:
            predicted = res.loo().predicted
        except ValueError:
            return None
    assert predicted is not None
    out: FloatArray = res.model.endog - predicted.to_numpy()
    return out
