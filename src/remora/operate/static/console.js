// How does the page stay true? It shows what the last event said, and says so when there was none for three beats.
"use strict";

const BEATS_BEFORE_UNKNOWN = 3;
const PLACES = ["settled", "owed", "absent", "dead", "pending"];
let heardAt = 0;

const number = (value) => value.toLocaleString("en");
const rate = (perSecond) => {
  for (const [period, unit] of [[1, "s"], [60, "min"], [3600, "h"]]) {
    if (perSecond * period >= 1) return `${number(+(perSecond * period).toPrecision(3))}/${unit}`;
  }
  return `${number(+(perSecond * 86400).toPrecision(3))}/day`;
};
const span = (seconds) => {
  if (seconds < 1) return "under 1 s";
  for (const [size, unit] of [[86400, "d"], [3600, "h"], [60, "min"]]) {
    if (seconds >= size) return `${Math.floor(seconds / size)} ${unit}`;
  }
  return `${Math.floor(seconds)} s`;
};
const ago = (seconds) => (seconds === null || seconds === undefined ? "never" : `${span(seconds)} ago`);
const clock = (iso) => (iso ? new Date(iso).toLocaleString() : "never");

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function rateText(value) {
  if (!value.known) {
    const past = value.was === null ? "" : ` (it was ${rate(value.was)})`;
    return `unknown: ${value.reason}${past}`;
  }
  const parts = [`${rate(value.per_second)} allowed`, `ceiling ${rate(value.ceiling_per_second)}`];
  if (value.recent_per_second !== null) parts.push(`${rate(value.recent_per_second)} leaving`);
  if (value.edge_per_second !== null) parts.push(`learned edge ${rate(value.edge_per_second)}`);
  parts.push(`limited by ${value.limited_by.replace("_", " ")}`);
  return parts.join(", ");
}

function facts(source) {
  const { rate: pace, coverage, fresh, stream, inbox, rescan } = source;
  const rows = [["collection rate", rateText(pace)]];
  if (pace.known && pace.last_backoff) {
    const back = pace.last_backoff;
    rows.push(["last back-off", `${clock(back.at)}: ${back.reason.replace("_", " ")}, ${rate(back.from_per_second)} to ${rate(back.to_per_second)}`]);
  } else if (pace.known) rows.push(["last back-off", "none since the start"]);
  if (coverage.known && coverage.frontier !== undefined) {
    rows.push(["frontier", `${number(coverage.frontier)}, ${number(coverage.lag)} behind the newest id ${number(coverage.max_id)}`]);
  }
  if (source.kind === "listed") {
    rows.push(["list", fresh.known ? `walked to its end ${ago(fresh.age_s)}` : `unknown: ${fresh.reason}`]);
    for (const run of source.runs.slice(0, 1)) {
      rows.push(["last run", `${clock(run.started_at)}, ${run.ended_at ? `stopped by ${run.stopped_by.replace("_", " ")}` : "still open"}`]);
    }
    if (source.next_run_at) rows.push(["next run", `${clock(source.next_run_at)}${source.why_not_now ? `: ${source.why_not_now}` : ""}`]);
    return rows;
  }
  rows.push(["newest id", fresh.known ? `heard of ${ago(fresh.age_s)}` : `unknown: ${fresh.reason}`]);
  rows.push(["stream", stream.known
    ? `${stream.connected ? "connected" : "not connected"}, last byte ${ago(stream.last_byte_age_s)}, last event ${ago(stream.last_event_age_s)}`
    : `unknown: ${stream.reason}`]);
  if (inbox.known) rows.push(["inbox", `${number(inbox.depth)} waiting`]);
  if (rescan.known) rows.push(["rescan", `${rescan.running ? "running" : `last finished ${ago(rescan.age_s)}`}, ${number(rescan.changed)} of ${number(rescan.processed)} had changed`]);
  return rows;
}

function coverageBar(card, coverage) {
  const bar = card.querySelector(".bar");
  const legend = card.querySelector(".legend");
  bar.replaceChildren();
  if (!coverage.known) {
    legend.textContent = `coverage unknown: ${coverage.reason}`;
    return;
  }
  const counted = PLACES.filter((place) => coverage[place] !== undefined);
  const words = counted.map((place) => `${number(coverage[place])} ${place}`).join(", ");
  const total = counted.reduce((sum, place) => sum + coverage[place], 0);
  bar.setAttribute("aria-label", words);
  for (const place of counted) {
    const part = element("span", undefined, place);
    part.style.flexGrow = total ? coverage[place] / total : 0;
    bar.append(part);
  }
  legend.textContent = words;
}

function drawSource(card, name, source) {
  card.querySelector("h2").textContent = name;
  card.querySelector(".doing").textContent = source.doing || source.state.replace("_", " ");
  card.querySelector(".answers").replaceChildren(...Object.entries(source.answers).map(([question, { answer, reason }]) => {
    const item = element("li", undefined, answer);
    const title = element("strong", `${question}? `);
    title.append(element("b", answer));
    item.append(title, element("span", reason));
    return item;
  }));
  coverageBar(card, source.coverage);
  card.querySelector(".facts").replaceChildren(...facts(source).flatMap(([label, text]) => [element("dt", label), element("dd", text)]));
  const table = card.querySelector(".gaps");
  table.hidden = source.gaps.length === 0;
  table.tBodies[0].replaceChildren(...source.gaps.map((gaps) => {
    const row = element("tr");
    for (const text of [gaps.state, gaps.reason, number(gaps.count), clock(gaps.oldest_at), gaps.next_attempt_at ? clock(gaps.next_attempt_at) : "none"]) {
      row.append(element("td", text));
    }
    return row;
  }));
  card.querySelector(".replay").hidden = !source.gaps.some((gaps) => gaps.state === "dead");
}

async function replay(name) {
  if (!window.confirm(`Ask ${name} again for everything that is owed, dead letters too? Every request waits for its turn.`)) return;
  const answer = await fetch("/api/gaps/replay", {
    method: "POST",
    headers: { "X-Remora": "1", "Content-Type": "application/json" },
    body: JSON.stringify({ source: name, all: true }),
  });
  const told = await answer.json();
  document.getElementById("connection").textContent = answer.ok ? `${number(told.replayed)} gaps are due now` : told.error;
}

function draw(status) {
  const main = document.getElementById("sources");
  if (!status.sources) {
    main.replaceChildren(element("p", `Nothing is known: ${status.reason}`, "note"));
    return;
  }
  const names = Object.keys(status.sources);
  for (const card of [...main.children]) {
    if (!names.includes(card.dataset.name)) card.remove();
  }
  for (const name of names) {
    let card = [...main.children].find((child) => child.dataset.name === name);
    if (!card) {
      card = document.getElementById("source").content.firstElementChild.cloneNode(true);
      card.dataset.name = name;
      card.querySelector(".replay").addEventListener("click", () => replay(name));
      main.append(card);
    }
    drawSource(card, name, status.sources[name]);
  }
}

function watchSilence() {
  const silentFor = (Date.now() - heardAt) / 1000;
  const lost = heardAt > 0 && silentFor > BEATS_BEFORE_UNKNOWN;
  document.body.classList.toggle("lost", lost);
  const line = document.getElementById("connection");
  line.classList.toggle("lost", lost);
  if (lost) line.textContent = `unknown since ${new Date(heardAt).toLocaleTimeString()}: the service does not answer; what you see is old`;
}

const events = new EventSource("/api/events");
events.addEventListener("status", (event) => {
  heardAt = Date.now();
  document.getElementById("connection").textContent = `live, as of ${new Date(heardAt).toLocaleTimeString()}`;
  draw(JSON.parse(event.data));
});
setInterval(watchSilence, 1000);
