"""The real data of the studies: arrays with names, units and the citation.

A loader looks in ``CAGP_DATA``, then in the cache (``CAGP_CACHE``, or the system's), else downloads and caches a file.
"""

from ..errors import DataError
from .files import Dataset
from .tables import Competition, Era5Grid, bike, concrete, era5, era5_grid, heaton, kin40k, protein, road3d

__all__ = [
    "Competition",
    "DataError",
    "Dataset",
    "Era5Grid",
    "bike",
    "concrete",
    "era5",
    "era5_grid",
    "heaton",
    "kin40k",
    "protein",
    "road3d",
]
