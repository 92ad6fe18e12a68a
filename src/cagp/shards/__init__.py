"""Observations that no process ever holds as a whole: in shards on disk, with the predictions that memory would give.

``fit`` is what ``cagp.fit`` does with Parquet files, Dask data frames, Zarr stores and NetCDF files, and
``field.cagp.fit`` with a lazy field that memory has no room for; ``cagp.load`` reads a model that was saved.
"""

from .fields import FieldAxes, LazyField, is_grid
from .fitting import columns_of, fit
from .sharded import ShardedModel, is_sharded, read_sharded
from .sources import is_source
from .store import Store

__all__ = [
    "FieldAxes",
    "LazyField",
    "ShardedModel",
    "Store",
    "columns_of",
    "fit",
    "is_grid",
    "is_sharded",
    "is_source",
    "read_sharded",
]
