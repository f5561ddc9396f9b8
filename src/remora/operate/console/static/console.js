// How does the page stay true? It shows what the last event said, and says so when there was none for three beats.
import { drawOverview, sentPerSecond, sharing, verdict, worstFirst } from "./overview.js";
import { drawCard, makeCard } from "./panels.js";
import { QUESTIONS_BEFORE, showGaps } from "./timeline.js";
import { clock, element, gapReason, number, perSecond, plain, say, secondsOf, span, sync, when } from "./words.js";

const BEATS_BEFORE_UNKNOWN = 3;
const HISTORY_EVERY_MS = 10_000;
const LONG_HISTORY_EVERY_MS = 300_000;
const RECONNECT_MS = 2_000;
const POINTS_MAX = 5_000;
const page = { status: null, heardAt: 0, items: {}, histories: {}, timeline: {}, lost: false, said: new Map(), events: null };

const part = (id) => document.getElementById(id);
const historyOf = (name) => (page.histories[name] ??= { points: [], backoffs: [] });

function announce(text) {
  part("announcement").textContent = text;
}

// -- what is old is not now ---------------------------------------------------------------------------------------------

// The last status as it reads when nobody answers any more: what only a live service knows is unknown.
function aged(status, reason, sinceNs) {
  const unknown = (was) => ({ known: false, reason, since_ns: sinceNs, was_per_s: was });
  const sources = Object.entries(status.sources).map(([name, source]) => {
    const answers = Object.fromEntries(Object.entries(source.answers).map(([question, { answer }]) => [
      question, { answer: "unknown", reason: answer === "unknown" ? reason : `${reason}; before that the answer was ${answer}` },
    ]));
    const was = source.rate.known ? perSecond(source.rate.interval_ns) : source.rate.was_per_s;
    return [name, { ...source, answers, headline: { standing: "unknown", text: `Unknown: ${reason}` }, state: "no heartbeat", doing: null, rate: unknown(was), stream: unknown(null), inbox: unknown(null), rescan: unknown(null), fresh: unknown(null), loops: {}, workers_alive: null, runs: source.runs.map((run) => ({ ...run, phase: null })) }];
  });
  return { ...status, sources: Object.fromEntries(sources) };
}

// -- drawing ----------------------------------------------------------------------------------------------------------

function draw() {
  if (page.signedOut) return;
  const now = Date.now() / 1000;
  const silent = (Date.now() - page.heardAt) / 1000;
  const storeAway = page.status && page.status.reason;
  const lost = page.heardAt === 0 ? false : silent > BEATS_BEFORE_UNKNOWN || Boolean(storeAway);
  showConnection(lost, silent, storeAway);
  if (!page.last) return;
  // The service's clock counts; between its beats ours carries it on.
  const at = secondsOf(page.last.as_of_ns) + (lost ? now - page.lastAt : 0);
  const reason = storeAway ? `the service says: ${storeAway}` : "the service does not answer";
  const status = lost ? aged(page.last, reason, page.last.as_of_ns) : page.last;
  const cards = part("sources");
  const chosen = chosenOf(status.sources);
  for (const card of cards.querySelectorAll(".source")) if (!(card.dataset.name in status.sources)) card.remove();
  drawOverview(part("overview"), chosen ? {} : status.sources, at);
  part("back").hidden = !chosen || Object.keys(status.sources).length < 2;
  for (const [name, source] of worstFirst(status.sources)) {
    let card = [...cards.querySelectorAll(".source")].find((each) => each.dataset.name === name);
    if (!card && chosen !== name) continue; // made when it is first shown
    if (!card) {
      card = makeCard(name, { onReplay: (why) => askAgain(name, why), onAct: (action) => act(name, action), onBehind: (gap) => showGaps(name, gap, ask) });
      cards.append(card);
    }
    card.hidden = chosen !== name;
    if (!card.hidden) drawCard(card, source, { now: at, history: historyOf(name), items: page.items[name] ?? [], old: lost, disk: status.disk, events: page.timeline[name] ?? [], peers: sharing(status.sources, name) });
  }
  const found = verdict(status.sources, at);
  say(part("verdict"), found.text);
  document.body.dataset.verdict = found.standing;
  document.title = `${found.symbol} Remora`;
  drawRuntimes(status.runtimes, at);
  tellChanges(status.sources);
}

// The source that is shown: the one in the address, or the only one; null shows the overview.
function chosenOf(sources) {
  const names = Object.keys(sources);
  const wanted = decodeURIComponent(location.hash.slice(1));
  return names.includes(wanted) ? wanted : names.length === 1 ? names[0] : null;
}

function showConnection(lost, silent, storeAway) {
  const line = part("connection");
  document.body.classList.toggle("lost", lost);
  line.dataset.state = page.heardAt === 0 ? "connecting" : lost ? "lost" : "live";
  say(line, page.heardAt === 0 ? "connecting" : lost ? "not live" : "live");
  const banner = part("lost");
  banner.hidden = !lost;
  if (lost) {
    const since = clock(page.lastAt ?? page.heardAt / 1000);
    const why = storeAway ? `The store does not answer: ${storeAway}.` : `The service has not answered for ${span(silent)}.`;
    say(banner, `${why} These numbers are from ${since}. The page tries again by itself.`);
  }
  if (lost !== page.lost) announce(lost ? "Connection lost. Everything shown is old." : "Connected again.");
  page.lost = lost;
}

function drawRuntimes(runtimes, now) {
  sync(part("runtimes"), runtimes.map((runtime, index) => [`${runtime.role} ${runtime.pid} ${index}`, runtime]), () => element("li"), (item, runtime) => {
    const version = runtime.version ? ` ${runtime.version}` : "";
    const end = runtime.ended_at_ns ? `ended ${when(runtime.ended_at_ns, now)}${runtime.ended_because ? `: ${runtime.ended_because}` : ""}` : runtime.alive ? `running since ${when(runtime.started_at_ns, now)}` : `last heartbeat ${when(runtime.last_beat_at_ns, now)}`;
    say(item, `${plain(runtime.role)}${version}, ${end}`);
  });
}

// Only changes are said aloud, never the numbers that move every second.
function tellChanges(sources) {
  const changes = [];
  for (const [name, source] of Object.entries(sources)) {
    for (const [question, { answer, reason }] of Object.entries(source.answers)) {
      const key = `${name} ${question}`;
      if (page.said.has(key) && page.said.get(key) !== answer && !page.lost) changes.push(`${name}, ${question}: ${answer}. ${reason}`);
      if (!page.lost) page.said.set(key, answer);
    }
  }
  if (changes.length) announce(changes.join(". "));
}

// -- asking again for dead letters --------------------------------------------------------------------------------------

function askAgain(name, why) {
  const same = page.last.sources[name].gaps.filter((gap) => gap.reason === why);
  const count = (state) => same.filter((gap) => gap.state === state).reduce((sum, gap) => sum + gap.count, 0);
  const total = same.reduce((sum, gap) => sum + gap.count, 0);
  const more = total - count("dead");
  say(part("confirm-text"), `${name} is asked again for ${number(count("dead"))} dead ${count("dead") === 1 ? "letter" : "letters"} (${gapReason(why)})${more ? ` and for ${number(more)} others owed, absent or gone for the same reason` : ""}. Every request waits for its turn; nothing goes faster.`);
  confirmed("Ask again", () => replay(name, why));
}

function confirmed(label, then) {
  const dialog = part("confirm");
  say(part("confirm-title"), `${label}?`);
  say(part("confirm-yes"), label);
  dialog.returnValue = "no";
  dialog.addEventListener("close", () => {
    if (dialog.returnValue === "yes") then();
  }, { once: true });
  dialog.showModal();
}

// -- what an operator does ----------------------------------------------------------------------------------------------

// A GET, or a POST where there is a body; an answer, or why there is none.
async function ask(path, body) {
  const sent = body === undefined ? undefined : { method: "POST", headers: { "X-Remora": "1", "Content-Type": "application/json" }, body: JSON.stringify(body) };
  try {
    const answer = await fetch(path, sent);
    if (answer.status === 401) showSignedOut();
    return await answer.json();
  } catch {
    return { error: "the service does not answer", hint: "" };
  }
}

function act(name, action) {
  const question = QUESTIONS_BEFORE[action];
  const label = { pause: "Pause", run: "Run now", lower: "Half speed for an hour" }[action];
  if (!question) return doIt(name, action);
  say(part("confirm-text"), question(name));
  confirmed(label, () => doIt(name, action));
}

async function doIt(name, action) {
  const ceiling = page.last.sources[name].ceiling_interval_ns;
  const body = action === "lower" ? { ceiling: slower(2 * ceiling), for: "1h" } : {};
  const told = await ask(`api/sources/${encodeURIComponent(name)}/${action}`, body);
  const result = document.querySelector(".source:not([hidden]) .acted");
  result.hidden = false;
  say(result, told.done ? `${told.done[0].toUpperCase()}${told.done.slice(1)}.` : `Not done: ${told.error}. ${told.hint}`);
  announce(result.textContent);
  readTimeline();
}

// A rate as the service reads it: whole requests in the shortest span that holds a hundred of them.
function slower(intervalNs) {
  const counted = (seconds) => Math.floor((seconds * 1e9) / intervalNs);
  // Half of 30/s is 899/min; as whole requests a second it would be 14.
  const [seconds, unit] = [[1, "s"], [60, "min"], [3600, "h"]].find(([span]) => counted(span) >= 100) ?? [86400, "d"];
  return `${Math.max(1, counted(seconds))}/${unit}`;
}

async function testNotice() {
  const told = await ask("api/notify/test", {});
  say(part("tested"), told.done ?? `${told.error}`);
}

async function readTimeline() {
  const found = await ask("api/timeline");
  if (found.sources) page.timeline = found.sources;
}

async function replay(name, why) {
  const card = [...document.querySelectorAll(".source")].find((each) => each.dataset.name === name);
  const result = card.querySelector(".gaps .result");
  let told;
  try {
    const answer = await fetch("api/gaps/replay", {
      method: "POST",
      headers: { "X-Remora": "1", "Content-Type": "application/json" },
      body: JSON.stringify({ source: name, reason: why }),
    });
    if (answer.status === 401) return showSignedOut();
    const reply = await answer.json();
    told = answer.ok ? `${number(reply.replayed)} ${reply.replayed === 1 ? "is" : "are"} due now (${gapReason(why)}).` : `Not done: ${reply.error}. ${reply.hint}`;
  } catch {
    told = "Not done: the service does not answer.";
  }
  result.hidden = false;
  say(result, told);
  announce(told);
}

// -- what the service says ----------------------------------------------------------------------------------------------

function heard(status) {
  page.heardAt = Date.now();
  page.status = status;
  if (status.sources) {
    page.last = status;
    page.lastAt = Date.now() / 1000;
    for (const [name, { rate: pace }] of Object.entries(status.sources)) {
      if (pace.known) carryOn(historyOf(name), pace, secondsOf(status.as_of_ns));
    }
  }
  draw();
}

// Between two readings of the history, what the events say is drawn at once.
function carryOn(history, pace, at) {
  history.points.push({ at, span: 1, allowed: perSecond(pace.interval_ns), leaving: sentPerSecond(pace), refused: null, items: null, age: null });
  if (history.points.length > POINTS_MAX) history.points.shift(); // the history was not to be had for long
  const back = pace.last_back_off;
  const last = history.backoffs[history.backoffs.length - 1];
  if (back && (!last || last.at < secondsOf(back.at_ns) - 0.001)) {
    history.backoffs.push({ at: secondsOf(back.at_ns), reason: back.reason, from: back.from_per_s, to: back.to_per_s });
  }
}

const pointOf = ([at, width, allowed, leaving, refused, items, age]) => ({ at, span: width, allowed, leaving, refused, items, age });

async function readLongHistory() {
  const found = await ask("api/history/long");
  for (const [name, points] of Object.entries(found.sources ?? {})) historyOf(name).long = points.map(pointOf);
}

async function readHistory() {
  try {
    const answer = await fetch("api/history");
    if (answer.status === 401) return showSignedOut();
    if (!answer.ok) return;
    const found = await answer.json();
    for (const [name, { points, backoffs }] of Object.entries(found.sources)) {
      const history = historyOf(name);
      history.points = points.map(pointOf);
      history.backoffs = backoffs.map(([at, reason, from, to]) => ({ at, reason, from, to }));
    }
  } catch {
    return; // the banner says that nobody answers; the chart keeps what it has
  }
  draw();
}

// An event stream does not tell why it was refused; a plain request does.
async function isSignedOut() {
  try {
    return (await fetch("api/history")).status === 401;
  } catch {
    return false;
  }
}

// Old numbers would look like the present: nothing of them stays on the screen.
function showSignedOut() {
  page.signedOut = true;
  page.events.close();
  for (const card of document.querySelectorAll(".source")) card.remove();
  for (const id of ["overview", "back", "lost"]) part(id).hidden = true;
  part("runtimes").replaceChildren();
  part("signed-out").hidden = false;
  say(part("verdict"), "Signed out.");
  say(part("connection"), "signed out");
  part("connection").dataset.state = "lost";
  document.title = "? Remora";
  announce("Signed out: log in again.");
}

function listen() {
  page.events = new EventSource("api/events");
  page.events.addEventListener("open", readHistory);
  page.events.addEventListener("open", readTimeline);
  page.events.addEventListener("open", readLongHistory);
  page.events.addEventListener("status", (event) => heard(JSON.parse(event.data)));
  page.events.addEventListener("items", (event) => {
    page.items = JSON.parse(event.data);
    draw();
  });
  page.events.addEventListener("error", async () => {
    // A browser gives up for good after some refusals; we do not, unless the session has ended.
    if (page.events.readyState !== EventSource.CLOSED) return;
    if (await isSignedOut()) showSignedOut();
    else setTimeout(listen, RECONNECT_MS);
  });
}

listen();
part("test-notice").hidden = false;
part("test-notice").addEventListener("click", testNotice);
setInterval(() => { if (Date.now() - page.heardAt > BEATS_BEFORE_UNKNOWN * 1000) draw(); }, 1000);
setInterval(() => { if (!page.lost && !page.signedOut) { readHistory(); readTimeline(); } }, HISTORY_EVERY_MS);
setInterval(() => { if (!page.lost && !page.signedOut) readLongHistory(); }, LONG_HISTORY_EVERY_MS);
addEventListener("hashchange", () => { draw(); part("sources").focus(); scrollTo(0, 0); });
new ResizeObserver(() => { for (const card of document.querySelectorAll(".source")) card.view.redraw?.(); }).observe(part("sources"));
