"""Draws on a regular grid by the fast Fourier transform: circulant embedding.

A stationary covariance on a grid that is wrapped around is a circulant matrix, whose eigenvalues are the Fourier
transform of its first row. Where none is negative, its root times white noise has the covariance of the prior. The
points need not fill the grid, only lie on it.
"""

from __future__ import annotations

import math

import torch
from scipy.fft import next_fast_len

from ..kernels import Kernel, OnColumns, Product, Radial, Rotated, Standardised, Sum
from .prior_draws import PriorDraws

_ON_GRID = 1e-6  # so far from a grid point, in grid steps, a point may lie and still be on it
_SITES = 16  # sites of the grid for each point, at most: scattered points have a common grid too, which is useless
_ENLARGED = (2.0, 3.0, 4.0, 6.0, 8.0)  # how many times as long as the grid the wrapped one is, tried in turn
_NEGATIVE = 1e-4  # what negative eigenvalues may take of the sum of all; they are set to zero, which is told
_ROUNDING = 1e-13


class CirculantDraws(PriorDraws):
    """White noise on the wrapped grid of ``shape``, times the root of the eigenvalues in the Fourier domain."""

    method = "circulant"

    def __init__(self, eigenvalues: torch.Tensor, shape: tuple[int, ...], site: torch.Tensor, negative: float) -> None:
        self._root, self._shape, self._site = eigenvalues.clamp_min(0).sqrt(), shape, site
        self.noises = math.prod(shape)
        self.exact = negative <= _ROUNDING
        size, off = " × ".join(map(str, shape)), f"covariances are off by at most {negative:.1g} of the variance"
        quality = "exact" if self.exact else f"but for negative eigenvalues: {off}"
        self.how = f"by the fast Fourier transform on a wrapped grid of {size}, {quality}"

    def __call__(self, noise: torch.Tensor) -> torch.Tensor:
        out = noise.new_empty(len(noise), len(self._site))
        dims = tuple(range(len(self._shape)))
        for own, draw in zip(out, noise, strict=True):
            spectrum = torch.fft.rfftn(draw.view(self._shape)).mul_(self._root)
            own.copy_(torch.fft.irfftn(spectrum, self._shape, dims).flatten()[self._site])
        return out


def circulant_draws(kernel: Kernel, points: torch.Tensor, budget: int) -> tuple[CirculantDraws | None, str]:
    """Draws at ``points`` (N, p) where they lie on a regular grid and the kernel is stationary; else None and why."""
    if not _stationary(kernel):
        return None, f"{kernel!r} is not a function of differences between points"
    grid = _grid_of(points)
    if grid is None:
        return None, "the points do not lie on a regular grid that they fill to a fair part"
    index, steps = grid
    sizes = [int(column.max()) + 1 for column in index.T]
    # turned axes make both ways round the grid differ: each needs sites of its own
    fewest = 1 if any(isinstance(part.kernel, Rotated) for part in kernel.walk()) else 0
    for enlarged in _ENLARGED:
        longer = (max(math.ceil(enlarged * (n - 1)), fewest * (2 * n - 1)) for n in sizes)
        shape = tuple(next_fast_len(n, real=True) if n > 1 else 1 for n in longer)
        if 6 * 8 * math.prod(shape) > budget:
            return None, "the wrapped grid does not fit the memory budget"
        first_row = _first_row(kernel, shape, steps, signed=bool(fewest)).to(points.device)
        eigenvalues = torch.fft.rfftn(first_row).real.contiguous()
        whole = torch.fft.fftn(first_row).real
        negative = float(-whole.clamp_max(0).sum() / whole.clamp_min(0).sum())
        if negative <= _ROUNDING:
            break
    if negative > _NEGATIVE:
        return None, f"negative eigenvalues take {negative:.1g} of their sum even on a grid {enlarged:g} times as long"
    site = torch.zeros(len(points), dtype=torch.int64, device=points.device)
    for column, n in zip(index.T, shape, strict=True):
        site = site * n + column
    return CirculantDraws(eigenvalues, shape, site, negative), ""


def _stationary(kernel: Kernel) -> bool:
    if isinstance(kernel, (Sum, Product)):
        return all(_stationary(part) for part in kernel.kernels)
    if isinstance(kernel, (OnColumns, Rotated, Standardised)):
        return _stationary(kernel.kernel)
    return isinstance(kernel, Radial) and type(kernel).__module__.startswith(Radial.__module__)


def _grid_of(points: torch.Tensor) -> tuple[torch.Tensor, list[float]] | None:
    """The place of each point on a regular grid, in whole steps (N, p), and the steps of the columns."""
    columns, steps, sites = [], [], 1
    for column in points.T:
        values = column.unique()
        gaps = values.diff()
        extent = float(values[-1] - values[0])
        gaps = gaps[gaps > _ON_GRID * extent / len(values)]
        step = float(gaps.min()) if len(gaps) else 1.0
        # the mean over the whole extent has the fewest wrong digits
        longest = round(extent / step)
        sites *= longest + 1
        if sites > _SITES * len(points):
            return None
        step = extent / longest if longest else 1.0
        place = (column - values[0]) / step
        if bool(((place - place.round()).abs() > _ON_GRID * max(longest, 1)).any()):
            return None
        columns.append(place.round().to(torch.int64))
        steps.append(step)
    return torch.stack(columns, dim=1), steps


def _first_row(kernel: Kernel, shape: tuple[int, ...], steps: list[float], signed: bool) -> torch.Tensor:
    """The covariances of one site with all of the wrapped grid; ``signed`` where a step back differs from one ahead."""
    lags = [torch.arange(n, dtype=torch.float64) for n in shape]
    if signed:
        lags = [torch.where(2 * lag <= n, lag, lag - n) for lag, n in zip(lags, shape, strict=True)]
    wrapped = [torch.minimum(lag, n - lag) * step for lag, n, step in zip(lags, shape, steps, strict=True)]
    full = torch.stack([part.flatten() for part in torch.meshgrid(*wrapped, indexing="ij")], dim=1)
    origin = torch.zeros(len(shape), dtype=torch.float64)
    row = kernel.evaluate(kernel.embed(origin[None], origin), kernel.embed(full, origin)).view(shape)
    if not signed:
        return row
    # halfway round, where no two points are, both ways are as long: the covariance there is any that is symmetric
    every = tuple(range(len(shape)))
    return 0.5 * (row + row.flip(every).roll((1,) * len(shape), every))
