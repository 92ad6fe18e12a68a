"""Rows far beyond the observations of a model with a trend or a transform are told, once a call, and no others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import cagp
import cagp.interop.xarray
from cagp.errors import DataWarning
from cagp.estimator import CAGPRegressor
from cagp.predicting.beyond import Beyond
from cli.small import call, write_small

RNG = np.random.default_rng(0)
X = RNG.random((40, 2)) * [100.0, 1.0]
Y = 0.05 * X[:, 0] + np.sin(5 * X[:, 1]) + 0.05 * RNG.normal(size=40)
FRAME = pd.DataFrame(X, columns=["weight", "height"])
FAR = [[160.0, 0.5], [5000.0, 0.5], [50.0, 0.5]]
KERNEL = cagp.Matern32((30.0, 0.3))


def model_with(mean: cagp.Mean) -> cagp.Model:
    return cagp.Prior(KERNEL, mean=mean, noise_variance=0.01).condition(FRAME, Y)


@pytest.mark.parametrize("method", ["predict", "predict_mean"])
def test_rows_are_told_once_with_column_values_and_range(method: str) -> None:
    model = model_with(cagp.Polynomial(1))
    with pytest.warns(DataWarning) as caught:
        getattr(model, method)(np.asarray(FAR))
    (told,) = (str(each.message) for each in caught)
    assert told.startswith("2 rows lie beyond the observations by more than half of their range: 'weight' is 160 to 5")
    assert f"and {X[:, 0].min():.4g} to {X[:, 0].max():.4g} in the observations" in told
    assert "height" not in told
    assert "The model has a trend there, which nothing has checked" in told
    assert caught[0].filename == __file__


def test_nothing_is_said_near_the_data_nor_where_nothing_goes_on() -> None:
    near = X.max(0) + 0.45 * np.ptp(X, axis=0)
    model_with(cagp.Polynomial(1)).predict(near[None])
    for mean in (cagp.Constant(), cagp.Zero(), cagp.Polynomial(1, columns=(1,)), cagp.Polynomial(0)):
        model_with(mean).predict(FAR)
    with pytest.warns(DataWarning, match="'height' is 9"):
        model_with(cagp.Polynomial(1, columns=(1,))).predict([[5000.0, 9.0]])


def test_a_transform_makes_much_of_what_is_unknown_there() -> None:
    prior = cagp.Prior(KERNEL, mean=cagp.Constant(), noise_variance=0.01).transformed("log")
    with pytest.warns(DataWarning, match="'weight' is 160 to 5,000, .* The transform makes much of what is unknown"):
        prior.condition(FRAME, np.exp(Y)).predict(FAR)


def test_trials_of_the_library_are_silent_and_its_other_doors_are_not() -> None:
    model = model_with(cagp.Polynomial(1))
    model.compact(like=FAR)
    model.recalibrated(n=20)
    assert not Beyond(model).look(X).told
    twice = Beyond(model).look(FAR[:1]).look(FAR[1:])
    assert twice.told == Beyond(model).look(FAR).told
    for outputs in (Y, np.column_stack([Y, Y**2])):
        with pytest.warns(DataWarning, match="2 rows") as caught:
            CAGPRegressor(KERNEL, mean=cagp.Polynomial(1), recalibrate=False).fit(X, outputs).predict(FAR)
        assert len(caught) == 1
    several = cagp.fit(FRAME, np.column_stack([Y, Y**2]), kernel="matern32", mean="linear", together=False, **QUICK)
    with pytest.warns(DataWarning, match="2 rows") as caught:
        several.predict(np.asarray(FAR))
    assert len(caught) == 1


QUICK = {"uncertainty": False, "transform": None, "varying": False, "recalibrate": False, "progress": False}


def test_a_grid_is_told_once() -> None:
    field = xr.DataArray(
        np.add.outer(np.arange(6.0), np.arange(8.0)) ** 1.1, coords={"v": np.arange(6.0), "u": np.arange(8.0)}
    )
    prior = cagp.Prior(cagp.Matern32((3.0, 3.0)), mean=cagp.Polynomial(1), noise_variance=0.01)
    model = field.cagp.condition(prior, coords=("v", "u"))
    grid = xr.Dataset(coords={"v": np.arange(3.0), "u": np.arange(0.0, 40.0, 10.0)})
    with pytest.warns(DataWarning, match="6 rows lie") as caught:
        grid.cagp.predict(model)
    assert len(caught) == 1


def test_the_command_prints_it_once_for_all_pieces(tmp_path: Path) -> None:
    write_small(tmp_path / "train.csv", 40)
    asked = ("--kernel", "matern32", "--mean", "linear", "--no-uncertainty", "--transform", "none", "--no-report")
    model = tmp_path / "m"
    done = call("fit", tmp_path / "train.csv", "--target", "height", "--out", model, *asked, "--no-recalibrate")
    assert done.exit_code == 0, done.output
    pd.DataFrame({"east": [0.5, 7.0, 9.0, 0.1], "north": 0.5}).to_csv(tmp_path / "new.csv", index=False)
    done = call("predict", model, tmp_path / "new.csv", "--out", tmp_path / "p.csv", "--batch", 1)
    assert done.exit_code == 0, done.output
    assert done.stderr.count("beyond the observations") == 1
    assert (
        "Warning: 2 rows lie beyond the observations by more than half of their range: 'east' is 7 to 9" in done.stderr
    )


def test_longitudes_of_another_turn_are_not_beyond() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(40, 60, 60), rng.uniform(-10, 30, 60)])
    y = np.exp(np.sin(X[:, 0] / 5) + 0.1 * rng.normal(size=60))
    model = cagp.fit(X, y, globe=(0, 1), transform="log", kernel="matern32", uncertainty=False, progress=False)
    assert not Beyond(model).look(np.column_stack([X[:, 0], X[:, 1] % 360])).told


def test_cells_without_a_covariate_are_not_looked_at() -> None:
    height = np.random.default_rng(0).uniform(0, 100, (8, 9))
    grid = {"lat": np.arange(40.0, 48.0), "lon": np.arange(0.0, 9.0), "h": (("lat", "lon"), height)}
    field = xr.DataArray(np.exp(np.sin(height / 20)), dims=("lat", "lon"), coords=grid, name="z")
    options = {"transform": "log", "kernel": "matern32", "uncertainty": False}
    fitted = field.cagp.fit(coords=("lat", "lon", "h"), **options)
    holes = height.copy()
    holes[0, 0] = np.nan
    found = fitted.predict(field.assign_coords(h=(("lat", "lon"), holes)))
    assert int(np.isnan(found["mean"]).sum()) == 1
