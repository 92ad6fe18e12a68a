"""One self-contained page for all studies in a folder: no file beside it and no network are needed to read it."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .errors import InputError
from .studies.files import write_atomically
from .studies.record import Record, load_all

FILE_NAME = "report.html"

_TEMPLATE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>cagp: studies</title>
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
th, td { border-bottom: 1px solid #ddd; padding: .15rem .9rem .15rem 0; text-align: left; font-size: .9rem; }
thead th { border-bottom: 1px solid #444; }
details { margin: 1rem 0; }
code { font-size: .9em; }
.facts { color: #444; }
</style>
</head>
<body>
<h1>Calibrated computation-aware Gaussian processes: studies</h1>
<p>The experiments of the paper, computed again with cagp. Each section shows our figures, puts numbers of the paper
or of an independent implementation beside ours with the Monte-Carlo error, and says what differs. RMSE and NLL are
about the latent function in the synthetic problems, and about held-out observations on real data. NLL is the mean
negative log density of the truth under the marginal posteriors.</p>
<nav><ul>
{%- for record in records %}
<li><a href="#{{ record.name }}">{{ record.title }}</a> ({{ record.name }}, scale {{ record.scale }})</li>
{%- endfor %}
</ul></nav>
{%- for record in records %}
<section id="{{ record.name }}">
<h2>{{ record.title }}</h2>
<p class="facts">{{ record.shows }}.<br>
Command: <code>cagp reproduce {{ record.name }} --scale {{ record.scale }} --seed {{ record.seed }}
{%- if record.solvers %} --solvers {{ record.solvers | join(",") }}{% endif %}</code>.
{{ record.pieces }} pieces of work, {{ duration(record.seconds) }} of computing. Numbers:
{% for table in record.tables %}<code>{{ record.name }}/{{ table }}.csv</code>{{ ", " if not loop.last }}{% endfor %}.
</p>
{%- for name, caption in record.figures.items() %}
<figure><img src="{{ image(record.name, name) }}" alt="{{ caption }}"><figcaption>{{ caption }}</figcaption></figure>
{%- endfor %}
{%- for comparison in record.comparisons %}
<table>
<caption>{{ comparison.caption }}</caption>
<thead><tr>{% for column in comparison.columns %}<th scope="col">{{ column }}</th>{% endfor %}</tr></thead>
<tbody>
{%- for row in comparison.rows %}
<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{%- endfor %}
</tbody>
</table>
{%- endfor %}
{%- if record.remarks %}
<h3>What differs, and how to read this</h3>
<ul>
{%- for remark in record.remarks %}
<li>{{ remark }}</li>
{%- endfor %}
</ul>
{%- endif %}
<details><summary>Configuration, versions and machine</summary>
<table>
<tbody>
<tr><th scope="row">scale</th><td>{{ record.scale }}</td></tr>
<tr><th scope="row">seed</th><td>{{ record.seed }}</td></tr>
{%- for key, value in record.configuration.items() %}
<tr><th scope="row">{{ key }}</th><td>{{ value }}</td></tr>
{%- endfor %}
{%- for environment in record.environments %}
{%- for key, value in environment.items() %}
<tr><th scope="row">{{ key }}</th><td>{{ value }}</td></tr>
{%- endfor %}
{%- endfor %}
</tbody>
</table>
</details>
</section>
{%- endfor %}
</body>
</html>
"""


def write_report(out: Path, order: Sequence[str] = ()) -> Path:
    """Write ``out``/report.html about all studies in the folder ``out``; those named in ``order`` come first."""
    places: Mapping[str, int] = {name: place for place, name in enumerate(order)}
    records = sorted(load_all(out), key=lambda record: (places.get(record.name, len(places)), record.name))
    if not records:
        raise InputError(f"{out} holds no finished study; run `cagp reproduce synthetic --out {out}` first")
    path = out / FILE_NAME
    write_atomically(path, render(out, records).encode())
    return path


def render(out: Path, records: Sequence[Record]) -> str:
    """The page as text, with the figures of the studies in ``out`` inside."""
    from jinja2 import Environment, StrictUndefined

    def image(study: str, name: str) -> str:
        content = (out / study / f"{name}.png").read_bytes()
        return f"data:image/png;base64,{base64.b64encode(content).decode()}"

    environment = Environment(autoescape=True, undefined=StrictUndefined)
    values: dict[str, Any] = {"records": records, "image": image, "duration": duration}
    return environment.from_string(_TEMPLATE).render(values)


def duration(seconds: float) -> str:
    """Seconds as a person would say it: "3.2 s", "12 min"."""
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
