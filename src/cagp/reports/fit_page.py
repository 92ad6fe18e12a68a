"""The report of a fit: what was fitted, how sure that is, and how well it predicts."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..hyperparameters import FitResult
from ..mixtures import FittedModel, MixtureModel, before_recalibration
from ..support.progress import progress as progress_bar
from ..support.validation import ArrayLike, count
from . import pictures
from .computational_share import Computation, measure
from .directions import directions_picture, directions_table
from .inputs import attempt, checked, on_the_scale_of_the_model
from .judgement import judged
from .model_section import advice, columns_table, facts_table, hyperparameters_table
from .names import Names
from .page import Folder
from .prediction_pictures import draw
from .unseen import predict_unseen

if TYPE_CHECKING:
    from ..model import Model
    from ..recalibration import LayeredModel

FILE_NAME = "report.html"

_TEMPLATE = """\
{% extends "base.html" %}
{% from "parts.html" import figure, judgement, table, list %}
{% block title %}cagp: {{ names.target }}{% endblock %}
{% block body %}
<h1>Gaussian process fit: {{ names.target }}</h1>
<p>{{ opening }}</p>
<nav><ul>
<li><a href="#model">What was fitted</a></li>
<li><a href="#parameters">Hyperparameters</a></li>
<li><a href="#predictions">Predictions</a></li>
<li><a href="#calibration">Are the error bars right?</a></li>
<li><a href="#computation">How much of the error bar is computational?</a></li>
</ul></nav>
<section id="model"><h2>What was fitted</h2>
{{ table(facts) }}
{{ table(columns) }}
{% if story %}<h3>How it was chosen</h3>
<pre>{{ story }}</pre>{% endif %}
</section>
<section id="parameters"><h2>Hyperparameters</h2>
{% if fit %}<p>Maximum likelihood ({{ fit.likelihood }}) on {{ "{:,}".format(fit.size) }} observations:
log p = {{ "%.5g" % fit.log_likelihood }}. {{ fit.story }}</p>{% endif %}
{{ table(hyperparameters) }}
{% if directions %}{{ table(directions) }}
{{ figure(directions_picture.source, directions_picture.caption) }}{% endif %}
<h3>Advice</h3>
{{ list(advice) }}
</section>
<section id="predictions"><h2>Predictions</h2>
{% for picture in predictions %}{{ figure(picture.source, picture.caption) }}{% endfor %}
{% if predictions_problem %}<p>{{ predictions_problem }}</p>{% endif %}
</section>
<section id="calibration"><h2>Are the error bars right?</h2>
{{ judgement(held_out, held_out_problem, "verdict") }}
</section>
<section id="computation"><h2>How much of the error bar is computational?</h2>
{% for sentence in computation.sentences %}<p>{{ sentence }}</p>
{% endfor %}
{% if computation_picture %}{{ figure(computation_picture.source, computation_picture.caption) }}{% endif %}
</section>
{% endblock %}
"""


@dataclass(frozen=True)
class FitReport:
    """What ``write_fit_report`` wrote: ``path`` is the page, ``finding`` what its opening says.

    It may be used wherever a path may: ``open(report)``, ``Path(report)``, ``f"{report}"``.
    """

    path: Path
    finding: str

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        return str(self.path)


def write_fit_report(
    model: Model | LayeredModel,
    folder: str | os.PathLike[str],
    *,
    fit: FitResult | None = None,
    holdout: tuple[ArrayLike, ArrayLike] | tuple[ArrayLike, ArrayLike, ArrayLike] | None = None,
    like: ArrayLike | None = None,
    names: Names | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> FitReport:
    """Write ``folder``/report.html about a model, with its figures inside and as PNG files beside it.

    It says what was fitted; the hyperparameters with their uncertainty, from ``fit``, and advice; draws predictions;
    judges the error bars on ``holdout`` = (X, y), or on left-out training data where there is none, in the geometry of
    points ``like`` = X_test (T, p); and measures how much of the error bars is computational and what more iterations
    would buy. A recalibrated model is judged with its recalibration. ``names`` are for labels. The same
    ``seed`` gives the same report. ``progress`` shows a bar: None on a terminal only. Returns where the page is, and
    what it found in a few sentences.
    """
    model, holdout, names, scale = on_the_scale_of_the_model(model, holdout, names)
    given = checked(model, fit, holdout, like, names)
    plain, names = given.plain, given.names
    count(seed, "seed")
    place = Folder(folder)
    values: dict[str, Any] = {
        "names": names,
        "fit": fit,
        "story": model.story if isinstance(model, FittedModel) else "",
        "facts": facts_table(plain, names, scale),
        "columns": columns_table(plain, names),
        "hyperparameters": hyperparameters_table(plain, fit, names),
        "advice": advice(plain, fit, names, mixed=isinstance(before_recalibration(model), MixtureModel)),
    }
    believed = plain.prior.kernel if fit is None else fit.prior.kernel
    ellipse = directions_picture(believed, names)
    values["directions"] = directions_table(believed, names)
    values["directions_picture"] = None if ellipse is None else place.picture(*ellipse)
    with progress_bar("report", 3, progress) as advance:
        drawn, problem = attempt(lambda: draw(model, names, seed))
        values["predictions"] = [place.picture(*each) for each in drawn or []]
        values["predictions_problem"] = problem
        advance(1)
        unseen, problem = attempt(lambda: predict_unseen(model, given.holdout, given.like, seed, advance))
        values["held_out_problem"] = problem or "With one observation there is nothing to predict from the others."
        values["held_out"] = None if unseen is None else judged(unseen, plain, names, place)
        computation, problem = attempt(lambda: measure(plain, seed))
        values["computation"] = computation or Computation((f"Not measured: {problem}",))
        values["computation_picture"] = None
        if computation is not None and computation.now is not None:
            content = pictures.computation(computation.now, computation.later, computation.what)
            caption = (
                "The share of the variance that is computational, now and after more work: estimate, and the range "
                "that is guaranteed to hold it."
            )
            values["computation_picture"] = place.picture("computation", content, caption)
        advance(1)
    first = values["held_out"]["sentence"] if values["held_out"] else ""
    opening = values["opening"] = " ".join(filter(None, [first, values["computation"].sentences[0]]))
    return FitReport(place.write(FILE_NAME, _TEMPLATE, values), opening)
