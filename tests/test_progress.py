"""Progress of sampling on a terminal, and what an interruption leaves."""

from __future__ import annotations

import io
import re
import sys
import threading
import types
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from pybayesridge import ConvergenceWarning, SpikeSlab, progress
from pybayesridge.cli import terminal
from pybayesridge.ep.methods import SelectionOptions
from pybayesridge.selection import light, options
from pybayesridge.selection.estimates import Errors, Estimate
from pybayesridge.selection.sampler import AGREEMENT, OPTIONAL_STOPPING
from pybayesridge.streams.bar import progress_bar


class Terminal(io.StringIO):
    """Text that says it is a terminal."""

    def isatty(self):
        return True


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    x = pd.DataFrame(rng.normal(size=(60, 18))).add_prefix("x")
    return SpikeSlab(x["x0"] + 0.3 * x["x1"] + rng.normal(size=60), x)


def fit_on(stream, model, monkeypatch, **options):
    monkeypatch.setattr("sys.stderr", stream)
    try:
        return model.fit("exact", mcse=0.05, **options)
    finally:
        monkeypatch.undo()


def test_one_line_is_rewritten_and_cleared(monkeypatch):
    out = Terminal()
    monkeypatch.setattr(progress, "DELAY", 0.0)
    monkeypatch.setattr(progress, "INTERVAL", 0.0)
    with progress.line(stream=out) as show:
        show("one")
        show("two")
    assert out.getvalue() == f"{progress.CLEAR}one{progress.CLEAR}two{progress.CLEAR}"


class Cell:
    """What stands in the output of a cell, of a notebook whose IPython this is."""

    def __init__(self, monkeypatch):
        self.texts = []
        self.kernel = object()
        shell = types.ModuleType("IPython")
        shell.get_ipython = lambda: self
        shell.display = types.ModuleType("IPython.display")
        shell.display.display = self.display
        monkeypatch.setitem(sys.modules, "IPython", shell)
        monkeypatch.setitem(sys.modules, "IPython.display", shell.display)

    def display(self, data, *, raw, display_id):
        assert raw
        assert display_id
        self.texts.append(data["text/plain"])
        return self

    def update(self, data, *, raw):
        assert self.texts
        assert raw
        self.texts.append(data["text/plain"])


def test_a_notebook_shows_a_line_that_is_replaced_and_cleared(model, monkeypatch):
    monkeypatch.setattr(progress, "DELAY", 0.0)
    monkeypatch.setattr(progress, "INTERVAL", 0.0)
    cell = Cell(monkeypatch)
    model.fit("exact", mcse=0.05, maxiter=4_000_000)
    assert any("sampling: 64 steps" in text for text in cell.texts)
    assert cell.texts[-1] == ""


def test_a_console_of_ipython_is_no_notebook(monkeypatch):
    cell = Cell(monkeypatch)
    cell.kernel = None
    with progress.line(stream=io.StringIO(), at_once=True) as show:
        assert show is None


@pytest.mark.parametrize(("asked", "shown"), [(None, True), (True, True), (False, False)])
def test_passes_over_files_are_shown_in_notebooks(asked, shown, monkeypatch):
    monkeypatch.setattr(progress, "DELAY", 0.0)
    monkeypatch.setattr(progress, "INTERVAL", 0.0)
    cell = Cell(monkeypatch)
    for total, of in ((5000, "of 5,000 rows"), (None, "rows")):
        with progress_bar(total, "rows", asked, "reading") as bar:
            bar.update(1000)
            bar.update(500)
        assert (f"reading: 1,500 {of}" in cell.texts) == shown
        assert cell.texts[-1:] == [""] * shown


def test_consoles_that_cannot_rewrite_a_line_get_some(monkeypatch, capsys):
    monkeypatch.setattr(progress, "DELAY", 0.0)
    monkeypatch.setattr(progress, "BETWEEN_LINES", np.inf)
    with progress.lines(), progress.line() as show:
        show("one")
        show("two")
    assert capsys.readouterr().err == "one\n"


def test_what_is_quick_shows_nothing():
    out = Terminal()
    with progress.line(stream=out) as show:
        show("one")
    assert out.getvalue() == ""
    with progress.line(stream=out, at_once=True) as show:
        show("one")
        show("two")
    assert out.getvalue() == f"{progress.CLEAR}one{progress.CLEAR}"
    with progress.line(stream=io.StringIO(), at_once=True) as show:
        assert show is None


def test_a_long_fit_shows_steps_and_error(model, monkeypatch):
    monkeypatch.setattr(progress, "DELAY", 0.0)
    monkeypatch.setattr(progress, "INTERVAL", 0.0)
    watched, plain = Terminal(), io.StringIO()
    res = fit_on(watched, model, monkeypatch, maxiter=4_000_000)
    assert "sampling: 64 steps" in watched.getvalue()
    assert watched.getvalue().endswith(progress.CLEAR)
    assert "\n" not in watched.getvalue()
    unseen = fit_on(plain, model, monkeypatch, maxiter=4_000_000)
    assert plain.getvalue() == ""
    np.testing.assert_array_equal(res.inclusion_prob, unseen.inclusion_prob)


def test_the_largest_error_is_that_of_the_last_look(model, monkeypatch):
    monkeypatch.setattr(progress, "DELAY", 0.0)
    monkeypatch.setattr(progress, "INTERVAL", 0.0)
    watched = Terminal()
    monkeypatch.setattr("sys.stderr", watched)
    with pytest.warns(ConvergenceWarning, match="mcse=0.0001"):
        model.fit("exact", mcse=1e-4, maxiter=1_500_000)
    assert "sampling: 64 steps" in watched.getvalue()
    assert ", largest standard error 0.0" in watched.getvalue()
    assert "(mcse 0.0001)" in watched.getvalue()
    assert re.search(r"about \d+ (s|min) left", watched.getvalue())


def estimate(se: float, mean_error: float = 0.0, agreement: float = 1.0, effective: float = np.inf) -> Estimate:
    zero = np.zeros(1)
    errors = Errors(zero, zero, 0.0, 0.0, 0.0)
    return Estimate(zero, np.array([se]), zero, zero, zero, zero, errors, mean_error, agreement, effective, 1.0)


def test_the_time_left_is_that_of_what_takes_longest(monkeypatch):
    """Variances fall as the walk grows: of an error four times too large 15 times the time so far is left."""
    now, texts = [100.0], []
    monkeypatch.setattr(options.time, "monotonic", lambda: now[0])
    asked = SelectionOptions(1e-4, 10**9, 0.5, True, 0.01, 4, 0, 1.0)
    show = options.with_progress(asked, texts.append).progress
    show(10, None)
    now[0] = 102.0
    first = estimate(0.04 / OPTIONAL_STOPPING)
    show(1000, first)
    now[0] = 112.0
    show(6000, first)
    now[0] = 132.0
    show(16000, estimate(0.01 / OPTIONAL_STOPPING))
    assert texts[0] == "sampling: 10 steps"
    assert texts[1].endswith("(mcse 0.01), about 30 s left")
    assert texts[2].endswith(", about 20 s left")
    assert "left" not in texts[3]
    assert options.longer(estimate(0.0, agreement=np.sqrt(1 + 3 * (AGREEMENT**2 - 1))), 0.01) == pytest.approx(3)
    assert options.longer(estimate(0.0, mean_error=0.2 / OPTIONAL_STOPPING), 0.01) == pytest.approx(4)
    assert options.longer(estimate(0.0, effective=100.0), 0.01) == pytest.approx(4)
    limited = options.with_progress(replace(asked, maxiter=2000), texts.append).progress
    now[0] += 10.0
    limited(1000, first)
    assert texts[-1].endswith(", about 10 s left")
    assert [options.duration(s) for s in (0.2, 89.0, 300.0, 7200.0)] == ["1 s", "89 s", "5 min", "2.0 h"]


def test_disp_shows_at_once(model, monkeypatch, capsys):
    watched = Terminal()
    fit_on(watched, model, monkeypatch, disp=True)
    assert "sampling: 64 steps" in watched.getvalue()
    assert "exact: " in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore::pybayesridge.ApproximationWarning")
def test_the_check_of_expectation_propagation_shows_its_steps(model, monkeypatch):
    watched = Terminal()
    monkeypatch.setattr("sys.stderr", watched)
    model.fit("ep", check=True, disp=True)
    assert "sampling: 64 steps" in watched.getvalue()


def test_the_command_line_shows_it_on_its_own_line(monkeypatch):
    monkeypatch.setattr(terminal, "DELAY", 0.0)
    monkeypatch.setattr(terminal, "INTERVAL", 0.01)
    seen = threading.Event()

    class Watched(Terminal):
        def write(self, text):
            if "fitting … 0 s, sampling: 8 steps" in text:
                seen.set()
            return super().write(text)

    out = Watched()
    with terminal.progress("fitting", quiet=False, stream=out), progress.line(stream=out) as show:
        show("sampling: 8 steps")
        assert seen.wait(10)
    quiet = Terminal()
    with terminal.progress("fitting", quiet=True, stream=quiet), progress.line(stream=quiet, at_once=True) as show:
        show("sampling: 8 steps")
    assert quiet.getvalue() == ""


@pytest.mark.parametrize("calls", [2, 10, 40, 150])
def test_an_interrupted_fit_keeps_what_was_drawn(model, calls, monkeypatch):
    whole = light.Walkers.advance
    left = [calls]

    def advance(self, *args):
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        return whole(self, *args)

    monkeypatch.setattr(light.Walkers, "advance", advance)
    with pytest.warns(ConvergenceWarning, match="NOT CONVERGED .interrupted: "):
        res = model.fit("exact", mcse=1e-6)
    assert not res.converged
    assert res.n_iter > 0
    assert ((res.inclusion_prob >= 0) & (res.inclusion_prob <= 1)).all()
    assert np.isfinite(res.params).all()
    assert np.isfinite(res.conf_int()).all(axis=None)
    assert "NOT CONVERGED" in str(res.summary())
    assert len(res.models(3)) > 0
    assert len(res.sample(10, rng=0)) == 10


def test_an_interruption_before_the_first_step_ends_the_program(model, monkeypatch):
    def advance(self, *args):
        raise KeyboardInterrupt

    monkeypatch.setattr(light.Walkers, "advance", advance)
    with pytest.raises(KeyboardInterrupt):
        model.fit("exact")
