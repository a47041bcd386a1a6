#include "tests/unit/store_model.h"

#include "base/mem.h"
#include "tests/unit/check.h"

void store_model_init(struct model *m, const struct store_layout layout[],
                      uint32_t tables)
{
    assert_true(tables <= MODEL_TABLES_MAX);
    memset(m, 0, sizeof(*m));
    m->tables = tables;
    memcpy(m->layout, layout, tables * sizeof(*layout));
}

static void free_rows(struct model *m, struct model_branch *b)
{
    for (uint32_t t = 0; t < m->tables; t++)
        mem_free(b->rows[t]);
}

void store_model_deinit(struct model *m)
{
    for (uint32_t i = 0; i < m->branches; i++)
        free_rows(m, &m->branch[i]);
    m->branches = 0;
}

struct model_branch *store_model_find(struct model *m, branch_id id)
{
    for (uint32_t i = 0; i < m->branches; i++)
        if (m->branch[i].id == id)
            return &m->branch[i];
    return NULL;
}

static void set_initial(const struct store_layout *l, unsigned char *rows,
                        uint64_t first, uint64_t end)
{
    for (uint64_t r = first; r < end; r++) {
        if (l->initial_row)
            memcpy(rows + r * l->row_bytes, l->initial_row, l->row_bytes);
        else
            memset(rows + r * l->row_bytes, 0, l->row_bytes);
    }
}

static size_t table_bytes(const struct store_layout *l)
{
    return l->rows * l->row_bytes;
}

static struct model_branch *add(struct model *m, branch_id id,
                                enum branch_type type)
{
    struct model_branch *b = &m->branch[m->branches++];

    assert_true(m->branches <= MODEL_BRANCHES_MAX);
    b->id = id;
    b->type = type;
    for (uint32_t t = 0; t < m->tables; t++)
        b->rows[t] = mem_alloc(table_bytes(&m->layout[t]) + 1);
    return b;
}

void store_model_create(struct model *m, branch_id id, enum branch_type type)
{
    struct model_branch *b = add(m, id, type);

    b->state = m->states++;
    for (uint32_t t = 0; t < m->tables; t++)
        set_initial(&m->layout[t], b->rows[t], 0, m->layout[t].rows);
}

void store_model_fork(struct model *m, branch_id child, branch_id parent,
                      enum branch_type type)
{
    struct model_branch *from, *b = add(m, child, type);

    from = store_model_find(m, parent);
    b->state = from->state;
    for (uint32_t t = 0; t < m->tables; t++)
        memcpy(b->rows[t], from->rows[t], table_bytes(&m->layout[t]));
}

void store_model_drop(struct model *m, branch_id id)
{
    struct model_branch *b = store_model_find(m, id);

    free_rows(m, b);
    *b = m->branch[--m->branches];
}

void store_model_seal(struct model *m, branch_id id)
{
    store_model_find(m, id)->type = BRANCH_KEPT;
}

void store_model_write(struct model *m, branch_id id, uint32_t table,
                       uint64_t row, const void *bytes)
{
    struct model_branch *b = store_model_find(m, id);
    uint32_t size = m->layout[table].row_bytes, same = 0;

    for (uint32_t i = 0; i < m->branches; i++)
        same += m->branch[i].state == b->state;
    if (same > 1)
        b->state = m->states++;
    memcpy(b->rows[table] + row * size, bytes, size);
}

void store_model_grow(struct model *m, uint32_t table, uint64_t rows)
{
    struct store_layout *l = &m->layout[table];
    uint64_t before = l->rows;

    l->rows = rows;
    for (uint32_t i = 0; i < m->branches; i++) {
        unsigned char **p = &m->branch[i].rows[table];

        *p = mem_realloc(*p, table_bytes(l) + 1);
        set_initial(l, *p, before, rows);
    }
}

const unsigned char *store_model_row(const struct model_branch *b,
                                     const struct model *m, uint32_t table,
                                     uint64_t row)
{
    return b->rows[table] + row * m->layout[table].row_bytes;
}

/* Is branch @i the first kept one of its state? */
static bool first_kept(const struct model *m, uint32_t i)
{
    for (uint32_t k = 0; k < i; k++)
        if (m->branch[k].type == BRANCH_KEPT &&
            m->branch[k].state == m->branch[i].state)
            return false;
    return true;
}

uint64_t store_model_units(const struct model *m)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < m->branches; i++)
        n += m->branch[i].type != BRANCH_KEPT || first_kept(m, i);
    return n;
}

uint64_t store_model_units_after_fork(struct model *m, branch_id parent,
                                      enum branch_type type)
{
    uint64_t n = store_model_units(m);

    if (type != BRANCH_KEPT)
        return n + 1;
    for (uint32_t i = 0; i < m->branches; i++)
        if (m->branch[i].type == BRANCH_KEPT &&
            m->branch[i].state == store_model_find(m, parent)->state)
            return n;
    return n + 1;
}

void store_model_compare(struct model *m, const struct store *s, branch_id id)
{
    const struct model_branch *b = store_model_find(m, id);

    for (uint32_t t = 0; t < m->tables; t++) {
        const struct store_map *map = store_map(s, t);
        uint64_t in_chunk = (uint64_t)1 << map->row_shift;

        assert_int_equal(map->rows, m->layout[t].rows);
        for (uint64_t r = 0; r < m->layout[t].rows; r++) {
            const unsigned char *chunk = store_chunk(s, id, t, r / in_chunk);

            assert_memory_equal(chunk + r % in_chunk * map->stride,
                                store_model_row(b, m, t, r),
                                m->layout[t].row_bytes);
            if (store_active(s) == id)
                assert_ptr_equal(store_map_read(map, r),
                                 chunk + r % in_chunk * map->stride);
        }
    }
}

void store_model_compare_all(struct model *m, const struct store *s)
{
    for (uint32_t i = 0; i < m->branches; i++)
        store_model_compare(m, s, m->branch[i].id);
}
