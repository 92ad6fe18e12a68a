"""Error bars that are scaled and shaped by left-out predictions: what was learned, and what becomes of a prediction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from ..errors import InputError
from ..left_out import Geometry
from ..predicting.conditioned import Conditioned
from ..predicting.distributions import Distribution
from ..prediction import Guarantee, Reshape
from ..support.validation import count
from .bands import BandSizes, DistanceBand
from .margins import Margins, PlacedMargins
from .shape import scores_at, values_at

_ROWS = 2**17  # test points that are worked on at once
_TINY = torch.finfo(torch.float64).tiny
_LATER = ("added", "single")  # what a model folder has only where there is something to say

EMPIRICAL = Guarantee(
    "empirical",
    "The error bars are as wide as the errors of left-out observations were, at this place and distance from the data: "
    "right for new observations that are like those.",
)


@dataclass(frozen=True)
class Recalibration(Margins):
    """Bands of left-out observations, from near the data to far from it; ``how`` they were found, in sentences.

    ``seed`` is that of random choices. Nothing was learned from ``added`` observations, which came later. So many
    ``single`` observations were left out by the data alone; None where others stood in for certain points, which are
    not kept, or where an earlier version did not say.
    """

    name = "recalibration"

    bands: tuple[DistanceBand, ...]
    how: str
    seed: int
    added: int = 0
    single: int | None = None

    @property
    def in_words(self) -> str:
        later = f" (observations added since: {self.added:,})" if self.added else ""
        return f"recalibrated by {sum(len(band.z) for band in self.bands):,} left-out predictions{later}"

    @property
    def guarantee(self) -> Guarantee:
        later = f" Observations added to the model since this was learned: {self.added:,}." if self.added else ""
        return replace(EMPIRICAL, sentence=EMPIRICAL.sentence + later)

    def after(self, added: int) -> Recalibration:
        return replace(self, added=self.added + added)

    def to_json(self, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
        bands = [band.to_json(f"bands[{i}]", arrays) for i, band in enumerate(self.bands)]
        later = {name: value for name in _LATER if (value := getattr(self, name))}  # earlier versions know none
        return {"bands": bands, "how": self.how, "seed": self.seed, **later}

    @classmethod
    def from_json(cls, content: Any, arrays: Mapping[str, np.ndarray], size: int) -> Recalibration:
        if not isinstance(content, dict) or set(content) - {*_LATER} != {"bands", "how", "seed"}:
            raise InputError("a recalibration must have exactly the entries bands, how and seed")
        if not isinstance(content["bands"], list) or not content["bands"]:
            raise InputError("the bands of a recalibration must be a list with at least one entry")
        described = enumerate(content["bands"])
        bands = tuple(DistanceBand.from_json(each, f"bands[{i}]", arrays, size) for i, each in described)
        if any(first.distance >= second.distance for first, second in pairwise(bands)):
            raise InputError("the bands of a recalibration must lie ever further from the data")
        seed, added = (count(content.get(name, 0), name) for name in ("seed", "added"))
        single = content.get("single")
        return cls(bands, str(content["how"]), seed, added, None if single is None else count(single, "single"))

    def __repr__(self) -> str:
        distances = ", ".join(f"{band.distance:.3g}" for band in self.bands)
        return f"Recalibration({sum(len(band.z) for band in self.bands):,} left out, at distances {distances})"

    def around(self, component: Conditioned) -> SizesOfErrors:
        return SizesOfErrors(self, component)


class SizesOfErrors(PlacedMargins):
    """How large errors are at any place, by a ``recalibration`` of the data of a ``component``."""

    def __init__(self, recalibration: Recalibration, component: Conditioned) -> None:
        self._bands, self._geometry = recalibration.bands, Geometry(component)
        self._sizes = [BandSizes(band, self._geometry, recalibration.seed) for band in self._bands]
        device = component.device
        self._values = torch.from_numpy(np.stack([each.values for each in self._bands])).to(device)
        self._spreads = torch.tensor([each.spread for each in self._bands], dtype=torch.float64, device=device)
        bands = torch.tensor([band.distance for band in self._bands], device=device)
        self._centres = bands.double().clamp_min(_TINY).log()

    def at(self, test: torch.Tensor, distance: torch.Tensor | None = None) -> Reshape:
        return self.adjustment(test, distance).reshape

    def scale(self, test: torch.Tensor) -> np.ndarray:
        return self.adjustment(test).spread.cpu().numpy()

    def adjustment(self, test: torch.Tensor, distance: torch.Tensor | None = None) -> Adjustment:
        """What changes at ``test`` (T, p), at a ``distance`` (T,) from the data that predict there."""
        cut = [slice(start, start + _ROWS) for start in range(0, len(test), _ROWS)]
        parts = [self._between_bands(test[rows], None if distance is None else distance[rows]) for rows in cut]
        size, band, share = (torch.cat(each) for each in zip(*parts, strict=True))
        return Adjustment(size, band, share, self._values, self._spreads)

    def _between_bands(self, test: torch.Tensor, distance: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
        """The size of the errors at test points (T, p), between those of two bands by the ``distance`` (T,)."""
        places, centres = self._geometry.coordinates(test), self._centres
        distance = self._geometry.apart(places) if distance is None else distance
        at, last = distance.double().clamp_min(_TINY).log(), len(centres) - 1
        band = (torch.searchsorted(centres, at) - 1).clamp(0, max(last - 1, 0))
        size, share = torch.zeros_like(at), torch.zeros_like(at)
        if last:
            share = ((at - centres[band]) / (centres[band + 1] - centres[band])).clamp(0.0, 1.0)
        for i, sizes in enumerate(self._sizes):
            for weight, chosen in ((1 - share, band == i), (share, band + 1 == i)):
                rows = (chosen & (weight > 0)).nonzero()[:, 0]
                if len(rows):
                    size[rows] += weight[rows] * sizes.around(places[rows]).double().log()
        return size.exp(), band, share


@dataclass(frozen=True)
class Adjustment:
    """How much larger errors are than promised: ``size`` (T,), in the shape of ``band`` (T,) and, to a ``share`` (T,),
    the next; ``values`` (bands, J) and ``spreads`` (bands,) are those of all of them.
    """

    size: torch.Tensor
    band: torch.Tensor
    share: torch.Tensor
    values: torch.Tensor
    spreads: torch.Tensor

    @classmethod
    def joined(cls, parts: Sequence[Adjustment], order: torch.Tensor) -> Adjustment:
        """Those of several models one after the other, then in another ``order`` (T,)."""
        ends = np.cumsum([0, *(len(part.spreads) for part in parts)])
        band = torch.cat([part.band + int(end) for part, end in zip(parts, ends, strict=False)])
        names = ("size", "share", "values", "spreads")
        size, share, values, spreads = (torch.cat([getattr(part, name) for part in parts]) for name in names)
        return cls(size[order], band[order], share[order], values, spreads)

    def some(self, rows: torch.Tensor | slice) -> Adjustment:
        """At some of the test points."""
        return replace(self, size=self.size[rows], band=self.band[rows], share=self.share[rows])

    @property
    def shapes(self) -> torch.Tensor:
        """The shapes at the test points, (T, J)."""
        return self._between(self.values, self.share[:, None])

    @property
    def spread(self) -> torch.Tensor:
        """The root mean square of z at the test points, shape (T,)."""
        return self.size * self._between(self.spreads, self.share)

    def _between(self, each: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
        return torch.lerp(each[self.band], each[(self.band + 1).clamp_max(len(each) - 1)], share)

    def reshape(self, base: Distribution) -> Recalibrated:
        """A distribution under the prior with the error bars that left-out predictions ask for."""
        return Recalibrated(base, self)


@dataclass(frozen=True, eq=False)
class Recalibrated(Distribution):
    """Distributions with the mean of the ``base`` ones, and error bars from left-out predictions.

    ``std`` is that of the base times the root mean square of the left-out z at this place and distance; quantiles,
    densities and margins of draws have their shape. The prediction of f is treated alike, which nothing can check.
    """

    base: Distribution
    adjustment: Adjustment

    @property
    def under_prior(self) -> Distribution:
        return self.base.under_prior

    @property
    def mean(self) -> torch.Tensor:  # type: ignore[override]
        return self.base.mean

    @cached_property
    def std(self) -> torch.Tensor:  # type: ignore[override]
        return self.base.std * self.adjustment.spread

    @cached_property
    def _unit(self) -> torch.Tensor:
        return self.base.std * self.adjustment.size

    def at(self, columns: torch.Tensor) -> Recalibrated:
        return Recalibrated(self.base.at(columns), self.adjustment.some(columns))

    def values(self, scores: torch.Tensor) -> torch.Tensor:
        parts = [values_at(self.adjustment.some(rows).shapes, scores[:, rows]) for rows in self._parts()]
        return self.mean + self._unit * torch.cat(parts, dim=1)

    def scores(self, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        z = (values - self.mean) / self._unit
        parts = [scores_at(self.adjustment.some(rows).shapes, z[:, rows]) for rows in self._parts()]
        scores, log_densities = (torch.cat(each, dim=1) for each in zip(*parts, strict=True))
        return scores, log_densities - self._unit.log()

    def drawn(self, draws: torch.Tensor) -> torch.Tensor:
        """With margins of the left-out shape, going together as before."""
        return self.values(self.base.scores(draws)[0])

    def _parts(self) -> list[slice]:
        return [slice(start, start + _ROWS) for start in range(0, max(len(self.mean), 1), _ROWS)]
