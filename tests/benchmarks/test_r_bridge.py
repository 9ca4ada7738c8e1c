"""The page of what R adds, from made-up numbers."""

from benchmarks import r_bridge

ONE = {"python": 0.01, "r": 0.013, "summary": 0.1, "plot": 0.01, "predict": 0.02, "file": 2e6, "data": 1e6}


def test_methods_of_both_languages_are_compared_where_they_are_measured():
    both = {
        f"{method}_{language}": time for method in r_bridge.METHODS for language, time in [("python", 2), ("r", 2.5)]
    }
    text = r_bridge.page({"[1000, 50, 1]": ONE, "[100, 2000, 1]": ONE | both})
    assert "| 1000 × 50 × 1 | 10 ms | 13 ms | 3 ms | 6 ms |" in text
    for method in r_bridge.METHODS:
        assert f"| 100 × 2000 × 1 | {method}() | 2 s | 2.5 s | 1.2 |" in text
        assert text.count(f"| {method}() |") == 1
