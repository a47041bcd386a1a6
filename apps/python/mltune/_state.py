"""State of a training program, as branches hold it.

What the user registers becomes *holders*: a module's tensors, an optimizer, any
object with `state_dict` and `load_state_dict`, an array, a bag of values. Each
puts a branch's state into the live object before a slice (`activate`) and looks
after it what has become of it (`capture`).

Memory is in *pages*, one a tensor or array. States of several branches refer to
the same pages until one of them trains: a page that others refer to as well is
copied before the first clock, and dropped again after the slice where the clocks
left it as it was. Whether they did is seen from the bytes: torch's counters of
writes know nothing of writes through `.data`, of NumPy, or of a batch norm's
running mean.

Everything here is used on the program's thread only; a thread that writes a
snapshot reads pages that a reference of its own keeps as they are.
"""
import copy
import sys
from operator import is_
from typing import (Any, Callable, Dict, Iterable, Iterator, List, NamedTuple,
                    Optional, Sequence, Set, Tuple)

PLAIN = (int, float, str, bytes, bool, complex, type(None))

_PLAIN = frozenset(PLAIN)


def is_fixed(x: Any) -> bool:
    """Whether @x is a value that nobody can change: two that are the same
    object are equal to the bit then, and need no copies."""
    return type(x) in _PLAIN or \
        type(x) is tuple and all(type(v) in _PLAIN for v in x)


class StateError(Exception):
    """State that cannot be held, written or read; the message is for people."""


# ---- kinds of memory ---------------------------------------------------------


class Kind:
    """What can be done with one sort of array."""

    name = ""

    def is_mine(self, x: Any) -> bool:
        raise NotImplementedError

    def copy(self, x: Any, into: Any = None) -> Any:
        """A copy of @x; in @into where that is given and fits."""
        raise NotImplementedError

    def write(self, to: Any, x: Any) -> None:
        """Makes the values of @to those of @x."""
        raise NotImplementedError

    def same(self, a: Any, b: Any) -> bool:
        """Whether all bytes are equal (a NaN equals itself)."""
        raise NotImplementedError

    def version(self, x: Any) -> int:
        """Grows with writes that are known of."""
        return 0

    def bytes(self, x: Any) -> int:
        raise NotImplementedError

    def spec(self, x: Any) -> Tuple[Any, ...]:
        """Kind, type, shape, and where it lies: what two must have in common
        for one to take the other's values."""
        raise NotImplementedError

    def adopt(self, x: Any, spec: Tuple[Any, ...]) -> Any:
        """@x where @spec says; @x itself where its type or shape is another."""
        del spec
        return x


class NumpyKind(Kind):
    """Arrays of NumPy."""

    name = "numpy"

    def is_mine(self, x: Any) -> bool:
        numpy = sys.modules.get("numpy")
        return numpy is not None and isinstance(x, numpy.ndarray)

    def copy(self, x: Any, into: Any = None) -> Any:
        if x.dtype.hasobject:
            raise StateError("an array of Python objects cannot be state")
        if into is None:
            return x.copy()
        into[...] = x
        return into

    def write(self, to: Any, x: Any) -> None:
        to[...] = x

    def same(self, a: Any, b: Any) -> bool:
        numpy = sys.modules["numpy"]
        if a.dtype != b.dtype or a.shape != b.shape:
            return False
        if a.flags.c_contiguous and b.flags.c_contiguous and a.size:
            return bool(numpy.array_equal(a.reshape(-1).view(numpy.uint8),
                                          b.reshape(-1).view(numpy.uint8)))
        return a.tobytes() == b.tobytes()

    def bytes(self, x: Any) -> int:
        return int(x.nbytes)

    def spec(self, x: Any) -> Tuple[Any, ...]:
        return ("numpy", str(x.dtype), tuple(x.shape))


KINDS: List[Kind] = [NumpyKind()]


_kind_by_type: Dict[type, Optional[Kind]] = {}


def kind_of(x: Any) -> Optional[Kind]:
    """The kind of array that @x is; None: it is none."""
    try:
        return _kind_by_type[type(x)]
    except KeyError:
        return _kind_by_type.setdefault(type(x), _find_kind(x))


def _find_kind(x: Any) -> Optional[Kind]:
    if isinstance(x, PLAIN):
        return None
    if "torch" in sys.modules:
        from . import torch as _  # noqa: F401  adds its kind
    return next((kind for kind in KINDS if kind.is_mine(x)), None)


# ---- pages -------------------------------------------------------------------


class Page:
    """The memory of one tensor or array, in as many states as `refs` says.
    Nobody writes into one that is in several."""

    __slots__ = ("kind", "data", "refs", "bytes", "home")

    def __init__(self, kind: Kind, data: Any) -> None:
        self.kind, self.data = kind, data
        self.refs = 0
        self.bytes = kind.bytes(data)
        self.home: Any = None  # the device it was moved away from


class Spares:
    """Memory of pages that went, for copies to come: new memory costs more
    time than copying. At most @bytes_max."""

    def __init__(self) -> None:
        self.bytes_max = 0
        self.bytes = 0
        self._free: Dict[Any, List[Any]] = {}

    def take(self, kind: Kind, x: Any) -> Any:
        """Memory like @x's, or None."""
        found = self._free.get(kind.spec(x))
        if not found:
            return None
        self.bytes -= kind.bytes(x)
        return found.pop()

    def give(self, kind: Kind, x: Any) -> None:
        size = kind.bytes(x)
        if self.bytes + size <= self.bytes_max:
            self.bytes += size
            self._free.setdefault(kind.spec(x), []).append(x)

    def drop(self) -> None:
        """Gives all of it back to the system."""
        self._free.clear()
        self.bytes = 0


class Part:
    """What one holder holds in one state: a tree of plain values in which
    `Slot(i)` stands for page i, and the pages. Neither changes once it is made:
    a `capture` that finds nothing new gives the part that it was given.

    An open part's pages are those of an earlier slice: its holder kept what the
    clocks left as it was and looks at it when somebody asks (`settle`). Only a
    state that no other branch refers to has such parts."""

    __slots__ = ("tree", "pages", "form", "open")

    def __init__(self, tree: Any, pages: List[Page]) -> None:
        self.tree, self.pages = tree, pages
        # The holder's own: what it worked out once. Gone when pages move.
        self.form: Any = None
        self.open = False


class Slot:
    """Place of a page in a tree."""

    __slots__ = ("at",)

    def __init__(self, at: int) -> None:
        self.at = at

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Slot) and other.at == self.at


class State:
    """All that a branch's clocks change: a part for each holder. Shared by a
    branch and its forks until one of them runs."""

    __slots__ = ("parts", "refs", "own")

    def __init__(self, parts: List[Part]) -> None:
        self.parts = parts
        self.refs = 1
        self.own = False  # all its pages are known to be in no other state

    def pages(self) -> Iterator[Page]:
        for part in self.parts:
            yield from part.pages


class Alone:
    """Which pages a slice may write in place: those in one state only.

    @all  whether it may write every page: then neither a state nor a part of
          another branch refers to anything of this one. None: page by page
    """

    __slots__ = ("all",)

    def __init__(self, all: Optional[bool] = None) -> None:  # noqa: A002
        self.all = all

    def __call__(self, page: Page) -> bool:
        return page.refs == 1 if self.all is None else self.all


# ---- trees -------------------------------------------------------------------


def tree_map(x: Any, leaf: Callable[[Any], Any]) -> Any:
    """A new tree like @x, with what @leaf makes of what is no container."""
    if type(x) is dict:
        return {k: tree_map(v, leaf) for k, v in x.items()}
    if isinstance(x, dict):
        return like_dict(x, {k: tree_map(v, leaf) for k, v in x.items()})
    if type(x) is list:
        return [tree_map(v, leaf) for v in x]
    if type(x) is tuple:
        return tuple(tree_map(v, leaf) for v in x)
    return leaf(x)


def like_dict(like: Any, values: Dict[Any, Any]) -> Any:
    """@values as a dictionary of the type of @like: an OrderedDict, a Counter,
    a defaultdict with the same default."""
    if type(like) is dict:
        return values
    made = copy.copy(like)
    made.clear()
    made.update(values)
    return made


def copy_plain(x: Any) -> Any:
    """A copy of a leaf that is no array; what cannot be copied stays."""
    if type(x) in _PLAIN or isinstance(x, PLAIN) or callable(x):
        return x
    try:
        return copy.deepcopy(x)
    except Exception:  # pylint: disable=broad-except
        return x  # a lock, a handle: of the process, not of the branch


# ---- holders -----------------------------------------------------------------


class Holder:
    """One registered object. Others may be added: see docs/own-programs.md.

    The three calls come in this order: capture(None) once, then for each slice
    activate and capture.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def activate(self, part: Part, alone: Alone,
                 spares: Spares) -> None:
        """Puts @part into the live object, whose memory may then be written:
        that of pages that are @alone itself, of others copies."""
        raise NotImplementedError

    def capture(self, part: Optional[Part]) -> Part:
        """The live object's state after clocks that began with @part; shares
        pages with it that are as they were. None: the very first."""
        raise NotImplementedError

    def settle(self, part: Part) -> Part:
        """What an open @part is: one whose pages are up to date."""
        assert not part.open, "it left it open itself"
        return part

    def abandon(self, spares: Spares) -> None:
        """Instead of `capture`: nobody will ask what the clocks did. Memory of
        copies goes to @spares."""


class Given(NamedTuple):
    """What a page became in the live object."""
    page: Page
    live: Any      # page.data itself, or a copy
    version: int


def written(given: Given) -> bool:
    """Whether the copy of a page is no longer what the page is."""
    kind = given.page.kind
    return kind.version(given.live) != given.version or \
        not kind.same(given.live, given.page.data)


class TreeHolder(Holder):
    """A tree of containers, arrays and plain values that is read and set whole.

    @get     the live tree; may be made of the live arrays themselves
    @set     takes a tree of the holder's; may keep its arrays and containers
    @keeps   the arrays that `set` was given are the live ones, and nobody else
             refers to what `get` gives. So no value is copied but at a first
             write: an optimizer's state. Else each switch copies
    """

    def __init__(self, name: str, get: Callable[[], Any],
                 set: Callable[[Any], None],  # noqa: A002
                 keeps: bool = False) -> None:
        super().__init__(name)
        self._get, self._set, self._keeps = get, set, keeps
        self._given: Dict[int, Given] = {}  # by id of the live array
        self._still: Dict[int, Given] = {}  # by id of a page not written

    def activate(self, part: Part, alone: Alone,
                 spares: Spares) -> None:
        live: List[Any] = []
        self._given = {}
        for page in part.pages:
            x = page.data
            if not self._keeps:
                x = page.kind.copy(x)
            elif not alone(page):
                known = self._still.get(id(page))
                x = known.live if known is not None and known.page is page \
                    else page.kind.copy(x, spares.take(page.kind, x))
            live.append(x)
            if self._keeps:
                self._given[id(x)] = Given(page, x, page.kind.version(x))
        self._still = {}
        self._set(tree_map(part.tree, lambda x: live[x.at] if type(x) is Slot
                           else copy_plain(x)))

    def capture(self, part: Optional[Part]) -> Part:
        return self.part_of(self._get(), part)

    def part_of(self, live: Any, part: Optional[Part]) -> Part:
        """The part that holds tree @live; shares with @part what is as it was."""
        pages: List[Page] = []
        before = part.pages if part else []

        def leaf(x: Any) -> Any:
            kind = kind_of(x)
            if kind is None:
                return copy_plain(x)
            pages.append(self._page(x, kind, before, len(pages)))
            return Slot(len(pages) - 1)

        tree = tree_map(live, leaf)
        if part and len(pages) == len(before) and all(map(is_, pages, before)):
            pages = part.pages
        return Part(tree, pages)

    def _page(self, x: Any, kind: Kind, before: Sequence[Page],
              at: int) -> Page:
        given = self._given.get(id(x))
        if given is not None and given.live is x:
            if x is given.page.data:
                return given.page
            if written(given):
                return Page(kind, x)
            self._still[id(given.page)] = given
            return given.page
        if self._keeps:
            return Page(kind, x)
        if at < len(before) and before[at].kind is kind and \
                kind.same(before[at].data, x):
            return before[at]
        return Page(kind, kind.copy(x))

    def abandon(self, spares: Spares) -> None:
        for given in self._given.values():
            if given.live is not given.page.data:
                spares.give(given.page.kind, given.live)
        self._given = {}


class ArrayHolder(Holder):
    """An array or a dictionary of arrays that keep their places in memory: each
    switch writes values into them. For NumPy, and wherever others refer to
    the same memory."""

    def __init__(self, name: str, arrays: Any) -> None:
        super().__init__(name)
        self._whole = arrays

    def _items(self) -> List[Tuple[Any, Any]]:
        if isinstance(self._whole, dict):
            return list(self._whole.items())
        return [(None, self._whole)]

    def activate(self, part: Part, alone: Alone,
                 spares: Spares) -> None:
        if isinstance(self._whole, dict):
            for name in [n for n in self._whole if n not in part.tree]:
                del self._whole[name]
        for name, value in part.tree.items():
            x = self._whole[name] if isinstance(self._whole, dict) and \
                name in self._whole else None
            if not isinstance(self._whole, dict):
                x = self._whole
            if type(value) is not Slot:
                self._whole[name] = copy_plain(value)
                continue
            page = part.pages[value.at]
            if x is None or kind_of(x) is not page.kind or \
                    page.kind.spec(x) != page.kind.spec(page.data):
                self._whole[name] = page.kind.copy(page.data)
            else:
                page.kind.write(x, page.data)

    def capture(self, part: Optional[Part]) -> Part:
        tree: Dict[Any, Any] = {}
        pages: List[Page] = []
        for name, x in self._items():
            kind = kind_of(x)
            if kind is None:
                tree[name] = copy_plain(x)
                continue
            old = part.tree.get(name) if part else None
            page = part.pages[old.at] if part and type(old) is Slot else None
            if page is None or kind is not page.kind or \
                    kind.spec(x) != kind.spec(page.data) or \
                    not kind.same(x, page.data):
                page = Page(kind, kind.copy(x))
            tree[name] = Slot(len(pages))
            pages.append(page)
        return Part(tree, pages)


class Values:
    """Plain values that belong to the branch: `run.values.best = 0.0`."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)

    def __repr__(self) -> str:
        return f"Values({self.__dict__!r})"


class ValuesHolder(TreeHolder):
    """Values, of which most programs have none."""

    def __init__(self, name: str, values: Values) -> None:
        self._live = values.__dict__
        super().__init__(name, lambda: self._live, self._put)

    def _put(self, values: Dict[str, Any]) -> None:
        self._live.clear()
        self._live.update(values)

    def activate(self, part: Part, alone: Alone,
                 spares: Spares) -> None:
        if part.tree or self._live:
            super().activate(part, alone, spares)

    def capture(self, part: Optional[Part]) -> Part:
        if part is not None and not part.tree and not self._live:
            return part
        return super().capture(part)


def holder_of(name: str, x: Any) -> Holder:
    """The holder for a registered object. Raises StateError where its state
    cannot be known."""
    if isinstance(x, Holder):
        return x
    if isinstance(x, Values):
        return ValuesHolder(name, x)
    if type(x).__module__.split(".")[0] == "torch" or "torch" in sys.modules:
        from . import torch as mltune_torch
        made = mltune_torch.holder_of(name, x)
        if made is not None:
            return made
    if kind_of(x) is not None or isinstance(x, dict):
        return ArrayHolder(name, x)
    if hasattr(x, "state_dict") and hasattr(x, "load_state_dict"):
        return TreeHolder(name, x.state_dict, x.load_state_dict)
    raise StateError(
        f"{name}: {type(x).__name__} has no state_dict and load_state_dict, "
        "and is no tensor, array or dictionary of arrays; plain values go into "
        "run.values")


class Room:
    """Memory of a device that is short: pages of states that wait go to the
    host, those of the longest first, and come back when their state runs."""

    def lies_there(self, page: Page) -> bool:
        """Whether @page takes room on the device."""
        raise NotImplementedError

    def free(self) -> int:
        """Bytes that the device can give, beyond what a clock needs."""
        raise NotImplementedError

    def out(self, page: Page) -> None:
        """Moves @page to the host; sets its home."""
        raise NotImplementedError

    def back(self, page: Page) -> None:
        """Moves it back where its home is."""
        raise NotImplementedError

    def make(self, state: State, alone: Alone,
             waiting: Sequence[State], spares: Spares,
             settle: Callable[[State], None]) -> None:
        """Room for @state to run; @waiting: all others, those first that have
        waited longest; @settle settles one, before its pages move. Where there is
        none at last the device says so."""
        moved = [page for page in state.pages() if page.home is not None]
        need = sum(page.bytes for page in moved)
        if not alone.all:
            need += sum(page.bytes for page in state.pages()
                        if not alone(page) and (page.home is not None or
                                                self.lies_there(page)))
        short = need > 0 and self.free() < need
        if not short and not moved:
            return
        if short:
            spares.drop()
        for each in [state, *waiting]:
            settle(each)
        mine = {id(page) for page in state.pages()}
        sent = False
        for other in waiting:
            if self.free() >= need:
                break
            for page in other.pages():
                if page.home is None and id(page) not in mine and \
                        self.lies_there(page):
                    self.out(page)
                    sent = True
        for page in moved:
            self.back(page)
        if sent or moved:
            for each in [state, *waiting]:
                for part in each.parts:
                    part.form = None


class Registry:
    """The holders of a program, and which state is live."""

    def __init__(self) -> None:
        self.holders: List[Holder] = []
        self.spares = Spares()
        self.bytes = 0  # of all pages that states refer to
        self.room: Optional[Room] = None  # a device whose memory may be short
        self._states: Dict[int, State] = {}  # live; last run comes last

    def add(self, name: str, x: Any) -> Holder:
        """Registers @x under a name of its own."""
        names = {h.name for h in self.holders}
        at, base = 1, name
        while name in names:
            at += 1
            name = f"{base}{at}"
        holder = holder_of(name, x)
        holder.name = name
        self.holders.append(holder)
        return holder

    def first(self) -> State:
        """The live state, copied: nothing refers to the objects' own memory."""
        parts = [h.capture(None) for h in self.holders]
        return self._state([Part(p.tree, [Page(g.kind, g.kind.copy(g.data))
                                          for g in p.pages]) for p in parts])

    def activate(self, state: State, how: str = "train") -> None:
        """Makes @state live. How: `train`, what clocks do to it stays; `test`,
        its memory is not written, whatever the program does; `look`, nobody
        writes."""
        alone = Alone(how == "look")
        if how == "train" and state.refs == 1:
            state.own = state.own or all(p.refs == 1 for p in state.pages())
            alone = Alone(state.own or None)
        if not alone.all:
            self._settle(state)
        if self.room is not None:
            self.room.make(state, alone, [s for s in self._states.values()
                                          if s is not state], self.spares,
                           self._settle)
            self._states[id(state)] = self._states.pop(id(state))
        for holder, part in zip(self.holders, state.parts):
            holder.activate(part, alone, self.spares)

    def capture(self, state: State) -> State:
        """What clocks made of @state, which was activated: takes the place of
        the caller's reference to it."""
        parts = [h.capture(p) for h, p in zip(self.holders, state.parts)]
        if state.refs > 1:
            state.own = False
            made = self._state(parts)
            self.release(state)
            return made
        self._replace(state, parts)
        return state

    def _replace(self, state: State, parts: List[Part]) -> None:
        moved = [(new.pages, old.pages) for new, old in
                 zip(parts, state.parts) if new.pages is not old.pages]
        for new, _ in moved:
            self._take(new)
        for _, old in moved:
            self._give(old)
        state.own = state.own and not moved
        state.parts = parts

    def _settle(self, state: State) -> None:
        """Pages of @state are up to date afterwards."""
        if any([part.open for part in state.parts]):
            self._replace(state, [
                h.settle(part) if part.open else part
                for h, part in zip(self.holders, state.parts)])

    def _state(self, parts: List[Part]) -> State:
        made = State(parts)
        self._take(made.pages())
        self._states[id(made)] = made
        return made

    def _take(self, pages: Iterable[Page]) -> None:
        for page in pages:
            page.refs += 1
            if page.refs == 1:
                self.bytes += page.bytes

    def _give(self, pages: Iterable[Page]) -> None:
        for page in pages:
            page.refs -= 1
            if page.refs == 0:
                self.bytes -= page.bytes
                if page.home is None:
                    self.spares.give(page.kind, page.data)

    def abandon(self) -> None:
        """What the clocks did to the live state is of no interest."""
        for holder in self.holders:
            holder.abandon(self.spares)

    def share(self, state: State) -> State:
        """One more reference to @state."""
        self._settle(state)
        state.refs += 1
        return state

    def release(self, state: State) -> None:
        """One reference less."""
        state.refs -= 1
        if state.refs > 0:
            return
        del self._states[id(state)]
        self._give(state.pages())

    def likeness(self) -> Tuple[int, List["Likeness"]]:
        """Bytes of the live state, and what a state that is loaded must look
        like."""
        parts = [h.capture(None) for h in self.holders]
        return (sum(page.bytes for p in parts for page in p.pages),
                [Likeness(p.tree, [page.kind.spec(page.data)
                                   for page in p.pages]) for p in parts])

    # ---- files -------------------------------------------------------------

    def export(self, state: State) -> Dict[str, Any]:
        """A tree of dictionaries, lists, tuples, plain values and arrays.
        Functions and objects are left out: they are as at the program's
        start."""
        self._settle(state)
        return {h.name: _out(p.tree, p)
                for h, p in zip(self.holders, state.parts)}

    def load(self, trees: Any, like: Sequence["Likeness"]) -> State:
        """The state that `export` gave; types and shapes must be @like that.
        Raises StateError."""
        need = [h.name for h in self.holders]
        if not isinstance(trees, dict) or sorted(trees) != sorted(need):
            raise StateError(f"it is not state of {', '.join(need)}")
        parts = []
        for holder, part in zip(self.holders, like):
            pages: List[Page] = []
            tree = _in(trees[holder.name], part.tree, part, pages, holder.name)
            parts.append(Part(tree, pages))
        return self._state(parts)


class Likeness(NamedTuple):
    """A part without memory."""
    tree: Any
    specs: List[Tuple[Any, ...]]


_OWN = "mltune: as at the start of the program"
_left_out: Set[str] = set()


def _out(x: Any, part: Part) -> Any:
    if type(x) is Slot:
        return part.pages[x.at].data
    if isinstance(x, dict):
        return {_out(k, part): _out(v, part) for k, v in x.items()}
    if isinstance(x, list):
        return [_out(v, part) for v in x]
    if type(x) is tuple:
        return tuple(_out(v, part) for v in x)
    for plain in (bool, int, float, str, bytes, complex):
        if isinstance(x, plain):
            return plain(x)  # of NumPy's float64 the float
    if x is None:
        return x
    if hasattr(x, "dtype") and hasattr(x, "item"):
        return x.item()
    name = type(x).__name__
    if not callable(x) and name not in _left_out:
        _left_out.add(name)
        print(f"mltune: snapshots leave out a {name}: it is no plain value",
              file=sys.stderr)
    return _OWN


def _in(x: Any, like: Any, part: Likeness, pages: List[Page], at: str) -> Any:
    """@x as a tree of slots, beside the tree @like where there is one."""
    kind = kind_of(x)
    if kind is not None:
        if type(like) is Slot:
            x = _fit(x, kind, part.specs[like.at], at)
        pages.append(Page(kind, x))
        return Slot(len(pages) - 1)
    if isinstance(x, dict):
        known = like if isinstance(like, dict) else {}
        made = {k: _in(v, known.get(k), part, pages, f"{at}.{k}")
                for k, v in x.items()}
        return like_dict(like, made) if isinstance(like, dict) else made
    if isinstance(x, (list, tuple)):
        beside = like if isinstance(like, (list, tuple)) else []
        return type(x)([_in(v, beside[i] if i < len(beside) else None, part,
                            pages, f"{at}[{i}]") for i, v in enumerate(x)])
    if type(x) is str and x == _OWN:
        return like
    if not isinstance(x, PLAIN):
        raise StateError(f"{at}: a {type(x).__name__} is no state")
    if type(like) is Slot and not isinstance(x, (bool, type(None))):
        raise StateError(f"{at}: a number where the program has an array")
    return x


def _fit(x: Any, kind: Kind, spec: Tuple[Any, ...], at: str) -> Any:
    """@x, brought to the place that @spec says; it must have its type and
    shape."""
    made = kind.adopt(x, spec)
    if kind.spec(made) != spec:
        raise StateError(f"{at}: {kind.spec(x)[1:3]} where the program has "
                         f"{spec[1:3]}")
    return made
