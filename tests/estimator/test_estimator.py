"""The estimator against scikit-learn's GaussianProcessRegressor and against the library itself."""

from __future__ import annotations

import dataclasses
import pickle
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import cagp
from cagp.estimator import CAGPRegressor, fitting
from cagp.hyperparameters import FitWarning
from cagp.support.advice import Advice
from optima import assert_optimum

RNG = np.random.default_rng(0)
X = RNG.random((60, 2))
Y = np.column_stack([np.sin(5 * X[:, 0]), 3.0 + X[:, 1] ** 2, np.cos(4 * X[:, 1])]) + 0.1 * RNG.normal(size=(60, 3))
y = Y[:, 0]
X_NEW = RNG.random((9, 2))
KERNEL = 1.5 * sk.Matern(0.4, nu=1.5)
FIXED = {"optimizer": None}


def both(kernel: sk.Kernel | None = KERNEL, target: np.ndarray = y, **options: object):  # type: ignore[no-untyped-def]
    ours = CAGPRegressor(kernel, **options).fit(X, target)
    theirs = GaussianProcessRegressor(kernel, **{"alpha": 1e-10, **options}).fit(X, target)
    return ours, theirs


def assert_same(ours: CAGPRegressor, theirs: GaussianProcessRegressor, rtol: float = 1e-8) -> None:
    mean, std = theirs.predict(X_NEW, return_std=True)
    assert_allclose(ours.predict(X_NEW), mean, rtol=rtol, atol=rtol)
    our_mean, our_std = ours.predict(X_NEW, return_std=True)
    assert_allclose(our_mean, mean, rtol=rtol, atol=rtol)
    assert_allclose(our_std, std, rtol=rtol)
    our_mean, covariance = ours.predict(X_NEW, return_cov=True)
    assert_allclose(our_mean, mean, rtol=rtol, atol=rtol)
    assert_allclose(covariance, theirs.predict(X_NEW, return_cov=True)[1], rtol=rtol, atol=rtol)
    assert_allclose(ours.log_marginal_likelihood_value_, theirs.log_marginal_likelihood_value_, rtol=rtol)
    assert_allclose(ours.score(X, ours.y_train_), theirs.score(X, ours.y_train_), rtol=rtol, atol=rtol)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("target", [y, Y], ids=["one", "three"])
@pytest.mark.parametrize("alpha", [0.1, np.linspace(0.05, 0.2, 60)], ids=["alpha", "alphas"])
@pytest.mark.parametrize("kernel", [KERNEL, KERNEL + sk.WhiteKernel(0.3)], ids=str)
def test_same_predictions(kernel: sk.Kernel, alpha: object, target: np.ndarray, normalize: bool) -> None:
    assert_same(*both(kernel, target, alpha=alpha, normalize_y=normalize, **FIXED))


@pytest.mark.parametrize(
    ("alpha", "target", "known"),
    [
        (0.002, y, [0.5963, -0.4875, 4.0238, -3.6559]),
        (0.002, Y, [0.7814, -0.1003, -0.0196, -3.4757]),
        (np.linspace(0.001, 0.005, 60), y, [0.6044, -0.4828, 4.8302, -3.7091]),
        (np.linspace(0.001, 0.005, 60), Y, [0.7785, -0.1013, -0.0205, -3.5066]),
    ],
    ids=["alpha, one", "alpha, three", "alphas, one", "alphas, three"],
)
def test_same_fit(alpha: object, target: np.ndarray, known: list[float]) -> None:
    kernel = 1.0 * sk.Matern((1.0, 1.0), nu=1.5) + sk.WhiteKernel(0.1)
    ours = CAGPRegressor(kernel, alpha=alpha, normalize_y=True).fit(X, target)
    theirs = GaussianProcessRegressor(ours.kernel_, alpha=alpha, normalize_y=True, **FIXED).fit(X, target)
    assert_same(ours, theirs, rtol=1e-6)
    assert_optimum(theirs, ours.kernel_.theta, known)
    assert "exact likelihood of 60 of 60" in ours.fit_message_


def test_likelihood_at_theta_as_in_scikit_learn() -> None:
    ours, theirs = both(KERNEL + sk.WhiteKernel(0.3), alpha=0.1, **FIXED)
    theta = np.log([2.0, 0.3, 0.2])
    assert_allclose(ours.log_marginal_likelihood(theta), theirs.log_marginal_likelihood(theta), rtol=1e-10)
    value, gradient = ours.log_marginal_likelihood(theta, eval_gradient=True)
    assert_allclose(gradient, theirs.log_marginal_likelihood(theta, eval_gradient=True)[1], rtol=1e-8)
    at = cagp.Prior(cagp.Matern32(0.3, 2.0), noise_variance=0.3)
    assert_allclose(value, at.log_likelihood(X, y), rtol=1e-10)
    assert ours.log_marginal_likelihood() == ours.log_marginal_likelihood_value_


@pytest.mark.parametrize("noise", [0.2, np.linspace(0.05, 0.2, 60)], ids=["one", "each"])
def test_likelihood_at_theta_counts_noise_beside_the_kernel(noise: object) -> None:
    ours = CAGPRegressor(KERNEL, noise_variance=noise, alpha=0.1, **FIXED).fit(X, y)
    theirs = GaussianProcessRegressor(KERNEL, alpha=noise + 0.1, **FIXED).fit(X, y)
    theta = np.log([2.0, 0.3])
    assert_allclose(ours.log_marginal_likelihood(theta), theirs.log_marginal_likelihood(theta), rtol=1e-10)
    assert_allclose(ours.log_marginal_likelihood(ours.kernel_.theta), ours.log_marginal_likelihood_value_, rtol=1e-10)


def test_fixed_hyperparameters_stay() -> None:
    kernel = sk.ConstantKernel(2.0, "fixed") * sk.RBF(0.7) + sk.WhiteKernel(0.05, "fixed")
    ours = CAGPRegressor(kernel).fit(X, y)
    assert ours.kernel_.k1.k1.constant_value == 2.0
    assert ours.kernel_.k2.noise_level == 0.05
    assert_optimum(GaussianProcessRegressor(ours.kernel_, **FIXED).fit(X, y), ours.kernel_.theta, [-0.6811])
    all_fixed = sk.RBF(0.7, "fixed") + sk.WhiteKernel(0.05, "fixed")
    assert "all hyperparameters are fixed" in CAGPRegressor(all_fixed).fit(X, y).fit_message_


@pytest.mark.filterwarnings("ignore:lbfgs failed:cagp.hyperparameters.FitWarning")  # of gradients by differences
def test_kernels_without_an_equal_are_fitted_by_scikit_learn() -> None:
    start = 1.0 * sk.Matern(0.5, nu=0.8) + sk.WhiteKernel(0.1)
    ours = CAGPRegressor(start).fit(X, y)
    theirs = GaussianProcessRegressor(ours.kernel_, **FIXED).fit(X, y)
    assert_same(ours, theirs, rtol=1e-6)
    assert ours.log_marginal_likelihood_value_ > theirs.log_marginal_likelihood(start.theta) + 1
    assert "scikit-learn's optimiser" in ours.fit_message_
    with pytest.raises(cagp.InputError, match="fitted by scikit-learn"):
        CAGPRegressor(sk.Matern(0.5, nu=0.8), fit_options={"likelihood": "exact"}).fit(X, y)


@pytest.mark.filterwarnings("ignore:lbfgs failed:cagp.hyperparameters.FitWarning")  # of gradients by differences
@pytest.mark.parametrize("scale", [1.0, 1e-4])
def test_noise_beside_a_kernel_without_an_equal(scale: float) -> None:
    """Whatever the units of y: bounds of the noise in absolute numbers would be in the way."""
    ours = CAGPRegressor(1.0 * sk.Matern(0.5, nu=0.8) + sk.WhiteKernel(0.1)).fit(X, y)
    kernel = sk.ConstantKernel(scale**2, (1e-5 * scale**2, 1e5 * scale**2)) * sk.Matern(0.5, nu=0.8)
    beside = CAGPRegressor(kernel, noise_variance=0.1 * scale**2).fit(X, scale * y)
    assert_allclose(beside.noise_variance_, scale**2 * ours.noise_variance_, rtol=0.05)


def test_a_callable_optimizer() -> None:
    def nowhere(objective, start, bounds):  # type: ignore[no-untyped-def]
        return start + 0.1, objective(start + 0.1, eval_gradient=False)

    ours, theirs = both(KERNEL + sk.WhiteKernel(0.1), optimizer=nowhere)
    assert_allclose(ours.kernel_.theta, theirs.kernel_.theta)
    assert_same(ours, theirs)
    with pytest.raises(cagp.InputError, match="callable optimizer needs a scikit-learn kernel"):
        CAGPRegressor(cagp.Matern32(0.3), optimizer=nowhere).fit(X, y)


def test_draws_are_those_of_scikit_learn() -> None:
    ours, theirs = both(alpha=0.1, **FIXED)
    assert_allclose(ours.sample_y(X_NEW, 3), theirs.sample_y(X_NEW, 3), atol=1e-6)
    ours, theirs = both(target=Y, alpha=0.1, **FIXED)
    assert ours.sample_y(X_NEW, 4, random_state=5).shape == (9, 3, 4)
    assert_allclose(ours.sample_y(X_NEW, 3), theirs.sample_y(X_NEW, 3), atol=1e-6)


@pytest.mark.parametrize("targets", [None, 2])
@pytest.mark.parametrize("kernel", [KERNEL, KERNEL + sk.WhiteKernel(0.3)], ids=str)
def test_before_fit_it_is_the_prior(kernel: sk.Kernel, targets: int | None) -> None:
    ours, theirs = (kind(kernel, n_targets=targets) for kind in (CAGPRegressor, GaussianProcessRegressor))
    for option in ({}, {"return_std": True}, {"return_cov": True}):
        for found, expected in zip(ours.predict(X_NEW, **option), theirs.predict(X_NEW, **option), strict=True):
            assert_allclose(found, expected, rtol=1e-12)
    assert ours.sample_y(X_NEW, 2).shape == theirs.sample_y(X_NEW, 2).shape
    of_later_data = CAGPRegressor(kernel, n_targets=targets, alpha=np.full(60, 0.1))
    assert_allclose(of_later_data.predict(X_NEW, return_std=True)[1], ours.predict(X_NEW, return_std=True)[1])
    with pytest.raises(NotFittedError):
        CAGPRegressor().predict(X_NEW)
    with pytest.raises(NotFittedError):
        _ = ours.log_marginal_likelihood_value_
    with pytest.raises(cagp.InputError, match="n_targets"):
        CAGPRegressor(n_targets=2).fit(X, y)


# --- noise -------------------------------------------------------------------------------------------------------


def test_what_the_standard_deviation_is_of() -> None:
    ours = CAGPRegressor(KERNEL + sk.WhiteKernel(0.3), alpha=0.1, **FIXED).fit(X, y)
    latent = ours.predict(X_NEW, return_std=True, of="latent")[1] ** 2
    assert_allclose(ours.predict(X_NEW, return_std=True)[1] ** 2, latent + 0.3)
    assert_allclose(ours.predict(X_NEW, return_std=True, of="observed")[1] ** 2, latent + 0.4)
    covariance = ours.predict(X_NEW, return_cov=True, of="observed")[1]
    assert_allclose(np.diag(covariance), latent + 0.4)
    own = CAGPRegressor(cagp.Matern32(0.4, 1.5), noise_variance=0.4, **FIXED).fit(X, y)
    assert_allclose(own.predict(X_NEW, return_std=True)[1] ** 2, latent)
    assert_allclose(own.predict(X_NEW, return_std=True, of="observed")[1] ** 2, latent + 0.4)
    with pytest.raises(cagp.InputError, match="of must be one of"):
        own.predict(X_NEW, return_std=True, of="f")


def test_noise_per_observation() -> None:
    noise = np.linspace(0.01, 0.2, 60)
    at_fit = CAGPRegressor(cagp.Matern32(0.4), **FIXED).fit(X, y, noise_variance=noise)
    given = CAGPRegressor(cagp.Matern32(0.4), noise_variance=noise, **FIXED).fit(X, y)
    as_alpha = CAGPRegressor(cagp.Matern32(0.4), alpha=noise, **FIXED).fit(X, y)
    expected = cagp.Prior(cagp.Matern32(0.4), noise_variance=noise).condition(X, y).predict(X_NEW)
    for regressor in (at_fit, given, as_alpha):
        assert_allclose(regressor.predict(X_NEW, return_std=True)[1], expected.std)
        assert_allclose(regressor.noise_variance_, noise)
        with pytest.raises(cagp.InputError, match="says nothing about new ones"):
            regressor.predict(X_NEW, return_std=True, of="observed")
    with pytest.raises(cagp.InputError, match="noise_variance has shape"):
        CAGPRegressor().fit(X, y, noise_variance=noise[:4])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": KERNEL + sk.WhiteKernel(), "noise_variance": 0.1}, "leave one of them out"),
        ({"kernel": sk.WhiteKernel()}, "is noise and no function"),
        ({"kernel": KERNEL, "alpha": 0.0}, "without noise"),
        ({"kernel": KERNEL, "alpha": -1.0}, "alpha must not be negative"),
        ({"kernel": "cubic"}, "kernel must be"),
        ({"kernel": 3}, "kernel must be"),
        ({"optimizer": "adam"}, "optimizer must be"),
        ({"solver": "magic"}, "unknown solver"),
        ({"solver": cagp.GaussSeidel}, "pass an instance"),
        ({"n_restarts_optimizer": -1}, "n_restarts_optimizer"),
    ],
)
def test_what_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(cagp.InputError, match=message):
        CAGPRegressor(**options).fit(X, y)  # type: ignore[arg-type]


# --- several outputs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "solver",
    [cagp.Cholesky(), cagp.GaussSeidel(4), cagp.CalibratedCG(4), cagp.NearestNeighbours(12), cagp.ConjugateGradient(5)],
    ids=repr,
)
def test_outputs_are_as_if_alone(solver: cagp.Solver) -> None:
    options = {"solver": solver, "mean": cagp.Constant(), "noise_variance": 0.05, **FIXED}
    together = CAGPRegressor(cagp.Matern32(0.4), **options).fit(X, Y)
    mean, std = together.predict(X_NEW, return_std=True)
    for j in range(3):
        alone = CAGPRegressor(cagp.Matern32(0.4), **options).fit(X, Y[:, j])
        expected_mean, expected_std = alone.predict(X_NEW, return_std=True)
        assert_allclose(mean[:, j], expected_mean, rtol=1e-8)
        assert_allclose(std[:, j], expected_std, rtol=1e-8)
        assert_allclose(together.predict(X_NEW)[:, j], expected_mean, rtol=1e-8)
        covariance = together.predict(X_NEW, return_cov=True)[1][:, :, j]
        assert_allclose(covariance, alone.predict(X_NEW, return_cov=True)[1], rtol=1e-8, atol=1e-12)


def test_all_outputs_cost_one_solve(monkeypatch: pytest.MonkeyPatch) -> None:
    solves: list[int] = []
    original = cagp.Model.predict
    monkeypatch.setattr(cagp.Model, "predict", lambda self, X, **o: solves.append(1) or original(self, X, **o))  # type: ignore[func-returns-value]
    for solver in (cagp.Cholesky(), cagp.GaussSeidel(3), cagp.NearestNeighbours(5)):
        regressor = CAGPRegressor(cagp.Matern32(0.4), solver=solver, **FIXED).fit(X, Y)
        solves.clear()
        regressor.predict(X_NEW, return_std=True)
        assert len(solves) == 1


# --- life in scikit-learn ----------------------------------------------------------------------------------------


def test_defaults_for_someone_in_a_hurry() -> None:
    regressor = CAGPRegressor(uncertainty=False).fit(X, 1000 + 50 * y)
    mean, std = regressor.predict(X_NEW, return_std=True)
    assert regressor.score(X, 1000 + 50 * y) > 0.9
    truth = 1000 + 50 * np.sin(5 * X_NEW[:, 0])
    assert (np.abs(mean - truth) < 4 * std).all()
    assert_allclose(regressor.noise_variance_, (50 * 0.1) ** 2, rtol=0.6)
    assert regressor.model_.prior.mean.unknown
    assert "Chosen" in regressor.fit_message_
    assert "Cholesky" in repr(regressor.model_)


def test_many_observations_are_fitted_by_neighbours_and_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("hyperparameters.fitting", "estimator.fitting"):
        monkeypatch.setattr(f"cagp.{place}.EXACT_UP_TO", 40)
    first, second = (CAGPRegressor(cagp.Matern32(0.4), random_state=1).fit(X, y) for _ in range(2))
    assert "nearest-neighbours likelihood of 60 of 60 observations" in first.fit_message_
    assert first.kernel_ == second.kernel_
    few = CAGPRegressor(cagp.Matern32(0.4), random_state=1, fit_options={"subset": 40}).fit(X, y)
    assert "exact likelihood of 40 of 60 observations, drawn at random (seed 1)" in few.fit_message_
    twin = CAGPRegressor(sk.Matern(0.5, nu=0.8) + sk.WhiteKernel(0.1)).fit(X, y)
    assert "40 of 60 observations, drawn at random (seed 0)" in twin.fit_message_


def test_large_data_have_a_likelihood_too(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = CAGPRegressor(cagp.Matern32(0.4), **FIXED).fit(X, y).log_marginal_likelihood_value_
    monkeypatch.setattr("cagp.estimator.regressor._EXACT_EVIDENCE", 10)
    near = CAGPRegressor(cagp.Matern32(0.4), **FIXED).fit(X, y).log_marginal_likelihood_value_
    assert exact != near
    assert_allclose(near, exact, rtol=0.01)


def test_grid_search_over_solvers_and_iterations() -> None:
    grid = [
        {"solver": ["cholesky", "gauss-seidel", cagp.CalibratedCG(3)]},
        {"solver": [cagp.GaussSeidel()], "solver__iterations": [1, 50]},
    ]
    search = GridSearchCV(CAGPRegressor(cagp.Matern32(0.4), noise_variance=0.01, **FIXED), grid, cv=3).fit(X, y)
    scores = dict(zip(map(str, search.cv_results_["params"]), search.cv_results_["mean_test_score"], strict=True))
    few, many = (value for name, value in scores.items() if "iterations" in name and "'solver__" in name)
    assert many > few
    assert search.best_estimator_.predict(X_NEW).shape == (9,)


def test_nested_settings() -> None:
    regressor = CAGPRegressor(cagp.Matern32(0.4), solver="gauss-seidel")
    assert regressor.get_params()["solver__iterations"] == 10
    assert regressor.get_params()["kernel__lengthscale"] == 0.4
    regressor.set_params(solver__iterations=7, kernel__lengthscale=0.9)
    assert regressor.solver == cagp.GaussSeidel(7)
    assert regressor.kernel == cagp.Matern32(0.9)
    regressor.set_params(solver=cagp.Subset(5), solver__size=6)
    assert regressor.solver == cagp.Subset(6)
    theirs = CAGPRegressor(sk.RBF(0.4)).set_params(kernel__length_scale=0.7)
    assert theirs.kernel.length_scale == 0.7
    with pytest.raises(cagp.InputError, match="solver__sweeps is not a setting"):
        regressor.set_params(solver__sweeps=3)
    with pytest.raises(ValueError, match="Invalid parameter"):
        regressor.set_params(nothing=3)
    for name in cagp.solvers.NAMES:  # also those that need settings
        assert CAGPRegressor(solver=name).get_params()["solver"] == name


def test_pipelines_clones_pickles_and_frames() -> None:
    frame = pd.DataFrame(X, columns=["north", "east"])
    pipeline = make_pipeline(
        StandardScaler(), CAGPRegressor("matern32", solver=cagp.GaussSeidel(30), uncertainty=False)
    )
    pipeline.set_output(transform="pandas").fit(frame, y)
    assert list(pipeline[-1].feature_names_in_) == ["north", "east"]
    mean, std = pipeline.predict(frame, return_std=True)
    again = pickle.loads(pickle.dumps(pipeline))
    assert_allclose(again.predict(frame, return_std=True)[1], std)
    fresh = clone(pipeline).fit(frame, y)
    assert_allclose(fresh.predict(frame), mean)
    with pytest.raises(ValueError, match="feature names"):
        pipeline[-1].predict(frame[["east", "north"]])
    assert cross_val_score(pipeline, frame, y, cv=3).mean() > 0.5


def test_warnings_of_a_fit_reach_the_user() -> None:
    with pytest.warns(FitWarning, match=r"kernel\.lengthscale ended at its lower bound"):
        CAGPRegressor(sk.RBF(1.0, (0.9, 1.1)) + sk.WhiteKernel(0.1)).fit(X, y)


@pytest.mark.parametrize("kind", ["flat", "not converged"])
def test_only_what_can_be_mended_is_warned_of(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fit that ends in time has not converged, as asked, and what is flat stands in its story."""
    real, advice = fitting.fit_named, (Advice(kind, "kernel.variance"),)

    def ended(*arguments: Any, **options: Any) -> cagp.Model:
        model = real(*arguments, **options)
        assert model.result is not None
        return model.replace(result=dataclasses.replace(model.result, converged=False, advice=advice))

    monkeypatch.setattr(fitting, "fit_named", ended)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", FitWarning)
        CAGPRegressor("matern32", seconds=1e-6).fit(X, y)
    assert any(issubclass(each.category, FitWarning) for each in caught) == (kind == "not converged")


@pytest.mark.parametrize("solver", ["cholesky", "gauss-seidel", "calibrated-cg"])
@pytest.mark.parametrize("optimizer", ["fmin_l_bfgs_b", None])
def test_threads_do_not_matter(solver: str, optimizer: str | None) -> None:
    before = torch.get_num_threads()
    found, likelihoods = [], []
    try:
        for threads in (1, 2, 1):
            torch.set_num_threads(threads)
            regressor = CAGPRegressor(cagp.Matern32(0.5), solver=solver, optimizer=optimizer).fit(X, y)
            found.append(regressor.predict(X_NEW, return_std=True))
            likelihoods.append(regressor.log_marginal_likelihood_value_)
    finally:
        torch.set_num_threads(before)
    assert_allclose(found[0], found[2], rtol=0, atol=0)  # the same seed: the same numbers
    assert_allclose(likelihoods[0], likelihoods[1], rtol=0, atol=1e-3)
    if optimizer is None:  # rounding may end an optimiser a step earlier, and a few iterations of CG magnify that
        assert_allclose(found[0], found[1], rtol=1e-6)


@pytest.mark.parametrize("n", [1, 30])
def test_observations_that_are_all_the_same_are_no_proof_of_certainty(n: int) -> None:
    X = np.random.default_rng(0).random((n, 2))
    where = "the only training point" if n == 1 else "all 30 training points"
    with pytest.warns(FitWarning, match=f"same value at {where}.*make.* them.*do not fit them"):
        cagp.CAGPRegressor("matern32", uncertainty=False).fit(X, np.full(n, 3.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cagp.CAGPRegressor(optimizer=None).fit(X, np.full(n, 3.0))
