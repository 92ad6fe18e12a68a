import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist

import cagp
from cagp.fields.vecchia_draws import VecchiaDraws
from cagp.gram import previous_neighbours as module
from cagp.gram.previous_neighbours import NONE, previous_neighbours


def _brute(coordinates, k):
    """Distances to the k nearest predecessors, sorted; infinite where there are fewer."""
    distances = cdist(coordinates, coordinates)
    distances[np.triu_indices(len(coordinates))] = np.inf
    return np.sort(distances, axis=1)[:, :k]


def _distances(coordinates, found):
    """Distances to the neighbours found, in their order; infinite where there is none."""
    rows = np.arange(len(coordinates))[:, None]
    distances = np.linalg.norm(coordinates[rows] - coordinates[found], axis=2)
    assert (found < rows).all()
    for row in found:
        real = row[row != NONE]
        assert len(np.unique(real)) == len(real)
    return np.where(found == NONE, np.inf, distances)


@pytest.mark.parametrize(("n", "k"), [(1, 1), (5, 4), (40, 1), (300, 7), (1000, 20)])
def test_the_tree_finds_the_nearest_predecessors(n, k):
    X = np.random.default_rng(n).random((n, 3))
    found = previous_neighbours(cagp.Matern32((1.0, 0.1, 3.0)), torch.from_numpy(X), k).numpy()
    scaled = X / [1.0, 0.1, 3.0]
    np.testing.assert_allclose(_distances(scaled, found), _brute(scaled, k), atol=1e-12)


def test_few_among_many_have_the_nearest_predecessors(monkeypatch):
    X = np.random.default_rng(4).random((3000, 2))
    places = np.array([0, 3, 20, 21, 150, 900, 1001, 1500, 2998])
    searched, by_search = [], module._by_search
    monkeypatch.setattr(module, "_by_search", lambda *asked: searched.append(1) or by_search(*asked))
    for k, scales in ((12, (1.0, 0.2)), (12, (0.2, 1.0)), (5, (0.2, 1.0)), (12, (1.0, 0.2))):
        found = previous_neighbours(cagp.Matern32(scales), torch.from_numpy(X), k, torch.from_numpy(places)).numpy()
        apart = cdist((X / scales)[places], X / scales)
        apart[np.arange(3000) >= places[:, None]] = np.inf
        near = np.take_along_axis(apart, np.where(found == NONE, 2999, found), axis=1)
        np.testing.assert_allclose(near, np.sort(apart, axis=1)[:, :k], atol=1e-12)
    assert len(searched) == 3  # the last question is the first


def test_points_in_an_unlucky_order_with_many_copies():
    X = np.repeat(np.sort(np.random.default_rng(0).random(60))[:, None], 5, axis=0)
    found = previous_neighbours(cagp.RBF(0.5), torch.from_numpy(X), 9).numpy()
    np.testing.assert_allclose(_distances(2 * X, found), _brute(2 * X, 9), atol=1e-12)


def test_correlation_and_tree_agree_where_both_apply(monkeypatch):
    monkeypatch.setattr(module, "_BLOCK_ENTRIES", 500)
    X = torch.from_numpy(np.random.default_rng(1).random((150, 2)))
    kernel = cagp.Matern12((0.5, 0.8))
    tree = previous_neighbours(kernel, X, 6)
    pairs = previous_neighbours(cagp.kernels.Sum((kernel,)), X, 6)
    assert torch.equal(tree, pairs)


def test_a_large_negative_correlation_is_a_neighbour():
    X = torch.tensor([[1.0, 0.0], [0.6, 0.8], [-1.0, 0.1]], dtype=torch.float64)
    kernel = cagp.CustomKernel(lambda A, B: A @ B.T)
    assert previous_neighbours(kernel, X, 1)[2].item() == 0


def test_neighbours_on_the_globe_cross_the_date_line():
    X = torch.tensor([[0.0, 10.0], [0.0, 359.0], [0.0, 1.0]], dtype=torch.float64)
    assert previous_neighbours(cagp.Geographic(cagp.Matern32(0.1)), X, 1)[2].item() == 1


def test_points_without_variance_are_no_neighbours():
    """Groups of at most k + 1 points that depend on each other alone: the k neighbours of each hold all there is."""

    def groups(A, B):
        same = (A[:, :1] == B[:, 0]) & (A[:, :1] > 0)  # group 0 has no variance
        return same * torch.exp(-(A[:, 1:] - B[:, 1]).abs())

    rng = np.random.default_rng(5)
    X = np.column_stack([np.r_[np.zeros(12), np.repeat(np.arange(1.0, 9.0), 6)], rng.random(60)])
    y, kernel = rng.normal(size=60), cagp.CustomKernel(groups, 2.0)
    prior = cagp.Prior(kernel, noise_variance=0.1)
    near = prior.log_likelihood(X, y, likelihood="nearest-neighbours", n_neighbours=5)
    assert near == pytest.approx(prior.log_likelihood(X, y, likelihood="exact"), rel=1e-12)

    points = torch.from_numpy(X)
    found = previous_neighbours(kernel, points, 5)
    assert not (found < 12)[found != NONE].any()
    draws = VecchiaDraws(kernel, kernel.embed(points, points.mean(dim=0)), k=20)
    assert draws.largest_error < 1e-12
    assert "singular" not in draws.how
