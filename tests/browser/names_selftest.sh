#!/bin/sh
# Plants a fault of each kind in a copy of the page and sees names.js catch it.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
web=$here/../../api/web
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
cp "$web"/*.js "$root"
failed=0

# plant FILE EDIT: does the sed script EDIT to FILE.
plant() {
    sed -i "$2" "$root/$1"
    if cmp -s "$root/$1" "$web/$1"; then
        echo "names_selftest: nothing was planted in $1: $2"
        failed=1
    fi
}

plant compare.js '/stats\.js/d'
plant trials.js 's/get, runPath/get, nothingLikeIt, runPath/'
plant tree.js 's,canvas\.js,gone.js,'
plant stats.js '$a const a_name = 1, a_name = 2;'
plant text.js '$a export function ('
said=$(node "$here/names.js" "$root" 2>&1) && failed=1
for what in "compare.js:[0-9]*: Cannot find name 'logarithmic'" \
    "trials.js:[0-9]*: .*no exported member" "tree.js:[0-9]*: Cannot find module './gone.js'" \
    "stats.js:[0-9]*: Cannot redeclare" "text.js:[0-9]*: .* expected"; do
    if ! echo "$said" | grep -q "$what"; then
        echo "names.js missed: $what"
        failed=1
    fi
done
[ $failed -eq 0 ] || echo "names.js said: $said"
exit $failed
