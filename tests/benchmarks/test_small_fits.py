"""The benchmark of small fits, at its smallest."""

from benchmarks import small_fits


def test_every_method_is_in_every_table(monkeypatch):
    monkeypatch.setattr(small_fits, "QUICK_REPETITIONS", 1)
    monkeypatch.setattr(small_fits, "QUICK_FITS", 2)
    text = small_fits.page(small_fits.measure(quick=True))
    assert "A loop of 2 fits" in text
    for method in small_fits.METHODS:
        assert text.count(f"| {method} |") == 2 + len(small_fits.FORMULAS)
