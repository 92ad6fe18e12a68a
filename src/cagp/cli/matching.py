"""Which columns of a table are the features of a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .shared import Voice, about_of

if TYPE_CHECKING:
    from ..saving import Saved
    from ..tables import RawColumns


def matched(saved: Saved, folder: Path, raw: RawColumns, voice: Voice) -> tuple[tuple[str, ...], str]:
    """The table's columns that are the model's features, in their order, and the name of the target.

    They have the same names; but the latitude and longitude of a NetCDF file are known by their attributes, and the
    features of a model saved without names are the columns x0, x1, ….
    """
    p = saved.X.shape[1]
    if saved.about.features is None:
        numbered = tuple(f"x{i}" for i in range(p))
        if set(numbered) <= set(raw.names):
            return numbered, saved.about.target or "y"
    features, target = about_of(saved, folder)
    names = list(features)
    if raw.globe is not None and not set(features) <= set(raw.names):
        from ..kernels import geographic_columns

        pairs = geographic_columns(saved.prior.kernel, tuple(range(p)))
        for column, here in zip(pairs[0] if pairs else (), raw.globe, strict=False):
            if names[column] not in raw.names and here not in names:
                voice(f"{names[column]!r} of the model is {here!r} in {raw.path}.")
                names[column] = here
    return tuple(names), target
