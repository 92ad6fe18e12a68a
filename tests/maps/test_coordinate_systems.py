"""GeoDataFrames at every door: the same numbers as their coordinates, the globe for degrees, no mixing of systems."""

from __future__ import annotations

from pathlib import Path

import geopandas as gpd
import numpy as np
import pandas as pd
import pytest

import cagp
from cagp import saving
from cagp.errors import InputError
from cagp.estimator import CAGPRegressor
from maps.places import DEGREES, RD, plane_model, stations

QUICK = {"kernel": "matern32", "mean": "constant", "transform": None, "uncertainty": False, "recalibrate": False}
WRONG = r"of X_test is EPSG:4326 \(WGS 84\), that of the training points EPSG:28992 \(Amersfoort / RD New\); .*to_crs"


def test_projected_coordinates_are_a_plane() -> None:
    frame = stations()
    model = cagp.fit(frame[["geometry"]], frame["zinc"], **QUICK, progress=False)
    plain = pd.DataFrame({"x": frame.geometry.x, "y": frame.geometry.y})
    other = cagp.fit(plain, frame["zinc"], **QUICK, progress=False)
    assert (model.crs, model.column_names, other.crs) == (RD, ["x", "y"], None)
    new = stations(20, seed=1)
    found, expected = model.predict(new[["geometry"]]), other.predict(np.c_[new.geometry.x, new.geometry.y])
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-10)
    np.testing.assert_array_equal(found.mean, model.predict(new.geometry).mean)  # a GeoSeries
    np.testing.assert_array_equal(found.mean, other.predict(new.geometry).mean)  # columns of the same names
    assert "m" in model.story.split("lengthscale")[1][:60]


def test_degrees_are_a_globe() -> None:
    frame = stations().to_crs(DEGREES)
    model = cagp.fit(frame[["geometry", "height"]], frame["zinc"], **QUICK, progress=False)
    assert model.column_names == ["latitude", "longitude", "height"]
    values = np.c_[frame.geometry.y, frame.geometry.x, frame["height"]]
    other = cagp.fit(values, frame["zinc"].to_numpy(), **QUICK, globe=(0, 1), progress=False)
    assert model.prior.kernel == other.prior.kernel
    np.testing.assert_array_equal(model.predict(frame[["geometry", "height"]]).mean, other.predict(values).mean)
    plane = cagp.fit(frame[["geometry", "height"]], frame["zinc"], **QUICK, globe=(), progress=False)
    assert plane.prior.kernel == cagp.fit(values, frame["zinc"].to_numpy(), **QUICK, progress=False).prior.kernel
    # the same degrees in the other order of axes
    same = frame.to_crs("OGC:CRS84")
    np.testing.assert_array_equal(model.predict(same[["geometry", "height"]]).mean, other.predict(values).mean)


def test_a_kernel_by_hand_stays() -> None:
    frame = stations().to_crs(DEGREES)
    model = cagp.fit(frame.geometry, frame["zinc"], **QUICK | {"kernel": cagp.Matern32(0.01)}, progress=False)
    assert isinstance(model.prior.kernel, cagp.Matern32)


def test_another_system_is_refused(tmp_path: Path) -> None:
    model, new = plane_model(), stations(5, seed=1)
    for points in (new[["geometry"]], new.geometry):
        with pytest.raises(InputError, match=WRONG):
            model.predict(points.to_crs(DEGREES))
    with pytest.raises(InputError, match="of X is EPSG:4326"):
        model.with_more(new.geometry.to_crs(DEGREES), new["zinc"])
    with pytest.raises(InputError, match="of like is EPSG:4326"):
        model.left_out(like=new.geometry.to_crs(DEGREES))
    with pytest.raises(InputError, match="of like is EPSG:4326"):
        cagp.fit(stations().geometry, stations()["zinc"], like=new.geometry.to_crs(DEGREES), progress=False)
    model.save(tmp_path / "model")
    loaded = cagp.load(tmp_path / "model")
    with pytest.raises(InputError, match=WRONG):
        loaded.predict(new.geometry.to_crs(DEGREES))
    np.testing.assert_allclose(loaded.predict(new.geometry).mean, model.predict(new.geometry).mean, rtol=1e-12)
    about = saving.read(tmp_path / "model").about
    assert (about.crs, about.units, about.features) == (RD, {"x": "m", "y": "m"}, ("x", "y"))


def test_the_system_stays_with_what_a_model_becomes() -> None:
    model, new = plane_model(), stations(5, seed=1)
    assert model.with_more(new.geometry, new["zinc"]).crs == model.replace(margins=None).crs == RD


def test_an_estimator() -> None:
    frame = stations()
    for kernel in (None, cagp.Matern32(700.0)):
        regressor = CAGPRegressor(kernel, mean="constant" if kernel is None else None).fit(
            frame[["geometry"]], frame["zinc"]
        )
        assert regressor.crs_ == regressor.model_.crs == RD
        assert list(regressor.feature_names_in_) == ["x", "y"]
        mean = regressor.predict(frame[["geometry"]])
        np.testing.assert_array_equal(mean, regressor.predict(pd.DataFrame(frame.geometry.get_coordinates())))
        with pytest.raises(InputError, match="of X is EPSG:4326"):
            regressor.predict(frame[["geometry"]].to_crs(DEGREES))
    degrees = frame.to_crs(DEGREES)
    on_globe = CAGPRegressor("matern32", mean="constant").fit(degrees[["geometry"]], frame["zinc"])
    assert isinstance(on_globe.model_.prior.kernel, cagp.Geographic)


def test_what_is_no_point_is_refused() -> None:
    frame, fit = stations(), cagp.fit
    cases = [
        (
            frame.geometry.buffer(1.0),
            "X has a Polygon in its geometry; .*for averages the cells of .*X.centroid",
        ),
        (frame.set_crs(None, allow_override=True).geometry, r"X does not say its coordinate system; .*X.set_crs"),
        (frame[["geometry"]].assign(x=1.0), "X has a column 'x' beside the x of its geometry, with other values"),
        (frame.geometry.to_crs("EPSG:4807"), "are in grad, not degrees"),
        (gpd.GeoSeries.from_xy(frame.geometry.x, frame.geometry.y, frame["height"], crs=RD), "points with heights"),
    ]
    for X, words in cases:
        if words is not None:
            with pytest.raises(InputError, match=words):
                fit(X, frame["zinc"], progress=False)
    same = frame[["geometry"]].assign(x=frame.geometry.x)  # the same coordinate once more
    assert plane_model(same.assign(zinc=frame["zinc"])).column_names == ["x", "y"]
    with pytest.raises(InputError, match=r"has the columns \['x', 'y', 'a'\].*X_test\[\['geometry'\]\]"):
        plane_model().predict(frame[["geometry"]].assign(a=1.0))
    with pytest.raises(InputError, match="training points were numbers whose coordinate system is not known"):
        cagp.Prior(cagp.RBF(1.0), noise_variance=0.1).condition(np.eye(2), [0.0, 1.0]).predict(frame.geometry)
