"""``cagp info`` and ``cagp solvers``: what a model folder holds, and which solvers there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from . import flags
from .shared import Printer, errors_reported, hyperparameter_rows

if TYPE_CHECKING:
    from ..saving import Saved


def info(folder: flags.Folder, debug: flags.Debug = False) -> None:
    """Show what a model is: data, prior, solver, fit, versions, and the memory it will need."""
    with errors_reported(debug):
        from ..saving import holds_quantities, load, read, read_quantities
        from ..shards import is_sharded

        printer = Printer(quiet=False)
        if is_sharded(folder):
            sharded = load(folder)
            printer(f"{folder}: {sharded!r}\n\n{sharded.story}")
            return
        if holds_quantities(folder):
            model, _ = read_quantities(folder)
            printer(f"{folder}: {model!r}\n\n{model.story}")
            return
        saved = read(folder)
        several, said = len(saved.parts.weights), ""
        if several > 1:
            of = "the kernel is" if saved.about.fit is not None else "kernel and hyperparameters are"
            said = f"; {of} of component 1 of {several}, with the weight {saved.parts.weights[0]:.3g}"
        printer.table(("", ""), _facts(saved), title=f"{folder}{said}")
        names, rows = (*_features(saved), saved.about.target or "target"), []
        for name, values in zip(names, (*saved.places.T, saved.observations), strict=True):
            numbers = (f"{value:.6g}" for value in (values.min(), values.mean(), values.max()))
            rows.append((name, saved.about.units.get(name, ""), *numbers))
        printer.table(("column", "unit", "least", "mean", "greatest"), rows)
        if saved.parts.story is not None:
            printer(str(saved.parts.story))
        if saved.about.fit is not None:
            for warning in saved.about.fit.warnings:
                printer(f"Warning: {warning}")


def _facts(saved: Saved) -> list[tuple[str, str]]:
    import torch  # after the folder was found to be readable

    from ..kernels import geographic_columns
    from ..kernels.rotated import directions_in_words
    from ..solvers import Auto
    from ..support.coordinate_systems import worded
    from ..support.memory import available_bytes, human

    d, (n, p) = len(saved.X), saved.places.shape
    noise = saved.prior.noise_variance
    noises = (
        [("noise variance", f"one per observation, {noise.min():.3g} … {noise.max():.3g}")] if np.ndim(noise) else []
    )
    if (pattern := saved.prior.noise_pattern) is not None:
        low, high = (float(noise) * end(pattern.values) ** 2 for end in (min, max))
        noises = [("noise variance", f"varies with the inputs, {low:.3g} … {high:.3g}")]
    if outliers := len(saved.prior.outliers):
        noises.append(("outliers", "one with more noise" if outliers == 1 else f"{outliers:,} with more noise"))
    arithmetic = saved.dtype if saved.dtype == saved.solve_dtype else f"{saved.dtype}, solved in {saved.solve_dtype}"
    solver = repr(saved.solver)
    if saved.picked is not None:
        solver += f", picked {saved.picked!r}"
    elif isinstance(saved.solver, Auto):
        solver += ", picks one when it predicts"
    dense = d * d * (8 if saved.solve_dtype == "float64" else 4)
    free = available_bytes(torch.device("cpu"))
    kept = "kept in memory" if dense <= 0.75 * free / 2 else "too large for half of that: recomputed in tiles"
    places = [("coordinate system", worded(saved.about.crs))] if saved.about.crs is not None else []
    if globe := geographic_columns(saved.prior.kernel, range(p)):
        (south, north), (west, east) = ((saved.places[:, c].min(), saved.places[:, c].max()) for c in globe[0])
        places += [("region", f"latitude {south:g} … {north:g}, longitude {west:g} … {east:g} degrees")]
    places += [
        ("direction", sentence) for sentence in directions_in_words(saved.prior.kernel, _features(saved), saved.places)
    ]
    facts = [
        ("data", f"{n:,} observations of {saved.about.target or 'y'}, {p} features"),
        *places,
        ("kernel", saved.prior.kernel.in_words(_features(saved))),
        ("mean", repr(saved.prior.mean).replace(", columns=None", "").replace(", coefficients=None", "")),
        *noises,
        ("solver", solver),
        ("error bars", saved.parts.in_words or "plain, those of the prior"),
        ("guarantee", f"{saved.guarantee.kind}: {saved.guarantee}"),
        ("arithmetic", arithmetic),
        ("storage", saved.storage),
        ("Gram matrix", f"{human(dense)} if it is stored; {human(free)} of memory are free, so it is {kept}"),
        ("written", f"{saved.created} by cagp {saved.cagp_version}"),
    ]
    if (fit := saved.about.fit) is not None:
        found = f"{fit.likelihood} likelihood of {fit.size:,} observations, log p = {fit.log_likelihood:.6g}"
        facts.append(("fit", found))
    values, errors = (fit.values, fit.standard_errors) if fit is not None else (None, None)
    for name, of, value in hyperparameter_rows(saved.prior, saved.places, saved.about, values, errors):
        facts.append((f"  {name}", f"{of}: {value}" if of else value))
    facts += [(f"column {each.column}", words) for each in saved.about.encodings if (words := each.in_words)]
    return [*facts, *((name, said) for name, said in saved.about.notes.items() if said != "0")]


def _features(saved: Saved) -> tuple[str, ...]:
    return saved.about.features or tuple(f"column {i}" for i in range(saved.places.shape[1]))


def solvers() -> None:
    """List the solvers: what they are called, whether their error bars are calibrated, and what they cost.

    d training points, T test points, m iterations. "data" solvers work once and then predict any number of points;
    "test" solvers work for each test point anew.
    """
    from ..solvers import ALL, Chain

    rows = []
    for solver in ALL:
        calibrated = "if all are" if solver is Chain else "yes" if solver.calibrated else "no"
        rows.append((solver.name, solver.__name__, calibrated, solver.side, solver.cost))
    printer = Printer(quiet=False)
    printer.table(("--solver", "in Python", "calibrated", "side", "cost"), rows, whole=4)
    printer("Settings go in brackets: --solver 'CalibratedCG(10, Nystrom(1000), start=NearestNeighbours(100))'")
