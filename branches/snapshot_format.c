#include "branches/snapshot_format.h"

#include "base/crc32c.h"
#include "base/mem.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

static const char magic[8] = {'M', 'L', 'T', 'S', 'N', 'A', 'P', '\n'};
static const uint32_t order_mark = 0x0A0B0C0D;

enum { /* offsets */
       AT_VERSION = 8,
       AT_ORDER = 12,
       AT_FILE_BYTES = 16,
       AT_HEADER_BYTES = 24,
       AT_TABLES = 28,
       AT_RUN_BYTES = 32,
       AT_META_BYTES = 36,
};

/* ---- numbers ------------------------------------------------------------- */

void snapshot_put32(unsigned char *out, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        out[i] = (unsigned char)(v >> (8 * i));
}

uint32_t snapshot_get32(const unsigned char *in)
{
    uint32_t v = 0;

    for (int i = 0; i < 4; i++)
        v |= (uint32_t)in[i] << (8 * i);
    return v;
}

static void put64(unsigned char *out, uint64_t v)
{
    snapshot_put32(out, (uint32_t)v);
    snapshot_put32(out + 4, (uint32_t)(v >> 32));
}

static uint64_t get64(const unsigned char *in)
{
    return snapshot_get32(in) | (uint64_t)snapshot_get32(in + 4) << 32;
}

static bool add(uint64_t *sum, uint64_t n)
{
    return !__builtin_add_overflow(*sum, n, sum);
}

/* ---- sizes --------------------------------------------------------------- */

void snapshot_form_deinit(struct snapshot_form *form)
{
    mem_free(form->table);
    mem_free(form->blobs);
    mem_free(form->bits);
    memset(form, 0, sizeof(*form));
}

static uint64_t header_bytes_of(uint64_t tables, uint64_t run_bytes,
                                uint64_t meta_bytes)
{
    return SNAPSHOT_FIXED_BYTES + tables * SNAPSHOT_TABLE_BYTES + run_bytes +
           meta_bytes;
}

bool snapshot_form_measure(struct snapshot_form *form)
{
    form->header_bytes = header_bytes_of(form->tables, form->labels.run_bytes,
                                         form->labels.meta_bytes);
    form->bits_bytes = 0;
    for (uint32_t i = 0; i < form->tables; i++) {
        struct snapshot_table *t = &form->table[i];

        if (!store_layout_shape(&t->layout, &t->shape))
            return false;
        t->bits_at = form->bits_bytes;
        t->block_chunks = SNAPSHOT_BLOCK_BYTES / t->shape.chunk_bytes;
        if (t->block_chunks == 0)
            t->block_chunks = 1;
        if (!add(&form->bits_bytes, (t->shape.chunks + 7) / 8))
            return false;
    }
    return true;
}

bool snapshot_form_count(struct snapshot_form *form)
{
    uint64_t sum = form->header_bytes + 2 * SNAPSHOT_CRC_BYTES;

    if (!add(&sum, form->bits_bytes))
        return false;
    for (uint32_t i = 0; i < form->tables; i++) {
        const struct snapshot_table *t = &form->table[i];
        uint64_t blocks = (t->written + t->block_chunks - 1) / t->block_chunks;

        if (t->written > t->shape.chunks ||
            !add(&sum, t->written * t->shape.chunk_bytes) ||
            !add(&sum, blocks * SNAPSHOT_CRC_BYTES))
            return false;
    }
    form->file_bytes = sum;
    return true;
}

/* ---- header -------------------------------------------------------------- */

static void encode_table(const struct snapshot_table *t, unsigned char *out)
{
    put64(out, t->layout.rows);
    put64(out + 8, t->written);
    snapshot_put32(out + 16, t->layout.row_bytes);
    snapshot_put32(out + 20, t->layout.chunk_bytes_max);
    snapshot_put32(out + 24, t->initial_crc);
    snapshot_put32(out + 28, 0);
}

void snapshot_header_encode(struct snapshot_form *form, unsigned char *out)
{
    unsigned char *p = out + SNAPSHOT_FIXED_BYTES;

    memcpy(out, magic, sizeof(magic));
    snapshot_put32(out + AT_VERSION, SNAPSHOT_VERSION);
    memcpy(out + AT_ORDER, &order_mark, sizeof(order_mark));
    put64(out + AT_FILE_BYTES, form->file_bytes);
    snapshot_put32(out + AT_HEADER_BYTES, (uint32_t)form->header_bytes);
    snapshot_put32(out + AT_TABLES, form->tables);
    snapshot_put32(out + AT_RUN_BYTES, form->labels.run_bytes);
    snapshot_put32(out + AT_META_BYTES, form->labels.meta_bytes);
    for (uint32_t i = 0; i < form->tables; i++, p += SNAPSHOT_TABLE_BYTES)
        encode_table(&form->table[i], p);
    if (form->labels.run_bytes)
        memcpy(p, form->labels.run, form->labels.run_bytes);
    p += form->labels.run_bytes;
    if (form->labels.meta_bytes)
        memcpy(p, form->labels.meta, form->labels.meta_bytes);
    p += form->labels.meta_bytes;
    assert(p == out + form->header_bytes);
    form->header_crc = crc32c(0, out, form->header_bytes);
    snapshot_put32(p, form->header_crc);
}

static enum err damaged(struct fault *f, const char *path, uint64_t offset,
                        const char *what)
{
    return fault_set(f, ERR_FORMAT, "%s: byte %" PRIu64 ": %s", path, offset,
                     what);
}

/* Is this one of our files, of this version, for this machine? */
static enum err decode_kind(const unsigned char *bytes, const char *path,
                            struct fault *f)
{
    uint32_t version = snapshot_get32(bytes + AT_VERSION);

    if (memcmp(bytes, magic, sizeof(magic)) != 0)
        return damaged(f, path, 0, "not a snapshot of mltune");
    if (version != SNAPSHOT_VERSION)
        return fault_set(f, ERR_VERSION,
                         "%s: byte %d: snapshot version %" PRIu32
                         ", this program reads version %d",
                         path, AT_VERSION, version, SNAPSHOT_VERSION);
    if (memcmp(bytes + AT_ORDER, &order_mark, sizeof(order_mark)) != 0)
        return damaged(f, path, AT_ORDER,
                       "written by a machine of another byte order");
    return ERR_OK;
}

enum err snapshot_fixed_decode(struct snapshot_form *form,
                               const unsigned char *bytes, uint64_t file_bytes,
                               const char *path, struct fault *f)
{
    enum err err = decode_kind(bytes, path, f);

    if (err)
        return err;
    memset(form, 0, sizeof(*form));
    form->file_bytes = get64(bytes + AT_FILE_BYTES);
    form->header_bytes = snapshot_get32(bytes + AT_HEADER_BYTES);
    form->tables = snapshot_get32(bytes + AT_TABLES);
    form->labels.run_bytes = snapshot_get32(bytes + AT_RUN_BYTES);
    form->labels.meta_bytes = snapshot_get32(bytes + AT_META_BYTES);
    if (form->file_bytes != file_bytes)
        return fault_set(f, ERR_FORMAT,
                         "%s: byte %d: the file should have %" PRIu64
                         " bytes, it has %" PRIu64,
                         path, AT_FILE_BYTES, form->file_bytes, file_bytes);
    if (form->tables > STORE_TABLES_MAX)
        return damaged(f, path, AT_TABLES, "too many tables");
    if (form->labels.run_bytes > SNAPSHOT_BLOB_MAX)
        return damaged(f, path, AT_RUN_BYTES, "run label too long");
    if (form->labels.meta_bytes > SNAPSHOT_BLOB_MAX)
        return damaged(f, path, AT_META_BYTES, "branch label too long");
    if (form->header_bytes != header_bytes_of(form->tables,
                                              form->labels.run_bytes,
                                              form->labels.meta_bytes) ||
        form->header_bytes + 2 * SNAPSHOT_CRC_BYTES > file_bytes)
        return damaged(f, path, AT_HEADER_BYTES, "wrong length of the header");
    return ERR_OK;
}

static bool decode_table(struct snapshot_table *t, const unsigned char *in)
{
    t->layout = (struct store_layout){
        .rows = get64(in),
        .row_bytes = snapshot_get32(in + 16),
        .chunk_bytes_max = snapshot_get32(in + 20),
    };
    t->written = get64(in + 8);
    t->initial_crc = snapshot_get32(in + 24);
    return t->layout.chunk_bytes_max > 0 && snapshot_get32(in + 28) == 0;
}

/* The labels, copied. */
static enum err decode_labels(struct snapshot_form *form,
                              const unsigned char *in)
{
    size_t n = (size_t)form->labels.run_bytes + form->labels.meta_bytes;

    if (n == 0)
        return ERR_OK;
    form->blobs = mem_alloc(n);
    if (!form->blobs)
        return ERR_NOMEM;
    memcpy(form->blobs, in, n);
    form->labels.run = form->blobs;
    form->labels.meta = form->blobs + form->labels.run_bytes;
    return ERR_OK;
}

enum err snapshot_header_decode(struct snapshot_form *form,
                                const unsigned char *bytes, const char *path,
                                struct fault *f)
{
    const unsigned char *p = bytes + SNAPSHOT_FIXED_BYTES;
    uint64_t file_bytes = form->file_bytes;

    form->header_crc = crc32c(0, bytes, form->header_bytes);
    if (snapshot_get32(bytes + form->header_bytes) != form->header_crc)
        return damaged(f, path, form->header_bytes,
                       "the header does not fit its checksum");
    form->table = mem_calloc(form->tables + 1, sizeof(*form->table));
    if (!form->table)
        return fault_set(f, ERR_NOMEM, "%s: out of memory", path);
    for (uint32_t i = 0; i < form->tables; i++, p += SNAPSHOT_TABLE_BYTES)
        if (!decode_table(&form->table[i], p))
            return damaged(f, path, (uint64_t)(p - bytes), "impossible table");
    if (decode_labels(form, p))
        return fault_set(f, ERR_NOMEM, "%s: out of memory", path);
    if (!snapshot_form_measure(form) || !snapshot_form_count(form))
        return damaged(f, path, SNAPSHOT_FIXED_BYTES,
                       "tables of an impossible size");
    if (form->file_bytes != file_bytes)
        return fault_set(f, ERR_FORMAT,
                         "%s: byte %d: the tables make %" PRIu64
                         " bytes, the file has %" PRIu64,
                         path, SNAPSHOT_FIXED_BYTES, form->file_bytes,
                         file_bytes);
    return ERR_OK;
}

/* ---- bits ---------------------------------------------------------------- */

uint32_t snapshot_bits_crc(const struct snapshot_form *form)
{
    return crc32c(form->header_crc, form->bits, form->bits_bytes);
}

static bool bits_fit(const struct snapshot_form *form,
                     const struct snapshot_table *t)
{
    uint64_t bytes = (t->shape.chunks + 7) / 8, ones = 0;
    const unsigned char *bits = form->bits + t->bits_at;

    for (uint64_t i = 0; i < bytes; i++)
        ones += (uint64_t)__builtin_popcount(bits[i]);
    return ones == t->written &&
           (t->shape.chunks % 8 == 0 ||
            bits[bytes - 1] >> (t->shape.chunks % 8) == 0);
}

enum err snapshot_bits_check(const struct snapshot_form *form, uint32_t crc,
                             const char *path, struct fault *f)
{
    uint64_t at = form->header_bytes + SNAPSHOT_CRC_BYTES;

    if (crc != snapshot_bits_crc(form))
        return damaged(f, path, at,
                       "the list of chunks does not fit its checksum");
    for (uint32_t i = 0; i < form->tables; i++)
        if (!bits_fit(form, &form->table[i]))
            return damaged(f, path, at + form->table[i].bits_at,
                           "the list of chunks does not fit the table");
    return ERR_OK;
}

/* ---- blocks -------------------------------------------------------------- */

void snapshot_cursor_init(const struct snapshot_form *form,
                          struct snapshot_cursor *at)
{
    memset(at, 0, sizeof(*at));
    at->last = true; /* of nothing: the next one begins a block */
    at->left = form->tables > 0 ? form->table[0].written : 0;
}

bool snapshot_cursor_next(const struct snapshot_form *form,
                          struct snapshot_cursor *at)
{
    const struct snapshot_table *t;

    if (at->in_block > 0 && at->last) {
        at->block++;
        at->in_block = 0;
    }
    while (at->left == 0) {
        if (at->table + 1 >= form->tables)
            return false;
        at->left = form->table[++at->table].written;
        at->next = 0;
    }
    t = &form->table[at->table];
    while (!snapshot_bit(form, t, at->next))
        at->next++;
    at->chunk = at->next++;
    at->left--;
    at->first = at->in_block++ == 0;
    at->last = at->left == 0 || at->in_block == t->block_chunks;
    return true;
}
