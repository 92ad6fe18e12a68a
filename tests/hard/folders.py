"""Problems about model folders of every kind: damaged by accident, or written by somebody who means no good."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

import cagp
from cagp.kernels import Coregionalised, NoiseByQuantity
from cagp.means import ByQuantity
from cagp.quantities import QuantitiesModel, stacked
from cagp.saving.folder import own_hash
from cagp.shards import ShardedModel
from cagp.shards.work import Workers
from cagp.shards.writing import write
from hard.laws import numbers
from hard.ugly import damage, pick

AT = [[0.2, 0.3], [0.8, 0.1], [3.0, -2.0]]
ROOM = 2**30
"""Bytes that a folder of some kilobytes may make a process take, at most."""

EVIL: tuple[Any, ...] = (
    *(10**30, -(10**30), 10**12, 10**9, -1, 0, 1, 2, 7, 0.5, -0.5, 1e308, 5e-324, math.nan, math.inf, -math.inf),
    *(
        None,
        True,
        False,
        "",
        "..",
        "../..",
        "/etc/passwd",
        "parts-../../x",
        "a\x00b",
        "\x1b[31m",
        "\ud800",
        "x" * 10**5,
    ),
    *([], {}, [None], [[]], [10**30] * 3, [1e308], {"class": "Model"}, {"array": "X"}, {"class": "CustomKernel"}),
    *({"class": "Polynomial", "degree": 10**9, "columns": None, "coefficients": None}, {"class": "ByQuantity"}),
)


def _one(folder: Path) -> Any:
    X = np.random.default_rng(0).random((30, 2))
    prior = cagp.Prior(cagp.Matern32(0.3), mean=cagp.Polynomial(1), noise_variance=0.1)
    return prior.condition(X, X[:, 0], cagp.CalibratedCG(5, cagp.Nystrom(10))).recalibrated(progress=False)


def _apart(folder: Path) -> Any:
    return QuantitiesModel(["a", "b/c"], models=[_one(folder), _one(folder).replace(margins=None)])


def _together(folder: Path) -> Any:
    X, y = stacked(np.random.default_rng(0).random((20, 2)), np.random.default_rng(1).normal(size=(20, 2)))
    kernel = Coregionalised(cagp.Matern32(0.3), (1.0, 2.0), (60.0,))
    how: Any = {"mean": ByQuantity(2), "noise_variance": 0.1, "noise_pattern": NoiseByQuantity((1.0, 2.0))}
    return QuantitiesModel(["a", "b"], models=cagp.Prior(kernel, **how).condition(X, y, "cholesky"))


def _shards(folder: Path) -> Any:
    X = np.random.default_rng(0).random((200, 2))
    columns = dict(zip(("x0", "x1", "z"), (*X.T, X[:, 0]), strict=True))
    parquet.write_table(pa.table(columns), folder / "table.parquet")
    store = write(folder / "table.parquet", "z", folder / "store", Workers(), tile=150, block=40)
    prior = cagp.Prior(cagp.Matern32(0.3), mean=cagp.Constant(), noise_variance=0.1)
    learned = prior.condition(X[:40], X[:40, 0], cagp.NearestNeighbours(10, shared=False))
    return ShardedModel.of(learned.recalibrated(progress=False), store, Workers())


SORTS: dict[str, Callable[[Path], Any]] = {"one": _one, "apart": _apart, "together": _together, "shards": _shards}


@contextmanager
def little_memory() -> Iterator[None]:
    """An error for whoever takes much more memory than there was before."""
    if sys.platform != "linux":
        yield
        return
    import resource

    before = resource.getrlimit(resource.RLIMIT_AS)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + ROOM, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def means(model: Any) -> np.ndarray:
    return np.asarray(model.predict(AT, progress=False).mean)


def hostile(seed: int, folder: Path) -> str:
    """One value of a description is another one, with the right hash: a refusal, or a model that predicts numbers."""
    rng = np.random.default_rng([15, seed])
    sort = pick(rng, list(SORTS))
    model = SORTS[sort](folder)
    model.save(folder / "m")
    files = [each for each in sorted(folder.rglob("*.json")) if each.name != "split.json"]
    path = pick(rng, files)
    content = json.loads(path.read_text(encoding="utf-8"))
    signed = content.pop("sha256", None) is not None
    holder, key = pick(rng, list(_places(content)))
    value = pick(rng, EVIL)
    how = pick(rng, ("other", "other", "other", "gone", "more"))
    if how == "other":
        holder[key] = value
    elif how == "gone":
        del holder[key]
    elif isinstance(holder, list):
        holder.insert(key, value)
    else:
        holder[f"{key}_"] = value
    path.write_text(json.dumps(content | ({"sha256": own_hash(content)} if signed else {})))
    try:
        with little_memory():
            found = cagp.load(folder / "m")
            if key != "iterations":  # of which there may be more than anybody waits for
                numbers(means(found), "mean")
    except cagp.CagpError as error:
        return f"refused: {type(error).__name__}"
    except Exception as error:
        said = f"{sort}, {path.name}: {key!r} {how}, {str(value)[:60]!r}: {type(error).__name__}: {error}"
        raise AssertionError(said) from error
    return "taken"


def damaged(seed: int, folder: Path) -> str:
    """One file of a folder, or of its shards, is not what it was: a refusal, or the same predictions."""
    rng = np.random.default_rng([16, seed])
    sort = pick(rng, list(SORTS))
    model = SORTS[sort](folder)
    model.save(folder / "m")
    before = means(cagp.load(folder / "m"))
    files = [each for part in ("m", "store") for each in sorted((folder / part).rglob("*")) if each.is_file()]
    file = pick(rng, files)
    how = damage(rng, file)
    try:
        with little_memory():
            after = means(cagp.load(folder / "m"))
    except cagp.CagpError as error:
        return f"refused: {type(error).__name__}"
    except Exception as error:
        raise AssertionError(f"{sort}, {file.name}, {how}: {type(error).__name__}: {error}") from error
    assert np.array_equal(after, before), f"{sort}, {file.name}, {how}: unseen"
    return "the same"


def _places(content: Any) -> Iterator[tuple[Any, Any]]:
    """Where all values of a JSON document are: what holds each, and by which key."""
    for key, value in list(content.items() if isinstance(content, dict) else enumerate(content)):
        yield content, key
        if isinstance(value, (dict, list)):
            yield from _places(value)


FOLDERS = {"hostile": hostile, "damaged": damaged}
