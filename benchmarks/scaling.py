"""Growth of time, memory and iterations of the package with n, p and q, compared with theory.

    python -m benchmarks.scaling [--quick] [--render] [--out FOLDER]

BayesRidge by "em", "exact" and "loocv" (fixed grid), SpikeSlab by "ep" with its hyperparameters given
(learning them takes a number of such fits that differs from one data set to the next): model and fit together, one
thread. Memory is the peak of what Python and NumPy allocate beyond X and y. Data are made with as much signal as
noise; SpikeSlab's have ten coefficients that are not zero.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from benchmarks.common import arguments, measured, peak_bytes, save, show_seconds, table, use_one_thread
from benchmarks.paper_ridge.figures_common import (
    BLUE,
    GREEN,
    ORANGE,
    PACKAGES,
    PINK,
    Style,
    new_figure,
    progress,
    save_figure,
    slope,
    timed,
    verdict,
)
from pybayesridge import BayesRidge, SpikeSlab

SLACK = 0.25
"""The orders are bounds: a slope agrees where it is at most this above the stated one."""
UPPER = 3
"""Slopes are those of this many largest sizes, where fixed costs weigh least."""
RIDGE = ("em", "exact", "loocv")
STYLES = {
    "em": Style("em", BLUE, "o"),
    "exact": Style("exact", ORANGE, "s"),
    "loocv": Style("loocv", GREEN, "^"),
    "SpikeSlab": Style("SpikeSlab auto", PINK, "D"),
    "plain": Style("em, accelerate=False", BLUE, "v", ":"),
}


@dataclass(frozen=True, slots=True)
class Sweep:
    """One variable rising, the others fixed.

    Attributes
    ----------
    title, variable : str
    sizes : tuple
    shape : (n, p, q)
        With None for the variable.
    time, memory : dict
        Stated exponent for each method.
    order : str
        The stated costs in words, of time.
    """

    title: str
    variable: str
    sizes: tuple[int, ...]
    shape: tuple[int | None, int | None, int | None]
    time: dict[str, float]
    memory: dict[str, float]
    order: str

    def at(self, size: int) -> tuple[int, int, int]:
        """The shape at one size."""
        n, p, q = (size if v is None else v for v in self.shape)
        return n, p, q


def sweeps(quick: bool) -> list[Sweep]:
    """The sizes to measure; a quarter of them for a quick run."""
    f = 1 if quick else 4

    def ridge(exponent: float) -> dict[str, float]:
        return dict.fromkeys(RIDGE, exponent)

    def slab(exponent: float) -> dict[str, float]:
        return {"SpikeSlab": exponent}

    n_sizes = tuple(f * v for v in (500, 1000, 2000, 4000, 8000, 16_000))
    wide = tuple(f * v for v in (500, 1000, 2000, 4000, 8000))
    tall = tuple(f * v for v in (12, 25, 50, 100, 200))
    return [
        Sweep("ridge, n", "n", n_sizes, (None, 50, 1), ridge(1), ridge(1), "n p² + l n p"),
        Sweep("ridge, p < n", "p", tall, (f * 1000, None, 1), ridge(2), ridge(2), "n p² + l n p"),
        Sweep("ridge, p > n", "p", wide, (100, None, 1), ridge(1), ridge(1), "n² p + l n²"),
        Sweep("ridge, q", "q", (1, 4, 16, 64, 256), (f * 500, 50, None), ridge(1), ridge(1), "n p² + (n + k) p q"),
        Sweep("SpikeSlab, n", "n", n_sizes, (None, 50, 1), slab(1), slab(1), "n p² + k p³"),
        Sweep("SpikeSlab, p < n", "p", tall, (f * 250, None, 1), slab(3), slab(2), "n p² + k p³"),
        Sweep("SpikeSlab, p > n", "p", tuple(v // 5 for v in wide), (100, None, 1), slab(1), slab(1), "k n² p"),
    ]


def data(n: int, p: int, q: int, spikes: bool) -> tuple[np.ndarray, np.ndarray]:
    """A response (n,) or (n, q) and standard normal columns; with `spikes` ten coefficients of 1, or half of all."""
    rng = np.random.default_rng([n, p, q])
    x = rng.standard_normal((n, p))
    if spikes:
        b = np.zeros((p, q))
        b[: min(10, p // 2)] = 1.0
    else:
        b = rng.standard_normal((p, q)) / np.sqrt(p)
    y = x @ b + rng.standard_normal((n, q))
    return (y[:, 0] if q == 1 else y), x


def fitter(method: str, y: np.ndarray, x: np.ndarray) -> Callable[[], Any]:
    """Model and fit by a method, as a function to be timed."""
    if method == "SpikeSlab":
        p = x.shape[1]
        known = {"prior_inclusion": min(10, p // 2) / p, "slab_var": 1.0, "noise_var": 1.0}
        return lambda: SpikeSlab(y, x, **known).fit()
    if method == "plain":
        return lambda: BayesRidge(y, x, prior="half-cauchy").fit("em", accelerate=False)
    return lambda: BayesRidge(y, x, prior="half-cauchy").fit(method)


def measure(quick: bool) -> list[dict[str, Any]]:
    """Seconds, bytes and iterations of every method at every size."""
    warnings.simplefilter("ignore")
    repetitions = 1 if quick else 3
    out = []
    for sweep in progress(sweeps(quick), "scaling"):
        methods: dict[str, dict[str, list[float]]] = {}
        for size in sweep.sizes:
            n, p, q = sweep.at(size)
            y, x = data(n, p, q, "SpikeSlab" in sweep.time)
            for method in sweep.time:
                run = fitter(method, y, x)
                found = methods.setdefault(method, {"seconds": [], "bytes": [], "iterations": [], "converged": []})
                found["seconds"].append(timed(run, repetitions))
                found["bytes"].append(peak_bytes(run))
                result = run()
                found["iterations"].append(float(np.max(result.n_iter)))
                found["converged"].append(bool(np.all(result.converged)))
                if method == "em":
                    plain = methods.setdefault("plain", {"iterations": []})
                    plain["iterations"].append(float(fitter("plain", y, x)().n_iter))
        out.append({"sweep": asdict(sweep), "methods": methods})
    return out


def rows(found: list[dict[str, Any]]) -> list[list[str]]:
    """A row for every method and sweep: measured and stated slopes of time and memory."""
    out = []
    for part in found:
        sweep = part["sweep"]
        sizes = sweep["sizes"][-UPPER:]
        for method, stated in sweep["time"].items():
            m = part["methods"][method]
            e, error = slope(sizes, m["seconds"][-UPPER:])
            b = slope(sizes, m["bytes"][-UPPER:])[0]
            n, p, q = (sweep["sizes"][-1] if v is None else v for v in sweep["shape"])
            steps = m["iterations"]
            plain = part["methods"].get("plain", {}).get("iterations") if method == "em" else None
            walked = f"{min(steps):.0f}…{max(steps):.0f}" + (f" ({min(plain):.0f}…{max(plain):.0f})" if plain else "")
            out.append(
                [
                    f"{sweep['title']}: {sweep['sizes'][0]} … {sweep['sizes'][-1]}",
                    method,
                    sweep["order"],
                    show_seconds(m["seconds"][-1]),
                    f"{stated:g}",
                    f"{e:.2f} ± {error:.2f}",
                    verdict(e <= stated + SLACK),
                    f"{m['bytes'][-1] / 2**20:.3g} ({m['bytes'][-1] / (8 * n * (p + q)):.2g})",
                    f"{sweep['memory'][method]:g}",
                    f"{b:.2f}",
                    verdict(b <= sweep["memory"][method] + SLACK),
                    walked if method in ("em", "SpikeSlab") else "-",
                    "yes" if all(m["converged"]) else f"**{sum(m['converged'])} of {len(steps)}**",
                ]
            )
    return out


def picture(found: list[dict[str, Any]]) -> Any:
    """Columns: sweeps; rows: seconds, MiB, iterations."""
    figure, axes = new_figure(3, len(found), 2.25, 2.1, sharex="col")
    kinds = (("seconds", "seconds", 1.0), ("bytes", "MiB beyond X and y", 2.0**20), ("iterations", "iterations", 1.0))
    for column, part in enumerate(found):
        sweep = part["sweep"]
        for row, (key, label, unit) in enumerate(kinds):
            axis = axes[row, column]
            for method, m in part["methods"].items():
                if key not in m or (key == "iterations" and method in ("exact", "loocv")):
                    continue
                axis.plot(sweep["sizes"], np.array(m[key]) / unit, **STYLES[method].options())
            axis.set(xscale="log", yscale="log")
            if key == "iterations":
                axis.set_ylim(1, max(50, 1.2 * axis.get_ylim()[1]))
            axis.minorticks_off()
            axis.set_xticks(
                sweep["sizes"][::2], [f"{v:,}".replace(",", " ") for v in sweep["sizes"][::2]], fontsize=8
            )
            if column == 0:
                axis.set_ylabel(label)
            if row == 0:
                axis.set_title(sweep["title"], fontsize=10)
        axes[-1, column].set_xlabel(sweep["variable"])
    handles: dict[str, Any] = {}
    for axis in axes.flat:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=len(handles))
    return figure


NOTES = f"""\
The ridge has the half-Cauchy prior. Terms with l, the number of penalties, apply to "loocv" only. Slopes are fitted
to the {UPPER} largest sizes; since orders are bounds, a slope agrees where it is at most {SLACK} above the stated
one. Smaller slopes are due to fixed costs (checks, results: some milliseconds) and to larger blocks, which use the
processor more efficiently. Memory: MiB at the largest size, in multiples of X and y in brackets, and its slope;
blocks of fixed size are included, so that it may not grow at all. Iterations: Newton steps to the fixed point of
EM, in brackets iterations of plain EM; sweeps of EP for SpikeSlab with given hyperparameters.
"""


def main() -> None:
    use_one_thread()
    args = arguments(__doc__)
    name = "scaling"
    env, found = measured(name, args, PACKAGES, measure)
    head = ["sweep", "method", "time is", "longest", "stated", "slope", "agrees"]
    head += ["MiB (times X and y)", "stated", "slope", "agrees", "iterations", "converged"]
    text = "\n\n".join([table(head, rows(found)), save_figure(picture(found), args.out, name), NOTES])
    save(name, env, found, text, args.out)


if __name__ == "__main__":
    main()
