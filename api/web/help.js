// What the words of the page mean: the glossary of the documentation, which the
// server has beside the page. Headings and columns that are such a word have a
// "?" that tells it and leads to its place there.

import {el, link} from "./text.js";

// What headings and columns say, by the glossary's word.
const WORDS = {trial: "trial", trials: "trial", search: "search", verdict: "label", setting: "setting", speed: "speed",
  clocks: "clock", epochs: "epoch", "setting in use": "setting", "training loss": "surviving lineage",
  tuning: "search", "branches over time": "branch", "staleness of reads": "staleness", model: "model", importance: "importance",
  "speed by two tunables": "speed", "history of the search": "search", "parallel coordinates": "setting", why: "decision",
  "memory of branches": "chunk", node: "node", workers: "worker", "bandwidth used by each node": "bandwidth budget",
  "further metrics": "metric"};
const wordOf = (heading) => heading.startsWith("validation") ? "metric" : WORDS[heading];

let words = null;

// [{part, word, meaning}] of the tables of glossary.md.
export function parsed(text) {
  const out = [];
  let part = "";
  for (const line of text.split("\n")) {
    if (line.startsWith("## ")) part = line.slice(3);
    const cells = line.split("|").map((c) => c.trim().replaceAll(/[`*]/g, ""));
    if (part && cells.length >= 4 && cells[1] !== "word" && !/^-+$/.test(cells[1]))
      out.push({part, word: cells[1], meaning: cells[2]});
  }
  return out;
}

function glossary() {
  words ||= fetch("/web/glossary.md").then((reply) => reply.ok ? reply.text() : "").then(parsed)
    .catch(() => { words = null; return []; });
  return words;
}

const names = (entry) => entry.word.split(",").map((w) => w.trim());

// Gives each heading below @root that is a word of the glossary its "?".
export async function explain(root) {
  const all = await glossary();
  for (const heading of root.querySelectorAll("h2, th")) {
    const word = wordOf(heading.textContent), entry = all.find((e) => names(e).includes(word));
    if (!entry || heading.dataset.told) continue;
    heading.dataset.told = word;
    const mark = link("?", "#/help/" + encodeURIComponent(word));
    mark.className = "help";
    mark.title = word + ": " + entry.meaning;
    mark.setAttribute("aria-label", "what is " + word + "? " + entry.meaning);
    if (heading.tagName === "TH") heading.append(mark);
    else heading.after(mark);
  }
}

// All words; the one that was asked for is marked and in sight.
export function helpView({id, crumbs}) {
  const body = el("div.stacked"), root = el("div.stacked", el("section.card", el("h1", "glossary"),
    el("p", "What the words of this page mean.")), body);
  crumbs("glossary", link("runs", "#/"), el("span", "glossary"));
  async function refresh() {
    const all = await glossary();
    if (body.firstChild || all.length === 0) return false;
    for (const part of new Set(all.map((e) => e.part))) {
      const list = el("dl.facts");
      for (const e of all.filter((k) => k.part === part)) {
        const term = el("dt", e.word), text = el("dd", e.meaning);
        if (names(e).includes(id)) { term.classList.add("asked"); text.classList.add("asked"); }
        list.append(term, text);
      }
      body.append(el("section.card", el("div.head", el("h2", part)), list));
    }
    body.querySelector(".asked")?.scrollIntoView({block: "center"});
    return false;
  }
  return {root, run: null, refresh, destroy() {}};
}
