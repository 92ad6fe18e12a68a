"""Grids of xarray: lazy ones written to Zarr by region have the numbers of one call, and systems are not mixed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import cagp
from cagp.errors import InputError
from cagp.interop import xarray as interop
from cagp.interop.xarray_prediction import Request
from maps.places import globe_model, plane_model


def grid(rows: int = 23, columns: int = 31) -> xr.Dataset:
    return xr.Dataset(
        {"mask": (("latitude", "longitude"), np.zeros((rows, columns)))},
        coords={"latitude": np.linspace(50.96, 51.0, rows), "longitude": np.linspace(5.72, 5.76, columns)},
    )


@pytest.mark.parametrize("solver", [cagp.NearestNeighbours(10), cagp.Cholesky(), cagp.GaussSeidel(3)])
def test_a_lazy_grid_is_written_region_by_region(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, solver: cagp.Solver
) -> None:
    plain = globe_model()
    model = plain.prior.condition(plain.X, plain.y, solver)
    sizes, ask = list[int](), Request.__call__

    def counted(request: Request, *coordinates: Any) -> np.ndarray:
        found = ask(request, *coordinates)
        sizes.append(found[..., 0].size)
        return found

    monkeypatch.setattr(Request, "__call__", counted)
    lazy = interop.predict(model, grid().chunk({"latitude": 8, "longitude": 10}), level=0.9, exceed=5.0)
    lazy.to_zarr(tmp_path / "lazy.zarr", zarr_format=2)
    assert sorted(sizes) == sorted(a * b for a in (8, 8, 7) for b in (10, 10, 10, 1))  # each block once, for all bands
    once = interop.predict(model, grid(), level=0.9, exceed=5.0)
    with xr.open_zarr(tmp_path / "lazy.zarr") as found:
        assert found["mean"].chunksizes == {"latitude": (8, 8, 7), "longitude": (10, 10, 10, 1)}
        for name in once:
            np.testing.assert_allclose(found[name], once[name], rtol=1e-12, atol=1e-13)
            assert found[name].attrs == once[name].attrs


def test_a_region_of_a_store_is_written_alone(tmp_path: Path) -> None:
    lazy = interop.predict(globe_model(), grid(), chunks={"latitude": 8})
    lazy.to_zarr(tmp_path / "lazy.zarr", compute=False, zarr_format=2)
    part = lazy.isel(latitude=slice(8, 16)).drop_vars("longitude")
    part.to_zarr(tmp_path / "lazy.zarr", region={"latitude": slice(8, 16)})
    with xr.open_zarr(tmp_path / "lazy.zarr") as found:
        inside = np.isfinite(found["mean"]).all("longitude")
        assert inside.values.tolist() == [8 <= i < 16 for i in range(23)]
        np.testing.assert_allclose(found["mean"][8:16], lazy["mean"][8:16], rtol=1e-12)


def test_the_coordinates_of_a_plane_are_found_by_their_names(tmp_path: Path) -> None:
    model = plane_model()
    cells = xr.Dataset(coords={"y": np.linspace(330_000, 332_000, 5), "x": np.linspace(179_000, 181_000, 4)})
    found = interop.predict(model, cells)
    xs, ys = np.meshgrid(cells["x"], cells["y"])
    np.testing.assert_allclose(found["mean"].values.ravel(), model.predict(np.c_[xs.ravel(), ys.ravel()]).mean)


def test_a_model_without_a_system_needs_no_pyproj(monkeypatch: pytest.MonkeyPatch) -> None:
    points = grid(3, 4).assign_coords(spatial_ref=((), 0, {"crs_wkt": "LOCAL_CS[]"}))
    monkeypatch.setitem(sys.modules, "pyproj", None)
    model = cagp.Prior(cagp.RBF(1.0), noise_variance=0.1).condition([[51.0, 5.0]], [1.0])
    assert "mean" in interop.predict(model, points)


def test_a_grid_in_another_system_is_refused(tmp_path: Path) -> None:
    cagp.write_map(globe_model(), tmp_path / "map.nc", 0.01)
    with xr.open_dataset(tmp_path / "map.nc", decode_coords="all") as degrees:
        words = r"of the grid is EPSG:4326 \(WGS 84\), that of the model EPSG:28992 \(Amersfoort / RD New\)"
        with pytest.raises(InputError, match=words):
            interop.predict(plane_model(), degrees.rename(latitude="y", longitude="x"))
        assert interop.predict(globe_model(), degrees)["std"].attrs["grid_mapping"] == "spatial_ref"
