"""The same point gets the same answer from neighbours, whatever else is asked in the call and however it is cut."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import cagp

RNG = np.random.default_rng(11)


def lattice(rows: int, columns: int, low: float = 0.0, high: float = 1.0) -> np.ndarray:
    """The cells of a grid, (rows · columns, 2)."""
    axes = np.meshgrid(np.linspace(low, high, columns), np.linspace(low, high, rows))
    return np.stack(axes, axis=-1).reshape(-1, 2)


def without_gaps(points: np.ndarray) -> np.ndarray:
    """The points (n, 2) outside of three discs."""
    kept = np.ones(len(points), dtype=bool)
    for centre, radius in (((0.3, 0.4), 0.15), ((0.7, 0.7), 0.1), ((0.8, 0.2), 0.06)):
        kept &= np.square(points - centre).sum(axis=1) > radius**2
    return points[kept]


GRID = lattice(60, 60)
GLOBE = lattice(60, 60) * [170, 360] - [85, 180]
SCATTERED = RNG.random((3000, 2))
CLUSTERED = np.concatenate([RNG.random((500, 2)), 0.4 + 0.05 * RNG.normal(size=(2000, 2)), np.full((300, 2), 0.6)])
KERNEL = cagp.Matern32(0.1)
PLAIN = cagp.Prior(KERNEL, noise_variance=0.01)
TREND = cagp.Prior(KERNEL, mean=cagp.Polynomial(1), noise_variance=0.01)
SHORT = cagp.Prior(cagp.Matern12((0.2, 0.05)), noise_variance=0.02)
ON_A_GLOBE = cagp.Prior(cagp.Geographic(cagp.Matern32(0.2)), noise_variance=0.01)

CASES: dict[str, tuple[cagp.Prior, np.ndarray, np.ndarray, cagp.NearestNeighbours]] = {
    "scattered": (PLAIN, SCATTERED, GRID, cagp.NearestNeighbours(40)),
    "grid": (PLAIN, lattice(60, 50), GRID, cagp.NearestNeighbours(40)),
    "trend": (TREND, SCATTERED, GRID, cagp.NearestNeighbours(30)),
    "gaps": (PLAIN, without_gaps(lattice(70, 70)), GRID, cagp.NearestNeighbours(40)),
    "trend in gaps": (TREND, without_gaps(SCATTERED), GRID, cagp.NearestNeighbours(30)),
    "globe": (ON_A_GLOBE, GLOBE[RNG.permutation(len(GLOBE))[:3000]], GLOBE, cagp.NearestNeighbours(50)),
    "every scale": (PLAIN, without_gaps(SCATTERED), GRID, cagp.NearestNeighbours(30, far=18)),
    "clusters and repeated points": (PLAIN, CLUSTERED, GRID, cagp.NearestNeighbours(30)),
    "nearly all": (PLAIN, SCATTERED[:70], GRID, cagp.NearestNeighbours(60)),
    "beyond the data": (PLAIN, SCATTERED, 9 * GRID - 4, cagp.NearestNeighbours(30)),
    "one dimension": (PLAIN, SCATTERED[:, :1], GRID[::3, :1] + GRID[::3, 1:] / 90, cagp.NearestNeighbours(20)),
}


Predict = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


def predictor(name: str, **settings: object) -> Predict:
    prior, X, _, solver = CASES[name]
    y = np.sin(5 * X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=len(X))
    model = prior.condition(X, y, solver, storage="tiles")

    def predict(test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        post = model.predict(test, progress=False, **settings)  # type: ignore[arg-type]
        return post.mean, post.std

    return predict


def agree(found: tuple[np.ndarray, np.ndarray], whole: tuple[np.ndarray, np.ndarray], rows: np.ndarray) -> None:
    assert_allclose(found[0], whole[0][rows], rtol=1e-9, atol=1e-9)
    assert_allclose(found[1], whole[1][rows], rtol=1e-10)


@pytest.mark.parametrize("name", CASES)
def test_halves_orders_and_single_rows_do_not_matter(name: str) -> None:
    test, predict = CASES[name][2], predictor(name)
    whole, everything = predict(test), np.arange(len(test))
    for rows in (
        everything[: len(test) // 2],
        everything[len(test) // 2 :],
        np.random.default_rng(1).permutation(everything),
    ):
        agree(predict(test[rows]), whole, rows)
    for row in range(7, len(test), len(test) // 12):
        agree(predict(test[row : row + 1]), whole, np.array([row]))


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("gaps", {"batch_size": 37}),
        ("trend", {"batch_size": 1000}),
        ("every scale", {"batch_size": 500}),
        ("trend in gaps", {"n_jobs": 2, "batch_size": 900}),
    ],
    ids=str,
)
def test_batches_and_processes_do_not_matter(name: str, settings: dict[str, int]) -> None:
    test = CASES[name][2][:2000]
    agree(predictor(name, **settings)(test), predictor(name)(test), np.arange(len(test)))


def test_neighbouring_points_that_were_not_asked_before_do_not_matter() -> None:
    """A coarse grid, and the same within one four times as fine."""
    fine = lattice(119, 119)
    rows = np.arange(119 * 119).reshape(119, 119)[::2, ::2].ravel()
    predict = predictor("scattered")
    agree(predict(fine[rows]), predict(fine), rows)


def test_averages_are_those_of_their_points() -> None:
    prior, X, _, solver = CASES["scattered"]
    model = prior.condition(X, X[:, 0], solver, storage="tiles")
    cells = GRID[:300]
    order = np.random.default_rng(2).permutation(300)
    assert_allclose(model.average(cells[order]).variance, model.average(cells).variance, rtol=1e-8)


def test_a_component_answers_the_same_wherever_it_is_asked(tmp_path: Path) -> None:
    """Alone, in the mixture, after loading, and by workers: a component beside a heavier one works as hard."""
    _, X, test, solver = CASES["trend in gaps"]
    y = np.sin(5 * X[:, 0])
    heavy, light = (prior.condition(X, y, solver, storage="tiles") for prior in (TREND, SHORT))
    model = heavy.replace(components=[light.components[0], heavy.components[0]], weights=[0.3, 0.7])
    whole = model.predict(test, progress=False)
    for found, expected in zip(whole.components, (heavy.predict(test), light.predict(test)), strict=True):
        assert_allclose(found.mean, expected.mean, rtol=1e-9, atol=1e-9)
        assert_allclose(found.std, expected.std, rtol=1e-10)
    loaded = cagp.load(model.save(tmp_path / "model"))
    rows = np.arange(0, len(test), 3)
    for again, settings in ((model, {"n_jobs": 2, "batch_size": 500}), (loaded, {}), (model.replace(), {})):
        found = again.predict(test[rows], progress=False, **settings)
        agree((found.mean, found.std), (whole.mean, whole.std), rows)
