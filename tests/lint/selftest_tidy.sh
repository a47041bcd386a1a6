#!/bin/sh
# tidy.py finds what clang-tidy finds, whatever its cache holds, and asks once.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir "$root/bin" "$root/cache"
cd "$root"
cp "$here/../../.clang-tidy" .
# Counts the calls that look at a file.
cat >bin/clang-tidy <<EOF
#!/bin/sh
[ "\$1" = --version ] || echo x >>"$root/calls"
exec "$(command -v clang-tidy)" "\$@"
EOF
chmod +x bin/clang-tidy
: >calls
export PATH="$root/bin:$PATH" MLTUNE_TIDY_CACHE="$root/cache"

# expect STATUS CALLS WHAT: how tidy.py ends, and how often a file was looked at so far.
expect() {
    status=0
    "${PYTHON:-python3}" "$here/tidy.py" a.c -std=gnu11 -I. -- -DX=1 >said || status=$?
    calls=$(wc -l <calls)
    [ "$status $calls" = "$1 $2" ] || {
        echo "tidy.py, $3: ended with $status after $calls looks, not $1 after $2"
        cat said
        exit 1
    }
}
clean='#include "a.h"\nint f(int x);\nint f(int x)\n{\n    return x + A;\n}\n'
printf '#define A 1\n' >a.h
printf "$clean" >a.c
expect 0 1 'a clean file'
expect 0 1 'the same file again'
printf '#define A 2\n' >a.h
expect 0 2 'another header'
printf '#define A (x ? x : x)\n' >a.h
expect 1 3 'a header that makes it unclean'
expect 1 4 'an unclean file again'
printf '#define A 1\n' >a.h
expect 0 4 'as it was at first'
printf '#include "none.h"\n' >a.c
expect 1 5 'a header that is not there'
grep -q none.h said
printf "$clean" >a.c
MLTUNE_TIDY_CACHE=''
expect 0 6 'no cache'
