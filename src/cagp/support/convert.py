"""Results in the form of the inputs: numpy in, numpy out; torch in, torch out, on the same device."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..errors import InputError, InputTypeError


@dataclass(frozen=True)
class Output:
    """How results go out: as tensors on ``device``, or as numpy arrays where it is None."""

    device: torch.device | None

    @classmethod
    def like(cls, given: Any) -> Output:
        """Results as ``given`` came in."""
        return cls(given.device if isinstance(given, torch.Tensor) else None)

    def __call__(self, tensor: torch.Tensor) -> Any:
        own = tensor.detach().clone()  # what a user does to a result must not reach the posterior
        return own.cpu().numpy() if self.device is None else own.to(self.device)


def array(values: Any) -> np.ndarray:
    """Results in either form as float64 in numpy."""
    return np.asarray(values.detach().cpu() if isinstance(values, torch.Tensor) else values, dtype=np.float64)


def as_device(device: Any) -> torch.device:
    """``device`` as torch knows it, if it is there."""
    try:
        found = torch.device(device)
        torch.empty(0, device=found)
    except (RuntimeError, TypeError, AssertionError, NotImplementedError) as error:
        why = str(error).split("\n")[0]
        raise InputError(f'device must be such as "cpu" or "cuda:0" and be there, got {device!r}: {why}') from error
    return found


def float_type(dtype: Any, name: str) -> torch.dtype:
    """``dtype`` as torch.float64 or torch.float32, from torch, numpy or text."""
    found = None
    with suppress(TypeError):
        called = str(dtype).removeprefix("torch.") if isinstance(dtype, torch.dtype) else np.dtype(dtype).name
        found = {"float64": torch.float64, "float32": torch.float32}.get(called)
    if found is None:
        raise InputTypeError(f'{name} must be "float64" or "float32", got {dtype!r}')
    return found


def solving_type(solve_dtype: Any, dtype: torch.dtype) -> tuple[torch.dtype, bool]:
    """The arithmetic of a solver: its dtype, and whether its products have all digits ("tf32": weights of 11 bits)."""
    if isinstance(solve_dtype, str) and solve_dtype == "tf32":
        return torch.float32, False
    if solve_dtype is None:
        return dtype, True
    try:
        return float_type(solve_dtype, "solve_dtype"), True
    except InputTypeError:
        raise InputTypeError(f'solve_dtype must be "float64", "float32" or "tf32", got {solve_dtype!r}') from None


def tf32_refused(device: torch.device, storage: str) -> bool:
    """Its products are fused products, which a GPU does and a stored matrix does not need."""
    return device.type == "cpu" or storage == "dense"
