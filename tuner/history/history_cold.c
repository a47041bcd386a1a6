#include "tuner/history/history_cold.h"

#include "base/json/fields_pack.h"
#include "base/json/json.h"
#include "base/mem.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ---- rows ---------------------------------------------------------------- */

enum err cold_row_add(struct cold_rows *rows, const void *bytes, size_t len)
{
    if (len > UINT32_MAX - rows->len)
        return ERR_NOMEM;
    if (mem_grow((void **)&rows->bytes, &rows->room, 1, rows->len + len) ||
        mem_grow((void **)&rows->end, &rows->ends_cap, sizeof(*rows->end),
                 rows->rows + 1))
        return ERR_NOMEM;
    if (len > 0)
        memcpy(rows->bytes + rows->len, bytes, len);
    rows->len += len;
    rows->end[rows->rows++] = (uint32_t)rows->len;
    return ERR_OK;
}

void cold_take_room(struct cold_rows *rows, size_t most)
{
    size_t room;
    void *bytes;

    assert(rows->rows > 0);
    if (rows->ends_cap >= most)
        return;
    room = (rows->len / rows->rows + 1) * most;
    if (mem_grow((void **)&rows->end, &rows->ends_cap, sizeof(*rows->end),
                 most))
        return;
    bytes = room > rows->room ? mem_realloc(rows->bytes, room) : NULL;
    if (!bytes)
        return;
    rows->bytes = bytes;
    rows->room = room;
    memset(rows->bytes + rows->len, 0, room - rows->len);
}

static enum err add_row(struct cold_rows *rows, const struct text *row)
{
    return text_lost(row) ? ERR_NOMEM : cold_row_add(rows, row->s, row->len);
}

static size_t begin_of(const struct cold_rows *rows, size_t i)
{
    return i > 0 ? rows->end[i - 1] : 0;
}

struct packed_bytes cold_row(const struct cold_rows *rows, size_t i)
{
    size_t begin = begin_of(rows, i);

    assert(i < rows->rows);
    return (struct packed_bytes){rows->bytes + begin, rows->end[i] - begin};
}

/* Rows @i to @i + @n - 1 go. */
static void cut(struct cold_rows *rows, size_t i, size_t n)
{
    size_t from = begin_of(rows, i), to;

    assert(i + n <= rows->rows);
    if (n == 0)
        return;
    to = rows->end[i + n - 1];
    memmove(rows->bytes + from, rows->bytes + to, rows->len - to);
    rows->len -= to - from;
    rows->rows -= n;
    for (size_t k = i; k < rows->rows; k++)
        rows->end[k] = rows->end[k + n] - (uint32_t)(to - from);
}

void cold_drop(struct cold_rows *rows, size_t n)
{
    cut(rows, 0, n);
}

void cold_remove(struct cold_rows *rows, size_t i)
{
    cut(rows, i, 1);
}

void cold_rows_deinit(struct cold_rows *rows)
{
    mem_free(rows->bytes);
    mem_free(rows->end);
    *rows = (struct cold_rows){.bytes = NULL};
}

void cold_deinit(struct history *h)
{
    cold_rows_deinit(&h->cold_search);
    cold_rows_deinit(&h->cold_trial);
    cold_rows_deinit(&h->cold_choice);
    cold_rows_deinit(&h->epoch_setting);
    for (size_t i = 0; i < h->shapes; i++)
        json_decref(h->shape[i]);
    h->shapes = 0;
}

/* ---- values -------------------------------------------------------------- */

/* Rows are of our own making: what cannot be read is a mistake of this file. */
static uint64_t take_number(struct packed_bytes *in)
{
    uint64_t n = 0;
    bool there = unpack_number(in, &n);

    assert(there);
    return n;
}

static double take_real(struct packed_bytes *in)
{
    double x = 0;
    bool there = unpack_real(in, &x);

    assert(there);
    return x;
}

static void put_text(struct text *out, const char *s)
{
    pack_number(out, strlen(s));
    pack_bytes(out, s, strlen(s));
}

static void take_text(struct packed_bytes *in, char *out, size_t size)
{
    size_t len = take_number(in);
    const unsigned char *s = NULL;
    bool there = unpack_bytes(in, len, &s);

    assert(there && len < size);
    if (len > 0)
        memcpy(out, s, len);
    out[len] = '\0';
}

/* The upper half of a double: its range, and six digits. */
static void put_short(struct text *out, double x)
{
    unsigned char byte[4];
    uint64_t bits;

    memcpy(&bits, &x, sizeof(bits));
    if (isfinite(x))
        bits += 0x80000000;
    for (int i = 0; i < 4; i++)
        byte[i] = (unsigned char)(bits >> (32 + 8 * i));
    pack_bytes(out, byte, sizeof(byte));
}

static double take_short(struct packed_bytes *in)
{
    const unsigned char *byte = NULL;
    uint64_t bits = 0;
    bool there = unpack_bytes(in, 4, &byte);
    double x;

    assert(there);
    for (int i = 0; i < 4; i++)
        bits |= (uint64_t)byte[i] << (32 + 8 * i);
    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* ---- JSON ---------------------------------------------------------------- */

/* A setting is its values alone where a shape says their names; what has none
 * is its text. Shapes are few: the tunables of a run stay the same. */
enum { AS_NULL, AS_TEXT, AS_SHAPE };

static bool same_names(const json_t *a, const json_t *b)
{
    void *i = json_object_iter((json_t *)a), *k = json_object_iter((json_t *)b);

    for (; i && k; i = json_object_iter_next((json_t *)a, i),
                   k = json_object_iter_next((json_t *)b, k))
        if (strcmp(json_object_iter_key(i), json_object_iter_key(k)) != 0)
            return false;
    return !i && !k;
}

static bool all_numbers(const json_t *o)
{
    const char *name;
    json_t *value;

    if (!json_is_object(o))
        return false;
    json_object_foreach((json_t *)o, name, value)
    {
        (void)name;
        if (!json_is_number(value))
            return false;
    }
    return true;
}

/* Index of a shape that fits @o, which is copied where none does yet;
 * COLD_SHAPES_MAX: there is no room. */
static size_t shape_of(struct history *h, const json_t *o,
                       bool (*fits)(const json_t *shape, const json_t *o))
{
    size_t i = 0;

    while (i < h->shapes && !fits(h->shape[i], o))
        i++;
    if (i < h->shapes || h->shapes == COLD_SHAPES_MAX)
        return i;
    h->shape[i] = json_copied(o);
    if (!h->shape[i])
        return COLD_SHAPES_MAX;
    return h->shapes++;
}

static bool is_equal(const json_t *shape, const json_t *o)
{
    return json_equal((json_t *)shape, (json_t *)o);
}

static void put_as_text(struct text *out, const json_t *o)
{
    char *s = o ? json_write(o, 0) : NULL;

    if (o && !s)
        out->no_memory = true;
    pack_number(out, s ? AS_TEXT : AS_NULL);
    if (s)
        put_text(out, s);
    mem_free(s);
}

static void put_value(struct text *out, const json_t *value)
{
    json_int_t n = json_integer_value(value);

    if (json_is_integer(value))
        pack_number(
            out, 1 + (n < 0 ? 2 * (uint64_t) - (n + 1) + 1 : 2 * (uint64_t)n));
    else
        pack_number(out, 0);
    if (json_is_real(value))
        pack_real(out, json_real_value(value));
}

static json_t *take_value(struct packed_bytes *in)
{
    uint64_t n = take_number(in);

    if (n == 0)
        return json_real(take_real(in));
    n--;
    return json_integer(n % 2 ? -(json_int_t)(n / 2) - 1 : (json_int_t)(n / 2));
}

/* An integer whose double would not fit below is its text. */
static bool is_small(const json_t *o)
{
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)o, name, value)
    {
        json_int_t n = json_integer_value(value);

        (void)name;
        if (n > INT64_MAX / 4 || n < -(INT64_MAX / 4))
            return false;
    }
    return true;
}

static void put_setting(struct history *h, struct text *out, const json_t *o)
{
    size_t i = COLD_SHAPES_MAX;
    const char *name;
    json_t *value;

    if (all_numbers(o) && is_small(o))
        i = shape_of(h, o, same_names);
    if (i == COLD_SHAPES_MAX) {
        put_as_text(out, o);
        return;
    }
    pack_number(out, AS_SHAPE + i);
    json_object_foreach((json_t *)o, name, value)
    {
        (void)name;
        put_value(out, value);
    }
}

static void put_tunables(struct history *h, struct text *out, const json_t *o)
{
    size_t i = o ? shape_of(h, o, is_equal) : COLD_SHAPES_MAX;

    if (i == COLD_SHAPES_MAX)
        put_as_text(out, o);
    else
        pack_number(out, AS_SHAPE + i);
}

static json_t *take_as_text(struct packed_bytes *in)
{
    size_t len = take_number(in);
    const unsigned char *s = NULL;
    json_t *o = NULL;

    if (unpack_bytes(in, len, &s))
        json_load((const char *)s, len, &o, NULL, NULL);
    return o;
}

static json_t *take_setting(const struct history *h, struct packed_bytes *in)
{
    uint64_t how = take_number(in);
    const char *name;
    json_t *value, *o;

    if (how < AS_SHAPE)
        return how == AS_TEXT ? take_as_text(in) : json_null();
    assert(how - AS_SHAPE < h->shapes);
    o = json_object();
    json_object_foreach(h->shape[how - AS_SHAPE], name, value)
    {
        if (json_object_set_new(o, name, take_value(in)) == 0)
            continue;
        json_decref(o);
        return NULL;
    }
    return o;
}

static json_t *take_tunables(const struct history *h, struct packed_bytes *in)
{
    uint64_t how = take_number(in);

    if (how < AS_SHAPE)
        return how == AS_TEXT ? take_as_text(in) : json_null();
    assert(how - AS_SHAPE < h->shapes);
    return json_copied(h->shape[how - AS_SHAPE]);
}

/* ---- searches ------------------------------------------------------------ */

enum { IS_RETUNE = 1, IS_CLOSED = 2, IS_DECIDED = 4 };

static void put_search(struct history *h, struct text *out,
                       const struct history_search *s)
{
    pack_number(out, (s->started.retune ? IS_RETUNE : 0) |
                         (s->closed ? IS_CLOSED : 0) |
                         (s->decided ? IS_DECIDED : 0));
    pack_real(out, s->end.seconds);
    pack_number(out, s->end.clocks);
    pack_number(out, s->started.search);
    pack_number(out, s->started.parent);
    pack_number(out, s->started.trials_max);
    pack_number(out, s->end.search);
    pack_number(out, s->end.trials);
    pack_number(out, s->end.winner);
    pack_real(out, s->end.trial_s);
    pack_real(out, s->end.waiting_s);
    pack_real(out, s->started_at_s);
    pack_real(out, s->ended_at_s);
    pack_real(out, s->paused_before_s);
    pack_real(out, s->trial_s);
    pack_real(out, s->judged_s);
    put_text(out, s->started.reason);
    put_text(out, s->end.reason);
    put_tunables(h, out, s->started.tunables);
}

static void take_search(struct packed_bytes *in, struct history_search *s)
{
    uint64_t flags = take_number(in);

    *s = (struct history_search){.ended = true,
                                 .closed = flags & IS_CLOSED,
                                 .decided = flags & IS_DECIDED};
    s->started.retune = flags & IS_RETUNE;
    s->end.seconds = take_real(in);
    s->end.clocks = take_number(in);
    s->started.search = (uint32_t)take_number(in);
    s->started.parent = (branch_id)take_number(in);
    s->started.trials_max = (uint32_t)take_number(in);
    s->end.search = (uint32_t)take_number(in);
    s->end.trials = (uint32_t)take_number(in);
    s->end.winner = (uint32_t)take_number(in);
    s->end.trial_s = take_real(in);
    s->end.waiting_s = take_real(in);
    s->started_at_s = take_real(in);
    s->ended_at_s = take_real(in);
    s->paused_before_s = take_real(in);
    s->trial_s = take_real(in);
    s->judged_s = take_real(in);
    take_text(in, s->started.reason, sizeof(s->started.reason));
    take_text(in, s->end.reason, sizeof(s->end.reason));
}

/* ---- trials -------------------------------------------------------------- */

enum { IS_INCUMBENT = 1, HAS_OUTLIVED = 2, IS_EXACT = 4 };

static void put_figure(struct text *out, double x, bool exact)
{
    if (exact)
        pack_real(out, x);
    else
        put_short(out, x);
}

static double take_figure(struct packed_bytes *in, bool exact)
{
    return exact ? take_real(in) : take_short(in);
}

static void put_figures(struct text *out, const struct trial_figures *f,
                        bool exact)
{
    uint32_t last = f->points - 1;

    pack_real(out, f->speed);
    pack_number(out, f->speed_unit);
    pack_real(out, f->noise);
    pack_real(out, f->range);
    put_figure(out, f->window_noise, exact);
    pack_real(out, f->seconds);
    pack_number(out, f->samples);
    pack_number(out, f->clocks);
    pack_number(out, f->tested);
    if (f->tested)
        pack_real(out, f->result);
    put_figure(out, f->lead, exact);
    put_figure(out, f->lead_se, exact);
    put_figure(out, f->pace, exact);
    put_figure(out, f->paced, exact);
    put_figure(out, f->run_s, exact);
    pack_number(out, f->pairs);
    assert(f->points <= RECORD_POINTS_MAX);
    pack_number(out, f->points);
    for (uint32_t i = 0; i < f->points; i++) {
        put_figure(out, f->time_s[i], exact);
        if (i < last)
            put_figure(out, f->loss[i], exact);
        else
            pack_real(out, f->loss[i]);
    }
}

static void take_figures(struct packed_bytes *in, struct trial_figures *f,
                         bool exact)
{
    f->speed = take_real(in);
    f->speed_unit = (enum speed_unit)take_number(in);
    f->noise = take_real(in);
    f->range = take_real(in);
    f->window_noise = take_figure(in, exact);
    f->seconds = take_real(in);
    f->samples = take_number(in);
    f->clocks = take_number(in);
    f->tested = take_number(in);
    f->result = f->tested ? take_real(in) : 0;
    f->lead = take_figure(in, exact);
    f->lead_se = take_figure(in, exact);
    f->pace = take_figure(in, exact);
    f->paced = take_figure(in, exact);
    f->run_s = take_figure(in, exact);
    f->pairs = (uint32_t)take_number(in);
    f->points = (uint32_t)take_number(in);
    assert(f->points <= RECORD_POINTS_MAX);
    for (uint32_t i = 0; i < f->points; i++) {
        f->time_s[i] = take_figure(in, exact);
        f->loss[i] = i + 1 < f->points ? take_figure(in, exact) : take_real(in);
    }
}

static void put_trial(struct history *h, struct text *out,
                      const struct history_trial *t)
{
    /* A run may go back to it. */
    bool exact = history_search(h, t->t.search) != NULL;

    pack_number(out, t->t.branch);
    pack_number(out, t->t.trial);
    pack_number(out, t->t.search);
    pack_number(out, t->t.label);
    pack_number(out, (t->t.incumbent ? IS_INCUMBENT : 0) |
                         (t->outlived ? HAS_OUTLIVED : 0) |
                         (exact ? IS_EXACT : 0));
    pack_number(out, t->t.suggestion);
    pack_real(out, t->started_at_s);
    pack_real(out, t->ended_at_s);
    put_figures(out, &t->t.figures, exact);
    put_text(out, t->t.reason);
    put_setting(h, out, t->t.setting);
}

static void take_trial(struct packed_bytes *in, struct history_trial *t)
{
    uint64_t flags;

    *t = (struct history_trial){.ended = true};
    t->t.branch = (branch_id)take_number(in);
    t->t.trial = (uint32_t)take_number(in);
    t->t.search = (uint32_t)take_number(in);
    t->t.label = (enum trial_label)take_number(in);
    flags = take_number(in);
    t->t.incumbent = flags & IS_INCUMBENT;
    t->outlived = flags & HAS_OUTLIVED;
    t->t.suggestion = (uint32_t)take_number(in);
    t->started_at_s = take_real(in);
    t->ended_at_s = take_real(in);
    take_figures(in, &t->t.figures, flags & IS_EXACT);
    take_text(in, t->t.reason, sizeof(t->t.reason));
}

/* ---- settings chosen ----------------------------------------------------- */

static void put_choice(struct history *h, struct text *out,
                       const struct history_choice *c)
{
    pack_number(out, c->c.branch);
    pack_number(out, c->c.clock);
    pack_real(out, c->at_s);
    put_text(out, c->c.reason);
    put_setting(h, out, c->c.setting);
}

static void take_choice(struct packed_bytes *in, struct history_choice *c)
{
    *c = (struct history_choice){.at_s = 0};
    c->c.branch = (branch_id)take_number(in);
    c->c.clock = take_number(in);
    c->at_s = take_real(in);
    take_text(in, c->c.reason, sizeof(c->c.reason));
}

/* ---- each kind ----------------------------------------------------------- */

#define COLD(kind, json, take_json)                                            \
    enum err cold_add_##kind(struct history *h,                                \
                             const struct history_##kind *item)                \
    {                                                                          \
        struct text row = {0};                                                 \
        enum err err;                                                          \
                                                                               \
        put_##kind(h, &row, item);                                             \
        err = add_row(&h->cold_##kind, &row);                                  \
        text_deinit(&row);                                                     \
        return err;                                                            \
    }                                                                          \
    struct history_##kind cold_##kind(const struct history *h, size_t i)       \
    {                                                                          \
        struct packed_bytes in = cold_row(&h->cold_##kind, i);                 \
        struct history_##kind item;                                            \
                                                                               \
        take_##kind(&in, &item);                                               \
        return item;                                                           \
    }                                                                          \
    json_t *cold_##kind##_##json(const struct history *h, size_t i)            \
    {                                                                          \
        struct packed_bytes in = cold_row(&h->cold_##kind, i);                 \
        struct history_##kind item;                                            \
                                                                               \
        take_##kind(&in, &item);                                               \
        return take_json(h, &in);                                              \
    }

COLD(search, tunables, take_tunables)
COLD(trial, setting, take_setting)
COLD(choice, setting, take_setting)

enum err cold_setting(struct history *h, const json_t *setting,
                      unsigned char **few, size_t *len)
{
    struct text row = {0};
    enum err err = ERR_NOMEM;

    put_setting(h, &row, setting);
    *few = text_lost(&row) ? NULL : mem_alloc(row.len);
    if (*few) {
        memcpy(*few, row.s, row.len);
        *len = row.len;
        err = ERR_OK;
    }
    text_deinit(&row);
    return err;
}

json_t *cold_setting_read(const struct history *h, const unsigned char *few)
{
    /* As many as it has: they are of our own making. */
    struct packed_bytes in = {few, SIZE_MAX};

    return take_setting(h, &in);
}

branch_id cold_trial_branch(const struct history *h, size_t i)
{
    struct packed_bytes in = cold_row(&h->cold_trial, i);

    return (branch_id)take_number(&in);
}

branch_id cold_choice_branch(const struct history *h, size_t i)
{
    struct packed_bytes in = cold_row(&h->cold_choice, i);

    return (branch_id)take_number(&in);
}
