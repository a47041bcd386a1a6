#!/bin/sh
# Plants a struct that two files reach into and sees fanin.py count them.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir "$root/base"
printf 'struct far { int a; union { int b; }; };\nint one(struct far *f);\n' >"$root/base/far.h"
printf '#include "base/far.h"\nint one(struct far *f) { return f->a; }\n' >"$root/base/a.c"
printf '#include "base/far.h"\nint two(struct far f) { return f.b; }\n' >"$root/base/b.c"
printf '#include "base/far.h"\nint three(void) { struct far f = {.a = 1}; return one(&f); }\n' >"$root/base/c.c"
out=$("${PYTHON:-python3}" "$here/fanin.py" "$root" 2) && {
    echo "fanin.py missed a struct of two files"
    exit 1
}
case "$out" in
"base/far.h:1: 2 files reach into struct far; fewer than 2 may") ;;
*)
    echo "fanin.py said something else: $out"
    exit 1
    ;;
esac
"${PYTHON:-python3}" "$here/fanin.py" "$root" 3
printf 'int broken(' >"$root/base/d.c"
if "${PYTHON:-python3}" "$here/fanin.py" "$root" 3 >/dev/null; then
    echo "fanin.py passed over a file that clang cannot read"
    exit 1
fi
