"""The two pages: the report of a fit, and the check whether error bars are right, of the method and of the model."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from ..calibration import SimulationResult, simulation_based_calibration
from ..hyperparameters import FitResult
from ..model import Model
from ..recalibration.diagnosis import Diagnosis, diagnose, joint_verdict
from ..solvers import Solver
from ..support.convert import array
from ..support.numbers import percent
from ..support.progress import progress as progress_bar
from ..support.validation import ArrayLike, count
from .by_place import simulated as simulated_picture
from .computational_share import Computation, measure, shares_picture
from .directions import directions_picture, directions_table, turned_part
from .held_out import predict_held_out
from .inputs import attempt, check_inputs, working
from .judgement import coverage_table, judgement, judgement_on_data, remedies_for_method, trial
from .model_section import advice, columns_table, facts_table, hyperparameters_table
from .names import Names
from .page import Folder
from .prediction_pictures import draw

_TEST = 50  # so many points, at which simulations are compared with what is predicted

Holdout = tuple[ArrayLike, ArrayLike] | tuple[ArrayLike, ArrayLike, ArrayLike] | None


@dataclass(frozen=True)
class FitReport:
    """The page at ``path``, for which this may stand, as in ``open(report)``; ``finding`` is what its opening says."""

    path: Path
    finding: str

    def __str__(self) -> str:
        return str(self.path)

    __fspath__ = __str__


def write_fit_report(
    model: Model,
    folder: str | os.PathLike[str],
    *,
    fit: FitResult | None = None,
    holdout: Holdout = None,
    like: ArrayLike | None = None,
    names: Names | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> FitReport:
    """Write ``folder``/report.html about a model, with its figures inside and as PNG files beside it.

    It says what was fitted; the hyperparameters with their uncertainty, from ``fit``, and advice; draws predictions;
    judges the error bars on ``holdout`` = (X, y), or on left-out training data where there is none, in the geometry of
    points ``like`` = X_test (T, p); and measures how much of the error bars is computational and what more iterations
    would buy. A recalibrated model is judged with its recalibration. ``names`` are for labels. The same ``seed`` gives
    the same report. ``progress`` shows a bar: None on a terminal only. Beside it lies map.html, a page as ``Model.map``
    writes, where there is a map.
    """
    given = check_inputs(model, fit, holdout, like, names)
    heaviest, names = given.heaviest, given.names
    fit, modelled = model.result if fit is None else fit, names.modelled(model)
    count(seed, "seed")
    place = Folder(folder)
    turned = turned_part((heaviest.prior if fit is None else fit.prior).kernel, names)
    values: dict[str, Any] = {
        "names": names,
        "fit": fit,
        "story": _story(model),
        "facts": facts_table(model, names, None if fit is None else fit.prior),
        "columns": columns_table(heaviest, names),
        "hyperparameters": hyperparameters_table(heaviest, fit, modelled),
        "advice": advice(heaviest, fit, modelled, mixed=len(model.components) > 1),
        "directions": None if turned is None else directions_table(*turned, names),
        "directions_picture": None if turned is None else place.picture(*directions_picture(*turned, names)),
        "computation_picture": None,
    }
    with progress_bar("report", 3, progress) as advance:
        drawn, values["predictions_problem"] = attempt(lambda: draw(model, names, seed))
        pictures, page = drawn or ([], "")
        values["predictions"] = [place.picture(*each) for each in pictures]
        values["map_page"] = place.page("map.html", page) if page else ""
        advance(1)
        found, problem = attempt(lambda: predict_held_out(given, seed))
        advance(1)
        values["held_out_problem"] = problem or "With one observation there is nothing to predict from the others."
        values["held_out"] = None if found is None else judgement_on_data(found, given, place)
        measured, problem = attempt(lambda: measure(heaviest, seed))
        computation = values["computation"] = measured or Computation((f"Not measured: {problem}",))
        if computation.now is not None and computation.later is not None:
            content = shares_picture(computation.now, computation.later, computation.what)
            caption = "The share of the variance that is computational, now and after more work: estimate, and the "
            caption += "range that is guaranteed to hold it."
            values["computation_picture"] = place.picture("computation", content, caption)
        advance(1)
    first = [values["held_out"]["sentence"]] if values["held_out"] else []
    opening = values["opening"] = " ".join([*first, computation.sentences[0]])
    return FitReport(place.write("report.html", values), opening)


def _story(model: Model) -> list[tuple[str, list[tuple[bool, list[str]]]]]:
    """The sections of a story, each with its title and groups of lines; those of its table are aligned by blanks."""
    sections = [] if model.record is None else model.record.sections
    return [
        (title, [(aligned, list(some)) for aligned, some in groupby(lines, lambda line: line.startswith("  "))])
        for title, lines in sections
    ]


@dataclass(frozen=True, eq=False)
class CheckReport:
    """What ``write_check_report`` found: ``path`` is the page, ``verdict`` the answer in a sentence.

    ``state`` is "right", "suspicious", "wrong", or "unknown" where too few values were judged, or none. ``method``
    judges the method under its prior, ``data`` the model against data; None where that could not be done, as
    ``problems`` say. ``advice`` is what to do, most likely remedy first. ``recalibrated`` judges the same data
    recalibrated, where the model is or where that was tried.
    """

    path: Path
    verdict: str
    state: str
    method: Diagnosis | None
    data: Diagnosis | None
    advice: tuple[str, ...]
    problems: tuple[str, ...]
    recalibrated: Diagnosis | None = None

    @property
    def calibrated(self) -> bool:
        """Whether no test rejects the error bars."""
        return self.state != "wrong"

    @property
    def suspicious(self) -> bool:
        """Whether no test rejects the error bars, but some coverage is outside of what chance explains."""
        return self.state == "suspicious"

    def summary(self) -> str:
        """The verdict, both answers and the advice, as text for a terminal."""
        lines = [self.verdict]
        for title, found in (("method", self.method), ("data", self.data)):
            if found is not None:
                lines.append(f"  {title}: {found.whole_sentence[:1].lower()}{found.whole_sentence[1:]}")
                levels = ", ".join(f"{100 * c.level:g}% → {100 * c.found:.1f}%" for c in found.coverage)
                lines.append(f"    intervals hold: {levels}")
                lines += [f"    {note}" for note in found.notes]
        lines += [f"  {problem}" for problem in self.problems]
        lines += [f"  - {sentence}" for sentence in self.advice]
        return "\n".join([*lines, f"  {self.path}"])


def write_check_report(
    model: Model,
    folder: str | os.PathLike[str],
    *,
    holdout: Holdout = None,
    like: ArrayLike | None = None,
    names: Names | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> CheckReport:
    """Write ``folder``/check.html, which answers whether the error bars of a model are right, and return the answer.

    Separately for the method under its own prior, by simulations at a sample of the training inputs, and for the model
    against data: ``holdout`` = (X, y), or (X, y, noise_variance) where each observation has a noise of its own, or
    left-out training data, in the geometry of points ``like`` = X_test (T, p). Says where and which way they fail and
    what to do about it, and tries a recalibration; a recalibrated model is judged as it is. ``names`` are for labels.
    The same ``seed`` gives the same report. ``progress`` shows a bar: None on a terminal only.
    """
    given = check_inputs(model, None, holdout, like, names)
    count(seed, "seed")
    place, method, data = Folder(folder), None, None
    with progress_bar("check", 2, progress) as advance:
        simulated, method_problem = attempt(lambda: simulate(given.heaviest, seed))
        advance(1)
        found, data_problem = attempt(lambda: predict_held_out(given, seed))
        advance(1)
    values: dict[str, Any] = {"facts": facts_table(model, given.names)}
    values |= {"method": None, "method_problem": method_problem, "data": None}
    if simulated is not None:
        result, how = simulated
        method = diagnose(-result.z)
        caption = "Simulations under the prior: the grey bands hold what chance does to a method that is right, 95% of "
        caption += "the time, everywhere at once."
        values["method"] = judgement(
            method,
            how=how,
            advice=remedies_for_method(method, result.solver),
            tables=[coverage_table(method, "Coverage, simulations under the prior.", "simulated-coverage")],
            pictures=[place.picture("simulated", simulated_picture(result.t, result.z), caption)],
        )
    if found is not None:
        data = found.judged.diagnosis
        values["data"] = judgement_on_data(found, given, place)
    elif not data_problem:
        data_problem = "The model was not checked against data: one observation leaves none to hold out."
    verdict, state = joint_verdict(method, data)
    if found is not None and data is not None and data.state != "right" and not found.recalibrated:
        verdict = f"{verdict} {trial(found, 'Recalibration (--recalibrate) was tried here, and it')}"
    values |= {"verdict": verdict, "state": state, "data_problem": data_problem}
    path = place.write("check.html", values)
    said = [sentence for part in (values["method"], values["data"]) if part for sentence in part["advice"]]
    left_out = ""
    if given.holdout is not None and given.holdout.known:
        known, new = given.holdout.known, len(given.holdout.y)
        left_out = f"{known:,} of the {known + new:,} rows are training rows and were left out."
    problems = tuple(filter(None, (left_out, method_problem, data_problem)))
    after = None if found is None or found.after is None else found.after.diagnosis
    return CheckReport(path, verdict, state, method, data, tuple(dict.fromkeys(said)), problems, after)


def simulate(model: Model, seed: int) -> tuple[SimulationResult, str]:
    """Simulation-based calibration at some of the model's training inputs, predicting at others; how, in sentences."""
    solver, size = working(model), len(model.recipe.y)
    most, n = (400, 1000) if solver.calibrated else (200, 300)  # where every simulation needs a solve of its own
    rng, X = np.random.default_rng(seed), model.recipe.X
    order = rng.permutation(size)
    train, test = np.sort(order[:most]), X[order[most : most + _TEST]]
    where = f"{len(test)} further inputs of the data"
    if not len(test):  # all are in use: points between random pairs of them
        own = array(model.X)
        first, second = (own[rng.integers(len(own), size=_TEST)] for _ in range(2))
        test = array(model.test_points(first + rng.uniform(0.2, 0.8, (_TEST, 1)) * (second - first))[0])
        where = f"{_TEST} points between them"
    chosen = solver.for_points(train, size)
    result = simulation_based_calibration(
        model.recipe.restricted(train).prior, X[train], test, chosen, n_simulations=n, seed=seed, progress=False
    )
    fewer = f"at {len(train):,} of the {size:,} training inputs, drawn at random"
    some = fewer if len(train) < size else "at all training inputs"
    how = (
        f"{n:,} times, a function and noisy observations of it were drawn from the prior {some}, and a weighted sum of "
        f"its values at {where} was predicted by {chosen!r} and compared with the truth. Here the model is right by "
        f"construction, so whatever is wrong is the method's. {_size(solver, chosen, len(train), size)}"
    )
    return result, how


def _size(solver: Solver, chosen: Solver, tested: int, size: int) -> str:
    """At which size the method was tested, as ``chosen`` for it, and what that means for the model's own solver."""
    said = []
    if tested < size:
        said.append(f"So the method was tested with {tested:,} observations, not with the model's {size:,}.")
        there, here = chosen.description(tested).points_used, solver.description(size).points_used
        if there is not None and here is not None and there * size > here * tested:
            said.append(
                f"There, the {there} points that a prediction uses are {percent(there / tested)} of the data, in the "
                f"model {percent(here / size)}: the test is of a method that is closer to exact."
            )
        elif solver.calibrated and not solver.description(size).exact:
            said.append("With fewer observations the same settings usually come closer to the exact posterior.")
        theorem = "For a calibrated solver, error bars are right at every size by a theorem, so this tests its code."
        otherwise = "How far error bars that depend on y are off changes with the size."
        said.append(theorem if solver.calibrated else otherwise)
    same = "With one seed all solvers see the same draws, so two that are almost exact at this size show almost the "
    return " ".join([*said, f"{same}same numbers."])
