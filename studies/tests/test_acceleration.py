"""The study of acceleration: its numbers against dense algebra, its figures, tables and findings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import cagp
from cagp_studies import run_study
from cagp_studies.acceleration import Acceleration, AccelerationConfig, AccelerationPiece
from cagp_studies.acceleration_cases import METHODS, SWEEPS, TABLES, TEST_SIDE, TITLES, Case, calibrated, pose
from cagp_studies.acceleration_results import at, comparisons, findings, reaching
from cagp_studies.study import Tables
from tiny import TINY_SIZES, TinyAcceleration


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are made, but not written: that is what takes the time."""
    monkeypatch.setattr("cagp_studies.runner._save_figure", lambda *arguments: None)


CASE = Case("synthetic", 80, 4, TINY_SIZES)


@pytest.fixture(scope="module")
def tables() -> Tables:
    study = Acceleration()
    config = AccelerationConfig((CASE,))
    return study.run(config, study.pieces(config)["synthetic"], seed=3)


def of(tables: Tables, method: str) -> pd.DataFrame:
    return tables["table"][tables["table"]["method"] == method]


def test_excess_and_errors_against_dense_algebra(tables: Tables) -> None:
    posed = pose(CASE, seed=3)
    X, X_test, y, truth = posed.problem.X, posed.problem.X_test, posed.problem.y, posed.problem.truth
    G, V = posed.prior.kernel(X) + 0.01 * np.eye(80), posed.prior.kernel(X_test, X)
    exact = 1 - np.diag(V @ np.linalg.solve(G, V.T))
    # Gauss-Seidel on G W = Vᵀ, from the last unknown to the first
    W = np.zeros((80, 4))
    for m in range(1, 4):
        W = np.linalg.solve(np.triu(G), V.T - np.tril(G, -1) @ W)
        variance = 1 - 2 * np.diag(V @ W) + np.diag(W.T @ G @ W)
        row = of(tables, "gs-natural").set_index("m").loc[m]
        assert row.excess == pytest.approx(variance.mean() / exact.mean() - 1, rel=1e-8)
        assert row.worst == pytest.approx((variance / exact - 1).max(), rel=1e-8)
        assert row.rmse == pytest.approx(np.sqrt(np.mean((W.T @ y - truth) ** 2)))
        assert row.passes == m
    facts = tables["data"].iloc[0]
    mean = V @ np.linalg.solve(G, y)
    assert facts.exact_rmse == pytest.approx(np.sqrt(np.mean((mean - truth) ** 2)))
    assert (facts.d, facts["T"], facts.dimension, facts.of) == (80, 4, 2, "latent")
    assert facts.noise == pytest.approx(0.01)


def test_every_method_has_its_rows(tables: Tables) -> None:
    table = tables["table"]
    assert list(dict.fromkeys(table["method"])) == list(METHODS)
    assert not table.drop(columns="variant").isna().any().any()
    assert (table["excess"] > -1e-8).all()  # no W has less than the exact variance
    for method, how in METHODS.items():
        own = of(tables, method)
        if method.startswith(("gs-", "cg-n", "cg-j", "cg-s", "near-")):
            assert own["m"].tolist() == list(range(1, TINY_SIZES.iterations + 1))
            assert own["seconds"].is_monotonic_increasing
            assert own["excess"].is_monotonic_decreasing or own["excess"].min() < 1e-9
        else:
            assert len(own) == len(list(how.variants(TINY_SIZES)))
    assert (of(tables, "neighbours")["passes"] == 0).all()
    assert of(tables, "near-none")["passes"].tolist() == [0, *range(2, TINY_SIZES.iterations + 1)]
    assert of(tables, "subset")["passes"].tolist() == pytest.approx([(20 / 80) ** 2, (40 / 80) ** 2])


def test_the_lines_of_a_panel_can_be_told_apart() -> None:
    for group in (SWEEPS, TEST_SIDE):
        looks = [how.look for how in METHODS.values() if how.group == group]
        assert len(looks) <= 9
        assert len({(look.marker, str(look.linestyle)) for look in looks}) == len(looks)
        assert len({look.label for look in looks}) == len(looks)


def test_who_is_calibrated() -> None:
    assert {method for method in METHODS if not calibrated(method, TINY_SIZES)} == {"cg-on-b", "hybrid"}
    assert all(METHODS[method].look.label.endswith("*") != calibrated(method, TINY_SIZES) for method in METHODS)


def made_up() -> pd.DataFrame:
    rows = [("gs-random", 1, 0.5), ("gs-random", 5, 0.009), ("cg-none", 2, 0.3), ("cg-none", 12, 0.001),
            ("cg-on-b", 1, 0.001)]  # fmt: skip
    columns = {"data": "synthetic", "variant": "", "seconds": 1.0, "rmse": 1.0, "nll": 1.0}
    return pd.DataFrame([{"method": name, "passes": float(p), "excess": e, **columns} for name, p, e in rows])


def test_rows_by_passes() -> None:
    rows = made_up()[:2]
    assert at(rows, 0.5) is None
    assert [at(rows, p).excess for p in (1, 4, 5, 20)] == [0.5, 0.5, 0.009, 0.009]  # type: ignore[union-attr]
    assert reaching(made_up()).set_index("method")["passes"].to_dict() == {"gs-random": 5, "cg-none": 12, "cg-on-b": 1}


def test_findings() -> None:
    first, *others = findings([CASE], made_up())
    assert first == "Found: 1% excess within 10 passes on every data set by: GS, random order."
    assert others == []
    two = [CASE, Case("uneven", 80, 4, TINY_SIZES)]
    first, second = findings(two, made_up())
    assert "no calibrated method" in first
    assert second == "On some data sets: GS, random order (Synthetic)."


def test_tables_of_the_report(tables: Tables) -> None:
    data, cheapest, excess = comparisons([CASE], tables["table"], tables["data"].set_index("data"))
    assert data.rows[0][:4] == ["Synthetic", "80", "4", "2"]
    assert len(cheapest.rows) == 1
    labels = [row[0] for row in excess.rows]
    assert "neighbours alone, k = 20" in labels
    assert len(labels) == len(METHODS) + 2  # two of neighbours, two of subsets
    assert all(len(row) == len(excess.columns) for row in excess.rows)


def test_uneven_noise_differs_and_jacobi_helps() -> None:
    posed = pose(Case("uneven", 400, 4, TINY_SIZES), seed=0)
    noise = posed.prior.noise(torch.from_numpy(posed.problem.X)).sqrt()
    assert 0.1 <= noise.min() < 0.12
    assert 2.5 < noise.max() <= 3
    variance = {
        name: posed.prior.condition(posed.problem.X, posed.problem.y, cagp.CalibratedCG(15, how))
        .predict(posed.problem.X_test)
        .variance.mean()
        for name, how in (("none", None), ("jacobi", cagp.Jacobi()))
    }
    assert variance["jacobi"] < variance["none"]


def test_paper_scale_has_the_sizes_of_the_targets() -> None:
    sizes = {case.name: case for case in Acceleration.scales["paper"].cases}
    assert (sizes["era5"].d, sizes["kin40k"].d, sizes["protein"].d) == (64_800, 36_000, 41_157)
    assert set(sizes) == set(TITLES) >= set(TABLES)
    assert next(iter(Acceleration().pieces(Acceleration.scales["paper"]))) == "era5"  # the largest first
    forecast = Acceleration().forecast(Acceleration.scales["paper"], [AccelerationPiece(sizes["era5"])])
    assert forecast.memory > 2 * 8 * 64_800**2
    assert forecast.seconds > 100  # on any processor


def test_too_large_is_refused_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cagp_studies.acceleration.resolve_budget", lambda budget, device: 10_000)
    monkeypatch.setattr("cagp_studies.acceleration.pose", lambda case, seed: pytest.fail("work was done"))
    study, config = Acceleration(), AccelerationConfig((CASE,))
    with pytest.raises(cagp.MemoryBudgetError, match=r"exact GP of 80 points.*--scale quick"):
        study.run(config, study.pieces(config)["synthetic"], seed=0)


def test_whole_study_on_real_data(data_folder: Path, tmp_path: Path) -> None:
    record = run_study(TinyAcceleration(), tmp_path, seed=1)
    names = ("uneven", "concrete", "era5")
    assert list(record.figures) == [f"{what}-{name}" for name in names for what in ("excess", "errors")]
    assert set(record.tables) == {"table", "data"}
    facts = pd.read_csv(tmp_path / "acceleration" / "data.csv").set_index("data")
    assert facts.loc["era5", "d"] == 72
    assert facts.loc["concrete", "d"] == 90
