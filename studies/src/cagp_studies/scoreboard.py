"""One frozen protocol on many sets: ``cagp.fit`` with its defaults, beside the truth and beside a straight line."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from typing import Any, ClassVar

import numpy as np
import pandas as pd

import cagp
from cagp.calibration import score
from cagp.choosing.options import Options, TrainingData
from cagp.prediction import Prediction

from . import scoreboard_results as results
from .heaton_data import satellite_content
from .heaton_scores import scores_of
from .problem import Problem, generator
from .scoreboard_sets import SETS, ScoredSet
from .study import Presentation, Study, Tables

_SECONDS = 1800.0  # so many that no clock decides what is tried; what the default allows stands beside what was used
_WARM = (100, 2100)  # rows of fits that are not measured: with the second the likelihood by terms is compiled, too


@dataclass(frozen=True)
class ScoreboardConfig:
    """At most so many ``rows`` to fit to, ``tests`` and ``parts`` of each of the ``sets``; None is all."""

    sets: tuple[str, ...]
    rows: int | None = None
    tests: int | None = None
    parts: int | None = None


@dataclass(frozen=True)
class ScoreboardPiece:
    """One split or one mask of a set."""

    set: str
    part: int


class Scoreboard(Study[ScoreboardConfig, ScoreboardPiece]):
    """Sets, splits, seeds, options and scores are fixed; a hash of all of them is printed with the table."""

    name = "scoreboard"
    title = "The scoreboard: one frozen protocol on all sets"
    shows = "nothing in the paper: how good the defaults are, on data that are not chosen by how good they are"
    alone = True
    scales: ClassVar[Mapping[str, ScoreboardConfig]] = {
        "quick": ScoreboardConfig(tuple(SETS), rows=400, tests=400, parts=1),
        "paper": ScoreboardConfig(tuple(SETS)),
    }

    def pieces(self, config: ScoreboardConfig) -> Mapping[str, ScoreboardPiece]:
        content = satellite_content()
        endings = {  # another file of the satellite makes other pieces, and none makes none
            name: f"-{content}" if "satellite" in name else ""
            for name in config.sets
            if SETS[name].here() and ("satellite" not in name or content is not None)
        }
        most = max(SETS[name].parts for name in config.sets)
        return {  # the first part of every set first
            f"{name}{ending}-{part:02d}": ScoreboardPiece(name, part)
            for part in range(most if config.parts is None else min(most, config.parts))
            for name, ending in endings.items()
            if part < SETS[name].parts
        }

    def run(self, config: ScoreboardConfig, piece: ScoreboardPiece, seed: int) -> Tables:
        chosen = SETS[piece.set]
        problem = _thinned(chosen.problem(piece.part, seed), config, generator(seed, piece.part))
        if config.rows is None:
            _warm_up()
        predicted = fit_and_predict(chosen, problem.X, problem.y, problem.X_test, seed)
        identity = {
            "set": piece.set,
            "part": piece.part,
            "seed": seed,
            "train": len(problem.y),
            "test": int(np.isfinite(problem.truth).sum()),
            "data": _digest(problem),
            "options": ", ".join(predicted.options),
        }
        made = {
            "clock": predicted.clock,
            "processor": predicted.processor,
            "budget": predicted.budget,
            "model": predicted.words,
            "date": datetime.now(UTC).date().isoformat(),
        }
        rows = [{**identity, "what": results.OURS, **_scores(predicted.prediction, problem.truth), **made}]
        if chosen.oracle is not None:
            rows.append({**identity, "what": results.ORACLE, **_scores(_oracle(chosen, problem), problem.truth)})
        rows.append({**identity, "what": results.LINEAR, **_linear(problem)})
        return {"table": pd.DataFrame(rows)}

    def present(self, config: ScoreboardConfig, tables: Tables) -> Presentation:
        return results.presentation(tables["table"], config.sets, whole=config.rows is None and config.parts is None)


@dataclass(frozen=True, eq=False)
class Predicted:
    """What was predicted, by which ``options`` of cagp.fit, seconds of the ``clock`` and of the ``processor`` for fit
    and prediction, the ``budget`` of seconds that is the default for such data, and the model in ``words``.
    """

    prediction: Prediction
    options: tuple[str, ...]
    clock: float
    processor: float
    budget: float
    words: str


def fit_and_predict(chosen: ScoredSet, X: np.ndarray, y: np.ndarray, X_test: np.ndarray, seed: int) -> Predicted:
    """The protocol, without any test value: defaults, and the places to predict where they lie in gaps."""
    options: dict[str, Any] = {"seed": seed}
    if chosen.gaps:
        options["like"] = X_test
    if chosen.globe is not None:
        options["globe"] = chosen.globe
    budget = Options(**options).checked(TrainingData.read(X, y, None)).seconds
    options["seconds"] = _SECONDS
    clock, processor = time.perf_counter(), time.process_time()
    model = cagp.fit(X, y, progress=False, **options)
    prediction = model.predict(X_test, progress=False).observed()
    clock, processor = time.perf_counter() - clock, time.process_time() - processor
    words = ", ".join(f"{each.weight:.2f} {each.name}" for each in model.candidates if each.weight)
    named = tuple(name if name == "like" else f"{name}={value}" for name, value in options.items())
    return Predicted(prediction, named, clock, processor, budget, words)


def _oracle(chosen: ScoredSet, problem: Problem) -> Prediction:
    """What nobody can do: predicted with the prior that the data were drawn from."""
    assert chosen.oracle is not None
    solver = cagp.NearestNeighbours(chosen.neighbours, far=chosen.neighbours if chosen.gaps else 0)
    model = chosen.oracle.condition(problem.X, problem.y, solver)
    return model.predict(problem.X_test, progress=False).observed()


def _linear(problem: Problem) -> dict[str, float]:
    """Scores of least squares on all columns with normal errors: what can be had without any thought."""
    A, A_test = (np.column_stack([np.ones(len(X)), X - problem.X.mean(axis=0)]) for X in (problem.X, problem.X_test))
    found, *_ = np.linalg.lstsq(A, problem.y, rcond=None)
    std = np.sqrt(np.square(problem.y - A @ found).sum() / (len(A) - A.shape[1]))
    known = np.isfinite(problem.truth)
    scores = score((A_test @ found)[known], np.full(known.sum(), std), problem.truth[known])
    return {name: getattr(scores, name) for name in results.AVERAGES} | {
        name: scores.coverage(level) for name, level in results.LEVELS.items()
    }


def _scores(prediction: Prediction, truth: np.ndarray) -> dict[str, float]:
    found = scores_of(prediction, truth)
    return {name: found[name] for name in (*results.AVERAGES, *results.LEVELS)}


def _thinned(problem: Problem, config: ScoreboardConfig, rng: np.random.Generator) -> Problem:
    """At most so many rows and tests, drawn at random."""
    for size, names in ((config.rows, ("X", "y")), (config.tests, ("X_test", "truth"))):
        n = len(getattr(problem, names[0]))
        if size is not None and size < n:
            kept = np.sort(rng.choice(n, size, replace=False))
            problem = replace(problem, **{name: getattr(problem, name)[kept] for name in names})
    return problem


def _digest(problem: Problem) -> str:
    """Twelve digits that change with any number of the problem."""
    found = hashlib.sha256()
    for values in (problem.X, problem.y, problem.X_test, problem.truth):
        found.update(repr(values.shape).encode() + np.ascontiguousarray(values, dtype="<f8").tobytes())
    return found.hexdigest()[:12]


@cache
def _warm_up() -> None:
    """What is compiled once is compiled before the first measurement."""
    rng = np.random.default_rng(0)
    for n in _WARM:
        X = rng.random((n, 2))
        model = cagp.fit(X, np.sin(6 * X[:, 0]) + rng.normal(size=n), kernel="matern32", mixture=False, progress=False)
        model.predict(X[:50], progress=False).observed().interval()
