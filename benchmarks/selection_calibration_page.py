"""The page of ``selection_calibration.py``."""

from __future__ import annotations

from typing import Any

from benchmarks import common

FEWEST = 20
"""Columns of a bin that is shown."""


def percent(pair: list[float]) -> str:
    """A share and its standard error in per cent."""
    return f"{100 * pair[0]:.1f} ± {100 * pair[1]:.1f} %"


def page_of_errors(found: dict[str, Any]) -> str:
    """The table of quotients."""
    rows = [
        [
            f"{name} ({problem['runs']} runs)" if not i else "",
            quantity,
            f"{one['mean']:+.2f}",
            f"{one['sd']:.2f}",
            f"{100 * one['beyond_2']:.1f} %",
            f"{100 * one['beyond_3']:.2f} %",
            f"{one['largest']:.1f}",
        ]
        for name, problem in found.items()
        for i, (quantity, one) in enumerate(problem["of"].items())
    ]
    head = ["problem", "of", "mean", "root mean square", "beyond 2", "beyond 3", "largest"]
    return common.table(head, rows)


def page_of_calibration(name: str, one: dict[str, Any]) -> list[str]:
    """Bins and coverages of a setting."""
    rows = [
        [
            f"{b['low']:g} to {b['high']:g}",
            b["columns"],
            f"{b['said']:.4f}",
            f"{b['true']:.4f}",
            f"{b['error']:.4f}",
            f"{b['z']:+.1f}",
        ]
        for b in one["bins"]
        if b["columns"] >= FEWEST
    ]
    worst = max(abs(b["z"]) for b in one["bins"] if b["columns"] >= FEWEST)
    return [
        f"### {name}, {one['sets']} draws",
        f"AR({one['rho']:g}) columns, {', '.join(map(str, one['rows']))} rows in turn. The largest deviation of a "
        f"bin is {worst:.1f} standard errors. Coverage of equal-tailed 95 % intervals: coefficients that are in, "
        f"given that they are in, {percent(one['active_coverage'])} of {one['active']}"
        + (f" ({one['never_seen']} of them were in no kept state, and count as missed)" if one["never_seen"] else "")
        + f"; noise variance {percent(one['noise_coverage'])}; number of columns that are in (randomised within its "
        f"steps) {percent(one['size_coverage'])}. Mean positions of the truth in its posterior (0.5 is right): noise "
        f"{one['noise_position'][0]:.3f} ± {one['noise_position'][1]:.3f}, number of columns "
        f"{one['size_position'][0]:.3f} ± {one['size_position'][1]:.3f}. Converged: {one['converged']} of "
        f"{one['sets']}; largest standard error of a probability {one['largest_se']:.3f}; processor time of a fit "
        f"{common.show_seconds(one['median_seconds'])} in the median, {common.show_seconds(one['most_seconds'])} at "
        "most.",
        common.table(["said", "columns", "mean said", "true", "standard error", "difference / error"], rows),
    ]


def page_of_seeds(found: list[dict[str, Any]]) -> list[str]:
    """Fits with different seeds compared with a longer run."""
    rows = [
        [
            f"AR({one['rho']:g})",
            f"{min(one['size']):.1f} to {max(one['size']):.1f}",
            f"{min(one['size_se']):.2f} to {max(one['size_se']):.2f}",
            "{:.2f} ± {:.2f}".format(*one["long_size"]),
            f"{max(abs(z) for z in one['size_off']):.1f}",
            f"{one['size_apart']:.1f}",
            f"{one['prob_off']['sd']:.2f}",
            f"{100 * one['prob_off']['beyond_3']:.2f} %",
            f"{one['prob_off']['largest']:.1f}",
            f"{one['largest_gap']:.3f}",
            f"{min(one['seconds']):.1f} to {max(one['seconds']):.1f} s",
        ]
        for one in found
    ]
    head = ["columns", "expected size", "its s.e.", "in the long run", "largest difference / s.e.", "between fits"]
    head += ["probabilities: rms of difference / s.e.", "beyond 3", "largest", "largest difference", "time"]
    fits, converged = sum(one["seeds"] for one in found), sum(one["converged"] for one in found)
    return [
        "### Seeds, compared with a long run",
        "Data sets of 100 rows and 300 AR(1) columns, of which five explain half of the variance; everything is "
        "learned. The posterior holds small sets, and rarely far larger ones. Fits with different seeds by default "
        f"({converged} of {fits} converged), and one run of ten times the steps of the longest of them. Differences "
        "from it in standard errors, those of both runs together; between fits, the largest difference of two.",
        common.table(head, rows),
    ]


def page(found: dict[str, Any], names: tuple[str, ...]) -> str:
    """The whole page."""
    parts = []
    if "errors" in found:
        parts += [
            "## Standard errors",
            "Errors of the sampler relative to the sum over all sets, divided by their standard errors, over all "
            "columns or groups of all runs. Under a normal distribution the root mean square is 1, 4.6 % lie "
            "beyond 2 and 0.27 % beyond 3. The quotients follow rather a t distribution, since a standard error "
            "rests on the differences between 32 walkers: 1.03, 5.4 % and 0.53 %. Columns of one run are dependent. "
            "Runs are short: 100,000 steps of all walkers, a tenth of the least of a fit; the last problem stops by "
            "itself. Standard errors also count on sets that were not seen, so that they are too large, if "
            "anything, for columns that are hardly ever in.",
            page_of_errors(found["errors"]),
        ]
    if "problems" in found:
        parts += [
            "### Many problems",
            "The same of problems of 3 to 12 columns that are all different, with one run each: 6 to 120 rows, "
            "correlations of neighbouring columns from 0 to 0.95, no signal to strong ones, hyperparameters given or "
            "learned, groups; half of the runs stop by themselves at standard errors of 0.02 or 0.05, the others "
            "after 100,000 or 400,000 steps.",
            page_of_errors({"all problems": found["problems"]}),
        ]
    if "seeds" in found:
        parts += page_of_seeds(found["seeds"])
    if any(name in found for name in names):
        parts += ["## Draws from the model", "Probabilities of columns: mean said and share true, by bins."]
        for name in names:
            parts += page_of_calibration(name, found[name]) if name in found else []
    return "\n\n".join(parts)
