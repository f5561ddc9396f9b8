// How does the rate look over time, and how old are items when they change? Two charts drawn as plain SVG.
import { clock, number, rate, share, shortClock, shortDay, span } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";
const MARGIN = { top: 28, right: 8, bottom: 24, left: 44 };
const TIME_STEPS = [60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400, 432000];
const MARKED_S = 6 * 3600; // single back-offs are kept for so long; the timeline keeps them for 30 days
const LINES_MAX = 24; // more back-offs than this are only marked, else they hide what they mark

function shape(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function niceStep(most, count) {
  const rough = most / count;
  const size = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 2.5, 5, 10].map((factor) => factor * size).find((step) => step >= rough);
}

// -- the rate over time -----------------------------------------------------------------------------------------------

// Runs of points without a hole: what was not known is not drawn.
function runs(points, value) {
  const found = [];
  let previous = null;
  for (const point of points) {
    if (value(point) === null) { previous = null; continue; }
    // Readings come about once a second; a few that a busy machine left out are no hole, more are.
    if (previous === null || point.at - previous.at - previous.span > 8 + Math.min(point.span, previous.span) / 2) found.push([]);
    found[found.length - 1].push(point);
    previous = point;
  }
  return found;
}

// The ceiling stands where it belongs, unless it is so far above everything that nothing else could be seen.
function scaleOf(points, ceiling, edge) {
  const seen = Math.max(...points.map((point) => Math.max(point.allowed, point.leaving ?? 0)), edge ?? 0, 0);
  if (ceiling && (seen === 0 || ceiling <= 4 * seen)) return { top: ceiling * 1.08, ceilingFits: true };
  return { top: Math.max(seen * 1.3, 1e-6), ceilingFits: false };
}

export function windowOf(history, range, now) {
  const first = history.points.length ? history.points[0].at : now;
  const wanted = range ?? [300, 900].find((size) => first >= now - size) ?? 3600;
  return { from: now - wanted, to: now, range: wanted };
}

export function drawRate(svg, { points, backoffs, ceiling, edge: found, from, to }) {
  const edge = found && ceiling && found > ceiling ? null : found; // a limit above the ceiling is never met
  const width = Math.max(280, Math.round(svg.clientWidth || 600));
  const height = width < 420 ? 190 : 230;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const shown = points.filter((point) => point.at + point.span >= from && point.at <= to);
  const marks = to - from > MARKED_S ? [] : backoffs.filter((mark) => mark.at >= from && mark.at <= to);
  const { top, ceilingFits } = scaleOf(shown, ceiling, edge);
  const x = (at) => MARGIN.left + ((at - from) / (to - from)) * (width - MARGIN.left - MARGIN.right);
  const floor = height - MARGIN.bottom;
  const y = (value) => floor - (Math.min(value, top) / top) * (floor - MARGIN.top);
  const parts = [...axes({ from, to, top, width, floor, x, y })];
  if (!shown.length) parts.push(shape("text", { x: width / 2, y: height / 2, class: "empty" }, "no data for this time"));
  const at = (point) => Math.min(to, Math.max(from, point.at + point.span / 2));
  for (const run of runs(shown, (point) => point.leaving)) {
    const line = run.map((point) => `${x(at(point)).toFixed(1)},${y(point.leaving).toFixed(1)}`);
    const [start, end] = [x(at(run[0])), x(at(run[run.length - 1]))];
    parts.push(shape("path", { class: "leaving", d: `M${start.toFixed(1)},${floor}L${line.join("L")}L${Math.max(end, start + 1).toFixed(1)},${floor}Z` }));
  }
  for (const run of runs(shown, (point) => point.allowed)) {
    const line = run.map((point) => `${x(at(point)).toFixed(1)},${y(point.allowed).toFixed(1)}`);
    parts.push(shape("path", { class: "allowed", d: `M${line.join("L")}${run.length === 1 ? "h1" : ""}` }));
  }
  for (const mark of marks) parts.push(backOff(mark, x(mark.at), floor, marks.length <= LINES_MAX));
  if (edge) parts.push(...level(edge, y(edge), width, "edge", `provider's limit about ${rate(edge)}`, ceilingFits && ceiling && y(edge) - y(ceiling) < 16));
  if (ceiling) parts.push(...level(ceiling, ceilingFits ? y(ceiling) : MARGIN.top - 8, width, "ceiling", `ceiling ${rate(ceiling)}${ceilingFits ? "" : ", above this scale ↑"}`));
  svg.replaceChildren(...parts);
  return { shown, marks, x, from, to, width };
}

function* axes({ from, to, top, width, floor, x, y }) {
  const step = top > 1e-6 ? niceStep(top, 4) : Infinity; // nothing was seen: there is no scale
  for (let value = 0; value <= top; value += step) {
    yield shape("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: y(value), y2: y(value) });
    yield shape("text", { class: "tick y", x: MARGIN.left - 6, y: y(value) + 4 }, value === 0 ? "0" : number(+value.toPrecision(3)));
  }
  yield shape("text", { class: "tick", x: 0, y: 11 }, "per s");
  const stride = TIME_STEPS.find((size) => (to - from) / size <= (width < 420 ? 4 : 7)) ?? 432000;
  for (let at = Math.ceil(from / stride) * stride; at <= to; at += stride) {
    const near = x(at);
    if (near > width - 24) continue;
    yield shape("line", { class: "grid", x1: near, x2: near, y1: floor, y2: floor + 4 });
    yield shape("text", { class: "tick x", x: near, y: floor + 20 }, stride >= 43200 ? shortDay(at) : shortClock(at));
  }
}

function level(value, at, width, className, label, below = false) {
  return [
    shape("line", { class: className, x1: MARGIN.left, x2: width - MARGIN.right, y1: at, y2: at }),
    shape("text", { class: `label ${className}`, x: width - MARGIN.right, y: below ? at + 14 : at - 5 }, label),
  ];
}

function backOff(mark, at, floor, withLine) {
  const group = shape("g", { class: "backoff" });
  if (withLine) group.append(shape("line", { x1: at, x2: at, y1: MARGIN.top, y2: floor }));
  group.append(
    shape("path", { d: `M${at - 4},${floor + 8}L${at},${floor + 1}L${at + 4},${floor + 8}Z` }),
    shape("title", {}, `${clock(mark.at)}: ${mark.reason.replaceAll("_", " ")}, ${rate(mark.from)} to ${rate(mark.to)}`),
  );
  return group;
}

export function describeRate({ shown, marks, from, to }, ceiling) {
  const left = shown.map((point) => point.leaving).filter((value) => value !== null);
  if (!left.length) return `No data for the last ${span(to - from)}.`;
  const [least, most] = [Math.min(...left), Math.max(...left)];
  const known = Math.max(0, to - Math.max(from, shown[0].at));
  const between = rate(least) === rate(most) ? rate(most) : `between ${rate(least)} and ${rate(most)}`;
  const backs = marks.length === 0 ? "no back-off" : marks.length === 1 ? "1 back-off" : `${marks.length} back-offs`;
  const [told, marked] = to - from > MARKED_S ? ["", ". “What happened” lists the back-offs"] : [`, ${backs}`, "; triangles: back-offs"];
  return `Over the last ${span(known)}: ${between} sent, ceiling ${ceiling ? rate(ceiling) : "unknown"}${told}. Line: allowed pace; filled: requests sent${marked}.`;
}

// Refused requests, items held, age of the last news: small, over the same time, each on its own scale.
const SMALL = {
  refused: ["Refused", (point) => point.refused, (value) => share(value, 1), 0.001],
  items: ["Items held", (point) => point.items, (value) => number(Math.round(value)), 1],
  age: ["Last news", (point) => point.age, (value) => `${span(value)} ago`, 1],
};

export function drawSmall(svg, shown, { from, to }) {
  const [label, value, words, least] = SMALL[svg.dataset.field];
  const width = Math.max(120, Math.round(svg.clientWidth || 180));
  svg.setAttribute("viewBox", `0 0 ${width} 64`);
  const known = shown.filter((point) => value(point) !== null && value(point) !== undefined);
  const most = Math.max(least, ...known.map(value));
  const bottom = svg.dataset.field === "items" && known.length ? Math.min(...known.map(value)) * 0.98 : 0;
  const x = (at) => ((at - from) / (to - from)) * width;
  const y = (level) => 60 - ((level - bottom) / Math.max(most - bottom, 1e-9)) * 40;
  const lines = runs(known, value).map((run) => shape("path", { d: `M${run.map((point) => `${Math.max(0, x(point.at + point.span / 2)).toFixed(1)},${y(value(point)).toFixed(1)}`).join("L")}${run.length === 1 ? "h1" : ""}` }));
  const last = known.length ? words(value(known[known.length - 1])) : "no data";
  svg.setAttribute("aria-label", known.length ? `${label}: ${last} now, at most ${words(most)}.` : `${label}: no data.`);
  svg.replaceChildren(shape("text", { x: 0, y: 11 }, label), shape("text", { class: "most", x: width, y: 11 }, last), ...lines);
}

// What the chart says under the pointer.
export function readAt(drawn, clientX, box) {
  const at = drawn.from + (((clientX - box.left) / box.width) * drawn.width - MARGIN.left) / (drawn.width - MARGIN.left - MARGIN.right) * (drawn.to - drawn.from);
  const near = drawn.shown.find((point) => at >= point.at && at <= point.at + point.span);
  if (!near) return at >= drawn.from && at <= drawn.to ? `${clock(at)}: unknown` : "";
  return `${clock(near.at)}: pace ${rate(near.allowed)}, ${near.leaving === null ? "unknown" : rate(near.leaving)} sent over ${near.span} s`;
}

// -- how old items are when they change -------------------------------------------------------------------------------

const AGE_TICKS = [[600, "10 min"], [3600, "1 h"], [21600, "6 h"], [86400, "1 d"], [604800, "7 d"], [2592000, "30 d"]];
const AGE_MOST_S = 5184000; // two months; what is older is the last bar

export function drawAges(svg, { buckets, windowS, suggestedS }) {
  const width = Math.max(260, Math.round(svg.clientWidth || 320));
  const height = 150;
  const floor = height - 22;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const near = buckets.filter((bucket) => bucket.up_to_s !== null && bucket.up_to_s <= AGE_MOST_S);
  const beyond = buckets.filter((bucket) => !near.includes(bucket)).reduce((sum, bucket) => sum + bucket.count, 0);
  const bars = [...near, { up_to_s: null, count: beyond }];
  const most = Math.max(1, ...bars.map((bar) => bar.count));
  const wide = (width - 8) / bars.length;
  const ratio = near.length > 1 ? near[1].up_to_s / near[0].up_to_s : 2;
  const x = (age) => Math.max(0, Math.min(near.length, Math.log(age / near[0].up_to_s) / Math.log(ratio) + 1)) * wide;
  const parts = [];
  bars.forEach((bar, index) => {
    const tall = bar.count ? Math.max(2, (bar.count / most) * (floor - 34)) : 0;
    const made = shape("rect", { class: bar.up_to_s === null || (windowS && bar.up_to_s > windowS * ratio) ? "age beyond" : "age", x: index * wide + 1, width: Math.max(1, wide - 2), y: floor - tall, height: tall });
    const label = bar.up_to_s === null ? `older than ${span(near[near.length - 1].up_to_s)}` : `up to ${span(bar.up_to_s)} old`;
    made.append(shape("title", {}, `${number(bar.count)} changes of items ${label}`));
    parts.push(made);
  });
  parts.push(shape("line", { class: "grid", x1: 0, x2: width, y1: floor, y2: floor }));
  for (const [age, label] of AGE_TICKS) parts.push(shape("text", { class: "tick x", x: x(age), y: height - 6 }, label));
  const marks = [[windowS, "window", 10], [suggestedS, "suggested", 26]].filter(([age]) => age);
  for (const [age, label, at] of marks) {
    const leftOf = x(age) > width - 96 || (label === "suggested" && age < windowS);
    parts.push(
      shape("line", { class: `edge ${label}`, x1: x(age), x2: x(age), y1: at - 6, y2: floor }),
      shape("text", { class: leftOf ? "label" : "label start", x: x(age) + (leftOf ? -4 : 4), y: at + 3 }, `${label} ${span(age)}`),
    );
  }
  svg.replaceChildren(...parts);
}

// -- coverage ---------------------------------------------------------------------------------------------------------

export const PLACES = ["settled", "absent", "gone", "owed", "dead", "pending"];

// One share of a whole: how much of the source was asked for.
export function drawProgress(svg, { done, total }) {
  const width = total ? (done / total) * 1000 : 0;
  svg.replaceChildren(shape("rect", { class: "settled", x: 0, y: 0, width: done ? Math.max(4, width) : 0, height: 10 }));
  svg.setAttribute("aria-label", `${number(done)} of ${number(total)}`);
}

// Whatever exists is seen: a share too small to draw still gets a sliver.
export function drawCoverage(svg, coverage) {
  const total = PLACES.reduce((sum, place) => sum + (coverage[place] ?? 0), 0);
  const shares = PLACES.map((place) => ((coverage[place] ?? 0) ? Math.max(4, ((coverage[place] ?? 0) / Math.max(1, total)) * 1000) : 0));
  const drawn = shares.reduce((sum, value) => sum + value, 0) || 1;
  let left = 0;
  svg.replaceChildren(...PLACES.flatMap((place, index) => {
    const width = (shares[index] / drawn) * 1000;
    const part = shape("rect", { class: place, x: left, y: 0, width, height: 10 });
    left += width;
    return width ? [part] : [];
  }));
  return total;
}
