"""Nearest-neighbour likelihoods of the same data: who is near changes with the hyperparameters, all else stays."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import torch

from ..kernels import Kernel
from .compiled_vecchia import CompiledVecchiaLikelihood
from .observations import Observations
from .previous_neighbours import previous_neighbours
from .radial_plan import compiled_plan
from .search_space import Space
from .terms import GivenTerms, Sample, Terms
from .vecchia import VecchiaLikelihood

NeighbourLikelihood = VecchiaLikelihood | CompiledVecchiaLikelihood

_SETTLED = 0.01
"""Neighbours are chosen anew until fewer than this fraction of them change (ties on grids always may)."""


@dataclass(frozen=True)
class NeighbourSetting:
    """``data`` in their random order, a ``sample`` of the terms, and the number of neighbours ``k``."""

    space: Space
    data: Observations
    sample: Sample
    k: int
    budget: int

    def likelihood(self, log_values: np.ndarray) -> NeighbourLikelihood:
        """The likelihood with the neighbours that are nearest under the kernel at ``log_values`` (q,): the plain sum.

        By compiled code where there is some for this kernel on this device, by torch elsewhere.
        """
        kernel, k = self._kernel(log_values), min(self.k, self.data.size - 1)
        places = torch.from_numpy(self.sample.places)
        neighbours = previous_neighbours(kernel, self.data.X, k, places)
        return self._of(Terms(places, neighbours, torch.ones(len(places), dtype=torch.float64)))

    def given(self, terms: GivenTerms) -> NeighbourLikelihood:
        """The sum of terms with these neighbours, whatever the hyperparameters are."""
        weights = torch.ones(len(terms.rows), dtype=torch.float64)
        return self._of(Terms(torch.from_numpy(terms.rows), torch.from_numpy(terms.neighbours), weights))

    def estimate(self, likelihood: NeighbourLikelihood) -> NeighbourLikelihood:
        """The unbiased estimate of the likelihood of all observations, from the same terms."""
        if len(self.sample.places) == self.data.size:
            return likelihood
        return self._of(dataclasses.replace(likelihood.terms, weights=torch.from_numpy(self.sample.weights)))

    def _of(self, terms: Terms) -> NeighbourLikelihood:
        plan = compiled_plan(self.space, self.data.X)
        if plan is not None:
            return CompiledVecchiaLikelihood(self.space, self.data, terms, plan)
        return VecchiaLikelihood(self.space, self.data, terms, self.budget)

    def refreshed(self, before: NeighbourLikelihood, then: np.ndarray, now: np.ndarray) -> NeighbourLikelihood | None:
        """The likelihood with neighbours chosen anew, ``now`` (q,); None where hardly any changes since ``then``."""
        if self._similar(self._kernel(then), self._kernel(now)):
            return None
        fresh = self.likelihood(now)
        return None if _changed(before.terms.neighbours, fresh.terms.neighbours) < _SETTLED else fresh

    def _kernel(self, log_values: np.ndarray) -> Kernel:
        return self.space.kernel(self.space.values(log_values))

    def _similar(self, one: Kernel, other: Kernel) -> bool:
        """Whether all distances under one kernel are the same multiple of those under the other."""
        if not (one.radial and other.radial):
            return False
        X = self.data.X
        a, b = (kernel.embed(X, X.mean(dim=0)) for kernel in (one, other))
        if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
            return False
        return torch.allclose(a / a.norm(), b / b.norm(), rtol=1e-9, atol=1e-12)


def _changed(before: torch.Tensor, after: torch.Tensor) -> float:
    """The fraction of neighbours in ``after`` (m, k) that are not among those in ``before`` (m, k)."""
    step = 4096
    kept = 0
    for old, new in zip(before.split(step), after.split(step), strict=True):
        kept += int((new[:, :, None] == old[:, None, :]).any(dim=2).sum())
    return 1 - kept / max(1, after.numel())
