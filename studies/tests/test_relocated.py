"""Masks laid over observed data alone: what is held out, that no test value is read, and what the table says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cagp_studies import heaton_data, run_study
from cagp_studies.heaton_data import SATELLITE, SIMULATED, read_field
from cagp_studies.relocated import (
    PLAIN,
    RECALIBRATED,
    Grid,
    Relocated,
    RelocatedConfig,
    RelocatedPiece,
    problem_at,
    rectangles,
    relocated,
)
from tiny import both


class Tiny(Relocated):
    """So few points that a fit takes a second."""

    scales = both(RelocatedConfig((SATELLITE, SIMULATED), every=1, places=3))  # type: ignore[assignment]


def clouded(secret: float) -> pd.DataFrame:
    """A table like those of the competition, 18 × 12, with two clouds; what is below them is ``secret``."""
    rng = np.random.default_rng(0)
    longitude, latitude = np.meshgrid(np.linspace(0, 17, 18), np.linspace(11, 0, 12))
    field = np.sin(0.5 * longitude) + np.cos(0.7 * latitude) + 0.1 * rng.normal(size=longitude.shape)
    seen = field.copy()
    seen[2:6, 3:7] = seen[8:11, 10:16] = np.nan
    truth = np.where(np.isnan(seen), secret, field)
    columns = {"Lon": longitude, "Lat": latitude, "MaskTemp": seen, "TrueTemp": truth}
    return pd.DataFrame({name: values.ravel() for name, values in columns.items()}).sample(frac=1, random_state=1)


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A data folder of the test's own with the simulated field; no file of the machine is found."""
    monkeypatch.setenv("CAGP_DATA", str(tmp_path))
    monkeypatch.setenv("CAGP_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(heaton_data.ENVIRONMENT, raising=False)
    clouded(0.0).to_csv(tmp_path / "AllSimulatedTemps.csv", index=False)
    return tmp_path


def test_only_what_was_observed_is_held_out(folder: Path) -> None:
    given = read_field(folder / "AllSimulatedTemps.csv", SIMULATED).given
    known = {tuple(place): value for place, value in zip(given.X, given.y, strict=True)}
    held = set()
    for place in range(5):
        problem = problem_at(RelocatedPiece(SIMULATED, place), 1, seed=0)
        both_parts = [(problem.X, problem.y), (problem.X_test, problem.truth)]
        found = {tuple(at): value for X, y in both_parts for at, value in zip(X, y, strict=True)}
        assert found == known  # all of it, each with its own value, and nothing from below the clouds
        assert len(problem.truth) + len(problem.y) == len(known)
        assert 0 < len(problem.truth) <= len(given.gaps)
        held.add(tuple(sorted(map(tuple, problem.X_test))))
    assert len(held) == 5


def test_what_is_below_the_clouds_changes_nothing(folder: Path) -> None:
    before = problem_at(RelocatedPiece(SIMULATED, 1), 1, seed=3)
    clouded(1e6).to_csv(folder / "AllSimulatedTemps.csv", index=False)
    after = problem_at(RelocatedPiece(SIMULATED, 1), 1, seed=3)
    for name in ("X", "y", "X_test", "truth"):
        np.testing.assert_array_equal(getattr(before, name), getattr(after, name))


def test_masks() -> None:
    mask = rectangles(40)
    assert 0.3 <= mask.mean() < 0.4
    np.testing.assert_array_equal(mask, rectangles(40))
    moved = [relocated(mask, np.random.default_rng(seed)) for seed in range(6)]
    assert all(each.sum() == mask.sum() for each in moved)
    assert len({each.tobytes() for each in moved}) == 6
    grid = Grid(np.zeros((40, 40, 2)), np.where(np.eye(40) > 0, np.nan, 1.0))
    assert len(grid.without(mask).truth) == (mask & (np.eye(40) == 0)).sum()


def test_the_study(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cagp_studies.runner._save_figure", lambda *arguments: None)
    assert all(name.startswith(SIMULATED) for name in Tiny().pieces(Tiny.scales["quick"]))  # there is no satellite file
    record = run_study(Tiny(), folder / "out", show=False)
    table = pd.read_csv(folder / "out" / "relocated" / "table.csv")
    assert list(table["what"]) == 3 * [PLAIN, RECALIBRATED]
    assert (table.groupby("place")["rmse"].nunique() == 1).all()  # margins change no mean
    [comparison] = record.comparisons
    assert "3 places of the mask" in comparison.caption
    half, *_, rmse = comparison.rows
    plain = 100 * table.loc[table["what"] == PLAIN, "holds_50"]
    assert half[1] == (
        f"{plain.mean():.1f} ± {plain.std() / 3**0.5:.1f}%, spread {plain.std():.1f} "
        f"({plain.min():.1f} to {plain.max():.1f})"
    )
    assert (rmse[0], rmse[-1]) == ("RMSE", "")
    clouded(5.0).to_csv(folder / "AllSatelliteTemps.csv", index=False)
    assert len(Tiny().pieces(Tiny.scales["quick"])) == 6


def test_era5_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows that a window takes from the list of all points are those of its latitudes and longitudes."""
    latitude, longitude = np.meshgrid(90 - 0.25 * np.arange(1, 720), 0.25 * np.arange(1440), indexing="ij")
    X = np.column_stack([latitude.ravel(), longitude.ravel()])
    X = np.concatenate([[[90.0, 0.0]], X, [[-90.0, 0.0]]])

    class Field:
        y = X[:, 0] + 1000 * X[:, 1]

    Field.X = X  # type: ignore[attr-defined]
    monkeypatch.setattr("cagp.datasets.era5", Field)
    for place in range(20):
        problem = problem_at(RelocatedPiece("era5", place), 8, seed=0)
        at, y = np.concatenate([problem.X, problem.X_test]), np.concatenate([problem.y, problem.truth])
        assert len(at) == 20 * 20
        np.testing.assert_allclose(y, at[:, 0] + 1000 * at[:, 1])
        assert np.ptp(at[:, 0]) == 38
        assert np.abs(at[:, 0]).max() <= 60
        assert len(np.unique(at[:, 1])) == 20
