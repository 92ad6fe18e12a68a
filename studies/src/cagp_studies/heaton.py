"""The competition of Heaton et al. 2019 through the front door: fitted without test values, then scored."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from scipy.spatial import cKDTree

import cagp
from cagp.prediction import Prediction

from . import heaton_figures as figures
from . import heaton_results as results
from .heaton_data import SATELLITE, SIMULATED, Given, load, satellite_content
from .heaton_scores import scores_of
from .study import Presentation, Study, Tables

LEVELS = (0.5, 0.95)
TRUE_PRIOR = cagp.Prior(
    cagp.Matern12(lengthscale=1 / 0.75, variance=16.40771), mean=cagp.Constant(44.49105), noise_variance=0.05
)
"""What the simulated field was drawn from: Code/FormatData/FormatData.R of the organisers."""

_DECIMALS = 4


@dataclass(frozen=True)
class HeatonConfig:
    """Every so many-th row and column of the grid; 1 is the competition."""

    every: int


@dataclass(frozen=True)
class HeatonPiece:
    """One of the two fields."""

    field: str


class Heaton(Study[HeatonConfig, HeatonPiece]):
    """``cagp.fit(X, y, like=gaps)`` and ``predict``, with no options; the satellite data where their file is."""

    name = "heaton"
    title = "The competition of Heaton et al. 2019"
    shows = "nothing in the paper: a published competition among methods for large spatial data"
    scales: ClassVar[Mapping[str, HeatonConfig]] = {"quick": HeatonConfig(every=4), "paper": HeatonConfig(every=1)}

    def pieces(self, config: HeatonConfig) -> Mapping[str, HeatonPiece]:
        pieces = {SIMULATED: HeatonPiece(SIMULATED)}
        if (content := satellite_content()) is not None:  # another file is another piece
            pieces[f"{SATELLITE}-{content}"] = HeatonPiece(SATELLITE)
        return pieces

    def side_by_side(self, asked: int) -> int:
        return 1  # each field has all cores, so that its time means something

    def run(self, config: HeatonConfig, piece: HeatonPiece, seed: int) -> Tables:
        started = time.perf_counter()
        field = load(piece.field).thinned(config.every)
        reading = time.perf_counter() - started
        predicted = fit_and_predict(field.given, seed)
        started = time.perf_counter()
        scored = scores_of(predicted.prediction, field.truth)
        scoring = time.perf_counter() - started

        data = {"data": field.name, "seed": seed}
        facts = {
            **data,
            "every": config.every,
            "train": len(field.given.y),
            "gaps": len(field.given.gaps),
            "threads": torch.get_num_threads(),
            "fit_seconds": predicted.fit_seconds,
            "predict_seconds": predicted.predict_seconds,
        }
        model = predicted.model
        rest = predicted.fit_seconds - sum(each.seconds for each in model.candidates)
        stages = [
            ("", "read the data", reading),
            *(("fit", f"fit {each.name}", each.seconds) for each in model.candidates),
            ("fit", results.REST, rest),
            ("predict", "predict in the gaps", predicted.predict_seconds),
            ("", "score", scoring),
        ]
        told = [] if model.record is None else [line for _, lines in model.record.sections for line in lines]
        tables = {
            "table": pd.DataFrame([facts | scored]),
            "candidates": pd.DataFrame([data | vars(each) for each in model.candidates]),
            "model": pd.DataFrame([data | each for each in parts_of(model)]),
            "stages": pd.DataFrame([{**data, "of": of, "stage": name, "seconds": took} for of, name, took in stages]),
            "story": pd.DataFrame([{**data, "told": line} for line in told]),
            "given": _columns(data, field.given.X, {"temperature": field.given.y}),
            "gaps": _columns(data, field.given.gaps, predicted.columns() | {"truth": field.truth}),
        }
        if piece.field == SIMULATED:
            tables["oracle"] = pd.DataFrame([data | scores_of(oracle(field.given), field.truth)])
        return tables

    def present(self, config: HeatonConfig, tables: Tables) -> Presentation:
        drawings, comparisons, remarks = {}, [], []
        for name in tables["table"]["data"]:
            parts = {table: rows[rows["data"] == name] for table, rows in tables.items()}
            own = {table: rows for table, rows in parts.items() if len(rows)}
            drawings[f"fields_{name}"] = figures.fields(own, config.every)
            drawings[f"errors_{name}"] = figures.errors(own, config.every)
            drawings[f"coverage_{name}"] = figures.by_distance(own, config.every)
            drawings[f"stages_{name}"] = figures.stages(own)
            comparisons += results.comparisons(own)
            remarks += results.remarks(own)
        return Presentation(drawings, comparisons, [*results.general_remarks(tables["table"]), *remarks])


@dataclass(frozen=True, eq=False)
class Predicted:
    """What was predicted for observations in the gaps, by which model, the distance (T,) of each gap's place to the
    nearest datum in degrees, and how long the fit and the prediction took.
    """

    model: cagp.Model
    prediction: Prediction
    distance: np.ndarray
    fit_seconds: float
    predict_seconds: float

    def columns(self) -> dict[str, np.ndarray]:
        """Mean, std, central intervals and distance, each (T,)."""
        found = {"mean": self.prediction.mean, "std": self.prediction.std, "distance": self.distance}
        for level in LEVELS:
            lower, upper = self.prediction.interval(level)
            found |= {f"lower_{100 * level:g}": lower, f"upper_{100 * level:g}": upper}
        return found


def fit_and_predict(given: Given, seed: int = 0) -> Predicted:
    """All that a competitor does, from what a competitor is given: no test value can be reached from here."""
    started = time.perf_counter()
    model = cagp.fit(given.X, given.y, like=given.gaps, seed=seed, progress=False)
    fitted = time.perf_counter()
    prediction = model.predict(given.gaps, progress=False).observed()  # the truth is an observation, with its noise
    predicted = time.perf_counter()
    distance, _ = cKDTree(given.X).query(given.gaps)
    return Predicted(model, prediction, distance, fitted - started, predicted - fitted)


def oracle(given: Given) -> Prediction:
    """What nobody in a competition could do: the simulated field predicted with the prior that it was drawn from."""
    model = TRUE_PRIOR.condition(given.X, given.y, cagp.NearestNeighbours(60, far=60))
    return model.predict(given.gaps, progress=False).observed()


def parts_of(model: cagp.Model) -> list[dict[str, Any]]:
    """The priors that predict together, the one with the most weight first, in words with four digits."""
    return [
        {
            "weight": float(weight),
            "kernel": _short(each.prior.kernel),
            "trend": _short(each.prior.mean),
            "noise": _noise(each.prior),
        }
        for each, weight in zip(model.components, model.weights, strict=True)
    ]


def _noise(prior: cagp.Prior) -> str:
    """The noise variance in words: it differs from place to place where it has a pattern."""
    pattern = prior.noise_pattern
    return f"{prior.noise_variance:.4g}" + ("" if pattern is None else f" · {_short(pattern)}²")


def _short(part: object) -> str:
    text = re.sub(r"\d+\.\d+(e[+-]?\d+)?", lambda number: f"{float(number.group()):.4g}", repr(part))
    return text.replace(", columns=None", "").replace(", coefficients=None", "")


def _columns(data: dict[str, Any], places: np.ndarray, values: Mapping[str, np.ndarray]) -> pd.DataFrame:
    rounded = {name: np.round(np.asarray(column), _DECIMALS) for name, column in values.items()}
    return pd.DataFrame({**data, "Lon": places[:, 0], "Lat": places[:, 1], **rounded})
