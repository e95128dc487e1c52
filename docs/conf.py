"""How Sphinx builds these pages; ``make docs`` does, with warnings as errors."""

from __future__ import annotations

from importlib.metadata import version as installed_version

project = "pyro_crowdclust"
release = version = installed_version("pyro-crowdclust")
copyright = "the authors of pyro_crowdclust, Apache-2.0"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]
html_theme = "furo"
html_title = f"pyro_crowdclust {release}"

myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 3

# Docstrings are numpydoc, with types in the signatures alone.
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True  # named tuples document their fields themselves
# Each name is documented in the module that it is written in, not again where it is imported;
# and scikit-learn writes docstrings of its own into estimators.
autodoc_default_options = {
    "members": True,
    "show-inheritance": True,
    "ignore-module-all": True,
    "exclude-members": "set_fit_request, set_score_request",
}
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autosummary_generate = True
# Plain names in backquotes, as numpydoc writes them, need not be links.
suppress_warnings = ["ref.python"]
