"""What was found for a batch of test points: mean and variance from the weights, exact about their own error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..algebra.weights import Weights
from ..errors import DivergenceError
from ..gram import Cross
from .conditioned import Conditioned
from .solving import Outcome


@dataclass(frozen=True)
class Solved:
    """One batch of test points after some iteration; ``weights`` is None where they were not kept.

    ``stopped`` (T,) is the index of the rule that stopped a test point, or −1.
    """

    cross: Cross
    weights: Weights | None
    iterations: torch.Tensor
    stopped: torch.Tensor
    passes: float
    mean: torch.Tensor
    variance: torch.Tensor
    at_rounding: torch.Tensor

    @classmethod
    def of(cls, model: Conditioned, cross: Cross, outcome: Outcome, prior_mean: torch.Tensor, keep: bool) -> Solved:
        """Mean and variance from the weights; without ``keep``, the weights and V are let go."""
        weights = outcome.weights
        mean = prior_mean + weights.apply(model.b)
        prior_variance = cross.prior_variance()
        variance, at_rounding = _no_finer_than_rounding(
            prior_variance - weights.reduction,
            weights.absolute().apply(model.gram.diagonal().sqrt()) + cross.prior_scale(),
            outcome.iterations,
        )
        if not bool(torch.isfinite(variance).all()):
            raise DivergenceError(
                f"the weights of {model.recipe.solver!r} are no longer finite after {int(outcome.iterations.max())} "
                "iterations; ask for fewer, or use a method that converges"
            )
        if not keep:
            cross.forget()
        kept = weights if keep else None
        return cls(cross, kept, outcome.iterations, outcome.stopped, weights.passes, mean, variance, at_rounding)

    def numbers(self) -> dict[str, Any]:
        """What was found for each test point, on the CPU and without the weights: to be sent from elsewhere."""
        found = {name: getattr(self, name).cpu() for name in _PER_POINT}
        return {**found, "passes": self.passes}

    @classmethod
    def from_numbers(cls, cross: Cross, numbers: dict[str, Any]) -> Solved:
        """A batch that was solved elsewhere."""
        device = cross.gram.device
        found = {name: numbers[name].to(device) for name in _PER_POINT}
        return cls(cross, None, passes=numbers["passes"], **found)

    @classmethod
    def joined(cls, cross: Cross, parts: Sequence[Solved], rows: torch.Tensor | None = None) -> Solved:
        """Several batches as one, with ``cross`` for all their test points; ``rows`` (T,) says which these are."""
        found = {name: torch.cat([getattr(part, name) for part in parts]) for name in _PER_POINT}
        if rows is not None:
            back = torch.empty_like(rows).index_copy_(0, rows, torch.arange(len(rows))).to(cross.gram.device)
            found = {name: values[back] for name, values in found.items()}
        return cls(cross, None, passes=sum(part.passes for part in parts), **found)


_PER_POINT = ("iterations", "stopped", "mean", "variance", "at_rounding")


def _no_finer_than_rounding(
    variance: torch.Tensor, root: torch.Tensor, iterations: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The variances, and where they are below what this arithmetic can resolve and were replaced by that limit.

    C(W) is a sum of terms of at most (√k(x′, x′) + Σ |wᵢ| √Gᵢᵢ)² together, whose ``root`` (T,) is given, and each
    iteration adds to the sum, so rounding moves it by about eps times that for each. A variance below this is not known
    any better; reporting the limit instead makes the error bar wider, never wrong.
    """
    limit = 2 * torch.finfo(variance.dtype).eps * (1 + iterations) * root.square()
    # torch.maximum keeps NaN, so that a method that diverged is noticed
    return torch.maximum(variance, limit), variance < limit
