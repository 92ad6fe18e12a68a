"""Maps of what a model predicts, in the files of geographic information systems."""

from .cells import TILE
from .writing import MapOfModel, write_map

__all__ = ["TILE", "MapOfModel", "write_map"]
