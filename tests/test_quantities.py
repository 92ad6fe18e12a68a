"""Several quantities at once, against cokriging written down as dense algebra, and against gstat."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import cagp
from cagp.errors import InputError
from cagp.fit_report import write_check_report
from cagp.kernels import Coregionalised, NoiseByQuantity
from cagp.means import ByQuantity
from cagp.quantities import QuantitiesModel, stacked
from cagp.transforms import Log

NAMES = ("copper", "lead", "zinc")
NOISE = np.array([0.02, 0.3, 0.05])
B1 = np.array([[1.0, 0.8, -0.5], [0.8, 2.0, 0.1], [-0.5, 0.1, 0.7]])
B2 = np.array([[0.3, 0.0, 0.1], [0.0, 0.2, 0.1], [0.1, 0.1, 0.6]])


def data(n: int = 30, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Places (n, 2), and observations (n, 3) with gaps."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 2))
    Y = rng.normal(size=(n, 3)) + np.array([0.0, 10.0, -5.0])
    Y[: n // 3, 0], Y[5:9, 2] = np.nan, np.nan
    return X, Y


def covariance(X: np.ndarray, i: np.ndarray, Z: np.ndarray, j: np.ndarray) -> np.ndarray:
    """B₁ Matérn 3/2 + B₂ Matérn 1/2 by hand."""
    r = np.sqrt(np.square(X[:, None] - Z[None]).sum(axis=2))
    s = np.sqrt(3) * r / 0.2
    return B1[np.ix_(i, j)] * (1 + s) * np.exp(-s) + B2[np.ix_(i, j)] * np.exp(-r / 0.9)


def cokriged(
    X: np.ndarray, i: np.ndarray, y: np.ndarray, T: np.ndarray, j: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Ordinary cokriging by the system with Lagrange multipliers: predictions and the covariance of their errors."""
    H, h = np.eye(3)[i], np.eye(3)[j]
    G = covariance(X, i, X, i) + np.diag(NOISE[i])
    A = np.block([[G, H], [H.T, np.zeros((3, 3))]])
    V = np.hstack([covariance(T, j, X, i), h])
    W = np.linalg.solve(A, V.T).T
    return W[:, : len(y)] @ y, covariance(T, j, T, j) - W @ V.T


@pytest.mark.parametrize("quantities", [10_001, 10**9, 10**30])
def test_a_trend_has_no_more_quantities_than_can_be(quantities: int) -> None:
    """As a folder of somebody else might say."""
    with pytest.raises(InputError, match=r"more than 10,000 terms|below 2\*\*63"):
        cagp.Prior(cagp.Matern32(0.2), mean=ByQuantity(quantities), noise_variance=1.0).condition([[0.0, 0.0]], [1.0])


def prior() -> cagp.Prior:
    kernel = Coregionalised.of(cagp.Matern32(0.2), B1) + Coregionalised.of(cagp.Matern12(0.9), B2)
    levels = NoiseByQuantity(tuple(np.sqrt(NOISE).tolist()))
    return cagp.Prior(kernel, mean=ByQuantity(3), noise_variance=1.0, noise_pattern=levels)


def model(solver: Any = "cholesky") -> QuantitiesModel:
    return QuantitiesModel(NAMES, prior().condition(*stacked(*data()), solver))


@pytest.mark.parametrize("solver", ["cholesky", cagp.NearestNeighbours(200), cagp.CalibratedCG(80)])
def test_predictions_and_their_covariances_are_those_of_dense_cokriging(solver: Any) -> None:
    X, Y = data()
    rows, y = stacked(X, Y)
    T = np.random.default_rng(1).random((4, 2))
    prediction = model(solver).predict(T)
    for t, place in enumerate(T):
        mean, C = cokriged(rows[:, :2], rows[:, 2].astype(int), y, np.tile(place, (3, 1)), np.arange(3))
        np.testing.assert_allclose(prediction.mean[t], mean, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(prediction.covariance()[t], C, rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(prediction.observed().covariance()[t], C + np.diag(NOISE), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(prediction.std**2, np.diagonal(prediction.covariance(), axis1=1, axis2=2))
    np.testing.assert_allclose(prediction["lead"].mean, prediction.mean[:, 1])


@pytest.mark.parametrize("whole_places", [False, True], ids=["remove.all=FALSE", "remove.all=TRUE"])
@pytest.mark.parametrize("solver", ["cholesky", cagp.NearestNeighbours(200)])
def test_left_out_follows_both_conventions_of_gstat(solver: Any, whole_places: bool) -> None:
    """gstat.cv leaves out an observation of one variable, with ``remove.all`` also the others at its place."""
    X, Y = data()
    rows, y = stacked(X, Y)
    places, quantity = rows[:, :2], rows[:, 2].astype(int)
    found = model(solver).left_out(whole_places=whole_places)
    assert [len(each) for each in found.values()] == (~np.isnan(Y)).sum(axis=0).tolist()
    for i, name in enumerate(NAMES):
        left = found[name]
        np.testing.assert_array_equal(left.index, np.flatnonzero(quantity == i))
        for at in (0, 7, len(left) - 1):
            row = left.index[at]
            gone = (places == places[row]).all(axis=1) if whole_places else np.arange(len(y)) == row
            own = places[~gone], quantity[~gone], y[~gone], places[row : row + 1], quantity[row : row + 1]
            mean, C = cokriged(*own)
            np.testing.assert_allclose(left.mean[at], mean[0], rtol=1e-6, atol=1e-7)
            np.testing.assert_allclose(left.std[at] ** 2, C[0, 0] + NOISE[i], rtol=1e-6)
            np.testing.assert_allclose(left.X[at], places[row])


def uniform_of_r(seed: int, n: int) -> np.ndarray:
    """What ``set.seed(seed); runif(n)`` is in R, whose Mersenne twister starts from a congruential generator."""
    state = []
    for _ in range(50 + 625):
        seed = (69069 * seed + 1) % 2**32
        state.append(seed)
    twister = np.random.RandomState()
    twister.set_state(("MT19937", np.array(state[51:], dtype=np.uint32), 624))
    return twister.randint(0, 2**32, n, dtype=np.uint64) / 2**32


# What tests/cv.Rout.save of gstat prints: min, quartiles, mean and max of predictions, variances, residuals, z scores.
PRINTED = {
    True: """4.840 5.368 5.858 5.882 6.353 7.317 0.05409 0.10484 0.13511 0.15125 0.16969 0.79033
             -1.065578 -0.217605 -0.012082 0.003732 0.218088 1.353119
             -3.008118 -0.586261 -0.031313 0.008212 0.632272 3.279924""",
    False: """4.632 5.293 5.767 5.893 6.426 7.674 0.002590 0.005023 0.006181 0.006597 0.007500 0.027236
              -0.513948 -0.074101 0.010332 -0.007156 0.070512 0.506778
              -5.45653 -1.05557 0.11046 -0.07335 0.86810 7.37567""",
}


@pytest.mark.skipif("CAGP_DATA" not in os.environ, reason="CAGP_DATA does not name the folder with meuse.csv")
@pytest.mark.parametrize("remove_all", [True, False])
def test_the_cross_validation_that_gstat_prints(remove_all: bool) -> None:
    """Zinc along the Meuse from zinc, lead and copper, 10 neighbours of each; ``sample(5, 155, TRUE)`` are the folds.

    gstat draws the folds after the rows of its data, which are in the order of the flood frequency. Of neighbours at
    the same distance it takes the later one.
    """
    table = pd.read_csv(Path(os.environ["CAGP_DATA"]) / "meuse.csv").sort_values("ffreq", kind="stable")
    X, Y = table[["x", "y"]].to_numpy(float), np.log(table[["zinc", "lead", "copper"]].to_numpy(float))
    fold = np.floor(5 * uniform_of_r(13131, 310)).reshape(2, 155)[0 if remove_all else 1]
    sills = [[0.7132435, 0.6367012, 0.4570044], [0.6367012, 0.6133020, 0.3934910], [0.4570044, 0.3934910, 0.3634211]]
    noise = NoiseByQuantity((1e-5, 1e-5, 1e-5))
    kernel = Coregionalised.of(cagp.Spherical(1000.0), sills)
    own = cagp.Prior(kernel, mean=ByQuantity(3), noise_variance=1.0, noise_pattern=noise)
    mean, variance = np.empty(155), np.empty(155)
    for i, place in enumerate(X):
        order = np.lexsort((-np.arange(155), np.square(X - place).sum(axis=1)))
        zinc = order[fold[order] != fold[i]][:10]
        others = zinc if remove_all else order[:10]
        near = np.union1d(zinc, others)
        known = np.column_stack([np.isin(near, zinc), np.isin(near, others), np.isin(near, others)])
        rows = stacked(X[near], np.where(known, Y[near], np.nan))
        found = QuantitiesModel(("zinc", "lead", "copper"), own.condition(*rows, "cholesky")).predict(place[None])
        mean[i], variance[i] = found["zinc"].mean[0], found["zinc"].variance[0]
    residual = Y[:, 0] - mean
    each = (mean, variance, residual, residual / np.sqrt(variance))
    summary = [f(one) for one in each for f in (np.min, lower, np.median, np.mean, upper, np.max)]
    for value, printed in zip(summary, PRINTED[remove_all].split(), strict=True):
        assert value == pytest.approx(float(printed), abs=1.01 * 10.0 ** -len(printed.partition(".")[2]))


def lower(values: np.ndarray) -> float:
    return float(np.quantile(values, 0.25))


def upper(values: np.ndarray) -> float:
    return float(np.quantile(values, 0.75))


def test_a_quantity_on_its_own_scale() -> None:
    X, Y = data()
    Y[:, 1] = np.exp(Y[:, 1] - 10)
    logged = np.column_stack([Y[:, 0], np.log(Y[:, 1]), Y[:, 2]])
    joint = prior().condition(*stacked(X, logged), "cholesky")
    each = QuantitiesModel(NAMES, joint)
    plain = each.predict(X[:5]).observed()
    models = [each["copper"], each["lead"].replace(transform=Log()), each["zinc"]]
    own = QuantitiesModel(NAMES, models).predict(X[:5]).observed()
    np.testing.assert_allclose(own.median[:, 1], np.exp(plain.median[:, 1]))
    np.testing.assert_allclose(own.mean[:, 1], np.exp(plain.mean[:, 1] + plain.variance[:, 1] / 2), rtol=1e-6)
    np.testing.assert_allclose(own.interval(0.9)[0][:, 1], np.exp(plain.interval(0.9)[0][:, 1]))
    np.testing.assert_allclose(own.mean[:, [0, 2]], plain.mean[:, [0, 2]])
    np.testing.assert_allclose(own.covariance(), plain.covariance())  # of what was modelled


def test_the_reach_of_a_quantity_is_that_of_its_own_observations() -> None:
    """However their noise is said: the copper of 100 has nothing to do with lead."""
    X, Y = data()
    one = model()["lead"].replace(transform=Log(), limited=True).recalibrated()
    levels = NOISE[stacked(X, Y)[0][:, 2].astype(int)]
    plain = cagp.Prior(prior().kernel, mean=ByQuantity(3), noise_variance=levels)
    other = QuantitiesModel(NAMES, plain.condition(*stacked(X, Y + np.array([100.0, 0, 0])), "cholesky"))["lead"]
    np.testing.assert_allclose(other.replace(transform=Log(), limited=True, margins=one.margins).reach, one.reach)


def test_more_observations_are_like_having_had_them() -> None:
    X, Y = data()
    first = QuantitiesModel(NAMES, prior().condition(*stacked(X[:20], Y[:20]), "cholesky"))
    more, whole = first.with_more(X[20:], Y[20:]), model()
    np.testing.assert_allclose(more.predict(X[:3] + 0.01).mean, whole.predict(X[:3] + 0.01).mean)
    assert first.with_more(X[20:], np.full_like(Y[20:], np.nan)) is first  # nothing was measured
    alone = QuantitiesModel(NAMES[:2], [simple(X[:20], i) for i in range(2)])
    grown = alone.with_more([[0.5, 0.5]], [[np.nan, 3.0]])
    assert [len(each.y) for each in grown.models] == [20, 21]
    with pytest.raises(InputError, match=r"Y must have shape \(1, 2\)"):
        alone.with_more([[0.5, 0.5]], [[1.0, 2.0, 3.0]])


def simple(X: np.ndarray, i: int) -> cagp.Model:
    return cagp.Prior(cagp.Matern32(0.3), noise_variance=0.1).condition(X, np.sin(5 * X[:, i]), "cholesky")


def test_quantities_by_themselves_know_nothing_of_each_other() -> None:
    X, _ = data()
    alone = QuantitiesModel(NAMES[:2], [simple(X, i) for i in range(2)])
    prediction = alone.predict(X[:4])
    assert not alone.together
    np.testing.assert_array_equal(alone.correlations, np.eye(2))
    np.testing.assert_allclose(prediction.mean[:, 1], alone.models[1].predict(X[:4]).mean)
    C = prediction.observed().covariance()
    np.testing.assert_allclose(np.diagonal(C, axis1=1, axis2=2), prediction.observed().variance)
    assert (C[:, 0, 1] == 0).all()
    assert set(alone.left_out(n=5)) == {"copper", "lead"}


def test_a_model_of_one_quantity_knows_the_others(tmp_path: Path) -> None:
    X, Y = data()
    whole = model()
    one, prediction = whole["lead"], whole.predict(X[:6] + 0.01)
    assert (one.X.shape, one.y.tolist()) == ((30, 2), Y[:, 1].tolist())
    np.testing.assert_allclose(one.predict(X[:6] + 0.01).mean, prediction.mean[:, 1])
    np.testing.assert_allclose(one.predict(X[:6] + 0.01).observed().std, prediction.observed().std[:, 1])
    rows, y = stacked(X, Y)
    T = X[:6] + 0.01
    mean, C = cokriged(rows[:, :2], rows[:, 2].astype(int), y, T, np.full(6, 1))
    average = one.average(T)
    assert average.mean[0] == pytest.approx(mean.mean())
    assert average.std[0] ** 2 == pytest.approx(C.mean())
    more = one.with_more([[0.5, 0.5]], [9.0])
    assert len(more.y) == 31
    assert one.recalibrated().margins is not None
    checked = write_check_report(one, tmp_path / "check", progress=False)
    assert checked.data is not None
    assert checked.method is not None
    assert checked.problems == ()
    with pytest.raises(
        InputError, match=r"quantities.*kink.*\(P, Y, together=False, kernel='matern32', transform=None\)$"
    ):
        one.gradient(T)
    with pytest.raises(InputError, match="not for one quantity of several"):
        one.left_out(like=T)


def test_a_model_of_one_quantity_does_what_a_model_does_with_places(tmp_path: Path) -> None:
    X, Y = data()
    whole, T = model(), X[:6] + 0.01
    one = whole["lead"]
    calibrated = one.recalibrated(calibration=(X + 0.02, Y[:, 1]))
    assert calibrated.guarantee.kind == "marginal, distribution-free"
    two = one.replace(components=[one.components[0], one.components[0].with_prior(prior())], weights=(0.5, 0.5))
    assert len(two.compact(like=T).components) == 1
    other = QuantitiesModel(NAMES, prior().condition(*stacked(X, Y + np.array([0.0, 0.1, 0.0])), "cholesky"))
    changed = one.with_observations(Y[:, 1] + 0.1)
    np.testing.assert_allclose(changed.predict(T).mean, other["lead"].predict(T).mean)
    assert len(one.replace(quantity=None).left_out()) == len(stacked(X, Y)[1])
    with pytest.raises(InputError, match="not for one quantity of several"):
        one.recalibrated(like=T)
    with pytest.raises(InputError, match="not for one quantity of several"):
        write_check_report(one, tmp_path / "check", like=T, progress=False)
    assert one.map(tmp_path / "map.html", like=T, cells=20, progress=False).exists()


def test_recalibrations_of_quantities_are_learned_anew() -> None:
    """From all observations of each, as if nothing had been learned before."""
    X, Y = data(60)
    rows = stacked(X[:40], Y[:40])
    first = QuantitiesModel(NAMES, prior().condition(*rows, "cholesky"))
    learned = QuantitiesModel(NAMES, [each.recalibrated(progress=False) for each in first.models])
    grown, one = learned.with_more(X[40:], Y[40:]), learned["lead"].with_more(X[40:], Y[40:, 1])
    whole = QuantitiesModel(NAMES, prior().condition(*stacked(X, Y), "cholesky"))
    for found, wanted in ((grown["lead"], whole["lead"]), (one, one.replace(margins=None))):
        assert (found.margins.single, found.margins.added) == (60, 0)
        expected = wanted.recalibrated(progress=False).predict(X[:4] + 0.01)
        np.testing.assert_allclose(found.predict(X[:4] + 0.01).std, expected.std, rtol=1e-6)


@pytest.mark.parametrize("solver", ["cholesky", cagp.NearestNeighbours(40)])
def test_repeated_measurements_are_left_out_with_their_place(solver: Any) -> None:
    X, y = np.repeat(np.linspace(0, 1, 12), 3)[:, None], np.random.default_rng(0).normal(size=36)
    own = cagp.Prior(cagp.Matern32(0.2), mean=cagp.Constant(), noise_variance=0.1)
    found = own.condition(X, y, solver).left_out(whole_places=True)
    for at in (0, 13, 35):
        gone = X[:, 0] == X[at, 0]
        there = own.condition(X[~gone], y[~gone], "cholesky").predict(X[at : at + 1]).observed()
        np.testing.assert_allclose(found.mean[at], there.mean[0], rtol=1e-6)
        np.testing.assert_allclose(found.std[at], there.std[0], rtol=1e-6)
    with pytest.raises(InputError, match="not for whole_places"):
        own.condition(X, y, solver).left_out(like=X[:3], whole_places=True)


def test_there_are_neighbours_beyond_any_number_of_repetitions() -> None:
    X, y = np.repeat(np.linspace(0, 1, 6), 30)[:, None], np.random.default_rng(0).normal(size=180)
    own = cagp.Prior(cagp.Matern32(0.1), noise_variance=0.1)
    few, exact = (
        own.condition(X, y, each).left_out(whole_places=True) for each in (cagp.NearestNeighbours(10), "cholesky")
    )
    assert len(few) == len(y)
    np.testing.assert_allclose(few.std, exact.std, rtol=0.02)


@pytest.mark.parametrize("solver", ["cholesky", "nearest-neighbours"])
def test_a_place_without_which_nothing_determines_a_trend_is_not_judged(solver: str) -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([np.repeat([0.0, 1.0, 0.0], 4), np.repeat([0.0, 0.0, 1.0], 4)])
    X = np.vstack([X, X[:4] + np.array([2.0, 0.0])])  # the fourth place is on the line of the first two
    own = cagp.Prior(cagp.Matern32(0.3), mean=cagp.Polynomial(1), noise_variance=0.1)
    found = own.condition(X, rng.normal(size=16), solver).left_out(whole_places=True)
    assert found.index.tolist() == [*range(8), *range(12, 16)]
    assert "4 are left out of the result: the others do not determine them" in found.how
    with pytest.raises(InputError, match="all observations are at one place"):
        cagp.Prior(cagp.Matern32(0.3), noise_variance=0.1).condition(X[:4], np.ones(4), solver).left_out(
            whole_places=True
        )


def test_torch_in_torch_out() -> None:
    prediction = model().predict(torch.zeros(2, 2, dtype=torch.float64))
    assert isinstance(prediction.mean, torch.Tensor)
    assert prediction.covariance().shape == (2, 3, 3)
    assert prediction.quantile([0.1, 0.9]).shape == (2, 3, 2)


@pytest.mark.parametrize("together", [True, False])
def test_saved_and_loaded(tmp_path: Path, together: bool) -> None:
    X, _ = data()
    whole = model()
    models = [whole["copper"], whole["lead"].replace(transform=Log()), whole["zinc"].recalibrated()]
    one = QuantitiesModel(NAMES, models) if together else QuantitiesModel(NAMES[:2], [simple(X, i) for i in range(2)])
    one.save(tmp_path / "model")
    with pytest.raises(InputError, match="already holds a model"):
        one.save(tmp_path / "model")
    one.save(tmp_path / "model", overwrite=True)
    again = cagp.load(tmp_path / "model")
    assert isinstance(again, QuantitiesModel)
    assert (again.names, again.together) == (one.names, together)
    assert [each.transform for each in again.models] == [each.transform for each in one.models]
    np.testing.assert_allclose(again.predict(X[:5]).observed().mean, one.predict(X[:5]).observed().mean)
    np.testing.assert_allclose(again.predict(X[:5]).covariance(), one.predict(X[:5]).covariance())
    alone = cagp.load(tmp_path / "model" / "lead")
    np.testing.assert_allclose(alone.predict(X[:5]).mean, one.predict(X[:5]).mean[:, 1])
    with pytest.raises(cagp.SavedModelError, match="no quantity 'gold'; it has 'copper', 'lead'"):
        cagp.load(tmp_path / "model" / "gold")
    with pytest.raises(cagp.SavedModelError, match="several quantities"):
        cagp.saving.read(tmp_path / "model")
    changed = (tmp_path / "model" / "quantities.json").read_text().replace("copper", "silver")
    (tmp_path / "model" / "quantities.json").write_text(changed)
    with pytest.raises(cagp.SavedModelError, match="changed or damaged"):
        cagp.load(tmp_path / "model")


def test_maps_of_one_quantity(tmp_path: Path) -> None:
    """Its points have the number of the quantity behind their coordinates; maps have coordinates alone."""
    rasterio = pytest.importorskip("rasterio")
    copper = model()["copper"]
    cagp.write_map(copper, tmp_path / "copper.tif", 0.25)
    with rasterio.open(tmp_path / "copper.tif") as file:
        rows, columns = np.indices(file.shape)
        cells = np.column_stack(rasterio.transform.xy(file.transform, rows.ravel(), columns.ravel()))
        found = file.read([1, 2])
    expected = model().predict(cells)["copper"]
    np.testing.assert_allclose(found, np.reshape([expected.mean, expected.std], found.shape))
    some = np.array([[0.1, 0.2], [0.9, 0.7]])
    page = copper.map(tmp_path / "copper.html", like=some, cells=100, progress=False).read_text()
    assert "map of copper" in page


def test_a_single_model_takes_the_place_of_several(tmp_path: Path) -> None:
    model().save(tmp_path / "model")
    simple(data()[0], 0).save(tmp_path / "model", overwrite=True)
    assert isinstance(cagp.load(tmp_path / "model"), cagp.Model)


def test_what_one_quantity_has_is_asked_of_it(tmp_path: Path) -> None:
    several = model()
    for name in ("where_next", "gradient", "map", "simulate", "prior"):
        assert not hasattr(several, name)
        with pytest.raises(InputError, match=rf"several quantities has no {name}; .*model\['copper'\]\.{name}"):
            getattr(several, name)
    with pytest.raises(AttributeError, match="no attribute 'wherenext'"):
        _ = several.wherenext
    for take in (lambda: cagp.write_map(several, tmp_path / "map.tif", 1.0), lambda: write_check_report(several, "x")):
        with pytest.raises(InputError, match=r"cagp\.Model, got QuantitiesModel; .*model\['copper'\]$"):
            take()


def test_what_cannot_be_is_refused() -> None:
    X, Y = data()
    with pytest.raises(InputError, match=r"'y2' has values of magnitude .* whose squares overflow"):
        cagp.fit(X, Y * [1.0, 1e160, 1.0], progress=False)
    with pytest.raises(InputError, match="one model for each of 3 quantities, or one of all"):
        QuantitiesModel(NAMES, [])
    with pytest.raises(InputError, match="each quantity has a name of its own, got 'Cd', 'Cd'"):
        QuantitiesModel(["Cd", "Cd"], [simple(X, 0), simple(X, 1)])
    with pytest.raises(InputError, match="the quantity must be one of"):
        model().predict([[0.1, 0.2]])["gold"]
    with pytest.raises(InputError, match="X_test has 3 columns"):
        model().predict([[0.1, 0.2, 0.0]])


def test_new_observations_that_no_error_bar_explains_are_told_by_quantity() -> None:
    rng = np.random.default_rng(0)
    places = rng.random((40, 2))
    values = np.column_stack([np.sin(5 * places[:, 0]), np.cos(5 * places[:, 0])]) + 0.05 * rng.normal(size=(40, 2))
    values[33, 0], values[35, 1] = np.nan, -9999.0
    quick = {"kernel": "matern32", "mean": "constant", "uncertainty": False, "transform": None, "progress": False}
    for together in (True, False):
        model = cagp.fit(places[:30], values[:30], together=together, **quick)
        with pytest.warns(cagp.errors.DataWarning, match="1 of the 10 .* y2 in row 5 .*9,999"):
            model.with_more(places[30:], values[30:])
