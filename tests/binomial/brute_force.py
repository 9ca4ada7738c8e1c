"""Likelihoods, tilted moments and posteriors by brute force; nothing of the package is imported."""

from __future__ import annotations

import numpy as np
from scipy.special import log_expit, log_ndtr

LOG_F = {"logit": log_expit, "probit": log_ndtr}


def log_likelihood(successes, failures, eta, link):
    return successes * LOG_F[link](eta) + failures * LOG_F[link](-eta)


def legendre(low, high, panels, order=20):
    """Nodes and weights of a Gauss-Legendre rule on equal panels."""
    x, w = np.polynomial.legendre.leggauss(order)
    ends = np.linspace(low, high, panels + 1)
    half, middle = np.diff(ends) / 2, (ends[1:] + ends[:-1]) / 2
    return (middle[:, None] + half[:, None] * x).ravel(), (half[:, None] * w).ravel()


def tilted(successes, failures, link, mean, variance):
    """Log integral of likelihood times normal density, and the mean and variance of their product."""

    def log_density(eta):
        return log_likelihood(successes, failures, eta, link) - (eta - mean) ** 2 / (2 * variance)

    reach = 60 * np.sqrt(variance)
    low, high = min(mean - reach, -60.0), max(mean + reach, 60.0)
    for _ in range(9):
        grid = np.linspace(low, high, 4001)
        value = log_density(grid)
        inside = np.flatnonzero(value > value.max() - 40)
        low, high = grid[max(inside[0] - 1, 0)], grid[min(inside[-1] + 1, grid.size - 1)]
    eta, weight = legendre(low, high, 400)
    value = log_density(eta)
    density = weight * np.exp(value - value.max())
    total = density.sum()
    density /= total
    center = density @ eta
    log_total = value.max() + np.log(total) - 0.5 * np.log(2 * np.pi * variance)
    return log_total, center, density @ (eta - center) ** 2


def posterior(successes, failures, link, columns, t2, *, reach=14.0, points=161):
    """Log evidence, mean and covariance of intercept and at most 2 coefficients ~ N(0, t2) by a grid."""
    design = np.column_stack([np.ones(len(successes)), columns])
    mode, curvature = newton(successes, failures, link, design, t2)
    turn = np.linalg.cholesky(np.linalg.inv(curvature))
    grid = np.linspace(-reach, reach, points)
    unit = np.stack(np.meshgrid(*[grid] * design.shape[1], indexing="ij"), axis=-1).reshape(-1, design.shape[1])
    at = mode + unit @ turn.T
    value = -0.5 * (at[:, 1:] ** 2).sum(1) / t2 - 0.5 * columns.shape[1] * np.log(2 * np.pi * t2)
    for row, s, f in zip(design, successes, failures, strict=True):
        value += log_likelihood(s, f, at @ row, link)
    density = np.exp(value - value.max())
    cell = (grid[1] - grid[0]) ** design.shape[1] * abs(np.linalg.det(turn))
    log_evidence = value.max() + np.log(density.sum() * cell)
    density /= density.sum()
    mean = density @ at
    return log_evidence, mean, (at - mean).T @ ((at - mean) * density[:, None])


def newton(successes, failures, link, design, t2):
    """Posterior mode and curvature by Newton's method with numerical derivatives of the scalar likelihood."""
    penalty = np.diag(np.r_[0.0, np.full(design.shape[1] - 1, 1 / t2)])
    at, step = np.zeros(design.shape[1]), 1e-4
    for _ in range(100):
        eta = design @ at
        up, here, down = (log_likelihood(successes, failures, eta + d, link) for d in (step, 0, -step))
        slope, bend = (up - down) / (2 * step), np.maximum(-(up - 2 * here + down) / step**2, 1e-8)
        curvature = design.T @ (design * bend[:, None]) + penalty
        move = np.linalg.solve(curvature, design.T @ slope - penalty @ at)
        at = at + move / max(1.0, np.abs(move).max())
        if np.abs(move).max() < 1e-7:
            break
    return at, curvature
