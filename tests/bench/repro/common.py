"""What the reproduction's scripts share: runs of mltune and what their journals
say, summaries, and figures as SVG. Standard library only.

A script makes one figure: it runs `mltune run` once per line of the figure and
seed, one run at a time, reads when each epoch ended and with what metric from
the journal, prints a Markdown table and writes the figure's SVG.
"""
import argparse
import json
import math
import os
import pathlib
import platform
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import xml.sax.saxutils

LEARNING_RATE = {"type": "float", "min": 1e-5, "max": 1, "scale": "log",
                 "default": 0.01}
MOMENTUM = {"type": "float", "min": 0, "max": 0.99, "default": 0.9}
BATCH_SIZE = {"type": "int", "values": [4, 16, 64, 256], "default": 64}
STALENESS = {"type": "int", "values": [0, 1, 3, 7], "default": 0}


def arguments(doc, **extra):
    """Parsed options; @extra are more of them, name=dict of add_argument's."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, required=True,
                        help="folder of the shared data sets")
    parser.add_argument("--scale", choices=["small", "full"], default="small",
                        help="small: minutes of one core; full: hours")
    parser.add_argument("--seeds", type=int, default=None,
                        help="runs of each kind (3; full: 10)")
    parser.add_argument("--mltune", default="build/release/mltune")
    parser.add_argument("--work", type=pathlib.Path, default=None,
                        help="folder that keeps every run's state")
    parser.add_argument("--out", type=pathlib.Path,
                        default=pathlib.Path("docs/results"),
                        help="folder of the SVG")
    for name, options in extra.items():
        parser.add_argument(name if name == "job" else f"--{name}", **options)
    args = parser.parse_args()
    args.data = args.data.resolve()
    args.mltune = os.path.abspath(args.mltune)
    if not args.data.is_dir():
        sys.exit(f"no folder {args.data}: see --data")
    if not os.access(args.mltune, os.X_OK):
        sys.exit(f"no program {args.mltune}: run make first, or see --mltune")
    args.full = args.scale == "full"
    if args.seeds is None:
        args.seeds = 10 if args.full else 3
    args.keep = args.work is not None
    if not args.keep:
        args.work = pathlib.Path(tempfile.mkdtemp(prefix="mltune-repro-"))
    args.work.mkdir(parents=True, exist_ok=True)
    return args


def finish(args):
    if not args.keep:
        shutil.rmtree(args.work)


# ---- runs ------------------------------------------------------------------

class Run:
    """A run that has ended: its result and its journal's records."""

    def __init__(self, result, records, cpu_s):
        self.result = result
        self.records = records
        self.cpu_s = cpu_s

    @property
    def seconds(self):
        return self.result["seconds"]

    @property
    def best(self):
        """Best validation metric; nan where the run has none."""
        metric = (self.result.get("best") or {}).get("metric")
        return float(metric) if metric is not None else math.nan

    def epochs(self):
        """(seconds since the start, metric, loss) of each epoch's end, in the
        order of time; epochs that were given up later are among them."""
        return [(r["at_s"], number(r.get("metric")), number(r.get("loss")))
                for r in self.records if r["kind"] == "epoch_ended"]

    def time_to(self, target, higher=True):
        """Seconds until an epoch ended at least as good as @target."""
        for at_s, metric, _ in self.epochs():
            if metric >= target if higher else metric <= target:
                return at_s
        return math.inf

    def first_setting(self):
        """The setting that the first search chose."""
        schedule = self.result.get("schedule") or []
        return schedule[0]["setting"] if schedule else self.result["setting"]

    def first_search_s(self):
        """Seconds until the first search ended; 0 without one."""
        for r in self.records:
            if r["kind"] == "search_ended":
                return r["at_s"]
        return 0.0


def number(value):
    """A number of the journal, where non-finite ones are texts."""
    return math.nan if value is None else float(value)


def read_records(state, run):
    with sqlite3.connect(f"file:{state}/mltune.db?mode=ro", uri=True) as db:
        rows = db.execute(
            "SELECT json FROM records JOIN runs ON run = key WHERE id = ? "
            "ORDER BY seq", (run,))
        return [json.loads(text) for (text,) in rows]


def cpu_seconds():
    times = os.times()
    return times.children_user + times.children_system


def run(args, config, seed, *options):
    """One `mltune run`; fails the script when it does not end by itself."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=args.work))
    path = folder / "config.json"
    path.write_text(json.dumps(config, indent=1))
    command = [args.mltune, "run", str(path), "--json", "--seed", str(seed),
               "--state", str(folder / "state"), *options]
    before = cpu_seconds()
    done = subprocess.run(command, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False)
    lines = done.stdout.strip().splitlines()
    if done.returncode not in (0, 1) or not lines:
        sys.exit(f"{' '.join(command)}\nexit {done.returncode}\n{done.stderr}")
    result = json.loads(lines[-1])
    out = Run(result, read_records(folder / "state", result["run"]),
              cpu_seconds() - before)
    if not args.keep:
        shutil.rmtree(folder)
    return out


def note(text):
    """Says how far the script is, beside the table."""
    print(text, file=sys.stderr, flush=True)


# ---- words -----------------------------------------------------------------

def where(args):
    """Machine and commit, for the page."""
    cpu = platform.machine()
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            cpu = line.split(":", 1)[1].strip()
            break
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"],
                            stdout=subprocess.PIPE, text=True, check=False)
    return (f"{os.cpu_count()} cores, {cpu}; commit "
            f"{commit.stdout.strip() or 'unknown'}; scale {args.scale}, "
            f"{args.seeds} seeds; load {os.getloadavg()[2]:.1f}")


def seconds(value):
    return "never" if math.isinf(value) else f"{value:.1f}"


def spread(values, text="{:.4f}".format):
    """Median and range."""
    values = sorted(values)
    if not values:
        return "-"
    middle = statistics.median_low(values)
    if len(values) == 1:
        return text(middle)
    return f"{text(middle)} ({text(values[0])} - {text(values[-1])})"


def table(header, rows):
    print("\n| " + " | ".join(header) + " |")
    print("|" + "---|" * len(header))
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |")
    print(flush=True)


# ---- figures ---------------------------------------------------------------

COLORS = ["#c0392b", "#2471a3", "#1e8449", "#b7950b", "#6c3483", "#566573",
          "#ca6f1e", "#148f77"]


class Axis:
    """A linear or logarithmic scale onto pixels from @low to @high."""

    def __init__(self, values, log, low, high):
        values = [v for v in values if math.isfinite(v) and (v > 0 or not log)]
        self.log, self.low, self.high = log, low, high
        a, b = (min(values), max(values)) if values else (1, 2)
        if log:
            a, b = math.log10(a), math.log10(b)
        pad = (b - a) * 0.04 or abs(a) * 0.04 or 1
        self.a, self.b = a - pad, b + pad

    def at(self, value):
        if self.log:
            value = math.log10(value) if value > 0 else self.a
        share = (value - self.a) / (self.b - self.a)
        return self.low + share * (self.high - self.low)

    def ticks(self):
        if self.log:
            first, last = math.ceil(self.a), math.floor(self.b)
            if last - first >= 2:
                return [10.0 ** k for k in range(first, last + 1)]
            return [m * 10.0 ** k for k in range(first - 1, last + 2)
                    for m in (1, 2, 5)
                    if self.a <= math.log10(m * 10.0 ** k) <= self.b]
        step = 10 ** math.floor(math.log10((self.b - self.a) / 4))
        for factor in (1, 2, 5, 10):
            if (self.b - self.a) / (step * factor) <= 6:
                step *= factor
                break
        first = math.ceil(self.a / step)
        return [k * step for k in range(first, math.floor(self.b / step) + 1)]


class Figure:
    """Lines and marks with two axes, as an SVG of a few kilobytes."""

    WIDTH, HEIGHT = 640, 400
    LEFT, RIGHT, TOP, BOTTOM = 62, 16, 30, 48

    def __init__(self, title, x, y, log_x=False, log_y=False,
                 legend_top=False):
        self.title, self.x, self.y = title, x, y
        self.legend_top = legend_top
        self.log_x, self.log_y = log_x, log_y
        self.series = []   # (name, color, points, style)

    def add(self, name, points, color, style="line"):
        """@style: line, step, dots, cross."""
        points = [(x, y) for x, y in points
                  if math.isfinite(x) and math.isfinite(y)]
        self.series.append((name, color, points, style))

    def svg(self):
        points = [p for _, _, ps, _ in self.series for p in ps]
        x = Axis([p[0] for p in points], self.log_x, self.LEFT,
                 self.WIDTH - self.RIGHT)
        y = Axis([p[1] for p in points], self.log_y,
                 self.HEIGHT - self.BOTTOM, self.TOP)
        out = [f'<svg xmlns="http://www.w3.org/2000/svg" '
               f'viewBox="0 0 {self.WIDTH} {self.HEIGHT}" '
               'font-family="sans-serif" font-size="12">',
               f'<rect width="{self.WIDTH}" height="{self.HEIGHT}" '
               'fill="#fff"/>']
        out += self.frame(x, y)
        for name, color, ps, style in self.series:
            out += draw(ps, color, style, x, y)
        out += self.legend()
        out.append("</svg>")
        return "\n".join(out) + "\n"

    def frame(self, x, y):
        out, bottom = [], self.HEIGHT - self.BOTTOM
        for tick in x.ticks():
            at = x.at(tick)
            out.append(f'<path d="M{at:.1f} {bottom}v-{bottom - self.TOP}" '
                       'stroke="#ddd"/>')
            out.append(text(at, bottom + 16, label(tick), "middle"))
        for tick in y.ticks():
            at = y.at(tick)
            out.append(f'<path d="M{self.LEFT} {at:.1f}h'
                       f'{self.WIDTH - self.RIGHT - self.LEFT}" '
                       'stroke="#ddd"/>')
            out.append(text(self.LEFT - 6, at + 4, label(tick), "end"))
        middle = (self.TOP + bottom) / 2
        out.append(text((self.LEFT + self.WIDTH - self.RIGHT) / 2,
                        self.HEIGHT - 10, self.x, "middle"))
        out.append(f'<g transform="rotate(-90 14 {middle})">'
                   + text(14, middle, self.y, "middle") + "</g>")
        out.append(text(self.WIDTH / 2, 18, self.title, "middle",
                        ' font-weight="bold"'))
        return out

    def legend(self):
        names = {}
        for name, color, _, style in self.series:
            names.setdefault(name, (color, style))
        out = []
        for i, (name, (color, style)) in enumerate(names.items()):
            at = (self.TOP + 16 + 15 * i if self.legend_top else
                  self.HEIGHT - self.BOTTOM - 12 - 15 * (len(names) - 1 - i))
            left = self.WIDTH - self.RIGHT - 170
            if style in ("dots", "cross"):
                out += mark(left + 9, at - 4, color, style)
            else:
                out.append(f'<path d="M{left} {at - 4}h18" stroke="{color}" '
                           'stroke-width="2.5"/>')
            out.append(text(left + 24, at, name, "start"))
        return out


def text(x, y, words, anchor, more=""):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>'
            f'{xml.sax.saxutils.escape(words)}</text>')


def label(value):
    return f"{value:.3g}".replace("e-0", "e-").replace("e+0", "e")


def mark(x, y, color, style):
    if style == "cross":
        return [f'<path d="M{x - 5:.1f} {y - 5:.1f}l10 10m0 -10l-10 10" '
                f'stroke="{color}" stroke-width="2.5"/>']
    return [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>']


def draw(points, color, style, x, y):
    if style in ("dots", "cross"):
        return [m for p in points for m in mark(x.at(p[0]), y.at(p[1]), color,
                                                style)]
    if not points:
        return []
    path = f"M{x.at(points[0][0]):.1f} {y.at(points[0][1]):.1f}"
    for p in points[1:]:
        if style == "step":
            path += f"H{x.at(p[0]):.1f}V{y.at(p[1]):.1f}"
        else:
            path += f"L{x.at(p[0]):.1f} {y.at(p[1]):.1f}"
    return [f'<path d="{path}" fill="none" stroke="{color}" '
            'stroke-width="1.5"/>']


def best_so_far(epochs, higher=True):
    """Points (seconds, best metric until then)."""
    best, out = -math.inf if higher else math.inf, []
    for at_s, metric, _ in epochs:
        if math.isfinite(metric):
            best = max(best, metric) if higher else min(best, metric)
            out.append((at_s, best))
    return out


def save(args, name, figure):
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / f"{name}.svg"
    path.write_text(figure.svg())
    note(f"wrote {path}")
