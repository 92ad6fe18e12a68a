"""Products of rows of a stored matrix with a few columns, at nearly the speed of large products.

With few columns BLAS spends half of its time on packing the matrix. NumPy's OpenBLAS has kernels that do not pack, for
products of at most 10⁶ multiplications on CPUs with AVX-512: the matrix is cut into tiles of that size, all of a range
of rows in one call of ``numpy.matmul``. On two cores with T = 25 this reached 85 GFLOP/s where one call reached 50.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache

import numpy as np
import torch

from ..support.memory import Buffers

_MULTIPLICATIONS = 10**6
_FEW = range(8, 65)  # with so many columns it pays: fewer wait for memory, more make packing worth its time
_ROWS = 192  # at once: with more, tiles get so narrow that their products take more memory than the matrix


@cache
def _without_packing() -> bool:
    """Whether NumPy's BLAS has kernels that do not pack on this CPU."""
    blas = str(np.show_config(mode="dicts")["Build Dependencies"]["blas"].get("name", ""))  # type: ignore[call-overload]
    return "openblas" in blas and torch.backends.cpu.get_cpu_capability() == "AVX512"


def few_columns(device: torch.device, without_packing: bool | None = None) -> range:
    """With how many columns products on a device are faster this way; ``without_packing`` is found out if left out."""
    capable = _without_packing() if without_packing is None else without_packing
    return _FEW if device.type == "cpu" and capable else range(0)


class FewColumnsProduct(AbstractContextManager["FewColumnsProduct"]):
    """G X for a stored matrix G (d, d) and columns X (d, T) as they are then; in a ``with``: it keeps threads."""

    def __init__(self, matrix: np.ndarray, X: np.ndarray, multiplications: int = _MULTIPLICATIONS) -> None:
        self._matrix, self._X, self._multiplications = matrix, X, multiplications
        self._threads = torch.get_num_threads()
        self._pool = ThreadPoolExecutor(max(1, self._threads - 1), "cagp")
        # fresh memory for every product would cost as much as the product
        self._scratch = Buffers(torch.from_numpy(X).dtype, torch.device("cpu"))

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
        tiles, left = divmod(n, width)
        if not tiles:
            np.matmul(rows, X, out=out)
            return
        inside = n - left
        cut = rows[:, :inside].reshape(r, tiles, width).transpose(1, 0, 2)
        with self._scratch.borrow((tiles, r, T)) as products:
            np.matmul(cut, X[:inside].reshape(tiles, width, T), out=products.numpy())
            np.sum(products.numpy(), axis=0, out=out)
        if left:
            out += rows[:, inside:] @ X[inside:]


def on_this_thread(A: np.ndarray, X: np.ndarray, multiplications: int = _MULTIPLICATIONS) -> np.ndarray:
    """A X for small matrices, in pieces so small that BLAS does not wake its threads, which would be in the way."""
    height = max(1, multiplications // X.size)
    return np.concatenate([A[top : top + height] @ X for top in range(0, len(A), height)])
