"""Which columns make a map."""

from __future__ import annotations

from dataclasses import dataclass

from ..kernels import Kernel, geographic_columns


@dataclass(frozen=True)
class Map:
    """The columns drawn ``across`` and ``down`` a map; ``geographic`` where they are longitude and latitude."""

    across: int
    down: int
    geographic: bool


def map_of(kernel: Kernel, columns: int) -> Map | None:
    """The map that points with so many ``columns`` have under this kernel; None where there is none."""
    places = geographic_columns(kernel, range(columns))
    if places:
        latitude, longitude = places[0]
        return Map(longitude, latitude, geographic=True)
    return Map(0, 1, geographic=False) if columns == 2 else None
