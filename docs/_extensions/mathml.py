"""Mathematics as MathML, translated while the site is built: pages need neither a network nor a script to show it."""

from __future__ import annotations

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

_logger = logging.getLogger(__name__)


def _translated(node: nodes.Element, block: bool) -> str:
    try:
        return tex2mathml(node.astext(), as_block=block)
    except MathError as error:
        _logger.warning("cannot translate the formula %r: %s", node.astext(), error, location=node)
        return nodes.Text(node.astext()).astext()


def _inline(translator: HTML5Translator, node: nodes.math) -> None:
    translator.body.append(_translated(node, block=False))
    raise nodes.SkipNode


def _display(translator: HTML5Translator, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="formula">{_translated(node, block=True)}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (_inline, None), (_display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
