"""What the front door gives: a model that tells how it came about."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..errors import InputError
from ..hyperparameters import FitResult
from ..prediction import Guarantee, Prediction
from ..recalibration import LayeredModel, Learned
from ..recalibration.layer import Predicting
from ..support.convert import Output
from ..support.validation import ArrayLike, count


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


@dataclass(frozen=True)
class Story(Learned):
    """What was tried, chosen and found, as ``text`` and as a table of ``candidates``; ``guarantee`` of the whole.

    ``interrupted`` says that Ctrl-C ended it: the best so far was kept. ``added`` observations came to the model later.
    """

    name = "story"

    text: str
    candidates: tuple[Tried, ...]
    held: Guarantee
    interrupted: bool = False
    added: int = 0

    @property
    def told(self) -> str:
        """The whole story: the ``text``, and what has happened since."""
        if not self.added:
            return self.text
        return (
            f"{self.text}\nObservations added since: {self.added:,}. The hyperparameters, the choice among candidates "
            "and what was found about the error bars are from before."
        )

    @property
    def in_words(self) -> str:
        return f"chosen from {len(self.candidates)} candidates"

    @property
    def guarantee(self) -> Guarantee:
        return self.held

    def after(self, added: int, held: Guarantee) -> Story:
        return dataclasses.replace(self, added=self.added + added, held=held)

    def to_json(self, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
        """Scores that are no numbers, because there was nothing to leave out, are null: JSON has no NaN."""
        content = dataclasses.asdict(self)
        for each in content["candidates"]:
            each.update({name: None for name in ("crps", "log_score") if not math.isfinite(each[name])})
        if not self.added:  # so that older cagp reads what it can read
            del content["added"]
        return content

    @classmethod
    def from_json(cls, content: Any, arrays: Mapping[str, np.ndarray], size: int) -> Story:
        wanted = {"text", "candidates", "held", "interrupted"}
        if not isinstance(content, dict) or set(content) - {"added"} != wanted:
            raise InputError("the story must have exactly the entries text, candidates, held and interrupted")
        named: list[dict[str, Any]] = [
            {name: math.nan if value is None else value for name, value in each.items()}
            for each in content["candidates"]
        ]
        candidates = tuple(Tried(**each) for each in named)
        held, added = Guarantee(**content["held"]), count(content.get("added", 0), "added")
        return cls(str(content["text"]), candidates, held, bool(content["interrupted"]), added)


class FittedModel(LayeredModel):
    """A model with its ``story``: what was tried, what was chosen and why, and what the error bars guarantee.

    ``candidates`` is the table of what was tried, ``inner`` the model that was chosen: one model, a mixture of several,
    or a recalibration of either. Predictions are those of ``inner``. ``result`` is what the fit of the candidate with
    the most weight found: hyperparameters, standard errors, advice; a model that was loaded has none.
    """

    learned: Story
    learns = Story

    def __init__(self, inner: Predicting, learned: Story, result: FitResult | None = None) -> None:
        super().__init__(inner, learned)
        self.result = result

    @property
    def story(self) -> str:
        """What was done and found, in words."""
        return self.learned.told

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the search: this is the best so far, and its error bars were not judged."""
        return self.learned.interrupted

    @property
    def candidates(self) -> tuple[Tried, ...]:
        """What was tried."""
        return self.learned.candidates

    def __repr__(self) -> str:
        return f"FittedModel({self.inner!r})"

    def __str__(self) -> str:
        return self.story

    def with_more(self, X: ArrayLike, y: ArrayLike, *, noise_variance: Any = None) -> FittedModel:
        """The model with further observations y (m,) at X (m, p), and nothing fitted anew; the story says so.

        ``noise_variance`` is theirs, where it is not that of the model; after a transform g, that of g(y).
        """
        more = super().with_more(X, y, noise_variance=noise_variance)
        more.result = self.result
        return more

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
    lines = []
    for row in rows:
        cells = [cell.ljust(w) if i < 2 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))]
        lines.append(f"  {'  '.join(cells)}".rstrip())
    return "\n".join(lines)
