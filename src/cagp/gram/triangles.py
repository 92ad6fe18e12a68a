"""The triangles that sweeps solve with in the diagonal blocks of G, and their inverses."""

from __future__ import annotations

import threading

import torch


def sweep_triangle(block: torch.Tensor, backward: bool, relaxation: float) -> torch.Tensor:
    """What an SOR sweep solves with in a diagonal block: the upper (backward) or lower triangle, diagonal over ω."""
    triangle = block.triu() if backward else block.tril()
    if relaxation != 1.0:
        triangle.diagonal().div_(relaxation)
    return triangle


class TriangleInverses:
    """Inverses that are computed once and kept for the next sweep.

    They are as good as triangular solves: the triangle M of a positive definite block has xᵀMx ≥ (1/ω − ½) xᵀDx with
    the diagonal D, so ‖M⁻¹‖ ≤ 2ω/(2 − ω) / min D whatever the condition of the block.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[int, int, bool, float], torch.Tensor] = {}
        self._lock = threading.Lock()  # several threads may predict from one model

    def __reduce__(self) -> tuple[type[TriangleInverses], tuple[()]]:
        return TriangleInverses, ()  # what can be computed again is not pickled

    def get(self, start: int, block: torch.Tensor, backward: bool, relaxation: float) -> torch.Tensor:
        """The inverse of the triangle of the diagonal ``block`` (n, n) that begins at row ``start``."""
        key = (start, len(block), backward, relaxation)
        with self._lock:
            if key not in self._kept:
                identity = torch.eye(len(block), dtype=block.dtype, device=block.device)
                triangle = sweep_triangle(block, backward, relaxation)
                self._kept[key] = torch.linalg.solve_triangular(triangle, identity, upper=backward)
            return self._kept[key]
