"""The summary of a spike-and-slab regression of yes/no responses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybayesridge.results.summary.formats import FormattedSummary
from pybayesridge.results.summary.spike_slab import Facts, expected_size, how, prior_of, summary_with
from pybayesridge.text import count, number

if TYPE_CHECKING:
    from pybayesridge.results.binary_selection import BinarySpikeSlabResults


def summary(res: BinarySpikeSlabResults, alpha: float, direction: bool = False) -> FormattedSummary:
    """See :meth:`BinarySpikeSlabResults.summary`."""
    return summary_with(res, alpha, "Spike-and-Slab Regression (binomial)", _facts(res), direction)


def _facts(res: BinarySpikeSlabResults) -> Facts:
    left = [
        ("Dep. Variable:", res.model.data.targets[0]),
        ("Model:", "SpikeSlab"),
        ("Family:", "binomial"),
        ("Link:", res.link),
        ("Event:", res.event),
        ("Method:", res.method),
        ("No. Observations:", count(int(res.nobs))),
    ]
    right = [
        ("No. Trials:", number(res.n_trials, 15)),
        ("No. Events:", number(res.n_events, 15)),
        (f"prior_inclusion ({how(res, 'prior_inclusion')}):", prior_of(res)),
        (f"slab_var ({how(res, 'slab_var')}):", number(res.slab_var)),
        ("Expected size:", expected_size(res)),
        (f"{res.method_entry.measure}:", number(res.residual, 2)),
        ("Converged:", "yes" if res.converged else "NO"),
    ]
    return left, right
