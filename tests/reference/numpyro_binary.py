"""Make numpyro_binary.json: the ridge for yes/no responses sampled by NumPyro's NUTS.

Run in an environment of its own (``pip install numpyro``)::

    python tests/reference/numpyro_binary.py

The model is written down as the documentation states it; nothing of pybayesridge is imported. With more columns than
rows the coefficients have no posterior mean under the default prior: there the prior is Beta(1/2, 2).
"""

from __future__ import annotations

import json
import platform
from pathlib import Path

import numpy as np

PROBLEMS = {
    "small": {"n": 30, "p": 5, "seed": 1, "b": 0.5},
    "medium": {"n": 100, "p": 20, "seed": 2, "b": 0.5},
    "wide": {"n": 60, "p": 200, "seed": 3, "b": 2.0},
}
CHAINS = 4
WARMUP = 1500
DRAWS = 8000
BATCHES = 80
ROWS = 12
LATENT = np.pi**2 / 3
DIGITS = 10


def data(n: int, p: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Logistic responses and correlated columns."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, p)) + 0.5 * rng.standard_normal((n, 1))
    eta = x @ rng.standard_normal(p)
    eta = 0.4 + 1.2 * (eta - eta.mean()) / eta.std()
    return (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(float), x


def sample(y: np.ndarray, x: np.ndarray, b: float, seed: int) -> tuple[dict[str, np.ndarray], int]:
    """Draws of every quantity, (chains, draws), on the scale of the data, and the number of divergences."""
    import jax
    import numpyro
    import numpyro.distributions as dist
    from jax import numpy as jnp
    from numpyro.infer import MCMC, NUTS

    mean, scale = x.mean(axis=0), x.std(axis=0)
    left, s, right = np.linalg.svd((x - mean) / scale, full_matrices=False)
    keep = s > 1e-9 * s[0]
    rows, right = jnp.asarray((left * s)[:, keep]), right[keep]
    unit = LATENT / x.shape[1]
    real = dist.constraints.real

    def model() -> None:
        log_t = numpyro.sample("log_t", dist.ImproperUniform(real, (), ()))
        numpyro.factor("prior", 0.5 * log_t - (0.5 + b) * jnp.logaddexp(0.0, log_t))
        intercept = numpyro.sample("intercept", dist.ImproperUniform(real, (), ()))
        a = numpyro.sample("a", dist.Normal(0.0, 1.0).expand([rows.shape[1]]))
        eta = intercept + jnp.exp(0.5 * log_t) * jnp.sqrt(unit) * (rows @ a)
        numpyro.sample("y", dist.Bernoulli(logits=eta), obs=jnp.asarray(y))

    mcmc = MCMC(
        NUTS(model, target_accept_prob=0.95),
        num_warmup=WARMUP,
        num_samples=DRAWS,
        num_chains=CHAINS,
        chain_method="vectorized",
        progress_bar=False,
    )
    mcmc.run(jax.random.PRNGKey(seed))
    draws = {k: np.asarray(v) for k, v in mcmc.get_samples(group_by_chain=True).items()}
    coordinates = np.exp(0.5 * draws["log_t"])[..., None] * np.sqrt(unit) * draws["a"]
    out = {f"eta{i}": draws["intercept"] + coordinates @ np.asarray(rows)[i] for i in range(min(ROWS, len(y)))}
    out["log_tau2"] = draws["log_t"] + np.log(unit)
    if x.shape[1] < len(y):
        beta = coordinates @ right / scale
        out |= {f"b{j}": beta[..., j] for j in range(x.shape[1])}
        out["intercept"] = draws["intercept"] - beta @ mean
    return out, int(mcmc.get_extra_fields()["diverging"].sum())


def batch_error(values: np.ndarray) -> float:
    """Monte Carlo standard error of a mean over (chains, draws) by batch means."""
    means = values.reshape(BATCHES, -1).mean(axis=1)
    return float(means.std(ddof=1) / np.sqrt(BATCHES))


def describe(draws: np.ndarray) -> dict[str, list[float]]:
    """Mean and standard deviation, each as [value, Monte Carlo standard error]."""
    mean, sd = draws.mean(), draws.std()
    out = {"mean": [mean, batch_error(draws)], "sd": [sd, batch_error((draws - mean) ** 2) / (2 * sd)]}
    return {k: [float(f"{v:.{DIGITS}g}") for v in pair] for k, pair in out.items()}


def main() -> None:
    """Sample the problems and store the results."""
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
        y, x = data(settings["n"], settings["p"], settings["seed"])
        draws, divergences = sample(y, x, settings["b"], settings["seed"])
        quantities = {key: describe(value) for key, value in draws.items()}
        out["problems"][name] = settings | {"divergences": divergences, "quantities": quantities}
        print(name, "divergences:", divergences, quantities["log_tau2"], quantities["eta0"], flush=True)
    Path(__file__).with_suffix(".json").write_text(json.dumps(out, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
