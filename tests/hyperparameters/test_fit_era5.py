"""Fits to the temperature field of the paper."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

import cagp
from cagp.datasets import era5_grid
from cagp.hyperparameters import fit
from optima import assert_optimum

START = cagp.Prior(cagp.Geographic(cagp.Matern32(0.3, 100.0)), mean=cagp.Constant(), noise_variance=1.0)


def _numbers(prior):
    """Amplitude (K), lengthscale (Earth radii), standard deviation of the noise (K)."""
    kernel = prior.kernel.kernel
    return np.array([kernel.variance**0.5, kernel.lengthscale, prior.noise_variance**0.5])


@pytest.mark.usefixtures("data_folder")
def test_a_coarse_grid_gives_the_optimum_of_scikit_learns_likelihood_on_unit_vectors():
    grid = era5_grid(18, 36)
    latitude, longitude = np.deg2rad(grid.X.T)
    vectors = np.column_stack(
        [np.cos(latitude) * np.cos(longitude), np.cos(latitude) * np.sin(longitude), np.sin(latitude)]
    )
    kernel = ConstantKernel(100.0) * Matern(0.3, nu=1.5) + WhiteKernel(1.0)
    peer = GaussianProcessRegressor(kernel, alpha=0.0, optimizer=None).fit(vectors, grid.y - grid.y.mean())
    known = replace(START, mean=cagp.Constant(float(grid.y.mean())))
    result = fit(known, grid.X, grid.y, n_restarts=0, standard_errors=False)
    amplitude, lengthscale, noise = _numbers(result.prior)
    found = np.log([amplitude**2, lengthscale, noise**2])
    assert peer.log_marginal_likelihood(found) == pytest.approx(result.log_likelihood, abs=1e-6)
    assert_optimum(peer, found, np.log([13.7965**2, 0.429008, 2.51398**2]), slope=0.1)
    np.testing.assert_allclose([amplitude, lengthscale, noise], [13.7965, 0.429008, 2.51398], rtol=1e-2)


def _near_all(near, exact):
    """Every hyperparameter within 5%: the variances themselves, not the smaller differences of their roots."""
    assert near.values.keys() == exact.values.keys()
    for name, value in exact.values.items():
        assert near.values[name] == pytest.approx(value, rel=0.05), name


@pytest.mark.usefixtures("data_folder")
def test_nearest_neighbours_are_near_the_exact_fit_on_a_coarse_grid():
    grid = era5_grid(24, 48)
    options = {"n_restarts": 0, "standard_errors": False}
    near = fit(START, grid.X, grid.y, likelihood="nearest-neighbours", **options)
    _near_all(near, fit(near.prior, grid.X, grid.y, **options))


@pytest.mark.slow
@pytest.mark.usefixtures("data_folder")
def test_the_published_grid_exactly_and_by_nearest_neighbours():
    grid = era5_grid(72, 144)
    options = {"n_restarts": 0, "standard_errors": False}
    known = replace(START, mean=cagp.Constant(float(grid.y.mean())))  # as it was published
    near = fit(known, grid.X, grid.y, likelihood="nearest-neighbours", terms="all", **options)
    exact = fit(near.prior, grid.X, grid.y, likelihood="exact", **options)
    np.testing.assert_allclose(_numbers(exact.prior), [11.1, 0.174, 1.17], rtol=0.01)
    assert exact.negative_log_likelihood_per_point == pytest.approx(2.183, rel=0.01)
    _near_all(near, exact)
