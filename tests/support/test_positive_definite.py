"""Triangular solves with more columns than are taken at once."""

import numpy as np
import pytest
import torch
from scipy.linalg import solve_triangular

from cagp.support import positive_definite as factor


@pytest.mark.parametrize("columns", [1, 6, 7, 8, 14, 20])
def test_solves_in_pieces(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(factor, "_SOLVE_COLUMNS", 7)
    rng = np.random.default_rng(0)
    L, B = np.tril(rng.normal(size=(5, 5))) + 5 * np.eye(5), rng.normal(size=(5, columns))
    solved = factor.solve_lower(torch.from_numpy(L), torch.from_numpy(B))
    np.testing.assert_allclose(solved, solve_triangular(L, B, lower=True), rtol=1e-12)
