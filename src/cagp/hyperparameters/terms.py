"""Which terms of the nearest-neighbour likelihood are computed: all of them, or a sample that stands for all.

    log p(y) ≈ Σᵢ log p(yᵢ | yₙ₍ᵢ₎) ,     estimated by     Σ over the sample of log p(yᵢ | yₙ₍ᵢ₎) / πᵢ

where the i-th point of the order is in the sample with probability πᵢ (Horvitz and Thompson): the estimate is unbiased
whatever the hyperparameters are, and so are its derivatives. Each term keeps its neighbours among *all* earlier points.

The order is random, so early terms have far neighbours and tell of long distances, late ones have near neighbours. The
sample is spread evenly over the order (systematic sampling), and somewhat denser where it is early, where terms are few:
πᵢ falls like the fourth root of i.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from ..errors import InputError
from ..support.validation import count
from .observations import Observations
from .previous_neighbours import NONE

DEFAULT_TERMS = 6_000
"""Beyond so many observations a sample of so many terms is taken, unless something else was asked for."""

_DECAY = 0.25
_GROUPS = 64
"""Random groups from which the error of sampling is estimated: it is known to about a tenth."""


@dataclass(frozen=True)
class Sample:
    """Places (m,) in the order, ascending, and the weights (m,) of their terms."""

    places: np.ndarray
    weights: np.ndarray


@dataclass(frozen=True)
class Terms:
    """Terms of ``data``, whose points are in their order: ``places`` (m,), ``neighbours`` (m, k), ``weights`` (m,).

    Neighbours are earlier places, ``NONE`` where there are fewer.
    """

    places: torch.Tensor
    neighbours: torch.Tensor
    weights: torch.Tensor

    @classmethod
    def all_of(cls, neighbours: torch.Tensor) -> Terms:
        """Every term, from the neighbours (n, k) of every point."""
        n = len(neighbours)
        return cls(torch.arange(n), neighbours, torch.ones(n, dtype=torch.float64))

    @cached_property
    def members(self) -> torch.Tensor:
        """Neighbours and, last, the point itself, (m, k+1)."""
        return torch.cat([self.neighbours, self.places[:, None]], dim=1)

    @property
    def sampled(self) -> bool:
        """Whether this is a sample."""
        return bool((self.weights > 1).any())

    def groups(self) -> list[Terms]:
        """Groups spread evenly over the order, with weights √(w² − w): the spread of their scores is due to sampling.

        The variance of Σ sᵢ/πᵢ over samples is about Σ (wᵢ² − wᵢ) sᵢ² over the sample, where wᵢ = 1/πᵢ; a term that was
        certain to be there adds nothing.
        """
        weights = (self.weights.square() - self.weights).sqrt()
        number = min(_GROUPS, len(self.places))
        return [Terms(self.places[g::number], self.neighbours[g::number], weights[g::number]) for g in range(number)]

    def compact(self, data: Observations) -> tuple[Terms, Observations]:
        """The same about those rows of ``data`` alone that take part."""
        if len(self.places) == data.size:
            return self, data
        real = self.members != NONE
        used, inverse = np.unique(self.members[real].numpy(), return_inverse=True)
        members = torch.full_like(self.members, NONE)
        members[real] = torch.from_numpy(inverse.reshape(-1))
        return Terms(members[:, -1], members[:, :-1], self.weights), data.rows(used)


def terms_wanted(terms: int | str | None, n: int) -> int:
    """How many terms of n are meant: a number, "all", or None for the default."""
    if terms is None:
        return min(n, DEFAULT_TERMS)
    if isinstance(terms, str):
        if terms != "all":
            raise InputError(f'terms must be a number of terms, "all", or None for {DEFAULT_TERMS:,}, got {terms!r}')
        return n
    return min(n, count(terms, "terms", minimum=2))


def sample_terms(n: int, size: int, generator: np.random.Generator) -> Sample:
    """A sample of ``size`` of n terms; all of them where n is not larger."""
    if size >= n:
        return Sample(np.arange(n), np.ones(n))
    density = np.arange(1, n + 1, dtype=np.float64) ** -_DECAY
    # the first ones are certain: as many as would otherwise have a probability above 1
    rest = np.cumsum(density[::-1])[::-1]
    certain = int(np.argmax((size - np.arange(n)) * density <= rest))
    chance = np.minimum(1.0, density * ((size - certain) / rest[certain]))
    chance[:certain] = 1.0
    ends = np.cumsum(chance[certain:])
    ends *= (size - certain) / ends[-1]
    places = certain + np.searchsorted(ends, generator.random() + np.arange(size - certain), side="right")
    places = np.concatenate([np.arange(certain), np.minimum(places, n - 1)])
    return Sample(places, 1.0 / chance[places])
