"""``cagp check`` without held-out data: left-out rows, single or in the geometry of another table."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import cagp
from cli.small import call, write_small


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model of 120 rows whose noise is far too small, and points in a gap."""
    place = tmp_path_factory.mktemp("check")
    write_small(place / "train.csv", 120)
    frame = pd.read_csv(place / "train.csv")
    prior = cagp.Prior(cagp.Matern32(0.4), noise_variance=1e-4)
    model = prior.condition(frame[["east", "north"]].to_numpy(), frame["height"].to_numpy())
    model.save(place / "model", about=cagp.saving.About(features=["east", "north"], target="height"))
    gap = pd.DataFrame({"north": frame["north"] + 0.4, "east": frame["east"] + 0.4, "other": 0.0})
    gap.to_csv(place / "gap.csv", index=False)
    return place


@pytest.mark.usefixtures("words_only")
def test_left_out_rows_and_what_mends_them(folder: Path) -> None:
    result = call("check", folder / "model")
    assert result.exit_code == 3, result.output
    assert "too narrow" in result.stdout
    assert "Recalibration (--recalibrate) was tried here" in result.stdout
    assert "the 120 values" in result.stdout
    assert "model.recalibrated()" in result.stdout


@pytest.mark.usefixtures("words_only")
def test_the_geometry_of_another_table(folder: Path) -> None:
    """Its columns may come in any order, and it needs no target."""
    result = call("check", folder / "model", "--like", folder / "gap.csv", "--out", folder / "far")
    assert result.exit_code in (0, 3), result.output
    assert "stands in for a point to be predicted" in (folder / "far" / "check.html").read_text(encoding="utf-8")


def test_what_cannot_be_asked_is_refused(folder: Path) -> None:
    both = call("check", folder / "model", folder / "train.csv", "--like", folder / "gap.csv")
    assert both.exit_code == 2
    assert "--like is for a check without HOLDOUT" in both.stderr
    pd.DataFrame({"north": [1.0]}).to_csv(folder / "half.csv", index=False)
    missing = call("check", folder / "model", "--like", folder / "half.csv")
    assert missing.exit_code == 2
    assert "east" in missing.stderr
