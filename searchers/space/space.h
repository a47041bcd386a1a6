/* The space of settings: what each tunable may be, and the setting itself.
 *
 * Plain data of fixed capacity: a setting is copied by assignment, a space by
 * space_copy, which leaves out the room (120 KB) behind its last tunable.
 * A setting holds a value for every tunable of its space, in the space's order;
 * pinned tunables and those whose condition does not hold have their fixed
 * value and their default, so that equal settings have equal values
 * (space_canonical; everything that makes a setting here does that).
 *
 * Searchers work in the unit cube over the *axes*, the tunables that are not
 * pinned. Distinctness and the dimension count d (space_dims) regard of those
 * only the ones that can act in this run. JSON: searchers/space/space_json.h.
 */
#ifndef SEARCHERS_SPACE_H
#define SEARCHERS_SPACE_H

#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TUNABLES_MAX = 32,
    TUNABLE_NAME_MAX = 48,   /* with its end */
    TUNABLE_VALUES_MAX = 64, /* listed values of one tunable */
    TUNABLE_TEXT_MAX = 48    /* a category's text with its end */
};

enum tunable_type { TUNABLE_FLOAT, TUNABLE_INT, TUNABLE_CATEGORICAL };

/* Scale: which differences count as equal. REVERSE_LOG mirrors LOG: fine near
 * max (as Vizier's); both need min > 0. */
enum tunable_scale { SCALE_LINEAR, SCALE_LOG, SCALE_REVERSE_LOG };

/* A category: a text, or a number; its tunable knows which (tunable_text). */
union tunable_value {
    double number;
    char text[TUNABLE_TEXT_MAX];
};

/* Acts only while tunable `on` has one of `value`, or lies in min .. max where
 * count is 0. */
struct tunable_when {
    int on; /* index in the space; -1: unconditional */
    size_t count;
    double value[TUNABLE_VALUES_MAX]; /* as a setting holds them */
    double min, max;
};

struct tunable {
    char name[TUNABLE_NAME_MAX];
    enum tunable_type type;
    enum tunable_scale scale;
    double min, max;   /* of listed numbers: the least and the greatest */
    size_t values_len; /* 0: every float or int in min .. max */
    uint64_t texts;    /* bit i: values[i] is a text */
    union tunable_value values[TUNABLE_VALUES_MAX]; /* numbers ascend */
    double preset; /* the default, as a setting holds it */
    double pinned; /* the value when `fixed` */
    bool fixed;    /* pinned: not searched */
    bool free;     /* searched even though it cannot act */
    bool retune;   /* false: a re-tune leaves it as it is */
    bool acts;     /* can change this run; true unless told otherwise */
    struct tunable_when when;
};

struct space {
    size_t len;
    struct tunable tunable[TUNABLES_MAX];
};

/* value[i] of tunable i: the number itself; for a categorical the index into
 * its values. Unused ones are 0. */
struct setting {
    double value[TUNABLES_MAX];
};

/* ---- space --------------------------------------------------------------- */

void space_init(struct space *s);

/* Makes @out, whatever it was, the same as @s. */
void space_copy(struct space *out, const struct space *s);

/* Number of tunables; the name of one; and one. */
size_t space_len(const struct space *s);
const char *space_name(const struct space *s, size_t index);
const struct tunable *space_tunable(const struct space *s, size_t index);

/* Index of the tunable @name, or -1. */
int space_find(const struct space *s, const char *name);

/* Pins tunable @index at @value (as a setting holds it). */
void space_pin(struct space *s, size_t index, double value);

/* For a re-tune: pins those with retune = false at their value in @current. */
void space_pin_for_retune(struct space *s, const struct setting *current);

/* d: tunables that are not pinned and can act. */
size_t space_dims(const struct space *s);

/* Indices of the tunables that are not pinned, in order; returns how many. */
size_t space_axes(const struct space *s, size_t axis[TUNABLES_MAX]);

/* Number of settings that differ in their axes, conditions left out of account
 * (so an upper bound); UINT64_MAX where an axis is continuous or the product is
 * over 2^62. */
uint64_t space_size(const struct space *s);

/* Values of tunable @t; 0: a continuum. */
uint64_t tunable_count(const struct tunable *t);

/* The text that listed value @i < values_len is; NULL: it is a number. */
const char *tunable_text(const struct tunable *t, size_t i);

/* Value number @i < tunable_count, ascending (categories in their order). */
double tunable_at(const struct tunable *t, uint64_t i);

/* The value at @u of the tunable's scale, 0 .. 1; every int and every listed
 * value has a cell, so that its share of the unit interval is its share of the
 * scale. */
double tunable_from_unit(const struct tunable *t, double u);

/* ---- settings ------------------------------------------------------------ */

/* Every tunable's default, or pinned value. */
void space_default(const struct space *s, struct setting *out);

/* Whether tunable @index's condition holds in @x (and its parent's). */
bool space_active(const struct space *s, const struct setting *x, size_t index);

/* ERR_INVAL, with the tunable in @f, unless every value is one that its tunable
 * may have. */
enum err space_check(const struct space *s, const struct setting *x,
                     struct fault *f);

/* Nearest valid values (NaN: the default), then space_canonical. */
void space_clamp(const struct space *s, struct setting *x);

/* Gives pinned tunables their pinned value and inactive ones their default. */
void space_canonical(const struct space *s, struct setting *x);

/* Equal in every value. */
bool space_equal(const struct space *s, const struct setting *a,
                 const struct setting *b);

/* Not distinct: equal in all tunables that act and are not pinned. */
bool space_same(const struct space *s, const struct setting *a,
                const struct setting *b);

/* Value of tunable @name as a number; a category gives its number, or its index
 * where it is a text. @fallback where the space has no such tunable. */
double setting_number(const struct space *s, const struct setting *x,
                      const char *name, double fallback);

/* "learning_rate=0.01 momentum=0.9", cut at @size. Returns @out. */
const char *setting_text(const struct space *s, const struct setting *x,
                         char *out, size_t size);

/* ---- the unit cube ------------------------------------------------------- */

/* @u[axes]: where each axis' value lies in its tunable's scale, 0 .. 1: inside
 * its cell for ints, in the middle of it for listed values. Returns the number
 * of axes. */
size_t space_to_unit(const struct space *s, const struct setting *x,
                     double u[TUNABLES_MAX]);

/* The reverse: @u[axes] is cut to 0 .. 1 (NaN: 0.5). The result is canonical.
 */
void space_from_unit(const struct space *s, const double u[TUNABLES_MAX],
                     struct setting *out);

#endif
