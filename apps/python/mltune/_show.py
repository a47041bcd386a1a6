"""How a run is shown while it goes on: a line in a terminal, a picture in a
notebook. Pure functions of what the server tells, and two things that show
them."""
from __future__ import annotations

import html
import math
import shutil
import sys
import time
from typing import Any, Dict, List, Optional, Tuple

Json = Dict[str, Any]

WIDTH, HEIGHT, LEFT, BOTTOM = 640, 240, 60, 28
POINTS = 300


def number(x: Any) -> str:
    return "-" if x is None else f"{x:.4g}"


def setting_text(setting: Optional[Json]) -> str:
    return " ".join(f"{k}={number(v) if isinstance(v, float) else v}"
                    for k, v in (setting or {}).items())


def line(run: Json, bar: int = 20) -> str:
    """A run in a line."""
    words = [f"mltune {run['run']}"]
    most = (run.get("stop") or {}).get("max_epochs")
    if most and run["epochs"] <= most:
        full = bar * run["epochs"] // most
        words.append(f"[{'#' * full}{'.' * (bar - full)}] "
                     f"{run['epochs']}/{most}")
    words.append(run["status"])
    if run["status"] == "tuning":
        words.append(f"trial {run['tuning']['trials'] + 1}")
    words.append(f"loss {number(run['loss'])}")
    best = run.get("best")
    metric = (run.get("job") or {}).get("metric") or {}
    if best and best.get("metric") is not None:
        words.append(f"best {metric.get('name') or 'metric'} "
                     f"{number(best['metric'])}")
    words.append(setting_text(run.get("setting")))
    return "  ".join(w for w in words if w)


# ---- a picture -----------------------------------------------------------

def _scale(values: List[float], low: float, high: float,
           at: float, size: float) -> List[float]:
    span = (high - low) or 1.0
    return [at + size * (v - low) / span for v in values]


def _finite(points: List[Tuple[float, float]]) -> List[Tuple[float, float]]:
    return [(x, y) for x, y in points
            if y is not None and math.isfinite(y) and y > 0]


def _dots(curve: Json) -> List[Tuple[float, float]]:
    return _finite(list(zip(curve["clock"], curve["loss"])))


def svg(run: Json, curve: Json) -> str:
    """The loss by clock, on a logarithmic scale: what survived as a line, all
    else as dots. @curve: of GET /runs/{run}/curve."""
    line_, others = _dots(curve["lineage"]), _dots(curve["others"])
    head = html.escape(line(run, 0))
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" '
           f'height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
           'style="background:#fff;font:12px sans-serif">',
           f'<title>{head}</title>']
    every = line_ + others
    if not every:
        out.append(f'<text x="{LEFT}" y="{HEIGHT // 2}">no loss yet</text>')
        return "".join(out) + "</svg>"
    logs = sorted(math.log10(y) for _, y in every)
    # A trial that diverged does not set the scale.
    high = max([math.log10(y) for _, y in line_] +
               [logs[int(0.9 * (len(logs) - 1))]])
    low, last = logs[0], max(x for x, _ in every)

    def place(points: List[Tuple[float, float]]) -> List[Tuple[float, float]]:
        xs = _scale([p[0] for p in points], 0, last, LEFT, WIDTH - LEFT - 10)
        ys = _scale([min(math.log10(p[1]), high) for p in points], low, high,
                    HEIGHT - BOTTOM, -(HEIGHT - BOTTOM - 10))
        return list(zip(xs, ys))
    for i in range(5):
        y = HEIGHT - BOTTOM - i * (HEIGHT - BOTTOM - 10) / 4
        value = 10 ** (low + i * (high - low) / 4)
        out.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - 10}" '
                   f'y2="{y:.1f}" stroke="#ddd"/>'
                   f'<text x="{LEFT - 6}" y="{y + 4:.1f}" '
                   f'text-anchor="end" fill="#444">{value:.3g}</text>')
    out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="1.5" fill="#9ab"/>'
            for x, y in place(others)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in place(line_))
    out.append(f'<polyline points="{path}" fill="none" stroke="#06c" '
               'stroke-width="2"/>')
    out.append(f'<text x="{WIDTH - 10}" y="{HEIGHT - 8}" text-anchor="end" '
               f'fill="#444">clock {int(last)}</text>'
               f'<text x="{LEFT}" y="{HEIGHT - 8}" fill="#444">training loss'
               '</text></svg>')
    return "".join(out)


# ---- showing -------------------------------------------------------------

class Quiet:
    """Shows nothing; what the others do."""

    every = 1.0  # seconds between two looks

    def show(self, run: Json, remote: Any) -> None:
        """The run as it is now; @remote can be asked for more."""

    def say(self, text: str) -> None:
        """A line of its own."""

    def finish(self, run: Json, lineage: Json) -> None:
        """The run has ended, as @run says. @lineage: `clock` and `loss` of its
        epochs, lists of numbers."""

    def end(self) -> None:
        """Nothing more comes."""


class Terminal(Quiet):
    """One line that is written over again; without a terminal a line when
    something has changed, a few seconds apart."""

    every = 0.25

    def __init__(self, out: Any = None, wait: float = 2.0) -> None:
        self.out = out or sys.stderr
        self.live = self.out.isatty()
        self._wait, self._last, self._at = wait, "", -math.inf
        self._open = False

    def show(self, run: Json, remote: Any) -> None:
        text = line(run)
        now = time.monotonic()
        if self.live:
            width = shutil.get_terminal_size().columns - 1
            self.out.write(f"\r{text[:width]:<{width}}")
            self._open = True
        elif text != self._last and now - self._at >= self._wait:
            self.out.write(text + "\n")
            self._at = now
        self._last = text
        self.out.flush()

    def say(self, text: str) -> None:
        self.end()
        self.out.write(text + "\n")
        self.out.flush()

    def finish(self, run: Json, lineage: Json) -> None:
        del lineage
        if self.live:
            self.show(run, None)
        else:
            self.say(line(run))

    def end(self) -> None:
        if self._open:
            self.out.write("\n")
            self._open = False
        self.out.flush()


class Notebook(Quiet):
    """A picture below the cell that is drawn again."""

    def __init__(self) -> None:
        from IPython.display import HTML, display
        self._html = HTML
        self._handle = display(HTML("mltune starts"), display_id=True)
        self._notes: List[str] = []
        self._picture = ""
        self._others: Json = {"clock": [], "loss": []}

    def show(self, run: Json, remote: Any) -> None:
        self._put(run, remote.curve(spans=POINTS))

    def finish(self, run: Json, lineage: Json) -> None:
        self._put(run, {"lineage": lineage, "others": self._others})

    def _put(self, run: Json, curve: Json) -> None:
        self._others = curve["others"]
        self._picture = (f"<div>{html.escape(line(run))}</div>"
                         f"{svg(run, curve)}")
        self._draw()

    def say(self, text: str) -> None:
        self._notes.append(f"<pre>{html.escape(text)}</pre>")
        self._draw()

    def _draw(self) -> None:
        self._handle.update(self._html(self._picture + "".join(self._notes)))


def in_notebook() -> bool:
    """Whether a notebook shows what cells display."""
    shell = sys.modules.get("IPython")
    found = shell.get_ipython() if shell is not None else None
    return found is not None and hasattr(found, "kernel")


def shower(progress: Optional[bool]) -> Quiet:
    if progress is False:
        return Quiet()
    return Notebook() if in_notebook() else Terminal()
