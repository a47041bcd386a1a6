#!/usr/bin/python3
"""A searcher of its own that talks to a run over HTTP: ask and tell.

    mltune run config.json        with "tuner": {"searcher": "rest"}
    rest_searcher.py --server http://127.0.0.1:8080 --state .mltune RUN

Needs nothing but Python. What it does is simple on purpose: a few settings at
random, then steps around the fastest so far, ever smaller. What it shows is the
conversation: read what the search has found, propose one setting, wait for its
speed; all that it must know comes with each answer, so it may be killed and
started again at any time, as the run may. docs/write-a-searcher.md.
"""
import argparse
import http.client
import json
import math
import os
import pathlib
import random
import ssl
import sys
import time
import urllib.error
import urllib.request


class NoAnswer(Exception):
    """The server has been gone for as long as one has patience."""


class Run:
    """A run of mltune behind a server."""

    def __init__(self, server, run, token, patience):
        if not server.startswith(("https://", "http://127.", "http://[::1]",
                                  "http://localhost")):
            sys.exit("a token goes over https, or to this machine")
        self.base = f"{server.rstrip('/')}/api/v1/runs/{run}"
        self.token = token
        self.patience = patience

    def send(self, method, path, body=None, key=None):
        headers = {"Authorization": f"Bearer {self.token}"}
        if body is not None:
            headers["Content-Type"] = "application/json"
            body = json.dumps(body).encode()
        if key:
            headers["Idempotency-Key"] = key
        request = urllib.request.Request(self.base + path, body, headers,
                                         method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def ask(self, method, path, body=None, key=None):
        """The same, again and again while the server cannot answer: a key makes
        a repetition harmless."""
        until = time.monotonic() + self.patience
        while True:
            try:
                return self.send(method, path, body, key)
            except urllib.error.HTTPError as e:
                problem = json.load(e)
                if e.code != 503 and problem.get("code") not in (
                        "not_yet", "limit_reached"):
                    raise SystemExit(f"{problem['detail']} "
                                     f"{problem.get('errors', '')}") from e
            except (urllib.error.URLError, http.client.HTTPException,
                    ConnectionError, ssl.SSLError, TimeoutError) as e:
                problem = {"detail": str(e)}
            if time.monotonic() > until:
                raise NoAnswer(problem["detail"])
            time.sleep(0.2)

    def search(self):
        return self.ask("GET", "/search")

    def suggest(self, key, **what):
        return self.ask("POST", "/trials:suggest", what, key)


def to_unit(t, value):
    """Where @value lies in the range of tunable @t, 0 .. 1."""
    if "values" in t:
        return (t["values"].index(value) + 0.5) / len(t["values"])
    low, high = t["min"], t["max"]
    if t["scale"] == "log":
        return math.log(value / low) / math.log(high / low)
    if t["scale"] == "reverse_log":
        low, high, value = low, high, low + high - value
        return 1 - math.log(value / low) / math.log(high / low)
    return (value - low) / (high - low)


def from_unit(t, u):
    u = min(max(u, 0.0), 1.0)
    if "values" in t:
        return t["values"][min(int(u * len(t["values"])), len(t["values"]) - 1)]
    low, high = t["min"], t["max"]
    if t["scale"] == "log":
        value = low * (high / low) ** u
    elif t["scale"] == "reverse_log":
        value = low + high - low * (high / low) ** (1 - u)
    else:
        value = low + (high - low) * u
    value = min(max(value, low), high)
    return round(value) if t["type"] == "int" else value


def propose(search, first, dice):
    """The next setting, from what the search has found so far alone."""
    free = {name: t for name, t in search["tunables"].items()
            if "fixed" not in t}
    tried = search["trials"]
    fast = [t for t in tried if t["speed"] is not None]
    if len(tried) < first or not fast:
        return {name: from_unit(t, dice.random()) for name, t in free.items()}
    best = max(fast, key=lambda t: t["speed"])["setting"]
    step = 0.3 * 0.9 ** len(tried)
    return {name: from_unit(t, to_unit(t, best[name]) + dice.gauss(0, step))
            for name, t in free.items()}


def tune(run, options):
    """Proposes until the run wants no more. Says what it does, a line each."""
    told = set()
    last, tries = None, 0
    state = None
    while True:
        try:
            search = run.search()
        except NoAnswer as e:
            # The server of `mltune run` goes with the run. One that was gone
            # in the midst of a search wanted more settings.
            if state != "not_now":
                raise
            print(f"the end: no search went on, and nobody answers: {e}")
            return
        if state == "open" and search["state"] == "not_now":
            print("the search is over", flush=True)
        state = search["state"]
        if state == "ended":
            print(f"the end: {search['reason']}")
            return
        for t in search["trials"]:
            if t["trial"] not in told and not search["running"]:
                told.add(t["trial"])
                print(f"trial {t['trial']}: {t['outcome']} {t['speed']} "
                      f"{json.dumps(t['setting'])}", flush=True)
        made = len(search["trials"])
        # Known from the search alone, so that one who was killed before the
        # answer came asks for the same again. A setting that was tried before
        # is no trial more: then the next try.
        tries = tries if last == (search["search"], made) else 0
        last = (search["search"], made)
        key = f"rest-{options.seed}-{search['search']}-{made}-{tries}"
        if search["state"] != "open" or search["running"] or search["waiting"]:
            pass
        elif search["asking"] == "open" and (made >= options.trials or
                                             tries >= options.vain):
            run.suggest(key, exhausted=True)
            tries += 1
        elif search["asking"] != "exhausted" and search["wanted"] > 0:
            run.suggest(key, setting=propose(search, options.first,
                                             random.Random(key)))
            tries += 1
        time.sleep(options.poll)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("run", help="the run's id")
    p.add_argument("--server", default=os.environ.get("MLTUNE_SERVER"),
                   help="its address (MLTUNE_SERVER)")
    p.add_argument("--state", default=".mltune",
                   help="state folder, for the token (MLTUNE_TOKEN)")
    p.add_argument("--trials", type=int, default=30, help="of each search")
    p.add_argument("--first", type=int, default=6, help="of them, at random")
    p.add_argument("--vain", type=int, default=32,
                   help="known settings in a row that end a search")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--poll", type=float, default=0.1, help="seconds")
    p.add_argument("--patience", type=float, default=60,
                   help="seconds that the server may be gone")
    options = p.parse_args()
    if not options.server:
        p.error("--server is not given")
    token = os.environ.get("MLTUNE_TOKEN") or pathlib.Path(
        options.state, "token").read_text(encoding="ascii").strip()
    try:
        tune(Run(options.server, options.run, token, options.patience),
             options)
    except NoAnswer as e:
        sys.exit(f"no answer: {e}")


if __name__ == "__main__":
    main()
