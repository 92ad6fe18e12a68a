"""Averages of f over many points, and other linear functionals of it, as exact about their own error as predictions.

A recalibration says how much larger errors are than promised at each point, s(x). How they go together is the prior's:
the covariance of averages with weights A becomes (A D) C (A D)ᵀ, D = diag(s). Their shape is taken as normal. On the
scale of observations that were transformed averages are not linear in f, and come from simulated fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
import torch

from .errors import InputError, InputTypeError
from .fields import Simulation, Simulator
from .gram import Functionals
from .kernels import embedding_size
from .posterior import Posterior, solve_each, stacked
from .predicting.bounds import ComputationalVariance
from .predicting.conditioned import Conditioned
from .predicting.distributions import NormalMixture, Sampled
from .predicting.memory_plan import MemoryPlan
from .predicting.status import joint_status
from .prediction import Guarantee, Prediction, checked_noise
from .support.convert import Output, array
from .support.positive_definite import joint_draws
from .support.validation import ArrayLike, as_float64, count

_AT_ONCE = 2**27  # bytes of fields that are simulated together
_LOOKED_AT = 1000  # points that ``Auto`` looks at where averages are asked for, or as many as there are averages

SCALED = Guarantee(
    "empirical",
    "The errors of the field are scaled at each point as left-out observations say; how errors at different points go "
    "together is taken from the prior.",
)


@dataclass(frozen=True, eq=False)
class Functional:
    """m functionals of T points: weights ``A`` (m, T), and the labels ``groups`` (m,) where they came from labels."""

    A: sp.csr_array
    groups: np.ndarray | None = None

    def __len__(self) -> int:
        return int(self.A.shape[0])

    def beside_scaled(self, scale: np.ndarray) -> sp.csr_array:
        """These functionals, then the same of a field ``scale`` (T,) times as large at each point: (2m, T)."""
        return sp.csr_array(sp.vstack([self.A, self.A * scale[None, :]]))

    @classmethod
    def of(cls, size: int, weights: ArrayLike | None = None, by: ArrayLike | None = None) -> Functional:
        """Those of ``size`` points T that ``weights`` and labels ``by`` (T,) describe; see ``Model.average``."""
        if by is not None:
            return cls._grouped(size, weights, by)
        if weights is None:
            return cls(sp.csr_array(np.full((1, size), 1.0 / size)))
        if sp.issparse(weights):
            A = sp.csr_array(weights, dtype=np.float64, copy=True)
            as_float64(A.data, "weights")
        else:
            dense = as_float64(weights, "weights").cpu().numpy()
            A = sp.csr_array(np.atleast_2d(dense)) if dense.ndim in (1, 2) else None
        if A is None or A.shape[1] != size or not A.shape[0]:
            raise InputError(
                f"weights has shape {tuple(np.shape(weights))} for {size} points; give one row of {size} weights for "
                "each average, shape (m, T), or (T,) for one"
            )
        A.sum_duplicates()
        A.eliminate_zeros()
        empty = np.flatnonzero(np.diff(A.indptr) == 0)
        if len(empty):
            raise InputError(f"weights: row {int(empty[0])} has no weight but zero, so there is nothing to average")
        return cls(A)

    @classmethod
    def _grouped(cls, size: int, weights: ArrayLike | None, by: ArrayLike) -> Functional:
        """The mean of each group, with weights that are normalised within it."""
        labels = _labels(by, size)
        groups, group = np.unique(labels, return_inverse=True)
        values = np.ones(size)
        if weights is not None:
            if sp.issparse(weights):
                raise InputTypeError("weights must be one number for each point beside by, got a sparse matrix")
            values = as_float64(weights, "weights").cpu().numpy()
            if values.shape != (size,):
                raise InputError(
                    f"weights has shape {values.shape} for {size} points; beside by it is one for each point"
                )
            if (values < 0).any():
                raise InputError(
                    f"weights must not be negative beside by, got {values.min():g}: they are divided by their sum in "
                    "each group; for differences give the rows of weights themselves, without by"
                )
        total = np.bincount(group.ravel(), values, len(groups))
        if (total == 0).any():
            raise InputError(f"weights: those of the group {groups[int(total.argmin())]!r} are all zero; leave it out")
        A = sp.csr_array((values / total[group.ravel()], (group.ravel(), np.arange(size))), shape=(len(groups), size))
        A.eliminate_zeros()
        return cls(A, groups)


def _labels(by: Any, size: int) -> np.ndarray:
    """Labels (T,) that can be told apart and sorted."""
    try:
        labels = np.asarray(by.cpu() if hasattr(by, "cpu") else by)
    except ValueError as error:
        raise InputTypeError(f"by must hold one label for each point: {error}") from error
    if labels.shape != (size,):
        raise InputError(f"by has shape {labels.shape} for {size} points; give one label for each point")
    missing = np.isnat(labels) if labels.dtype.kind in "mM" else np.isnan(labels) if labels.dtype.kind == "f" else False
    if np.any(missing):
        raise InputError(f"by has {int(np.sum(missing))} labels that are missing (NaN or NaT); leave those points out")
    if labels.dtype.kind == "O":
        if not all(isinstance(label, str) for label in labels):
            raise InputTypeError("by must hold labels of one kind: numbers, or texts without missing ones")
        labels = labels.astype(str)
    return labels


class FunctionalPosterior(Posterior):
    """The belief of one prior about functionals of f."""

    def latent_covariance(self) -> torch.Tensor:
        cross, weights = self._single()
        if isinstance(cross, Functionals) and weights.is_sparse:
            W = weights.sparse()
            MemoryPlan([self._component]).require_averages(cross.A.shape[0], embedding_size(cross.points.test), W.nnz)
            C = cross.error_covariance(W)
            C.diagonal().copy_(self._variances[0])
            return C
        return super().latent_covariance()


class Average(Prediction):
    """A joint prediction of m averages over test points; made by ``Model.average``.

    ``mean``, ``variance`` and ``std`` have shape (m,). ``groups`` are their labels (m,), sorted, where they came from
    labels. ``weights`` (d, m) are those of the observations, where the model has one component and no transform.
    """

    _wanted: Functional

    def __repr__(self) -> str:
        what = ", observations" if self.includes_noise else ""
        return f"Average({len(self)} averages of {self._wanted.A.shape[1]} points{what}, {self.status.reason})"

    @property
    def groups(self) -> np.ndarray | None:
        return self._wanted.groups

    def exceedance(self, threshold: ArrayLike) -> Any:
        """The probability of more than ``threshold``, one number or one each (m,); shape (m,). Not if recalibrated."""
        require_probabilities(self.guarantee == SCALED)
        return super().exceedance(threshold)


def require_probabilities(scaled: bool) -> None:
    """Refuse to say how probable an average is where left-out errors have ``scaled`` its error bar: those of points."""
    if scaled:
        raise InputError(
            "the probability that an average exceeds a threshold is not known for a recalibrated model: left-out "
            "observations say how large errors at points are, not how they go together; under the prior it is "
            "model.replace(margins=None).average(...).exceedance(...), or fit with recalibrate=False (--no-recalibrate)"
        )


class LinearAverage(Average):
    """Averages of f, in closed form."""

    def __init__(
        self,
        parts: Sequence[FunctionalPosterior],
        weights: np.ndarray,
        wanted: Functional,
        new_noise: Sequence[Any],
        guarantee: Guarantee,
        convert: Output,
        scale: np.ndarray | None = None,
    ) -> None:
        """From the ``parts`` and the ``new_noise`` of all components; with a ``scale`` (T,), see ``beside_scaled``."""
        m, (means, variances) = len(wanted), stacked(parts)
        if scale is not None:
            share = torch.from_numpy(weights).to(means.device)
            means = share @ means[:, :m] + means[:, m:] - share @ means[:, m:]
            variances = variances[:, m:]
        super().__init__(
            means,
            variances,
            weights,
            new_noise=None,
            status=joint_status([part.status for part in parts]),
            guarantee=guarantee if scale is None else SCALED,
            convert=convert,
            components=parts,
        )
        self._wanted, self._noises = wanted, new_noise
        self._A = wanted.A if scale is None else sp.csr_array(wanted.A * scale[None, :])
        self._own = slice(None) if scale is None else slice(m, None)
        self._dtype = parts[0]._dtype if self.is_normal and scale is None else torch.float64
        self._shared: list[torch.Tensor] | None = None

    def observed(self, noise_variance: Any = None) -> Self:
        """The belief about averages of new observations, one at each point: noise of variance A Σ Aᵀ is added.

        ``noise_variance`` is one number or one per point (T,); by default the prior's, where that is known.
        """
        points, totals = self._A.shape[1], []
        for own in self._noises:
            each = checked_noise(own, noise_variance, points, "point").cpu().numpy()
            total = self._A * np.broadcast_to(each, points)[None, :] @ self._A.T
            totals.append(torch.from_numpy(total.toarray()).to(self._means))
        result = self._with_noise(torch.stack([total.diagonal() for total in totals]))
        result._shared = totals
        return result

    def _part_covariance(self, i: int) -> torch.Tensor:
        C = self._components[i].latent_covariance().double()[self._own, self._own]
        return C if self._shared is None else C + self._shared[i]

    def covariance(self) -> Any:
        """The covariance between the errors of the averages, shape (m, m)."""
        total = torch.zeros(len(self), len(self), dtype=torch.float64, device=self._means.device)
        for i, weight in enumerate(self.component_weights):
            away = self._means[i] - self.mixture.mean
            total += float(weight) * (self._part_covariance(i) + torch.outer(away, away))
        return self._out(total)

    @property
    def factor(self) -> Any:
        """How much wider or narrower than under the prior the averages are: the ratio of their std, shape (m,)."""
        means, variances = (each[:, : len(self)] for each in stacked(self._components))
        return self._out(self.mixture.std / NormalMixture(means, variances, self.mixture.weights).std)

    def sample(self, n: int = 1, seed: int = 0) -> Any:
        """``n`` joint draws of the averages, shape (n, m). The same ``seed`` gives the same draws."""
        count(n, "n", minimum=1)
        remedy = "leave out averages that follow from others, or condition with a larger noise_variance"
        chosen = np.random.default_rng(count(seed, "seed")).choice(len(self._means), n, p=self.component_weights)
        draws = self._means.new_empty(n, len(self))
        for i in np.unique(chosen).tolist():
            rows, part = np.flatnonzero(chosen == i), self._components[i]
            assert isinstance(part, FunctionalPosterior)
            what, C = "the covariance of the averages", self._part_covariance(i)
            draws[rows] = joint_draws(self._means[i], C, len(rows), seed + i, what, remedy, part._prior_scale)
        return self._out(draws)

    @property
    def bounds(self) -> ComputationalVariance:
        return super().bounds.map(lambda bound: bound[self._own])

    @property
    def iterations_tensor(self) -> torch.Tensor:
        return super().iterations_tensor[self._own]


class SimulatedAverage(Average):
    """Averages on the scale of the observations, where these were transformed: from simulated fields.

    ``mean`` is the average of the means at the points, which needs no simulation. All else is that of the draws (n, m)
    that n fields give: ``simulation_error`` (m,) is the standard error of ``std`` for being simulated, and that of a
    probability p is √(p (1 − p) / n).
    """

    def __init__(
        self, simulator: Simulator, wanted: Functional, n: int, seed: int, promised: dict[str, Any], **draw: Any
    ) -> None:
        """From n fields of a ``simulator``, each as ``draw`` says; ``promised`` is the guarantee, and ``convert``."""
        self._simulator, self._wanted, self._seed, self._promised, self._how = simulator, wanted, seed, promised, draw
        self._draws, self._counted, drawn = self._averaged(n, seed)
        mean = torch.from_numpy(wanted.A @ array(drawn.prediction.mean))
        squares = (self._counted - mean).square()
        variance = squares.mean(dim=0)
        self._error = squares.std(dim=0) / (2 * (n * variance).sqrt())
        many = "1 average" if len(wanted) == 1 else f"{len(wanted):,} averages"
        status = drawn.status.noting(
            f" {many} of {wanted.A.shape[1]:,} points in {n:,} simulated fields, {drawn.how}. Standard errors of the "
            f"simulation: {float((self._error / variance.sqrt()).max()):.1%} of the std at most, and "
            f"{0.5 / n**0.5:.1%} at most for a probability."
        )
        own: Any = {"status": status, "margins": lambda base: Sampled(self._draws, base.mean, base.std), **promised}
        super().__init__(mean[None], variance[None], new_noise=None, **own)
        self.includes_noise = drawn.prediction.includes_noise

    def _averaged(self, n: int, seed: int) -> tuple[torch.Tensor, torch.Tensor, Simulation]:
        """The averages of n fields, and as mean and std count them, (n, m) each; and the last fields."""
        step, parts = max(1, _AT_ONCE // (8 * len(self._simulator))), []
        for first in range(0, n, step):
            drawn = self._simulator.draw(min(step, n - first), seed, first=first, **self._how)
            fields = torch.from_numpy(array(drawn.fields))
            both = (fields, drawn.prediction.counted(fields))
            parts.append([torch.from_numpy((self._wanted.A @ each.cpu().numpy().T).T) for each in both])
        draws, counted = (torch.cat(each) for each in zip(*parts, strict=True))
        return draws, counted, drawn

    @property
    def simulation_error(self) -> Any:
        """The standard error of ``std`` for being simulated, shape (m,)."""
        return self._out(self._error)

    def observed(self, noise_variance: Any = None) -> Self:
        """The averages of new observations, one at each point: the same fields with noise, transformed.

        ``noise_variance`` is one number or one per point (T,), on the scale that was modelled; by default the prior's.
        """
        draw = {**self._how, "observed": True, "noise_variance": noise_variance}
        return type(self)(self._simulator, self._wanted, len(self._draws), self._seed, self._promised, **draw)

    def cdf(self, values: ArrayLike) -> Any:
        """The share of the fields whose averages are at most ``values`` (m,), shape (m,)."""
        return self._share(super().cdf(values))

    def exceedance(self, threshold: ArrayLike) -> Any:
        """The share of the fields whose averages are more than ``threshold``, one number or one each, (m,)."""
        return self._share(super().exceedance(threshold))

    def _share(self, probability: Any) -> Any:
        """A probability (m,) that came by way of normal scores, without their rounding."""
        return (probability * len(self._draws)).round() / len(self._draws)

    def covariance(self) -> Any:
        """The covariance between the errors of the averages in the simulated fields, shape (m, m)."""
        away = self._counted - self._means[0]
        return self._out(away.T @ away / len(away))

    def sample(self, n: int = 1, seed: int = 0) -> Any:
        """``n`` joint draws of the averages, shape (n, m): those of the fields of that ``seed``."""
        return self._out(self._averaged(count(n, "n", minimum=1), count(seed, "seed"))[0])

    @property
    def factor(self) -> Any:
        self._require_components("factor")

    def log_density(self, values: ArrayLike) -> Any:
        self._require_components("log_density")

    def _require_components(self, what: str) -> None:
        raise InputError(
            f"{what} is not known of averages of simulated fields; that of averages on the scale that was modelled is: "
            "model.replace(transform=None).average(...)"
        )


def solve_functionals(
    components: Sequence[Conditioned], test: torch.Tensor, A: sp.csr_array, convert: Output, **settings: Any
) -> list[FunctionalPosterior]:
    """The posteriors of functionals ``A`` (m, T) of f at test points (T, p); ``settings`` as for ``solve_each``."""
    m, seen, offsets, looked_at = A.shape[0], [], [], test
    if len(test) > (most := max(m, _LOOKED_AT)):
        some = torch.randperm(len(test), generator=torch.Generator().manual_seed(0))[:most].sort().values
        looked_at = test[some.to(test.device)]
    for each in components:
        component, _, expected = each.ready_for(looked_at)
        seen.append((component, Functionals(component.cross(test), A), expected))
        offset = torch.from_numpy(A @ component.offset(test).double().cpu().numpy())
        offsets.append(offset.to(component.gram.noise))
    many = f" {m} averages of {len(test):,} points." if m > 1 else f" One average of {len(test):,} points."
    return [
        FunctionalPosterior(component, solved, convert, status.noting(many), test)
        for component, solved, status in solve_each(seen, offsets, **settings)
    ]
