"""The shape of a distribution, told by its quantiles: a map between normal scores and values of z, linear in pieces.

Beyond the outermost knots the map goes on as it came: tails are those of a normal law of the spread found there.
"""

from __future__ import annotations

import math

import torch
from scipy.special import ndtr, ndtri, stdtrit

# Normal scores: few enough for a smooth density, and 99.7% of a normal law.
KNOTS = torch.linspace(-3.0, 3.0, 21, dtype=torch.float64)
_EACH = 25  # so many values of z are needed for each pair of knots
_FURTHER = 3  # and so many further out than the outermost knot
# Values of z that are all the same still have a density: of so much of their spread, and of so much at least.
_SMALLEST_SLOPE, _SMALLEST = 1e-3, 1e-12


def shape_of(z: torch.Tensor, worth: float = math.inf) -> torch.Tensor:
    """The values of z at ``KNOTS``, shape (J,), from a sample (n,); with few only its spread is told.

    Where it is ``worth`` so many independent values, these tell its scale, and a new one follows Student's law with so
    many degrees of freedom. Without, the shape is that of the sample.
    """
    n = len(z)
    told = torch.from_numpy(stdtrit(max(worth, 1.0), ndtr(KNOTS.numpy()))).to(z.device)
    worth = min(n, worth)
    pairs = min(len(KNOTS) // 2, int(worth // _EACH))
    if not pairs:
        return told * z.square().mean().sqrt().clamp_min(_SMALLEST) if n else KNOTS.to(z.device)
    furthest = min(float(KNOTS[-1]), float(ndtri(1 - _FURTHER / worth)))
    own = torch.linspace(-furthest, furthest, 2 * pairs + 1, dtype=torch.float64)
    # of n + 1 parts between n values, so that a new value falls below with just this probability
    place = torch.special.ndtr(own).to(z.device) * (n + 1) - 1
    own = own.to(z.device)
    ranked = z.double().sort().values
    low = place.floor().clamp(0, n - 1).long()
    values = torch.lerp(ranked[low], ranked[(low + 1).clamp_max(n - 1)], (place - low).clamp(0, 1))
    slopes = (values.diff() / own.diff()).clamp_min(max(_SMALLEST_SLOPE * float(ranked.std()), _SMALLEST))
    values = torch.cat([values[:1], values[0] + (slopes * own.diff()).cumsum(0)])
    return values_at(values, told, own)


def values_at(values: torch.Tensor, scores: torch.Tensor, knots: torch.Tensor | None = None) -> torch.Tensor:
    """z at normal ``scores`` (…, T), for shapes with ``values`` (T, J) at the knots, or (J,) for all; shape (…, T)."""
    knots = KNOTS.to(values.device) if knots is None else knots
    right = torch.searchsorted(knots, scores.contiguous()).clamp(1, len(knots) - 1)
    low, high = _picked(values, right - 1), _picked(values, right)
    return low + (high - low) * ((scores - knots[right - 1]) / (knots[right] - knots[right - 1]))


def scores_at(values: torch.Tensor, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The normal scores of ``z`` (…, T) under shapes with ``values`` (T, J) or (J,), and log densities, each (…, T)."""
    knots = KNOTS.to(values.device)
    if values.ndim == 1:
        right = torch.searchsorted(values.contiguous(), z.contiguous())
    else:
        right = torch.searchsorted(values.contiguous(), z.reshape(-1, len(values)).T.contiguous()).T.reshape(z.shape)
    right = right.clamp(1, len(knots) - 1)
    low, high = _picked(values, right - 1), _picked(values, right)
    left_knot = knots[right - 1]
    slope = (high - low) / (knots[right] - left_knot)
    score = left_knot + (z - low) / slope
    return score, -0.5 * (score.square() + math.log(2 * math.pi)) - slope.log()


def _picked(values: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    """The entry ``place`` (…, T) of each row of ``values`` (T, J), or of the one row (J,)."""
    return values[place] if values.ndim == 1 else values[torch.arange(len(values), device=values.device), place]


def spread_of(values: torch.Tensor) -> float:
    """The root mean square of a shape with ``values`` (J,)."""
    p = (torch.arange(2000, dtype=torch.float64, device=values.device) + 0.5) / 2000
    return float(values_at(values, torch.special.ndtri(p)).square().mean().sqrt())
