// The dashboard: which view is shown, by the address after '#', and what
// surrounds it.
//
//   #/                    all runs
//   #/run/ID[/TAB]        one run
//   #/compare/ID,ID,...   runs beside each other
//   #/help[/WORD]         what words mean

import {account} from "./account.js";
import {themeChanged} from "./canvas.js";
import {userless} from "./control.js";
import {follow, get, Refused, token, Unreachable} from "./data.js";
import {compareView} from "./compare.js";
import {helpView} from "./help.js";
import {runView} from "./run.js";
import {runsView} from "./runs.js";
import {el, put} from "./text.js";

const $ = (id) => document.getElementById(id);
const SAID_MS = 12000;
const THEMES = ["auto", "light", "dark"];

let view = null, live = null;

// An answer to a command stays to be read for a while; what is wrong, until it
// is right again.
let said = 0;

function notice(text) {
  $("notice").hidden = !text;
  put($("notice"), text || "");
}
function say(text) {
  said = Date.now() + SAID_MS;
  notice(text);
}

// A server that other machines reach shows nothing without it.
function wantToken() {
  if ($("token-wanted")) return;
  const secret = el("input"), label = el("label", "token "), form = el("form", userless());
  form.id = "token-wanted";
  secret.type = "password";
  secret.autocomplete = "off";
  label.append(secret);
  const use = el("button", "use this token"); // Enter alone sends no form that has two fields
  use.type = "submit";
  form.append(el("p", "This server shows nothing without a token: yours, or the text of the file “token” in its state folder. " +
    "This tab keeps it until it is closed."), el("div.buttons", label, use));
  form.addEventListener("submit", (e) => {
    e.preventDefault();
    token.set(secret.value.trim());
    notice("");
    live.now();
  });
  notice("");
  $("notice").hidden = false;
  $("notice").append(form);
  secret.focus();
}

function answered(ok, error, over) {
  if (ok) return Date.now() > said ? notice("") : undefined;
  if (error instanceof Refused && error.status === 401) return wantToken();
  // It is asked again: a service that begins reads its runs first.
  if (error instanceof Refused) return notice(error.status === 404 || error.code === "not_ready" ? error.message
    : "The server refuses: " + error.message);
  if (!(error instanceof Unreachable)) {
    console.error(error);
    return notice("This page has a fault: " + error.message);
  }
  notice(over ? "The run has ended, and its server with it. What is shown is how it ended."
    : "No answer: the run has ended, or its machine cannot be reached. " +
    "What is shown is the last that was known.");
}

function wanted() {
  const [path] = location.hash.slice(1).split("?");
  const [, kind, id, tab] = path.split("/").map(decodeURIComponent);
  if (kind === "run" && id) return {make: runView, id, tab: tab || ""};
  if (kind === "compare" && id) return {make: compareView, id};
  if (kind === "help") return {make: helpView, id: id || ""};
  return {make: runsView, id: null};
}

function show() {
  const to = wanted();
  if (view && view.follows && view.follows(to)) return;
  for (const box of document.querySelectorAll("dialog")) box.close(); // it was about what goes now
  if (live) live.end();
  if (view) view.destroy();
  view = to.make({...to, crumbs, notice: say});
  $("main").replaceChildren(view.root);
  said = 0;
  notice("");
  live = follow(view.run, () => view.refresh(), answered);
  scrollTo(0, 0);
}

function crumbs(title, ...parts) {
  document.title = title + " · mltune";
  $("crumbs").replaceChildren(...parts.flatMap((p, i) => {
    const here = i === parts.length - 1 ? ".crumb-here" : "";
    if (here) { p.classList.add("crumb-here"); p.title = p.textContent; }
    return [el("span.quiet" + here, "/"), p];
  }));
}

function setTheme(name) {
  if (name === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  $("theme").replaceChildren(el("span.roomy", "theme: "), name);
  $("theme").setAttribute("aria-label", "theme: " + name);
  themeChanged();
}

$("theme").addEventListener("click", () => {
  const now = localStorage.getItem("mltune-theme") || "auto";
  const next = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length];
  localStorage.setItem("mltune-theme", next);
  setTheme(next);
});
// The address after '#' says what is shown, so this is no ordinary link.
$("skip").addEventListener("click", (e) => {
  e.preventDefault();
  $("main").focus();
});
$("theme").hidden = $("loading").hidden = false; // without this script they would say what is not so
addEventListener("hashchange", show);
setTheme(localStorage.getItem("mltune-theme") || "auto");
account($("who"), say, () => live?.now());
get("/version").then((v) => put($("version"), v.name + " " + v.version)).catch(() => {});

// A server with one run shows that one; a service that reads its runs shows all.
async function begin() {
  if (location.hash.length <= 2) {
    const {runs} = await get("/runs", {page_size: 2}).catch(() => ({runs: []}));
    if (runs.length === 1 && location.hash.length <= 2)
      history.replaceState(null, "", "#/run/" + encodeURIComponent(runs[0].run));
  }
  show();
}
begin();
