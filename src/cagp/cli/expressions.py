"""Solvers and kernels as people write them: a name, or as in Python ``Matern32(0.3).on(0, 1) + RBF(2.0).on(2)``.

Only cagp's own classes are known; nothing is ever executed.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Sequence
from typing import Any

from ..errors import InputError
from ..kernels import Kernel
from ..saving.objects import KERNELS, KNOWN
from ..solvers import NAMES, Solver
from ..support.advice import suggestion

KERNEL_NAMES: dict[str, type[Kernel]] = {each.__name__.lower(): each for each in KERNELS}


def as_solver(text: str) -> Solver:
    """A solver from its name or from an expression."""
    if text in NAMES:
        return _built(NAMES[text], text, (), {})
    otherwise = f"--solver must be one of {', '.join(sorted(NAMES))}, or such as 'GaussSeidel(20)'"
    value = evaluated(text, otherwise, sorted(NAMES))
    if not isinstance(value, Solver):
        raise InputError(f"--solver {text!r} is not a solver; see `cagp solvers`")
    return value


def evaluated(text: str, otherwise: str, names: Sequence[str] = ()) -> Any:
    """The object that an expression means; ``otherwise`` says what could be written instead, such as ``names``."""
    try:
        return _value(ast.parse(text.strip(), mode="eval").body, text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{otherwise}; got {text!r}{suggestion(text, names)}") from None
    except KeyError as error:
        unknown = suggestion(str(error.args[0]), list(KNOWN)) if "(" in text else suggestion(text, names)
        raise InputError(f"{otherwise}; got {text!r}{unknown}") from None


def _value(node: ast.expr, text: str) -> Any:
    if isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, (bool, int, float, str))):
        return node.value
    if isinstance(node, (ast.Tuple, ast.List)):
        return tuple(_value(each, text) for each in node.elts)
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mult)):
        left, right = _value(node.left, text), _value(node.right, text)
        if not any(isinstance(side, Kernel) for side in (left, right)):
            raise InputError(f"{text!r}: only kernels can be added and multiplied")
        if isinstance(node.op, ast.Add) and not (isinstance(left, Kernel) and isinstance(right, Kernel)):
            raise InputError(f"{text!r}: a kernel can only be added to a kernel")
        return left + right if isinstance(node.op, ast.Add) else left * right
    if isinstance(node, ast.Call) and not any(keyword.arg is None for keyword in node.keywords):
        values = [_value(each, text) for each in node.args]
        named = {str(keyword.arg): _value(keyword.value, text) for keyword in node.keywords}
        if isinstance(node.func, ast.Name):
            return _built(KNOWN[node.func.id], text, values, named)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "on" and not named:
            kernel = _value(node.func.value, text)
            if isinstance(kernel, Kernel):
                return kernel.on(*values)
    raise ValueError(text)


def _built(known: type[Any], text: str, values: Any, named: dict[str, Any]) -> Any:
    try:
        inspect.signature(known).bind(*values, **named)
        return known(*values, **named)
    except InputError:
        raise
    except TypeError as error:
        raise InputError(f"{text!r}: {known.__name__}: {error}; write its settings in brackets") from None
