// Data of the server: reads, writes with the token, live events, files to keep.

const API = "/api/v1";
const TOKEN = "mltune-token";
const EVENTS_MS = 1000;
// Following takes at most one part in ten of the time: a large run is asked for
// less often.
const REST = 10;
const RETRY_MS = 4000;
const OVER_MS = 15000;

// Kinds of events, as the run's journal names them.
const KINDS = ["run_started", "run_status", "run_finished", "run_resumed", "command",
  "search_started", "search_decided", "search_ended", "trial_started", "trial_updated",
  "trial_ended", "branch_created", "branch_freed", "slice_scheduled", "slice_ended",
  "model_saved", "node", "user_branch", "suggestion", "asking"];

export class Refused extends Error {
  constructor(status, problem) {
    const faults = (problem.errors || []).map((e) => (e.pointer + " " + e.detail).trim());
    super([problem.detail || "status " + status, ...faults].join("; "));
    this.status = status;
    this.code = problem.code;
    this.errors = problem.errors || []; // [{pointer, detail}]
  }
}

// No answer at all; everything else that is thrown is a fault of the page's own.
export class Unreachable extends Error {}

async function ask(path, options) {
  try {
    return await fetch(API + path, options);
  } catch (error) {
    throw new Unreachable(error.message);
  }
}

async function answer(reply) {
  const body = await reply.json().catch(() => ({}));
  if (!reply.ok) throw new Refused(reply.status, body);
  return body;
}

export async function get(path, query = {}) {
  const given = Object.entries(query).filter(([, v]) => v !== undefined && v !== null);
  const text = new URLSearchParams(given).toString();
  const headers = {accept: "application/json"};
  // A server that other machines reach wants it for reads too.
  if (token.get()) headers.authorization = "Bearer " + token.get();
  return answer(await ask(path + (text ? "?" + text : ""), {headers}));
}

// A piece of a log: its bytes as they are, and where they stand.
export async function getPiece(path, query) {
  const headers = token.get() ? {authorization: "Bearer " + token.get()} : {};
  const reply = await ask(path + "?" + new URLSearchParams(Object.entries(query)), {headers});
  if (!reply.ok) return answer(reply);
  return {bytes: new Uint8Array(await reply.arrayBuffer()),
    from: Number(reply.headers.get("log-offset")), next: Number(reply.headers.get("log-next-offset"))};
}

export function runPath(run, rest = "") {
  return "/runs/" + encodeURIComponent(run) + rest;
}

// ---- writes ----------------------------------------------------------------

export const token = {
  get: () => sessionStorage.getItem(TOKEN) || "",
  set(text) { sessionStorage.setItem(TOKEN, text); token.changed(); },
  forget() { sessionStorage.removeItem(TOKEN); token.changed(); },
  changed() {}, // set by whoever wants to know
};

// A key that no other write has. crypto.randomUUID is not there for a page that came
// over HTTP from another machine, as from behind a proxy.
const newKey = () => [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, "0")).join("");

// The key lets the server see a repetition: a write that is sent again because
// its answer was lost is not carried out twice.
export async function write(method, path, body) {
  const headers = {authorization: "Bearer " + token.get(),
    "idempotency-key": newKey()};
  if (body !== undefined) headers["content-type"] = "application/json";
  return answer(await ask(path, {method, headers, body: body === undefined ? undefined : JSON.stringify(body)}));
}

const PIECE = 1 << 20; // bytes of a piece of a file, which the service takes

// Puts a file into the service's data folder; sent(bytes) after each piece.
export async function upload(file, sent) {
  const headers = {authorization: "Bearer " + token.get(), "content-type": "application/octet-stream"};
  for (let offset = 0; offset === 0 || offset < file.size; offset += PIECE) {
    const query = new URLSearchParams({offset, size: file.size, ...(offset === 0 ? {anew: true} : {})});
    await answer(await ask("/data/" + encodeURIComponent(file.name) + "?" + query,
      {method: "POST", headers, body: file.slice(offset, offset + PIECE)}));
    sent(Math.min(file.size, offset + PIECE));
  }
}

// ---- live ------------------------------------------------------------------

// Live events by fetch: an EventSource cannot carry the token. heard(kind) for each,
// "open" and "error" among them, as EventSource has them.
class Stream {
  constructor(path, heard) {
    this.readyState = EventSource.OPEN;
    this.stop = new AbortController();
    this.read(path, heard);
  }
  close() {
    this.readyState = EventSource.CLOSED;
    this.stop.abort();
  }
  async read(path, heard) {
    const headers = {accept: "text/event-stream", authorization: "Bearer " + token.get()};
    try {
      const reply = await fetch(API + path, {headers, signal: this.stop.signal}), decoder = new TextDecoder();
      const reader = reply.ok ? reply.body.getReader() : null;
      if (reader) heard("open");
      for (let rest = "", got; reader && !(got = await reader.read()).done;) {
        const lines = (rest + decoder.decode(got.value, {stream: true})).split("\n");
        rest = lines.pop();
        for (const line of lines) if (line.startsWith("event:")) heard(line.slice(6).trim());
      }
    } catch { /* cut off, or closed here */ }
    if (this.readyState === EventSource.CLOSED) return;
    this.readyState = EventSource.CLOSED;
    heard("error");
  }
}

function listen(path, heard) {
  if (token.get()) return new Stream(path, heard);
  const source = new EventSource(API + path);
  for (const kind of [...KINDS, "dropped", "open", "error"]) source.addEventListener(kind, () => heard(kind));
  return source;
}

// Calls changed() when something has happened in the run, but not again before
// it is done and a pause is over; state(ok, error, over) says whether the server
// answers, and whether the run was over before: changed() then returned false.
// Returns what ends it.
export function follow(run, changed, state) {
  let source = null, timer = null, busy = false, again = false, ended = false;
  let pause = EVENTS_MS, over = false;

  function soon(delay) {
    if (busy) again = true;
    if (ended || busy || timer !== null || document.hidden) return;
    timer = setTimeout(draw, delay);
  }
  async function draw() {
    timer = null;
    busy = true;
    again = false;
    try {
      const begin = performance.now(), more = await changed();
      pause = Math.max(EVENTS_MS, Math.min(60000, REST * (performance.now() - begin)));
      if (!ended) state(true);
      over = more === false;
      if (!over) connect();
      else if (source !== null) source.close();
      if (over) setTimeout(() => soon(0), OVER_MS); // a service may go on with it
    } catch (error) {
      if (!ended) state(false, error, over);
      if (!over) setTimeout(() => soon(0), RETRY_MS);
    }
    busy = false;
    if (again) soon(pause);
  }
  function connect() {
    if (ended || run === null) {
      if (!ended) setTimeout(() => soon(0), RETRY_MS);
      return;
    }
    if (source !== null && source.readyState !== EventSource.CLOSED) return;
    const mine = source = listen(runPath(run, "/events"), (kind) => {
      if (kind === "dropped") { mine.close(); soon(0); }
      else if (kind === "open" || KINDS.includes(kind)) soon(pause);
      else if (kind === "error" && mine.readyState === EventSource.CLOSED) setTimeout(() => soon(0), RETRY_MS);
    });
  }
  const shown = () => soon(0);
  document.addEventListener("visibilitychange", shown);
  draw();
  return {
    now: () => soon(0),
    end() {
      ended = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", shown);
      if (source !== null) source.close();
    },
  };
}

// ---- files -----------------------------------------------------------------

function save(blob, name) {
  const a = document.createElement("a");
  a.href = URL.createObjectURL(blob);
  a.download = name;
  document.body.append(a);
  a.click();
  a.remove();
  setTimeout(() => URL.revokeObjectURL(a.href), 10000);
}

export const saveExport = (run, format) => saveFile(run, "/export", format);
export const saveModel = (run, format) => saveFile(run, "/model", format);

async function saveFile(run, what, format) {
  const path = runPath(run, what) + "?format=" + encodeURIComponent(format);
  const headers = token.get() ? {authorization: "Bearer " + token.get()} : {};
  // Faults are told before anything is downloaded.
  const head = await ask(path, {method: "HEAD", headers});
  if (!head.ok) return answer(head);
  if (location.protocol === "https:") {
    const reply = await ask(path, {headers});
    if (!reply.ok) return answer(reply);
    const name = /filename="([^"]*)"/.exec(reply.headers.get("content-disposition") || "");
    return save(await reply.blob(), name ? name[1] : run + "." + format);
  }
  const a = document.createElement("a");
  a.href = API + path;
  a.download = "";
  document.body.append(a);
  a.click();
  a.remove();
}

// A cell that a spreadsheet would take for a formula is quoted as text.
function cell(value) {
  if (value === null || value === undefined) return "";
  let text = String(value);
  if (typeof value === "string" && /^[=+\-@\t\r]/.test(text) && !Number.isFinite(Number(text)))
    text = "'" + text;
  return /[",\n\r]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
}

// rows: arrays, the first one the names of the columns.
export function saveCsv(name, rows) {
  const text = rows.map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
  save(new Blob([text], {type: "text/csv"}), name + ".csv");
}

export function saveText(name, text) {
  save(new Blob([text + "\n"], {type: "application/json"}), name);
}

export function saveCanvas(name, canvas) {
  canvas.toBlob((blob) => save(blob, name + ".png"), "image/png");
}
