"""Products of rows of a stored matrix with a few columns, at nearly the speed of large products.

With few columns (T about 25) an ordinary call of BLAS spends half of its time on packing the matrix, that is on copying
it into an order that pays off only when every entry is used many times. OpenBLAS, which comes with NumPy, has kernels
that do not pack, for products of at most 10⁶ multiplications on CPUs with AVX-512. So the matrix is cut into tiles of
that size, all tiles of a range of rows are one call of ``numpy.matmul``, which loops over them in C, and each thread
has rows of its own. On two cores with T = 25 this reached 85 GFLOP/s where one call reached 50.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Self

import numpy as np
import torch

from .sweeping import Change, Sweep

_MULTIPLICATIONS = 10**6
_FEW = range(8, 65)  # with so many columns it pays: fewer wait for memory, more make packing worth its time
# Of so many rows at once: with more, tiles get so narrow that their products take more memory than the matrix.
_ROWS = 192


@cache
def _without_packing() -> bool:
    """Whether NumPy's BLAS has kernels that do not pack on this CPU."""
    blas = str(np.show_config(mode="dicts")["Build Dependencies"]["blas"].get("name", ""))  # type: ignore[call-overload]
    return "openblas" in blas and torch.backends.cpu.get_cpu_capability() == "AVX512"


def few_columns(device: torch.device, without_packing: bool | None = None) -> range:
    """With how many columns products on a device are faster this way; ``without_packing`` is found out if left out."""
    capable = _without_packing() if without_packing is None else without_packing
    return _FEW if device.type == "cpu" and capable else range(0)


class FewColumnsProduct:
    """G X for a stored matrix G (d, d) and columns X (d, T), rows at a time and always with X as it is at that moment.

    In tiles of so many ``multiplications``. Use it in a ``with``: it keeps threads.
    """

    def __init__(self, matrix: np.ndarray, X: np.ndarray, multiplications: int = _MULTIPLICATIONS) -> None:
        self._matrix, self._X, self._multiplications = matrix, X, multiplications
        self._threads = torch.get_num_threads()
        self._pool = ThreadPoolExecutor(max(1, self._threads - 1), "cagp")
        self._own = threading.local()  # fresh memory for every product would cost as much as the product

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown()

    def rows(self, start: int, stop: int, first: int = 0, last: int | None = None) -> np.ndarray:
        """G[start:stop, first:last] X[first:last], shape (stop − start, T)."""
        out = np.empty((stop - start, self._X.shape[1]), self._X.dtype)
        height = -(-len(out) // self._threads)
        head, *others = (slice(top, min(top + height, len(out))) for top in range(0, len(out), height))
        G, X = self._matrix[start:stop, first:last], self._X[first:last]
        waiting = [self._pool.submit(self._multiply, G[part], X, out[part]) for part in others]
        self._multiply(G[head], X, out[head])
        for other in waiting:
            other.result()
        return out

    def _multiply(self, rows: np.ndarray, X: np.ndarray, out: np.ndarray) -> None:
        """``rows`` (r, n) times X (n, T), into ``out`` (r, T); what overflows is infinite, as it is in torch."""
        with np.errstate(over="ignore", invalid="ignore"):
            for top in range(0, len(rows), _ROWS):
                self._multiply_tiles(rows[top : top + _ROWS], X, out[top : top + _ROWS])

    def _multiply_tiles(self, rows: np.ndarray, X: np.ndarray, out: np.ndarray) -> None:
        (r, n), T = rows.shape, out.shape[1]
        width = max(1, self._multiplications // (r * T))
        tiles = n // width
        if tiles:
            inside = tiles * width
            cut = rows[:, :inside].reshape(r, tiles, width).transpose(1, 0, 2)
            products = self._scratch(tiles * r * T).reshape(tiles, r, T)
            np.matmul(cut, X[:inside].reshape(tiles, width, T), out=products)
            np.sum(products, axis=0, out=out)
            if inside < n:
                out += rows[:, inside:] @ X[inside:]
        else:
            np.matmul(rows, X, out=out)

    def _scratch(self, size: int) -> np.ndarray:
        own = self._own.__dict__
        if own.get("size", -1) < size:
            own["size"], own["memory"] = size, np.empty(size, self._X.dtype)
        memory: np.ndarray = own["memory"]
        return memory[:size]


def on_this_thread(A: np.ndarray, X: np.ndarray, multiplications: int = _MULTIPLICATIONS) -> np.ndarray:
    """A X for small matrices, in pieces so small that BLAS does not wake its threads, which would be in the way."""
    height = max(1, multiplications // X.size)
    return np.concatenate([A[top : top + height] @ X for top in range(0, len(A), height)])


class FewColumnsSweep(Sweep):
    """A sweep with whole rows of a stored ``matrix`` (d, d): few columns multiply faster with them than with halves.

    All of it in NumPy: the threads of torch and those of a product side by side get in each other's way. Tensors that
    go in and out are views. ``inverse(start, stop, backward, relaxation)`` is that of the triangle it solves with.
    """

    def __init__(
        self,
        matrix: np.ndarray,
        diagonal: np.ndarray,
        inverse: Callable[[int, int, bool, float], np.ndarray],
        W: torch.Tensor,
        rhs: torch.Tensor,
        backward: bool,
    ) -> None:
        super().__init__(W, rhs, backward)
        self._X, self._right = (np.ascontiguousarray(part.numpy().T) for part in (W, rhs))
        self._diagonal, self._inverse = diagonal, inverse
        self._product = FewColumnsProduct(matrix, self._X)

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
