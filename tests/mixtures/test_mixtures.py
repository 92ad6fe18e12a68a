"""Mixtures against SciPy's normal laws, and back from their folders."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

import cagp
from cagp.calibration import evaluate
from cagp.mixtures import MixtureModel

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


@pytest.mark.parametrize("noisy", [False, True])
def test_moments_quantiles_and_densities(models: list[cagp.Model], noisy: bool) -> None:
    test = np.random.default_rng(1).random((4, 2))
    prediction = MixtureModel.of(models, WEIGHTS).predict(test)
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


def test_stopping_rules_are_for_all_components(models: list[cagp.Model]) -> None:
    test = np.random.default_rng(1).random((4, 2))
    slow = [model.again(solver=cagp.GaussSeidel(50)) for model in models]
    settings = {"stop": cagp.stopping.Iterations(2), "batch_size": 3}
    mixed = MixtureModel.of(slow, WEIGHTS).recalibrated().predict(test, **settings).inner
    parts = [model.predict(test, **settings) for model in slow]
    np.testing.assert_allclose(mixed.mean, WEIGHTS @ np.stack([part.mean for part in parts]))
    assert (mixed.std > MixtureModel.of(slow, WEIGHTS).predict(test).std).all()


def test_samples(models: list[cagp.Model]) -> None:
    prediction = MixtureModel.of(models, WEIGHTS).predict(np.array([[0.5, 0.5], [0.9, 0.1]]))
    draws = prediction.sample(5000, seed=2)
    np.testing.assert_allclose(draws.mean(axis=0), prediction.mean, atol=0.02)
    np.testing.assert_allclose(draws.std(axis=0), prediction.std, rtol=0.06)


def test_left_out_and_recalibrated(models: list[cagp.Model]) -> None:
    mixture = MixtureModel.of(models, WEIGHTS)
    found = mixture.left_out()
    means = np.stack([model.left_out().mean for model in models])
    np.testing.assert_allclose(found.mean, WEIGHTS @ means)
    test = models[0].X[:7].numpy() + 0.01
    prediction = mixture.recalibrated().predict(test)
    np.testing.assert_allclose(prediction.mean, mixture.predict(test).mean)
    assert prediction.guarantee.kind == "empirical"
    assert evaluate(prediction, np.zeros(7), "observed").crps > 0


def test_it_comes_back_from_its_folder(models: list[cagp.Model], tmp_path: Path) -> None:
    whole = MixtureModel.of(models, WEIGHTS).recalibrated()
    whole.save(tmp_path / "model")
    back = cagp.load(tmp_path / "model")
    test = np.random.default_rng(3).random((6, 2))
    for name in ("mean", "std"):
        np.testing.assert_array_equal(getattr(back.predict(test), name), getattr(whole.predict(test), name))
    np.testing.assert_array_equal(back.predict(test).quantile(0.9), whole.predict(test).quantile(0.9))


def test_bad_weights(models: list[cagp.Model]) -> None:
    for weights in ([1.0], [0.5, 0.5, 0.5], [1.5, -0.5, 0.0]):
        with pytest.raises(cagp.InputError, match="weights"):
            MixtureModel.of(models, weights)


def test_the_command_line_predicts_with_all_of_them(models: list[cagp.Model], tmp_path: Path) -> None:
    pytest.importorskip("typer")
    from typer.testing import CliRunner

    from cagp.cli import app
    from cagp.saving import About

    whole = MixtureModel.of(models, WEIGHTS)
    whole.save(tmp_path / "model", about=About(("a", "b"), "y"))
    test = np.array([[0.2, 0.3], [0.7, 0.9]])
    (tmp_path / "test.csv").write_text("a,b\n" + "\n".join(f"{a},{b}" for a, b in test) + "\n")
    arguments = ["predict", tmp_path / "model", tmp_path / "test.csv", "--out", tmp_path / "out.csv", "--observed"]
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    assert result.exit_code == 0, result.output
    out = np.genfromtxt(tmp_path / "out.csv", delimiter=",", names=True)
    expected = whole.predict(test).observed()
    np.testing.assert_allclose(out["mean"], expected.mean)
    np.testing.assert_allclose(out["upper"], expected.interval(0.95)[1])
