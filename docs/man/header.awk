# A man page of an installed header: its comments as text, its declarations as
# they stand. What the header says is all there is, so the two cannot differ.
#     awk -f header.awk -v page=mltune-ps -v brief="..." include/mltune/ps.h
# With -v names=1: the functions' names alone, one a line.

function escape(s)
{
    gsub(/\\/, "\\e", s)
    sub(/^[.']/, "\\\\\\&&", s)
    return s
}

function end_literal()
{
    if (literal)
        print ".Ed"
    literal = 0
}

function put_code(s)
{
    sub(/^MLT_API /, "", s)
    if (!literal)
        print ".Bd -literal"
    literal = 1
    print escape(s)
}

# A line of a comment: text, or where it is indented, code.
function put_text(s)
{
    if (s ~ /^    /) {
        put_code(substr(s, 5))
        return
    }
    if (literal && s == "") {
        pending = 1
        return
    }
    end_literal()
    if (s == "" || pending)
        print ".Pp"
    pending = 0
    if (s != "")
        print escape(s)
}

function name_of(s)
{
    if (match(s, /mlt_[a-z0-9_]+\(/))
        return substr(s, RSTART, RLENGTH - 1)
    return ""
}

{ line[NR] = $0 }

END {
    for (i = 1; i <= NR; i++)
        if (line[i] ~ /^MLT_API /) {
            n = name_of(line[i] " " line[i + 1])
            if (n != "")
                name[++names_len] = n
        }
    if (names) {
        for (i = 1; i <= names_len; i++)
            print name[i]
        exit
    }
    print ".\\\" Made from the header by docs/man/header.awk."
    print ".Dd November 22, 2026"
    print ".Dt " toupper(page) " 3"
    print ".Os"
    print ".Sh NAME"
    print ".Nm " page
    print ".Nd " brief
    print ".Sh LIBRARY"
    print "Link with what"
    print ".Ql pkg-config --cflags --libs mltune"
    print "says."
    print ".Sh SYNOPSIS"
    print ".In " header
    print ".Sh DESCRIPTION"
    for (i = 1; i <= NR; i++) {
        s = line[i]
        # What is between the first comment and the first declaration, and the
        # end, is the compiler's.
        if (s ~ /^#ifndef/ || s ~ /^#if defined/)
            skip = 1
        if (skip) {
            if (s ~ /^\/\*/ && line[i - 1] == "")
                skip = 0
            else
                continue
        }
        if (depth == 0 && s ~ /^#ifdef __cplusplus/)
            break
        if (depth == 0 && s ~ /^\/\* ----/) {
            end_literal()
            gsub(/^\/\* -+ | -+ \*\/$/, "", s)
            print ".Ss " s
            continue
        }
        if (depth == 0 && !comment && s ~ /^\/\*/) {
            end_literal()
            print ".Pp"
            comment = 1
            sub(/^\/\* ?/, "", s)
        }
        if (comment) {
            ends = s ~ /\*\/$/
            sub(/ ?\*\/$/, "", s)
            sub(/^ \* ?/, "", s)
            if (!(ends && s == ""))
                put_text(s)
            if (ends) {
                comment = pending = 0
                end_literal()
            }
            continue
        }
        if (s == "" && depth == 0) {
            end_literal()
            continue
        }
        put_code(s)
        t = s
        depth += gsub(/\{/, "", t) - gsub(/\}/, "", t)
    }
    end_literal()
    print ".Sh SEE ALSO"
    print ".Xr mltune 1"
}
