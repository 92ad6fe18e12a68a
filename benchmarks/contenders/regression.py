"""GPBoost, MuyGPyS and scikit-learn: Gaussian process regression by likelihood or cross-validation.

Three columns are those of the film: two of a place, then a time.
"""

from __future__ import annotations

import functools
import os

import numpy as np

from .contender import SPACE_TIME, Contender, Gaussian, Predict, Standardised


def gpboost(X: np.ndarray, y: np.ndarray, approximation: str = "vecchia", kernel: str = "") -> Predict:
    import gpboost as gpb

    form = Standardised.of(X, y)
    kind = kernel or {2: "matern", 3: "matern_space_time"}.get(X.shape[1], "matern_ard")

    def coordinates(points: np.ndarray) -> np.ndarray:
        return np.roll(form.points(points), 1 if X.shape[1] == 3 else 0, axis=1)  # it wants the time first

    model = gpb.GPModel(
        gp_coords=coordinates(X),
        cov_function=kind,
        cov_fct_shape=1.5,
        gp_approx=approximation,
        num_parallel_threads=int(os.environ.get("OMP_NUM_THREADS", "1")),
    )
    model.fit(y=form.values(y), X=np.ones((len(y), 1)))

    def predict(X_test: np.ndarray) -> Gaussian:
        found = model.predict(
            gp_coords_pred=coordinates(X_test),
            X_pred=np.ones((len(X_test), 1)),
            predict_var=True,
            predict_response=True,
        )
        return form.back(found["mu"], found["var"])

    return predict


def muygps(X: np.ndarray, y: np.ndarray) -> Predict:
    from MuyGPyS.gp import MuyGPS
    from MuyGPyS.gp.deformation import Anisotropy, Isotropy, l2
    from MuyGPyS.gp.hyperparameter import AnalyticScale, Parameter, VectorParameter
    from MuyGPyS.gp.kernels import Matern
    from MuyGPyS.gp.noise import HomoscedasticNoise
    from MuyGPyS.neighbors import NN_Wrapper
    from MuyGPyS.optimize import L_BFGS_B_optimize
    from MuyGPyS.optimize.batch import sample_batch
    from MuyGPyS.optimize.loss import lool_fn

    np.random.seed(0)  # noqa: NPY002, its batches are drawn from the global generator
    form = Standardised.of(X, y)
    train, values = form.points(X), form.values(y)
    search = NN_Wrapper(train, 30, nn_method="exact", algorithm="ball_tree")
    between = (0.01, 20.0)
    if X.shape[1] == 2:
        deformation = Isotropy(l2, length_scale=Parameter(0.5, between))
    else:
        each = [Parameter(2.0, between) for _ in range(X.shape[1])]
        deformation = Anisotropy(l2, length_scale=VectorParameter(*each))
    model = MuyGPS(
        kernel=Matern(smoothness=Parameter(1.5), deformation=deformation),
        noise=HomoscedasticNoise(0.1, (1e-5, 1.0)),
        scale=AnalyticScale(),
    )
    batch, neighbours = sample_batch(search, min(500, len(y)), len(y))
    cross, pairs, targets, near = model.make_train_tensors(batch, neighbours, train, values)
    model = L_BFGS_B_optimize(model, targets, near, cross, pairs, loss_fn=lool_fn)
    model = model.optimize_scale(pairs, near)

    def predict(X_test: np.ndarray) -> Gaussian:
        test = form.points(X_test)
        neighbours, _ = search.get_nns(test)
        cross, pairs, near = model.make_predict_tensors(np.arange(len(test)), neighbours, test, train, values)
        K_cross, K = model.kernel(cross), model.kernel(pairs)
        mean = model.posterior_mean(K, K_cross, near)
        # the kernel has variance 1, and the scale multiplies kernel and noise
        variance = np.ravel(model.posterior_variance(K, K_cross)) + float(model.scale()) * float(model.noise())
        return form.back(np.ravel(mean), variance)

    return predict


def scikit_learn(X: np.ndarray, y: np.ndarray) -> Predict:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    form = Standardised.of(X, y)
    lengthscale = 1.0 if X.shape[1] == 2 else np.ones(X.shape[1])
    kernel = ConstantKernel(1.0) * Matern(lengthscale, nu=1.5) + WhiteKernel(0.1)
    model = GaussianProcessRegressor(kernel, normalize_y=True).fit(form.points(X), y)

    def predict(X_test: np.ndarray) -> Gaussian:
        return Gaussian(*model.predict(form.points(X_test), return_std=True))

    return predict


CONTENDERS = (
    Contender(
        "gpboost",
        "GPBoost, Vecchia",
        "gpboost",
        gpboost,
        "Matérn 3/2, an intercept, its defaults; `matern_space_time` for the field at ten times.",
    ),
    Contender(
        "gpboost-vif",
        "GPBoost, VIF",
        "gpboost",
        functools.partial(gpboost, approximation="vif"),
        'The same with `gp_approx="vif"`: 200 inducing points and 30 neighbours.',
        warm_up=gpboost,  # 200 inducing points are more than the small problem has rows
    ),
    Contender(
        "gpboost-gneiting",
        "GPBoost, Gneiting",
        "gpboost",
        functools.partial(gpboost, kernel="space_time_gneiting"),
        "The same as the first with `space_time_gneiting`.",
        kinds=(SPACE_TIME,),
        warm_up=gpboost,
    ),
    Contender(
        "muygps",
        "MuyGPyS",
        "MuyGPyS",
        muygps,
        "Matérn 3/2, 30 exact neighbours, leave-one-out likelihood of a batch of 500 points; standardised data.",
    ),
    Contender(
        "scikit-learn",
        "scikit-learn, exact",
        "scikit-learn",
        scikit_learn,
        "`GaussianProcessRegressor` with Matérn 3/2 and a `WhiteKernel`, no restarts; standardised data.",
    ),
)
