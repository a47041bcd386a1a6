/* Loops as programs declare them: checked, planned, kept. */
#include "ps/loop/loop_internal.h"

#include "base/mem.h"
#include "base/text.h"
#include "ps/loop/apart.h"
#include "ps/loop/plan_text.h"
#include "ps/server/errors.h"
#include "ps/server/ps.h"

#include <assert.h>
#include <string.h>

/* ---- what was declared --------------------------------------------------- */

static enum err check_numbers(const struct mlt_loop_options *o, struct fault *f)
{
    if (o->dims < 1 || o->dims > MLT_LOOP_DIMS_MAX)
        return fault_set(f, ERR_INVAL, "%u dimensions: expected 1 to %d",
                         o->dims, MLT_LOOP_DIMS_MAX);
    for (unsigned d = 0; d < o->dims; d++)
        if (o->extent[d] < 1 || o->extent[d] > UINT32_MAX)
            return fault_set(f, ERR_INVAL,
                             "extent %llu of dimension %u: expected 1 to 2^32 "
                             "- 1",
                             (unsigned long long)o->extent[d], d);
    if (o->touches < 1 || o->touches > MLT_LOOP_TOUCHES_MAX || !o->touch)
        return fault_set(f, ERR_INVAL, "%u touches: expected 1 to %d",
                         o->touches, MLT_LOOP_TOUCHES_MAX);
    if (o->totals > MLT_LOOP_TOTALS_MAX)
        return fault_set(f, ERR_INVAL, "%u totals: expected at most %d",
                         o->totals, MLT_LOOP_TOTALS_MAX);
    if (o->time_parts > MLT_LOOP_PARTS_MAX)
        return fault_set(f, ERR_INVAL, "%u time parts: expected at most %d",
                         o->time_parts, MLT_LOOP_PARTS_MAX);
    if (o->apart > MLT_LOOP_APART_MAX)
        return fault_set(f, ERR_INVAL,
                         "%u iterations apart: expected at most %d", o->apart,
                         MLT_LOOP_APART_MAX);
    if (o->apart > 1 && o->ordered)
        return fault_set(f, ERR_INVAL,
                         "%u iterations apart: an ordered loop keeps its order",
                         o->apart);
    if (!o->value != !o->value_bytes)
        return fault_set(f, ERR_INVAL,
                         "values go with value_bytes, and only with them");
    if (!o->key && o->iterations)
        return fault_set(f, ERR_INVAL,
                         "%llu iterations without keys: a dense space has as "
                         "many as its extents give",
                         (unsigned long long)o->iterations);
    if (o->iterations >= UINT32_MAX)
        return fault_set(f, ERR_LIMIT,
                         "%llu iterations: expected at most 2^32 - 2",
                         (unsigned long long)o->iterations);
    return ERR_OK;
}

static enum err check_access(const struct loop_access *a,
                             enum mlt_access access, struct fault *f)
{
    if (access == MLT_LOCAL)
        return fault_set(f, ERR_INVAL,
                         "table %s is local: each worker has its own, it is "
                         "not declared",
                         a->table);
    if (a->buffered && access != MLT_SHARED)
        return fault_set(f, ERR_INVAL,
                         "table %s is exclusive: buffered updates are of a "
                         "shared table",
                         a->table);
    if (a->updates && !a->buffered && access != MLT_EXCLUSIVE)
        return fault_set(f, ERR_INVAL,
                         "table %s is shared: rows that a loop updates in "
                         "place are of an exclusive table, others are "
                         "MLT_BUFFERED",
                         a->table);
    return ERR_OK;
}

static enum err take_touch(struct mlt_loop *l, const struct mlt_touch *touch,
                           struct fault *f)
{
    struct loop_access *a = &l->nest.access[l->nest.accesses];
    struct ps_table_info info;
    enum err err;

    if (touch->table >= ps_tables(l->ps))
        return fault_set(f, ERR_NOENT, "touch %u: no table %u",
                         l->nest.accesses, touch->table);
    info = ps_table_info(l->ps, touch->table);
    /* The server's own moves when it gets a further table. */
    l->table_name[l->nest.accesses] = mem_strdup(info.name);
    if (!l->table_name[l->nest.accesses])
        return fault_set(f, ERR_NOMEM, "out of memory");
    err = nest_access(a, touch, l->table_name[l->nest.accesses], info.rows,
                      info.width, f);
    if (!err)
        err = check_access(a, info.access, f);
    if (err)
        return fault_wrap(f, "touch %u", l->nest.accesses);
    l->declared[touch->table] = true;
    l->waits[l->nest.accesses] = a->reads && info.access == MLT_SHARED;
    l->has_buffered |= a->buffered;
    l->nest.accesses++;
    return ERR_OK;
}

static void guard_check(const struct lend_guard *guard, mlt_table table,
                        uint64_t row)
{
    const struct mlt_loop *l =
        (const void *)((const char *)guard - offsetof(struct mlt_loop, guard));
    struct ps_table_info info = ps_table_info(l->ps, table);
    bool declared =
        info.access == MLT_LOCAL || (table < l->tables && l->declared[table]);

    if (!declared)
        ps_misuse("loop %s: its body touches row %llu of table %s, which it "
                  "does not declare",
                  l->name, (unsigned long long)row, info.name);
}

static void find_written(struct mlt_loop *l, unsigned i)
{
    const struct loop_access *a = &l->nest.access[i];

    l->first[i] = i;
    for (unsigned j = l->nest.accesses; j-- > 0;) {
        const struct loop_access *b = &l->nest.access[j];

        if (a->id != b->id)
            continue;
        l->first[i] = j;
        l->written[i] |= b->updates && !b->buffered;
    }
    if (l->written[i])
        l->layout[i] = lend_layout(l->ps, a->id);
}

static enum err take_touches(struct mlt_loop *l,
                             const struct mlt_loop_options *o, struct fault *f)
{
    enum err err = ERR_OK;

    l->tables = ps_tables(l->ps);
    l->declared = mem_calloc(l->tables + 1, sizeof(*l->declared));
    if (!l->declared)
        return fault_set(f, ERR_NOMEM, "out of memory");
    l->guard.check = guard_check;
    for (unsigned i = 0; i < o->touches && !err; i++)
        err = take_touch(l, &o->touch[i], f);
    for (unsigned i = 0; i < l->nest.accesses; i++)
        find_written(l, i);
    return err;
}

/* Each worker's seat, with room for the chunks that it is lent. */
static enum err make_seats(struct mlt_loop *l)
{
    size_t bytes = l->own * sizeof(*l->seat);

    l->seat = mem_aligned(LOOP_LINE_BYTES, bytes);
    if (!l->seat)
        return ERR_NOMEM;
    memset(l->seat, 0, bytes);
    for (unsigned w = 0; w < l->own; w++) {
        struct loop_seat *seat = &l->seat[w];

        seat->loop = l;
        for (unsigned t = 0; t < l->nest.accesses; t++) {
            if (!l->written[t])
                continue;
            seat->chunk[t] =
                l->first[t] < t
                    ? seat->chunk[l->first[t]]
                    : mem_calloc(l->layout[t].chunks, sizeof(*seat->chunk[t]));
            if (!seat->chunk[t])
                return ERR_NOMEM;
        }
    }
    return ERR_OK;
}

static void free_seats(struct mlt_loop *l)
{
    for (unsigned w = 0; w < l->own && l->seat; w++)
        for (unsigned t = 0; t < l->nest.accesses; t++)
            if (l->first[t] == t)
                mem_free(l->seat[w].chunk[t]);
    mem_free(l->seat);
}

static void take_totals(struct mlt_loop *l, const struct mlt_loop_options *o)
{
    l->totals = o->totals;
    for (unsigned i = 0; i < o->totals && o->total; i++) {
        l->total[i] = o->total[i];
        l->result[i] = o->total[i].identity;
    }
}

/* ---- the iterations ------------------------------------------------------ */

/* All indices of a dense space, the last dimension fastest. */
static enum err make_dense(struct loop_nest *n, uint32_t **out, struct fault *f)
{
    uint64_t all = 1;
    uint32_t *key;

    for (unsigned d = 0; d < n->dims; d++)
        if (__builtin_mul_overflow(all, n->extent[d], &all) ||
            all >= UINT32_MAX)
            return fault_set(f, ERR_LIMIT,
                             "a dense space of more than 2^32 - 2 iterations");
    key = mem_calloc(all * n->dims, sizeof(*key));
    if (!key)
        return fault_set(f, ERR_NOMEM, "out of memory");
    for (uint64_t i = 0; i < all; i++) {
        uint64_t rest = i;

        for (unsigned d = n->dims; d-- > 0; rest /= n->extent[d])
            key[i * n->dims + d] = (uint32_t)(rest % n->extent[d]);
    }
    n->iterations = all;
    n->key = *out = key;
    return ERR_OK;
}

/* Keys and values, copied part after part. */
static enum err copy_in_order(struct mlt_loop *l, const void *value)
{
    const struct loop_nest *n = &l->nest;
    size_t key_bytes = n->dims * sizeof(*l->key), bytes = l->value_bytes;

    l->key = mem_alloc((n->iterations + 1) * key_bytes);
    l->value = value ? mem_alloc((n->iterations + 1) * bytes) : NULL;
    if (!l->key || (value && !l->value))
        return ERR_NOMEM;
    for (uint64_t i = 0; i < n->iterations; i++) {
        uint64_t from = l->parts.order[i];

        memcpy(l->key + i * n->dims, nest_key(n, from), key_bytes);
        if (value)
            memcpy((char *)l->value + i * bytes,
                   (const char *)value + from * bytes, bytes);
    }
    return ERR_OK;
}

/* ---- the plan ------------------------------------------------------------ */

static enum err make_plan(struct mlt_loop *l, const struct mlt_loop_options *o,
                          struct fault *f)
{
    struct depends *ds = mem_calloc(1, sizeof(*ds));
    struct text text = {0};
    enum err err = ds ? depend_find(&l->nest, ds) : ERR_NOMEM;

    if (!err) {
        plan_make(&l->nest, ds, l->workers, o->time_parts, &l->plan);
        schedule_init(&l->schedule, &l->plan);
        err = parts_make(&l->nest, &l->plan, o->shuffle, &l->parts);
    }
    if (!err)
        err = apart_order(&l->nest, o->apart, &l->parts);
    if (!err)
        err = apart_runs(&l->nest, o->apart, &l->parts, &l->runs);
    if (!err) {
        plan_text(&text, l->name, &l->nest, ds, &l->plan, &l->parts,
                  l->workers);
        l->text = text_take(&text);
        err = l->text ? copy_in_order(l, o->value) : ERR_NOMEM;
    }
    mem_free(ds);
    mem_free(l->parts.order);
    l->parts.order = NULL;
    if (err == ERR_LIMIT)
        return fault_set(
            f, err,
            "more than %d dependence vectors: declare fewer "
            "touches of a table at different constants, or updates "
            "that may come late as MLT_BUFFERED, which has none",
            DEPEND_MAX);
    return err ? fault_set(f, err, "out of memory") : ERR_OK;
}

static enum err prepare(struct mlt_loop *l, const struct mlt_loop_options *o,
                        struct fault *f)
{
    uint32_t *dense = NULL;
    enum err err = check_numbers(o, f);

    if (err)
        return err;
    if (ps_nodes(l->ps) > COURIER_NODES_MAX)
        return fault_set(f, ERR_LIMIT, "%u nodes: loops run over at most %d",
                         ps_nodes(l->ps), COURIER_NODES_MAX);
    if (ps_user_model(l->ps))
        return fault_set(f, ERR_UNSUPPORTED,
                         "loops do not run under the consistency model %s of a "
                         "user's: their own waits are unknown to it",
                         ps_user_model(l->ps));
    l->nest.dims = o->dims;
    memcpy(l->nest.extent, o->extent, sizeof(l->nest.extent));
    l->nest.iterations = o->iterations;
    l->nest.key = o->key;
    l->nest.ordered = o->ordered != 0;
    l->value_bytes = o->value_bytes;
    l->buffer = o->buffer;
    take_totals(l, o);
    err = take_touches(l, o, f);
    if (!err && !o->key)
        err = make_dense(&l->nest, &dense, f);
    if (!err)
        err = nest_check(&l->nest, f);
    if (!err)
        err = make_plan(l, o, f);
    l->nest.key = l->key;
    mem_free(dense);
    if (!err && make_seats(l))
        err = fault_set(f, ERR_NOMEM, "out of memory");
    if (!err && ps_nodes(l->ps) > 1)
        err = travel_new(l, f);
    return err;
}

int mlt_loop_new(struct mlt_ps *ps, const struct mlt_loop_options *opt,
                 struct mlt_loop **out, struct mlt_error *err)
{
    struct mlt_loop *l = mem_calloc(1, sizeof(*l));
    struct fault f = {0};
    enum err code;

    assert(ps && opt && out);
    if (opt->size != sizeof(*opt)) {
        mem_free(l);
        fault_set(&f, ERR_VERSION,
                  "loop options of %zu bytes, expected %zu: built with another "
                  "version of mltune/loop.h",
                  opt->size, sizeof(*opt));
        return ps_give_error(err, &f);
    }
    if (l) {
        l->ps = ps;
        l->workers = mlt_ps_workers(ps);
        l->own = l->workers / ps_nodes(ps);
        l->name = mem_strdup(opt->name ? opt->name : "loop");
    }
    if (!l || !l->name)
        code = fault_set(&f, ERR_NOMEM, "loop: out of memory");
    else if ((code = prepare(l, opt, &f)) != ERR_OK)
        fault_wrap(&f, "loop %s", l->name);
    if (code) {
        mlt_loop_free(l);
        return ps_give_error(err, &f);
    }
    *out = l;
    return ERR_OK;
}

void mlt_loop_free(struct mlt_loop *l)
{
    if (!l)
        return;
    travel_free(l);
    parts_deinit(&l->parts);
    mem_free(l->name);
    mem_free(l->key);
    mem_free(l->value);
    mem_free(l->runs);
    mem_free(l->text);
    mem_free(l->declared);
    for (unsigned t = 0; t < MLT_LOOP_TOUCHES_MAX; t++)
        mem_free(l->table_name[t]);
    free_seats(l);
    mem_free(l);
}

const char *mlt_loop_text(const struct mlt_loop *l)
{
    return l->text;
}

double mlt_loop_total(const struct mlt_loop *l, unsigned total)
{
    if (total >= l->totals)
        ps_misuse("loop %s: total %u of %u", l->name, total, l->totals);
    return l->result[total];
}
