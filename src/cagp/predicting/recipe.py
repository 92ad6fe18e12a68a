"""What a model is made of: enough to make it again, with other settings, in another process or on another device."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch

from ..errors import InputError
from ..means import Mean
from ..prior import Prior
from ..solvers import Solver, as_solver
from ..support.convert import float_type, solving_type
from ..support.memory import resolve_budget
from ..support.repetitions import copies
from ..support.validation import ArrayLike, points, targets


@dataclass(frozen=True, eq=False)
class Recipe:
    """The data X (d, p) and y (d,), the prior, and the settings; nothing that was computed.

    This is what travels: what is computed takes longer to send than to make. ``offset`` is the prior's mean where that
    is known; of an unknown one it is the least squares fit, an origin on which predictions do not depend. ``accurate``
    is False for "tf32", whose products have weights of 11 bits. ``whole`` (m,) are the rows that can be left out as if
    these were all data, because all near them are here; None for every row.
    """

    prior: Prior
    offset: Mean
    X: np.ndarray
    y: np.ndarray
    solver: Solver
    storage: str
    budget: int
    dtype: torch.dtype
    solve_dtype: torch.dtype
    accurate: bool
    whole: np.ndarray | None = None

    @property
    def judging(self) -> np.ndarray:
        """The rows that may be left out."""
        return np.arange(len(self.y)) if self.whole is None else self.whole

    @cached_property
    def copies(self) -> torch.Tensor | None:
        """Numbers (d,), the same for rows that repeat one another, place and value; None where hardly any do."""
        number = copies(self.X, self.y)
        return None if number is None else torch.from_numpy(number)

    @classmethod
    def of(
        cls,
        prior: Prior,
        X: ArrayLike,
        y: ArrayLike,
        solver: Solver | str,
        device: torch.device,
        *,
        storage: str,
        memory_budget: float | None,
        dtype: Any,
        solve_dtype: Any,
    ) -> Recipe:
        """The recipe from what a user gives, checked; the data are copied, because they are the user's."""
        full = float_type(dtype, "dtype")
        low, accurate = solving_type(solve_dtype, full)
        given, chosen, budget = points(X, "X"), as_solver(solver), resolve_budget(memory_budget, device)
        # by torch, which puts them where fast loops begin: the last digits of sums would depend on the place
        train, observations = (
            part.cpu().clone(memory_format=torch.contiguous_format)
            for part in (given, targets(y, len(given), given.device))
        )
        data = prior.mean.fit(train, observations), train.numpy(), observations.numpy()
        return cls(prior, *data, chosen, storage, budget, full, low, accurate)

    def seeing(self, y: torch.Tensor) -> Recipe:
        """The recipe for other observations y (d,) at the same points."""
        offset = self.prior.mean.fit(torch.from_numpy(self.X).to(y.device), y)
        return replace(self, offset=offset, y=y.cpu().numpy().copy())

    def restricted(self, kept: np.ndarray) -> Recipe:
        """The recipe for the training points ``kept`` (n,) alone; noise given one by one is cut down.

        A trend that was learned from observations forgets the others.
        """
        each = {name: getattr(self.prior, name) for name in ("noise_variance", "noise_factors")}
        prior = replace(self.prior, **{name: noise[kept] for name, noise in each.items() if np.ndim(noise)})
        X = self.X[kept]
        mean, offset = (each.restricted(torch.from_numpy(X)) for each in (prior.mean, self.offset))
        return replace(self, prior=replace(prior, mean=mean), offset=offset, X=X, y=self.y[kept], whole=None)

    def with_more(self, X: torch.Tensor, y: torch.Tensor, noise_variance: Any = None) -> Recipe:
        """The recipe with observations y (m,) at X (m, p) behind its own; their noise as for ``Model.with_more``."""
        prior = _with_noise(self.prior, torch.from_numpy(self.X), X.cpu(), noise_variance)
        train, observations = (torch.cat([torch.from_numpy(old), new.cpu()]) for old, new in ((self.X, X), (self.y, y)))
        offset = prior.mean.fit(train, observations)
        return replace(self, prior=prior, offset=offset, X=train.numpy(), y=observations.numpy())

    @property
    def arithmetic(self) -> str:
        """How the solver computes, as a user writes it: "float64", "float32" or "tf32"."""
        return str(self.solve_dtype).removeprefix("torch.") if self.accurate else "tf32"

    @property
    def certifies(self) -> bool:
        """Whether the solver works in a lower precision than the model reports in."""
        return self.solve_dtype != self.dtype or not self.accurate


def _with_noise(prior: Prior, old: torch.Tensor, new: torch.Tensor, noise_variance: Any) -> Prior:
    """The prior for observations at ``old`` (d, p) and ``new`` (m, p); None is the noise that it has anyway."""
    if noise_variance is None:
        if np.ndim(prior.noise_variance):
            raise InputError(
                "the model has a noise variance for each observation, which says nothing about further ones; give "
                "noise_variance for these: one number, or one per observation"
            )
        return _with_factors(prior, len(new))
    plain = replace(prior, noise_pattern=None, noise_factors=None)
    theirs = replace(plain, noise_variance=noise_variance).noise(new)
    if not np.ndim(prior.noise_variance) and bool(
        (theirs == torch.as_tensor(prior.new_noise(new), dtype=torch.float64)).all()
    ):
        return _with_factors(prior, len(new))
    return replace(plain, noise_variance=torch.cat([prior.noise(old), theirs]).numpy())


def _with_factors(prior: Prior, added: int) -> Prior:
    """The prior for so many further observations, whose noise it does not multiply."""
    factors = prior.noise_factors
    return prior if factors is None else replace(prior, noise_factors=np.concatenate([factors, np.ones(added)]))
