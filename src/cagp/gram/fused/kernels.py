"""The Triton kernels: covariances of a tile, a tile written to memory, and a tile times the weights.

Importing this needs Triton. ``FACTORS`` has four numbers for each factor of a sum of products, at compile time: its
profile, its first coordinate, how many there are, and 1 where it begins a new term of the sum.
"""

# mypy: ignore-errors
from __future__ import annotations

import linecache
import os
import textwrap

import triton
import triton.language as tl

from .functions import PROFILES

# Triton's interpreter, by which a machine without a GPU tests these functions, knows no machine instructions.
COMPILED: tl.constexpr = tl.constexpr(os.environ.get("TRITON_INTERPRET", "0") != "1")
LN2: tl.constexpr = tl.constexpr(0.6931471805599453)
LOG2E: tl.constexpr = tl.constexpr(1.4426950408889634)


@triton.constexpr_function
def _entry(numbers, index):
    """numbers[index], at compile time."""
    return numbers[index]


@triton.jit
def root(x):
    """√x; in float32 a single instruction, for which the smallest numbers of all are zero."""
    if COMPILED and x.dtype == tl.float32:
        return tl.inline_asm_elementwise("sqrt.approx.ftz.f32 $0, $1;", "=r,r", [x], tl.float32, True, 1)
    return tl.sqrt(x)


@triton.jit
def half_to(x):
    """2⁻ˣ, likewise."""
    if COMPILED and x.dtype == tl.float32:
        return tl.inline_asm_elementwise("ex2.approx.ftz.f32 $0, $1;", "=r,r", [-x], tl.float32, True, 1)
    return tl.exp2(-x)


def _written(profiles):
    """A function that has the code of all profiles; which of them counts is known when it is compiled."""
    lines = ["def _profile(s, PROFILE: tl.constexpr, alpha):\n"]
    for number, code in enumerate(profiles):
        lines.append(f"    {'el' if number else ''}if PROFILE == {number}:\n")
        lines += textwrap.indent(textwrap.dedent(code).strip() + "\n", "        ").splitlines(keepends=True)
    lines.append("    return value\n")
    name = "<profiles of radial kernels>"
    linecache.cache[name] = (0, None, lines, name)  # where Triton reads the code of functions
    exec(compile("".join(lines), name, "exec"), globals())
    return triton.jit(globals()["_profile"])


_profile = _written(PROFILES)  # the correlation at squared distance s, in the units of ``fused.functions``


@triton.jit
def _covariances(a_ptr, b_ptr, parameters_ptr, i, j, a_stride, b_stride, zero, FACTORS: tl.constexpr):
    """k(a_i, b_j) for rows i (M,) and columns j (N,); ``zero`` (M, N) has the layout of the result in registers."""
    for n in tl.static_range(len(FACTORS) // 4):
        s = zero
        for c in tl.static_range(_entry(FACTORS, 4 * n + 2)):
            a = tl.load(a_ptr + (_entry(FACTORS, 4 * n + 1) + c) * a_stride + i)
            b = tl.load(b_ptr + (_entry(FACTORS, 4 * n + 1) + c) * b_stride + j)
            difference = a[:, None] - b[None, :]
            s = tl.fma(difference, difference, s)
        value = _profile(s, _entry(FACTORS, 4 * n), tl.load(parameters_ptr + 2 * n + 1))
        if _entry(FACTORS, 4 * n + 3) == 0:
            term *= value  # noqa: F821  the variance of a product stands with its first factor
        else:
            if n == 0:
                total = tl.full(value.shape, -0.0, value.dtype)  # unlike 0, adding it is nothing that has to be done
            else:
                total += term
            term = value * tl.load(parameters_ptr + 2 * n)
    return total + term


@triton.jit
def fill(
    a_ptr, b_ptr, parameters_ptr, out_ptr, rows, columns, a_stride, b_stride, out_stride,
    FACTORS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """out[i, j] = k(a_i, b_j)."""
    across = tl.cdiv(columns, COLUMNS)  # one long row of programs: the other axes of a launch are short
    i = (tl.program_id(0) // across).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    j = (tl.program_id(0) % across).to(tl.int64) * COLUMNS + tl.arange(0, COLUMNS)
    inside_i, inside_j = i < rows, j < columns
    here, there = tl.where(inside_i, i, 0), tl.where(inside_j, j, 0)
    zero = tl.zeros((ROWS, COLUMNS), out_ptr.dtype.element_ty)
    k = _covariances(a_ptr, b_ptr, parameters_ptr, here, there, a_stride, b_stride, zero, FACTORS)
    tl.store(out_ptr + i[:, None] * out_stride + j[None, :], k, mask=inside_i[:, None] & inside_j[None, :])


@triton.jit
def _finished(x):
    """Wait until no product is under way; x is any number."""
    tl.inline_asm_elementwise("wgmma.wait_group.sync.aligned 0; mov.b32 $0, $1;", "=r,r", [x], tl.int32, False, 1)


@triton.jit
def multiply(
    x_ptr, parameters_ptr, high_ptr, low_ptr, out_ptr, start, first, last, chunk, padded, x_stride, out_columns,
    FACTORS: tl.constexpr, ROWS: tl.constexpr, DEPTH: tl.constexpr, COLUMNS: tl.constexpr, ACCURATE: tl.constexpr,
    HOPPER: tl.constexpr,
):  # fmt: skip
    """Part ``program_id(1)`` of W k(X, X[start : start + out_columns]), for the rows of W in ``program_id(2)``.

    Each part sums over ``chunk`` of the training points from ``first`` to ``last``. Everything is padded, so that no
    mask is needed. The product is computed as K Wᵀ, because tensor cores take the left factor from registers, in the
    layout of products: covariances are computed on top of a product that is zero, not through shared memory.
    """
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    t = (tl.program_id(2) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    begin = first + tl.program_id(1) * chunk
    nothing = (tl.load(x_ptr + start + column) * 0.0).to(tl.float16)  # what the compiler does not know to be zero
    zero = tl.dot(nothing[:, None] + tl.zeros((COLUMNS, 16), tl.float16), tl.zeros((16, DEPTH), tl.float16))
    sums = tl.zeros((COLUMNS, ROWS), dtype=tl.float32)
    for shift in range(begin, tl.minimum(begin + chunk, last), DEPTH):
        j = shift + tl.arange(0, DEPTH)
        w = t[None, :] * padded + j[:, None]
        w_high = tl.load(high_ptr + w)
        if ACCURATE:
            w_low = tl.load(low_ptr + w)
        k = _covariances(x_ptr, x_ptr, parameters_ptr, start + column, j, x_stride, x_stride, zero, FACTORS)
        k_high = k.to(tl.float16)
        k_low = (k - k_high.to(tl.float32)).to(tl.float16)
        sums = tl.dot(k_high, w_high, sums)
        sums = tl.dot(k_low, w_high, sums)
        if ACCURATE:
            sums = tl.dot(k_high, w_low, sums)
        if HOPPER:  # Triton would compute the next covariances into registers that the last product still reads
            _finished(shift)
    row = tl.program_id(1) * tl.num_programs(2) * ROWS + t
    tl.store(out_ptr + row[None, :] * out_columns + column[:, None], sums)
