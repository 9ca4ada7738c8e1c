"""The families by name, and those of statsmodels that stand for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pybayesridge.families.beta_binomial import BetaBinomialFamily
from pybayesridge.families.binomial import BinomialFamily
from pybayesridge.families.family import Family
from pybayesridge.families.gaussian import GaussianFamily
from pybayesridge.families.negative_binomial import NegativeBinomialFamily
from pybayesridge.families.ordinal import OrdinalFamily
from pybayesridge.families.poisson import PoissonFamily
from pybayesridge.families.student import StudentFamily
from pybayesridge.text import either

FAMILIES: dict[str, type[Family]] = {
    family.name: family
    for family in (
        GaussianFamily,
        BinomialFamily,
        PoissonFamily,
        NegativeBinomialFamily,
        OrdinalFamily,
        BetaBinomialFamily,
        StudentFamily,
    )
}
"""By the name that the argument `family` of the models takes."""

DEFAULT = next(iter(FAMILIES))
"""The family of a model that names none."""

STATSMODELS = {family.statsmodels: name for name, family in FAMILIES.items() if family.statsmodels}
"""Classes of statsmodels' families, and ours."""


def named(family: object, link: object = None) -> tuple[Any, Any]:
    """The names of a family and of its link where it is one of statsmodels', otherwise both as they are.

    Parameters
    ----------
    family : str or statsmodels.genmod.families.Family
        Recognised by the module of its class; statsmodels is not imported.
    link : str or None
        As it was given beside the family.

    Raises
    ------
    ValueError
        For a family or link of statsmodels that is not here, or a link that is given twice.
    """
    kind = _of_statsmodels(family)
    if kind is None:
        return family, link
    if kind not in STATSMODELS:
        raise ValueError(f"statsmodels' family {kind} is not available: family must be {either(FAMILIES)}")
    if isinstance(family, type):
        raise ValueError(f"family is statsmodels' class {kind}: pass an object, {kind}(), or {STATSMODELS[kind]!r}")
    name = STATSMODELS[kind]
    of_family = type(getattr(family, "link", None)).__name__
    # Older versions write the names of some classes in lower case; ours are written so.
    known = of_family.lower()
    if known not in FAMILIES[name].links:
        raise ValueError(
            f"statsmodels' family {kind} has the link {of_family}, which is not available: family={name!r} has "
            f"{either(FAMILIES[name].links)}"
        )
    if link is not None and link != known:
        raise ValueError(f"link={link!r} contradicts the link of the family, {of_family}: give one of the two")
    return name, known if "link" in FAMILIES[name].takes else link


def arguments_of(family: object, given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a model besides the link that an object of statsmodels stands for, by name.

    Raises
    ------
    ValueError
        If one of them is `given` beside the family with another value.
    """
    name = STATSMODELS.get(_of_statsmodels(family) or "")
    found = {} if name is None or isinstance(family, type) else dict(FAMILIES[name].argument_of(family))
    for argument, value in found.items():
        other = given.get(argument)
        if other is not None and other != value:
            raise ValueError(f"{argument}={other!r} contradicts that of the family, {value:g}: give one of the two")
    return found


def those_with(name: str) -> list[str]:
    """The families that take an argument, or whose results have an attribute that others lack."""
    return [family for family, each in FAMILIES.items() if name in (*each.own, *each.takes)]


def class_of(family: object) -> type[Family] | None:
    """The class of a family by its name; None for a name that is none."""
    return FAMILIES.get(family) if isinstance(family, str) else None


def make(family: object, **given: Any) -> Family:
    """The family with its arguments, or a ValueError for those that are not its own.

    Parameters
    ----------
    family : str
    **given
        Arguments of the model that only some families take, None where they are not given.
    """
    found = class_of(family)
    if found is None:
        raise ValueError(f"family must be {either(FAMILIES)}, not {family!r}")
    out = found.of(**{name: value for name, value in given.items() if name in found.takes})
    for name, value in given.items():
        if value is not None and name not in found.takes:
            takers = " or ".join(f"family={other.name!r}" for other in FAMILIES.values() if name in other.takes)
            of_noise = found.reason and name in GaussianFamily.takes
            raise ValueError(f"{name} requires {takers}" + (f": {found.reason}" if of_noise else ""))
    return out


def earlier(state: dict[str, Any]) -> dict[str, Any]:
    """The attributes of a model that are its family's, from those in files of earlier versions."""
    response = state.get("response")
    if response is None:
        family: Family = GaussianFamily()
    else:
        flat_in, counts = state.get("flat_in", "latent"), state["_counts"]
        family = BinomialFamily(state["link"], flat_in, counts, response.event, response.other)
    known = {"link", "event", *state}
    own = {name: value for name, value in family.attributes.items() if name in known}
    return own | {"family": family.name, "distribution": family, "has_trials": bool(state.get("_counts", False))}


def _of_statsmodels(family: object) -> str | None:
    """The name of the class of statsmodels that a family is, or is derived from."""
    cls = family if isinstance(family, type) else type(family)
    for each in cls.__mro__:
        if each.__module__.startswith("statsmodels.genmod.families"):
            return each.__name__
    return None
