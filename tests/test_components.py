"""Models of several priors against SciPy's normal laws, and back from their folders."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from scipy.special import logsumexp, ndtri_exp
from scipy.stats import norm

import cagp
from cagp.algebra.sweeps import sweep
from cagp.calibration import evaluate
from cagp.predicting.distributions import NormalMixture

WEIGHTS = np.array([0.2, 0.5, 0.3])


@pytest.fixture(scope="module")
def models() -> list[cagp.Model]:
    rng = np.random.default_rng(0)
    X = rng.random((80, 2))
    y = np.sin(6 * X[:, 0]) + 0.1 * rng.standard_normal(80)
    kernels = (cagp.Matern12(1.0), cagp.RBF(0.3), cagp.Matern32(0.1))
    return [
        cagp.Prior(kernel, mean=cagp.Constant(), noise_variance=noise).condition(X, y, cagp.Cholesky())
        for kernel, noise in zip(kernels, (0.01, 0.02, 0.1), strict=True)
    ]


def mixture(models: list[cagp.Model], weights: Any = WEIGHTS) -> cagp.Model:
    return cagp.Model([model.components[0] for model in models], weights)


def test_normal_scores_are_finite_however_far_out(models: list[cagp.Model]) -> None:
    test = np.array([[0.5, 0.5], [3.0, 0.2]])
    prediction = mixture(models).predict(test).observed()
    parts = [model.predict(test).observed() for model in models]
    for value in (-1e200, -1e9, -1e3, -30.0, 30.0, 1e3, 1e9, 1e200):
        z = np.stack([(value - part.mean) / part.std for part in parts])
        tail = logsumexp(norm.logcdf(-np.sign(value) * z), b=WEIGHTS[:, None], axis=0)
        nearest = np.abs(z).min(axis=0)  # beyond 1e150 squares overflow, and the others are nowhere
        expected = -np.sign(value) * (ndtri_exp(tail) if abs(value) < 1e150 else -nearest)
        np.testing.assert_allclose(prediction.normal_score(value), expected, rtol=1e-9)


@pytest.mark.parametrize("noisy", [False, True])
def test_moments_quantiles_and_densities(models: list[cagp.Model], noisy: bool) -> None:
    test = np.random.default_rng(1).random((4, 2))
    prediction = mixture(models).predict(test)
    parts = [model.predict(test) for model in models]
    if noisy:
        prediction, parts = prediction.observed(), [part.observed() for part in parts]
    means, variances = (np.stack([getattr(part, name) for part in parts]) for name in ("mean", "variance"))
    mean = WEIGHTS @ means
    np.testing.assert_allclose(prediction.mean, mean)
    np.testing.assert_allclose(prediction.variance, WEIGHTS @ (variances + means**2) - mean**2)
    for i in range(4):
        laws = [norm(m, v**0.5) for m, v in zip(means[:, i], variances[:, i], strict=True)]
        for p in (0.001, 0.3, 0.975):
            expected = brentq(lambda v, p=p, laws=laws: WEIGHTS @ [law.cdf(v) for law in laws] - p, -50, 50)
            assert prediction.quantile(p)[i] == pytest.approx(expected, abs=1e-8)
        value = mean[i] + 0.3
        assert prediction.cdf(value)[i] == pytest.approx(WEIGHTS @ [law.cdf(value) for law in laws])
        density = np.log(WEIGHTS @ [law.pdf(value) for law in laws])
        assert prediction.log_density(value)[i] == pytest.approx(density)
    lower, upper = prediction.interval(0.9)
    np.testing.assert_allclose(prediction.cdf(upper) - prediction.cdf(lower), 0.9, atol=1e-10)


TO_AND_FRO = (  # means, standard deviations and weights between which Newton's steps went to and fro for ever
    np.array([368.4, 222, 369.1, 208.5, 203.1, 384, 58, 52.9, 54.6, 51.5, 384.2, 52, 381.8, 79.7, 384.3, 363.2, 336.1]),
    np.array([31.1, 64.3, 30.7, 90.9, 111.4, 5.2, 114.5, 119.4, 115.2, 92.1, 3.5, 70.8, 22.5, 98.4, 3, 74.1, 56.1]),
    np.array([161, 153, 102, 66, 57, 54, 50, 45, 44, 34, 32, 32, 23, 21, 11, 8, 6]) / 899,
)


@pytest.mark.parametrize("seed", range(8))
def test_quantiles_of_narrow_parts_among_wide_ones(seed: int) -> None:
    """They are where the distribution function says."""
    rng = np.random.default_rng(seed)
    means, stds = rng.choice([0.0, 50.0, 200.0, 380.0], 24) + rng.normal(0, 5, 24), rng.choice([3.0, 30.0, 120.0], 24)
    weights = rng.dirichlet(np.ones(24))
    for m, s, w in ((means, stds, weights), TO_AND_FRO):
        mixture = NormalMixture(*(torch.from_numpy(each)[:, None] for each in (m, s**2)), torch.from_numpy(w))
        p = np.array([0.001, 0.025, 0.25, 0.5, 0.75, 0.975, 0.999])
        found = mixture.values(torch.from_numpy(norm.ppf(p))[:, None])[:, 0].numpy()

        def excess(x: float, level: float, m: Any = m, s: Any = s, w: Any = w) -> float:
            return float(w @ norm.cdf((x - m) / s)) - level

        wanted = [brentq(excess, -2000, 3000, args=(level,), xtol=1e-10) for level in p]
        np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_stopping_rules_are_for_all_components(models: list[cagp.Model]) -> None:
    test = np.random.default_rng(1).random((4, 2))
    slow = [cagp.Model([model.components[0].rebuilt(solver=cagp.GaussSeidel(50))]) for model in models]
    settings = {"stop": cagp.stopping.Iterations(2), "batch_size": 3}
    mixed = mixture(slow).recalibrated().replace(margins=None).predict(test, **settings)
    parts = [model.predict(test, **settings) for model in slow]
    np.testing.assert_allclose(mixed.mean, WEIGHTS @ np.stack([part.mean for part in parts]))
    assert (mixed.std > mixture(slow).predict(test).std).all()


def test_samples(models: list[cagp.Model]) -> None:
    prediction = mixture(models).predict(np.array([[0.5, 0.5], [0.9, 0.1]]))
    draws = prediction.sample(5000, seed=2)
    np.testing.assert_allclose(draws.mean(axis=0), prediction.mean, atol=0.02)
    np.testing.assert_allclose(draws.std(axis=0), prediction.std, rtol=0.06)


def test_left_out_and_recalibrated(models: list[cagp.Model]) -> None:
    mixed = mixture(models)
    found = mixed.left_out()
    means = np.stack([model.left_out().mean for model in models])
    np.testing.assert_allclose(found.mean, WEIGHTS @ means)
    test = models[0].X[:7].numpy() + 0.01
    prediction = mixed.recalibrated().predict(test)
    np.testing.assert_allclose(prediction.mean, mixed.predict(test).mean)
    assert prediction.guarantee.kind == "empirical"
    assert evaluate(prediction, np.zeros(7), "observed").crps > 0


def test_it_comes_back_from_its_folder(models: list[cagp.Model], tmp_path: Path) -> None:
    whole = mixture(models).recalibrated()
    whole.save(tmp_path / "model")
    back = cagp.load(tmp_path / "model")
    test = np.random.default_rng(3).random((6, 2))
    for name in ("mean", "std"):
        np.testing.assert_array_equal(getattr(back.predict(test), name), getattr(whole.predict(test), name))
    np.testing.assert_array_equal(back.predict(test).quantile(0.9), whole.predict(test).quantile(0.9))


def test_bad_weights(models: list[cagp.Model]) -> None:
    for weights in ([1.0], [0.5, 0.5, 0.5], [1.5, -0.5, 0.0]):
        with pytest.raises(cagp.InputError, match="weights"):
            mixture(models, weights)


def test_the_command_line_predicts_with_all_of_them(models: list[cagp.Model], tmp_path: Path) -> None:
    pytest.importorskip("typer")
    from typer.testing import CliRunner

    from cagp.cli import app
    from cagp.saving import About

    whole = mixture(models)
    whole.save(tmp_path / "model", about=About(("a", "b"), "y"))
    test = np.array([[0.2, 0.3], [0.7, 0.9]])
    (tmp_path / "test.csv").write_text("a,b\n" + "\n".join(f"{a},{b}" for a, b in test) + "\n")
    arguments = ["predict", tmp_path / "model", tmp_path / "test.csv", "--out", tmp_path / "out.csv", "--observed"]
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    assert result.exit_code == 0, result.output
    out = np.genfromtxt(tmp_path / "out.csv", delimiter=",", names=True)
    expected = whole.predict(test).observed()
    np.testing.assert_allclose(out["mean"], expected.mean)
    np.testing.assert_allclose(out["upper_95"], expected.interval(0.95)[1])


# --- one budget of time and memory, and one status --------------------------------------------------------------------


def slow_mixture(**settings: Any) -> cagp.Model:
    """Three priors with Gauss-Seidel sweeps, which can be stopped, and with a mean that is known: no other sweeps."""
    rng = np.random.default_rng(0)
    X = rng.random((60, 2))
    y = np.sin(6 * X[:, 0]) + 0.1 * rng.standard_normal(60)
    priors = [cagp.Prior(cagp.Matern32(length), noise_variance=0.02) for length in (0.2, 0.4, 0.8)]
    solver = cagp.GaussSeidel(50)
    return cagp.Model([prior.condition(X, y, solver, **settings).components[0] for prior in priors], [0.5, 0.3, 0.2])


@pytest.fixture
def sweeps(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], None]]:
    """What happens before the first, second, third, … sweep from now on; those beyond the list do nothing else."""
    before: list[Callable[[], None]] = []

    def watched(*arguments: Any, **options: Any) -> Any:
        if before:
            before.pop(0)()
        return sweep(*arguments, **options)

    monkeypatch.setattr("cagp.solvers.gauss_seidel.sweep", watched)
    return before


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


def nothing() -> None:
    pass


@pytest.mark.parametrize("what", ["prediction", "average"])
def test_ctrl_c_in_a_later_component_is_told(what: str, sweeps: list[Callable[[], None]]) -> None:
    model, test = slow_mixture(), np.random.default_rng(1).random((4, 2))
    sweeps += [nothing] * 69 + [interrupt]
    found = model.predict(test) if what == "prediction" else model.average(test, np.eye(4))
    assert found.status.reason == "interrupted"
    assert "1 of 3 components were done" in str(found.status)
    reached = [part.iterations.tolist() for part in found.components]
    assert reached == [[50] * 4, [20] * 4, [0] * 4]
    assert found.iterations.tolist() == [0] * 4
    parts = [next(cagp.Model([model.components[i]]).iterate(test, only=[n])) for i, n in ((0, 50), (1, 20))]
    parts.append(cagp.Model([model.components[2]]).prior_at(test))
    np.testing.assert_allclose(found.mean, model.weights @ np.stack([part.mean for part in parts]), rtol=1e-9)
    recalibrated = model.recalibrated(progress=False)
    sweeps += [nothing] * 69 + [interrupt]
    again = recalibrated.predict(test) if what == "prediction" else recalibrated.average(test, np.eye(4))
    assert again.status.reason == "interrupted"


def test_seconds_are_those_of_all_components(sweeps: list[Callable[[], None]], monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that goes on by one second with each sweep."""
    clock, made = [0.0], []

    def tick() -> None:
        clock[0] += 1.0
        made.append(1)

    monkeypatch.setattr("time.perf_counter", lambda: clock[0])
    sweeps += [tick] * 150
    found = slow_mixture().predict(np.random.default_rng(1).random((4, 2)), stop=cagp.stopping.Seconds(30))
    assert 24 <= len(made) <= 36
    assert all(part.iterations.min() >= 8 for part in found.components)  # each has its share
    assert found.status.reason == "stopped"


def test_averages_are_stopped_in_all_components() -> None:
    model, points = slow_mixture(), np.random.default_rng(1).random((9, 2))
    A = np.random.default_rng(2).random((5, 9))
    settings: dict[str, Any] = {"stop": cagp.stopping.Iterations(2), "batch_size": 2}
    for each in (model, model.recalibrated(progress=False)):
        found = each.average(points, A, **settings)
        assert [set(part.iterations.tolist()) for part in found.components] == [{2}] * 3
        assert found.iterations.tolist() == [2] * 5
    found = model.average(points, A, **settings)
    parts = [cagp.Model([each]).average(points, A, **settings) for each in model.components]
    np.testing.assert_allclose(found.mean, model.weights @ np.stack([part.mean for part in parts]), rtol=1e-12)


def test_the_weights_of_all_components_fit_the_budget_together() -> None:
    """A prediction whose weights fit the budget one component at a time keeps none of them, and is the same."""
    test = np.random.default_rng(1).random((500, 2))
    roomy, tight = slow_mixture(), slow_mixture(memory_budget=2_500_000)
    alone = cagp.Model([tight.components[0]]).predict(test)
    assert held_bytes(alone) > 0
    found, wanted = tight.predict(test), roomy.predict(test)
    assert held_bytes(wanted) >= 3 * 500 * 60 * 8
    assert held_bytes(found) == 0
    for name in ("mean", "std"):
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=1e-9)
    np.testing.assert_allclose(found.components[1].weights, wanted.components[1].weights, rtol=1e-9, atol=1e-12)


def held_bytes(prediction: cagp.Prediction) -> int:
    """What the components of a prediction keep of their weights."""
    kept = [batch.weights for part in prediction.components for batch in part._batches]
    return sum(each.values.nbytes for each in kept if each is not None)


def test_a_loaded_mixture_computes_as_it_did(tmp_path: Path) -> None:
    model = slow_mixture(solve_dtype="float32", storage="tiles")
    loaded = cagp.load(model.save(tmp_path / "model"))
    for before, after in zip(model.components, loaded.components, strict=True):
        assert after.recipe.arithmetic == before.recipe.arithmetic == "float32"
        assert after.recipe.storage == before.recipe.storage == "tiles"
        assert after.solver == before.solver
    test = np.random.default_rng(1).random((4, 2))
    np.testing.assert_array_equal(loaded.predict(test).std, model.predict(test).std)


def test_components_that_take_fewer_iterations_stay_where_they_are() -> None:
    model, test = slow_mixture(), np.random.default_rng(1).random((4, 2))
    exact = model.components[1].rebuilt(solver=cagp.Cholesky())
    mixed = cagp.Model([model.components[0], exact], [0.7, 0.3])
    every = list(mixed.iterate(test))
    assert len(every) == 50
    first = list(cagp.Model([model.components[0]]).iterate(test, only=[3, 7]))
    chosen = list(mixed.iterate(test, only=[3, 7]))
    assert len(chosen) == 2
    for found, part, other in zip(chosen, first, (every[2], every[6]), strict=True):
        np.testing.assert_allclose(found.mean, 0.7 * part.mean + 0.3 * cagp.Model([exact]).predict(test).mean)
        np.testing.assert_allclose(found.std, other.std, rtol=1e-12)
