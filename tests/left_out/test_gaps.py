"""One gap is one draw: which points lie in one, what they are worth, and whole ones left out at other places."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import cagp
from cagp.left_out import MANY, Gaps, Geometry, leave_out, leave_out_gaps, matching
from cagp.recalibration import WholeGaps
from cagp.recalibration.diagnosis import diagnose, from_gap_to_gap

NOISE = 0.05
CENTRES = np.array([[0.25, 0.25], [0.75, 0.25], [0.25, 0.75], [0.75, 0.75]])


def discs(n: int, radius: float = 0.1, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Places with observations, those in four discs without any, and in which disc each of these is."""
    X = np.random.default_rng(seed).random((n, 2))
    apart = np.linalg.norm(X[:, None] - CENTRES, axis=2)
    inside = apart.min(axis=1) < radius
    return X[~inside], X[inside], apart[inside].argmin(axis=1)


def model_of(X: np.ndarray, y: np.ndarray | None = None, lengthscale: float = 0.3, k: int = 40) -> cagp.Model:
    prior = cagp.Prior(cagp.Matern32((lengthscale,) * X.shape[1]), noise_variance=NOISE)
    return prior.condition(X, X[:, 0] if y is None else y, cagp.NearestNeighbours(k, shared=False))


def gaps_of(X: np.ndarray, like: np.ndarray) -> Gaps:
    return Gaps.of_points(Geometry(model_of(X).components[0]), torch.from_numpy(like))


def test_each_disc_is_a_gap() -> None:
    X, like, disc = discs(3000)
    gaps = gaps_of(X, like)
    largest = [np.bincount(gaps.number[disc == each]).argmax() for each in range(4)]
    assert len(set(largest)) == 4
    assert (gaps.number == np.array(largest)[disc]).mean() > 0.95  # but for a few at the edges
    assert gaps.matter
    assert 3.9 < gaps.alike < 4.5
    some = gaps.some(disc != 2)
    assert (len(some), some.sizes.sum()) == (len(np.unique(gaps.number[disc != 2])), (disc != 2).sum())


@pytest.mark.parametrize("columns", [1, 2, 10])
@pytest.mark.parametrize("share", [0.1, 0.5])
def test_points_scattered_among_the_data_are_gaps_of_their_own(columns: int, share: float) -> None:
    X = np.random.default_rng(0).random((2000, columns))
    held = np.random.default_rng(1).random(len(X)) < share
    gaps = gaps_of(X[~held], X[held])
    assert gaps.alike > (0.5 if share < 0.5 else 0.1) * held.sum()
    grid = np.stack(np.meshgrid(np.arange(30.0), np.arange(30.0)), axis=-1).reshape(-1, 2)
    lone = (grid % 3 == 1).all(axis=1)
    assert len(gaps_of(grid[~lone], grid[lone])) == lone.sum()


def test_a_long_gap_is_several() -> None:
    X = np.random.default_rng(0).random((4000, 2)) * (20, 1)
    later = X[:, 1] > 0.8
    gaps = gaps_of(X[~later], X[later])
    assert 15 < gaps.alike < 60


def test_values_count_like_as_many_as_differ() -> None:
    number = np.repeat(np.arange(40), 25)
    gaps, rng = Gaps(number), np.random.default_rng(0)
    assert gaps.worth(rng.normal(size=40)[number]) == pytest.approx(39)  # the same in a gap: one draw each
    worth, means = [], []
    for _ in range(400):
        values = rng.normal(size=40)[number] * 0.5 + rng.normal(size=1000)
        worth.append(gaps.worth(values))
        means.append(values.mean())
    assert 1 / np.mean(np.reciprocal(worth)) == pytest.approx(1.25 / np.var(means), rel=0.15)
    assert Gaps(np.zeros(30, dtype=int)).few
    alone = Gaps(np.arange(500))
    assert alone.worth(rng.normal(size=500)) == pytest.approx(500, rel=0.01)


def test_errors_that_differ_from_gap_to_gap_are_no_proof() -> None:
    """In some gaps they are twice what is promised, in others half of it: of other gaps that says little."""
    number = np.repeat(np.arange(20), 100)
    right = {"points": 0, "gaps": 0}
    for seed in range(40):
        rng = np.random.default_rng(seed)
        sizes = np.exp(rng.normal(0, 0.25, 20) - 0.25**2)  # of root mean square 1
        z = sizes[number] * rng.normal(size=2000)
        right["points"] += diagnose(z).right
        found = diagnose(z, gaps=Gaps(number))
        right["gaps"] += found.right
        assert "of the 2,000 values in 20 gaps" in found.sentence
        assert found.notes[0] == (
            "Within a gap errors go together: 2,000 values lie in 20 gaps, parts without data about as wide "
            "as deep, which tell as much as 20 of one size."
        )
    assert right["gaps"] >= 38 > 30 > right["points"]
    assert not diagnose(2 * z, gaps=Gaps(number)).right  # which is seen still


def test_one_gap_is_said_to_be_one() -> None:
    z = np.random.default_rng(0).normal(size=200)
    found = diagnose(z, gaps=Gaps(np.zeros(200, dtype=int)))
    assert "of the 200 values in one gap" in found.sentence
    assert "one gap, which is one draw. So few do not tell" in found.notes[0]
    assert found.worth.spread == 1
    assert not from_gap_to_gap(z, Gaps(np.zeros(200, dtype=int)))


def test_how_coverage_differs_is_told() -> None:
    number = np.repeat(np.arange(20), 20)
    z = np.where(number % 2 == 0, 0.0, 9.0) * np.ones(400)
    said = from_gap_to_gap(z, Gaps(number))
    assert f"among 20 gaps with {MANY} values or more, 80% intervals hold 0% to 100%" in said
    assert not from_gap_to_gap(z[:180], Gaps(number[:180]))


# --- whole gaps, left out at other places ---------------------------------------------------------------------------


def test_whole_gaps_are_left_out_elsewhere() -> None:
    X, like, _ = discs(3000)
    model = model_of(X)
    test = torch.from_numpy(like)
    found, number = matching(model.components[0]).whole(test, gaps_of(X, like).number, 0)
    assert len(np.unique(number)) > 20
    rows, members = X[found.rows.numpy()], X[found.members.numpy()]
    far = np.linalg.norm(members - rows[:, None], axis=2)
    far[found.members.numpy() < 0] = np.inf
    assert np.median(far.min(axis=1)) > 1.5 * np.median(np.sort(np.linalg.norm(X[:500, None] - X, axis=2))[:, 1])
    for each in np.unique(number):
        there = rows[number == each]
        assert np.ptp(there, axis=0).max() <= 2 * 0.1 * 1.2  # about as wide as the discs
        taken = found.rows[torch.from_numpy(number == each)]
        assert not torch.isin(found.members[torch.from_numpy(number == each)], taken).any()
    there = np.asarray(model.predict(like).observed().std)
    middle = np.quantile(found.promised, (0.1, 0.5, 0.9))
    np.testing.assert_allclose(middle, np.quantile(there, (0.1, 0.5, 0.9)), rtol=0.1)  # predicted as well as the points


def test_their_errors_are_right_under_the_prior() -> None:
    X, like, _ = discs(150, radius=0.15)
    G = cagp.Matern32((0.3, 0.3))(torch.from_numpy(X)).numpy() + NOISE * np.eye(len(X))
    model, test, total = model_of(X, k=10), torch.from_numpy(like), 0.0
    chosen, _ = matching(model.components[0]).whole(test, gaps_of(X, like).number, 0)
    assert len(chosen) > 20
    for column in np.linalg.cholesky(G).T:  # Var z = Σ (z of the columns of L)²
        total = total + leave_out(model.with_observations(column), chosen).z ** 2
    np.testing.assert_allclose(total, 1.0, rtol=1e-6)


def test_where_there_is_no_room_for_a_gap_there_is_none() -> None:
    X, like, _ = discs(1500)
    model = model_of(X)
    assert leave_out_gaps(model, torch.from_numpy(np.vstack([like, like + 1000])), 0) is not None
    assert leave_out_gaps(model, torch.from_numpy(X[:50] + 1e-9), 0) is None  # each lies alone
    alone = np.random.default_rng(0).random((40, 2)) * 300 + 1000  # wider than all of the data
    assert WholeGaps.like(model, torch.from_numpy(alone), 0) is None


def test_the_story_tells_it() -> None:
    X, like, _ = discs(900)
    y = np.sin(12 * X[:, 0]) * np.cos(9 * X[:, 1]) + 0.1 * np.random.default_rng(0).normal(size=len(X))
    options = {"kernel": "matern32", "mean": "constant", "uncertainty": False, "transform": None, "progress": False}
    for recalibrate in (True, "auto"):
        model = cagp.fit(X, y, like=like, recalibrate=recalibrate, **options)  # type: ignore[arg-type]
        [lines] = [lines for title, lines in model.record.sections if title == "Error bars"]
        assert "Coverage differs from gap to gap: in eight of ten among" in " ".join(lines)
        assert "whole gaps, left out at other places, with 10 values or more" in " ".join(lines)
    assert "gap to gap" not in str(cagp.fit(X, y, **options).story)  # type: ignore[arg-type]
