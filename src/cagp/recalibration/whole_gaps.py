"""Whole gaps, left out at other places: how much their coverage differs, and whether a recalibration mends it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import ndtri

from ..calibration.scores import each_crps
from ..left_out import Gaps, LeftOut, Mixture, leave_out_gaps
from ..predicting.conditioned import Conditioned
from ..prediction import Prediction
from .learning import as_new, usual
from .margins import Margins
from .recalibrated import Recalibration

_CLEARLY = 2.0  # standard errors, which know that errors in a gap go together
_LEVEL = 0.95


@dataclass(frozen=True, eq=False)
class WholeGaps:
    """What was observed in whole gaps, ``found`` (n,), left out together and predicted by a ``component``; and which of
    the ``gaps`` each is from.
    """

    found: LeftOut
    gaps: Gaps
    component: Conditioned

    @classmethod
    def like(cls, mixture: Mixture, test: torch.Tensor, seed: int) -> WholeGaps | None:
        """Gaps like those of points ``test`` (T, p); None where most lie alone, or where there are none elsewhere."""
        left_out = leave_out_gaps(mixture, test, seed)
        if left_out is None:
            return None
        found, gaps = as_new(left_out[0], mixture), left_out[1]
        kept = usual(found, mixture)
        return cls(found.some(kept), gaps.some(kept), mixture.components[0])

    def predicted(self, margins: Margins | None) -> Prediction:
        """With the error bars that ``margins`` make, if they are a recalibration."""
        if not isinstance(margins, Recalibration):
            return self.found.reshaped(None)
        X, distance = (torch.from_numpy(each).to(self.component.device) for each in (self.found.X, self.found.distance))
        return self.found.reshaped(margins.around(self.component).adjustment(X, distance).reshape)

    def scores(self, margins: Margins | None) -> tuple[np.ndarray, Gaps]:
        """The normal scores (n,) of what was observed, and the gaps."""
        return np.asarray(self.predicted(margins).normal_score(self.found.y)), self.gaps

    def no_better(self, learned: Recalibration) -> str:
        """Why what was ``learned`` about error bars is of no use in gaps; "" where it is, or where gaps are few.

        Single observations, or those that stand in for points alone, count as more than they are: what they teach about
        the error bars in gaps may be chance, or hold in few of the gaps.
        """
        if self.gaps.few:
            return ""
        both = [self.predicted(margins) for margins in (None, learned)]
        before, after = (each_crps(each, self.found.y) for each in both)
        inside = [np.abs(np.asarray(each.normal_score(self.found.y))) <= ndtri((1 + _LEVEL) / 2) for each in both]
        better = self._clearly(before - after)
        short = self._clearly(_LEVEL - inside[0]) and inside[1].mean() > inside[0].mean()
        if better or short:
            return ""
        digits = 4 if f"{after.mean():.4g}" != f"{before.mean():.4g}" else 7
        return (
            f"A recalibration was tried and left out: {len(self.gaps):,} whole gaps, left out at other places, are not "
            f"clearly predicted better with it. Their CRPS is {after.mean():.{digits}g} with it and "
            f"{before.mean():.{digits}g} without, and {100 * _LEVEL:g}% intervals hold {inside[1].mean():.1%} and "
            f"{inside[0].mean():.1%}."
        )

    def _clearly(self, values: np.ndarray) -> bool:
        """Whether the mean of ``values`` (n,) is above zero, beyond what differs from gap to gap."""
        return float(values.mean()) > _CLEARLY * self.gaps.standard_error(values)
