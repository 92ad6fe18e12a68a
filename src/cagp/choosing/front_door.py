"""``cagp.fit``: from data to a model with error bars that hold, without an expert."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import torch

from ..errors import InputError
from ..hyperparameters.result import told_by_a_constant, warn
from ..kernels import Kernel
from ..model import Model
from ..quantities import is_several
from ..solvers import Solver
from ..support import clock
from ..support.codes import told_of_codes
from ..support.encodings import Encoding
from ..support.frames import units_of, without_target
from ..support.repetitions import told_of_copies
from ..support.threads import threads_for
from ..support.validation import ArrayLike, column_names, quantities, squarable
from ..transforms import Transform
from .options import FitRequest, Options, TrainingData
from .search import CandidateSearch, run_steps
from .steps import steps_for
from .telling import story_of
from .together import SeveralQuantities

_WITHIN_ONE = {
    "n_jobs": "How many threads it has say torch.set_num_threads(…), and OMP_NUM_THREADS in the environment",
    "memory_limit": 'How many bytes predictions may take says condition_options={"memory_budget": …}',
}


def fit(
    X: ArrayLike,
    y: ArrayLike,
    *,
    like: ArrayLike | None = None,
    kernel: Kernel | str | Sequence[str] | None = None,
    mean: Any = None,
    noise_variance: float | np.ndarray | None = None,
    solver: Solver | str | None = None,
    likelihood: str = "auto",
    mixture: bool = True,
    uncertainty: bool | str = "auto",
    recalibrate: bool | str = "auto",
    transform: Transform | str | None = "auto",
    varying: bool | str = "auto",
    ard: bool | None = None,
    rotate: bool | str = "auto",
    globe: Sequence[Any] | None = None,
    times: Sequence[Any] = (),
    together: bool | str = "auto",
    fit_options: Mapping[str, Any] | None = None,
    condition_options: Mapping[str, Any] | None = None,
    seconds: float | None = None,
    seed: int = 0,
    device: str | torch.device | None = None,
    progress: bool | None = None,
    n_jobs: int | None = None,
    memory_limit: float | None = None,
) -> Model:
    """A ``Model`` of observations y (n,) at X (n, p) with error bars that hold on the data; nothing needs to be chosen.

    Kernels of different roughness are fitted by maximum likelihood, with a constant and a linear trend, and judged by
    the CRPS of left-out observations. ``like`` = X_test (T, p) says where predictions are wanted: observations then
    stand in for these points, without what is missing around them. Where left-out observations are clearly likelier
    under a mixture of the best, it predicts. Outliers, which lie further from the others than chance explains, get a
    noise of their own where others are predicted better so; with a ``noise_variance`` none is sought. Up to 100
    observations for each hyperparameter, and 2,000 in all, predictions also integrate over the hyperparameters. Where
    the left-out observations say that the error bars are wrong, they are recalibrated. ``story`` tells all of this,
    ``candidates`` is the table. The command line, ``CAGPRegressor`` and gridded fields do the same.

    X may be a data frame, and y the name of one of its columns, or a list of names. Of columns of texts or categories
    each level but the first becomes a column of 0 and 1, yes and no become 1 and 0, dates days since 1970-01-01. The
    model remembers this, takes frames with the same columns, and refuses a category that it has not seen.

    Everything can be said by hand: ``kernel`` is a kernel whose values are the start of the fit, the name of one
    ("matern12", "matern32", "matern52", "rbf", "rationalquadratic", "spherical", "short and long"), or several of them;
    ``mean`` a mean, "zero", "constant", "linear" or "quadratic", or any regressor with ``fit`` and ``predict``, or
    "trees", whose trend is cross-fitted (``cagp.Regression``); ``noise_variance`` where the noise starts, or the known
    noise of each observation (n,); ``solver`` what predicts, by default Cholesky up to 2,000 observations and
    NearestNeighbours beyond; ``likelihood`` "exact", "nearest-neighbours", or "auto": exact up to 2,000 observations;
    ``mixture=False`` takes the best candidate alone; ``uncertainty=False`` plugs the hyperparameters in as if they were
    known; ``recalibrate`` True, False or "auto". ``transform`` is of the observations: "log", "box-cox", "yeo-johnson",
    "sinh-arcsinh", "logit" for shares, one from ``cagp.transforms`` with its parameters, None, or "auto": one where it
    predicts left-out observations clearly better and their means no worse, none where a kernel, a known mean or a noise
    was given, which are on their scale, as are predictions; "log" and "box-cox" never predict below 0. ``varying``
    tries an amplitude of the function and a noise level that vary with the inputs, and takes them where they predict
    left-out observations better; "auto" tries where the likelihood promises something of them, unless a kernel, a known
    mean or a noise was given. ``ard`` gives each column a lengthscale of its own, by default where there are ten
    observations for each. ``rotate`` turns the axes that these belong to, of two or three columns, see
    ``cagp.Rotated``: "auto" tries that with the best candidate where the likelihood promises something, and left-out
    observations judge it. ``globe`` names the columns with latitude and longitude in degrees, by number or by name:
    distance there is measured in kilometres, by default where X is a GeoDataFrame in degrees, never with (). ``times``
    names those with times: each has a factor of its own in the kernel. Observations (n, q) are of several quantities,
    NaN where one was not measured: then it is a ``QuantitiesModel``, ``together`` True, False, or "auto": in one model
    where left-out observations say that one quantity tells about another. ``fit_options`` and ``condition_options`` are
    further options of ``cagp.hyperparameters.fit`` and ``Prior.condition``. ``device`` is by default that of X.
    ``seconds`` is the budget, by default 60 for up to 10,000 entries and growing slowly: after it the best so far is
    kept and judged, and the story says what was not tried. With less than that the first fit starts from a few
    hundred observations. One candidate is always fitted and judged. Ctrl-C ends the search as well. ``seed`` decides
    all chance, ``progress`` shows a bar.

    X may be a folder of Parquet files, several files, a Dask data frame, a Zarr store or NetCDF files, and y the name
    of a column or variable: data that no process holds as a whole, see ``cagp.shards.fit``, which gives a
    ``cagp.shards.ShardedModel``. ``n_jobs`` and ``memory_limit`` are for such data alone.

    >>> import numpy as np, cagp
    >>> X = np.linspace(0, 1, 30)[:, None]
    >>> model = cagp.fit(X, np.sin(6 * X[:, 0]), kernel="matern52", progress=False)
    >>> model.predict([[0.5]]).mean.round(2)
    array([0.14])
    """
    work: dict[str, Any] = {"n_jobs": n_jobs, "memory_limit": memory_limit}
    given = {name: value for name, value in locals().items() if name not in ("X", "y", "work", *work)}
    from ..shards import fit as fit_shards
    from ..shards import is_source

    if is_source(X):
        usual = {each.name: each.default for each in dataclasses.fields(Options)}
        asked = {name: value for name, value in given.items() if value is not usual[name]}
        return cast(Model, fit_shards(X, y, **work, **asked))  # predicts, tells its story and is saved like one
    for name, value in work.items():
        if value is not None:
            raise InputError(
                f"{name} is for data in shards, such as a folder of Parquet files, and X is {type(X).__name__}, which "
                f"one process works on; leave {name} out. {_WITHIN_ONE[name]}"
            )
    return fit_named(*without_target(X, y), **given)


def fit_named(
    X: ArrayLike,
    y: ArrayLike,
    names: Sequence[str] | None = None,
    units: Sequence[str] = (),
    encodings: Sequence[Encoding] = (),
    crs: str | None = None,
    whole: np.ndarray | None = None,
    targets: Sequence[str] | None = None,
    weighted: bool = False,
    **options: Any,
) -> Model:
    """``fit`` to an array X (n, p) whose columns have these ``names`` and ``units``, in which the story is told.

    Without ``names`` X speaks for itself. ``targets`` are those of several quantities, the columns of y (n, q).
    ``encodings`` say how they were made of columns of a data frame, which the model then takes, ``crs`` is the
    coordinate system that two of the columns are in, called as ``coordinate_names`` says. ``whole`` (m,) are the rows
    that may be left out, see ``TrainingData``, as for ``weighted``.
    """
    started, own, several = clock.now(), Options(**options), is_several(y)
    values = quantities(y, len(X)) if several else None
    data = TrainingData.read(X, y if values is None else np.zeros(len(values)), own.device)
    if names is not None:
        known: dict[str, Any] = {"names": list(names), "units": units or units_of(list(names), encodings, crs)}
        data = dataclasses.replace(data, **known, encodings=tuple(encodings), crs=crs)
    data = dataclasses.replace(data, whole=whole, weighted=weighted)
    if values is None:
        if own.together is True:
            raise InputError("together=True is for several quantities, observations of shape (n, q); there is one")
        return found(own.checked(data), started)
    if own.noise_variance is not None and np.ndim(own.noise_variance):
        raise InputError("noise_variance of each observation is for one quantity; leave it out, or fit each by itself")
    called = list(targets or column_names(y) or [f"y{i + 1}" for i in range(values.shape[1])])
    for i, name in enumerate(called):
        measured = torch.from_numpy(values[~np.isnan(values[:, i]), i])
        if len(measured) < 2 or called.count(name) > 1:
            why = "two columns" if len(measured) > 1 else f"too few observations, {len(measured)}"
            raise InputError(f"{name!r} has {why}; each quantity needs a name of its own and two observations or more")
        squarable(measured, repr(name))
    task = SeveralQuantities(own, data, values, called, started)
    return cast(Model, task.model(found))  # predicts, tells its story and is saved like one


def found(request: FitRequest, started: float) -> Model:
    """The model that a search finds for a request; its time began when it ``started``, see ``clock.now``."""
    with threads_for(request.solver.worth_threads * len(request.data.y) ** 3):
        search = run_steps(CandidateSearch(request, started=started), steps_for(request), request.options.progress)
    assert search.result is not None
    if copies := "" if request.data.weighted else told_of_copies(request.data.X, request.data.y):
        warn(None, copies)
        search.findings["copies"] = copies
    columns = request.data.names or [f"x{i}" for i in range(request.data.X.shape[1])]
    if codes := told_of_codes(request.data.X, request.data.y, columns):
        warn(None, codes)
        search.findings["codes"] = codes
    if constant := told_by_a_constant(request.data.y, search.result):
        warn(None, constant)
        search.findings["constant"] = constant
    assert search.model is not None
    return search.model.replace(
        story=story_of(search, clock.now() - started),
        result=search.result,
    )
