// How is it going, at a glance? The line of each source, its progress, and a table where there are several.
import { drawProgress } from "./charts.js";
import { countedAt } from "./reader_links.js";
import { agoOf, bytes, element, facts, human, isCounted, number, rate, say, secondsOf, share, span, sync, tell, when } from "./words.js";

// The worst first: what needs a person, then what nobody knows, then what goes on by itself.
const ORDER = ["attention", "unknown", "stopped", "waiting", "collecting", "watching", "complete"];
const SYMBOLS = { attention: "✕", unknown: "?", stopped: "?", waiting: "…", collecting: "…", watching: "✓", complete: "✓" };

export const worstFirst = (sources) => Object.entries(sources).sort(([one, { headline: a }], [other, { headline: b }]) => ORDER.indexOf(a.standing) - ORDER.indexOf(b.standing) || one.localeCompare(other));

// What really was sent; unknown before the first second has passed.
export function sentPerSecond({ recent_per_s: sent }) {
  return sent ?? null;
}

// The line of the header: the one source, or the one of several that matters most.
export function verdict(sources, now) {
  const sorted = worstFirst(sources);
  if (!sorted.length) return { standing: "unknown", text: "No source is configured.", symbol: "?" };
  const [name, { headline }] = sorted[0];
  const text = human(headline.text, now);
  const symbol = SYMBOLS[headline.standing];
  if (sorted.length === 1) return { standing: headline.standing, text: `${text}.`, symbol };
  const alike = sorted.filter(([, source]) => source.headline.standing === headline.standing).length;
  if (headline.standing === "complete") return { standing: "complete", text: `All ${sorted.length} sources are complete and fresh.`, symbol };
  const more = alike > 1 ? ` (and ${alike - 1} more)` : "";
  return { standing: headline.standing, text: `${name}: ${text}${more}.`, symbol };
}

// -- one source ---------------------------------------------------------------------------------------------------------

export function drawHeadline(card, source, disk, now) {
  const line = card.querySelector(".headline");
  line.dataset.standing = source.headline.standing;
  say(line.querySelector(".symbol"), SYMBOLS[source.headline.standing]);
  say(line.querySelector("b"), human(source.headline.text, now));
  const outage = source.only_provider_is_down ? ["RemoraCircuitOpen"] : [];
  drawAlarms(card.querySelector(".alarms"), [...outage, ...(source.alarms ?? [])]);
  const bar = card.querySelector(".progress-bar");
  const held = progressOf(source);
  bar.toggleAttribute("hidden", held === null || source.headline.standing === "complete");
  if (held) drawProgress(bar, held);
  facts(card.querySelector(".stats"), stats(card.dataset.name, source, disk));
}

// Every alarm, and an outage of the provider, links to its part of the runbook.
function drawAlarms(line, alarms) {
  line.hidden = alarms.length === 0;
  sync(line, alarms.map((alarm) => [alarm, alarm]), (alarm) => {
    const link = element("a", `What to do about ${alarm}`);
    link.href = `runbook#${alarm.toLowerCase()}`;
    return link;
  }, () => {});
}

// How much of it was asked for, of a numbered source, or is here, of a listed one; null if nobody can tell.
function progressOf({ progress, coverage, answers }) {
  if (progress) return { done: progress.done, total: progress.total };
  if (coverage.listed === 0 && answers.complete.answer === "unknown") return null; // no run has seen the list yet
  return isCounted(coverage) && coverage.listed !== undefined ? { done: coverage.settled, total: coverage.listed } : null;
}

function heldInWords(source) {
  if (source.progress) return `${source.progress.holds_more ? "at least " : ""}${number(source.progress.held)}`;
  const held = progressOf(source);
  return held ? countedOf(held) : "unknown";
}

const countedOf = ({ done, total }) => (total === null ? number(done) : `${number(done)} of ${number(total)}`);

// Which other sources share the account of this one, and with it one gate.
export function sharing(sources, name) {
  const { account } = sources[name];
  return account ? Object.keys(sources).filter((other) => other !== name && sources[other].account === account) : [];
}

export function quotaInWords(quota, now) {
  return `${countedOf({ done: quota.remaining, total: quota.limit })} left until ${when(quota.until_ns, now)}`;
}

function stats(name, source, disk) {
  const pace = source.rate;
  const sent = pace.known ? sentPerSecond(pace) : null;
  return [
    [source.kind === "listed" ? "Documents held" : "Items held", heldInWords(source), countedAt(name, "settled")],
    ["Sending now", sent === null ? "unknown" : rate(sent)],
    ["Held back by", pace.known ? (pace.limit.split(/[:.] |[.]$| [(]/)[0] || "nothing") : "unknown"],
    ["Size on disk", disk?.size_bytes ? bytes(disk.size_bytes) : "unknown"],
    ["Growth", growth(disk)],
    ["Free space", disk?.free_bytes ? bytes(disk.free_bytes) : "unknown"],
  ];
}

// A rate by the day after an hour; before, what was added since the first measurement.
function growth(disk) {
  if (!disk || disk.grown_bytes === null) return "unknown";
  if (disk.growth_bytes_per_day !== null) return `${bytes(disk.growth_bytes_per_day)} a day`;
  return `${bytes(disk.grown_bytes)} in ${span(secondsOf(disk.grown_over_ns))}`;
}

// -- several sources ----------------------------------------------------------------------------------------------------

export function drawOverview(panel, sources, now) {
  const rows = worstFirst(sources);
  panel.hidden = rows.length < 2;
  if (panel.hidden) return;
  sync(panel.querySelector("tbody"), rows, () => {
    const row = element("tr");
    for (const className of ["", "", "", "", "right", "right", ""]) row.append(element("td", "", className));
    row.firstElementChild.append(element("a", ""), element("p", "", "account note"));
    row.children[2].append(element("span", ""), document.createElementNS("http://www.w3.org/2000/svg", "svg"));
    const bar = row.children[2].lastElementChild;
    for (const [name, value] of [["class", "bar small-bar"], ["viewBox", "0 0 1000 10"], ["preserveAspectRatio", "none"], ["role", "img"]]) bar.setAttribute(name, value);
    row.children[1].append(element("span", "", "symbol"), element("span", "", "standing"));
    return row;
  }, (row, source) => {
    const name = row.dataset.key;
    const [link, state] = [row.querySelector("a"), row.children[1]];
    link.href = `#${encodeURIComponent(name)}`;
    say(link, name);
    row.dataset.standing = source.headline.standing;
    say(state.firstElementChild, SYMBOLS[source.headline.standing]);
    say(state.lastElementChild, human(source.headline.text, now));
    const held = progressOf(source);
    const sent = source.rate.known ? sentPerSecond(source.rate) : null;
    const owed = source.coverage.known ? source.coverage.owed + source.coverage.dead : null;
    const account = row.querySelector(".account");
    account.hidden = !source.account;
    say(account, source.account ? accountInWords(source) : "");
    const bar = row.children[2].lastElementChild;
    bar.toggleAttribute("hidden", held === null);
    if (held) drawProgress(bar, held);
    tell(row.children[2].firstElementChild, held ? `${countedOf(held)}, ${human(share(held.done, held.total), now)}` : "unknown", held ? countedAt(name, "settled") : null);
    const texts = [freshness(source, now), sent === null ? "unknown" : rate(sent), owed === null ? "unknown" : number(owed), nextRun(source, now)];
    texts.forEach((text, index) => tell(row.children[index + 3], text, index === 2 && owed ? countedAt(name, "owed") : null));
  });
}

function accountInWords({ account, rate: pace }) {
  const { quota } = pace.known ? pace : {};
  return `account ${account}${quota ? `, quota ${countedOf({ done: quota.remaining, total: quota.limit })} left` : ""}`;
}

function freshness({ fresh }, now) {
  if (!fresh.known) return "unknown";
  return agoOf(fresh.walked_at_ns ?? fresh.newest_id_at_ns, now);
}

function nextRun({ next_run_at_ns: at, kind, state }, now) {
  if (at) return secondsOf(at) <= now ? "now" : `in ${span(secondsOf(at) - now)}`;
  if (state !== "running") return state === "silent" ? "unknown" : "not running";
  return kind === "listed" ? "running" : "always on";
}
