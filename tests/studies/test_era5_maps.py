"""Maps with and without coastlines."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from cagp.studies.coastlines import FILE_NAME, coastlines, wrapped
from cagp.studies.era5_maps import Panel, maps

LATITUDE, LONGITUDE = np.array([-60.0, 0.0, 60.0]), np.array([0.0, 90.0, 180.0, 270.0])


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No coastlines anywhere."""
    monkeypatch.setenv("CAGP_DATA", str(tmp_path))
    monkeypatch.setenv("CAGP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "cartopy", None)
    return tmp_path


def write_lines(folder: Path) -> None:
    features = [
        {"geometry": {"type": "LineString", "coordinates": [[-20, 10], [-10, 12], [10, 14], [20, 16]]}},
        {"geometry": {"type": "MultiLineString", "coordinates": [[[100, 0, 5], [110, 0, 5]]]}},
    ]
    (folder / f"{FILE_NAME}.geojson").write_text(json.dumps({"features": features}))


def test_none(nowhere: Path) -> None:
    assert coastlines() == []


def test_a_damaged_file_costs_no_map(nowhere: Path) -> None:
    (nowhere / f"{FILE_NAME}.geojson").write_text('{"features": [')
    assert coastlines() == []


def test_lines_from_a_file(nowhere: Path) -> None:
    write_lines(nowhere)
    first, second = coastlines()
    assert first.tolist() == [[-20, 10], [-10, 12], [10, 14], [20, 16]]
    assert second.tolist() == [[100, 0], [110, 0]]


def test_lines_are_cut_at_the_meridian() -> None:
    line = np.array([[-20.0, 10], [-10, 12], [10, 14], [20, 16]])
    west, east = wrapped([line])
    assert west.tolist() == [[340, 10], [350, 12]]
    assert east.tolist() == [[10, 14], [20, 16]]


def test_lines_from_cartopy(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for cartopy with its folders and its reader."""
    shapes = nowhere / "shapefiles" / "natural_earth" / "physical"
    shapes.mkdir(parents=True)
    (shapes / f"{FILE_NAME}.shp").touch()

    class Line:
        coords = ((1.0, 2.0), (3.0, 4.0))

    class Lines:
        geoms = (Line(), Line())

    class Reader:
        def __init__(self, path: str) -> None:
            assert path == str(shapes / f"{FILE_NAME}.shp")

        def geometries(self) -> list[object]:
            return [Line(), Lines()]

    package, reading, shapereader = (
        ModuleType("cartopy"),
        ModuleType("cartopy.io"),
        ModuleType("cartopy.io.shapereader"),
    )
    package.config = {"pre_existing_data_dir": "", "data_dir": str(nowhere)}  # type: ignore[attr-defined]
    shapereader.Reader = Reader  # type: ignore[attr-defined]
    reading.shapereader = shapereader  # type: ignore[attr-defined]
    for module in (package, reading, shapereader):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    assert [line.tolist() for line in coastlines()] == [[[1, 2], [3, 4]]] * 3


@pytest.mark.parametrize("with_lines", [False, True])
def test_one_colour_scale(nowhere: Path, with_lines: bool) -> None:
    if with_lines:
        write_lines(nowhere)
    rng = np.random.default_rng(0)
    fields = 250 + 50 * rng.random((3, 3, 4))
    rows = [[Panel("a", fields[0]), Panel("b", fields[1])], [Panel("c", fields[2]), None]]
    figure = maps(rows, ["first", "second, below"], LATITUDE, LONGITUDE, (240.0, 310.0))
    panels = [ax for ax in figure.axes if ax.get_title() in ("a", "b", "c")]
    assert len(panels) == 3
    for ax, field in zip(panels, fields, strict=True):
        mesh, lines = ax.collections
        assert mesh.get_clim() == (240.0, 310.0)
        assert np.asarray(mesh.get_array()).reshape(3, 4) == pytest.approx(field)
        assert len(lines.get_paths()) == (3 if with_lines else 0)
    assert figure.axes[-1].get_ylabel() == "2 metre temperature (K)"
    figure.canvas.draw()
