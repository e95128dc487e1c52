"""How Sphinx builds these pages; ``make docs`` does, with warnings as errors."""

from __future__ import annotations

from importlib.metadata import version as installed_version
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx

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
html_static_path = ["_static"]
html_css_files = ["pages.css"]
# Formulas are MathML, which browsers draw themselves, with no script and no network.
html_math_renderer = "mathml"
html_title = f"pyro_crowdclust {release}"

myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence"]
myst_heading_anchors = 3

# Docstrings are numpydoc, with types in the signatures alone.
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True  # named tuples document their fields themselves
# Each name is documented on the face that offers it; and scikit-learn writes docstrings of its own
# into estimators.
autodoc_default_options = {
    "members": True,
    "show-inheritance": True,
    "exclude-members": "set_fit_request, set_score_request",
}
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autosummary_generate = True
# Plain names in backquotes, as numpydoc writes them, need not be links.
suppress_warnings = ["ref.python"]


def mathml(latex: str, display: str) -> str:
    """A formula as browsers draw it."""
    # The converter takes the sign of a distribution for a letter.
    return convert(latex, display=display).replace("<mi>&#x0007E;</mi>", "<mo>&#x0223C;</mo>")


def formula(self: Any, node: nodes.math) -> None:
    """Write a formula within a line."""
    self.body.append(mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def displayed_formula(self: Any, node: nodes.math_block) -> None:
    """Write a formula of its own."""
    self.body.append(f'<div class="formula">{mathml(node.astext(), "block")}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    """Tell Sphinx how formulas are written."""
    app.add_html_math_renderer("mathml", (formula, None), (displayed_formula, None))
