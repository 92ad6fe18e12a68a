"""A model as it lies on disk: all that it takes to condition again, nothing computed yet."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ..errors import InputError, InputTypeError
from ..model import Model
from ..prediction import Guarantee
from ..prior import Prior
from ..solvers import NearestNeighbours, Solver, as_solver
from ..support.validation import ArrayLike
from .about import About
from .parts import Parts


@dataclass(frozen=True, eq=False, repr=False)
class Saved:
    """Data X (d, p) and y (d,), float64; the prior with its mean filled in; solver and settings.

    ``picked`` is the solver that ``Auto`` had chosen, where the model was made with it. ``parts`` are what the model
    has beside its first component: other components, margins, a transform, a story. ``created`` and ``cagp_version``
    say when and by which cagp the folder was written, ``fingerprint`` is its hash (empty before).
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
    parts: Parts = field(default_factory=Parts)
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
    def of(cls, model: Model, about: About | None = None) -> Saved:
        """What there is to save of a model; names of a data frame's columns are kept."""
        about = about or About()
        names = model.column_names
        if about.features is None and names is not None and len(set(names)) == len(names):
            about = dataclasses.replace(about, features=tuple(names))
        first = model.components[0]
        return cls(
            prior=first.prior,
            X=first.recipe.X,
            y=first.recipe.y,
            solver=first.solver,
            storage=first.recipe.storage,
            dtype=str(first.recipe.dtype).removeprefix("torch."),
            solve_dtype=first.recipe.arithmetic,
            picked=first.prepared.picked,
            about=about,
            parts=Parts.of(model),
        )

    @property
    def observations(self) -> np.ndarray:
        """The observations (d,) on their own scale: ``y`` is what a transform made of them, where there is one."""
        transform = self.parts.transform
        return self.y if transform is None else transform.inverse(torch.from_numpy(self.y)).numpy()

    @property
    def guarantee(self) -> Guarantee:
        """When the error bars of the model hold."""
        return self.parts.guarantee(self.picked or self.solver)

    def condition(
        self,
        solver: Solver | str | None = None,
        *,
        memory_budget: float | None = None,
        solve_dtype: Any = None,
        device: str | torch.device | None = None,
    ) -> Model:
        """The model, with the solver it was saved with (what ``Auto`` had picked, too) or with another one.

        What was learned stays what it is, also with another solver.
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
        return self.parts.around(model)

    def with_more(self, X: ArrayLike, y: ArrayLike, *, noise_variance: Any = None) -> Saved:
        """The same with further observations y (m,) at X (m, p), as ``Model.with_more``; nothing is solved for it."""
        quick = self.condition(NearestNeighbours(1), solve_dtype=self.dtype)
        found = Saved.of(quick.with_more(X, y, noise_variance=noise_variance), self.about)
        own = {"solver": self.solver, "picked": self.picked, "solve_dtype": self.solve_dtype}
        return dataclasses.replace(found, **own)  # type: ignore[arg-type]

    def __repr__(self) -> str:
        return f"Saved({self.prior!r}, X {self.X.shape}, solver={self.solver!r})"
