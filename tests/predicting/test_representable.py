"""Numbers that cannot be computed with are refused with a remedy, before work is done."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import cagp
from cagp import transforms

X = np.linspace(0, 1, 12)[:, None]
y = np.sin(6 * X[:, 0])


def condition(scale: float = 1.0, kernel: cagp.Kernel | None = None, **settings: object) -> cagp.Model:
    prior = cagp.Prior(kernel or cagp.Matern32(0.3), mean=settings.pop("mean", 0.0), noise_variance=0.01)
    return prior.condition(scale * X, y, cagp.Cholesky(), **settings)


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "X far out": (lambda: condition(1e200), "X is too far out for its kernel.*rescale"),
    "X far out in float32": (lambda: condition(1e25, dtype="float32"), "X is too far out.*no square in torch.float32"),
    "X_test far out": (lambda: condition().predict([[1e200]]), "X_test is too far out for its kernel"),
    "X_test beyond the trend": (
        lambda: condition(kernel=cagp.RBF(1e200), mean=cagp.Polynomial(2)).predict([[1e160]]),
        "X_test is too far out for the trend",
    ),
    "X beyond the trend": (lambda: condition(1e200, mean=cagp.Polynomial(2)), "its terms overflow there; rescale"),
    "a large variance": (lambda: condition(kernel=cagp.RBF(1.0, 1e200)), "1e\\+200, has no square.*rescale y"),
    "y in float32": (
        lambda: cagp.Prior(cagp.RBF()).condition(X, 1e60 * y, dtype="float32"),
        "too large for torch.float32; rescale y",
    ),
    "a tiny noise": (
        lambda: cagp.Prior(cagp.RBF(), noise_variance=1e-310).condition(X, y),
        "as good as zero in torch.float64; give a larger one",
    ),
    "cagp.fit, X": (lambda: cagp.fit(1e200 * X, y), "X has values of magnitude 1e\\+200, whose squares overflow"),
    "cagp.fit, y": (lambda: cagp.fit(X, 1e200 * y), "y has values of magnitude .* rescale y"),
    "Prior.fit, y": (lambda: cagp.Prior(cagp.RBF()).fit(X, 1e200 * y), "y has values of magnitude"),
    "ragged labels": (lambda: condition().average(X[:2], by=[[1], [1, 2]]), "by must hold one label for each point"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.filterwarnings("ignore::cagp.errors.DataWarning")
def test_refused(name: str) -> None:
    call, words = REFUSED[name]
    with pytest.raises(cagp.InputError, match=words):
        call()


def test_what_is_beyond_float64_on_the_scale_of_y_is_infinite_and_not_nan() -> None:
    prior = cagp.Prior(cagp.Matern32(0.3), mean=lambda points: 1e4 * points[:, 0], noise_variance=0.01)
    model = prior.condition(X[:1], [0.0]).replace(transform=transforms.Log())
    prediction = model.predict([[0.0], [1.0], [0.04]])
    assert np.isfinite(prediction.mean[0])
    assert prediction.mean[1] == np.inf
    assert not np.isnan(prediction.mean).any()
    assert not np.isnan(prediction.std).any()


def test_one_observation_is_fitted_saved_and_loaded(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="the only training point"):
        model = cagp.fit([[1.0]], [2.0], kernel=["matern32", "rbf"], progress=False)
    model.save(tmp_path / "model")
    loaded = cagp.load(tmp_path / "model")
    assert np.isnan(loaded.candidates[0].crps)
    assert np.isfinite(loaded.predict([[2.0]]).std).all()


def test_what_a_killed_save_left_does_not_make_a_folder_somebody_elses(tmp_path: Path) -> None:
    (tmp_path / f"data-{'0' * 16}.safetensors").touch()
    (tmp_path / f".partial-{'0' * 32}-model.json").touch()
    assert cagp.load(condition().save(tmp_path))
