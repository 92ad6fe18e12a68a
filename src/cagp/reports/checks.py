"""Checks of what a report is given, and what happens where a section cannot be computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import DivergenceError, InputError, InputTypeError, MemoryBudgetError, NotPositiveDefiniteError
from ..hyperparameters import FitResult
from .held_out import checked_holdout
from .names import Names

if TYPE_CHECKING:
    from ..model import Model

T = TypeVar("T")


def checked(model: Model, fit: FitResult | None, holdout: Any, names: Names | None) -> tuple[Names, Any]:
    """Refuse wrong arguments before any work is done."""
    from ..model import Model as ModelClass

    if not isinstance(model, ModelClass):
        raise InputTypeError(f"model must be a cagp Model, got {type(model).__name__}; prior.condition(X, y) makes one")
    if fit is not None and not isinstance(fit, FitResult):
        raise InputTypeError(f"fit must be what cagp.hyperparameters.fit returned, got {type(fit).__name__}")
    if fit is not None and fit.prior.kernel != model.prior.kernel:
        raise InputError(
            f"fit found the kernel {fit.prior.kernel!r}, the model has {model.prior.kernel!r}; condition the prior of "
            "the fit: fit.prior.condition(X, y)"
        )
    if names is not None and not isinstance(names, Names):
        raise InputTypeError(f"names must be cagp.fit_report.Names, got {type(names).__name__}")
    return (names or Names()).filled_in(model), checked_holdout(model, holdout)


def attempt(work: Callable[[], T]) -> tuple[T | None, str]:
    """The result of a section, or why it could not be computed: one section must not cost the others."""
    try:
        return work(), ""
    except (MemoryBudgetError, NotPositiveDefiniteError, DivergenceError, InputError) as error:
        return None, f"This could not be computed: {error}."
