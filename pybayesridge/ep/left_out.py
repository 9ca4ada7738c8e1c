"""Rows of a selection predicted from the others by the Gaussian of expectation propagation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pybayesridge.design.design import Design
from pybayesridge.ep.algorithms.solve import row_variances
from pybayesridge.ep.model.least_squares import Data
from pybayesridge.ep.selection import Selection
from pybayesridge.posterior.left_out import (
    LeftOut,
    NoDensityError,
    Noise,
    check_noise,
    given_components,
    joined,
    undetermined,
)

IMPROPER = (
    "without it the approximation by expectation propagation, which is made for all rows, is no distribution for "
    "some hyperparameters: use method='exact', or fit without this row to predict it"
)
"""Sites of negative precision can need the row."""

HALF, SHARE = 0.5, 0.01
"""Without a row of more leverage than the first (from the penalised columns, of what the others leave), sites of
which some are negative can be very different: by 20 nats at the worst seen. It matters where such hyperparameters
have more weight than the second."""


def rows_left_out(design: Design, data: Data, selection: Selection) -> LeftOut:
    """Predictions of every row from the others by EP's Gaussian; densities on the user's scale.

    The Gaussian that approximates the prior (EP's sites) is that of the fit to all rows, and so are hyperparameters
    at an estimate; those that are averaged over are weighted anew.

    Raises
    ------
    NoDensityError
        For a row that has none.
    """
    variance = np.array([[hyper.noise_var] for hyper in selection.hypers])
    check_noise(variance)
    negative = np.array([bool((result.site2 < 0.0).any()) for result in selection.results])
    noise, rss, y, pieces = Noise(float(design.nu), variance), np.ones_like(variance), design.y[:, 0], []
    for rows, x in design.row_pieces():
        own = (design.block.q[rows] ** 2).sum(axis=1)
        rotated = selection.rotation.rows(x)
        fitted, slack = np.empty((2, variance.size, x.shape[0]))
        for g, (result, hyper) in enumerate(zip(selection.results, selection.hypers, strict=True)):
            part = np.maximum(row_variances(hyper.likelihood(data), result, rotated), 0.0)
            fitted[g], slack[g] = rotated @ result.mean, 1.0 - (part / hyper.noise_var + own)
        stuck = undetermined(own)
        slack[:, stuck] = 0.0
        improper = np.flatnonzero((slack[selection.weights > 0] <= 0.0).any(axis=0) & ~stuck)
        if improper.size:
            raise NoDensityError(rows.start + int(improper[0]), IMPROPER)
        error = y[rows] - fitted
        error = np.divide(error, slack, out=np.zeros_like(error), where=slack > 0)
        found = given_components(selection.weights, error, slack, rss, noise, rows.start)
        doubtful = (slack < HALF * (1.0 - own)) & negative[:, None]
        pieces.append(replace(found, doubtful=selection.weights @ doubtful > SHARE))
    return joined(pieces).in_units(design.row_units)
