"""``cagp fit --recalibrate``: what it says and does, and what ``cagp predict`` and ``info`` make of the model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import cagp
from cagp import saving
from cagp.recalibration import Recalibration
from cagp.tables import write_table
from cli.small import VALUES, call, start, write_small

NARROW = ("--no-fit", "--lengthscale", "0.4", "--variance", "1", "--noise-variance", "1e-4", "--no-report")
"""The noise is far smaller than that of the table: the error bars are too narrow for observations."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.csv, test.csv and a model that was recalibrated by default."""
    place = tmp_path_factory.mktemp("recalibrate")
    write_small(place / "train.csv", 120)
    write_small(place / "test.csv", 400, seed=1)
    result = call("fit", place / "train.csv", "--target", "height", "--out", place / "model", *NARROW)
    assert result.exit_code == 0, result.output
    words = " ".join(result.stdout.split())
    assert "Left-out observations: 50% intervals hold" in words
    assert "The error bars are recalibrated" in words
    return place


def coverage(frame: pd.DataFrame, truth: pd.Series) -> float:
    return float(((frame["lower_95"] <= truth) & (truth <= frame["upper_95"])).mean())


def test_it_does_what_it_says(folder: Path) -> None:
    saved = saving.read(folder / "model")
    model = saved.condition()
    assert isinstance(model.margins, Recalibration)
    train = pd.read_csv(folder / "train.csv")
    expected = saved.prior.condition(train[["east", "north"]], train["height"]).recalibrated()
    test = pd.read_csv(folder / "test.csv")[["east", "north"]]
    np.testing.assert_allclose(model.predict(test).std, expected.predict(test).std, rtol=1e-9)
    assert "recalibrated" in saved.about.notes["left-out observations"]


def test_predictions_are_calibrated(folder: Path, tmp_path: Path) -> None:
    test = pd.read_csv(folder / "test.csv")
    frames = {}
    for name, more in {"f": [], "observed": ["--observed"], "80": ["--observed", "--interval", 80]}.items():
        out = tmp_path / f"{name}.csv"
        assert call("predict", folder / "model", folder / "test.csv", "--out", out, *more).exit_code == 0
        frames[name] = pd.read_csv(out)
    model = saving.load(folder / "model")
    prediction = model.predict(test[["east", "north"]])
    np.testing.assert_allclose(frames["f"]["std"], prediction.std, rtol=1e-9)
    np.testing.assert_allclose(frames["f"]["mean"], prediction.mean, rtol=1e-9)
    lower, upper = prediction.observed().interval(0.8)
    np.testing.assert_allclose(frames["80"]["lower_80"], lower, rtol=1e-10)
    np.testing.assert_allclose(frames["80"]["upper_80"], upper, rtol=1e-10)
    assert coverage(frames["observed"], test["height"]) > 0.85
    plain = tmp_path / "plain"
    options = ["--target", "height", "--out", plain, *NARROW, "--no-recalibrate"]
    assert "Left-out" not in call("fit", folder / "train.csv", *options).stdout
    assert saving.read(plain).parts.in_words == ""
    assert call("predict", plain, folder / "test.csv", "--out", tmp_path / "plain.csv", "--observed").exit_code == 0
    assert coverage(pd.read_csv(tmp_path / "plain.csv"), test["height"]) < 0.7


def test_batches_and_other_solvers(folder: Path, tmp_path: Path) -> None:
    whole, cut, other = (tmp_path / f"{name}.parquet" for name in ("whole", "cut", "other"))
    arguments = ["predict", folder / "model", folder / "test.csv", "--observed", "--out"]
    assert call(*arguments, whole).exit_code == 0
    assert call(*arguments, cut, "--batch", 37).exit_code == 0
    assert call(*arguments, other, "--solver", "gauss-seidel", "--iterations", 2).exit_code == 0
    frames = [pd.read_parquet(path) for path in (whole, cut, other)]
    for name in ("mean", "std", "lower_95", "upper_95"):
        np.testing.assert_allclose(frames[1][name], frames[0][name], rtol=1e-9, atol=1e-12)
    assert (frames[2]["std"] > 1.1 * frames[0]["std"]).any()  # what the solver leaves undone is scaled, too
    mean = call("predict", folder / "model", folder / "test.csv", "--no-std", "--out", tmp_path / "mean.csv")
    assert mean.exit_code == 0
    np.testing.assert_allclose(pd.read_csv(tmp_path / "mean.csv")["mean"], frames[0]["mean"], rtol=1e-9, atol=1e-12)


def test_killed_and_continued(folder: Path, tmp_path: Path) -> None:
    arguments = ["predict", folder / "model", folder / "test.csv", "--observed", "--batch", 100, "--out"]
    assert call(*arguments, tmp_path / "whole.csv").exit_code == 0
    running = start(2, tmp_path / "held", *arguments, tmp_path / "out.csv")
    running.kill()
    running.communicate()
    again = call(*arguments, tmp_path / "out.csv", "--interval", 50)  # the level is not part of what was kept
    assert again.exit_code == 0, again.output
    assert "2 of 4 batches were finished before" in again.stdout
    np.testing.assert_array_equal(*(pd.read_csv(tmp_path / f"{name}.csv")["std"] for name in ("whole", "out")))


def test_files_and_info_say_what_is_guaranteed(folder: Path, tmp_path: Path) -> None:
    axis = np.linspace(0, 1, 4)
    xr.Dataset(coords={"east": axis, "north": axis}).to_netcdf(tmp_path / "grid.nc", engine="h5netcdf")
    for out in ("p.nc", "p.parquet"):
        result = call("predict", folder / "model", tmp_path / "grid.nc", "--out", tmp_path / out)
        assert result.exit_code == 0, result.output
    with xr.open_dataset(tmp_path / "p.nc") as written:
        assert written.attrs["cagp_guarantee"].startswith("empirical: The error bars are as wide as")
    import pyarrow.parquet

    notes = pyarrow.parquet.read_schema(tmp_path / "p.parquet").metadata
    assert b"empirical: The error bars" in b" ".join(notes.values())
    said = " ".join(call("info", folder / "model").stdout.split())
    for words in ("recalibrated by", "left-out predictions", "empirical: The error bars are", "50% intervals hold"):
        assert words in said


def test_right_error_bars_stay_unless_asked(folder: Path, tmp_path: Path) -> None:
    arguments = ["fit", folder / "train.csv", "--target", "height", *VALUES, "--no-report"]
    kept = call(*arguments, "--out", tmp_path / "kept")
    assert "stay as they are under the prior" in " ".join(kept.stdout.split())
    assert json.loads((tmp_path / "kept" / "model.json").read_text())["format_version"] == 1
    assert "plain, those of the prior" in " ".join(call("info", tmp_path / "kept").stdout.split())
    asked = call(*arguments, "--out", tmp_path / "asked", "--recalibrate")
    assert "The error bars are recalibrated" in " ".join(asked.stdout.split())
    assert isinstance(saving.load(tmp_path / "asked").margins, Recalibration)


def test_like_says_where(folder: Path, tmp_path: Path) -> None:
    """Columns are matched by name, in any order, and gaps are as wide as there."""
    rng = np.random.default_rng(3)
    write_table(tmp_path / "where.csv", {"north": 0.5 + rng.random(50), "east": 1.0 + rng.random(50)})
    arguments = ["fit", folder / "train.csv", "--target", "height", *NARROW]
    result = call(*arguments, "--out", tmp_path / "m", "--like", tmp_path / "where.csv", "--recalibrate")
    assert result.exit_code == 0, result.output
    train, where = pd.read_csv(folder / "train.csv"), pd.read_csv(tmp_path / "where.csv")
    prior = cagp.Prior(cagp.Matern32(0.4), mean=cagp.Constant(), noise_variance=1e-4)
    model = prior.condition(train[["east", "north"]], train["height"])
    expected = model.recalibrated(like=where[["east", "north"]])
    found = saving.load(tmp_path / "m").predict(where[["east", "north"]])
    np.testing.assert_allclose(found.std, expected.predict(where[["east", "north"]]).std, rtol=1e-9)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--like", "where.csv"], "has no column 'north'"),
        (["--like", "none.csv"], "none.csv"),
    ],
)
def test_wrong_use(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: list[str], words: str) -> None:
    monkeypatch.chdir(tmp_path)
    write_table(Path("where.csv"), {"east": np.ones(3)})
    result = call("fit", folder / "train.csv", "--target", "height", "--out", "model", *NARROW, *more)
    assert result.exit_code == 2, result.output
    assert words in " ".join(result.stderr.split())
    assert not Path("model").exists()


def test_few_observations(tmp_path: Path) -> None:
    write_small(tmp_path / "few.csv", 12)
    arguments = ["fit", tmp_path / "few.csv", "--target", "height", *NARROW, "--out", tmp_path / "model"]
    refused = call(*arguments, "--recalibrate")
    assert refused.exit_code == 2
    assert "--recalibrate needs at least 20 observations, and there are 12" in refused.stderr
    assert not (tmp_path / "model").exists()
    assert "12 observations are too few to judge error bars" in call(*arguments).stdout


def test_noise_of_each_row(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.random(150), "s2": np.full(150, 1e-4)})
    frame["y"] = np.sin(5 * frame["x"]) + 0.1 * rng.normal(size=150)
    frame.to_csv(tmp_path / "train.csv", index=False)
    values = ["--no-fit", "--lengthscale", "0.5", "--variance", "1", "--noise-column", "s2", "--no-report"]
    result = call("fit", tmp_path / "train.csv", "--target", "y", *values, "--out", tmp_path / "m")
    assert "The error bars are recalibrated" in " ".join(result.stdout.split())
    assert call("predict", tmp_path / "m", tmp_path / "train.csv", "--out", tmp_path / "p.csv").exit_code == 0
    refused = call("predict", tmp_path / "m", tmp_path / "train.csv", "--out", tmp_path / "q.csv", "--observed")
    assert refused.exit_code == 2
    assert "one noise variance per training row" in refused.stderr


def test_which_error_bars_the_report_is_about(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Written(str):
        finding = "The error bars are right."

    given = []

    def write(model: object, place: Path, **options: object) -> Written:
        given.append(model)
        return Written(place)

    monkeypatch.setattr("cagp.fit_report.write_fit_report", write)
    values = [each for each in NARROW if each != "--no-report"]
    result = call("fit", folder / "train.csv", "--target", "height", "--out", tmp_path / "m", *values)
    assert result.exit_code == 0, result.output
    assert isinstance(given[0].margins, Recalibration)


def test_interrupted_while_recalibrating(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("cagp.choosing.judging.learn", interrupted)
    result = call("fit", folder / "train.csv", "--target", "height", "--out", tmp_path / "m", *NARROW)
    assert result.exit_code == 130
    assert "has the error bars of the prior" in result.stderr
    assert saving.read(tmp_path / "m").parts.in_words == ""
