"""What every HTML page of cagp shares: the style, the frame, and pictures inside the page instead of beside it."""

from __future__ import annotations

import base64
from typing import Any

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
details { margin: 1rem 0; }
code { font-size: .9em; }
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
{%- if content.caption %}
<caption>{{ content.caption }}</caption>
{%- endif %}
{%- if content.columns %}
<thead><tr>{% for column in content.columns %}<th scope="col">{{ column }}</th>{% endfor %}</tr></thead>
{%- endif %}
<tbody>
{%- for row in content.rows %}
<tr>{% for cell in row %}{% if loop.first and content.headed %}<th scope="row">{{ cell }}</th>{% else %}<td>{{ cell }}</td>{% endif %}{% endfor %}</tr>
{%- endfor %}
</tbody>
</table>
{% endmacro %}
{% macro figure(source, caption) %}
<figure><img src="{{ source }}" alt="{{ caption }}"><figcaption>{{ caption }}</figcaption></figure>
{% endmacro %}
{% macro list(sentences) %}
{%- if sentences %}
<ul>
{%- for sentence in sentences %}
<li>{{ sentence }}</li>
{%- endfor %}
</ul>
{%- endif %}
{% endmacro %}
"""  # noqa: E501


def render(template: str, values: dict[str, Any]) -> str:
    """A jinja2 ``template`` with ``values``; it may extend "base.html" and import macros from "parts.html"."""
    from jinja2 import DictLoader, Environment, StrictUndefined

    loader = DictLoader({"base.html": _BASE, "parts.html": _PARTS})
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
    return environment.from_string(template).render(values)


def inline(png: bytes) -> str:
    """A PNG picture as the source of an image, so that the page needs no file beside it."""
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"
