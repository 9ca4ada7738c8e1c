"""Findings on a fit, which warnings, summaries, reports, JSON and R show."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from pybayesridge.text import listed

Severity = Literal["note", "warning"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A statement on the validity or the interpretation of a fit.

    Attributes
    ----------
    code : str
        The kind of finding; it does not change when the sentence is reworded.
    severity : {"note", "warning"}
        A warning concerns the validity of the numbers.
    category : type of warning or None
        The warning that ``fit`` issues; None where it issues none.
    text : str
        One sentence.
    targets : tuple of str
        The targets it concerns, where the model has several; empty where it concerns the whole fit.
    """

    code: str
    severity: Severity
    category: type[Warning] | None
    text: str
    targets: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """The text with the targets that it concerns."""
        if not self.targets:
            return self.text
        which = "target" if len(self.targets) == 1 else "targets"
        return f"{self.text.removesuffix('.')} ({which} {listed(self.targets)})."

    @property
    def labelled(self) -> str:
        """The sentence, marked where it is a warning."""
        return f"Warning: {self.sentence}" if self.severity == "warning" else self.sentence


def note(code: str, text: str, targets: tuple[str, ...] = ()) -> Finding:
    """A finding that concerns how the numbers are to be read."""
    return Finding(code, "note", None, text, targets)


def warning(code: str, text: str, category: type[Warning] | None = None, targets: tuple[str, ...] = ()) -> Finding:
    """A finding that concerns the validity of the numbers."""
    return Finding(code, "warning", category, text, targets)


def issue(findings: Iterable[Finding], *, stacklevel: int) -> None:
    """Issue the warnings of a fit.

    Parameters
    ----------
    findings : iterable of Finding
    stacklevel : int
        As ``warnings.warn`` counts it from the caller.
    """
    for finding in findings:
        if finding.category is not None:
            warnings.warn(finding.sentence, finding.category, stacklevel=stacklevel + 1)
