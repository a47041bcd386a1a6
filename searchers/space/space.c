#include "searchers/space/space.h"

#include "base/json/json.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

void space_init(struct space *s)
{
    assert(s);
    memset(s, 0, sizeof(*s));
}

void space_copy(struct space *out, const struct space *s)
{
    assert(s->len <= TUNABLES_MAX);
    memcpy(out, s,
           offsetof(struct space, tunable) + s->len * sizeof(*s->tunable));
}

/* ---- one tunable --------------------------------------------------------- */

uint64_t tunable_count(const struct tunable *t)
{
    if (t->values_len > 0)
        return t->values_len;
    if (t->type == TUNABLE_INT)
        return (uint64_t)(t->max - t->min) + 1;
    return t->min == t->max ? 1 : 0;
}

double tunable_at(const struct tunable *t, uint64_t i)
{
    assert(i < tunable_count(t));
    if (t->type == TUNABLE_CATEGORICAL)
        return (double)i;
    if (t->values_len > 0)
        return t->values[i].number;
    return t->min + (double)i;
}

const char *tunable_text(const struct tunable *t, size_t i)
{
    assert(i < t->values_len);
    return t->texts >> i & 1 ? t->values[i].text : NULL;
}

/* Index of the listed value nearest to @x. */
static size_t nearest_value(const struct tunable *t, double x)
{
    size_t nearest = 0;

    assert(t->values_len > 0);
    for (size_t i = 1; i < t->values_len; i++)
        if (fabs(t->values[i].number - x) < fabs(t->values[nearest].number - x))
            nearest = i;
    return nearest;
}

static double clamp(double x, double min, double max)
{
    return x < min ? min : x > max ? max : x;
}

static double tunable_clamp(const struct tunable *t, double x)
{
    if (t->type == TUNABLE_CATEGORICAL)
        return clamp(floor(x), 0, (double)t->values_len - 1);
    if (t->values_len > 0)
        return t->values[nearest_value(t, x)].number;
    x = clamp(x, t->min, t->max);
    return t->type == TUNABLE_INT ? round(x) : x;
}

/* The interval that the unit interval maps to: for ints each end is half a step
 * out, so that the outer values get cells as large as the others. */
static void unit_range(const struct tunable *t, double *low, double *high)
{
    double half = t->type == TUNABLE_INT ? 0.5 : 0;

    assert(t->min <= t->max);
    assert(t->scale == SCALE_LINEAR || t->min > 0);
    *low = t->min - half;
    *high = t->max + half;
}

/* The reverse of tunable_from_unit. */
static double to_unit(const struct tunable *t, double x)
{
    double low, high;

    assert(isfinite(x));
    if (t->type == TUNABLE_CATEGORICAL)
        return (x + 0.5) / (double)t->values_len;
    if (t->values_len > 0)
        return ((double)nearest_value(t, x) + 0.5) / (double)t->values_len;
    unit_range(t, &low, &high);
    if (low == high)
        return 0.5;
    switch (t->scale) {
    case SCALE_LINEAR:
        return (x - low) / (high - low);
    case SCALE_LOG:
        return log(x / low) / log(high / low);
    case SCALE_REVERSE_LOG:
        return 1 - log((low + high - x) / low) / log(high / low);
    }
    return 0.5;
}

double tunable_from_unit(const struct tunable *t, double u)
{
    double low, high, n = (double)t->values_len;

    assert(u >= 0 && u <= 1);
    if (t->values_len > 0)
        return tunable_at(t, (uint64_t)clamp(floor(u * n), 0, n - 1));
    unit_range(t, &low, &high);
    switch (t->scale) {
    case SCALE_LINEAR:
        return tunable_clamp(t, low + u * (high - low));
    case SCALE_LOG:
        return tunable_clamp(t, low * exp(u * log(high / low)));
    case SCALE_REVERSE_LOG:
        return tunable_clamp(t,
                             low + high - low * exp((1 - u) * log(high / low)));
    }
    return t->preset;
}

/* ---- space --------------------------------------------------------------- */

size_t space_len(const struct space *s)
{
    return s->len;
}

const char *space_name(const struct space *s, size_t index)
{
    assert(index < s->len);
    return s->tunable[index].name;
}

const struct tunable *space_tunable(const struct space *s, size_t index)
{
    assert(index < s->len);
    return &s->tunable[index];
}

int space_find(const struct space *s, const char *name)
{
    assert(name);
    for (size_t i = 0; i < s->len; i++)
        if (strcmp(s->tunable[i].name, name) == 0)
            return (int)i;
    return -1;
}

void space_pin(struct space *s, size_t index, double value)
{
    assert(index < s->len);
    assert(isfinite(value));
    s->tunable[index].fixed = true;
    s->tunable[index].pinned = value;
}

void space_pin_for_retune(struct space *s, const struct setting *current)
{
    assert(s->len <= TUNABLES_MAX);
    for (size_t i = 0; i < s->len; i++)
        if (!s->tunable[i].retune)
            space_pin(s, i, current->value[i]);
}

static bool counts(const struct tunable *t)
{
    return t->acts && !t->fixed;
}

size_t space_dims(const struct space *s)
{
    size_t d = 0;

    for (size_t i = 0; i < s->len; i++)
        d += counts(&s->tunable[i]);
    return d;
}

size_t space_axes(const struct space *s, size_t axis[TUNABLES_MAX])
{
    size_t n = 0;

    assert(s->len <= TUNABLES_MAX);
    for (size_t i = 0; i < s->len; i++)
        if (!s->tunable[i].fixed)
            axis[n++] = i;
    return n;
}

uint64_t space_size(const struct space *s)
{
    uint64_t size = 1, limit = (uint64_t)1 << 62;

    for (size_t i = 0; i < s->len; i++) {
        uint64_t n = s->tunable[i].fixed ? 1 : tunable_count(&s->tunable[i]);

        if (n == 0 || size > limit / n)
            return UINT64_MAX;
        size *= n;
    }
    return size;
}

/* ---- settings ------------------------------------------------------------ */

void space_default(const struct space *s, struct setting *out)
{
    memset(out, 0, sizeof(*out));
    for (size_t i = 0; i < s->len; i++)
        out->value[i] = s->tunable[i].preset;
    space_canonical(s, out);
    assert(space_check(s, out, NULL) == ERR_OK);
}

static bool holds(const struct tunable_when *when, double parent)
{
    if (when->count == 0)
        return parent >= when->min && parent <= when->max;
    for (size_t i = 0; i < when->count; i++)
        if (when->value[i] == parent)
            return true;
    return false;
}

bool space_active(const struct space *s, const struct setting *x, size_t index)
{
    assert(index < s->len);
    /* No cycles (space_from_json refuses them), so at most len steps. */
    for (size_t step = 0; step <= s->len; step++) {
        const struct tunable_when *when = &s->tunable[index].when;

        if (when->on < 0)
            return true;
        if (!holds(when, x->value[when->on]))
            return false;
        index = (size_t)when->on;
    }
    assert(false && "conditions form a cycle");
    return false;
}

static bool may_be(const struct tunable *t, double x)
{
    if (!isfinite(x))
        return false;
    return t->fixed ? x == t->pinned : x == tunable_clamp(t, x);
}

enum err space_check(const struct space *s, const struct setting *x,
                     struct fault *f)
{
    for (size_t i = 0; i < s->len; i++)
        if (!may_be(&s->tunable[i], x->value[i]))
            return fault_set(f, ERR_INVAL, "%s cannot be %g",
                             s->tunable[i].name, x->value[i]);
    return ERR_OK;
}

void space_clamp(const struct space *s, struct setting *x)
{
    assert(s->len <= TUNABLES_MAX);
    for (size_t i = 0; i < s->len; i++) {
        const struct tunable *t = &s->tunable[i];

        x->value[i] =
            isnan(x->value[i]) ? t->preset : tunable_clamp(t, x->value[i]);
    }
    space_canonical(s, x);
}

void space_canonical(const struct space *s, struct setting *x)
{
    bool active[TUNABLES_MAX];

    for (size_t i = 0; i < s->len; i++)
        if (s->tunable[i].fixed)
            x->value[i] = s->tunable[i].pinned;
    for (size_t i = 0; i < s->len; i++)
        active[i] = space_active(s, x, i);
    for (size_t i = 0; i < s->len; i++)
        if (!active[i] && !s->tunable[i].fixed)
            x->value[i] = s->tunable[i].preset;
    for (size_t i = s->len; i < TUNABLES_MAX; i++)
        x->value[i] = 0;
}

bool space_equal(const struct space *s, const struct setting *a,
                 const struct setting *b)
{
    for (size_t i = 0; i < s->len; i++)
        if (a->value[i] != b->value[i])
            return false;
    return true;
}

bool space_same(const struct space *s, const struct setting *a,
                const struct setting *b)
{
    for (size_t i = 0; i < s->len; i++)
        if (counts(&s->tunable[i]) && a->value[i] != b->value[i])
            return false;
    return true;
}

double setting_number(const struct space *s, const struct setting *x,
                      const char *name, double fallback)
{
    int i = space_find(s, name);
    const struct tunable *t;

    if (i < 0)
        return fallback;
    t = &s->tunable[i];
    if (t->type == TUNABLE_CATEGORICAL) {
        assert(x->value[i] >= 0 && x->value[i] < (double)t->values_len);
        size_t at = (size_t)x->value[i];

        return tunable_text(t, at) ? x->value[i] : t->values[at].number;
    }
    return x->value[i];
}

const char *setting_text(const struct space *s, const struct setting *x,
                         char *out, size_t size)
{
    size_t len = 0;

    assert(out);
    assert(size > 0);
    out[0] = '\0';
    for (size_t i = 0; i < s->len && len < size; i++) {
        const struct tunable *t = &s->tunable[i];
        const char *text = NULL;
        double number = x->value[i];

        if (t->type == TUNABLE_CATEGORICAL) {
            text = tunable_text(t, (size_t)x->value[i]);
            number = t->values[(size_t)x->value[i]].number;
        }
        len += (size_t)snprintf(out + len, size - len, "%s%s=", i ? " " : "",
                                t->name);
        if (len >= size)
            break;
        if (text)
            len += (size_t)snprintf(out + len, size - len, "%s", text);
        else
            len += (size_t)snprintf(out + len, size - len, "%.6g", number);
    }
    return out;
}

/* ---- the unit cube ------------------------------------------------------- */

size_t space_to_unit(const struct space *s, const struct setting *x,
                     double u[TUNABLES_MAX])
{
    size_t axis[TUNABLES_MAX];
    size_t n = space_axes(s, axis);

    for (size_t k = 0; k < n; k++)
        u[k] = clamp(to_unit(&s->tunable[axis[k]], x->value[axis[k]]), 0, 1);
    return n;
}

void space_from_unit(const struct space *s, const double u[TUNABLES_MAX],
                     struct setting *out)
{
    size_t axis[TUNABLES_MAX];
    size_t n = space_axes(s, axis);

    memset(out, 0, sizeof(*out));
    for (size_t k = 0; k < n; k++) {
        double v = isnan(u[k]) ? 0.5 : clamp(u[k], 0, 1);

        out->value[axis[k]] = tunable_from_unit(&s->tunable[axis[k]], v);
    }
    space_canonical(s, out);
    assert(space_check(s, out, NULL) == ERR_OK);
}
