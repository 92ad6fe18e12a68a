"""What the front door gives: a model that tells how it came about."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..prediction import Prediction
from ..recalibration.layer import LayeredModel, Predicting
from ..support.convert import Output


@dataclass(frozen=True)
class Tried:
    """One candidate: its name, what it was fitted by, its average scores on left-out observations, and the seconds.

    ``weight`` is its share in the model: 1 for the only one chosen, 0 for one that was not.
    """

    name: str
    fitted_by: str
    crps: float
    log_score: float
    seconds: float
    weight: float


class FittedModel(LayeredModel):
    """A model with its ``story``: what was tried, what was chosen and why, and what the error bars guarantee.

    ``candidates`` is the table of what was tried, ``inner`` the model that was chosen: one model, a mixture of several,
    or a recalibration of either. Predictions are those of ``inner``.
    """

    def __init__(self, inner: Predicting, story: str, candidates: tuple[Tried, ...]) -> None:
        super().__init__(inner)
        self.story = story
        self.candidates = candidates

    def __repr__(self) -> str:
        return f"FittedModel({self.inner!r})"

    def __str__(self) -> str:
        return self.story

    def wrapped(self, prediction: Prediction, test: torch.Tensor, convert: Output) -> Prediction:
        return prediction


def table_of(candidates: tuple[Tried, ...]) -> str:
    """The candidates as a table of text, the best first."""
    rows = [("candidate", "fitted by", "CRPS", "log score", "seconds", "weight")]
    for each in sorted(candidates, key=lambda tried: tried.crps):
        weight = f"{each.weight:.2f}" if each.weight else ""
        numbers = (f"{each.crps:.4g}", f"{each.log_score:.4g}", f"{each.seconds:.1f}", weight)
        rows.append((each.name, each.fitted_by, *numbers))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  "
        + "  ".join(
            cell.ljust(w) if i < 2 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )
