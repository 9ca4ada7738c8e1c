"""The table of methods: how each model is fitted to responses of each family, by which methods, with which options.

The numerics' own registries (``ridge/methods.py``, ``sites/methods.py``, ``selection/methods.py``,
``sites/sets.py``,
``binomial/sets.py``) have an entry for each method, with its fit function and its words. Here they are put together,
and each option of ``fit`` is declared once. Whoever compares the name of a model, a family or a method asks here
instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from pybayesridge.checks import positive, positive_int
from pybayesridge.families.registry import FAMILIES
from pybayesridge.late import Late
from pybayesridge.registry import check_options, look_up
from pybayesridge.ridge import methods as of_ridge
from pybayesridge.selection.defaults import CHAINS, DAMPING, MCSE, TOL, damping_share, seed
from pybayesridge.text import number

if TYPE_CHECKING:
    from pybayesridge.bands import methods as of_bands
    from pybayesridge.binomial import sets as of_latent_sets
    from pybayesridge.selection import methods as of_sets
    from pybayesridge.sites import band_methods as of_band_sites
    from pybayesridge.sites import methods as of_sites
    from pybayesridge.sites import sets as of_latent_sets_by_ep
else:
    of_bands = Late("pybayesridge.bands.methods")
    of_band_sites = Late("pybayesridge.sites.band_methods")
    of_latent_sets = Late("pybayesridge.binomial.sets")
    of_sets = Late("pybayesridge.selection.methods")
    of_sites = Late("pybayesridge.sites.methods")
    of_latent_sets_by_ep = Late("pybayesridge.sites.sets")


@dataclass(frozen=True, slots=True)
class Option:
    """An option of ``fit``.

    Attributes
    ----------
    default : object
        None where it depends on the method or the family.
    check : callable or None
        Of the name and a value: the value that is used, or a ValueError.
    also : str
        Attribute of methods with values that they take though it is not among their options.
    help : str
        Its help on the command line; empty where it is no option there.
    kind : type
        Of its values there.
    metavar : str or None
        What stands for a value in the help.
    choices : tuple of str or None
        Its values there, if these are few.
    """

    default: Any = None
    check: Callable[[str, Any], Any] | None = None
    also: str = ""
    help: str = ""
    kind: type = float
    metavar: str | None = None
    choices: tuple[str, ...] | None = None

    def differs(self, value: Any) -> bool:
        """Whether a value is another than the default."""
        if value is None or self.default is None or isinstance(value, np.ndarray | list):
            return value is not self.default
        return bool(value != self.default)


def one_of(*values: str) -> Callable[[str, Any], str]:
    """A check that an option has one of some values."""

    def check(name: str, value: Any) -> str:
        if value not in values:
            raise ValueError(f"{name} must be {' or '.join(map(repr, values))}, not {value!r}")
        return str(value)

    return check


def truth(name: str, value: Any) -> bool:
    """True or False, or a ValueError that names the option."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, not {value!r}")
    return bool(value)


TOL_HELP, MAXITER_HELP = "tolerance at which iterations stop", "maximum number of iterations"

OPTIONS: dict[str, dict[str, Option]] = {
    "BayesRidge": {
        "tol": Option(None, positive, help=TOL_HELP),
        "maxiter": Option(None, positive_int, help=MAXITER_HELP, kind=int, metavar="N"),
        "grid": Option(help="penalties for loocv and gcv (default: fixed)", choices=("fixed", "glmnet")),
        "lam": Option(help="the penalty, for --method fixed", metavar="LAMBDA"),
        "solver": Option("ep", one_of("ep", "laplace")),
        "dof": Option("nu", one_of("nu", "paper")),
        "parameterization": Option("tau2", one_of("tau2", "tau")),
        "accelerate": Option(True, truth),
    },
    "SpikeSlab": {
        "mcse": Option(
            MCSE,
            positive,
            help="sampling stops when no inclusion probability has a larger Monte Carlo standard error (default: "
            f"{MCSE:g})",
            metavar="ERROR",
        ),
        "chains": Option(CHAINS, positive_int, help=f"number of chains (default: {CHAINS})", kind=int, metavar="N"),
        "rng": Option(
            0,
            seed,
            help="seed of sampling (default: 0); the same seed gives the same numbers",
            kind=int,
            metavar="SEED",
        ),
        "tol": Option(TOL, positive, help=TOL_HELP),
        "maxiter": Option(None, positive_int, help=MAXITER_HELP, kind=int, metavar="N"),
        "damping": Option(DAMPING, damping_share),
        "hyper": Option(
            None,
            one_of("average", "maximize"),
            also="hypers",
            help="expectation propagation: average over hyperparameters that are not given (default of ep), or take "
            "the most probable",
            choices=("average", "maximize"),
        ),
        "check": Option(False, truth),
        "start": Option(),
    },
}
"""The options of each model's ``fit``, in the order of its signature."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Methods:
    """The methods of a lane.

    Attributes
    ----------
    methods : mapping
        By name, each with its words; the numerics' own registry.
    default : str
        The method that is used unless another is named.
    elsewhere : mapping
        Methods that only other families have, and the sentence that says what to use.
    choices : mapping or None
        The methods and the names that stand for one or the other, each with its help; None where there are no others.
    choose : callable or None
        Of a name and the numbers of rows and columns: the method. None where every name is that of a method.
    """

    methods: Mapping[str, Any]
    default: str
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    choices: Mapping[str, Any] | None = None
    choose: Callable[[str, int, int], Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Lane:
    """How a model is fitted to responses of a family.

    Attributes
    ----------
    name : str
        That of the module of this folder with its function ``fit``: model, method, checked options and recipe in,
        results out.
    model, family : str
    bands : bool
        Whether of models with several bands.
    table : callable
        Returns its methods; the numerics' registries are imported when they are first used.
    options : tuple of str
        Options that all of its methods take, besides those that its methods name.
    defaults : mapping
        Values of options whose default depends on the family.
    told : callable
        Of results: the line that ``disp=True`` prints.
    """

    name: str
    model: str
    family: str = ""
    bands: bool = False
    table: Callable[[], Methods]
    options: tuple[str, ...]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    told: Callable[[Any], str]

    @property
    def methods(self) -> Mapping[str, Any]:
        """Its methods by name."""
        return self.table().methods

    @property
    def default(self) -> str:
        """The method that is used unless another is named."""
        return self.table().default

    @property
    def elsewhere(self) -> Mapping[str, str]:
        """Methods that only other families have, and the sentence that says what to use."""
        return self.table().elsewhere

    @cached_property
    def takes(self) -> tuple[str, ...]:
        """Options that some of its methods take, in the order of the signature."""
        own = set(self.options).union(*(entry.options for entry in self.methods.values()))
        return tuple(name for name in OPTIONS[self.model] if name in own)

    @property
    def names(self) -> Mapping[str, Any]:
        """Everything that ``fit`` takes as a method, each with its help."""
        table = self.table()
        return table.methods if table.choices is None else table.choices

    def families_with(self, option: str) -> list[str]:
        """Other families whose fits take an option; none if it is the bands that keep this fit from taking it."""
        if option in LANES[self.model, self.family, False].takes:
            return []
        return [family for family, lane in lanes_of(self.model).items() if option in lane.takes]

    def method(self, name: object, n: int, p: int) -> Any:
        """The method with a name, or that it stands for with n rows and p columns; a ValueError if there is none."""
        table = self.table()
        if isinstance(name, str) and name in table.elsewhere:
            raise ValueError(table.elsewhere[name])
        return look_up(table.methods, name) if table.choose is None else table.choose(name, n, p)  # type: ignore[arg-type]

    def checked(self, entry: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        """The options of a method with their defaults, or a ValueError for those that are not its own.

        Parameters
        ----------
        entry : method
        given : mapping
            Every option of the model's ``fit``.
        """
        known, takes = OPTIONS[self.model], self.takes
        differing = [name for name, option in known.items() if option.differs(given[name])]
        for name in differing:
            if name not in takes:
                families = self.families_with(name)
                if not families:
                    raise ValueError(f"{name} is not an option of fits with bands")
                raise ValueError(f"{name} requires family={' or '.join(map(repr, families))}")
        out = {name: self.defaults.get(name) if value is None else value for name, value in given.items()}
        for name in takes:
            check, value = known[name].check, out[name]
            if check is not None and not (value is None and known[name].default is None):
                out[name] = check(name, value)
        of_some = [name for name in takes if name not in self.options]
        own = {name for name in of_some if known[name].also and given[name] in getattr(entry, known[name].also)}
        check_options(self.methods, entry, {name: name in differing and name not in own for name in of_some})
        return out

    def without_joint_posterior(self, what: str) -> str:
        """Say that something needs what only the exact posterior of sets has, and what to do."""
        needs = f"{what} needs the joint posterior of the columns"
        if "exact" in self.methods:
            return f"{needs}: use fit('exact')"
        return f"{needs}, which expectation propagation does not give: see inclusion_prob and sample()"

    def fit(self, *arguments: Any) -> Any:
        """Call the function that fits; its module is imported when it is first used."""
        return import_module(f"pybayesridge.models.{self.name}").fit(*arguments)


def _iterations(res: Any) -> str:
    return f"{res.method}: {res.n_iter} iterations, converged: {bool(res.converged)}"


def _sweeps(res: Any) -> str:
    return f"{res.method}: {res.n_iter} sweeps, converged: {bool(res.converged)}"


def _residual(res: Any) -> str:
    return f"{res.method}: {res.n_iter} iterations, {res.method_entry.measure.lower()} {number(res.residual, 2)}"


def _of_registry(table: Any) -> Methods:
    """The methods of a registry that says which are elsewhere."""
    return Methods(methods=table.METHODS, default=table.DEFAULT, elsewhere=table.NOT_HERE)


SITES = Lane(
    name="sites",
    model="BayesRidge",
    table=lambda: _of_registry(of_sites),
    options=("tol", "maxiter"),
    defaults={"tol": 1e-6, "maxiter": 200},
    told=_sweeps,
)
"""Ridges of responses that are not Gaussian, with one penalty."""

BANDED_SITES = Lane(
    name="banded_sites",
    model="BayesRidge",
    bands=True,
    table=lambda: _of_registry(of_band_sites),
    options=("tol", "maxiter"),
    defaults={"tol": 2e-2, "maxiter": 200},
    told=_sweeps,
)
"""Likewise with several bands."""

KINDS: dict[str, Lane] = {
    "conjugate": Lane(
        name="conjugate",
        model="BayesRidge",
        table=lambda: Methods(methods=of_ridge.METHODS, default=of_ridge.DEFAULT),
        options=("tol", "maxiter", "dof"),
        defaults={"tol": 1e-8, "maxiter": 10_000},
        told=_iterations,
    ),
    "sites": SITES,
    "sites_with_scale": replace(
        SITES,
        table=lambda: Methods(
            methods=of_sites.INTEGRATED, default=of_sites.DEFAULT, elsewhere=of_sites.NOT_OF_SCALES
        ),
    ),
    "ordinal": replace(SITES, name="ordinal"),
    "banded": Lane(
        name="banded",
        model="BayesRidge",
        bands=True,
        table=lambda: _of_registry(of_bands),
        options=(),
        defaults={"tol": 1e-3},
        told=_iterations,
    ),
    "banded_sites": BANDED_SITES,
    "banded_ordinal": replace(BANDED_SITES, name="banded_ordinal"),
    "banded_sites_with_scale": replace(
        BANDED_SITES,
        table=lambda: Methods(
            methods=of_band_sites.INTEGRATED, default=of_band_sites.DEFAULT, elsewhere=of_band_sites.NOT_OF_SCALES
        ),
    ),
    "sets": Lane(
        name="sets",
        model="SpikeSlab",
        table=lambda: Methods(
            methods=of_sets.METHODS,
            default=of_sets.DEFAULT,
            choices=of_sets.CHOICES,
            choose=of_sets.method_for,
        ),
        options=("maxiter", "start"),
        told=_residual,
    ),
    "latent_sets": Lane(
        name="latent_sets",
        model="SpikeSlab",
        table=lambda: Methods(
            methods=of_latent_sets.METHODS,
            default=of_sets.DEFAULT,
            elsewhere=of_latent_sets.NOT_HERE,
            choose=of_latent_sets.method_for_binary,
        ),
        options=("maxiter",),
        told=_residual,
    ),
    "latent_sets_by_ep": Lane(
        name="latent_sets",
        model="SpikeSlab",
        table=lambda: Methods(
            methods=of_latent_sets_by_ep.METHODS,
            default=of_sets.DEFAULT,
            elsewhere=of_latent_sets_by_ep.NOT_HERE,
            choose=of_latent_sets_by_ep.method_for,
        ),
        options=("maxiter",),
        told=_residual,
    ),
}
"""Ways to fit, by the names that families give them; of no family yet."""

LANES: dict[tuple[str, str, bool], Lane] = {
    (KINDS[kind].model, name, KINDS[kind].bands): replace(KINDS[kind], family=name)
    for name, family in FAMILIES.items()
    for kind in family.lanes
}
"""By the names of the model and of the family, and whether there are several bands."""


def lanes_of(model: str, *, bands: bool = False) -> dict[str, Lane]:
    """The lanes of a model by family, the default first."""
    return {lane.family: lane for lane in LANES.values() if (lane.model, lane.bands) == (model, bands)}
