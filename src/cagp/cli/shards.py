"""``cagp fit`` and ``cagp predict`` for Parquet folders and Zarr stores: data that no process holds as a whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from ..errors import InputError
from .shared import Printer, asked_beside, ended_early, errors_reported, require_place, share_in

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
    "like",
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
_INSTEAD = {
    "drop_missing": "rows with missing values are refused, with their place; leave them out of the files before",
    "overwrite": "the same command goes on where it stopped, and for another one choose another folder, or remove OUT",
    "solver": "such a model predicts by the nearest neighbours that it was fitted with",
}
_CUT_SHORT = "Interrupted. What there is of the shards is kept: no model is written, and the same command goes on."
_WHAT = "data in a folder of Parquet files or a Zarr store"


def fit(command: Callable[..., Any], given: Mapping[str, Any], printer: Printer) -> None:
    """A model of files, by the arguments that were ``given`` to ``cagp fit``, in a folder."""
    from ..shards import columns_of, fit
    from .expressions import as_solver
    from .starting import PriorAsked
    from .table_columns import names_in

    asked, out = asked_beside(command, given, _FIT, _WHAT, instead=_INSTEAD), given["out"]
    require_place(out, given["overwrite"])
    source, target = given["data"] if len(given["data"]) > 1 else given["data"][0], given["target"]
    left_out, features = names_in(given["exclude"]), names_in(given["features"])
    if left_out:
        columns = columns_of(source, target)
        if wrong := [name for name in left_out if name not in columns or name in features]:
            raise InputError(f"--exclude: {wrong[0]!r} is no column, or one of --features; there are {columns}")
        features = features or [name for name in columns if name not in (target, *left_out)]
    wished = PriorAsked(given["kernel"], given["mean"], None, None, None, None, None)
    options = {name: value for name, value in asked.items() if name in _SAME}
    if "kernel" in asked:
        options["kernel"] = wished.named_kernel
    if "mean" in asked:
        options["mean"] = given["mean"]
    if "globe" in asked:
        options["globe"] = None if given["globe"].lower() == "none" else names_in([given["globe"]])
    if "solver" in asked:
        options["solver"] = as_solver(given["solver"])
    if "transform" in asked:
        options["transform"] = None if given["transform"] == "none" else given["transform"]
    with errors_reported(given["debug"], _CUT_SHORT):
        model = fit(source, target, features=features or None, progress=printer.progress, **options)
        printer(model.story)
        model.save(out, overwrite=given["overwrite"])
    printer(f"Model: {out}. It needs its observations, which are in {model.store.folder}.")
    ended_early(
        model,
        f"{out} has the best model so far; with --overwrite the same command takes "
        "the shards that are there, and searches anew.",
    )


def predict(command: Callable[..., Any], given: Mapping[str, Any], printer: Printer) -> None:
    """Predictions as a folder of files, by the arguments that were ``given`` to ``cagp predict``."""
    from ..interop.xarray_conventions import exceedances
    from ..saving import load
    from ..shards import ShardedModel, is_grid
    from .table_columns import names_in

    asked_beside(command, given, {"interval", "observed", "batch", "exceed"}, _WHAT, instead=_INSTEAD)
    data: Path | None = given["data"]
    if data is None:
        raise InputError("DATA must be a Parquet file, a folder of them, or a grid, for a model of data in shards")
    ending = ".zarr" if is_grid(data) else ""
    out = given["out"] or data.with_name(f"{data.stem}-predicted{ending}")
    model, level = cast(ShardedModel, load(given["folder"])), share_in(given["interval"])
    exceed = [*exceedances(names_in(given["exceed"]), "--exceed").values()]
    how: dict[str, Any] = {"exceed": exceed, "batch_size": given["batch"], "progress": printer.progress}
    model.predict_to(data, out, observed=given["observed"], interval=level, **how)
    printer(f"Written: {out}")


def in_files(data: Sequence[Path]) -> bool:
    """Whether data are to be read in parts: a folder, or several files."""
    return len(data) > 1 or data[0].is_dir()
