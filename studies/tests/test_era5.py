"""The ERA5 studies against dense algebra in NumPy: Gauss-Seidel, CG and the exact GP on a small grid."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import solve_triangular
from scipy.stats import kstest, norm

from cagp.datasets import era5_grid
from cagp_studies import run_study
from cagp_studies.era5_held_out import excess, judged
from cagp_studies.era5_hyperparameters import KNOWN, Era5Prior, fitted_priors
from cagp_studies.era5_means import MeansConfig, roughness
from cagp_studies.era5_study import NATURAL, RANDOM, method, of_method, reference, reference_remarks
from cagp_studies.era5_timings import Era5Timings, TimingsConfig
from problems import Problem
from tiny import TINY_HELD_OUT, TinyCalibration, TinyConvergence, TinyMeans, TinyTimings, drawn_once

SEED = 2


def on_the_sphere(latlon: np.ndarray) -> np.ndarray:
    latitude, longitude = np.deg2rad(latlon).T
    return np.column_stack(
        [np.cos(latitude) * np.cos(longitude), np.cos(latitude) * np.sin(longitude), np.sin(latitude)]
    )


def trend(mean: str, latitude: np.ndarray, y: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The prior mean at latitudes ``at``: average, or a parabola by least squares."""
    return np.polyval(np.polyfit(latitude, y, 2 if mean == "detrended" else 0), at)


def dense(prior: dict[str, float], X: np.ndarray, y: np.ndarray, X_test: np.ndarray) -> Problem:
    return Problem(
        on_the_sphere(X),
        y,
        on_the_sphere(X_test),
        prior["noise_std"] ** 2,
        prior["lengthscale"],
        prior["amplitude"] ** 2,
    )


def gauss_seidel_weights(problem: Problem, m: int) -> np.ndarray:
    """The m-th backward iterate of G W = Vᵀ from zero, shape (d, T)."""
    G, rhs = problem.G, problem.V.T
    W = np.zeros_like(rhs)
    for _ in range(m):
        W = solve_triangular(np.triu(G), rhs - np.tril(G, -1) @ W)
    return W


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory, data_folder: Path) -> Path:
    folder = tmp_path_factory.mktemp("era5")
    with drawn_once():
        for study in (TinyCalibration(), TinyConvergence(), TinyMeans()):
            run_study(study, folder, seed=SEED)
    return folder


def read(out: Path, study: str, name: str = "table") -> pd.DataFrame:
    return pd.read_csv(out / study / f"{name}.csv")


def fitted(out: Path, mean: str) -> dict[str, float]:
    """The fitted hyperparameters, rounded to six digits as the studies do."""
    row = read(out, "era5-hyperparameters").set_index("mean").loc[mean]
    return {name: float(f"{row[name]:.6g}") for name in ("amplitude", "lengthscale", "noise_std")}


@pytest.mark.parametrize("mean", ["constant", "detrended"])
def test_held_out_scores_are_those_of_dense_algebra(out: Path, mean: str) -> None:
    table = read(out, "era5-convergence")
    grid = era5_grid(8, 16)
    draw = 1
    test = grid.held_out(12, int(np.random.default_rng([SEED, draw]).integers(2**31)))
    problem = dense(fitted(out, mean), grid.X, grid.y, test.X)
    b = grid.y - trend(mean, grid.X[:, 0], grid.y, grid.X[:, 0])
    variances = {}
    for solver, m in ((NATURAL, 1), (NATURAL, 4), ("cholesky", 1)):
        W = problem.exact_weights if solver == "cholesky" else gauss_seidel_weights(problem, m)
        predicted = trend(mean, grid.X[:, 0], grid.y, test.X[:, 0]) + W.T @ b
        variance = np.diag(problem.covariance(W))
        row = of_method(table, mean, solver, m).set_index("draw").loc[draw]
        assert row.rmse == pytest.approx(np.sqrt(np.mean((predicted - test.y) ** 2)), rel=1e-6)
        std = np.sqrt(variance + float(problem.noise))
        assert row.nll == pytest.approx(-norm.logpdf(test.y, predicted, std).mean(), rel=1e-6)
        assert row.mean_variance == pytest.approx(variance.mean(), rel=1e-6)
        variances[solver, m] = variance.mean()
    wanted = variances[NATURAL, 4] / variances["cholesky", 1] - 1
    assert excess(table[table["draw"] == draw], mean, NATURAL, 4) == pytest.approx(wanted, rel=1e-5)


def test_p_values_with_and_without_noise(out: Path) -> None:
    predictions = read(out, "era5-calibration", "predictions")
    priors = fitted_priors({"table": read(out, "era5-hyperparameters")})
    config = dataclasses.replace(TINY_HELD_OUT, priors=priors)
    both = of_method(predictions, "constant", RANDOM, 4)
    assert both["draw"].tolist() == [0] * 12 + [1] * 12
    rows = both[both["draw"] == 1]
    assert rows["point"].tolist() == list(range(12))
    noise = fitted(out, "constant")["noise_std"]
    for kind, extra in (("observed", noise), ("latent", 0.0)):
        z = rows["error"] / np.sqrt(rows["std"] ** 2 + extra**2)
        result = judged(config, predictions, "constant", RANDOM, 4, kind)[1]
        assert result.p_value == pytest.approx(kstest(z, "norm").pvalue, rel=1e-9)
        assert result.z_std == pytest.approx(z.std(), rel=1e-12)


def test_calibration_and_convergence_share_their_computation(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def again(*arguments: object) -> None:
        raise AssertionError("computed again")

    monkeypatch.setattr(TinyConvergence, "run", again)
    record = run_study(TinyConvergence(), out, seed=SEED)
    assert record.pieces == 2 * 4
    assert not (out / "era5-convergence" / "pieces").exists()


def test_the_report_says_what_matters(out: Path) -> None:
    words = (out / "era5-calibration" / "study.json").read_text(encoding="utf-8")
    assert "0.4707" in words
    assert "5.0112e-1" in words
    assert "contradict" in words
    assert "varies over orders of magnitude" in words
    for study in ("era5-calibration", "era5-convergence", "era5-means"):
        assert "the order of the unknowns changes everything" in (out / study / "study.json").read_text(
            encoding="utf-8"
        )


@pytest.mark.parametrize("mean", ["constant", "detrended"])
def test_means_are_those_of_dense_algebra(out: Path, mean: str) -> None:
    means, points = read(out, "era5-means", "means"), read(out, "era5-means", "points")
    grid, test = era5_grid(8, 16), era5_grid(6, 7)
    assert points[["latitude", "longitude"]].to_numpy() == pytest.approx(test.X)
    problem = dense(fitted(out, mean), grid.X, grid.y, test.X)
    b = grid.y - trend(mean, grid.X[:, 0], grid.y, grid.X[:, 0])
    at_test = trend(mean, grid.X[:, 0], grid.y, test.X[:, 0])
    krylov = np.column_stack([b, problem.G @ b, problem.G @ (problem.G @ b)])
    S, _ = np.linalg.qr(krylov)
    wanted = {
        (NATURAL, 3): gauss_seidel_weights(problem, 3).T @ b,
        ("conjugate-gradient", 3): problem.V @ S @ np.linalg.solve(S.T @ problem.G @ S, S.T @ b),
        ("cholesky", 1): problem.exact_weights.T @ b,
    }
    table = read(out, "era5-means").set_index(["mean", "solver", "m"])
    new = points["new"].to_numpy()
    for (solver, m), values in wanted.items():
        chosen = (means["mean"] == mean) & (means["solver"] == solver) & (means["m"] == m)
        assert means[chosen]["temperature"].to_numpy() == pytest.approx(at_test + values, abs=2e-3)
        rmse = np.sqrt(np.mean((at_test + values - test.y)[new] ** 2))
        assert table.rmse[mean, solver, m] == pytest.approx(rmse, rel=1e-6)


def test_points_of_the_training_grid_are_not_counted(out: Path) -> None:
    points = read(out, "era5-means", "points")
    known = {tuple(x) for x in era5_grid(8, 16).X}
    inside = [(row.latitude, row.longitude) in known for row in points.itertuples()]
    assert 0 < sum(inside) < len(inside)
    assert points["new"].tolist() == [not each for each in inside]


def test_roughness() -> None:
    flat = np.repeat([1.0, 5.0], 4)  # differences between parallels do not count
    assert roughness(flat, (2, 4)) == 0
    steps = np.array([0.0, 2.0, 0.0, 2.0])
    assert roughness(steps, (1, 4)) == 2


def test_paper_sizes() -> None:
    assert MeansConfig((120, 240), "tiles").d == 28_800
    assert TinyMeans.__mro__[1].scales["paper"].d == 28_800
    assert np.prod(TinyMeans.__mro__[1].scales["paper"].test) == 7_225
    assert TinyMeans.__mro__[1].scales["paper"].shown == (1, 2, 5, 10, 20, 40)
    held_out = TinyCalibration.__mro__[1].scales["paper"]
    assert (held_out.d, held_out.held_out) == (64_800, 100)
    timings = Era5Timings.scales["paper"]
    assert (timings.m, timings.d, timings.T) == (80, 10_638, 25)


def test_the_reference_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reference(1000) == "cholesky"
    monkeypatch.setattr("cagp_studies.era5_study.resolve_budget", lambda budget, device: 10**6)
    assert reference(1000) == "nearest-neighbours"
    assert reference_remarks(pd.DataFrame({"solver": [NATURAL, "cholesky"]}), 1000) == []
    (remark,) = reference_remarks(pd.DataFrame({"solver": [NATURAL, "nearest-neighbours"]}), 64_800)
    assert "64,800 points need 62.6 GiB" in remark
    assert "300 nearest neighbours" in remark


def test_without_room_for_the_exact_gp(tmp_path: Path, data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cagp_studies.era5_study.resolve_budget", lambda budget, device: 10**4)
    monkeypatch.setattr("cagp_studies.runner._save_figure", lambda *arguments: None)
    for study in (TinyConvergence(), TinyMeans()):
        record = run_study(study, tmp_path)
        assert "nearest-neighbours" in set(pd.read_csv(tmp_path / study.name / "table.csv")["solver"])
        assert any("does not fit here" in remark for remark in record.remarks)


def test_priors_are_rounded() -> None:
    row = {"mean": "constant", "amplitude": 11.12345678, "lengthscale": 0.17412345678, "noise_std": 1.1712345678}
    assert fitted_priors({"table": pd.DataFrame([row])}) == (Era5Prior("constant", 11.1235, 0.174123, 1.17123),)
    assert KNOWN.prior().noise_variance == pytest.approx(1.17**2)


def test_methods() -> None:
    assert repr(method(RANDOM, 7, 3)) == "GaussSeidel(iterations=7, seed=3)"
    assert repr(method(NATURAL, 7, 3)) == "GaussSeidel(iterations=7, order='natural')"


def test_timings(tmp_path: Path, data_folder: Path) -> None:
    record = run_study(TinyTimings(), tmp_path)
    table = pd.read_csv(tmp_path / "era5-timings" / "table.csv")
    sizes = table[["varied", "m", "d", "T"]].drop_duplicates().to_numpy().tolist()
    assert sizes == [
        ["m", 1, 60, 2],
        ["m", 3, 60, 2],
        ["d", 3, 30, 2],
        ["d", 3, 60, 2],
        ["T", 3, 60, 1],
        ["T", 3, 60, 2],
    ]
    assert (table["seconds"] > 0).all()
    assert set(table["solver"]) == {NATURAL, RANDOM, "conjugate-gradient"}
    assert sum(remark.startswith("Against ") for remark in record.remarks) == 3


def test_growth_of_timings() -> None:
    """Times that grow as d² for GS and as d for CG, crossing at d = 100."""
    config = TimingsConfig(1, 100, 1, (1, 2), (10, 1000), (1, 2), repeats=1)
    rows = []
    for varied, sizes in (("m", config.many_m), ("d", config.many_d), ("T", config.many_T)):
        for size in sizes:
            for solver, seconds in ((NATURAL, size**2), (RANDOM, size**2), ("conjugate-gradient", 100.0 * size)):
                both = {"seconds": seconds, "processor_seconds": seconds, "solver": solver}
                rows.append({"varied": varied, "m": 1, "d": 100, "T": 1, **both, varied: size})
    remarks = Era5Timings().present(config, {"table": pd.DataFrame(rows)}).remarks
    said = next(remark for remark in remarks if remark.startswith("Against d"))
    assert "faster than CG at d = 10." in said
    assert "natural order 2.00" in said
    assert "CAGP-CG 1.00" in said


def test_tiny_config_is_shared() -> None:
    assert TinyCalibration.scales["quick"] is TinyConvergence.scales["quick"] is TINY_HELD_OUT
