"""Rows that repeat another one, place and value: a file that was doubled, or a join that went wrong."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

_SHARE = 0.01  # fewer rows than this share that repeat another are nothing to speak of
_ALIKE = 0.05  # of two different rows with so large a chance to have the same value no copy is told from a repetition
_PRIME = np.uint64(0x9E3779B97F4A7C15)


def copies(X: np.ndarray, y: np.ndarray) -> np.ndarray | None:
    """Numbers (n,), the same for observations y (n,) that have both place X (n, p) and value in common.

    None where hardly any repeat another, where most of those at the same place differ, as measurements do, or where
    there are few values, as of counts and classes.
    """
    n = len(y)
    if n - len(np.unique(y)) < max(1, _SHARE * n):
        return None
    _, first, number = np.unique(_keys((*X.T, y)), return_index=True, return_inverse=True)
    different, again = len(first), n - len(np.unique(_keys(X.T)))
    repeated = n - different
    counts = np.unique(y[first], return_counts=True)[1].astype(float)
    alike = float((counts * (counts - 1)).sum()) > _ALIKE * different * (different - 1)
    return None if repeated < max(1, _SHARE * n) or 2 * repeated < again or alike or different < 2 else number


def told_of_copies(X: np.ndarray, y: np.ndarray) -> str:
    """What is to be said of observations that are copies of others, if there are any."""
    number = copies(X, y)
    if number is None:
        return ""
    repeated = len(y) - len(np.unique(number))
    return (
        f"{repeated:,} of the {len(y):,} rows repeat another one, place and value. Each counts as a further "
        "observation, and copies agree exactly, which a fit takes for little noise; where one is left out, its copies "
        "are, too. If the table was doubled or joined twice, drop_duplicates() leaves each row once; if these are "
        "measurements that agree, they may stay."
    )


def _keys(columns: Iterable[np.ndarray]) -> np.ndarray:
    """A number (n,) for each row of some ``columns`` (n,): the same where all values are, and else hardly ever."""
    key = np.zeros(1, dtype=np.uint64)
    for column in columns:
        bits = (np.ascontiguousarray(column, dtype=np.float64) + 0.0).view(np.uint64)  # -0 is 0
        key = (key ^ bits) * _PRIME
        key = key ^ (key >> np.uint64(32))
    return key
