"""Slopes against autograd of the exact posterior, dense algebra and differences, for every solver and kernel."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.special import ndtr

import cagp
from cagp.gram import Gram
from cagp.posterior import Posterior
from problems import make_problem
from solver_cases import CASES, OUTSIDE, Case

PROBLEM = make_problem(d=40, T=5)
KERNELS = [
    cagp.Matern32((0.3, 0.7), 1.7),
    cagp.Matern52(0.4),
    cagp.RBF(0.5, 2.0) + cagp.Matern32(0.2, 0.3),
    cagp.RationalQuadratic(0.4, 1.2, 0.7),
    cagp.Periodic(0.8, 1.0, period=1.3) * cagp.Linear(0.5, 2.0),
    cagp.Power(cagp.Linear(0.7), 3) + cagp.Level(2.0),
    cagp.Rotated(cagp.Matern52((0.2, 0.9)), 30),
    cagp.Matern32(0.4).on(0) * cagp.Matern52(0.8).on(1),
    cagp.Varying(cagp.Matern32(0.3), cagp.Pattern(cagp.RBF(0.4), [[0.2, 0.2], [0.8, 0.7]], [0.5, 2.0])),
]


def _autograd(prior: cagp.Prior, X: np.ndarray, y: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the exact slopes at one point (p,), by autograd through differences of the posterior.

    The covariance is the second derivative of C(x, x′) between two points that differ by next to nothing.
    """
    data, values = torch.from_numpy(X), torch.from_numpy(y)
    origin = data.mean(dim=0)
    noise = float(prior.noise_variance)

    def k(A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        return prior.kernel.evaluate(prior.kernel.embed(A, origin), prior.kernel.embed(B, origin))

    G = k(data, data) + noise * torch.eye(len(data), dtype=torch.float64)
    point = torch.from_numpy(x)[None].requires_grad_()
    (mean,) = torch.autograd.grad(k(point, data)[0] @ torch.linalg.solve(G, values), point)

    def C(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        both = k(a[None], b[None])[0, 0]
        return both - k(a[None], data)[0] @ torch.linalg.solve(G, k(data, b[None])[:, 0])

    near = torch.from_numpy(x) + 1e-7
    columns = range(len(x))
    hessian = torch.autograd.functional.hessian(C, (torch.from_numpy(x), near))[0][1]
    assert hessian.shape == (len(columns), len(columns))
    return mean[0].numpy(), hessian.numpy()


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_every_kernel_against_autograd_of_the_exact_posterior(kernel: cagp.Kernel) -> None:
    prior = cagp.Prior(kernel, noise_variance=0.05)
    found = prior.condition(PROBLEM.X, PROBLEM.y, cagp.Cholesky()).gradient(PROBLEM.X_test)
    for i, x in enumerate(PROBLEM.X_test):
        mean, C = _autograd(prior, PROBLEM.X, PROBLEM.y, x)
        assert_allclose(found.mean[i], mean, rtol=1e-7, atol=1e-9)
        assert_allclose(found.covariance()[i], C, rtol=1e-4, atol=1e-5 * np.abs(C).max())
    assert_allclose(np.diagonal(found.covariance(), axis1=1, axis2=2), found.variance, rtol=1e-9)


def _dense(W: np.ndarray) -> np.ndarray:
    """C(W) of slopes with weights (40, 10), by plain algebra for Matérn 3/2: ∂k/∂x = −3 σ² (x − x′)/ℓ² exp(−√3 r)."""
    away = PROBLEM.X_test[:, None] - PROBLEM.X[None]
    r = np.linalg.norm(away, axis=2) / 0.3
    V = -3 * 1.7 / 0.3**2 * np.exp(-np.sqrt(3) * r)[:, :, None] * away
    V = V.transpose(0, 2, 1).reshape(10, 40)
    C = 3 * 1.7 / 0.3**2 * np.eye(10) - V @ W - W.T @ V.T + W.T @ PROBLEM.G @ W
    return np.stack([C[2 * t : 2 * t + 2, 2 * t : 2 * t + 2] for t in range(5)])


@pytest.mark.parametrize("case", [*CASES, *OUTSIDE], ids=lambda case: case.id)
def test_every_solver_knows_its_error(case: Case) -> None:
    """The covariance is that of the weights, by dense algebra, and converges to the exact one."""
    found = PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, case.solver).gradient(PROBLEM.X_test)
    (part,) = found.components
    assert_allclose(found.covariance(), _dense(part.weights), rtol=1e-7, atol=1e-9)
    assert_allclose(found.mean.ravel(), part.weights.T @ PROBLEM.y, rtol=1e-9, atol=1e-12)
    exact = PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, cagp.Cholesky()).gradient(PROBLEM.X_test)
    assert (found.variance >= exact.variance * (1 - 1e-9)).all()
    converged = PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, case.converged).gradient(PROBLEM.X_test)
    assert_allclose(converged.mean, exact.mean, atol=1e3 * case.tolerance)
    assert_allclose(converged.covariance(), exact.covariance(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("solver", [cagp.Cholesky(), cagp.GaussSeidel(5), cagp.RandomDirections(20)], ids=repr)
@pytest.mark.parametrize(
    "mean",
    [3.0, cagp.Polynomial(1), cagp.Polynomial(2), lambda X: np.sin(X[:, 0])],
    ids=["number", "linear", "quadratic", "function"],
)
def test_means_and_trends_against_differences(solver: cagp.Solver, mean: cagp.Mean) -> None:
    """Solvers that are linear in their right-hand side: slopes of predictions are the predicted slopes."""
    prior = cagp.Prior(cagp.Matern52(0.4), mean=mean, noise_variance=0.05)
    model = prior.condition(PROBLEM.X, PROBLEM.y, solver)
    found, h = model.gradient(PROBLEM.X_test), 1e-4
    for j in range(2):
        step = h * np.eye(2)[j]
        difference = model.average(
            np.vstack([PROBLEM.X_test + step, PROBLEM.X_test - step]), np.hstack([np.eye(5), -np.eye(5)]) / (2 * h)
        )
        assert_allclose(found.mean[:, j], difference.mean, rtol=1e-5, atol=1e-6)
        assert_allclose(found.variance[:, j], difference.variance, rtol=1e-4)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("mean", [cagp.Zero(), cagp.Polynomial(1)], ids=repr)
def test_neighbours_have_the_slopes_of_what_they_predict(
    monkeypatch: pytest.MonkeyPatch, mean: cagp.Mean, compiled: bool
) -> None:
    if compiled:
        pytest.importorskip("numba")
        monkeypatch.setattr("cagp.kernels.plan.COMPILED_FROM", 0)
    problem = make_problem(d=1500, T=30, seed=2)
    prior = cagp.Prior(cagp.Matern32(0.3, 1.7), mean=mean, noise_variance=0.05)
    model = prior.condition(problem.X, problem.y, cagp.NearestNeighbours(40))
    exact = prior.condition(problem.X, problem.y, cagp.Cholesky()).gradient(problem.X_test)
    found = model.gradient(problem.X_test)
    assert (found.variance < 1.2 * exact.variance).all()
    assert (found.variance > exact.variance * (1 - 1e-9)).all()
    h = 1e-7
    values = [model.predict(problem.X_test + np.array([step, 0.0])).mean for step in (h, -h)]
    same_cell = np.isclose((values[0] - values[1]) / (2 * h), found.mean[:, 0], rtol=1e-4, atol=1e-4)
    assert same_cell.mean() > 0.9
    alone = prior.condition(problem.X, problem.y, cagp.NearestNeighbours(40, shared=False)).gradient(problem.X_test)
    assert_allclose(alone.covariance(), alone.covariance().transpose(0, 2, 1), rtol=1e-9)
    assert np.linalg.eigvalsh(alone.covariance()).min() > 0


def test_on_the_globe_slopes_are_for_degrees() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(-60, 60, 80), rng.uniform(-180, 180, 80)])
    model = cagp.Prior(cagp.Geographic(cagp.Matern52(0.5)), noise_variance=0.01).condition(X, np.sin(X[:, 0] / 20))
    found, h = model.gradient(X[:4] + 1.0), 1e-3
    for j in range(2):
        step = h * np.eye(2)[j]
        up, down = (model.predict_mean(X[:4] + 1.0 + sign * step) for sign in (1, -1))
        assert_allclose(found.mean[:, j], (up - down) / (2 * h), rtol=1e-5, atol=1e-8)


# --- what they offer ----------------------------------------------------------------------------------------------


def _mixture() -> cagp.Model:
    parts = [PROBLEM.prior, cagp.Prior(cagp.RBF(0.5), noise_variance=0.1)]
    found = [prior.condition(PROBLEM.X, PROBLEM.y, cagp.Cholesky()) for prior in parts]
    return cagp.Model([each.components[0] for each in found], [0.6, 0.4])


def test_a_mixture_is_that_of_the_slopes() -> None:
    model = _mixture()
    found = model.gradient(PROBLEM.X_test)
    parts = [cagp.Model([each]).gradient(PROBLEM.X_test) for each in model.components]
    mean = 0.6 * parts[0].mean + 0.4 * parts[1].mean
    C = np.zeros((5, 2, 2))
    for w, part in zip((0.6, 0.4), parts, strict=True):
        away = part.mean - mean
        C += w * (part.covariance() + away[:, :, None] * away[:, None, :])
    assert_allclose(found.mean, mean, rtol=1e-10)
    assert_allclose(found.covariance(), C, rtol=1e-9)
    assert_allclose(found.variance, np.diagonal(C, axis1=1, axis2=2), rtol=1e-9)
    rises = 0.6 * ndtr(parts[0].mean / parts[0].std) + 0.4 * ndtr(parts[1].mean / parts[1].std)
    assert_allclose(found.exceedance(0.0), rises, rtol=1e-9)


def test_a_column_that_a_part_of_a_mixture_does_not_see() -> None:
    """Its slope is zero for certain there: one more normal distribution beside it, without a width."""
    X, y = np.random.default_rng(0).random((20, 2)), np.arange(20.0)
    kernels = cagp.Matern32(0.5), cagp.Matern32(0.5).on(1)
    one, other = (cagp.Prior(kernel, noise_variance=0.1).condition(X, y, "cholesky") for kernel in kernels)
    model = one.replace(components=[*one.components, *other.components], weights=[0.6, 0.4])
    slopes, alone = model.gradient(X[:3]), one.gradient(X[:3])
    mean, std = alone.mean[:, 0], alone.std[:, 0]
    for threshold in (-1.0, 2.0):
        wanted = 0.6 * ndtr((mean - threshold) / std) + 0.4 * (threshold < 0)
        assert_allclose(slopes.exceedance(threshold)[:, 0], wanted, rtol=1e-10)
        density = np.log(0.6) + alone.log_density(threshold)[:, 0]
        assert_allclose(slopes.log_density(threshold)[:, 0], density, rtol=1e-10)
    assert_allclose(slopes.exceedance(0.0)[:, 0], 0.6 * ndtr(mean / std) + 0.4 / 2, rtol=1e-10)
    lower, upper = slopes.interval(0.9)
    assert (lower < upper).all()


def test_shapes_and_what_is_inherited() -> None:
    model = PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, cagp.GaussSeidel(4))
    found = model.gradient(PROBLEM.X_test)
    assert len(found) == 5
    low, high = found.interval(0.9)
    assert low.shape == high.shape == found.std.shape == found.iterations.shape == (5, 2)
    assert found.quantile([0.1, 0.5]).shape == (5, 2, 2)
    assert_allclose(found.values([0.0, 1.0])[:, :, 1], found.mean + found.std, rtol=1e-9)
    assert_allclose(found.cdf(found.quantile(0.3)), 0.3, rtol=1e-9)
    bounds, exact = found.computational_variance, model.components[0]
    assert (bounds.lower <= bounds.upper).all()
    truth = PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, cagp.Cholesky()).gradient(PROBLEM.X_test).variance
    assert (bounds.lower <= found.variance - truth + 1e-9).all()
    assert (bounds.upper >= found.variance - truth - 1e-9).all()
    assert "Slopes along 2 columns at 5 points" in str(found.status)
    assert exact.gram.size == 40
    tensor = model.gradient(torch.from_numpy(PROBLEM.X_test))
    assert_allclose(tensor.mean.numpy(), found.mean, rtol=1e-12)
    stopped = PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, cagp.GaussSeidel(300))
    early = stopped.gradient(PROBLEM.X_test, stop=cagp.stopping.ComputationalShare(0.1))
    assert (early.variance <= truth / 0.9).all()
    assert (early.iterations < 300).all()


@pytest.mark.parametrize("solver", [cagp.Cholesky(), cagp.NearestNeighbours(40), cagp.CalibratedCG(80)], ids=repr)
def test_single_precision_also_at_training_points(solver: cagp.Solver) -> None:
    exact = PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, cagp.Cholesky()).gradient(PROBLEM.X)
    for options, tolerance in (({"dtype": "float32"}, 1e-3), ({"solve_dtype": "float32"}, 1e-4)):
        found = PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, solver, **options).gradient(PROBLEM.X)
        assert_allclose(found.mean, exact.mean, atol=tolerance * np.abs(exact.mean).max())
        assert_allclose(found.variance, exact.variance, rtol=tolerance, atol=tolerance)


def test_left_out_errors_say_nothing_about_slopes() -> None:
    model = PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, cagp.Cholesky())
    found = model.recalibrated().gradient(PROBLEM.X_test)
    assert_allclose(found.variance, model.gradient(PROBLEM.X_test).variance, rtol=1e-12)
    assert found.guarantee.kind == "under the prior"


def test_calibrated_under_the_prior() -> None:
    """True slopes of draws from the prior, which are sums of cosines."""
    rng, kernel = np.random.default_rng(0), cagp.RBF(0.4)
    frequency, phase = rng.normal(size=(2000, 2)) / 0.4, rng.uniform(0, 2 * np.pi, 2000)
    X, X_test = rng.random((30, 2)), rng.random((3, 2))
    model = cagp.Prior(kernel, noise_variance=0.05).condition(X, np.zeros(30), cagp.GaussSeidel(2))
    scores = []
    for _ in range(300):
        size = rng.normal(size=2000) / np.sqrt(1000)
        y = np.cos(X @ frequency.T + phase) @ size + np.sqrt(0.05) * rng.normal(size=30)
        slope = -np.sin(X_test @ frequency.T + phase) * size @ frequency
        found = model.with_observations(y).gradient(X_test)
        scores.append(((slope - found.mean) / found.std).ravel())
    assert np.std(scores) == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize(
    "kernel",
    [cagp.Matern12(0.3), cagp.Matern32(0.3) + cagp.Matern12(0.2), cagp.Rotated(cagp.Matern12((0.2, 0.5)), 20)],
    ids=repr,
)
def test_kernels_without_slopes_are_refused(kernel: cagp.Kernel) -> None:
    model = cagp.Prior(kernel, noise_variance=0.05).condition(PROBLEM.X, PROBLEM.y)
    with pytest.raises(cagp.InputError, match=r"kink at distance zero.*kernel='matern32'"):
        model.gradient(PROBLEM.X_test)


def test_what_else_is_refused() -> None:
    custom = cagp.CustomKernel(lambda A, B: torch.exp(-torch.cdist(A, B)))
    model = cagp.Prior(custom, noise_variance=0.05).condition(PROBLEM.X, PROBLEM.y)
    with pytest.raises(cagp.InputError, match="does not say whether its functions have slopes"):
        model.gradient(PROBLEM.X_test)
    logarithm = PROBLEM.prior.transformed("log").condition(PROBLEM.X, np.exp(PROBLEM.y))
    with pytest.raises(cagp.InputError, match=r"replace\(transform=None\)\.gradient\(X\)$"):
        logarithm.gradient(PROBLEM.X_test)
    rough = cagp.Prior(cagp.Matern12(0.3), noise_variance=0.05).transformed("log")
    with pytest.raises(cagp.InputError, match=r"kink.*transformed.*\(X, y, kernel='matern32', transform=None\)$"):
        rough.condition(PROBLEM.X, np.exp(PROBLEM.y)).gradient(PROBLEM.X_test)
    found = PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y).gradient(PROBLEM.X_test)
    with pytest.raises(cagp.InputError, match="noise has no slope"):
        found.observed()
    with pytest.raises(cagp.InputError, match="joint draws of slopes"):
        found.sample(3)
    with pytest.raises(cagp.InputError, match="one for each slope"):
        found.cdf(np.zeros(5))


@pytest.fixture
def four_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


def test_covariances_of_neighbours_keep_to_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(3).random((300, 2))
    prior = cagp.Prior(cagp.Matern32(0.3), noise_variance=0.01)
    how = {"storage": "tiles", "memory_budget": 10 * 8 * 50**2}
    model, sizes, blocks = prior.condition(X, X[:, 0], cagp.NearestNeighbours(50), **how), [], Gram.blocks
    slopes = model.gradient(X[:20] + 0.01, progress=False)
    monkeypatch.setattr(Gram, "blocks", lambda gram, indices: sizes.append(len(indices)) or blocks(gram, indices))
    few = slopes.covariance()
    assert 4 * max(sizes) <= 10
    assert sum(sizes) == 20
    monkeypatch.setattr(Posterior, "working_budget", 2**30)
    assert_allclose(few, slopes.covariance(), rtol=1e-8, atol=1e-10)


def test_threads_do_not_disturb_each_other(four_threads: None) -> None:
    """Forwards differentiation in torch has one state for all threads."""
    X = np.random.default_rng(0).random((600, 2))
    prior = cagp.Prior(cagp.Matern32(0.3), noise_variance=0.05)
    for solver in (cagp.NearestNeighbours(8), cagp.Cholesky()):
        model = prior.condition(X, np.sin(5 * X[:, 0]), solver)
        alone = model.gradient(X[:300])
        with ThreadPoolExecutor(2) as pool:
            together = list(pool.map(model.gradient, [X[:300]] * 4))
        for each in together:
            assert_allclose(each.mean, alone.mean, rtol=1e-10, atol=1e-12)
