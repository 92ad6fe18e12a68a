"""Coastlines for maps, which come with the package."""

from __future__ import annotations

import numpy as np

from cagp.reports.maps import coastlines, wrapped


def test_lines_are_those_of_the_earth() -> None:
    lines = coastlines()
    rows = np.concatenate(lines)
    assert 100 < len(lines) < 200
    assert np.abs(rows[:, 0]).max() <= 180
    assert -86 < rows[:, 1].min() < 83 < rows[:, 1].max() < 84
    for cape in ((18.4, -34.2), (-67.3, -55.8), (-9.5, 38.8)):  # Good Hope, Horn, Roca
        assert np.hypot(*(rows - cape).T).min() < 1.2
    jumps = [np.abs(np.diff(line[:, 0])).max() for line in lines]
    assert max(jumps) < 20  # none goes round the globe the wrong way


def test_lines_are_cut_at_the_meridian() -> None:
    line = np.array([[-20.0, 10], [-10, 12], [10, 14], [20, 16]])
    west, east = wrapped([line])
    assert west.tolist() == [[340, 10], [350, 12]]
    assert east.tolist() == [[10, 14], [20, 16]]
    (ocean,) = wrapped([line], 25.0)
    assert ocean.tolist() == [[340, 10], [350, 12], [370, 14], [380, 16]]
