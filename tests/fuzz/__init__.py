"""Fuzzing: random problems beside an oracle in long double, and damaged files. ``python -m tests.fuzz --help``."""
