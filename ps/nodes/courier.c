#include "ps/nodes/courier.h"

#include "base/mem.h"

#include <assert.h>
#include <string.h>

/* How far one node has been told of one own worker. */
struct courier_way {
    uint32_t told; /* events */
    bool within;   /* the next one in part: up to that parcel, */
    uint64_t parcel;
    uint64_t row; /* and of it that row */
};

/* Another node. */
struct courier_node {
    bool pass_due, total_due;
    bool total_came;
    uint64_t said;   /* the last pass that it has begun, */
    uint64_t layout; /* and of what loop */
    uint32_t turn;   /* own worker that is told of next */
};

struct courier {
    struct courier_options opt;
    uint32_t all; /* workers */
    size_t row_bytes_max;
    struct courier_node *node; /* [nodes] this node's is not used */
    struct courier_way *way;   /* [nodes][workers] */
    uint32_t *ended;           /* [workers] events of own workers */
    uint32_t *heard;           /* [all] events that have come */
    double *total;             /* [all][MLT_LOOP_TOTALS_MAX] */
    uint64_t slice, op;
    const struct courier_pass *pass; /* NULL: none is under way */
    bool told_total;
    bool forgot; /* a pass of this slice */
};

enum err courier_new(const struct courier_options *opt, struct courier **out)
{
    struct courier *c = mem_calloc(1, sizeof(*c));

    assert(opt->node < opt->nodes && opt->workers > 0);
    if (!c)
        return ERR_NOMEM;
    c->opt = *opt;
    c->all = opt->nodes * opt->workers;
    c->node = mem_calloc(opt->nodes, sizeof(*c->node));
    c->way = mem_calloc(c->all, sizeof(*c->way));
    c->ended = mem_calloc(opt->workers, sizeof(*c->ended));
    c->heard = mem_calloc(c->all, sizeof(*c->heard));
    c->total =
        mem_calloc((size_t)c->all * MLT_LOOP_TOTALS_MAX, sizeof(*c->total));
    for (uint32_t t = 0; t < opt->tables; t++)
        if (table_is_exclusive(&opt->table[t]) &&
            table_row_bytes(&opt->table[t]) <= COURIER_ROW_BYTES_MAX &&
            table_row_bytes(&opt->table[t]) > c->row_bytes_max)
            c->row_bytes_max = table_row_bytes(&opt->table[t]);
    if (!c->node || !c->way || !c->ended || !c->heard || !c->total) {
        courier_free(c);
        return ERR_NOMEM;
    }
    *out = c;
    return ERR_OK;
}

void courier_free(struct courier *c)
{
    if (!c)
        return;
    mem_free(c->node);
    mem_free(c->way);
    mem_free(c->ended);
    mem_free(c->heard);
    mem_free(c->total);
    mem_free(c);
}

/* Of all totals of a node's workers there is room, too. */
size_t courier_frame_bytes(const struct courier *c)
{
    size_t totals = c->opt.workers * (8 + MLT_LOOP_TOTALS_MAX * sizeof(double));
    size_t row = 8 + c->row_bytes_max;

    return FRAME_FIXED_BYTES_MAX + (totals > row ? totals : row);
}

/* ---- passes -------------------------------------------------------------- */

void courier_enter_slice(struct courier *c, uint64_t slice)
{
    assert(slice > c->slice);
    c->slice = slice;
    c->op = 0;
    c->pass = NULL;
    c->forgot = false;
    memset(c->node, 0, c->opt.nodes * sizeof(*c->node));
}

static enum err check_alike(const struct courier *c, uint32_t node,
                            struct fault *fault)
{
    if (c->node[node].layout == c->pass->layout)
        return ERR_OK;
    return fault_set(fault, ERR_PROTO,
                     "node %u has begun another loop than %s, or the same over "
                     "other iterations: all nodes run the same loops, over the "
                     "same data, in the same order",
                     node, c->pass->name);
}

/* Others may be told of what is home once all have begun. */
static void begin_if_all_have(struct courier *c)
{
    if (c->ended[0] > 0 || !courier_is_going(c))
        return;
    for (uint32_t w = 0; w < c->opt.workers; w++)
        c->ended[w] = 1;
}

enum err courier_begin(struct courier *c, const struct courier_pass *pass,
                       struct fault *fault)
{
    enum err err = ERR_OK;

    assert(!c->pass && !c->forgot && c->slice > 0);
    assert(pass->totals <= MLT_LOOP_TOTALS_MAX);
    assert(pass->trips->workers == c->opt.workers);
    c->pass = pass;
    c->op++;
    c->told_total = false;
    memset(c->way, 0, c->all * sizeof(*c->way));
    memset(c->ended, 0, c->opt.workers * sizeof(*c->ended));
    memset(c->heard, 0, c->all * sizeof(*c->heard));
    for (uint32_t i = 0; i < c->opt.nodes; i++) {
        struct courier_node *n = &c->node[i];

        assert(!n->pass_due && !n->total_due);
        if (i == c->opt.node)
            continue;
        n->pass_due = true;
        n->total_came = false;
        if (n->said == c->op && !err)
            err = check_alike(c, i, fault);
    }
    if (!err)
        begin_if_all_have(c);
    return err;
}

bool courier_is_going(const struct courier *c)
{
    if (!c->pass)
        return false;
    for (uint32_t i = 0; i < c->opt.nodes; i++)
        if (!courier_has_said(c, i))
            return false;
    return true;
}

bool courier_has_said(const struct courier *c, uint32_t node)
{
    assert(node < c->opt.nodes);
    return node == c->opt.node || c->node[node].said >= c->op;
}

void courier_passed(struct courier *c, uint32_t worker)
{
    assert(worker < c->opt.workers);
    if (!c->pass)
        return;
    assert(c->ended[worker] > 0);
    assert(c->ended[worker] < c->pass->trips->events);
    c->ended[worker]++;
}

bool courier_has_come(const struct courier *c, uint64_t place)
{
    const struct trips *t;

    if (!c->pass)
        return false;
    t = c->pass->trips;
    for (uint64_t i = t->need_at[place]; i < t->need_at[place + 1]; i++)
        if (c->heard[t->need[i].worker] < t->need[i].events)
            return false;
    return true;
}

static double *totals_of(const struct courier *c, uint32_t worker)
{
    return c->total + (size_t)worker * c->pass->totals;
}

void courier_tell_totals(struct courier *c, const double *own)
{
    if (!c->pass)
        return;
    assert(!c->told_total);
    c->told_total = true;
    if (c->pass->totals)
        memcpy(totals_of(c, c->opt.node * c->opt.workers), own,
               (size_t)c->opt.workers * c->pass->totals * sizeof(*own));
    for (uint32_t i = 0; i < c->opt.nodes; i++)
        c->node[i].total_due = i != c->opt.node;
}

bool courier_is_over(const struct courier *c)
{
    if (!c->pass || !c->told_total)
        return false;
    for (uint32_t i = 0; i < c->opt.nodes; i++)
        if (i != c->opt.node &&
            (c->node[i].total_due || !c->node[i].total_came))
            return false;
    return true;
}

void courier_end(struct courier *c, double *all)
{
    assert(courier_is_over(c));
    if (c->pass->totals)
        memcpy(all, c->total, (size_t)c->all * c->pass->totals * sizeof(*all));
    c->pass = NULL;
}

void courier_forget(struct courier *c)
{
    if (!c->pass)
        return;
    c->pass = NULL;
    c->forgot = true;
    for (uint32_t i = 0; i < c->opt.nodes; i++)
        c->node[i].pass_due = c->node[i].total_due = false;
}

/* ---- frames that come ---------------------------------------------------- */

static enum err refuse(struct fault *fault, const struct frame *f,
                       const char *what)
{
    return fault_set(fault, ERR_PROTO, "%s frame of node %u: %s",
                     frame_kind_name(f->kind), f->from, what);
}

static enum err take_pass(struct courier *c, const struct frame *f,
                          struct fault *fault)
{
    struct courier_node *n = &c->node[f->from];
    bool ours = c->pass && f->op == c->op;
    struct courier_node before = *n;
    enum err err;

    /* What it has not ended, it cannot be past. */
    if (f->op != n->said + 1 || f->op > c->op + 1 ||
        (c->pass && f->op > c->op && !n->total_came))
        return refuse(fault, f, "of a pass that is not the next");
    n->said = f->op;
    n->layout = f->layout;
    err = ours ? check_alike(c, f->from, fault) : ERR_OK;
    if (err)
        *n = before;
    else
        begin_if_all_have(c);
    return err;
}

/* The touch whose rows come; touches without one: those of no table. */
static unsigned touch_of(const struct courier_pass *p, uint32_t table)
{
    unsigned t = 0;

    while (t < p->touches && (p->table[t] != table || !p->carried[t]))
        t++;
    return t;
}

static enum err check_part(const struct courier *c, const struct frame *f,
                           struct fault *fault)
{
    const struct table *t;

    if (f->worker >= c->all || f->worker / c->opt.workers != f->from)
        return refuse(fault, f, "of another node's worker");
    if (f->through && (f->through <= c->heard[f->worker] ||
                       f->through > c->pass->trips->events))
        return refuse(fault, f, "of a step that is not the next");
    if (f->values == FRAME_NOTHING)
        return f->count ? refuse(fault, f, "of rows without values") : ERR_OK;
    if (touch_of(c->pass, f->table) == c->pass->touches)
        return refuse(fault, f, "of a table whose rows stay");
    t = &c->opt.table[f->table];
    if ((uint64_t)f->width * sizeof(uint32_t) != table_row_bytes(t))
        return refuse(fault, f, "of other rows than the table has");
    for (uint32_t i = 0; i < f->count; i++)
        if (frame_row(f, i) >= table_rows(t))
            return refuse(fault, f, "of a row that there is not");
    return ERR_OK;
}

static enum err take_part(struct courier *c, const struct frame *f,
                          struct fault *fault)
{
    const struct courier_pass *p = c->pass;
    enum err err = check_part(c, f, fault);
    unsigned touch;

    if (err)
        return err;
    touch = touch_of(p, f->table);
    for (uint32_t i = 0; i < f->count; i++)
        frame_row_values(f, i, p->place(p->self, touch, frame_row(f, i), true));
    if (f->through)
        c->heard[f->worker] = (uint32_t)f->through;
    return ERR_OK;
}

static enum err take_total(struct courier *c, const struct frame *f,
                           struct fault *fault)
{
    uint32_t first = f->from * c->opt.workers;

    if (c->node[f->from].total_came || c->node[f->from].said != c->op)
        return refuse(fault, f, "of a pass that is over");
    if (f->width != c->pass->totals || f->count != c->opt.workers)
        return refuse(fault, f, "of other numbers than the loop gathers");
    for (uint32_t i = 0; i < f->count; i++)
        if (frame_row(f, i) != first + i)
            return refuse(fault, f, "of another node's worker");
    for (uint32_t i = 0; i < f->count && f->width; i++)
        frame_row_values(f, i, totals_of(c, first + i));
    c->node[f->from].total_came = true;
    return ERR_OK;
}

enum err courier_step(struct courier *c, const struct frame *f,
                      struct fault *fault)
{
    if (f->from >= c->opt.nodes || f->from == c->opt.node)
        return refuse(fault, f, "of a node that there is not");
    if (f->slice < c->slice || (f->slice == c->slice && c->forgot))
        return ERR_OK;
    if (f->slice > c->slice)
        return refuse(fault, f, "of a slice that has not begun");
    if (f->kind == FRAME_PASS)
        return take_pass(c, f, fault);
    if (f->kind != FRAME_PART && f->kind != FRAME_TOTAL)
        return refuse(fault, f, "not for a courier");
    if (!c->pass || f->op != c->op)
        return refuse(fault, f, "of a pass that does not run");
    return f->kind == FRAME_PART ? take_part(c, f, fault)
                                 : take_total(c, f, fault);
}

/* ---- frames that go ------------------------------------------------------ */

static size_t send_pass(const struct courier *c, struct courier_node *n,
                        unsigned char *bytes, size_t room)
{
    struct frame f = {.kind = FRAME_PASS,
                      .slice = c->slice,
                      .op = c->op,
                      .layout = c->pass->layout};
    struct frame_writer w;

    n->pass_due = false;
    frame_begin(&w, &f, bytes, room);
    return frame_end(&w);
}

static size_t send_total(const struct courier *c, struct courier_node *n,
                         unsigned char *bytes, size_t room)
{
    unsigned width = c->pass->totals;
    struct frame f = {.kind = FRAME_TOTAL,
                      .values = width ? FRAME_F64 : FRAME_NOTHING,
                      .slice = c->slice,
                      .op = c->op,
                      .width = width};
    struct frame_writer w;

    n->total_due = false;
    frame_begin(&w, &f, bytes, room);
    for (uint32_t i = 0; i < c->opt.workers; i++) {
        uint32_t worker = c->opt.node * c->opt.workers + i;
        bool added = frame_add(&w, worker, totals_of(c, worker));

        assert(added);
        (void)added;
    }
    return frame_end(&w);
}

/* The event's next parcel for @node from @parcel on, or the event's last. */
static uint64_t next_parcel(const struct trips *t, uint64_t place,
                            uint64_t parcel, uint32_t node)
{
    while (parcel < t->parcel_at[place + 1] && t->parcel[parcel].to != node)
        parcel++;
    return parcel;
}

/* Adds what there is room for; whether it was all. */
static bool add_rows(const struct courier *c, struct courier_way *way,
                     const struct trips_parcel *p, struct frame_writer *w)
{
    const struct courier_pass *pass = c->pass;
    size_t bytes = table_row_bytes(&c->opt.table[pass->table[p->touch]]);

    while (way->row < p->count) {
        uint64_t row = pass->trips->row[p->first + way->row];
        void *at = frame_add_place(w, row, 0);

        if (!at)
            return false;
        memcpy(at, pass->place(pass->self, p->touch, row, false), bytes);
        way->row++;
    }
    return true;
}

/* The next frame of an event: rows of one table, or that there are none. */
static size_t send_part(struct courier *c, uint32_t node, uint32_t worker,
                        struct courier_way *way, unsigned char *bytes,
                        size_t room)
{
    const struct trips *t = c->pass->trips;
    uint64_t place = (uint64_t)worker * t->events + way->told;
    uint64_t end = t->parcel_at[place + 1];
    struct frame f = {.kind = FRAME_PART,
                      .slice = c->slice,
                      .worker = c->opt.node * c->opt.workers + worker,
                      .op = c->op};
    struct frame_writer w;

    if (!way->within) {
        way->within = true;
        way->parcel = next_parcel(t, place, t->parcel_at[place], node);
        way->row = 0;
    }
    if (way->parcel < end) {
        const struct trips_parcel *p = &t->parcel[way->parcel];
        const struct table *table = &c->opt.table[c->pass->table[p->touch]];

        f.table = c->pass->table[p->touch];
        f.values = FRAME_I32;
        f.flags = frame_flags_of(table_rows(table));
        f.width = table_row_bytes(table) / (uint32_t)sizeof(uint32_t);
        frame_begin(&w, &f, bytes, room);
        if (add_rows(c, way, p, &w)) {
            way->parcel = next_parcel(t, place, way->parcel + 1, node);
            way->row = 0;
        }
        assert(w.count > 0);
    } else {
        frame_begin(&w, &f, bytes, room);
    }
    if (way->parcel == end) {
        way->told++;
        way->within = false;
        frame_set_through(&w, way->told);
    }
    return frame_end(&w);
}

/* Whether there is an event of an own worker to tell the node of. */
static bool find_event(const struct courier *c, uint32_t node, uint32_t worker,
                       struct courier_way *way)
{
    const struct trips *t = c->pass->trips;

    for (; way->told < c->ended[worker]; way->told++)
        if (t->tell[(uint64_t)worker * t->events + way->told] >> node & 1)
            return true;
    return false;
}

size_t courier_next(struct courier *c, uint32_t node, unsigned char *bytes,
                    size_t room)
{
    struct courier_node *n = &c->node[node];

    assert(node < c->opt.nodes && room >= courier_frame_bytes(c));
    if (!c->pass || node == c->opt.node)
        return 0;
    if (n->pass_due)
        return send_pass(c, n, bytes, room);
    for (uint32_t i = 0; i < c->opt.workers; i++) {
        uint32_t worker = (n->turn + i) % c->opt.workers;
        struct courier_way *way =
            &c->way[(size_t)node * c->opt.workers + worker];

        if (!find_event(c, node, worker, way))
            continue;
        n->turn = (worker + 1) % c->opt.workers;
        return send_part(c, node, worker, way, bytes, room);
    }
    return n->total_due ? send_total(c, n, bytes, room) : 0;
}
