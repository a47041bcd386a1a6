"""State of PyTorch programs: modules, optimizers, schedulers, scalers, tensors.

A switch of branches sets the pointers of parameters and buffers (`.data`) and which
dictionary an optimizer's state is; no value is copied but before the first clock of
a branch that shares its memory with others.

After clocks of another branch nothing of this is in the processor's caches: what a
switch costs is how many objects of how many tensors it touches.
"""
import collections
import itertools
import json
import os
import sys
from operator import is_, is_not
from typing import (TYPE_CHECKING, Any, Callable, Dict, Iterable, Iterator,
                    List, NamedTuple, Optional, Tuple)

import torch
import torch.utils.data

from . import _files
from ._engine import Batch, Order, Place, batch_size, mix
from ._session import seed_all
from ._state import (KINDS, Alone, Given, Holder, Kind, Page, Part, Room, Slot,
                     Spares, StateError, TreeHolder, is_fixed, like_dict)

if TYPE_CHECKING:
    from .run import Run

_INTS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class TorchKind(Kind):
    """Dense tensors."""

    name = "torch"

    def is_mine(self, x: Any) -> bool:
        return isinstance(x, torch.Tensor)

    def copy(self, x: Any, into: Any = None) -> Any:
        if x.layout is not torch.strided:
            raise StateError(f"a tensor of layout {x.layout} cannot be state")
        if into is not None:
            return into.copy_(x.detach())
        return x.detach().clone(memory_format=torch.preserve_format)

    def write(self, to: Any, x: Any) -> None:
        to.data.copy_(x)

    def same(self, a: Any, b: Any) -> bool:
        if a.dtype != b.dtype or a.shape != b.shape:
            return False
        if a.numel() == 0:
            return True
        a, b = a.detach(), b.detach()
        size = a.element_size()
        if a.is_floating_point() and size in _INTS and a.stride() == b.stride():
            a, b = a.view(_INTS[size]), b.view(_INTS[size])
        elif a.is_complex():
            return self.same(torch.view_as_real(a), torch.view_as_real(b))
        return bool(torch.equal(a, b))

    def version(self, x: Any) -> int:
        return x._version

    def bytes(self, x: Any) -> int:
        return x.numel() * x.element_size()

    def spec(self, x: Any) -> Tuple[Any, ...]:
        return ("torch", x.dtype, tuple(x.shape), x.stride(), x.device)

    def adopt(self, x: Any, spec: Tuple[Any, ...]) -> Any:
        _, dtype, shape, strides, device = spec
        if x.dtype is not dtype or tuple(x.shape) != shape:
            return x
        return torch.empty_strided(shape, strides, dtype=dtype,
                                   device=device).copy_(x)


KIND = TorchKind()
KINDS.append(KIND)


_DTYPE = torch.Tensor.dtype.__get__
_GRAD = torch.Tensor.grad.__get__
_SET_DATA = torch.Tensor.data.__set__
_IS_SET_TO = torch.Tensor.is_set_to
_NONE = itertools.repeat(None)
WALK_EVERY = 8  # switches between two looks at all that can be looked at


def _are_set_to(tensors: List[torch.Tensor],
                others: List[torch.Tensor]) -> bool:
    """Whether each of @tensors is the memory of its other: with the same
    place, shape and strides. They are as many."""
    return all(map(_IS_SET_TO, tensors, others))


def _are_of_type(tensors: List[torch.Tensor],
                 others: List[torch.Tensor]) -> bool:
    return all(map(is_, map(_DTYPE, tensors), map(_DTYPE, others)))


class TensorsHolder(Holder):
    """Tensors that stay the objects they are while their memory changes.

    A program that reads the same memory of one as another type, or puts another
    parameter in the place of one, is seen to do so in the first slices. Where it
    begins with that later, a few slices may pass, and it is an error.

    @find  gives names and live tensors, the same names in the same order; an
           object that was replaced by another is state like one written. Asked
           with True it sees tensors that came as well: before clocks
    """

    def __init__(self, name: str,
                 find: Callable[[bool],
                                Tuple[List[str], List[torch.Tensor]]]
                 ) -> None:
        super().__init__(name)
        self._find = find
        self._copied: Dict[int, Given] = {}   # by place
        self._still: Dict[int, Given] = {}    # by place
        self._aliased: set = set()             # places that share memory
        self._tensors: List[torch.Tensor] = []
        self._names: List[str] = []
        self._tree: Dict[str, Slot] = {}
        self._switches = 0
        self._captures = 0
        self._types_change = False
        self._fresh = False  # nothing has run since the last capture
        self._lies: Any = None  # where all of them lay then: a form

    def _live(self, whole: bool) -> List[torch.Tensor]:
        names, self._tensors = self._find(whole)
        if names is not self._names and names != self._names:
            self._tree = {name: Slot(i) for i, name in enumerate(names)}
        self._names = names
        return self._tensors

    def _fits(self, part: Part) -> bool:
        """Whether the names are those of @part."""
        return part.tree is self._tree or list(part.tree) == self._names

    def _look_for_aliases(self) -> None:
        """Tensors that lie in memory that others use, or in a part of it, keep
        their places: values are written there instead."""
        seen: Dict[int, int] = {}
        for i, x in enumerate(self._tensors):
            where = x.storage().data_ptr() if x.numel() else -1 - i
            if where in seen:
                self._aliased |= {i, seen[where]}
            seen.setdefault(where, i)
            if x.numel() and x.storage().size() != x.numel():
                self._aliased.add(i)

    def activate(self, part: Part, alone: Alone,
                 spares: Spares) -> None:
        if self._fresh and alone.all and self._switches % WALK_EVERY and \
                part.form is not None and part.tree is self._tree and \
                not self._aliased:
            self._fresh = False
            self._switches += 1
            self._copied, self._still = {}, {}
            if part.form is not self._lies:
                _exhaust(map(_SET_DATA, self._tensors, part.form))
            return
        # A program where tensors come while it is tuned fails; where that is
        # seen a few switches later, the others take half the time.
        look = self._switches % WALK_EVERY == 0
        if look or not self._fresh:
            self._live(look or self._captures < WALK_EVERY)
        tensors = self._tensors
        self._fresh = False
        self._switches += 1
        if not self._fits(part):
            raise StateError(f"{self.name}: the tensors are no longer those "
                             "that were registered")
        assert len(part.pages) == len(tensors)
        self._copied = {}
        if not self._aliased and alone.all:
            self._still = {}
            _exhaust(map(_SET_DATA, tensors, self._memory(part)))
            return
        for i, (x, page) in enumerate(zip(tensors, part.pages)):
            if i in self._aliased:
                x.data.copy_(page.data)
                continue
            data = page.data
            if not alone(page):
                known = self._still.get(i)
                data = known.live if known is not None and known.page is page \
                    else KIND.copy(data, spares.take(KIND, data))
                x.data = data
                self._copied[i] = Given(page, data, x._version)
            else:
                x.data = data
        self._still = {}

    def capture(self, part: Optional[Part]) -> Part:
        if part is not None and part.form is not None and \
                not self._copied and self._captures > WALK_EVERY and \
                self._captures % WALK_EVERY and part.tree is self._tree and \
                not self._types_change and not self._aliased and \
                getattr(self._find, "steady", False) and \
                all(map(_IS_SET_TO, self._tensors, part.form)):
            self._fresh = True
            self._captures += 1
            self._lies = part.form
            return part
        self._lies = None
        first = self._captures < WALK_EVERY
        look = first or self._captures % WALK_EVERY == 0
        tensors = self._live(part is None or look)
        if part is None:
            self._look_for_aliases()
            return Part(self._tree, [Page(KIND, x.data) for x in tensors])
        if not self._fits(part):
            raise StateError(f"{self.name}: tensors came or went while a "
                             "branch trained")
        self._fresh = True
        self._captures += 1
        if not self._aliased and not self._copied and \
                self._is_still(tensors, self._memory(part), look, first):
            return part
        pages = [self._page(i, x, page)
                 for i, (x, page) in enumerate(zip(tensors, part.pages))]
        return Part(part.tree, pages)

    @staticmethod
    def _memory(part: Part) -> List[torch.Tensor]:
        """What the pages hold."""
        if part.form is None:
            part.form = [page.data for page in part.pages]
        return part.form

    def _is_still(self, tensors: List[torch.Tensor],
                  memory: List[torch.Tensor], look: bool, first: bool) -> bool:
        """Whether @tensors are @memory, as they were when it was set. Types are
        looked at where @look says so, and if they have changed at @first."""
        if not _are_set_to(tensors, memory):
            return False
        if not look and not self._types_change or \
                _are_of_type(tensors, memory):
            return True
        if not first and not self._types_change:
            raise StateError(f"{self.name}: a tensor was given another type in "
                             "the memory that it had, and in earlier slices "
                             "none was; `.data = x.clone()` gives it memory of "
                             "its own")
        self._types_change = True
        return False

    def _page(self, i: int, x: torch.Tensor, page: Page) -> Page:
        if i in self._aliased:
            return page if KIND.same(x, page.data) else \
                Page(KIND, KIND.copy(x))
        given = self._copied.get(i)
        data = page.data if given is None else given.live
        if not _are_set_to([x], [data]) or not _are_of_type([x], [data]):
            return Page(KIND, KIND.copy(x))  # replaced by another
        if given is None:
            return page
        if x._version != given.version or not KIND.same(data, page.data):
            return Page(KIND, data)
        self._still[i] = given
        return page

    def abandon(self, spares: Spares) -> None:
        for given in self._copied.values():
            spares.give(KIND, given.live)
        self._copied = {}


class ModuleTensors:
    """Parameters and buffers of a module, each once, those that are not saved
    as well. Where they lie is looked up once: walking a module costs more than
    a switch of branches."""

    def __init__(self, module: torch.nn.Module) -> None:
        self._module = module
        self._tables: List[Dict[str, Any]] = []
        self._sizes = [-1]
        self._names: List[str] = []
        self._in: List[Dict[str, Any]] = []  # where each lies, and under what
        self._keys: List[str] = []
        self._empty: List[Tuple[Dict[str, Any], str]] = []  # None stands there
        self._buffers: List[int] = []  # which of them are replaced by others
        self._found: List[Any] = []
        self._looked = True     # since then nobody relied on the parameters
        self._replaced = False  # parameters are, too
        self.steady = False     # between two looks all are what they were

    def __call__(self, whole: bool) -> Tuple[List[str], List[torch.Tensor]]:
        self.steady = False
        if whole and self._have_come():
            self._walk()
        if whole or self._replaced or not self._found:
            found = list(map(dict.get, self._in, self._keys))
            self._look_at_parameters(found)
        else:
            found = self._found[:]
            self._looked = False
            self.steady = not self._buffers
            for i in self._buffers:
                found[i] = self._in[i].get(self._keys[i])
        self._found = found
        if not any(map(is_, found, _NONE)):
            return self._names, found
        return ([n for n, x in zip(self._names, found) if x is not None],
                [x for x in found if x is not None])

    def _look_at_parameters(self, found: List[Any]) -> None:
        if len(found) != len(self._found) or \
                all(map(is_, found, self._found)):
            self._looked = True
            return
        buffers = set(self._buffers)
        if not self._replaced and any(
                x is not y and i not in buffers
                for i, (x, y) in enumerate(zip(found, self._found))):
            if not self._looked:
                raise StateError("a parameter was replaced by another object, "
                                 "and in earlier slices none was; set its "
                                 "`.data` instead")
            self._replaced = True
        self._looked = True

    def _have_come(self) -> bool:
        return list(map(len, self._tables)) != self._sizes or any(
            [table[key] is not None for table, key in self._empty])

    def _walk(self) -> None:
        seen: Dict[int, bool] = {}
        self._tables, self._names, self._empty = [], [], []
        self._in, self._keys, self._buffers = [], [], []
        self._found = []
        for prefix, sub in self._module.named_modules():
            self._tables.append(sub._modules)  # type: ignore[arg-type]
            for table in (sub._parameters, sub._buffers):
                self._tables.append(table)  # type: ignore[arg-type]
                for key, x in table.items():
                    if x is None:
                        self._empty.append((table, key))  # type: ignore
                    elif id(x) not in seen:
                        seen[id(x)] = True
                        self._names.append(f"{prefix}.{key}" if prefix else key)
                        if table is sub._buffers:
                            self._buffers.append(len(self._keys))
                        self._in.append(table)  # type: ignore[arg-type]
                        self._keys.append(key)
        self._sizes = list(map(len, self._tables))


class _Entries:
    """An optimizer's state that is a part's own: it is put back as it is when its
    branch goes on. Only where each entry is a page or a fixed value, and so is
    each value of the groups."""

    __slots__ = ("params", "state", "owners", "entries", "counts", "keys",
                 "values", "unseen")

    def __init__(self, params: List[Any], state: Dict[Any, Any]) -> None:
        self.params = params         # of all groups
        self.state = state           # by parameter; a dictionary of the part's
        self.owners = list(state)
        self.entries: List[Dict[str, Any]] = list(state.values())
        self.counts = list(map(len, self.entries))
        self.keys = list(_chain(self.entries))
        self.values = list(_chain(map(dict.values, self.entries)))
        self.unseen = 0              # captures until it is looked at again

    def is_still(self, state: Dict[Any, Any]) -> bool:
        """Whether @state is what it was when this was made. What a page holds
        may have changed."""
        if len(state) != len(self.entries) or \
                not all(map(is_, state, self.owners)) or \
                not all(map(is_, state.values(), self.entries)):
            return False
        return list(map(len, self.entries)) == self.counts and \
            all(map(is_, _chain(map(dict.values, self.entries)),
                    self.values)) and \
            list(_chain(self.entries)) == self.keys


class OptimizerHolder(TreeHolder):
    """An optimizer: state of each parameter, by its place, and the groups'
    numbers.

    The dictionaries of state belong to the branch: a switch makes its own the
    optimizer's, and afterwards it is the branch's with all that clocks did to
    it. So nothing need be looked at before somebody wants the branch's pages;
    it is done every few slices all the same, as what the pages hold is not freed
    before. Where somebody else has hold of the optimizer's dictionary, that one
    stays and its entries are put back.
    """

    def __init__(self, name: str, optimizer: torch.optim.Optimizer) -> None:
        super().__init__(name, self._read, self._write, keeps=True)
        self.optimizer = optimizer
        self._mine: Optional[_Entries] = None  # live now
        self._last: Optional[_Entries] = None  # whose dictionary is live
        self._swaps = "state" in vars(optimizer)

    def activate(self, part: Part, alone: Alone,
                 spares: Spares) -> None:
        form = part.form if alone.all else None
        self._mine = None
        self._look_who_holds()
        if form is None or \
                not part.open and not _same(form.params, self._params()):
            super().activate(part, alone, spares)
            if alone.all:
                self._mine = part.form = self._own_entries(part)
            return
        self._given, self._still = {}, {}
        self._mine = form
        self._put(form.state)
        self._last = form if self._swaps else None
        self._write_groups(part.tree["groups"])

    def capture(self, part: Optional[Part]) -> Part:
        mine, self._mine = self._mine, None
        if mine is not None and mine.unseen > 0 and part is not None and \
                self._is_mine(mine, part.tree["groups"]):
            mine.unseen -= 1
            part.open = True
            return part
        self._look_who_holds()
        if part is not None and mine is not None:
            groups = self._read_groups()
            # Left open where nobody but the branch can have its dictionary.
            leave = mine.unseen > 0 and self._last is mine and \
                self.optimizer.state is mine.state and \
                _same(mine.params, self._params()) and _are_fixed(groups)
            if leave or self._is_still(mine):
                mine.unseen = mine.unseen - 1 if leave else WALK_EVERY - 1
                if not _same_groups(groups, part.tree["groups"]):
                    if not _are_fixed(groups):
                        return self._captured(part)
                    part, old = Part({**part.tree, "groups": groups},
                                     part.pages), part
                    part.form = old.form
                part.open = leave
                return part
        return self._captured(part)

    def _is_mine(self, mine: _Entries, groups: List[Dict[str, Any]]) -> bool:
        """Whether all is as it mostly is after a slice: nobody else has hold of
        the part's dictionary, and @groups, parameters first, are unchanged. Each
        call of a function of our own would be felt here."""
        live = self.optimizer.param_groups
        params: List[Any] = []
        if self._last is not mine or self.optimizer.state is not mine.state or \
                sys.getrefcount(mine.state) != 3 or len(live) != len(groups):
            return False
        for group, had in zip(live, groups):
            values = list(group.values())
            if values[0] is not group["params"] or \
                    len(values) != len(had) + 1 or \
                    list(group)[1:] != list(had) or \
                    not all(map(is_, values[1:], had.values())):
                return False
            params += values[0]
        return len(params) == len(mine.params) and \
            all(map(is_, params, mine.params))

    def _captured(self, part: Optional[Part]) -> Part:
        if part is not None and not self._given:
            self._given = {id(page.data): Given(page, page.data, 0)
                           for page in part.pages}
        made = super().capture(part)
        made.form = self._own_entries(made)
        return made

    def settle(self, part: Part) -> Part:
        form = part.form
        if form.is_still(form.state):
            part.open = False
            return part
        given, self._given = self._given, {
            id(page.data): Given(page, page.data, 0) for page in part.pages}
        made = self.part_of({"state": self._by_place(form.state),
                             "groups": part.tree["groups"]}, part)
        self._given = given
        if self._last is form:
            self._last = None
        return made

    def _own_entries(self, part: Part) -> Optional[_Entries]:
        """The live entries, if they are nothing but @part's pages and fixed
        values."""
        live = self.optimizer.state
        if any(type(s) is not dict for s in live.values()) or \
                not _are_fixed(part.tree["groups"]):
            return None
        made = _Entries(self._params(), live if self._swaps
                        else dict(live))
        if not _same([v for v in made.values if not is_fixed(v)],
                     [page.data for page in part.pages]):
            return None
        self._last = made if self._swaps else None
        return made

    def _is_still(self, mine: _Entries) -> bool:
        return mine.is_still(self.optimizer.state) and \
            _same(mine.params, self._params())

    def _look_who_holds(self) -> None:
        """A part's dictionary that somebody else has got hold of is the
        optimizer's from now on, and the part has a copy."""
        own = vars(self.optimizer)
        if not self._swaps:
            return
        ours = 2 if self._last is not None and \
            self._last.state is own["state"] else 1
        if sys.getrefcount(own["state"]) > ours + 1:
            self._swaps = False
            if ours == 2 and self._last is not None:
                self._last.state = dict(own["state"])
            self._last = None

    def _put(self, state: Dict[Any, Any]) -> None:
        """Makes @state the optimizer's."""
        if self._swaps:
            self.optimizer.state = state  # type: ignore[assignment]
        else:
            self.optimizer.state.clear()
            self.optimizer.state.update(state)

    def _params(self) -> List[torch.nn.Parameter]:
        return [p for g in self.optimizer.param_groups for p in g["params"]]

    def _read(self) -> Any:
        return {"state": self._by_place(self.optimizer.state),
                "groups": self._read_groups()}

    def _by_place(self, state: Dict[Any, Any]) -> Dict[Any, Any]:
        places = {p: i for i, p in enumerate(self._params())}
        return {places.get(p, p): dict(s) if isinstance(s, dict) else s
                for p, s in state.items()}

    def _read_groups(self) -> List[Dict[str, Any]]:
        return [{k: v for k, v in g.items() if k != "params"}
                for g in self.optimizer.param_groups]

    def _write(self, tree: Any) -> None:
        params = self._params()
        self._put(like_dict(self.optimizer.state, {
            params[at] if isinstance(at, int) else at: s
            for at, s in tree["state"].items()}))
        self._last = None
        self._write_groups(tree["groups"])

    def _write_groups(self, groups: List[Dict[str, Any]]) -> None:
        for group, values in zip(self.optimizer.param_groups, groups):
            group.update(values)
            if len(group) > len(values) + 1:
                for k in [k for k in group
                          if k != "params" and k not in values]:
                    del group[k]


_chain = itertools.chain.from_iterable
_exhaust = collections.deque(maxlen=0).extend


def _same(a: List[Any], b: List[Any]) -> bool:
    """Whether both are lists of the same objects."""
    return len(a) == len(b) and all(map(is_, a, b))


def _are_fixed(groups: List[Dict[str, Any]]) -> bool:
    return all(is_fixed(v) for g in groups for v in g.values())


def _same_groups(a: List[Dict[str, Any]], b: List[Dict[str, Any]]) -> bool:
    """Whether the fixed values @b are those in @a: the same objects."""
    return len(a) == len(b) and all(
        len(x) == len(y) and list(x) == list(y) and
        all(map(is_, x.values(), y.values())) for x, y in zip(a, b))


def holder_of(name: str, x: Any) -> Optional[Holder]:
    """The holder for an object of PyTorch's; None: it is none of them."""
    if isinstance(x, torch.nn.Module):
        return TensorsHolder(name, ModuleTensors(x))
    if isinstance(x, torch.optim.Optimizer):
        return OptimizerHolder(name, x)
    if isinstance(x, torch.Tensor):
        names = [""]
        return TensorsHolder(name, lambda _: (names, [x]))
    return None


class GradientsHolder(Holder):
    """Which parameters have a gradient, as zero is another thing than none to
    an optimizer; and the gradients themselves where they outlive a clock.

    A loop clears its gradients at one end of a clock or the other, so values
    of another branch are never seen. A loop that steps once in several clocks
    is known by its first clock, which leaves gradients and no step.

    Most loops drop them: each clock makes new ones, and which there were before
    it is nothing to them. A gradient that outlives a clock has been written to
    more often after it. Where that was so of none in the first slices, which
    there are is looked at in each eighth slice, until it is so of one.
    """

    def __init__(self, name: str, params: List[torch.nn.Parameter],
                 keep: Optional[bool]) -> None:
        super().__init__(name)
        self.params = params
        self.keep = keep
        self._versions: Optional[List[int]] = None
        self._seen: Any = None  # which have one, as nothing has run since
        self._captures = 0
        self._writes: Optional[List[Any]] = None  # to each, at the last look
        self._drops = not keep  # none was seen to outlive a clock

    def activate(self, part: Part, alone: Alone,
                 spares: Spares) -> None:
        if not part.pages and (part.tree == self._seen or self._none_counts()):
            return
        self._seen = None
        for p, has in zip(self.params, part.tree):
            grad = p.grad
            if has is False:
                if grad is not None:
                    p.grad = None
                continue
            if grad is None:
                grad = p.grad = torch.zeros_like(p)
            if has is not True:
                grad.data.copy_(part.pages[has.at].data)

    def capture(self, part: Optional[Part]) -> Part:
        if part is None and self.keep is None:
            self._look()
        if not self.keep:
            self._captures += 1
            if part is not None and not part.pages and self._none_counts() and \
                    self._captures % WALK_EVERY:
                return part
            grads = list(map(_GRAD, self.params))
            if self._drops and part is not None:
                self._look_whether_they_outlive(grads)
            has = tuple(map(is_not, grads, _NONE))
            self._seen = None if part is None else has
            same = part is not None and not part.pages and part.tree == has
            return part if part is not None and same else Part(has, [])
        tree: List[Any] = []
        pages: List[Page] = []
        for p in self.params:
            tree.append(p.grad is not None)
            if p.grad is not None:
                tree[-1] = Slot(len(pages))
                pages.append(Page(KIND, KIND.copy(p.grad)))
        return Part(tuple(tree), pages)

    def abandon(self, spares: Spares) -> None:
        self._seen = None

    def _none_counts(self) -> bool:
        """Whether the loop is known to drop its gradients."""
        return self._drops and self._captures > WALK_EVERY

    def _look_whether_they_outlive(self, grads: List[Any]) -> None:
        writes = [None if g is None else g._version for g in grads]
        if self._writes is not None and writes != self._writes:
            self._drops = False
        self._writes = writes

    def _look(self) -> None:
        versions = [p._version for p in self.params]
        if self._versions is None:
            self._versions = versions
            return
        left = [p for p in self.params if p.grad is not None and
                bool(p.grad.count_nonzero())]
        self.keep = bool(left) and versions == self._versions


class CudaRoom(Room):
    """The memory of a CUDA device, of which a clock needs a part."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._before = 0
        self._clock = 0  # bytes that a clock takes above the states
        self.begin_clocks()

    def begin_clocks(self) -> None:
        """A slice begins; what other branches hold is no part of its clocks."""
        self._before = torch.cuda.memory_allocated(self._device)
        torch.cuda.reset_peak_memory_stats(self._device)

    def end_clocks(self) -> None:
        """Clocks have been run since."""
        peak = torch.cuda.max_memory_allocated(self._device)
        self._clock = max(self._clock, peak - self._before)

    def lies_there(self, page: Page) -> bool:
        return page.kind is KIND and page.data.device == self._device

    def free(self) -> int:
        free, _ = torch.cuda.mem_get_info(self._device)
        cached = torch.cuda.memory_reserved(self._device) - \
            torch.cuda.memory_allocated(self._device)
        return free + cached - self._clock

    def out(self, page: Page) -> None:
        page.home = page.data.device
        x = page.data
        page.data = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype,
                                        pin_memory=True).copy_(x)

    def back(self, page: Page) -> None:
        x = page.data
        page.data = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype,
                                        device=page.home).copy_(x)
        page.home = None


# ---- rates -------------------------------------------------------------------

_TINY = 1e-30  # stands for a learning rate of 0, which could not be undone


class _Held(Dict[str, Any]):
    """What tunables a branch's state holds, and the setting that they are of."""

    def __init__(self, base: Dict[str, Any], held: Dict[str, Any],
                 by: Dict[str, Any]) -> None:
        super().__init__(base, **held)
        self.by = by


class Rates:
    """Learning rate, momentum and weight decay of all optimizers: the setting's
    value is the first group's, the others keep their ratio to it."""

    def __init__(self, optimizers: List[torch.optim.Optimizer],
                 schedulers: List[Any]) -> None:
        self._optimizers = optimizers
        self._schedulers = [s for x in schedulers for s in _inner(x)]
        groups = self._groups()
        self.base: Dict[str, float] = {}
        self._decays = [float(g["weight_decay"]) for g in groups
                        if g.get("weight_decay")]
        if groups and "lr" in groups[0]:
            self.base["learning_rate"] = float(_rate_of(groups[0]))
        first = next((g for g in groups if _has_momentum(g)), None)
        if first is not None:
            self.base["momentum"] = float(
                first["momentum"] if "momentum" in first else first["betas"][0])
        if any("weight_decay" in g for g in groups):
            self.base["weight_decay"] = self._decays[0] if self._decays else 0.0

    def _groups(self) -> List[Dict[str, Any]]:
        return [g for o in self._optimizers for g in o.param_groups]

    def apply(self, setting: Dict[str, Any],
              held: Dict[str, Any]) -> Dict[str, Any]:
        """From what @held says to @setting; returns what is held now."""
        if isinstance(held, _Held) and held.by is setting:
            return held
        now = _Held(self.base, held, setting)
        for name in self.base:
            value = setting.get(name)
            if value is None or value == now[name]:
                continue
            if name == "learning_rate":
                self._set_rate(float(value), float(now[name]))
            elif name == "momentum":
                self._set_momentum(float(value))
            else:
                self._set_decay(float(value), float(now[name]))
            now[name] = value
        return now

    def _set_rate(self, new: float, old: float) -> None:
        new, old = new or _TINY, old or _TINY
        for g in self._groups():
            for key in ("lr", "initial_lr", "max_lr", "min_lr"):
                if key in g:
                    g[key] = _scaled(g[key], new, old)
        for s in self._schedulers:
            for key in ("base_lrs", "max_lrs", "min_lrs", "eta_min",
                        "_last_lr"):
                if hasattr(s, key):
                    setattr(s, key, _scaled(getattr(s, key), new, old))

    def _set_momentum(self, value: float) -> None:
        for g in self._groups():
            if not _has_momentum(g):
                continue
            if "momentum" in g:
                g["momentum"] = value
            else:
                g["betas"] = (value, *g["betas"][1:])

    def _set_decay(self, new: float, old: float) -> None:
        for g in self._groups():
            if "weight_decay" not in g:
                continue
            if not self._decays:
                g["weight_decay"] = new
            elif g["weight_decay"]:
                g["weight_decay"] = _scaled(g["weight_decay"], new or _TINY,
                                            old or _TINY)


def _scaled(x: Any, new: float, old: float) -> Any:
    """@x, that was made for @old, for @new; exact where it is @old."""
    if isinstance(x, (list, tuple)):
        return type(x)([_scaled(v, new, old) for v in x])
    if isinstance(x, torch.Tensor):
        return x * (new / old)
    return new if x == old else x * (new / old)


def _rate_of(group: Dict[str, Any]) -> float:
    return float(group.get("max_lr", group.get("initial_lr", group["lr"])))


def _has_momentum(group: Dict[str, Any]) -> bool:
    """Whether nobody but us sets it: OneCycleLR and CyclicLR move it."""
    return ("momentum" in group or "betas" in group) and \
        "max_momentum" not in group


def _inner(scheduler: Any) -> List[Any]:
    found = [scheduler]
    for s in getattr(scheduler, "_schedulers", None) or []:
        found += _inner(s)
    return found


_WARN = {
    "OneCycleLR": "learning_rate is its max_lr, and a search in mid-course "
                  "goes on along its curve; a constant rate leaves the curve "
                  "to mltune",
    "ReduceLROnPlateau": "it lowers the rate by itself, beneath the one that "
                         "mltune tunes; leave it out, mltune searches again "
                         "when progress ends",
}


# ---- frame -------------------------------------------------------------------


def _forgotten(registered: List[Any]) -> Iterator[str]:
    """What was not registered although something else refers to it, with what
    to do. Objects that are not known here are looked into, one step deep."""
    optimizers = [x for x in registered
                  if isinstance(x, torch.optim.Optimizer)]
    schedulers = [x for x in registered if _is_scheduler(x)]
    known = {id(o) for o in optimizers}
    known.update(id(getattr(x, "optimizer", None)) for x in registered
                 if not _is_scheduler(x))  # wrappers
    for s in schedulers:
        o = getattr(s, "optimizer", None)
        if o is not None and id(o) not in known:
            kind, of = type(s).__name__, type(o).__name__
            yield (f"the optimizer of {kind} ({of}) is not registered, so all "
                   "branches share its state: pass it too, "
                   "mltune.Run(model, optimizer, scheduler, ...)")
            known.add(id(o))
    places: Dict[int, bool] = {}
    for x in registered:
        if not isinstance(x, torch.optim.Optimizer) and not _is_scheduler(x):
            _note_tensors(x, places, 1)
    for o in optimizers:
        left = [p for g in o.param_groups for p in g["params"]
                if id(p) not in places]
        if left:
            shape = tuple(left[0].shape)
            yield (f"{len(left)} of the parameters of {type(o).__name__} (the "
                   f"first of shape {shape}) belong to nothing that is "
                   "registered, so all branches share them: pass their module "
                   "too, mltune.Run(model, optimizer, ...)")


def _is_scheduler(x: Any) -> bool:
    return any(base.__name__ in ("LRScheduler", "_LRScheduler",
                                 "ReduceLROnPlateau")
               for base in type(x).__mro__)


def _note_tensors(x: Any, places: Dict[int, bool], depth: int) -> None:
    """Notes the tensors in @x by their id."""
    if isinstance(x, torch.Tensor):
        places[id(x)] = True
    elif isinstance(x, torch.nn.Module):
        places.update((id(p), True) for p in x.parameters())
        places.update((id(b), True) for b in x.buffers())
    elif isinstance(x, dict):
        for value in x.values():
            _note_tensors(value, places, depth)
    elif isinstance(x, (list, tuple)):
        for value in x:
            _note_tensors(value, places, depth)
    elif depth > 0:
        _note_tensors(list(getattr(x, "__dict__", {}).values()), places,
                      depth - 1)


class Frame:
    """What a run does about PyTorch's objects beside their state."""

    def __init__(self, run: "Run") -> None:
        self._run = run
        self._modules: Dict[str, torch.nn.Module] = {}
        self._optimizers: List[torch.optim.Optimizer] = []
        self._schedulers: List[Any] = []
        self._rates: Optional[Rates] = None
        self._registered: List[Any] = []
        self._steps: List[Tuple[Any, Optional[Any]]] = []
        self._modes: List[Tuple[torch.nn.Module, bool]] = []
        self._no_grad: Any = None
        self.gradients: Optional[GradientsHolder] = None

    def add(self, name: str, x: Any) -> None:
        """@x has been registered."""
        self._registered.append(x)
        if isinstance(x, torch.nn.Module):
            self._modules[name] = x
        elif isinstance(x, torch.optim.Optimizer):
            self._optimizers.append(x)
        elif hasattr(x, "optimizer") and hasattr(x, "state_dict") and \
                hasattr(x, "step"):
            self._schedulers.append(x)

    def prepare(self, order: Order, keep_gradients: Optional[bool]) -> None:
        """All is registered, the loop begins."""
        params = {id(p): p for m in self._modules.values()
                  for p in m.parameters()}
        params.update({id(p): p for o in self._optimizers
                       for g in o.param_groups for p in g["params"]})
        device = next((p.device for p in params.values()),
                      torch.device("cpu"))
        if device.type == "cuda" and self._run.registry.room is None:
            self._run.registry.room = CudaRoom(device)
        order.wrap = lambda ids: torch.as_tensor(ids).to(device)
        if params and self.gradients is None:
            self.gradients = GradientsHolder("gradients",
                                             list(params.values()),
                                             keep_gradients)
            self._run.registry.add("gradients", self.gradients)
        for m in self._modules.values():
            if _holds_more(m):
                print(f"mltune: {type(m).__name__} has extra state "
                      "(get_extra_state); register what holds it",
                      file=sys.stderr)
        for word in _forgotten(self._registered):
            print(f"mltune: {word}", file=sys.stderr, flush=True)
        if not self._run.config.alone:
            for s in self._schedulers:
                word = _WARN.get(type(s).__name__)
                if word:
                    print(f"mltune: {type(s).__name__}: {word}",
                          file=sys.stderr, flush=True)

    def gradient_bytes(self) -> int:
        """Of all parameters that have one in a clock."""
        if self.gradients is None:
            return 0
        return sum(p.numel() * p.element_size()
                   for p in self.gradients.params if p.requires_grad)

    def tunables(self) -> Dict[str, float]:
        """Those that act, with the program's own values."""
        if self._rates is None:
            self._rates = Rates(self._optimizers, self._schedulers)
        return self._rates.base

    def begin(self, kind: str, setting: Dict[str, Any],
              held: Dict[str, Any]) -> Dict[str, Any]:
        """See Program.begin."""
        assert self._rates is not None
        room = self._run.registry.room
        if isinstance(room, CudaRoom):
            room.begin_clocks()
        held = self._rates.apply(setting, held)
        if kind == "probe":
            for o in self._optimizers:
                self._steps.append((o, o.__dict__.get("step")))
                o.__dict__["step"] = _no_step(o)
        return held

    def end(self, kind: str) -> None:
        """The slice has ended."""
        del kind
        room = self._run.registry.room
        if isinstance(room, CudaRoom):
            room.end_clocks()
        for o, step in self._steps:
            del o.__dict__["step"]
            if step is not None:
                o.__dict__["step"] = step
        self._steps = []

    def begin_test(self) -> None:
        """Validation begins: modules evaluate, and keep no gradients."""
        self._modes = [(m, m.training) for top in self._modules.values()
                       for m in top.modules()]
        for top in self._modules.values():
            top.eval()
        self._no_grad = torch.no_grad()
        self._no_grad.__enter__()

    def end_test(self) -> None:
        """Validation has ended."""
        self._no_grad.__exit__(None, None, None)
        for m, training in self._modes:
            m.training = training
        self._modes = []

    def save(self, path: str) -> List[Tuple[str, int]]:
        """Writes the modules' state_dict as model.pt; names and bytes."""
        if not self._modules:
            return []
        states = {name: _state_dict(m) for name, m in self._modules.items()}
        whole = next(iter(states.values())) if len(states) == 1 else states
        size = _files.write_file(os.path.join(path, "model.pt"),
                                 lambda f: torch.save(whole, f))
        about = {
            "format": "torch.save of state_dict"
                      + ("" if len(states) == 1 else ", by module"),
            "modules": {name: type(_plain(m)).__name__
                        for name, m in self._modules.items()},
            "torch": torch.__version__,
            "tensors": {f"{name}.{key}": [str(x.dtype), list(x.shape)]
                        for name, state in states.items()
                        for key, x in state.items()
                        if isinstance(x, torch.Tensor)},
        }
        more = _files.write_file(
            os.path.join(path, "about.json"),
            lambda f: _files.put(f, json.dumps(about, indent=1).encode()))
        return [("model.pt", size), ("about.json", more)]


def _holds_more(module: torch.nn.Module) -> bool:
    return any(type(m).get_extra_state is not torch.nn.Module.get_extra_state
               for m in module.modules())


def _plain(module: torch.nn.Module) -> torch.nn.Module:
    """The user's module within DistributedDataParallel or DataParallel."""
    if isinstance(module, (torch.nn.DataParallel,
                           torch.nn.parallel.DistributedDataParallel)):
        return module.module
    return module


def _state_dict(module: torch.nn.Module) -> Dict[str, Any]:
    return {k: v.detach().cpu() if isinstance(v, torch.Tensor) else v
            for k, v in _plain(module).state_dict().items()}


def _no_step(optimizer: Any) -> Callable[..., Any]:
    """A step that learns nothing."""
    def step(closure: Optional[Callable[[], Any]] = None, **_: Any) -> Any:
        optimizer._step_count = getattr(optimizer, "_step_count", 0) + 1
        return closure() if closure is not None else None
    step._with_counter = True  # type: ignore[attr-defined]
    return step


# ---- data --------------------------------------------------------------------

_OURS = ("batch_size", "shuffle", "sampler", "batch_sampler", "drop_last",
         "generator", "persistent_workers")


class _Keyed(torch.utils.data.Dataset):
    """A dataset by (epoch, sample): what is random in making a sample, as its
    augmentation, is the same in every branch and process."""

    def __init__(self, dataset: Any, seed: int) -> None:
        self.dataset, self.seed = dataset, seed

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, key: Tuple[int, int]) -> Any:
        epoch, sample = key
        seed_all(mix(self.seed, 3, epoch, sample))
        return self.dataset[sample]


class _Batches:
    """Keys of the clocks to come, from the place where the loader says."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self.place, self.size = Place(), 1

    def __iter__(self) -> Iterator[List[Tuple[int, int]]]:
        place, size = self.place, self.size
        while True:
            ids, _, after = self._order.clock(place, size)
            yield [(place.epoch, i) for i in ids.tolist()]
            place = after


class Loader:
    """Batches of a dataset, made by worker processes ahead of the clocks."""

    def __init__(self, run: "Run", dataset: Any, **options: Any) -> None:
        name = type(dataset).__name__
        if isinstance(dataset, torch.utils.data.IterableDataset) or \
                not hasattr(dataset, "__len__"):
            raise TypeError(
                f"run.loader: {name} has no length. mltune trains every branch "
                "on the same samples, by number: give a dataset that has "
                "__len__ and __getitem__")
        if len(dataset) < run.samples:
            raise ValueError(f"run.loader: {name} has {len(dataset)} samples, "
                             f"the run {run.samples}")
        for option in _OURS:
            if option in options:
                raise TypeError(f"run.loader: {option} is the branch's")
        self._order = run.order
        self._batches = _Batches(run.order)
        self._next: Optional[Tuple[int, int, int]] = None
        self._iterator: Any = None
        self._loader = torch.utils.data.DataLoader(
            _Keyed(dataset, run.config.seed), batch_sampler=self._batches,
            persistent_workers=options.get("num_workers", 0) > 0,
            generator=torch.Generator(), **options)

    def get(self, batch: Batch, place: Place) -> Any:
        """Data of the clock at @place. What was made ahead is used where the
        branch goes on as expected."""
        size = batch_size(batch.setting)
        if self._next != (place.epoch, place.at, size):
            self._batches.place, self._batches.size = place, size
            self._iterator = iter(self._loader)
        data = next(self._iterator)
        _, _, after = self._order.clock(place, size)
        self._next = (after.epoch, after.at, size)
        return data
