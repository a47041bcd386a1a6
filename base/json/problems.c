#include "base/json/problems.h"

#include "base/mem.h"
#include "base/text.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FOUND_MAX = 64 };

void problems_deinit(struct problems *ps)
{
    mem_free(ps->item);
    memset(ps, 0, sizeof(*ps));
}

size_t problems_errors(const struct problems *ps)
{
    return ps->errors;
}

bool problems_no_memory(const struct problems *ps)
{
    return ps->no_memory;
}

/* The value as people would recognise it, cut to FOUND_MAX bytes. */
static void describe_found(const json_t *found, char out[PROBLEM_TEXT_MAX])
{
    char *text;

    if (!found) {
        snprintf(out, PROBLEM_TEXT_MAX, "nothing");
        return;
    }
    text = json_write(found, 0);
    if (text && strlen(text) > FOUND_MAX)
        snprintf(out, PROBLEM_TEXT_MAX, "%.*s...", FOUND_MAX, text);
    else
        snprintf(out, PROBLEM_TEXT_MAX, "%s", text ? text : "?");
    mem_free(text);
}

static struct problem *add_empty(struct problems *ps, const char *pointer)
{
    struct problem *p;

    assert(!*pointer || *pointer == '/');
    assert(ps->recorded <= ps->len && ps->recorded <= ps->errors);
    if (mem_grow((void **)&ps->item, &ps->capacity, sizeof(*ps->item),
                 ps->len + 1) != 0) {
        ps->no_memory = true;
        return NULL;
    }
    p = &ps->item[ps->len++];
    memset(p, 0, sizeof(*p));
    snprintf(p->pointer, sizeof(p->pointer), "%s", pointer);
    return p;
}

struct problem *problems_add(struct problems *ps, const char *pointer,
                             const json_t *found, const char *expected_fmt, ...)
{
    struct problem *p = NULL;
    va_list ap;

    if (ps->recorded < PROBLEMS_MAX)
        p = add_empty(ps, pointer);
    ps->errors++;
    if (!p)
        return NULL;
    ps->recorded++;
    describe_found(found, p->found);
    va_start(ap, expected_fmt);
    vsnprintf(p->expected, sizeof(p->expected), expected_fmt, ap);
    va_end(ap);
    return p;
}

struct problem *problems_warn(struct problems *ps, const char *pointer,
                              const char *fmt, ...)
{
    struct problem *p = NULL;
    va_list ap;

    if (ps->len - ps->recorded < PROBLEMS_MAX)
        p = add_empty(ps, pointer);
    if (!p)
        return NULL;
    p->warning = true;
    va_start(ap, fmt);
    vsnprintf(p->expected, sizeof(p->expected), fmt, ap);
    va_end(ap);
    return p;
}

static int by_place(const void *a, const void *b)
{
    const struct problem *p = a, *q = b;

    if (p->place.line != q->place.line)
        return p->place.line < q->place.line ? -1 : 1;
    if (p->place.column != q->place.column)
        return p->place.column < q->place.column ? -1 : 1;
    return strcmp(p->pointer, q->pointer);
}

void problems_locate(struct problems *ps, const char *text, size_t len)
{
    assert(ps && text);
    for (size_t i = 0; i < ps->len; i++) {
        struct problem *p = &ps->item[i];

        if (p->no_place || p->place.line > 0)
            continue;
        p->place = p->at_key ? json_locate_key(text, len, p->pointer)
                             : json_locate(text, len, p->pointer);
    }
    if (ps->len > 1)
        qsort(ps->item, ps->len, sizeof(*ps->item), by_place);
}

const char *problem_text(const struct problem *p, const char *file, char *out,
                         size_t size)
{
    char place[64] = "";
    const char *gap = file ? ": " : "";
    const char *pointer = *p->pointer ? p->pointer : "(the whole)";

    if (!file)
        file = "";
    else if (p->place.line > 0)
        snprintf(place, sizeof(place), ":%u:%u", p->place.line,
                 p->place.column);
    if (p->warning)
        snprintf(out, size, "%s%s%swarning: %s: %s%s%s", file, place, gap,
                 pointer, p->expected, *p->hint ? "; " : "", p->hint);
    else
        snprintf(out, size, "%s%s%s%s: expected %s, found %s%s%s", file, place,
                 gap, pointer, p->expected, p->found, *p->hint ? "; " : "",
                 p->hint);
    text_clean(out); /* keys and values may hold anything, and may be cut */
    return out;
}

static json_t *clean_string(const char *s)
{
    char copy[JSON_POINTER_MAX];

    snprintf(copy, sizeof(copy), "%s", s);
    text_clean(copy);
    return json_string(copy);
}

static json_t *problem_to_json(const struct problem *p)
{
    return json_pack(
        "{s:o, s:I, s:I, s:o, s:o, s:o, s:s}", "pointer",
        clean_string(p->pointer), "line", (json_int_t)p->place.line, "column",
        (json_int_t)p->place.column, "expected", clean_string(p->expected),
        "found", clean_string(p->found), "hint", clean_string(p->hint),
        "severity", p->warning ? "warning" : "error");
}

json_t *problems_to_json(const struct problems *ps)
{
    json_t *list = json_array();

    for (size_t i = 0; list && i < ps->len; i++)
        if (json_array_append_new(list, problem_to_json(&ps->item[i])) != 0) {
            json_decref(list);
            list = NULL;
        }
    return list;
}
