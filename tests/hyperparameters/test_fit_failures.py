"""Failure is told: at a bound, flat, not positive definite, interrupted, or not a question at all."""

import os
import signal

import numpy as np
import pytest

import cagp
from cagp.hyperparameters import FitWarning, fit
from cagp.hyperparameters.exact import CompiledExactLikelihood
from cagp.hyperparameters.likelihood import Evaluation
from cagp.hyperparameters.optimise import fisher_scoring


def test_a_bound_that_was_reached_is_told(sample):
    X, y = sample
    prior = cagp.Prior(cagp.RBF(0.5), noise_variance=0.05)
    options = {"bounds": {"lengthscale": (0.4, 0.51)}, "n_restarts": 0}
    with pytest.warns(FitWarning, match=r"kernel.lengthscale ended at its (lower|upper) bound"):
        prior.fit(X, y, **options)
    result = fit(prior, X, y, **options)
    assert "kernel.lengthscale" in result.at_bounds
    assert np.isnan(result.standard_errors["kernel.lengthscale"])
    assert np.isfinite(result.standard_errors["kernel.variance"])


def test_a_flat_likelihood_is_told(sample):
    X, y = sample
    # a column that is constant says nothing about its lengthscale
    X = np.column_stack([X, np.full(60, 2.0)])
    prior = cagp.Prior(cagp.RBF((0.5, 0.7, 1.0)), noise_variance=0.05)
    with pytest.warns(FitWarning, match=r"nothing about kernel.lengthscale\[2\]"):
        fitted = prior.fit(X, y, n_restarts=0)
    assert fitted.kernel.lengthscale[2] == pytest.approx(1.0)
    result = fit(prior, X, y, n_restarts=0)
    assert [w for w in result.warnings if "nothing about" in w] == [result.warnings[-1]]
    assert result.standard_errors["kernel.lengthscale[2]"] == np.inf
    assert np.isfinite(result.standard_errors["kernel.lengthscale[0]"])


def test_a_likelihood_that_decides_nothing_between_two_hyperparameters_is_told(sample):
    X, y = sample
    result = fit(cagp.Prior(cagp.RBF(0.5) * cagp.RBF(0.6), noise_variance=0.05), X, y, n_restarts=0)
    flat = [each for each in result.advice if each.kind == "flat"]
    assert len(flat) == 4  # both variances and both lengthscales enter only together


def test_too_few_iterations_are_told(sample):
    X, y = sample
    with pytest.warns(FitWarning, match="did not converge"):
        cagp.Prior(cagp.RBF(0.5), noise_variance=0.05).fit(X, y, n_restarts=0, max_iterations=2)


@pytest.mark.parametrize("likelihood", ["exact", "nearest-neighbours"])
def test_a_variance_without_a_square_is_refused_before_work(sample, likelihood):
    X, y = sample
    with pytest.raises(cagp.InputError, match=r"no square in torch\.float64; rescale y"):
        fit(cagp.Prior(cagp.RBF(0.5, 1e-160), noise_variance=1e-161), X, 1e-80 * y, likelihood=likelihood)


def test_a_likelihood_beyond_float64_is_none(sample):
    X, y = sample
    bounds = {"variance": (1e-300, 1.0), "noise_variance": (1e-300, 1.0)}
    result = fit(cagp.Prior(cagp.RBF(0.5, 1e-152), noise_variance=1e-153), X, 1e-100 * y, bounds=bounds, n_restarts=0)
    assert np.isfinite(result.log_likelihood)  # and no warning of NumPy on the way


def test_no_start_where_g_is_positive_definite_is_an_error(sample):
    X, y = sample
    prior = cagp.Prior(cagp.RBF(50.0), noise_variance=1e-20)
    with pytest.raises(cagp.NotPositiveDefiniteError):
        prior.fit(X, y, fix_noise=True, fix="lengthscale")


def test_jitter_is_never_silent(sample):
    X, y = sample
    prior = cagp.Prior(cagp.RBF(20.0), noise_variance=1e-20)
    assert fit(cagp.Prior(cagp.RBF(0.5)), X, y, n_restarts=0, standard_errors=False).jitter == 0
    result = fit(prior, X, y, fix_noise=True, fix="lengthscale", jitter=1e-3, n_restarts=0, standard_errors=False)
    assert result.jitter == 1e-3
    assert "jitter of 0.001" in result.message


def test_the_search_turns_back_where_g_is_not_positive_definite(sample, monkeypatch):
    X, y = sample
    original = CompiledExactLikelihood.__call__

    def fragile(self, log_values):
        if log_values[0] > np.log(0.3):
            raise cagp.NotPositiveDefiniteError("beyond")
        return original(self, log_values)

    monkeypatch.setattr(CompiledExactLikelihood, "__call__", fragile)
    result = fit(cagp.Prior(cagp.RBF(0.2), noise_variance=0.05), X, y, n_restarts=0)
    assert np.isfinite(result.log_likelihood)
    assert 0.2 < result.values["kernel.lengthscale"] < 0.3
    failed = [step for step in result.trace if step.log_likelihood == -np.inf]
    assert failed
    assert f"At {len(failed)} of them G was not positive definite" in result.message


def test_ctrl_c_keeps_the_best_point_so_far(sample, monkeypatch):
    X, y = sample
    original, calls = CompiledExactLikelihood.__call__, []

    def interrupted(self, log_values):
        calls.append(1)
        if len(calls) == 4:
            os.kill(os.getpid(), signal.SIGINT)
        return original(self, log_values)

    monkeypatch.setattr(CompiledExactLikelihood, "__call__", interrupted)
    result = fit(cagp.Prior(cagp.RBF(0.5), noise_variance=0.05), X, y)
    assert len(calls) == len(result.trace) == 4
    assert result.log_likelihood == max(step.log_likelihood for step in result.trace)
    assert not result.converged
    assert "interrupted" in result.message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"likelihood": "approximate"}, "likelihood must be one of 'exact', 'nearest-neighbours'"),
        ({"subset": 61}, "subset=61 is larger than the 60 observations"),
        ({"subset": [0, 60]}, "distinct and in 0…59"),
        ({"subset": [0.5, 1.0]}, "list of indices"),
        ({"subset": [1, 1]}, "distinct"),
        ({"refit_mean": True}, "has no coefficients"),
        ({"jitter": -1e-6}, "must not be negative"),
        ({"n_restarts": -1}, "n_restarts must be at least 0"),
        ({"n_neighbours": 0}, "n_neighbours must be at least 1"),
        ({"tolerance": 0.0}, "tolerance must be positive"),
    ],
)
def test_bad_options_are_refused_before_any_work(sample, monkeypatch, options, message):
    monkeypatch.setattr(CompiledExactLikelihood, "__call__", lambda self, at: pytest.fail("work was done"))
    with pytest.raises(cagp.InputError, match=message):
        cagp.Prior(cagp.RBF()).fit(*sample, **options)


def test_the_exact_likelihood_never_turns_into_another(sample):
    with pytest.raises(cagp.MemoryBudgetError, match="the exact likelihood of 60 points"):
        cagp.Prior(cagp.RBF()).fit(*sample, memory_budget=1000)


def test_scoring_that_gives_up_says_how_many_steps_it_made() -> None:
    """Then the optimiser that takes over has the others left."""

    def evaluate(at: np.ndarray) -> Evaluation:
        information = np.eye(1) if at[0] == 0 else None  # none after the first step
        return Evaluation(-0.5 * float((at[0] - 1) ** 2), 1 - at, None, information)

    far = np.array([10.0])
    given_up = fisher_scoring(evaluate, np.zeros(1), -far, far, gain=1e-12, max_steps=30, advance=lambda: None)
    assert not given_up.settled
    assert given_up.steps == 1
