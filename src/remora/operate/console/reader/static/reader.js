// What can a keyboard do in the reader? j and k walk, x folds, / searches. Without this file every page still works.
// A link into a long thread is followed again after the first layout, because heights were only estimated before.
"use strict";

(() => {
  const TYPING = "input, textarea, select";
  const stops = () => [...document.querySelectorAll("main .c > summary, main a.key")].filter((node) => node.checkVisibility());
  const here = () => stops().indexOf(document.activeElement);

  const walk = (step) => {
    const all = stops();
    if (!all.length) return;
    const next = all[Math.min(Math.max(here() + step, 0), all.length - 1)];
    next.focus({ preventScroll: true });
    next.scrollIntoView({ block: "center" });
  };
  const fold = () => {
    const comment = document.activeElement.closest(".c");
    if (!comment) return;
    comment.open = !comment.open;
    comment.querySelector("summary").focus();
    document.getElementById("announcement").textContent = comment.open ? "unfolded" : "folded";
  };
  const search = () => document.getElementById("find").focus();
  const acts = { j: () => walk(1), k: () => walk(-1), x: fold, "/": search };

  const arrive = () => document.querySelector(":target")?.scrollIntoView({ block: "start" });
  addEventListener("load", () => requestAnimationFrame(() => requestAnimationFrame(arrive)));

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches(TYPING)) return;
    const act = acts[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
})();
