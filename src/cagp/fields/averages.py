"""Averages of f over many points, and other linear functionals of it, as exact about their own error as predictions."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
import torch

from ..errors import InputError, InputTypeError
from ..gram import Functionals
from ..posterior import Posterior
from ..predicting.batches import Batches
from ..predicting.bounds import ComputationalVariance
from ..predicting.conditioned import Conditioned
from ..predicting.memory_plan import MemoryPlan
from ..predicting.solved import Solved
from ..predicting.status import Status, status_of
from ..prediction import Prediction
from ..stopping import Rule
from ..support.convert import Output
from ..support.interrupt import Interrupt
from ..support.positive_definite import joint_draws
from ..support.progress import progress as progress_bar
from ..support.validation import as_float64, count
from .wanted import Wanted

_LOOKED_AT = 1000
"""Points that ``Auto`` looks at where averages are asked for."""


class AveragePrediction(Prediction):
    """A joint prediction of m averages, whoever makes it. Everything that is (T,) for test points is (m,) here."""

    groups: np.ndarray | None
    """The labels (m,) of the averages, sorted, where they came from labels."""

    @abstractmethod
    def covariance(self) -> Any:
        """The covariance between the errors of the averages, shape (m, m)."""

    @property
    @abstractmethod
    def computational_variance(self) -> ComputationalVariance:
        """How much of the variance more computation would remove: lower bound, estimate, upper bound, each (m,)."""


class Average(Posterior, AveragePrediction):  # type: ignore[misc]
    """A Gaussian belief about m averages of f over test points; made by ``Model.average``.

    ``mean``, ``variance`` and ``std`` have shape (m,), ``covariance()`` is between the averages. ``observed()`` is
    about averages of new observations, one at each point. ``weights`` (d, m) are those of the observations.
    """

    def __init__(
        self,
        model: Conditioned,
        batches: Sequence[Solved],
        convert: Output,
        status: Status,
        test: torch.Tensor,
        wanted: Wanted,
    ) -> None:
        super().__init__(model, batches, convert, status, test)
        self._wanted = wanted
        self.groups = wanted.groups
        self._shared_noise: torch.Tensor | None = None

    def __repr__(self) -> str:
        what = ", observations" if self.includes_noise else ""
        over = f"{len(self)} averages of {self._wanted.A.shape[1]} points"
        return f"Average({over}{what}, {self._model.recipe.solver!r}, {self.status.reason})"

    def observed(self, noise_variance: Any = None) -> Self:
        """The belief about averages of new observations, one at each point: noise of variance A Σ Aᵀ is added.

        ``noise_variance`` is one number or one per point (T,); by default the prior's, where that is known for new
        observations.
        """
        noise = self._prior_noise if noise_variance is None else noise_variance
        points = self._wanted.A.shape[1]
        if noise is None:
            raise InputError(
                "the noise of the training observations, one variance each, says nothing about new ones: call "
                "observed(noise_variance=...) with one number or one per point"
            )
        each = as_float64(noise, "noise_variance").cpu().numpy()
        if each.shape not in ((), (points,)):
            raise InputError(f"noise_variance has shape {each.shape} for {points} points; give one number, or one each")
        if (each < 0).any():
            raise InputError(f"noise_variance must not be negative, got {each.min():g}")
        A = self._wanted.A
        total = A * np.broadcast_to(each, points)[None, :] @ A.T
        result = super().observed(total.diagonal())
        result._shared_noise = torch.from_numpy(total.toarray()).to(self._mean)
        return result

    def sample(self, n: int = 1, seed: int = 0) -> Any:
        """``n`` joint draws of the averages, shape (n, m). The same ``seed`` gives the same draws."""
        count(n, "n", minimum=1)
        remedy = "leave out averages that follow from others, or condition with a larger noise_variance"
        seed = count(seed, "seed")
        scale, what = float(self._model.gram.kernel_diagonal().max()), "the covariance of the averages"
        return self._convert(joint_draws(self._mean, self._covariance(), n, seed, what, remedy, scale))

    def _covariance(self) -> torch.Tensor:
        cross, weights = self._single()
        if isinstance(cross, Functionals) and weights.indices is not None and weights.shift is None:
            MemoryPlan(self._model).require_dense_weights(len(self._mean))
            C = cross.error_covariance(sp.csr_array(weights.dense().double().cpu().numpy()))
            C.diagonal().copy_(self._total_variance())
        else:
            C = super()._covariance()
        if self._shared_noise is not None:
            C = C + self._shared_noise - torch.diag(self._shared_noise.diagonal())
        return C


def average(
    model: Conditioned,
    test: torch.Tensor,
    wanted: Wanted,
    convert: Output,
    *,
    stop: Rule | None = None,
    batch_size: int | None = None,
    progress: bool | None = None,
) -> Average:
    """The posterior of the functionals ``wanted`` of f at test points (T, p); see ``Model.average``."""
    if stop is not None and not isinstance(stop, Rule):
        raise InputTypeError(f"stop must be a rule such as ComputationalShare(0.05) | Seconds(60), got {stop!r}")
    start = time.perf_counter()
    settled, _, expected = model.settled(_some_of(test, len(wanted)))
    cross = settled.prepared.arrange(Functionals(model.unarranged(test), wanted.A))
    offset = torch.from_numpy(wanted.A @ model.offset(test).double().cpu().numpy()).to(model.gram.noise)
    rule = stop if settled.prepared.limit > 1 else None
    size = MemoryPlan(settled).batch(len(wanted), batch_size, rule)
    work = Batches(settled, cross, offset, rule, size)
    with Interrupt() as interrupt, progress_bar("average", len(wanted), progress) as advance:
        solved = work.solve(interrupt, advance)
    seconds = time.perf_counter() - start
    status = status_of(settled, solved, stop, interrupt.requested, seconds, "", expected)
    many = f"{len(wanted)} averages" if len(wanted) > 1 else "One average"
    status = replace(status, circumstances=f"{status.circumstances} {many} of {len(test):,} points.")
    return Average(settled, solved, convert, status, test, wanted)


def _some_of(test: torch.Tensor, m: int) -> torch.Tensor:
    """As many test points as there are averages, a thousand at the least where there are so many: what is near them."""
    number = max(m, _LOOKED_AT)
    if len(test) <= number:
        return test
    some = torch.randperm(len(test), generator=torch.Generator().manual_seed(0))[:number].sort().values
    return test[some.to(test.device)]
