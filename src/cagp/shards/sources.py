"""Where rows come from: Parquet files, a Dask data frame or a gridded field, in parts that are read one at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, InputTypeError, TableError
from ..support.advice import optional
from .fields import LazyField

_PART = 1_000_000  # rows of the row groups that are read together, unless one has more


@dataclass(frozen=True)
class Part:
    """So many ``rows`` of row ``groups`` of the Parquet file ``path``, without the ``skipped`` ones before; the first
    has the number ``first`` among all.
    """

    path: str
    groups: tuple[int, ...]
    first: int
    rows: int
    skipped: int = 0

    def cut(self, most: int) -> list[Part]:
        """The same in parts of at most so many rows, about equal."""
        ends = np.linspace(0, self.rows, -(-self.rows // most) + 1).astype(int).tolist()
        return [
            replace(self, first=self.first + start, rows=stop - start, skipped=self.skipped + start)
            for start, stop in pairwise(ends)
        ]

    def read(self, columns: Sequence[str]) -> np.ndarray:
        """These columns (rows, columns) in float64; what is missing or infinite is refused."""
        return self.numbers(self.table(columns), columns)

    def table(self, columns: Sequence[str]) -> Any:
        """These columns, as Arrow has them."""
        from pyarrow import parquet

        with parquet.ParquetFile(self.path) as file:
            table = file.read_row_groups(list(self.groups), columns=list(columns))
        return table.select(list(columns)).slice(self.skipped, self.rows)

    def numbers(self, table: Any, columns: Sequence[str]) -> np.ndarray:
        """``read`` of a ``table`` that has these columns."""
        from pyarrow import ArrowInvalid, float64

        found = np.empty((self.rows, len(columns)))
        for i, name in enumerate(columns):
            try:
                found[:, i] = table.column(name).cast(float64()).to_numpy()
            except ArrowInvalid as error:
                held = "integers beyond 2**53, which float64 cannot represent"
                raise InputError(f"{self.path}: column {name!r} holds {held}; subtract an offset before") from error
        if not (finite := np.isfinite(found)).all():
            row, column = np.argwhere(~finite)[0]
            raise InputError(
                f"{self.path}: column {columns[column]!r} has no finite value in row {self._before + row:,}, counted "
                "from 0; leave such rows out before"
            )
        return found

    @property
    def _before(self) -> int:
        """How many rows of the file are before the first one."""
        from pyarrow import parquet

        about = parquet.read_metadata(self.path)
        return self.skipped + sum(about.row_group(group).num_rows for group in range(self.groups[0]))


def parts_of(
    source: Any, columns: Sequence[str] | None = None, features: Sequence[str] = ()
) -> tuple[list[Part], list[str]]:
    """The parts of a folder of Parquet files, or of files, and the names of their columns, which all of them have.

    With ``columns`` these must be there, once, and be numbers, and the names are those that each file has once. Without
    some of the ``features`` among them a model could be fitted.
    """
    optional("pyarrow.parquet", "data in shards", "cluster")
    from pyarrow import ArrowException, parquet, types

    found, names, first = list[Part](), list[str](), 0
    for path in files_of(source):
        try:
            about = parquet.read_metadata(path)
        except (ArrowException, OSError) as error:
            if path.suffix == ".csv":
                made = f"pandas.read_csv({path.name!r}).to_parquet({path.with_suffix('.parquet').name!r})"
                raise TableError(f"{path} is no Parquet file, as data in shards are; {made} makes one") from error
            raise TableError(f"{path} is no Parquet file that can be read ({error})") from error
        schema = about.schema.to_arrow_schema()
        times = Counter(schema.names)
        names = [name for name in names or schema.names if columns is None or times[name] == 1]
        for name in names if columns is None else columns:
            if name not in times:
                known = ", ".join(map(repr, schema.names))
                raise InputError(f"{path} has no column {name!r}; it has {known}")
            if times[name] > 1:
                raise InputError(f"{path} has {times[name]} columns called {name!r}; rename all but one")
            kind = schema.field(name).type
            if columns is not None and not (types.is_floating(kind) or types.is_integer(kind)):
                leave = "or leave it out of the features: --exclude, --features, or features= in Python"
                raise InputError(
                    f"{path}: column {name!r} has the type {kind}, and must be of numbers; convert it before"
                    f"{f', {leave}' if name in features else ''}"
                )
        groups, rows = list[int](), 0
        for group in range(about.num_row_groups):
            size = about.row_group(group).num_rows
            if groups and rows + size > _PART:
                found.append(Part(str(path), tuple(groups), first, rows))
                groups, first, rows = [], first + rows, 0
            groups.append(group)
            rows += size
        if rows:
            found.append(Part(str(path), tuple(groups), first, rows))
            first += rows
    if not found:
        raise InputError(f"{source} has no rows")
    return found, names


def files_of(source: Any) -> list[Path]:
    """The Parquet files of a folder, in the order of their names; or those that are given."""
    given = [source] if isinstance(source, (str, Path)) else source
    if not isinstance(given, (list, tuple)) or not all(isinstance(each, (str, Path)) for each in given):
        raise InputTypeError(
            f"data in shards are Parquet files, a folder of them or a Dask data frame, got {type(source).__name__}; "
            "cagp.fit and predict take what is in memory"
        )
    found = list[Path]()
    for each in map(Path, given):
        if each.is_dir():
            inside = sorted(path for path in each.glob("*.parquet") if not path.name.startswith((".", "_")))
            if not inside:
                raise InputError(f"{each} has no files whose names end in .parquet")
            found += inside
        elif each.exists():
            found.append(each)
        else:
            raise InputError(f"{each} does not exist; give a folder of Parquet files, or the files")
    return found


def names_of(source: Any) -> list[str]:
    """The names of the columns of a source, without the index of a data frame that has no name."""
    if isinstance(source, LazyField) or is_frame(source):
        return list(source.columns)
    return [name for name in parts_of(source)[1] if not name.startswith("__index_level_")]


def require_columns(frame: Any, columns: Sequence[str]) -> None:
    """Refuse a Dask data frame that has not these columns, or no numbers in one, before it is worked out."""
    from pandas.api import types

    kinds = frame.dtypes
    if strange := [name for name in kinds.index if not isinstance(name, str)]:
        raise InputError(f"the data frame has a column called {strange[0]!r}; names must be texts: rename it")
    for name in columns:
        if name not in kinds.index:
            raise InputError(f"the data frame has no column {name!r}; it has {', '.join(map(repr, kinds.index))}")
        if types.is_bool_dtype(kinds[name]) or not types.is_numeric_dtype(kinds[name]):
            raise InputError(
                f"the data frame's column {name!r} has the type {kinds[name]}, and must be of numbers; convert it"
            )


def identity_of(source: Any) -> Any:
    """What tells Parquet files, or a Dask data frame, from others, and from themselves when they have changed."""
    if is_frame(source):
        return source._name
    files = {str(path.resolve()): path.stat() for path in files_of(source)}
    return [(path, each.st_size, each.st_mtime_ns) for path, each in files.items()]


def is_frame(source: Any) -> bool:
    """Whether it is a Dask data frame."""
    return type(source).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(source, "to_parquet")


def is_source(source: Any) -> bool:
    """Whether it is data that are read in parts: a path, several paths, a Dask data frame, or a lazy field."""
    if isinstance(source, (list, tuple)):
        return bool(source) and all(isinstance(each, (str, Path)) for each in source)
    return isinstance(source, (str, Path, LazyField)) or is_frame(source)
