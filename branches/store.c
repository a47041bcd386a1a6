#include "branches/store.h"

#include "base/mem.h"
#include "branches/store_internal.h"

#include <assert.h>
#include <string.h>

/* ---- slots --------------------------------------------------------------- */

/* Numbers grow by one, so that a branch nearly always lies at its home. */
static uint32_t slot_at(branch_id id, uint32_t distance)
{
    return (id + distance) % STORE_BRANCHES_MAX;
}

struct branch_slot *store_slot(const struct store *s, branch_id id)
{
    uint32_t far = atomic_load_explicit(&s->probe_max, memory_order_relaxed);

    assert(id != BRANCH_NONE);
    for (uint32_t d = 0; d <= far; d++) {
        const struct branch_slot *slot = &s->slot[slot_at(id, d)];

        if (atomic_load_explicit(&slot->id, memory_order_acquire) == id)
            return (struct branch_slot *)slot;
    }
    return NULL;
}

static struct branch_slot *slot_take(struct store *s, branch_id id,
                                     enum branch_type type, struct version *v)
{
    struct branch_slot *slot;
    uint32_t d = 0;

    assert(s->branches < STORE_BRANCHES_MAX);
    while (atomic_load_explicit(&s->slot[slot_at(id, d)].id,
                                memory_order_relaxed) != BRANCH_NONE)
        d++;
    if (d > atomic_load_explicit(&s->probe_max, memory_order_relaxed))
        atomic_store_explicit(&s->probe_max, d, memory_order_relaxed);
    slot = &s->slot[slot_at(id, d)];
    slot->type = type;
    slot->version = v;
    atomic_store_explicit(&slot->id, id, memory_order_release);
    s->branches++;
    return slot;
}

/* ---- tables -------------------------------------------------------------- */

static uint64_t divide_up(uint64_t n, uint64_t by)
{
    return n / by + (n % by != 0);
}

bool store_layout_shape(const struct store_layout *layout,
                        struct store_shape *out)
{
    uint64_t max =
        layout->chunk_bytes_max ? layout->chunk_bytes_max : STORE_CHUNK_BYTES;
    uint64_t stride = ((uint64_t)layout->row_bytes + 3) / 4 * 4, bytes;
    uint32_t shift = 0;

    if (layout->row_bytes == 0 || stride > UINT32_MAX)
        return false;
    while (stride << (shift + 1) <= max)
        shift++;
    out->stride = (uint32_t)stride;
    out->row_shift = shift;
    out->chunk_bytes = stride << shift;
    out->chunks = divide_up(layout->rows, (uint64_t)1 << shift);
    return !__builtin_mul_overflow(out->chunks, out->chunk_bytes, &bytes) &&
           bytes <= INT64_MAX / 2;
}

/* Bytes that @chunks chunks of a table and the nodes above them cost one
 * version; false on overflow. */
static bool table_unit_bytes(const struct store *s,
                             const struct stored_table *t, uint64_t chunks,
                             uint64_t *out)
{
    uint64_t blocks, nodes;

    return !__builtin_mul_overflow(
               chunks, pool_class_bytes(&s->pool, t->from.chunk), &blocks) &&
           !__builtin_mul_overflow(pages_nodes(chunks),
                                   pool_class_bytes(&s->pool, s->node_class),
                                   &nodes) &&
           !__builtin_add_overflow(blocks, nodes, out) && *out <= INT64_MAX / 2;
}

static void table_deinit(struct stored_table *t)
{
    struct map_arrays arrays = {t->map.chunk, t->map.own, t->spare};

    map_arrays_free(&arrays);
    mem_free(t->initial_row);
}

/* Makes what a table owns beside its chunks. */
static enum err table_init(struct stored_table *t,
                           const struct store_layout *layout,
                           const struct store_shape *shape)
{
    struct map_arrays arrays;
    enum err err = map_arrays_new(shape->chunks, &arrays);

    if (err)
        return err;
    t->layout = *layout;
    if (layout->chunk_bytes_max == 0)
        t->layout.chunk_bytes_max = STORE_CHUNK_BYTES;
    t->chunk_bytes = shape->chunk_bytes;
    t->level = pages_level(shape->chunks);
    t->spare = arrays.spare;
    t->map = (struct store_map){
        .chunk = arrays.chunk,
        .own = arrays.own,
        .rows = layout->rows,
        .chunks = shape->chunks,
        .stride = shape->stride,
        .row_shift = shape->row_shift,
    };
    if (!layout->initial_row)
        return ERR_OK;
    t->layout.initial_row = t->initial_row = mem_alloc(layout->row_bytes);
    if (!t->initial_row) {
        table_deinit(t);
        return ERR_NOMEM;
    }
    memcpy(t->initial_row, layout->initial_row, layout->row_bytes);
    return ERR_OK;
}

enum err store_add_table(struct store *s, const struct store_layout *layout,
                         store_table *out)
{
    struct stored_table t = {.from = {.pool = &s->pool, .node = s->node_class}};
    struct store_shape shape;
    uint64_t bytes;
    enum err err;

    assert(s->version_class == s->node_class); /* no root asked for yet */
    if (!store_layout_shape(layout, &shape))
        return ERR_INVAL;
    if (s->tables == STORE_TABLES_MAX)
        return ERR_LIMIT;
    err = pool_add_blocks(&s->pool, shape.chunk_bytes, &t.from.chunk);
    if (err)
        return err;
    if (!table_unit_bytes(s, &t, shape.chunks, &bytes) ||
        bytes + s->unit_bytes > INT64_MAX / 2)
        return ERR_INVAL;
    if (mem_grow((void **)&s->table, &s->tables_capacity, sizeof(t),
                 s->tables + 1))
        return ERR_NOMEM;
    err = table_init(&t, layout, &shape);
    if (err)
        return err;
    s->unit_bytes += bytes + sizeof(struct pool_item *);
    s->fixed_bytes += pool_class_bytes(&s->pool, t.from.chunk);
    *out = (store_table)s->tables;
    s->table[s->tables++] = t;
    return ERR_OK;
}

uint32_t store_tables(const struct store *s)
{
    return (uint32_t)s->tables;
}

void store_table_layout(const struct store *s, store_table table,
                        struct store_layout *out)
{
    assert(table < s->tables);
    *out = s->table[table].layout;
}

uint64_t store_chunk_bytes(const struct store *s, store_table table)
{
    assert(table < s->tables);
    return s->table[table].chunk_bytes;
}

/* ---- reservation --------------------------------------------------------- */

/* Do @units units and the initial chunks fit? */
static bool within_limit(const struct store *s, uint64_t units)
{
    uint64_t bytes;

    return !__builtin_mul_overflow(units, s->unit_bytes, &bytes) &&
           !__builtin_add_overflow(bytes, s->fixed_bytes, &bytes) &&
           bytes <= s->limit_bytes;
}

/* Works out how many items of each class @units units take. */
static void work_out(const struct store *s, uint64_t units, uint64_t items[])
{
    memset(items, 0, s->pool.classes * sizeof(*items));
    items[s->version_class] = units;
    for (size_t i = 0; i < s->tables; i++) {
        const struct stored_table *t = &s->table[i];

        items[s->node_class] += units * pages_nodes(t->map.chunks);
        items[t->from.chunk] += units * t->map.chunks + 1; /* and initial */
    }
}

/* The memory of @units units. Errors: ERR_LIMIT, ERR_NOMEM; nothing changed. */
static enum err take_memory(struct store *s, uint64_t units)
{
    enum err err;

    if (!within_limit(s, units))
        return ERR_LIMIT;
    if (units <= s->capacity)
        return ERR_OK;
    work_out(s, units, s->need);
    err = pool_ensure(&s->pool, s->need);
    if (!err)
        s->capacity = units;
    return err;
}

enum err store_prepare(struct store *s, uint32_t branches)
{
    enum err err;

    assert(s->started);
    err = take_memory(s, s->units + branches);
    return err ? err : pool_touch(&s->pool);
}

uint64_t store_branch_bytes(const struct store *s)
{
    return s->unit_bytes;
}

/* ---- versions ------------------------------------------------------------ */

/* Units that one more branch of @type costs where it refers to @v. */
static uint64_t units_to_join(const struct version *v, enum branch_type type)
{
    return type != BRANCH_KEPT || v->keepers == 0;
}

void version_join(struct version *v, enum branch_type type)
{
    v->item.refs++;
    if (type == BRANCH_KEPT)
        v->keepers++;
    else
        v->writers++;
    assert(v->item.refs == v->writers + v->keepers);
}

static void version_release(struct store *s, struct version *v)
{
    if (--v->item.refs > 0)
        return;
    for (size_t t = s->tables; t-- > 0;)
        pages_release(&s->table[t].from, v->root[t]);
    *(v->previous ? &v->previous->next : &s->versions) = v->next;
    if (v->next)
        v->next->previous = v->previous;
    pool_give(&s->pool, s->version_class, &v->item);
}

/* Gives up the reference of a branch of @type and the units it paid. */
static void version_leave(struct store *s, struct version *v,
                          enum branch_type type)
{
    if (type == BRANCH_KEPT)
        v->keepers--;
    else
        v->writers--;
    s->units -= units_to_join(v, type);
    version_release(s, v);
}

struct version *version_new(struct store *s)
{
    struct version *v = (struct version *)pool_take(&s->pool, s->version_class);

    v->item.refs = v->writers = v->keepers = 0;
    for (size_t t = 0; t < s->tables; t++)
        v->root[t] = NULL;
    v->previous = NULL;
    v->next = s->versions;
    if (v->next)
        v->next->previous = v;
    s->versions = v;
    return v;
}

/* ---- the store ----------------------------------------------------------- */

static uint64_t version_bytes(size_t tables)
{
    return sizeof(struct version) + tables * sizeof(struct pool_item *);
}

enum err store_new(uint64_t limit_bytes, struct store **out)
{
    return store_new_from(limit_bytes, slab_system(), out);
}

enum err store_new_from(uint64_t limit_bytes, const struct slab_ops *slabs,
                        struct store **out)
{
    struct store *s = mem_calloc(1, sizeof(*s));

    if (!s)
        return ERR_NOMEM;
    s->limit_bytes = limit_bytes;
    s->unit_bytes = version_bytes(0);
    pool_init(&s->pool, slabs);
    if (pool_add_items(&s->pool, sizeof(struct page_node), &s->node_class)) {
        store_free(s);
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < STORE_BRANCHES_MAX; i++)
        atomic_init(&s->slot[i].id, BRANCH_NONE);
    *out = s;
    return ERR_OK;
}

void store_free(struct store *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->tables; i++)
        table_deinit(&s->table[i]);
    mem_free(s->table);
    mem_free(s->need);
    pool_deinit(&s->pool);
    mem_free(s);
}

/* The chunk that stands for all that nobody has written. */
static void make_initial_chunk(struct stored_table *t)
{
    unsigned char *row;

    t->initial = (struct pool_block *)pool_take(t->from.pool, t->from.chunk);
    memset(t->initial->bytes, 0, t->chunk_bytes);
    if (!t->initial_row)
        return;
    for (uint64_t r = 0; r < (uint64_t)1 << t->map.row_shift; r++) {
        row = t->initial->bytes + r * t->map.stride;
        memcpy(row, t->initial_row, t->layout.row_bytes);
    }
}

/* Makes ready for the first branch. May be tried again. */
static enum err start(struct store *s)
{
    enum err err = ERR_OK;

    if (s->version_class == s->node_class)
        err = pool_add_items(&s->pool, (uint32_t)version_bytes(s->tables),
                             &s->version_class);
    if (!err && !s->need)
        s->need = mem_calloc(s->pool.classes, sizeof(*s->need));
    if (!err && !s->need)
        err = ERR_NOMEM;
    if (!err)
        err = take_memory(s, 1);
    if (err)
        return err;
    for (size_t i = 0; i < s->tables; i++) {
        make_initial_chunk(&s->table[i]);
        map_reset(&s->table[i]);
    }
    s->started = true;
    return ERR_OK;
}

enum err store_create_root(struct store *s, branch_id id)
{
    enum err err;

    assert(!s->started);
    err = start(s);
    return err ? err : store_create(s, id, BRANCH_INIT);
}

/* ---- branches ------------------------------------------------------------ */

/* May one more branch @id be made? */
static enum err check_new(const struct store *s, branch_id id)
{
    assert(s->started && id != BRANCH_NONE);
    if (store_slot(s, id))
        return ERR_EXIST;
    return s->branches < STORE_BRANCHES_MAX ? ERR_OK : ERR_LIMIT;
}

enum err store_create(struct store *s, branch_id id, enum branch_type type)
{
    struct version *v;
    enum err err = check_new(s, id);

    assert(type < BRANCH_TYPE_COUNT);
    if (!err)
        err = take_memory(s, s->units + 1);
    if (err)
        return err;
    s->units++;
    v = version_new(s);
    version_join(v, type);
    slot_take(s, id, type, v);
    return ERR_OK;
}

enum err store_fork(struct store *s, branch_id child, branch_id parent,
                    enum branch_type type)
{
    struct branch_slot *from = store_slot(s, parent);
    enum err err = from ? check_new(s, child) : ERR_NOENT;
    uint64_t units;

    assert(type < BRANCH_TYPE_COUNT);
    if (err)
        return err;
    units = s->units + units_to_join(from->version, type);
    err = take_memory(s, units);
    if (err)
        return err;
    s->units = units;
    s->forks++;
    version_join(from->version, type);
    slot_take(s, child, type, from->version);
    if (s->active && s->active->version == from->version)
        map_disown(s);
    return ERR_OK;
}

void store_seal(struct store *s, branch_id id)
{
    struct branch_slot *slot = store_slot(s, id);

    assert(slot != NULL);
    if (slot->type == BRANCH_KEPT)
        return;
    version_join(slot->version, BRANCH_KEPT);
    s->units += slot->version->keepers == 1;
    version_leave(s, slot->version, slot->type);
    slot->type = BRANCH_KEPT;
    if (slot == s->active)
        map_disown(s);
}

enum err store_drop(struct store *s, branch_id id)
{
    struct branch_slot *slot = store_slot(s, id);

    if (!slot)
        return ERR_NOENT;
    if (slot == s->active)
        s->active = NULL;
    atomic_store_explicit(&slot->id, BRANCH_NONE, memory_order_relaxed);
    s->branches--;
    version_leave(s, slot->version, slot->type);
    slot->version = NULL;
    return ERR_OK;
}

bool store_has(const struct store *s, branch_id id)
{
    return store_slot(s, id) != NULL;
}

enum branch_type store_type(const struct store *s, branch_id id)
{
    const struct branch_slot *slot = store_slot(s, id);

    assert(slot != NULL);
    return slot->type;
}

const unsigned char *store_chunk(const struct store *s, branch_id id,
                                 store_table table, uint64_t c)
{
    const unsigned char *bytes = store_chunk_written(s, id, table, c);

    return bytes ? bytes : s->table[table].initial->bytes;
}

const unsigned char *store_chunk_written(const struct store *s, branch_id id,
                                         store_table table, uint64_t c)
{
    const struct branch_slot *slot = store_slot(s, id);
    const struct pool_block *block;

    assert(slot != NULL && table < s->tables);
    block = pages_find(slot->version->root[table], c);
    return block ? block->bytes : NULL;
}
