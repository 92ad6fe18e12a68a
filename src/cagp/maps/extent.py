"""From where to where the data of a model reach, and whether a map has anything of that."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .cells import Bounds


@dataclass(frozen=True)
class Extent:
    """The ``bounds`` of data in the columns ``names``, that across the map first; on the ``globe`` in any turn."""

    bounds: Bounds
    names: tuple[str, str]
    globe: bool

    def holds(self, x: np.ndarray, y: np.ndarray, dx: float, dy: float) -> np.ndarray:
        """Whether cells with the middles x and y and these sides reach into it."""
        west, south, east, north = self.bounds
        along, half = x - west + dx / 2, dy / 2
        along = along % 360 if self.globe else along
        inside = (along >= 0) & (along <= east - west + dx) & (y >= south - half) & (y <= north + half)
        return np.asarray(inside)

    @property
    def missed(self) -> str:
        """What to say of a map with no cell in it."""
        west, south, east, north = self.bounds
        across, down = self.names
        return (
            f"no cell lies within the data, {across} from {west:.7g} to {east:.7g} and {down} from {south:.7g} to "
            f"{north:.7g}: all of the map is extrapolated, and says mostly what was assumed"
        )
