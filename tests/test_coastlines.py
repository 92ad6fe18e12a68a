"""Coastlines for maps, where they are on this machine."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from cagp.reports.maps import FILE_NAME, coastlines, wrapped


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


def test_lines_from_a_file_need_no_library(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CAGP_CACHE")
    for name in ("pooch", "platformdirs"):
        monkeypatch.setitem(sys.modules, name, None)
    write_lines(nowhere)
    assert len(coastlines()) == 2


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
