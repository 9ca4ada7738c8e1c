"""Make numpyro_ridge.json: the Bayesian ridge sampled by NumPyro's NUTS.

Run in an environment of its own (``pip install numpyro``)::

    python tests/reference/numpyro_ridge.py

The model is written down as the documentation states it; nothing of pybayesridge is imported.
"""

from __future__ import annotations

import json
import platform
from pathlib import Path

import numpy as np

PROBLEMS = {"small": {"n": 15, "p": 4, "seed": 1}, "wide": {"n": 25, "p": 40, "seed": 2}}
PROBABILITIES = [0.025, 0.25, 0.5, 0.75, 0.975]
CHAINS = 8
WARMUP = 2000
DRAWS = 15000
BATCHES = 160
DIGITS = 10


def data(n: int, p: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A response and correlated columns of different means and scales."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, p)) + 0.7 * rng.standard_normal((n, 1))
    y = 2.0 + x @ rng.standard_normal(p) / np.sqrt(p) + rng.standard_normal(n)
    return y, x * rng.uniform(0.5, 3.0, p) + rng.standard_normal(p)


def sample(y: np.ndarray, x: np.ndarray, seed: int, marginal: bool) -> tuple[dict[str, np.ndarray], int]:
    """Draws of every quantity, (chains, draws), on the scale of the data, and the number of divergences.

    Where the columns can interpolate the response, sigma can be next to nothing: a funnel that NUTS does not enter
    with the coefficients among its unknowns. `marginal` integrates them and the intercept out and draws them
    afterwards.
    """
    import jax
    import numpyro
    import numpyro.distributions as dist
    from jax import numpy as jnp
    from numpyro.infer import MCMC, NUTS

    scale = x.std(axis=0)
    standardized = (x - x.mean(axis=0)) / scale
    columns, target = jnp.asarray(standardized), jnp.asarray(y)
    real = dist.constraints.real
    values, vectors = np.linalg.eigh(standardized @ standardized.T)
    # The columns are centred: the first eigenvector is that of the intercept.
    spans, rotated = jnp.asarray(values[1:]), jnp.asarray(vectors[:, 1:].T @ y)

    def model() -> None:
        log_total = numpyro.sample("log_total", dist.ImproperUniform(real, (), ()))
        tau = numpyro.sample("tau", dist.HalfCauchy(1.0))
        # Given tau a shift of log sigma: p(sigma2) ∝ 1/sigma2 either way.
        sigma = numpyro.deterministic("sigma", jnp.exp(log_total) / jnp.sqrt(1 + tau**2))
        if marginal:
            # N(0, sigma2 (I + tau2 XX')) in the basis of XX', without the direction of the flat intercept
            numpyro.sample("y", dist.Normal(0.0, sigma * jnp.sqrt(1 + tau**2 * spans)), obs=rotated)
        else:
            intercept = numpyro.sample("intercept", dist.ImproperUniform(real, (), ()))
            unit = numpyro.sample("unit", dist.Normal(0.0, 1.0).expand([x.shape[1]]))
            numpyro.sample("y", dist.Normal(intercept + columns @ (tau * sigma * unit), sigma), obs=target)

    mcmc = MCMC(
        NUTS(model, target_accept_prob=0.98),
        num_warmup=WARMUP,
        num_samples=DRAWS,
        num_chains=CHAINS,
        chain_method="vectorized",
        progress_bar=False,
    )
    mcmc.run(jax.random.PRNGKey(seed))
    draws = {k: np.asarray(v) for k, v in mcmc.get_samples(group_by_chain=True).items()}
    tau, sigma = draws["tau"], draws["sigma"]
    if marginal:
        noise = np.random.default_rng(seed + 100).standard_normal(tau.shape)
        intercept = y.mean() + sigma / np.sqrt(len(y)) * noise
        b = conditional_draws(y, standardized, intercept, tau, sigma, seed)
    else:
        intercept = draws["intercept"]
        b = draws["unit"] * (tau * sigma)[..., None]
    b = b / scale
    out = {f"b{j}": b[..., j] for j in range(x.shape[1])}
    out["intercept"] = intercept - b @ x.mean(axis=0)
    out["log_tau2"] = 2 * np.log(tau)
    out["sigma"] = sigma
    out["fitted0"] = out["intercept"] + b @ x[0]
    return out, int(mcmc.get_extra_fields()["diverging"].sum())


def conditional_draws(
    y: np.ndarray, x: np.ndarray, intercept: np.ndarray, tau: np.ndarray, sigma: np.ndarray, seed: int
) -> np.ndarray:
    """Coefficients given the rest: a draw from the prior, corrected by the residual it leaves (Matheron's rule)."""
    rng = np.random.default_rng(seed)
    values, vectors = np.linalg.eigh(x @ x.T)
    prior = (tau * sigma)[..., None] * rng.standard_normal((*tau.shape, x.shape[1]))
    noise = sigma[..., None] * rng.standard_normal((*tau.shape, len(y)))
    residual = y - intercept[..., None] - prior @ x.T - noise
    t2 = tau[..., None] ** 2
    return prior + (t2 / (1 + t2 * np.maximum(values, 0)) * (residual @ vectors)) @ vectors.T @ x


def batch_error(values: np.ndarray) -> float:
    """Monte Carlo standard error of a mean over (chains, draws) by batch means."""
    means = values.reshape(BATCHES, -1).mean(axis=1)
    return float(means.std(ddof=1) / np.sqrt(BATCHES))


def describe(draws: np.ndarray) -> dict[str, list[float]]:
    """Mean, standard deviation and quantiles, each as [value, Monte Carlo standard error]."""
    mean, sd = draws.mean(), draws.std()
    out = {
        "mean": [mean, batch_error(draws)],
        "sd": [sd, batch_error((draws - mean) ** 2) / (2 * sd)],
    }
    for probability in PROBABILITIES:
        at = np.quantile(draws, probability)
        width = sd / 20
        density = np.mean(np.abs(draws - at) < width) / (2 * width)
        out[f"q{probability}"] = [at, batch_error((draws <= at).astype(float)) / density]
    return {k: [float(f"{v:.{DIGITS}g}") for v in pair] for k, pair in out.items()}


def main() -> None:
    """Sample both problems and store the results."""
    import jax
    import numpyro

    numpyro.enable_x64()
    out: dict = {
        "versions": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "jax": jax.__version__,
            "numpyro": numpyro.__version__,
        },
        "chains": CHAINS,
        "warmup": WARMUP,
        "draws": DRAWS,
        "problems": {},
    }
    for name, settings in PROBLEMS.items():
        draws, divergences = sample(*data(**settings), settings["seed"], marginal=settings["p"] >= settings["n"])
        quantities = {key: describe(value) for key, value in draws.items()}
        out["problems"][name] = settings | {"divergences": divergences, "quantities": quantities}
        print(name, "divergences:", divergences)
        for key in ("log_tau2", "sigma", "intercept", "fitted0", "b0"):
            print(" ", key, quantities[key])
    Path(__file__).with_suffix(".json").write_text(json.dumps(out, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
