"""Kriging with the variograms of PyKrige, GSTools and gstat: their predictions, and those of dense algebra."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pykrige.ok import OrdinaryKriging
from pykrige.ok3d import OrdinaryKriging3D
from pykrige.uk import UniversalKriging

import cagp
from cagp.errors import InputError, InputTypeError
from cagp.interop import from_variogram
from cagp.kernels import FractionalBrownian, Spherical

gstools = pytest.importorskip("gstools")

RNG = np.random.default_rng(0)
X = RNG.random((60, 2)) * 10
Y = 3 + np.sin(X[:, 0]) + 0.2 * X[:, 1] + 0.3 * RNG.normal(size=60)
NEW = RNG.random((25, 2)) * 10
FAR = np.array([181_000.0, 333_000.0])  # as coordinates of maps are


def kriged(gamma: Any, nugget: float, drift: Any = lambda P: np.ones((len(P), 1))) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances at NEW of universal kriging with the semivariances ``gamma(A, B)``, by the usual system."""
    H, h = drift(X), drift(NEW)
    n, q = H.shape
    system = np.zeros((n + q, n + q))
    system[:n, :n] = gamma(X, X) + nugget * (1 - np.eye(n))
    system[:n, n:], system[n:, :n] = H, H.T
    right = np.vstack([gamma(X, NEW) + nugget, h.T])
    weights = np.linalg.solve(system, right)
    return weights[:n].T @ Y, (weights * right).sum(axis=0)


def ours(prior: cagp.Prior, points: np.ndarray = X, new: np.ndarray = NEW, **how: Any) -> tuple[np.ndarray, np.ndarray]:
    found = prior.condition(points, Y, **{"solver": "cholesky", **how}).predict(new).observed()
    return found.mean, found.std**2


def same(a: Any, b: Any, tolerance: float = 1e-8) -> None:
    for one, other in zip(a, b, strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


def distances(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    return np.sqrt(((A[:, None] - B[None]) ** 2).sum(axis=2))


def spherical(h: np.ndarray) -> np.ndarray:
    return np.where(h < 1, 1.5 * h - 0.5 * h**3, 1.0)


BY_NAME = {
    "spherical": ({"psill": 2.0, "range": 4.0}, lambda h: 2 * spherical(h / 4)),
    "exponential": ({"psill": 2.0, "range": 4.0}, lambda h: 2 * (1 - np.exp(-h / 4))),
    "gaussian": ({"psill": 2.0, "range": 1.5}, lambda h: 2 * (1 - np.exp(-((h / 1.5) ** 2)))),
    "linear": ({"slope": 0.3}, lambda h: 0.3 * h),
    "power": ({"slope": 0.1, "exponent": 1.6}, lambda h: 0.1 * h**1.6),
}


@pytest.mark.parametrize("name", BY_NAME)
def test_names_are_kriging_with_that_variogram(name: str) -> None:
    numbers, gamma = BY_NAME[name]
    prior = from_variogram(name, nugget=0.05, **numbers)
    same(ours(prior), kriged(lambda A, B: gamma(distances(A, B)), 0.05))
    plane = from_variogram(name, nugget=0.05, **numbers, mean=cagp.Polynomial(1))
    drift = lambda P: np.column_stack([np.ones(len(P)), P])  # noqa: E731
    same(ours(plane), kriged(lambda A, B: gamma(distances(A, B)), 0.05, drift))


@pytest.mark.parametrize("name", ["linear", "power"])
def test_without_a_sill_it_does_not_matter_where_the_origin_is(name: str) -> None:
    prior = from_variogram(name, nugget=0.05, **BY_NAME[name][0])
    here, there = ours(prior), ours(prior, X + FAR, NEW + FAR)
    same(here, there, 1e-6)
    # and in a window, whose error bars are at most a little wider
    window = {"solver": cagp.NearestNeighbours(20, shared=False)}
    near = ours(prior, **window)
    same(near, ours(prior, X + FAR, NEW + FAR, **window), 1e-6)
    assert (near[1] > here[1] - 1e-9).all()
    assert (near[1] < 1.05 * here[1]).all()


PYKRIGE = {
    "spherical": {"psill": 2.0, "range": 4.0, "nugget": 0.05},
    "exponential": {"psill": 2.0, "range": 6.0, "nugget": 0.05},
    "gaussian": {"psill": 2.0, "range": 3.0, "nugget": 0.05},
    "linear": {"slope": 0.3, "nugget": 0.05},
    "power": {"scale": 0.1, "exponent": 1.4, "nugget": 0.05},
}


@pytest.mark.parametrize("name", PYKRIGE)
def test_pykrige(name: str) -> None:
    variogram = {"variogram_model": name, "variogram_parameters": PYKRIGE[name]}
    theirs = OrdinaryKriging(*X.T, Y, **variogram)
    same(ours(from_variogram(theirs)), theirs.execute("points", *NEW.T))
    drift = UniversalKriging(*X.T, Y, **variogram, drift_terms=["regional_linear"])
    assert from_variogram(drift).mean == cagp.Polynomial(1)
    same(ours(from_variogram(drift)), drift.execute("points", *NEW.T), 1e-6)
    if name in ("spherical", "exponential", "gaussian"):
        turned = OrdinaryKriging(*X.T, Y, **variogram, anisotropy_scaling=2.5, anisotropy_angle=30.0)
        same(ours(from_variogram(turned)), turned.execute("points", *NEW.T))
    X3, NEW3 = np.column_stack([X, X[::-1, 0]]), np.column_stack([NEW, NEW[::-1, 0]])
    space = OrdinaryKriging3D(*X3.T, Y, **variogram)
    same(ours(from_variogram(space), X3, NEW3), space.execute("points", *NEW3.T))
    if name == "spherical":
        flat = OrdinaryKriging3D(*X3.T, Y, **variogram, anisotropy_scaling_y=2.0, anisotropy_scaling_z=0.5)
        same(ours(from_variogram(flat), X3, NEW3), flat.execute("points", *NEW3.T))


@pytest.mark.parametrize("name", ["Spherical", "Exponential", "Gaussian", "Matern"])
def test_gstools(name: str) -> None:
    more: Any = {"nu": 1.5} if name == "Matern" else {}
    for shape in ({}, {"anis": 0.4, "angles": np.pi / 5}):
        model = getattr(gstools, name)(dim=2, var=1.7, len_scale=2.0, nugget=0.05, **shape, **more)
        theirs = gstools.krige.Ordinary(model, X.T, Y)
        mean, variance = theirs(NEW.T)
        assert from_variogram(theirs) == from_variogram(model)
        found = ours(from_variogram(model))
        same(found, (mean, variance), 1e-7)
        simple = gstools.krige.Simple(model, X.T, Y, mean=3.0)
        same(ours(from_variogram(simple)), simple(NEW.T), 1e-7)
    space = getattr(gstools, name)(dim=3, var=1.7, len_scale=[2.0, 1.0, 4.0], nugget=0.05, **more)
    steps = RNG.normal(size=(20, 3))
    covariance = from_variogram(space).kernel(np.zeros((1, 3)), steps)[0]
    np.testing.assert_allclose(space.cov_spatial(steps.T), covariance, rtol=1e-10, atol=1e-14)
    line = getattr(gstools, name)(dim=1, var=1.7, len_scale=2.0, nugget=0.05, **more)
    h = np.linspace(0.1, 7, 30)
    covariance = from_variogram(line).kernel(np.zeros((1, 1)), h[:, None])[0]
    np.testing.assert_allclose(line.variogram(h), 0.05 + 1.7 - covariance, rtol=1e-10)


def test_a_table_of_gstat() -> None:
    rows = {"model": ["Nug", "Sph", "Exp"], "psill": [0.05, 1.5, 0.5], "range": [0.0, 4.0, 2.0]}
    prior = from_variogram(pd.DataFrame(rows))
    gamma = lambda A, B: 1.5 * spherical(distances(A, B) / 4) + 0.5 * (1 - np.exp(-distances(A, B) / 2))  # noqa: E731
    same(ours(prior), kriged(gamma, 0.05))
    without_sill = pd.DataFrame({"model": ["Nug", "Pow"], "psill": [0.05, 0.1], "range": [0.0, 1.6]})
    assert from_variogram(without_sill) == from_variogram("power", slope=0.1, exponent=1.6, nugget=0.05)
    line = pd.DataFrame({"model": ["Nug", "Lin"], "psill": [0.05, 0.1], "range": [0.0, 0.0]})
    assert from_variogram(line) == from_variogram("linear", slope=0.1, nugget=0.05)
    # ang1 is clockwise from north, anis1 the range across over that along: here 30° east of north, (sin 30°, cos 30°)
    turned = from_variogram(pd.DataFrame(rows | {"ang1": [0, 30.0, 0], "anis1": [1, 0.5, 1]}))
    along, across = np.array([0.5, np.sqrt(0.75)]), np.array([np.sqrt(0.75), -0.5])
    for direction, reach in ((along, 4.0), (across, 2.0)):
        steps = np.outer(np.linspace(0.1, 5, 20), direction)
        h = np.linspace(0.1, 5, 20)
        expected = 1.5 * (1 - spherical(h / reach)) + 0.5 * np.exp(-h / 2)
        np.testing.assert_allclose(turned.kernel(np.zeros((1, 2)), steps)[0], expected, atol=1e-12)


@pytest.mark.skipif("CAGP_DATA" not in os.environ, reason="CAGP_DATA does not name the folder with meuse.csv")
def test_block_kriging_as_gstat_tests_it() -> None:
    """The figures of gstat's own test of zinc along the Meuse: 40 neighbours, a block of 40 × 40 m, 4 × 4 points."""
    table = pd.read_csv(Path(os.environ["CAGP_DATA"]) / "meuse.csv")
    places, centre = table[["x", "y"]].to_numpy(float), np.array([181_170.0, 333_250.0])
    near = np.argsort(distances(centre[None], places)[0], kind="stable")[:40]
    prior = from_variogram("spherical", psill=1.34e5, range=800, nugget=2.42e4)
    model = prior.condition(places[near], table["zinc"].to_numpy(float)[near], "cholesky")
    offsets = 10.0 * (np.arange(4) - 1.5)
    block = centre + np.stack(np.meshgrid(offsets, offsets), axis=-1).reshape(-1, 2)
    found = model.average(block)
    assert found.mean[0] == pytest.approx(268.7324, abs=1e-3)
    assert found.std[0] ** 2 == pytest.approx(19568.76, rel=1e-5)


REFUSED = {
    "unknown name": (lambda: from_variogram("cubic", nugget=0.1), "variogram must be one of 'spherical'"),
    "no range": (
        lambda: from_variogram("spherical", psill=1.0, nugget=0.1),
        "has psill and range beside its nugget, got",
    ),
    "sill": (lambda: from_variogram("linear", psill=1.0, range=2.0, nugget=0.1), "has slope .*one dimension alone"),
    "no nugget": (lambda: from_variogram("linear", slope=1.0), "nugget must be positive, got 0"),
    "negative": (lambda: from_variogram("spherical", psill=-1.0, range=2.0, nugget=0.1), "psill must be positive"),
    "exponent": (lambda: from_variogram("power", slope=1.0, exponent=2.0, nugget=0.1), "below 2, got 2.0"),
    "known mean": (lambda: from_variogram("linear", slope=1.0, nugget=0.1, mean=3.0), "no sill.*Constant\\(3.0\\)"),
    "a model": (lambda: from_variogram(gstools.Gaussian(dim=2), psill=2.0), "psill is for a variogram by name"),
    "other model": (lambda: from_variogram(gstools.Cubic(dim=2)), "has no equal here; known are Spherical"),
    "linear of GSTools": (lambda: from_variogram(gstools.Linear(dim=1)), "one dimension alone"),
    "drift of GSTools": (
        lambda: from_variogram(gstools.krige.Universal(gstools.Gaussian(dim=2), X.T, Y, "linear")),
        "a drift of this Universal are not translated.*kriging.model.*Polynomial",
    ),
    "much of GSTools": (
        lambda: from_variogram(
            gstools.krige.Ordinary(
                gstools.Gaussian(dim=2, nugget=0.1),
                X.T,
                Y,
                normalizer=gstools.normalizer.YeoJohnson(),
                trend=lambda x, y: x,
                cond_err=0.3,
            )
        ),
        "a trend and a normalizer and errors of measurement",
    ),
    "globe": (lambda: from_variogram(gstools.Gaussian(latlon=True)), "cagp.Geographic"),
    "hole effect": (
        lambda: from_variogram(OrdinaryKriging(*X.T, Y, "hole-effect", {"psill": 1, "range": 1, "nugget": 0})),
        "'hole-effect' has no equal",
    ),
    "degrees": (
        lambda: from_variogram(OrdinaryKriging(*X.T, Y, "linear", [1.0, 0.1], coordinates_type="geographic")),
        "great circles",
    ),
    "other drift": (
        lambda: from_variogram(
            UniversalKriging(*X.T, Y, "linear", [1.0, 0.1], drift_terms=["functional"], functional_drift=[np.sin])
        ),
        "functional_drift.*not translated",
    ),
    "no table of gstat": (lambda: from_variogram(pd.DataFrame({"model": ["Sph"]})), "psill is missing"),
    "other structure": (
        lambda: from_variogram(pd.DataFrame({"model": ["Bes"], "psill": [1.0], "range": [1.0]})),
        "row 0, Bes, has no equal",
    ),
    "nugget alone": (
        lambda: from_variogram(pd.DataFrame({"model": ["Nug"], "psill": [1.0], "range": [0.0]})),
        "nugget alone",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_has_no_equal_is_refused(case: str) -> None:
    call, words = REFUSED[case]
    with pytest.raises(InputError, match=words):
        call()


@pytest.mark.parametrize("short", ["Sph", "sph", "SPH"])
def test_names_of_gstat_are_names(short: str) -> None:
    numbers = {"psill": 2.0, "range": 0.5, "nugget": 0.1}
    assert from_variogram(short, **numbers) == from_variogram("spherical", **numbers)
    assert from_variogram("Pow", slope=1, exponent=0.5, nugget=0.1).kernel == cagp.FractionalBrownian(1, 0.5)
    with pytest.raises(TypeError, match="no argument 'sill'; the sill without the nugget is psill"):
        from_variogram(short, sill=2.0, range=1.0)


def test_what_is_no_variogram_is_refused() -> None:
    with pytest.raises(InputTypeError, match="variogram must be a name, a model of GSTools"):
        from_variogram(3.0)


def test_the_spherical_kernel_is_for_space() -> None:
    with pytest.raises(InputError, match=r"up to 3 columns, the points have 4; say which.*\.on\(0, 1\)"):
        Spherical(1.0)(RNG.random((5, 4)))
    assert Spherical(1.0).on(0, 2)(RNG.random((5, 4))).shape == (5, 5)


def test_the_kernel_without_a_sill_is_a_covariance() -> None:
    P = RNG.normal(size=(40, 3))
    for exponent in (0.3, 1.0, 1.9):
        K = FractionalBrownian(0.7, exponent)(P)
        assert np.linalg.eigvalsh(K).min() > -1e-10
        h = distances(P, P)
        half = 0.5 * (np.diag(K)[:, None] + np.diag(K) - 2 * K)
        np.testing.assert_allclose(half, 0.7 * h**exponent, atol=1e-10)
