"""The values of an export: names, shapes and meanings, and a check of an export."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from pybayesridge.families.registry import FAMILIES
from pybayesridge.results.facts import FACTS

VERSION = 3
"""Raised whenever a name, a shape or a meaning changes."""


@dataclass(frozen=True, slots=True)
class Field:
    """One value of an export.

    Attributes
    ----------
    form : str
        "text", "texts", "flag", "number", or the dimensions of an array: k coefficients, n rows, q targets,
        p penalised columns that vary, u unpenalised columns, r singular values, K nodes; v columns in kept sets; d,
        e, g, h, L and c are counts of their own; M nodes over the shares of b bands.
    meaning : str
    families : str
        Which fits have it: bayes_ridge, those with several bands (bands; with nodes over shares, or correlated),
        those of other responses (sites, counts, continuous and ordered; with one_penalty or latent_bands),
        spike_slab, or of the latter those by expectation propagation (ep) or by sets of columns (sets); of other
        responses likewise (latent_ep, latent_sets).
    optional : bool
        Whether a fit may lack it, as one without its data lacks what has n rows.
    """

    form: str
    meaning: str
    families: str = "bayes_ridge bands sites counts continuous ordered spike_slab latent_sets latent_ep"
    optional: bool = False


_of_ridge = partial(Field, families="bayes_ridge")
_of_both = partial(Field, families="bayes_ridge one_penalty")
_of_normal_ridges = partial(Field, families="bayes_ridge bands")
_of_ridges = partial(Field, families="bayes_ridge bands sites counts continuous ordered")
_of_bands = partial(Field, families="bands latent_bands")
_of_shares = partial(Field, families="shares")
_of_covariances = partial(Field, families="correlated latent_bands")
_of_one_penalty = partial(Field, families="one_penalty")
_of_sites = partial(Field, families="sites counts continuous ordered")
_of_yes_no = partial(Field, families="sites yes_no_selection")
_of_yes_no_ridges = partial(Field, families="sites")
_of_counts = partial(Field, families="counts")
_of_overdispersed = partial(Field, families="overdispersed")
_of_shape = partial(Field, families="overdispersed continuous", optional=True)
_of_continuous = partial(Field, families="continuous")
_of_events = partial(Field, families="sites counts latent_sets latent_ep")
_of_generalized = partial(Field, families="sites counts continuous ordered latent_sets latent_ep")
_of_ordered = partial(Field, families="ordered")
_of_selection = partial(Field, families="spike_slab latent_sets latent_ep")
_of_gaussian_selection = partial(Field, families="spike_slab")
_with_evidence = partial(Field, families="spike_slab latent_ep")
_of_ep = partial(Field, families="ep latent_ep")
_of_latent_ep = partial(Field, families="latent_ep")
_of_sets = partial(Field, families="sets latent_sets")
_of_gaussian_sets = partial(Field, families="sets")
_of_latent_sets = partial(Field, families="latent_sets")

FIELDS = {
    **{f"facts.{fact.r}": Field("q", fact.meaning, optional=True) for fact in FACTS if fact.r},
    "version": Field("number", "of the export"),
    "family": Field("text", "bayes_ridge or spike_slab, with _bands for several penalties or the responses' family"),
    "names": Field("texts", "of the coefficients, in their order"),
    "targets": Field("texts", "names of the responses"),
    "intercept_added": Field("flag", "whether the first coefficient is that of an intercept that was added"),
    "constant": Field("flag", "whether a constant is in the span of the unpenalised columns"),
    "method": Field("text", "of the fit"),
    "params": Field("k q", "posterior means"),
    "bse": Field("k q", "posterior standard deviations", optional=True),
    "fittedvalues": Field("n q", "means of linear predictors or probabilities; medians of counts", optional=True),
    "resid": Field("n q", "the response less these", optional=True),
    "rsquared": Field("q", "share of the variation explained; not of ordered categories", optional=True),
    "nobs": Field("number", "rows"),
    "df_model": Field("q", "effective degrees of freedom, less one for a constant"),
    "df_resid": Field("q", "rows less effective degrees of freedom"),
    "converged": Field("flag", "whether every iteration met its stopping rule"),
    "n_iter": Field("number", "iterations"),
    "standardize": Field("flag", "whether the prior is on the scale of the columns' standard deviations"),
    "weight_mean": Field("number", "mean of the weights"),
    "findings.code": Field("texts", "the kind of each finding"),
    "findings.severity": Field("texts", "note or warning"),
    "findings.text": Field("texts", "its sentence"),
    "dof": _of_normal_ridges("text", "nu or paper"),
    "parameterization": _of_ridges("text", "tau2 or tau"),
    "lambda_": _of_both("q", "the penalty"),
    "tau2": _of_both("q", "prior variance of standardised coefficients, in units of the noise variance"),
    "sigma2": _of_normal_ridges("q", "noise variance"),
    "log_marginal": _of_ridges("q", "log marginal likelihood", optional=True),
    "n_modes": _of_ridge("q", "interior modes of the posterior of tau2"),
    "solver": _of_ridges("text", "route of the rotation; of yes/no responses the approximation, ep or laplace"),
    "loo_mse": _of_ridge("q", "leave-one-out mean squared error", optional=True),
    "grid": _of_both("L q", "penalties that were tried (one column where targets share them)", optional=True),
    "grid_scores": _of_both("L q", "their cross-validation scores", optional=True),
    "quadrature_error": _of_ridges("q", "of methods that integrate the penalty out", optional=True),
    "hyper_means": _of_ridge("4 q", "posterior means of lambda, tau2, sigma2 and the effective degrees of freedom"),
    "bands": _of_bands("texts", "names of the bands, each with a penalty of its own"),
    "components.quantity": _of_bands("texts", "sd or share of a band, correlation, sigma2: each row of what follows"),
    "components.band": _of_bands("texts", "the band, or the name of the correlation; empty for sigma2"),
    "components.mean": _of_bands("c q", "posterior means"),
    "components.sd": _of_bands("c q", "posterior standard deviations of the sd of bands and correlations; else NaN"),
    "components.little": _of_bands("c q", "probabilities that shares are below 1 %; NaN for others"),
    "components.points": _of_bands("d", "points of their laws: logs of variances, logits of shares, artanh"),
    "components.scores": _of_bands("d", "normal quantiles of the probabilities up to these"),
    "components.sizes": _of_bands("c q", "number of points of each, target by target; 1 for what is fixed"),
    "link": _of_generalized("text", "logit or probit; log of counts; identity"),
    "event": _of_yes_no("text", "the level whose probability is modelled"),
    "trials": _of_yes_no("n", "trials of each row", optional=True),
    "exposure": Field("n", "exposure of each row where there are any", "counts selection_of_counts", optional=True),
    "latent_variance": _of_counts("number", "variance of the latent noise, of which the prior has its scale"),
    "dispersion": _of_overdispersed("number", "alpha, as given or at the mean of its log"),
    "dispersion_mean": _of_overdispersed("number", "posterior mean of alpha, unless it was given", optional=True),
    "n_trials": _of_yes_no("number", "trials in all, each row counted as its weight says"),
    "n_events": _of_events("number", "events among them; the sum of counts"),
    "loo_probabilities": _of_yes_no_ridges("n", "probability of the event from the other rows", optional=True),
    "loo_means": Field("n", "expected response of each row from the others", "counts continuous", optional=True),
    "loo_log_density": Field(
        "n",
        "log probability or density of each row given the others",
        "sites counts continuous ordered latent_ep",
        optional=True,
    ),
    "loo_log_score": _of_sites("number", "mean log probability of the outcomes by these"),
    "loo_deviance": _of_counts("number", "share of the deviance that these explain"),
    "loo_brier": _of_yes_no_ridges("number", "their mean squared error"),
    "loo_auc": _of_yes_no_ridges("number", "area under their ROC curve"),
    "loo_absolute_error": _of_continuous("number", "mean absolute error of these expected responses"),
    "noise_scale": _of_continuous("number", "scale of the noise, at the mean of its log"),
    "noise_scale_mean": _of_continuous("number", "posterior mean of the scale of the noise"),
    "noise_df": _of_continuous("number", "degrees of freedom of the noise, as given or the most probable"),
    "categories": _of_ordered("texts", "the categories in their order"),
    "category_counts": _of_ordered("h", "rows in each, copies included"),
    "codes": _of_ordered("n", "category of each row, from 0", optional=True),
    "probabilities": _of_ordered("n h", "posterior means of the probabilities of the categories", optional=True),
    "penalty_means": _of_one_penalty("3", "posterior means of lambda, tau2 and the effective degrees of freedom"),
    "linear_predictors": Field(
        "n", "linear predictors at params and the data's rows", "latent_sets latent_ep ordered", optional=True
    ),
    "inclusion_prob": _of_selection("k", "posterior inclusion probabilities"),
    "group_inclusion_prob": _of_selection("c", "those of the groups"),
    "group_labels": _of_selection("texts", "labels of the groups"),
    "several": _of_selection("flag", "whether a group has several columns"),
    "prior_inclusion": _of_selection("k", "prior inclusion probabilities"),
    "cond_mean": _of_selection("k", "posterior means given inclusion"),
    "cond_var": _of_selection("k", "posterior variances given inclusion"),
    "log_evidence": _with_evidence("number", "log marginal likelihood, by EP or exact"),
    "slab_var": _of_selection("number", "hyperparameter"),
    "noise_var": _of_gaussian_selection("number", "hyperparameter"),
    "learned": _of_selection("texts", "names of the hyperparameters that were learned"),
    "integrated": _of_selection("flag", "whether these are integrated out, and not estimated"),
    "expected_size": _of_selection("number", "expected number of included columns"),
    "residual": _of_selection("number", "scale-free residual at which EP stopped; largest of inclusion_se"),
    "n_fac": _with_evidence("number", "factorisations"),
    "evidence_biased": _with_evidence("flag", "whether constraints of EP are active"),
    "energy_trace": _with_evidence("L", "minus the log evidence along the iteration"),
    "inclusion_se": _of_sets("k", "Monte Carlo standard errors of the inclusion probabilities"),
    "group_inclusion_se": _of_sets("c", "those of the probabilities of the groups"),
    "log_evidence_se": _of_gaussian_sets("number", "that of the log evidence"),
    "enumerated": _of_sets("flag", "whether the posterior is a sum over all sets"),
    "agreement": _of_sets("number", "potential scale reduction factor of the chains"),
    "effective": _of_sets("number", "effective number of draws"),
    "monte_carlo.quantity": _of_sets("texts", "what has a Monte Carlo error: each row of a table"),
    "monte_carlo.name": _of_sets("texts", "the coefficient, empty where it is not one's"),
    "monte_carlo.estimate": _of_sets("c", "the estimate"),
    "monte_carlo.mcse": _of_sets("c", "its Monte Carlo standard error, 0 for sums over all sets"),
    "monte_carlo.effective": _of_sets("c", "how many independent draws have this error"),
    "monte_carlo.agreement": _of_sets("c", "potential scale reduction factor of the walkers"),
    "posterior.z_at": Field("u", "positions of the unpenalised coefficients; after all of them, of cut points"),
    "posterior.at": Field("p", "positions of the penalised ones that vary; all others are zero"),
    "posterior.scale": Field("p", "what penalised columns are divided by"),
    "posterior.sd": Field("p", "their standard deviations"),
    "posterior.on_z": Field("u p", "coefficients of the penalised columns on the unpenalised ones"),
    "posterior.z_root": Field("u u", "H with HH' the inverse of Z'WZ"),
    "posterior.y_on_z": Field("u q", "coefficients of the responses on the unpenalised columns"),
    "posterior.y_norm": Field("q", "norms of the responses outside these columns: the unit of what follows"),
    "posterior.weight": Field("K q", "of the nodes; sums to 1"),
    "posterior.noise": Field("K q", "squared scale of the noise", "bayes_ridge bands spike_slab latent_sets"),
    "posterior.df": Field("number", "degrees of freedom of the t's; infinite for normals"),
    "posterior.log_t2": Field("K q", "log of tau2, less log_unit", "bayes_ridge shares one_penalty"),
    "posterior.log_unit": _of_ridges("number", "log of the unit of tau2"),
    "posterior.s": _of_both("r", "singular values of the standardised columns"),
    "posterior.right": _of_both("p r", "their right singular vectors", optional=True),
    "posterior.half": _of_ridge("n r", "in their place: the standardised rows' transpose times this", optional=True),
    "posterior.z": Field("r q", "responses in the basis of the left ones", "bayes_ridge shares"),
    "posterior.rss0": _of_ridge("q", "squared norm of the responses outside of them"),
    "posterior.outside": _of_both("p", "share of each coefficient outside the row space", optional=True),
    "posterior.open_variance": _of_ridge("flag", "whether variances outside the row space are infinite"),
    "posterior.log_t2_from": _of_both("q", "first of the equally spaced points of its distribution function"),
    "posterior.log_t2_to": _of_both("q", "the last one"),
    "posterior.log_t2_points": _of_both("q", "how many; 1 for a penalty that is fixed"),
    "posterior.prior_a": _of_ridge("number", "tau2 is beta-prime (a, b)"),
    "posterior.prior_b": _of_ridge("number", "see prior_a"),
    "posterior.prior_count": _of_normal_ridges("number", "power of the residual sum of squares in the likelihood"),
    "posterior.prior_log_scale": _of_ridge("number", "log of the prior's scale of tau2, less log_unit"),
    "posterior.prior_noise": _of_normal_ridges("q", "the noise variance, where it is known", optional=True),
    "posterior.node_of": _of_shares("K", "the node over the shares that each node belongs to"),
    "posterior.band": _of_bands("p", "the band of each column"),
    "posterior.factors": _of_shares("M b", "what columns of each band are multiplied by, at nodes over the shares"),
    "posterior.base": _of_shares("r p", "B with B'B the products of the standardised columns; z in its rows"),
    "posterior.entries": _of_covariances("K e", "of the roots of the covariances of effects"),
    "posterior.entry_row": _of_covariances("e", "the band of each entry: that of its row"),
    "posterior.entry_column": _of_covariances("e", "and that of its column"),
    "posterior.gram": _of_covariances("p p", "products of the standardised columns"),
    "posterior.gram_y": Field("p q", "their products with the responses", "correlated"),
    "posterior.band_covariance": Field("b b", "mean covariance of the effects of bands", "latent_bands"),
    "posterior.node_mean": _of_sites("K m", "means of the coordinates; m = u + r"),
    "posterior.node_root": _of_sites("d m", "m rows for each node, whose products are its covariance"),
    "posterior.center": _of_sites("m", "posterior mean of the coordinates, over all nodes"),
    "posterior.covariance": _of_sites("m m", "their posterior covariance"),
    "posterior.mean_t2": _of_one_penalty("number", "posterior mean of t2; infinite where there is none"),
    "posterior.has_mean": _of_sites("flag", "whether coefficients have posterior means; params are medians if not"),
    "posterior.has_variance": _of_sites("flag", "whether they have variances"),
    "posterior.path_log_t2": _of_one_penalty("w", "log t2 of all nodes, also those of negligible weight"),
    "posterior.path_df": _of_one_penalty("w", "their effective degrees of freedom, the constant included"),
    "posterior.log_shape": _of_shape("K", "log alpha, or of the scale of the noise, at the nodes"),
    "posterior.shape_from": _of_shape("one", "first point of its distribution function"),
    "posterior.shape_to": _of_shape("one", "the last of these equally spaced ones"),
    "posterior.shape_cumulative": _of_shape("L", "the values there"),
    "posterior.shape_rise": _of_shape("number", "rates of its exponential tails"),
    "posterior.shape_fall": _of_shape("number", "see shape_rise"),
    "posterior.form": _of_continuous("K", "degrees of freedom of the noise at the nodes", optional=True),
    "posterior.forms": _of_continuous("g", "degrees of freedom that are averaged over", optional=True),
    "posterior.form_share": _of_continuous("g", "their posterior probabilities", optional=True),
    "posterior.cumulative": _of_one_penalty("L", "distribution function of log t2 at its points"),
    "posterior.rise": _of_one_penalty("number", "rate of its exponential tail below the points"),
    "posterior.fall": _of_one_penalty("number", "rate of that above them"),
    "posterior.mean": _of_ep("K p", "means of the standardised coefficients"),
    "posterior.own": _of_ep("K p", "diagonal part of their covariance"),
    "posterior.root": _of_ep("d p", "rows of its low-rank part"),
    "posterior.root_sign": _of_ep("d", "1 or -1: whether the row's square is added or subtracted"),
    "posterior.root_of": _of_ep("d", "the node of the row"),
    "posterior.negative": Field("K", "1 where a site of expectation propagation has a negative precision", "ep"),
    "posterior.lower": _of_ep("g h", "h rows for each of some nodes: a lower triangular matrix L", optional=True),
    "posterior.lower_of": _of_ep("c", "these nodes", optional=True),
    "posterior.rows": _of_ep("h p", "the standardised rows, or others with the same products", optional=True),
    "posterior.slab_weight": _of_ep("K p", "inclusion probability of each coefficient"),
    "posterior.slab_mean": _of_ep("K p", "mean given inclusion"),
    "posterior.slab_var": _of_ep("K p", "variance given inclusion"),
    "posterior.flat_mean": _of_latent_ep("K u", "means of the unpenalised coordinates where all others are 0"),
    "posterior.flat_slope": _of_latent_ep("e p", "u rows for each node: what these means fall by per coefficient"),
    "posterior.flat_root": _of_latent_ep("e u", "u rows for each node: root of their covariance given the others"),
    "posterior.log_g": _of_sets("K", "log of slab variance / noise variance of each kept state"),
    "posterior.t": _of_sets("K", "logit of its prior inclusion probability; NaN where that is given"),
    "posterior.state_set": _of_sets("K", "the number of its set of columns"),
    "posterior.set_size": _of_sets("c", "number of columns of each set"),
    "posterior.set_columns": _of_sets("d", "positions of these among the visited, set by set"),
    "posterior.visited": _of_sets("v", "positions, among the p, of the columns that are in a set"),
    "posterior.cross": _of_gaussian_sets("v", "their products with the response"),
    "posterior.square_root": _of_sets("d v", "B with B'B their products"),
    "posterior.state_mean": _of_latent_sets("d", "means of the u + m coordinates of each state, one after another"),
    "posterior.state_root": _of_latent_sets("d", "roots of their covariances, column by column"),
    "posterior.slab_unit": _of_sets("number", "unit of the slab variance"),
    "posterior.state_slab": _of_sets("K", "mean of the slab variance given each kept state, or its set"),
    "posterior.log_spread": _of_sets("number", "log of the sum of mean squares of the columns, times p if given"),
    "posterior.size_prob": _of_sets("L", "probabilities of 0, 1, ... columns or groups in"),
    "posterior.model_size": _of_sets("c", "number of columns of each of the most probable sets"),
    "posterior.model_columns": _of_sets("d", "positions of these among the p, set by set"),
    "posterior.model_prob": _of_sets("c", "probabilities of these sets"),
    "posterior.groups": _of_selection("p", "number of the group; absent where columns are alone", optional=True),
    "start.columns": _of_gaussian_selection("texts", "names of the columns that can be in or out"),
    "start.site1": _of_gaussian_selection("p", "first parameters of EP's sites"),
    "start.site2": _of_gaussian_selection("p", "second parameters"),
    "start.prior_inclusion": _of_gaussian_selection("p", "prior inclusion probabilities"),
    "start.slab_var": _of_gaussian_selection("number", "hyperparameter"),
    "start.noise_var": _of_gaussian_selection("number", "hyperparameter"),
    **{
        f"diagnostics.{name}": _of_ridge("q", "see diagnostics()")
        for name in (
            "gamma_n", "tau2_bound", "unique_mode_certified", "n_modes", "condition_number", "rank", "null_model",
            "exact_fit", "converged",
        )
    },
}  # fmt: skip
"""Every value of an export; a name with a dot is of an inner dict."""


def _groups(kind: str, names: Collection[str]) -> set[str]:
    """Which values a kind of fit has: groups of :attr:`Field.families`."""
    method = "sets" if "posterior.set_size" in names else "ep"
    gaussian = {
        "bayes_ridge_bands": {"bands", "correlated" if "posterior.entries" in names else "shares"},
        "spike_slab": {"spike_slab", method},
    }
    for start in ("bayes_ridge_bands_", "bayes_ridge_", "spike_slab_"):
        family = FAMILIES.get(kind.removeprefix(start)) if kind.startswith(start) else None
        if family is None or not family.in_r:
            continue
        yes_no = "trials" in family.in_r
        if start == "spike_slab_":
            own = {f"latent_{method}", "yes_no_selection" if yes_no else "selection_of_counts"}
            return own | {"overdispersed"} if "dispersion" in family.in_r else own
        others = "ordered" if family.has_cuts else "counts" if family.has_events else "continuous"
        kind_of_response = "sites" if yes_no else others
        own = {kind_of_response, "latent_bands" if start == "bayes_ridge_bands_" else "one_penalty"}
        return own | {"overdispersed"} if "dispersion" in family.in_r else own
    return gaussian.get(kind, {kind})


def check(exported: dict[str, Any]) -> None:
    """Refuse what is not an export of this version.

    Raises
    ------
    ValueError
        Naming the value that is missing, unknown, or of another form.
    """
    values = dict(flat(exported))
    if values.get("version") != VERSION:
        raise ValueError(f"version is {values.get('version')!r}: this is not an export of version {VERSION}")
    families = _groups(str(values.get("family")), values)
    known = {name: field for name, field in FIELDS.items() if families & set(field.families.split())}
    for name in sorted(set(values) ^ set(known)):
        if name in values or not known[name].optional:
            raise ValueError(f"{name} is {'not a value' if name in values else 'missing'} of such a fit")
    sizes: dict[str, int] = {"one": 1, "3": 3, "4": 4, "k": len(values["names"]), "q": len(values["targets"])}
    kinds: dict[str, type] = {"text": str, "texts": list, "flag": bool, "number": float}
    for name, value in values.items():
        form = known[name].form
        if form in kinds:
            if not isinstance(value, kinds[form]):
                raise ValueError(f"{name} must be a {form}")
            continue
        own = {} if name.startswith("grid") or form in ("L", "c", "d") else sizes
        good = isinstance(value, np.ndarray) and value.dtype == np.float64 and value.ndim == len(form.split())
        if not good or any(own.setdefault(d, s) != s for d, s in zip(form.split(), value.shape, strict=True)):
            raise ValueError(f"{name} must be an array of shape ({', '.join(form.split())})")


def flat(exported: dict[str, Any]) -> list[tuple[str, Any]]:
    """Names and values, those of an inner dict with its name and a dot before theirs."""
    out = []
    for name, value in exported.items():
        out += [(f"{name}.{inner}", v) for inner, v in value.items()] if isinstance(value, dict) else [(name, value)]
    return out
