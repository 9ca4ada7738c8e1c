"""Ridges with several penalties by a dense grid over the variances of the bands."""

import numpy as np
from scipy.special import gammaln, logsumexp
from scipy.stats import t as student


def dense_grid(y, x, band, *, step=0.5, low=-30.0, high=22.0, weights=None, z=None, standardize=True, sigma2=None):
    """Everything by a trapezoidal rule over the logs of the variances, from the normal equations at each point."""
    n, band = len(y), np.asarray(band)
    w = np.ones(n) if weights is None else weights / weights.mean()
    z = np.ones((n, 1)) if z is None else z
    k, count = z.shape[1], band.max() + 1
    mean = np.average(x, axis=0, weights=w)
    sd = np.sqrt(np.average((x - mean) ** 2, axis=0, weights=w)) if standardize else np.ones(x.shape[1])
    root = np.sqrt(w)[:, None]
    q, xs, yw = np.linalg.qr(root * z)[0], root * x / sd, root[:, 0] * y
    outside = xs - q @ (q.T @ xs)
    size = np.array([(outside[:, band == j] ** 2).sum() / n for j in range(count)])
    both, nu = np.hstack([root * z, xs]), n - k
    axes = [np.arange(low, high, step)] * count
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, count)
    of_column = np.hstack([np.zeros((len(points), k)), np.exp(-points[:, band])])
    precision = both.T @ both + of_column[:, None, :] * np.eye(k + x.shape[1])
    inverse = np.linalg.inv(precision)
    center = inverse @ (both.T @ yw)
    rss = ((yw - center @ both.T) ** 2).sum(axis=1) + (of_column * center**2).sum(axis=1)
    determinant = np.linalg.slogdet(precision)[1] + points[:, band].sum(axis=1)
    width = np.exp(points) * size
    total = width.sum(axis=1)
    logs = (
        0.5 * np.log(total) - np.log1p(total) + 0.5 * np.log(width / total[:, None]).sum(axis=1) - 0.5 * determinant
    )
    logs += gammaln(count / 2) - count / 2 * np.log(np.pi) - np.log(np.pi) + 0.5 * np.log(w).sum()
    if sigma2 is None:
        logs += gammaln(nu / 2) - nu / 2 * np.log(np.pi * rss)
        noise, df, factor = rss / nu, nu, nu / (nu - 2)
    else:
        logs += -nu / 2 * np.log(2 * np.pi * sigma2) - rss / (2 * sigma2)
        noise, df, factor = np.full(len(points), sigma2), np.inf, 1.0
    weight = np.exp(logs - logsumexp(logs))
    unit = np.concatenate([np.ones(k), sd])
    center = center / unit
    variance = np.diagonal(inverse, axis1=1, axis2=2) / unit**2 * noise[:, None]
    middle = weight @ center
    return {
        "weight": weight,
        "center": center,
        "scale": np.sqrt(variance),
        "df": df,
        "mean": middle,
        "sd": np.sqrt(weight @ (variance * factor + (center - middle) ** 2)),
        "log_evidence": logsumexp(logs) + count * np.log(step),
        "log_t": points,
        "noise": noise,
        "share": width / (1 + total[:, None]),
    }


def cdf(grid, at):
    """Distribution functions of the coefficients at points."""
    return grid["weight"] @ student.cdf((at - grid["center"]) / grid["scale"], grid["df"])
