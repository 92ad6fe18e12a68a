"""Tiles of covariances, and products with them that never store one.

Every number is high + low, two numbers of 11 bits, and the three largest of the four products are kept: nearly as
accurate as float32, and on tensor cores. For "tf32" the weights keep their high part alone, but the covariances both: a
sweep with rounded weights is an exact sweep from nearby weights; rounded covariances are another matrix, whose sweeps
diverge where the noise is small.
"""

from __future__ import annotations

import torch

from .functions import Function

_MIN_ROWS = 64  # what a tensor core instruction takes
# One program has at most so many rows of W and columns of the product, so many training points a step; for Triton.
_ROWS, _COLUMNS, _DEPTH, _WARPS, _STAGES = 128, 128, 32, 4, 3
# Weights are scaled so that the largest is this: half precision ends at 65504, and below 2⁻¹⁴ it loses digits.
_HEADROOM = 2.0**6
_GROWTH = 1000.0  # how many times larger a weight may be, before its row is scaled anew
# Covariances are scaled so that the variance is this: their low parts stay above what half precision can hold.
_LIFT = 2.0**10
# Over how many training points tensor cores sum before float32 takes over: they round down, so that the error grows
# with the length of the sum. 2048 keeps it below 1e-5 where products are accurate; with 11 bits it does not matter.
_CHUNK = {True: 2048, False: 8192}
_UNIT = 512  # everything is padded to a multiple of this
_PROGRAMS = 1024  # how many programs a launch should have at least, to keep a GPU busy


def padded_size(n: int, multiple: int) -> int:
    """n rounded up to a multiple."""
    return -(-n // multiple) * multiple


def fill(function: Function, A: torch.Tensor, B: torch.Tensor, out: torch.Tensor) -> None:
    """out[i, j] = k(a_i, b_j) for the ``Function.coordinates`` A (q, n) and B (q, m), each with contiguous rows."""
    from . import kernels

    if not out.numel():
        return
    parameters = torch.tensor(function.parameters, dtype=out.dtype, device=out.device)
    rows, columns = out.shape
    tile_rows, tile_columns = 16, 256
    programs = -(-columns // tile_columns) * -(-rows // tile_rows)
    strides, constants = (A.stride(0), B.stride(0), out.stride(0)), (function.factors, tile_rows, tile_columns)
    kernels.fill[(programs,)](A, B, parameters, out, rows, columns, *strides, *constants)


class SplitRows:
    """Rows W (T, d) as high + low in half precision, padded by zeros, scaled by about the ``largest`` weight (T,)."""

    def __init__(self, W: torch.Tensor, largest: torch.Tensor, accurate: bool) -> None:
        T, d = W.shape
        self.rows = min(_ROWS, max(_MIN_ROWS, 1 << (T - 1).bit_length()))
        shape = padded_size(T, self.rows), padded_size(d, _UNIT)
        self.size = T
        self.scale = (largest / _HEADROOM).clamp_min(torch.finfo(largest.dtype).tiny)
        self.high = torch.zeros(shape, dtype=torch.float16, device=W.device)
        self.low = torch.zeros(shape, dtype=torch.float16, device=W.device) if accurate else None
        self.put(0, W)

    def put(self, start: int, W: torch.Tensor) -> None:
        """Replace the columns from ``start`` on by W (T, n)."""
        self._make_room(W)
        block = slice(None, self.size), slice(start, start + W.shape[1])
        scaled = W / self.scale[:, None]
        high = scaled.to(torch.float16)
        self.high[block] = high
        if self.low is not None:
            self.low[block] = scaled.sub_(high).to(torch.float16)

    def _make_room(self, W: torch.Tensor) -> None:
        """Scale rows down, by a power of two, where half precision could not hold their new weights W (T, n)."""
        growth = W.abs().amax(dim=1) / (self.scale * _HEADROOM)
        if not bool((growth > _GROWTH).any()):
            return
        shrink = torch.exp2(-growth.clamp_min(1.0).log2().ceil())
        self.scale = self.scale / shrink
        for held in (self.high, self.low):
            if held is not None:
                held[: self.size].mul_(shrink[:, None])


class FusedProduct:
    """Products W k(X, X) in float32, for ``Function.coordinates`` (q, d); if not ``accurate``, of 11-bit weights."""

    def __init__(self, function: Function, coordinates: torch.Tensor, accurate: bool) -> None:
        self.function, self.accurate = function, accurate
        self.size = coordinates.shape[1]
        self.padded = padded_size(self.size, _UNIT)
        padding = self.padded + _UNIT - self.size  # a tile may begin anywhere
        self._x = torch.nn.functional.pad(coordinates.float(), (0, padding), mode="replicate").contiguous()
        lift = _LIFT / function.total
        scaled = [p * lift if i % 2 == 0 else p for i, p in enumerate(function.parameters)]
        self._parameters = torch.tensor(scaled, dtype=torch.float32, device=coordinates.device)

    def split(self, W: torch.Tensor, largest: torch.Tensor | None = None) -> SplitRows:
        """Rows W (T, d) as the product takes them."""
        return SplitRows(W, W.abs().amax(dim=1) if largest is None else largest, self.accurate)

    def __call__(self, W: SplitRows, start: int, stop: int, first: int = 0, last: int | None = None) -> torch.Tensor:
        """(W K)[:, start:stop], shape (T, stop − start), where W is zero outside the columns ``first`` to ``last``."""
        from . import kernels

        first -= first % _UNIT
        last = self.padded if last is None else padded_size(last, _UNIT)
        columns = padded_size(stop - start, _COLUMNS)
        tiles = columns // _COLUMNS * (W.high.shape[0] // W.rows)
        enough = min(-(-_PROGRAMS // tiles), (last - first) // _UNIT)
        n_parts = max(enough, -(-(last - first) // _CHUNK[self.accurate]))
        chunk = padded_size(-(-(last - first) // n_parts), _DEPTH)
        n_parts = -(-(last - first) // chunk)
        on_gpu = self._x.device.type == "cuda"
        hopper = on_gpu and torch.cuda.get_device_capability(self._x.device)[0] == 9
        parts = torch.empty(n_parts, W.high.shape[0], columns, dtype=torch.float32, device=self._x.device)
        arrays = self._x, self._parameters, W.high, W.high if W.low is None else W.low, parts
        sizes = start, first, last, chunk, self.padded, self._x.shape[1], columns
        constants = self.function.factors, W.rows, _DEPTH, _COLUMNS, self.accurate, hopper
        programs = columns // _COLUMNS, n_parts, W.high.shape[0] // W.rows
        kernels.multiply[programs](*arrays, *sizes, *constants, num_warps=_WARPS, num_stages=_STAGES)
        product = parts.sum(dim=0)[: W.size, : stop - start]
        return product * (W.scale * (self.function.total / _LIFT))[:, None]
