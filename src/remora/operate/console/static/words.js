// How do numbers, spans and reasons read? The same words everywhere; what is not known is called unknown.

export const number = (value) => value.toLocaleString("en-US");

export function rate(perSecond) {
  for (const [period, unit] of [[1, "s"], [60, "min"], [3600, "h"]]) {
    if (perSecond * period >= 1) return `${number(+(perSecond * period).toPrecision(3))}/${unit}`;
  }
  return perSecond > 0 ? `${number(+(perSecond * 86400).toPrecision(3))}/day` : "0/s";
}

export function share(part, whole) {
  if (whole === 0) return "0 %";
  const percent = (100 * part) / whole;
  if (percent > 99.99 && part < whole) return "99.99 %"; // never rounded up to everything
  if (percent < 0.01 && part > 0) return "under 0.01 %";
  return `${+percent.toFixed(2)} %`;
}

export function span(seconds) {
  if (seconds < 1) return "under 1 s";
  if (seconds < 120) return `${Math.floor(seconds)} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

export function bytes(count) {
  for (const [size, unit] of [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"]]) {
    if (count >= size) return `${number(+(count / size).toPrecision(3))} ${unit}`;
  }
  return `${number(count)} bytes`;
}

export const agoOf = (atNs, nowSeconds) => (atNs ? ago(nowSeconds - secondsOf(atNs)) : "never");
export const ago = (seconds) => (seconds === null || seconds === undefined ? "never" : seconds < 1 ? "just now" : `${span(seconds)} ago`);
export const plain = (word) => word.replaceAll("_", " ");
export const secondsOf = (ns) => ns / 1e9; // moments and spans come in nanoseconds
export const perSecond = (intervalNs) => 1e9 / intervalNs;

const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const SHORT = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const DATE = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });

export const clock = (atSeconds) => CLOCK.format(atSeconds * 1000);
export const shortDay = (atSeconds) => DATE.format(atSeconds * 1000);
export const shortClock = (atSeconds) => SHORT.format(atSeconds * 1000);

// The time of day while that is clear, with the date once it is not.
export function moment(atSeconds, nowSeconds) {
  return Math.abs(nowSeconds - atSeconds) < 43200 ? clock(atSeconds) : DAY.format(atSeconds * 1000);
}

export function when(atNs, nowSeconds) {
  if (!atNs) return "never";
  const at = secondsOf(atNs);
  const far = Math.abs(nowSeconds - at);
  const relative = at > nowSeconds ? `in ${span(far)}` : ago(far);
  return `${moment(at, nowSeconds)} (${relative})`;
}

// Reasons name moments in the way of machines; a reader gets the time of day.
export function human(reason, nowSeconds) {
  const told = reason.replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, (iso) => moment(Date.parse(iso) / 1000, nowSeconds));
  return told.replace(/(\d) (?:(s|min|h|d)\b|(%))/g, "$1\u00a0$2$3"); // a number and its unit stay on one line
}

// -- written by tools/console_words.py from core/status/words.py --
export const QUESTIONS = [
  "complete",
  "fresh",
  "polite",
  "working"
];
export const STOPPED = {
  "complete": "complete: everything listed was asked for",
  "recover_only": "only what was owed was asked for, as requested",
  "cool_down": "an earlier run met pressure; the walk waits",
  "max_wall_clock": "its time was used up",
  "max_fetches": "its requests were used up",
  "retry_budget": "too many retries after faults",
  "upstream_pressure": "the provider kept asking for less",
  "refused": "the provider refused one detail after another",
  "list_refused": "the provider refuses the list",
  "list_unreadable": "a part of the list cannot be read",
  "list_trouble": "the list does not answer as it should",
  "list_contradicts": "the list contradicts its declaration"
};
export const PHASES = {
  "recovery": "retrying what is owed",
  "walk": "walking the list",
  "details": "fetching details"
};
export const GAP_REASONS = {
  "rate_limited": "rate limited",
  "upstream_pressure": "upstream pressure",
  "max_wall_clock": "the run's time was used up",
  "max_fetches": "the run's requests were used up",
  "retry_budget": "too many retries in the run",
  "not_found": "not found",
  "gone": "gone",
  "unauthorized": "unauthorized",
  "forbidden": "forbidden",
  "malformed": "malformed",
  "too_large": "too large",
  "timeout": "timeout",
  "connection": "connection",
  "server_error": "server error",
  "moved": "moved",
  "not_yet": "not there yet"
};
export const CIRCUIT = {
  "closed": "closed",
  "open": "open",
  "half_open": "half open: one probe is under way"
};
// -- end of what is written --
export const PLACE_WORDS = { settled: "here", absent: "absent", gone: "gone upstream", owed: "waiting for a retry", dead: "dead letters", pending: "not fetched yet" };
const GAP_STATES = { owed: "waiting for a retry", leased: "next in line", dead: "dead letter" };
// An old id that is answered with nothing is asked for again before it is believed to be absent.
export const gapState = ({ state, reason, kind }) => (state !== "dead" && GAP_STATES[state] && reason === "not_found" && kind === "item" ? "absent, to be confirmed" : GAP_STATES[state] ?? state);
// Whether everything that is known of a source was counted, so that it can be drawn as a share.
export const isCounted = (coverage) => coverage.known && coverage.settled !== undefined && coverage.settled !== null;
const worded = (table) => (word) => table[word] ?? plain(word);
export const stopped = worded(STOPPED);
export const gapReason = worded(GAP_REASONS);
export const phase = worded(PHASES);
export const circuitState = worded(CIRCUIT);

// -- elements ---------------------------------------------------------------------------------------------------------

export function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined && text !== null) made.textContent = text;
  if (className) made.className = className;
  return made;
}

// Text is written only when it differs: what does not change is not touched, and a selection survives.
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// One child per key, in order, made once and then only brought up to date: focus stays where it is.
export function sync(parent, entries, make, update) {
  const present = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  let before = parent.firstElementChild;
  for (const [key, value] of entries) {
    let child = present.get(key);
    if (!child) {
      child = make(value);
      child.dataset.key = key;
    }
    present.delete(key);
    if (child === before) before = before.nextElementSibling;
    else parent.insertBefore(child, before);
    update(child, value);
  }
  for (const child of present.values()) child.remove();
}

// The same with a link to what a number counts; without an address it is plain text.
export function tell(node, text, address) {
  let link = node.querySelector("a");
  if (!address) return link ? node.replaceChildren(text) : say(node, text);
  if (!link) node.replaceChildren(link = element("a"));
  if (link.getAttribute("href") !== address) link.setAttribute("href", address);
  say(link, text);
}

// Each row is a label, a text and perhaps the address of what the text counts.
export function facts(list, rows) {
  sync(list, rows.map((row) => [row[0], row]), ([label]) => {
    const row = element("div");
    row.append(element("dt", label), element("dd"));
    return row;
  }, (row, [, text, address]) => tell(row.lastElementChild, text, address));
}
