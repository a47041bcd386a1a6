"""Runs, read and steered over HTTP: a client of `mltune run` and `mltune serve`.

    client = mltune.Client("http://127.0.0.1:8080/")
    run = client.run("digits-4f9c2a")     # or mltune.Client.of("digits"), or
                                          # mltune.Client.serving(".mltune")
    run.look()["status"]
    for event in run.events():
        print(event.kind, event.data)

What the members of answers mean is in docs/http.md; they are dicts and lists
as the server sends them, with figures that are not finite as floats. Every call
ends within `timeout` seconds. What is refused raises a Refused with the server's
code (docs/http/errors.md); nobody there: NoAnswer.
"""
from __future__ import annotations

import copy
import json
import os
import pathlib
import time
import urllib.parse
import uuid
from typing import (Any, Callable, Dict, Iterator, List, NamedTuple, Optional,
                    Tuple, Union)

from ._http import (BadAnswer, ClientError, Conflict, Invalid, NoAnswer,
                    NotFound, NotRunning, Place, Refused, TokenRequired,
                    Unavailable, begin, problem)
from ._local import Folder, of_run, of_service

__all__ = ["Client", "RemoteRun", "Event", "ClientError", "NoAnswer",
           "NotRunning", "BadAnswer", "Refused", "Invalid", "TokenRequired",
           "NotFound", "Conflict", "Unavailable"]

API = "/api/v1"
TIMEOUT = 45.0  # seconds; a run has 30 to answer a command
SILENCE = 45.0  # of a stream, which says something every 15 s
FOREVER = 1e9  # seconds, where no timeout is given
SETTLES_S = 30  # from the last record of a run to the end of its tuner
ENDED = ("finished", "failed", "interrupted", "stopped")
# Members that are figures: "nan" there is a number.
FIGURES = {"loss", "metric", "speed", "noise", "range", "standing", "seconds",
           "numbers", "norm"}
NOT_FINITE = {"nan": float("nan"), "inf": float("inf"), "-inf": -float("inf")}

Json = Dict[str, Any]
Pathlike = Union[str, "os.PathLike[str]"]


class Event(NamedTuple):
    """A record of a run's journal. id: its number; kind: "epoch_ended", ..."""

    id: int
    kind: str
    data: Json


def _finite(value: Any) -> Any:
    if isinstance(value, list):
        return [_finite(v) for v in value]
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    return NOT_FINITE.get(value, value) if isinstance(value, str) else value


def _figures(pairs: List[Tuple[str, Any]]) -> Json:
    return {k: _finite(v) if k in FIGURES else v for k, v in pairs}


def _load(body: bytes) -> Any:
    return json.loads(body, object_pairs_hook=_figures)


def _segment(value: Any) -> str:
    """A variable of a path."""
    return urllib.parse.quote(str(value), safe="")


def _token_of(state: pathlib.Path) -> Optional[str]:
    given = os.environ.get("MLTUNE_TOKEN")
    if given:
        return given
    try:
        return (state / "token").read_text(encoding="ascii").strip()
    except OSError:
        return None


def _choose(names: List[Tuple[str, str]], word: Optional[str],
            where: str) -> str:
    """The id that @word names among (id, name), oldest first: an id, a name
    (its newest run), or the beginning of one id; None: the only one."""
    if word is None:
        if len(names) == 1:
            return names[0][0]
        raise NotRunning(f"there are {len(names)} runs in {where}, name one: "
                         + ", ".join(i for i, _ in names[:5]) if names else
                         f"no run is alive in {where}")
    same = [i for i, _ in names if i == word]
    named = [i for i, name in names if name == word]
    begun = [i for i, _ in names if word and i.startswith(word)]
    if not same and not named and len(begun) > 1:
        raise ClientError(f'several runs begin with "{word}"; give more of '
                          "the id")
    for found in (same, named, begun):
        if found:
            return found[-1]
    raise NotRunning(f'no run "{word}" is alive in {where}; mltune ls lists '
                     "all, mltune resume goes on with one")


class Client:
    """A server: of one run, or a service. Holds no connection: it may be used
    by several threads, and kept while the server is started again.

    url: "http://127.0.0.1:8080/"; other machines by https only. token: for
    writes, and for reads from afar; None: MLTUNE_TOKEN, if there is one.
    timeout: seconds a call may take. cacert: certificates (PEM) to trust
    instead of the system's (MLTUNE_CACERT).
    """

    def __init__(self, url: str, token: Optional[str] = None, *,
                 timeout: float = TIMEOUT, cacert: Optional[str] = None):
        if not timeout > 0:
            raise ValueError("timeout: above 0")
        self._place = Place(url)
        self.url, self.timeout, self.cacert = self._place.url, timeout, cacert
        self._token = (token or os.environ.get("MLTUNE_TOKEN") or "").strip()
        # Of a server that is looked up in its state folder each time.
        self._server: Optional[Folder] = None
        self._state = pathlib.Path()

    def __repr__(self) -> str:
        return f"mltune.Client({self.url!r})"

    @classmethod
    def of(cls, run: Optional[str] = None, state: Optional[Pathlike] = None,
           **options: Any) -> "RemoteRun":
        """A run on this machine that is alive, found through its state folder
        (./.mltune). @run is an id, the beginning of one, or a name (its newest
        run); None: the only one. A folder that `mltune serve` looks after: any
        of its runs. Asked by the server's Unix socket, without a token. Raises
        NotRunning."""
        folder = pathlib.Path(state or ".mltune").resolve()
        service = cls._there(of_service(folder), folder, options)
        if service:
            names = [(r["run"], r["name"]) for r in service.runs()]
            return service.run(_choose(names, run, str(folder)))
        found = []
        for place in sorted(folder.glob("runs/*/url"), key=_age):
            if of_run(place.parent).way():
                name = place.parent.name
                found.append((name, _name_of(place.parent)))
        word = _choose(found, run, str(folder))
        client = cls._there(of_run(folder / "runs" / word), folder, options)
        if not client:
            raise NotRunning(f"run {word} has just ended")
        return client.run(word)

    @classmethod
    def serving(cls, state: Optional[Pathlike] = None,
                **options: Any) -> "Client":
        """The service on this machine that looks after the state folder
        (./.mltune), asked by its Unix socket, without a token. Raises
        NotRunning."""
        folder = pathlib.Path(state or ".mltune").resolve()
        client = cls._there(of_service(folder), folder, options)
        if not client:
            raise NotRunning(f"no service has the state folder {folder}")
        return client

    @classmethod
    def _there(cls, server: Folder, state: pathlib.Path,
               options: Json) -> Optional["Client"]:
        way = server.way()
        if not way:
            return None
        client = cls(way.url, **options)
        client._server, client._state = server, state
        return client

    def _where(self) -> Tuple[Place, Optional[str]]:
        """Where a request goes now, and the token that goes along."""
        if not self._server:
            return self._place, self._token
        way = self._server.way()
        if not way:
            raise NoAnswer(f"the server at {self.url} has ended: nobody has "
                           f"{self._server.lock}")
        place = Place.of(way)
        self.url = place.url
        if place.socket:
            return place, None
        return place, self._token or _token_of(self._state)

    # ---- requests --------------------------------------------------------

    def _begin(self, method: str, path: str, query: Json,
               body: Any = None, key: Optional[str] = None,
               headers: Optional[Dict[str, str]] = None) -> Any:
        named = {k: str(v).lower() if isinstance(v, bool) else str(v)
                 for k, v in query.items() if v is not None}
        target = path + ("?" + urllib.parse.urlencode(named) if named else "")
        head = dict(headers or {})
        place, token = self._where()
        if token:
            head["Authorization"] = f"Bearer {token}"
        if key:
            head["Idempotency-Key"] = key
        text = None
        if body is not None:
            head["Content-Type"] = "application/json"
            text = json.dumps(body).encode()
        answer = begin(place, method, target, head, text, self.timeout,
                       self.cacert)
        if answer.status < 300:
            return answer
        try:
            raise problem(place, answer.status, answer.whole())
        finally:
            answer.close()

    def request(self, method: str, path: str, body: Any = None,
                key: Optional[str] = None, **query: Any) -> Any:
        """Any route: @path begins with "/"; below /api/v1 unless it begins so
        or is at the root. The answer as JSON. @key: Idempotency-Key; with one
        the same request may be sent again without harm."""
        at_root = path.startswith(API) or path in ("/metrics", "/healthz",
                                                   "/readyz", "/version")
        answer = self._begin(method, path if at_root else API + path, query,
                             body, key)
        try:
            text = answer.whole()
        finally:
            answer.close()
        if not (answer.headers.get("Content-Type") or "").startswith(
                "application/json"):
            return text.decode("utf-8", "replace")
        try:
            return _load(text)
        except ValueError as e:
            raise BadAnswer(f"what answers at {self.url} is no mltune") from e

    def get(self, path: str, **query: Any) -> Any:
        """The answer to a GET of @path, below /api/v1."""
        return self.request("GET", path, **query)

    def list(self, path: str, name: str, **query: Any) -> List[Json]:
        """All items of a list, page by page."""
        items: List[Json] = []
        query.setdefault("page_size", 1000)
        while True:
            page = self.get(path, **query)
            items += page[name]
            query["page_token"] = page["next_page_token"]
            if query["page_token"] is None:
                return items

    # ---- runs ------------------------------------------------------------

    def runs(self, **filters: Any) -> List[Json]:
        """All runs, oldest first. Filters: status, name, group."""
        return self.list("/runs", "runs", **filters)

    def run(self, run: str) -> "RemoteRun":
        """The run of that id. Asks nothing yet."""
        return RemoteRun(self, run)

    def submit(self, config: Json, group: Optional[str] = None,
               held: bool = False, key: Optional[str] = None) -> "RemoteRun":
        """Hands a run to a service. Sent again by itself where the answer was
        lost: the same run. Raises Invalid with every fault."""
        key = key or uuid.uuid4().hex
        answer = self._again(lambda: self.request(
            "POST", "/runs", config, key, group=group,
            held=True if held else None))
        run = self.run(answer["run"])
        run.problems = answer["problems"]
        return run

    def validate(self, config: Json) -> Json:
        """{"valid", "problems", "config"}; makes nothing."""
        return self.request("POST", "/runs:validate", config)

    def _again(self, send: Callable[[], Any]) -> Any:
        """Once more where no answer came, or the server was busy."""
        until = time.monotonic() + self.timeout
        while True:
            try:
                return send()
            except (NoAnswer, BadAnswer, Unavailable):
                if time.monotonic() > until:
                    raise
                time.sleep(0.2)

    # ---- the program -----------------------------------------------------

    def version(self) -> Json:
        """Version of the program, and of its interface."""
        return self.get("/version")

    def ready(self) -> bool:
        """Whether the server is there and can do its work."""
        try:
            return self.get("/readyz")["status"] == "ready"
        except (NoAnswer, Unavailable):
            return False

    def metrics(self) -> str:
        """In Prometheus's text format."""
        return self.get("/metrics")

    def schema(self) -> Json:
        """JSON schema of the configuration."""
        return self.get("/schema")

    def searchers(self) -> List[Json]:
        """Searchers that a configuration may name, plug-ins too."""
        return self.list("/searchers", "searchers")

    def strategies(self) -> List[Json]:
        """Strategies that a configuration may name."""
        return self.list("/strategies", "strategies")

    def apps(self) -> List[Json]:
        """Applications, with their tunables and settings."""
        return self.list("/apps", "apps")


def _age(place: pathlib.Path) -> float:
    try:
        return place.stat().st_mtime
    except OSError:
        return 0.0


def _name_of(folder: pathlib.Path) -> str:
    """A run's name: its configuration's, else what its id begins with."""
    try:
        name = json.loads((folder / "config.json").read_text())["name"]
    except (OSError, ValueError, KeyError, TypeError):
        name = None
    return name if isinstance(name, str) else folder.name.rpartition("-")[0]


class RemoteRun:
    """A run at a server. client: the Client; id: the run's; problems: the
    warnings of its submission."""

    def __init__(self, client: Client, run: str) -> None:
        self.client, self.id = client, run
        self.problems: List[Json] = []
        self._path = f"/runs/{_segment(run)}"

    def __repr__(self) -> str:
        return f"<run {self.id} at {self.client.url}>"

    def _get(self, path: str = "", **query: Any) -> Any:
        return self.client.get(self._path + path, **query)

    def _list(self, name: str, **query: Any) -> List[Json]:
        return self.client.list(f"{self._path}/{name}", name, **query)

    def _do(self, what: str, body: Any = None, key: Optional[str] = None,
            method: str = "POST") -> Json:
        return self.client.request(method, self._path + what, body, key)

    # ---- reading ---------------------------------------------------------

    def look(self) -> Json:
        """The run now: status, epochs, loss, best, setting, ..."""
        return self._get()

    @property
    def status(self) -> str:
        """As look() has it: "tuning", "training", "finished", ..."""
        return self.look()["status"]

    def config(self) -> Json:
        """The run's whole configuration, defaults included."""
        return self._get("/config")

    def result(self) -> Json:
        """What `mltune run --json` prints at its end, or would print now."""
        return self._get("/result")

    def epochs(self, surviving: Optional[bool] = None) -> List[Json]:
        """Epochs with loss and metric; only what @surviving says."""
        return self._list("epochs", surviving=surviving)

    def schedule(self) -> List[Json]:
        """Which setting was used from which clock on."""
        return self._list("schedule")

    def decisions(self) -> List[Json]:
        """What the tuner decided, and why."""
        return self._list("decisions")

    def slices(self) -> List[Json]:
        """Which branch ran which clocks."""
        return self._list("slices")

    def searches(self) -> List[Json]:
        """Searches, the open one too."""
        return self._list("searches")

    def trials(self, search: Optional[int] = None) -> List[Json]:
        """Settings that were tried; of one @search if it is said."""
        return self._list("trials", search=search)

    def trial(self, trial: int) -> Json:
        """One of them."""
        return self._get(f"/trials/{_segment(trial)}")

    def branches(self, live: Optional[bool] = None) -> List[Json]:
        """Branches; only @live ones, or only those that are gone."""
        return self._list("branches", live=live)

    def branch(self, branch: int) -> Json:
        """One of them."""
        return self._get(f"/branches/{_segment(branch)}")

    def progress(self, branch: int, after: Optional[int] = None,
                 max_points: Optional[int] = None,
                 lineage: Optional[bool] = None) -> Json:
        """The loss of a branch by clock."""
        return self._get(f"/branches/{_segment(branch)}/progress", after=after,
                         max_points=max_points, lineage=lineage)

    def curve(self, **query: Any) -> Json:
        """The whole run's loss by clock, as columns: from, to, spans."""
        return self._get("/curve", **query)

    def survey(self, **query: Any) -> Json:
        """Trials by what they show, where there are many."""
        return self._get("/survey", **query)

    def tree(self, **query: Any) -> Json:
        """Which branch comes from which, in spans of clocks."""
        return self._get("/tree", **query)

    def nodes(self) -> List[Json]:
        """The training system's processes."""
        return self._list("nodes")

    def traffic(self, max_points: Optional[int] = None) -> Json:
        """Bytes between nodes by time."""
        return self._get("/traffic", max_points=max_points)

    def export(self, path: Pathlike, format: str = "csv") -> None:
        """Writes the run as `mltune export` does into the file @path: a tar
        archive (csv, tensorboard, mlflow) or lines (jsonl, optuna-journal).
        Under another name until it is whole."""
        answer = self.client._begin("GET", f"{API}{self._path}/export",
                                    {"format": format})
        part = f"{os.fspath(path)}.tmp"
        try:
            with open(part, "wb") as file:
                while True:
                    answer.within(self.client.timeout)
                    some = answer.some()
                    if not some:
                        break
                    file.write(some)
            os.replace(part, path)
        finally:
            answer.close()
            if os.path.exists(part):
                os.unlink(part)

    # ---- events ----------------------------------------------------------

    def events(self, after: Optional[int] = None, patience: float = 60.0,
               timeout: Optional[float] = None) -> Iterator[Event]:
        """What happens, as it happens, until the run has ended. @after: the
        number of the last event that is known, 0: from the first that is kept;
        None: what comes next.

        A connection that breaks is made again, and goes on after the last
        event; no server for @patience seconds: NoAnswer. Where events are
        gone for good because nobody took them in time, an event of kind
        "dropped" says so, and those that are kept follow; where those are gone
        too by the time they are asked for, what comes next. After @timeout
        seconds, all together: TimeoutError."""
        last = after
        dropped = False  # by the last connection, which told nothing else
        broken: Optional[float] = None  # since when there is no stream
        end = time.monotonic() + (timeout if timeout is not None else FOREVER)
        while True:
            alive: List[bool] = []
            try:
                for event in self._stream(last, end, alive):
                    if event.kind == "dropped":
                        # A log that turns over faster than it is asked for is
                        # caught up with at its newest event.
                        last = int(event.data["newest" if dropped else
                                              "kept_after"])
                        dropped = True
                        yield event
                        break
                    dropped = False
                    last = event.id
                    yield event
                    if event.kind == "run_finished":
                        return
                else:
                    if self._by(end).look()["status"] in ENDED:
                        return  # the stream's end was the run's last word
                    time.sleep(0.2)
            except (NoAnswer, BadAnswer, Unavailable) as e:
                now = time.monotonic()
                if broken is None or alive:
                    broken = now
                until = broken + patience
                if now > min(until, end):
                    raise (NoAnswer if until < end else TimeoutError)(
                        f"no events of run {self.id}: {e}") from e
                time.sleep(0.2)

    def _by(self, end: float) -> "RemoteRun":
        """The same run, whose calls are answered until then. Past it:
        TimeoutError."""
        left = end - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"run {self.id} goes on")
        client = copy.copy(self.client)
        client.timeout = min(client.timeout, left)
        return RemoteRun(client, self.id)

    def _stream(self, last: Optional[int], end: float,
                alive: List[bool]) -> Iterator[Event]:
        """Events of one connection; @alive gets an item once a line came, if
        only a sign of life."""
        headers = {"Accept": "text/event-stream"}
        if last is not None:
            headers["Last-Event-ID"] = str(last)
        answer = self._by(end).client._begin(
            "GET", f"{API}{self._path}/events", {}, headers=headers)
        fields: Dict[str, str] = {}
        try:
            while True:
                left = end - time.monotonic()
                if left <= 0:  # whatever lies here, read already
                    raise TimeoutError(f"run {self.id} goes on")
                answer.within(min(SILENCE, left))
                text = answer.line().decode("utf-8", "replace")
                if answer.ended:
                    return  # an event is told by an empty line
                if not alive:
                    alive.append(True)
                if text:
                    name, _, value = text.partition(":")
                    fields[name] = value[1:] if value[:1] == " " else value
                elif "data" in fields:
                    yield Event(int(fields.get("id", last or 0)),
                                fields.get("event", "message"),
                                _load(fields["data"].encode()))
                    fields = {}
        finally:
            answer.close()

    def wait(self, timeout: Optional[float] = None) -> Json:
        """The run, once it has ended. A run that has a server of its own takes
        it along: then status, reason and message alone are told. After
        @timeout seconds: TimeoutError."""
        end = time.monotonic() + (timeout if timeout is not None else FOREVER)
        try:
            now = self._by(end).look()
        except NoAnswer as e:
            self._by(end)  # was it the time that ran out?
            raise e
        if now["status"] in ENDED:
            return now
        for event in self.events(after=0, timeout=end - time.monotonic()):
            if event.kind == "run_finished":
                now = {k: event.data.get(k)
                       for k in ("status", "reason", "message")}
                now["run"] = self.id
        # A service tells of the end once the run's tuner is gone.
        until = min(time.monotonic() + SETTLES_S, end)
        seen: Json = {}
        while True:
            try:
                seen = self._by(until).look()
            except (NoAnswer, NotFound):
                return now
            except TimeoutError:
                return {**seen, **now}
            if seen["status"] in ENDED:
                return seen
            time.sleep(0.05)

    # ---- commands --------------------------------------------------------

    def pause(self) -> Json:
        """Runs no further clock until go_on()."""
        return self._do(":pause")

    def go_on(self, other_data: bool = False) -> Json:
        """Continues after a pause; with other_data also a run that a service
        holds as its data have changed, with those that are there."""
        return self._do(":continue", {"other_data": True} if other_data
                        else None)

    def stop(self) -> Json:
        """Ends the run, its best model written."""
        return self._do(":stop")

    def retune(self) -> Json:
        """Searches for other settings now."""
        return self._do(":retune")

    def snapshot(self) -> Json:
        """Writes a snapshot now."""
        return self._do(":snapshot")

    def limit(self, **stop: Any) -> Json:
        """Other limits: max_epochs=20, max_time="10m", target_loss=None."""
        return self._do("", {"stop": stop}, method="PATCH")

    def delete(self) -> Json:
        """Forgets a run that has ended or waits, with its folder."""
        return self._do("", method="DELETE")

    def fork(self, branch: int, setting: Json, epochs: Optional[int] = None,
             clocks: Optional[int] = None, key: Optional[str] = None) -> int:
        """Tries a setting from there, beside the training: the new branch."""
        body: Json = {"setting": setting}
        if epochs is not None:
            body["epochs"] = epochs
        if clocks is not None:
            body["clocks"] = clocks
        return self._do(f"/branches/{_segment(branch)}:fork", body,
                        key)["branch"]

    def promote(self, branch: int) -> Json:
        """Goes on from that branch, with its setting."""
        return self._do(f"/branches/{_segment(branch)}:promote")

    def free(self, branch: int) -> Json:
        """Drops a branch that fork() made."""
        return self._do(f"/branches/{_segment(branch)}:free")

    # ---- ask and tell ----------------------------------------------------

    def search(self) -> Json:
        """All that a searcher outside needs: state, tunables, trials, ..."""
        return self._get("/search")

    def suggest(self, *settings: Json, exhausted: bool = False,
                key: Optional[str] = None) -> List[int]:
        """Settings to be tried: the numbers of the suggestions. exhausted:
        nothing follows. Sent again by itself where the answer was lost; no
        suggestion is made twice."""
        body: Json = {}
        if settings:
            body["settings"] = [dict(s) for s in settings]
        if exhausted:
            body["exhausted"] = True
        key = key or uuid.uuid4().hex
        answer = self.client._again(
            lambda: self._do("/trials:suggest", body, key))
        return answer["suggestions"]

    def suggestions(self) -> List[Json]:
        """What was suggested, and what became of it."""
        return self._list("suggestions")

    def suggestion(self, number: int) -> Json:
        """One of them."""
        return self._get(f"/suggestions/{_segment(number)}")

    def ask_and_tell(self, propose: Callable[[Json], Optional[Json]],
                     poll: float = 0.1) -> Json:
        """Lets @propose choose what a search tries, one setting at a time, until
        the run makes no further search: it gets search(), with what was found
        so far, and returns a setting, or None when it has no more for this
        search. Returns the last search()."""
        while True:
            search = self.search()
            if search["state"] == "ended":
                return search
            if search["state"] == "open" and search["asking"] == "open" and \
                    not search["running"] and not search["waiting"] and \
                    search["wanted"] > 0:
                setting = propose(search)
                try:
                    if setting is None:
                        self.suggest(exhausted=True)
                    else:
                        self.suggest(setting)
                except Conflict as e:
                    if e.code not in ("not_yet", "limit_reached",
                                      "search_over", "run_ended"):
                        raise
            time.sleep(poll)

    # ---- the log ---------------------------------------------------------

    def log(self, node: int = 0, offset: int = -65536,
            limit: int = 65536) -> Tuple[str, int]:
        """A piece of what the training system wrote, and where the next one
        begins. @offset: the first byte; a negative one from the end. "": the
        end so far."""
        answer = self.client._begin("GET", f"{API}{self._path}/log",
                                    {"node": node, "offset": offset,
                                     "limit": limit})
        try:
            text = answer.whole().decode("utf-8", "replace")
            return text, int(answer.headers["Log-Next-Offset"])
        except (TypeError, ValueError) as e:
            raise BadAnswer(f"what answers at {self.client.url} is no "
                            "mltune") from e
        finally:
            answer.close()

    # ---- rows ------------------------------------------------------------

    def tables(self) -> List[Json]:
        """Tables of which rows can be read."""
        return self.client.list("/tables", "tables", run=self.id)

    def rows(self, table: Union[str, int], row: int, count: int = 1,
             branch: Optional[int] = None, offset: Optional[int] = None,
             values: Optional[int] = None) -> List[List[float]]:
        """Rows as they are now: a list of values for each of @count rows from
        @row on. branch: default what the run trains."""
        told = self.client.get(
            f"/tables/{_segment(table)}/rows/{_segment(row)}", run=self.id,
            count=count, branch=branch, offset=offset, values=values)
        return [_finite(r["values"]) for r in told["rows"]]

    def increment(self, table: Union[str, int], row: int, values: Any,
                  branch: Optional[int] = None, offset: Optional[int] = None,
                  key: Optional[str] = None) -> Json:
        """Adds to a row: an update, which goes through the table's rule."""
        body: Json = {"values": [float(v) for v in values]}
        if branch is not None:
            body["branch"] = branch
        if offset is not None:
            body["offset"] = offset
        return self.client.request(
            "POST", f"/tables/{_segment(table)}/rows/{_segment(row)}:inc",
            body, key, run=self.id)
