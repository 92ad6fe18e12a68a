"""What ``cagp fit`` does about error bars that do not hold on the data: it looks, says what it found, mends them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..errors import InputError
from .shared import Voice
from .table_columns import matched

if TYPE_CHECKING:
    from ..model import Model
    from ..saving import Saved

_JUDGED = 2000
"""So many left-out predictions decide."""


@dataclass(frozen=True)
class ErrorBars:
    """The options that say what becomes of the error bars: ``recalibrate`` is None where they are to be judged."""

    recalibrate: bool | None
    like: Path | None

    def __post_init__(self) -> None:
        if self.like is not None and self.recalibrate is False:
            raise InputError(
                f"--like {self.like} says where recalibrated error bars are to hold, and --no-recalibrate keeps the "
                "plain ones; leave one of them out"
            )

    def places(self, saved: Saved, folder: Path, drop_missing: bool, voice: Voice) -> np.ndarray | None:
        """The points (T, p) in the table that --like names; refuses what cannot be done before work is done."""
        from .. import tables
        from ..recalibration.diagnosis import FEW

        if self.recalibrate and len(saved.y) < FEW:
            raise InputError(f"--recalibrate needs at least {FEW} observations, and there are {len(saved.y)}")
        if self.like is None:
            return None
        features, _ = matched(saved, folder, tables.read_columns(self.like), voice)
        table = tables.read_table(self.like, features, drop_missing=drop_missing)
        if table.dropped:
            voice(f"{table.dropped} rows of {self.like} have missing values and are left out.")
        return table.matrix(features)

    def settled(self, saved: Saved, model: Model, like: np.ndarray | None, seed: int, voice: Voice) -> Saved:
        """The model for its folder, recalibrated where that was asked for or where left-out predictions say so."""
        from ..left_out import left_out
        from ..recalibration import learn
        from ..recalibration.diagnosis import FEW, diagnose
        from ..support.numbers import coverage_percent

        n = len(saved.y)
        if n < FEW:
            voice(f"{n} observations are too few to judge error bars by leaving some out: they are those of the prior.")
            return saved
        found = left_out(model, like, min(n, _JUDGED), seed, voice.progress, correlated=True)
        judged = diagnose(found.z, found.correlation)
        hold = {each.level: coverage_percent(each.found) for each in judged.coverage}
        found_out = f"50% intervals hold {hold[0.5]}, 95% hold {hold[0.95]}"
        where = "" if like is None else f" in gaps like those of {self.like}"
        said = f"Left-out predictions{where}: {found_out}"
        notes = {**saved.about.notes, "left-out predictions": f"{found_out}{where}"}
        about = dataclasses.replace(saved.about, notes=notes)
        saved = dataclasses.replace(saved, about=about)
        if judged.right and not self.recalibrate:
            voice(f"{said}: the error bars stay as they are (--recalibrate changes them all the same).")
            return saved
        keeps = "as --recalibrate asks" if self.recalibrate else "--no-recalibrate keeps the plain ones"
        voice(f"{said}: the error bars are recalibrated ({keeps}).")
        learned = learn(model, like, None, seed, voice.progress)
        about = dataclasses.replace(about, notes={**about.notes, "recalibration": learned.how})
        return dataclasses.replace(saved, about=about, layers=(learned,))
