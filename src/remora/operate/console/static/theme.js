// Light or dark? What the reader chose, else what the system says. Runs before the page is painted.
"use strict";

(() => {
  const CHOICES = ["auto", "light", "dark"];
  const read = () => {
    try { return localStorage.getItem("remora-theme"); } catch { return null; } // storage may be forbidden
  };
  const keep = (choice) => {
    try { localStorage.setItem("remora-theme", choice); } catch { /* then it lasts as long as the page */ }
  };
  let choice = CHOICES.includes(read()) ? read() : "auto";
  const apply = () => {
    document.documentElement.dataset.theme = choice;
    const button = document.getElementById("theme");
    if (button) button.textContent = `Theme: ${choice}`;
  };
  apply();
  document.addEventListener("DOMContentLoaded", () => {
    apply();
    const button = document.getElementById("theme");
    button.hidden = false; // without this script it would do nothing
    button.addEventListener("click", () => {
      choice = CHOICES[(CHOICES.indexOf(choice) + 1) % CHOICES.length];
      keep(choice);
      apply();
    });
  });
})();
