"""Fuzzing: random problems beside an oracle in long double. ``python -m tests.fuzz --help``."""
