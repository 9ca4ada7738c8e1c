"""A tenth of ``make fuzz`` at most: random problems beside an oracle in long double. No discrepancy may be silent.

A failure names the command that repeats it.
"""

import pytest

from tests.effort import share
from tests.fuzz.__main__ import KINDS, SEED, SHARE, jobs_of, run_one
from tests.fuzz.linear_algebra import ENOUGH

pytestmark = pytest.mark.skipif(not ENOUGH, reason="no long double beyond double precision: no oracle")

COUNT = 1000

CHUNK = 50

SHARES = {**SHARE, "formulas": 5, "yes-no": 20, "bands": 50}
"""As those of ``make fuzz``, with less of what takes long."""

KERNELS = 10.0
"""Margin over what is allowed: problems at its edge pass it with the kernels of one processor and not of another."""

LONG = ("sets", "yes-no-sets", "responses")
"""Kinds that take long: ordinarily there are a tenth of them, of the others a half."""

CASES = [(kind, start) for kind in KINDS for start in share(range(0, COUNT, CHUNK), 10 if kind in LONG else 2)]


NEEDS = {"formulas": ("pyarrow",), "entrances": ("pyarrow", "polars")}
"""Optional packages through which the problems of a kind go."""


@pytest.mark.every_case
@pytest.mark.parametrize(("kind", "start"), CASES)
def test_no_discrepancy_is_silent(kind, start):
    for package in NEEDS.get(kind, ()):
        pytest.importorskip(package)
    jobs = jobs_of([kind], SEED, start, CHUNK // SHARES[kind])
    told = []
    for job, verdict in map(run_one, jobs):
        faults = [fault for fault in verdict.faults if not fault.error <= KERNELS * fault.allowed]
        if verdict.failure or faults:
            told.append(f"{verdict.name}: {verdict.failure or faults}\n    {job.command}")
    assert not told, "\n".join(told)
