"""Problems about all that a model can be asked beside predictions, and about what must not matter to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import cagp
from cagp.saving import About
from hard.kinds import SOLVERS, Problem
from hard.laws import check_prediction, numbers
from hard.ugly import pick, scale


def mixed(problem: Problem) -> cagp.Model:
    """A model of a problem; at times a mixture, at times recalibrated."""
    rng, model = problem.rng, problem.model()
    if rng.random() < 0.4:
        others = [problem.prior().condition(model.X, model.y, model.solver).components[0] for _ in range(2)]
        model = model.replace(components=[*model.components, *others], weights=rng.dirichlet(np.ones(3)))
    return model.recalibrated(progress=False) if len(problem.y) > 20 and rng.random() < 0.3 else model


def questions(seed: int, folder: Path) -> str:
    """Slopes, thresholds, where to measure next, further observations, fewer components."""
    problem = Problem(np.random.default_rng([8, seed]), 40, calm=0.5)
    question = pick(problem.rng, (_slopes, _thresholds, _design, _compact, _further))
    question(problem, mixed(problem))
    return question.__name__.strip("_")


def _slopes(problem: Problem, model: cagp.Model) -> None:
    T, p = problem.X_test.shape
    slopes = model.gradient(problem.X_test, progress=False)
    numbers(slopes.mean, "mean", (T, p))
    variance = numbers(slopes.variance, "variance", (T, p))
    assert (variance >= 0).all(), f"negative variance {variance.min()}"
    C = numbers(slopes.covariance(), "covariance", (T, p, p))
    assert np.array_equal(C, C.swapaxes(1, 2)), "a covariance is not symmetric"
    if (variance > 0).all():
        rises = numbers(slopes.exceedance(0.0), "exceedance", (T, p))
        assert ((rises >= 0) & (rises <= 1)).all(), "a probability is not one"
    lower, upper = (numbers(each, "interval", (T, p)) for each in slopes.interval())
    assert (lower <= upper).all()


def _thresholds(problem: Problem, model: cagp.Model) -> None:
    found = model.predict(problem.X_test, progress=False)
    found = found.observed() if np.ndim(model.prior.noise_variance) == 0 and problem.rng.random() < 0.5 else found
    if not (np.asarray(found.std) > 0).all():
        return
    levels = np.sort([float(pick(problem.rng, (0.0, problem.y_unit, -scale(problem.rng)))) for _ in range(3)])
    above = np.stack([numbers(found.exceedance(level), "exceedance", (len(found),)) for level in levels])
    assert ((above >= 0) & (above <= 1)).all(), "a probability is not one"
    assert (np.diff(above, axis=0) <= 1e-12).all(), "more is more probable than less"
    below = numbers(found.cdf(np.full(len(found), levels[0])), "cdf")
    assert np.allclose(below + above[0], 1), "more and less are not all there is"


def _design(problem: Problem, model: cagp.Model) -> None:
    rng, c = problem.rng, len(problem.X_test)
    asked: dict[str, Any] = {}
    if rng.random() < 0.5:
        asked["region"] = problem.X
        asked["weights"] = pick(rng, (None, rng.random(len(problem.X)), scale(rng) * rng.random(len(problem.X))))
    if rng.random() < 0.5:
        asked["costs"] = pick(rng, (rng.random(c), scale(rng) * rng.random(c), np.zeros(c), "dear"))
    found = model.where_next(problem.maybe_spoilt(problem.X_test), int(rng.integers(1, c + 2)), **asked)
    averages = numbers(found.average_variance, "average variance")
    assert (averages >= 0).all()
    assert (np.diff(averages) <= 1e-9 * averages[0]).all(), "an observation makes things worse"
    assert len(set(found.chosen.tolist())) == len(found.chosen), "the same candidate twice"
    assert (numbers(found.variance, "variance") >= 0).all()


def _compact(problem: Problem, model: cagp.Model) -> None:
    small = model.compact(tolerance=float(10.0 ** problem.rng.uniform(-3, 0)))
    assert 1 <= len(small.components) <= len(model.components)
    assert np.isclose(small.weights.sum(), 1)
    check_prediction(small.predict(problem.X_test, progress=False))


def _further(problem: Problem, model: cagp.Model) -> None:
    """Observations one by one are observations all at once."""
    rng, T = problem.rng, len(problem.X_test)
    new = problem.y_unit * rng.normal(size=T)
    noise = None if np.ndim(model.prior.noise_variance) == 0 else rng.random(T)
    more = model.with_more(problem.maybe_spoilt(problem.X_test), problem.maybe_spoilt(new), noise_variance=noise)
    assert len(more.y) == len(model.y) + T
    check_prediction(more.predict(problem.X, progress=False))


# --- what must not matter ---------------------------------------------------------------------------------------------


def symmetric(seed: int, folder: Path) -> str:
    """The order of rows and columns, the units, the number of test points: nothing but rounding hangs on them."""
    rng = np.random.default_rng([9, seed])
    n, p, T = int(rng.integers(1, 40)), int(rng.integers(1, 4)), int(rng.integers(1, 6))
    X, X_test, y = rng.normal(size=(n, p)), rng.normal(size=(T, p)), rng.normal(size=n)
    lengths, noise = 10.0 ** rng.uniform(-0.5, 0.5, p), float(10.0 ** rng.uniform(-2, 0))
    kind = pick(rng, (cagp.Matern12, cagp.Matern32, cagp.Matern52, cagp.RBF, cagp.RationalQuadratic))
    mean = pick(rng, (cagp.Zero(), cagp.Constant(), cagp.Polynomial(1)) if n > 2 * p + 2 else (cagp.Zero(),))

    def model(rows: Any, columns: Any, x: float, v: float, solver: cagp.Solver) -> cagp.Model:
        kernel = kind(tuple(x * lengths[columns]), v * v)
        prior = cagp.Prior(kernel, mean=mean, noise_variance=noise * v * v)
        return prior.condition(x * X[rows][:, columns], v * y[rows], solver)

    def predicted(of: cagp.Model, columns: Any, x: float, v: float, test: Any = slice(None)) -> np.ndarray:
        found = of.predict(x * X_test[test][:, columns], progress=False)
        return np.stack([np.asarray(found.mean) / v, np.asarray(found.std) / v])

    every, straight, solver = np.arange(n), np.arange(p), pick(rng, SOLVERS)
    plain = model(every, straight, 1.0, 1.0, solver)
    found = predicted(plain, straight, 1.0, 1.0)
    assert np.array_equal(found, predicted(plain, straight, 1.0, 1.0)), "the same question has another answer"
    x, v = 2.0 ** rng.integers(-60, 60, 2)
    other = predicted(model(every, straight, x, v, solver), straight, x, v)
    assert np.allclose(found, other, rtol=1e-6, atol=1e-6), f"units matter: {np.abs(found - other).max()}"
    backwards = predicted(plain, straight, 1.0, 1.0, slice(None, None, -1))[:, ::-1]
    assert np.allclose(found, backwards, rtol=1e-6, atol=1e-6), "the order of test points matters"
    if rng.random() < 0.5:
        plain.save(folder / "m")
        assert np.array_equal(found, predicted(cagp.load(folder / "m"), straight, 1.0, 1.0)), "not as it was saved"
    exact = pick(rng, (cagp.Cholesky(), cagp.NearestNeighbours(50, far=0)))
    found = predicted(model(every, straight, 1.0, 1.0, exact), straight, 1.0, 1.0)
    rows, columns = rng.permutation(n), rng.permutation(p)
    other = predicted(model(rows, columns, 1.0, 1.0, exact), columns, 1.0, 1.0)
    assert np.allclose(found, other, rtol=1e-6, atol=1e-6), f"order matters: {np.abs(found - other).max()}"
    return "the same"


# --- maps -------------------------------------------------------------------------------------------------------------


def maps(seed: int, folder: Path) -> str:
    """A map in a file, whatever its cells, its columns and its system: the numbers of a prediction at their centres."""
    problem = Problem(
        np.random.default_rng([10, seed]), 40, calm=0.7, p=int(np.random.default_rng(seed).integers(4) > 2) + 2
    )
    rng = problem.rng
    model = mixed(problem)
    spread = float(np.ptp(problem.X, axis=0).max()) or problem.x_unit
    side: Any = spread / float(10.0 ** rng.uniform(-1, 1.5))
    if rng.random() < 0.2:
        side = pick(rng, (f"{side!r}", f"{side!r}m", f"{side!r}km", -1.0, "wide", np.nan, 1e-30, 1e300))
    names: Any = pick(rng, (None, None, ("x", "y", "z"), ("latitude", "longitude", "height"), ("a", "b", "c")))
    crs = pick(rng, (*(None,) * 6, "EPSG:28992", "EPSG:4326", "EPSG:0", "x"))
    about = About(features=names and names[: problem.p], crs=crs)
    asked = {
        "observed": bool(rng.random() < 0.3),
        "level": pick(rng, (0.95, 0.5, 0.95, 95, 0.0)) if rng.random() < 0.2 else 0.95,
        "exceed": pick(rng, ((), (), (), 0.0, [0.0, problem.y_unit], [0.5, -1.0], [np.nan], "high")),
        "share": bool(rng.random() < 0.2),
    }
    out = folder / f"map{pick(rng, ('.tif', '.tif', '.nc', '.zarr', '.tif', '.png'))}"
    cagp.write_map(model, out, side, about=about, progress=False, **asked)
    check_map(out)
    assert [each.name for each in folder.iterdir()] == [out.name], "something is left behind"
    return f"written: {out.suffix}"


def check_map(out: Path) -> None:
    """The laws of predictions, at the cells of a map."""
    import rasterio
    import xarray

    if out.suffix == ".tif":
        with rasterio.open(out) as file:
            bands = dict(zip(file.descriptions, file.read(), strict=True))
    else:
        with xarray.open_dataset(out, engine="zarr" if out.suffix == ".zarr" else None) as file:
            bands = {name: file[name].values for name in ("mean", "std", "lower", "upper")}
    values = {name: numbers(band, name) for name, band in bands.items()}
    assert (values["std"] >= 0).all()
    assert (values["lower"] <= values["upper"]).all()
    for name in values:
        assert not name.startswith(("exceeds", "share")) or ((values[name] >= 0) & (values[name] <= 1)).all(), name


ASKING = {"questions": questions, "symmetric": symmetric, "maps": maps}
