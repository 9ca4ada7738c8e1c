"""Sphinx configuration; `make docs` builds into docs/_build/html, offline, with warnings as errors."""

import hashlib
import os
import sys
from pathlib import Path

import pybayesridge

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
sys.path.insert(0, str(DOCS / "_ext"))

project = "pybayesridge"
author = "The pybayesridge developers"
copyright = author
release = version = pybayesridge.__version__

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx_design",
    "sphinx-mathjax-offline",
    "public_names",
    "result_pages",
    "signatures",
]
exclude_patterns = ["_build", "**.ipynb_checkpoints"]
language = "en"
nitpicky = True

myst_enable_extensions = ["colon_fence", "dollarmath", "amsmath", "deflist", "substitution"]
myst_heading_anchors = 3
myst_substitutions = {
    "r_pages": '<a href="r/index.html">the pages of the R package</a>'
    if (DOCS / "_build" / "html" / "r" / "index.html").exists()
    else "the pages of the R package (built by `make docs-r`)"
}


def _state_of_the_code() -> str:
    """A hash of everything that executed cells depend on, apart from their own text."""
    digest = hashlib.sha256(repr(sys.version_info).encode())
    for folder, pattern in ((ROOT / "pybayesridge", "*.py"), (DOCS / "start", "*"), (DOCS, "*.py")):
        for path in sorted(folder.rglob(pattern) if folder.name == "pybayesridge" else folder.glob(pattern)):
            digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:12]


# Cells run without the settings and start-up files of whoever builds.
os.environ["IPYTHONDIR"] = str(DOCS / "_build" / "ipython")
profile = DOCS / "_build" / "ipython" / "profile_default"
profile.mkdir(parents=True, exist_ok=True)
(profile / "ipython_kernel_config.py").write_text(
    "c = get_config()\nc.IPKernelApp.log_level = 40\n", encoding="utf-8"
)

nb_execution_mode = "cache"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_execution_cache_path = str(DOCS / "_build" / "cells" / _state_of_the_code())
nb_merge_streams = True

# `make docs-check` reads every page and follows every reference, without running cells: their output is not there.
if tags.has("unexecuted"):  # noqa: F821 - of Sphinx
    nb_execution_mode = "off"
    suppress_warnings = ["myst-nb.lexer", "mystnb.glue"]

autodoc_member_order = "bysource"
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_show_inherited_class_members = False
numpydoc_xref_param_type = False

html_theme = "pydata_sphinx_theme"
html_title = f"pybayesridge {release}"
html_static_path = ["_static"]
html_css_files = ["tables.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": True,
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
}
html_sidebars = {"index": [], "getting-started": [], "changelog": []}
