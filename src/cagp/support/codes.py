"""Codes for missing values that are taken for values: -9999 among elevations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from .numbers import datum

_USUAL = np.array([99, 99.9, 99.99, 999, 999.9, 9999, 9999.9, 99999, 999999, 32767, 32768, 1e20, 1e30, 9.96921e36])
_DIGITS = 1e-6  # those of float32


def codes_in(values: np.ndarray) -> Iterator[tuple[float, np.ndarray]]:
    """Usual codes among the values (n,) that lie beyond what is none by more than that ranges, each with the others."""
    at = np.searchsorted(_USUAL, np.abs(values) * (1 - _DIGITS)).clip(max=len(_USUAL) - 1)
    usual = np.isclose(np.abs(values), _USUAL[at], rtol=_DIGITS, atol=0.0)
    others = values[~usual]
    reach = float(np.ptp(others)) if len(others) else 0.0
    for code in np.unique(values[usual]) if reach else ():
        if np.abs(others - code).min() > reach:
            yield float(code), others


def told_of_codes(X: np.ndarray, y: np.ndarray, names: Sequence[str]) -> str:
    """What is to be said of codes for missing values in columns X (n, p) of these names, and y (n,), if any."""
    said = []
    for column, name in zip((*X.T, y), (*(repr(name) for name in names), "the target"), strict=True):
        for code, others in codes_in(column):
            rows = int((column == code).sum())
            where = f"{rows:,} rows" if rows > 1 else f"row {int((column == code).argmax())} (from 0)"
            least, most = (datum(float(end)) for end in (others.min(), others.max()))
            said.append(
                f"{name} is {code:g} in {where}, far from all other values, {least} to {most}. If that is a "
                "code for missing values, make these cells empty, and leave the rows out or fill them in."
            )
    return " ".join(said)
