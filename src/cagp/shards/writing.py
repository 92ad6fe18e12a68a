"""From rows in any order to tiles of neighbours, in three passes over parts that fit anywhere.

A sample of all parts is split along the widest column until each box has at most a tile's share. Each part is dealt out
to the boxes, as a file with a row group for each; then the row groups of each box become its tile. A file is whole or
not there, and a file that is there is not made again: after a kill the same call goes on.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..errors import InputError
from ..gram.neighbours import spatial_blocks
from ..support.atomic_files import begun, remove, remove_partial, whole_file, write_atomically
from .fields import FieldAxes, LazyField
from .sources import Part, identity_of, is_frame, names_of, parts_of
from .store import DESCRIPTION, FORMAT, PLAIN, ROW, SAMPLE, Rows, Store
from .work import Workers

TILE = 1_000_000  # rows of a tile, at most, but for chance
BLOCK = 16_384  # rows of a block, which is read as a whole, but for the last one of a tile
_SAFE = 0.9  # of a tile, so that chance does not make one larger
_BOXES = b"boxes"
_BEGUN, _SOURCE, _DEALT = "cagp-begun", "cagp-source", "cagp-dealt"  # removed at the end: names that are nobody else's


def write(
    source: Any,
    target: str,
    folder: str | Path,
    by: Workers,
    features: Sequence[str] | None = None,
    tile: int = TILE,
    block: int = BLOCK,
) -> Store:
    """The rows of a source as a store in ``folder``: the ``target`` and ``features``, by default all other columns.

    Where a call was killed, the same one goes on. Where another process writes the same one, it is waited for.
    """
    place = Path(folder)
    chosen = list(features or [name for name in names_of(source) if name != target])
    key = _key(source, chosen, target, tile, block)
    with begun(place):
        if not (place / DESCRIPTION).exists():
            _begin(place, key)
            _fill(place, source, chosen, target, key, tile, block, by)
        found = Store.open(place)
        _require(found.key == key, place)
        for each in (place, place / "tiles"):
            remove_partial(each)
        for name in (_DEALT, _SOURCE, _BEGUN):
            remove(place / name)
    return found


class OtherShardsError(InputError):
    """A folder has shards that other models may predict from."""


def _begin(place: Path, key: str) -> None:
    """Begin, or go on with, the store ``key`` in a folder; another one, or other things there, are refused."""
    if (place / _BEGUN).exists():
        _require((place / _BEGUN).read_text(encoding="utf-8") == key, place)
    elif others := sorted(each.name for each in place.iterdir() if not each.name.startswith(".partial-")):
        raise InputError(
            f"{place} is a folder with other things in it, such as {others[0]}; shards need one of their own: "
            "cagp.shards.fit(…, store=FOLDER)"
        )
    else:
        write_atomically(place / _BEGUN, key.encode())


def _fill(
    place: Path, source: Any, chosen: list[str], target: str, key: str, tile: int, block: int, by: Workers
) -> None:
    """All that a store has, its description last."""
    field = None
    if isinstance(source, LazyField) or is_frame(source):
        field = _as_files(source, place / _SOURCE, by)
        source = place / _SOURCE
    parts, _ = parts_of(source, [*chosen, target], chosen)
    columns = (*chosen, target)
    size = sum(part.rows for part in parts)
    boxes = _boxes(place, parts, columns, key, size, tile, by)
    dealt = [place / _DEALT / f"part-{number:05d}.parquet" for number in range(len(parts))]
    dealing = [(part, columns, boxes, path) for part, path in zip(parts, dealt, strict=True)]
    by.all_of(_deal, dealing, "dealing rows out")
    tiles = [place / "tiles" / f"tile-{number:05d}.parquet" for number in range(_count(boxes))]
    calls = [(number, dealt, columns, path, block) for number, path in enumerate(tiles)]
    rows = by.all_of(_gather, calls, "writing tiles")
    known = {"format": FORMAT, "key": key, "features": chosen, "target": target, "rows": rows, "block": block}
    known |= {} if field is None else {"field": field.to_json()}
    write_atomically(place / DESCRIPTION, json.dumps(known, indent=1).encode())


def _as_files(source: Any, folder: Path, by: Workers) -> FieldAxes | None:
    """A field or a Dask data frame as Parquet files, piece by piece; what the columns of a field are."""
    whole = folder / "_whole"
    if isinstance(source, LazyField):
        return source.write(folder, by)
    if not whole.exists():
        source.to_parquet(folder, write_index=False)
        whole.touch()
    return None


def _key(source: Any, features: Sequence[str], target: str, tile: int, block: int) -> str:
    """What a store is made of, as a hash."""
    about = source.token if isinstance(source, LazyField) else identity_of(source)
    return hashlib.sha256(repr((about, list(features), target, tile, block)).encode()).hexdigest()


def _require(same: bool, place: Path) -> None:
    if not same:
        raise OtherShardsError(
            f"{place} has shards of other data or other columns, or of data that have changed; remove it if no "
            "model predicts from it, or choose another folder: store=FOLDER"
        )


def _boxes(
    place: Path, parts: Sequence[Part], columns: Sequence[str], key: str, size: int, tile: int, by: Workers
) -> Any:
    """How space is split: [column, value, left, right], whose leaves are numbers; the sample is written, too."""
    path = place / "split.json"
    if path.exists():
        try:
            known = json.loads(path.read_text(encoding="utf-8"))
            same, boxes = known["key"] == key, known["boxes"]
        except (ValueError, LookupError, TypeError) as error:
            raise InputError(f"{path} is damaged; remove the folder {place}, or choose another one") from error
        _require(same, place)
        return boxes
    found = Rows.joined(by.all_of(_some_of, [(part, columns, size) for part in parts], "sampling"))
    found.write(place / "sample.parquet", columns)
    boxes = _split(_in_spreads(found.X), found.X, np.arange(len(found.y)), [0], size, tile)
    write_atomically(path, json.dumps({"key": key, "boxes": boxes}).encode())
    return boxes


def _in_spreads(X: np.ndarray) -> np.ndarray:
    """Coordinates (n, p) in standard deviations of each; squares of what they are in may be no numbers."""
    unit = np.maximum(np.abs(X).max(axis=0), np.finfo(float).tiny)
    spread = (X / unit).std(axis=0) * unit
    return X / np.where(spread > 0, spread, 1.0)


def _some_of(part: Part, columns: Sequence[str], size: int) -> Rows:
    """The share of the sample of a part, with the smallest and the largest target that it has."""
    values = part.read(columns)
    wanted = min(part.rows, -(-SAMPLE * part.rows // size))
    chosen = np.random.default_rng(part.first).choice(part.rows, wanted, replace=False)
    chosen = np.unique([*chosen, values[:, -1].argmin(), values[:, -1].argmax()])
    return Rows(values[chosen, :-1], values[chosen, -1], part.first + chosen)


def _split(scaled: np.ndarray, X: np.ndarray, some: np.ndarray, number: list[int], size: int, tile: int) -> Any:
    """A tree of boxes, each with a share of the sample that stands for no more than a tile."""
    if len(some) * size <= _SAFE * tile * len(X) or len(some) < 2 or not np.ptp(scaled[some], axis=0).any():
        number[0] += 1
        return number[0] - 1
    column = int(np.ptp(scaled[some], axis=0).argmax())
    value = float(np.median(X[some, column]))
    left = X[some, column] < value
    if not left.any():  # the median is the smallest
        value = float(X[some, column][X[some, column] > value].min())
        left = X[some, column] < value
    sides = [_split(scaled, X, some[side], number, size, tile) for side in (left, ~left)]
    return [column, value, *sides]


def _count(boxes: Any) -> int:
    return 1 if isinstance(boxes, int) else _count(boxes[2]) + _count(boxes[3])


def _labels(boxes: Any, X: np.ndarray, rows: np.ndarray, into: np.ndarray) -> np.ndarray:
    """The box of each row of X, (n,)."""
    if isinstance(boxes, int):
        into[rows] = boxes
    else:
        left = X[rows, boxes[0]] < boxes[1]
        _labels(boxes[2], X, rows[left], into)
        _labels(boxes[3], X, rows[~left], into)
    return into


def _deal(part: Part, columns: Sequence[str], boxes: Any, path: Path) -> None:
    """A file of the rows of a part, with a row group for each box that has some."""
    import pyarrow as pa
    from pyarrow import parquet

    if path.exists():
        return
    values = part.read(columns)
    labels = _labels(boxes, values, np.arange(part.rows), np.empty(part.rows, dtype=np.int64))
    order = labels.argsort(kind="stable")
    there, starts = np.unique(labels[order], return_index=True)
    kinds = [*((name, pa.float64()) for name in columns), (ROW, pa.int64())]
    schema = pa.schema(kinds, metadata={_BOXES: json.dumps(there.tolist())})
    with whole_file(path) as temporary, parquet.ParquetWriter(temporary, schema, **PLAIN) as file:
        for rows in np.split(order, starts[1:]):
            own = [*np.ascontiguousarray(values[rows].T), part.first + rows]
            file.write_table(pa.table(own, schema=schema), row_group_size=len(rows))


def _gather(number: int, dealt: Sequence[Path], columns: Sequence[str], path: Path, block: int) -> int:
    """A tile from the row groups of its box, in blocks of neighbours; how many rows it has."""
    from pyarrow import parquet

    if path.exists():
        return int(parquet.read_metadata(path).num_rows)
    parts = []
    for each in dealt:
        there = json.loads(parquet.read_metadata(each).metadata[_BOXES])
        if number in there:
            parts.append(Rows.read(each, [there.index(number)], columns))
    found = Rows.joined(parts)
    order = spatial_blocks(torch.from_numpy(_in_spreads(found.X)), block, None)
    found.at(order.numpy()).write(path, columns, block)
    return len(found.y)
