"""A model as it lies on disk: all that it takes to condition again, nothing computed yet."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ..errors import InputError, InputTypeError
from ..model import Model
from ..posterior import guarantee_of
from ..prediction import Guarantee
from ..prior import Prior
from ..recalibration import LayeredModel, Learned
from ..solvers import NearestNeighbours, Solver, as_solver
from ..support.validation import ArrayLike
from ..transforms import Transformation
from .about import About
from .layers import layers_of, with_layers


@dataclass(frozen=True, eq=False, repr=False)
class Saved:
    """Data X (d, p) and y (d,), float64; the prior with its mean filled in; solver and settings.

    ``picked`` is the solver that ``Auto`` had chosen, where the model was made with it. ``layers`` are what the layers
    around the model have learned, innermost first: a recalibration, for example. ``created`` and ``cagp_version`` say
    when and by which cagp the folder was written, ``fingerprint`` is its hash (empty before).
    """

    prior: Prior
    X: np.ndarray
    y: np.ndarray
    solver: Solver
    storage: str = "auto"
    dtype: str = "float64"
    solve_dtype: str = "float64"
    picked: Solver | None = None
    about: About = field(default_factory=About)
    layers: tuple[Learned, ...] = ()
    created: str = ""
    cagp_version: str = ""
    fingerprint: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.about, About):
            raise InputTypeError(f"about must be a cagp.saving.About, got {self.about!r}")
        if self.about.features is not None and len(self.about.features) != self.X.shape[1]:
            raise InputError(
                f"about.features has {len(self.about.features)} names, the points have {self.X.shape[1]} columns"
            )

    @classmethod
    def of(cls, whole: Model | LayeredModel, about: About | None = None) -> Saved:
        """What there is to save of a model; names of a data frame's columns are kept."""
        model = whole.plain
        about = about or About()
        names = model.column_names
        if about.features is None and names is not None and len(set(names)) == len(names):
            about = dataclasses.replace(about, features=tuple(names))
        return cls(
            prior=model.prior,
            X=model.recipe.X,
            y=model.recipe.y,
            solver=model.solver,
            storage=model.storage,
            dtype=str(model.recipe.dtype).removeprefix("torch."),
            solve_dtype=model.recipe.arithmetic,
            picked=model.prepared.picked,
            about=about,
            layers=layers_of(whole),
        )

    @property
    def observations(self) -> np.ndarray:
        """The observations (d,) on their own scale: ``y`` is what a transform made of them, where there is one."""
        values = torch.from_numpy(self.y)
        for layer in self.layers:
            values = layer.transform.inverse(values) if isinstance(layer, Transformation) else values
        return values.numpy()

    @property
    def guarantee(self) -> Guarantee:
        """When the error bars of the model hold."""
        return self.layers[-1].guarantee if self.layers else guarantee_of(self.picked or self.solver)

    def condition(
        self,
        solver: Solver | str | None = None,
        *,
        memory_budget: float | None = None,
        solve_dtype: Any = None,
        device: str | torch.device | None = None,
    ) -> Model | LayeredModel:
        """The model, with the solver it was saved with (what ``Auto`` had picked, too) or with another one.

        Layers stay what they were learned to be, also around a model with another solver.
        """
        if solve_dtype is None and self.solve_dtype == "tf32" and torch.device(device or "cpu").type == "cpu":
            raise InputError(
                'this model solves in tf32, which only GPUs do; load it with device="cuda", or on a CPU with '
                'cagp.load(folder, solve_dtype="float32"), whose save() makes a model for the command line'
            )
        own = self.solver if self.picked is None else self.picked
        model = self.prior.condition(
            self.X,
            self.y,
            own if solver is None else as_solver(solver),
            storage=self.storage,
            memory_budget=memory_budget,
            dtype=self.dtype,
            solve_dtype=self.solve_dtype if solve_dtype is None else solve_dtype,
            device=device,
        )
        model.column_names = None if self.about.features is None else list(self.about.features)
        return with_layers(model, self.layers)

    def with_more(self, X: ArrayLike, y: ArrayLike, *, noise_variance: Any = None) -> Saved:
        """The same with further observations y (m,) at X (m, p), as ``Model.with_more``; nothing is solved for it."""
        quick = self.condition(NearestNeighbours(1), solve_dtype=self.dtype)
        found = Saved.of(quick.with_more(X, y, noise_variance=noise_variance), self.about)
        own = {"solver": self.solver, "picked": self.picked, "solve_dtype": self.solve_dtype}
        return dataclasses.replace(found, **own)  # type: ignore[arg-type]

    def __repr__(self) -> str:
        return f"Saved({self.prior!r}, X {self.X.shape}, solver={self.solver!r})"
