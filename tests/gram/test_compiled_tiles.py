"""Tiles in one compiled pass are those of torch, whoever asks for them, and there is torch where there is no code."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import cagp
from cagp.algebra.sweeps import sweep
from cagp.gram import Gram, Tiling
from cagp.kernels import plan
from radial_kernels import COMPILED, names_without

pytest.importorskip("numba", reason="tiles are compiled where numba is installed")

RNG = np.random.default_rng(7)
D = 1300
"""More points than are computed at once in a row, and not a multiple of that."""

X, X_TEST = RNG.random((D, 3)), RNG.random((17, 3))
LONG, SHORT = cagp.RBF((0.3, 1.0, 2.0), variance=0.7), cagp.Matern12(0.2)
KERNELS = {
    "Matérn 1/2": SHORT,
    "Matérn 3/2": cagp.Matern32(0.4, variance=3.0),
    "Matérn 5/2": cagp.Matern52((0.4, 0.2, 3.0)),
    "squared exponential": LONG,
    "spherical": cagp.Spherical((0.9, 0.5, 3.0), variance=2.0),
    "rational quadratic": cagp.RationalQuadratic(0.3, alpha=1.7),
    "so short that most values are zero": cagp.RBF(1e-3),
    "periodic, six coordinates": cagp.Periodic(0.7, period=0.4),
    "a sum": SHORT + 2 * LONG,
    "a product": cagp.Matern32(0.5).on(0) * SHORT.on(1, 2) * cagp.Matern52(0.3).on(0),
    "an amplitude": cagp.Varying(SHORT, cagp.Pattern(LONG, RNG.random((4, 3)), [0.3, 1.0, 2.0, 5.0])),
    "an amplitude of a sum": cagp.Varying(SHORT + LONG, cagp.Pattern(LONG, RNG.random((4, 3)), [0.3, 1.0, 2.0, 5.0])),
    "sums and products": (SHORT + LONG) * cagp.Matern32(1.0).on(2) + cagp.Matern32(0.1),
}
NOISE = torch.from_numpy(RNG.uniform(0.01, 0.1, D))


def embedded(kernel: cagp.Kernel, points: np.ndarray = X) -> cagp.kernels.Embedding:
    return kernel.embed(torch.from_numpy(points), torch.from_numpy(X).mean(dim=0))


def gram(kernel: cagp.Kernel, storage: str = "tiles", dtype: torch.dtype = torch.float64) -> Gram:
    """A new one each time: whether tiles are compiled is decided when they are asked for."""
    embedding = cagp.kernels.map_embedding(embedded(kernel), lambda part: part.to(dtype))
    return Gram(kernel, embedding, NOISE.to(dtype), storage=storage, budget=2**30, tiling=Tiling(192, 2**26, 2048))


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Tiles are compiled, however few there are; ``undo`` goes back to torch."""
    monkeypatch.setattr(plan, "COMPILED_FROM", 0)
    return monkeypatch


def test_every_built_in_scalar_profile_is_compared() -> None:
    missing = names_without(COMPILED, KERNELS.values())
    assert not missing, "they have a scalar_profile: add them to KERNELS of tests/gram/test_compiled_tiles.py"


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_they_are_those_of_torch(kernel: cagp.Kernel, compiled: pytest.MonkeyPatch) -> None:
    """Parts of G, the stored matrix, covariances with all training points and with some."""
    ours, test, some = gram(kernel), embedded(kernel, X_TEST), torch.tensor([3, 700, 3, 1299])
    assert ours._entries.compiled is not None
    with ours.block(5, 205, 100, D) as lent:
        tile = lent.clone()
    whole, cross, few = gram(kernel, "dense")._backend.matrix(), ours.cross_block(test), ours.cross_block(test, some)
    compiled.undo()
    theirs, expected = gram(kernel), gram(kernel, "dense")._backend.matrix()
    assert "compiled" not in theirs._entries.__dict__
    # where a spherical kernel ends, the last digit of the distance is all of the value
    close = {"rtol": 1e-12, "atol": 1e-16 if isinstance(kernel, cagp.Spherical) else 1e-300}
    assert_allclose(tile, expected[5:205, 100:], **close)
    assert_allclose(whole, expected, **close)
    assert_allclose(cross, theirs.cross_block(test), **close)
    assert_allclose(few, theirs.cross_block(test)[:, some], **close)


@pytest.mark.parametrize("name", ["Matérn 3/2", "a product", "an amplitude"])
def test_in_float32_they_are_more_accurate_than_torch(name: str, compiled: pytest.MonkeyPatch) -> None:
    """Only the coordinates and the result are rounded, so the error is that of torch's at the most."""
    kernel, single = KERNELS[name], torch.float32
    ours = gram(kernel, "dense", single)._backend.matrix().double()
    compiled.undo()
    theirs = gram(kernel, "dense", single)._backend.matrix().double()
    rounded = cagp.kernels.map_embedding(embedded(kernel), lambda part: part.to(single).double())
    exact = kernel.evaluate(rounded, rounded) + NOISE.to(single).double().diag()
    assert_allclose(ours, exact, rtol=4e-7, atol=1e-37)
    assert (ours - exact).abs().max() <= (theirs - exact).abs().max()


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_sweeps_and_products_are_the_same(threads: int, dtype: torch.dtype, compiled: pytest.MonkeyPatch) -> None:
    """Also on threads that share out the panels; from zero, from any weights, in both directions."""
    compiled.setattr("cagp.gram.compiled._THREAD_VALUES", 1000)
    kernel, before = KERNELS["sums and products"], torch.get_num_threads()
    W, rhs = torch.from_numpy(np.random.default_rng(1).standard_normal((2, 4, D))).to(dtype)

    def results(matrix: Gram) -> list[torch.Tensor]:
        found = [matrix.matmul(W)]
        for start in (W, torch.zeros_like(W)):
            for backward in (True, False):
                swept = start.clone()
                found += [sweep(matrix, swept, rhs, backward=backward, relaxation=1.2), swept]
        return found

    torch.set_num_threads(threads)
    try:
        ours = results(pickle.loads(pickle.dumps(gram(kernel, dtype=dtype))))
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    compiled.undo()
    digits = 1e-10 if dtype == torch.float64 else 1e-4
    for mine, theirs in zip(ours, results(gram(kernel, dtype=dtype)), strict=True):
        assert_allclose(mine, theirs, rtol=digits, atol=digits * float(theirs.abs().max()))


def test_other_kernels_stay_with_torch(compiled: pytest.MonkeyPatch) -> None:
    kernel = SHORT + cagp.Linear()
    ours = gram(kernel)
    assert ours._entries.compiled is None
    with ours.block(0, 100, 50, 300) as tile:
        ours_tile = tile.clone()
    expected = kernel.evaluate(embedded(kernel), embedded(kernel)) + NOISE.diag()
    assert_allclose(ours_tile, expected[:100, 50:300], rtol=1e-12)


def test_small_problems_do_not_load_it() -> None:
    """To load the code takes longer than they do: not for a sweep over few points, nor for few test points."""
    ours = gram(SHORT)
    ours.matmul(torch.ones(1, D, dtype=torch.float64))
    ours.cross_block(embedded(SHORT, X_TEST))
    assert "compiled" not in ours._entries.__dict__


def test_without_numba_torch_does_it(compiled: pytest.MonkeyPatch) -> None:
    """An entry of None among the modules is how Python says that one cannot be imported."""
    compiled.setitem(sys.modules, "cagp.gram.compiled", None)
    ours = gram(SHORT)
    assert ours._entries.compiled is None
    W = torch.from_numpy(np.random.default_rng(2).standard_normal((2, D)))
    expected = W @ (SHORT.evaluate(embedded(SHORT), embedded(SHORT)) + NOISE.diag())
    assert_allclose(ours.matmul(W), expected, rtol=1e-10, atol=1e-10)


MULTIPLIES = """
import resource, sys
import torch
import cagp
from cagp.gram import Gram
from cagp.kernels import plan
plan.COMPILED_FROM = 0
torch.set_num_threads(6)
X, noise = torch.rand(3000, 2, dtype=torch.float64), torch.ones(3000, dtype=torch.float64)
kernel = cagp.Matern32(0.3)
gram = Gram(kernel, kernel.embed(X, X.mean(0)), noise, storage="tiles", budget=2**30)
gram.matmul(noise.repeat(200, 1))  # what BLAS keeps for itself
W = torch.ones(2000, 3000, dtype=torch.float64)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
gram.matmul(W)
unit = 1 if sys.platform == "darwin" else 1024
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * unit / W.nbytes)
"""


def test_products_take_no_copy_of_the_weights_for_each_thread() -> None:
    """Beside the product a part of it for the rows of one panel, whatever the number of threads."""
    pytest.importorskip("resource", reason="the memory of a process is asked for as POSIX has it")
    done = subprocess.run([sys.executable, "-c", MULTIPLIES], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 3  # it was 12
