"""The prior of the ERA5 studies: Matérn 3/2 in chordal distance, a constant or quadratic mean, in kelvin."""

from __future__ import annotations

from dataclasses import dataclass

from ..kernels import Geographic, Matern32
from ..means import Constant, Mean, Polynomial
from ..prior import Prior

MEANS: dict[str, Mean] = {"constant": Constant(), "detrended": Polynomial(degree=2, columns=(0,))}
"""The paper's two prior means: the average of the training data, and a quadratic polynomial of latitude fitted to
them by least squares (the supplement's "detrended data")."""

IN_WORDS = {"constant": "constant mean", "detrended": "quadratic mean in latitude"}


@dataclass(frozen=True)
class Era5Prior:
    """``mean`` is a key of ``MEANS``; ``amplitude`` and ``noise_std`` in kelvin, ``lengthscale`` in Earth radii."""

    mean: str
    amplitude: float
    lengthscale: float
    noise_std: float

    def prior(self) -> Prior:
        """The prior, its mean still to be filled in from the data."""
        kernel = Geographic(Matern32(self.lengthscale, self.amplitude**2))
        return Prior(kernel, mean=MEANS[self.mean], noise_variance=self.noise_std**2)


KNOWN = Era5Prior("constant", amplitude=11.1, lengthscale=0.174, noise_std=1.17)
"""Maximum likelihood on the 72 × 144 grid with the constant mean, from an independent fit, to three digits."""

KNOWN_NEGATIVE_LOG_LIKELIHOOD = 2.183
"""−log p / n at that maximum."""
