"""A map to look at: one HTML page with mean, std and the probability of more than a threshold that one moves.

What the page says is the model's own distribution in each cell. On the scale that was modelled it has the mean, the std
and, where it is not normal, the values at fixed normal scores in units of the std, between which the page goes along
straight lines. A transform is sent as a table of thresholds and what they are on that scale.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError, InputTypeError
from ..maps.area import Area
from ..maps.extent import Extent
from ..predicting.distributions import MEANS_REACH, MEDIANS_DO_NOT
from ..support.atomic_files import write_atomically
from ..support.convert import array
from ..support.progress import LOGGER
from ..support.validation import ArrayLike, count, fraction, real
from .maps import Map, coastlines, map_of
from .names import Names, medians
from .page import page, require_libraries

if TYPE_CHECKING:
    from ..kernels import Kernel
    from ..model import Model
    from ..prediction import Prediction

FEWEST = np.array([-3.0, -2.4, -1.8, -1.5, -1.2, -0.9, -0.6, -0.3, 0.0, 0.3, 0.6, 0.9, 1.2, 1.5, 1.8, 2.4, 3.0])
"""Normal scores whose values a page has at least."""

_FINER = (121, 61, 41, 21)  # so many from −3 to 3 are better: recalibrations are straight lines between the last
NUMBERS = 1_100_000  # of 16 bits that a page may have: about 3 MB
FAR = 0.9  # the std is so much of what it is without data, or of the spread of these: there the page is hatched
_CODES = 65533  # steps between the smallest and the largest value of a level; 0 and 65,535 are −∞ and ∞
_SAME = 1e-4  # of a std: a level that differs by less is one number for all cells
_SHOWN, _STOPS, _TABLE = 5000, 400, 1500  # observations, places of the slider, values of a transform
_LAST = 5.0  # so many standard deviations around each mean the table of a transform reaches


def write_map_page(
    model: Model,
    path: str | os.PathLike[str],
    *,
    like: ArrayLike | None = None,
    mask: Any = None,
    cells: int = 40_000,
    level: float = 0.95,
    observed: bool = False,
    threshold: float | None = None,
    names: Names | None = None,
    progress: bool | None = None,
) -> Path:
    """Write the page; see ``Model.map``."""
    place = require_map(path, model.prior.kernel, model.X.shape[1])
    if names is not None and not isinstance(names, Names):
        raise InputTypeError(f"names must be cagp.fit_report.Names, got {type(names).__name__}")
    if threshold is not None:
        threshold = real(threshold, "threshold")
    if observed and np.ndim(model.prior.noise_variance):
        raise InputError("observed: this model has one noise variance per training row, none for new ones")
    level, cells = fraction(level, "level"), count(cells, "cells", minimum=4)
    names = (names or Names()).filled_in(model)
    area = None if mask is None else Area.of(mask, model.crs, place.geographic)
    X = array(model.X if like is None else model.places(like, "like"))
    if area is not None and like is None:
        X = _corners(place, X, area)
    across, down, points = place.grid(X, cells, aspect(place, X, names))
    plain = model.replace(transform=None)
    before = plain.prior_at(points)
    found = plain.predict(points, progress=progress)
    about: Any = {"level": level, "observed": observed, "threshold": threshold}
    if area is not None:
        about["inside"] = area.holds(points[:, place.across], points[:, place.down], place.geographic)
        if not about["inside"].any():
            raise InputError("no cell of the map has its middle in the mask; take more cells or another mask")
    out = Path(path)
    extent = _extent(model, place, names)
    shown = points[about["inside"]] if area is not None else points
    sides = across[1] - across[0], down[1] - down[0]
    if not extent.holds(shown[:, place.across], shown[:, place.down], *sides).any():
        LOGGER.warning(f"{out}: {extent.missed}.")
    write_atomically(out, map_page(model, place, (across, down), X, before, found, names, **about).encode())
    return out


def _extent(model: Model, place: Map, names: Names) -> Extent:
    """From where to where there are observations, of whatever quantity."""
    (west, east), (south, north) = place.ends(array(model.recipe.X))
    return Extent((west, south, east, north), (names.name(place.across), names.name(place.down)), place.geographic)


def _corners(place: Map, X: np.ndarray, area: Area) -> np.ndarray:
    """Points from corner to corner of an area, with all other columns at their medians in X (n, p)."""
    west, south, east, north = area.bounds
    found = np.tile(np.median(X, axis=0), (361, 1))  # so near each other that no gap is wider than what is beyond
    found[:, place.across], found[:, place.down] = np.linspace(west, east, 361), np.linspace(south, north, 361)
    return found


def require_map(path: str | os.PathLike[str], kernel: Kernel, columns: int) -> Map:
    """The two of so many ``columns`` that make a map; refuses what is none, and a name that no browser takes."""
    require_libraries()
    if Path(path).suffix.lower() not in (".html", ".htm"):
        raise InputError(f"a map is a page: its name {str(path)!r} must end with .html")
    place = map_of(kernel, columns)
    if place is None:
        raise InputError(
            f"a map is of two columns, or of latitude and longitude, and this model has {columns} "
            f"column{'s' if columns > 1 else ''}, none of them known as degrees; fit with globe=(...) where two are "
            "degrees, or predict on a grid of your own"
        )
    return place


def aspect(place: Map, X: np.ndarray, names: Names) -> float:
    """How many times as wide as high the page draws a map of X (n, p): to scale, where both columns have one unit."""
    (west, east), (south, north) = place.ends(X)
    shape = (east - west) / (north - south)
    if place.geographic:
        wide = np.cos(np.radians((south + north) / 2)) if north - south < 90 else 1.0
        return float(np.clip(shape * wide, 0.4, 3.0))
    same = names.unit(place.across) == names.unit(place.down)
    return float(shape) if same and 0.4 <= shape <= 2.5 else 1.3


def map_page(
    model: Model,
    place: Map,
    grid: tuple[np.ndarray, np.ndarray],
    X: np.ndarray,
    before: Prediction,
    found: Prediction,
    names: Names,
    *,
    level: float = 0.95,
    observed: bool = False,
    threshold: float | None = None,
    note: str = "",
    inside: np.ndarray | None = None,
) -> str:
    """The page of a ``grid`` of middles across (a,) and down (b,), for points like X (n, p).

    ``found`` and ``before`` are the predictions of f in its b a cells, with the data and without, on the scale that was
    modelled; ``names`` are filled in. Cells that are not ``inside`` (b a,) are empty.
    """
    spread = float(array(model.components[0].y).std()) or np.inf
    far = array(found.std) > FAR * np.minimum(array(before.std), spread)
    wanted = np.ones(len(far), dtype=bool) if inside is None else inside
    far &= wanted
    base = found.observed() if observed else found
    shown = base.carried_back(model.transform, model.reach)
    lowest, highest = model.reach or (-np.inf, np.inf)
    beyond = (array(base.median) < lowest) | (array(base.median) > highest)
    y, mean, std = array(model.y), array(shown.mean), array(shown.std)
    stops = _stops(model, y, threshold)
    seen = _observations(model, place, grid)
    others = [c for c in range(X.shape[1]) if c not in (place.across, place.down)]
    data = {
        "across": _axis(grid[0], names, place.across),
        "down": _axis(grid[1], names, place.down),
        "geographic": place.geographic,
        "shape": aspect(place, X, names),
        "target": {"name": names.target, "unit": names.target_unit},
        "mean": _floats(mean),
        "std": _floats(std),
        "meanEnds": _colours(mean[wanted], y.min() - 0.2 * np.ptp(y), y.max() + 0.2 * np.ptp(y)),
        "stdEnds": _colours(std[wanted], 0.0, 1.5 * float(y.std())),
        "level": level,
        "stops": stops,
        "far": _encoded(far.astype(np.uint8)) if far.any() else "",
        "beyond": _encoded(beyond.astype(np.uint8)) if beyond.any() else "",
        "outside": "" if wanted.all() else _encoded((~wanted).astype(np.uint8)),
        "observations": seen,
        "others": _shown_at(place, grid, _of_others(model)),
        "coast": _encoded(_joined(coastlines())) if place.geographic else "",
        "colours": {name: _colour_map(name) for name in ("viridis", "cividis")},
        **_distribution(base, level, NUMBERS - len(mean) * (6 if model.transform is None else 10)),
        **({} if model.transform is None else _scale(model, base, stops)),
    }
    interrupted = base.status.message if base.status.reason == "interrupted" else ""
    notes = {
        "limited": "" if model.reach is None else f"{MEANS_REACH} {MEDIANS_DO_NOT}",
        "of": "new observations, noise included" if observed else "the function, without the noise of observations",
        "guarantee": str(model.guarantee),
        "held": medians(X, others, names),
        "note": f"{note} {interrupted}".strip(),
    }
    sizes = {"size": len(y), "elsewhere": len(model.recipe.y) - len(y), "shown": seen["n"]}
    return page("map.html", {"data": data, "names": names, **sizes, **notes})


def _axis(middles: np.ndarray, names: Names, column: int) -> dict[str, Any]:
    step = float(middles[1] - middles[0])
    return {
        "first": float(middles[0]),
        "step": step,
        "n": len(middles),
        "name": names.name(column),
        "unit": names.unit(column),
    }


def _encoded(values: np.ndarray) -> str:
    return base64.b64encode(values.astype(values.dtype.newbyteorder("<")).tobytes()).decode()


def _floats(values: np.ndarray) -> dict[str, Any]:
    """Single precision, of differences from the middle where these are smaller: neither loses a digit that matters."""
    finite = values[np.isfinite(values)]
    offset = float(np.median(finite)) if len(finite) and np.ptp(finite) < abs(np.median(finite)) else 0.0
    with np.errstate(over="ignore"):  # a mean beyond single precision is drawn as the largest
        return {"offset": offset, "codes": _encoded((values - offset).astype(np.float32))}


def _level(values: np.ndarray) -> dict[str, Any]:
    """Values (T,) in 16 bits between their ends; one number where they are all the same."""
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
    if len(finite) == len(values) and high - low <= _SAME:
        return {"low": (low + high) / 2, "step": 0.0, "codes": ""}
    step = (high - low) / _CODES
    inside = 1 + np.rint((np.clip(values, low, high) - low) / (step or 1.0))
    codes = np.where(values == -np.inf, 0, np.where(values == np.inf, 65535, inside)).astype(np.uint16)
    return {"low": low - step, "step": step, "codes": _encoded(codes)}


def _distribution(base: Prediction, level: float, room: int) -> dict[str, Any]:
    """The distribution of each cell on the scale that was modelled, in ``room`` numbers, and the ends of intervals."""
    mean, std = array(base.mean), array(base.std)
    unit = np.where(std > 0, std, 1.0)
    ends = [_level((array(end) - mean) / unit) for end in base.interval(level)]

    def levels(scores: np.ndarray) -> list[dict[str, Any]]:
        return [_level((column - mean) / unit) for column in array(base.values(scores)).T]

    if base.is_normal:
        return {"interval": ends, "scores": [], "levels": []}
    chosen = next((np.linspace(-3, 3, n) for n in _FINER if n * len(mean) <= room), FEWEST)
    found = levels(chosen)
    if not any(each["codes"] for each in found):  # one shape for all cells costs nothing
        chosen = np.linspace(-3, 3, _FINER[0])
        found = levels(chosen)
    return {"interval": ends, "scores": chosen.tolist(), "levels": found}


def _scale(model: Model, base: Prediction, stops: Mapping[str, float]) -> dict[str, Any]:
    """Values y and what the transform makes of them, in order; exact where the slider stops."""
    import torch

    assert model.transform is not None
    mean, std = array(base.mean), array(base.std)
    low, high = (mean - _LAST * std).min(), (mean + _LAST * std).max()
    z = torch.linspace(float(low), float(high), _TABLE, dtype=torch.float64)
    y = torch.arange(round((stops["last"] - stops["first"]) / stops["step"]) + 1, dtype=torch.float64)
    y = (stops["first"] + y * stops["step"]).clamp(model.transform.lower, model.transform.upper)
    z, y = torch.cat([z, model.transform.forward(y)]), torch.cat([model.transform.inverse(z), y])
    known = z.isfinite() & y.isfinite()
    order = z[known].argsort()
    pairs = {"y": y[known][order].numpy(), "z": z[known][order].numpy()}
    table = {name: _encoded(each) for name, each in pairs.items()}
    return {"table": table, "location": _floats(mean), "scale": _floats(std)}


def _stops(model: Model, y: np.ndarray, threshold: float | None) -> dict[str, float]:
    """Where the slider goes: the range of the observations and a fifth more, in round steps, from their upper third."""
    spread = float(np.ptp(y)) or max(1.0, 1e-12 * _STOPS * float(np.abs(y).max()))  # far above rounding errors
    start = float(np.quantile(y, 0.75)) if threshold is None else threshold
    low, high = min(y.min() - 0.2 * spread, start), max(y.max() + 0.2 * spread, start)
    if model.transform is not None:
        low, high = max(low, model.transform.lower), min(high, model.transform.upper)
    step = _round_step((high - low) / _STOPS)
    first, last = np.ceil(low / step - 1e-9) * step, np.floor(high / step + 1e-9) * step
    start = start if threshold is not None else first + round((start - first) / step) * step
    each = {"first": first, "last": last, "step": step, "start": start}
    return {name: float(f"{value:.12g}") + 0.0 for name, value in each.items()}  # as one writes them


def _round_step(least: float) -> float:
    """The next larger one of …, 0.1, 0.2, 0.5, 1, 2, 5, …."""
    power = 10.0 ** np.floor(np.log10(least))
    return float(next(power * each for each in (1, 2, 5, 10) if power * each >= least * (1 - 1e-9)))


def _colours(values: np.ndarray, least: float, most: float) -> list[float]:
    """The ends of the colours: those of the values, where these do not go far beyond what the data know."""
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (least, most)
    low, high = max(low, float(least)), min(high, float(most)) if most > least else high
    return [low, high] if high > low else [low - 0.5 * (abs(low) or 1.0), low + 0.5 * (abs(low) or 1.0)]


def _observations(model: Model, place: Map, grid: tuple[np.ndarray, np.ndarray]) -> dict[str, Any]:
    """Observations, drawn at random where there are many: their places and values."""
    X, y = array(model.X), array(model.y)
    chosen = np.sort(np.random.default_rng(0).choice(len(y), min(len(y), _SHOWN), replace=False))
    return {**_shown_at(place, grid, X[chosen]), "values": _floats(y[chosen])}


def _of_others(model: Model) -> np.ndarray:
    """The places (m, p) where other quantities of the model were observed, and the one that it is about was not."""
    places = array(model.recipe.X)
    if model.quantity is None:
        return places[:0]
    own = places[:, -1] == model.quantity
    found, first = np.unique(places[:, :-1], axis=0, return_inverse=True)
    return found[~np.isin(np.arange(len(found)), first.reshape(-1)[own])][:_SHOWN]


def _shown_at(place: Map, grid: tuple[np.ndarray, np.ndarray], X: np.ndarray) -> dict[str, Any]:
    """How many points X (n, p) there are, and where: in cells from the middle of the first."""
    steps = [middles[1] - middles[0] for middles in grid]
    x, up = X[:, place.across] - grid[0][0], X[:, place.down] - grid[1][0]
    if place.geographic:  # the same meridian, whatever turn it is counted in
        x = (x + steps[0] / 2) % 360 - steps[0] / 2
    codes = [_encoded((each / step).astype(np.float32)) for each, step in zip((x, up), steps, strict=True)]
    return {"n": len(X), "x": codes[0], "y": codes[1]}


def _joined(lines: list[np.ndarray]) -> np.ndarray:
    """Lines in hundredths of a degree, with −32768 twice after each."""
    end = np.full((1, 2), -32768.0)
    return np.rint(np.concatenate([part for line in lines for part in (100 * line, end)])).astype(np.int16)


def _colour_map(name: str) -> str:
    """256 colours, three bytes each."""
    from matplotlib import colormaps

    return _encoded(np.rint(255 * colormaps[name](np.arange(256))[:, :3]).astype(np.uint8))
