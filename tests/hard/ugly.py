"""Random data, ugly on purpose, each made from a seed alone: points, observations, kernels, noise and their layouts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

import cagp

LAYOUTS = ("float64", "float32", "int", "fortran", "sliced", "reversed", "list", "pandas", "readonly", "torch", "big")
SPOILT = (
    "nan",
    "inf",
    "object",
    "text",
    "complex",
    "masked",
    "empty",
    "flat",
    "deep",
    "short",
    "none",
    "bool",
    "ragged",
)


def pick(rng: np.random.Generator, options: Any) -> Any:
    """One of them."""
    return options[int(rng.integers(len(options)))]


def scale(rng: np.random.Generator) -> float:
    """Mostly ordinary, at times far out, at times at the ends of what float64 has."""
    widest = pick(rng, (1,) * 10 + (8,) * 4 + (30, 100, 160, 300))
    return float(10.0 ** rng.uniform(-widest, widest))


def locations(rng: np.random.Generator, n: int, p: int, unit: float) -> np.ndarray:
    """Points (n, p): scattered, on a grid, repeated, in a line, far from the origin, with columns that do not vary."""
    form = pick(rng, ("plain", "plain", "grid", "twice", "same", "column", "near", "far", "clusters", "line"))
    X = rng.normal(size=(n, p))
    if form == "grid":
        X = np.round(3 * X)
    elif form == "twice":
        X[n // 2 :] = X[: n - n // 2]
    elif form == "same":
        X[:] = X[0]
    elif form == "column":
        X[:, int(rng.integers(p))] = pick(rng, (0.0, 1.0, -1e8))
    elif form == "near":
        X = X[:1] + X * 10.0 ** rng.uniform(-16, -4)
    elif form == "far":
        X = X + 10.0 ** rng.uniform(2, 12)
    elif form == "clusters":
        X = np.round(X) + 1e-7 * rng.normal(size=(n, p))
    elif form == "line":
        X = X[:, :1] * np.ones(p)
    return np.clip(X, -1e308 / max(unit, 1.0), 1e308 / max(unit, 1.0)) * unit


def observations(rng: np.random.Generator, X: np.ndarray, unit: float) -> np.ndarray:
    """Values (n,): smooth, noise, constant, zero, with outliers, with jumps, positive, whole numbers."""
    n = len(X)
    spread = float(np.abs(X[:, 0] - X[0, 0]).max()) or 1.0
    smooth = np.sin(4 * ((X[:, 0] - X[0, 0]) / spread))
    form = pick(rng, ("smooth", "smooth", "noise", "constant", "zero", "outlier", "jump", "positive", "counts", "far"))
    y = {
        "smooth": lambda: smooth + pick(rng, (0.0, 0.1)) * rng.normal(size=n),
        "noise": lambda: rng.normal(size=n),
        "constant": lambda: np.full(n, rng.normal()),
        "zero": lambda: np.zeros(n),
        "outlier": lambda: np.where(np.arange(n) == 0, 1e8, smooth),
        "jump": lambda: np.sign(smooth),
        "positive": lambda: np.exp(3 * smooth + rng.normal(size=n)),
        "counts": lambda: np.round(3 * np.abs(smooth)),
        "far": lambda: 1e10 + smooth,
    }[form]()
    return np.clip(y, -1e308 / max(unit, 1.0), 1e308 / max(unit, 1.0)) * unit


def laid_out(rng: np.random.Generator, array: np.ndarray) -> Any:
    """The same numbers, or the nearest the type has, in another form."""
    layout = pick(rng, LAYOUTS) if rng.random() < 0.5 else "float64"
    if layout == "float32":
        return np.clip(array, -1e38, 1e38).astype(np.float32)
    if layout == "int":
        return np.round(np.clip(array, -1e15, 1e15)).astype(np.int64)
    if layout == "fortran":
        return np.asfortranarray(array)
    if layout == "sliced":
        wide = np.zeros((2 * len(array), *array.shape[1:]))
        wide[::2] = array
        return wide[::2]
    if layout == "reversed":
        return np.ascontiguousarray(array[::-1])[::-1]
    if layout == "list":
        return array.tolist()
    if layout == "pandas":
        return pd.DataFrame(array) if array.ndim == 2 else pd.Series(array)
    if layout == "readonly":
        array = array.copy()
        array.setflags(write=False)
    if layout == "torch":
        return torch.from_numpy(array.copy())
    if layout == "big":
        return array.astype(">f8")
    return array


def spoilt(rng: np.random.Generator, array: np.ndarray) -> Any:
    """Something that must be refused, or that happens to be numbers all the same."""
    how = pick(rng, SPOILT)
    copy = np.array(array)
    at = int(rng.integers(max(1, copy.size)))
    if how in ("nan", "inf"):
        copy.flat[at] = np.nan if how == "nan" else pick(rng, (np.inf, -np.inf))
        return copy
    if how == "masked":
        return np.ma.masked_array(copy, mask=rng.random(copy.shape) < 0.3)
    if how == "object":
        objects = copy.astype(object)
        objects.flat[at] = pick(rng, (None, "x", {}, 1.0))
        return pick(rng, (objects, pd.DataFrame(objects) if copy.ndim == 2 else pd.Series(objects)))
    if how == "ragged":
        return [*copy.tolist(), [[1.0], 2.0]]
    return {
        "text": lambda: copy.astype(str),
        "complex": lambda: copy + 1j,
        "empty": lambda: copy[:0],
        "flat": lambda: copy.ravel()[:, None][:, 0],
        "deep": lambda: copy[None],
        "short": lambda: copy[:-1],
        "none": lambda: pick(rng, (None, "data.csv", 3.0, {}, [], object(), b"1")),
        "bool": lambda: copy > 0,
    }[how]()


def damage(rng: np.random.Generator, file: Path) -> str:
    """What happened to a file: a disk, a transfer, an editor."""
    content = bytearray(file.read_bytes())
    at = int(rng.integers(len(content)))
    how = pick(rng, ("cut", "bit", "byte", "gone", "zeros", "twice", "swap", "folder"))
    if how == "cut":
        content = content[:at]
    elif how == "bit":
        content[at] ^= 1 << int(rng.integers(8))
    elif how == "byte":
        content[at] = int(rng.integers(256))
    elif how == "zeros":
        content[at : at + 50] = bytes(len(content[at : at + 50]))
    elif how == "twice":
        content = content + content
    elif how == "swap":
        content = content[at:] + content[:at]
    file.unlink()
    if how == "folder":
        file.mkdir()
    elif how != "gone":
        file.write_bytes(content)
    return str(how)


def kernel(rng: np.random.Generator, p: int, unit: float, variance: float, depth: int = 0) -> cagp.Kernel:
    """A kernel with values about the scale of the data, or far from it, or a combination of two."""
    if depth < 2 and rng.random() < 0.25:
        one, other = (kernel(rng, p, unit, variance, depth + 1) for _ in range(2))
        return pick(rng, (one + other, one * other, 0.5 * one))
    far = pick(rng, (0.5, 0.5, 3.0, 6.0))
    length = unit * float(10.0 ** rng.uniform(-far, far))
    lengths: Any = (length,) * p if rng.random() < 0.3 else length
    made = pick(
        rng,
        (
            lambda: cagp.Matern12(lengths, variance),
            lambda: cagp.Matern32(lengths, variance),
            lambda: cagp.Matern52(lengths, variance),
            lambda: cagp.RBF(lengths, variance),
            lambda: cagp.RationalQuadratic(lengths, variance, alpha=float(10.0 ** rng.uniform(-3, 3))),
            lambda: cagp.Periodic(1.0, variance, period=length),
            lambda: cagp.Level(variance) + cagp.Matern32(lengths, variance),
            lambda: cagp.Linear(variance) + cagp.RBF(lengths, variance),
            lambda: cagp.Matern32(length, variance).on(int(rng.integers(p))),
            lambda: (
                cagp.Geographic(cagp.Matern32(length, variance)).on(0, 1) if p > 1 else cagp.Matern12(length, variance)
            ),
        ),
    )
    return made()


def mean(rng: np.random.Generator, unit: float, n: int) -> Any:
    """A mean, known or not."""
    simple = (cagp.Zero(), cagp.Zero(), cagp.Constant(), unit)
    return pick(
        rng, (*simple, *simple, *((cagp.Polynomial(1), cagp.Polynomial(2)) if n > 5 else ()), cagp.Polynomial(1))
    )
