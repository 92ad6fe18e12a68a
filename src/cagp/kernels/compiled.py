"""Radial profiles in compiled loops, and the sums and products of them. Needs numba: imported by who has it.

Two loops are compiled of every ``scalar_profile``, for values alone and with slopes. Others call them through their
addresses, which stand in a ``Plan``: code for tiles or for a likelihood is compiled once, and knows of no kernel.
"""

from __future__ import annotations

import math
import threading
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload, register_jitable
from numba.np.arrayobj import make_array

from ..support.compiling import OPTIONS, compiled_apart, exponential_of_minus
from .plan import Plan, ScalarProfile, Terms, decay

INT, REAL = types.int64, types.float64
ARRAY, INTS = types.CPointer(REAL), types.CPointer(INT)

_options: Any = OPTIONS
overload(decay, jit_options=_options)(lambda x: lambda x: exponential_of_minus(x))

# By their profiles and whether they have slopes: an address is good as long as what is compiled there is kept.
_loops: dict[tuple[ScalarProfile, bool], Any] = {}
_compiling = threading.Lock()


def _address_of(profile: ScalarProfile, slopes: bool) -> int:
    """Where the compiled loop is that ``call_at`` calls."""
    with _compiling:
        if (profile, slopes) not in _loops:
            if (profile, not slopes) not in _loops:
                register_jitable(**OPTIONS)(profile)
            _loops[profile, slopes] = _slopes_loop(profile) if slopes else _values_loop(profile)
        return int(_loops[profile, slopes].address)


def _version(profile: ScalarProfile) -> int:
    """A number that changes with the code of a profile, so that nothing old is read from disk."""
    code = profile.__code__
    return zlib.crc32(code.co_code + repr((code.co_consts, code.co_names)).encode())


def _values_loop(profile: ScalarProfile) -> Any:
    version = _version(profile)

    def loop(scale: float, parameter: float, distances: Any, n: int, values: Any) -> None:
        if version >= 0:
            for t in range(n):
                values[t] = scale * profile(distances[t], parameter)[0]

    return compiled_apart(REAL, REAL, ARRAY, INT, ARRAY)(loop)


def _slopes_loop(profile: ScalarProfile) -> Any:
    version = _version(profile)

    def loop(parameter: float, distances: Any, n: int, values: Any, slopes: Any, bends: Any) -> None:
        if version >= 0:
            for t in range(n):
                values[t], slopes[t], bends[t] = profile(distances[t], parameter)

    return compiled_apart(REAL, ARRAY, INT, ARRAY, ARRAY, ARRAY)(loop)


def plan_of(terms: Terms, slopes: bool) -> Plan:
    """The plan for compiled loops of the profiles, or of the profiles and their ``slopes``."""
    factors = [factor for term in terms for factor in term]
    whole = {
        "ends": np.cumsum([0, *map(len, terms)]),
        "codes": [_address_of(factor.kind.scalar_profile, slopes) for factor in factors],
        "first": [factor.first for factor in factors],
        "last": [factor.first + factor.count for factor in factors],
    }
    return Plan(
        variances=np.array([math.prod(factor.variance for factor in term) for term in terms]),
        parameters=np.array([factor.parameter for factor in factors]),
        **{name: np.array(values, dtype=np.int64) for name, values in whole.items()},
    )


def _call_at(_context: Any, address: Any, *given: Any) -> tuple[Any, Callable[..., Any]]:
    """A call of what is compiled at an address; of arrays it gets where their numbers are."""
    kinds = getattr(given[0], "types", given)
    assert all(kind.layout == "C" for kind in kinds if isinstance(kind, types.Array))

    def call(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        values = cgutils.unpack_tuple(builder, arguments[1], len(kinds))
        passed = [
            make_array(kind)(context, builder, value).data if isinstance(kind, types.Array) else value
            for kind, value in zip(kinds, values, strict=True)
        ]
        function = ir.FunctionType(ir.VoidType(), [each.type for each in passed])
        builder.call(builder.inttoptr(arguments[0], function.as_pointer()), passed)
        return context.get_dummy_value()

    return types.void(address, types.StarArgTuple.from_types(kinds)), call


def _moved(_context: Any, pointer: Any, by: Any) -> tuple[Any, Callable[..., Any]]:
    """Where the number is that so many further on is."""
    return pointer(pointer, by), lambda _c, builder, _s, arguments: builder.gep(arguments[0], [arguments[1]])


call_at: Any = intrinsic(_call_at)
moved: Any = intrinsic(_moved)


@compiled_apart(ARRAY, INT, INT, ARRAY, INT, INT, INT, INT, ARRAY, INT)
def squared_distances(
    rows: Any, i: int, pitch: int, columns: Any, left: int, width: int, first: int, end: int, s: Any, n: int
) -> None:
    """|rows[:, i] − columns[:, left + t]|² over the coordinates first … end − 1 for the first n of t, into ``s``.

    Coordinates of ``rows`` are ``pitch`` numbers apart, of ``columns`` ``width``.
    """
    if (end - first) % 2:
        at, near = rows[first * pitch + i], moved(columns, first * width + left)
        for t in range(n):
            s[t] = (at - near[t]) * (at - near[t])
    else:
        for t in range(n):
            s[t] = 0.0
    for c in range(first + (end - first) % 2, end, 2):  # two at a time: half as often through s
        at, near = rows[c * pitch + i], moved(columns, c * width + left)
        also_at, also_near = rows[(c + 1) * pitch + i], moved(columns, (c + 1) * width + left)
        for t in range(n):
            difference, other = at - near[t], also_at - also_near[t]
            s[t] += difference * difference + other * other
