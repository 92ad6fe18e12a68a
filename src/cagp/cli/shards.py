"""``cagp fit`` and ``cagp predict`` for folders of Parquet files: data that no process holds as a whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import InputError
from .shared import Printer, asked_beside, require_place, share_in

# What the commands know of such data: another option that was given is refused.
_SAME = {
    "ard",
    "rotate",
    "noise_variance",
    "mixture",
    "uncertainty",
    "recalibrate",
    "varying",
    "seconds",
    "seed",
}
_FIT = {
    *_SAME,
    "features",
    "exclude",
    "kernel",
    "mean",
    "globe",
    "solver",
    "transform",
    "overwrite",
    "no_report",
}
_WHAT = "data in a folder of Parquet files"


def fit(command: Callable[..., Any], given: Mapping[str, Any], printer: Printer) -> None:
    """A model of files, by the arguments that were ``given`` to ``cagp fit``, in a folder."""
    from ..shards import fit
    from ..shards.sources import parts_of
    from .expressions import as_solver
    from .starting import PriorAsked
    from .table_columns import names_in

    asked, out = asked_beside(command, given, _FIT, _WHAT), given["out"]
    require_place(out, given["overwrite"])
    source, target = given["data"] if len(given["data"]) > 1 else given["data"][0], given["target"]
    left_out = {target, *names_in(given["exclude"])}
    features = names_in(given["features"]) or [name for name in parts_of(source)[1] if name not in left_out]
    own = PriorAsked(given["kernel"], given["mean"], None, None, None, None, None).own_kernel
    options = {name: value for name, value in asked.items() if name in _SAME}
    if "kernel" in asked:
        options["kernel"] = own or [name.lower() for name in names_in([given["kernel"]])]
    if "mean" in asked:
        options["mean"] = given["mean"]
    if "globe" in asked:
        options["globe"] = names_in([given["globe"]])
    if "solver" in asked:
        options["solver"] = as_solver(given["solver"])
    if "transform" in asked:
        options["transform"] = None if given["transform"] == "none" else given["transform"]
    model = fit(source, target, features=features, progress=printer.progress, **options)
    printer(model.story)
    model.save(out, overwrite=given["overwrite"])
    printer(f"Model: {out}. It needs its observations, which are in {model.store.folder}.")


def predict(command: Callable[..., Any], given: Mapping[str, Any], printer: Printer) -> None:
    """Predictions as a folder of files, by the arguments that were ``given`` to ``cagp predict``."""
    from ..shards import load

    asked_beside(command, given, {"interval", "observed"}, _WHAT)
    data: Path | None = given["data"]
    if data is None:
        raise InputError("DATA must be a Parquet file, or a folder of them, for a model of data in shards")
    out = given["out"] or data.with_name(f"{data.name.removesuffix('.parquet')}-predicted")
    level = share_in(given["interval"])
    load(given["folder"]).predict_to(data, out, observed=given["observed"], interval=level, progress=printer.progress)
    printer(f"Written: {out}")


def in_files(data: Sequence[Path]) -> bool:
    """Whether data are to be read in parts: a folder, or several files."""
    return len(data) > 1 or data[0].is_dir()
