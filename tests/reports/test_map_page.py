"""The map to look at: its numbers against the model's, and what a reader does with it, in Chromium where it is."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest
from scipy.stats import norm

import cagp
from cagp.fit_report import Names, write_fit_report
from cagp.interop.xarray_conventions import Source, provenance
from cagp.kernels import Coregionalised
from cagp.means import ByQuantity
from cagp.predicting.distributions import MEANS_REACH, MEDIANS_DO_NOT
from cagp.quantities import QuantitiesModel, stacked
from cagp.reports import map_page
from cagp.support.convert import array
from cagp.transforms import BoxCox, Log
from reports.pages import RANDOM, Page, prior, sent, smooth

NAMES = Names(("depth", "age"), "flow", ("m", "m"), "l/s")
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next(filter(None, map(shutil.which, BROWSERS)), None)
in_a_browser = pytest.mark.skipif(BROWSER is None, reason=f"none of {', '.join(BROWSERS)} is there")

# what every program below may use: events as a reader makes them, and what the page then says
_TOOLS = """
const said = (id) => element(id).textContent, found = {};
const put = (id, value) => {
  element(id).value = value;
  for (const e of ["input", "change"]) element(id).dispatchEvent(new Event(e));
};
const key = (name, shift) =>
  canvas.dispatchEvent(new KeyboardEvent("keydown", { key: name, shiftKey: !!shift, cancelable: true }));
const point = (type, x, y, kind) => {
  const r = canvas.getBoundingClientRect();
  const clientX = r.left + frame.x + x * frame.w, clientY = r.top + frame.y + y * frame.h;
  canvas.dispatchEvent(new PointerEvent(type, { clientX, clientY, pointerType: kind || "mouse" }));
  now();
};
const done = () => { top.document.body.textContent = `FOUND${btoa(encodeURIComponent(JSON.stringify(found)))}END`; };
"""

# what is written on the map, and where
_DRAWN = """
const drawn = [], proto = CanvasRenderingContext2D.prototype, fill = proto.fillText;
proto.fillText = function (text, x, y, most) {
  if (this.canvas.id === "map") {
    const m = this.getTransform(), wide = this.measureText(text).width, ratio = window.devicePixelRatio || 1;
    const turned = m.b !== 0, at = m.e / ratio + (turned ? 0 : x);
    drawn.push({ text, at, x, y, wide, side: this.textAlign, turned });
  }
  return fill.apply(this, arguments);
};
now(); Object.assign(found, { drawn, frame });
"""


def does(page: Path, program: str, width: int = 1200) -> dict[str, Any]:
    """What ``program`` puts into ``found``, run in the page by a browser that may not reach any network.

    The page lies in a frame of this width: no window of a browser is as narrow as a phone.
    """
    assert BROWSER is not None
    script = f"{_TOOLS}{program}; done();"
    inside = page.read_text("utf-8").replace("</body>", f"<script>{script}</script></body>")
    copy = page.with_name(f"{page.stem}-in-a-browser.html")
    style = f"width: {width}px; height: 900px; border: 0"
    copy.write_text(f'<meta charset="utf-8"><iframe style="{style}" srcdoc="{escape(inside)}"></iframe>', "utf-8")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", f"--window-size={width + 50},1000"]
    flags += [f"--user-data-dir={page.parent / 'browser'}", "--host-resolver-rules=MAP * ~NOTFOUND"]
    done = subprocess.run([BROWSER, *flags, copy.as_uri()], capture_output=True, text=True, timeout=120, check=True)
    content = re.search("FOUND(.*)END", done.stdout)
    assert content, done.stdout[-3000:] + done.stderr[-3000:]
    result = json.loads(unquote(base64.b64decode(content[1]).decode()))
    assert isinstance(result, dict)
    return result


def floats(each: dict[str, Any]) -> np.ndarray:
    return each["offset"] + np.frombuffer(base64.b64decode(each["codes"]), "<f4").astype(float)


def middles(data: dict[str, Any]) -> np.ndarray:
    """The points (T, 2) of the cells, row by row."""
    x, y = (data[a]["first"] + data[a]["step"] * np.arange(data[a]["n"]) for a in ("across", "down"))
    return np.column_stack([each.ravel() for each in np.meshgrid(x, y)])


def normal() -> cagp.Model:
    X, y = smooth(60)
    return prior().condition(X, 10 + y, cagp.Cholesky())


def of_kind(kind: str) -> cagp.Model:
    """Models whose distributions are not normal, each in its way."""
    X, y = smooth(210, noise=0.3)
    unseen, (X, y) = (X[150:], y[150:]), (X[:150], y[:150])
    plain = prior(noise=0.09).condition(X, y, cagp.Cholesky())
    if kind == "mixture":
        short = cagp.Prior(cagp.Matern12(0.1, variance=4.0), noise_variance=0.2).condition(X, y, cagp.Cholesky())
        return plain.replace(components=[*plain.components, *short.components], weights=[0.6, 0.4])
    if kind == "recalibrated":
        return plain.recalibrated()
    if kind == "conformal":
        return plain.recalibrated(calibration=unseen)
    transform: Any = Log() if kind == "log" else BoxCox(0.5, 0.01)
    return plain.replace(transform=transform)


def test_the_page_has_what_the_model_says(tmp_path: Path) -> None:
    model = normal()
    path = model.map(tmp_path / "map.html", cells=600, names=NAMES, level=0.8)
    assert path == tmp_path / "map.html"
    data = sent(path)
    points, found = middles(data), model.predict(middles(data))
    assert 500 < len(points) <= 620
    np.testing.assert_allclose(floats(data["mean"]), found.mean, atol=1e-6)
    np.testing.assert_allclose(floats(data["std"]), found.std, atol=1e-6)
    assert [end["low"] for end in data["interval"]] == pytest.approx([norm.ppf(0.1), norm.ppf(0.9)], abs=1e-6)
    assert data["levels"] == []  # a normal distribution is told by its mean and std
    X = array(model.X)
    for axis, column in zip(("across", "down"), X.T, strict=True):
        half = data[axis]["step"] / 2
        assert data[axis]["first"] - half == pytest.approx(column.min())
        assert data[axis]["first"] + (data[axis]["n"] - 0.5) * data[axis]["step"] == pytest.approx(column.max())
    assert data["observations"]["n"] == 60
    np.testing.assert_allclose(floats(data["observations"]["values"]), array(model.y), atol=1e-6)


def test_the_page_stands_alone_and_is_small(tmp_path: Path) -> None:
    model = of_kind("mixture")
    path = model.map(tmp_path / "map.html", names=NAMES)
    page = Page(path)
    assert all(link.startswith("data:") for link in page.links)
    assert "://" not in page.raw
    assert len(middles(sent(path))) > 39_000
    assert path.stat().st_size < 3.1e6
    assert "depth" in page.raw
    assert "l/s" in page.text


def test_names_are_text(tmp_path: Path) -> None:
    names = Names(("<script>alert(1)</script>", "</script>"), "<b>bold</b>", ("m", "m"), "{{ 7 * 7 }}")
    raw = normal().map(tmp_path / "map.html", cells=40, names=names).read_text("utf-8")
    assert "<script>alert" not in raw
    assert "<b>" not in raw
    assert raw.count("</script>") == 2
    assert "{{ 7 * 7 }}" in raw


def test_observed_and_like(tmp_path: Path) -> None:
    """About new observations, where other points are, with the third column at their median, far from all data."""
    rng = RANDOM(0)
    X = np.column_stack([rng.uniform(-10, 10, (80, 2)), rng.random(80)])
    kernel = cagp.Geographic(cagp.Matern32(0.1)).on(0, 1) * cagp.Matern32(2.0).on(2)
    model = cagp.Prior(kernel, noise_variance=0.5).condition(X, rng.normal(size=80), cagp.Cholesky())
    like = np.column_stack([rng.uniform(0, 60, (30, 2)), np.full(30, 0.25)])
    path = model.map(tmp_path / "map.html", like=like, cells=300, observed=True, threshold=1.5)
    data = sent(path)
    places = np.column_stack([middles(data)[:, ::-1], np.full(len(middles(data)), 0.25)])  # latitude first
    np.testing.assert_allclose(floats(data["std"]), model.predict(places).observed().std, atol=1e-6)
    far = np.frombuffer(base64.b64decode(data["far"]), np.uint8).astype(bool)
    np.testing.assert_array_equal(far, model.predict(places).std > 0.9 * min(1.0, array(model.y).std()))
    assert far[places[:, 0] > 50].all()
    assert not far[np.abs(places[:, :2] - X[0, :2]).max(axis=1) < 1].any()
    assert data["stops"]["start"] == 1.5
    assert len(base64.b64decode(data["coast"])) > 20_000
    text = Page(path).text
    assert "new observations, noise included" in text
    assert "All else is held at its median: x2 0.25" in text


def test_observations_of_another_turn_lie_on_the_globe(tmp_path: Path) -> None:
    X = np.column_stack([np.linspace(-60, 60, 25), np.linspace(-359, -1, 25)])
    kernel = cagp.Geographic(cagp.Matern32(0.3))
    model = cagp.Prior(kernel, noise_variance=0.1).condition(X, X[:, 0], cagp.Cholesky())
    data = sent(model.map(tmp_path / "map.html", cells=200))
    x = np.frombuffer(base64.b64decode(data["observations"]["x"]), "<f4")
    shown = data["across"]["first"] + data["across"]["step"] * x
    np.testing.assert_allclose((shown - X[:, 1] + 180) % 360, 180, atol=1e-3)
    assert np.abs(shown).max() <= 180


def on_the_globe(west: float, east: float, most: float = 80.0) -> cagp.Model:
    """Of observations between these meridians, and as far from the equator."""
    X = np.column_stack([np.linspace(-most, most, 25), np.linspace(west, east, 25)[RANDOM(0).permutation(25)]])
    kernel = cagp.Geographic(cagp.Matern32(0.3))
    return cagp.Prior(kernel, noise_variance=0.1).condition(X, X[:, 0], cagp.Cholesky())


@in_a_browser
@pytest.mark.parametrize(("width", "step"), [(1200, 45), (700, 60)])
@pytest.mark.parametrize("ends", [(1, 359), (-179, 179)])
def test_degrees_are_written_where_they_are(tmp_path: Path, width: int, step: int, ends: tuple[float, float]) -> None:
    found = does(on_the_globe(*ends).map(tmp_path / "map.html", cells=400), _DRAWN, width)
    data = sent(tmp_path / "map.html")
    written = dict[str, list[tuple[str, float, float]]](center=[], right=[])
    for each in found["drawn"]:
        written[each["side"]].append((each["text"], each["x"], each["y"]))
    frame, (across, down) = found["frame"], (data["across"], data["down"])
    for text, x, _ in written["center"]:
        value = across["first"] + across["step"] * ((x - frame["x"]) / frame["w"] * across["n"] - 0.5)
        assert (degrees_of(text) - value + 180) % 360 == pytest.approx(180, abs=9), text  # the last is moved inwards
        assert degrees_of(text) % step == 0
    for text, _, y in written["right"]:
        value = down["first"] + down["step"] * ((frame["y"] + frame["h"] - y) / frame["h"] * down["n"] - 0.5)
        assert degrees_of(text) == pytest.approx(value, abs=4), text
    assert len(written["center"]) == 360 / step + 1
    assert len(written["right"]) >= 3


@in_a_browser
def test_coastlines_are_drawn_where_they_are(tmp_path: Path) -> None:
    """At capes of five continents, and not in the middle of oceans and lands."""
    found = does(
        on_the_globe(-179, 179).map(tmp_path / "map.html", cells=400),
        """
        const picture = () => canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
        element("dots").click(); element("hatch")?.click(); now();
        const drawn = picture(); element("coast").click(); now(); const bare = picture();
        const ratio = canvas.width / canvas.clientWidth;
        const changed = (longitude, latitude) => {  // within six pixels
          const [x, y] = pixel((longitude - across.first) / across.step, (latitude - down.first) / down.step);
          for (let dx = -6; dx <= 6; dx++) for (let dy = -6; dy <= 6; dy++) {
            const k = 4 * ((Math.round(y * ratio) + dy) * canvas.width + Math.round(x * ratio) + dx);
            if (drawn[k] !== bare[k]) return true;
          }
          return false;
        };
        const at = (...places) => places.map((each) => changed(...each));
        found.coasts = at([18.4, -34.4], [-9.4, 38.8], [114.2, -21.9], [-70.6, -53.3], [-80.3, 25.7]);
        found.elsewhere = at([-30, 30], [-150, -30], [80, -30], [25, 22], [-100, 40]);
        """,
    )
    assert found == {"coasts": [True] * 5, "elsewhere": [False] * 5}


@in_a_browser
def test_degrees_have_the_digits_of_their_steps(tmp_path: Path) -> None:
    for width, labels in ((20, ["5°E", "10°E"]), (4, ["1.0°E", "1.5°E"]), (0.4, ["1.00°E", "1.05°E"])):
        model = on_the_globe(1, 1 + width, width / 3)
        drawn = [each["text"] for each in does(model.map(tmp_path / "map.html", cells=400), _DRAWN)["drawn"]]
        assert drawn[:2] == labels


def degrees_of(text: str) -> float:
    """What a label such as 45°W means."""
    found = re.fullmatch(r"([\d.]+)°([NESW]?)", text)
    assert found, text
    return float(found[1]) * (-1 if found[2] in ("S", "W") else 1)


def of_a_steep_slope() -> cagp.Model:
    """Of logarithms, whose trend goes far beyond the observations where there are none."""
    X = RANDOM(1).random((120, 2))
    X = X[X.sum(axis=1) < 1]
    y = np.exp(4 * X.sum(axis=1) + 0.1 * RANDOM(2).normal(size=len(X)))
    quick: Any = {"uncertainty": False, "varying": False, "recalibrate": False, "rotate": False, "progress": False}
    return cagp.fit(X, y, kernel="matern32", mean="linear", transform="log", **quick)


def test_limited_means_are_told(tmp_path: Path) -> None:
    """Means look no further than observations support, and medians do: the page and files say so."""
    model = of_a_steep_slope()
    data = sent(path := model.map(tmp_path / "map.html", cells=400))
    predicted, largest = model.predict(middles(data)), array(model.y).max()
    beyond = np.frombuffer(base64.b64decode(data["beyond"]), np.uint8).astype(bool)
    assert 0.1 < beyond.mean() < 0.9
    assert (predicted.median[beyond] > largest).all()
    assert (predicted.mean[beyond] < predicted.median[beyond]).all()
    assert (predicted.median[~beyond] < 2 * largest).all()
    assert f"<p>{MEANS_REACH} {MEDIANS_DO_NOT}</p>" in path.read_text("utf-8")
    comment = provenance(Source(), model, False, "")["comment"]
    assert comment == f"{MEANS_REACH} {MEDIANS_DO_NOT}"
    plain = normal()
    assert "comment" not in provenance(Source(), plain, False, "")
    path = plain.map(tmp_path / "plain.html", cells=400)
    assert sent(path)["beyond"] == ""
    assert MEANS_REACH not in path.read_text("utf-8")


@in_a_browser
def test_limited_means_are_told_at_the_cursor(tmp_path: Path) -> None:
    found = does(
        of_a_steep_slope().map(tmp_path / "map.html", cells=400),
        """
        for (const [name, x, y] of [["near", 0.1, 0.9], ["far", 0.99, 0.01]]) {
          point("pointermove", x, y); found[name] = !element("further").hidden; }
        """,
    )
    assert found == {"near": False, "far": True}


def of_two_quantities() -> tuple[cagp.Model, np.ndarray]:
    """A model of the first of two, and the places where only the second was observed."""
    X, y = smooth(20, seed=6)
    Y = np.column_stack([y, 2 * y])
    Y[:6, 0] = np.nan
    kernel = Coregionalised.of(cagp.Matern32(0.5), np.array([[1.0, 1.8], [1.8, 4.0]]))
    prior = cagp.Prior(kernel, mean=ByQuantity(2), noise_variance=0.1)
    return QuantitiesModel(("flow", "level"), prior.condition(*stacked(X, Y)))["flow"], X[:6]


def test_places_of_other_quantities_are_told(tmp_path: Path) -> None:
    model, elsewhere = of_two_quantities()
    path = model.map(tmp_path / "map.html", cells=400)
    data = sent(path)
    assert data["observations"]["n"] == 14
    each = [
        data[axis]["first"] + data[axis]["step"] * np.frombuffer(base64.b64decode(data["others"][name]), "<f4")
        for axis, name in (("across", "x"), ("down", "y"))
    ]
    columns = [0, 1] if data["across"]["name"] == "x0" else [1, 0]
    np.testing.assert_allclose(np.sort(each[0]), np.sort(elsewhere[:, columns[0]]), atol=1e-5)
    assert "A Gaussian process of 14 observations, and of 20 of other quantities. Predictions" in path.read_text(
        "utf-8"
    )
    assert "6 places of other quantities" in path.read_text("utf-8")
    assert "Crosses are places" in path.read_text("utf-8")
    of_one = normal().map(tmp_path / "one.html", cells=400)
    assert "A Gaussian process of 60 observations. Predictions" in of_one.read_text("utf-8")
    assert sent(of_one)["others"]["n"] == 0
    assert "other quantities</span>" not in of_one.read_text("utf-8")


@in_a_browser
def test_places_of_other_quantities_are_drawn(tmp_path: Path) -> None:
    model, _ = of_two_quantities()
    found = does(
        model.map(tmp_path / "map.html", cells=10_000),
        """
        const k = 2, [px, py] = pixel(others.x[k], others.y[k]);  // far from what was observed of this one
        point("pointermove", (px - frame.x) / frame.w, (py - frame.y) / frame.h);
        found.alone = said("observed");
        const [qx, qy] = pixel(seen.x[3], seen.y[3]);
        point("pointermove", (qx - frame.x) / frame.w, (qy - frame.y) / frame.h);
        found.own = said("observed");
        const drawn = canvas.toDataURL(); others.n = 0; now(); found.crosses = drawn !== canvas.toDataURL();
        """,
    )
    assert found["alone"] == "none; other quantities observed here"
    assert re.match(r"[−\d]", found["own"])
    assert found["crosses"]


@pytest.mark.parametrize("kind", ["mixture", "recalibrated", "conformal", "log"])
def test_values_have_the_scores_they_were_asked_for(kind: str) -> None:
    prediction, scores = of_kind(kind).predict(RANDOM(3).random((5, 2))).observed(), np.array([-5.0, -0.7, 0.0, 2.9])
    values = prediction.values(scores)
    assert values.shape == (5, 4)
    for column, score in zip(values.T, scores, strict=True):
        np.testing.assert_allclose(prediction.normal_score(column), score, atol=1e-8)
    with pytest.raises(cagp.InputError, match="scores must be a list of normal scores"):
        prediction.values(0.0)


@in_a_browser
def test_moving_the_slider(tmp_path: Path) -> None:
    model = normal()
    path = model.map(tmp_path / "map.html", cells=400, names=NAMES, threshold=10.0)
    found = does(
        path,
        """
        put("slider", 10.4); now();
        Object.assign(found, { view, typed: element("typed").value, of: said("of"), probability: said("probability"),
          share: said("share"), place: said("place"), announced: said("announced") });
        found.cell = cursor.row * nx + cursor.column;
        put("typed", "9.87"); now();
        Object.assign(found, { slider: Number(slider.value), then: said("of"), after: said("probability") });
        """,
    )
    predicted = model.predict(middles(sent(path)))
    chance = 100 * predicted.exceedance(10.4)
    assert found["view"] == "exceeds"
    assert found["typed"] == "10.40"
    assert found["of"] == "10.4 l/s"
    shown = float(re.sub("[^0-9.]", "", found["probability"]))
    assert shown == pytest.approx(chance[found["cell"]], abs=0.51) or "than" in found["probability"]
    assert float(re.sub(".*: |%.*", "", found["share"])) == pytest.approx(chance.mean(), abs=0.51)
    assert found["probability"] in found["announced"]
    assert found["place"] in found["announced"]
    assert found["then"] == "9.87 l/s"
    assert found["slider"] == pytest.approx(9.87, abs=0.011)
    shown = float(re.sub("[^0-9.]", "", found["after"]))
    later = 100 * predicted.exceedance(9.87)[found["cell"]]
    assert shown == pytest.approx(later, abs=0.51) or "than" in found["after"]


@in_a_browser
@pytest.mark.parametrize("width", [500, 1200])
def test_labels_of_northings_are_whole_and_hatched_cells_do_not_count(tmp_path: Path, width: int) -> None:
    X, y = smooth(60)
    X = np.column_stack([1e5 + 1e4 * X[:, 0], 5.73e6 + 4e4 * X[:, 1]])
    kernel = cagp.Matern32((800.0, 3000.0), variance=float(y.var()))
    model = cagp.Prior(kernel, mean=10.0, noise_variance=0.01).condition(X, 10 + y, cagp.Cholesky())
    path = model.map(tmp_path / "map.html", cells=400, threshold=10.0, names=Names(("x", "y"), "flow", ("m", "m")))
    found = does(
        path,
        f"""put("slider", 10); now(); {_DRAWN}; found.share = said("share");""",
        width,
    )
    label = next(each["at"] for each in found["drawn"] if each["turned"])
    ends = [each["at"] - each["wide"] for each in found["drawn"] if each["side"] == "right"]
    assert len(ends) >= 3
    assert min(ends) > label + 6  # half the height of letters
    assert label >= 6
    data = sent(path)
    near = np.frombuffer(base64.b64decode(data["far"]), np.uint8) == 0
    assert 0 < near.sum() < len(near)
    chance = 100 * model.predict(middles(data)).exceedance(10.0)[near].mean()
    assert found["share"].endswith("% of the area that the data tell about.")
    assert float(re.sub(".*: |%.*", "", found["share"])) == pytest.approx(chance, abs=0.51)


def test_a_large_constant_has_a_map(tmp_path: Path) -> None:
    X, y = smooth(20)
    for value in (1e16, -3e100, 5.0):
        model = prior().condition(X, np.full(len(y), value), cagp.Cholesky())
        stops = sent(model.map(tmp_path / "map.html", cells=40))["stops"]
        assert stops["first"] < value < stops["last"]
        assert 50 < (stops["last"] - stops["first"]) / stops["step"] < 1000


@in_a_browser
@pytest.mark.parametrize(
    ("kind", "numbers", "error"),
    [
        ("mixture", map_page.NUMBERS, 5e-4),
        ("mixture", 0, 1e-2),  # as on the largest maps, of two priors that have little in common
        ("recalibrated", map_page.NUMBERS, 1e-5),
        ("conformal", map_page.NUMBERS, 5e-3),
        ("log", map_page.NUMBERS, 1e-4),
        ("box-cox", map_page.NUMBERS, 1e-4),
    ],
)
def test_probabilities_are_those_of_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, numbers: int, error: float
) -> None:
    """Every cell, at every quantile of the observations; at zero, where box-cox has all that would be negative."""
    monkeypatch.setattr(map_page, "NUMBERS", numbers)
    model = of_kind(kind)
    path = model.map(tmp_path / "map.html", cells=250, level=0.9, observed=True)
    data = sent(path)
    stops = np.arange(data["stops"]["first"], data["stops"]["last"], data["stops"]["step"])[::16]
    thresholds = [*stops, *np.quantile(array(model.y), np.linspace(0.05, 0.95, 7))]
    thresholds += [0.0] if kind == "box-cox" else []
    found = does(
        path,
        f"""const cells = Array.from({{ length: nx * ny }}, (_, i) => i);
        found.chances = {json.dumps(thresholds)}.map((t) => cells.map((i) => exceeds(i, modelled(t))));
        found.ends = cells.map((i) => [String(end(i, 0)), String(end(i, 1))]);""",
    )
    prediction = model.predict(middles(data)).observed()
    expected = np.array([prediction.exceedance(t) for t in thresholds])
    assert np.abs(np.array(found["chances"]) - expected).max() < error
    ends = np.array([[float(each.replace("Infinity", "inf")) for each in pair] for pair in found["ends"]]).T
    np.testing.assert_allclose(ends, prediction.interval(0.9), rtol=1e-3, atol=1e-3)


@in_a_browser
@pytest.mark.parametrize("width", [400, 1200])
def test_pointer_touch_and_keys(tmp_path: Path, width: int) -> None:
    model = normal()
    path = model.map(tmp_path / "map.html", cells=1000, names=NAMES)
    found = does(
        path,
        """
        found.width = innerWidth; found.narrow = getComputedStyle(document.querySelector(".views label")).fontSize;
        found.wider = document.documentElement.scrollWidth - innerWidth;
        found.first = [cursor.column, cursor.row];
        key("ArrowRight"); key("ArrowRight"); key("ArrowUp"); key("ArrowLeft", true);
        found.keys = [cursor.column, cursor.row]; found.announced = said("announced"); found.place = said("place");
        point("pointermove", 0.999, 0.001); found.corner = [cursor.column - nx, cursor.row - ny];
        point("pointerdown", 0.001, 0.999); point("pointermove", 0.5, 0.5); found.held = [cursor.column, cursor.row];
        point("pointerdown", 0.001, 0.999); point("pointermove", 0.999, 0.999);
        found.free = [cursor.column - nx, cursor.row];
        point("pointerdown", 0.5, 0.001, "touch"); found.touched = cursor.row - ny;
        const k = 7, [px, py] = pixel(seen.x[k], seen.y[k]);
        point("pointermove", (px - frame.x) / frame.w, (py - frame.y) / frame.h);
        found.observed = said("observed"); found.mean = said("mean"); found.cell = cursor.row * nx + cursor.column;
        const drawn = () => canvas.toDataURL(), first = drawn();
        element("dots").click(); now(); found.without = drawn() !== first;
        for (const name of ["std", "exceeds"]) {
          document.querySelector(`[value=${name}]`).click(); now(); found[name] = drawn() !== first && view === name; }
        """,
        width,
    )
    assert (found["width"], found["narrow"]) == (width, "14.4px" if width == 400 else "16px")
    assert found["wider"] <= 0  # nothing to scroll sideways
    column, row = found["first"]
    assert found["keys"] == [column + 2 - 10, row + 1]
    assert found["place"] in found["announced"]
    assert "plus or minus" in found["announced"]
    assert (found["corner"], found["held"], found["free"], found["touched"]) == ([-1, -1], [0, 0], [-1, 0], -1)
    predicted = model.predict(middles(sent(path)))
    mean, std = re.findall(r"[\d.]+", found["mean"])
    assert float(mean) == pytest.approx(predicted.mean[found["cell"]], rel=0.01)
    assert float(std) == pytest.approx(predicted.std[found["cell"]], rel=0.06)
    assert float(found["observed"].split()[0]) == pytest.approx(array(model.y)[7], rel=0.02)
    assert found["without"]
    assert found["std"]
    assert found["exceeds"]


def test_what_is_no_map_is_refused(tmp_path: Path) -> None:
    X, y = smooth(30, p=3)
    model = prior().condition(X, y, cagp.Cholesky())
    with pytest.raises(cagp.InputError, match=r"a map is of two columns, or .* this model has 3 columns"):
        model.map(tmp_path / "map.html")
    with pytest.raises(cagp.InputError, match=r"must end with \.html"):
        normal().map(tmp_path / "map.png")
    with pytest.raises(cagp.InputError, match="threshold"):
        normal().map(tmp_path / "map.html", threshold=np.nan)
    with pytest.raises(cagp.InputError, match="level"):
        normal().map(tmp_path / "map.html", level=95)
    noisy = cagp.Prior(cagp.Matern32(0.5), noise_variance=np.full(30, 0.1)).condition(X[:, :2], y, cagp.Cholesky())
    with pytest.raises(cagp.InputError, match=r"observed: .*one noise variance per training row, none for new"):
        noisy.map(tmp_path / "map.html", observed=True)
    assert list(tmp_path.iterdir()) == []


def test_a_report_has_a_map_beside_it(tmp_path: Path) -> None:
    page = Page(write_fit_report(normal(), tmp_path, names=NAMES))
    assert [link for link in page.links if not link.startswith(("data:", "#"))] == ["map.html"]
    assert len(middles(sent(tmp_path / "map.html"))) > 7000
