"""``python -m tests.fuzz``: many random problems beside the oracle; see :mod:`tests.fuzz.compare` for the rules."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from multiprocessing import Pool

from tests.fuzz.compare import ALLOWED, LIMIT, compare
from tests.fuzz.linear_algebra import ENOUGH
from tests.fuzz.problems import make_problem

SEED = 20240607


def run_one(job):
    """Verdict of one problem; what it raises is a verdict too."""
    seed, number = job
    from tests.fuzz.compare import Verdict

    try:
        return number, compare(make_problem(seed, number))
    except Exception as error:  # any crash is a finding, to be reported with its number
        return number, Verdict(f"{seed}/{number}", "-", (), (), f"{type(error).__name__}: {error}")


def main(argv=None):
    """Run, print the worst of each kind and every silent discrepancy; the exit status is 1 if there is one."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="how many problems")
    parser.add_argument("--start", type=int, default=0, help="number of the first problem")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="how many processes")
    options = parser.parse_args(argv)
    if not ENOUGH:
        parser.error("this machine's long double is not longer than a double: there is no oracle here")
    numbers = range(options.start, options.start + options.count)
    jobs = [(options.seed, number) for number in numbers]
    if options.jobs == 1 or options.count == 1:
        verdicts = [run_one(job) for job in jobs]
    else:
        with Pool(options.jobs) as pool:
            verdicts = list(pool.imap(run_one, jobs, chunksize=8))
    return report(verdicts, options)


def show(verdict):
    """Everything that was compared of one problem."""
    print(verdict.name)
    for d in verdict.differences:
        print(f"  {d.quantity:14}[{d.target}] {d.error:8.1e}, the data allow {d.allowed:8.1e}")


def report(verdicts, options):
    """Print what was found."""
    print(f"{len(verdicts)} problems, by route: {dict(Counter(v.solver for _, v in verdicts))}")
    worst, loud, excused, faults = {}, 0, 0, 0
    for number, verdict in verdicts:
        for d in verdict.differences:
            loud += d.counts and d.announced
            excused += not d.counts and d.error > LIMIT
            if not d.counts and d.error <= LIMIT and d.error >= worst.get(d.quantity, (-1.0,))[0]:
                worst[d.quantity] = (d.error, number, verdict.name)
    print(f"Largest errors below {LIMIT:g}:")
    for quantity, (error, _, name) in sorted(worst.items()):
        print(f"  {quantity:14} {error:8.1e}  {name}")
    print(f"Above it, at most {ALLOWED:g} times what the data's last places do: {excused} values. Announced: {loud}.")
    if len(verdicts) == 1:
        show(verdicts[0][1])
    for number, verdict in verdicts:
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
        print(f"    python -m tests.fuzz --seed {options.seed} --start {number} --count 1")
    print(f"{faults} problems with a discrepancy that nothing announces")
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
