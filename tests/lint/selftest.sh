#!/bin/sh
# Plants one violation of each rule and sees layers.py or names.py catch it.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
failed=0

# expect TEXT FILE CONTENT: layers.py must complain with TEXT about FILE.
expect() {
    rm -rf "${root:?}"/*
    mkdir -p "$root/$(dirname "$2")"
    printf '%b' "$3" >"$root/$2"
    if [ -n "${4:-}" ]; then
        mkdir -p "$root/$(dirname "$4")"
        : >"$root/$4"
    fi
    out=$("${PYTHON:-python3}" "$here/layers.py" "$root") && {
        echo "layers.py missed: $1 ($2)"
        failed=1
        return
    }
    case "$out" in
    *"$1"*) ;;
    *)
        echo "layers.py said something else than '$1': $out"
        failed=1
        ;;
    esac
}

expect 'may not include' base/a.c '#include "tuner/b.h"\n'
expect 'may not include' tuner/board/a.c '#include "ps/rows/b.h"\n'
expect 'may not include' api/http/a.c '#include "apps/mf/b.h"\n'
expect 'may not include' apps/a.c '#include "branches/b.h"\n'
expect 'may not include' tuner/board/a.c '#include "tuner/search/b.h"\n'
expect 'may not include' ps/rows/a.c '#include "ps/node/b.h"\n'
expect 'but does not' base/json/a.c 'int a;\n' base/b.h
expect 'is no room' tuner/attic/a.c 'int a;\n'
expect 'no line for the room' docs/architecture.md 'nothing\n' ps/rows/a.c
expect 'path from the root' ps/rows/a.c '#include "b.h"\n'
expect 'pure file includes' ps/rows/a.c '#include <pthread.h>\n'
expect 'pure file includes' tuner/board/a.c '#include <sys/mman.h>\n'
expect 'pure file includes' searchers/a.h '#include "base/clock_io.h"\n'
expect 'pure file includes' ps/server/a.c '#include "ps/server/park_io.h"\n'
expect 'pure file calls' branches/a.c 'int f(void) { return open("x", 0); }\n'
expect 'no shell' cli/a.c 'void f(void) { system("ls"); }\n'
expect 'unfinished' base/a.c '/* TO''DO: later */\n'
expect 'own header first' base/a.c '#include <stdio.h>\n#include "base/a.h"\n' \
    base/a.h
expect 'has no test here' base/a.c 'int a;\n' tests/unit/branches/test_a.c
expect 'tests of no room' tests/unit/base/attic/test_a.c 'int a;\n'
expect 'no source file' README ''
expect 'has no such file' tuner/board/parts.h '    struct late *late;\n'
expect 'has no such file' tuner/core/parts.h '    struct late *late;\n'
expect 'only for tuner/core' tuner/search/a.c '#include "tuner/core/parts.h"\n'
plant() {
    rm -rf "${root:?}"/*
    mkdir -p "$root/tuner/board"
    : >"$root/tuner/board/early.h"
    : >"$root/tuner/board/late.h"
    printf '#include "tuner/board/early.h"\n\n%b' "$1" \
        >"$root/tuner/board/early.c"
    printf '#include "tuner/board/late.h"\n\n#include "tuner/board/early.h"\n' \
        >"$root/tuner/board/late.c"
    printf '    struct early *early;\n    struct late *late;\n' \
        >"$root/tuner/board/parts.h"
}
plant '#include "tuner/board/late.h"\n'
"${PYTHON:-python3}" "$here/layers.py" "$root" |
    grep -q 'early.c:3: includes a part that stands after' || {
    echo "layers.py missed: a part that includes a later one"
    failed=1
}
plant ''
"${PYTHON:-python3}" "$here/layers.py" "$root" || failed=1

# names TEXT CONTENT [OTHER]: names.py must complain with TEXT about base/a.c;
# without TEXT, about nothing.
names() {
    rm -rf "${root:?}"/*
    mkdir -p "$root/base"
    printf '%b' "$2" >"$root/base/a.c"
    printf '%b' "${3:-}" >"$root/base/b.h"
    out=$("${PYTHON:-python3}" "$here/names.py" "$root") || :
    case "$out" in
    *"${1:-nothing}"*) return ;;
    '') [ -z "$1" ] && return ;;
    esac
    echo "names.py said something else than '$1': $out"
    failed=1
}

twice='two types have this name'
names "$twice" 'struct a {\n    int x;\n};\n' 'enum a { A };\n'
names "$twice" 'struct a {\n    union b {\n    } b;\n};\n' 'struct b {\n};\n'
names '' 'struct a {\n};\n/* struct b { */\n' 'struct b {\n};\nstruct a;\n'
idle='called by nothing'
names "$idle" 'int f(int a,\n      int b)\n{\n}\n' 'int f(int a, int b);\n'
names "$idle" 'struct a *f(void)\n{\n}\n/* f() */\n'
names '' 'int f(void)\n{\n}\nint (*g)(void) = f;\n'
names 'make it static' 'int f(void)\n{\n}\nint (*g)(void) = f;\n' 'int f(void);\n'
names '' 'int f(void)\n{\n}\n' '#define F \\\n    f()\n'
names '' 'static int f(void)\n{\n}\n'

# statuses FILE SCRIPT: statuses.py must complain about FILE, once sed has changed it.
statuses() {
    for file in tuner/history/record.h tuner/history/record_names.c api/web/text.js \
        api/web/control.js apps/python/mltune/client.py; do
        mkdir -p "$root/$(dirname "$file")"
        cp "$here/../../$file" "$root/$file"
    done
    sed -i "$2" "$root/$1"
    "${PYTHON:-python3}" "$here/statuses.py" "$root" | grep -q "$1" || {
        echo "statuses.py missed: $2 in $1"
        failed=1
    }
}
statuses api/web/text.js '/export const ENDED/s/"failed", //'
statuses apps/python/mltune/client.py '/^ENDED/s/"stopped"/"paused"/'
statuses api/web/control.js 's/"stopped", "interrupted"/"stopped"/'
statuses api/web/text.js 's/saving: "active"/save: "active"/'

# dropped YES|NO CODE: dropped.py complains about it, or does not.
dropped() {
    mkdir -p "$root/base"
    printf '%b' "$2" >"$root/base/a.c"
    if "${PYTHON:-python3}" "$here/dropped.py" "$root" >/dev/null; then
        said=NO
    else
        said=YES
    fi
    [ "$said" = "$1" ] || {
        echo "dropped.py said $said of $2"
        failed=1
    }
}
rm -rf "${root:?}"/*
dropped YES 'if (a)\n    json_object_set_new(o, "a", b);\n'
dropped YES 'int a; /* = */ json_array_append_new(o, b);\n'
dropped YES 'else json_object_update(o, b);\n'
dropped YES 'return json_deep_copy(a);\n'
dropped NO 'return json_copied(a); /* not json_copy(a) */\n'
dropped NO 'failed |=\n    json_object_set_new(o, "a", b);\n'
dropped NO 'if (o && json_array_append(o, b) != 0)\n'
dropped NO '(void)json_array_append(o, b);\n/* ; json_array_append(o, b) */\n'

# And nothing is said about what is allowed.
rm -rf "${root:?}"/*
mkdir -p "$root/ps/rows"
printf '#include "branches/store.h"\n\n#include <pthread.h>\n' >"$root/ps/rows/a_io.c"
printf '#include "mltune/ps.h"\n\n/* time(2) */\n' >"$root/ps/rows/a.c"
"${PYTHON:-python3}" "$here/layers.py" "$root" || failed=1
exit $failed
