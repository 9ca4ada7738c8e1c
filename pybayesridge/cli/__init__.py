"""The command line: ``python -m pybayesridge``, or ``pybayesridge``."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from pybayesridge.cli.arguments import make_parser
from pybayesridge.cli.terminal import one_line

BAD_INPUT = 2
"""Exit status after one line on stderr."""

INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it."""

BROKEN_PIPE = 141
"""Exit status when the reader of stdout has gone, as shells have it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status: 0, or 2 after one line on stderr for bad input."""
    arguments = make_parser().parse_args(argv)
    try:
        arguments.run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        _forget_stdout()
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
    except _errors_of_input() as error:
        print(f"pybayesridge: {one_line(error)}", file=sys.stderr)
        try:
            sys.stdout.flush()
        except OSError:
            _forget_stdout()
        return BAD_INPUT
    return 0


def _errors_of_input() -> tuple[type[Exception], ...]:
    """What bad input raises. Formulaic is imported here, once there is an error, since it takes long."""
    from formulaic.errors import FormulaicError

    return ValueError, OSError, ImportError, MemoryError, FormulaicError


def _forget_stdout() -> None:
    """Send what is still buffered nowhere: Python flushes stdout once more at exit."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - stays open until exit
