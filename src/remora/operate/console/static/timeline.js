// What happened, what is behind a count, and what can an operator do? The timeline, the list of gaps, and the actions.
import { ago, element, gapReason, gapState, human, moment, number, perSecond, plain, rate, say, secondsOf, span, sync } from "./words.js";

const KINDS = { provider_down: "provider", back_off: "back-off", dead_letters: "dead letters" };
const EVENTS_SHOWN = 200;

// -- the timeline -------------------------------------------------------------------------------------------------------

export function drawTimeline(panel, events, rangeS, now) {
  const recent = events.filter((event) => secondsOf(event.until_ns ?? event.at_ns) >= now - rangeS).slice(-EVENTS_SHOWN).reverse();
  for (const button of panel.querySelectorAll(".ranges button")) button.setAttribute("aria-pressed", String(Number(button.dataset.span) === rangeS));
  say(panel.querySelector(".note"), recent.length ? `${number(recent.length)} ${recent.length === 1 ? "event" : "events"} in the last ${span(rangeS)}, the newest first.` : `Nothing happened in the last ${span(rangeS)}.`);
  sync(panel.querySelector("ol"), recent.map((event) => [`${event.kind} ${event.at_ns} ${event.until_ns === null}`, event]), (event) => {
    const row = element("li", undefined, `event ${event.kind}`);
    row.append(element("span", "", "when"), element("span", KINDS[event.kind] ?? plain(event.kind), "kind"), element("span", "", "what"));
    return row;
  }, (row, event) => {
    const [when, , what] = row.children;
    const until = event.until_ns === null ? "" : `; lasted ${span(secondsOf(event.until_ns - event.at_ns))}`;
    say(when, moment(secondsOf(event.at_ns), now));
    say(what, `${human(event.text, now)}${event.count > 1 ? `, ${number(event.count)} times` : ""}${until}`);
  });
}

// -- what is behind a count ---------------------------------------------------------------------------------------------

export async function showGaps(name, { state, reason }, ask) {
  const dialog = document.getElementById("behind");
  const list = dialog.querySelector("tbody");
  say(dialog.querySelector("h2"), `${name}: ${gapState({ state, reason, kind: "item" })} (${gapReason(reason)})`);
  list.replaceChildren();
  say(dialog.querySelector(".note"), "Reading …");
  dialog.showModal();
  const found = await ask(`api/gaps?${new URLSearchParams({ source: name, state, reason })}`);
  if (found.error) return say(dialog.querySelector(".note"), `Not known: ${found.error}.`);
  const hidden = found.gaps.some((gap) => gap.is_fingerprint) ? " Keys of this source are private: fingerprints are shown." : "";
  const more = found.gaps.length === found.most ? `The oldest ${number(found.most)} are shown.` : `${number(found.gaps.length)} in all.`;
  say(dialog.querySelector(".note"), more + hidden);
  const now = Date.now() / 1000;
  list.replaceChildren(...found.gaps.map((gap) => {
    const row = element("tr");
    row.append(element("td", gap.key), element("td", ago(now - secondsOf(gap.first_seen_ns))), element("td", gap.why));
    return row;
  }));
}

// -- actions ------------------------------------------------------------------------------------------------------------

export function makeActions(card, act) {
  for (const button of card.querySelectorAll(".actions button")) button.addEventListener("click", () => act(button.dataset.action));
}

export function drawActions(card, source, old) {
  const orders = source.orders ?? {};
  const paused = Boolean(orders.paused_at_ns);
  const shown = { pause: !paused, resume: paused, run: source.kind === "listed", lower: !orders.interval_ns, restore: Boolean(orders.interval_ns) };
  for (const button of card.querySelectorAll(".actions button")) {
    button.hidden = !shown[button.dataset.action];
    button.disabled = old || source.state !== "running";
  }
  const until = orders.until_ns ? ` until ${moment(secondsOf(orders.until_ns), Date.now() / 1000)}` : "";
  const lowered = card.querySelector(".lowered");
  lowered.hidden = !orders.interval_ns;
  if (orders.interval_ns) say(lowered, `An operator lowered the ceiling to ${rate(perSecond(orders.interval_ns))}${until}.`);
}

export const QUESTIONS_BEFORE = {
  pause: (name) => `Nothing is sent to ${name} until you resume it, also after a restart. Nothing is lost: what is missed is fetched afterwards.`,
  run: (name) => `A run of ${name} begins now instead of at its next time. It keeps the ceiling.`,
  lower: (name) => `${name} sends at most half of the owner's ceiling for one hour. Only remora.toml can raise the ceiling.`,
};
