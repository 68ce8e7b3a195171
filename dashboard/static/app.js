// Keeps an open page up to date: one stream of events for all that the page shows.
import { follow } from "./live.js";
import { fillTable, fillRecords } from "./table.js";

const frames = new Map(); // the last event of each view
const listeners = []; // called with each event

/** on calls f with each event of a view, and with the last one. */
export function on(view, f) {
  listeners.push([view, f]);
  if (frames.has(view)) f(frames.get(view));
}

function receive(frame) {
  frames.set(frame.view, frame);
  for (const section of document.querySelectorAll("[data-table]")) {
    if (section.dataset.table === frame.view) fillTable(section, frame);
  }
  for (const section of document.querySelectorAll("[data-records]")) {
    if (section.dataset.records === frame.view) fillRecords(section, frame);
  }
  for (const [view, f] of listeners) if (view === frame.view) f(frame);
}

const themes = ["system", "light", "dark"];

function themeButton() {
  const button = document.getElementById("theme");
  const show = () => { button.textContent = "Theme: " + (localStorage.getItem("weft-theme") ?? "system"); };
  button.hidden = false;
  button.addEventListener("click", () => {
    const now = localStorage.getItem("weft-theme") ?? "system";
    const next = themes[(themes.indexOf(now) + 1) % themes.length];
    if (next === "system") {
      localStorage.removeItem("weft-theme");
      delete document.documentElement.dataset.theme;
    } else {
      localStorage.setItem("weft-theme", next);
      document.documentElement.dataset.theme = next;
    }
    show();
    document.dispatchEvent(new Event("theme"));
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => document.dispatchEvent(new Event("theme")));
  show();
}

themeButton();
if (document.getElementById("charts")) (await import("./chart.js")).start(on);
if (document.getElementById("map")) (await import("./map.js")).start(on);
follow(document.body.dataset.views, receive);
