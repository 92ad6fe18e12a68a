import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import cagp
from cagp.hyperparameters.search_space import Space
from cagp.kernels import Kernel

NESTED = (
    cagp.Geographic(cagp.Matern32(0.2, 3.0)).on(0, 1) * cagp.Periodic((0.5,), 1.0, 2.0).on(2)
    + cagp.RationalQuadratic(0.7, 0.1, 4.0)
)  # fmt: skip
NAMES = (
    "kernel.kernels[0].kernels[0].kernel.kernel.lengthscale",
    "kernel.kernels[0].kernels[0].kernel.kernel.variance",
    "kernel.kernels[0].kernels[1].kernel.lengthscale[0]",
    "kernel.kernels[0].kernels[1].kernel.variance",
    "kernel.kernels[0].kernels[1].kernel.period",
    "kernel.kernels[1].lengthscale",
    "kernel.kernels[1].variance",
    "kernel.kernels[1].alpha",
    "noise_variance",
)


def test_names_are_how_one_reads_a_hyperparameter_off_the_prior():
    prior = cagp.Prior(NESTED, noise_variance=0.3)
    space = Space.of(prior)
    assert space.names == NAMES
    for name, start in zip(space.names, space.start, strict=True):
        assert eval(f"prior.{name}", {"prior": prior}) == pytest.approx(np.exp(start))


@given(st.lists(st.floats(1e-3, 1e3), min_size=9, max_size=9))
def test_values_go_in_and_come_out_as_plain_floats(values):
    space = Space.of(cagp.Prior(NESTED))
    prior = cagp.Prior(space.kernel(values), noise_variance=space.noise(values))
    np.testing.assert_allclose(np.exp(Space.of(prior).start), values, rtol=1e-12)
    assert all(type(eval(f"prior.{name}", {"prior": prior})) is float for name in space.names)


def test_tensors_of_one_field_stay_differentiable():
    space = Space.of(cagp.Prior(cagp.RBF((1.0, 2.0))), fix="kernel.lengthscale[1]", fix_noise=True)
    assert space.names == ("kernel.lengthscale[0]", "kernel.variance")
    leaves = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (0.5, 2.0)]
    kernel = space.kernel(leaves)
    X = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    kernel(X)[0, 1].backward()
    # k = v exp(−½ (1/l² + 1/4)), dk/dl = k / l³
    value = 2.0 * np.exp(-0.5 * (4.0 + 0.25))
    assert leaves[0].grad.item() == pytest.approx(value / 0.5**3)
    assert leaves[1].grad.item() == pytest.approx(value / 2.0)


@pytest.mark.parametrize(
    ("fix", "left"),
    [
        ("kernel.kernels[0]", NAMES[5:]),
        (["period", "alpha"], tuple(n for n in NAMES if not n.endswith(("period", "alpha")))),
        ("lengthscale", tuple(n for n in NAMES if "lengthscale" not in n)),
        ([NAMES[0], "noise_variance"], NAMES[1:-1]),
    ],
)
def test_fixing_by_name_by_part_and_by_kind(fix, left):
    assert Space.of(cagp.Prior(NESTED), fix=fix).names == left


def test_noise_per_observation_is_not_a_hyperparameter():
    assert "noise_variance" not in Space.of(cagp.Prior(cagp.RBF(), noise_variance=[0.1, 0.2])).names


def test_a_kernel_of_ones_own_without_fields_is_left_alone():
    class Ones(Kernel):
        def embed(self, X, origin):
            return X.T

        def evaluate(self, A, B, out=None, buffers=None):
            return torch.ones(A.shape[1], B.shape[1], dtype=A.dtype)

        def diagonal(self, A):
            return torch.ones(A.shape[1], dtype=A.dtype)

        def scaled(self, factor):
            return self

    kernel = Ones()
    assert kernel.with_hyperparameters(lambda name, value: 1 / 0) is kernel


def test_default_bounds_are_five_orders_of_magnitude_either_way():
    space = Space.of(cagp.Prior(cagp.RBF(0.5)), bounds={"variance": (0.5, 2.0)})
    np.testing.assert_allclose(np.exp(space.lower), [0.5e-5, 0.5, 1e-7])
    np.testing.assert_allclose(np.exp(space.upper), [0.5e5, 2.0, 1e3])


def test_random_starts_stay_within_bounds_and_a_decade():
    space = Space.of(cagp.Prior(cagp.RBF(0.5)), bounds={"variance": (0.5, 2.0)})
    starts = np.exp([space.random_start(np.random.default_rng(seed)) for seed in range(200)])
    assert (starts >= [0.05, 0.5, 1e-3]).all()
    assert (starts <= [5.0, 2.0, 1e-1]).all()
    assert starts[:, 0].min() < 0.07
    assert starts[:, 0].max() > 3.5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fix": "lenghtscale"}, r"'lenghtscale'; the hyperparameters are kernel.lengthscale, kernel.variance"),
        ({"fix": ["kernel"], "fix_noise": True}, "nothing to fit"),
        ({"bounds": {"variance": 3.0}}, "must be a pair"),
        ({"bounds": {"variance": (2.0, 1.0)}}, "low < high"),
        ({"bounds": {"variance": (-1.0, 2.0)}}, "must be positive"),
        ({"bounds": {"variance": (2.0, 3.0)}}, r"starts at 1, outside its bounds \(2, 3\)"),
        ({"bounds": {"noise_variance": (1e-3, 1.0)}, "fix_noise": True}, "bounds names 'noise_variance'"),
    ],
)
def test_what_cannot_be_meant_is_refused(options, message):
    with pytest.raises(cagp.InputError, match=message):
        Space.of(cagp.Prior(cagp.RBF()), **options)
