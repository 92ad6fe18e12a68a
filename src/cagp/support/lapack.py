"""Triangular matrices by LAPACK, for several threads at once: SciPy's own wrappers hold Python's lock while they work.

Matrices are lower triangular by rows, which are upper triangular ones by columns, as LAPACK counts. What lies above the
diagonal is not touched. All of it happens in place, but for what is returned.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from scipy.linalg import cython_blas, cython_lapack

_TRIANGLE = 64  # rows of a triangular matrix from which on it is inverted by halves


@cache
def _routine(name: str) -> Callable[..., None]:
    """The routine of that name, which takes addresses and lets go of Python's lock."""
    library = cython_blas if name in cython_blas.__pyx_capi__ else cython_lapack
    capsule = library.__pyx_capi__[name]
    named, pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    named.restype, named.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return ctypes.CFUNCTYPE(None)(pointer(capsule, named(capsule)))


def _call(name: str, *arguments: str | int | float | np.ndarray) -> int:
    """Call a routine; where it has something to say, as LAPACK has, the last argument is that number, and returned."""
    kept: list[Any] = []
    for each in arguments:
        if isinstance(each, np.ndarray):
            kept.append(ctypes.c_void_p(each.ctypes.data))
        elif isinstance(each, str):
            kept.append(ctypes.c_char_p(each.encode()))
        else:
            kept.append(ctypes.byref(ctypes.c_int(each) if isinstance(each, int) else ctypes.c_double(each)))
    said = ctypes.c_int(0)
    _routine(name)(*kept, ctypes.byref(said))  # a routine of BLAS does not look at one argument more
    return said.value


def _apart(matrix: np.ndarray) -> int:
    """How many numbers lie between the beginnings of two rows."""
    return max(1, matrix.strides[0] // matrix.itemsize)


def factorise(G: np.ndarray) -> int:
    """L of G = L Lᵀ in place of the lower triangle of G (n, n); more than 0 where that is not positive definite."""
    return _call("dpotrf", "U", len(G), G, _apart(G))


def solve(L: np.ndarray, B: np.ndarray, transposed: bool = False) -> np.ndarray:
    """L⁻¹ B, or L⁻ᵀ B, for B (n, m), by columns."""
    found = np.array(B, order="F")
    _call("dtrtrs", "U", "N" if transposed else "T", "N", len(L), B.shape[1], L, _apart(L), found, max(1, len(L)))
    return found


def invert(L: np.ndarray) -> None:
    """L⁻¹ in place of L (n, n), by halves: LAPACK's own is twice as slow for some hundreds of rows."""
    n, apart = len(L), _apart(L)
    if n <= _TRIANGLE:
        _call("dtrtri", "U", "N", n, L, apart)
        return
    half = -(-n // 16) * 8
    top, corner, bottom = L[:half, :half], L[half:, :half], L[half:, half:]
    invert(top)
    invert(bottom)
    # by columns: the corner of the inverse is −top⁻¹ corner bottom⁻¹
    _call("dtrmm", "R", "U", "N", "N", half, n - half, -1.0, bottom, apart, corner, apart)
    _call("dtrmm", "L", "U", "N", "N", half, n - half, 1.0, top, apart, corner, apart)


def multiply_by_transpose(L: np.ndarray) -> None:
    """The lower triangle of LᵀL in place of L (n, n): G⁻¹, where L is the inverse of a factor."""
    _call("dlauum", "U", len(L), L, _apart(L))


def symmetric_product(G: np.ndarray, B: np.ndarray) -> np.ndarray:
    """G B for B (n, m) by columns and a symmetric G (n, n), of which the lower triangle is there."""
    n, m = B.shape
    found = np.zeros((n, m), order="F")
    _call("dsymm", "L", "U", n, m, 1.0, G, _apart(G), np.asfortranarray(B), n, 0.0, found, n)
    return found
