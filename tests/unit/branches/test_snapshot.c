#include "branches/snapshot_io.h"

#include "base/crc32c.h"
#include "base/mem.h"
#include "branches/snapshot_format.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/memory_disk.h"
#include "tests/unit/fixture/scratch.h"
#include "tests/unit/fixture/snapshot_state.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include <errno.h>
#include <unistd.h>

enum { FILE_MAX = 1 << 15 };

static int disk_setup(void **state)
{
    (void)state;
    memory_disk_reset();
    return 0;
}

static int disk_teardown(void **state)
{
    (void)state;
    memory_disk_free();
    return 0;
}

/* A snapshot of a written state, under "s" on the memory disk; copied out. */
static unsigned char *good_file(size_t *n)
{
    struct store *s = state_new();
    unsigned char *copy = malloc(FILE_MAX);
    const unsigned char *bytes;

    assert_non_null(copy);
    state_write(s, 1, 12, 5);
    assert_int_equal(state_save(s, 1, "s", memory_disk(), NULL), ERR_OK);
    store_free(s);
    bytes = memory_disk_get("s", n);
    assert_true(*n + 100 < FILE_MAX);
    memcpy(copy, bytes, *n);
    return copy;
}

/* Expects that a file of these bytes is refused, with its name and a byte in
 * words, and that the store keeps nothing of it. */
static void expect_refused(struct store *s, const unsigned char *bytes,
                           size_t n, enum err want)
{
    struct store_stats before, after;
    struct fault f = {0};
    enum err err;

    memory_disk_put("s", bytes, n);
    store_stats(s, &before);
    err = state_load(s, 9, "s", memory_disk(), &f);
    if (want == ERR_OK ? err == ERR_OK : err != want)
        fail_msg("%s: %s", err_name(err), f.text);
    assert_int_equal(f.code, err);
    assert_non_null(strstr(f.text, "s: byte "));
    assert_false(store_has(s, 9));
    store_stats(s, &after);
    assert_int_equal(before.in_use_bytes, after.in_use_bytes);
    assert_int_equal(before.reserved_bytes, after.reserved_bytes);
    assert_int_equal(memory_disk_open(), 0);
}

/* ---- checksum ------------------------------------------------------------ */

/* The published check value, and both implementations agree on any length and
 * alignment, in one piece or in two. */
static void crc32c_equals_check_value_and_reference(void **state)
{
    unsigned char bytes[300];

    (void)state;
    assert_int_equal(crc32c(0, "123456789", 9), 0xE3069283);
    assert_int_equal(crc32c_portable(0, "123456789", 9), 0xE3069283);
    for (unsigned i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)(i * 37 + 11);
    for (unsigned at = 0; at < 9; at++) {
        for (unsigned n = 0; n + at < sizeof(bytes); n += 13) {
            uint32_t crc = crc32c(5, bytes + at, n);

            assert_int_equal(crc, crc32c_portable(5, bytes + at, n));
            assert_int_equal(crc, crc32c(crc32c(5, bytes + at, n / 3),
                                         bytes + at + n / 3, n - n / 3));
        }
    }
}

/* ---- round trips --------------------------------------------------------- */

/* A restored branch is what was kept, bit for bit, whatever was written, and
 * the same state gives the same file. */
static void snapshot_any_state_comes_back(void **state)
{
    (void)state;
    for (unsigned rows = 0; rows < 60; rows += 6) {
        struct store *s = state_new(), *other = state_new();
        struct fault f;

        memory_disk_reset();
        state_write(s, 1, rows, rows);
        assert_int_equal(state_save(s, 1, "a", memory_disk(), &f), ERR_OK);
        state_write(other, 1, 30, 77); /* it must not shine through */
        assert_int_equal(state_load(other, 2, "a", memory_disk(), &f), ERR_OK);
        assert_true(state_equal(s, 1, other, 2));
        assert_int_equal(store_type(other, 2), BRANCH_KEPT);
        store_check(other);
        assert_int_equal(state_save(other, 2, "b", memory_disk(), &f), ERR_OK);
        size_t n, m;
        const unsigned char *a = memory_disk_get("a", &n);
        const unsigned char *b = memory_disk_get("b", &m);

        assert_int_equal(n, m);
        assert_memory_equal(a, b, n);
        assert_int_equal(memory_disk_files(), 2);
        store_free(s);
        store_free(other);
    }
}

/* The labels and layouts of the writer are what the reader gets. */
static void snapshot_labels_and_layouts_come_back(void **state)
{
    struct store *s = state_new();
    const struct snapshot_labels *labels;
    struct snapshot_file *file;
    struct store_layout layout, own;

    (void)state;
    state_write(s, 1, 5, 1);
    assert_int_equal(state_save(s, 1, "s", memory_disk(), NULL), ERR_OK);
    assert_int_equal(snapshot_open("s", memory_disk(), &file, NULL), ERR_OK);
    labels = snapshot_labels(file);
    assert_int_equal(labels->run_bytes, 5);
    assert_memory_equal(labels->run, "run 7", 5);
    assert_int_equal(labels->meta_bytes, 4);
    assert_memory_equal(labels->meta, "meta", 4);
    assert_int_equal(snapshot_tables(file), store_tables(s));
    for (uint32_t t = 0; t < store_tables(s); t++) {
        snapshot_layout(file, t, &layout);
        store_table_layout(s, t, &own);
        assert_int_equal(layout.rows, own.rows);
        assert_int_equal(layout.row_bytes, own.row_bytes);
        assert_int_equal(layout.chunk_bytes_max, own.chunk_bytes_max);
        assert_null(layout.initial_row);
    }
    assert_int_equal(snapshot_verify(file, NULL), ERR_OK);
    snapshot_close(file);
    store_free(s);
}

/* A large table of which three rows were written makes a small file. */
static void snapshot_untouched_chunks_take_no_room(void **state)
{
    struct store_layout layout = {.rows = 1 << 18, .row_bytes = 256};
    struct store *s;
    store_table t;
    size_t n;

    (void)state;
    assert_int_equal(store_new(UINT64_MAX / 2, &s), ERR_OK);
    assert_int_equal(store_add_table(s, &layout, &t), ERR_OK);
    assert_int_equal(store_create_root(s, 0), ERR_OK);
    for (uint64_t c = 0; c < 1024; c += 512)
        store_chunk_write(s, 0, t, c)[3] = 1;
    assert_int_equal(store_fork(s, 1, 0, BRANCH_KEPT), ERR_OK);
    assert_int_equal(state_save(s, 1, "s", memory_disk(), NULL), ERR_OK);
    assert_non_null(memory_disk_get("s", &n));
    assert_in_range(n, 2 * 65536, 2 * 65536 + 400);
    assert_int_equal(state_load(s, 2, "s", memory_disk(), NULL), ERR_OK);
    assert_int_equal(store_chunk(s, 2, t, 512)[3], 1);
    assert_null(store_chunk_written(s, 2, t, 511));
    store_free(s);
}

/* On a real folder: nothing is left beside the file. */
static void snapshot_on_the_system_comes_back(void **state)
{
    struct store *s = state_new(), *other = state_new();
    struct fault f;
    size_t n;

    (void)state;
    state_write(s, 1, 25, 3);
    for (int i = 0; i < 2; i++) /* the second replaces the first */
        assert_int_equal(state_save(s, 1, scratch_path("a"), NULL, &f), ERR_OK);
    assert_int_equal(state_load(other, 1, scratch_path("a"), NULL, &f), ERR_OK);
    assert_true(state_equal(s, 1, other, 1));
    assert_null(scratch_read("a.tmp", &n));
    assert_int_equal(state_load(other, 2, scratch_path("b"), NULL, &f),
                     ERR_NOENT);
    assert_non_null(strstr(f.text, "/b: No such file"));
    assert_int_equal(state_load(other, 2, scratch_folder(), NULL, &f), ERR_IO);
    assert_int_equal(state_save(s, 1, scratch_path("no/b"), NULL, &f), ERR_IO);
    assert_non_null(strstr(f.text, "no/b.tmp: No such file"));
    store_free(s);
    store_free(other);
}

/* ---- damage -------------------------------------------------------------- */

/* Any one bit turned over is found. */
static void snapshot_any_bit_flip_is_refused(void **state)
{
    struct store *s = state_new();
    unsigned char *bytes;
    size_t n;

    (void)state;
    bytes = good_file(&n);
    for (size_t i = 0; i < n; i++) {
        for (int bit = 0; bit < 8; bit++) {
            bytes[i] ^= (unsigned char)(1 << bit);
            memory_disk_reset();
            expect_refused(s, bytes, n, ERR_OK);
            bytes[i] ^= (unsigned char)(1 << bit);
        }
    }
    free(bytes);
    store_free(s);
}

/* A file that ends anywhere before its end, or goes on after it, is refused. */
static void snapshot_any_other_length_is_refused(void **state)
{
    struct store *s = state_new();
    unsigned char *bytes;
    size_t n;

    (void)state;
    bytes = good_file(&n);
    for (size_t i = 0; i < n; i++) {
        memory_disk_reset();
        expect_refused(s, bytes, i, ERR_FORMAT);
    }
    memset(bytes + n, 0, 100);
    for (size_t i = 1; i <= 100; i += 9) {
        memory_disk_reset();
        expect_refused(s, bytes, n + i, ERR_FORMAT);
    }
    free(bytes);
    store_free(s);
}

/* Changes the header and makes its checksum right again. */
static void patch(unsigned char *bytes, size_t at, const void *to, size_t n)
{
    uint32_t header = snapshot_get32(bytes + 24);

    memcpy(bytes + at, to, n);
    snapshot_put32(bytes + header, crc32c(0, bytes, header));
}

/* Fields that lie, under right checksums: version, byte order, lengths and
 * sizes that overflow or ask for more memory than the file has bytes. */
static void snapshot_lying_header_is_refused(void **state)
{
    static const struct {
        size_t at;
        unsigned char bytes[8];
        size_t n;
        enum err err;
    } lies[] = {
        {0, "mltsnap", 7, ERR_FORMAT},
        {8, {2}, 4, ERR_VERSION},
        {12, {0x0A, 0x0B, 0x0C, 0x0D}, 4, ERR_FORMAT},
        {28, {0, 1}, 2, ERR_FORMAT}, /* 256 tables */
        {28, {1, 1}, 2, ERR_FORMAT}, /* 257 */
        {28, {0xff, 0xff, 0xff, 0xff}, 4, ERR_FORMAT},
        {32, {0xff, 0xff, 0xff, 0xff}, 4, ERR_FORMAT},
        {36, {1, 0, 0x10}, 3, ERR_FORMAT},
        {40, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, 8, ERR_FORMAT},
        {40, {0, 0, 0, 0, 0, 0, 0, 0x10}, 8, ERR_FORMAT},
        {40, {0, 0, 0, 0, 0, 1}, 8, ERR_FORMAT}, /* 2^40 rows */
        {48, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, 8, ERR_FORMAT},
        {56, {0}, 4, ERR_FORMAT}, /* rows of no bytes */
        {56, {0xff, 0xff, 0xff, 0xff}, 4, ERR_FORMAT},
        {60, {0}, 4, ERR_FORMAT}, /* chunks of no bytes */
        {60, {0xff, 0xff, 0xff, 0xff}, 4, ERR_FORMAT},
        {68, {1}, 1, ERR_FORMAT}, /* the zero */
    };
    struct store *s = state_new();
    unsigned char *bytes, *copy;
    size_t n;

    (void)state;
    bytes = good_file(&n);
    copy = malloc(n);
    assert_non_null(copy);
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        memory_disk_reset();
        memcpy(copy, bytes, n);
        patch(copy, lies[i].at, lies[i].bytes, lies[i].n);
        expect_refused(s, copy, n, lies[i].err);
    }
    free(copy);
    free(bytes);
    store_free(s);
}

/* A list of chunks with more, fewer, or other ones than the table has, under a
 * right checksum. */
static void snapshot_lying_list_of_chunks_is_refused(void **state)
{
    struct store *s = state_new();
    unsigned char *bytes;
    size_t n, at, bits = 1 + 2 + 1 + 0 + 1; /* a table */
    uint32_t header;

    (void)state;
    bytes = good_file(&n);
    header = snapshot_get32(bytes + 24);
    at = header + 4;
    assert_int_equal(snapshot_get32(bytes + at + bits),
                     crc32c(snapshot_get32(bytes + header), bytes + at, bits));
    for (size_t i = 0; i < 8 * bits; i++) {
        unsigned char old = bytes[at + i / 8];

        memory_disk_reset();
        bytes[at + i / 8] ^= (unsigned char)(1u << (i % 8));
        snapshot_put32(bytes + at + bits, crc32c(snapshot_get32(bytes + header),
                                                 bytes + at, bits));
        expect_refused(s, bytes, n, ERR_FORMAT);
        bytes[at + i / 8] = old;
    }
    free(bytes);
    store_free(s);
}

/* A label that is too long is refused, however right the rest. */
static void snapshot_long_label_is_refused(void **state)
{
    unsigned char *label = calloc(1, SNAPSHOT_BLOB_MAX + 1);
    struct snapshot_form form = {0};
    struct snapshot_file *file;
    unsigned char *bytes;
    struct fault f;

    (void)state;
    assert_non_null(label);
    form.labels.run = form.labels.meta = label;
    for (uint32_t longer = 0; longer < 3; longer++) {
        form.labels.run_bytes = SNAPSHOT_BLOB_MAX + (longer == 1);
        form.labels.meta_bytes = SNAPSHOT_BLOB_MAX + (longer == 2);
        assert_true(snapshot_form_measure(&form));
        assert_true(snapshot_form_count(&form));
        bytes = malloc(form.file_bytes);
        assert_non_null(bytes);
        snapshot_header_encode(&form, bytes);
        snapshot_put32(bytes + form.file_bytes - 4, form.header_crc);
        memory_disk_put("s", bytes, form.file_bytes);
        free(bytes);
        assert_int_equal(snapshot_open("s", memory_disk(), &file, &f),
                         longer ? ERR_FORMAT : ERR_OK);
        if (!longer)
            snapshot_close(file);
    }
    free(label);
}

/* Tables with other rows or another initial row are refused by name. */
static void snapshot_other_tables_are_refused(void **state)
{
    unsigned char *bytes;
    size_t n;

    (void)state;
    bytes = good_file(&n);
    for (unsigned t = 0; t < 5; t++) {
        struct store *s = state_new_other(t);
        struct fault f;
        char word[32];

        memory_disk_reset();
        expect_refused(s, bytes, n, ERR_FORMAT);
        assert_int_equal(state_load(s, 9, "s", memory_disk(), &f), ERR_FORMAT);
        snprintf(word, sizeof(word), "table %u ", t);
        assert_non_null(strstr(f.text, word));
        store_free(s);
    }
    free(bytes);
}

/* A block of one snapshot is no block of another, although both are sound. */
static void snapshot_block_of_another_file_is_refused(void **state)
{
    struct store *s = state_new();
    unsigned char *bytes = malloc(FILE_MAX);
    const unsigned char *other;
    size_t n, m, last = 5 * 24 + 4; /* the last table is one block */

    (void)state;
    state_write(s, 1, 200, 1);
    assert_int_equal(state_save(s, 1, "s", memory_disk(), NULL), ERR_OK);
    other = memory_disk_get("s", &n);
    assert_true(bytes && n < FILE_MAX);
    memcpy(bytes, other, n);
    state_write(s, 2, 200, 2);
    assert_int_equal(state_save(s, 2, "o", memory_disk(), NULL), ERR_OK);
    other = memory_disk_get("o", &m);
    assert_int_equal(n, m); /* all chunks written in both: the same places */
    assert_memory_equal(bytes, other, 40);
    memcpy(bytes + n - last, other + n - last, last);
    expect_refused(s, bytes, n, ERR_FORMAT);
    free(bytes);
    store_free(s);
}

/* ---- failing calls ------------------------------------------------------- */

/* Whatever single call fails: an error in words, no descriptor and no *.tmp
 * left, and under the name the older file or (the folder alone could not be
 * flushed) the new one, whole. */
static void snapshot_any_call_failing_leaves_a_whole_file(void **state)
{
    struct store *s = state_new();
    unsigned nth = 0;
    bool failed = true;

    (void)state;
    state_write(s, 1, 20, 1);
    state_write(s, 2, 20, 2);
    while (failed) {
        struct store *back = state_new();
        struct fault f = {0};
        enum err err;

        memory_disk_reset();
        assert_int_equal(state_save(s, 1, "s", memory_disk(), NULL), ERR_OK);
        nth++;
        memory_disk_fail(nth, EIO, false);
        err = state_save(s, 2, "s", memory_disk(), &f);
        failed = memory_disk_failed();
        assert_true(err == ERR_OK || (err == ERR_IO && failed));
        assert_int_equal(f.code, err);
        assert_int_equal(memory_disk_open(), 0);
        assert_int_equal(memory_disk_files(), 1);
        memory_disk_fail(0, 0, false);
        assert_int_equal(state_load(back, 5, "s", memory_disk(), NULL), ERR_OK);
        if (err == ERR_OK || strstr(f.text, "folder"))
            assert_true(state_equal(s, 2, back, 5));
        else
            assert_true(state_equal(s, 1, back, 5));
        store_free(back);
    }
    assert_true(nth > 7);
    store_free(s);
}

/* A full disk is called so, with the file and what to do. */
static void snapshot_full_disk_is_said(void **state)
{
    struct store *s = state_new();
    struct fault f;

    (void)state;
    state_write(s, 1, 20, 1);
    memory_disk_fail(2, ENOSPC, false); /* after open: the first write */
    assert_int_equal(state_save(s, 1, "s", memory_disk(), &f), ERR_IO);
    assert_non_null(strstr(f.text, "write s.tmp at byte 0"));
    assert_non_null(strstr(f.text, "make room"));
    assert_non_null(strstr(f.text, "No space left"));
    assert_int_equal(memory_disk_files(), 0);
    store_free(s);
}

/* The power goes at any call: the older or the newer snapshot is there, whole,
 * whether or not the folder's changes had reached the disk. */
static void snapshot_power_cut_leaves_a_whole_file(void **state)
{
    struct store *s = state_new();
    bool more = true;

    (void)state;
    state_write(s, 1, 20, 1);
    state_write(s, 2, 20, 2);
    for (unsigned nth = 1; more; nth++) {
        for (int names = 0; names < 2; names++) {
            struct store *back = state_new();
            enum err err;

            memory_disk_reset();
            assert_int_equal(state_save(s, 1, "s", memory_disk(), NULL),
                             ERR_OK);
            memory_disk_fail(nth, EIO, true);
            err = state_save(s, 2, "s", memory_disk(), NULL);
            more = memory_disk_failed();
            memory_disk_power_cut(names);
            assert_int_equal(state_load(back, 5, "s", memory_disk(), NULL),
                             ERR_OK);
            assert_true(state_equal(s, 2, back, 5) ||
                        (err && state_equal(s, 1, back, 5)));
            store_free(back);
        }
    }
    store_free(s);
}

/* Calls that are interrupted or do a few bytes at a time change nothing. */
static void snapshot_interrupted_and_short_calls_go_on(void **state)
{
    struct store *s = state_new(), *back = state_new();
    struct fault f;

    (void)state;
    state_write(s, 1, 30, 1);
    memory_disk_be_slow(7);
    assert_int_equal(state_save(s, 1, "s", memory_disk(), &f), ERR_OK);
    assert_int_equal(state_load(back, 1, "s", memory_disk(), &f), ERR_OK);
    assert_true(state_equal(s, 1, back, 1));
    store_free(s);
    store_free(back);
}

/* Any read that fails is an error in words, and the store is as it was. */
static void snapshot_any_read_failing_is_refused(void **state)
{
    struct store *s = state_new(), *back = state_new();
    struct store_stats before, after;
    unsigned nth = 0;
    enum err err;

    (void)state;
    state_write(s, 1, 30, 1);
    assert_int_equal(state_save(s, 1, "s", memory_disk(), NULL), ERR_OK);
    store_stats(back, &before);
    while (1) {
        struct fault f = {0};

        memory_disk_fail(++nth, EIO, false);
        err = state_load(back, 1, "s", memory_disk(), &f);
        assert_int_equal(memory_disk_open(), 0);
        if (!memory_disk_failed() || !err) /* or only the close failed */
            break;
        assert_int_equal(err, ERR_IO);
        assert_non_null(strstr(f.text, " s"));
        store_stats(back, &after);
        assert_int_equal(before.in_use_bytes, after.in_use_bytes);
    }
    assert_int_equal(err, ERR_OK);
    assert_true(nth > 10);
    store_free(s);
    store_free(back);
}

/* Each allocation failing in turn: an error, nothing leaked, nothing left. */
static void snapshot_any_allocation_failing_is_clean(void **state)
{
    struct store *s = state_new(), *back = state_new();
    enum err err = ERR_NOMEM;
    int64_t before;

    (void)state;
    state_write(s, 1, 30, 1);
    before = mem_outstanding();
    for (int nth = 1; err; nth++) {
        mem_fail_at(nth, 0);
        err = state_save(s, 1, "s", memory_disk(), NULL);
        assert_true(err == ERR_OK || (err == ERR_NOMEM && mem_failed()));
        assert_int_equal(mem_outstanding(), before);
        assert_int_equal(memory_disk_files(), err == ERR_OK);
    }
    err = ERR_NOMEM;
    for (int nth = 1; err; nth++) {
        mem_fail_at(nth, 0);
        err = state_load(back, 1, "s", memory_disk(), NULL);
        assert_true(err == ERR_OK || (err == ERR_NOMEM && mem_failed()));
        store_check(back);
    }
    mem_fail_at(0, 0);
    assert_true(state_equal(s, 1, back, 1));
    store_free(back);
    store_free(s);
}

/* ---- refusals of the caller's part --------------------------------------- */

/* A branch that is not there, labels that are too long, a branch number in use,
 * no memory reserved: each its own error, and nothing changes. */
static void snapshot_impossible_requests_are_refused(void **state)
{
    struct store *s = state_new();
    struct snapshot_labels labels = {.run = "", .run_bytes = 1 << 21};
    struct snapshot_job *job;
    struct fault f;
    branch_id id = 2;

    (void)state;
    state_write(s, 1, 20, 1);
    assert_int_equal(snapshot_job_new(s, 5, &labels, &job), ERR_NOENT);
    assert_int_equal(snapshot_job_new(s, 1, &labels, &job), ERR_INVAL);
    assert_int_equal(state_save(s, 1, "s", memory_disk(), &f), ERR_OK);
    assert_int_equal(state_load(s, 1, "s", memory_disk(), &f), ERR_EXIST);
    while (store_fork(s, id, 0, BRANCH_TRAINING) == ERR_OK)
        id++;
    assert_int_equal(state_load(s, id, "s", memory_disk(), &f), ERR_LIMIT);
    assert_non_null(strstr(f.text, "restore s"));
    store_check(s);
    store_free(s);
}

/* A canceled job leaves nothing. */
static void snapshot_canceled_leaves_nothing(void **state)
{
    struct snapshot_labels labels = {0};
    struct store *s = state_new();
    struct snapshot_job *job;
    struct fault f;

    (void)state;
    state_write(s, 1, 20, 1);
    assert_int_equal(snapshot_job_new(s, 1, &labels, &job), ERR_OK);
    snapshot_job_cancel(job);
    assert_int_equal(snapshot_job_write(job, "s", memory_disk(), NULL, &f),
                     ERR_CANCELED);
    assert_int_equal(memory_disk_files(), 0);
    assert_int_equal(memory_disk_open(), 0);
    snapshot_job_free(job);
    store_free(s);
}

/* ---- beside training ----------------------------------------------------- */

struct background {
    struct snapshot_job *job;
    enum err err;
    _Atomic bool done;
};

static void *write_in_background(void *arg)
{
    struct background *b = arg;

    b->err = snapshot_job_write(b->job, "s", memory_disk(), NULL, NULL);
    atomic_store(&b->done, true);
    return NULL;
}

/* While another thread writes a kept branch, the owner writes, forks, drops,
 * and activates: the file holds the state of the fork. */
static void snapshot_beside_training_holds_the_kept_state(void **state)
{
    struct store_layout layout = {
        .rows = 4096, .row_bytes = 64, .chunk_bytes_max = 1024};
    struct store *s, *back;
    struct snapshot_labels labels = {0};
    struct background b = {.err = ERR_AGAIN};
    struct snapshot_file *file;
    pthread_t thread;
    store_table t;
    branch_id next = 10;

    (void)state;
    assert_int_equal(store_new(1 << 24, &s), ERR_OK);
    assert_int_equal(store_add_table(s, &layout, &t), ERR_OK);
    assert_int_equal(store_create_root(s, 0), ERR_OK);
    assert_int_equal(store_activate(s, 0), ERR_OK);
    for (uint64_t r = 0; r < layout.rows; r += 2)
        *(uint64_t *)store_write(s, store_map(s, t), t, r) = r + 1;
    assert_int_equal(store_fork(s, 1, 0, BRANCH_KEPT), ERR_OK);
    assert_int_equal(snapshot_job_new(s, 1, &labels, &b.job), ERR_OK);
    assert_int_equal(pthread_create(&thread, NULL, write_in_background, &b), 0);
    for (uint64_t i = 0; i < 2000 || !atomic_load(&b.done); i++) {
        uint64_t r = i * 37 % layout.rows;

        *(uint64_t *)store_write(s, store_map(s, t), t, r) += 1000;
        if (i % 16 == 0) {
            store_fork(s, next, 0, BRANCH_TRAINING);
            store_activate(s, next);
        } else if (i % 16 == 8) {
            store_activate(s, 0);
            store_drop(s, next++);
        }
    }
    pthread_join(thread, NULL);
    assert_int_equal(b.err, ERR_OK);
    snapshot_job_free(b.job);
    assert_int_equal(store_drop(s, 1), ERR_OK);
    store_check(s);
    store_free(s);

    assert_int_equal(store_new(1 << 24, &back), ERR_OK);
    assert_int_equal(store_add_table(back, &layout, &t), ERR_OK);
    assert_int_equal(store_create_root(back, 0), ERR_OK);
    assert_int_equal(snapshot_open("s", memory_disk(), &file, NULL), ERR_OK);
    assert_int_equal(snapshot_restore(file, back, 1, NULL), ERR_OK);
    snapshot_close(file);
    store_activate(back, 1);
    for (uint64_t r = 0; r < layout.rows; r++)
        assert_int_equal(
            *(const uint64_t *)store_map_read(store_map(back, t), r),
            r % 2 ? 0 : r + 1);
    store_free(back);
}

#define ON_DISK(test)                                                          \
    cmocka_unit_test_setup_teardown(test, disk_setup, disk_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crc32c_equals_check_value_and_reference),
        ON_DISK(snapshot_any_state_comes_back),
        ON_DISK(snapshot_labels_and_layouts_come_back),
        ON_DISK(snapshot_untouched_chunks_take_no_room),
        cmocka_unit_test_setup_teardown(snapshot_on_the_system_comes_back,
                                        scratch_make, scratch_remove),
        ON_DISK(snapshot_any_bit_flip_is_refused),
        ON_DISK(snapshot_any_other_length_is_refused),
        ON_DISK(snapshot_lying_header_is_refused),
        ON_DISK(snapshot_lying_list_of_chunks_is_refused),
        ON_DISK(snapshot_long_label_is_refused),
        ON_DISK(snapshot_other_tables_are_refused),
        ON_DISK(snapshot_block_of_another_file_is_refused),
        ON_DISK(snapshot_any_call_failing_leaves_a_whole_file),
        ON_DISK(snapshot_full_disk_is_said),
        ON_DISK(snapshot_power_cut_leaves_a_whole_file),
        ON_DISK(snapshot_interrupted_and_short_calls_go_on),
        ON_DISK(snapshot_any_read_failing_is_refused),
        ON_DISK(snapshot_any_allocation_failing_is_clean),
        ON_DISK(snapshot_impossible_requests_are_refused),
        ON_DISK(snapshot_canceled_leaves_nothing),
        ON_DISK(snapshot_beside_training_holds_the_kept_state),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
