"""formulaic's description of a right-hand side as plain data, and back: no code is stored, and none runs."""

from __future__ import annotations

from typing import Any

from formulaic import ModelSpec, SimpleFormula
from formulaic.materializers.base import EncodedTermStructure
from formulaic.materializers.types import EvaluatedFactor, ScopedFactor, ScopedTerm
from formulaic.parser.types import Factor, Term
from formulaic.transforms import contrasts as codings

CODINGS = ("Treatment", "SAS", "Sum", "Helmert", "Diff", "Poly", "Custom")
"""Codings of factors, whose classes' names end in "Contrasts"."""

_UNSET: Any = codings.TreatmentContrasts.base
"""The reference level of a factor for which none is given."""

SETTINGS = ("materializer", "ensure_full_rank", "output")
"""Other attributes of a description that are text or truth values."""


def is_description(value: object) -> bool:
    """Whether a value is what :func:`as_data` takes."""
    return isinstance(value, ModelSpec)


def as_data(spec: ModelSpec) -> dict[str, Any]:
    """The description as dicts, lists, text, numbers and arrays."""
    return {
        "terms": [_of_term(term) for term in spec.formula],
        "structure": [
            {
                "term": _of_term(entry.term),
                "columns": list(entry.columns),
                "parts": [
                    {
                        "scale": part.scale,
                        "factors": [[_of_factor(one.factor.factor), bool(one.reduced)] for one in part.factors],
                    }
                    for part in entry.scoped_terms
                ],
            }
            for entry in spec.structure or []
        ],
        "transforms": dict(spec.transform_state),
        "factors": {str(name): [kind.value, _of_state(state)] for name, (kind, state) in spec.encoder_state.items()},
        "na_action": spec.na_action.value,
        "cluster_by": spec.cluster_by.value,
        **{name: getattr(spec, name) for name in SETTINGS},
    }


def from_data(data: dict[str, Any]) -> ModelSpec:
    """The description that :func:`as_data` made data of."""
    structure = [
        EncodedTermStructure(
            _term(entry["term"]),
            [
                ScopedTerm(
                    [ScopedFactor(EvaluatedFactor(_factor(one), None), reduced) for one, reduced in part["factors"]],
                    scale=part["scale"],
                )
                for part in entry["parts"]
            ],
            list(entry["columns"]),
        )
        for entry in data["structure"]
    ]
    return ModelSpec(
        formula=SimpleFormula([_term(term) for term in data["terms"]], _ordering="none"),
        na_action=data["na_action"],
        cluster_by=data["cluster_by"],
        structure=structure,
        transform_state=data["transforms"],
        encoder_state={name: (Factor.Kind(kind), _state(state)) for name, (kind, state) in data["factors"].items()},
        materializer_params={},
        **{name: data[name] for name in SETTINGS},
    )


def _of_term(term: Term) -> list[list[str]]:
    return [_of_factor(factor) for factor in term.factors]


def _of_factor(factor: Factor) -> list[str]:
    return [factor.expr, factor.eval_method.value, factor.kind.value]


def _term(factors: list[list[str]]) -> Term:
    return Term([_factor(factor) for factor in factors])


def _factor(parts: list[str]) -> Factor:
    expr, method, kind = parts
    return Factor(expr, eval_method=method, kind=kind)


def _of_state(state: dict[str, Any]) -> dict[str, Any]:
    """The state of one factor; its coding as a name and settings."""
    out = dict(state)
    found = out.get("contrasts")
    if isinstance(found, codings.ContrastsState):
        name = type(found.contrasts).__name__.removesuffix("Contrasts")
        if name not in CODINGS:
            raise ValueError(f"the coding {type(found.contrasts).__name__} of a factor is not formulaic's")
        settings = {key: value for key, value in vars(found.contrasts).items() if value is not _UNSET}
        out["contrasts"] = {"coding": name, "settings": settings, "levels": list(found.levels)}
    return out


def _state(state: dict[str, Any]) -> dict[str, Any]:
    out = dict(state)
    found = out.get("contrasts")
    if isinstance(found, dict):
        if found["coding"] not in CODINGS:
            raise ValueError(f"there is no coding {found['coding']!r}")
        kind = getattr(codings, f"{found['coding']}Contrasts")
        coding = object.__new__(kind)
        settings = ({"base": _UNSET} if issubclass(kind, codings.TreatmentContrasts) else {}) | found["settings"]
        vars(coding).update(settings)
        out["contrasts"] = codings.ContrastsState(coding, found["levels"])
    return out
