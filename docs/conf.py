"""How the site is built: ``make docs``, or ``python -m sphinx -W --keep-going -b html docs docs/_build/html``."""

from __future__ import annotations

import posixpath
import pydoc
import re
import sys
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

HERE = Path(__file__).parent
SOURCE = HERE.parent / "src" / "cagp"
sys.path[:0] = [str(HERE / "_extensions"), str(SOURCE.parent), str(HERE.parent / "studies" / "src")]

project = "cagp"
copyright = "the cagp authors, MIT licence"
version = release = re.findall(
    r'__version__ = "(.*)"', (SOURCE / "support" / "version.py").read_text(encoding="utf-8")
)[0]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode", "sphinx_copybutton"]
extensions += ["mathml"]  # ours
exclude_patterns = ["_build", "_extensions", "figures"]
# pages of the reference about what needs a package beyond the core: they are left out where it cannot be imported
for page, subjects in {
    "api/regressor.rst": ["cagp.CAGPRegressor"],
    "api/interop.rst": ["cagp.interop.from_sklearn", "cagp.interop.from_gpytorch", "cagp.interop.register_xarray"],
    "api/saving.rst": ["cagp.load"],
    "api/studies.rst": ["cagp_studies.run_study"],
}.items():
    if not all(pydoc.locate(subject) for subject in subjects):
        exclude_patterns.append(page)

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
autodoc_default_options = {"members": True}
autodoc_inherit_docstrings = False  # a method is explained where it is first written down
autodoc_type_aliases = {"ArrayLike": "ArrayLike", "Embedding": "Embedding"}
napoleon_google_docstring = False  # the estimator follows scikit-learn, which follows numpy
napoleon_use_ivar = False  # names that end with an underscore would lose it
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100


def present_pages_only(app: Sphinx, page: str, source: list[str]) -> None:
    """Take pages that are not there out of the tables of contents, so that a section may be left out or come later."""
    kept, table = [], ""
    for line in source[0].splitlines():
        name = posixpath.normpath(posixpath.join(posixpath.dirname(page), line.strip()))
        if line.startswith(("```{toctree}", ".. toctree::")):
            table = line[0]
        elif line.startswith("```") or (table == "." and line[:1].strip()):  # Markdown's ends with a fence
            table = ""
        elif table and re.fullmatch(r" *[\w/-]+", line) and name not in app.project.docnames:
            continue
        kept.append(line)
    source[0] = "\n".join(kept)


def plain_aliases(app: Sphinx, what: str, name: str, obj: object, options: object, *found: str | None) -> Any:
    """Write ``ArrayLike | None`` where autodoc writes the alias of a union as a forward reference."""
    return tuple(text and re.sub(r"TypeAliasForwardRef\('(\w+)'\)", r"\1", text) for text in found)


def setup(app: Sphinx) -> None:
    app.connect("source-read", present_pages_only)
    app.connect("autodoc-process-signature", plain_aliases)
