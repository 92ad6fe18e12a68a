"use strict";
// --- what the page was sent -------------------------------------------------------------------------------------------
const element = (id) => document.getElementById(id);
const data = JSON.parse(element("data").textContent);
const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer;
const floats = (sent) => Float64Array.from(new Float32Array(bytes(sent.codes)), (v) => sent.offset + v);

function level(sent) {  // a function of the cell; one number for all where no codes were sent
  if (!sent.codes) return () => sent.low;
  const codes = new Uint16Array(bytes(sent.codes));
  return (i) => (codes[i] === 0 ? -Infinity : codes[i] === 65535 ? Infinity : sent.low + sent.step * codes[i]);
}

const across = data.across, down = data.down, nx = across.n, ny = down.n;
const mean = floats(data.mean), std = floats(data.std), far = new Uint8Array(bytes(data.far));
const beyond = new Uint8Array(bytes(data.beyond));  // the median is beyond all observations
const outside = new Uint8Array(bytes(data.outside));  // of the mask: nothing is drawn or read there
// on the scale that was modelled, which is the same where there is no transform
const location_ = data.location ? floats(data.location) : mean, scale = data.scale ? floats(data.scale) : std;
const interval = data.interval.map(level), scores = data.scores, levels = data.levels.map(level);
const table = data.table && { y: new Float64Array(bytes(data.table.y)), z: new Float64Array(bytes(data.table.z)) };
const coast = new Int16Array(bytes(data.coast));
const placed = (sent) => ({ n: sent.n, x: new Float32Array(bytes(sent.x)), y: new Float32Array(bytes(sent.y)) });
const seen = { ...placed(data.observations), values: floats(data.observations.values) };
const others = placed(data.others);  // where only other quantities were observed

// --- distributions ------------------------------------------------------------------------------------------------------
function upto(sorted, value) {  // how many of them are at most value
  let low = 0, high = sorted.length;
  while (low < high) { const middle = (low + high) >> 1; if (sorted[middle] <= value) low = middle + 1; else high = middle; }
  return low;
}

function along(from, to, value) {  // a straight line between the pairs of a table; beyond its ends ∞
  const i = upto(from, value);
  if (i === 0) return -Infinity;
  if (from[i - 1] === value) return to[i - 1];
  if (i === from.length) return Infinity;
  return to[i - 1] + (to[i] - to[i - 1]) * (value - from[i - 1]) / (from[i] - from[i - 1]);
}

const modelled = (y) => (table ? along(table.y, table.z, y) : y);  // a threshold on the scale that was modelled
function carriedBack(z) {
  if (!table || !isFinite(z)) return z;
  const last = table.z.length - 1;
  return along(table.z, table.y, Math.min(Math.max(z, table.z[0]), table.z[last]));
}

function score(i, z) {  // the normal score of the value z in cell i
  const s = (z - location_[i]) / scale[i];
  if (!isFinite(s)) return z >= location_[i] ? Infinity : -Infinity;
  if (!scores.length) return s;
  let k = 1, last = scores.length - 1;
  while (k < last) { const middle = (k + last) >> 1; if (s > levels[middle](i)) k = middle + 1; else last = middle; }
  const low = levels[k - 1](i), high = levels[k](i);
  if (!(high > low)) return scores[k];
  return scores[k - 1] + (scores[k] - scores[k - 1]) * (s - low) / (high - low);
}

function above(x) {  // the probability of more than x under a normal law, to 1.2e-7 of itself
  const z = Math.abs(x) / Math.SQRT2, t = 1 / (1 + 0.5 * z);
  if (z > 26) return x > 0 ? 0 : 1;
  const terms = [1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807, -1.13520398, 1.48851587, -0.82215223, 0.17087277];
  const tail = 0.5 * t * Math.exp(-z * z - 1.26551223 + terms.reduceRight((sum, each) => t * (each + sum), 0));
  return x > 0 ? tail : 1 - tail;
}

const exceeds = (i, z) => above(score(i, z));
const end = (i, which) => carriedBack(location_[i] + scale[i] * interval[which](i));

// --- numbers and names --------------------------------------------------------------------------------------------------
function number(value, spread) {  // to the second digit of the spread
  if (!isFinite(value)) return value > 0 ? "∞" : "−∞";
  const size = spread > 0 && isFinite(spread) ? spread : Math.abs(value) || 1;
  const digits = 1 - Math.floor(Math.log10(size));
  if (Math.abs(value) >= 1e7 || digits > 8) return value.toPrecision(3).replace("-", "−");
  const rounded = digits < 0 ? Math.round(value * 10 ** digits) / 10 ** digits : value;
  return rounded.toLocaleString("en-GB", { minimumFractionDigits: Math.max(0, digits),
    maximumFractionDigits: Math.max(0, digits) }).replace(/^-(?=[0.,]*$)/, "").replace("-", "−");
}
const withUnit = (text, unit) => (unit ? `${text} ${unit}` : text);
const valued = (text) => withUnit(text, data.target.unit);
function percent(p) {
  if (p < 0.001) return "less than 0.1%";
  if (p > 0.999) return "more than 99.9%";
  return `${(100 * p).toFixed(p > 0.0995 && p < 0.9005 ? 0 : 1)}%`;
}
function degrees(value, spread, positive, negative) {  // in whole degrees at least
  const turned = positive === "E" ? value - 360 * Math.ceil((value - 180) / 360) : value;
  const text = number(Math.abs(turned), Math.min(spread, 10));
  return `${text}°${Number(text) % 180 ? ` ${turned < 0 ? negative : positive}` : ""}`;
}
function placeOf(column, row) {
  const x = across.first + column * across.step, y = down.first + row * down.step;
  if (data.geographic) return `${degrees(y, 3 * down.step, "N", "S")}, ${degrees(x, 3 * across.step, "E", "W")}`;
  return [[across, x], [down, y]].map(([a, v]) => `${a.name} ${withUnit(number(v, 3 * a.step), a.unit)}`).join(", ");
}

// --- state --------------------------------------------------------------------------------------------------------------
const slider = element("slider"), typed = element("typed"), stops = data.stops;
const canvas = element("map"), places = Math.max(0, -Math.floor(Math.log10(stops.step) + 1e-9));
let view = "mean", threshold = stops.start, cursor = { column: nx >> 1, row: ny >> 1 }, held = false;
const shown = new Float64Array(nx * ny);
for (let i = cursor.row * nx + cursor.column, k = 0; outside[i] && k < nx * ny; k++) {  // begin inside of the mask
  i = (i + 1) % (nx * ny); cursor = { column: i % nx, row: Math.floor(i / nx) };
}
const weights = Array.from({ length: ny }, (_, row) =>
  (data.geographic ? Math.cos((down.first + row * down.step) * Math.PI / 180) : 1));
const thresholdText = () =>
  valued(threshold.toLocaleString("en-GB", { maximumFractionDigits: 12 }).replace("-", "−"));
const probability = () => { const z = modelled(threshold); return (i) => exceeds(i, z); };

for (const input of [slider, typed]) {
  Object.assign(input, { min: stops.first, max: stops.last, step: input === slider ? stops.step : "any" });
  input.value = stops.start;
}

// --- the map ------------------------------------------------------------------------------------------------------------
const colours = Object.fromEntries(Object.entries(data.colours).map(([name, text]) => [name, new Uint8Array(bytes(text))]));
const VIEWS = { mean: { map: "viridis", ends: data.meanEnds }, std: { map: "cividis", ends: data.stdEnds },
  exceeds: { map: "viridis", ends: [0, 1] } };
const raster = document.createElement("canvas"), mask = document.createElement("canvas");
let frame = null;  // where the map lies on its canvas, in CSS pixels

function colourOf(value, { map, ends }) {
  const place = Math.round(255 * Math.min(1, Math.max(0, (value - ends[0]) / (ends[1] - ends[0]))));
  return colours[map].subarray(3 * place, 3 * place + 3);
}

function painted(target, pixel) {  // one pixel a cell, north up
  Object.assign(target, { width: nx, height: ny });
  const image = new ImageData(nx, ny);
  for (let row = 0; row < ny; row++) for (let column = 0; column < nx; column++)
    image.data.set(pixel(row * nx + column), 4 * ((ny - 1 - row) * nx + column));
  target.getContext("2d").putImageData(image, 0, 0);
}

function paint() {
  const value = { mean: (i) => mean[i], std: (i) => std[i], exceeds: probability() }[view];
  for (let i = 0; i < shown.length; i++) shown[i] = outside[i] ? NaN : value(i);
  painted(raster, (i) => [...colourOf(outside[i] ? 0 : shown[i], VIEWS[view]), outside[i] ? 0 : 255]);
  if (view === "exceeds") share((i) => shown[i]);
}

function sharp(target, height) {  // its context, for CSS pixels of this screen
  const ratio = window.devicePixelRatio || 1, width = target.clientWidth;
  target.style.height = `${height}px`;
  Object.assign(target, { width: Math.round(width * ratio), height: Math.round(height * ratio) });
  const context = target.getContext("2d"), style = getComputedStyle(document.body);
  context.scale(ratio, ratio);
  Object.assign(context, { font: `12px ${style.fontFamily}`, fillStyle: style.color, strokeStyle: style.color });
  return context;
}

function ticks(low, high, most, round) {  // in round parts of a circle, where degrees are many
  const least = (high - low) / most, power = 10 ** Math.floor(Math.log10(least));
  const nice = round ? [15, 30, 45, 60, 90, 180] : [1, 2, 5, 10].map((each) => each * power);
  const step = nice.find((each) => each >= least * (1 - 1e-9)) || nice.at(-1);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k <= high / step + 1e-9; k++) found.push(k * step);
  return { found, step };
}

function draw() {
  const width = canvas.clientWidth, right = 8, top = 8, bottom = data.geographic ? 24 : 40;
  const highest = Math.max(260, 0.78 * window.innerHeight), ruler = canvas.getContext("2d");
  const size = (left) => { const h = Math.min((width - left - right) / data.shape, highest); return [h * data.shape, h]; };
  ruler.font = `12px ${getComputedStyle(document.body).fontFamily}`;
  const texts = marks(down, size(52)[1] / 50, "N", "S").map((mark) => ruler.measureText(mark.text).width);
  const left = Math.max(52, 7 + Math.max(0, ...texts) + (data.geographic ? 3 : 22)), [w, h] = size(left);
  frame = { x: left + (width - left - right - w) / 2, y: top, w, h, left };
  const c = sharp(canvas, h + top + bottom);
  c.imageSmoothingEnabled = false;
  c.drawImage(raster, frame.x, frame.y, w, h);
  c.save();
  c.beginPath(); c.rect(frame.x, frame.y, w, h); c.clip();
  if (element("hatch")?.checked) hatch(c);
  if (element("coast")?.checked) coastlines(c);
  c.restore();
  if (element("dots").checked) dots(c);
  axes(c);
  const [x, y] = pixel(cursor.column, cursor.row);
  for (const [colour, line] of [["#fff", 3.5], ["#000", 1.5]]) {
    Object.assign(c, { strokeStyle: colour, lineWidth: line });
    c.beginPath(); c.arc(x, y, 7, 0, 7);
    for (const [dx, dy] of [[1, 0], [-1, 0], [0, 1], [0, -1]]) { c.moveTo(x + 7 * dx, y + 7 * dy); c.lineTo(x + 13 * dx, y + 13 * dy); }
    c.stroke();
  }
  bar();
}

function pixel(column, row) {  // the middle of cell 0 is at 0
  return [frame.x + (column + 0.5) / nx * frame.w, frame.y + frame.h - (row + 0.5) / ny * frame.h];
}

function hatch(c) {
  const layer = document.createElement("canvas"), ratio = window.devicePixelRatio || 1;
  Object.assign(layer, { width: Math.ceil(frame.w * ratio), height: Math.ceil(frame.h * ratio) });
  const l = layer.getContext("2d");
  for (const [shift, colour] of [[0, "rgba(255,255,255,.75)"], [1.3 * ratio, "rgba(0,0,0,.55)"]]) {
    Object.assign(l, { strokeStyle: colour, lineWidth: 1.1 * ratio });
    l.beginPath();
    for (let x = -layer.height; x < layer.width; x += 9 * ratio) { l.moveTo(x + shift, layer.height); l.lineTo(x + shift + layer.height, 0); }
    l.stroke();
  }
  Object.assign(l, { globalCompositeOperation: "destination-in", imageSmoothingEnabled: false });
  l.drawImage(mask, 0, 0, layer.width, layer.height);
  c.drawImage(layer, frame.x, frame.y, frame.w, frame.h);
}

function coastlines(c) {
  c.beginPath();
  for (const turn of [-360, 0, 360]) {
    let fresh = true;
    for (let i = 0; i < coast.length; i += 2) {
      if (coast[i] === -32768) { fresh = true; continue; }
      const [x, y] = pixel((coast[i] / 100 + turn - across.first) / across.step, (coast[i + 1] / 100 - down.first) / down.step);
      if (fresh) c.moveTo(x, y); else c.lineTo(x, y);
      fresh = false;
    }
  }
  for (const [colour, line] of [["rgba(0,0,0,.65)", 2.2], ["#fff", 1]]) {
    Object.assign(c, { strokeStyle: colour, lineWidth: line, lineJoin: "round" });
    c.stroke();
  }
}

function dots(c) {
  const radius = Math.min(3.6, Math.max(1.2, 0.16 * Math.sqrt(frame.w * frame.h / seen.n)));
  const point = ({ x, y }, k, cross) => {
    const [px, py] = pixel(x[k], y[k]), off = [px - frame.x, frame.x + frame.w - px, py - frame.y, frame.y + frame.h - py];
    c.beginPath();
    if (!cross) c.arc(px, py, radius, 0, 7);
    else for (const d of [-radius, radius]) { c.moveTo(px - radius, py - d); c.lineTo(px + radius, py + d); }
    return Math.min(...off) >= -0.5;  // beyond the map are axes
  };
  for (let k = 0; k < others.n; k++) {
    if (!point(others, k, true)) continue;
    for (const [colour, line] of [["rgba(0,0,0,.5)", 2.5], ["rgba(255,255,255,.8)", 1.2]]) {
      Object.assign(c, { lineWidth: line, strokeStyle: colour });
      c.stroke();
    }
  }
  for (let k = 0; k < seen.n; k++) {
    if (!point(seen, k)) continue;
    const empty = view === "exceeds" && !(seen.values[k] > threshold);
    c.fillStyle = view === "mean" ? `rgb(${colourOf(seen.values[k], VIEWS.mean).join()})` : empty ? "#000" : "#fff";
    Object.assign(c, { lineWidth: Math.max(0.7, radius / 3), strokeStyle: view === "mean" ? "#fff" : empty ? "#fff" : "#000" });
    c.fill(); c.stroke();
  }
}

function marks(a, most, ...letters) {  // round numbers along an axis, as they are written
  const ends = [a.first - 0.5 * a.step, a.first + (a.n - 0.5) * a.step];
  const { found, step } = ticks(...ends, Math.max(2, most), data.geographic && a.n * a.step > 100);
  return found.map((value) => ({ value,
    text: data.geographic ? degrees(value, 10 * step, ...letters).replace(" ", "") : number(value, 10 * step) }));
}

function axes(c) {
  const { x, y, w, h } = frame, ink = getComputedStyle(document.body).color;
  Object.assign(c, { fillStyle: ink, strokeStyle: ink, lineWidth: 1 });
  c.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
  Object.assign(c, { textAlign: "center", textBaseline: "top" });
  for (const { value, text } of marks(across, w / 75, "E", "W")) {
    const at = pixel((value - across.first) / across.step, 0)[0];
    c.beginPath(); c.moveTo(at, y + h); c.lineTo(at, y + h + 4); c.stroke();
    c.fillText(text, Math.min(at, canvas.clientWidth - 4 - c.measureText(text).width / 2), y + h + 7);
  }
  Object.assign(c, { textAlign: "right", textBaseline: "middle" });
  for (const { value, text } of marks(down, h / 50, "N", "S")) {
    const at = pixel(0, (value - down.first) / down.step)[1];
    c.beginPath(); c.moveTo(x, at); c.lineTo(x - 4, at); c.stroke();
    c.fillText(text, x - 7, Math.max(at, y + 6));
  }
  if (data.geographic) return;
  const label = (a) => (a.unit ? `${a.name} [${a.unit}]` : a.name);
  Object.assign(c, { textAlign: "center", textBaseline: "top" });
  c.fillText(label(across), x + w / 2, y + h + 24, w);
  c.save(); c.translate(x - frame.left + 8, y + h / 2); c.rotate(-Math.PI / 2); c.textBaseline = "middle";
  c.fillText(label(down), 0, 0, h); c.restore();
}

function bar() {
  const { map, ends } = VIEWS[view], target = element("bar"), c = sharp(target, 52);
  const left = frame.x, width = frame.w, ramp = document.createElement("canvas");
  Object.assign(ramp, { width: 256, height: 1 });
  const image = new ImageData(256, 1);
  for (let k = 0; k < 256; k++) image.data.set([...colours[map].subarray(3 * k, 3 * k + 3), 255], 4 * k);
  ramp.getContext("2d").putImageData(image, 0, 0);
  c.drawImage(ramp, left, 2, width, 12);
  c.strokeRect(left + 0.5, 2.5, width - 1, 11);
  const { found, step } = ticks(ends[0], ends[1], Math.max(2, width / 90));
  const slack = 1e-5 * (ends[1] - ends[0]);
  const low = shown.some((v) => v < ends[0] - slack), high = shown.some((v) => v > ends[1] + slack);
  Object.assign(c, { textAlign: "center", textBaseline: "top" });
  for (const value of found) {
    const at = left + width * (value - ends[0]) / (ends[1] - ends[0]);
    c.beginPath(); c.moveTo(at, 14); c.lineTo(at, 18); c.stroke();
    const text = view === "exceeds" ? `${Math.round(100 * value)}%` : number(value, 10 * step);
    c.fillText(text, Math.min(Math.max(at, left + 8), target.clientWidth - 2 - c.measureText(text).width / 2), 20);
  }
  const what = { mean: "mean", std: "standard deviation", exceeds: `probability of more than ${thresholdText()}` }[view];
  const of = view === "exceeds" ? what : `${what} of ${data.target.name}${data.target.unit ? ` [${data.target.unit}]` : ""}`;
  const beyond = low && high ? "; ≤ and ≥ at the ends" : low ? "; ≤ at the left end" : high ? "; ≥ at the right end" : "";
  c.fillText(of + beyond, left + width / 2, 36, target.clientWidth - 8);
}

// --- what is read at the cursor -------------------------------------------------------------------------------------------
function nearest(seen) {  // the point closest to the cursor, if it is within a dozen pixels
  const [x, y] = pixel(cursor.column, cursor.row);
  let best = -1, least = 12 ** 2;
  for (let k = 0; k < seen.n; k++) {
    const [px, py] = pixel(seen.x[k], seen.y[k]), apart = (px - x) ** 2 + (py - y) ** 2;
    if (apart < least) { least = apart; best = k; }
  }
  return best;
}

function read() {
  const i = cursor.row * nx + cursor.column, near = nearest(seen), spread = std[i];
  const empty = outside[i] ? "outside of the mask" : "";
  const said = {
    place: placeOf(cursor.column, cursor.row),
    mean: empty || `${number(mean[i], spread)} ± ${valued(number(spread, spread))}`,
    interval: empty ? "–" : `${number(end(i, 0), spread)} to ${valued(number(end(i, 1), spread))}`,
    of: thresholdText(),
    probability: empty ? "–" : percent(probability()(i)),
    observed: near >= 0 ? valued(number(seen.values[near], spread)) :
      nearest(others) >= 0 ? "none; other quantities observed here" : "none",
  };
  for (const [id, text] of Object.entries(said)) element(id).textContent = text;
  element("warning").hidden = !far[i];
  element("further").hidden = !beyond[i];
  canvas.setAttribute("aria-label", `Map of ${data.target.name}, cursor at ${said.place}`);
  curve(i);
  if (empty) return `${said.place}: ${empty}`;
  return `${said.place}: mean ${said.mean.replace("±", "plus or minus")}, interval ${said.interval}, probability of more than ` +
    `${said.of} ${said.probability}${said.observed === "none" ? "" : `, observed nearby ${said.observed}`}${far[i] ? ", the data say little here" : ""}`;
}

function curve(i) {
  const c = sharp(element("curve"), 130), width = element("curve").clientWidth, left = 38, right = 10, w = width - left - right;
  const at = (t) => left + w * (t - stops.first) / (stops.last - stops.first), up = (p) => 8 + 96 * (1 - p);
  const accent = getComputedStyle(document.documentElement).getPropertyValue("--accent");
  Object.assign(c, { textAlign: "right", textBaseline: "middle" });
  c.globalAlpha = 0.25;
  for (const p of [0, 0.5, 1]) { c.beginPath(); c.moveTo(left, up(p)); c.lineTo(left + w, up(p)); c.stroke(); }
  c.globalAlpha = 1;
  for (const p of [0, 0.5, 1]) c.fillText(`${100 * p}%`, left - 5, up(p));
  const { found, step } = ticks(stops.first, stops.last, Math.max(2, w / 60));
  Object.assign(c, { textAlign: "center", textBaseline: "top" });
  for (const value of found) c.fillText(number(value, 10 * step), Math.min(Math.max(at(value), left + 6), left + w - 8), 112);
  Object.assign(c, { strokeStyle: accent, lineWidth: 2, fillStyle: accent });
  if (outside[i]) return;
  c.beginPath();
  for (let k = 0; k <= w; k++) {
    const t = stops.first + (stops.last - stops.first) * k / w;
    c.lineTo(left + k, up(exceeds(i, modelled(t))));
  }
  c.stroke();
  if (threshold < stops.first || threshold > stops.last) return;
  c.lineWidth = 1;
  c.beginPath(); c.moveTo(at(threshold), up(0)); c.lineTo(at(threshold), up(1)); c.stroke();
  c.beginPath(); c.arc(at(threshold), up(probability()(i)), 4, 0, 7); c.fill();
}

function share(of) {  // the mean of the probabilities, by area, is the expected share of the area
  let total = 0, whole = 0;
  for (let row = 0; row < ny; row++) for (let column = 0; column < nx; column++) {
    if (far[row * nx + column] || outside[row * nx + column]) continue;  // nobody knows what is there, or asks
    total += weights[row] * of(row * nx + column);
    whole += weights[row];
  }
  const area = data.far ? "the area that the data tell about" : "the map", said = `Expected to be above ${thresholdText()}: `;
  element("share").textContent = said + (whole ? `${percent(total / whole)} of ${area}.` : "the data tell about no place here.");
}

// --- what a reader does ---------------------------------------------------------------------------------------------------
let waiting = 0;
function refresh(repaint) {  // at most once for each picture that the screen shows
  refresh.paint = refresh.paint || repaint;
  if (!waiting) waiting = requestAnimationFrame(() => { waiting = 0; now(); });
}
function now() {
  if (refresh.paint) paint();
  refresh.paint = false;
  draw();
  return read();
}
const announce = () => { element("announced").textContent = now(); };

function show(wanted) {
  view = wanted;
  document.querySelector(`[name=view][value=${wanted}]`).checked = true;
  refresh(true);
}
for (const input of document.querySelectorAll("[name=view]")) input.addEventListener("change", () => show(input.value));
for (const input of [slider, typed]) {
  input.addEventListener("input", () => {
    if (input.value === "" || !isFinite(Number(input.value))) return;
    threshold = Number(input.value);
    (input === slider ? typed : slider).value = input === slider ? threshold.toFixed(places) : threshold;
    show("exceeds");
  });
  input.addEventListener("change", announce);
}
for (const id of ["dots", "coast", "hatch"]) element(id)?.addEventListener("change", () => refresh(false));

function move(column, row) {
  cursor = { column: Math.min(nx - 1, Math.max(0, column)), row: Math.min(ny - 1, Math.max(0, row)) };
}
function follow(event) {
  const place = canvas.getBoundingClientRect(), x = event.clientX - place.left, y = event.clientY - place.top;
  move(Math.floor((x - frame.x) / frame.w * nx), Math.floor((frame.y + frame.h - y) / frame.h * ny));
  refresh(false);
}
canvas.addEventListener("pointermove", (event) => { if (!held || event.pointerType === "touch") follow(event); });
canvas.addEventListener("pointerdown", (event) => {
  follow(event);
  held = event.pointerType === "mouse" && !held;
  if (!held) canvas.style.cursor = ""; else canvas.style.cursor = "default";
});
const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
canvas.addEventListener("keydown", (event) => {
  const step = STEPS[event.key];
  if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  const far_ = event.shiftKey ? 10 : 1;
  move(cursor.column + far_ * step[0], cursor.row + far_ * step[1]);
  announce();
});

if (data.far) painted(mask, (i) => [0, 0, 0, far[i] ? 255 : 0]);
share(probability());
refresh.paint = true;
now();
new ResizeObserver(() => refresh(false)).observe(element("map").parentElement);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => refresh(false));
