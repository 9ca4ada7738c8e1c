"""Exact selection: which columns are in, with coefficients and noise integrated out; enumeration or Monte Carlo.

Arrays in, frozen dataclasses out; nothing here sees a model, a frame or a name. `fit` is the way in. Of the data
`problem` keeps X'y, y'y and columns of X'X on demand; `grid` is the quadrature over what is not given; `collapsed`
is the posterior of a set. `enumeration` sums over all sets; `sampler` draws them, with `light` (walkers in compiled
code), `starts` (where they start), `estimates` (averages and their errors) and `traces` (what follows from the
states). `states`, `moments` and `credible` turn the answer into reports; `result` holds it.
"""
