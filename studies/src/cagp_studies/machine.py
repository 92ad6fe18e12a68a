"""This machine: where the large studies compute, its versions, and how long work will take on it."""

from __future__ import annotations

import dataclasses
import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

import torch

from cagp.algebra.sweeps import sweep
from cagp.gram import Gram
from cagp.kernels import Geographic, Matern32, map_embedding


def default_device() -> torch.device:
    """The GPU where there is one, else the processor."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


_PACKAGES = ("torch", "numpy", "scipy", "pandas", "matplotlib", "joblib")


def describe() -> dict[str, str]:
    """Versions of Python, cagp and what it stands on, the processor and the system; all as text."""
    from cagp import __version__

    found = {"cagp": __version__, "Python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue  # an optional package that this study did not need
    found["processor"] = f"{_processor()}, {os.cpu_count()} logical cores"
    if torch.cuda.is_available():
        found["accelerator"] = torch.cuda.get_device_name()
    found["system"] = platform.platform()
    return found


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass  # not Linux: the name that Python knows is shorter
    return platform.processor() or platform.machine()


_STORED = {"cpu": 2000, "cuda": 12_288}
"""Points of the stored matrix that is measured: a second of work, and enough to fill a GPU, which is idle with less."""

_RECOMPUTED = {"cpu": 2000, "cuda": 2**16}
"""The same where nothing is stored."""

_REPEATS = 2
_BUDGET = 2**40


@dataclass(frozen=True)
class Forecast:
    """Seconds of computing and bytes of memory (beyond what Python and its packages take)."""

    seconds: float
    memory: float

    def shared_by(self, jobs: int) -> Forecast:
        """What is expected where so many processes share the work; ``memory`` is that of one of them."""
        return dataclasses.replace(self, seconds=self.seconds / jobs, memory=self.memory * jobs)


@dataclass(frozen=True)
class Rates:
    """What this machine does in a second: entries of a kernel matrix, and floating-point operations of sweeps with
    some number of right-hand sides, of products with one vector, and of Cholesky factorisations.
    """

    entries: float
    sweeps: float
    products: float
    factors: float

    def assemble(self, d: int) -> float:
        """Seconds to compute a symmetric d × d kernel matrix."""
        return d**2 / 2 / self.entries

    def sweep(self, d: int, T: int, recompute: bool) -> float:
        """Seconds of a Gauss-Seidel sweep with T right-hand sides; ``recompute`` where the matrix is not stored."""
        return 2 * d**2 * T / self.sweeps + (self.assemble(d) if recompute else 0)

    def product(self, d: int, recompute: bool) -> float:
        """Seconds of a product with one vector."""
        return 2 * d**2 / self.products + (self.assemble(d) if recompute else 0)

    def factor(self, d: int) -> float:
        """Seconds of a Cholesky factorisation."""
        return d**3 / 3 / self.factors


def measure(T: int, device: torch.device) -> Rates:
    """The rates of this machine with T right-hand sides, with as many threads as torch now has: a second or less."""
    n = _STORED.get(device.type, _STORED["cpu"])
    gram, tiles = (_gram(n, storage, torch.float64, device) for storage in ("dense", "tiles"))
    rhs = torch.ones(T, n, dtype=torch.float64, device=device)
    W = torch.zeros_like(rhs)
    vector, product = rhs[:1], 2 * n**2
    one, recomputed = _seconds(lambda: gram.matmul(vector), device), _seconds(lambda: tiles.matmul(vector), device)
    many = _seconds(lambda: sweep(gram, W, rhs, backward=True), device)
    factor = _seconds(gram.cholesky, device)
    return Rates(
        entries=n**2 / 2 / max(recomputed - one, 0.1 * recomputed),
        sweeps=product * T / many,
        products=product / one,
        factors=n**3 / 3 / factor,
    )


def pass_seconds(d: int, T: int, dtype: torch.dtype, device: torch.device) -> float:
    """Seconds of a matrix-free product of the d × d matrix with T right-hand sides, as an iteration takes it.

    In float32 a GPU fuses it, in float64 it does not: the rates of one say nothing about the other.
    """
    n = _RECOMPUTED.get(device.type, _RECOMPUTED["cpu"])
    gram, rhs = _gram(n, "tiles", dtype, device), torch.ones(T, n, dtype=dtype, device=device)
    return _seconds(lambda: gram.matmul(rhs), device) * (d / n) ** 2


def _gram(n: int, storage: str, dtype: torch.dtype, device: torch.device) -> Gram:
    """The Gram matrix of n points on the globe."""
    degrees = torch.rand(n, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 90
    kernel = Geographic(Matern32(0.2))
    embedding = kernel.embed(degrees.to(device), degrees.mean(dim=0).to(device))
    noise = torch.full((n,), 0.1, dtype=dtype, device=device)
    return Gram(kernel, map_embedding(embedding, lambda part: part.to(dtype)), noise, storage=storage, budget=_BUDGET)


def _seconds(call: Callable[[], object], device: torch.device) -> float:
    return least_seconds(call, device, _REPEATS)


def least_seconds(call: Callable[[], object], device: torch.device, repeats: int) -> float:
    """The least time of so many calls, after one that does not count.

    The first call pays for what is made once (memory, compiled code), and others who use the machine can only make a
    call longer. A GPU goes on after a call has returned: its end is waited for.
    """

    def timed() -> float:
        start = time.perf_counter()
        call()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter() - start

    timed()
    return min(timed() for _ in range(repeats))
