"""``python -m tests.fuzz``: many random problems beside the oracle; see :mod:`tests.fuzz.compare` for the rules.

And damaged files, see :mod:`tests.fuzz.files`; formulas with odd names, :mod:`tests.fuzz.formulas`; tables through
every entrance, :mod:`tests.fuzz.entrances`; several penalties beside a grid, :mod:`tests.fuzz.bands`; the sampler of
sets beside sums, :mod:`tests.fuzz.sets`, and for yes/no responses beside importance sampling,
:mod:`tests.fuzz.yes_no_sets`; other responses and what must not change, :mod:`tests.fuzz.responses`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from dataclasses import dataclass
from multiprocessing import Pool

from tests.fuzz.bands import compare_bands, make_bands
from tests.fuzz.compare import ALLOWED, LIMIT, Verdict, compare
from tests.fuzz.entrances import compare_table, make_table
from tests.fuzz.files import judge, make_damage
from tests.fuzz.formulas import compare_formula, make_formula
from tests.fuzz.linear_algebra import ENOUGH
from tests.fuzz.problems import make_problem
from tests.fuzz.responses import compare_responses, make_responses
from tests.fuzz.selection import compare_choice, make_choice
from tests.fuzz.sets import compare_sets, make_sets
from tests.fuzz.yes_no import compare_yes_no, make_yes_no
from tests.fuzz.yes_no_sets import compare_yes_no_sets, make_yes_no_sets

SEED = 20240607

KINDS = {
    "ridge": (make_problem, compare),
    "selection": (make_choice, compare_choice),
    "files": (make_damage, judge),
    "formulas": (make_formula, compare_formula),
    "entrances": (make_table, compare_table),
    "yes-no": (make_yes_no, compare_yes_no),
    "sets": (make_sets, compare_sets),
    "yes-no-sets": (make_yes_no_sets, compare_yes_no_sets),
    "bands": (make_bands, compare_bands),
    "responses": (make_responses, compare_responses),
}

SHARE = {
    "ridge": 1,
    "selection": 10,
    "files": 1,
    "formulas": 1,
    "entrances": 5,
    "yes-no": 5,
    "sets": 10,
    "yes-no-sets": 50,
    "bands": 10,
    "responses": 50,
}
"""There is one problem of a kind to so many that are asked for."""

WITHOUT_ORACLE = ("files", "formulas", "entrances", "yes-no", "sets", "yes-no-sets", "bands", "responses")
"""Kinds that are compared with something else than the oracle in long double."""


@dataclass(frozen=True)
class Job:
    """One problem to compare."""

    kind: str
    seed: int
    number: int

    @property
    def command(self):
        """What repeats it."""
        return f"python -m tests.fuzz --only {self.kind} --seed {self.seed} --start {self.number} --count 1"


def jobs_of(kinds, seed, start, count):
    """The problems to compare."""
    return [
        Job(kind, seed, number)
        for kind in kinds
        for number in range(start, start + max(1, count // (SHARE[kind] if len(kinds) > 1 else 1)))
    ]


def run_one(job):
    """Verdict of one problem; what it raises is a verdict too."""
    make, judge = KINDS[job.kind]
    try:
        return job, judge(make(job.seed, job.number))
    except Exception as error:  # any crash is a finding, to be reported with its number
        name = f"{job.seed}/{job.number} {job.kind}"
        return job, Verdict(name, "-", (), (), f"{type(error).__name__}: {error}")


def main(argv=None):
    """Run, print the worst of each kind and every silent discrepancy; the exit status is 1 if there is one."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument(
        "--count",
        type=int,
        default=10_000,
        help="how many ridge problems, formulas and damaged files; a fifth of tables, yes/no fits",
    )
    parser.add_argument("--start", type=int, default=0, help="number of the first problem")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--only", choices=list(KINDS), help="problems of one kind alone")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="how many processes")
    options = parser.parse_args(argv)
    if not ENOUGH and options.only not in WITHOUT_ORACLE:
        parser.error("this machine's long double is not longer than a double: there is no oracle here")
    jobs = jobs_of([options.only] if options.only else list(KINDS), options.seed, options.start, options.count)
    if options.jobs == 1 or len(jobs) == 1:
        verdicts = [run_one(job) for job in jobs]
    else:
        with Pool(options.jobs) as pool:
            verdicts = list(pool.imap(run_one, jobs, chunksize=8))
    return report(verdicts)


def show(verdict):
    """Everything that was compared of one problem."""
    print(verdict.name)
    for d in verdict.differences:
        print(f"  {d.quantity:14}[{d.target}] {d.error:8.1e}, the data allow {d.allowed:8.1e}")


def report(verdicts):
    """Print what was found."""
    print(f"{len(verdicts)} problems, by route: {dict(Counter(v.solver for _, v in verdicts))}")
    worst, loud, excused, faults = {}, 0, 0, 0
    for _, verdict in verdicts:
        for d in verdict.differences:
            loud += d.counts and d.announced
            excused += not d.counts and d.error > LIMIT
            if not d.counts and d.error <= LIMIT and d.error >= worst.get(d.quantity, (-1.0,))[0]:
                worst[d.quantity] = (d.error, verdict.name)
    print(f"Largest errors below {LIMIT:g}:")
    for quantity, (error, name) in sorted(worst.items()):
        print(f"  {quantity:20} {error:8.1e}  {name}")
    print(f"Above it, at most {ALLOWED:g} times what the data's last places do: {excused} values. Announced: {loud}.")
    if len(verdicts) == 1:
        show(verdicts[0][1])
    for job, verdict in verdicts:
        if verdict.failure is None and not verdict.faults:
            continue
        faults += 1
        print(f"SILENT {verdict.name} {verdict.solver}")
        if verdict.failure:
            print(f"    {verdict.failure}")
        for d in verdict.faults:
            print(f"    {d.quantity}[{d.target}]: error {d.error:.1e}, the data allow {d.allowed:.1e}")
        for message in verdict.says:
            print(f"    it says: {message}")
        print(f"    {job.command}")
    print(f"{faults} problems with a discrepancy that nothing announces")
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
