"""What was fitted: data, prior, solver, in a table."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

import numpy as np

from ..means import Constant, Mean, Polynomial, Zero
from ..solvers import NearestNeighbours, Subset
from ..support.memory import human
from ..support.version import __version__
from .kernels import formula, in_words
from .names import Names
from .numbers import datum, number, with_unit
from .refits import array
from .solvers import working
from .tables import Table

if TYPE_CHECKING:
    from ..model import Model

_COLUMNS_LISTED = 30


def facts(model: Model, names: Names) -> Table:
    """The model in a table: one line a fact."""
    gram, solver = model.prepared.gram, working(model)
    size, columns = model.X.shape
    unit = names.target_unit
    y = array(model.y)
    low, high, average = (with_unit(datum(float(v)), unit) for v in (y.min(), y.max(), y.mean()))
    picked = " (picked by Auto)" if model.prepared.picked else ""
    calibrated = "calibrated" if solver.calibrated else "not calibrated: its error bars depend on y"
    memory = f"dense, {human(gram.dense_bytes)}" if gram.storage == "dense" else "recomputed in tiles, not stored"
    if isinstance(solver, (NearestNeighbours, Subset)):
        memory = "not needed as a whole"
    rows = [
        ("data", f"{size:,} observations, {columns} {'column' if columns == 1 else 'columns'}"),
        ("target", f"{names.target}: {low} to {high}, average {average}"),
        ("kernel", in_words(model.prior.kernel, names)),
        ("formula", f"k(x, x′) = {formula(model.prior.kernel)}"),
        ("prior mean", _mean(model.prior.mean, names)),
        ("noise", _noise(model.prior.noise_variance, unit)),
        ("solver", f"{solver!r}{picked}{_iterations(model)}, {calibrated}"),
        ("Gram matrix", memory),
        ("memory budget", human(model.budget)),
        ("arithmetic", _arithmetic(model)),
        ("cagp", __version__),
        ("date", datetime.date.today().isoformat()),
    ]
    return Table("", (), rows, "facts")


def columns(model: Model, names: Names) -> Table:
    """The columns of X: range and median."""
    X = array(model.X)
    rows = [
        (
            names.name(c),
            names.unit(c),
            datum(float(X[:, c].min())),
            datum(float(np.median(X[:, c]))),
            datum(float(X[:, c].max())),
        )
        for c in range(min(X.shape[1], _COLUMNS_LISTED))
    ]
    caption = "The columns."
    if X.shape[1] > _COLUMNS_LISTED:
        caption = f"The first {_COLUMNS_LISTED} of {X.shape[1]} columns."
    return Table(caption, ("column", "unit", "smallest", "median", "largest"), rows, "columns")


def _iterations(model: Model) -> str:
    limit = model.prepared.limit
    return f", {limit} iterations" if limit > 1 and not isinstance(working(model), Subset) else ""


def _mean(mean: Mean, names: Names) -> str:
    if isinstance(mean, Zero):
        return "zero"
    if isinstance(mean, Constant) and mean.value is not None:
        return f"constant, {with_unit(number(mean.value, 4), names.target_unit)}"
    if isinstance(mean, Polynomial):
        of = "all columns" if mean.columns is None else ", ".join(names.name(c) for c in mean.columns)
        return f"polynomial of degree {mean.degree} in {of}, {len(mean.coefficients or ())} coefficients"
    return "the user's own function"


def _noise(noise: float | np.ndarray, unit: str) -> str:
    std = np.sqrt(noise)
    if np.ndim(std) == 0:
        return f"standard deviation {with_unit(number(float(std)), unit)}, the same for all observations"
    low, high = number(float(std.min())), with_unit(number(float(std.max())), unit)
    return f"one per observation, standard deviations from {low} to {high}"


def _arithmetic(model: Model) -> str:
    words = {"torch.float64": "double precision", "torch.float32": "single precision"}
    full, solving = words[str(model.gram.dtype)], words[str(model.prepared.gram.dtype)]
    return full if full == solving else f"solved in {solving}, certified in {full}"
