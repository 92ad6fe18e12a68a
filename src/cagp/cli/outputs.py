"""Files with predictions: attributes after the CF conventions, provenance, and batches that are finished.

Batches lie in OUT.parts/<key>/, where the same command continues. The key is a hash of model, input and settings.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..support.atomic_files import whole_file
from ..support.frames import DESCRIBING
from ..support.version import __version__

if TYPE_CHECKING:
    from ..model import Model
    from ..saving import About, Saved
    from ..tables.table import Grid, RawColumns

MISSING, COPIES = "rows left out, missing", "rows left out, copies"
_COLUMNS = ("mean", "std", "lower", "upper")
# Of files with batches; the last two are names of former versions.
_NAME = re.compile(r"(batch|rows|fields)-\d+-\d+\.np[yz]")


def notes_on(raw: RawColumns, target: str, missing: int, copied: int) -> dict[str, str]:
    """What ``cagp fit`` notes about its data, for people and for the attributes of predictions."""
    attributes = raw.attributes.get(target, {})
    notes = {"data file": str(raw.path)}
    notes |= {f"target {name}": attributes[name] for name in DESCRIBING if name in attributes}
    return notes | {name: str(count) for name, count in ((MISSING, missing), (COPIES, copied)) if count}


def columns_of(out: Path, level: float | None, thresholds: Mapping[str, float], prefix: str = "") -> dict[str, str]:
    """What mean, std, lower, upper and exceedances are called in a file; without a ``level`` the mean alone.

    In a table of columns the name of a limit says its level, lower_95; in a NetCDF file its attributes do.
    """
    if level is None:
        return {"mean": f"{prefix}mean"}
    of = "" if out.suffix == ".nc" else f"_{100 * level:g}"
    return {name: prefix + name + (of if name in ("lower", "upper") else "") for name in (*_COLUMNS, *thresholds)}


def shown(
    prediction: Any, observed: bool, level: float | None, names: Mapping[str, str], thresholds: Mapping[str, float]
) -> dict[str, Any]:
    """The columns of a prediction or an average, by their ``names``; without a ``level`` the mean alone."""
    if level is None:
        return {names["mean"]: prediction.mean}
    seen = prediction.observed() if observed else prediction
    values = dict(zip(_COLUMNS, (seen.mean, seen.std, *seen.interval(level)), strict=True))
    values |= {name: seen.exceedance(threshold) for name, threshold in thresholds.items()}
    return {names[name]: value for name, value in values.items()}


def described(
    about: About,
    target: str,
    model: Model,
    grid: Grid | None,
    *,
    level: float | None,
    observed: bool,
    message: str,
    names: Mapping[str, str],
    prefix: str = "",
) -> dict[str, Any]:
    """Units and attributes of each new column, and notes on the whole; ``level`` is None without error bars."""
    from ..interop.xarray_conventions import Source, kept_cell_methods, provenance, variable_attributes

    attributes = {name: about.notes[f"target {name}"] for name in DESCRIBING if f"target {name}" in about.notes}
    if target in about.units:
        attributes["units"] = about.units[target]
    left_out = [int(text) if (text := about.notes.get(name, "0")).isdecimal() else 0 for name in (MISSING, COPIES)]
    source = Source(target, attributes, *left_out)
    each = {name: variable_attributes(source, name, level, observed) for name in names}
    del each["mean"]["ancillary_variables"]
    if level is not None:
        each["mean"]["ancillary_variables"] = " ".join(names[name] for name in _COLUMNS[1:])
    methods = None if grid is None else kept_cell_methods(source, grid.coordinates)
    if methods:
        each["mean"]["cell_methods"] = methods
    each["iterations"] = {"long_name": "iterations of the solver", "units": "1"}
    notes = provenance(source, model, observed, message)
    if level is not None:
        notes["cagp_interval"] = f"lower and upper hold {100 * level:g}%"
    units = {column: about.units[target] for column in names.values() if target in about.units}
    told = {names.get(name, prefix + name): said for name, said in each.items()}
    return {"units": units, "attributes": told, "notes": notes}


class Pieces:
    """The pieces of one prediction or simulation, each some arrays, beside its output file."""

    def __init__(self, out: Path, key: str) -> None:
        self.folder = out.with_name(out.name + ".parts")
        self._own = self.folder / key[:16]

    def _path(self, start: int, stop: int) -> Path:
        return self._own / f"batch-{start}-{stop}.npz"

    @property
    def started(self) -> bool:
        """Whether there is anything to continue from."""
        return self._own.is_dir()

    def save(self, start: int, stop: int, **arrays: np.ndarray) -> None:
        """Keep what belongs to the rows, or fields, start … stop − 1."""
        content = io.BytesIO()
        np.savez(content, **arrays)  # type: ignore[arg-type]
        # another process that finishes the same output may remove the folder at any moment
        with suppress(FileNotFoundError), whole_file(self._path(start, stop)) as temporary:
            temporary.write_bytes(content.getbuffer())

    def keep(self) -> None:
        """Remember that this was begun, even where no piece of it is finished."""
        self._own.mkdir(parents=True, exist_ok=True)

    def load(self, start: int, stop: int) -> dict[str, np.ndarray] | None:
        """The arrays of start … stop − 1 if they were finished before; None also where a checksum is wrong."""
        try:
            content = io.BytesIO(self._path(start, stop).read_bytes())  # np.load leaves a damaged file open
            with np.load(content, allow_pickle=False) as kept:
                return dict(kept)
        except Exception:  # whatever is wrong with it, this piece is computed again
            return None

    def remove(self) -> None:
        """Remove all pieces beside this output, and nothing else; what another process removes first is no error."""
        keys = [each for each in self.folder.glob("*") if each.is_dir() and not each.is_symlink()]
        for key in keys:
            for file in key.glob("*"):
                if _NAME.fullmatch(file.name) or file.name.startswith(".partial-"):
                    file.unlink(missing_ok=True)
        for folder in (*keys, self.folder):
            with suppress(OSError):  # it is gone, or holds something else
                folder.rmdir()


def key_of(saved: Saved, X: np.ndarray, *settings: Any) -> str:
    """The hash of all that decides the numbers at X (T, p); ``settings`` by how they are written."""
    points = hashlib.sha256(X.tobytes()).hexdigest()
    decisive = [__version__, saved.fingerprint, points, list(X.shape), *map(repr, settings)]
    return hashlib.sha256(json.dumps(decisive).encode()).hexdigest()
