// Parts that every picture shares: its card with title and exports, the theme's
// colours, drawings on a canvas of our own.

import {saveCanvas, saveCsv} from "./data.js";
import {button, el, put} from "./text.js";

// Registered as colours, the style sheet's names have the value of the scheme
// in use; a canvas knows no light-dark().
const NAMES = ["ink", "quiet", "line", "card", "accent", "good", "warn", "bad", "faint", "second", "ground",
  "run0", "run1", "run2", "run3", "run4", "run5"];
for (const name of NAMES)
  CSS.registerProperty({name: "--" + name, syntax: "<color>", inherits: true, initialValue: "gray"});

export function colours() {
  const css = getComputedStyle(document.documentElement);
  return {...Object.fromEntries(NAMES.map((n) => [n, css.getPropertyValue("--" + n).trim()])),
    font: "12px system-ui, sans-serif"};
}

// Looks that tell compared runs apart: colours that also those can tell who see no
// red or green (after Okabe and Ito 2008; in the style sheet), and dashes.
export const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3], [5, 5], [1, 4]];

const themed = new Set();

// Calls draw() when the theme changes, until the function returned is called.
export function onTheme(draw) {
  themed.add(draw);
  return () => themed.delete(draw);
}
export function themeChanged() {
  for (const draw of [...themed]) draw();
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", themeChanged);

// The picture as it is shown, with its title, on the card's colour.
function exported(canvas, title) {
  const c = colours(), scale = devicePixelRatio || 1, top = Math.round(28 * scale);
  const out = document.createElement("canvas");
  out.width = canvas.width;
  out.height = canvas.height + top;
  const ctx = out.getContext("2d");
  ctx.fillStyle = c.card;
  ctx.fillRect(0, 0, out.width, out.height);
  ctx.fillStyle = c.ink;
  ctx.font = "600 " + 13 * scale + "px system-ui, sans-serif";
  ctx.fillText(title, 10 * scale, 18 * scale);
  ctx.drawImage(canvas, 0, top);
  return out;
}

let cards = 0;

// A card with a heading, buttons, a place for the picture, a line that reads
// out values. of: {title, name, canvas(), csv()}; tools: further buttons.
export function card(title, of, ...tools) {
  const heading = el("h2", title);
  heading.id = "card" + ++cards;
  heading.classList.toggle("code", Boolean(of?.code)); // the name of a tunable or metric, which stays as it is
  const bar = el("div.tools", ...tools);
  if (of && of.canvas)
    bar.append(button("PNG", () => {
      const canvas = of.canvas();
      if (canvas) saveCanvas(of.name, exported(canvas, heading.textContent));
    }, "small"));
  if (of && of.csv) bar.append(button("CSV", () => saveCsv(of.name, of.csv()), "small"));
  for (const b of bar.querySelectorAll("button"))
    if (b.textContent === "PNG" || b.textContent === "CSV")
      b.setAttribute("aria-label", b.textContent + " of " + title);
  const body = el("div.body"), readout = el("p.readout.quiet");
  const root = el("section.card", el("div.head", heading, bar), body, readout);
  root.setAttribute("aria-labelledby", heading.id);
  return {root, body, readout, bar, title: (text) => put(heading, text)};
}

// A canvas in a card, drawn again when its width or the theme changes.
// of: {title, name, height(width), draw(ctx, width, height, colours), csv,
//      pick(x, y) -> text, key(event) -> text}
export function drawing(of, ...tools) {
  const canvas = el("canvas");
  const frame = card(of.title, {name: of.name, canvas: () => canvas, csv: of.csv}, ...tools);
  canvas.tabIndex = 0;
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", of.label || of.title);
  const scroll = el("div.scroll", canvas);
  frame.body.append(scroll);

  function draw() {
    const width = Math.max(280, Math.floor(scroll.clientWidth)), scale = devicePixelRatio || 1;
    if (!scroll.isConnected || scroll.clientWidth === 0) return;
    const height = of.height(width);
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.style.width = width + "px";
    canvas.style.height = height + "px";
    const ctx = canvas.getContext("2d");
    ctx.scale(scale, scale);
    const c = colours();
    ctx.font = c.font;
    of.draw(ctx, width, height, c);
  }
  const say = (text) => { if (text !== undefined) put(frame.readout, text || ""); };
  if (of.pick)
    for (const kind of ["pointermove", "click"])
      canvas.addEventListener(kind, (e) => {
        const box = canvas.getBoundingClientRect();
        say(of.pick(e.clientX - box.left, e.clientY - box.top, kind === "click"));
      });
  if (of.key) canvas.addEventListener("keydown", (e) => {
    const text = of.key(e);
    if (text !== undefined) { e.preventDefault(); say(text); }
  });
  let width = 0;
  const watch = new ResizeObserver(() => {
    if (scroll.clientWidth === width) return;
    width = scroll.clientWidth;
    draw();
  });
  watch.observe(scroll);
  const off = onTheme(draw);
  return {...frame, draw, canvas, scroll, destroy() { watch.disconnect(); off(); }};
}
