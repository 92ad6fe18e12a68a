"""GPyTorch models as cagp models, against GPyTorch's own exact predictions."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import cagp
from cagp.errors import InputError, InputTypeError
from cagp.kernels import OnColumns, Product, Sum
from random_examples import examples

gpytorch = pytest.importorskip("gpytorch")

from gpytorch import kernels as gk  # noqa: E402
from gpytorch import likelihoods, means  # noqa: E402

from cagp.interop import from_gpytorch  # noqa: E402
from cagp.interop.gpytorch import GPyTorchKernel, KernelBlocks, kernel_from_gpytorch  # noqa: E402


class Exact(gpytorch.models.ExactGP):
    """The model of GPyTorch's tutorials."""

    def __init__(self, X: torch.Tensor, y: torch.Tensor, likelihood: Any, kernel: Any, mean: Any = None) -> None:
        super().__init__(X, y, likelihood)
        self.mean_module = means.ConstantMean() if mean is None else mean
        self.covar_module = kernel

    def forward(self, x: torch.Tensor) -> Any:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


class Rescaled(Exact):
    """A model whose forward does more than call its parts."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.features = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))

    def forward(self, x: torch.Tensor) -> Any:
        return super().forward(self.features(x))


class SquareMean(means.Mean):
    """A mean that cagp does not know."""

    def __init__(self) -> None:
        super().__init__()
        self.register_parameter("slope", torch.nn.Parameter(torch.tensor(0.3)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.slope * x[..., 0].square()


class Nonstationary(gk.Kernel):
    """A user's own kernel: two lines and their product."""

    has_lengthscale = True

    def forward(self, x1: torch.Tensor, x2: torch.Tensor, diag: bool = False, **params: Any) -> torch.Tensor:
        a, b = x1.div(self.lengthscale), x2.div(self.lengthscale)
        if diag:
            return (1 + (a * b).sum(-1)).square()
        return (1 + a @ b.transpose(-1, -2)).square()


class Disguised(gk.RBFKernel):
    """A subclass of a known kernel that computes something else."""

    def forward(self, x1: torch.Tensor, x2: torch.Tensor, **params: Any) -> torch.Tensor:
        return super().forward(2 * x1, 2 * x2, **params)


def data(n: int = 45, p: int = 3, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    X = torch.rand(n, p, generator=generator, dtype=torch.float64)
    y = torch.sin(5 * X[:, 0]) + X[:, -1] + 0.1 * torch.randn(n, generator=generator, dtype=torch.float64)
    return X, y


def trained(
    kernel: Any, mean: Any = None, likelihood: Any = None, kind: type = Exact, dtype: torch.dtype = torch.float64
) -> Any:
    torch.manual_seed(3)
    X, y = (part.to(dtype) for part in data())
    model = kind(X, y, likelihood or likelihoods.GaussianLikelihood(), kernel, mean).to(dtype)
    model.train()
    loss = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(5):
        optimiser.zero_grad()
        (-loss(model(X), y)).backward()
        optimiser.step()
    return model


def exact(model: Any, X_test: torch.Tensor) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """GPyTorch's own mean, covariance and predictive variance, by Cholesky in float64, from a copy."""
    own = copy.deepcopy(model).double().eval()
    own.prediction_strategy = None
    with (
        torch.no_grad(),
        warnings.catch_warnings(),
        gpytorch.settings.fast_computations(False, False, False),
        gpytorch.settings.lazily_evaluate_kernels(False),
    ):
        warnings.simplefilter("ignore")  # fixed noise says nothing about new points
        latent = own(X_test)
        return latent.mean.numpy(), latent.covariance_matrix.numpy(), own.likelihood(latent).variance.numpy()


NATIVE: dict[str, tuple[Callable[[], Any], type]] = {
    "matern12": (lambda: gk.ScaleKernel(gk.MaternKernel(0.5)), cagp.Matern12),
    "matern32": (lambda: gk.ScaleKernel(gk.MaternKernel(1.5)), cagp.Matern32),
    "matern52": (lambda: gk.MaternKernel(2.5), cagp.Matern52),
    "rbf ard": (lambda: gk.ScaleKernel(gk.RBFKernel(ard_num_dims=3)), cagp.RBF),
    "rq": (lambda: gk.ScaleKernel(gk.RQKernel(ard_num_dims=3)), cagp.RationalQuadratic),
    "periodic": (lambda: gk.ScaleKernel(gk.PeriodicKernel()), cagp.Periodic),
    "periodic ard": (lambda: gk.ScaleKernel(gk.PeriodicKernel(ard_num_dims=3)), cagp.Periodic),
    "columns": (lambda: gk.ScaleKernel(gk.MaternKernel(1.5, active_dims=(2, 0), ard_num_dims=2)), OnColumns),
    "scale has columns": (lambda: gk.ScaleKernel(gk.MaternKernel(1.5), active_dims=(1,)), OnColumns),
    "sum": (lambda: gk.ScaleKernel(gk.RBFKernel(active_dims=(0,))) + gk.ScaleKernel(gk.MaternKernel(0.5)), Sum),
    "product": (lambda: gk.PeriodicKernel(active_dims=(1,)) * gk.RBFKernel(active_dims=(0, 2)), Product),
    "scaled sum": (lambda: gk.ScaleKernel(gk.RBFKernel() + gk.MaternKernel(1.5, active_dims=(0,))), Sum),
    "nested": (
        lambda: gk.ScaleKernel(gk.ScaleKernel(gk.RBFKernel()) * (gk.MaternKernel(0.5) + gk.RQKernel())),
        Product,
    ),
}
LAZY: dict[str, Callable[[], Any]] = {
    "linear": lambda: gk.LinearKernel(),
    "polynomial": lambda: gk.ScaleKernel(gk.PolynomialKernel(power=2)),
    "cosine": lambda: gk.ScaleKernel(gk.CosineKernel(active_dims=(0,))),  # positive semidefinite in one dimension only
    "piecewise": lambda: gk.PiecewisePolynomialKernel(q=1),
    "spectral mixture": lambda: gk.SpectralMixtureKernel(num_mixtures=2, ard_num_dims=3),
    "random features": lambda: gk.ScaleKernel(gk.RFFKernel(num_samples=20, num_dims=3)),
    "columns": lambda: gk.ScaleKernel(gk.LinearKernel(active_dims=(0, 2))),
    "a user's own": lambda: gk.ScaleKernel(Nonstationary(active_dims=(1, 0))),
    "a subclass": lambda: gk.ScaleKernel(Disguised()),
}


def check(model: Any, tolerance: float = 1e-7) -> cagp.Model:
    """Mean, covariance and predictive variance against GPyTorch, with Cholesky; the contract with Gauss-Seidel."""
    X_test = data(9, seed=1)[0]
    mean, covariance, predictive = exact(model, X_test)
    converted = from_gpytorch(model, solver=cagp.Cholesky())
    post = converted.predict(X_test.numpy())
    scale = np.abs(covariance).max()
    np.testing.assert_allclose(post.mean, mean, rtol=tolerance, atol=tolerance * scale**0.5)
    np.testing.assert_allclose(post.covariance(), covariance, rtol=0, atol=tolerance * scale)
    np.testing.assert_allclose(post.variance, covariance.diagonal(), rtol=0, atol=tolerance * scale)
    if np.ndim(converted.prior.noise_variance) == 0:
        np.testing.assert_allclose(post.observed().variance, predictive, rtol=0, atol=tolerance * scale)
    contract(model, covariance, X_test.numpy(), tolerance * scale)
    return converted


def contract(model: Any, exact_covariance: np.ndarray, X_test: np.ndarray, tolerance: float) -> None:
    """After two sweeps: the mean is affine in y with weights W, and the covariance is C(W), never too small."""
    swept = from_gpytorch(model, solver=cagp.GaussSeidel(2))
    post = swept.predict(X_test)
    W = post.weights
    with torch.no_grad():
        prior = copy.deepcopy(model).double().eval()
        joint = prior.forward(torch.cat([model.train_inputs[0].double(), torch.from_numpy(X_test)]))
        K, m = joint.covariance_matrix.numpy(), joint.mean.numpy()
    d = len(W)
    G = K[:d, :d] + np.diag(np.broadcast_to(swept.prior.noise_variance, d))
    C = K[d:, d:] - K[d:, :d] @ W - W.T @ K[:d, d:] + W.T @ G @ W
    np.testing.assert_allclose(post.covariance(), C, rtol=0, atol=10 * tolerance)
    residual = model.train_targets.double().numpy() - m[:d]
    np.testing.assert_allclose(post.mean, m[d:] + W.T @ residual, rtol=1e-6, atol=1e-6)
    assert np.linalg.eigvalsh(post.covariance() - exact_covariance).min() > -100 * tolerance


def state(model: Any) -> list[Any]:
    values = [value.clone() for value in model.state_dict().values()]
    gradients = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
    flags = [(id(m), m.training) for m in model.modules()] + [p.requires_grad for p in model.parameters()]
    return [values, gradients, flags, id(model.prediction_strategy), id(model.train_inputs[0]), id(model.train_targets)]


def same(left: Any, right: Any) -> bool:
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    return torch.equal(left, right) if isinstance(left, torch.Tensor) else left == right


@pytest.mark.parametrize("name", NATIVE)
def test_native_kernel(name: str) -> None:
    make, kind = NATIVE[name]
    kernel = check(trained(make())).prior.kernel
    assert isinstance(kernel, kind)
    assert "GPyTorch" not in repr(kernel)


@pytest.mark.parametrize("name", LAZY)
def test_any_other_kernel(name: str) -> None:
    kernel = check(trained(LAZY[name]())).prior.kernel
    assert isinstance(kernel, GPyTorchKernel)
    assert not kernel.function.forward


POSITIVE = st.floats(0.05, 20.0)


@examples(25)
@given(st.sampled_from(["rbf ard", "rq", "periodic ard", "columns"]), st.lists(POSITIVE, min_size=8, max_size=8))
def test_hyperparameters_mean_the_same(name: str, values: list[float]) -> None:
    """The kernel matrix from the translated hyperparameters is GPyTorch's, whatever they are."""
    kernel = NATIVE[name][0]().double().requires_grad_(False)
    base = kernel.base_kernel
    kernel.outputscale = values[0]
    base.lengthscale = torch.tensor(values[1 : 1 + base.lengthscale.numel()], dtype=torch.float64)
    if hasattr(base, "period_length"):
        base.period_length = torch.tensor(values[4:7], dtype=torch.float64)
    if hasattr(base, "alpha"):
        base.alpha = values[7]
    X = 3 * data(12)[0] - 1
    translated = kernel_from_gpytorch(kernel, torch.device("cpu"))
    np.testing.assert_allclose(translated(X, X[:5]), kernel(X, X[:5]).to_dense(), rtol=0, atol=2e-7 * values[0])


def test_other_kernel_inside_a_sum() -> None:
    kernel = check(trained(gk.ScaleKernel(gk.MaternKernel(1.5) + gk.LinearKernel(active_dims=(0,))))).prior.kernel
    assert isinstance(kernel, Sum)
    assert [type(part) for part in kernel.kernels] == [cagp.Matern32, GPyTorchKernel]


def test_both_routes_agree() -> None:
    """The blocks that GPyTorch evaluates, in tiles, against the native kernel; and all ways a solver asks for them."""
    module = gk.ScaleKernel(gk.MaternKernel(2.5)).double().requires_grad_(False)
    module.base_kernel.lengthscale, module.outputscale = 0.4, 2.5
    X, y = data(60)
    native = cagp.Matern52(0.4, 2.5)
    lazy = GPyTorchKernel(KernelBlocks(module, torch.device("cpu")))
    np.testing.assert_allclose(lazy.scaled(3.0)(X, X[:7]), native.scaled(3.0)(X, X[:7]), atol=1e-7)
    for solver in (cagp.NearestNeighbours(20), cagp.GaussSeidel(3), cagp.CalibratedCG(5, cagp.Nystrom(9))):
        posts = [
            cagp.Prior(kernel, noise_variance=0.1).condition(X, y, solver, storage="tiles").predict(X[:5] + 0.01)
            for kernel in (native, lazy)
        ]
        np.testing.assert_allclose(posts[0].mean, posts[1].mean, atol=1e-6)
        np.testing.assert_allclose(posts[0].variance, posts[1].variance, atol=1e-6)
    assert lazy.diagonal(X.T.float()).dtype == torch.float32


@pytest.mark.parametrize(
    ("mean", "kind"),
    [
        (means.ZeroMean, "Zero"),
        (means.ConstantMean, "Constant"),
        (lambda: means.LinearMean(3), "Polynomial"),
        (lambda: means.LinearMean(3, bias=False), "Polynomial"),
        (SquareMean, "CallableMean"),
    ],
)
def test_means(mean: Callable[[], Any], kind: str) -> None:
    assert type(check(trained(gk.MaternKernel(1.5), mean())).prior.mean).__name__ == kind


@pytest.mark.parametrize("second", [False, True])
def test_noise_per_observation(second: bool) -> None:
    noise = torch.linspace(0.01, 0.3, 45, dtype=torch.float64)
    likelihood = likelihoods.FixedNoiseGaussianLikelihood(noise, learn_additional_noise=second)
    converted = check(trained(gk.ScaleKernel(gk.RBFKernel()), likelihood=likelihood))
    extra = likelihood.second_noise.item() if second else 0.0
    np.testing.assert_allclose(converted.prior.noise_variance, noise + extra, rtol=1e-12)


def test_likelihood_can_be_given() -> None:
    other = likelihoods.GaussianLikelihood().double()
    other.noise = 0.7
    assert from_gpytorch(trained(gk.RBFKernel()), other).prior.noise_variance == pytest.approx(0.7)


def test_forward_that_does_more_than_its_parts() -> None:
    converted = check(trained(gk.ScaleKernel(gk.RBFKernel(ard_num_dims=2)), kind=Rescaled), 1e-6)
    assert isinstance(converted.prior.kernel, GPyTorchKernel)
    assert repr(converted.prior.kernel.function) == "Rescaled.forward"


def test_parts_by_any_name() -> None:
    class Named(gpytorch.models.ExactGP):
        def __init__(self, X: torch.Tensor, y: torch.Tensor, likelihood: Any, kernel: Any, mean: Any) -> None:
            super().__init__(X, y, likelihood)
            self.trend, self.kernels = means.ZeroMean(), torch.nn.ModuleList([kernel, gk.MaternKernel(0.5)])

        def forward(self, x: torch.Tensor) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.trend(x), sum(k(x) for k in self.kernels))

    assert isinstance(check(trained(gk.RBFKernel(), kind=Named)).prior.kernel, GPyTorchKernel)


def test_float32_is_computed_in_float64() -> None:
    model = trained(gk.ScaleKernel(gk.MaternKernel(1.5)), dtype=torch.float32)
    assert check(model).gram.dtype == torch.float64
    single = from_gpytorch(model, solver=cagp.Cholesky(), dtype="float32")
    assert single.predict(model.train_inputs[0][:3]).mean.dtype == torch.float32
    assert model.train_inputs[0].dtype == model.covar_module.outputscale.dtype == torch.float32


@pytest.mark.parametrize("kind", [Exact, Rescaled])
@pytest.mark.parametrize("evaluated", [False, True])
def test_the_model_is_not_changed(kind: type, evaluated: bool) -> None:
    model = trained(gk.ScaleKernel(gk.RBFKernel() + gk.PolynomialKernel(2)), kind=kind)
    if evaluated:  # caches that hold gradients
        model.eval()
        model(model.train_inputs[0] + 0.1)
        assert model.prediction_strategy is not None
    before = state(model)
    converted = from_gpytorch(model, solver=cagp.GaussSeidel(1))
    first = converted.predict(model.train_inputs[0][:3] + 0.2).mean
    assert same(before, state(model))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1.0)
    assert torch.equal(first, converted.predict(model.train_inputs[0][:3] + 0.2).mean)


def test_result_is_an_ordinary_model() -> None:
    model = trained(gk.ScaleKernel(gk.LinearKernel()))
    converted = from_gpytorch(model, solver=cagp.GaussSeidel(2), storage="tiles")
    X_test = data(4, seed=2)[0]
    assert converted.gram.storage == "tiles"
    assert torch.equal(pickle.loads(pickle.dumps(converted)).predict(X_test).mean, converted.predict(X_test).mean)
    fitted = converted.prior.fit(*data(), n_restarts=0, fix_noise=True)
    assert fitted.kernel.variance != converted.prior.kernel.variance


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: "model", InputTypeError, "ExactGP, got str"),
        (lambda: Exact(None, None, likelihoods.GaussianLikelihood(), gk.RBFKernel()), InputError, "set_train_data"),
        (
            lambda: Exact(data()[0].expand(2, 45, 3), data()[1].expand(2, 45), likelihoods.GaussianLikelihood(), None),
            InputError,
            "one output at a time",
        ),
        (
            lambda: Exact(*data(), likelihoods.GaussianLikelihood(), gk.RBFKernel(batch_shape=torch.Size([2]))),
            InputError,
            "batch shape \\(2,\\)",
        ),
        (
            lambda: Exact(*data(), likelihoods.GaussianLikelihood(), gk.MultitaskKernel(gk.RBFKernel(), 2)),
            InputError,
            "2 outputs per input",
        ),
        (
            lambda: Exact([data()[0], data()[0]], data()[1], likelihoods.GaussianLikelihood(), gk.RBFKernel()),
            InputError,
            "2 training inputs",
        ),
        (
            lambda: Exact(
                *data(),
                likelihoods.GaussianLikelihood(),
                gk.InducingPointKernel(gk.RBFKernel(), data(5)[0], likelihoods.GaussianLikelihood()),
            ),
            InputError,
            "base_kernel",
        ),
        (
            lambda: Exact(*data(), likelihoods.MultitaskGaussianLikelihood(2), gk.RBFKernel()),
            InputTypeError,
            "got MultitaskGaussianLikelihood",
        ),
        (
            lambda: Exact(*data(), likelihoods.FixedNoiseGaussianLikelihood(torch.ones(7)), gk.RBFKernel()),
            InputError,
            "noise variances of shape \\(7,\\)",
        ),
        (
            lambda: Exact(*data(), likelihoods.GaussianLikelihood(), gk.RBFKernel(ard_num_dims=2)),
            InputError,
            "forward failed",
        ),
    ],
)
def test_refused(make: Callable[[], Any], error: type, words: str) -> None:
    with pytest.raises(error, match=words):
        from_gpytorch(make())


def test_approximate_models_are_refused() -> None:
    points = data(5)[0]
    strategy = gpytorch.variational.CholeskyVariationalDistribution(5)

    class Sparse(gpytorch.models.ApproximateGP):
        def __init__(self) -> None:
            super().__init__(gpytorch.variational.VariationalStrategy(self, points, strategy))

    with pytest.raises(InputTypeError, match="have no data"):
        from_gpytorch(Sparse())


@pytest.mark.gpu
@pytest.mark.parametrize("make", [NATIVE["sum"][0], LAZY["polynomial"]])
@pytest.mark.parametrize("mean", [means.ConstantMean, SquareMean])
def test_on_a_gpu(make: Callable[[], Any], mean: Callable[[], Any]) -> None:
    """A model on a GPU is converted there and gives what its copy on the CPU gives; so does one that is moved."""
    model = trained(make(), mean())
    X_test = data(6, seed=4)[0]
    expected = from_gpytorch(model, solver=cagp.GaussSeidel(3)).predict(X_test)
    moved = from_gpytorch(model, solver=cagp.GaussSeidel(3), device="cuda")
    there = from_gpytorch(copy.deepcopy(model).cuda(), solver=cagp.GaussSeidel(3))
    for converted in (moved, there):
        assert converted.gram.device.type == "cuda"
        post = converted.predict(X_test.cuda())
        np.testing.assert_allclose(post.mean.cpu(), expected.mean, rtol=1e-8)
        np.testing.assert_allclose(post.variance.cpu(), expected.variance, rtol=1e-6)
