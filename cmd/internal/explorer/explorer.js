// Spares a reload: follows the page's own links and forms, and puts the new parts
// where the old ones were, so that focus stays and the change of the row is spoken.
// Without it the page does the same by loading.
"use strict";

const parts = ["design", "row", "rest"];
let timer = 0, latest = 0;

// place finds the element that had the focus in the new page, or the first step.
function place(key) {
  for (const name of [key, "step-1", "undo"]) {
    const found = name && document.querySelector(`[data-key="${CSS.escape(name)}"]`);
    if (found) {
      found.focus({ preventScroll: true });
      found.scrollIntoView({ block: "nearest" });
      return;
    }
  }
}

async function go(url, key, keep) {
  clearTimeout(timer);
  const mine = ++latest;
  let answer;
  try {
    answer = await fetch(url, { headers: { Accept: "text/html" } });
  } catch {
    location.assign(url); // the browser says better what is wrong
    return;
  }
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (mine !== latest) return;
  if (!parts.every((id) => page.getElementById(id) && document.getElementById(id))) {
    location.assign(url);
    return;
  }
  for (const id of parts) document.getElementById(id).replaceWith(document.adoptNode(page.getElementById(id)));
  const said = document.getElementById("said"), words = page.getElementById("said").textContent;
  if (said.textContent !== words) said.textContent = words;
  document.title = page.title;
  if (keep) history.pushState(null, "", answer.url);
  if (key !== undefined) place(key);
  auto();
}

// auto plays the rest of a trace, unless movement is not wanted.
function auto() {
  clearTimeout(timer);
  const next = document.querySelector('[data-key="redo"]');
  if (next && document.querySelector("#row[data-auto]") && !matchMedia("(prefers-reduced-motion: reduce)").matches) {
    timer = setTimeout(() => go(next.href, document.activeElement?.dataset.key, true), 1100);
  }
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-key]");
  if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  go(link.href, link.dataset.key, true);
});

document.addEventListener("submit", (event) => {
  const form = event.target, button = event.submitter;
  event.preventDefault();
  const url = new URL(form.action);
  url.search = new URLSearchParams(new FormData(form, button)).toString();
  const key = button?.dataset.key ?? "";
  go(url.href, key.startsWith("step-") ? "step-1" : key, true);
});

// Keys act only while the focus is on the steps or the path.
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || !event.target.closest?.("#rest")) return;
  const key = /^[1-9]$/.test(event.key) ? `[data-key="step-${event.key}"]` : /^[a-z]$/.test(event.key) ? `[data-char="${event.key}"]` : "";
  const found = key && document.querySelector(key);
  if (found) {
    event.preventDefault();
    found.click();
  }
});

addEventListener("popstate", () => go(location.href, undefined, false));
auto();
