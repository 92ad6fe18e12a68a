"""Products of rows of a stored matrix with a few columns, at nearly the speed of large products.

With few columns (T about 25) an ordinary call of BLAS spends half of its time on packing the matrix, that is on copying
it into an order that pays off only when every entry is used many times. OpenBLAS, which comes with NumPy, has kernels
that do not pack, for products of at most 10⁶ multiplications on CPUs with AVX-512. So the matrix is cut into tiles of
that size, all tiles of a range of rows are one call of ``numpy.matmul``, which loops over them in C, and each thread
has rows of its own. On two cores with T = 25 this reached 85 GFLOP/s where one call reached 50.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import torch

_MULTIPLICATIONS = 10**6
_FEWEST, _MOST = 8, 64
"""Between them it pays: fewer columns wait for memory, more make packing worth its time."""

_ROWS = 192
"""Of so many rows at once: with more, tiles get so narrow that their products take more memory than the matrix."""


@cache
def _without_packing() -> bool:
    """Whether NumPy's BLAS has kernels that do not pack on this CPU."""
    blas = str(np.show_config(mode="dicts")["Build Dependencies"]["blas"].get("name", ""))  # type: ignore[call-overload]
    return "openblas" in blas and torch.backends.cpu.get_cpu_capability() == "AVX512"


def pays(device: torch.device, T: int) -> bool:
    """Whether products with T columns are faster this way."""
    return device.type == "cpu" and _FEWEST <= T <= _MOST and _without_packing()


class SkinnyProduct:
    """G X for a stored matrix G (d, d) and columns X (d, T), rows at a time and always with X as it is at that moment.

    Use it in a ``with``: it keeps threads.
    """

    def __init__(self, matrix: np.ndarray, X: np.ndarray) -> None:
        self._matrix, self._X = matrix, X
        self._threads = torch.get_num_threads()
        self._pool = ThreadPoolExecutor(max(1, self._threads - 1), "cagp")
        self._own = threading.local()  # fresh memory for every product would cost as much as the product

    def __enter__(self) -> SkinnyProduct:
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown()

    def rows(self, start: int, stop: int) -> np.ndarray:
        """G[start:stop] X, shape (stop − start, T)."""
        out = np.empty((stop - start, self._X.shape[1]), self._X.dtype)
        height = -(-len(out) // self._threads)
        first, *others = (slice(top, min(top + height, len(out))) for top in range(0, len(out), height))
        G = self._matrix[start:stop]
        waiting = [self._pool.submit(self._multiply, G[part], out[part]) for part in others]
        self._multiply(G[first], out[first])
        for other in waiting:
            other.result()
        return out

    def _multiply(self, rows: np.ndarray, out: np.ndarray) -> None:
        """``rows`` (r, d) times X, into ``out`` (r, T); what overflows is infinite, as it is in torch."""
        with np.errstate(over="ignore", invalid="ignore"):
            for top in range(0, len(rows), _ROWS):
                self._multiply_tiles(rows[top : top + _ROWS], out[top : top + _ROWS])

    def _multiply_tiles(self, rows: np.ndarray, out: np.ndarray) -> None:
        (r, d), T = rows.shape, out.shape[1]
        width = max(1, _MULTIPLICATIONS // (r * T))
        n = d // width
        if n:
            tiles = rows[:, : n * width].reshape(r, n, width).transpose(1, 0, 2)
            products = self._scratch(n * r * T).reshape(n, r, T)
            np.matmul(tiles, self._X[: n * width].reshape(n, width, T), out=products)
            np.sum(products, axis=0, out=out)
            if n * width < d:
                out += rows[:, n * width :] @ self._X[n * width :]
        else:
            np.matmul(rows, self._X, out=out)

    def _scratch(self, size: int) -> np.ndarray:
        own = self._own.__dict__
        if own.get("size", -1) < size:
            own["size"], own["memory"] = size, np.empty(size, self._X.dtype)
        memory: np.ndarray = own["memory"]
        return memory[:size]


def on_this_thread(A: np.ndarray, X: np.ndarray) -> np.ndarray:
    """A X for small matrices, in pieces so small that BLAS does not wake its threads, which would be in the way."""
    height = max(1, _MULTIPLICATIONS // X.size)
    return np.concatenate([A[top : top + height] @ X for top in range(0, len(A), height)])
