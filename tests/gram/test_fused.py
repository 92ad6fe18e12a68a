"""The fused GPU kernels: through Triton's interpreter on a CPU, compiled on a GPU."""

import operator
from functools import reduce
from pathlib import Path

import numpy as np
import pytest
import torch

import cagp
from cagp.algebra.sweeps import substitute, sweep
from cagp.gram import Gram
from cagp.kernels import Kernel, map_embedding
from radial_kernels import FUSED, names_without

pytest.importorskip("triton", reason="the fused kernels need Triton")

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"

KERNELS = {
    "matern12": (cagp.Matern12(0.6, 2.0), 3),
    "matern32": (cagp.Matern32(0.6, 1e4), 2),
    "matern52, a lengthscale each": (cagp.Matern52((0.4, 0.9, 1.5)), 3),
    "spherical": (cagp.Spherical((2.5, 1.1), 2.0), 2),
    "rbf": (cagp.RBF(0.8, 1e-6), 2),
    "rational quadratic": (cagp.RationalQuadratic(0.5, alpha=1.7), 2),
    "rational quadratic, nearly rbf": (cagp.RationalQuadratic(0.9, alpha=1e6), 2),
    "rational quadratic, nearly constant": (cagp.RationalQuadratic(0.9, alpha=1e-36), 2),
    "periodic": (cagp.Periodic(0.7, period=1.3), 2),
    "globe": (cagp.Geographic(cagp.Matern32(0.3, 5.0)), 2),
    "sum": (cagp.Matern32(0.4) + 0.3 * cagp.RBF(1.0), 2),
    "product": (cagp.Matern12(1.0) * cagp.Periodic(1.0), 2),
    "product of sums": ((cagp.Matern12(1.0) + cagp.RBF(2.0)) * (cagp.Matern52(1.0) + 0.2 * cagp.Matern32(0.5)), 2),
    "columns": (cagp.Matern32(0.5).on(0) * cagp.RBF(0.7).on(1) + cagp.Matern12(2.0), 2),
    "32 columns": (cagp.Matern32(5.0), 32),
}


@pytest.fixture(autouse=True)
def fused(monkeypatch):
    """On a CPU: kernels through the interpreter, and a Gram matrix that thinks it is on a GPU."""
    if not GPU:
        monkeypatch.setattr("cagp.gram.fused.backend.supported", lambda device: True)


def make(kernel: Kernel, columns: int, n: int = 150, dtype: torch.dtype = torch.float32, **settings: object):
    X = torch.rand(n, columns, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).to(DEVICE) * 3
    embedding = map_embedding(kernel.embed(X, X.mean(0)), lambda part: part.to(dtype))
    noise = torch.full((n,), 0.1 * float(kernel.diagonal(kernel.embed(X, X.mean(0)))[0]), dtype=dtype, device=DEVICE)
    gram = Gram(kernel, embedding, noise, storage="tiles", budget=2**30, **settings)
    exact = torch.as_tensor(kernel(X.cpu().numpy())).to(DEVICE)
    exact.diagonal().add_(noise.double())
    return gram, exact


def rows(T: int, n: int) -> torch.Tensor:
    """Weights of very different sizes, as kriging weights are."""
    rng = torch.Generator().manual_seed(1)
    return (torch.randn(T, n, generator=rng) * torch.rand(T, n, generator=rng) ** 8).to(DEVICE)


def test_every_built_in_gpu_profile_is_compared_and_documented():
    missing = names_without(FUSED, [kernel for kernel, _ in KERNELS.values()])
    assert not missing, "they have a gpu_profile: add them to KERNELS of tests/gram/test_fused.py"
    page = (Path(__file__).parents[2] / "docs" / "gpu.md").read_text(encoding="utf-8")
    told = page.split("- **Fused kernels.**")[1].split("- **")[0]
    missing = [each.__name__ for each in FUSED if f"`{each.__name__}`" not in told]
    assert not missing, 'they have a gpu_profile: name them under "Fused kernels" in docs/gpu.md'


@pytest.mark.parametrize("name", KERNELS)
def test_tiles_are_the_kernel(name):
    kernel, columns = KERNELS[name]
    gram, exact = make(kernel, columns, dtype=torch.float64)
    assert gram.fused
    with gram.block(10, 140, 5, 150) as block:
        # the last values of the spherical kernel before its range are differences of numbers near one
        torch.testing.assert_close(block, exact[10:140, 5:150], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", KERNELS)
def test_products_in_float32_have_its_digits(name):
    kernel, columns = KERNELS[name]
    gram, exact = make(kernel, columns)
    W = rows(5, gram.size)
    error = (gram.matmul(W).double() - W.double() @ exact).norm() / (W.double() @ exact).norm()
    assert error < (1e-4 if "nearly" in name else 2e-6)  # α = 10⁶ costs digits in any float32 arithmetic


def test_products_in_tf32_have_eleven_bits():
    gram, exact = make(cagp.Matern32(0.6), 2, accurate=False)
    W = rows(70, gram.size)
    error = (gram.matmul(W).double() - W.double() @ exact).norm() / (W.double() @ exact).norm()
    assert 1e-5 < error < 1e-3


@pytest.mark.gpu
@pytest.mark.parametrize("accurate", [True, False])
@pytest.mark.parametrize("name", ["globe", "matern12", "sum", "32 columns"])
def test_products_are_the_same_every_time(name, accurate):
    """Registers that are overwritten while a product reads them would show as results that change."""
    gram, _ = make(*KERNELS[name], n=6_000, accurate=accurate)
    W = rows(100, 6_000)
    first = gram.matmul(W)
    assert all(torch.equal(gram.matmul(W), first) for _ in range(5))


def test_products_in_float64_are_exact():
    gram, exact = make(cagp.Matern52(0.6), 2, dtype=torch.float64)
    W = rows(5, gram.size).double()
    torch.testing.assert_close(gram.matmul(W), W @ exact, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("magnitude", [1e-20, 1e-6, 1.0, 1e12])
def test_any_size_of_weights(magnitude):
    gram, exact = make(cagp.Matern32(0.6), 2)
    W = rows(3, gram.size).double() * magnitude
    W[1] = 0.0
    W[2] *= 1e-6  # each row has its own scale
    product = gram.matmul(W.float()).double()
    assert bool((product[1] == 0).all())
    for row in (0, 2):
        assert (product[row] - W[row] @ exact).norm() < 2e-6 * (W[row] @ exact).norm()


@pytest.mark.parametrize("block_size", [None, 40])
@pytest.mark.parametrize("backward", [True, False])
def test_sweeps_are_those_of_the_stored_matrix(block_size, backward):
    from cagp.algebra.sweeps import BlockDiagonal

    gram, exact = make(cagp.Matern32(0.6), 2)
    rhs, W = rows(4, gram.size), rows(4, gram.size) * 0.1
    expected = W.double().clone()
    size = block_size or 1
    starts = list(range(0, gram.size, size))
    for start in reversed(starts) if backward else starts:  # one block after another, as the textbook has it
        inside = slice(start, start + size)
        residual = rhs[:, inside].double() - expected @ exact[:, inside]
        expected[:, inside] += torch.linalg.solve(exact[inside, inside], residual.T).T
    blocks = BlockDiagonal(gram, block_size) if block_size else None
    gain = sweep(gram, W, rhs, backward=backward, blocks=blocks)
    torch.testing.assert_close(W.double(), expected, rtol=1e-3, atol=1e-5)
    assert bool((gain > 0).all())


@pytest.mark.parametrize("backward", [True, False])
def test_triangular_solves(backward):
    from cagp.algebra.sweeps import BlockDiagonal

    gram, exact = make(cagp.Matern32(0.6), 2)
    rhs = rows(4, gram.size)
    triangle = torch.zeros_like(exact)
    for start in range(0, gram.size, 64):
        stop = start + 64
        triangle[start:stop, start:stop] = exact[start:stop, start:stop]
        if backward:
            triangle[start:stop, stop:] = exact[start:stop, stop:]
        else:
            triangle[start:stop, :start] = exact[start:stop, :start]
    X = substitute(gram, rhs, BlockDiagonal(gram, 64), backward=backward)
    torch.testing.assert_close(X.double(), torch.linalg.solve(triangle, rhs.double().T).T, rtol=1e-3, atol=1e-4)


def block_triangle(exact: torch.Tensor, size: int) -> torch.Tensor:
    """The diagonal blocks and what stands below them."""
    block = torch.arange(len(exact), device=exact.device) // size
    return torch.where(block[:, None] >= block, exact, 0.0)


@pytest.mark.parametrize("variance", [1e-12, 1e12])
def test_triangular_solves_at_any_variance(variance):
    from cagp.algebra.sweeps import BlockDiagonal

    gram, exact = make(cagp.Matern32(0.6, variance), 2)
    rhs = rows(4, gram.size)
    X = substitute(gram, rhs, BlockDiagonal(gram, 40), backward=False).double()
    expected = torch.linalg.solve(block_triangle(exact, 40), rhs.double().T).T
    assert (X - expected).norm() < 1e-4 * expected.norm()


@pytest.mark.parametrize("accurate", [True, False])
def test_weights_may_outgrow_half_precision_on_the_way(accurate):
    from cagp.algebra.sweeps import BlockDiagonal

    # duplicates in the second block: what tells them apart grows by 1/noise, 10⁵ times
    X = torch.rand(96, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).to(DEVICE) * 3
    X[40] = X[41]
    kernel = cagp.Matern32(0.3)
    embedding = map_embedding(kernel.embed(X, X.mean(0)), lambda part: part.float())
    noise = torch.full((96,), 1e-5, device=DEVICE)
    gram = Gram(kernel, embedding, noise, storage="tiles", budget=2**30, accurate=accurate)
    exact = torch.as_tensor(kernel(X.cpu().numpy())).to(DEVICE)
    exact.diagonal().add_(noise.double())
    rhs = rows(3, 96)
    rhs[1:, 40:42] = 0.0
    rhs[0, 40], rhs[0, 41] = 1.0, -1.0
    blocks = BlockDiagonal(gram, 32)
    solved = substitute(gram, rhs, blocks, backward=False).double()
    expected = torch.linalg.solve(block_triangle(exact, 32), rhs.double().T).T
    assert float(expected[0].abs().max()) > 1e4
    swept = torch.zeros_like(rhs)
    sweep(gram, swept, rhs, backward=False, blocks=blocks)
    for found in (solved, swept.double()):
        for row in range(3):
            assert (found[row] - expected[row]).norm() < 5e-3 * expected[row].norm()


def test_rows_that_all_but_vanish_spoil_nothing():
    gram, exact = make(cagp.Matern32(0.6), 2)
    W = rows(3, gram.size)
    W[1] = 1e-45  # the smallest number that float32 has
    W[2] *= 1e-40
    product = gram.matmul(W)
    assert (product[0].double() - W[0].double() @ exact).norm() < 2e-6 * (W[0].double() @ exact).norm()
    assert bool((product[1:].abs() < 1e-36).all())


@pytest.mark.parametrize("arithmetic", ["float32", "tf32"])
@pytest.mark.parametrize(
    "solver",
    [cagp.GaussSeidel(4, block_size=50), cagp.GaussSeidel(4), cagp.CalibratedCG(4, cagp.Nystrom(30))],
    ids=repr,
)
def test_a_prediction_in_low_precision_is_certified_in_float64(solver, arithmetic, monkeypatch):
    rng = np.random.default_rng(0)
    X, X_test = rng.random((150, 2)), rng.random((6, 2))
    prior = cagp.Prior(cagp.Matern32(0.3), noise_variance=0.05)
    y = rng.normal(size=150)
    if not GPU:  # the door that keeps tf32 off a CPU
        monkeypatch.setattr("cagp.predicting.conditioned.tf32_refused", lambda device, storage: False)
    model = prior.condition(X, y, solver, solve_dtype=arithmetic, device=DEVICE, storage="tiles")
    post = model.predict(X_test)
    G = prior.kernel(X) + 0.05 * np.eye(150)
    V = prior.kernel(X_test, X)
    W = np.linalg.solve(G, V.T)
    exact = 1 - np.einsum("ij,ji->i", V, W)
    assert (post.variance >= exact * (1 - 1e-9)).all()
    weights = post.weights  # (d, T): what the certificate was computed for
    direct = 1 - 2 * np.einsum("ij,ji->i", V, weights) + np.einsum("ij,jk,ki->i", weights.T, G, weights)
    np.testing.assert_allclose(post.variance, direct, rtol=1e-10)
    assert "certified in torch.float64" in str(post.status)


def test_other_kernels_are_not_fused():
    class Strange(cagp.Matern32):
        """A subclass with a profile of its own."""

        def profile(self, s, scratch=None):
            return super().profile(s, scratch)

    for kernel in (Strange(0.5), cagp.CustomKernel(lambda a, b: torch.exp(-torch.cdist(a, b)))):
        gram, _ = make(kernel, 2, dtype=torch.float64)
        assert not gram.fused
    sums = [cagp.Matern32(1.0 + i) + cagp.RBF(1.0) for i in range(40)]
    product = reduce(operator.mul, sums)  # of 2⁴⁰ terms
    gram, _ = make(product, 1, n=3, dtype=torch.float64)
    assert not gram.fused
    many, _ = make(cagp.RBF(5.0), 33)
    assert not many.fused


def test_the_status_calls_tf32_only_what_is(monkeypatch):
    if not GPU:
        monkeypatch.setattr("cagp.predicting.conditioned.tf32_refused", lambda device, storage: False)
    X, y = np.linspace(0, 1, 20)[:, None], np.zeros(20)
    for kernel, words in ((cagp.RBF(0.3), "in tf32"), (cagp.RBF(0.3) * cagp.Linear(), "in torch.float32,")):
        prior = cagp.Prior(kernel, noise_variance=0.1)
        model = prior.condition(X, y, cagp.GaussSeidel(1), solve_dtype="tf32", storage="tiles", device=DEVICE)
        assert words in str(model.predict(X[:3]).status)


def test_tf32_is_refused_where_it_means_nothing():
    prior = cagp.Prior(cagp.Matern32(0.3))
    with pytest.raises(cagp.InputError, match=r'solve_dtype="tf32".*"float32"'):
        prior.condition(np.zeros((2, 1)), np.zeros(2), solve_dtype="tf32", device="cpu")
    with pytest.raises(cagp.InputTypeError, match="tf32"):
        prior.condition(np.zeros((2, 1)), np.zeros(2), solve_dtype="tf16")


def test_tf32_sweeps_stay_stable_where_the_noise_is_small(monkeypatch):
    """Covariances of 11 bits would diverge here: they are multiplied by variance / noise in every sweep."""
    rng = np.random.default_rng(3)
    X, X_test = rng.random((100, 2)), rng.random((4, 2))
    prior = cagp.Prior(cagp.Matern32(0.3), noise_variance=1e-4)
    if not GPU:
        monkeypatch.setattr("cagp.predicting.conditioned.tf32_refused", lambda device, storage: False)
    solver = cagp.GaussSeidel(20, block_size=50)
    low = prior.condition(X, np.zeros(100), solver, solve_dtype="tf32", device=DEVICE, storage="tiles")
    full = prior.condition(X, np.zeros(100), solver, storage="dense", device="cpu")
    np.testing.assert_allclose(low.predict(X_test).variance, full.predict(X_test).variance, rtol=0.02)


def test_a_recipe_keeps_tf32(monkeypatch):
    """Workers and other devices make the model again: with the arithmetic that it had."""
    if not GPU:
        monkeypatch.setattr("cagp.predicting.conditioned.tf32_refused", lambda device, storage: False)
    X = np.random.default_rng(0).random((40, 2))
    prior = cagp.Prior(cagp.Matern32(0.3))
    for solve_dtype, accurate in (("tf32", False), ("float32", True)):
        model = prior.condition(X, np.zeros(40), cagp.GaussSeidel(1), solve_dtype=solve_dtype, device=DEVICE)
        assert model.components[0].copy_on(DEVICE).prepared.gram.accurate is accurate
