"""Exact selection: which columns are in, with coefficients and noise integrated out; enumeration or Monte Carlo.

Arrays in, frozen dataclasses out; nothing here sees a model, a frame or a name. `fit` is the way in. Of the data
`problem` keeps X'y, y'y and columns of X'X on demand; `prior` is the prior of what is not given and `grid` its
quadrature; `collapsed` is the posterior of a set. `enumeration` sums over all sets; `sampler` is tempered Gibbs, with
`factor` (incremental factorisation), `odds` (of every column or group at once), `pairs` (less noise for correlated
columns) and `tallies` (averages and their errors). `states`, `moments` and `credible` turn the answer into reports;
`result` holds it.
"""
