"""Shows the arguments of models, and warns, which is an error here, of classes that hide theirs."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.util import inspect, logging

from pybayesridge.models.base import LinearModel

logger = logging.getLogger(__name__)


def of_model(app: Any, what: str, name: str, obj: Any, *_: Any) -> tuple[str, None] | None:
    """Signature of a model: that of ``__init__``. ``__new__``, which autodoc prefers, only chooses the class."""
    if what != "class" or not issubclass(obj, LinearModel):
        return None
    found = inspect.signature(obj.__init__, bound_method=True)
    return inspect.stringify_signature(found, show_annotation=False, show_return_annotation=False), None


def check(app: Any, doctree: nodes.document) -> None:
    """Look for arguments of classes without a name; methods that refuse every call have them."""
    for signature in doctree.findall(addnodes.desc_signature):
        if signature.parent["objtype"] != "class":
            continue
        if any(part.astext().startswith(("*_", "**_")) for part in signature.findall(addnodes.desc_parameter)):
            logger.warning("the signature of %s hides its arguments", signature.get("fullname"), location=signature)


def setup(app: Any) -> dict[str, Any]:
    """Hook into the build."""
    app.connect("autodoc-process-signature", of_model)
    app.connect("doctree-read", check)
    return {"parallel_read_safe": True}
