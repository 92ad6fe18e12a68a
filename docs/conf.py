"""How the documentation is built: ``make docs``, or ``python -m sphinx -W --keep-going -b html docs docs/_build/html``."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from sphinx.application import Sphinx

HERE = Path(__file__).parent
SOURCE = HERE.parent / "src" / "cagp"
sys.path[:0] = [str(HERE / "_extensions"), str(SOURCE.parent)]

project = "cagp"
copyright = "the cagp authors, MIT licence"
version = release = re.findall(r'__version__ = "(.*)"', (SOURCE / "__init__.py").read_text(encoding="utf-8"))[0]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode", "sphinx_copybutton", "mathml"]
exclude_patterns = ["_build", "_extensions", "figures"]

myst_enable_extensions = ["dollarmath", "amsmath", "deflist"]
myst_heading_anchors = 3
myst_dmath_double_inline = True

html_theme = "furo"
html_title = f"cagp {version}"
html_static_path = ["_static"]
html_css_files = ["cagp.css"]
html_math_renderer = "mathml"
html_show_sourcelink = False
html_copy_source = False
pygments_style, pygments_dark_style = "friendly", "monokai"
copybutton_exclude = ".linenos, .gp, .go"
copybutton_selector = "div:not(.highlight-output) > div.highlight > pre"

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_default_options = {"members": True, "show-inheritance": False}
autodoc_type_aliases = {"ArrayLike": "ArrayLike", "Embedding": "Embedding"}
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100


def present_pages_only(app: Sphinx, page: str, source: list[str]) -> None:
    """Take pages that are not there out of the tables of contents of the front page, so that sections may come later."""
    if page == app.config.root_doc:
        there = set(app.project.docnames)
        tables = re.split(r"(```{toctree}.*?```)", source[0], flags=re.DOTALL)
        for i, table in enumerate(tables):
            if table.startswith("```{toctree}"):
                lines = table.splitlines()
                tables[i] = "\n".join(x for x in lines if not x or x.startswith((":", "`")) or x in there)
        source[0] = "".join(tables)


def setup(app: Sphinx) -> None:
    app.connect("source-read", present_pages_only)
