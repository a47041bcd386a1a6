#include "ps/loop/trips.h"

#include "base/mem.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Where a row's newest version is. */
struct row_state {
    uint64_t has;    /* nodes, a bit each; 0: not touched yet */
    uint32_t worker; /* who wrote it, over all nodes; */
    uint32_t event;  /* then; 0: nobody, it is as it was at home */
    bool written;
};

/* A row that leaves this node. */
struct leave {
    uint64_t place; /* own worker * events + event */
    uint32_t to, touch;
    uint64_t row;
};

struct sweep {
    const struct loop_nest *nest;
    const struct trips_place *at;
    const bool *carried;
    const unsigned *same;
    unsigned all, events, first;
    struct row_state *state[MLT_LOOP_TOUCHES_MAX]; /* owned by the first */
    struct leave *leave;                           /* owned */
    size_t leaves, leaves_room;
    struct trips_need *need; /* owned */
    size_t needs, needs_room;
    uint32_t *most; /* [all] events of each that are waited for */
    struct trips *out;
    bool failed;
};

static uint32_t node_of(const struct sweep *s, unsigned worker)
{
    return worker / s->at->workers;
}

static void note_leave(struct sweep *s, uint32_t worker, uint32_t event,
                       uint32_t to, unsigned touch, uint64_t row)
{
    s->out->moved++;
    if (node_of(s, worker) != s->at->node)
        return;
    if (mem_grow((void **)&s->leave, &s->leaves_room, sizeof(*s->leave),
                 s->leaves + 1)) {
        s->failed = true;
        return;
    }
    worker -= s->at->node * s->at->workers;
    s->leave[s->leaves++] = (struct leave){(uint64_t)worker * s->events + event,
                                           to, s->same[touch], row};
}

/* Node @to is to have the newest version: it is sent it once, and whoever
 * touches it there waits until it has come. */
static void fetch(struct sweep *s, struct row_state *r, uint32_t to,
                  unsigned touch, uint64_t row)
{
    if (node_of(s, r->worker) == to)
        return;
    if (!(r->has >> to & 1))
        note_leave(s, r->worker, r->event, to, touch, row);
    if (to == s->at->node && s->most[r->worker] < r->event + 1)
        s->most[r->worker] = r->event + 1;
    r->has |= UINT64_C(1) << to;
}

static struct row_state *state_of(struct sweep *s, unsigned touch, uint64_t row)
{
    struct row_state *r = &s->state[touch][row];
    uint32_t home;

    if (r->has)
        return r;
    home = s->at->home(s->at->self, touch, row);
    assert(home < s->at->nodes);
    r->has = UINT64_C(1) << home;
    r->worker = home * s->at->workers;
    return r;
}

static void touch_row(struct sweep *s, unsigned worker, uint32_t event,
                      unsigned touch, uint64_t row)
{
    struct row_state *r = state_of(s, touch, row);
    uint32_t node = node_of(s, worker);

    assert(node_of(s, r->worker) == node || r->event < event);
    fetch(s, r, node, touch, row);
    if (!s->nest->access[touch].updates)
        return;
    *r = (struct row_state){UINT64_C(1) << node, worker, event, true};
}

/* All rows that an iteration may touch: several where they depend on the data.
 */
static void touch_rows(struct sweep *s, unsigned worker, uint32_t event,
                       unsigned touch, const uint32_t *key)
{
    struct loop_access a = s->nest->access[touch];
    uint64_t choices = 1;

    for (unsigned x = 0; x < a.axes; x++)
        if (a.at[x].kind == MLT_SUBSCRIPT_DATA)
            choices *= a.at[x].size;
    for (uint64_t c = 0; c < choices; c++) {
        uint64_t rest = c;

        for (unsigned x = 0; x < a.axes; x++) {
            const struct mlt_subscript *at = &s->nest->access[touch].at[x];

            if (at->kind != MLT_SUBSCRIPT_DATA)
                continue;
            a.at[x] = (struct mlt_subscript){
                MLT_SUBSCRIPT_FIXED, 0, (int64_t)(rest % at->size), at->size};
            rest /= at->size;
        }
        touch_row(s, worker, event, touch, access_row(&a, key));
    }
}

/* Whether the rows that it may touch are the same in each iteration. */
static bool is_fixed(const struct loop_access *a)
{
    for (unsigned x = 0; x < a->axes; x++)
        if (a->at[x].kind == MLT_SUBSCRIPT_INDEX)
            return false;
    return true;
}

static void sweep_block(struct sweep *s, unsigned worker, uint32_t event,
                        uint64_t begin, uint64_t end)
{
    for (unsigned t = 0; t < s->nest->accesses; t++) {
        uint64_t to = end;

        if (!s->carried[t] || begin == end)
            continue;
        if (is_fixed(&s->nest->access[t]))
            to = begin + 1; /* once says it */
        for (uint64_t i = begin; i < to && !s->failed; i++)
            touch_rows(s, worker, event, t, nest_key(s->nest, i));
    }
}

/* What the place waits for. */
static void end_place(struct sweep *s, uint64_t place)
{
    for (unsigned w = 0; w < s->all && !s->failed; w++) {
        if (!s->most[w] || node_of(s, w) == s->at->node)
            continue;
        if (mem_grow((void **)&s->need, &s->needs_room, sizeof(*s->need),
                     s->needs + 1)) {
            s->failed = true;
            return;
        }
        s->need[s->needs++] = (struct trips_need){w, s->most[w]};
    }
    memset(s->most, 0, s->all * sizeof(*s->most));
    s->out->need_at[place + 1] = s->needs;
}

/* The schedule's own wait, where it is for another node's worker, or another
 * node's for an own one. */
static void follow(struct sweep *s, const struct loop_schedule *schedule,
                   unsigned worker, unsigned step)
{
    unsigned other = 0;
    unsigned needs = schedule_needs(schedule, worker, step, &other);
    uint32_t from, to = node_of(s, worker);

    if (needs <= s->first)
        return;
    from = node_of(s, other);
    needs -= s->first;
    if (from == to)
        return;
    if (to == s->at->node && s->most[other] < needs + 1)
        s->most[other] = needs + 1;
    if (from == s->at->node)
        s->out->tell[(uint64_t)(other - from * s->at->workers) * s->events +
                     needs] |= UINT64_C(1) << to;
}

/* Step by step: an order in which each row is written and read as in the pass.
 */
static void sweep_steps(struct sweep *s, const struct loop_parts *parts,
                        const struct loop_schedule *schedule, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        for (unsigned w = 0; w < s->all; w++) {
            unsigned step = s->first + i;
            int part =
                w < schedule->workers ? schedule_part(schedule, w, step) : -1;
            bool own = node_of(s, w) == s->at->node;
            size_t block;

            if (part >= 0) {
                block = parts_block(parts, w, (unsigned)part);
                follow(s, schedule, w, step);
                sweep_block(s, w, i + 1, parts->start[block],
                            parts->start[block + 1]);
            }
            if (own)
                end_place(s, (uint64_t)i * s->at->workers +
                                 (w - s->at->node * s->at->workers));
        }
}

/* All that was written, and is not home, goes there. */
static void sweep_homes(struct sweep *s, unsigned n)
{
    for (unsigned t = 0; t < s->nest->accesses; t++) {
        if (!s->carried[t] || s->same[t] != t)
            continue;
        for (uint64_t row = 0; row < s->nest->access[t].rows; row++) {
            struct row_state *r = &s->state[t][row];
            uint32_t home;

            if (!r->written)
                continue;
            home = s->at->home(s->at->self, t, row);
            fetch(s, r, home, t, row);
        }
    }
    end_place(s, (uint64_t)n * s->at->workers);
}

static int by_place(const void *a, const void *b)
{
    const struct leave *p = a, *q = b;

    if (p->place != q->place)
        return p->place < q->place ? -1 : 1;
    if (p->to != q->to)
        return p->to < q->to ? -1 : 1;
    if (p->touch != q->touch)
        return p->touch < q->touch ? -1 : 1;
    return (p->row > q->row) - (p->row < q->row);
}

static bool starts_parcel(const struct leave *l)
{
    return l[0].place != l[-1].place || l[0].to != l[-1].to ||
           l[0].touch != l[-1].touch;
}

static enum err pack(struct sweep *s)
{
    struct trips *t = s->out;
    uint64_t places = (uint64_t)t->workers * t->events, parcels = 0;

    if (s->leaves)
        qsort(s->leave, s->leaves, sizeof(*s->leave), by_place);
    for (size_t i = 0; i < s->leaves; i++)
        parcels += i == 0 || starts_parcel(&s->leave[i]);
    t->parcel = mem_calloc(parcels + 1, sizeof(*t->parcel));
    t->row = mem_calloc(s->leaves + 1, sizeof(*t->row));
    if (!t->parcel || !t->row)
        return ERR_NOMEM;
    parcels = 0;
    for (size_t i = 0; i < s->leaves; i++) {
        const struct leave *l = &s->leave[i];

        if (i == 0 || starts_parcel(l)) {
            t->parcel[parcels++] = (struct trips_parcel){l->to, l->touch, i, 0};
            t->parcel_at[l->place + 1]++;
            t->tell[l->place] |= UINT64_C(1) << l->to;
        }
        t->parcel[parcels - 1].count++;
        t->row[i] = l->row;
    }
    for (uint64_t p = 0; p < places; p++)
        t->parcel_at[p + 1] += t->parcel_at[p];
    return ERR_OK;
}

static enum err reserve(struct sweep *s)
{
    struct trips *t = s->out;
    uint64_t places = (uint64_t)t->workers * t->events;

    t->parcel_at = mem_calloc(places + 1, sizeof(*t->parcel_at));
    t->tell = mem_calloc(places, sizeof(*t->tell));
    t->need_at = mem_calloc(places + 2, sizeof(*t->need_at));
    s->most = mem_calloc(s->all, sizeof(*s->most));
    if (!t->parcel_at || !t->tell || !t->need_at || !s->most)
        return ERR_NOMEM;
    for (unsigned i = 0; i < s->nest->accesses; i++) {
        if (!s->carried[i])
            continue;
        s->state[i] = s->same[i] < i ? s->state[s->same[i]]
                                     : mem_calloc(s->nest->access[i].rows,
                                                  sizeof(*s->state[i]));
        if (!s->state[i])
            return ERR_NOMEM;
    }
    return ERR_OK;
}

enum err trips_make(const struct loop_nest *nest,
                    const struct loop_parts *parts,
                    const struct loop_schedule *schedule,
                    const struct trips_place *place, const bool carried[],
                    const unsigned same[], unsigned first, unsigned n,
                    struct trips *out)
{
    struct trips t = {.workers = place->workers, .events = n + 1};
    struct sweep s = {.nest = nest,
                      .at = place,
                      .carried = carried,
                      .same = same,
                      .all = place->workers * place->nodes,
                      .events = n + 1,
                      .first = first,
                      .out = &t};
    enum err err = reserve(&s);

    assert(place->nodes <= COURIER_NODES_MAX && place->node < place->nodes);
    if (!err) {
        sweep_steps(&s, parts, schedule, n);
        sweep_homes(&s, n);
        err = s.failed ? ERR_NOMEM : pack(&s);
    }
    t.need = s.need;
    for (unsigned i = 0; i < nest->accesses; i++)
        if (s.state[i] && same[i] == i)
            mem_free(s.state[i]);
    mem_free(s.leave);
    mem_free(s.most);
    if (err)
        trips_deinit(&t);
    else
        *out = t;
    return err;
}

void trips_deinit(struct trips *t)
{
    mem_free(t->parcel_at);
    mem_free(t->parcel);
    mem_free(t->row);
    mem_free(t->tell);
    mem_free(t->need_at);
    mem_free(t->need);
    *t = (struct trips){0};
}
