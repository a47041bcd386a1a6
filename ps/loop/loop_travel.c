/* A loop over several nodes: its visitors, its trips, and the courier's calls.
 *
 * A row of a written table that is another node's lies, while it is here, in
 * memory of the loop: as far from its beginning as in the whole table, of which
 * only the pages that are touched take any.
 */
#include "base/mem.h"
#include "base/rng.h"
#include "ps/loop/loop_internal.h"
#include "ps/server/ps.h"

#include <assert.h>
#include <string.h>

struct loop_travel {
    uint32_t node, nodes;
    unsigned char *visitor[MLT_LOOP_TOUCHES_MAX]; /* by first touch; owned */
    void *spare;                                  /* owned */
    uint64_t layout;
    uint32_t table[MLT_LOOP_TOUCHES_MAX];
    /* Made when they are first needed, by the first worker: of a whole pass, of
     * each step. */
    struct trips whole;
    struct trips *step; /* [steps] owned */
    struct courier_pass pass;
    unsigned first; /* step of the pass that runs */
    double *own;    /* [own workers][totals] owned */
    double *all;    /* [workers][totals] owned */
};

/* ---- rows ---------------------------------------------------------------- */

static uint64_t visitor_bytes(const struct mlt_loop *l, unsigned touch)
{
    const struct lend_layout *y = &l->layout[touch];

    return (y->chunks << y->row_shift) * y->stride;
}

unsigned char *travel_visitor(const struct mlt_loop *l, unsigned touch,
                              uint64_t row)
{
    const struct loop_travel *t = l->travel;

    if (lend_home(l->ps, l->nest.access[touch].id, row) == t->node)
        return NULL;
    return t->visitor[l->first[touch]] + row * l->layout[touch].stride;
}

const void *travel_spare(const struct mlt_loop *l)
{
    return l->travel->spare;
}

/* As courier_pass.place. */
static void *place_of(void *self, unsigned touch, uint64_t row, bool write)
{
    const struct mlt_loop *l = self;
    unsigned char *visitor = travel_visitor(l, touch, row);

    return visitor ? visitor
                   : lend_place(l->ps, l->nest.access[touch].id, row, write);
}

/* As trips_place.home. */
static uint32_t home_of(const void *self, unsigned touch, uint64_t row)
{
    const struct mlt_loop *l = self;

    return lend_home(l->ps, l->nest.access[touch].id, row);
}

static enum err make_visitors(struct mlt_loop *l, struct fault *f)
{
    struct loop_travel *t = l->travel;
    uint64_t spare = 1;

    for (unsigned i = 0; i < l->nest.accesses; i++) {
        struct ps_table_info info = ps_table_info(l->ps, l->nest.access[i].id);

        t->table[i] = l->nest.access[i].id;
        if (info.width * sizeof(double) > spare)
            spare = info.width * sizeof(double);
        if (!l->written[i] || l->first[i] < i)
            continue;
        if (l->layout[i].stride > COURIER_ROW_BYTES_MAX)
            return fault_set(f, ERR_LIMIT,
                             "rows of table %s have %u bytes with their slots: "
                             "over several nodes expected at most %d",
                             info.name, l->layout[i].stride,
                             COURIER_ROW_BYTES_MAX);
        t->visitor[i] = mem_reserve(visitor_bytes(l, i));
        if (!t->visitor[i])
            return fault_set(f, ERR_NOMEM, "out of memory");
    }
    t->spare = mem_calloc(1, spare);
    return t->spare ? ERR_OK : fault_set(f, ERR_NOMEM, "out of memory");
}

/* ---- what all nodes have alike ------------------------------------------- */

static uint64_t mix_bytes(uint64_t hash, const void *bytes, size_t n)
{
    const unsigned char *at = bytes;
    uint64_t word;

    for (; n >= sizeof(word); n -= sizeof(word), at += sizeof(word)) {
        memcpy(&word, at, sizeof(word));
        hash = rng_mix(hash, word);
    }
    for (; n > 0; n--)
        hash = rng_mix(hash, *at++);
    return hash;
}

static uint64_t layout_of(const struct mlt_loop *l)
{
    const struct loop_nest *n = &l->nest;
    uint64_t hash = mix_bytes(n->dims, l->name, strlen(l->name));

    hash = mix_bytes(hash, n->extent, sizeof(n->extent[0]) * n->dims);
    hash = mix_bytes(hash, &n->iterations, sizeof(n->iterations));
    hash = mix_bytes(hash, l->key, n->iterations * n->dims * sizeof(*l->key));
    hash = mix_bytes(hash, l->text, strlen(l->text));
    hash = mix_bytes(hash, &l->buffer, sizeof(l->buffer));
    hash = rng_mix(hash, l->totals);
    if (l->value)
        hash = mix_bytes(hash, l->value, n->iterations * l->value_bytes);
    for (unsigned i = 0; i < n->accesses; i++)
        hash = rng_mix(hash, n->access[i].id);
    return hash;
}

/* ---- life ---------------------------------------------------------------- */

enum err travel_new(struct mlt_loop *l, struct fault *f)
{
    struct loop_travel *t = mem_calloc(1, sizeof(*t));
    unsigned steps = schedule_steps(&l->schedule);

    assert(ps_nodes(l->ps) > 1);
    if (!t)
        return fault_set(f, ERR_NOMEM, "out of memory");
    l->travel = t;
    t->node = ps_node(l->ps);
    t->nodes = ps_nodes(l->ps);
    t->layout = layout_of(l);
    t->step = mem_calloc(steps, sizeof(*t->step));
    t->own = mem_calloc((size_t)l->own * l->totals + 1, sizeof(*t->own));
    t->all = mem_calloc((size_t)l->workers * l->totals + 1, sizeof(*t->all));
    if (!t->step || !t->own || !t->all)
        return fault_set(f, ERR_NOMEM, "out of memory");
    return make_visitors(l, f);
}

void travel_free(struct mlt_loop *l)
{
    struct loop_travel *t = l->travel;

    if (!t)
        return;
    for (unsigned i = 0; i < l->nest.accesses; i++)
        mem_unreserve(t->visitor[i], visitor_bytes(l, i));
    for (unsigned s = 0; t->step && s < schedule_steps(&l->schedule); s++)
        trips_deinit(&t->step[s]);
    trips_deinit(&t->whole);
    mem_free(t->step);
    mem_free(t->spare);
    mem_free(t->own);
    mem_free(t->all);
    mem_free(t);
}

/* ---- passes -------------------------------------------------------------- */

static int make_trips(const struct mlt_loop *l, unsigned first, unsigned n,
                      struct trips *out)
{
    const struct trips_place place = {l->travel->nodes, l->travel->node, l->own,
                                      home_of, l};

    if (out->need_at)
        return ERR_OK;
    return trips_make(&l->nest, &l->parts, &l->schedule, &place, l->written,
                      l->first, first, n, out);
}

int travel_begin(struct mlt_loop *l, struct mlt_worker *w, unsigned first,
                 unsigned n)
{
    struct loop_travel *t = l->travel;
    bool whole = n == schedule_steps(&l->schedule);
    struct trips *trips = whole ? &t->whole : &t->step[first];
    int err = make_trips(l, first, n, trips);

    assert(whole || n == 1);
    if (err)
        return err;
    t->first = first;
    t->pass =
        (struct courier_pass){.name = l->name,
                              .layout = rng_mix(rng_mix(t->layout, first), n),
                              .trips = trips,
                              .touches = l->nest.accesses,
                              .totals = l->totals,
                              .table = t->table,
                              .carried = l->written,
                              .place = place_of,
                              .self = l};
    return lend_begin(w, &t->pass);
}

int travel_await(const struct mlt_loop *l, struct mlt_worker *w, unsigned step)
{
    const struct loop_travel *t = l->travel;

    return lend_await(w, (uint64_t)(step - t->first) * l->own +
                             ps_worker_local(w));
}

int travel_end(struct mlt_loop *l, struct mlt_worker *w)
{
    struct loop_travel *t = l->travel;
    uint64_t home = (uint64_t)(t->pass.trips->events - 1) * l->own;

    for (unsigned i = 0; i < l->own; i++)
        memcpy(t->own + (size_t)i * l->totals, l->seat[i].total,
               l->totals * sizeof(*t->own));
    return lend_end(w, home, t->own, t->all);
}

double travel_total(const struct mlt_loop *l, unsigned worker, unsigned total)
{
    assert(worker < l->workers && total < l->totals);
    return l->travel->all[(size_t)worker * l->totals + total];
}
