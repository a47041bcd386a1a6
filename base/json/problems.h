/* Problems: all that is wrong with a text, each with its place.
 *
 * Whoever checks a text adds to the list and goes on; only at the end is it
 * asked whether there were errors.
 */
#ifndef BASE_PROBLEMS_H
#define BASE_PROBLEMS_H

#include "base/json/json.h"

#include <stdbool.h>
#include <stddef.h>

/* Errors, and as many warnings, that are recorded: each costs a pass over the
 * text, and a text of a megabyte may hold a hundred thousand. */
enum { PROBLEM_TEXT_MAX = 256, PROBLEMS_MAX = 100 };

struct problem {
    char pointer[JSON_POINTER_MAX]; /* of the value; "" is the whole */
    struct json_place place;        /* line 0 until problems_locate */
    char expected[PROBLEM_TEXT_MAX];
    char found[PROBLEM_TEXT_MAX]; /* the value, shortened */
    char hint[PROBLEM_TEXT_MAX];  /* "did you mean ..." or "" */
    bool warning;                 /* the run goes on all the same */
    bool no_place;                /* does not stand in the text */
    bool at_key; /* the key is what is wrong: the place is the key's */
};

/* All that is wrong with one text. Zeroed is empty. */
struct problems {
    struct problem *item; /* owned, [len] */
    size_t len, capacity;
    size_t recorded; /* of len, those that are no warnings */
    size_t errors;   /* the same, with those past PROBLEMS_MAX */
    bool no_memory;  /* some could not be recorded: the text must be refused */
};

void problems_deinit(struct problems *ps);

/* Number of errors; whether the text must be refused for want of memory. */
size_t problems_errors(const struct problems *ps);
bool problems_no_memory(const struct problems *ps);

/* Records one; @found may be NULL (nothing was there). The returned entry may
 * be changed until the next call; NULL when out of memory (then no_memory), and
 * past PROBLEMS_MAX, where it is only counted. */
struct problem *problems_add(struct problems *ps, const char *pointer,
                             const json_t *found, const char *expected_fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* As problems_add, but a warning. */
struct problem *problems_warn(struct problems *ps, const char *pointer,
                              const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Fills the places that are not known yet from the text that was checked, and
 * sorts by them. */
void problems_locate(struct problems *ps, const char *text, size_t len);

/* One line: "FILE:12:7: /stop/max_epochs: expected ..., found ...; did you
 * mean ...?" (cut at @size); from the pointer on where @file is NULL. Returns
 * @out. */
const char *problem_text(const struct problem *p, const char *file, char *out,
                         size_t size);

/* Array of {pointer, line, column, expected, found, hint, severity}; NULL when
 * out of memory. */
json_t *problems_to_json(const struct problems *ps);

#endif
