#include "ps/disk/keys_io.h"

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/file_io.h"
#include "base/mem.h"
#include "base/npy_io.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX "keys-"

enum {
    VERSION = 1,
    FILE_KEYS = 1 << 20, /* and what more the last segment has */
    ENTRY_BYTES = 12,
    AT_MAGIC = 0,
    AT_VERSION = 4,
    AT_SEAL = 8,
    AT_TABLE = 12,
    AT_NUMBER = 16,
    AT_LAST = 20,
    AT_COUNT = 24,
    HEADER_BYTES = 28,
    CRC_BYTES = 4
};
#define FILE_BYTES_MAX ((size_t)1 << 31)

static const char magic[4] = {'M', 'L', 'T', 'K'};

struct keys_file {
    const char *dir;
    uint32_t table, seal, number;
    unsigned char *bytes; /* owned */
    size_t room, n;
};

bool keys_file_is_ours(const char *name)
{
    return strncmp(name, PREFIX, strlen(PREFIX)) == 0;
}

static enum err file_path(const struct keys_file *k, char out[FILE_PATH_MAX],
                          struct fault *f)
{
    char name[64];

    snprintf(name, sizeof(name), PREFIX "%" PRIu32 "-%" PRIu32, k->table,
             k->number);
    return file_join(out, k->dir, name, f);
}

/* ---- writing ------------------------------------------------------------- */

static enum err write_file(struct keys_file *k, bool last, uint64_t *bytes,
                           struct fault *f)
{
    char path[FILE_PATH_MAX];
    enum err err = file_path(k, path, f);

    if (err)
        return err;
    memcpy(k->bytes + AT_MAGIC, magic, sizeof(magic));
    bytes_put32(k->bytes + AT_VERSION, VERSION);
    bytes_put32(k->bytes + AT_SEAL, k->seal);
    bytes_put32(k->bytes + AT_TABLE, k->table);
    bytes_put32(k->bytes + AT_NUMBER, k->number);
    bytes_put32(k->bytes + AT_LAST, last);
    bytes_put32(k->bytes + AT_COUNT,
                (uint32_t)((k->n - HEADER_BYTES) / ENTRY_BYTES));
    bytes_put32(k->bytes + k->n, crc32c(0, k->bytes, k->n));
    err = file_write_shared(path, k->bytes, k->n + CRC_BYTES, f);
    *bytes += err ? 0 : k->n + CRC_BYTES;
    k->number++;
    k->n = HEADER_BYTES;
    return err;
}

static enum err add_entries(struct keys_file *k, size_t n,
                            const struct key_entry entry[], struct fault *f)
{
    if (mem_grow((void **)&k->bytes, &k->room, 1,
                 k->n + n * ENTRY_BYTES + CRC_BYTES) != 0)
        return fault_set(f, ERR_NOMEM, "%s: no memory to write keys", k->dir);
    for (size_t i = 0; i < n; i++, k->n += ENTRY_BYTES) {
        bytes_put32(k->bytes + k->n, entry[i].row);
        bytes_put32(k->bytes + k->n + 4, entry[i].low);
        bytes_put32(k->bytes + k->n + 8, entry[i].high);
    }
    return ERR_OK;
}

enum err keys_store(struct keys *k, uint32_t table, uint32_t seal,
                    const char *dir, uint64_t *bytes, struct fault *f)
{
    struct keys_file file = {dir, table, seal, .n = HEADER_BYTES};
    struct key_entry *entry = NULL;
    size_t room = 0, n;
    enum err err = ERR_OK;

    for (uint64_t s = 0; s < keys_segments(k) && !err; s++) {
        err = keys_copy(k, s, &entry, &room, &n);
        if (err)
            fault_set(f, err, "%s: no memory to write keys", dir);
        else
            err = add_entries(&file, n, entry, f);
        if (!err && (file.n - HEADER_BYTES) / ENTRY_BYTES >= FILE_KEYS)
            err = write_file(&file, false, bytes, f);
    }
    if (!err)
        err = add_entries(&file, 0, NULL, f);
    if (!err)
        err = write_file(&file, true, bytes, f);
    mem_free(entry);
    mem_free(file.bytes);
    return err;
}

/* ---- reading ------------------------------------------------------------- */

static enum err damaged(const char *path, const char *what, struct fault *f)
{
    return fault_set(f, ERR_FORMAT, "%s: %s", path, what);
}

static enum err check_file(const struct keys_file *k, const unsigned char *b,
                           size_t n, const char *path, struct fault *f)
{
    if (n < HEADER_BYTES + CRC_BYTES ||
        memcmp(b + AT_MAGIC, magic, sizeof(magic)) != 0)
        return damaged(path, "no file of keys (expected MLTK)", f);
    if (bytes_get32(b + n - CRC_BYTES) != crc32c(0, b, n - CRC_BYTES))
        return damaged(path, "its checksum is wrong: it is damaged", f);
    if (bytes_get32(b + AT_VERSION) != VERSION)
        return damaged(path, "keys of another version of mltune", f);
    if (bytes_get32(b + AT_SEAL) != k->seal ||
        bytes_get32(b + AT_TABLE) != k->table ||
        bytes_get32(b + AT_NUMBER) != k->number)
        return damaged(path,
                       "it is of another checkpoint, or another file of "
                       "this one",
                       f);
    if ((uint64_t)bytes_get32(b + AT_COUNT) * ENTRY_BYTES !=
        n - HEADER_BYTES - CRC_BYTES)
        return damaged(path, "more or fewer keys than it says", f);
    return ERR_OK;
}

static enum err take_key(struct keys *k, uint64_t key, uint64_t row, bool put,
                         const char *path, struct fault *f)
{
    enum err err = ERR_OK;

    if (put)
        err = keys_put(k, key, row);
    else if (!keys_may_put(k, key, row))
        err = ERR_EXIST;
    if (err == ERR_EXIST)
        return fault_set(f, ERR_INVAL,
                         "%s: key %" PRIu64 " had row %" PRIu64
                         ", but here this key, or this row, was given "
                         "otherwise: restore before keys are added",
                         path, key, row);
    return err ? fault_set(f, err, "%s: no memory for its keys", path) : ERR_OK;
}

static enum err load_file(struct keys *k, struct keys_file *file, bool put,
                          bool *last, struct fault *f)
{
    char path[FILE_PATH_MAX], *text = NULL;
    const unsigned char *b;
    size_t n = 0;
    enum err err = file_path(file, path, f);

    if (!err)
        err = file_read(path, FILE_BYTES_MAX, &text, &n, f);
    if (err)
        return err;
    b = (const unsigned char *)text;
    err = check_file(file, b, n, path, f);
    *last = !err && bytes_get32(b + AT_LAST);
    for (size_t at = HEADER_BYTES; at + CRC_BYTES < n && !err;
         at += ENTRY_BYTES) {
        const struct key_entry e = {bytes_get32(b + at),
                                    bytes_get32(b + at + 4),
                                    bytes_get32(b + at + 8)};

        err = e.row ? take_key(k, key_entry_key(&e), (uint64_t)e.row - 1, put,
                               path, f)
                    : damaged(path, "a key without a row", f);
    }
    mem_free(text);
    return err;
}

enum err keys_load(struct keys *k, uint32_t table, uint32_t seal,
                   const char *dir, bool put, struct fault *f)
{
    struct keys_file file = {dir, table, seal, .n = 0};
    bool last = false;
    enum err err = ERR_OK;

    assert(k);
    for (; !last && !err; file.number++)
        err = load_file(k, &file, put, &last, f);
    return err;
}

/* ---- models -------------------------------------------------------------- */

struct key_row {
    uint64_t key, row;
};

static int by_key(const void *a, const void *b)
{
    const struct key_row *x = a, *y = b;

    return (x->key > y->key) - (x->key < y->key);
}

/* All keys in order; no worker runs. */
static struct key_row *sorted_keys(struct keys *k, uint64_t count)
{
    struct key_row *all = mem_calloc(count + 1, sizeof(*all));
    struct key_entry *entry = NULL;
    size_t room = 0, n = 0;
    uint64_t at = 0;
    enum err err = all ? ERR_OK : ERR_NOMEM;

    for (uint64_t s = 0; s < keys_segments(k) && !err; s++) {
        err = keys_copy(k, s, &entry, &room, &n);
        for (size_t i = 0; i < n && !err; i++)
            all[at++] = (struct key_row){key_entry_key(&entry[i]),
                                         (uint64_t)entry[i].row - 1};
    }
    mem_free(entry);
    if (err) {
        mem_free(all);
        return NULL;
    }
    assert(at == count);
    qsort(all, count, sizeof(*all), by_key);
    return all;
}

enum err keys_save(struct keys *k, const char *path, uint64_t *bytes,
                   struct fault *f)
{
    const struct npy_info info = {NPY_I64, keys_count(k), 2};
    struct key_row *all = sorted_keys(k, info.rows);
    struct npy_writer *w;
    enum err err;

    if (!all)
        return fault_set(f, ERR_NOMEM, "%s: no memory to write keys", path);
    err = npy_create(path, &info, &w, f);
    if (!err) {
        err = npy_write(w, all, info.rows * sizeof(*all), f);
        if (err)
            npy_abort(w);
        else
            err = npy_commit(w, bytes, f);
    }
    mem_free(all);
    return err;
}

enum err keys_open(struct keys *k, const char *path, struct fault *f)
{
    struct npy_info info;
    struct npy_reader *r;
    enum err err = npy_open(path, &info, &r, f);

    if (err)
        return err;
    if (info.type != NPY_I64 || info.cols != 2)
        err = damaged(path, "expected int64 of two columns: keys and rows", f);
    for (uint64_t i = 0; i < info.rows && !err; i++) {
        struct key_row x;

        err = npy_read(r, &x, sizeof(x), f);
        if (!err)
            err = take_key(k, x.key, x.row, true, path, f);
    }
    npy_close(r);
    return err;
}
