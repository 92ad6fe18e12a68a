"""The data and settings of a model as its user sees them, and the same model with other data."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch

from ..errors import InputError
from ..prior import Prior
from ..solvers import Solver
from ..support.convert import Output
from ..support.memory import available_bytes
from ..support.validation import ArrayLike, column_names, points, targets
from .conditioned import Conditioned
from .recipe import Recipe


class WithData(Conditioned):
    """A prior that has seen data, with the names of their columns; it knows how to become one with other data."""

    def __init__(
        self,
        recipe: Recipe,
        device: torch.device,
        column_names: list[str] | None = None,
        earlier: Conditioned | None = None,
    ) -> None:
        super().__init__(recipe, device, earlier)
        self.column_names = column_names

    @classmethod
    def of(
        cls, prior: Prior, X: ArrayLike, y: ArrayLike, solver: Solver | str, device: torch.device, **settings: Any
    ) -> Self:
        """The prior conditioned on observations y (d,) at points X (d, p); ``settings`` are those of ``Recipe.of``."""
        recipe = Recipe.of(prior, X, y, solver, device, **settings)
        return cls(recipe, device, column_names(X))

    @property
    def prior(self) -> Prior:
        """The prior as it was given; ``trend`` is what the data say of an unknown mean."""
        return self.recipe.prior

    @property
    def solver(self) -> Solver:
        """The solver as it was asked for; ``prepared.picked`` is what ``Auto`` made of it."""
        return self.recipe.solver

    @property
    def budget(self) -> int:
        """The memory budget in bytes."""
        return self.recipe.budget

    @property
    def storage(self) -> str:
        """How G was asked to be stored: "auto", "dense" or "tiles"."""
        return self.recipe.storage

    def with_observations(self, y: ArrayLike) -> Self:
        """The same prior, points and solver with other observations y (d,).

        The work that a calibrated solver did before it saw test points is shared: it does not depend on y.
        """
        observations = targets(y, len(self.X), self.device)
        other = copy.copy(self)
        other.see(self.recipe.seeing(observations))
        return other

    def with_more(self, X: ArrayLike, y: ArrayLike, *, noise_variance: Any = None) -> Self:
        """The model of its own observations and further ones y (m,) at X (m, p); this one stays what it is.

        The results are those of ``prior.condition`` on all of them, to rounding: hyperparameters stay, and so do solver
        and memory budget. ``Cholesky`` extends its factor, O(d² m) in place of O(d³/3). Other solvers are prepared
        anew, which takes them little: a warm start would change what they give after a number of iterations, and
        nearest neighbours must be the nearest of all points.

        ``noise_variance`` is that of the new observations, one number or (m,): by default the prior's, where that is
        known for new ones; with another one the model has a noise variance for each observation.

        >>> import numpy as np, cagp
        >>> X = np.linspace(0, 1, 50)[:, None]
        >>> model = cagp.Prior(cagp.Matern32(0.2), noise_variance=0.01).condition(X, np.sin(6 * X[:, 0]), "cholesky")
        >>> more = model.with_more([[1.1], [1.2]], [0.31, 0.79])
        >>> len(model.y), len(more.y)
        (50, 52)
        """
        new, _ = self.test_points(X, "X")
        recipe = self.recipe.with_more(new, targets(y, len(new), self.device), noise_variance)
        return type(self)(recipe, self.device, self.column_names, self)

    def again(self, kept: np.ndarray | None = None, **settings: Any) -> Self:
        """The model once more, on its training points ``kept`` (n,) or on all, with other settings of its recipe.

        It may use the budget of this one, or half of the memory that is free now where that is less.
        """
        recipe = self.recipe if kept is None else self.recipe.restricted(kept)
        budget = max(1, min(self.budget, available_bytes(self.device) // 2))
        recipe = replace(recipe, **{"budget": budget, **settings})
        return type(self)(recipe, self.device, self.column_names)

    def test_points(self, X_test: ArrayLike, name: str = "X_test") -> tuple[torch.Tensor, Output]:
        """X_test (T, p), checked, on the device of the model; and how results go out: as X_test came in."""
        names = column_names(X_test)
        if self.column_names is not None and names is not None and names != self.column_names:
            raise InputError(
                f"{name} has the columns {names}, the training points have {self.column_names}; "
                f"put them in the same order: {name}[{self.column_names}]"
            )
        return points(X_test, name, self.device, columns=self.X.shape[1]), Output.like(X_test)
