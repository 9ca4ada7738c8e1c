"""A tenth of ``make fuzz``: random problems beside an oracle in long double. No discrepancy may be silent.

A failure names the command that repeats it.
"""

import pytest

from tests.fuzz.__main__ import SEED, jobs_of, run_one
from tests.fuzz.linear_algebra import ENOUGH

pytestmark = pytest.mark.skipif(not ENOUGH, reason="no long double beyond double precision: no oracle")

COUNT = 1000

CHUNK = 50

KERNELS = 10.0
"""Margin over what is allowed: problems at its edge pass it with the kernels of one processor and not of another."""


@pytest.mark.every_case
@pytest.mark.parametrize("kind", ["ridge", "selection"])
@pytest.mark.parametrize("start", range(0, COUNT, CHUNK))
def test_no_discrepancy_is_silent(kind, start):
    jobs = jobs_of([kind], SEED, start, CHUNK if kind == "ridge" else CHUNK // 10)
    told = []
    for job, verdict in map(run_one, jobs):
        faults = [fault for fault in verdict.faults if not fault.error <= KERNELS * fault.allowed]
        if verdict.failure or faults:
            told.append(f"{verdict.name}: {verdict.failure or faults}\n    {job.command}")
    assert not told, "\n".join(told)
