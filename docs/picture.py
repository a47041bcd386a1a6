#!/usr/bin/env python3
"""Draws docs/picture.svg: loss over time of a real run, from its journal.

    picture.py STATE_FOLDER RUN OUT.svg

Trials are faint lines from their start to their end, the surviving training is
bold, a dot marks each change of setting.
"""
import json
import math
import sqlite3
import sys

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 860, 380, 58, 44, 34, 16


def records(state, run):
    db = sqlite3.connect(f"file:{state}/mltune.db?mode=ro", uri=True)
    query = ("SELECT kind, json FROM records JOIN runs ON records.run = runs.key "
             "WHERE runs.id = ? ORDER BY seq")
    return [(kind, json.loads(text)) for kind, text in db.execute(query, [run])]


def collect(stream):
    started, trials, epochs, choices = {}, [], [], []
    for kind, r in stream:
        if kind == "trial_started":
            started[r["trial"]] = r["at_s"]
        elif kind == "trial_ended" and len(r["loss"]) > 2:
            loss = [x for x in r["loss"] if isinstance(x, (int, float))]
            begin, end = started[r["trial"]], r["at_s"]
            step = (end - begin) / max(len(loss) - 1, 1)
            trials.append([(begin + i * step, x) for i, x in enumerate(loss)])
        elif kind == "epoch_ended" and r["surviving"]:
            epochs.append((r["at_s"], r["loss"]))
        elif kind == "setting_chosen":
            choices.append((r["at_s"], r["setting"]))
    return trials, epochs, choices


def main():
    state, run, out = sys.argv[1:4]
    trials, epochs, choices = collect(records(state, run))
    end = max(t for line in [epochs, *trials] for t, _ in line) * 1.02
    low = min(x for _, x in epochs) * 0.92
    high = max(x for line in trials for _, x in line[:1]) * 1.15

    def at(t, loss):
        x = LEFT + (WIDTH - LEFT - RIGHT) * t / end
        share = math.log(max(min(loss, high), low) / low) / math.log(high / low)
        return x, HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * share

    def path(points):
        return "M" + " L".join("%.1f %.1f" % at(t, x) for t, x in points)

    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} '
           f'{HEIGHT}" font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>']
    tick = low
    for tick in (0.3, 0.5, 1, 2):
        if low < tick < high:
            y = at(0, tick)[1]
            svg.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" '
                       'stroke="#e4e4e4"/>'
                       f'<text x="{LEFT - 8}" y="{y + 4:.1f}" fill="#555" '
                       f'text-anchor="end">{tick:g}</text>')
    for line in trials:
        svg.append(f'<path d="{path(line)}" fill="none" stroke="#3b78c2" '
                   'stroke-opacity=".45"/>')
    svg.append(f'<path d="{path(epochs)}" fill="none" stroke="#c2410c" '
               'stroke-width="3" stroke-linejoin="round"/>')
    for number, (t, setting) in enumerate(choices):
        after = [e for e in epochs if e[0] >= t] or epochs[-1:]
        x, y = at(*after[0])
        words = ", ".join(f"{k.replace('_', ' ')} {v:.3g}"
                          for k, v in setting.items())
        anchor = "start" if x < WIDTH * 0.6 else "end"
        svg.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="#c2410c"/>'
                   f'<text x="{x:.1f}" y="{y - 14 + 36 * (number % 2):.1f}" '
                   f'fill="#7c2d12" text-anchor="{anchor}">{words}</text>')
    base = HEIGHT - BOTTOM
    svg += [f'<path d="M{LEFT} {TOP}V{base}H{WIDTH - RIGHT}" fill="none" '
            'stroke="#555"/>',
            f'<text x="{WIDTH - RIGHT}" y="{base + 32}" text-anchor="end" '
            f'fill="#333">wall time, {end:.1f} s in all</text>',
            f'<text x="{LEFT}" y="{TOP - 14}" fill="#333">training loss</text>',
            f'<text x="{WIDTH - RIGHT}" y="{TOP - 14}" text-anchor="end" '
            'fill="#333"><tspan fill="#3b78c2">trials, forked copy-on-write'
            '</tspan>   <tspan fill="#c2410c" font-weight="bold">the training '
            'that survives</tspan></text>', "</svg>"]
    with open(out, "w") as f:
        f.write("\n".join(svg) + "\n")


if __name__ == "__main__":
    main()
