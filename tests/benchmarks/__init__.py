"""Tests of what the benchmarks compute. These are scripts: their folder goes on the path."""

import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
if not FOLDER.is_dir():
    pytest.skip("the benchmarks are not part of this copy", allow_module_level=True)
if str(FOLDER) not in sys.path:
    sys.path.insert(0, str(FOLDER))
