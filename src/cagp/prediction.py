"""What a model predicts at test points: a distribution for each of them, and when its error bars hold."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
import torch

from .errors import InputError
from .predicting.bounds import ComputationalVariance, joined_bounds
from .predicting.distributions import Distribution, NormalMixture, Transformed
from .predicting.status import Status
from .solvers import Solver
from .support.convert import Output
from .support.threads import threads_for
from .support.validation import ArrayLike, as_float64, count, fraction
from .transforms import Transform

_EACH = 1000  # operations for a value of a distribution, about

Reshape = Callable[[Distribution], Distribution]  # to the shape that left-out errors taught, from that of the prior


@dataclass(frozen=True)
class Guarantee:
    """When the error bars hold: ``kind`` in a few words for programs, ``sentence`` for people."""

    kind: Literal["under the prior", "none", "empirical", "marginal, distribution-free"]
    sentence: str

    def __str__(self) -> str:
        return self.sentence


UNDER_THE_PRIOR = Guarantee(
    "under the prior",
    "The error bars are exactly right if the data follow the prior: they say nothing about a prior that does not fit.",
)


def guarantee_of(solver: Solver, components: int = 1, outliers: int = 0, learned: bool = False) -> Guarantee:
    """When error bars hold that are made with the weights of a solver, for a mixture of so many priors.

    So many ``outliers`` have a noise that was chosen for what was observed; ``learned`` says that a trend was.
    """
    if not solver.calibrated:
        sentence = "The solver takes its directions from y, so its error bars are not calibrated, even under the prior."
        return Guarantee("none", sentence)
    sentence = UNDER_THE_PRIOR.sentence
    if components > 1:
        sentence = (
            f"The error bars are right if the data follow one of {components} priors, as likely as their weights."
        )
    if learned:
        sentence = (
            "The error bars are those of the prior around a trend that was learned from the observations, which no "
            "prior accounts for: how far it may be wrong is known from observations that it has not seen."
        )
    if outliers:
        which = "one observation is an outlier" if outliers == 1 else f"{outliers:,} observations are outliers"
        sentence += f" The prior says that {which}, with more noise, because of what was observed there."
    return Guarantee("empirical" if learned else "under the prior", sentence)


class Prediction:
    """Distributions at T test points; made by ``Model.predict``. Arrays come out as the test points came in.

    ``mean``, ``variance`` and ``std`` have shape (T,) and are about f, as are ``interval`` and ``quantile``;
    ``observed()`` is about new observations y, noise included. ``status`` says how it was computed, ``guarantee`` when
    the error bars hold. ``components`` are the posteriors of the single priors, with ``component_weights`` (m,); a
    prediction whose numbers alone were kept has none.
    """

    def __init__(
        self,
        means: torch.Tensor,
        variances: torch.Tensor,
        weights: ArrayLike = (1.0,),
        *,
        new_noise: torch.Tensor | float | None,
        status: Status,
        guarantee: Guarantee,
        convert: Output,
        margins: Reshape | None = None,
        transform: Transform | None = None,
        reach: tuple[float, float] | None = None,
        components: Sequence[Prediction] = (),
    ) -> None:
        """From ``means`` and ``variances`` (m, T) of f and the ``weights`` (m,) of m components.

        ``new_noise`` is the noise variance that ``observed`` adds by default, one number, (m, 1) or (m, T), where it is
        known. ``reach`` is how far the mean of a transform looks.
        """
        self._means, self._variances = means.detach().double(), variances.detach().double()
        self.component_weights = np.asarray(weights, dtype=np.float64)
        self._new_noise, self._noise = new_noise, torch.zeros((), dtype=torch.float64, device=means.device)
        self._margins, self._transform, self._reach = margins, transform, reach
        self._components, self._convert = tuple(components), convert
        self._dtype: torch.dtype = components[0]._dtype if components and transform is None else torch.float64
        self.status, self.guarantee, self.includes_noise = status, guarantee, False

    def __repr__(self) -> str:
        what = ", observations" if self.includes_noise else ""
        mixture = f" of {len(self._means)} components" if len(self._means) > 1 else ""
        return f"{type(self).__name__}({len(self)} test points{mixture}{what}, {self.status.reason})"

    def __len__(self) -> int:
        """How many test points there are."""
        return self._means.shape[1]

    @property
    def components(self) -> tuple[Prediction, ...]:
        """The posteriors of the single priors, of f, on the scale that was modelled."""
        return self._components

    @property
    def is_normal(self) -> bool:
        """Whether each distribution is a normal one: of one component, as it is under its prior."""
        return len(self._means) == 1 and self._margins is None and self._transform is None

    @cached_property
    def mixture(self) -> NormalMixture:
        """What the components say together, on the scale that was modelled, without margins."""
        weights = torch.from_numpy(self.component_weights).to(self._means.device)
        return NormalMixture(self._means, self._variances + self._noise, weights)

    @cached_property
    def _modelled(self) -> Distribution:
        """On the scale that was modelled."""
        return self.mixture if self._margins is None else self._margins(self.mixture)

    @cached_property
    def _distribution(self) -> Distribution:
        return self._modelled if self._transform is None else Transformed(self._modelled, self._transform, self._reach)

    def out(self, tensor: torch.Tensor) -> Any:
        """A result as the test points came in."""
        return self._convert(tensor)

    def _out(self, tensor: torch.Tensor) -> Any:
        return self._each(tensor.to(self._dtype))

    def _each(self, tensor: torch.Tensor) -> Any:
        """Numbers for each of the distributions, (T,) or (T, n), as they go out."""
        return self._convert(tensor)

    @property
    def modelled(self) -> tuple[torch.Tensor, torch.Tensor]:
        """On the scale that was modelled, each (T,): the variance without margins, and how much wider these make it."""
        return self.mixture.variances[0] if len(self._means) == 1 else self.mixture.std.square(), self._scale

    # --- moments --------------------------------------------------------------------------------------------------

    @property
    def mean(self) -> Any:
        """The predicted values, shape (T,)."""
        return self._out(self._distribution.mean)

    @property
    def variance(self) -> Any:
        """The square of ``std``, shape (T,): mathematical and computational variance together."""
        return self._out(self.mixture.variances[0] if self.is_normal else self._distribution.std.square())

    @property
    def std(self) -> Any:
        """The standard deviation of the error, shape (T,)."""
        return self._out(self._distribution.std)

    @property
    def factor(self) -> Any:
        """How much wider than under the prior the error bars are: the ratio of the std, (T,), on the scale modelled."""
        return self._out(self._scale)

    @property
    def _scale(self) -> torch.Tensor:
        under_prior = self.mixture.std
        # what is known for certain, as a function that begins at zero there, stays so
        return torch.where(under_prior > 0, self._modelled.std / under_prior, 1.0)

    def covariance(self) -> Any:
        """The covariance of the errors at all test points, shape (T, T); a recalibration scales that of the prior."""
        if self._transform is not None:
            raise InputError(
                "a covariance does not describe transformed predictions, which are not normal; draw with sample(n), or "
                "fit without a transform"
            )
        C = self.latent_covariance().double()
        C.diagonal().add_(self.component_noise.T @ self.mixture.weights)
        return self._out(C * self._scale * self._scale[:, None])

    def latent_covariance(self) -> torch.Tensor:
        """The covariance of f on the scale that was modelled, without margins, shape (T, T)."""
        self._require_components("covariance")
        total = torch.zeros(len(self), len(self), dtype=torch.float64, device=self._means.device)
        mean = self.mixture.mean
        for weight, part, own in zip(self.component_weights, self.components, self._means, strict=True):
            total += float(weight) * (part.latent_covariance().double() + torch.outer(own - mean, own - mean))
        return total

    def _require_components(self, what: str) -> None:
        if not self.components:
            raise InputError(f"{what} needs the weights of the prediction, which were not kept; predict again")

    # --- distributions --------------------------------------------------------------------------------------------

    def observed(self, noise_variance: Any = None) -> Self:
        """The prediction of observations y at the test points: the noise variance is added.

        ``noise_variance`` is one number or (T,), on the scale that was modelled; by default the prior's, where known.
        """
        return self._with_noise(checked_noise(self._new_noise, noise_variance, len(self)).to(self._means.device))

    def _with_noise(self, noise: torch.Tensor) -> Self:
        """The same with noise of that variance, one number, (T,), (m, 1) or (m, T)."""
        return self._changed(_noise=noise, includes_noise=True)

    def carried_back(self, transform: Transform | None, reach: tuple[float, float] | None = None) -> Self:
        """The same, made on the scale of a ``transform``, about what that is of; its mean looks as far as ``reach``."""
        return self if transform is None else self._changed(_transform=transform, _reach=reach, _dtype=torch.float64)

    def _changed(self, **parts: Any) -> Self:
        result = copy.copy(self)
        for name in ("mixture", "_modelled", "_distribution"):
            result.__dict__.pop(name, None)
        result.__dict__.update(parts)
        return result

    def quantile(self, p: ArrayLike) -> Any:
        """The quantiles of probability ``p``, between 0 and 1: shape (T,) for one number, (T, n) for n of them."""
        chosen = probabilities(p, self._means.device)
        with threads_for(_EACH * self._means.numel() * chosen.numel()):
            found = self._distribution.quantiles(chosen.reshape(-1))
        return self._out(found.T.contiguous() if chosen.ndim else found[0])

    @property
    def median(self) -> Any:
        """The median, shape (T,)."""
        return self.quantile(0.5)

    def interval(self, level: float = 0.95) -> tuple[Any, Any]:
        """The central interval that holds f with probability ``level``: (lower, upper), each (T,).

        Those of new observations, which are wider, are ``observed().interval(level)``.
        """
        level = fraction(level, "level")
        ends = torch.tensor([(1 - level) / 2, (1 + level) / 2], dtype=torch.float64, device=self._means.device)
        with threads_for(_EACH * self._means.numel() * 2):
            lower, upper = self._distribution.quantiles(ends)
        return self._out(lower), self._out(upper)

    def cdf(self, values: ArrayLike) -> Any:
        """The probability of at most ``values`` (T,), one at each test point; shape (T,)."""
        return self._each(torch.special.ndtr(self._scores(values)[0]))

    def exceedance(self, threshold: ArrayLike) -> Any:
        """The probability of more than ``threshold``, one number or one at each test point (T,); shape (T,).

        It is about f; that of new observations, which vary more, is ``observed().exceedance(threshold)``.
        """
        scores = self._scores(threshold, "threshold")[0]
        return self._each(0.5 * torch.special.erfc(scores / 2**0.5))  # all digits, also far out

    def normal_score(self, values: ArrayLike) -> Any:
        """Φ⁻¹ of ``cdf`` at ``values`` (T,), shape (T,), also far out: (values − mean) / std of a normal one."""
        return self._each(self._scores(values)[0])

    def values(self, scores: ArrayLike) -> Any:
        """The values with normal ``scores`` (n,), of which ``normal_score`` is the inverse; shape (T, n).

        They are quantiles, of split conformal predictions too, whose own quantiles are rounded to what was observed.
        """
        given = as_float64(scores, "scores", self._means.device)
        if given.ndim != 1:
            raise InputError(f"scores must be a list of normal scores, got shape {tuple(given.shape)}")
        with threads_for(_EACH * self._means.numel() * len(given)):
            found = self._distribution.values(given[:, None].expand(-1, self._means.shape[1]))
        return self._out(found.T.contiguous())

    def log_density(self, values: ArrayLike) -> Any:
        """The log density at ``values`` (T,), one at each test point; shape (T,); −∞ where no observation can be."""
        return self._each(self._scores(values)[1])

    def _scores(self, values: ArrayLike, name: str = "values") -> tuple[torch.Tensor, torch.Tensor]:
        size = self._means.shape[1]
        given = as_float64(values, name, self._means.device)
        if given.ndim and given.shape != (size,):
            raise InputError(f"{name} has shape {tuple(given.shape)} for {size} test points; give one for each, or one")
        with threads_for(_EACH * self._means.numel()):
            scores, log_densities = self._distribution.scores(given.expand(1, size))
        return scores[0], log_densities[0]

    # --- draws, and what the computation left undone ----------------------------------------------------------------

    def sample(self, n: int = 1, seed: int = 0) -> Any:
        """``n`` joint draws, shape (n, T), each of one component, by its weight; the same for the same ``seed``."""
        count(n, "n", minimum=1)
        self._require_components("sample")
        chosen = np.random.default_rng(count(seed, "seed")).choice(len(self._means), n, p=self.component_weights)
        draws = self._means.new_empty(n, len(self))
        for i, part in enumerate(self.components):
            rows = np.flatnonzero(chosen == i)
            if len(rows):
                whole = part._with_noise(self.component_noise[i]) if self.includes_noise else part
                draws[rows] = as_float64(whole.sample(len(rows), seed + i), "sample").to(draws)
        return self.shaped(draws)

    def shaped(self, draws: torch.Tensor) -> Any:
        """Joint draws (n, T) of components as draws of this prediction: with its margins, on its scale."""
        return self._convert(self._distribution.drawn(draws))

    def counted(self, draws: torch.Tensor) -> torch.Tensor:
        """Joint draws (n, T) of this prediction as its ``mean`` and ``std`` count them, with the ``reach``."""
        return self._distribution.counted(draws.to(self._means.device))

    @property
    def component_noise(self) -> torch.Tensor:
        """The variance of the noise that ``observed`` has added for each component, shape (m, T)."""
        return self._noise.expand(len(self._means), len(self))

    @property
    def computational_variance(self) -> ComputationalVariance:
        """How much of the variance more computation would remove: lower bound, estimate, upper bound, each (T,)."""
        if self._transform is not None:
            raise InputError(
                "the computational variance is known on the scale that was modelled, not after a transform: "
                "prediction.components[0].computational_variance"
            )
        return self.bounds.map(lambda bound: self._out(bound * self._scale.square()))

    @property
    def bounds(self) -> ComputationalVariance:
        """Bounds on the computational variance of f on the scale that was modelled, without margins, as tensors."""
        self._require_components("computational_variance")
        return joined_bounds(
            [part.bounds for part in self.components], lambda each: self.mixture.weights @ torch.stack(each).double()
        )

    @property
    def iterations(self) -> Any:
        """How many iterations each test point got, in every component at least, shape (T,)."""
        return self._each(self.iterations_tensor)

    @property
    def iterations_tensor(self) -> torch.Tensor:
        self._require_components("iterations")
        return torch.stack([part.iterations_tensor for part in self.components]).amin(dim=0)

    @property
    def passes(self) -> float:
        """How often the whole Gram matrix of a component was read, in all of them together."""
        self._require_components("passes")
        return sum(part.passes for part in self.components)

    @property
    def weights(self) -> Any:
        """The kriging weights W, shape (d, T), rows in the order of the training points."""
        self._require_components("weights")
        if len(self.components) == 1:
            return self.components[0].weights
        raise InputError(
            f"each of {len(self._means)} components has kriging weights of its own: prediction.components[0].weights"
        )


def checked_noise(new_noise: Any, noise_variance: Any, size: int, points: str = "test point") -> torch.Tensor:
    """The noise variance of new observations at ``size`` points: as it is given, one number or one each, or known."""
    noise = new_noise if noise_variance is None else noise_variance
    if noise is None:
        raise InputError(
            "the noise of the training observations, one variance each, says nothing about new ones: give "
            f"noise_variance=... with one number or one per {points}"
        )
    tensor = as_float64(noise, "noise_variance")
    if noise_variance is not None and tensor.ndim and tensor.shape != (size,):
        raise InputError(
            f"noise_variance has shape {tuple(tensor.shape)} for {size} {points}s; give one number, or one per {points}"
        )
    if bool((tensor < 0).any()):
        raise InputError(f"noise_variance must not be negative, got {float(tensor.min()):g}")
    return tensor


def probabilities(p: ArrayLike, device: torch.device) -> torch.Tensor:
    """Probabilities as one number or (n,), strictly between 0 and 1, in float64."""
    tensor = as_float64(p, "p", device)
    if tensor.ndim > 1:
        raise InputError(f"p must be one probability or a list of them, got shape {tuple(tensor.shape)}")
    if not bool(((tensor > 0) & (tensor < 1)).all()):
        raise InputError(f"p must lie strictly between 0 and 1, got {p!r}; for the 95% quantile write 0.95")
    return tensor
