#!/bin/sh
# Plants one violation of each rule and sees the checks of documents catch it.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
failed=0
words='one two three four five six seven eight nine ten'

put() {
    mkdir -p "$root/$(dirname "$1")"
    printf '%b' "$2" >"$root/$1"
}

# A tree about which nothing is to be said.
plain() {
    rm -rf "${root:?}"/*
    put docs/glossary.md '# Words\n\n[up](architecture.md)\n'
    put docs/architecture.md '# Map\n\n[Words](glossary.md#words)\n
## Where is ...?\n\n| where | file | function |\n|---|---|---|
| a rule | `base/a.c` | `rule`, `other` |\n'
    put base/a.c 'static int rule(void)\n{\n}\n\nint other(int a,\n          int b)\n{\n}\n'
}

# expect CHECK TEXT FILE CONTENT: the check must complain with TEXT.
expect() {
    plain
    put "$3" "$4"
    out=$("${PYTHON:-python3}" "$here/$1.py" "$root") && {
        echo "$1.py missed: $2 ($3)"
        failed=1
        return
    }
    case "$out" in
    *"$2"*) ;;
    *)
        echo "$1.py said something else than '$2': $out"
        failed=1
        ;;
    esac
}

plain
for check in words links where; do
    "${PYTHON:-python3}" "$here/$check.py" "$root" || failed=1
done

page='docs/a.md'
expect words '31 words' $page "$words $words $words more.\n"
expect words '31 words' $page "* Short. $words\n  $words\n  $words more.\n"
expect words '31 words' $page "| a | $words $words $words more |\n"
expect words '31 words' docs/http/a.md "$words $words $words more.\n"
expect words '31 words' docs/results.md "$words $words $words more.\n"
expect words '31 words' docs/results/a.md "$words $words $words more.\n"
long=$(printf '%0181d' 0)
expect words '181 characters' $page "$long\n"
expect links 'leads nowhere' $page '[a](b.md) [g](glossary.md)\n'
expect links 'no such heading' $page '[g](glossary.md#nothing)\n'
expect links 'no such file' $page '[g](glossary.md) `base/b.c`\n'
expect links 'no such page' base/b.c '/* docs/none.md */\n'
expect links 'does not link to docs/glossary' $page '# A\n'
expect links 'does not link to docs/glossary' docs/results.md '# A\n'
expect links 'does not link to docs/glossary' CONTRIBUTING.md '# A\n'
expect where 'does not hold rule' base/a.c 'int x = rule(1);\nint other(int a)\n{\n}\n'
expect where 'no such file' docs/architecture.md \
    '## Where is ...?\n\n| a | `base/b.c` | `rule` |\n'
attacks='## Attacks, and the tests that repeat them\n\n| a | b | c |\n|---|---|---|\n'
tests='class A(B):\n    def test_a(self):\n        pass\n\n\nclass C(A):\n    X = 1\n'
attack_names() {
    plain
    put t.py "$tests"
    put docs/failures.md "$attacks| D1 | \`t.py\` | $2 |\n"
    out=$("${PYTHON:-python3}" "$here/where.py" "$root") && code=0 || code=1
    [ "$code" = "$1" ] || {
        echo "where.py: $2 of t.py ended with $code: $out"
        failed=1
    }
}
attack_names 0 '`A.test_a`, `C`'
attack_names 1 '`A.test_b`'
attack_names 1 '`C.test_a`'
attack_names 1 '`D`'
bytes='## Bytes from outside, and what fuzzes them\n\n| bytes | b | c |\n|---|---|---|\n'
fuzz_rows() {
    plain
    put tests/fuzz/fuzz_a.c 'int x = rule(1);\n'
    put docs/failures.md "$bytes| x (\`$2\`) | \`base/a.c\` | \`$3\` |\n"
    out=$("${PYTHON:-python3}" "$here/where.py" "$root") && code=0 || code=1
    case "$code$out" in
    "$1"*) ;;
    *)
        echo "where.py: $2 of $3 ended with $code: $out"
        failed=1
        ;;
    esac
}
fuzz_rows 0 a rule
fuzz_rows '1docs/failures.md:5: fuzz_a.c calls none' a other
fuzz_rows '1docs/failures.md:5: no such fuzz target: b' b rule
expect where 'no function' docs/architecture.md \
    '## Where is ...?\n\n| a | `base/a.c` | rule |\n'
expect where 'three cells' docs/architecture.md \
    '## Where is ...?\n\n| a | `base/a.c` |\n'
side='`base/a.c` | `rule` |\n'
expect where 'on this side' docs/architecture.md \
    "## Translations, path by path\n\n| **a** | $side| b | $side| c | $side"
expect where 'on this side' docs/architecture.md \
    "## Translations, path by path\n\n| **a** | $side| *wire* b | $side| c | $side| d | $side"
expect where 'architecture.md: no table' docs/architecture.md '# Map\n'
expect where 'failures.md: no table' docs/failures.md '# Failures\n'

# Two translations on each side are as many as there may be.
plain
put docs/architecture.md "# A\n\n[g](glossary.md)\n\n## Translations, path by path\n
| **a** | $side| b | $side| *wire* c | $side| d | $side| **e** | $side"
"${PYTHON:-python3}" "$here/where.py" "$root" || failed=1

# Short sentences and code are left alone.
plain
put $page "# A\n\n[g](glossary.md) $words. $words $words.\n\n\`\`\`\n$words $words $words more\n\`\`\`\n"
"${PYTHON:-python3}" "$here/words.py" "$root" || failed=1
exit $failed
