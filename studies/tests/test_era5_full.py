"""The study of all ERA5 points, on every 36th row and column."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from cagp.datasets import era5
from cagp.solvers import Cholesky
from cagp_studies import Record, run_study
from cagp_studies.era5_full import Era5Full
from cagp_studies.era5_full_methods import neighbours, solver_of
from cagp_studies.era5_full_setting import (
    BOUNDED,
    COARSE,
    FITTED,
    FREE,
    HELD_OUT,
    ITERATED,
    MORE,
    Era5FullHyperparameters,
    FullConfig,
    full_field,
    full_priors,
    points_of,
    rows_of,
)
from cagp_studies.era5_hyperparameters import KNOWN
from tiny import TinyFull, drawn_once

NEAREST = "nearest-neighbours"
CONFIG: FullConfig = TinyFull.scales["quick"]
"""Without its hyperparameters, which come from a fit."""


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory, data_folder: Path) -> tuple[Path, Record]:
    """The whole tiny study."""
    out = tmp_path_factory.mktemp("era5-full")
    with drawn_once():
        return out / "era5-full", run_study(TinyFull(), out)


@pytest.fixture(scope="module")
def completed(study: tuple[Path, Record]) -> FullConfig:
    fits = pd.read_csv(study[0].parent / "era5-full-hyperparameters" / "table.csv")
    return TinyFull().complete(CONFIG, {"table": fits})


def test_points(data_folder: Path) -> None:
    whole = era5()
    assert points_of(1) == len(whole.y) == 1_035_362
    field = full_field(36)
    assert len(field.y) == points_of(36) == 19 * 40 + 2
    truth = {tuple(x): y for x, y in zip(whole.X, whole.y, strict=True)}
    assert [truth[tuple(x)] for x in field.X] == field.y.tolist()
    assert field.X[:2].tolist() == [[90, 0], [81, 0]]
    latitude, longitude = (field.on_map(column) for column in field.X.T)
    assert (latitude == field.latitude[:, None]).all()
    assert (longitude[1:-1] == field.longitude).all()


def test_held_out_points_are_not_learnt_from(data_folder: Path) -> None:
    field = full_field(36)
    few, many = field.held_out(20, 3), field.held_out(80, 3)
    assert many[:20].tolist() == few.tolist()
    assert len(set(many)) == 80
    problem = field.without(many, many[20:])
    assert len(problem.y) == points_of(36) - 80
    assert len(problem.truth) == 60
    assert not {tuple(x) for x in problem.X} & {tuple(x) for x in field.X[many]}


def test_windows_are_neighbouring_points(data_folder: Path) -> None:
    field = full_field(36)
    window = field.X[field.windows(1, 4, seed=5)]
    assert len(window) == 16
    assert sorted(np.diff(np.unique(window[:, 0])).tolist()) == [9, 9, 9]
    assert (np.abs(window[:, 0]) < 90).all()
    around = np.sort(np.unique(window[:, 1]))
    gaps = np.diff(np.append(around, around[0] + 360))
    assert sorted(gaps.tolist()) == [9, 9, 9, 333]


def test_the_fit(study: tuple[Path, Record]) -> None:
    fits = pd.read_csv(study[0].parent / "era5-full-hyperparameters" / "table.csv")
    priors = full_priors({"table": fits})
    assert priors[COARSE] == KNOWN
    assert priors[FITTED].noise_std == pytest.approx(0.1)
    assert priors[FREE].noise_std != pytest.approx(0.1)
    best = fits.set_index("name")["negative_log_likelihood"]
    assert best[FREE] <= best[FITTED]


def test_all_methods_on_the_processor(study: tuple[Path, Record], completed: FullConfig) -> None:
    """What a GPU would do, at a size that needs none: same calls, solved in single and certified in double."""
    folder, record = study
    table = pd.read_csv(folder / "table.csv")
    field = full_field(36)
    hidden = field.held_out(20, 0)
    problem = field.without(hidden, hidden)
    exact = completed.prior(FITTED).prior().condition(problem.X, problem.y, Cholesky()).predict(problem.X_test)
    least = np.square(exact.std).mean()
    for method in ITERATED:
        rows = rows_of(table, FITTED, method, HELD_OUT)
        assert rows["m"].tolist() == [*([0] if method == "calibrated-cg" else []), 1, 3]
        assert (rows["mean_variance"] > least * (1 - 1e-9)).all()
        assert (rows["mean_variance"].diff().dropna() < 0).all()
        share = 1 - least / rows["mean_variance"]
        assert (rows["share_lower"] <= share + 1e-6).all()
        assert (share <= rows["share_upper"] + 1e-6).all()
        assert (rows[["bounds_seconds", "certificate_seconds"]] > 0).all(axis=None)
        assert rows["seconds"].notna().all()  # less a certificate, which is nearly all of it at this size
    for k in CONFIG.neighbours:
        ours, bounded = (rows_of(table, FITTED, solver, HELD_OUT, k).iloc[0] for solver in (NEAREST, BOUNDED))
        assert bounded["mean_variance"] == pytest.approx(ours["mean_variance"], rel=1e-9)
        assert bounded["rmse"] == pytest.approx(ours["rmse"], rel=1e-6)
        assert bounded["share_lower"] <= 1 - least / ours["mean_variance"] + 1e-9 <= bounded["share_upper"] + 2e-9
    assert {"map", "neighbours", "calibration", "z", "convergence"} == set(record.figures)
    assert not any("LEFT OUT" in remark for remark in record.remarks)


def test_scores_and_map(study: tuple[Path, Record], completed: FullConfig) -> None:
    folder, _ = study
    predictions, on_map = pd.read_csv(folder / "predictions.csv"), pd.read_csv(folder / "map.csv")
    table = pd.read_csv(folder / "table.csv")
    chosen = rows_of(predictions, COARSE, NEAREST, MORE, 20)
    row = rows_of(table, COARSE, NEAREST, MORE, 20).iloc[0]
    assert len(chosen) == 60
    assert row["rmse"] == pytest.approx(np.sqrt(np.square(chosen["error"]).mean()))
    z = chosen["error"] / np.hypot(chosen["std"], KNOWN.noise_std)
    assert row["z_std"] == pytest.approx(z.std(), rel=1e-6)
    assert row["d"] == points_of(36) - 80

    field = full_field(36)
    assert len(on_map) == 21 * 40
    assert (on_map["mean"][:40] == on_map["mean"][0]).all()  # the pole
    hidden = field.held_out(20, 0)
    (at_points,) = neighbours(completed.prior(FITTED).prior(), field.without(hidden, hidden), [10])
    for index, mean, std in zip(hidden, at_points.posterior.mean, at_points.posterior.std, strict=True):
        if 0 < index < len(field.y) - 1:
            assert on_map["mean"][39 + index] == pytest.approx(mean, abs=6e-4)
            assert on_map["std"][39 + index] == pytest.approx(std, abs=6e-5)


def test_left_out_without_a_gpu(
    study: tuple[Path, Record], completed: FullConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a large problem and no GPU the iterative methods have no pieces, and the report says so."""
    folder, _ = study
    large = dataclasses.replace(completed, processor_limit=100)
    monkeypatch.setattr("cagp_studies.era5_full_setting.default_device", lambda: torch.device("cpu"))
    assert not any(piece.method in (*ITERATED, BOUNDED) for piece in TinyFull().pieces(large).values())
    assert TinyFull().forecast(large, list(TinyFull().pieces(large).values())) is None
    tables = {name: pd.read_csv(folder / f"{name}.csv") for name in ("table", "predictions", "map")}
    for name in ("table", "predictions"):
        tables[name] = tables[name][~tables[name]["solver"].isin([*ITERATED, BOUNDED])]
    shown = TinyFull().present(large, tables)
    (said,) = (remark for remark in shown.remarks if "LEFT OUT" in remark)
    assert "no GPU" in said
    assert "cagp reproduce era5-full" in said
    assert "convergence" not in shown.figures
    assert len(shown.comparisons) == 3


def test_with_a_gpu_there_are_all_pieces(completed: FullConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cagp_studies.era5_full_setting.default_device", lambda: torch.device("cuda"))
    pieces = TinyFull().pieces(dataclasses.replace(completed, processor_limit=100))
    assert {f"{method}-{FITTED}" for method in (*ITERATED, BOUNDED)} < set(pieces)
    monkeypatch.undo()
    seconds = {torch.float32: 1.0, torch.float64: 100.0}
    monkeypatch.setattr("cagp_studies.era5_full.pass_seconds", lambda d, T, dtype, device: seconds[dtype])
    forecast = TinyFull().forecast(completed, list(pieces.values()))
    assert forecast is not None
    last, many = completed.sizes.recorded[-1], len(completed.sizes.recorded)
    assert forecast.seconds == 2 * (last + 1) + 100 * (2 * (many + 2) + 3 * 3)
    assert forecast.memory == 40 * 2**30


def test_paper_sizes() -> None:
    paper = Era5Full.scales["paper"]
    assert paper.d == 1_035_262
    assert paper.held_out + paper.more == Era5FullHyperparameters.scales["paper"].held_out
    assert paper.sizes.memory == 40 * 2**30
    assert repr(solver_of("gauss-seidel", paper.sizes, 2)) == (
        "GaussSeidel(seed=2, block_size=1024, partition='spatial')"
    )
    assert "start=NearestNeighbours()" in repr(solver_of("calibrated-cg", paper.sizes, 0))
