"""``cagp.fit``: from data to a model, with nothing said, and with everything said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import cagp
from cagp.calibration import evaluate
from cagp.choosing.candidates import CandidatePrior
from cagp.choosing.scoring import clearly_worse, stacked


def _field(kernel: cagp.Kernel, n: int, seed: int = 0, noise: float = 0.01) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.random((n, 2))
    G = kernel(torch.from_numpy(X), torch.from_numpy(X)).numpy() + noise * np.eye(n)
    return X, np.linalg.cholesky(G) @ rng.standard_normal(n)


@pytest.fixture(scope="module")
def rough() -> cagp.Model:
    X, y = _field(cagp.Matern12(0.5), 280)
    return cagp.fit(X[:200], y[:200] + 100.0, kernel=["matern32", "matern12", "rbf"], varying=False, rotate=False)


def test_the_right_kernel_is_found_and_the_story_told(rough: cagp.Model) -> None:
    X, y = _field(cagp.Matern12(0.5), 280)
    ranked = sorted(rough.candidates, key=lambda each: each.crps)
    assert ranked[0].name.startswith("matern12")
    assert ranked[-1].name.startswith("rbf")
    assert sum(each.weight for each in rough.candidates) == pytest.approx(1.0)
    for words in ("candidates were fitted to 200 observations", "Chosen:", "Left-out observations", "took"):
        assert words in rough.record.text
    scores = evaluate(rough.predict(X[200:]), y[200:] + 100.0, "observed")
    truth = cagp.Prior(cagp.Matern12(0.5), noise_variance=0.01).condition(X[:200], y[:200], cagp.Cholesky())
    assert scores.crps < 1.1 * evaluate(truth.predict(X[200:]), y[200:], "observed").crps


def test_it_is_saved_with_its_story(rough: cagp.Model, tmp_path: Path) -> None:
    rough.save(tmp_path / "model")
    back = cagp.load(tmp_path / "model")
    test = np.random.default_rng(0).random((5, 2))
    np.testing.assert_allclose(back.predict(test).std, rough.predict(test).std, rtol=1e-12)
    assert back.story == rough.story
    assert back.guarantee == rough.guarantee


def test_gaps_are_what_candidates_are_judged_in() -> None:
    X, y = _field(cagp.Matern12(0.5), 500, seed=1)
    hole = np.linalg.norm(X - 0.5, axis=1) < 0.2
    settings = {"kernel": ["matern32", "matern12"], "mean": "constant", "uncertainty": False, "mixture": False}
    model = cagp.fit(X[~hole], y[~hole], like=X[hole], varying=False, rotate=False, **settings)
    assert "points to be predicted" in model.record.text
    assert "In 10, 50 and 90% of cases its promised standard deviation is at most" in model.record.text
    scores = evaluate(model.predict(X[hole]), y[hole], "observed")
    assert 0.85 < scores.coverage(0.95) <= 1.0


def test_everything_can_be_said() -> None:
    X, y = _field(cagp.Matern32(0.4), 300, seed=2)
    kernel = cagp.RBF((0.3, 0.3))
    model = cagp.fit(
        X,
        y,
        kernel=kernel,
        mean=cagp.Zero(),
        noise_variance=0.02,
        solver=cagp.GaussSeidel(5),
        recalibrate=False,
        uncertainty=False,
    )
    assert [each.name for each in model.candidates] == ["as given, as given"]
    assert len(model.components) == 1
    assert model.solver == cagp.GaussSeidel(5)
    assert isinstance(model.prior.kernel, cagp.RBF)
    assert isinstance(model.prior.mean, cagp.Zero)
    assert model.guarantee.kind == "under the prior"
    assert "were not compared with left-out observations" in model.record.text
    noisy = cagp.fit(X, y, kernel="matern32", noise_variance=np.full(300, 0.01), mixture=False, uncertainty=False)
    np.testing.assert_array_equal(noisy.prior.noise_variance, 0.01)


def test_many_observations_are_fitted_by_terms() -> None:
    X, y = _field(cagp.Matern32(0.3), 2200, seed=3)
    model = cagp.fit(X[:2050], y[:2050], kernel=["matern32", "matern12"], mean="constant", varying=False, rotate=False)
    assert isinstance(model.solver, cagp.NearestNeighbours)
    assert model.candidates[0].crps < model.candidates[1].crps
    assert 0.9 < evaluate(model.predict(X[2050:]), y[2050:], "observed").coverage(0.95) <= 1.0


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"kernel": "matern"}, "names among"),
        ({"kernel": []}, "names among"),
        ({"mean": "cubic"}, "mean"),
        ({"likelihood": "fast"}, "likelihood"),
        ({"globe": (0, 2)}, "globe must be two columns"),
        ({"globe": "lat"}, "globe must be two columns"),
        ({"globe": (0, 1), "kernel": cagp.RBF()}, "are for kernels that are chosen here"),
        ({"recalibrate": "yes"}, "recalibrate"),
        ({"like": np.zeros((3, 5))}, "like"),
        ({"seed": -1}, "seed"),
    ],
)
def test_bad_input(wrong: dict[str, object], words: str) -> None:
    X, y = _field(cagp.Matern32(0.3), 30)
    with pytest.raises(cagp.InputError, match=words):
        cagp.fit(X, y, **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("names", "options", "noted"),
    [
        (["lon", "lat"], {}, True),
        (["Longitude", "LATITUDE"], {}, True),
        (["lon", "lat"], {"globe": ()}, False),
        (["lon", "lat"], {"globe": ("lat", "lon")}, False),
        (["east", "north"], {}, False),
    ],
)
def test_degrees_on_a_plane_are_noted(names: list[str], options: dict[str, Any], noted: bool) -> None:
    X, y = _field(cagp.Matern32(0.3), 30)
    quick: Any = {"kernel": "matern32", "mean": "constant", "uncertainty": False, "varying": False, "transform": None}
    model = cagp.fit(pd.DataFrame(X, columns=names), y, **quick, **options, rotate=False, progress=False)
    east, north = names
    note = f"if {north!r} and {east!r} are degrees, globe=({north!r}, {east!r}) measures on the globe."
    assert (note in model.record.text) == noted


def test_stacking() -> None:
    rng = np.random.default_rng(0)
    good, bad = rng.standard_normal(1000) ** 2, rng.standard_normal(1000) ** 2 + 3
    weights = stacked(np.stack([good, bad]))
    assert weights.sum() == pytest.approx(1.0)
    assert 0.7 < weights[0] <= 0.75  # nearly all by the scores, half way to equal
    assert clearly_worse(bad, good)
    assert not clearly_worse(good, good + 1e-3 * rng.standard_normal(1000))


def test_a_sum_finds_the_column_that_acts_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(9)
    X = rng.normal(size=(300, 4))
    y = np.sin(1.5 * X[:, 0]) + 0.5 * X[:, 0] * X[:, 1] + np.tanh(2 * X[:, 2]) + 0.3 * np.abs(np.round(X[:, 3]))
    y += 0.05 * rng.normal(size=300)
    alone = {"mean": "constant", "mixture": False, "uncertainty": False, "transform": None, "varying": False}

    def likelihood() -> float:
        return cagp.fit(X, y, kernel=["matern32", "short and long"], progress=False, **alone).prior.log_likelihood(X, y)

    found = likelihood()
    monkeypatch.setattr(CandidatePrior, "is_sum_by_columns", False)
    assert found > likelihood() + 5
