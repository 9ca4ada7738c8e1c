"""Progress of sampling on a terminal, and what an interruption leaves."""

from __future__ import annotations

import io
import threading

import numpy as np
import pandas as pd
import pytest

from pybayesridge import ConvergenceWarning, SpikeSlab, progress
from pybayesridge.cli import terminal
from pybayesridge.selection import sampler


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
    res = fit_on(watched, model, monkeypatch, maxiter=40_000)
    assert "sampling: 1,024 steps" in watched.getvalue()
    assert watched.getvalue().endswith(progress.CLEAR)
    assert "\n" not in watched.getvalue()
    unseen = fit_on(plain, model, monkeypatch, maxiter=40_000)
    assert plain.getvalue() == ""
    np.testing.assert_array_equal(res.inclusion_prob, unseen.inclusion_prob)


def test_the_largest_error_is_that_of_the_last_look(model, monkeypatch):
    monkeypatch.setattr(progress, "DELAY", 0.0)
    monkeypatch.setattr(progress, "INTERVAL", 0.0)
    monkeypatch.setattr(sampler, "FIRST_CHECK", ((np.inf, 128),))
    watched = Terminal()
    monkeypatch.setattr("sys.stderr", watched)
    with pytest.warns(ConvergenceWarning, match="mcse=0.0001"):
        model.fit("exact", mcse=1e-4, maxiter=8000)
    assert "2,048 steps" in watched.getvalue()
    assert ", largest standard error 0.0" in watched.getvalue()
    assert "(mcse 0.0001)" in watched.getvalue()


def test_disp_shows_at_once(model, monkeypatch, capsys):
    watched = Terminal()
    fit_on(watched, model, monkeypatch, disp=True)
    assert "sampling: 1,024 steps" in watched.getvalue()
    assert "exact: " in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore::pybayesridge.ApproximationWarning")
def test_the_check_of_expectation_propagation_shows_its_steps(model, monkeypatch):
    watched = Terminal()
    monkeypatch.setattr("sys.stderr", watched)
    model.fit("ep", check=True, disp=True)
    assert "sampling: 1,024 steps" in watched.getvalue()


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


@pytest.mark.parametrize("flips", [2, 10, 200, 1501])
def test_an_interrupted_fit_keeps_what_was_drawn(model, flips, monkeypatch):
    whole = sampler._Walk._flip
    left = [flips]

    def flip(self, unit):
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        whole(self, unit)

    monkeypatch.setattr(sampler._Walk, "_flip", flip)
    with pytest.warns(ConvergenceWarning, match="NOT CONVERGED .interrupted: "):
        res = model.fit("exact", mcse=1e-6)
    assert not res.converged
    assert res.n_iter <= 16 * flips
    assert ((res.inclusion_prob >= 0) & (res.inclusion_prob <= 1)).all()
    assert np.isfinite(res.params).all()
    assert np.isfinite(res.conf_int()).all(axis=None)
    assert "NOT CONVERGED" in str(res.summary())
    assert len(res.models(3)) > 0
    assert len(res.sample(10, rng=0)) == 10


def test_an_interruption_before_the_first_step_ends_the_program(model, monkeypatch):
    def advance(self, steps, told):
        raise KeyboardInterrupt

    monkeypatch.setattr(sampler._Walk, "advance", advance)
    with pytest.raises(KeyboardInterrupt):
        model.fit("exact")
