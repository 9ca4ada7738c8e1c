"""The report of a ridge with bands: their variances, and how well it predicts rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pybayesridge.plots.frame import percent
from pybayesridge.report import penalty
from pybayesridge.report.coefficients import Listed, by_size, clear_of_zero
from pybayesridge.report.figures import Album
from pybayesridge.report.parts import Picture, Remark, Table, ends, of_targets, rows_there, table_of
from pybayesridge.report.residuals import explained_words, residual_remarks, row_pictures
from pybayesridge.text import NO_VARIANCE, TOP, in_words, listed, number

if TYPE_CHECKING:
    from pybayesridge.results.band_estimates import BandEstimates

NAME = penalty.NAME

GELMAN = "Gelman, A., Hill, J. (2006). Data Analysis Using Regression and Multilevel/Hierarchical Models. Cambridge."


def citations(res: BandEstimates) -> list[str]:
    """Sources of the model."""
    return [GELMAN] if res.model.distribution.is_linear else [GELMAN, penalty.SITES]


def formulas(res: BandEstimates) -> dict[str, object]:
    """Values on which the formulas of the model depend."""
    sigma2 = res.model.known_sigma2
    return {
        "bands": len(res.bands.names),
        "prior_of_lambda": res.method_entry.uses_prior,
        "prior": None,
        "sigma_known": sigma2 is not None,
        "sigma2": "" if sigma2 is None else number(sigma2),
    }


def words(res: BandEstimates) -> list[str]:
    """The model and the method in plain language."""
    family, entry, names = res.model.distribution, res.method_entry, res.bands.names
    sizes = [(name, res.bands.members(k).size) for k, name in enumerate(res.bands.names)]
    written = ", ".join(f"{name} ({size:,})" for name, size in sizes)
    text = (
        f"{family.model_in_words} The penalised coefficients are in {len(sizes)} band(s), each with a variance of "
        f"its own (number of columns in brackets): {written}. The smaller the variance, "
        "the more they are shrunk towards zero. Unpenalised coefficients are not shrunk."
    )
    if family.has_noise:
        text += f" The noise variance is {'estimated' if res.model.known_sigma2 is None else 'known'}."
    prior = []
    if entry.uses_prior:
        prior = [
            "The total of the bands has the prior of a ridge with one penalty, and their shares of it are "
            "Dirichlet(1/2, ..., 1/2)."
        ]
    together = [
        f"The effects of a level in the bands {listed([names[k] for k in each])} are correlated."
        for each in res.bands.sets
    ]
    if together and prior:
        together.append("Correlations have the LKJ prior with eta = 1.")
    return [text, *together, entry.treatment, *prior]


def overview(res: BandEstimates, wanted: list[int]) -> Table:
    """A row for each target."""
    own = res.arrays
    columns = {"sigma": res.noise_sd, "effective df": own.df_model, "R-squared": own.rsquared}
    return of_targets(res, wanted, columns)


def coefficients(res: BandEstimates, i: int, alpha: float) -> Listed:
    """The coefficients of a target."""
    return by_size(res, i, alpha)


def tables(res: BandEstimates, i: int, alpha: float) -> list[Table]:
    """The bands of a target: standard deviations and shares."""
    values, names = res.components_of(i, alpha), list(res.bands.names)
    heads = ["mean", "sd", *ends(alpha)]
    of_sd = table_of(
        "Standard deviation of the coefficients of each band, on the scale of the prior",
        "band",
        heads,
        names,
        values[:, :4],
        by_row=True,
        note=NO_VARIANCE if np.isinf(values[:, 1]).any() else "",
    )
    shares = ["mean", *ends(alpha), "P(below 1 %)"]
    of_share = table_of(f"Share of {_variance(res)}", "band", shares, names, values[:, 4:], shares=(0, 1, 2, 3))
    out = [of_sd, of_share]
    if res.correlation_names:
        found = res.correlations_of(i, alpha)
        out.append(table_of("Correlations of effects", "bands", heads, res.correlation_names, found, by_row=True))
    return out


def _variance(res: BandEstimates) -> str:
    family = res.model.distribution
    return "the variance of the response" if family.is_linear else family.variance


def findings(res: BandEstimates, i: int, shown: Listed, alpha: float) -> list[str]:
    """What the bands explain, the coefficients, and how well the model predicts."""
    out = []
    linear = res.model.distribution.is_linear
    if linear and rows_there(res):
        share = float(np.atleast_1d(res.arrays.loo_rsquared)[i])
        if np.isfinite(share):
            out.append(f"Leave-one-out R-squared is {share:.3f}.")
    explained = res.explained_variance_of(i, alpha) if linear else np.array([np.nan])
    if np.isfinite(explained).all():
        out.append(explained_words("penalised columns explain", explained, alpha))
    for name, row in zip(res.bands.names, res.components_of(i, alpha), strict=True):
        share, low, high, below = row[4:]
        out.append(
            f"The band {name} has a share of {100 * share:.0f} % of {_variance(res)} "
            f"({percent(alpha)} interval {100 * low:.1f} % to {100 * high:.1f} %); the probability that it is below "
            f"1 % is {below:.2f}."
        )
    return [*out, *clear_of_zero(res, shown, alpha)]


def check(res: BandEstimates, i: int) -> list[str]:
    """How far rows are from their predictions from the others."""
    if not rows_there(res):
        return []
    root, share = (float(np.atleast_1d(value)[i]) for value in (np.sqrt(res.arrays.loo_mse), res.arrays.loo_rsquared))
    noise = "estimated" if res.model.known_sigma2 is None else "known"
    out = [
        f"Each row was predicted from all other rows. The root mean squared error is {in_words(root)}; the {noise} "
        f"noise SD is {in_words(res.noise_sd[i])}."
    ]
    if np.isfinite(share):
        verdict = "better than" if share > 0 else "no better than"
        than = "the mean of the other rows" if res.model.k_constant else "zero"
        out.append(f"Leave-one-out R-squared is {share:.3f}: the model predicts {verdict} {than}.")
    return out


def remarks(res: BandEstimates, i: int) -> list[Remark]:
    """How the computation went, and rows that stand out."""
    out = [Remark("good", "The algorithm converged.")] if res.converged_by_target[i] else []
    if res.method_entry.integrates:
        error = float(np.atleast_1d(res.arrays.quadrature_error)[i])
        kind = "good" if res.converged_by_target[i] else "note"
        out.append(Remark(kind, f"The estimated error of the integration over the bands is {number(error, 1)}."))
    if not (rows_there(res) and res.model.distribution.is_linear):
        return out
    sigma, weights = float(res.noise_sd[i]), res.model.weights
    residual = np.reshape(res.arrays.resid, (int(res.nobs), -1))[:, i] * (
        1.0 if weights is None else np.sqrt(weights)
    )
    return out + residual_remarks(residual / sigma, res.model.data.row_labels, sigma)


def pictures(res: Any, i: int, album: Album, alpha: float) -> list[Picture]:
    """Shares of the bands, and coefficients."""
    out = [
        album.rows(
            lambda ax: res.plot_variance_components(alpha, target=i, ax=ax),
            f"Share of each band in {_variance(res)}: posterior means and {percent(alpha)} intervals.",
            len(res.bands.names),
        )
    ]
    shown = len(res.model.exog_names) - res.model.k_constant
    text = (
        f"Posterior {res.center}s and {percent(alpha)} intervals, per standard deviation of the column. Intervals "
        "that cross the dashed line include zero."
    )
    out.append(album.rows(lambda ax: res.plot_coefficients(alpha, target=i, ax=ax), text, min(shown, TOP)))
    return out


def row_by_row(res: Any, i: int, album: Album) -> list[Picture]:
    """Left-out predictions and residuals."""
    left_out = album.picture(
        lambda ax: res.plot_fit(target=i, left_out=True, ax=ax),
        "Leave-one-out predictions: the closer to the line, the better.",
    )
    return [left_out, *row_pictures(res, i, album)]
