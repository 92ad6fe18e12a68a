"""Which columns make a map."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from ..kernels import Geographic, Kernel, OnColumns


@dataclass(frozen=True)
class Map:
    """The columns drawn ``across`` and ``down`` a map; ``geographic`` where they are longitude and latitude."""

    across: int
    down: int
    geographic: bool


def map_of(kernel: Kernel, columns: int) -> Map | None:
    """The map that points with so many ``columns`` have under this kernel; None where there is none."""
    place = _geographic(kernel, tuple(range(columns)))
    if place is not None:
        latitude, longitude = place
        return Map(longitude, latitude, geographic=True)
    return Map(0, 1, geographic=False) if columns == 2 else None


def _geographic(kernel: Kernel, columns: tuple[int, ...]) -> tuple[int, ...] | None:
    """(latitude, longitude) of the first Geographic inside ``kernel``, which sees these ``columns``."""
    if isinstance(kernel, Geographic):
        return columns
    if isinstance(kernel, OnColumns):
        columns = tuple(columns[i] for i in kernel.columns)
    if not dataclasses.is_dataclass(kernel):
        return None
    for field in dataclasses.fields(kernel):
        value = getattr(kernel, field.name)
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, Kernel) and (found := _geographic(part, columns)) is not None:
                return found
    return None
