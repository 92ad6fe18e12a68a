"""Observations that no process ever holds as a whole: in shards on disk, with the predictions that memory would give.

``fit`` is what ``cagp.fit`` does with Parquet files and Dask data frames, ``load`` reads a model that was saved.
"""

from .fitting import fit
from .sharded import ShardedModel, is_sharded, load
from .sources import is_source
from .store import Store

__all__ = ["ShardedModel", "Store", "fit", "is_sharded", "is_source", "load"]
