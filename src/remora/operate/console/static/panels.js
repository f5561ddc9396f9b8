// What does the operator see of one source? Each panel is brought up to date from a status; unknown is shown as unknown.
import { PLACES, describeRate, drawAges, drawCoverage, drawRate, drawSmall, readAt, windowOf } from "./charts.js";
import { drawHeadline, quotaInWords, sentPerSecond } from "./overview.js";
import { counted, countedAt, itemLink, linked } from "./reader_links.js";
import { drawActions, drawTimeline, makeActions } from "./timeline.js";
import { PLACE_WORDS, QUESTIONS, ago, agoOf, circuitState, clock, element, facts, gapReason, gapState, human, isCounted, moment, number, perSecond, phase, plain, rate, say, secondsOf, share, span, stopped, sync, tell, when } from "./words.js";

const SYMBOLS = { yes: "✓", no: "✕", unknown: "?", wait: "…" };
const STATES = ["dead", "owed", "leased", "absent", "gone"];
let cards = 0;

export function makeCard(name, { onReplay, onAct, onBehind }) {
  const card = document.getElementById("source").content.firstElementChild.cloneNode(true);
  const title = card.querySelector("h2");
  title.id = `source-${++cards}`;
  title.textContent = name;
  card.setAttribute("aria-labelledby", title.id);
  card.dataset.name = name;
  card.view = { range: null, onReplay, onBehind, drawn: null, spanS: 86400 };
  makeActions(card, onAct);
  for (const button of card.querySelectorAll(".timeline .ranges button")) {
    button.addEventListener("click", () => {
      card.view.spanS = Number(button.dataset.span);
      if (card.view.redrawTimeline) card.view.redrawTimeline();
    });
  }
  for (const button of card.querySelectorAll("figure .ranges button")) {
    button.addEventListener("click", () => {
      card.view.range = Number(button.dataset.range);
      if (card.view.redraw) card.view.redraw();
    });
  }
  const chart = card.querySelector(".chart");
  const readout = card.querySelector(".readout");
  chart.addEventListener("pointermove", (event) => say(readout, readAt(card.view.drawn, event.clientX, chart.getBoundingClientRect())));
  chart.addEventListener("pointerleave", () => say(readout, ""));
  return card;
}

export function drawCard(card, source, { now, history, items, old, disk, events, peers }) {
  const listed = source.kind === "listed";
  say(card.querySelector(".doing"), [plain(source.state), source.doing].filter(Boolean).join(", "));
  drawHeadline(card, source, disk, now);
  drawAnswers(card.querySelector(".answers"), source, now);
  drawActions(card, source, old);
  card.view.redrawTimeline = () => drawTimeline(card.querySelector(".timeline"), events, card.view.spanS, now);
  card.view.redrawTimeline();
  drawRatePanel(card, source, { history, peers, now });
  drawCoveragePanel(card.querySelector(".coverage"), card.dataset.name, source, old);
  for (const [name, shown] of [[".live", !listed], [".rescan", !listed], [".runs", listed], [".items", !listed]]) card.querySelector(name).hidden = !shown;
  card.classList.toggle("listed", listed);
  if (listed) drawRuns(card.querySelector(".runs"), card.dataset.name, source, now);
  else {
    drawStream(card.querySelector(".stream"), card.dataset.name, source, now);
    drawMachine(card.querySelector(".machine"), card.dataset.name, source);
    drawRescan(card.querySelector(".rescan"), card.dataset.name, source, now);
    drawItems(card.querySelector(".items ol"), card.dataset.name, items, now);
  }
  drawGaps(card, source, now, old);
}

function drawAnswers(list, { answers, state, only_provider_is_down: isDown }, now) {
  sync(list, QUESTIONS.map((question) => [question, { question, ...answers[question] }]), ({ question }) => {
    const item = element("li");
    const word = element("p", undefined, "answer");
    word.append(element("span", "", "symbol"), element("b"));
    word.firstElementChild.setAttribute("aria-hidden", "true");
    item.append(element("h3", `${question[0].toUpperCase()}${question.slice(1)}?`), word, element("p", "", "reason"));
    return item;
  }, (item, { question, answer, reason, attention }) => {
    // What is being worked on, or waits for the provider, is no failure.
    const waits = answer === "no" && attention === "wait";
    item.className = waits ? "wait" : answer;
    say(item.querySelector(".symbol"), SYMBOLS[waits ? "wait" : answer]);
    say(item.querySelector("b"), waits ? (question === "working" && state === "stopped" && !isDown ? "Stopped" : "Not yet") : answer[0].toUpperCase() + answer.slice(1));
    say(item.querySelector(".reason"), reason[0].toUpperCase() + human(reason, now).slice(1));
  });
}

// -- collection rate --------------------------------------------------------------------------------------------------

function drawRatePanel(card, source, { history, peers, now }) {
  const pace = source.rate;
  const panel = card.querySelector(".rate");
  panel.classList.toggle("unknown", !pace.known);
  if (pace.known) drawKnownRate(panel, pace, { account: source.account, peers, now });
  else drawUnknownRate(panel, pace, source.ceiling_interval_ns, now);
  const ceiling = source.ceiling_interval_ns ? perSecond(source.ceiling_interval_ns) : null;
  card.view.redraw = () => {
    const { from, to, range } = windowOf(history, card.view.range, now);
    const points = range > 21600 ? spliced(history) : history.points;
    const drawn = drawRate(panel.querySelector(".chart"), { ...history, points, ceiling, edge: pace.known ? pace.edge_per_s : null, from, to });
    card.view.drawn = drawn;
    const words = describeRate(drawn, ceiling);
    panel.querySelector(".chart").setAttribute("aria-label", `Collection rate. ${words}`);
    say(panel.querySelector("figcaption"), words);
    for (const button of panel.querySelectorAll("figure .ranges button")) button.setAttribute("aria-pressed", String(Number(button.dataset.range) === range));
    for (const small of panel.querySelectorAll(".small")) drawSmall(small, drawn.shown, drawn);
    drawMarks(panel.querySelector(".marks"), drawn.marks, now);
  };
  card.view.redraw();
}

// Half hours for the days, and what is newer than the last of them as it came.
function spliced({ long = [], points }) {
  const since = points.length ? points[0].at : Infinity;
  return [...long.filter((point) => point.at + point.span <= since), ...points];
}

function refusalsInWords({ refusals_left, ban }, now) {
  if (!ban) return `${number(refusals_left)} by the owner's limit`;
  const seen = `after ${number(ban.refusals)} refusals within about a minute the provider refused everything for ${span(secondsOf(ban.lasted_ns))}`;
  return `${number(refusals_left)}: ${seen}, so until ${when(ban.until_ns, now)} no more than ${number(ban.most_per_min)} a minute are risked; if you know what it tolerates, write a refusal_limit`;
}

function drawKnownRate(panel, pace, { account, peers, now }) {
  const until = pace.next_in_ns >= 5e9 ? ` The next request is sent at ${when(pace.at_ns + pace.next_in_ns, now)}.` : "";
  say(panel.querySelector(".limit"), pace.limit + until);
  const recent = pace.recent;
  const lately = recent ? `over the last ${span(secondsOf(recent.window_ns))}` : "";
  const sent = sentPerSecond(pace);
  say(panel.querySelector(".pace"), sent === null ? "Unknown" : rate(sent));
  say(panel.querySelector(".pace-note"), sent === null ? "until a second has passed" : `sent ${lately}`);
  const rows = [
    ["allowed pace", `${rate(perSecond(pace.interval_ns))}, one request each ${interval(secondsOf(pace.interval_ns))}`],
    ["held back by", heldBy(pace.held)],
    ...(account ? [["account", `${account}${peers.length ? `, shared with ${peers.join(", ")}` : ""}: one ceiling, pace and quota for all its sources`]] : []),
    ["ceiling", rate(perSecond(pace.ceiling_interval_ns))],
    ["provider's limit", pace.edge_per_s === null ? "none found so far" : `about ${rate(pace.edge_per_s)}, as learned so far`],
    ...(pace.quota ? [["quota", quotaInWords(pace.quota, now)]] : []),
    ...(pace.refusals_left == null ? [] : [["refusals left", refusalsInWords(pace, now)]]),
    ["refused", recent ? `${number(recent.refused)} of ${number(recent.answers)} answers ${lately}` : "unknown"],
    ["in flight", `${number(pace.in_flight)}${pace.in_flight_bound ? ` of at most ${number(pace.in_flight_bound)}` : ""}, ${number(pace.waiting)} waiting for their turn`],
    ["circuit breaker", circuitState(pace.circuit)],
  ];
  facts(panel.querySelector(".rate-facts"), rows);
  const back = pace.last_back_off;
  say(panel.querySelector(".backoff"), back
    ? `Last backed off at ${when(back.at_ns, now)}: ${gapReason(back.reason)}, from ${rate(back.from_per_s)} to ${rate(back.to_per_s)}.`
    : "It has not backed off since the start.");
}

// The causes of the last seconds, the largest first.
function heldBy(held) {
  const causes = Object.entries(held).sort(([, one], [, other]) => other - one).filter(([, part]) => part >= 0.01);
  return causes.length ? causes.map(([cause, part]) => `${plain(cause)} ${Math.round(100 * part)} %`).join(", ") : "unknown";
}

function drawUnknownRate(panel, pace, ceilingNs, now) {
  say(panel.querySelector(".limit"), `Not known: ${human(pace.reason, now)}.`);
  say(panel.querySelector(".pace"), "Unknown");
  const age = pace.since_ns ? ` ${agoOf(pace.since_ns, now)}` : "";
  say(panel.querySelector(".pace-note"), pace.was_per_s === null ? "" : `the pace was ${rate(pace.was_per_s)}${age}`);
  facts(panel.querySelector(".rate-facts"), [["ceiling", ceilingNs === null ? "unknown" : rate(perSecond(ceilingNs))]]);
  say(panel.querySelector(".backoff"), "");
}

function drawMarks(details, marks, now) {
  details.hidden = marks.length === 0;
  say(details.firstElementChild, marks.length === 1 ? "1 back-off in this chart" : `${number(marks.length)} back-offs in this chart`);
  const latest = marks.slice(-20).reverse();
  sync(details.lastElementChild, latest.map((mark) => [String(mark.at), mark]), () => element("li"), (item, mark) => {
    say(item, `${moment(mark.at, now)}: ${gapReason(mark.reason)}, ${rate(mark.from)} to ${rate(mark.to)}`);
  });
}

function interval(intervalS) {
  if (intervalS < 0.1) return `${+(intervalS * 1000).toPrecision(3)} ms`;
  return intervalS < 120 ? `${+intervalS.toPrecision(3)} s` : span(intervalS);
}

// -- coverage ---------------------------------------------------------------------------------------------------------

function drawCoveragePanel(panel, name, source, old) {
  const coverage = source.coverage;
  const bar = panel.querySelector(".bar");
  const legend = panel.querySelector(".legend");
  bar.toggleAttribute("hidden", !isCounted(coverage));
  if (!coverage.known) {
    say(panel.querySelector(".sum"), `Unknown: ${coverage.reason}.`);
    legend.replaceChildren();
    return;
  }
  const total = drawCoverage(bar, coverage);
  const places = PLACES.filter((place) => coverage[place] !== undefined && coverage[place] !== null);
  const words = places.map((place) => `${number(coverage[place])} ${PLACE_WORDS[place]}`).join(", ");
  bar.setAttribute("aria-label", words);
  say(panel.querySelector(".sum"), (old ? "As it was: " : "") + sumOf(coverage, total));
  sync(legend, places.map((place) => [place, place]), (place) => {
    const row = element("div", undefined, place);
    const term = element("dt");
    term.append(counted(name, place, PLACE_WORDS[place]));
    row.append(term, element("dd"));
    return row;
  }, (row, place) => {
    const part = !isCounted(coverage) ? "" : `, ${share(coverage[place], total)}`;
    const parts = place === "owed" ? [[coverage.awaited, "not there yet"], [coverage.unconfirmed, "absent, to be confirmed"]] : [];
    const told = parts.filter(([count]) => count).map(([count, word]) => `, ${number(count)} ${word}`).join("");
    say(row.lastElementChild, `${number(coverage[place])}${part}${told}`);
  });
}

function sumOf(coverage, total) {
  if (!isCounted(coverage)) return "Found in the list:";
  if (coverage.listed === 0) return "The list has shown no document so far.";
  if (coverage.listed !== undefined) return `${number(coverage.settled)} of ${number(coverage.listed)} documents are here.`;
  const done = coverage.lag === 0 ? "All of them were asked for." : coverage.frontier < coverage.first_id ? "The oldest part is not fetched yet." : `Everything up to ${number(coverage.frontier)} was asked for.`;
  return `${number(total)} ids, from ${number(coverage.first_id)} to ${number(coverage.max_id)}. ${done}`;
}

// -- stream, machine, rescan ------------------------------------------------------------------------------------------

function drawStream(panel, name, { stream, fresh }, now) {
  const told = fresh.known ? `${fresh.newest_id === null ? "unknown" : number(fresh.newest_id)}, reported ${agoOf(fresh.newest_id_at_ns, now)}` : `unknown: ${human(fresh.reason, now)}`;
  const newest = ["newest item", told, fresh.known ? countedAt(name, "newest") : null];
  panel.classList.toggle("unknown", !stream.known);
  if (stream.declared === false) {
    facts(panel.querySelector("dl"), [["stream", stream.reason], newest]);
    return;
  }
  if (!stream.known) {
    facts(panel.querySelector("dl"), [["stream", `unknown: ${human(stream.reason, now)}`], newest]);
    return;
  }
  facts(panel.querySelector("dl"), [
    ["stream", stream.connected ? "connected" : "not connected"],
    ["last byte", agoOf(stream.last_byte_at_ns, now)],
    ["last change", agoOf(stream.last_event_at_ns, now)],
    ["reconnects", `${number(stream.reconnects)} since the start`],
    newest,
  ]);
}

function drawMachine(panel, name, { inbox, loops, workers_alive: workers }) {
  const rows = [["changes", inbox.known ? `${number(inbox.depth)} waiting${inbox.bound ? `, bound ${number(inbox.bound)}` : ""}` : `unknown: ${inbox.reason}`, inbox.known ? countedAt(name, "announced") : null]];
  rows.push(["update workers", workers === null ? "unknown" : `${number(workers)} alive`]);
  const names = Object.keys(loops);
  const dead = names.filter((name) => !loops[name].alive);
  rows.push(["loops", names.length === 0 ? "unknown" : dead.length === 0 ? `all ${names.length} running` : `not running: ${dead.map(plain).join(", ")}`]);
  const again = names.filter((name) => loops[name].restarts > 0);
  if (names.length) rows.push(["restarts", again.length ? again.map((name) => `${plain(name)} ${number(loops[name].restarts)}${loops[name].last_error ? ` (${loops[name].last_error})` : ""}`).join(", ") : "none since the start"]);
  facts(panel.querySelector("dl"), rows);
}

function drawRescan(panel, name, { rescan, update_ages: buckets }, now) {
  panel.classList.toggle("unknown", !rescan.known);
  const figure = panel.querySelector("figure");
  if (!rescan.known) {
    facts(panel.querySelector("dl"), [["rescan", `unknown: ${human(rescan.reason, now)}`]]);
    figure.hidden = true;
    return;
  }
  facts(panel.querySelector("dl"), [
    ["rescan", rescan.running ? "running now" : rescan.last_success_at_ns ? `last finished ${agoOf(rescan.last_success_at_ns, now)}` : "none finished yet"],
    ["it found", rescan.processed ? `${number(rescan.changed)} changed of ${number(rescan.processed)} read since the start (${share(rescan.changed, rescan.processed)})` : "nothing was read again since the start", rescan.processed ? countedAt(name, "changed") : null],
    ["window", `${rescan.window_ns === null ? "unknown" : span(secondsOf(rescan.window_ns))}, ${rescan.suggested_window_ns === null ? "too few changes seen to suggest one" : `suggested ${span(secondsOf(rescan.suggested_window_ns))}`}`],
  ]);
  const total = (buckets || []).reduce((sum, bucket) => sum + bucket.count, 0);
  figure.hidden = total === 0;
  if (total === 0) return;
  const words = `How old items were when the stream told of a change: ${number(total)} changes.`;
  say(figure.querySelector("figcaption"), words);
  const svg = figure.querySelector("svg");
  svg.setAttribute("aria-label", words);
  drawAges(svg, { buckets, windowS: secondsOf(rescan.window_ns), suggestedS: secondsOf(rescan.suggested_window_ns) });
}

// -- runs of listed sources -------------------------------------------------------------------------------------------

const FETCHED = ["new", "changed", "unchanged", "stale"];

// The run in progress, with the counts that its process tells.
function drawRunNow(box, name, { runs, coverage }, now) {
  const run = runs.find((one) => one.phase);
  box.hidden = !run;
  if (box.hidden) return;
  const { counts } = run;
  say(box.querySelector(".doing-now"), `A run is in progress: ${phase(run.phase)}, for ${span(now - secondsOf(run.started_at_ns))}.`);
  facts(box.querySelector("dl"), [
    ["pages walked", number(counts.pages ?? 0)],
    ["entries seen", number(counts.entries ?? 0), countedAt(name, "settled")],
    ["details fetched", number(FETCHED.reduce((sum, outcome) => sum + (counts[outcome] ?? 0), 0)), countedAt(name, "changed")],
    ["still to fetch", coverage.known ? number(coverage.pending) : "unknown", countedAt(name, "pending")],
    ["requests sent", number(counts.requests ?? 0)],
    ["waits for the provider", number(counts.waits ?? 0)],
  ]);
}

function drawRuns(panel, name, source, now) {
  drawRunNow(panel.querySelector(".now"), name, source, now);
  const { budget, fresh, runs } = source;
  const bounds = [budget?.max_wall_ns && span(secondsOf(budget.max_wall_ns)), budget?.max_fetches && `${number(budget.max_fetches)} requests`].filter(Boolean);
  const whole = fresh.whole_walk_at_ns ? `The whole list was last walked ${agoOf(fresh.whole_walk_at_ns, now)}.` : "The next run walks the whole list.";
  const walked = fresh.known ? `New entries were last looked for ${agoOf(fresh.walked_at_ns, now)}. ${whole}` : `The list was never walked completely: ${fresh.reason}.`;
  const next = source.next_run_at_ns ? ` The next run begins at ${when(source.next_run_at_ns, now)}${source.why_not_now ? `: ${source.why_not_now}` : ""}.` : "";
  say(panel.querySelector(".note"), `${walked} A run may spend ${bounds.length ? bounds.join(" and ") : "as much as it needs"}.${next}`);
  sync(panel.querySelector("tbody"), runs.map((run) => [String(run.run_id), run]), () => {
    const row = element("tr");
    for (const className of ["", "", "right", "right", "right", ""]) row.append(element("td", "", className));
    return row;
  }, (row, run) => {
    const took = run.ended_at_ns ? span(secondsOf(run.ended_at_ns - run.started_at_ns)) : run.phase ? "in progress" : "no end recorded";
    const counts = run.counts;
    const texts = [moment(secondsOf(run.started_at_ns), now), took, number(counts.requests ?? 0), number(counts.new ?? 0), number(counts.waits ?? 0), run.stopped_by ? stopped(run.stopped_by) : run.ended_at_ns ? "unknown" : ""];
    texts.forEach((text, index) => tell(row.children[index], text, index === 3 && counts.new ? countedAt(name, "changed") : null));
  });
}

// -- gaps -------------------------------------------------------------------------------------------------------------

function drawGaps(card, source, now, old) {
  const panel = card.querySelector(".gaps");
  const gaps = [...source.gaps].sort((one, other) => STATES.indexOf(one.state) - STATES.indexOf(other.state) || other.count - one.count);
  const due = source.state === "running" ? "due now" : source.budget ? "with the next run" : "with the next start";
  const dead = gaps.filter((gap) => gap.state === "dead").reduce((sum, gap) => sum + gap.count, 0);
  panel.querySelector(".scroll").hidden = gaps.length === 0;
  const note = gaps.length === 0 ? "Nothing waits for a retry." : dead === 0 ? "No dead letters." : `${number(dead)} dead ${dead === 1 ? "letter" : "letters"}: not fetched after several attempts; tried again once a week.`;
  tell(panel.querySelector(".note"), (old ? "As it was: " : "") + note, dead ? countedAt(card.dataset.name, "dead") : null);
  sync(panel.querySelector("tbody"), gaps.map((gap) => [`${gap.kind} ${gap.state} ${gap.reason}`, gap]), (gap) => {
    const row = element("tr", undefined, gap.state);
    for (const className of ["", "", "right", "", "", "right"]) row.append(element("td", "", className));
    const count = element("button", "", "count");
    count.type = "button";
    count.addEventListener("click", () => card.view.onBehind(row.gap));
    row.children[2].append(count);
    if (gap.state === "dead") {
      const button = element("button", "Ask again");
      button.type = "button";
      button.setAttribute("aria-label", `Ask again for dead letters: ${gapReason(gap.reason)}`);
      button.addEventListener("click", () => card.view.onReplay(row.gap.reason));
      row.lastElementChild.append(button);
    }
    return row;
  }, (row, gap) => {
    row.gap = gap;
    const next = gap.next_at_ns === null ? "none" : secondsOf(gap.next_at_ns) <= now ? due : `in ${span(secondsOf(gap.next_at_ns) - now)}`;
    const texts = [gap.kind === "item" || gap.kind === "document" ? gapState(gap) : `${gapState(gap)}: ${plain(gap.kind)}`, gapReason(gap.reason), number(gap.count), agoOf(gap.oldest_at_ns, now), next];
    texts.forEach((text, index) => say(index === 2 ? row.children[2].firstElementChild : row.children[index], text));
    row.children[2].firstElementChild.setAttribute("aria-label", `${number(gap.count)}: show them and why not now`);
    row.children[3].title = moment(secondsOf(gap.oldest_at_ns), now);
    if (gap.next_at_ns) row.children[4].title = moment(secondsOf(gap.next_at_ns), now);
    for (const button of row.querySelectorAll("button")) button.disabled = old;
  });
}

// -- items ------------------------------------------------------------------------------------------------------------

function drawItems(list, name, items, now) {
  if (!items.length) {
    sync(list, [["none", "No item is here yet."]], (text) => element("li", text, "note"), () => {});
    return;
  }
  sync(list, items.map((item) => [String(item.id), item]), (item) => {
    const row = element("li", undefined, "item");
    const head = element("p", undefined, "head");
    head.append(element("span", item.type ?? "item", "type"), element("span", item.by ?? "nobody", "by"), element("span", "", "age"));
    const text = element("p", undefined, "text");
    text.append(linked(itemLink(name, item.id), item.text ?? (item.state ? `[${item.state}]` : "no text")));
    row.append(head, text);
    row.title = `id ${item.id}${item.time_s ? `, written ${clock(item.time_s)}` : ""}`;
    return row;
  }, (row, item) => say(row.querySelector(".age"), item.seen_s === null ? "" : ago(now - item.seen_s)));
}
