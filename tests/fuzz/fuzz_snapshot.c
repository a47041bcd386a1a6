/* Any bytes: the snapshot reader refuses them with name and place, or restores
 * a state whose own snapshot is the same file. Each input is tried as it is,
 * and with its checksums and length made right, so that what lies behind them
 * is reached. */
#include "base/crc32c.h"
#include "base/disk_io.h"
#include "base/mem.h"
#include "branches/snapshot_format.h"
#include "branches/snapshot_io.h"
#include "branches/store.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { SNAPSHOT_FUZZ_STORE_BYTES = 4 << 20, SNAPSHOT_FUZZ_FILE = 1 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- one file to read, one to write -------------------------------------- */

static struct {
    const uint8_t *in;
    size_t in_bytes, at;
    uint8_t *out; /* owned */
    size_t out_bytes;
} snapshot_disk;

static int fuzz_open(const char *path, int flags, mode_t mode)
{
    (void)path;
    (void)flags;
    (void)mode;
    snapshot_disk.at = 0;
    return SNAPSHOT_FUZZ_FILE;
}

static ssize_t fuzz_read(int fd, void *buffer, size_t n)
{
    size_t left = snapshot_disk.in_bytes - snapshot_disk.at;

    (void)fd;
    n = n < left ? n : left;
    if (n)
        memcpy(buffer, snapshot_disk.in + snapshot_disk.at, n);
    snapshot_disk.at += n;
    return (ssize_t)n;
}

static ssize_t fuzz_write(int fd, const void *buffer, size_t n)
{
    uint8_t *grown =
        realloc(snapshot_disk.out, snapshot_disk.out_bytes + n + 1);

    (void)fd;
    if (!grown)
        abort();
    memcpy(grown + snapshot_disk.out_bytes, buffer, n);
    snapshot_disk.out = grown;
    snapshot_disk.out_bytes += n;
    return (ssize_t)n;
}

static int fuzz_size(int fd, uint64_t *bytes)
{
    (void)fd;
    *bytes = snapshot_disk.in_bytes;
    return 0;
}

static int fuzz_fd(int fd)
{
    (void)fd;
    return 0;
}

static int fuzz_rename(const char *from, const char *to)
{
    (void)from;
    (void)to;
    return 0;
}

static int fuzz_unlink(const char *path)
{
    (void)path;
    return 0;
}

static const struct disk_ops snapshot_fuzz_ops = {.open = fuzz_open,
                                                  .read = fuzz_read,
                                                  .write = fuzz_write,
                                                  .size = fuzz_size,
                                                  .fsync = fuzz_fd,
                                                  .close = fuzz_fd,
                                                  .rename = fuzz_rename,
                                                  .unlink = fuzz_unlink};

/* ---- making checksums right ---------------------------------------------- */

/* The blocks of a file whose header and bits are right. */
static void repair_blocks(const struct snapshot_form *form, uint8_t *bytes)
{
    struct snapshot_cursor at;
    uint32_t crc = snapshot_bits_crc(form);
    uint64_t offset =
        form->header_bytes + form->bits_bytes + 2 * SNAPSHOT_CRC_BYTES;

    snapshot_cursor_init(form, &at);
    while (snapshot_cursor_next(form, &at)) {
        uint64_t n = form->table[at.table].shape.chunk_bytes;

        crc = crc32c(crc, bytes + offset, n);
        offset += n;
        if (!at.last)
            continue;
        snapshot_put32(bytes + offset, crc);
        offset += SNAPSHOT_CRC_BYTES;
    }
    if (offset != form->file_bytes)
        abort(); /* what lies where is not what snapshot_form_count says */
}

static void repair(uint8_t *bytes, size_t size)
{
    struct snapshot_form form = {0};
    uint32_t header;

    if (size < SNAPSHOT_FIXED_BYTES)
        return;
    for (int i = 0; i < 8; i++)
        bytes[16 + i] = (uint8_t)((uint64_t)size >> (8 * i));
    header = snapshot_get32(bytes + 24);
    if (header > size - SNAPSHOT_CRC_BYTES)
        return;
    snapshot_put32(bytes + header, crc32c(0, bytes, header));
    if (snapshot_fixed_decode(&form, bytes, size, "fuzz", NULL) ||
        snapshot_header_decode(&form, bytes, "fuzz", NULL))
        goto done;
    form.bits = mem_alloc(form.bits_bytes + 1);
    if (!form.bits)
        goto done;
    memcpy(form.bits, bytes + header + SNAPSHOT_CRC_BYTES, form.bits_bytes);
    snapshot_put32(bytes + header + SNAPSHOT_CRC_BYTES + form.bits_bytes,
                   snapshot_bits_crc(&form));
    if (snapshot_bits_check(&form, snapshot_bits_crc(&form), "fuzz", NULL) ==
        ERR_OK)
        repair_blocks(&form, bytes);
done:
    snapshot_form_deinit(&form);
}

/* ---- reading ------------------------------------------------------------- */

/* A store with the file's tables, or NULL where it is too large. */
static struct store *store_for(const struct snapshot_file *file)
{
    struct store *s;

    if (store_new(SNAPSHOT_FUZZ_STORE_BYTES, &s))
        abort();
    for (uint32_t t = 0; t < snapshot_tables(file); t++) {
        struct store_layout layout;
        store_table table;

        snapshot_layout(file, t, &layout);
        if (store_add_table(s, &layout, &table) ||
            store_branch_bytes(s) > SNAPSHOT_FUZZ_STORE_BYTES) {
            store_free(s);
            return NULL;
        }
    }
    if (store_create_root(s, 0) == ERR_OK)
        return s;
    store_free(s);
    return NULL;
}

static void check_fault(const struct fault *f, enum err err)
{
    if (f->code != err || !strstr(f->text, "fuzz"))
        abort();
    if (err == ERR_FORMAT && !strstr(f->text, "fuzz: byte "))
        abort();
}

/* Branch 1 of @s came from the input: it has to make the same file again. */
static void write_again(struct store *s, const struct snapshot_file *file)
{
    struct snapshot_job *job;

    store_seal(s, 1);
    if (snapshot_job_new(s, 1, snapshot_labels(file), &job) ||
        snapshot_job_write(job, "fuzz", &snapshot_fuzz_ops, NULL, NULL) ||
        snapshot_job_seal(job) != snapshot_seal(file))
        abort();
    snapshot_job_free(job);
    if (snapshot_disk.out_bytes != snapshot_disk.in_bytes ||
        memcmp(snapshot_disk.out, snapshot_disk.in, snapshot_disk.in_bytes))
        abort();
    free(snapshot_disk.out);
    snapshot_disk.out = NULL;
    snapshot_disk.out_bytes = 0;
}

/* Counts what is handed on, and touches it. */
static enum err count_chunk(void *arg, uint32_t table, uint64_t first,
                            uint64_t rows, const unsigned char *bytes)
{
    const struct snapshot_file *file = arg;
    struct store_layout layout;
    volatile unsigned char sum = 0;

    snapshot_layout(file, table, &layout);
    if (rows == 0 || first > layout.rows || rows > layout.rows - first)
        abort();
    for (uint64_t i = 0; i < rows * layout.row_bytes; i++)
        sum = (unsigned char)(sum + bytes[i]);
    return ERR_OK;
}

/* Verdict of verifying, or of reading; a file that restores must verify. */
static enum err check_bytes(bool hand_on)
{
    struct snapshot_file *file;
    struct fault f = {0};
    enum err err = snapshot_open("fuzz", &snapshot_fuzz_ops, &file, &f);

    if (!err) {
        err = hand_on ? snapshot_read(file, count_chunk, file, &f)
                      : snapshot_verify(file, &f);
        snapshot_close(file);
    }
    if (err)
        check_fault(&f, err);
    return err;
}

static enum err verify_bytes(void)
{
    enum err err = check_bytes(false);

    if (check_bytes(true) != err)
        abort();
    return err;
}

static enum err restore_bytes(void)
{
    struct snapshot_file *file;
    struct fault f = {0};
    struct store *s;
    enum err err = snapshot_open("fuzz", &snapshot_fuzz_ops, &file, &f);

    if (err)
        return err;
    s = store_for(file);
    err = s ? snapshot_restore(file, s, 1, &f) : ERR_LIMIT;
    if (s && err)
        check_fault(&f, err);
    if (!err)
        write_again(s, file);
    if (s)
        store_check(s);
    store_free(s);
    snapshot_close(file);
    return err;
}

static void read_both_ways(const uint8_t *data, size_t size)
{
    enum err verified, restored;

    snapshot_disk.in = data;
    snapshot_disk.in_bytes = size;
    verified = verify_bytes();
    restored = restore_bytes();
    if (restored == ERR_OK && verified != ERR_OK)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t before = mem_outstanding();
    uint8_t *copy = malloc(size + 1);

    if (!copy)
        abort();
    read_both_ways(data, size);
    if (size)
        memcpy(copy, data, size);
    repair(copy, size);
    read_both_ways(copy, size);
    free(copy);
    if (mem_outstanding() != before)
        abort();
    return 0;
}
