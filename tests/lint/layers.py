#!/usr/bin/env python3
"""Checks what the compiler cannot: who includes whom, who is pure, what is left.

Rules (docs/architecture.md): folders and the rooms in them depend one way, and may
include no room that they do not; in the pure folders only files ending _io.c or _io.h touch clock, socket, file, thread
and process, or include one that does; no shell is ever called; no word of
unfinished work stays behind; unit tests mirror the rooms.

Usage: layers.py [ROOT]     prints one line a violation, exit 1 if there is any.
"""
import pathlib
import re
import sys

# A room (a folder, or a folder in it) may include headers of itself and of these
# rooms. They stand in order: a room may use only rooms above its own line, so
# there is no circle. docs/architecture.md says what each is for.
ROOMS = {
    "base": "",
    "base/host": "base",
    "base/json": "base",
    "base/proto": "base base/json",
    "base/commands": "base base/json base/proto",
    "branches": "base base/proto",
    "ps/rows": "base branches",
    "ps/space": "base ps/rows",
    "ps/nodes": "base base/proto ps/rows",
    "ps/server": "base base/host base/proto branches ps/rows ps/space ps/nodes",
    "ps/loop": "base ps/nodes ps/server",
    "ps/wire": "base base/host ps/nodes ps/server",
    "ps/disk": "base base/json base/proto branches ps/rows ps/server",
    "ps/node": "base base/host base/json base/proto ps/rows ps/server ps/disk",
    "apps": "base base/json",
    "apps/formats": "base base/host",
    "apps/data": "base apps/formats",
    "apps/samples": "base base/json apps apps/formats apps/data",
    "apps/onnx": "base base/json apps/samples",
    "apps/mf": "base base/json apps apps/formats apps/data",
    "apps/glm": "base apps apps/formats apps/data apps/samples",
    "apps/pagerank": "base apps apps/formats apps/data",
    "apps/word2vec": "base base/json apps apps/formats apps/data",
    "apps/mlr": "base apps apps/formats apps/samples apps/onnx",
    "apps/lda": "base base/json apps apps/formats apps/data",
    "apps/nn": "base base/json ps/space apps apps/formats apps/samples apps/onnx apps/mlr",
    "apps/direct": "",
    "apps/examples": "",
    "apps/plugins": "",
    "apps/python": "",
    "searchers/space": "base base/json",
    "searchers/model": "base searchers/space",
    "searchers": "base base/json searchers/space searchers/model",
    "searchers/process": "base base/json searchers/space searchers",
    "tuner/history": "base base/json base/proto",
    "tuner/board": "base base/json base/proto base/commands searchers/space "
                   "searchers tuner/history",
    "tuner/core": "base base/json base/commands searchers/space searchers "
                  "tuner/history tuner/board",
    "tuner/search": "base base/json base/proto searchers/space searchers tuner/history "
                    "tuner/board tuner/core",
    "tuner/strategies": "base base/json searchers/space searchers "
                        "tuner/history tuner/board tuner/core tuner/search",
    "tuner/shell": "base base/host base/json base/proto base/commands tuner/history "
                   "tuner/core",
    "api/http": "base base/json",
    "api/view": "base base/json base/proto base/commands tuner/history "
                "api/http",
    "api/web": "",
    "api/routes": "base base/json base/proto base/commands searchers tuner/history "
                  "tuner/shell api/http api/view api/web",
    "api/service": "base base/host base/json tuner/shell api/http api/view api/routes",
    "cli/basics": "base base/json base/commands tuner/history",
    "cli/remote": "base base/host base/json",
    "cli/config": "base base/host base/json searchers/space searchers searchers/process ps/rows "
                  "apps/data apps/glm apps/mf apps/mlr apps/lda apps/nn "
                  "apps/pagerank apps/word2vec tuner/board "
                  "tuner/shell api/http cli/basics cli/remote",
    "cli/state": "base base/host base/json tuner/history tuner/shell api/http api/view "
                 "api/service cli/basics cli/remote",
    "cli/run": "base base/host base/json searchers tuner/history tuner/board "
               "tuner/shell api/http api/view api/service cli/basics "
               "cli/config cli/state",
    "cli/service": "base base/json apps/data tuner/history api/http api/view cli/basics "
                   "cli/config cli/remote cli/run cli/state",
    "cli/watch": "base base/json tuner/history api/view cli/basics cli/state",
    "cli/export": "base base/json apps/onnx apps/mlr apps/nn "
                  "searchers/space cli/basics cli/state",
    "cli/compare": "base base/json tuner/board tuner/shell cli/basics "
                   "cli/config",
    "cli/check": "base base/json base/proto tuner/shell",
    "cli/verbs": "base base/host base/json base/commands searchers/process ps/space ps/disk ps/node "
                 "apps/formats apps/data apps/samples tuner/history tuner/board "
                 "tuner/shell api/http "
                 "api/service cli/basics cli/config cli/remote cli/state "
                 "cli/run cli/service cli/compare cli/check cli/watch",
    "cli": "base/json cli/basics",
}
MAY_INCLUDE = {room: {room, *allowed.split()}
               for room, allowed in ROOMS.items()}
FOLDERS = sorted({room.split("/")[0] for room in ROOMS})
# Headers with a room's own state, and who includes them: that room, or these.
# (One that is named *_internal*.h is its room's without a line here.)
PRIVATE = {"ps/server/core.h": {"ps/server"},
           "tuner/board/branch.h": {"tuner/board", "tuner/core"},
           "tuner/board/parts.h": {"tuner/board", "tuner/core"},
           "tuner/core/parts.h": {"tuner/core"}}
INTERNAL = re.compile(r"_internal(_io)?\.h$")
# Rooms that other tests hold: of the program, of the page, of each application.
UNTESTED = {"apps/direct", "apps/examples", "apps/plugins", "apps/python", "api/web", "cli"}
PURE = {"branches", "ps", "searchers", "tuner"}
IMPURE_HEADERS = re.compile(
    r"<(pthread|threads|time|unistd|fcntl|poll|signal|semaphore|spawn|sched|"
    r"dirent|glob|dlfcn|zmq|sqlite3|microhttpd|sys/(?!types)[a-z_]+|netinet/.*|"
    r"arpa/.*|netdb)\.h>")
IMPURE_CALLS = re.compile(
    r"(?<!->)(?<!\.)\b(fopen|fdopen|freopen|open|openat|socket|fork|execve|time|clock|"
    r"clock_gettime|gettimeofday|rand|srand|random|getenv|printf|fprintf|puts)"
    r"\s*\(")
SHELL = re.compile(r"\b(system|popen|execlp|execvp)\s*\(")
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"][^>"]+[>"])')


def strip_comments(text):
    """Comments and string contents away, line numbers kept."""
    pattern = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)

    def blank(match):
        word = match.group(0)
        if word.startswith('"'):
            return '""'
        return "\n" * word.count("\n")

    return pattern.sub(blank, text)


def check_rooms(root, complain):
    """The table above is in order, and each room has its line in the docs."""
    above = set()
    for room, allowed in ROOMS.items():
        for used in allowed.split():
            if used not in above:
                complain(root / room, 0, f"{room} stands above {used}")
        above.add(room)
    page = root / "docs" / "architecture.md"
    text = page.read_text() if page.exists() else None
    for room in ROOMS if text is not None else ():
        if (root / room).is_dir() and f"| `{room}` |" not in text:
            complain(page, 0, f"no line for the room {room}")


def check_tests(root, complain):
    """tests/unit mirrors the rooms: each has its folder there, and no other."""
    unit = root / "tests" / "unit"
    if not unit.is_dir():
        return
    for room in ROOMS:
        if room not in UNTESTED and any((root / room).glob("*.c")) and \
                not any((unit / room).glob("test_*.c")):
            complain(unit / room, 0, f"{room} has no test here")
    for folder in {path.parent for path in unit.rglob("test_*.c")}:
        room = folder.relative_to(unit).as_posix()
        if room not in ROOMS:
            complain(folder, 0, "tests of no room")


def check_used(root, uses, complain):
    """What a room may include, it does: no line of the table is there for
    nothing. @uses: (room, room that it includes)."""
    for room, allowed in ROOMS.items():
        for used in allowed.split():
            if (root / room).is_dir() and (root / used).is_dir() and \
                    (room, used) not in uses:
                complain(root / room, 0, f"{room} may include {used}, but does not: "
                         "take it out of ROOMS")


def check_file(path, room, root, uses, complain):
    text = path.read_text(errors="replace")
    shell_file = path.stem.endswith("_io")
    folder = room.split("/")[0]
    here = path.relative_to(root).as_posix()
    if folder in FOLDERS and room not in MAY_INCLUDE:
        complain(path, 0, f"{room} is no room of docs/architecture.md")
    for number, line in enumerate(text.splitlines(), 1):
        if UNFINISHED.search(line):
            complain(path, number, "word of unfinished work")
        match = INCLUDE.match(line)
        if not match:
            continue
        name = match.group(1)
        if name.startswith('"'):
            inner = name.strip('"')
            target = inner.rpartition("/")[0]
            owners = PRIVATE.get(inner, {target} if INTERNAL.search(inner)
                                 else {room})
            if room not in owners and not here.startswith("tests/"):
                complain(path, number, f"{name}: only for "
                         f"{' and '.join(sorted(owners))}")
            uses.add((room, target))
            if not target:
                complain(path, number, f"{name}: write the path from the root")
            elif target != "mltune" and room in MAY_INCLUDE and \
                    target not in MAY_INCLUDE[room]:
                complain(path, number, f"{room} may not include {name}")
            if folder in PURE and not shell_file and inner.endswith("_io.h"):
                complain(path, number, f"pure file includes {name}")
        elif folder in PURE and not shell_file and IMPURE_HEADERS.match(name):
            complain(path, number, f"pure file includes {name}")
    for number, line in enumerate(strip_comments(text).splitlines(), 1):
        if SHELL.search(line):
            complain(path, number, "no shell: use posix_spawn with an argv")
        if folder in PURE and not shell_file and path.suffix == ".c":
            match = IMPURE_CALLS.search(line)
            if match:
                complain(path, number, f"pure file calls {match.group(1)}")
    if path.suffix == ".c" and (path.with_suffix(".h")).exists():
        first = next((INCLUDE.match(l).group(1) for l in text.splitlines()
                      if INCLUDE.match(l)), "")
        own = f'"{path.relative_to(root).with_suffix(".h").as_posix()}"'
        if first != own:
            complain(path, 1, f"own header first: {own}")


def check_parts(room, complain):
    """A part of @room calls only those before it in the room's parts.h."""
    if not (room / "parts.h").exists():
        return
    parts = re.findall(r"^\s+struct (\w+) \*\1;", (room / "parts.h").read_text(),
                       re.M)
    for i, part in enumerate(parts):
        later = {f'"tuner/{room.name}/{name}.h"' for name in parts[i + 1:]}
        for path in (room / f"{part}.h", room / f"{part}.c"):
            if not path.exists():
                complain(path, 0, f"part {part} of parts.h has no such file")
                continue
            for number, line in enumerate(path.read_text().split("\n"), 1):
                match = INCLUDE.match(line)
                if match and match.group(1) in later:
                    complain(path, number, "includes a part that stands after "
                             f"{part} in parts.h: {match.group(1)}")


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    count = 0

    def complain(path, number, message):
        nonlocal count
        count += 1
        print(f"{path.relative_to(root)}:{number}: {message}")

    files, uses = 0, set()
    check_rooms(root, complain)
    check_tests(root, complain)
    for room in ("board", "core"):
        check_parts(root / "tuner" / room, complain)
    for folder in [*FOLDERS, "include", "tests"]:
        for path in sorted((root / folder).rglob("*.[ch]")):
            files += 1
            room = path.parent.relative_to(root).as_posix()
            check_file(path, room, root, uses, complain)
    check_used(root, uses, complain)
    if files == 0:
        print("layers: found no source file: wrong folder?")
        count += 1
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
