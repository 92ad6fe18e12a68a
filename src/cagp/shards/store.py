"""Observations in a folder, cut into tiles of neighbours: no process ever holds all of them.

``store.json`` says what there is; ``tiles`` has a Parquet file for each tile, whose row groups are blocks of
neighbours, and ``sample.parquet`` some rows drawn at random. Every row has the number that it had in the source.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError, InputError
from ..support.atomic_files import whole_file
from ..support.validation import count
from .fields import FieldAxes
from .work import Workers

FORMAT = "cagp shards"
DESCRIPTION = "store.json"
SAMPLE = 100_000  # rows of the sample
ROW = "__row__"  # the column with the number of each row


@dataclass(frozen=True)
class Rows:
    """Observations ``y`` (n,) at ``X`` (n, p), with their numbers ``row`` (n,)."""

    X: np.ndarray
    y: np.ndarray
    row: np.ndarray

    def at(self, chosen: np.ndarray) -> Rows:
        """Those at the places ``chosen``."""
        return Rows(self.X[chosen], self.y[chosen], self.row[chosen])

    @classmethod
    def joined(cls, parts: Sequence[Rows]) -> Rows:
        """All of them, each row once, by their numbers."""
        every = [np.concatenate([getattr(part, name) for part in parts]) for name in ("X", "y", "row")]
        _, first = np.unique(every[2], return_index=True)
        return cls(*every).at(first)

    def write(self, path: Path, names: Sequence[str], block: int | None = None) -> None:
        """As a Parquet file with row groups of so many rows."""
        import pyarrow as pa
        from pyarrow import parquet

        columns = [*np.ascontiguousarray(self.X.T), self.y, self.row]
        table = pa.table(dict(zip([*names, ROW], columns, strict=True)))
        with whole_file(path) as temporary:
            parquet.write_table(table, temporary, row_group_size=block or max(1, len(self.y)), **PLAIN)

    @classmethod
    def read(cls, path: str | Path, groups: Sequence[int] | None, names: Sequence[str]) -> Rows:
        """Row groups of a Parquet file, all of them by default."""
        from pyarrow import ArrowException, parquet

        try:
            with parquet.ParquetFile(path, page_checksum_verification=True) as file:
                table = file.read(columns=[*names, ROW]) if groups is None else file.read_row_groups(list(groups))
            columns = [table.column(name).to_numpy() for name in (*names, ROW)]
            return cls(np.column_stack(columns[:-2]), columns[-2], columns[-1])
        except (ArrowException, OSError, LookupError, TypeError, ValueError) as error:
            raise DataError(f"{path} is damaged, or gone ({error}); remove the shards, and fit again") from error


PLAIN: dict[str, Any] = {"compression": "none", "use_dictionary": False, "write_statistics": False}
PLAIN |= {"write_page_checksum": True}
"""How numbers that hardly repeat are written."""


@dataclass(frozen=True)
class Store:
    """The observations of a ``folder``: the names of their ``features`` and of the ``target``, how many ``rows`` each
    tile has, and each ``block`` of it but the last one. ``field`` says what columns are that were coordinates, and
    ``key`` of what it was made.
    """

    folder: Path
    features: tuple[str, ...]
    target: str
    rows: tuple[int, ...]
    block: int
    field: FieldAxes | None = None
    key: str = ""

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}  # not what was read

    @classmethod
    def open(cls, folder: str | Path) -> Store:
        """The store in a folder."""
        place = Path(folder)
        try:
            known = json.loads((place / DESCRIPTION).read_text(encoding="utf-8"))
            if known["format"] != FORMAT:
                raise ValueError
            field = FieldAxes.from_json(known["field"]) if "field" in known else None
            names, target = tuple(known["features"]), known["target"]
            rows = tuple(count(each, "rows") for each in known["rows"])
            if not (names and sum(rows) and all(isinstance(each, str) for each in (*names, target))):
                raise ValueError
            block = count(known["block"], "block", minimum=1)
            found = cls(place.resolve(), names, target, rows, block, field, str(known["key"]))
            for tile, own in enumerate(rows):  # a number takes 8 bytes, and what is announced is made room for
                if 8 * own * (len(names) + 2) > found.tile(tile).stat().st_size:
                    raise ValueError(f"{found.tile(tile).name} has not as many rows as it says")
            return found
        except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise InputError(f"{place} is not a store of shards that can be read ({error})") from error

    @property
    def names(self) -> tuple[str, ...]:
        """Those of the features, and of the target."""
        return (*self.features, self.target)

    @property
    def size(self) -> int:
        """How many observations there are."""
        return sum(self.rows)

    @cached_property
    def sample(self) -> Rows:
        """Some of them, drawn at random, with the smallest and the largest one."""
        return Rows.read(self.folder / "sample.parquet", None, self.names)

    @cached_property
    def blocks(self) -> np.ndarray:
        """The tile of each block, and its row group there, (n, 2)."""
        found = []
        for tile, rows in enumerate(self.rows):
            groups = -(-rows // self.block)
            found.append(np.column_stack([np.full(groups, tile), np.arange(groups)]))
        return np.concatenate(found)

    def tile(self, number: int) -> Path:
        """The file of a tile."""
        return self.folder / "tiles" / f"tile-{number:05d}.parquet"

    def read(self, block: int) -> Rows:
        """The rows of a block."""
        tile, group = self.blocks[block].tolist()
        return Rows.read(self.tile(tile), [group], self.names)

    def take(self, row: np.ndarray, by: Workers) -> Rows:
        """The rows of these numbers (m,), sorted, each once; one pass over all tiles."""
        calls = [(self, tile, np.unique(row)) for tile in range(len(self.rows))]
        return Rows.joined(by.all_of(_taken, calls, "looking up"))


def _taken(store: Store, tile: int, row: np.ndarray) -> Rows:
    found = Rows.read(store.tile(tile), None, store.names)
    return found.at(np.isin(found.row, row))
