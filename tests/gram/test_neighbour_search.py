"""Neighbours by blocks of points, against all distances."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cagp.gram.neighbours import BlockSearch, ScaledSearch, TreeSearch, search
from random_examples import examples


@examples(60)
@given(
    seed=st.integers(0, 2**31),
    n=st.integers(1, 400),
    T=st.integers(1, 300),
    q=st.integers(1, 5),
    share=st.floats(0, 1),
    leaf=st.sampled_from([4, 16, 256]),
    clustered=st.booleans(),
)
def test_blocks_find_the_nearest(seed, n, T, q, share, leaf, clustered):
    rng = torch.Generator().manual_seed(seed)
    points, test = torch.randn(n, q, generator=rng).double(), torch.randn(T, q, generator=rng).double()
    if clustered:  # with duplicates, and far from the test points
        points = (3 * points).round() + 5
    k = max(1, round(share * n))
    near = BlockSearch(points, leaf, first_blocks=1, entries=5000).query(test, k)
    distance = torch.cdist(test, points, compute_mode="donot_use_mm_for_euclid_dist")
    assert near.shape == (T, k)
    assert all(len(set(row.tolist())) == k for row in near)  # each point once
    expected = distance.topk(k, dim=1, largest=False).values
    torch.testing.assert_close(distance.gather(1, near), expected, rtol=1e-12, atol=1e-12)


def test_a_cpu_uses_the_tree():
    assert isinstance(search(torch.arange(20.0).reshape(10, 2)), TreeSearch)


@pytest.mark.parametrize("factors", [(2.0, 2.0), (0.5, 1.9), (1.0, 7.0)])
@pytest.mark.parametrize("k", [1, 30, 700])
def test_the_nearest_in_other_units_are_those_of_a_tree_of_their_own(factors, k):
    rng = torch.Generator().manual_seed(2)
    points, test = torch.randn(700, 2, generator=rng).double(), torch.randn(50, 2, generator=rng).double()
    scaled = points * torch.tensor(factors).double()
    found = ScaledSearch.of(TreeSearch(points), scaled)
    assert found is not None
    assert torch.equal(found.query(test, k), TreeSearch(scaled).query(test, k))


def test_other_points_are_no_multiples():
    points = torch.rand(300, 2, generator=torch.Generator().manual_seed(3)).double()
    moved = points.clone()
    moved[17, 0] += 1e-6
    turned = points @ torch.tensor([[0.8, 0.6], [-0.6, 0.8]]).double()
    constant = points * torch.tensor([1.0, 0.0]).double()
    narrow = points * torch.tensor([1.0, 100.0]).double()
    for other in (moved, turned, constant, narrow, points[:, :1], points[:200]):
        assert ScaledSearch.of(TreeSearch(points), other) is None


def test_both_searches_agree_on_scattered_points():
    rng = torch.Generator().manual_seed(1)
    points, test = torch.rand(3000, 3, generator=rng).double(), torch.rand(2000, 3, generator=rng).double()
    assert torch.equal(BlockSearch(points).query(test, 20), TreeSearch(points).query(test, 20))
