"""Make numpyro_binary_selection.json: selection with yes/no responses, over all sets of columns, by NumPyro's NUTS.

Run in an environment of its own (``pip install numpyro``)::

    python tests/reference/numpyro_binary_selection.py

The model is written down as the documentation states it; nothing of pybayesridge is imported. Given the coefficients
and the hyperparameters the likelihood is summed over all sets, so that NUTS has no discrete variable: a coefficient
that is out has its slab as distribution and no part in the likelihood. Inclusion probabilities and moments are
averages of the conditional ones.
"""

from __future__ import annotations

import json
import platform
from itertools import product
from pathlib import Path

import numpy as np

PROBLEMS = {
    "logit, correlated": {"n": 60, "d": 6, "rho": 0.7, "link": "logit", "seed": 1},
    "probit": {"n": 80, "d": 5, "rho": 0.3, "link": "probit", "seed": 2},
}
LATENT = {"logit": np.pi**2 / 3, "probit": 1.0}
CHAINS, WARMUP, DRAWS, BATCHES = 4, 1000, 8000, 80
ETA = (-5.0, 6.0)
"""Bounds of the log odds of the share explained a priori."""
LEAST, LARGEST = 0.01, 0.995
"""Bounds of the prior inclusion probability; the first is divided by the number of columns."""
DIGITS = 10


def data(n: int, d: int, rho: float, link: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Responses, and AR(1) columns of which the first and the third matter."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    for j in range(1, d):
        x[:, j] = rho * x[:, j - 1] + np.sqrt(1 - rho**2) * x[:, j]
    eta = 0.3 + 0.8 * x[:, 0] - 0.6 * x[:, 2]
    noise = rng.logistic(size=n) if link == "logit" else rng.standard_normal(n)
    return (eta + noise > 0).astype(float), x


def sample(y: np.ndarray, x: np.ndarray, link: str, seed: int) -> tuple[dict[str, np.ndarray], int]:
    """What is averaged, each (chains, draws), on the scale of the data, and the number of divergences."""
    import jax
    import numpyro
    import numpyro.distributions as dist
    from jax import numpy as jnp
    from jax.nn import log_sigmoid
    from jax.scipy.special import logsumexp
    from numpyro.infer import MCMC, NUTS

    d = x.shape[1]
    scale = x.std(axis=0)
    rows, sign = jnp.asarray((x - x.mean(axis=0)) / scale), jnp.asarray(2 * y - 1)
    sets = jnp.asarray(list(product([0.0, 1.0], repeat=d)))
    log_cdf = log_sigmoid if link == "logit" else jax.scipy.stats.norm.logcdf
    center = -np.log(d - 1.0)
    low, high = (np.log(p) - np.log1p(-p) for p in (LEAST / d, LARGEST))

    def terms(t, eta, intercept, z):
        b = z * jnp.exp(0.5 * (eta + jnp.log(LATENT[link] / d) - log_sigmoid(t)))
        linear = intercept + (sets * b) @ rows.T
        size = sets.sum(axis=1)
        return b, size * log_sigmoid(t) + (d - size) * log_sigmoid(-t) + log_cdf(sign * linear).sum(axis=1)

    def model() -> None:
        t = numpyro.sample("t", dist.Uniform(low, high))
        eta = numpyro.sample("eta", dist.Uniform(*ETA))
        numpyro.factor("of_t", log_sigmoid(t - center) + log_sigmoid(center - t))
        numpyro.factor("of_eta", log_sigmoid(eta) + 1.5 * log_sigmoid(-eta))
        intercept = numpyro.sample("intercept", dist.ImproperUniform(dist.constraints.real, (), ()))
        z = numpyro.sample("z", dist.Normal(0.0, 1.0).expand([d]))
        numpyro.factor("y", logsumexp(terms(t, eta, intercept, z)[1]))

    mcmc = MCMC(
        NUTS(model, target_accept_prob=0.9),
        num_warmup=WARMUP,
        num_samples=DRAWS,
        num_chains=CHAINS,
        chain_method="sequential",
        progress_bar=False,
    )
    mcmc.run(jax.random.PRNGKey(seed))
    found = mcmc.get_samples(group_by_chain=True)

    def conditional(draw):
        b, log_weight = terms(*draw)
        return b, jax.nn.softmax(log_weight) @ sets

    every = [found[name] for name in ("t", "eta", "intercept", "z")]
    flat = [jnp.reshape(one, (CHAINS * DRAWS, *one.shape[2:])) for one in every]
    b, inside = (np.asarray(one).reshape(CHAINS, DRAWS, d) for one in jax.lax.map(conditional, flat))
    out = {}
    for j in range(d):
        out[f"in{j}"] = inside[..., j]
        out[f"mean{j}"] = inside[..., j] * b[..., j] / scale[j]
        out[f"square{j}"] = inside[..., j] * (b[..., j] / scale[j]) ** 2
    return out, int(mcmc.get_extra_fields()["diverging"].sum())


def described(values: np.ndarray) -> list[float]:
    """Mean, and its Monte Carlo standard error by batch means."""
    means = values.reshape(BATCHES, -1).mean(axis=1)
    return [float(f"{v:.{DIGITS}g}") for v in (values.mean(), means.std(ddof=1) / np.sqrt(BATCHES))]


def main() -> None:
    """Sample the problems and store the results."""
    import jax
    import numpyro

    numpyro.enable_x64()
    versions = {"python": platform.python_version(), "numpy": np.__version__}
    versions |= {"jax": jax.__version__, "numpyro": numpyro.__version__}
    out: dict = {"versions": versions, "chains": CHAINS, "warmup": WARMUP, "draws": DRAWS, "problems": {}}
    for name, settings in PROBLEMS.items():
        y, x = data(**settings)
        draws, divergences = sample(y, x, settings["link"], settings["seed"])
        quantities = {key: described(value) for key, value in draws.items()}
        out["problems"][name] = settings | {"divergences": divergences, "quantities": quantities}
        print(name, divergences, quantities, flush=True)
    path = Path(__file__).with_suffix(".json")
    path.write_text(json.dumps(out, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
