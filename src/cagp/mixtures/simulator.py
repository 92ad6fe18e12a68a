"""Fields of a mixture: each of them is drawn from one of its components."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ..fields import Simulation, Simulator
from ..support.convert import Output
from .prediction import Mixture

_CHOICE = 3
"""The stream of random numbers that says which component a field falls to; the components have 0 to 2."""


class MixtureSimulator(Simulator):
    """Fields of several models, each field of one of them."""

    def __init__(self, parts: Sequence[Simulator], weights: np.ndarray, convert: Output) -> None:
        self._parts, self._weights, self._convert = parts, weights, convert

    def numbered(
        self, numbers: Sequence[int], seed: int, observed: bool, noise_variance: Any, progress: bool | None
    ) -> Simulation:
        """Field i is field i of the component that it falls to."""
        luck = [np.random.default_rng([seed, number, _CHOICE]).random() for number in numbers]
        chosen = np.searchsorted(np.cumsum(self._weights)[:-1], luck, side="right")
        # a component that no field falls to has a share in the prediction all the same
        own = [np.flatnonzero(chosen == i) for i in range(len(self._parts))]
        found = [
            part.numbered([numbers[i] for i in rows.tolist()], seed, observed, noise_variance, progress)
            for part, rows in zip(self._parts, own, strict=True)
        ]
        prediction = Mixture([each.prediction for each in found], self._weights, self._convert)
        order = np.argsort(np.concatenate(own))
        stack = np.concatenate if self._convert.device is None else torch.cat
        fields = stack([each.fields for each in found])[order]
        how = f"each from one of {len(self._parts)} models, by their weights; {found[0].how}"
        return Simulation(fields, prediction, how, seed, tuple(numbers))
