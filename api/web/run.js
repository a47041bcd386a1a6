// One run: its figures, the loss with what survived and what was tried, the
// schedule of settings, why each thing was done. Trials, branches, settings and
// the cluster are tabs beside it.

import {clusterTab} from "./cluster.js";
import {configTab} from "./config.js";
import {again, controls} from "./control.js";
import {get, Refused, runPath, saveModel} from "./data.js";
import {explain} from "./help.js";
import {logTab} from "./log.js";
import {lossPlot} from "./loss.js";
import {metricsPart} from "./metrics.js";
import {notesLine} from "./notes.js";
import {plot} from "./plot.js";
import {tuningCost} from "./runs.js";
import {settingsTab} from "./settings.js";
import {changes, decisionTime, folded, nextEvent} from "./stats.js";
import {trialsTab} from "./trials.js";
import {treeTab} from "./tree.js";
import {button, bytes, chip, count, duration, el, ENDED, link, number, put, runHref, runSeconds,
  settingText, short, timeLeft} from "./text.js";

const TABS = [["", "overview", overviewTab], ["trials", "trials", trialsTab],
  ["branches", "branches", treeTab], ["settings", "settings", settingsTab],
  ["cluster", "cluster", clusterTab], ["config", "configuration", configTab],
  ["log", "log", logTab]];
const FEED = 40;
const EPOCHS = 1000; // whose validation is drawn: the latest
const CHOICES = 1000; // of settings, that are drawn: the latest

export function runView({id, tab, crumbs, notice}) {
  const head = el("div.runhead"), body = el("div.tab");
  const name = el("h1", id), status = el("span"), why = el("span.quiet");
  const steer = controls(id, (message) => { notice(message); refresh(); }, notice);
  const notes = notesLine(id, (message) => { notice(message); refresh(); }, notice);
  const tabs = el("nav.tabs");
  tabs.setAttribute("aria-label", "parts of the run");
  const words = el("pre.words");
  words.setAttribute("aria-label", "the last words of what failed");
  const root = el("div.stacked");
  words.hidden = steer.root.hidden = notes.root.hidden = true; // until it is known what it is and may
  head.append(name, status, why, steer.root);
  const here = [head, notes.root, words, tabs, body], unknown = [el("section.card", el("h1", "no such run"),
    el("p", "This server has no run “" + id + "”: it was deleted, or its name is another one."),
    el("p", link("all runs", "#/")))];
  const place = (parts) => { if (root.firstChild !== parts[0]) root.replaceChildren(...parts); };
  place(here);
  crumbs(id, link("runs", "#/"), el("span", id));
  let shown = null, current = null;

  function open(which) {
    const found = TABS.find(([key]) => key === which) || TABS[0];
    if (shown) shown.destroy();
    current = found[0];
    shown = found[2](id, {now: () => refresh(), failed: notice,
      said: (message) => { notice(message); refresh(); }});
    body.replaceChildren(shown.root);
    tabs.replaceChildren(...TABS.map(([key, text]) => {
      const a = link(text, runHref(id, key));
      if (key === current) a.setAttribute("aria-current", "page");
      return a;
    }));
    showTab();
  }
  // A narrow screen has no room for all tabs.
  function showTab() {
    const a = tabs.querySelector("[aria-current]").getBoundingClientRect(), all = tabs.getBoundingClientRect();
    tabs.scrollLeft += Math.max(0, a.right - all.right) - Math.max(0, all.left - a.left);
  }
  const watch = new ResizeObserver(showTab);
  // The run, or null where the server has none of that name.
  async function known() {
    try {
      return await get(runPath(id));
    } catch (error) {
      if (!(error instanceof Refused && error.status === 404)) throw error;
      place(unknown);
      crumbs("no such run", link("runs", "#/"), el("span", id));
      return null;
    }
  }
  async function refresh() {
    const run = await known();
    if (!run) return false;
    place(here);
    crumbs(run.status + " · " + (run.name || run.run), link("runs", "#/"),
      el("span", run.name || run.run));
    put(name, run.name || run.run);
    if (status.textContent !== run.status) status.replaceChildren(chip(run.status));
    put(why, run.message || run.status_reason || "");
    words.hidden = !run.last_words;
    const whose = Number.isInteger(run.last_words_node)
      ? [`process ${run.last_words_node} said last:`] : [];
    const last = whose.concat(run.last_words || []).join("\n");
    if (words.textContent !== last) {
      put(words, last);
      words.scrollTop = words.scrollHeight;
    }
    steer.update(run);
    notes.update(run);
    steer.root.hidden = false;
    await shown.refresh(run);
    explain(body);
    return !ENDED.has(run.status);
  }
  open(tab);
  watch.observe(tabs);
  return {
    root, run: id, refresh,
    follows(to) {
      if (to.make !== runView || to.id !== id) return false;
      if (to.tab !== current) {
        open(to.tab);
        refresh().catch((error) => notice(error.message));
      }
      return true;
    },
    destroy() { watch.disconnect(); shown.destroy(); },
  };
}

// ---- overview --------------------------------------------------------------

function figure(title) {
  const big = el("p.big", "–"), note = el("p.quiet");
  const heading = el("h2", title);
  return {root: el("div", heading, big, note),
    set(value, text, label) { put(big, value); put(note, text); if (label) put(heading, label); }};
}

const latest = (older) => older ? "; the latest " + short(EPOCHS) + " epochs of the lineage" : "";
const betterText = (metric) => (metric.higher_is_better ? "higher" : "lower") + " is better";

// What decisions took: nothing ran meanwhile.
function waited(searches) {
  const seconds = searches.reduce((sum, s) => sum + (s.result ? number(s.result.waiting_seconds) || 0 : 0), 0);
  return seconds > 0 ? ", of which " + duration(seconds) + " for decisions" : "";
}

function figures() {
  const of = {loss: figure("loss"), metric: figure("metric"), epochs: figure("epochs"),
    time: figure("time"), tuning: figure("tuning")};
  const root = el("section.figures", ...Object.values(of).map((f) => f.root));
  root.setAttribute("aria-label", "figures");
  // The loss is the lineage's: run.loss is that of whatever ran last, as of a trial
  // that diverges.
  function update(run, loss, searches) {
    const metric = run.job && run.job.metric, left = timeLeft(run);
    // Both are what was last, and say where the best is: the loss at a point, the metric of an epoch.
    const nothing = run.status === "failed" && run.epochs === 0 && loss === null, best = run.best ? "; best epoch " + run.best.epoch + ": " : "";
    of.loss.root.hidden = nothing;
    of.loss.set(short(loss), loss === null ? run.clock > 0 ? "nothing but trials so far" : ""
      : "at the last point" + (best && best + short(run.best.loss)));
    of.metric.root.hidden = nothing || !metric;
    if (metric) of.metric.set(run.last_epoch ? short(run.last_epoch.metric) : "–",
      (run.last_epoch ? "after epoch " + run.last_epoch.epoch + (best && best + short(run.best.metric)) + "; " : "") + betterText(metric),
      "validation " + metric.name);
    of.time.root.hidden = nothing && !Number.isFinite(runSeconds(run));
    const none = ENDED.has(run.status) ? "no clock was run" : "no clock so far";
    of.epochs.set(short(run.epochs), (run.clock > 0 ? "clock " + short(run.clock) : none) +
      (run.stop && run.stop.max_epochs ? ", at most " + count(run.stop.max_epochs, "epoch") : ""));
    of.time.set(duration(runSeconds(run)),
      left === null ? run.reason ? "ended: " + run.reason.replaceAll("_", " ") : "" : "at most " + duration(left) + " left");
    of.tuning.set(count(run.tuning.trials, "trial"), run.tuning.searches > 0
      ? tuningCost(run) + " in " + count(run.tuning.searches, "search", "searches") +
        (run.tuning.anew > 0 ? ", " + short(run.tuning.anew) + " of them given up and begun anew by a resume" : "") + waited(searches) : "");
  }
  return {root, update};
}

// What a run has left to be used: it is whole once the run has ended.
const IN_ONNX = new Set(["mlr", "nn"]);

function modelCard(id, failed) {
  const text = el("p"), how = el("p.quiet", "mltune predict " + id + " DATA says what it predicts of new data.");
  const saving = (label, format) => button(label, () => saveModel(id, format).catch((error) => failed(error.message)));
  const onnx = saving("download ONNX", "onnx");
  const root = el("section.card.model", el("div.head", el("h2", "model"),
    el("div.tools", saving("download folder (tar)", "tar"), saving("as zip", "zip"), onnx)), text, how);
  root.hidden = true;
  return {root,
    update(run) {
      const info = run.model_info, metric = run.job && run.job.metric;
      root.hidden = !info || !ENDED.has(run.status);
      if (root.hidden) return;
      onnx.hidden = !run.job || !IN_ONNX.has(run.job.app);
      put(text, (info.epoch > 0 ? "of epoch " + info.epoch + ": " : "") + "loss " + short(info.loss) +
        (metric && info.metric !== null ? ", validation " + metric.name + " " + short(info.metric) : "") +
        "; arrays of " + bytes(info.bytes));
    }};
}

// What a run failed of, and what can be done about it.
function failedCard(id) {
  const what = el("p"), steps = el("ul.steps"), root = el("section.card.failure", el("div.head", el("h2", "what failed")), what, steps);
  root.hidden = true;
  return {root,
    update(run) {
      root.hidden = run.status !== "failed";
      if (root.hidden || root.dataset.of === run.updated_at) return;
      root.dataset.of = run.updated_at; // a link that has the focus keeps it
      put(what, (run.epochs > 0 ? "After " + count(run.epochs, "epoch") + ": " : run.clock > 0 ? "Before its first epoch had ended: "
        : "Before anything was trained: ") + (run.message || run.status_reason || "nothing says why"));
      const items = [el("li", "Read what the training system wrote last: ", link("its log", runHref(id, "log")), "."),
        el("li", "See what it was begun with: ", link("its configuration", runHref(id, "config")),
          ". Mend there what the message is about, and submit it as a new run.")];
      if (again(run)) items.push(el("li", "“continue” above goes on from what it had saved, once the cause is gone."));
      steps.replaceChildren(...items);
    }};
}

// A small plot for each tunable: its value over clocks.
function schedulePlots(id) {
  const root = el("section.multiples"), shown = new Map();
  root.setAttribute("aria-label", "the effective schedule");
  const texts = el("p.quiet"), still = el("p.quiet");
  still.hidden = true;
  // older: there are choices before these.
  function update(choices, clock, older) {
    const names = [...new Set(choices.flatMap((c) => Object.keys(c.setting)))], same = [];
    for (const name of names) {
      const values = choices.map((c) => c.setting[name] ?? null);
      // A line that says nothing but one value needs no picture.
      if (new Set(values).size === 1 && !shown.has(name)) {
        same.push(name + " " + (typeof values[0] === "number" ? short(values[0]) : values[0]));
        continue;
      }
      const x = [...choices.map((c) => c.clock), Math.max(clock, choices.at(-1).clock + 1)];
      const y = [...values, values.at(-1)];
      if (!values.every((v) => v === null || typeof v === "number")) {
        put(texts, name + ": " + choices.map((c) => short(c.clock) + " → " +
          c.setting[name]).join(", "));
        if (!texts.isConnected) root.append(el("div.card", texts));
        continue;
      }
      if (!shown.has(name)) {
        shown.set(name, plot({title: name, code: true, name: id + "-" + name, xLabel: "clock", yLabel: "",
          height: 150, x: [], series: [], logAllowed: true}));
        root.append(shown.get(name).root);
      }
      shown.get(name).update({x, xRange: [0, x.at(-1)], note: "now " + short(values.at(-1)) +
        (older ? "; the latest " + count(choices.length, "change") + ", earlier ones are not drawn" : ""),
        yWhole: values.every((v) => v === null || Number.isInteger(v)),
        series: [{label: name, values: y, colour: "accent", kind: "steps", points: false}],
        csv: () => [["clock", name, "reason"],
          ...choices.map((c) => [c.clock, c.setting[name] ?? null, c.reason])]});
    }
    still.hidden = same.length === 0 || same.length === names.length; // the pills say it
    put(still, (older ? "the same in the latest " + count(choices.length, "change")
      : (choices.length > 1 ? "the same since clock " : "since clock ") + short(choices[0].clock)) + ": " + same.join(", "));
  }
  return {root, still, update, destroy() { for (const p of shown.values()) p.destroy(); }};
}

// The same in words. What a search took by the clock on the wall and what of it is tuning, as
// the headline counts it, have names of their own.
function timeText(d, searches, begun) {
  const t = decisionTime(d, searches, begun);
  if (!t) return "";
  const when = duration(t.since) + ({begin: " into search ", end: " after search "}[t.of] ?? " after the run began") + (t.search ?? "");
  if (t.tuning === undefined) return when;
  const all = t.tuning >= t.since || duration(t.tuning) === duration(t.since);
  return when + (all ? ", all of it tuning; " : "; " + duration(t.tuning) + " of it count as tuning (" +
    (t.winner ? "not what its winner trained, no pauses" : "no pauses") + "); ") + duration(t.waiting) + " for decisions";
}

function feed() {
  const list = el("ol.feed"), more = button("older", () => { pages++; redo(); }, "small");
  const root = el("section.card", el("div.head", el("h2", "why")), list, more);
  let pages = 1, redo = () => {}, drawn = "";
  function update(items, more_, searches, begun) {
    more.hidden = !more_;
    const key = JSON.stringify([items.map((d) => [d.at, d.text]), searches.map((s) => s.ended_at)]);
    if (key === drawn) return; // what is open stays open
    drawn = key;
    list.replaceChildren(...folded(items).map(([d, ...like]) => {
      const when = el("time", d.at ? new Date(d.at).toLocaleTimeString([], {hour12: false}) : "");
      if (d.at) when.dateTime = d.at;
      const numbers = Object.entries(d.numbers || {}).map(([k, v]) =>
        k.replaceAll("_", " ") + " " + short(v)).join(", ");
      when.hidden = !d.at;
      const took = timeText(d, searches, begun);
      const item = el("li", when, el("span.text", d.text, took ? el("span.took.quiet", took) : null, like.length > 0 ? el("details",
        el("summary", like.length + " more like it"), ...like.map((k) => el("p", k.text))) : null));
      item.title = [d.at ? new Date(d.at).toLocaleString() : "", numbers].filter(Boolean).join("; ");
      return item;
    }));
    if (items.length === 0) list.replaceChildren(el("li.quiet", "nothing has been decided so far"));
  }
  return {root, update, size: () => pages * FEED, again: (f) => { redo = f; }};
}

function overviewTab(id, {now, failed}) {
  const top = figures(), why = el("p.quiet"), setting = el("p.setting.pills", "–");
  const loss = lossPlot(id, () => now());
  const validation = plot({title: "validation", name: id + "-validation", xLabel: "epoch",
    yLabel: "", height: 200, xWhole: true, x: [], series: []});
  const schedule = schedulePlots(id), reasons = feed(), metrics = metricsPart(id, () => now());
  reasons.again(now);
  const part = el("progress"), next = el("span.quiet"), ahead = el("div.progress.next", part, next);
  part.max = 1;
  part.setAttribute("aria-label", "progress to what comes next");
  const whose = el("h2", "setting in use");
  const use = el("section.card", el("div.head", whose, ahead), setting, why);
  let newest = null, told = ""; // loss of the lineage; the setting that is shown
  const model = modelCard(id, failed), failure = failedCard(id);
  use.append(schedule.still);
  const root = el("div.stacked", top.root, el("div.columns", el("div.stacked", failure.root, model.root, use, loss.root, validation.root,
    metrics.root, schedule.root), reasons.root));
  validation.root.hidden = true;

  function showEpochs(run, epochs, older) {
    const metric = run.job && run.job.metric;
    validation.root.hidden = !metric || epochs.length === 0;
    if (validation.root.hidden) return;
    const best = run.best && run.best.metric !== null ? run.best : epochs.filter((e) => e.best).at(-1);
    // The model that is kept may be of a finalist that lost, or of an earlier leader.
    const aside = best && !older && !epochs.some((e) => e.epoch === best.epoch && e.metric === best.metric);
    validation.update({title: "validation " + metric.name + " by epoch", yLabel: metric.name,
      x: epochs.map((e) => e.epoch), note: best
        ? "best " + short(best.metric) + " after epoch " + best.epoch + (aside ? ", of a branch beside this line" : "") + "; " +
          betterText(metric) + latest(older)
        : betterText(metric) + latest(older),
      series: [{label: metric.name, values: epochs.map((e) => e.metric), colour: "accent",
        points: epochs.length < 60}],
      csv: () => [["epoch", "clock", "loss", metric.name],
        ...epochs.map((e) => [e.epoch, e.clock, e.loss, e.metric])]});
  }
  function showSetting(values) {
    if (settingText(values) === told) return;
    told = settingText(values);
    setting.replaceChildren(...Object.entries(values).map(([name, v]) => el("span", name + " ", el("b", typeof v === "number" ? short(v) : v))));
    if (told === "–") put(setting, told);
  }
  function showNext(run, epochs, search) {
    const to = ENDED.has(run.status) ? null : nextEvent(run, epochs, search);
    ahead.hidden = !to;
    if (!to) return;
    part.hidden = to.part === null;
    part.value = to.part || 0;
    put(next, to.text);
  }
  async function refresh(run) {
    const base = runPath(id), range = loss.range();
    const from = range ? Math.max(0, Math.floor(range[0])) : undefined;
    const to = range ? Math.max(from + 1, Math.ceil(range[1])) : undefined;
    const [curve, choices, epochs, decisions, {searches}] = await Promise.all([
      get(base + "/curve", {spans: 600, from, to}),
      get(base + "/schedule", {order: "desc", page_size: CHOICES}),
      get(base + "/epochs", {surviving: true, order: "desc", page_size: EPOCHS}),
      get(base + "/decisions", {order: "desc", page_size: Math.min(1000, reasons.size())}),
      get(base + "/searches", {order: "desc", page_size: 1000}),
    ]);
    const chosen = changes(choices.schedule.reverse()), older = Boolean(choices.next_page_token);
    epochs.epochs.reverse();
    if (!range) newest = curve.lineage.loss.findLast((v) => Number.isFinite(number(v))) ?? null;
    top.update(run, newest, searches);
    showNext(run, epochs.epochs, searches[0]);
    model.update(run);
    failure.update(run);
    const none = run.status === "failed" && curve.lineage.points + curve.others.points === 0 && !range;
    loss.root.hidden = none; // there will be no line
    use.hidden = none && !run.setting;
    const last = chosen.at(-1);
    // The model that is saved may be of another trial, or of before a later choice.
    const own = ENDED.has(run.status) && run.best?.setting && run.setting && settingText(run.best.setting) !== settingText(run.setting);
    put(whose, own ? "setting of the model" : "setting in use");
    if (own) showSetting(run.best.setting);
    else if (run.setting || ENDED.has(run.status)) showSetting(run.setting || {});
    else { told = ""; put(setting, searches.length > 0 ? "searching: no setting is in use yet" : "–"); }
    put(why, own ? "of epoch " + run.best.epoch + "; in use at the end: " + settingText(run.setting)
      : last && last.reason ? "since clock " + short(last.clock) + ": " + last.reason : "");
    // The oldest that is known of many has begun earlier, maybe: it is no mark.
    loss.set(curve, run.clock, older ? chosen.slice(1) : chosen, epochs.epochs);
    showEpochs(run, epochs.epochs, epochs.next_page_token !== null);
    await metrics.refresh(run, epochs.epochs);
    if (chosen.length > 0) schedule.update(chosen, run.clock, older);
    reasons.update(decisions.decisions, decisions.next_page_token !== null, searches, run.started_at);
  }
  return {root, refresh,
    destroy() { loss.destroy(); validation.destroy(); metrics.destroy(); schedule.destroy(); }};
}
