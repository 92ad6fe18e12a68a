"""Prior means, and what they do to a posterior."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import cagp
from problems import make_problem

PROBLEM = make_problem()
X, y = torch.from_numpy(PROBLEM.X), torch.from_numpy(PROBLEM.y)


def test_constant_is_given_or_the_average() -> None:
    assert cagp.Constant().fit(X, y) == cagp.Constant(float(y.mean()))
    assert cagp.Constant(3).fit(X, y)(X).tolist() == [3.0] * 40


def test_polynomial_is_least_squares() -> None:
    fitted = cagp.Polynomial(degree=2, columns=(0,)).fit(X, y)
    coefficients = np.polynomial.polynomial.polyfit(PROBLEM.X[:, 0], PROBLEM.y, 2)
    assert_allclose(fitted.coefficients, coefficients, rtol=1e-9)
    assert_allclose(fitted(X), np.polynomial.polynomial.polyval(PROBLEM.X[:, 0], coefficients), rtol=1e-9)


def test_polynomial_in_all_columns_has_the_mixed_terms() -> None:
    a, b = PROBLEM.X.T
    values = 1 + 2 * a - b + 3 * a**2 - 4 * a * b + 5 * b**2
    fitted = cagp.Polynomial(degree=2).fit(X, torch.from_numpy(values))
    assert_allclose(fitted.coefficients, [1, 2, -1, 3, -4, 5], rtol=1e-9)


def test_polynomial_that_the_points_do_not_determine_is_refused() -> None:
    with pytest.raises(cagp.InputError, match="do not determine"):
        cagp.Polynomial(degree=2).fit(X[:3], y[:3])
    with pytest.raises(cagp.InputError, match="do not determine"):
        cagp.Polynomial(degree=1).fit(torch.ones(10, 2, dtype=torch.float64), torch.zeros(10, dtype=torch.float64))
    with pytest.raises(cagp.InputError, match="columns"):
        cagp.Polynomial(degree=1, columns=(2,)).fit(X, y)


@pytest.mark.parametrize(
    "mean",
    [
        cagp.Zero(),
        cagp.Constant(2.5),
        2.5,
        cagp.Polynomial(1, coefficients=(1.0, 2.0, -1.0)),
        cagp.Basis(lambda X: X, coefficients=(2.0, 3.0)),
        lambda X: np.sin(X[:, 0]),
    ],
    ids=["zero", "constant", "number", "polynomial", "basis", "function"],
)
def test_mean_is_subtracted_and_added_once(mean: object) -> None:
    prior = cagp.Prior(cagp.Matern32(0.3, 1.7), mean=mean, noise_variance=0.05)
    model = prior.condition(PROBLEM.X, PROBLEM.y, cagp.Cholesky())
    resolved = model.prior.mean
    m0, m0_test = (resolved(torch.from_numpy(a)).numpy() for a in (PROBLEM.X, PROBLEM.X_test))
    post = model.predict(PROBLEM.X_test)
    assert_allclose(post.mean, m0_test + PROBLEM.exact_weights.T @ (PROBLEM.y - m0), rtol=1e-9)
    assert_allclose(post.covariance(), PROBLEM.exact_covariance, rtol=1e-8, atol=1e-10)


def test_mean_function_must_return_one_value_a_point() -> None:
    prior = cagp.Prior(cagp.RBF(1.0), mean=lambda X: X, noise_variance=0.1)
    with pytest.raises(cagp.InputError, match="one value a point"):
        prior.condition(PROBLEM.X, PROBLEM.y, cagp.Cholesky())


def test_unfitted_means_say_so() -> None:
    for mean in (cagp.Constant(), cagp.Polynomial(1), cagp.Basis(lambda X: X)):
        with pytest.raises(cagp.InputError, match=r"unknown; give .* fit\(X, y\)"):
            mean(X)
    with pytest.raises(cagp.InputError, match="coefficients"):
        cagp.Polynomial(1, coefficients=(1.0,))(X)
