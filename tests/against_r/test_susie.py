"""susieR: inclusion probabilities where the answer is clear."""

import numpy as np
import pytest

from pybayesridge import SpikeSlab

pytestmark = [
    pytest.mark.r_packages("susieR"),
    pytest.mark.filterwarnings("ignore::pybayesridge.ConvergenceWarning"),
]

FIT = """
function(x, y) {
  fit <- susieR::susie(x, y, L = 10)
  list(pip = as.numeric(fit$pip))
}
"""


@pytest.mark.parametrize(("n", "p", "seed"), [(200, 50, 1), (100, 300, 2), (500, 1000, 3)])
def test_clear_signals(r, note, n, p, seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, p))
    signals = np.array([3, 17, 29, 41])
    y = x[:, signals] @ [1.5, -2.0, 1.8, 1.2] + rng.standard_normal(n)
    theirs = r(FIT, x=x, y=y)["pip"]
    ours = np.asarray(SpikeSlab(y, x).fit().inclusion_prob)[1:]
    assert (theirs[signals] > 0.99).all()
    assert np.delete(theirs, signals).max() < 0.5
    note("SUSIE_PIP", np.abs(ours - theirs)[signals].max())
    clear = np.flatnonzero(theirs < 0.01)
    assert clear.size > p / 2
    note("SUSIE_PIP", np.median(np.abs(ours - theirs)[clear]))
