"""The command line: ``python -m pybayesridge``, or ``pybayesridge``."""

from __future__ import annotations

import codecs
import errno
import io
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
    _open_closed_streams()
    _let_stdout_take_any_text()
    try:
        arguments = make_parser().parse_args(argv)
        arguments.run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        _forget_stdout()
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
    except SystemExit:  # of --help; what follows imports what help does not need
        raise
    except _errors_of_input() as error:
        if _is_broken_pipe(error):
            _forget_stdout()
            return BROKEN_PIPE
        print(f"pybayesridge: {one_line(error)}", file=sys.stderr)
        try:
            sys.stdout.flush()
        except OSError:
            _forget_stdout()
        return BAD_INPUT
    return 0


def _open_closed_streams() -> None:
    """Send nowhere what goes to a stdout or stderr that the caller has closed, ``>&-``, for which Python has None."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - stays open until exit


def _let_stdout_take_any_text() -> None:
    """Give signs that the encoding of stdout lacks: as UTF-8 in files and pipes, on a terminal by their numbers.

    On Windows a file or a pipe has the code page of the system, which lacks most letters that names can have.
    """
    out = sys.stdout
    if not isinstance(out, io.TextIOWrapper) or "PYTHONIOENCODING" in os.environ:
        return
    if codecs.lookup(out.encoding).name == "utf-8":
        return
    if out.isatty():
        out.reconfigure(errors="backslashreplace")
    else:
        out.reconfigure(encoding="utf-8")


def _is_broken_pipe(error: Exception) -> bool:
    """Whether this is what Windows says of a pipe whose reader has gone. Of a file it would give the name."""
    windows = sys.platform == "win32"
    return windows and isinstance(error, OSError) and error.errno == errno.EINVAL and error.filename is None


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
