"""G stored as one dense matrix, filled when it is first needed; and sweeps over it with few columns."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch

from .backend import Backend
from .entries import Entries
from .few_columns import FewColumnsProduct, on_this_thread
from .sweeping import Change, PanelSweep, Sweep, sweep_triangle


class Dense(Backend):
    """The matrix, and what sweeps with few columns keep of it: the inverses of the triangles in its diagonal blocks.

    Until a block is asked for here, products go through the same matrix in another order where there is one (``also``),
    so that it is in memory once: it is remembered here as long as whoever works in that order.
    """

    def __init__(self, entries: Entries) -> None:
        super().__init__(entries)
        self._matrix: torch.Tensor | None = None
        self._triangles: dict[tuple[int, int, bool, float], torch.Tensor] = {}
        self._others: WeakKeyDictionary[Backend, torch.Tensor] = WeakKeyDictionary()
        self._lock = threading.RLock()  # several threads may predict from one model

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_matrix": None, "_triangles": {}, "_others": dict(self._others), "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _others=WeakKeyDictionary(state["_others"]), _lock=threading.RLock())

    @property
    def computed(self) -> bool:  # type: ignore[override]
        return self._matrix is not None

    def matrix(self) -> torch.Tensor:
        return super().matrix() if self._matrix is None else self._matrix

    def kept(self) -> torch.Tensor:
        """The matrix, computed once."""
        with self._lock:
            if self._matrix is None:
                self._matrix = self.entries.matrix()
            return self._matrix

    def block(self, start: int, stop: int, first: int, last: int) -> AbstractContextManager[torch.Tensor]:
        return nullcontext(self.kept()[start:stop, first:last])

    def also(self, other: Backend, order: torch.Tensor) -> None:
        """Take note of ``other``, which has the same matrix with rows and columns in this ``order`` (d,)."""
        with self._lock:
            self._others[other] = order

    def matmul(self, W: torch.Tensor) -> torch.Tensor:
        with self._lock:  # of those in another order first who has computed it
            others = [] if self.computed else sorted(self._others.items(), key=lambda pair: not pair[0].computed)
        if others:
            (other, order), product = others[0], torch.empty_like(W)
            product[:, order] = other.matmul(W[:, order])
            return product
        if len(W) not in self.entries.tiling.few_columns:
            return W @ self.kept()
        d, step = self.entries.size, self.panel_rows
        with FewColumnsProduct(self.kept().numpy(), np.ascontiguousarray(W.numpy().T)) as columns:
            rows = [columns.rows(start, min(start + step, d)) for start in range(0, d, step)]
        return torch.from_numpy(np.concatenate(rows).T.copy())

    def sweeping(self, W: torch.Tensor, rhs: torch.Tensor, backward: bool) -> Sweep:
        if len(W) not in self.entries.tiling.few_columns:
            return PanelSweep(self.block, W, rhs, backward)
        return FewColumnsSweep(self, W, rhs, backward)

    def triangle_inverse(self, start: int, stop: int, backward: bool, relaxation: float) -> np.ndarray:
        """The inverse of the triangle that a sweep solves with in rows start:stop, kept for the next sweep."""
        # as good as a triangular solve: the triangle M of a positive definite block has xᵀMx ≥ (1/ω − ½) xᵀDx with the
        # diagonal D, so ‖M⁻¹‖ ≤ 2ω/(2 − ω) / min D whatever the condition of the block
        key = (start, stop, backward, relaxation)
        with self._lock:
            if key not in self._triangles:
                triangle = sweep_triangle(self.kept()[start:stop, start:stop], backward, relaxation)
                identity = torch.eye(stop - start).to(triangle)
                self._triangles[key] = torch.linalg.solve_triangular(triangle, identity, upper=backward)
            inverse: np.ndarray = self._triangles[key].numpy()
            return inverse


class FewColumnsSweep(Sweep):
    """A sweep with whole rows of a stored matrix: few columns multiply faster with them than with halves.

    All in NumPy: the threads of torch and those of a product get in each other's way. Tensors in and out are views.
    """

    def __init__(self, dense: Dense, W: torch.Tensor, rhs: torch.Tensor, backward: bool) -> None:
        super().__init__(W, rhs, backward)
        self._X, self._right = (np.ascontiguousarray(part.numpy().T) for part in (W, rhs))
        self._diagonal, self._inverse = dense.entries.diagonal().numpy(), dense.triangle_inverse
        self._product = FewColumnsProduct(dense.kept().numpy(), self._X)

    def __exit__(self, error: type[BaseException] | None, *details: object) -> None:
        self._product.__exit__()
        if error is None:
            self._W.numpy()[...] = self._X.T

    def residual(self, start: int, stop: int) -> torch.Tensor:
        product = self._product.rows(start, stop, *self._counting(start, stop))
        return torch.from_numpy(np.subtract(self._right[start:stop], product, out=product)).T

    def relax(self, start: int, stop: int, residual: torch.Tensor, relaxation: float) -> Change:
        with np.errstate(over="ignore", invalid="ignore"):  # what diverges is told by those who ask for the weights
            change = on_this_thread(self._inverse(start, stop, self._backward, relaxation), residual.T.numpy())
            scale = self._diagonal[start:stop, None] * (2 / relaxation - 1)
            energy = (scale * np.square(change)).sum(axis=0)
        return torch.from_numpy(change).T, torch.from_numpy(energy)

    def put(self, start: int, stop: int, change: torch.Tensor) -> None:
        self._X[start:stop] += change.T.numpy()
