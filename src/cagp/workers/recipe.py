"""What a model is made of: enough to make it again in another process or on another device."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch

from ..errors import MemoryBudgetError
from ..gram import Gram
from ..solvers import Solver
from ..support.memory import available_bytes, human
from .joblib_pool import Pool
from .parcel import Parcel

if TYPE_CHECKING:
    from ..model import Model
    from ..prior import Prior


@dataclass(frozen=True, eq=False)
class Recipe:
    """The data X (d, p) and y (d,), the prior with its mean filled in, and the settings; nothing that was computed.

    A Gram matrix, a factor or a preconditioner takes longer to send than to make, so this is what travels. It is the
    model's own copy of the data. ``storage`` is what was decided: "dense" or "tiles".
    """

    prior: Prior
    X: np.ndarray
    y: np.ndarray
    solver: Solver
    storage: str
    budget: int
    dtype: torch.dtype
    solve_dtype: torch.dtype
    accurate: bool

    def model(self, device: str = "cpu") -> Model:
        """The same model again, on ``device``."""
        place = torch.device(device)
        if self.storage == "dense":
            d = len(self.X)
            needed, free = d * d * self.solve_dtype.itemsize, available_bytes(place)
            if needed > free:
                raise MemoryBudgetError(
                    f"a further copy of the model on {device}, with the dense Gram matrix of {d} points, needs "
                    f'{human(needed)}, {human(free)} are free; use storage="tiles", or fewer workers on a machine'
                )
        return self.prior.condition(
            self.X,
            self.y,
            self.solver,
            storage=self.storage,
            memory_budget=self.budget,
            dtype=self.dtype,
            solve_dtype=self.solve_dtype if self.accurate else "tf32",
            device=place,
        )

    @classmethod
    def of(
        cls, prior: Prior, X: torch.Tensor, y: torch.Tensor, gram: Gram, solver: Solver, dtype: torch.dtype
    ) -> Recipe:
        """The recipe of a model that works with ``gram``; the data are copied, because they are the user's."""
        own_X, own_y = (tensor.cpu().numpy().copy() for tensor in (X, y))
        return cls(prior, own_X, own_y, solver, gram.storage, gram.budget, dtype, gram.dtype, gram.accurate)


def to_send(model: Model, pool: Pool, device: str | None = None) -> Model | Parcel[Model]:
    """The model as the workers of a pool get it: itself where they share its memory, else its recipe."""
    if pool.shared and device is None:
        return model
    return Parcel.of(partial(model.recipe.model, device or model.gram.device.type))


def received(sent: Model | Parcel[Model]) -> Model:
    """The model that was sent; made from its recipe if this process does not have it yet."""
    return sent.open() if isinstance(sent, Parcel) else sent
