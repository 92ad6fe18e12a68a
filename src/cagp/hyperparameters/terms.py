"""Which terms of the nearest-neighbour likelihood are computed: all of them, or a sample that stands for all.

    log p(y) ≈ Σᵢ log p(yᵢ | yₙ₍ᵢ₎),     estimated without bias by     Σ over the sample of log p(yᵢ | yₙ₍ᵢ₎) / πᵢ

where the i-th point of the order is in the sample with probability πᵢ (Horvitz and Thompson). Each term keeps its
neighbours among *all* earlier points. The order is random, so early terms tell of long distances, late ones of short
ones. πᵢ falls like 1/i from 1: about as many terms for distances of every scale (systematic sampling).

The hyperparameters come from the plain sum over the sample: the derivative of any weighted sum of conditional densities
has mean zero at the true ones, and with the weights 1/πᵢ the many late terms would drown the few early ones in noise.
On 105,569 points, with 6,000 terms, log lengthscale had a standard error of .33 from the plain sum and .95 from the
weighted one; all terms gave .28.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from ..errors import InputError
from ..gram.previous_neighbours import NONE
from ..support.validation import count

DEFAULT_TERMS = 6_000  # beyond so many observations a sample of so many terms is taken


@dataclass(frozen=True)
class Sample:
    """Places (m,) in the order, ascending, and the weights 1/π (m,) with which their terms estimate the whole."""

    places: np.ndarray
    weights: np.ndarray


@dataclass(frozen=True)
class Terms:
    """Places (m,) in the order of the data, their earlier neighbours (m, k), ``NONE`` for no more, and weights (m,)."""

    places: torch.Tensor
    neighbours: torch.Tensor
    weights: torch.Tensor

    @classmethod
    def all_of(cls, neighbours: torch.Tensor, places: torch.Tensor | None = None) -> Terms:
        """Terms of equal weight from the neighbours (m, k) of ``places`` (m,), or of every point."""
        m = len(neighbours)
        return cls(torch.arange(m) if places is None else places, neighbours, torch.ones(m, dtype=torch.float64))

    @cached_property
    def members(self) -> torch.Tensor:
        """Neighbours and, last, the point itself, (m, k+1)."""
        return torch.cat([self.neighbours, self.places[:, None]], dim=1)

    def compact(self, n: int) -> tuple[Terms, torch.Tensor | None]:
        """The same about those rows (m,) of n alone that take part, and which these are; None for all of them."""
        if len(self.places) == n:
            return self, None
        real = self.members != NONE
        used, inverse = self.members[real].unique(return_inverse=True)
        members = torch.full_like(self.members, NONE)
        members[real] = inverse
        return Terms(members[:, -1], members[:, :-1], self.weights), used


@dataclass(frozen=True)
class GivenTerms:
    """Which observations are predicted from which: ``rows`` (m,) and ``neighbours`` (m, k) of all, −1 where fewer.

    In any order: their sum is the log score of left-out predictions, best at the true hyperparameters on average.
    """

    rows: np.ndarray
    neighbours: np.ndarray


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
    density = 1.0 / np.arange(1, n + 1)
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
