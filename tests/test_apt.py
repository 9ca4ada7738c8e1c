"""tools/apt waits for apt's locks, and says which other process holds one; with an apt-get that a test makes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a script for sh")

TOOLS = Path(__file__).parents[1] / "tools"

LOCKS = (
    "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 7 (apt-get)",
    "E: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), is another process using it?",
    "E: Unable to lock directory /var/cache/apt/archives/",
)

APT = """#!/bin/sh
echo "$DEBIAN_FRONTEND $LC_ALL $*" >>{folder}/calls
if [ "$(wc -l <{folder}/calls)" -gt {failures} ]; then exit {status}; fi
echo "{says}"
exit 100
"""


def run(folder, failures, says, *, status=0, seconds=20):
    """Run the script beside an apt-get that fails some times; its result, and how often apt-get was called."""
    script = folder / "apt-get"
    script.write_text(APT.format(folder=folder, failures=failures, says=says, status=status), encoding="utf-8")
    script.chmod(0o755)
    env = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}", "APT_WAIT": str(seconds)}
    done = subprocess.run(
        [TOOLS / "apt", "install", "-y", "a b"], capture_output=True, text=True, env=env, check=False
    )
    return done, (folder / "calls").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("says", LOCKS)
def test_it_waits_until_the_lock_is_free(says, tmp_path):
    done, calls = run(tmp_path, 2, says)
    assert done.returncode == 0
    assert calls == ["noninteractive C install -y a b"] * 3
    assert done.stderr.splitlines() == [
        f"apt: waiting for another process, at most 20 seconds: {says.removeprefix('E: ')}"
    ]


@pytest.mark.parametrize("says", LOCKS)
def test_it_gives_up_and_says_so(says, tmp_path):
    done, _ = run(tmp_path, 10**6, says, seconds=0)
    assert done.returncode == 75
    assert done.stderr.splitlines() == [f"apt: gave up after 0 seconds: {says.removeprefix('E: ')}"]


def test_other_errors_are_shown_at_once(tmp_path):
    done, calls = run(tmp_path, 10**6, "E: Unable to locate package a")
    assert done.returncode == 1
    assert len(calls) == 1
    assert done.stderr == "E: Unable to locate package a\n"


def test_every_tool_calls_apt_through_it():
    for script in TOOLS.iterdir():
        if script.name == "apt":
            continue
        lines = script.read_text(encoding="utf-8").splitlines()
        calls = [line for line in lines if not line.lstrip().startswith(("#", "say "))]
        direct = [line for line in calls if "apt-get update" in line or "apt-get install" in line]
        assert not [line for line in direct if not line.lstrip().startswith(("how=", "say "))], script.name
