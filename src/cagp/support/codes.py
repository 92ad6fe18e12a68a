"""Codes for missing values that are taken for values: -9999 among elevations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from .numbers import datum

_USUAL = (99.0, 99.9, 999.0, 999.9, 9999.0, 9999.9, 99999.0, 999999.0, 32768.0, 1e20, 1e30)


def codes_in(values: np.ndarray) -> Iterator[tuple[float, np.ndarray]]:
    """Usual codes among the values (n,) that lie beyond all others by more than these range, each with the others."""
    ends = True
    while ends:
        ends = False
        for code in (float(values.min()), float(values.max())):
            others = values[values != code] if abs(code) in _USUAL else values[:0]
            reach = float(np.ptp(others)) if len(others) else 0.0
            if reach and np.abs(others - code).min() > reach:
                yield code, others
                values, ends = others, True


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
