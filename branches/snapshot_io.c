#include "branches/snapshot_io.h"

#include "base/crc32c.h"
#include "base/disk_io.h"
#include "base/mem.h"
#include "branches/snapshot_format.h"

#include <assert.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

/* Checksum of a table's initial row. */
static uint32_t initial_row_crc(const struct store_layout *layout)
{
    static const unsigned char zeros[256];
    uint32_t crc = 0;

    if (layout->initial_row)
        return crc32c(0, layout->initial_row, layout->row_bytes);
    for (uint64_t left = layout->row_bytes; left > 0;) {
        size_t n = left < sizeof(zeros) ? left : sizeof(zeros);

        crc = crc32c(crc, zeros, n);
        left -= n;
    }
    return crc;
}

/* ---- writing ------------------------------------------------------------- */

struct snapshot_job {
    const struct store *store; /* borrowed */
    branch_id branch;
    struct snapshot_form form;
    uint32_t seal; /* once written */
    _Atomic bool canceled;
};

static enum err copy_labels(struct snapshot_form *form,
                            const struct snapshot_labels *labels)
{
    size_t n = (size_t)labels->run_bytes + labels->meta_bytes;

    if (n == 0)
        return ERR_OK;
    form->blobs = mem_alloc(n);
    if (!form->blobs)
        return ERR_NOMEM;
    form->labels = *labels;
    if (labels->run_bytes)
        memcpy(form->blobs, labels->run, labels->run_bytes);
    if (labels->meta_bytes)
        memcpy(form->blobs + labels->run_bytes, labels->meta,
               labels->meta_bytes);
    form->labels.run = form->blobs;
    form->labels.meta = form->blobs + labels->run_bytes;
    return ERR_OK;
}

/* The tables as they are now; what the branch has written is found later. */
static enum err describe_tables(struct snapshot_form *form,
                                const struct store *s)
{
    bool possible;

    form->tables = store_tables(s);
    form->table = mem_calloc(form->tables + 1, sizeof(*form->table));
    if (!form->table)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < form->tables; i++) {
        struct snapshot_table *t = &form->table[i];

        store_table_layout(s, i, &t->layout);
        t->initial_crc = initial_row_crc(&t->layout);
        t->layout.initial_row = NULL;
    }
    possible = snapshot_form_measure(form);
    assert(possible); /* the store has room for it */
    (void)possible;
    form->bits = mem_calloc(form->bits_bytes + 1, 1);
    return form->bits ? ERR_OK : ERR_NOMEM;
}

enum err snapshot_job_new(const struct store *s, branch_id branch,
                          const struct snapshot_labels *labels,
                          struct snapshot_job **out)
{
    struct snapshot_job *job;
    enum err err;

    if (!store_has(s, branch))
        return ERR_NOENT;
    assert(store_type(s, branch) == BRANCH_KEPT);
    if (labels->run_bytes > SNAPSHOT_BLOB_MAX ||
        labels->meta_bytes > SNAPSHOT_BLOB_MAX)
        return ERR_INVAL;
    job = mem_calloc(1, sizeof(*job));
    if (!job)
        return ERR_NOMEM;
    job->store = s;
    job->branch = branch;
    atomic_init(&job->canceled, false);
    err = copy_labels(&job->form, labels);
    if (!err)
        err = describe_tables(&job->form, s);
    if (err) {
        snapshot_job_free(job);
        return err;
    }
    *out = job;
    return ERR_OK;
}

void snapshot_job_free(struct snapshot_job *job)
{
    if (!job)
        return;
    snapshot_form_deinit(&job->form);
    mem_free(job);
}

void snapshot_job_cancel(struct snapshot_job *job)
{
    atomic_store(&job->canceled, true);
}

uint32_t snapshot_job_seal(const struct snapshot_job *job)
{
    return job->seal;
}

/* Notes which chunks the branch does not share with the initial chunk. */
static void find_written(struct snapshot_job *job)
{
    struct snapshot_form *form = &job->form;
    bool possible;

    memset(form->bits, 0, form->bits_bytes);
    for (uint32_t i = 0; i < form->tables; i++) {
        struct snapshot_table *t = &form->table[i];

        t->written = 0;
        for (uint64_t c = 0; c < t->shape.chunks; c++) {
            if (!store_chunk_written(job->store, job->branch, i, c))
                continue;
            form->bits[t->bits_at + c / 8] |= (unsigned char)(1u << (c % 8));
            t->written++;
        }
    }
    possible = snapshot_form_count(form);
    assert(possible);
    (void)possible;
}

static enum err put_crc(struct disk_out *o, uint32_t crc, struct fault *f)
{
    unsigned char bytes[SNAPSHOT_CRC_BYTES];

    snapshot_put32(bytes, crc);
    return disk_out_put(o, bytes, sizeof(bytes), f);
}

static enum err put_header(struct snapshot_form *form, struct disk_out *o,
                           struct fault *f)
{
    size_t n = form->header_bytes + SNAPSHOT_CRC_BYTES;
    unsigned char *header = mem_alloc(n);
    enum err err;

    if (!header)
        return fault_set(f, ERR_NOMEM, "%s: out of memory", o->path);
    snapshot_header_encode(form, header);
    err = disk_out_put(o, header, n, f);
    mem_free(header);
    if (!err)
        err = disk_out_put(o, form->bits, form->bits_bytes, f);
    if (!err)
        err = put_crc(o, snapshot_bits_crc(form), f);
    return err;
}

static enum err put_chunk(struct snapshot_job *job,
                          const struct snapshot_cursor *at, struct disk_out *o,
                          uint32_t *crc, struct fault *f)
{
    const struct snapshot_form *form = &job->form;
    uint64_t n = form->table[at->table].shape.chunk_bytes;
    const unsigned char *bytes =
        store_chunk_written(job->store, job->branch, at->table, at->chunk);
    enum err err;

    if (atomic_load_explicit(&job->canceled, memory_order_relaxed))
        return fault_set(f, ERR_CANCELED, "%s: canceled", o->path);
    *crc = crc32c(*crc, bytes, n);
    err = disk_out_put(o, bytes, n, f);
    if (!err && at->last)
        err = put_crc(o, *crc, f);
    return err;
}

enum err snapshot_job_write(struct snapshot_job *job, const char *path,
                            const struct disk_ops *ops, uint64_t *bytes,
                            struct fault *f)
{
    struct snapshot_cursor at;
    struct disk_out out;
    uint32_t crc;
    enum err err;

    find_written(job);
    err = disk_out_open(&out, ops, path, DISK_SHARED, f);
    if (err)
        return err;
    err = put_header(&job->form, &out, f);
    crc = snapshot_bits_crc(&job->form);
    snapshot_cursor_init(&job->form, &at);
    while (!err && snapshot_cursor_next(&job->form, &at))
        err = put_chunk(job, &at, &out, &crc, f);
    if (err) {
        disk_out_abort(&out);
        return err;
    }
    assert(out.offset == job->form.file_bytes);
    job->seal = crc;
    err = disk_out_commit(&out, f);
    if (!err && bytes)
        *bytes = job->form.file_bytes;
    return err;
}

/* ---- reading ------------------------------------------------------------- */

struct snapshot_file {
    struct disk_in in;
    struct snapshot_form form;
    bool read;     /* blocks have been, or were begun */
    uint32_t seal; /* once they have been */
};

static enum err read_header(struct snapshot_file *file, struct fault *f)
{
    unsigned char fixed[SNAPSHOT_FIXED_BYTES], *header;
    struct disk_in *in = &file->in;
    enum err err = disk_in_read(in, fixed, sizeof(fixed), f);
    size_t rest;

    if (!err)
        err = snapshot_fixed_decode(&file->form, fixed, in->bytes, in->path, f);
    if (err)
        return err;
    header = mem_alloc(file->form.header_bytes + SNAPSHOT_CRC_BYTES);
    if (!header)
        return fault_set(f, ERR_NOMEM, "%s: out of memory", in->path);
    memcpy(header, fixed, sizeof(fixed));
    rest = file->form.header_bytes + SNAPSHOT_CRC_BYTES - sizeof(fixed);
    err = disk_in_read(in, header + sizeof(fixed), rest, f);
    if (!err)
        err = snapshot_header_decode(&file->form, header, in->path, f);
    mem_free(header);
    return err;
}

static enum err read_crc(struct disk_in *in, uint32_t *out, struct fault *f)
{
    unsigned char bytes[SNAPSHOT_CRC_BYTES];
    enum err err = disk_in_read(in, bytes, sizeof(bytes), f);

    if (!err)
        *out = snapshot_get32(bytes);
    return err;
}

static enum err read_bits(struct snapshot_file *file, struct fault *f)
{
    struct snapshot_form *form = &file->form;
    struct disk_in *in = &file->in;
    uint32_t crc = 0;
    enum err err;

    form->bits = mem_alloc(form->bits_bytes + 1);
    if (!form->bits)
        return fault_set(f, ERR_NOMEM, "%s: out of memory", in->path);
    err = disk_in_read(in, form->bits, form->bits_bytes, f);
    if (!err)
        err = read_crc(in, &crc, f);
    return err ? err : snapshot_bits_check(form, crc, in->path, f);
}

enum err snapshot_open(const char *path, const struct disk_ops *ops,
                       struct snapshot_file **out, struct fault *f)
{
    struct snapshot_file *file = mem_calloc(1, sizeof(*file));
    enum err err;

    if (!file)
        return fault_set(f, ERR_NOMEM, "%s: out of memory", path);
    err = disk_in_open(&file->in, ops, path, f);
    if (!err)
        err = read_header(file, f);
    if (!err)
        err = read_bits(file, f);
    if (err) {
        snapshot_close(file);
        return err;
    }
    *out = file;
    return ERR_OK;
}

void snapshot_close(struct snapshot_file *file)
{
    if (!file)
        return;
    disk_in_close(&file->in);
    snapshot_form_deinit(&file->form);
    mem_free(file);
}

const struct snapshot_labels *snapshot_labels(const struct snapshot_file *file)
{
    return &file->form.labels;
}

uint32_t snapshot_tables(const struct snapshot_file *file)
{
    return file->form.tables;
}

void snapshot_layout(const struct snapshot_file *file, uint32_t t,
                     struct store_layout *out)
{
    assert(t < file->form.tables);
    *out = file->form.table[t].layout;
}

/* Where the chunks of a file go: into branch `id` of `store`; or (NULL) through
 * `buffer`, to `take` one after the other, or (NULL) only to be checked. */
struct sink {
    struct store *store;
    branch_id id;
    unsigned char *buffer; /* [a chunk], or [DISK_BUFFER_BYTES] to be checked */
    snapshot_take *take;
    void *arg;
};

static enum err hand_on(const struct snapshot_file *file, const struct sink *to,
                        const struct snapshot_cursor *at)
{
    const struct snapshot_table *t = &file->form.table[at->table];
    uint64_t first = at->chunk << t->shape.row_shift;
    uint64_t rows = (uint64_t)1 << t->shape.row_shift;

    if (rows > t->layout.rows - first)
        rows = t->layout.rows - first;
    return to->take(to->arg, at->table, first, rows, to->buffer);
}

/* One chunk; @crc goes on over it. */
static enum err read_chunk(struct snapshot_file *file, const struct sink *to,
                           const struct snapshot_cursor *at, uint32_t *crc,
                           struct fault *f)
{
    uint64_t left = file->form.table[at->table].shape.chunk_bytes;
    unsigned char *bytes = to->buffer;
    enum err err = ERR_OK;

    if (to->store)
        bytes = store_chunk_write(to->store, to->id, at->table, at->chunk);
    while (!err && left > 0) {
        size_t n = left < DISK_BUFFER_BYTES ? left : DISK_BUFFER_BYTES;

        err = disk_in_read(&file->in, bytes, n, f);
        if (err)
            break;
        *crc = crc32c(*crc, bytes, n);
        left -= n;
        if (to->store || to->take)
            bytes += n;
    }
    return !err && to->take ? hand_on(file, to, at) : err;
}

static enum err read_blocks(struct snapshot_file *file, const struct sink *to,
                            struct fault *f)
{
    struct snapshot_cursor at;
    uint32_t crc = snapshot_bits_crc(&file->form), stored = 0;
    uint64_t block_at = 0;
    enum err err = ERR_OK;

    assert(!file->read);
    file->read = true;
    snapshot_cursor_init(&file->form, &at);
    while (!err && snapshot_cursor_next(&file->form, &at)) {
        if (at.first)
            block_at = file->in.offset;
        err = read_chunk(file, to, &at, &crc, f);
        if (err || !at.last)
            continue;
        err = read_crc(&file->in, &stored, f);
        if (!err && stored != crc)
            err = fault_set(f, ERR_FORMAT,
                            "%s: byte %" PRIu64 ": block %" PRIu64
                            " (table %" PRIu32 ") does not fit its checksum",
                            file->in.path, block_at, at.block, at.table);
    }
    file->seal = crc;
    return err;
}

enum err snapshot_verify(struct snapshot_file *file, struct fault *f)
{
    struct sink nowhere = {.buffer = mem_alloc(DISK_BUFFER_BYTES)};
    enum err err;

    if (!nowhere.buffer)
        return fault_set(f, ERR_NOMEM, "%s: out of memory", file->in.path);
    err = read_blocks(file, &nowhere, f);
    mem_free(nowhere.buffer);
    return err;
}

static uint64_t largest_chunk(const struct snapshot_form *form)
{
    uint64_t most = 1;

    for (uint32_t i = 0; i < form->tables; i++)
        if (form->table[i].written > 0 &&
            form->table[i].shape.chunk_bytes > most)
            most = form->table[i].shape.chunk_bytes;
    return most;
}

enum err snapshot_read(struct snapshot_file *file, snapshot_take *take,
                       void *arg, struct fault *f)
{
    struct sink to = {.buffer = mem_alloc(largest_chunk(&file->form)),
                      .take = take,
                      .arg = arg};
    enum err err;

    if (!to.buffer)
        return fault_set(f, ERR_NOMEM, "%s: out of memory", file->in.path);
    err = read_blocks(file, &to, f);
    mem_free(to.buffer);
    return err;
}

uint32_t snapshot_seal(const struct snapshot_file *file)
{
    assert(file->read);
    return file->seal;
}

/* Is table @i of the file the one that the store has? */
static bool same_table(const struct snapshot_table *t, const struct store *s,
                       uint32_t i)
{
    struct store_layout own;

    store_table_layout(s, i, &own);
    return own.rows == t->layout.rows && own.row_bytes == t->layout.row_bytes &&
           own.chunk_bytes_max == t->layout.chunk_bytes_max &&
           initial_row_crc(&own) == t->initial_crc;
}

static enum err check_tables(const struct snapshot_file *file,
                             const struct store *s, struct fault *f)
{
    const struct snapshot_form *form = &file->form;

    if (form->tables != store_tables(s))
        return fault_set(f, ERR_FORMAT,
                         "%s: byte %d: a snapshot of %" PRIu32
                         " tables, this job has %" PRIu32,
                         file->in.path, SNAPSHOT_FIXED_BYTES, form->tables,
                         store_tables(s));
    for (uint32_t i = 0; i < form->tables; i++) {
        const struct snapshot_table *t = &form->table[i];
        struct store_layout own;

        if (same_table(t, s, i))
            continue;
        store_table_layout(s, i, &own);
        return fault_set(
            f, ERR_FORMAT,
            "%s: byte %" PRIu32 ": table %" PRIu32 " has %" PRIu64
            " rows of %" PRIu32 " bytes in chunks of at most %" PRIu32
            ", this job's has %" PRIu64 " of %" PRIu32 " in %" PRIu32
            ", or another initial row",
            file->in.path, SNAPSHOT_FIXED_BYTES + i * SNAPSHOT_TABLE_BYTES, i,
            t->layout.rows, t->layout.row_bytes, t->layout.chunk_bytes_max,
            own.rows, own.row_bytes, own.chunk_bytes_max);
    }
    return ERR_OK;
}

enum err snapshot_restore(struct snapshot_file *file, struct store *s,
                          branch_id id, struct fault *f)
{
    struct sink branch = {.store = s, .id = id};
    enum err err = check_tables(file, s, f);

    if (err)
        return err;
    err = store_create(s, id, BRANCH_TRAINING);
    if (err)
        return fault_set(f, err, "restore %s: %s", file->in.path,
                         err_text(err));
    err = read_blocks(file, &branch, f);
    if (err)
        store_drop(s, id);
    return err;
}
