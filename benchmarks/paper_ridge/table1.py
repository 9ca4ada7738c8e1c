"""Table 1 of the ridge paper: how the cost of EM, leave-one-out and naive EM grows, measured.

    python -m benchmarks.paper_ridge.table1 [--quick] [--render] [--out FOLDER]

Every term of the stated costs is measured by itself, one variable rising and the others fixed, where it dominates:
the rotation O(m r^2), EM's loop O(k q r), LOOCV's loop O(l q n r), naive EM's O(k p^3 q). Then whole fits in the
regime of the table's last column, p = q = sqrt(n). All are the bare algorithms of algorithms.py, one thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.paper_ridge.algorithms import FIXED_GRID, Rotated, em, loocv, naive_em, rotate
from benchmarks.paper_ridge.figures_common import (
    BLUE,
    GREEN,
    ORANGE,
    Style,
    arguments,
    claims,
    clock,
    local_slopes,
    measured,
    new_figure,
    progress,
    save,
    save_figure,
    show_seconds,
    slope,
    table,
    timed,
    use_one_thread,
    verdict,
)

TOLERANCE = 0.25
"""A slope agrees where it is within this of the stated one."""
ITERATIONS = 10
PENALTIES = 5
WHOLE_GRID = FIXED_GRID[::5]
"""Penalties of whole fits: l = 20."""

Term = tuple[str, str, float, tuple[int, ...], Callable[[int], Callable[[], Any]]]
"""Name, variable, stated exponent, sizes, and what makes the function to be timed at a size."""


def rotated_problem(r: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, float]:
    """Squared singular values, c and y'y as of r standard normal columns with n = 4 r and unit noise."""
    rng = np.random.default_rng([r, seed])
    s2 = 4 * r * rng.uniform(0.25, 2.25, r)
    z = np.sqrt(s2 / r) * rng.standard_normal(r) + rng.standard_normal(r)
    return s2, np.sqrt(s2) * z, float(z @ z + 3 * r)


def rows(n: int, p: int) -> tuple[np.ndarray, np.ndarray]:
    """Standard normal columns and a response with as much signal as noise."""
    rng = np.random.default_rng([n, p])
    x = rng.standard_normal((n, p))
    return x, x @ rng.standard_normal(p) / np.sqrt(p) + rng.standard_normal(n)


def _rotation(n: int, p: int, left: bool) -> Callable[[], Any]:
    x, y = rows(n, p)
    return lambda: rotate(x, y, left)


def _em_loop(r: int, iterations: int = ITERATIONS, targets: int = 1) -> Callable[[], Any]:
    s2, c, yy = rotated_problem(r)

    def run() -> None:
        for _ in range(targets):
            em(s2, c, yy, 4 * r, r, epsilon=-1.0, maxiter=iterations)

    return run


def _left(n: int, r: int) -> tuple[Rotated, np.ndarray]:
    """A rotation with orthonormal left vectors, without the cost of making one from data."""
    rng = np.random.default_rng([n, r])
    u = np.linalg.qr(rng.standard_normal((n, r)))[0]
    y = rng.standard_normal(n)
    s2 = n * np.linspace(0.5, 2, r)
    return Rotated(s2, np.sqrt(s2) * (u.T @ y), np.eye(r), u), y


def _loocv_loop(n: int, r: int, penalties: int = PENALTIES, targets: int = 1) -> Callable[[], Any]:
    rotated, y = _left(n, r)
    grid = np.logspace(10, -10, penalties)

    def run() -> None:
        for _ in range(targets):
            loocv(rotated, y, grid, intercept=False)

    return run


def _naive_loop(p: int, iterations: int = 2, targets: int = 1) -> Callable[[], Any]:
    x, y = rows(2 * p, p)
    gram, xty, yy = x.T @ x, x.T @ y, float(y @ y)

    def run() -> None:
        for _ in range(targets):
            naive_em(gram, xty, yy, y.size, epsilon=-1.0, maxiter=iterations)

    return run


def _divisions(r: int) -> Callable[[], Any]:
    s2, c, _ = rotated_problem(r)
    return lambda: [c / s2 for _ in range(ITERATIONS)]


def _product(p: int) -> Callable[[], Any]:
    x, _ = rows(p, p)
    return lambda: x @ x


def terms(quick: bool) -> list[Term]:
    """A measured operation and its sizes."""
    f = 1 if quick else 4

    def by(*sizes: int) -> tuple[int, ...]:
        return tuple(f * v for v in sizes)

    tall, thin = by(10_000, 20_000, 40_000, 80_000), by(20_000, 40_000, 80_000, 160_000)
    long = by(50_000, 100_000, 200_000, 400_000)
    square = (100, 200, 400) if quick else (400, 600, 900, 1300)
    return [
        ("rotation, n > p", "m", 1, tall, lambda n: _rotation(n, 60, False)),
        ("rotation, n > p", "r", 2, by(32, 64, 128, 192), lambda p: _rotation(f * 2000, p, False)),
        ("rotation, n < p", "m", 1, thin, lambda p: _rotation(20, p, False)),
        ("rotation, n < p", "r", 2, by(12, 24, 48, 72), lambda n: _rotation(n, f * 2000, False)),
        ("rotation with U", "m", 1, tall, lambda n: _rotation(n, 60, True)),
        ("rotation with U", "r", 2, by(32, 64, 128, 192), lambda p: _rotation(f * 2000, p, True)),
        ("EM loop", "r", 1, long, lambda r: _em_loop(r)),
        ("EM loop", "k", 1, (5, 10, 20, 40, 80), lambda k: _em_loop(f * 5000, k)),
        ("EM loop", "q", 1, (1, 2, 4, 8, 16), lambda q: _em_loop(f * 5000, 5, q)),
        ("LOOCV loop, small", "n", 1, by(500, 1000, 2000, 4000, 8000), lambda n: _loocv_loop(n, 20)),
        ("LOOCV loop", "n", 1, thin, lambda n: _loocv_loop(n, 20)),
        ("LOOCV loop", "r", 1, by(20, 40, 80, 160), lambda r: _loocv_loop(f * 5000, r)),
        ("LOOCV loop", "l", 1, (5, 10, 20, 40, 80), lambda l: _loocv_loop(f * 2000, 40, l)),
        ("LOOCV loop", "q", 1, (1, 2, 4, 8, 16), lambda q: _loocv_loop(f * 2000, 40, 5, q)),
        ("naive EM loop", "p", 3, square, lambda p: _naive_loop(p)),
        ("naive EM loop", "k", 1, (2, 4, 8, 16), lambda k: _naive_loop(f * 50, k)),
        ("naive EM loop", "q", 1, (1, 2, 4, 8), lambda q: _naive_loop(f * 50, 2, q)),
        ("control: a copy of X, n < p", "m", 1, thin, lambda p: rows(20, p)[0].copy),
        ("control: a division, EM loop", "r", 1, long, _divisions),
        ("control: a product, naive EM loop", "p", 3, square, _product),
    ]


def whole_fits(n: int) -> dict[str, Callable[[], Any]]:
    """The three procedures from data on, for p = q = sqrt(n); naive EM with the iterations EM took."""
    p = round(np.sqrt(n))
    rng = np.random.default_rng(n)
    x = rng.standard_normal((n, p))
    y = x @ rng.standard_normal((p, p)) / np.sqrt(p) + rng.standard_normal((n, p))

    def run_em() -> None:
        rotated = rotate(x, y)
        for t in range(p):
            em(rotated.s2, rotated.c[:, t], float(y[:, t] @ y[:, t]), n, p)

    def run_loocv() -> None:
        rotated = rotate(x, y, left=True)
        for t in range(p):
            loocv(Rotated(rotated.s2, rotated.c[:, t], rotated.v, rotated.u), y[:, t], WHOLE_GRID, intercept=False)

    def run_naive() -> None:
        gram, xty = x.T @ x, x.T @ y
        for t in range(p):
            naive_em(gram, xty[:, t], float(y[:, t] @ y[:, t]), n)

    return {"EM": run_em, "LOOCV": run_loocv, "naive EM": run_naive}


def iterations(n: int) -> float:
    """Mean number of EM's iterations in `whole_fits`."""
    p = round(np.sqrt(n))
    rng = np.random.default_rng(n)
    x = rng.standard_normal((n, p))
    y = x @ rng.standard_normal((p, p)) / np.sqrt(p) + rng.standard_normal((n, p))
    rotated = rotate(x, y)
    return float(np.mean([em(rotated.s2, rotated.c[:, t], float(y[:, t] @ y[:, t]), n, p).n_iter for t in range(p)]))


def measure(quick: bool) -> dict[str, Any]:
    """Least times of every term at every size, and of whole fits."""
    repetitions = 2 if quick else 3
    found = []
    for name, variable, stated, sizes, make in progress(terms(quick), "table 1, terms"):
        seconds = [timed(make(size), repetitions) for size in sizes]
        found.append({"name": name, "variable": variable, "stated": stated, "sizes": sizes, "seconds": seconds})
    sizes = (100, 200, 400) if quick else (800, 1600, 3200, 6400)
    whole: dict[str, list[float]] = {"EM": [], "LOOCV": [], "naive EM": []}
    for function in whole_fits(sizes[0]).values():
        function()
    for n in progress(sizes, "table 1, whole fits"):
        for name, function in whole_fits(n).items():
            start = clock()
            function()
            whole[name].append(clock() - start)
    return {"terms": found, "whole": {"sizes": sizes, "seconds": whole, "iterations": [iterations(n) for n in sizes]}}


def term_rows(found: list[dict[str, Any]]) -> list[list[str]]:
    """Rows of the table of slopes."""
    out = []
    for term in found:
        e, error = slope(term["sizes"], term["seconds"])
        grown = (term["sizes"][-1] / term["sizes"][0]) ** term["stated"]
        out.append(
            [
                term["name"],
                term["variable"],
                f"{term['sizes'][0]} … {term['sizes'][-1]}",
                f"{show_seconds(term['seconds'][0])} … {show_seconds(term['seconds'][-1])}",
                f"{term['stated']:g}",
                f"{e:.2f} ± {error:.2f}",
                f"{local_slopes(term['sizes'], term['seconds'])[-1]:.2f}",
                f"{term['seconds'][-1] / term['seconds'][0] / grown:.2f}",
                "-" if term["name"].startswith("control") else verdict(abs(e - term["stated"]) <= TOLERANCE),
            ]
        )
    return out


def expectations(whole: dict[str, Any]) -> list[list[str]]:
    """Rows about whole fits: the last column of the paper's table."""
    sizes, seconds = whole["sizes"], whole["seconds"]
    slopes = {name: slope(sizes, s) for name, s in seconds.items()}
    last = {name: local_slopes(sizes, s)[-1] for name, s in seconds.items()}
    ratio = [a / b for a, b in zip(seconds["LOOCV"], seconds["EM"], strict=True)]
    naive = [a / b for a, b in zip(seconds["naive EM"], seconds["EM"], strict=True)]
    stated = {"EM": "k n + n²", "LOOCV": "l n²", "naive EM": "k n²"}
    k = whole["iterations"]
    # l q n r with p = q = r = sqrt(n).
    unit = [t / (WHOLE_GRID.size * round(np.sqrt(n)) ** 2 * n) for n, t in zip(sizes, seconds["LOOCV"], strict=True)]
    rows_ = [
        [
            f"{name}: at most n² in n ({stated[name]})",
            f"exponent {e:.2f} ± {error:.2f}, between the two largest n {last[name]:.2f}",
            verdict(last[name] < 2 + TOLERANCE),
        ]
        for name, (e, error) in slopes.items()
    ]
    return [
        *rows_,
        [
            "LOOCV costs up to l = 20 times EM where n² dominates both",
            f"{ratio[0]:.3g} times at n = {sizes[0]}, {ratio[-1]:.3g} times at n = {sizes[-1]}",
            verdict(ratio[-1] > ratio[0] > 1),
        ],
        [
            "naive EM costs up to k times EM",
            f"{naive[0]:.3g} times at n = {sizes[0]}, {naive[-1]:.3g} times at n = {sizes[-1]}",
            verdict(naive[-1] > 1),
        ],
        [
            "LOOCV's time for each of l q n r",
            f"{', '.join(f'{1e9 * v:.2f}' for v in unit)} ns for n = {', '.join(map(str, sizes))}",
            "-",
        ],
        [
            "k does not grow with n",
            f"mean iterations {', '.join(f'{v:.1f}' for v in k)}",
            verdict(k[-1] <= k[0] + 1),
        ],
    ]


def picture(data: dict[str, Any]) -> Any:
    """One panel for each variable and one for whole fits, with the stated slopes dotted."""
    found = data["terms"]
    figure, axes = new_figure(2, 4, 3.0, 2.7)
    groups: dict[str, list[dict[str, Any]]] = {}
    for term in found:
        if term["name"].startswith("control"):
            continue
        groups.setdefault(term["name"], []).append(term)
    colours = (BLUE, ORANGE, GREEN, "#CC79A7")
    for axis, (name, members) in zip(axes.flat, groups.items(), strict=False):
        for term, colour, marker in zip(members, colours, "os^D", strict=False):
            x = np.array(term["sizes"], dtype=float) / term["sizes"][0]
            label = f"{term['variable']} from {term['sizes'][0]:,}".replace(",", " ")
            axis.plot(x, term["seconds"], **Style(label, colour, marker).options())
            axis.plot(x, term["seconds"][-1] * (x / x[-1]) ** term["stated"], ":", color=colour, linewidth=1)
        axis.set_title(name, fontsize=10)
        axis.set_xlabel("size / smallest")
    whole = data["whole"]
    axis = axes.flat[len(groups)]
    for (name, seconds), colour, marker in zip(whole["seconds"].items(), colours, "os^", strict=False):
        axis.plot(whole["sizes"], seconds, **Style(name, colour, marker).options())
    x = np.array(whole["sizes"], dtype=float)
    axis.plot(x, whole["seconds"]["LOOCV"][-1] * (x / x[-1]) ** 2, ":", color=ORANGE, linewidth=1)
    axis.set_title("whole fits, p = q = √n", fontsize=10)
    axis.set_xlabel("n")
    for axis in axes.flat[: len(groups) + 1]:
        axis.set(xscale="log", yscale="log")
        ticks = [v for v in (1, 2, 4, 8, 16) if v <= axis.get_xlim()[1]] if axis.get_xlim()[0] < 2 else whole["sizes"]
        axis.set_xticks(ticks, [f"{v:g}" for v in ticks])
        axis.minorticks_off()
        low, high = axis.get_ylim()
        axis.set_ylim(low, high * (high / low) ** 0.45)
        axis.legend(fontsize=8, loc="upper left")
    for axis in axes[:, 0]:
        axis.set_ylabel("seconds")
    for axis in axes.flat[len(groups) + 1 :]:
        axis.set_axis_off()
    return figure


NOTES = f"""\
Slopes of log time on log size by least squares with their standard errors, and between the two largest sizes; dotted
lines have the stated slopes. A slope agrees where it is within {TOLERANCE} of the stated one. "Unit cost" is the time
at the largest size over what the stated growth makes of that at the smallest.

* The costs count operations. An operation takes less time in larger blocks, which use the processor more
  efficiently: BLAS reaches its full speed only at some hundred columns, which reduces the slopes in r and p by some
  tenths, and fixed costs of a call reduce them further for small sizes.
* An operation takes more time if the arrays exceed the caches of the processor: the LOOCV loop reads two n × r
  arrays for each penalty. "LOOCV loop, small" crosses this limit intentionally; whole fits cross it too, which
  affects the time per unit of l q n r.
* Controls are elementary operations on arrays of the same sizes. The slope of the EM loop equals that of a division
  of its arrays: the excess over 1 is due to the memory of the machine and not to the algorithm. A copy of X
  explains only part of the excess over 1 for n < p; the rest (the LAPACK SVD of a long, thin matrix) was not
  investigated.
* For naive EM the product of matrices has its slope of 3 at these sizes already, the inverse only towards the end:
  its blocks are small, and at p = 400 they do not keep the processor busy. The stated slope is that of operations.
* For p = q = √n the cost of EM is negligible compared with LOOCV: its n² is that of the decomposition, which is
  computed once for all targets, whereas the l n² of LOOCV is not shared. The ratios are therefore above l.
* The loops over targets (q) are Python loops over one target at a time, as in the tables of the paper; their slope
  shows only that no computation is shared. The package iterates on all targets together.
* Naive EM inverts a p × p matrix in every iteration, with X'X and X'y made once.
"""


def main() -> None:
    use_one_thread()
    args = arguments(__doc__)
    name = "paper_ridge_table1"
    env, data = measured(name, args, ["numpy", "scipy", "matplotlib"], measure)
    head = ["term", "variable", "sizes", "times", "stated slope", "measured", "at the end", "unit cost", "agrees"]
    text = "\n\n".join(
        [
            "Table 1 of the ridge paper: stated and measured growth of costs.",
            table(head, term_rows(data["terms"])),
            "Whole fits, p = q = √n (rounded), l = 20:",
            claims(expectations(data["whole"])),
            save_figure(picture(data), args.out, name),
            NOTES,
        ]
    )
    save(name, env, data, text, args.out)


if __name__ == "__main__":
    main()
