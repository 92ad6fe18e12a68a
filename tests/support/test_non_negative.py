"""Weights that are not negative, also where the columns are nearly alike."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize

from cagp.support import non_negative as module
from cagp.support.non_negative import non_negative


def test_an_interior_point_does_what_active_sets_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def in_circles(*_: object) -> None:
        raise RuntimeError("Maximum number of iterations reached.")

    rng = np.random.default_rng(0)
    columns, wanted = rng.random((12, 5)), rng.normal(size=12)
    weights, residual = scipy.optimize.nnls(columns, wanted)
    for each in (non_negative(columns, wanted), None):
        if each is None:
            monkeypatch.setattr(module, "nnls", in_circles)
            each = non_negative(columns, wanted)
        np.testing.assert_allclose(each[0], weights, atol=1e-4)
        assert each[1] == pytest.approx(residual, rel=1e-6)
