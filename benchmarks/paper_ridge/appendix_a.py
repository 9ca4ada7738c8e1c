"""Appendix A of the ridge paper: many means (X = I, known variance), where leave-one-out knows nothing.

    python -m benchmarks.paper_ridge.appendix_a [--quick] [--render] [--out FOLDER]

The mode of the posterior of tau gives kappa = (p + 2) / ||y||^2 and the estimate (1 - kappa) y, which is minimax for
p >= 6. Three checks: the package's own fit against that closed form, the risk by Monte Carlo against its exact value,
and both against least squares, whose risk is p.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
from scipy import stats

from benchmarks.paper_ridge.figures_common import (
    PACKAGES,
    arguments,
    claims,
    measured,
    new_figure,
    progress,
    save,
    save_figure,
    summary,
    table,
    use_one_thread,
    verdict,
)
from pybayesridge import BayesRidge

DIMENSIONS = (3, 4, 5, 6, 8, 10, 20, 50)
NORMS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Of the true means: ||b||^2 / p."""
DRAWS, QUICK_DRAWS = 100_000, 5000
FITS, QUICK_FITS = 32, 4
CLOSED_FORM = 1e-7
"""Largest relative error of kappa accepted; the tolerance of fit() is 1e-8 in log lambda."""
CONSTANT = 1e-9
"""Relative range of leave-one-out scores that counts as none."""
MC_FROM = 5
"""Below this dimension the loss of the unrestricted estimate has no variance, and its mean no standard error."""

COLOURS = ("#000000", "#D55E00", "#CC79A7", "#E69F00", "#009E73", "#56B4E9", "#0072B2", "#595959")


def kappa(y: np.ndarray) -> np.ndarray:
    """``(p + 2) / ||y||^2`` for the last axis of y; above 1 the mode is at tau = 0, with kappa 1."""
    return (y.shape[-1] + 2) / np.sum(y**2, axis=-1)


def appendix_update(s: float, p: int, k: float) -> float:
    """One EM step of Appendix A, from kappa to kappa: w = E||b||^2, then tau2, then 1 / (1 + tau2)."""
    w = (1 - k) ** 2 * s + (1 - k) * p
    tau2 = (w - p + np.sqrt(p**2 + 8 * w + 2 * p * w + w**2)) / (2 * (2 + p))
    return float(1 / (1 + tau2))


def inverse_moment(p: int, delta: float) -> float:
    """``E[1 / chi2_p(delta)]`` for p > 2: a mixture of 1 / (p - 2 + 2 K), K Poisson with mean delta / 2."""
    most = int(delta / 2 + 40 + 12 * np.sqrt(delta / 2 + 1))
    k = np.arange(most)
    return float(np.sum(stats.poisson.pmf(k, delta / 2) / (p - 2 + 2 * k)))


def risk(p: int, delta: float) -> float:
    """Exact risk of ``(1 - (p+2)/||y||^2) y``, by Stein's identity: ``p - (p+2)(p-6) E[1/||y||^2]``."""
    return p - (p + 2) * (p - 6) * inverse_moment(p, delta)


@cache
def gauss(nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Points and weights of Gauss and Legendre on [-1, 1]."""
    return np.polynomial.legendre.leggauss(nodes)


def positive_risk(p: int, delta: float, nodes: int = 150) -> float:
    """Exact risk of ``max(0, 1 - (p+2)/||y||^2) y`` by quadrature over ``s = ||y||^2 >= p + 2``.

    ``E[f(s)^2 s] - 2 delta E[f(s')] + delta`` with f the shrinkage factor, s ~ chi2_p(delta), s' ~ chi2_{p+2}(delta).
    """
    low = p + 2.0
    high = max(low, p + delta) + 14 * np.sqrt(2 * (p + 2 + 2 * delta)) + 120
    x, w = gauss(nodes)
    s = low + (high - low) * (x + 1) / 2
    w = w * (high - low) / 2
    factor = 1 - low / s

    def density(df: int) -> np.ndarray:
        out: np.ndarray = stats.chi2.pdf(s, df) if delta == 0 else stats.ncx2.pdf(s, df, delta)
        return out

    return float(w @ (factor**2 * s * density(p)) - 2 * delta * (w @ (factor * density(p + 2))) + delta)


def losses(p: int, delta: float, draws: int, rng: np.random.Generator) -> dict[str, dict[str, float]]:
    """Monte Carlo: loss less that of least squares on the same draw, whose mean is known, plus p."""
    b = np.full(p, np.sqrt(delta / p))
    y = b + rng.standard_normal((draws, p))
    k = kappa(y)[:, None]
    least_squares = np.sum((y - b) ** 2, axis=1)
    plain = np.sum(((1 - k) * y - b) ** 2, axis=1)
    positive = np.sum((np.maximum(1 - k, 0) * y - b) ** 2, axis=1)
    return {"plain": summary(plain - least_squares + p), "positive": summary(positive - least_squares + p)}


def fit(y: np.ndarray, method: str = "em", sigma2: float | None = 1.0, **options: Any) -> Any:
    """The package's fit of X = I; warnings of a null model are expected."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = BayesRidge(y, np.eye(y.size), intercept=False, standardize=False, sigma2=sigma2, prior="half-cauchy")
        return model.fit(method, **options)


def check_package(p: int, fits: int, rng: np.random.Generator) -> dict[str, float]:
    """Largest differences of the package's fits from the closed form over some draws of y."""
    out = {"kappa": 0.0, "plain_em": 0.0, "b": 0.0, "null_wrong": 0.0, "inner": 0.0, "null": 0.0, "loo": 0.0}
    out |= {"tau2_null": 0.0, "modes": 0.0, "appendix": 0.0}
    for i in range(fits):
        y = rng.standard_normal(p) * np.sqrt(1 + NORMS[i % len(NORMS)])
        k = float(kappa(y))
        found = fit(y, parameterization="tau")
        out["null_wrong"] += float(bool(np.all(np.asarray(found.params) == 0)) != (k >= 1))
        scores = np.ravel(fit(y, "loocv").grid_scores)
        out["loo"] = max(out["loo"], float(np.ptp(scores) / scores.mean()))
        out["tau2_null"] += float(np.all(np.asarray(fit(y).params) == 0)) / fits
        out["modes"] = max(out["modes"], float(fit(y, parameterization="tau", sigma2=None).n_modes))
        if k >= 1:
            out["null"] += 1
            continue
        out["inner"] += 1
        plain = fit(y, parameterization="tau", accelerate=False, maxiter=100_000)
        out["kappa"] = max(out["kappa"], abs(found.lambda_ / (1 + found.lambda_) / k - 1))
        out["plain_em"] = max(out["plain_em"], abs(plain.lambda_ / (1 + plain.lambda_) / k - 1))
        out["b"] = max(out["b"], float(np.max(np.abs(np.asarray(found.params) / ((1 - k) * y) - 1))) * (1 - k))
        out["appendix"] = max(out["appendix"], abs(appendix_update(float(y @ y), p, k) / k - 1))
    return out


def measure(quick: bool) -> dict[str, Any]:
    """Risks for every p and norm; the package against the closed form for every p."""
    draws, fits = (QUICK_DRAWS, QUICK_FITS) if quick else (DRAWS, FITS)
    risks, package = {}, {}
    for p in progress(DIMENSIONS, "appendix A"):
        for norm in NORMS:
            delta = norm * p
            rng = np.random.default_rng([p, round(100 * norm)])
            found = losses(p, delta, draws, rng)
            found["exact"] = {"plain": risk(p, delta), "positive": positive_risk(p, delta)}
            risks[f"{p},{norm:g}"] = found
        package[str(p)] = check_package(p, fits, np.random.default_rng([p, 1]))
    return {"dimensions": DIMENSIONS, "norms": NORMS, "draws": draws, "fits": fits, "risk": risks, "package": package}


def monte_carlo(data: dict[str, Any]) -> tuple[int, float, float]:
    """How many risks were simulated, the largest distance from the exact ones in standard errors, and its bound."""
    risks = data["risk"]
    scores = {
        (kind, p, norm): (v["exact"][kind] - v[kind]["mean"]) / v[kind]["se"]
        for p in data["dimensions"]
        for norm in data["norms"]
        for kind, v in ((kind, risks[f"{p},{norm:g}"]) for kind in ("plain", "positive"))
        if kind == "positive" or p >= MC_FROM
    }
    furthest = max(abs(z) for z in scores.values())
    # One of so many normal scores is beyond this with probability 1 %.
    bound = float(stats.norm.isf(0.005 / len(scores)))
    return len(scores), furthest, bound


def expectations(data: dict[str, Any]) -> list[list[str]]:
    """Rows: what the paper says, what was measured, whether it agrees."""
    package, risks = data["package"], data["risk"]
    worst = {key: max(v[key] for v in package.values()) for key in ("kappa", "plain_em", "b", "loo", "appendix")}
    wrong = sum(v["null_wrong"] for v in package.values())
    inner, null = (int(sum(v[key] for v in package.values())) for key in ("inner", "null"))
    count, furthest, bound = monte_carlo(data)

    def ratios(kind: str, least: int) -> list[float]:
        return [
            risks[f"{p},{norm:g}"]["exact"][kind] / p
            for p in data["dimensions"]
            for norm in data["norms"]
            if p >= least
        ]

    at_six = [risks[f"6,{norm:g}"]["exact"]["plain"] / 6 for norm in data["norms"]]
    above = {p: max(risks[f"{p},{norm:g}"]["exact"]["positive"] / p for norm in data["norms"]) for p in (3, 4, 5)}
    return [
        [
            "kappa = (p+2)/‖y‖² where ‖y‖² > p+2",
            f"largest relative error of {inner} fits: {worst['kappa']:.1e} (plain EM {worst['plain_em']:.1e}), "
            f"and it is a fixed point of the appendix's own update to {worst['appendix']:.1e}",
            verdict(max(worst["kappa"], worst["plain_em"], worst["appendix"]) < CLOSED_FORM),
        ],
        [
            "b = (1 - kappa) y",
            f"largest difference relative to y: {worst['b']:.1e}",
            verdict(worst["b"] < CLOSED_FORM),
        ],
        [
            "elsewhere no interior mode, b = 0",
            f"{null} such draws, {wrong:.0f} wrong either way",
            verdict(wrong == 0 and null > 0),
        ],
        [
            "leave-one-out scores do not depend on λ",
            f"largest range of the scores relative to their mean: {worst['loo']:.1e}",
            verdict(worst["loo"] < CONSTANT),
        ],
        [
            "Monte Carlo agrees with the exact risk",
            f"furthest of {count}: {furthest:.1f} standard errors (1 % bound {bound:.1f})",
            verdict(furthest < bound),
        ],
        [
            "risk below that of least squares for p ≥ 6 (the estimate as fitted)",
            f"exact risk / p at least {1 - max(ratios('positive', 6)):.1e} below 1",
            verdict(max(ratios("positive", 6)) < 1),
        ],
        [
            "the same for the formula (1 - kappa) y",
            f"at most {max(ratios('plain', 8)):.4f} for p ≥ 8, but {min(at_six):.4f} to {max(at_six):.4f} for p = 6",
            verdict(max(ratios("plain", 6)) < 1),
        ],
        [
            "nothing is promised for p < 6",
            "highest risk / p of the fitted estimate: " + ", ".join(f"{v:.3f} (p = {p})" for p, v in above.items()),
            "-",
        ],
    ]


def picture(data: dict[str, Any]) -> Any:
    """Two panels: the formula, and the estimate as fitted; lines are exact, points Monte Carlo."""
    figure, axes = new_figure(1, 2, 4.6, 3.8)
    shown = np.array(data["norms"])
    fine = np.concatenate([[0.0], np.geomspace(0.02, shown.max(), 40)])
    kinds = (("plain", risk, "(1 − κ) y as it stands"), ("positive", positive_risk, "as fitted: b = 0 where κ ≥ 1"))
    markers = "ovs^D<>P"
    for axis, (kind, exact, title) in zip(axes[0], kinds, strict=True):
        axis.axhline(1, color="#595959", linewidth=1, linestyle="--")
        axis.annotate("least squares", (shown.max(), 1), (4, 0), textcoords="offset points", va="center")
        for p, colour, marker in zip(data["dimensions"], COLOURS, markers, strict=True):
            axis.plot(fine, [exact(p, v * p) / p for v in fine], color=colour, linewidth=1.4)
            cells = [data["risk"][f"{p},{v:g}"][kind] for v in shown]
            usable = kind == "positive" or p >= MC_FROM
            axis.errorbar(
                shown,
                [c["mean"] / p if usable else np.nan for c in cells],
                [2 * c["se"] / p if usable else np.nan for c in cells],
                color=colour,
                marker=marker,
                markersize=4.5,
                linestyle="none",
                label=f"p = {p}",
            )
        axis.set(xscale="symlog", ylim=(0, 1.6), xlabel="‖b‖² / p", title=title)
        axis.set_xscale("symlog", linthresh=0.5)
        axis.set_xticks([0, 0.5, 1, 2, 4, 8, 16], ["0", "½", "1", "2", "4", "8", "16"])
        axis.minorticks_off()
    axes[0, 0].set_ylabel("risk / p")
    handles, labels = axes[0, 1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center")
    return figure


def risk_table(data: dict[str, Any]) -> str:
    """Exact and simulated risks over p."""
    rows = []
    for p in data["dimensions"]:
        for norm in data["norms"]:
            v = data["risk"][f"{p},{norm:g}"]
            cells = []
            for kind in ("plain", "positive"):
                simulated = f"{v[kind]['mean'] / p:.4f} ± {v[kind]['se'] / p:.4f}"
                cells += [f"{v['exact'][kind] / p:.4f}", simulated if kind == "positive" or p >= MC_FROM else "-"]
            rows.append([f"{p}, {norm:g}", *cells])
    return table(["p, ‖b‖²/p", "formula, exact", "formula, simulated", "fitted, exact", "fitted, simulated"], rows)


def main() -> None:
    use_one_thread()
    args = arguments(__doc__)
    name = "paper_ridge_appendix_a"
    env, data = measured(name, args, PACKAGES, measure)
    package = data["package"]
    null = 100 * np.mean([v["tau2_null"] for v in package.values()])
    modes = max(v["modes"] for v in package.values())
    text = "\n\n".join(
        [
            f"Appendix A of the ridge paper: X = I, y ~ N(b, I). {data['draws']} draws a risk, {data['fits']} fits "
            "for each p. The prior is half-Cauchy.",
            claims(expectations(data)),
            save_figure(picture(data), args.out, name),
            "Lines are exact (Stein's identity on the left, quadrature on the right), points Monte Carlo with two "
            "standard errors.",
            "* At p = 6 the formula has exactly the risk of least squares, whatever b is: its risk is "
            "p − (p+2)(p−6) E[1/‖y‖²]. It dominates for p ≥ 7. The estimate of EM does not shrink beyond zero "
            "(kappa is at most 1) and has a smaller risk, so that it is better than least squares at p = 6 as well.\n"
            "* Below p = 5 the loss of the formula has no variance; only its exact risk is given.\n"
            f"* With the default, the mode as a density in tau2, {null:.0f} % of these fits have no interior mode; "
            "the closed form holds only for the mode in tau.\n"
            "* With the variance unknown and eliminated, minus the log density in tau is "
            "(p/2) log u − ((p+2)/2) log u + log u = 0 with u = 1 + tau2: it is flat, ‖y‖² alone cannot tell signal "
            f"from noise, and a mode is rounding error (fit() counts up to {modes:.0f}). The appendix needs the "
            "variance (`sigma2=`).",
            "Risk / p:",
            risk_table(data),
        ]
    )
    save(name, env, data, text, args.out)


if __name__ == "__main__":
    main()
