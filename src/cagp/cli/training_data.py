"""The table that ``cagp fit`` is given, as observations: which columns, which rows."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import torch

from .. import tables
from ..errors import InputError
from ..hyperparameters import averaged_rows
from ..support.validation import squarable
from ..tables.columns import ColumnsAsked, in_words
from .shared import Printer
from .starting import PriorAsked, Training, copies_on_globe, tell_copies
from .table_columns import distinct, features_of, find_column, globe_among, names_in, tell_reading, varying


def columns_asked(categories: str, dates: str | None, impute: str | None) -> ColumnsAsked:
    """The options --categories, --dates and --impute, checked."""
    if dates is not None and dates not in ("day-first", "month-first"):
        raise InputError(f"--dates must be day-first or month-first, got {dates!r}")
    if impute not in (None, "median"):
        raise InputError(f"--impute must be median, got {impute!r}")
    day_first = None if dates is None else dates == "day-first"
    return ColumnsAsked(tuple(names_in(categories)), day_first, impute is not None)


def read_training(
    data: Path,
    target: str,
    features: str | None,
    exclude: str,
    noise_column: str | None,
    drop_missing: bool,
    wished: PriorAsked,
    printer: Printer,
    asked: ColumnsAsked | None = None,
) -> Training:
    """The observations in a table, by the options that say what to read; says what was assumed and left out.

    ``columns`` of the result are features: those that categories become among them. ``table.encodings`` are what a
    saved model must remember.
    """
    asked = asked or ColumnsAsked()
    raw = tables.read_columns(data)
    target = find_column(raw, target, "--target")
    noisy = None if noise_column is None else find_column(raw, noise_column, "--noise-column")
    if noisy is not None and wished.noise is not None:
        raise InputError(
            f"--noise-column gives each row its noise variance, so --noise-variance {wished.noise:g} would be ignored"
        )
    given = [find_column(raw, each, "--features") for each in names_in(features or "")]
    left_out = {target, *(find_column(raw, each, "--exclude") for each in names_in(exclude))}
    left_out |= set() if noisy is None else {noisy}
    columns = given or features_of(raw, target, left_out)
    if clash := left_out & set(columns):
        raise InputError(f"{min(clash)!r} cannot be a feature: it is the target or excluded")
    if not columns:
        raise InputError(f"{data} has no column left to predict {target!r} from")
    categories = tuple(find_column(raw, each, "--categories") for each in asked.categories)
    if strange := [each for each in categories if each not in columns]:
        raise InputError(f"--categories: {strange[0]!r} is not a feature; it is the target or excluded")
    asked = dataclasses.replace(asked, categories=categories)
    others = [target] if noisy is None else [target, noisy]
    # in a gridded field what is missing is what is to be predicted, as in field.cagp.fit
    drop_missing = drop_missing or bool(raw.dims)
    table, columns = tables.read_training_table(
        data, columns, others, asked, drop_missing=drop_missing, keep=bool(given)
    )
    tell_reading(table, printer)
    for words in filter(None, map(in_words, table.encodings)):
        printer(words)
    if not given:
        columns = varying(table, columns, printer)
    columns = distinct(table, columns, bool(given), printer)
    table = dataclasses.replace(
        table, encodings=tuple(each for each in table.encodings if set(each.features) <= {*columns, target})
    )
    globe = None if wished.written else globe_among(wished.globe, raw, columns, printer)
    on_globe = globe or wished.globe_among(columns) or (raw.globe if wished.globe is None else None)
    X, y = table.matrix(columns), table.columns[target]
    kept = ~copies_on_globe(X, y, on_globe, columns)
    tell_copies(~kept, printer)
    if kept.sum() < 2:
        raise InputError(f"{data} has {kept.sum()} row; at least two are needed")
    X, y, noise = X[kept], y[kept], None if noisy is None else table.columns[noisy][kept]
    printer(f"{len(y):,} observations of {target!r} at {', '.join(map(repr, columns))}.")
    different = len(np.unique(X, axis=0))
    if noise is not None and different < len(y) and (noise > 0).all():
        found = averaged_rows(X, y, noise)
        X, y, noise = found.X, found.y, found.noise_variance
        printer(
            f"They are at {different:,} different points: those at the same point are averaged, weighted by their "
            "noise, which changes no prediction."
        )
    elif different < len(y):
        printer(f"They are at {different:,} different points; each is an observation of its own, with its own noise.")
    for values, what in ((X, "the features"), (y, "the target")):
        squarable(torch.from_numpy(values), what)
    return Training(raw, table, target, columns, X, y, noise, globe, int((~kept).sum()))
