/* mf: the saved model (mf_app.h): outside ids of the rows and rating_mean
 * beside the tables; evaluating it on other ratings, and predicting some.
 * rating_mean is what is added to a product, then, if it is another number,
 * what is predicted for ids without a row. */
#include "apps/mf/mf_app.h"
#include "apps/settings.h"
#include "base/mem.h"
#include "base/npy_io.h"
#include "base/text.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const table_name[MF_SIDES] = {"users", "items"};
static const char *const ids_name[MF_SIDES] = {"user_ids", "item_ids"};

static enum err save_array(const char *dir, const char *name,
                           const struct npy_info *info, const void *values,
                           struct fault *f)
{
    struct npy_writer *w;
    char path[4096];
    enum err err;

    if ((size_t)snprintf(path, sizeof(path), "%s/%s.npy", dir, name) >=
        sizeof(path))
        return fault_set(f, ERR_INVAL, "%s: the path is too long", dir);
    err = npy_create(path, info, &w, f);
    if (err)
        return err;
    err = npy_write(w, values, info->rows * npy_type_bytes(info->type), f);
    if (err) {
        npy_abort(w);
        return err;
    }
    return npy_commit(w, NULL, f);
}

static enum err load_array(const char *dir, const char *name,
                           enum npy_type type, uint64_t *n, void **values,
                           struct fault *f)
{
    struct npy_reader *r;
    struct npy_info info;
    char path[4096];
    void *p;
    enum err err;

    if ((size_t)snprintf(path, sizeof(path), "%s/%s.npy", dir, name) >=
        sizeof(path))
        return fault_set(f, ERR_INVAL, "%s: the path is too long", dir);
    err = npy_open(path, &info, &r, f);
    if (err)
        return err;
    p = mem_alloc(info.rows * npy_type_bytes(type));
    if (info.type != type || info.cols != 1 || info.rows == 0)
        err = fault_set(f, ERR_FORMAT, "%s: expected a column of %s", path,
                        npy_type_name(type));
    else if (!p)
        err = fault_set(f, ERR_NOMEM, "%s: out of memory", path);
    else
        err = npy_read(r, p, info.rows * npy_type_bytes(type), f);
    npy_close(r);
    if (err) {
        mem_free(p);
        return err;
    }
    *values = p;
    *n = info.rows;
    return ERR_OK;
}

static enum err save_files(const struct mf *m, const char *dir, struct fault *f)
{
    enum mf_side side;
    enum err err = ERR_OK;

    for (side = MF_USERS; side < MF_SIDES && !err; side++) {
        struct npy_info info = {NPY_I64, m->rows[side], 1};

        err = save_array(dir, ids_name[side], &info, m->id[side], f);
    }
    if (!err) {
        struct npy_info info = {NPY_F64, m->offset == m->mean ? 1 : 2, 1};
        const double means[] = {m->offset, m->mean};

        err = save_array(dir, "rating_mean", &info, means, f);
    }
    return err;
}

int mf_save(void *app, const char *dir, char *json, size_t size,
            struct mlt_error *error)
{
    const struct mf *m = app;
    char lambda[TEXT_NUMBER_MAX], mean[TEXT_NUMBER_MAX];
    char offset[TEXT_NUMBER_MAX];
    struct fault f = {0};
    int n;

    text_number(m->lambda, lambda);
    text_number(m->mean, mean);
    text_number(m->offset, offset);
    n = snprintf(json, size,
                 "{\"rank\":%" PRIu32 ",\"lambda\":%s,\"mean\":%s,"
                 "\"offset\":%s,\"users\":%" PRIu64 ",\"items\":%" PRIu64
                 ",\"unknown\":\"mean\"}",
                 m->rank, lambda, mean, offset, m->rows[MF_USERS],
                 m->rows[MF_ITEMS]);
    if (n < 0 || (size_t)n >= size)
        fault_set(&f, ERR_LIMIT, "mf: model.json has no room");
    else
        save_files(m, dir, &f);
    return f.code ? settings_fault(&f, error) : 0;
}

/* Checks that the table @side fits its ids; *@rank is its width. */
static enum err check_table(const struct mf *m, const char *dir,
                            enum mf_side side, uint32_t *rank, struct fault *f)
{
    struct npy_reader *r;
    struct npy_info info;
    char path[4096];
    enum err err;

    snprintf(path, sizeof(path), "%s/%s.npy", dir, table_name[side]);
    err = npy_open(path, &info, &r, f);
    if (err)
        return err;
    npy_close(r);
    if (info.type != NPY_F32 || info.rows != m->rows[side] ||
        info.cols > MF_RANK_MAX || info.cols == 0 ||
        (side == MF_ITEMS && info.cols != *rank))
        return fault_set(f, ERR_FORMAT,
                         "%s: expected float32 of %" PRIu64
                         " rows, as %s.npy has, and of one rank in both "
                         "tables; found %" PRIu64 " rows of %" PRIu64,
                         path, m->rows[side], ids_name[side], info.rows,
                         info.cols);
    *rank = (uint32_t)info.cols;
    return ERR_OK;
}

/* Numbers of another data set's ids become those of @map, or MF_ROW_NONE. */
static void translate(const struct id_map *from, const struct id_map *map,
                      uint32_t number[])
{
    size_t i;

    for (i = 0; i < from->count; i++)
        number[i] = id_map_find(map, from->id[i]);
}

/* Rows in the model for the ids of the data. */
static enum err map_side(const struct mf *m, enum mf_side side,
                         const struct id_map *from, uint32_t **row)
{
    struct id_map map = {0};
    enum err err = id_map_init(&map, m->id[side], m->rows[side]);

    *row = err ? NULL : mem_alloc(from->count * sizeof(**row));
    if (*row)
        translate(from, &map, *row);
    else if (!err)
        err = ERR_NOMEM;
    id_map_deinit(&map);
    return err;
}

static enum err map_data(struct mf *m, const char *dir, struct fault *f)
{
    uint32_t *row[MF_SIDES] = {NULL, NULL};
    enum err err = map_side(m, MF_USERS, &m->data.users, &row[MF_USERS]);

    if (!err)
        err = map_side(m, MF_ITEMS, &m->data.items, &row[MF_ITEMS]);
    if (err) {
        fault_set(f, err == ERR_NOMEM ? err : ERR_FORMAT,
                  "%s: the outside ids of the model: %s", dir, err_text(err));
    } else {
        const uint32_t *const rows[MF_SIDES] = {row[MF_USERS], row[MF_ITEMS]};

        mf_pairs_take(&m->test, &m->data, rows, m->offset);
    }
    mem_free(row[MF_USERS]);
    mem_free(row[MF_ITEMS]);
    return err;
}

static enum err load_model(struct mf *m, const char *dir, struct fault *f)
{
    void *values = NULL;
    uint64_t n;
    enum mf_side side;
    enum err err = load_array(dir, "rating_mean", NPY_F64, &n, &values, f);

    if (err)
        return err;
    assert(values);
    if (n > 2) {
        mem_free(values);
        return fault_set(f, ERR_FORMAT,
                         "%s/rating_mean.npy: expected one number or two", dir);
    }
    m->offset = *(const double *)values;
    m->mean = ((const double *)values)[n > 1];
    mem_free(values);
    if (!isfinite(m->offset) || !isfinite(m->mean))
        return fault_set(f, ERR_FORMAT,
                         "%s/rating_mean.npy: expected a finite number", dir);
    for (side = MF_USERS; side < MF_SIDES && !err; side++) {
        err = load_array(dir, ids_name[side], NPY_I64, &m->rows[side], &values,
                         f);
        if (!err) {
            m->id[side] = values;
            err = check_table(m, dir, side, &m->rank, f);
        }
    }
    return err ? err : map_data(m, dir, f);
}

int mf_load(void *app, const char *dir, struct mlt_error *error)
{
    struct fault f = {0};

    load_model(app, dir, &f);
    return f.code ? settings_fault(&f, error) : 0;
}

/* ---- predicting ---------------------------------------------------------- */

int mf_columns(void *app, const struct mlt_column **column, uint32_t *count,
               struct mlt_error *error)
{
    static const struct mlt_column rating = {"rating", NULL, 0};

    (void)app;
    (void)error;
    *column = &rating;
    *count = 1;
    return 0;
}

static double dot(uint32_t rank, const float *a, const float *b)
{
    double sum = 0;

    for (uint32_t k = 0; k < rank; k++)
        sum += (double)a[k] * (double)b[k];
    return sum;
}

/* The mean where the model does not know the user or the item. */
int mf_predict(void *app, struct mlt_worker *w, uint64_t first, uint64_t count,
               double *out)
{
    const struct mf *m = app;

    assert(first + count <= m->test.count);
    for (uint64_t i = 0; i < count; i++) {
        uint32_t user = m->test.row[MF_USERS][first + i];
        uint32_t item = m->test.row[MF_ITEMS][first + i];
        const float *u, *v;

        out[i] = m->mean;
        if (user == MF_ROW_NONE || item == MF_ROW_NONE)
            continue;
        u = mlt_get_row(w, m->table[MF_USERS], user);
        v = mlt_get_row(w, m->table[MF_ITEMS], item);
        if (!u || !v)
            return (int)ERR_CANCELED;
        out[i] = m->offset + dot(m->rank, u, v);
    }
    return 0;
}

int mf_truth(void *app, uint64_t first, uint64_t count, double *out)
{
    const struct mf *m = app;

    assert(!m->predict && first + count <= m->test.count);
    for (uint64_t i = 0; i < count; i++)
        out[i] = (double)m->test.value[first + i] + m->offset;
    return 0;
}
