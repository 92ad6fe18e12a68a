"""What a report is given, checked before any work is done; what its sections cost, and what if one fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import torch

from ..errors import DivergenceError, InputError, InputTypeError, MemoryBudgetError, NotPositiveDefiniteError
from ..hyperparameters import FitResult
from ..model import Model, require_model
from ..solvers import NearestNeighbours, Solver
from ..support.convert import array
from ..support.validation import not_negative_each, targets
from .names import Names

T = TypeVar("T")

LOCAL = NearestNeighbours(100)  # for pictures, where the model's own solver would take minutes


@dataclass(frozen=True, eq=False)
class HoldoutData:
    """X (n, p), y (n,), the noise variances (n,) if any, and ``rows`` (n,) in what was given, less ``known`` ones."""

    X: torch.Tensor
    y: torch.Tensor
    noise: torch.Tensor | None
    rows: np.ndarray
    known: int = 0

    def some(self, chosen: np.ndarray) -> HoldoutData:
        """The observations ``chosen`` (m,) alone."""
        noise = None if self.noise is None else self.noise[chosen]
        return replace(self, X=self.X[chosen], y=self.y[chosen], noise=noise, rows=self.rows[chosen])


@dataclass(frozen=True, eq=False)
class ReportInputs:
    """What was given; ``heaviest`` is the prior with the most weight by itself, on the scale that it models."""

    model: Model
    heaviest: Model
    names: Names
    holdout: HoldoutData | None
    like: torch.Tensor | None


def check_inputs(model: Any, fit: Any, holdout: Any, like: Any, names: Any) -> ReportInputs:
    """Refuse wrong arguments before any work is done."""
    require_model(model)
    if names is not None and not isinstance(names, Names):
        raise InputTypeError(f"names must be cagp.fit_report.Names, got {type(names).__name__}")
    if fit is not None and not isinstance(fit, FitResult):
        raise InputTypeError(f"fit must be what cagp.hyperparameters.fit returned, got {type(fit).__name__}")
    kernels = [component.prior.kernel for component in model.components]
    if fit is not None and model.record is None and fit.prior.kernel not in kernels:  # a story tells of several
        wrong = f"fit found the kernel {fit.prior.kernel!r}, the model has {kernels[0]!r}"
        raise InputError(f"{wrong}; condition the prior of the fit: fit.prior.condition(X, y)")
    if like is not None and holdout is not None:
        raise InputError("like says how training data are left out, which a holdout replaces; leave one of them out")
    if like is not None and model.quantity is not None:
        raise InputError(
            "like lets single observations stand in for points, not for one quantity of several; leave it out"
        )
    heaviest = model.replace(components=model.components[:1], weights=[1.0], margins=None, transform=None)
    places = None if like is None else model.test_points(like, "like")[0]
    names = (names or Names()).filled_in(model)
    return ReportInputs(model, heaviest, names, _checked_holdout(model, holdout), places)


def _checked_holdout(model: Model, holdout: Any) -> HoldoutData | None:
    """Held-out data as tensors, without training rows; refuses what is not (X, y) or (X, y, noise_variance)."""
    if holdout is None:
        return None
    if not isinstance(holdout, (tuple, list)) or len(holdout) not in (2, 3):
        raise InputError(f"holdout must be a pair (X, y), got {type(holdout).__name__}; write holdout=(X_test, y_test)")
    X = model.test_points(holdout[0], "holdout X")[0]
    y = targets(holdout[1], len(X), model.device, name="holdout y")
    noisy = len(holdout) == 3 and holdout[2] is not None
    noise = not_negative_each(holdout[2], "holdout noise_variance", len(X), model.device) if noisy else None
    # rows whose X and y are those of a training row, which the model has seen, are left out; not by the observations of
    # a transformed model, which have been there and back, and were rounded
    own, theirs = model.components[0].y, y if model.transform is None else model.transform.forward(y)
    candidates = torch.isin(own, theirs)  # few, so that millions of training rows cost one pass
    training = set(_as_keys(model.components[0].X[candidates], own[candidates]))
    new = np.array([key not in training for key in _as_keys(X, theirs)])
    known = len(new) - int(new.sum())
    if 2 * known > len(new):
        some = f"All {known:,}" if known == len(new) else f"{known:,} of the {len(new):,}"
        raise InputError(
            f"{some} rows of holdout are training rows, whose predictions say nothing about new data; hold rows out "
            "before the fit, or check without a holdout (a second table), which leaves training rows out in turn"
        )
    return HoldoutData(X, y, noise, np.arange(len(X)), known).some(np.flatnonzero(new))


def _as_keys(X: torch.Tensor, y: torch.Tensor) -> list[bytes]:
    """Each row with its observation as bytes: equal where all numbers are, and -0 is 0."""
    return [row.tobytes() for row in np.ascontiguousarray(np.column_stack([array(X), array(y)]) + 0.0)]


def attempt(work: Callable[[], T]) -> tuple[T | None, str]:
    """The result of a section, or why it could not be computed: one section must not cost the others."""
    try:
        return work(), ""
    except (MemoryBudgetError, NotPositiveDefiniteError, DivergenceError, InputError) as error:
        return None, f"This could not be computed: {error}."


def working(model: Model) -> Solver:
    """The solver that does the work: what Auto picked, where it was asked."""
    return model.prepared.picked or model.solver


def seconds(model: Model, solver: Solver, size: int, tests: int) -> float:
    """About how long all components take with ``solver``, from operation counts: the same on every machine."""
    each = solver.operations(size, tests).seconds(tiles=model.prepared.gram.storage == "tiles")
    return len(model.components) * each


def refit(model: Model, solver: Solver, solve_dtype: torch.dtype | None = None) -> Model:
    """The model conditioned anew with ``solver``."""
    other: dict[str, Any] = {} if solve_dtype is None else {"solve_dtype": solve_dtype, "accurate": True}
    other |= {"solver": solver, "storage": model.prepared.gram.storage}
    return model.replace(components=[each.rebuilt(**other) for each in model.components])
