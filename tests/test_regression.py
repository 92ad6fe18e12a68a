"""Any regressor as the trend, against dense algebra on trends that are fitted here one by one."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import cagp
from cagp.errors import InputError, InputTypeError
from cagp.left_out import Geometry, blocks_like
from cagp.regression import CrossFitted

pytest.importorskip("sklearn")

from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

RNG = np.random.default_rng(3)
X = RNG.random((90, 2))
Y = np.where(X[:, 0] > 0.4, 3.0, 0.0) + np.sin(5 * X[:, 1]) + 0.1 * RNG.normal(size=90)
TEST = RNG.random((7, 2))
KERNEL, NOISE = cagp.Matern32(0.3, 0.4), 0.02
TREE = DecisionTreeRegressor(max_depth=3, random_state=0)
QUICK = {"kernel": "matern32", "transform": None, "varying": False, "uncertainty": False, "progress": False}


class Means:
    """A regressor that is nobody's estimator: the mean of y by the sign of a column."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> None:
        self.by = [float(y[(X[:, 0] > 0.4) == side].mean()) for side in (False, True)]

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.where(X[:, 0] > 0.4, self.by[1], self.by[0])


def fitted(rows: np.ndarray) -> DecisionTreeRegressor:
    return DecisionTreeRegressor(max_depth=3, random_state=0).fit(X[rows], Y[rows])


def kriged(rows: np.ndarray, residual: np.ndarray, at: np.ndarray) -> np.ndarray:
    G = KERNEL(X[rows]) + NOISE * np.eye(len(rows))
    return np.asarray(np.linalg.solve(G, KERNEL(X[rows], at)).T @ residual)


@pytest.fixture(scope="module")
def mean() -> CrossFitted:
    return cagp.Regression(TREE, folds=4).fit(X, Y)


@pytest.fixture(scope="module")
def model(mean: CrossFitted) -> cagp.Model:
    return cagp.Prior(KERNEL, mean=mean, noise_variance=NOISE).condition(X, Y, "cholesky")


def test_predictions_are_the_average_trend_and_kriged_residuals(mean: CrossFitted, model: cagp.Model) -> None:
    members = [fitted(mean.fold != k) for k in range(4)]
    unseen = np.array([members[k].predict(x[None])[0] for k, x in zip(mean.fold, X, strict=True)])
    expected = np.mean([each.predict(TEST) for each in members], axis=0) + kriged(np.arange(90), Y - unseen, TEST)
    np.testing.assert_allclose(model.predict(TEST).mean, expected, atol=1e-10)
    np.testing.assert_allclose(mean.values, unseen)
    # at its own observations, too, the trend is one that has not seen them
    own = unseen + kriged(np.arange(90), Y - unseen, X)
    np.testing.assert_allclose(model.predict(X).mean, own, atol=1e-10)


@pytest.mark.parametrize("solver", ["cholesky", cagp.NearestNeighbours(89)])
def test_left_out_observations_are_seen_by_no_trend(mean: CrossFitted, solver: object) -> None:
    model = cagp.Prior(KERNEL, mean=mean, noise_variance=NOISE).condition(X, Y, solver)
    found = model.left_out(progress=False)
    for i in (0, 17, 60):
        k, others = mean.fold[i], np.delete(np.arange(90), i)
        without = {m: fitted((mean.fold != k) & (mean.fold != m)) for m in range(4) if m != k}
        average = np.mean([each.predict(X) for each in without.values()], axis=0)
        trend = np.array(
            [average[j] if f == k else without[f].predict(X[j : j + 1])[0] for j, f in enumerate(mean.fold)]
        )
        expected = trend[i] + kriged(others, (Y - trend)[others], X[i : i + 1])[0]
        assert found.mean[found.index == i] == pytest.approx(expected, abs=1e-8)
    # another observed value changes nothing of what is predicted there
    changed = Y.copy()
    changed[17] += 100.0
    again = cagp.Regression(TREE, folds=4).fit(X, changed)
    other = cagp.Prior(KERNEL, mean=again, noise_variance=NOISE).condition(X, changed, solver).left_out(progress=False)
    assert other.mean[other.index == 17] == pytest.approx(found.mean[found.index == 17])


def test_by_groups_the_trend_forgets_the_group(mean: CrossFitted) -> None:
    solver = cagp.CalibratedCG(90)
    model = cagp.Prior(KERNEL, mean=mean, noise_variance=NOISE).condition(X, Y, solver)
    kept = np.arange(20, 90)
    part = model.components[0].rebuilt(kept)
    assert part.prior.mean.y.tolist() == Y[kept].tolist()
    assert model.left_out(progress=False).guarantee.kind == "empirical"


@pytest.mark.filterwarnings("ignore::cagp.errors.DataWarning")
def test_further_observations_leave_the_trend_as_it_was(mean: CrossFitted, model: cagp.Model) -> None:
    new, values = RNG.random((5, 2)), RNG.normal(size=5)
    more = model.with_more(new, values)
    everything, observed = np.vstack([X, new]), np.append(Y, values)
    at_once = model.prior.condition(everything, observed, "cholesky")
    np.testing.assert_allclose(more.predict(TEST).mean, at_once.predict(TEST).mean, atol=1e-9)
    assert more.prior.mean is mean
    average = np.mean([fitted(mean.fold != k).predict(new) for k in range(4)], axis=0)
    np.testing.assert_allclose(mean(torch.from_numpy(new)).numpy(), average)
    assert len(more.left_out(progress=False)) == 95


def test_the_guarantee_is_empirical(model: cagp.Model) -> None:
    assert model.guarantee.kind == model.predict(TEST).guarantee.kind == "empirical"
    assert "learned from the observations" in str(model.guarantee)
    plain = cagp.Prior(KERNEL, noise_variance=NOISE).condition(X, Y)
    assert plain.guarantee.kind == "under the prior"


def test_places_that_are_the_same_are_in_one_fold() -> None:
    twice, values = np.vstack([X, X]), np.append(Y, Y + 1)
    fold = cagp.Regression(TREE).fit(twice, values).fold
    assert (fold[:90] == fold[90:]).all()
    assert set(fold) == set(range(5))


def test_blocks_are_as_wide_as_the_gaps() -> None:
    grid = np.stack(np.meshgrid(np.arange(40.0), np.arange(40.0)), axis=-1).reshape(-1, 2)
    gap = (np.abs(grid - 20) <= 5).all(axis=1)
    model = cagp.Prior(cagp.Matern32(5.0)).condition(grid[~gap], np.zeros((~gap).sum()), "nearest-neighbours")
    geometry = Geometry(model.components[0])
    block = blocks_like(geometry, torch.from_numpy(grid[gap]), 0)
    assert block is not None
    widths = [np.ptp(grid[~gap][block == b], axis=0).max() for b in np.unique(block)]
    assert 6 <= max(widths) <= 16
    among = grid[~gap][:200] + 0.4
    assert blocks_like(geometry, torch.from_numpy(among), 0) is None


def test_blocks_of_few_places_that_are_far_from_the_points() -> None:
    """Rows that are the same place, or are one beside the width of the gap, are never apart."""
    places = np.repeat([[0.0, 0.0], [1.0, 1.0], [1.0, 1.0 + 1e-12]], 4, axis=0)
    model = cagp.Prior(cagp.Matern32(5.0)).condition(places, np.zeros(12), "nearest-neighbours")
    block = blocks_like(Geometry(model.components[0]), torch.full((1, 2), 1e7, dtype=torch.float64), 0)
    assert block is not None
    assert len(np.unique(block)) == 2


def test_fit_takes_regressors_pipelines_and_trees() -> None:
    pipeline = make_pipeline(StandardScaler(), Ridge())
    for given, name in ((pipeline, "Pipeline"), (Means(), "Means"), ("trees", "trees")):
        model = cagp.fit(X, Y, mean=given, **QUICK)
        assert model.candidates[0].name == f"matern32, {name}"
        assert isinstance(model.prior.mean, CrossFitted)
        assert "The trend is" in model.story
    assert not hasattr(pipeline[-1], "coef_"), "what is given stays as it is"


def test_the_same_twice_and_on_a_transformed_scale() -> None:
    forest = RandomForestRegressor(20)
    one, two = (cagp.fit(X, np.exp(Y), mean=forest, **{**QUICK, "transform": "log"}) for _ in range(2))
    np.testing.assert_array_equal(one.predict(TEST).mean, two.predict(TEST).mean)
    np.testing.assert_allclose(one.prior.mean.y, Y)
    free = cagp.fit(X, np.exp(Y), mean=forest, **{**QUICK, "transform": "box-cox"})
    assert abs(free.transform.power) < 0.5


def test_like_makes_blocks_and_outliers_keep_the_trend() -> None:
    gap = np.abs(X - 0.5).max(axis=1) > 0.2
    y, wrong = Y.copy(), 7
    y[np.flatnonzero(gap)[wrong]] += 40.0
    model = cagp.fit(X[gap], y[gap], mean=TREE, like=0.4 + 0.2 * RNG.random((40, 2)), **QUICK)
    assert len(model.prior.mean.y) == gap.sum()
    assert wrong in model.prior.outliers


def test_the_estimator_takes_them() -> None:
    regressor = cagp.CAGPRegressor(mean=HistGradientBoostingRegressor(max_iter=20), kernel="matern32")
    regressor.set_params(mean__max_iter=10)
    regressor.fit(X, Y)
    assert regressor.model_.prior.mean.regressor.max_iter == 10
    with pytest.raises(InputError, match="is learned where the kernel is chosen"):
        cagp.CAGPRegressor(cagp.RBF(0.3), mean=Ridge()).fit(X, Y)


def test_what_a_learned_trend_does_not_have(model: cagp.Model) -> None:
    with pytest.raises(InputError, match="no slopes"):
        model.gradient(TEST)
    with pytest.raises(InputError, match="has not seen these observations"):
        model.jackknife_interval(TEST)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(InputTypeError, match=r"cagp.Regression\(Ridge\(\)\).fit\(X, y\)"):
        cagp.Prior(KERNEL, mean=Ridge())
    with pytest.raises(InputTypeError, match=r"mean is the class Ridge itself; give one of its objects: Ridge\(…\)"):
        cagp.fit(X, Y, mean=Ridge, progress=False)
    with pytest.raises(InputTypeError, match="must have fit"):
        cagp.Regression(3.0)
    with pytest.raises(InputError, match='must be "trees"'):
        cagp.Regression("forest")
    with pytest.raises(InputError, match="folds"):
        cagp.Regression(Ridge(), folds=2)
    with pytest.raises(InputError, match="5 folds need observations at 5 places"):
        cagp.fit(X[:4], Y[:4], mean=Ridge(), progress=False)

    class Wide(Means):
        def predict(self, X: np.ndarray) -> np.ndarray:
            return np.zeros((len(X), 2))

    with pytest.raises(InputError, match=r"KNeighborsRegressor\(n_neighbors=80\).* refuses .* take another mean"):
        cagp.fit(X, Y, mean=KNeighborsRegressor(80), progress=False)
    with pytest.raises(InputError, match="must predict shape"):
        cagp.fit(X, Y, mean=Wide(), progress=False)
