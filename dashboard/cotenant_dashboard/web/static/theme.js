// Light, dark, or as the system says. Not a module: it runs before anything is drawn.
"use strict";
(() => {
  const KEY = "cotenant-theme";
  const CHOICES = ["automatic", "light", "dark"];
  const read = () => {
    try {
      const kept = localStorage.getItem(KEY);
      return CHOICES.includes(kept) ? kept : CHOICES[0];
    } catch {
      return CHOICES[0]; // storage may be forbidden
    }
  };
  const keep = (choice) => {
    try {
      localStorage.setItem(KEY, choice);
    } catch {
      // then it holds until the page is left
    }
  };
  let choice = read();
  const show = () => {
    document.documentElement.dataset.theme = choice;
    const button = document.getElementById("theme");
    if (button !== null) button.textContent = `Theme: ${choice}`;
  };
  show();
  document.addEventListener("DOMContentLoaded", () => {
    show();
    document.getElementById("theme").addEventListener("click", () => {
      choice = CHOICES[(CHOICES.indexOf(choice) + 1) % CHOICES.length];
      keep(choice);
      show();
    });
  });
})();
