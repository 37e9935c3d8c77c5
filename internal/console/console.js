// Keeps the page live: the server says that something else is to be seen, the page is
// asked for again, and its parts are put where the old ones were. A part in which
// somebody types stays as it is. Without this script the page has a link for that.
"use strict";

const note = document.getElementById("stale-note"), foot = document.getElementById("live-note");
let source = null, asking = false, again = false, pressed = false;

// What is being clicked must still be there when the button comes up.
addEventListener("pointerdown", () => (pressed = true), true);
for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => setTimeout(() => (pressed = false)), true);

async function released() {
  while (pressed) await new Promise((go) => setTimeout(go, 50));
}

// busy reports whether somebody is typing in a part, or has typed.
function busy(part) {
  const fields = part.querySelectorAll("input:not([type=hidden]), select, textarea");
  return [...fields].some((f) => f === document.activeElement || (f.value !== f.defaultValue && f.defaultValue !== undefined));
}

function say(text) {
  note.textContent = text;
  note.hidden = text === "";
}

// swap puts a new part where the old one is, so that the focus stays and what was
// opened stays open.
function swap(old, fresh) {
  if (busy(old) || old.innerHTML === fresh.innerHTML) return;
  const key = old.contains(document.activeElement) ? document.activeElement.dataset.key : "";
  const open = [...old.querySelectorAll("details[open]")].map((d) => d.dataset.key);
  const scrolled = [...old.querySelectorAll(".scroll")].map((s) => s.scrollLeft);
  old.replaceWith(document.adoptNode(fresh));
  for (const d of fresh.querySelectorAll("details")) if (open.includes(d.dataset.key)) d.open = true;
  fresh.querySelectorAll(".scroll").forEach((s, i) => (s.scrollLeft = scrolled[i] ?? s.scrollLeft));
  if (key) fresh.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
}

async function ask() {
  if (asking) {
    again = true;
    return;
  }
  asking = true;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html", "X-Console-Part": "1" } });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    await released();
    const parts = [...document.querySelectorAll("[data-part]")];
    if (!answer.ok) {
      say("Not the latest: " + (page.querySelector("main .problem:not([hidden])")?.textContent ?? answer.statusText));
    } else {
      say("");
      for (const part of parts) {
        const fresh = page.getElementById(part.id);
        if (fresh) swap(part, fresh);
      }
    }
  } catch {
    say("Not the latest: the console does not answer.");
  }
  asking = false;
  if (again) {
    again = false;
    ask();
  }
}

function watch() {
  if (source || document.hidden) return;
  source = new EventSource("live?of=" + encodeURIComponent(document.body.dataset.live));
  source.addEventListener("changed", ask);
  source.addEventListener("open", () => foot?.classList.add("on"));
  source.addEventListener("error", () => {
    foot?.classList.remove("on");
    say("Not the latest: the console does not answer.");
  });
}

// A page that nobody sees costs nothing.
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) return watch();
  source?.close();
  source = null;
});
addEventListener("pagehide", () => source?.close());

if (document.body.dataset.watch) watch();
