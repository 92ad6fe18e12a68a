"""One data set, one answer: in Python, in scikit-learn, on the command line and on a grid."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import cagp
from cagp.estimator import CAGPRegressor
from cagp.interop import xarray as interop
from cagp.tables import read_table, write_table
from cli.small import call

RNG = np.random.default_rng(5)
AXIS = np.linspace(0.0, 1.0, 9)
FIELD = xr.DataArray(
    np.sin(5 * AXIS)[:, None] * np.cos(3 * AXIS) + 0.05 * RNG.standard_normal((9, 9)),
    coords={"north": AXIS, "east": AXIS},
    name="height",
)
SOME = {"kernel": ["matern52", "matern12"], "mixture": True, "uncertainty": False}


@pytest.mark.parametrize("gaps", [False, True])
def test_all_doors_lead_to_the_same_model(tmp_path: Path, gaps: bool) -> None:
    X = np.stack(np.meshgrid(AXIS, AXIS, indexing="ij"), axis=-1).reshape(-1, 2)
    y, grid = FIELD.values.ravel(), xr.Dataset(coords={"north": AXIS + 0.31, "east": AXIS + 0.27})
    T = np.stack(np.meshgrid(grid.north, grid.east, indexing="ij"), axis=-1).reshape(-1, 2)
    expected = cagp.fit(X, y, like=T if gaps else None, progress=False, **SOME)
    truth = expected.predict(T, progress=False).observed()

    regressor = CAGPRegressor(**SOME).fit(X, y, like=T if gaps else None)
    mean, std = regressor.predict(T, return_std=True, of="observed")
    np.testing.assert_allclose(mean, truth.mean, rtol=1e-12)
    np.testing.assert_allclose(std, truth.std, rtol=1e-12)
    np.testing.assert_allclose(regressor.predict_interval(T), truth.interval(0.95), rtol=1e-10)

    on_grid = FIELD.cagp.fit(coords=("north", "east"), like=grid if gaps else None, progress=False, **SOME)
    found = interop.predict(on_grid, grid, observed=True)
    np.testing.assert_allclose(found["mean"].values.ravel(), truth.mean, rtol=1e-12)
    np.testing.assert_allclose(found["std"].values.ravel(), truth.std, rtol=1e-12)

    write_table(tmp_path / "train.csv", {"north": X[:, 0], "east": X[:, 1], "height": y})
    write_table(tmp_path / "test.csv", {"north": T[:, 0], "east": T[:, 1]})
    options = ["--kernel", "matern52,matern12", "--no-uncertainty", "--no-report", "--out", tmp_path / "model"]
    where = ["--like", tmp_path / "test.csv"] if gaps else []
    result = call("fit", tmp_path / "train.csv", "--target", "height", *options, *where)
    assert result.exit_code == 0, result.output
    assert "Chosen" in result.stdout
    written = tmp_path / "out.csv"
    result = call("predict", tmp_path / "model", tmp_path / "test.csv", "--observed", "--out", written)
    assert result.exit_code == 0, result.output
    columns = read_table(written, ["mean", "std"]).columns
    np.testing.assert_allclose(columns["mean"], truth.mean, rtol=1e-9)
    np.testing.assert_allclose(columns["std"], truth.std, rtol=1e-9)


def test_covariances_of_what_was_chosen() -> None:
    """Those within and between the components; drawn values have them."""
    X, y = AXIS[:, None], FIELD.values[0]
    regressor = CAGPRegressor(["matern52", "matern12"]).fit(X, y)
    mean, covariance = regressor.predict(X + 0.05, return_cov=True)
    _, std = regressor.predict(X + 0.05, return_std=True)
    np.testing.assert_allclose(np.diag(covariance), std**2, rtol=1e-9)
    draws = regressor.sample_y(X + 0.05, 4000)
    np.testing.assert_allclose(np.cov(draws), covariance, atol=6 * np.max(std**2) / 4000**0.5)
    np.testing.assert_allclose(draws.mean(axis=1), mean, atol=5 * std.max() / 4000**0.5)


def test_positive_observations_stay_positive_in_scikit_learn() -> None:
    rng = np.random.default_rng(2)
    X = rng.random((120, 1))
    y = np.exp(2 * np.sin(6 * X[:, 0]) + 0.3 * rng.standard_normal(120))
    some = {"kernel": "matern32", "uncertainty": False}
    expected = cagp.fit(X, y, progress=False, transform="log", **some).predict(X[:7], progress=False).observed()
    regressor = CAGPRegressor(**some, target_transform="log").fit(X, y)
    mean, std = regressor.predict(X[:7], return_std=True, of="observed")
    np.testing.assert_allclose(mean, expected.mean, rtol=1e-9)
    np.testing.assert_allclose(std, expected.std, rtol=1e-9)
    np.testing.assert_allclose(regressor.predict(X[:7]), regressor.predict(X[:7], return_std=True)[0], rtol=1e-9)
    draws = regressor.sample_y(X[:7], 500, of="observed")
    assert draws.shape == (7, 500)
    assert (draws > 0).all()
    assert (np.quantile(draws, 0.2, axis=1) < expected.median).all()
    with pytest.raises(cagp.InputError, match="target_transform=None"):
        regressor.predict(X[:7], return_cov=True)
    np.testing.assert_allclose(regressor.models_[0].average(X[:7]).observed().mean, mean.mean(), rtol=1e-9)
