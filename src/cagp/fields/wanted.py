"""Which averages are asked for: weights over test points, checked, as one sparse matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..errors import InputError, InputTypeError
from ..support.validation import ArrayLike, as_float64


@dataclass(frozen=True, eq=False)
class Wanted:
    """m functionals of T points: weights ``A`` (m, T), and the labels ``groups`` (m,) where they came from labels."""

    A: sp.csr_array
    groups: np.ndarray | None = None

    def __len__(self) -> int:
        return int(self.A.shape[0])

    def beside_scaled(self, scale: np.ndarray) -> Wanted:
        """These functionals, then the same of a field ``scale`` (T,) times as large at each point: 2m of them."""
        return Wanted(sp.csr_array(sp.vstack([self.A, self.A * scale[None, :]])), None)


def wanted(size: int, weights: ArrayLike | None = None, by: ArrayLike | None = None) -> Wanted:
    """The functionals of ``size`` points T that ``weights`` and labels ``by`` (T,) describe; see ``Model.average``."""
    if by is not None:
        return _grouped(size, weights, by)
    if weights is None:
        return Wanted(sp.csr_array(np.full((1, size), 1.0 / size)))
    if sp.issparse(weights):
        A = sp.csr_array(weights, dtype=np.float64, copy=True)
        as_float64(A.data, "weights")
    else:
        dense = as_float64(weights, "weights").cpu().numpy()
        A = sp.csr_array(np.atleast_2d(dense)) if dense.ndim in (1, 2) else None
    if A is None or A.shape[1] != size or not A.shape[0]:
        raise InputError(
            f"weights has shape {tuple(np.shape(weights))} for {size} points; give one row of {size} weights for each "
            "average, shape (m, T), or (T,) for one"
        )
    A.sum_duplicates()
    A.eliminate_zeros()
    empty = np.flatnonzero(np.diff(A.indptr) == 0)
    if len(empty):
        raise InputError(f"weights: row {int(empty[0])} has no weight but zero, so there is nothing to average")
    return Wanted(A)


def _grouped(size: int, weights: ArrayLike | None, by: ArrayLike) -> Wanted:
    """The mean of each group, with weights that are normalised within it."""
    labels = _labels(by, size)
    groups, group = np.unique(labels, return_inverse=True)
    values = np.ones(size)
    if weights is not None:
        if sp.issparse(weights):
            raise InputTypeError("weights must be one number for each point beside by, got a sparse matrix")
        values = as_float64(weights, "weights").cpu().numpy()
        if values.shape != (size,):
            raise InputError(f"weights has shape {values.shape} for {size} points; beside by it is one for each point")
        if (values < 0).any():
            raise InputError(
                f"weights must not be negative beside by, got {values.min():g}: they are divided by their sum in each "
                "group; for differences give the rows of weights themselves, without by"
            )
    total = np.bincount(group.ravel(), values, len(groups))
    if (total == 0).any():
        raise InputError(f"weights: those of the group {groups[int(total.argmin())]!r} are all zero; leave it out")
    A = sp.csr_array((values / total[group.ravel()], (group.ravel(), np.arange(size))), shape=(len(groups), size))
    A.eliminate_zeros()
    return Wanted(A, groups)


def _labels(by: Any, size: int) -> np.ndarray:
    """Labels (T,) that can be told apart and sorted."""
    try:
        labels = np.asarray(by.cpu() if hasattr(by, "cpu") else by)
    except ValueError as error:
        raise InputTypeError(f"by must hold one label for each point: {error}") from error
    if labels.shape != (size,):
        raise InputError(f"by has shape {labels.shape} for {size} points; give one label for each point")
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise InputError(f"by has {int(np.isnan(labels).sum())} labels that are NaN; leave those points out")
    if labels.dtype.kind == "O":
        if not all(isinstance(label, str) for label in labels):
            raise InputTypeError("by must hold labels of one kind: numbers, or texts without missing ones")
        labels = labels.astype(str)
    return labels
