"""Maps with and without coastlines."""

from __future__ import annotations

import numpy as np
import pytest

from cagp_studies.drawing import Panel, maps

LATITUDE, LONGITUDE = np.array([-60.0, 0.0, 60.0]), np.array([0.0, 90.0, 180.0, 270.0])
LINES = [np.array([[-20.0, 10], [-10, 12], [10, 14], [20, 16]]), np.array([[100.0, 0], [110, 0]])]


@pytest.mark.parametrize("with_lines", [False, True])
def test_one_colour_scale(monkeypatch: pytest.MonkeyPatch, with_lines: bool) -> None:
    monkeypatch.setattr("cagp_studies.drawing.coastlines", lambda: LINES if with_lines else [])
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
        assert len(lines.get_paths()) == (3 if with_lines else 0)  # the first is cut at the meridian 0
    assert figure.axes[-1].get_ylabel() == "2 metre temperature (K)"
    figure.canvas.draw()
