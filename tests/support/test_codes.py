"""Codes for missing values among the values of a column."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import cagp
from cagp.hyperparameters import FitWarning
from cagp.support.codes import codes_in, told_of_codes

RANDOM = np.random.default_rng


@pytest.mark.parametrize(
    ("values", "codes"),
    [
        ([100.0, 1200.0, 300.0, -9999.0, -9999.0], [-9999.0]),
        ([0.1, 0.5, 99.9, -999.0, -9999.0], [-9999.0, -999.0, 99.9]),
        ([3.0, 8.0, 5.0, 999.0], [999.0]),
        ([3.0, 8.0, 5.0, 998.0], []),
        ([3.0, 800.0, 5.0, 999.0], []),
        ([-5.0, -9999.0, -1e4, -9.9e3], []),
        ([0.0, 0.0, 99.0], []),
        ([99.0, 99.0], []),
        ([0.0, 1.0, 1e20, 99.0], [99.0, 1e20]),
    ],
)
def test_usual_codes_beyond_the_range_of_the_others(values: list[float], codes: list[float]) -> None:
    assert [code for code, _ in codes_in(np.array(values))] == codes


def test_the_fit_and_the_story_tell_of_codes() -> None:
    rng = RANDOM(3)
    X = pd.DataFrame({"x": rng.random(60), "elevation": rng.uniform(100, 1200, 60).round()})
    y = np.sin(5 * X["x"]) + X["elevation"] / 1000 + 0.1 * rng.normal(size=60)
    quick = {"kernel": "rbf", "mean": "constant", "uncertainty": False, "varying": False, "recalibrate": False}
    X.loc[[3, 40], "elevation"] = -9999.0
    low, high = (f"{end:,.0f}" for end in (X["elevation"][X["elevation"] > 0].min(), X["elevation"].max()))
    said = f"'elevation' is -9999 in 2 rows, far from all other values, {low} to {high}. If that is a code for missing "
    said += "values, make these cells empty, and leave the rows out or fill them in."
    with pytest.warns(FitWarning) as caught:
        model = cagp.fit(X, y, **quick, progress=False)
    assert sum(str(each.message).count(said) for each in caught) == 1
    assert said in " ".join(model.story.split())


def test_the_target_and_its_row_are_told() -> None:
    X = RANDOM(0).random((9, 1))
    y = np.append(X[:8, 0], 99999.0)
    assert told_of_codes(X, y, ["x"]).startswith("the target is 99999 in row 8 (from 0), far from all other values, 0.")
    assert told_of_codes(X, X[:, 0], ["x"]) == ""


def test_codes_are_seen_in_single_precision_and_beside_each_other() -> None:
    values = np.random.default_rng(0).normal(size=20)
    both = np.append(values, [-9999.0, 9999.0])
    assert [code for code, _ in codes_in(both)] == [-9999.0, 9999.0]
    single = np.append(values, np.float32(-999.9)).astype(np.float32).astype(np.float64)
    assert [round(code, 1) for code, _ in codes_in(single)] == [-999.9]
