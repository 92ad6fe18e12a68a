"""What finished studies leave behind, and one self-contained page about all of them in a folder.

Each leaves a record, one JSON file beside its tables and figures; to read the page, no file beside it and no network
are needed.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cagp.errors import InputError
from cagp.reports import page
from cagp.support.atomic_files import write_atomically

from .study import Comparison

RECORD_FILE = "study.json"
_LAYOUT = 1


@dataclass(frozen=True)
class Record:
    """One finished study. ``figures`` maps the name of a figure (its files are name.png and name.pdf) to its caption.

    ``seconds`` is the computing time of all pieces together, ``environments`` the distinct versions and machines
    they were computed with: more than one where a study was continued elsewhere. ``solvers`` are those that were
    asked for beside the study's own.
    """

    name: str
    title: str
    shows: str
    scale: str
    seed: int
    configuration: Mapping[str, Any]
    pieces: int
    seconds: float
    environments: Sequence[Mapping[str, str]]
    tables: Sequence[str]
    figures: Mapping[str, str]
    comparisons: Sequence[Comparison]
    remarks: Sequence[str]
    solvers: Sequence[str] = ()

    def save(self, folder: Path) -> None:
        """Write the record to ``folder``."""
        content = {"layout": _LAYOUT, **dataclasses.asdict(self)}
        write_atomically(folder / RECORD_FILE, json.dumps(content, indent=1, ensure_ascii=False).encode())

    @classmethod
    def load(cls, folder: Path) -> Record:
        """Read the record of a study from its ``folder``."""
        path = folder / RECORD_FILE
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if content.pop("layout") != _LAYOUT:
                raise ValueError("it was written by another version of cagp")
            comparisons = [Comparison(**each) for each in content.pop("comparisons")]
            return cls(**content, comparisons=comparisons)
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{path} cannot be read ({error}); run `cagp reproduce {folder.name}` again, or delete the folder"
            ) from error


def load_all(out: Path) -> list[Record]:
    """The records of all studies in the folder ``out``, by name."""
    return [Record.load(path.parent) for path in sorted(out.glob(f"*/{RECORD_FILE}"))]


# --- the page ---------------------------------------------------------------------------------------------------------


FILE_NAME = "report.html"

_TEMPLATE = """\
{% extends "base.html" %}
{% from "parts.html" import figure, list %}
{% block title %}cagp: studies{% endblock %}
{% block body %}
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
{{ figure(image(record.name, name), caption) }}
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
{{ list(record.remarks) }}
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
{% endblock %}
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

    def image(study: str, name: str) -> str:
        return page.inline((out / study / f"{name}.png").read_bytes())

    return page.render(_TEMPLATE, {"records": records, "image": image, "duration": duration})


def duration(seconds: float) -> str:
    """Seconds as a person would say it: "3.2 s", "12 min"."""
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
