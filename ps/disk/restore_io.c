#include "ps/disk/restore_io.h"

#include "base/file_io.h"
#include "base/mem.h"
#include "branches/snapshot_io.h"
#include "ps/disk/keys_io.h"
#include "ps/disk/manifest_io.h"
#include "ps/disk/numbering_io.h"
#include "ps/server/errors.h"
#include "ps/server/forks.h"
#include "ps/server/peers.h"
#include "ps/server/rows.h"
#include "ps/server/saving.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

/* One restoring. */
struct restore {
    struct mlt_ps *ps;
    const struct ps_shape *shape; /* of it */
    const struct mover *mover;    /* [tables] or NULL */
    branch_id id;
    const char *dir;
    struct manifest manifest;
    struct numbering was; /* which rows the checkpoint's numbers are */
    bool all;             /* every file is checked here, of whatever node */
    bool *own;         /* [tables] a local table goes from worker to worker */
    struct from *from; /* [tables] rows of a local table that is moved */

    uint32_t worker; /* whose file is being read */
};

/* The rows of all workers of before, rows_before times row_bytes each. */
struct from {
    unsigned char *rows; /* owned; NULL: not moved */
};

/* ---- what there is ------------------------------------------------------- */

static enum err part_path(const struct restore *r, uint32_t worker,
                          char out[FILE_PATH_MAX], struct fault *f)
{
    char file[MANIFEST_FILE_MAX];

    manifest_file(&r->manifest, worker, file);
    return file_join(out, r->dir, file, f);
}

static enum err load_manifest(struct restore *r, struct fault *f)
{
    char path[FILE_PATH_MAX], file[MANIFEST_FILE_MAX];
    enum err err = file_join(path, r->dir, MANIFEST_NAME, f);
    uint32_t missing;

    if (!err)
        err = manifest_load(path, &r->manifest, f);
    if (err)
        return err;
    missing = manifest_missing(&r->manifest);
    if (missing == r->manifest.workers)
        return ERR_OK;
    manifest_file(&r->manifest, missing, file);
    return fault_set(f, ERR_FORMAT,
                     "%s: /parts: %s is not among them: this is not the "
                     "manifest of a whole checkpoint",
                     path, file);
}

static enum err check_tables(const struct restore *r, struct fault *f)
{
    const struct manifest *m = &r->manifest;
    char was[MANIFEST_TEXT_MAX], is[MANIFEST_TEXT_MAX];

    if (m->tables != r->shape->tables)
        return fault_set(f, ERR_INVAL,
                         "%s: a checkpoint of %" PRIu32
                         " tables, but this job has %zu",
                         r->dir, m->tables, r->shape->tables);
    for (uint32_t i = 0; i < m->tables; i++) {
        struct manifest_table own;

        manifest_describe(&r->shape->table[i], &own);
        if (manifest_same_rows(&m->table[i], &own))
            continue;
        manifest_say(&m->table[i], was);
        manifest_say(&own, is);
        return fault_set(f, ERR_INVAL,
                         "%s: table %s was %s; this job's table %s is %s",
                         r->dir, m->table[i].name, was, own.name, is);
    }
    return ERR_OK;
}

/* All files are there, of the right length: on all nodes alike, whichever they
 * read. */
static enum err check_files(const struct restore *r, struct fault *f)
{
    for (uint32_t i = 0; i < r->manifest.workers; i++) {
        const struct manifest_part *part = &r->manifest.part[i];
        char path[FILE_PATH_MAX];
        struct stat st;
        enum err err = part_path(r, i, path, f);

        if (err)
            return err;
        if (stat(path, &st) != 0)
            return fault_errno(f, errno == ENOENT ? ERR_NOENT : ERR_IO, errno,
                               "read %s", path);
        if ((uint64_t)st.st_size != part->bytes)
            return fault_set(f, ERR_FORMAT,
                             "%s: %" PRIu64
                             " bytes, but the manifest says %" PRIu64,
                             path, (uint64_t)st.st_size, part->bytes);
    }
    return ERR_OK;
}

/* Of one node: the first part is its first worker's. */
static enum err take_keys(const struct restore *r, bool put, struct fault *f)
{
    enum err err = ERR_OK;

    for (uint32_t t = 0; t < r->manifest.tables && !err; t++) {
        struct keys *k = r->shape->worker[0].view[t].keys;

        if (!k != !(r->manifest.table[t].flags & MLT_KEYED))
            err =
                fault_set(f, ERR_INVAL, "%s: table %s has keys (MLT_KEYED) %s",
                          r->dir, r->manifest.table[t].name,
                          k ? "in this job alone" : "there alone");
        else if (k)
            err = keys_load(k, t, r->manifest.part[0].seal, r->dir, put, f);
    }
    return err;
}

/* ---- files --------------------------------------------------------------- */

/* The part of worker @worker: of the tables and rows that it should have. */
static enum err check_layout(const struct restore *r, uint32_t worker,
                             const struct snapshot_file *file, const char *path,
                             struct fault *f)
{
    const struct manifest *m = &r->manifest;

    if (snapshot_tables(file) != m->tables)
        return fault_set(f, ERR_FORMAT,
                         "%s: %" PRIu32 " tables, but the "
                         "manifest says %" PRIu32,
                         path, snapshot_tables(file), m->tables);
    for (uint32_t i = 0; i < m->tables; i++) {
        struct store_layout layout;
        uint64_t first, count;

        snapshot_layout(file, i, &layout);
        manifest_rows(m, i, worker, &first, &count);
        if (layout.rows == count && layout.row_bytes == m->table[i].row_bytes)
            continue;
        return fault_set(f, ERR_FORMAT,
                         "%s: %" PRIu64 " rows of table %s, %" PRIu32
                         " bytes each, but the manifest says %" PRIu64
                         ", %" PRIu32,
                         path, layout.rows, m->table[i].name, layout.row_bytes,
                         count, m->table[i].row_bytes);
    }
    return ERR_OK;
}

static enum err check_seal(const struct restore *r, uint32_t worker,
                           const struct snapshot_file *file, const char *path,
                           struct fault *f)
{
    const struct snapshot_labels *labels = snapshot_labels(file);

    if (snapshot_seal(file) == r->manifest.part[worker].seal)
        return ERR_OK;
    return fault_set(f, ERR_FORMAT,
                     "%s: seal %08" PRIx32 ", but the manifest says %08" PRIx32
                     ": it is of another checkpoint, as \"%.*s\"",
                     path, snapshot_seal(file), r->manifest.part[worker].seal,
                     (int)(labels->run_bytes < 64 ? labels->run_bytes : 64),
                     (const char *)labels->run);
}

/* A use of a file that is open. */
typedef enum err use_file(struct restore *r, struct snapshot_file *file,
                          struct fault *f);

static enum err with_file(struct restore *r, uint32_t worker, use_file *use,
                          struct fault *f)
{
    struct snapshot_file *file = NULL;
    char path[FILE_PATH_MAX];
    enum err err = part_path(r, worker, path, f);

    assert(worker < r->manifest.workers);
    if (!err)
        err = snapshot_open(path, NULL, &file, f);
    if (err)
        return err;
    r->worker = worker;
    err = check_layout(r, worker, file, path, f);
    if (!err)
        err = use(r, file, f);
    if (!err)
        err = check_seal(r, worker, file, path, f);
    snapshot_close(file);
    return err;
}

static enum err use_verify(struct restore *r, struct snapshot_file *file,
                           struct fault *f)
{
    (void)r;
    return snapshot_verify(file, f);
}

/* ---- onto the same workers ----------------------------------------------- */

/* Each worker has the rows that it had, in the same places. */
static bool is_alike(const struct restore *r)
{
    const struct manifest *m = &r->manifest;
    const struct ps_shape *shape = r->shape;

    if (m->workers != shape->all_workers)
        return false;
    for (uint32_t i = 0; i < m->tables; i++)
        if (m->table[i].chunk_rows != (uint64_t)1
                                          << shape->table[i].row_shift ||
            m->table[i].rows != shape->table[i].rows ||
            !numbering_same(&r->was, i, &shape->table[i]))
            return false;
    return true;
}

static enum err use_restore(struct restore *r, struct snapshot_file *file,
                            struct fault *f)
{
    const struct ps_shape *shape = r->shape;

    return snapshot_restore(
        file, shape->worker[r->worker - shape->node * shape->workers].store,
        r->id, f);
}

static bool is_own(const struct ps_shape *shape, uint32_t worker)
{
    return worker / shape->workers == shape->node;
}

/* @had: stores that have the branch now. */
static enum err restore_alike(struct restore *r, unsigned *had, struct fault *f)
{
    enum err err = ERR_OK;

    for (uint32_t i = 0; i < r->manifest.workers && !err; i++) {
        if (is_own(r->shape, i)) {
            err = with_file(r, i, use_restore, f);
            *had +=
                store_has(r->shape->worker[i % r->shape->workers].store, r->id);
        } else if (r->all) {
            err = with_file(r, i, use_verify, f);
        }
    }
    return err;
}

/* ---- onto others --------------------------------------------------------- */

/* This node's rows of a shared or exclusive table. */
static void own_rows(const struct ps_shape *shape, mlt_table t, uint64_t *first,
                     uint64_t *end)
{
    const struct worker_view *low = &shape->worker[0].view[t];
    const struct worker_view *high = &shape->worker[shape->workers - 1].view[t];

    *first = low->first;
    *end = high->first + high->count;
}

/* Number here of the row that had @number in the checkpoint. */
static uint64_t number_now(const struct restore *r, mlt_table t,
                           uint64_t number)
{
    return table_number(&r->shape->table[t], numbering_row(&r->was, t, number));
}

static bool is_placed(const struct restore *r, mlt_table t)
{
    return r->was.table[t].row_at || r->shape->table[t].number;
}

static void put_shared(struct restore *r, mlt_table t, uint64_t first,
                       uint64_t rows, const unsigned char *bytes)
{
    const struct table *table = &r->shape->table[t];
    uint64_t chunk_rows = (uint64_t)1 << table->row_shift;
    uint64_t own_first, own_end, n;

    own_rows(r->shape, t, &own_first, &own_end);
    for (uint64_t i = 0; i < rows; i += n) {
        uint64_t number = number_now(r, t, first + i);
        struct place p;

        n = is_placed(r, t) ? 1 : chunk_rows - (number & (chunk_rows - 1));
        n = n < rows - i ? n : rows - i;
        if (number < own_first || number >= own_end)
            continue; /* parts are whole chunks: none of the n is */
        p = place_of(r->ps, t, table_row_at(table, number));
        memcpy(store_chunk_write(p.shard->store, r->id, t, p.chunk) + p.offset,
               bytes + i * table->row_bytes, n * table->row_bytes);
    }
}

static unsigned char *local_row(const struct ps_shape *shape, branch_id id,
                                mlt_table t, unsigned worker, uint64_t row)
{
    const struct table *table = &shape->table[t];
    uint64_t in_chunk = row & (((uint64_t)1 << table->row_shift) - 1);

    assert(worker < shape->workers);
    return store_chunk_write(shape->worker[worker].store, id, t,
                             row >> table->row_shift) +
           in_chunk * table->row_bytes;
}

static void put_local(struct restore *r, mlt_table t, unsigned worker,
                      uint64_t first, uint64_t rows, const unsigned char *bytes)
{
    const struct table *table = &r->shape->table[t];

    for (uint64_t i = 0; i < rows; i++)
        memcpy(local_row(r->shape, r->id, t, worker, first + i),
               bytes + i * table->row_bytes, table->row_bytes);
}

static enum err take_rows(void *arg, uint32_t t, uint64_t first, uint64_t rows,
                          const unsigned char *bytes)
{
    struct restore *r = arg;
    const struct manifest_table *was = &r->manifest.table[t];
    const struct ps_shape *shape = r->shape;
    uint64_t part, count;

    if (was->access != MLT_LOCAL) {
        manifest_rows(&r->manifest, t, r->worker, &part, &count);
        put_shared(r, t, part + first, rows, bytes);
    } else if (r->from[t].rows) {
        memcpy(r->from[t].rows +
                   (r->worker * was->rows + first) * was->row_bytes,
               bytes, rows * was->row_bytes);
    } else if (r->own[t]) {
        if (is_own(shape, r->worker))
            put_local(r, t, r->worker % shape->workers, first, rows, bytes);
    } else if (r->worker == 0) {
        for (unsigned i = 0; i < shape->workers; i++)
            put_local(r, t, i, first, rows, bytes);
    }
    return ERR_OK;
}

static enum err use_rows(struct restore *r, struct snapshot_file *file,
                         struct fault *f)
{
    return snapshot_read(file, take_rows, r, f);
}

/* Whether some of the checkpoint's numbers from @first on are this node's. */
static bool has_own(const struct restore *r, mlt_table t, uint64_t first,
                    uint64_t count)
{
    uint64_t own_first, own_end;

    own_rows(r->shape, t, &own_first, &own_end);
    if (!is_placed(r, t))
        return first < own_end && own_first < first + count;
    for (uint64_t i = first; i < first + count; i++) {
        uint64_t number = number_now(r, t, i);

        if (number >= own_first && number < own_end)
            return true;
    }
    return false;
}

/* Whether @worker's file has something for this node. */
static bool concerns(const struct restore *r, uint32_t worker)
{
    const struct ps_shape *shape = r->shape;
    uint64_t first, count;

    for (uint32_t t = 0; t < r->manifest.tables; t++) {
        if (shape->table[t].access == MLT_LOCAL) {
            if (r->from[t].rows ||
                (r->own[t] ? is_own(shape, worker) : worker == 0))
                return true;
            continue;
        }
        manifest_rows(&r->manifest, t, worker, &first, &count);
        if (has_own(r, t, first, count))
            return true;
    }
    return false;
}

/* The way a local table gets here: from worker to worker, by its mover, or from
 * worker 0 to all. */
static enum err plan_local(struct restore *r, uint32_t t, struct fault *f)
{
    const struct manifest_table *was = &r->manifest.table[t];
    const struct table *is = &r->shape->table[t];
    uint64_t bytes = was->rows * was->row_bytes;

    assert(r->shape->table[t].access == MLT_LOCAL);
    if (was->rows == is->rows) {
        r->own[t] = r->manifest.workers == r->shape->all_workers;
        if (r->own[t] || (is->flags & MLT_ALIKE))
            return ERR_OK;
    }
    if (!r->mover || !r->mover[t].move)
        return fault_set(
            f, ERR_UNSUPPORTED,
            "%s: table %s is each worker's own, of %" PRIu32
            " workers with %" PRIu64 " rows, and nothing says how %u workers "
            "with %" PRIu64 " rows are to have it (mlt_ps_set_mover): restore "
            "with %" PRIu32 " workers over all nodes",
            r->dir, is->name, r->manifest.workers, was->rows,
            r->shape->all_workers, is->rows, r->manifest.workers);
    if (bytes <= SIZE_MAX / r->manifest.workers)
        r->from[t].rows = mem_calloc(r->manifest.workers, bytes);
    if (!r->from[t].rows)
        return fault_set(f, ERR_NOMEM, "restore %s: out of memory", r->dir);
    return ERR_OK;
}

static enum err plan(struct restore *r, struct fault *f)
{
    enum err err = ERR_OK;

    r->own = mem_calloc(r->manifest.tables, sizeof(*r->own));
    r->from = mem_calloc(r->manifest.tables, sizeof(*r->from));
    if (!r->own || !r->from)
        return fault_set(f, ERR_NOMEM, "restore %s: out of memory", r->dir);
    for (uint32_t t = 0; t < r->manifest.tables && !err; t++)
        if (r->shape->table[t].access == MLT_LOCAL)
            err = plan_local(r, t, f);
    return err;
}

const void *mlt_move_from(const struct mlt_move *move, unsigned worker,
                          uint64_t row)
{
    const struct restore *r = move->inside;

    if (worker >= move->workers_before || row >= move->rows_before)
        ps_misuse("mlt_move_from: worker %u of %u, row %llu of %llu", worker,
                  move->workers_before, (unsigned long long)row,
                  (unsigned long long)move->rows_before);
    return r->from[move->table].rows +
           (worker * move->rows_before + row) *
               r->shape->table[move->table].row_bytes;
}

void *mlt_move_to(const struct mlt_move *move, unsigned worker, uint64_t row)
{
    const struct restore *r = move->inside;

    if (worker >= move->workers || row >= move->rows)
        ps_misuse("mlt_move_to: worker %u of %u, row %llu of %llu", worker,
                  move->workers, (unsigned long long)row,
                  (unsigned long long)move->rows);
    if (!is_own(r->shape, worker))
        return NULL;
    return local_row(r->shape, r->id, move->table, worker % r->shape->workers,
                     row);
}

static enum err move_local(struct restore *r, struct fault *f)
{
    for (uint32_t t = 0; t < r->manifest.tables; t++) {
        const struct mlt_move move = {t,
                                      r->manifest.workers,
                                      r->shape->all_workers,
                                      r->manifest.table[t].rows,
                                      r->shape->table[t].rows,
                                      r};
        int code;

        if (!r->from[t].rows)
            continue;
        code = r->mover[t].move(&move, r->mover[t].arg);
        if (code)
            return fault_set(
                f, code > 0 && code < ERR_COUNT ? (enum err)code : ERR_APP,
                "%s: table %s cannot be taken from %" PRIu32
                " workers to %u: %s",
                r->dir, r->shape->table[t].name, r->manifest.workers,
                r->shape->all_workers, mlt_error_text(code));
    }
    return ERR_OK;
}

static enum err restore_moved(struct restore *r, unsigned *had, struct fault *f)
{
    enum err err = plan(r, f);

    for (; *had < r->shape->workers && !err; *had += !err) {
        err =
            store_create(r->shape->worker[*had].store, r->id, BRANCH_TRAINING);
        if (err)
            fault_set(f, err, "restore %s: %s", r->dir, err_text(err));
    }
    for (uint32_t i = 0; i < r->manifest.workers && !err; i++)
        if (concerns(r, i))
            err = with_file(r, i, use_rows, f);
        else if (r->all)
            err = with_file(r, i, use_verify, f);
    return err ? err : move_local(r, f);
}

/* ---- both ---------------------------------------------------------------- */

static enum err read_all(struct restore *r, enum branch_type type,
                         struct fault *f)
{
    const struct ps_shape *shape = r->shape;
    unsigned had = 0;
    enum err err = load_manifest(r, f);

    if (!err)
        err = check_tables(r, f);
    if (!err)
        err = check_files(r, f);
    if (!err)
        err = take_keys(r, false, f);
    if (!err)
        err = numbering_load(&r->was, &r->manifest, r->dir, f);
    if (!err)
        err =
            is_alike(r) ? restore_alike(r, &had, f) : restore_moved(r, &had, f);
    if (!err)
        err = take_keys(r, true, f);
    if (err) {
        forks_drop_in_first(r->ps, had, r->id);
        return err;
    }
    for (unsigned i = 0; i < shape->workers && type == BRANCH_KEPT; i++)
        store_seal(shape->worker[i].store, r->id);
    forks_add(r->ps, &(struct branch_entry){.id = r->id,
                                            .type = type,
                                            .of = r->id,
                                            .clocks = r->manifest.clock});
    return ERR_OK;
}

static enum err restore(struct mlt_ps *ps, branch_id id, const char *dir,
                        enum branch_type type, bool all, struct fault *f)
{
    struct restore r = {.ps = ps,
                        .shape = ps_shape(ps),
                        .mover = ps_saving(ps)->mover,
                        .id = id,
                        .dir = dir,
                        .all = all};
    enum err err;

    assert(dir);
    if (ps_has(ps, id))
        return fault_set(f, ERR_EXIST, "restore: branch %u is there already",
                         id);
    if (forks_reserve(ps) != ERR_OK)
        return fault_set(f, ERR_NOMEM, "restore %s: out of memory", dir);
    err = read_all(&r, type, f);
    for (uint32_t t = 0; r.from && t < r.manifest.tables; t++)
        mem_free(r.from[t].rows);
    mem_free(r.from);
    mem_free(r.own);
    numbering_deinit(&r.was);
    manifest_deinit(&r.manifest);
    return err;
}

enum err ps_restore(struct mlt_ps *ps, branch_id id, const char *dir,
                    struct fault *f)
{
    return restore(ps, id, dir, BRANCH_KEPT, false, f);
}

int mlt_ps_restore(struct mlt_ps *ps, const char *dir, uint32_t *branch,
                   struct mlt_error *err)
{
    struct fault f = {0};
    branch_id id;

    if (!ps_shape(ps)->worker)
        ps_misuse("mlt_ps_restore before mlt_ps_start");
    id = forks_next_id(ps);
    if (restore(ps, id, dir, BRANCH_TRAINING, true, &f))
        return ps_give_error(err, &f);
    *branch = id;
    return ERR_OK;
}
