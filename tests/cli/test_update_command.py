"""``cagp update``: further rows for a model that is there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import cagp
from cli.small import VALUES, call, snapshot, write_small


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model of 60 rows, 30 more rows in another order of columns, and points to predict."""
    folder = tmp_path_factory.mktemp("update")
    write_small(folder / "train.csv", 60)
    write_small(folder / "more.csv", 30, seed=1)
    pd.read_csv(folder / "more.csv")[["height", "north", "east"]].to_csv(folder / "more.csv", index=False)
    write_small(folder / "new.csv", 5, seed=2)
    both = pd.concat([pd.read_csv(folder / "train.csv"), pd.read_csv(folder / "more.csv")])
    both.to_csv(folder / "both.csv", index=False)
    fitted("train.csv", "model", folder)
    return folder


def fitted(data: str, out: str, folder: Path, *options: str) -> None:
    arguments = ("--target", "height", "--no-report", "--out", folder / out, *VALUES, *options)
    done = call("fit", folder / data, *arguments)
    assert done.exit_code == 0, done.output


def predicted(folder: Path, model: str) -> pd.DataFrame:
    done = call("predict", folder / model, folder / "new.csv", "--out", folder / f"{model}.csv", "--overwrite")
    assert done.exit_code == 0, done.output
    return pd.read_csv(folder / f"{model}.csv")


def test_the_new_model_predicts_as_one_of_all_rows(place: Path) -> None:
    fitted("both.csv", "all", place, "--no-recalibrate")
    fitted("train.csv", "plain", place, "--no-recalibrate")
    before = snapshot(place / "plain")
    done = call("update", place / "plain", place / "more.csv", "--out", place / "grown")
    assert done.exit_code == 0, done.output
    assert "Observations of 'height' added: 30, to 60 that were there. Nothing is fitted anew" in done.stdout
    assert snapshot(place / "plain") == before
    pd.testing.assert_frame_equal(predicted(place, "grown"), predicted(place, "all"))
    again = call("update", place / "grown", place / "more.csv", "--out", place / "grown", "--overwrite")
    assert again.exit_code == 0, again.output
    assert "30 of the rows repeat an observation that the model has" in again.stdout
    assert "120 observations of height" in call("info", place / "grown").stdout
    assert cagp.saving.read(place / "grown").about.notes["observations added"].count("30 from") == 2


def test_a_recalibration_is_learned_anew(place: Path) -> None:
    fitted("train.csv", "mended", place, "--recalibrate")
    done = call("update", place / "mended", place / "more.csv", "--out", place / "larger", "--quiet")
    assert done.exit_code == 0, done.output
    assert not done.stdout
    model, before = cagp.load(place / "larger"), cagp.load(place / "mended")
    assert len(model.margins.bands[0].z) == len(before.margins.bands[0].z) + 30
    assert "left-out predictions (observations" not in " ".join(call("info", place / "larger").stdout.split())
    test = pd.read_csv(place / "new.csv")[["east", "north"]]
    more = pd.read_csv(place / "more.csv")
    grown = before.with_more(more[["east", "north"]], more["height"])
    assert_allclose(model.predict(test).std, grown.predict(test).std, rtol=1e-9)


def test_noise_of_each_row(place: Path) -> None:
    frame = pd.read_csv(place / "more.csv").assign(s2=np.linspace(0.1, 0.2, 30))
    frame.to_csv(place / "noisy.csv", index=False)
    done = call("update", place / "model", place / "noisy.csv", "--noise-column", "s2", "--out", place / "noisy")
    assert done.exit_code == 0, done.output
    assert "one noise variance per row" in done.stdout
    saved = cagp.saving.read(place / "noisy")
    assert_allclose(saved.prior.noise_variance, [*[0.01] * 60, *frame["s2"]])
    refused = call("update", place / "noisy", place / "more.csv", "--out", place / "x")
    assert refused.exit_code == 2
    assert "--noise-column names those of the new rows" in refused.stderr


def test_copies_on_the_globe_are_no_observations(tmp_path: Path) -> None:
    X, y = np.array([[10.0, 20.0], [40.0, 5.0], [90.0, 0.0]]), np.array([1.0, 2.0, 3.0])
    model = cagp.Prior(cagp.Geographic(cagp.Matern32(0.2))).condition(X, y)
    model.save(tmp_path / "model", about=cagp.saving.About(features=["lat", "lon"], target="t"))
    pd.DataFrame({"lat": [90.0, 12.0], "lon": [10.0, 11.0], "t": [3.0, 4.0]}).to_csv(tmp_path / "more.csv", index=False)
    done = call("update", tmp_path / "model", tmp_path / "more.csv", "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert "1 of 2 rows are left out" in done.stdout
    assert cagp.saving.read(tmp_path / "out").y.tolist() == [1.0, 2.0, 3.0, 4.0]
    pd.DataFrame({"lat": [90.0], "lon": [10.0], "t": [3.0]}).to_csv(tmp_path / "none.csv", index=False)
    nothing = call("update", tmp_path / "model", tmp_path / "none.csv", "--out", tmp_path / "x")
    assert nothing.exit_code == 2
    assert "no further observation" in nothing.stderr


def test_what_cannot_be_added_is_refused(place: Path) -> None:
    pd.DataFrame({"north": [1.0], "height": [2.0]}).to_csv(place / "half.csv", index=False)
    pd.DataFrame({"north": [1.0, 0.5], "east": [0.1, np.nan], "height": [2.0, 1.0]}).to_csv(
        place / "holes.csv", index=False
    )
    for data, said in (("half.csv", "east"), ("holes.csv", "missing")):
        done = call("update", place / "model", place / data, "--out", place / "x")
        assert done.exit_code == 2
        assert said in done.stderr
    there = call("update", place / "model", place / "more.csv", "--out", place / "model")
    assert there.exit_code == 2
    assert "--overwrite replaces it" in there.stderr
    dropped = call("update", place / "model", place / "holes.csv", "--out", place / "one", "--drop-missing")
    assert dropped.exit_code == 0, dropped.output
    assert "1 rows of" in dropped.stdout
    assert not (place / "x").exists()


def test_a_transform_has_no_noise_of_single_rows(tmp_path: Path) -> None:
    X = np.random.default_rng(0).random((20, 2))
    model = cagp.Prior(cagp.Matern32(0.4), noise_variance=0.01).transformed("log").condition(X, np.exp(X[:, 0]))
    model.save(tmp_path / "model", about=cagp.saving.About(features=["east", "north"], target="height"))
    pd.DataFrame({"east": [0.1], "north": [0.2], "height": [1.1], "s2": [0.1]}).to_csv(
        tmp_path / "more.csv", index=False
    )
    refused = call("update", tmp_path / "model", tmp_path / "more.csv", "--noise-column", "s2", "--out", tmp_path / "x")
    assert refused.exit_code == 2
    assert "transform" in refused.stderr
    done = call("update", tmp_path / "model", tmp_path / "more.csv", "--out", tmp_path / "x")
    assert done.exit_code == 0, done.output
    assert_allclose(cagp.saving.read(tmp_path / "x").observations[-1], 1.1, rtol=1e-12)


def test_rows_that_no_error_bar_explains_are_told_as_the_file_has_them(place: Path) -> None:
    more = pd.read_csv(place / "more.csv")
    more.loc[7, "height"] = -9999.0
    more.loc[2, "north"] = np.nan
    more.to_csv(place / "typo.csv", index=False)
    asked = ("update", place / "model", place / "typo.csv", "--out", place / "spoiled", "--drop-missing")
    done = call(*asked)
    assert done.exit_code == 0, done.output
    assert "Warning: 1 of the 29 new observations" in done.stderr
    assert "row 8 (line 9 of the file) with −9,999 for" in done.stderr
