"""The front door turns the axes where left-out observations say so, and leaves them where nothing does."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import cagp
from cagp import CAGPRegressor, InputError
from cagp.choosing.scoring import LeftOutScores
from cagp.choosing.steps import _earned
from cagp.fit_report import Names, write_fit_report
from cagp.reports import pages
from cagp.reports.computational_share import Computation
from cagp.reports.directions import directions_table, turned_part
from cagp.reports.names import hyperparameters
from cli.small import call
from reports.pages import Page

QUICK = {
    "kernel": "matern32",
    "mean": "constant",
    "uncertainty": False,
    "transform": None,
    "varying": False,
    "progress": False,
}


def field(kernel: cagp.Kernel, n: int, seed: int, columns: int = 2) -> tuple[np.ndarray, np.ndarray]:
    draws = np.random.default_rng(seed)
    X = draws.uniform(0, 10, (n, columns))
    return X, np.linalg.cholesky(kernel(X) + 0.02 * np.eye(n)) @ draws.standard_normal(n)


@pytest.fixture(scope="module")
def turned() -> tuple[np.ndarray, np.ndarray]:
    return field(cagp.Rotated(cagp.Matern32((6.0, 1.0)), 35.0), 160, 1)


def test_a_field_with_a_direction_is_fitted_along_it(turned: tuple[np.ndarray, np.ndarray], tmp_path: Path) -> None:
    X, y = pd.DataFrame(turned[0], columns=["east", "north"]), turned[1]
    model = cagp.fit(X, y, **QUICK)
    names = {each.name: each for each in model.candidates}
    assert names["matern32 rotated, constant"].weight == 1.0
    assert names["matern32 rotated, constant"].crps < names["matern32, constant"].crps
    assert "counter-clockwise from east towards north" in model.record.text
    kernel = model.prior.kernel
    assert abs(kernel.axes[0][0].azimuth - 35.0) < 10.0
    model.save(tmp_path / "model")
    assert cagp.load(tmp_path / "model").prior.kernel == kernel
    said = call("info", tmp_path / "model").stdout
    assert "The correlation reaches furthest" in " ".join(said.split())
    off = cagp.fit(X, y, **QUICK, rotate=False)
    assert [each.name for each in off.candidates] == ["matern32, constant"]


def test_a_field_without_one_is_left_as_it_is() -> None:
    X, y = field(cagp.Matern32(2.0), 120, 2)
    model = cagp.fit(X, y, **QUICK)
    assert [each.name for each in model.candidates] == ["matern32, constant"]
    assert "Turned axes were not tried, because they would raise the log-likelihood" in model.record.text
    taken = cagp.fit(X, y, **QUICK, rotate=True)
    assert {each.name: each.weight for each in taken.candidates}["matern32 rotated, constant"] == 1.0


def test_columns_beside_times_are_turned_and_held_variances_stay_held() -> None:
    draws = np.random.default_rng(3)
    X = np.column_stack([draws.uniform(0, 10, (150, 2)), draws.integers(0, 20, 150)])
    kernel = cagp.Rotated(cagp.Matern32((6.0, 1.0)), -50.0).on(0, 1) * cagp.Matern32(8.0).on(2)
    y = np.linalg.cholesky(kernel(X) + 0.02 * np.eye(150)) @ draws.standard_normal(150)
    model = cagp.fit(X, y, **QUICK, times=[2], rotate=True)
    first, second = model.prior.kernel.kernels
    assert isinstance(first.kernel, cagp.Rotated)
    assert abs(first.kernel.axes[0][0].azimuth + 50.0) < 15.0
    assert second.kernel.variance == 1.0
    assert "kernel.kernels[1].kernel.variance" not in model.result.values


def test_columns_that_are_not_alike_are_not_turned() -> None:
    X, y = field(cagp.Matern32(2.0), 60, 2)
    assert "differ by more than a factor of ten" in cagp.fit(X * [1, 100], y, **QUICK).record.text
    assert "a few values only" in cagp.fit(np.column_stack([X[:, 0], X[:, 1] > 5]), y, **QUICK).record.text
    assert "Turned axes" not in cagp.fit(X[:, :1], y, **QUICK).record.text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rotate": "always"}, 'rotate must be True, False or "auto"'),
        ({"rotate": True, "ard": False}, "rotate=True needs two or three columns"),
        ({"rotate": True, "globe": (0, 1)}, "rotate=True needs two or three columns"),
        ({"rotate": True, "kernel": cagp.Matern32((1.0, 1.0))}, "globe, times, ard and rotate are for kernels"),
    ],
)
def test_what_cannot_be_is_refused_before_work(options: dict[str, object], words: str) -> None:
    X, y = field(cagp.Matern32(2.0), 30, 2)
    with pytest.raises(InputError, match=words):
        cagp.fit(X, y, **{**QUICK, **options})


def test_the_estimator_and_the_command_line_have_the_option(
    turned: tuple[np.ndarray, np.ndarray], tmp_path: Path
) -> None:
    X, y = turned[0][:80], turned[1][:80]
    found = CAGPRegressor("matern32", mean="constant", uncertainty=False, target_transform=None, rotate=True).fit(X, y)
    assert isinstance(found.kernel_, cagp.Rotated)
    pd.DataFrame({"east": X[:, 0], "north": X[:, 1], "z": y}).to_csv(tmp_path / "data.csv", index=False)
    simple = ("--kernel", "matern32", "--mean", "constant", "--no-uncertainty", "--transform", "none", "--no-report")
    said = call("fit", tmp_path / "data.csv", "--target", "z", "--out", tmp_path / "m", "--rotate", *simple)
    assert said.exit_code == 0, said.output
    assert cagp.load(tmp_path / "m").prior.kernel.angle == pytest.approx(found.kernel_.angle, abs=1e-6)
    assert "axis 1" in said.stdout
    wrong = call("fit", tmp_path / "data.csv", "--target", "z", "--out", tmp_path / "n", "--rotate", "--variance", "2")
    assert wrong.exit_code != 0
    assert "--rotate is for a kernel that is chosen" in " ".join(wrong.output.split())


def test_the_report_draws_and_tells_the_axes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # the rest of the page has tests of its own
    monkeypatch.setattr(pages, "draw", lambda *_: [])
    monkeypatch.setattr(pages, "predict_held_out", lambda *_: None)
    monkeypatch.setattr(pages, "measure", lambda *_: Computation(("Not measured.",)))
    X, y = field(cagp.Rotated(cagp.Matern32((4.0, 1.0)), 30.0), 15, 4)
    prior = cagp.Prior(cagp.Rotated(cagp.Matern12((1.0, 4.0)), -60.0), noise_variance=0.1)
    names = Names(("east", "north"), "z", ("km", "km"))
    report = write_fit_report(prior.condition(X, y), tmp_path, names=names, progress=False)
    rows = Page(report).tables["directions"]
    # exp(−r) is a half at 0.693 lengthscales, and 0.05 at 2.996
    assert rows[1] == ["major", "30.0°", "60.0°", "2.77 km", "12.0 km"]
    assert rows[2] == ["minor", "−60.0°", "150°", "0.693 km", "3.00 km"]
    assert (tmp_path / "directions.png").stat().st_size > 5_000
    assert "angle of axis 1" in Page(report).text
    three = cagp.Rotated(cagp.Matern12((4.0, 2.0, 1.0)), (30.0, 20.0, 0.0)).on(2, 0, 1)
    names = Names(("a", "b", "c"))
    found = turned_part(three, names)
    assert found is not None
    table = directions_table(*found, names)
    assert table.rows[0][1] == "30.0°, 20.0°"
    assert "counter-clockwise from c towards a, then towards b" in table.caption
    labels = [each.label for each in hyperparameters(cagp.Prior(three), Names(("a", "b", "c")))]
    assert labels[:4] == ["azimuth of axis 1", "dip of axis 1", "roll around axis 1", "lengthscale of axis 1"]
    assert turned_part(cagp.Matern32((1.0, 2.0)), Names(("a", "b"))) is None


@pytest.mark.parametrize("seed", [4, 11])
def test_what_a_spike_promises_has_to_be_beyond_chance(seed: int) -> None:
    """A narrow round spike over one or two of 200 places looks as if it had a direction, to the likelihood."""
    draws = np.random.default_rng(seed)
    X = draws.uniform(0, 10, (200, 2))
    away = np.linalg.norm(X - [5, 5], axis=1)
    y = np.sin(X[:, 0] / 2) + 0.1 * draws.normal(size=200) + 8 * np.exp(-0.5 * (away / 0.35) ** 2)
    model = cagp.fit(X, y, **QUICK)
    assert [each.name for each in model.candidates] == ["matern32, constant"]
    assert "Turned axes were tried and left out: the log score of left-out observations is" in model.record.text
    taken = cagp.fit(X, y, **QUICK, rotate=True)
    assert {each.name: each.weight for each in taken.candidates}["matern32 rotated, constant"] == 1.0


def test_the_more_is_tried_the_more_has_to_be_gained() -> None:
    draws = np.random.default_rng(0)
    plain, gain = draws.standard_normal(200), draws.standard_normal(200)
    gain = 0.2 + (gain - gain.mean()) / gain.std(ddof=1)  # 2.8 standard errors

    def fitted(log_score: np.ndarray) -> Any:
        return SimpleNamespace(scores=LeftOutScores(np.arange(200), plain, log_score, plain))

    best, more = fitted(plain), fitted(plain - gain)

    def earned(tried: int, crowd: float = 1.0) -> bool:
        search: Any = SimpleNamespace(fits=[best] * tried, judges=SimpleNamespace(crowd=crowd))
        return _earned(search, best, more)

    assert earned(1)
    assert earned(7)
    assert not earned(200)
    assert not earned(1, crowd=8.0)  # those that err together count like one
    best, more = more, best
    assert not earned(1)
