"""The calibration check: are the error bars right, of the method and of the model?"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..recalibration.diagnosis import FEW, Diagnosis, diagnose, visible
from ..support.numbers import number
from ..support.progress import progress as progress_bar
from ..support.validation import ArrayLike, count
from . import pictures
from .inputs import attempt, checked, on_the_scale_of_the_model
from .judgement import announced, coverage_table, judged
from .model_section import facts_table
from .names import Names
from .page import Folder
from .prior_simulations import Simulated, simulate
from .remedies import remedies_for_method, trial
from .unseen import Unseen, predict_unseen

if TYPE_CHECKING:
    from ..model import Model
    from ..recalibration import LayeredModel

FILE_NAME = "check.html"

_TEMPLATE = """\
{% extends "base.html" %}
{% from "parts.html" import judgement, table %}
{% block title %}cagp: are the error bars right?{% endblock %}
{% block body %}
<h1>Are the error bars right?</h1>
<p class="{{ state }}" id="verdict"><strong>{{ verdict }}</strong></p>
<p>Two questions are answered apart. Is the <em>method</em> right: do its error bars hold what they promise when the
prior is true? And is the <em>model</em> right: do they hold real observations? A method can be right and the model
still wrong, if kernel, noise or mean do not fit the data. A check can find that they are wrong; where it finds no
sign of that, its sentence says what it could have seen.</p>
<section id="method"><h2>The method, under its own prior</h2>
{{ judgement(method, method_problem) }}
</section>
<section id="data"><h2>The model, against data</h2>
{{ judgement(data, data_problem) }}
</section>
<section id="model"><h2>What was checked</h2>
{{ table(facts) }}
</section>
{% endblock %}
"""


@dataclass(frozen=True, eq=False)
class CheckReport:
    """What ``write_check_report`` found.

    ``path`` is the page, ``verdict`` the answer in a sentence, ``calibrated`` whether no test rejects the error bars;
    ``suspicious`` where none does, but some coverage is outside of what chance explains. ``method`` judges the method
    under its prior, ``data`` the model against data; None where that could not be done, and then ``problems`` say why,
    and what was left out. ``advice`` is what to do, most likely remedy first. ``recalibrated`` judges the same data
    with the error bars recalibrated, where the model is or where that was tried.
    """

    path: Path
    verdict: str
    calibrated: bool
    method: Diagnosis | None
    data: Diagnosis | None
    advice: tuple[str, ...]
    problems: tuple[str, ...]
    recalibrated: Diagnosis | None = None

    @property
    def suspicious(self) -> bool:
        """Whether no test rejects the error bars, but some coverage is outside of what chance explains."""
        return self.calibrated and any(found is not None and found.suspicious for found in (self.method, self.data))

    def summary(self) -> str:
        """The verdict, both answers and the advice, as text for a terminal."""
        lines = [self.verdict]
        for title, found in (("method", self.method), ("data", self.data)):
            if found is not None:
                lines.append(f"  {title}: {announced(found, start=False)}")
                levels = ", ".join(f"{100 * c.level:g}% → {100 * c.found:.1f}%" for c in found.coverage)
                lines.append(f"    intervals hold: {levels}")
                lines += [f"    {note}" for note in found.notes]
        lines += [f"  {problem}" for problem in self.problems]
        lines += [f"  - {sentence}" for sentence in self.advice]
        return "\n".join([*lines, f"  {self.path}"])


def write_check_report(
    model: Model | LayeredModel,
    folder: str | os.PathLike[str],
    *,
    holdout: tuple[ArrayLike, ArrayLike] | tuple[ArrayLike, ArrayLike, ArrayLike] | None = None,
    like: ArrayLike | None = None,
    names: Names | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> CheckReport:
    """Write ``folder``/check.html, which answers whether the error bars of a model are right, and return the answer.

    Separately for the method under its own prior, by simulations at a sample of the training inputs, and for the model
    against data: ``holdout`` = (X, y), or (X, y, noise_variance) where each observation has a noise of its own, or
    left-out training data where there is none, in the geometry of points ``like`` = X_test (T, p). Says where and which
    way they fail and what to do about it, and tries a recalibration. A recalibrated model is judged with its
    recalibration. ``names`` are for labels. The same ``seed`` gives the same report. ``progress`` shows a bar: None on
    a terminal only.
    """
    model, holdout, names, scale = on_the_scale_of_the_model(model, holdout, names)
    given = checked(model, None, holdout, like, names)
    plain, names = given.plain, given.names
    count(seed, "seed")
    place = Folder(folder)
    with progress_bar("check", 2, progress) as advance:
        simulated, method_problem = attempt(lambda: simulate(plain, seed))
        advance(1)
        unseen, data_problem = attempt(lambda: predict_unseen(model, given.holdout, given.like, seed, advance))
    method = None if simulated is None else diagnose(-simulated.result.z)
    data = None if unseen is None else unseen.judged.diagnosis
    if unseen is None and not data_problem:
        data_problem = "The model was not checked against data: one observation leaves none to hold out."
    verdict, calibrated = _verdict(method, data)
    if unseen is not None and data is not None and data.state != "right" and not unseen.layered:
        verdict = f"{verdict} {_remedy(unseen)}"
    states = [found.state for found in (method, data) if found is not None]
    values: dict[str, Any] = {
        "verdict": verdict,
        "state": next((state for state in ("suspicious", "right") if calibrated and state in states), "wrong"),
        "facts": facts_table(plain, names, scale),
        "method": None if simulated is None or method is None else _method(simulated, method, place),
        "method_problem": method_problem,
        "data": None if unseen is None else judged(unseen, plain, names, place),
        "data_problem": data_problem,
    }
    path = place.write(FILE_NAME, _TEMPLATE, values)
    said = [sentence for part in (values["method"], values["data"]) if part for sentence in part["advice"]]
    left_out = ""
    if given.holdout is not None and given.holdout.known:
        known, new = given.holdout.known, len(given.holdout.y)
        left_out = f"{known:,} of the {known + new:,} rows are training rows and were left out."
    problems = tuple(filter(None, (left_out, method_problem, data_problem)))
    after = None if unseen is None or unseen.recalibrated is None else unseen.recalibrated.diagnosis
    return CheckReport(path, verdict, calibrated, method, data, tuple(dict.fromkeys(said)), problems, after)


def _verdict(method: Diagnosis | None, data: Diagnosis | None) -> tuple[str, bool]:
    """The answer in a sentence, and whether no test rejects the error bars."""
    if data is not None and not data.right:
        said = f"Against data, {data.sentence}"
        if method is not None and method.right:
            return f"{said}; under its own prior no test rejects the method, so the model does not fit the data.", False
        also = "" if method is None else f". Under its own prior too, {method.sentence}"
        return f"{said}{also}.", False
    if method is not None and not method.right:
        also = ", although the data do not show it" if data is not None else ""
        return f"Under the method's own prior, {method.sentence}{also}.", False
    if method is None and data is None:
        return "Nothing could be checked, so nothing is known about the error bars.", False
    doubts = [("under the method's own prior", method), ("against data", data)]
    doubted = [f"{where}, {found.sentence}" for where, found in doubts if found is not None and found.suspicious]
    if doubted:
        return f"Suspicious: {'. Also '.join(doubted)}.", True
    where = "under the method's own prior" if method is not None else "the method was not checked"
    if data is None:
        there = "the model was not checked against data"
    elif len(data.z) < FEW:
        there = f"{len(data.z)} held-out {'values are' if len(data.z) > 1 else 'value is'} too few to say more"
    elif method is None:
        there = f"against data, {_seen(data)}"
    else:
        where, there = "neither under the method's own prior", f"nor against data, {_seen(data)}"
    join = " " if where.startswith("neither") else ", and "
    return f"No sign that the error bars are wrong: {where}{join}{there}.", True


def _remedy(unseen: Unseen) -> str:
    """Whether a recalibration mends what was found against data, in a sentence."""
    return trial(unseen, "Recalibration (--recalibrate) was tried here, and it")


def _seen(data: Diagnosis) -> str:
    return f"where {len(data.z):,} rows would show errors of about {number(visible(data.worth))} times what is promised"


def _method(simulated: Simulated, found: Diagnosis, place: Folder) -> dict[str, Any]:
    caption = (
        "Simulations under the prior: the grey bands hold what chance does to a method that is right, 95% of the time, "
        "everywhere at once."
    )
    content = pictures.simulated(simulated.result.t, simulated.result.z)
    return {
        "state": found.state,
        "sentence": " ".join([announced(found), *found.notes]),
        "how": simulated.how,
        "pictures": [place.picture("simulated", content, caption)],
        "parts": [],
        "tables": [coverage_table(found, "Coverage, simulations under the prior.", "simulated-coverage")],
        "advice": remedies_for_method(found, simulated.solver),
    }
