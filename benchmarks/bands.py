"""Several penalties beside lme4, mgcv, statsmodels and himalaya: estimates, intervals and time.

    python -m benchmarks.bands [--quick] [--only PART ...] [--out FOLDER] [--render]

Mixed models: data sets that come with lme4 and nlme, with every kind of intervals of lmer. Yes/no responses: cbpp,
beside glmer. Overdispersed counts: Salamanders, beside glmmTMB. Smooth curves: mcycle of MASS, and simulated sums of
four curves, beside gam of mgcv. Feature spaces: 200 rows and three spaces, one of them of noise, beside GroupRidgeCV
of himalaya. Many responses: 20, 200 and 2,000 at once, likewise. Data sets are read from the R packages; without R
the parts that need it are left out.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.common import run_parts, table
from benchmarks.large_groups import run
from benchmarks.measures import LEVEL, r_squared, show
from benchmarks.peers_r import versions
from pybayesridge import BayesRidge

NAME = "bands"

BOOTSTRAPS = 200

LOOSE = 0.1
"""Accuracy of the integral for many responses, in posterior standard deviations."""

FEWEST = 33
"""Least number of decompositions for many responses with three bands."""

DRAWS = (20, 100)
"""Penalties that himalaya draws at random for many responses: few, and as many as it draws by default."""

OURS, REML = "ours", 'ours, `fit("reml")`'


@dataclass(frozen=True, slots=True)
class Example:
    """A mixed model of a data set.

    Attributes
    ----------
    source : str
        R code of the data, with columns that are numbers or factors.
    formula : str
        Ours and lmer's.
    bands : dict
        Names of standard deviations and correlations, ours and those of lmer.
    effect : str
        Name of the fixed effect that is shown.
    fixed : str
        The fixed part, for MixedLM.
    groups : dict
        Columns whose levels are the groups, by name, for MixedLM.
    slope : str
        Likewise: a column with a slope for each group; then there is one group.
    """

    source: str
    formula: str
    bands: dict[str, str]
    effect: tuple[str, str]
    fixed: str
    groups: dict[str, str]
    slope: str = ""


EXAMPLES = {
    "sleepstudy": Example(
        "lme4::sleepstudy",
        "Reaction ~ Days + (Days | Subject)",
        {
            "Subject": "sd_(Intercept)|Subject",
            "Days|Subject": "sd_Days|Subject",
            "cor(Subject, Days|Subject)": "cor_Days.(Intercept)|Subject",
        },
        ("Days", "Days"),
        "Reaction ~ Days",
        {"Subject": "Subject"},
        "Days",
    ),
    "Penicillin": Example(
        "lme4::Penicillin",
        "diameter ~ 1 + (1 | plate) + (1 | sample)",
        {"plate": "sd_(Intercept)|plate", "sample": "sd_(Intercept)|sample"},
        ("Intercept", "(Intercept)"),
        "diameter ~ 1",
        {"plate": "C(plate)", "sample": "C(sample)"},
    ),
    "Pastes": Example(
        "lme4::Pastes",
        "strength ~ 1 + (1 | batch/cask)",
        {"batch": "sd_(Intercept)|batch", "batch:cask": "sd_(Intercept)|cask:batch"},
        ("Intercept", "(Intercept)"),
        "strength ~ 1",
        {"batch": "C(batch)", "batch:cask": "C(batch):C(cask)"},
    ),
    "Oats": Example(
        "transform(as.data.frame(nlme::Oats), Block = factor(Block, ordered = FALSE), grain = yield, yield = NULL)",
        "grain ~ nitro + (1 | Block/Variety)",
        {"Block": "sd_(Intercept)|Block", "Block:Variety": "sd_(Intercept)|Variety:Block"},
        ("nitro", "nitro"),
        "grain ~ nitro",
        {"Block": "C(Block)", "Block:Variety": "C(Block):C(Variety)"},
    ),
    "Machines": Example(
        "transform(as.data.frame(nlme::Machines), Worker = factor(Worker, ordered = FALSE))",
        "score ~ Machine + (1 | Worker/Machine)",
        {"Worker": "sd_(Intercept)|Worker", "Worker:Machine": "sd_(Intercept)|Machine:Worker"},
        ("Machine[T.B]", "MachineB"),
        "score ~ Machine",
        {"Worker": "C(Worker)", "Worker:Machine": "C(Worker):C(Machine)"},
    ),
}

CBPP = "transform(lme4::cbpp, healthy = size - incidence)"

R_FIT = """
suppressMessages(library(lme4))
arguments <- commandArgs(TRUE)
data <- eval(parse(text = arguments[1]))
quietly <- function(x) suppressMessages(suppressWarnings(x))
seconds <- function(x) sum(system.time(x)[1:2])
tell <- function(method, seconds, ends)
  cat(paste(method, seconds, names, estimates, ends[names, 1], ends[names, 2], sep = "\\t"), sep = "\\n")
"""

LMER = (
    R_FIT
    + """
formula <- as.formula(arguments[2])
own <- seconds(fit <- quietly(lmer(formula, data)))
wald <- seconds(ends <- confint(fit, method = "Wald", oldNames = FALSE))
names <- rownames(ends)
estimates <- c(as.data.frame(VarCorr(fit), order = "lower.tri")$sdcor, fixef(fit))
tell("lmer, Wald", own + wald, ends)
set.seed(1)
for (method in c("profile", "boot")) {
  more <- seconds(ends <- quietly(confint(fit, method = method, oldNames = FALSE, nsim = as.integer(arguments[3]))))
  tell(paste("lmer,", if (method == "boot") "bootstrap" else method), own + more, ends)
}
"""
)

GLMER = (
    R_FIT
    + """
formula <- cbind(incidence, healthy) ~ period + (1 | herd)
for (points in c(1, 15)) {
  own <- seconds(fit <- quietly(glmer(formula, data, family = binomial, nAGQ = points)))
  wald <- seconds(ends <- confint(fit, method = "Wald", oldNames = FALSE))
  names <- rownames(ends)
  estimates <- c(as.data.frame(VarCorr(fit))$sdcor, fixef(fit))
  label <- if (points == 1) "glmer, Laplace" else paste("glmer,", points, "quadrature points")
  tell(paste0(label, ", Wald"), own + wald, ends)
  more <- seconds(ends <- quietly(confint(fit, method = "profile", oldNames = FALSE)))
  tell(paste0(label, ", profile"), own + more, ends)
}
"""
)

SALAMANDERS = (
    """transform(glmmTMB::Salamanders, site = factor(site, ordered = FALSE), mined = factor(mined, c("no", "yes")))"""
)

GLMMTMB = (
    R_FIT
    + """
suppressMessages(library(glmmTMB))
fitted <- function(restricted) glmmTMB(count ~ mined + (1 | site), data, family = nbinom2, REML = restricted)
of_alpha <- function(of_sigma) matrix(1 / of_sigma[c(2, 1, 3)], 1, dimnames = list("alpha", NULL))
for (restricted in c(TRUE, FALSE)) {
  own <- seconds(fit <- fitted(restricted))
  wald <- seconds(ends <- rbind(confint(fit), of_alpha(confint(fit, parm = "sigma"))))
  names <- rownames(ends)
  estimates <- ends[, 3]
  label <- if (restricted) "glmmTMB, REML" else "glmmTMB"
  tell(paste0(label, ", Wald"), own + wald, ends)
}
more <- seconds(ends <- confint(fit, method = "profile"))
of_sd <- grepl("theta", rownames(ends))
ends[of_sd, ] <- exp(ends[of_sd, ])
rownames(ends)[of_sd] <- "Std.Dev.(Intercept)|site"
names <- rownames(ends)
estimates <- estimates[names]
tell("glmmTMB, profile", own + more, ends)
"""
)

GAM = """
suppressMessages(library(mgcv))
arguments <- commandArgs(TRUE)
formula <- as.formula(arguments[2])
for (file in list.files(arguments[1], full.names = TRUE)) {
  data <- read.csv(file)
  own <- sum(system.time(fit <- gam(formula, data = data, method = "REML"))[1:2])
  for (unconditional in c(FALSE, TRUE)) {
    more <- sum(system.time(found <- predict(fit, data, se.fit = TRUE, unconditional = unconditional))[1:2])
    cat(basename(file), unconditional, own + more, found$fit, found$se.fit, "\\n")
  }
}
"""

SPACES = (20, 60, 100)

EFFECTS = (0.4, 0.08, 0.0)

KNOTS = 20

CURVES, SETS = 10, 5
"""Data sets of sums of four curves, and of feature spaces."""


def from_r(source: str) -> pd.DataFrame | None:
    """A data set of an R package; None where it is not there."""
    out = run(["Rscript"], "write.csv(eval(parse(text = commandArgs(TRUE)[1])), row.names = FALSE)", source)
    if out is None:
        return None
    frame = pd.read_csv(StringIO(out))
    texts = frame.select_dtypes(exclude="number").columns
    return frame.astype(dict.fromkeys(texts, "category"))


def told(out: str) -> dict[str, dict[str, Any]]:
    """What an R script told: by method its seconds, and estimates with the ends of their intervals."""
    found: dict[str, dict[str, Any]] = {}
    for line in out.splitlines():
        method, seconds, name, *numbers = line.split("\t")
        own = found.setdefault(method, {"seconds": float(seconds), "values": {}})
        own["values"][name] = [np.nan if each == "NA" else float(each) for each in numbers]
    return found


def ours(model: Callable[[], Any], method: str, effect: str, **options: Any) -> dict[str, Any]:
    """Our seconds, with all intervals, and the values that are shown."""
    start = time.process_time()
    res = model().fit(method, **options)
    ends, bands, _ = res.conf_int(1 - LEVEL), res.variance_components(1 - LEVEL), res.random_effects()
    seconds = time.process_time() - start
    values = {name: bands.loc[name, ["mean", "lower", "upper"]].astype(float).tolist() for name in bands.index}
    if res.model.family == "negative-binomial":
        values["alpha"] = res.hyperparameters(1 - LEVEL).loc["alpha", ["mean", "lower", "upper"]].tolist()
    return {"seconds": seconds, "values": values | {effect: [float(res.params[effect]), *ends.loc[effect].tolist()]}}


def mixed_model(example: Example, frame: pd.DataFrame) -> dict[str, Any]:
    """Estimates of MixedLM of statsmodels, with the Wald interval of the fixed effect."""
    from statsmodels.regression.mixed_linear_model import MixedLM

    start = time.process_time()
    if example.slope:
        (group,) = example.groups
        res = MixedLM.from_formula(example.fixed, frame, groups=group, re_formula=f"~{example.slope}").fit()
        covariance = res.cov_re.to_numpy()
        sds = np.sqrt(np.diag(covariance))
        numbers = [*sds, covariance[0, 1] / sds.prod()]
        names = list(example.bands)
    else:
        formula = {name: f"0 + {columns}" for name, columns in example.groups.items()}
        own = frame.assign(one=1)
        res = MixedLM.from_formula(example.fixed, own, groups="one", re_formula="0", vc_formula=formula).fit()
        numbers, names = np.sqrt(res.vcomp).tolist(), list(res.model.exog_vc.names)
    ends = res.conf_int(1 - LEVEL)
    seconds = time.process_time() - start
    values = {name: [float(x), np.nan, np.nan] for name, x in zip(names, numbers, strict=True)}
    effect = example.effect[0]
    return {"seconds": seconds, "values": values | {effect: [float(res.params[effect]), *ends.loc[effect].tolist()]}}


def mixed_models(quick: bool) -> Iterator[tuple[str, Any]]:
    """Each data set by every method."""
    for name in list(EXAMPLES)[: 1 if quick else None]:
        example = EXAMPLES[name]
        frame = from_r(example.source)
        out = run(["Rscript"], LMER, example.source, example.formula, str(10 if quick else BOOTSTRAPS))
        if frame is None or out is None:
            continue

        def model(frame: pd.DataFrame = frame, example: Example = example) -> BayesRidge:
            return BayesRidge.from_formula(example.formula, frame, unpenalized="fixed")

        found = {OURS: ours(model, "exact", example.effect[0]), REML: ours(model, "reml", example.effect[0])}
        name_of = {theirs: own for own, theirs in [*example.bands.items(), example.effect]}
        for method, each in told(out).items():
            values = {name_of[name]: numbers for name, numbers in each["values"].items() if name in name_of}
            found[method] = each | {"values": values}
        yield name, found | {"MixedLM": mixed_model(example, frame)}


def yes_no(quick: bool) -> Iterator[tuple[str, Any]]:
    """The counts of sick cattle in herds, cbpp."""
    frame, out = from_r(CBPP), run(["Rscript"], GLMER, CBPP)
    if frame is None or out is None:
        return
    frame = frame.astype(dict.fromkeys(("herd", "period"), "category"))
    effect = "period[T.4]"

    def model() -> BayesRidge:
        return BayesRidge.from_formula(
            "incidence ~ period + (1 | herd)", frame, family="binomial", trials="size", unpenalized="fixed"
        )

    found = {method: ours(model, method, effect) for method in ("ep", "laplace", "reml")}
    name_of = {"sd_(Intercept)|herd": "herd", "period4": effect}
    for method, each in told(out).items():
        values = {name_of[name]: numbers for name, numbers in each["values"].items() if name in name_of}
        found[method] = each | {"values": values}
    names = {method: f'ours, `fit("{method}")`' for method in ("ep", "laplace", "reml")}
    yield "cbpp", {names.get(name, name): each for name, each in found.items()}


def counts(quick: bool) -> Iterator[tuple[str, Any]]:
    """The counts of salamanders at sites of which some were mined."""
    frame, out = from_r(SALAMANDERS), run(["Rscript"], GLMMTMB, SALAMANDERS)
    if frame is None or out is None:
        return
    effect = "mined[T.yes]"

    def model() -> BayesRidge:
        return BayesRidge.from_formula(
            "count ~ mined + (1 | site)", frame, family="negative-binomial", unpenalized="fixed"
        )

    found = {f'ours, `fit("{method}")`': ours(model, method, effect) for method in ("ep", "laplace")}
    name_of = {"Std.Dev.(Intercept)|site": "site", "alpha": "alpha", "minedyes": effect}
    for method, each in told(out).items():
        values = {name_of[name]: numbers for name, numbers in each["values"].items() if name in name_of}
        found[method] = each | {"values": values}
    yield "Salamanders", found


def four_curves(rng: np.random.Generator, n: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Responses that are sums of three curves of uniform variables, and of nothing of a fourth; with their means."""
    x = rng.random((n, 4))
    mean = 2 * np.sin(np.pi * x[:, 0]) + np.exp(2 * x[:, 1])
    mean += 0.2 * x[:, 2] ** 11 * (10 * (1 - x[:, 2])) ** 6 + 10 * (10 * x[:, 2]) ** 3 * (1 - x[:, 2]) ** 10
    frame = pd.DataFrame(x, columns=[f"x{j}" for j in range(4)])
    return frame.assign(y=mean + 2 * rng.normal(size=n)), mean


def by_gam(frames: list[pd.DataFrame], formula: str) -> list[dict[str, Any]] | None:
    """Seconds, fitted means and their standard errors of gam, of the smoothing parameters as known or not."""
    with tempfile.TemporaryDirectory() as folder:
        for i, frame in enumerate(frames):
            frame.to_csv(f"{folder}/{i:04}.csv", index=False)
        out = run(["Rscript"], GAM, folder, formula)
    if out is None:
        return None
    found: list[dict[str, Any]] = [{} for _ in frames]
    for line in out.splitlines():
        file, unconditional, *numbers = line.split()
        seconds, values = float(numbers[0]), np.array(numbers[1:], dtype=float).reshape(2, -1)
        name = "gam, unconditional" if unconditional == "TRUE" else "gam"
        found[int(Path(file).stem)][name] = (
            seconds,
            values[0],
            values[0] - 1.96 * values[1],
            values[0] + 1.96 * values[1],
        )
    return found


def curve(formula: str, frame: pd.DataFrame) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """Our seconds, fitted means and the ends of their intervals."""
    start = time.process_time()
    prediction = BayesRidge.from_formula(formula, frame, unpenalized="fixed").fit().get_prediction(frame)
    low, high = np.asarray(prediction.conf_int(alpha=1 - LEVEL)).T
    mean = np.asarray(prediction.predicted_mean)
    return time.process_time() - start, mean, low, high


def curves(quick: bool) -> Iterator[tuple[str, Any]]:
    """Curves of mcycle and simulated ones: how close to the truth, or to gam, and whether intervals cover."""
    mcycle = from_r("MASS::mcycle")
    sets = [] if mcycle is None else [("mcycle", "accel", [mcycle], [None], "s(times, k={})")]
    simulated = [four_curves(np.random.default_rng(seed), 400) for seed in range(2 if quick else CURVES)]
    sum_of = " + ".join(f"s(x{j}, k={{0}})" for j in range(4))
    sets.append(("four curves", "y", [each for each, _ in simulated], [mean for _, mean in simulated], sum_of))
    for name, response, frames, truths, terms in sets:
        formula = f"{response} ~ {terms.format(KNOTS)}"
        gam_terms = formula.replace(f"k={KNOTS}", f"k={KNOTS}, bs='cr'")
        others = by_gam(frames, gam_terms) or [{} for _ in frames]
        scores: dict[str, dict[str, list[float]]] = {}
        for frame, truth, other in zip(frames, truths, others, strict=True):
            own = curve(formula, frame)
            for method, (seconds, mean, low, high) in ({OURS: own} | other).items():
                each = scores.setdefault(method, {"seconds": [], "error": [], "width": [], "coverage": []})
                reference = own[1] if truth is None else truth
                each["seconds"].append(seconds)
                each["error"].append(float(np.sqrt(np.mean((mean - reference) ** 2))))
                each["width"].append(float(np.mean(high - low)))
                if truth is not None:
                    each["coverage"].append(float(np.mean((low <= truth) & (truth <= high))))
        yield name, scores


def by_himalaya(y: np.ndarray, x: np.ndarray, draws: int) -> Callable[[np.ndarray], np.ndarray] | None:
    """Predictions by banded ridge regression of himalaya; None if it is not there."""
    try:
        from himalaya.ridge import GroupRidgeCV
    except ImportError:
        return None
    size = x.shape[1] * np.array(SPACES) // sum(SPACES)
    model = GroupRidgeCV(
        groups=np.repeat(np.arange(len(SPACES)), size if y.ndim == 1 else x.shape[1] // len(SPACES)),
        solver_params={"n_iter": draws, "alphas": np.logspace(-4, 6, 21), "progress_bar": False},
        random_state=0,
        fit_intercept=True,
    ).fit(x, y)
    return lambda new: np.asarray(model.predict(new))


def by_bands(
    labels: np.ndarray | None, **options: Any
) -> Callable[[np.ndarray, np.ndarray], Callable[[np.ndarray], np.ndarray]]:
    """Our predictions, by bands or, without labels, one penalty, with options of ``fit``."""

    def fit(y: np.ndarray, x: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        res = BayesRidge(y, x, bands=labels).fit(**options)
        return lambda new: np.asarray(res.predict(new))

    return fit


def compared(
    methods: dict[str, Callable[[np.ndarray, np.ndarray], Any]], sets: Iterator[tuple[np.ndarray, ...]]
) -> dict[str, dict[str, list[float]]]:
    """R-squared of new rows, in the mean over responses, and seconds of each method."""
    out: dict[str, dict[str, list[float]]] = {}
    for y, x, y_new, new in sets:
        for name, method in methods.items():
            start = time.process_time()
            predict = method(y, x)
            if predict is None:
                continue
            each = out.setdefault(name, {"r2": [], "seconds": []})
            each["seconds"].append(time.process_time() - start)
            found = predict(new).reshape(len(new), -1)
            truth = y_new.reshape(len(new), -1)
            each["r2"].append(float(np.mean([r_squared(a, b) for a, b in zip(truth.T, found.T, strict=True)])))
    return out


def spaces(quick: bool) -> Iterator[tuple[str, Any]]:
    """Three feature spaces and one response."""

    def sets() -> Iterator[tuple[np.ndarray, ...]]:
        for seed in range(2 if quick else SETS):
            rng = np.random.default_rng(seed)
            b = np.concatenate([s * rng.normal(size=p) for s, p in zip(EFFECTS, SPACES, strict=True)])
            x, new = rng.normal(size=(200, b.size)), rng.normal(size=(2000, b.size))
            yield x @ b + rng.normal(size=200), x, new @ b + rng.normal(size=2000), new

    labels = np.repeat([f"space {k}" for k in range(len(SPACES))], SPACES)
    yield (
        "one response",
        compared(
            {
                OURS: by_bands(labels),
                "ours, one penalty": by_bands(None),
                "himalaya, 100 draws": lambda y, x: by_himalaya(y, x, 100),
            },
            sets(),
        ),
    )


def many_responses(quick: bool) -> Iterator[tuple[str, Any]]:
    """Three feature spaces and many responses, each with effects of its own in some of them."""
    for n, each, q in [(100, 20, 4)] if quick else [(200, 50, 20), (200, 50, 200), (1000, 300, 2000)]:
        yield f"{n:,} rows, 3 x {each} columns, {q:,} responses", of_many(n, each, q)


def of_many(n: int, each: int, q: int) -> dict[str, dict[str, list[float]]]:
    """R-squared and seconds with so many rows, columns in each space and responses."""

    def sets() -> Iterator[tuple[np.ndarray, ...]]:
        rng = np.random.default_rng(0)
        scale = rng.gamma(0.5, size=(len(SPACES), q)) * np.sqrt(0.2 / each)
        b = np.vstack([s * rng.normal(size=(each, q)) for s in scale])
        x, new = rng.normal(size=(n, b.shape[0])), rng.normal(size=(n, b.shape[0]))
        yield x @ b + rng.normal(size=(n, q)), x, new @ b + rng.normal(size=(n, q)), new

    labels = np.repeat([f"space {k}" for k in range(len(SPACES))], each)
    return compared(
        {
            OURS: by_bands(labels, tol=LOOSE),
            f"ours, `maxiter={FEWEST}`": by_bands(labels, tol=LOOSE, maxiter=FEWEST),
            "ours, one penalty": by_bands(None),
            **{f"himalaya, {draws} draws": partial(by_himalaya, draws=draws) for draws in DRAWS},
        },
        sets(),
    )


def cell(numbers: list[float]) -> str:
    """An estimate with its interval."""
    value, low, high = (np.nan if each is None else each for each in numbers)
    digits = max(0, 3 - int(np.floor(np.log10(max(abs(value), 1e-3)))) - 1)
    if np.isnan(low) or low == high:
        return f"{value:.{digits}f}"
    return f"{value:.{digits}f} ({low:.{digits}f}, {high:.{digits}f})"


def of_methods(found: dict[str, Any]) -> str:
    """The table of a data set: a row for each method."""
    first = next(iter(found.values()))
    names, unit = list(first["values"]), first["seconds"]
    rows = [
        [
            method,
            *(cell(each["values"][name]) if name in each["values"] else "-" for name in names),
            f"{each['seconds']:.3f}",
            f"{each['seconds'] / unit:.2g}",
        ]
        for method, each in found.items()
    ]
    heads = [f"cor {name[4:-1]}" if name.startswith("cor(") else name for name in names]
    return table(["method", *[head.replace("|", " by ") for head in heads], "s", "relative"], rows)


def of_curves(found: dict[str, Any]) -> str:
    """The table of curves."""
    unit = np.median(found[OURS]["seconds"])
    rows = [
        [
            method,
            show(each["error"]),
            show(100 * np.array(each["coverage"]), 1) if each["coverage"] else "-",
            show(each["width"]),
            f"{np.median(each['seconds']):.2f}",
            f"{np.median(each['seconds']) / unit:.2g}",
        ]
        for method, each in found.items()
    ]
    return table(["method", "root mean square error", "coverage, %", "width", "s", "relative"], rows)


def of_spaces(found: dict[str, Any]) -> str:
    """The table of feature spaces."""
    unit = np.median(found[OURS]["seconds"])
    rows = [
        [method, show(each["r2"], 4), f"{np.median(each['seconds']):.2f}", f"{np.median(each['seconds']) / unit:.2g}"]
        for method, each in found.items()
    ]
    return table(["method", "R-squared", "s", "relative"], rows)


WORDS = {
    "mixed models": (
        "Mixed models of data that come with lme4 and nlme. Posterior means and 95 % intervals; of lmer the "
        "estimates by restricted maximum likelihood with Wald, profile and parametric bootstrap intervals "
        f"({BOOTSTRAPS} samples, percentiles); of MixedLM its estimates, with Wald intervals of the fixed effect. A "
        "column is the standard deviation or correlation of the term that it names; the last before the seconds is a "
        "fixed effect. Seconds are those of the fit with these intervals, for ours with those of all effects of "
        "levels too."
    ),
    "yes/no responses": (
        "Successes among trials: `incidence ~ period + (1 | herd)` of cbpp, log odds of the fourth period. Likewise."
    ),
    "overdispersed counts": (
        "Negative binomial counts with a factor of 23 levels: `count ~ mined + (1 | site)` of glmmTMB's Salamanders; "
        "alpha is the inverse of glmmTMB's dispersion parameter. glmmTMB by restricted maximum likelihood and by "
        "maximum likelihood, with Wald and profile intervals. Numbers and seconds as of the mixed models."
    ),
    "smooth curves": (
        "Smooth curves, cubic regression splines with 20 knots. gam of mgcv by REML, 95 % intervals "
        "with the smoothing parameters as known or with the correction `unconditional = TRUE`. Four curves: 400 "
        f"rows, {CURVES} data sets, one curve is none; the error is that of fitted means, coverage that of their "
        "intervals. Of mcycle, whose truth is not known, the error is the difference from ours."
    ),
    "feature spaces": (
        f"Feature spaces of {', '.join(map(str, SPACES))} columns, the last of noise; 200 rows, {SETS} sets. "
        "R-squared of 2,000 new rows. GroupRidgeCV of himalaya: random search, five folds."
    ),
    "many responses": (
        "Many responses, three feature spaces of the same size, whose sizes of effects differ between responses; "
        f"R-squared of as many new rows, the mean over responses. Ours by `fit(tol={LOOSE})`; himalaya as "
        f"before, with {DRAWS[0]} draws and with its default of {DRAWS[1]}."
    ),
}

TABLES: dict[str, Callable[[dict[str, Any]], str]] = {
    "mixed models": of_methods,
    "yes/no responses": of_methods,
    "overdispersed counts": of_methods,
    "smooth curves": of_curves,
    "feature spaces": of_spaces,
    "many responses": of_spaces,
}


def page(found: dict[str, Any]) -> str:
    """The page."""
    parts = [versions(("lme4", "nlme", "glmmTMB", "mgcv", "MASS")) + "."]
    for part, settings in found.items():
        parts.append(WORDS[part])
        for name, each in settings.items():
            formula = f": `{EXAMPLES[name].formula}`" if name in EXAMPLES else ""
            parts += [f"{name}{formula}", TABLES[part](each)]
    return "\n\n".join(parts)


def main() -> None:
    """Run the parts."""
    warnings.simplefilter("ignore")
    run_parts(
        __doc__,
        NAME,
        ["pybayesridge", "numpy", "scipy", "statsmodels", "himalaya"],
        page,
        {
            "mixed models": mixed_models,
            "yes/no responses": yes_no,
            "overdispersed counts": counts,
            "smooth curves": curves,
            "feature spaces": spaces,
            "many responses": many_responses,
        },
    )


if __name__ == "__main__":
    main()
