"""Kernels that are written outside the package work everywhere that the built-in ones do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

import cagp
from cagp.gram.fused.functions import function_of
from cagp.kernels import Embedding, Kernel, Radial, map_embedding


@dataclass(frozen=True)
class Cauchy(Radial):
    """σ² / (1 + shape · r²)."""

    shape: float = 1.0

    hyperparameters: ClassVar[tuple[str, ...]] = (*Radial.hyperparameters, "shape")

    def profile(self, s: torch.Tensor, scratch: torch.Tensor | None = None) -> torch.Tensor:
        out = None if scratch is None else s
        return torch.reciprocal(torch.add(torch.mul(s, self.shape, out=out), 1.0, out=out), out=out)


@dataclass(frozen=True)
class Mixture(Kernel):
    """share · first + second."""

    first: Kernel
    second: Kernel
    share: float = 0.5

    hyperparameters: ClassVar[tuple[str, ...]] = ("share",)

    def embed(self, X: torch.Tensor, origin: torch.Tensor) -> Embedding:
        return self.first.embed(X, origin), self.second.embed(X, origin)

    def evaluate(self, A: Embedding, B: Embedding, out: Any = None, buffers: Any = None) -> torch.Tensor:
        block = self.share * self.first.evaluate(A[0], B[0]) + self.second.evaluate(A[1], B[1])
        return block if out is None else out.copy_(block)

    def diagonal(self, A: Embedding) -> torch.Tensor:
        return self.share * self.first.diagonal(A[0]) + self.second.diagonal(A[1])

    def scaled(self, factor: float) -> Kernel:
        return Mixture(self.first.scaled(factor), self.second.scaled(factor), self.share)


class Ones(Kernel):
    """No dataclass: it shows no fields, so there is nothing to fit."""

    def embed(self, X: torch.Tensor, origin: torch.Tensor) -> Embedding:
        return X.T.clone()

    def evaluate(self, A: Embedding, B: Embedding, out: Any = None, buffers: Any = None) -> torch.Tensor:
        block = torch.ones(*A.shape[1:], B.shape[-1], dtype=A.dtype)
        return block if out is None else out.copy_(block)

    def diagonal(self, A: Embedding) -> torch.Tensor:
        return torch.ones(A.shape[1], dtype=A.dtype)

    def scaled(self, factor: float) -> Kernel:
        return self


RNG = np.random.default_rng(0)
X = RNG.random((60, 2))
y = np.sin(6 * X[:, 0]) + X[:, 1] + 0.1 * RNG.standard_normal(60)
X_NEW = RNG.random((9, 2))
MIXTURE = Mixture(Cauchy((0.5, 2.0), shape=2.0), cagp.Matern32(0.3).on(1) + cagp.RBF(1.0), 0.7)
KERNELS = [Cauchy(0.5, 2.0, shape=3.0), MIXTURE, Ones() + Cauchy(0.4), cagp.Power(Cauchy(0.4), 2) * Cauchy(1.0).on(0)]


def described(kernel: Kernel) -> str:
    return type(kernel).__name__


def cauchy(A: np.ndarray, B: np.ndarray, lengthscale: Any, shape: float) -> np.ndarray:
    scaled = (A[:, None] - B[None]) / lengthscale
    return 1 / (1 + shape * np.square(scaled).sum(axis=2))


def test_it_is_the_kernel_that_was_written() -> None:
    np.testing.assert_allclose(Cauchy(0.5, 2.0, shape=3.0)(X, X_NEW), 2 * cauchy(X, X_NEW, 0.5, 3.0), rtol=1e-12)
    rest = (cagp.Matern32(0.3).on(1) + cagp.RBF(1.0))(X, X_NEW)
    expected = 0.7 * cauchy(X, X_NEW, np.array([0.5, 2.0]), 2.0) + rest
    np.testing.assert_allclose(MIXTURE(X, X_NEW), expected, rtol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS, ids=described)
@pytest.mark.parametrize("storage", ["dense", "tiles"])
@pytest.mark.parametrize("solver", [cagp.Cholesky(), cagp.CalibratedCG(60), cagp.NearestNeighbours(60)], ids=repr)
def test_predictions_are_those_of_dense_algebra(kernel: Kernel, storage: str, solver: cagp.Solver) -> None:
    posterior = cagp.Prior(kernel, noise_variance=0.5).condition(X, y, solver, storage=storage).predict(X_NEW)
    inverse = np.linalg.inv(kernel(X) + 0.5 * np.eye(60))
    V = kernel(X, X_NEW)
    np.testing.assert_allclose(posterior.mean, V.T @ inverse @ y, rtol=1e-6, atol=1e-6)
    exact = np.diag(kernel(X_NEW)) - np.einsum("ij,ik,kj->j", V, inverse, V)
    np.testing.assert_allclose(posterior.variance, exact, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("likelihood", ["exact", "nearest-neighbours"])
@pytest.mark.parametrize("kernel", KERNELS, ids=described)
def test_its_hyperparameters_are_fitted(kernel: Kernel, likelihood: str) -> None:
    prior = cagp.Prior(kernel, noise_variance=0.1)
    result = cagp.hyperparameters.fit(prior, X, y, likelihood=likelihood, n_restarts=0, max_iterations=10)
    assert set(result.values) == {*kernel.hyperparameter_names(), "noise_variance"}
    assert result.log_likelihood > prior.log_likelihood(X, y, likelihood=likelihood)
    for name, value in result.values.items():
        assert eval(f"prior.{name}", {"prior": result.prior}) == value


def test_its_hyperparameters_are_called_as_one_reads_them_off() -> None:
    assert MIXTURE.hyperparameter_names() == [
        "kernel.share",
        "kernel.first.lengthscale[0]",
        "kernel.first.lengthscale[1]",
        "kernel.first.variance",
        "kernel.first.shape",
        "kernel.second.kernels[0].kernel.lengthscale",
        "kernel.second.kernels[0].kernel.variance",
        "kernel.second.kernels[1].lengthscale",
        "kernel.second.kernels[1].variance",
    ]
    doubled = MIXTURE.with_hyperparameters(lambda name, value: 2 * value)
    rest = cagp.Matern32(0.6, 2.0).on(1) + cagp.RBF(2.0, 2.0)
    assert doubled == Mixture(Cauchy((1.0, 4.0), 2.0, shape=4.0), rest, 1.4)


@pytest.mark.parametrize("kernel", KERNELS, ids=described)
def test_saving_says_that_it_cannot_be_saved(kernel: Kernel, tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    model = cagp.Prior(kernel, noise_variance=0.5).condition(X, y, cagp.Cholesky())
    with pytest.raises(cagp.InputError, match=r"kernel.* cannot be saved: \w+ is not one of cagp's own kernels"):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("kernel", KERNELS, ids=described)
@pytest.mark.usefixtures("words_only")
def test_a_report_describes_it(kernel: Kernel, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("pandas", reason="reports read the studies' palette, which needs pandas")
    from cagp.fit_report import write_fit_report

    model = cagp.Prior(kernel, noise_variance=0.5).condition(X, y, cagp.Cholesky())
    page = write_fit_report(model, tmp_path / "report").path.read_text(encoding="utf-8")
    assert "Cauchy" in page or "Mixture" in page
    assert all(name.rsplit(".", 1)[-1].split("[")[0] in page for name in kernel.hyperparameter_names())


def test_the_estimator_reaches_its_fields() -> None:
    base = pytest.importorskip("sklearn.base")
    regressor = cagp.CAGPRegressor(Cauchy(0.5, shape=3.0), noise_variance=0.1, optimizer=None)
    assert regressor.get_params()["kernel__shape"] == 3.0
    other = base.clone(regressor).set_params(kernel__shape=1.0).fit(X, y)
    assert other.kernel_ == Cauchy(0.5, shape=1.0)
    assert cagp.CAGPRegressor(Ones()).get_params()["kernel"] is not None
    fitted = cagp.CAGPRegressor(Ones() + Cauchy(0.5)).fit(X, y)
    assert fitted.kernel_.kernels[1].lengthscale != 0.5


def test_a_profile_is_not_inherited_by_another_one() -> None:
    class Other(cagp.RBF):
        def profile(self, s: torch.Tensor, scratch: torch.Tensor | None = None) -> torch.Tensor:
            return torch.exp(torch.neg(s))

    class Elsewhere:
        def profile(self, s: torch.Tensor, scratch: torch.Tensor | None = None) -> torch.Tensor:
            return torch.exp(torch.neg(s))

    class Mixed(Elsewhere, cagp.RBF):
        pass

    class Same(cagp.RBF):
        pass

    class Named(Other):
        scalar_profile = staticmethod(cagp.RBF.scalar_profile)
        gpu_profile = cagp.RBF.gpu_profile

    for name in ("scalar_profile", "gpu_profile"):
        found = [getattr(each, name) for each in (Other, Mixed, Same, Named, cagp.Periodic)]
        assert found == [None, None, *[getattr(cagp.RBF, name)] * 3]
    assert [each.family is None for each in (Other, Mixed, Same, Named, cagp.Periodic)] == [True] * 2 + [
        False,
        True,
        False,
    ]
    points = torch.from_numpy(X)
    for kernel in KERNELS[:2]:
        assert kernel.radial_terms(kernel.embed(points, points.mean(dim=0))) is None
    embedding = Same(0.5).embed(points, points.mean(dim=0))
    assert function_of(Other(0.5), embedding) is None
    assert function_of(Same(0.5), embedding) == function_of(cagp.RBF(0.5), embedding)
    assert map_embedding(embedding, lambda part: part + 0).shape == (2, 60)


def test_columns_are_followed_through_it() -> None:
    from cagp.kernels import geographic_columns

    globe = Mixture(cagp.Geographic(Cauchy(0.1)).on(2, 0), Cauchy(1.0))
    assert geographic_columns(globe, range(3)) == [(2, 0)]
    parts = {part.path: (part.columns, part.distance_unit, part.label) for part in globe.walk(range(3))}
    assert parts["kernel.first.kernel"] == ((2, 0), "", "part 1: ")
    assert parts["kernel.first.kernel.kernel"] == ((), "Earth radii", "part 1: ")
    assert parts["kernel.second"] == ((0, 1, 2), "", "part 2: ")
