"""What a report is given, checked before any work is done; and what happens where a section cannot be computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch

from ..errors import DivergenceError, InputError, InputTypeError, MemoryBudgetError, NotPositiveDefiniteError
from ..hyperparameters import FitResult
from ..recalibration import LayeredModel
from ..support.validation import as_float64, column_names, not_negative_each, points, targets
from ..transforms import untransformed
from .names import Names
from .refits import array

if TYPE_CHECKING:
    from ..model import Model

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Given:
    """Held-out data: X (n, p), y (n,), and the noise variance of each, (n,), where it is known.

    ``rows`` (n,) are their positions in what was given, from which so many ``known`` training rows were left out.
    """

    X: torch.Tensor
    y: torch.Tensor
    noise: torch.Tensor | None
    rows: np.ndarray
    known: int = 0

    def some(self, chosen: np.ndarray) -> Given:
        """The observations ``chosen`` (m,) alone."""
        noise = None if self.noise is None else self.noise[chosen]
        return replace(self, X=self.X[chosen], y=self.y[chosen], noise=noise, rows=self.rows[chosen])


def _checked_holdout(model: Model, holdout: Any) -> Given | None:
    """Held-out data as tensors, without training rows; refuses what is not (X, y) or (X, y, noise_variance)."""
    if holdout is None:
        return None
    if not isinstance(holdout, (tuple, list)) or len(holdout) not in (2, 3):
        raise InputError(f"holdout must be a pair (X, y), got {type(holdout).__name__}; write holdout=(X_test, y_test)")
    columns = column_names(holdout[0])
    if columns is not None and model.column_names is not None and columns != model.column_names:
        raise InputError(
            f"holdout X has the columns {columns}, the training points have {model.column_names}; "
            f"put them in the same order: X[{model.column_names}]"
        )
    X = points(holdout[0], "holdout X", model.X.device, columns=model.X.shape[1])
    y = targets(holdout[1], len(X), model.X.device, name="holdout y")
    noisy = len(holdout) == 3 and holdout[2] is not None
    noise = not_negative_each(holdout[2], "holdout noise_variance", len(X), model.X.device) if noisy else None
    given = Given(X, y, noise, np.arange(len(X)))
    # rows whose X and y are those of a training row, which the model has seen, are left out
    candidates = torch.isin(model.y, given.y)  # few, so that millions of training rows cost one pass
    seen = set(_as_keys(model.X[candidates], model.y[candidates]))
    new = np.array([key not in seen for key in _as_keys(given.X, given.y)])
    known = len(new) - int(new.sum())
    if 2 * known > len(new):
        some = f"All {known:,}" if known == len(new) else f"{known:,} of the {len(new):,}"
        raise InputError(
            f"{some} rows of holdout are training rows, whose predictions say nothing about new data; hold rows out "
            "before the fit, or check without a holdout (a second table), which leaves training rows out in turn"
        )
    return replace(given.some(np.flatnonzero(new)), known=known) if known else given


def _as_keys(X: torch.Tensor, y: torch.Tensor) -> list[bytes]:
    """Each row with its observation as bytes: equal where all numbers are, and -0 is 0."""
    values = np.ascontiguousarray(np.column_stack([array(X), array(y)]) + 0.0)
    return [row.tobytes() for row in values]


def on_the_scale_of_the_model(model: Any, holdout: Any, names: Any) -> tuple[Any, Any, Any, str]:
    """A model of transformed observations without its transform, data held out as it sees them, names; and a sentence.

    A report is about what the Gaussian process is a model of: its hyperparameters have the units of that.
    """
    model, transform = untransformed(model)
    if transform is None:
        return model, holdout, names, ""
    known = names if isinstance(names, Names) else Names()
    called = known.target or "y"
    if isinstance(holdout, (tuple, list)) and len(holdout) in (2, 3):
        values = as_float64(holdout[1], "y of holdout", model.plain.device)
        holdout = (holdout[0], transform.of(values, "y of holdout"), *holdout[2:])
    said = f"{transform.in_words} of {called}: this page is about the transformed values; predictions are carried back"
    return model, holdout, replace(known, target=f"{called}, transformed", target_unit=""), said


@dataclass(frozen=True, eq=False)
class Checked:
    """What a report is given: the innermost model, ``plain``; names; ``holdout`` or points ``like`` (T, p), if any."""

    plain: Model
    names: Names
    holdout: Given | None
    like: torch.Tensor | None


def checked(
    model: Model | LayeredModel, fit: FitResult | None, holdout: Any, like: Any, names: Names | None
) -> Checked:
    """Refuse wrong arguments before any work is done."""
    from ..model import Model as ModelClass

    if not isinstance(model, (ModelClass, LayeredModel)):
        raise InputTypeError(f"model must be a cagp Model, got {type(model).__name__}; prior.condition(X, y) makes one")
    whole, model = model, model.plain
    if fit is not None and not isinstance(fit, FitResult):
        raise InputTypeError(f"fit must be what cagp.hyperparameters.fit returned, got {type(fit).__name__}")
    if fit is not None and whole is model and fit.prior.kernel != model.prior.kernel:  # layers have several
        raise InputError(
            f"fit found the kernel {fit.prior.kernel!r}, the model has {model.prior.kernel!r}; condition the prior of "
            "the fit: fit.prior.condition(X, y)"
        )
    if names is not None and not isinstance(names, Names):
        raise InputTypeError(f"names must be cagp.fit_report.Names, got {type(names).__name__}")
    if like is not None and holdout is not None:
        raise InputError(
            "like says in which geometry training data are left out, which happens without a holdout only; leave one "
            "of them out"
        )
    places = None if like is None else model.test_points(like, "like")[0]
    return Checked(model, (names or Names()).filled_in(model), _checked_holdout(model, holdout), places)


def attempt(work: Callable[[], T]) -> tuple[T | None, str]:
    """The result of a section, or why it could not be computed: one section must not cost the others."""
    try:
        return work(), ""
    except (MemoryBudgetError, NotPositiveDefiniteError, DivergenceError, InputError) as error:
        return None, f"This could not be computed: {error}."
