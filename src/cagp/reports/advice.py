"""What to do about error bars that are not right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..solvers import Solver
from .diagnosis import Diagnosis
from .numbers import number

if TYPE_CHECKING:
    from ..model import Model


def for_data(diagnosis: Diagnosis, model: Model) -> list[str]:
    """What to do where the model does not fit the data, or may not, most likely remedy first."""
    said = []
    if diagnosis.suspicious:
        said.append(
            "Check with more rows: of models that are right, about one in twenty looks like this by chance. If more "
            "rows confirm it, what follows is the most likely remedy."
        )
    for failure in (*diagnosis.failures, *diagnosis.signs):
        said += _REMEDIES[failure]
    if "too narrow" in diagnosis.failures:
        said.append(
            f"Until then, multiply the standard deviations by {number(diagnosis.spread, 2)} to get error bars that "
            "are about right on average."
        )
    if "too wide" in diagnosis.failures and not model.solver.calibrated:
        said.insert(0, _uncalibrated(model.solver))
    return said


_REMEDIES = {
    "too narrow": [
        "Fit the hyperparameters again with the noise free (not fix_noise), on more data, or with more restarts: too "
        "small a noise_variance or too long a lengthscale makes error bars too narrow.",
        "Try a rougher kernel (Matern32 or Matern12 instead of RBF) or one lengthscale per column.",
        "Look for structure that the kernel does not have: a missing input, a trend, noise that changes from place to "
        "place (noise_variance may be one number per observation).",
    ],
    "too wide": [
        "Fit the hyperparameters again: a noise_variance that is too large or a lengthscale that is too short makes "
        "error bars too wide.",
        "If the solver has not converged, part of the width is computational: the report of the fit says how much, "
        "and more iterations remove it.",
    ],
    "biased": [
        "Give the prior a mean: Constant(), or Polynomial for a trend, fitted with refit_mean=True.",
        "Check that the held-out data come from the same place, time and instrument as the training data.",
    ],
    "heavy tails": [
        "Look at the observations with the largest |z|: outliers, typing errors, a second regime.",
        "If they are genuine, predict a transformed target (its logarithm, for counts its square root), or give each "
        "observation its own noise variance.",
        "Intervals of moderate level are then more trustworthy than those of 99%.",
    ],
    "wrong shape": [
        "Compare the histogram of z with the normal curve: two humps are two regimes, a slope is a skewed target.",
        "A transformed target (its logarithm or square root) often has errors of a more normal shape.",
    ],
}


def for_method(diagnosis: Diagnosis, solver: Solver) -> list[str]:
    """What to do where the method is not calibrated under its own prior, or may not be."""
    if diagnosis.right and not diagnosis.suspicious:
        return []
    if not solver.calibrated:
        return [_uncalibrated(solver)]
    if diagnosis.suspicious:
        return [
            "Check again with another seed: of methods that are right, about one in twenty looks like this by chance. "
            f"{type(solver).__name__} should be calibrated by construction."
        ]
    return [
        f"{type(solver).__name__} should be calibrated by construction. If it is your own solver, its weights depend "
        "on y or it misreports its variances; if it is one of cagp's, this is a bug worth reporting.",
    ]


def _uncalibrated(solver: Solver) -> str:
    return (
        f"{type(solver).__name__} takes its directions from y, so its error bars are not calibrated, usually too wide. "
        "CalibratedCG or GaussSeidel cost about the same and are."
    )
