// What the training system wrote: the end of a run's log, and what comes.

import {get, getPiece, Refused, runPath, Unreachable} from "./data.js";
import {bytes, el, ENDED, put} from "./text.js";

const SHOWN = 256 * 1024; // characters that are kept in the page
const FIRST = 64 * 1024;  // bytes that are read at first
const PIECE = 256 * 1024;
const LOOK_MS = 2000;
const AFTER = 2; // looks after the end: the program ends a moment after its run
const CONTROL = /[\x00-\x08\x0b-\x1f\x7f]/g; // but tabs and ends of lines

// A line that was drawn over and over, as bars of progress are, is what it was
// at last.
function readable(text) {
  return text.replace(/\r\n/g, "\n").replace(/[^\n]*\r(?=[^\n])/g, "").replace(CONTROL, "");
}

export function logTab(id, {failed}) {
  const text = el("pre.log"), note = el("p.quiet"), which = el("select");
  const label = el("label", "process ", which);
  const head = el("div.head", el("h2", "log"), label);
  const root = el("div.stacked", el("section.card", head, text, note));
  let node = 0, turn = 0, at = null, from = 0, tail = "", decoder = new TextDecoder(), busy = false;
  let over = false, timer = null, gone = false, nodes = null, again = false, after = 0;
  text.tabIndex = 0;
  text.setAttribute("role", "log");
  text.setAttribute("aria-label", "the last lines of the log");
  which.addEventListener("change", () => {
    node = Number(which.value);
    turn++; // what is still asked for is of another process
    at = null;
    from = after = 0;
    tail = "";
    put(text, "");
    put(note, "loading");
    look();
  });

  function show() {
    const below = text.scrollHeight - text.scrollTop - text.clientHeight < 24;
    put(text, readable(tail));
    if (below) text.scrollTop = text.scrollHeight;
    put(note, tail === "" ? (over ? "It wrote nothing: the run has ended, and this log is empty." : "It has written nothing so far.") : "up to byte " + at.toLocaleString("en") +
      (from > 0 ? "; the last " + bytes(at - from) + " are shown" : "") +
      (over ? "" : "; what comes is added") + ". mltune log " + id + " -f shows it in a terminal.");
  }
  // A first piece from the middle of the log begins with a whole line.
  function take(piece) {
    if (at === null || piece.from !== at) {
      decoder = new TextDecoder();
      tail = decoder.decode(piece.bytes, {stream: true});
      from = piece.from;
      if (from > 0) tail = tail.slice(tail.indexOf("\n") + 1);
    } else {
      tail += decoder.decode(piece.bytes, {stream: true});
    }
    if (tail.length > SHOWN) {
      tail = tail.slice(-SHOWN);
      tail = tail.slice(tail.indexOf("\n") + 1);
      from = piece.next - SHOWN;
    }
    at = piece.next;
  }
  async function read() {
    for (let more = true; more && !gone;) {
      const asked = turn, begun = at === null;
      const piece = await getPiece(runPath(id, "/log"), at === null
        ? {node, offset: -FIRST, limit: FIRST} : {node, offset: at, limit: PIECE}).catch((error) => {
        if (asked === turn) throw error;
      });
      if (asked !== turn) continue;
      more = piece.bytes.length === (begun ? FIRST : PIECE);
      take(piece);
    }
    show();
  }
  async function look() {
    clearTimeout(timer);
    again = busy;
    if (busy || gone) return;
    busy = true;
    try {
      await read();
    } catch (error) {
      if (error instanceof Refused && error.status === 404) put(note, over ? "There is no log: this process was never started."
        : "There is no log yet: this process has not been started.");
      else if (!(error instanceof Unreachable)) failed(error.message);
    }
    busy = false;
    if (gone) return;
    if (again) return look();
    if (!over || after++ < AFTER) timer = setTimeout(look, LOOK_MS);
  }
  async function refresh(run) {
    if (nodes === null) {
      const config = await get(runPath(id, "/config"));
      nodes = (config && config.cluster && config.cluster.nodes) || 1;
    }
    if (over !== ENDED.has(run.status)) after = 0;
    over = ENDED.has(run.status);
    label.hidden = nodes < 2;
    while (which.options.length < nodes) which.append(new Option(String(which.options.length)));
    await look();
  }
  return {root, refresh, destroy() { gone = true; clearTimeout(timer); }};
}
