"""What every HTML page of cagp shares: style, frame, tables, pictures inside the page, and the folder it lies in."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from ..support.atomic_files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, ORANGE = "#0072B2", "#D55E00"  # of Okabe and Ito's palette, which the colour-blind can tell apart

_UNPRINTABLE = (*range(32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A), *range(0xD800, 0xE000))
# Control characters, marks that turn the direction of a text, and half characters, each by what is shown for it.
_PRINTABLE: dict[int, str] = dict.fromkeys(_UNPRINTABLE, "\N{REPLACEMENT CHARACTER}") | {9: " ", 10: "\n", 13: ""}
_BASE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{% block title %}{% endblock %}</title>
<link rel="icon" href="data:,">
<style>
body { font: 16px/1.5 system-ui, sans-serif; color: #1b1b1b; background: #fff; max-width: 74rem;
  margin: 0 auto; padding: 1.5rem; }
h1, h2 { line-height: 1.2; }
section { border-top: 1px solid #bbb; margin-top: 2.5rem; }
img { max-width: 100%; height: auto; }
figure { margin: 1.5rem 0; }
figcaption, caption { color: #444; font-size: .9rem; text-align: left; }
table { border-collapse: collapse; margin: 1.2rem 0; font-variant-numeric: tabular-nums; }
caption { padding-bottom: .4rem; }
th, td { border-bottom: 1px solid #ddd; padding: .15rem .9rem .15rem 0; text-align: left; vertical-align: top;
  font-size: .9rem; }
thead th { border-bottom: 1px solid #444; }
p, li, td { overflow-wrap: anywhere; }
pre { overflow-x: auto; font-size: .85rem; line-height: 1.35; }
.facts { color: #444; }
.right { border-left: .4rem solid #009E73; padding-left: .8rem; }
.suspicious { border-left: .4rem solid #E69F00; padding-left: .8rem; }
.wrong { border-left: .4rem solid #D55E00; padding-left: .8rem; }
</style>
</head>
<body>
{% block body %}{% endblock %}
</body>
</html>
"""

_PARTS = """\
{% macro table(content) %}
<table{% if content.name %} id="{{ content.name }}"{% endif %}>
{% if content.caption %}<caption>{{ content.caption }}</caption>{% endif %}
{% if content.columns %}<thead><tr>{% for each in content.columns %}<th scope="col">{{ each }}</th>{% endfor %}</tr></thead>{% endif %}
<tbody>
{%- for row in content.rows %}
<tr>{% for cell in row %}{% if loop.first and content.headed %}<th scope="row">{{ cell }}</th>{% else %}<td>{{ cell }}</td>{% endif %}{% endfor %}</tr>
{%- endfor %}
</tbody></table>
{% endmacro %}
{% macro figure(source, caption) %}
<figure><img src="{{ source }}" alt="{{ caption }}"><figcaption>{{ caption }}</figcaption></figure>
{% endmacro %}
{% macro list(sentences) %}
{% if sentences %}<ul>{% for sentence in sentences %}<li>{{ sentence }}</li>
{% endfor %}</ul>{% endif %}
{% endmacro %}
{% macro shown(part) %}
{% for each in part.pictures %}{{ figure(**each) }}{% endfor %}
{% for each in part.tables %}{{ table(each) }}{% endfor %}
{% endmacro %}
{% macro judgement(found, problem, name="") %}
{% if found %}
<p class="{{ found.state }}"{% if name %} id="{{ name }}"{% endif %}>{{ found.sentence }}</p>
<p class="facts">{{ found.how }}</p>
{% if found.advice %}<h3>What to do</h3>{{ list(found.advice) }}{% endif %}
{{ shown(found) }}
{% for part in found.parts %}<h3>{{ part.title }}</h3>
<p>{{ part.text }}</p>
{{ shown(part) }}{% endfor %}
{% else %}<p>{{ problem }}</p>{% endif %}
{% endmacro %}
"""  # noqa: E501


def printable(text: Any) -> Any:
    """A text from files or users without characters that a page must not have; anything else as it is."""
    return text.translate(_PRINTABLE) if type(text) is str else text


def render(template: str, values: dict[str, Any]) -> str:
    """A jinja2 ``template`` with ``values``; it may extend "base.html" and import macros from "parts.html"."""
    from jinja2 import DictLoader, Environment, StrictUndefined

    loader = DictLoader({"base.html": _BASE, "parts.html": _PARTS})
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, finalize=printable)
    return environment.from_string(template).render(values)


def new_figure(rows: int, columns: int, width: float, height: float) -> tuple[Figure, np.ndarray]:
    """A figure of ``rows`` × ``columns`` panels, each so many inches, and its axes as an array of that shape."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    layout = ConstrainedLayoutEngine(h_pad=0.1, w_pad=0.08)  # labels must not touch the titles of the next row
    figure = Figure(figsize=(columns * width, rows * height), layout=layout)
    return figure, figure.subplots(rows, columns, squeeze=False)


def png(figure: Figure) -> bytes:
    """The figure as a PNG file, the same bytes every time."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=130, metadata={"Software": None})
    return buffer.getvalue()


def inline(png: bytes) -> str:
    """A PNG picture as the source of an image, so that the page needs no file beside it."""
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


@dataclass(frozen=True)
class PageTable:
    """``rows`` of texts under ``columns``; ``headed`` where the first cell of a row names it; ``name`` is its id."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    name: str = ""
    headed: bool = True


class Folder:
    """Collects pictures for a page in ``path``; each is also written as a PNG file beside it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"folder must be a folder, {self.path} is a file; give another name")
        self._pictures: dict[str, bytes] = {}

    def picture(self, name: str, png: bytes, caption: str) -> dict[str, str]:
        """A picture for the template: its source and caption."""
        self._pictures[f"{name}.png"] = png
        return {"source": inline(png), "caption": caption}

    def write(self, file: str, template: str, values: dict[str, Any]) -> Path:
        """Write the page as ``file``, and the pictures."""
        page = render(template, values)
        for name, content in self._pictures.items():
            write_atomically(self.path / name, content)
        write_atomically(self.path / file, page.encode())
        return self.path / file
