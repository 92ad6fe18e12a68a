"""The steps of ``cagp fit`` after its table is read: the prior to start from, the search, and what it found."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ..errors import InputError
from ..kernels import Kernel, Radial
from ..means import Mean
from ..prior import Prior
from ..support.interrupt import Interrupt
from ..support.validation import choice
from .option_checks import numbers_in, require_positive
from .shared import IN_OPTIONS, Voice
from .starting import Wishes, globe_of, kernel_called, kernel_to_start, mean_called, near_by, sample

if TYPE_CHECKING:
    from ..hyperparameters import FitResult
    from .training_data import Training

_LIKELIHOODS = ("auto", "exact", "nearest-neighbours")


@dataclass(frozen=True)
class PriorAsked:
    """The options that say what the prior is, as they were written."""

    kernel: str
    mean: str
    geo: str | None
    ard: bool
    lengthscale: str | None
    variance: float | None
    noise: float | None

    def __post_init__(self) -> None:
        _ = self._mean, self._kernel  # what cannot be read is refused at once
        require_positive({"--noise": self.noise, "--variance": self.variance}, self._scales or ())
        valued = self._scales is not None or self.variance is not None
        if self.written and (valued or (self.geo or "none").lower() != "none"):
            raise InputError(
                f"--kernel {self.kernel!r} has its values in it; leave out --geo, --lengthscale and --variance"
            )

    @cached_property
    def _mean(self) -> Mean:
        return mean_called(self.mean)

    @cached_property
    def _kernel(self) -> type[Radial] | Kernel:
        return kernel_called(self.kernel)

    @cached_property
    def _scales(self) -> tuple[float, ...] | None:
        return numbers_in(self.lengthscale)

    @property
    def written(self) -> bool:
        """Whether the kernel is an expression, which has its values in it."""
        return isinstance(self._kernel, Kernel)

    def globe_among(self, columns: list[str]) -> tuple[str, str] | None:
        """The columns that a written kernel takes for latitude and longitude."""
        return globe_of(self._kernel, columns) if isinstance(self._kernel, Kernel) else None

    def prior_for(self, training: Training) -> tuple[Prior, list[str]]:
        """The prior with starting values for these data, and the hyperparameters that must stay as they are."""
        wishes = Wishes(self._kernel, training.globe, self.ard, self._scales, self.variance)
        kernel, fixed = kernel_to_start(wishes, training.X, training.y, training.columns)
        noise: float | np.ndarray | None = self.noise if training.noise is None else training.noise
        if noise is None:
            noise = 0.1 * float(np.var(training.y)) or 1e-6
        return Prior(kernel, mean=self._mean, noise_variance=noise), list(fixed)

    def require_whole(self, training: Training) -> None:
        """Refuse ``--no-fit`` where the options cannot hold all hyperparameters."""
        if training.globe is not None and len(training.columns) > 2:
            raise InputError(
                "--no-fit takes the hyperparameters as given, and --lengthscale is that on the globe alone; write "
                "all of them as a kernel: "
                "--kernel 'Geographic(Matern32(300.0, 1.0), radius=6371.0).on(0, 1) * Matern32(2.0).on(2)'"
            )


@dataclass(frozen=True)
class Search:
    """The options that say how the hyperparameters are found."""

    likelihood: str
    subset: int | None
    restarts: int | None
    fix: list[str]
    seed: int

    def __post_init__(self) -> None:
        choice(self.likelihood, "--likelihood", _LIKELIHOODS)

    def run(self, prior: Prior, training: Training, fixed: list[str], voice: Voice) -> tuple[FitResult, bool]:
        """The fit, and whether Ctrl-C ended it early."""
        from .. import hyperparameters

        rows = None
        if self.likelihood != "nearest-neighbours" or self.subset is not None:
            rows = sample(near_by(prior.kernel, training.X), self.subset, self.seed)
        with Interrupt() as interrupt:
            size, kind = self._announced(len(training.y), rows, voice)
            result = hyperparameters.fit(
                prior,
                training.X,
                training.y,
                likelihood=kind,
                subset=rows,
                fix=[*fixed, *self.fix],
                n_restarts=(2 if size <= 500 else 0) if self.restarts is None else self.restarts,
                seed=self.seed,
                progress=voice.progress,
            )
        return result, interrupt.requested

    def _announced(self, n: int, rows: np.ndarray | None, voice: Voice) -> tuple[int, str]:
        """How many of n observations are fitted to, and by which likelihood; says so."""
        kind = "exact" if self.likelihood == "auto" else self.likelihood
        if rows is None:
            voice(f"Fitting the hyperparameters by the {kind} likelihood of all {n:,} observations.")
            return n, kind
        voice(
            f"Fitting the hyperparameters by the {kind} likelihood of {len(rows):,} of the {n:,} observations, half at "
            "random, half in patches; --subset takes more, --likelihood nearest-neighbours takes all."
        )
        return len(rows), kind


def printed(result: FitResult, columns: list[str], stopped: bool, voice: Voice) -> None:
    """Print what the search found, and what needs a look."""
    errors = result.standard_errors or {}
    owners = {f"kernel.lengthscale[{i}]": column for i, column in enumerate(columns)}
    rows = []
    for name, value in result.values.items():
        error = errors.get(name)
        rows.append((name, owners.get(name, ""), f"{value:.6g}", "" if error is None else f"± {error:.2g}"))
    voice.table(("hyperparameter", "of", "value", "standard error"), rows)
    voice(f"log p = {result.log_likelihood:.6g}. {result.story}")
    for advice in result.advice:
        if not (stopped and advice.kind == "not converged"):  # that it was interrupted is said at the end
            voice(f"Warning: {advice.worded(IN_OPTIONS)}")
