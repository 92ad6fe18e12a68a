"""Which of the components of a mixture it needs, and with what weights, to predict as all of them do."""

from __future__ import annotations

import numpy as np
import torch

from ..support.non_negative import non_negative
from .distributions import NormalMixture

_ENDS = (0.025, 0.5, 0.975)  # the quantiles that are compared
_SUM = 100.0  # how much more the sum of the weights counts than a moment at a place
_CERTAIN = 1e-6  # of the largest standard deviation: what is less is rounding errors


def essential(whole: NormalMixture, tolerance: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Components (k,), the first of ``whole`` among them and the heaviest, their weights (k,), and how far medians and
    ends of 95% intervals move with them: at none of the places by more than ``tolerance`` standard deviations.

    One component after the other is taken in: the one with which, by weights that are found anew, means and variances
    come closest to those of the whole.
    """
    scale = whole.std.clamp(min=_CERTAIN * float(whole.std.max()))
    centred = (whole.means - whole.mean) / scale
    spread = (whole.variances - whole.std.square()) / scale.square()
    moments = torch.cat([centred, centred.square() + spread], dim=1).cpu().numpy()
    turned, columns = np.linalg.qr(np.column_stack([moments, np.full(len(moments), _SUM)]).T)
    wanted = _SUM * turned[-1]  # all moments zero, and the sum: as far from the columns as before they were turned
    ends = torch.tensor(_ENDS, dtype=torch.float64, device=whole.means.device)
    wanted_ends, chosen = whole.quantiles(ends), [0]
    while len(chosen) < len(moments):
        weights = _first_heaviest(columns[:, chosen], wanted)
        kept, share = np.array(chosen)[weights > 0], weights[weights > 0] / weights.sum()
        rows = torch.from_numpy(kept).to(whole.means.device)
        some = NormalMixture(whole.means[rows], whole.variances[rows], torch.from_numpy(share).to(whole.weights))
        moved = float(((some.quantiles(ends) - wanted_ends) / scale).abs().max())
        if moved <= tolerance:
            return kept, share, moved
        others = (each for each in range(len(moments)) if each not in chosen)
        chosen.append(min(others, key=lambda each: non_negative(columns[:, [*chosen, each]], wanted)[1]))
    return np.arange(len(moments)), whole.weights.cpu().numpy(), 0.0


def _first_heaviest(columns: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Weights (k,) with which columns (m, k) come close to what is ``wanted`` (m,), none larger than the first.

    Those that would be heavier are given the weight of the first: they share a column with it.
    """
    tied = np.zeros(columns.shape[1], dtype=bool)
    tied[0] = True
    while True:
        found, _ = non_negative(np.column_stack([columns[:, tied].sum(axis=1), columns[:, ~tied]]), wanted)
        weights = np.empty(len(tied))
        weights[tied], weights[~tied] = found[0], found[1:]
        if not (heavier := weights > found[0]).any():
            return weights
        tied |= heavier
