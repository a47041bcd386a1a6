#include "apps/formats/data_stream.h"
#include "base/mem.h"
#include "tests/unit/fixture/scratch.h"

#include <lzma.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/unit/fixture/check.h"

/* Text that compresses, but not to nothing. */
static unsigned char *sample(size_t n)
{
    unsigned char *p = malloc(n + 1);
    size_t i;

    assert_non_null(p);
    for (i = 0; i < n; i++)
        p[i] = (unsigned char)('a' + (i * i / 7 + i / 100) % 26);
    return p;
}

static unsigned char *joined(const unsigned char *a, size_t n,
                             const unsigned char *b, size_t m)
{
    unsigned char *p = malloc(n + m + 1);

    assert_non_null(p);
    memcpy(p, a, n);
    memcpy(p + n, b, m);
    return p;
}

/* Reads all of @s in steps of @step; the code of the first failure. */
static enum err drain(struct data_stream *s, size_t step, unsigned char *out,
                      size_t cap, size_t *n, struct fault *f)
{
    size_t got;
    enum err err;

    *n = 0;
    do {
        size_t want = cap - *n < step ? cap - *n : step;

        err = data_stream_read(s, out + *n, want, &got, f);
        if (err)
            return err;
        *n += got;
        assert_int_equal(data_stream_offset(s), *n);
        assert_true(*n < cap);
    } while (got > 0);
    return ERR_OK;
}

static enum err read_memory(const unsigned char *bytes, size_t len, size_t step,
                            unsigned char *out, size_t cap, size_t *n,
                            struct fault *f)
{
    struct data_stream *s;
    enum err err = data_stream_memory("mem", bytes, len, &s, f);

    *n = 0;
    if (err)
        return err;
    err = drain(s, step, out, cap, n, f);
    data_stream_close(s);
    return err;
}

static void expect_same(const unsigned char *packed, size_t len,
                        const unsigned char *plain, size_t n)
{
    static const size_t steps[] = {1 << 20, 100003, 4096, 17};
    unsigned char *out = malloc(n + 2);
    struct fault f = {0};
    size_t i, got;

    assert_non_null(out);
    for (i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        assert_int_equal(
            read_memory(packed, len, steps[i], out, n + 2, &got, &f), ERR_OK);
        assert_int_equal(got, n);
        assert_memory_equal(out, plain, n);
    }
    free(out);
}

/* Plain, gzip and xz bytes give the same stream, whatever the steps it is read
 * in and although they exceed every internal buffer. */
static void stream_any_codec_gives_the_plain_bytes(void **state)
{
    enum { N = 700001 };
    unsigned char *plain = sample(N), *gz, *xz;
    size_t gz_len, xz_len;

    (void)state;
    gz = scratch_gzip(plain, N, &gz_len);
    xz = scratch_xz(plain, N, &xz_len);
    expect_same(plain, N, plain, N);
    expect_same(gz, gz_len, plain, N);
    expect_same(xz, xz_len, plain, N);
    free(plain);
    free(gz);
    free(xz);
}

/* Output that stays inside the decoder after the last input byte is not lost
 * and not taken for truncation: zeros compress a thousandfold. */
static void stream_output_after_the_last_input_is_delivered(void **state)
{
    enum { N = 3000000 };
    unsigned char *plain = calloc(1, N), *gz, *xz;
    size_t gz_len, xz_len;

    (void)state;
    assert_non_null(plain);
    gz = scratch_gzip(plain, N, &gz_len);
    xz = scratch_xz(plain, N, &xz_len);
    expect_same(gz, gz_len, plain, N);
    expect_same(xz, xz_len, plain, N);
    free(plain);
    free(gz);
    free(xz);
}

/* Concatenated members and streams give the concatenated bytes; zero padding
 * behind gzip members is passed over. */
static void stream_concatenated_members_follow_one_another(void **state)
{
    unsigned char *plain = sample(5000), *a, *b, *both, *padded;
    const unsigned char zeros[8] = {0};
    size_t n, m;

    (void)state;
    a = scratch_gzip(plain, 3000, &n);
    b = scratch_gzip(plain + 3000, 2000, &m);
    both = joined(a, n, b, m);
    padded = joined(both, n + m, zeros, sizeof(zeros));
    expect_same(both, n + m, plain, 5000);
    expect_same(padded, n + m + sizeof(zeros), plain, 5000);
    free(a);
    free(b);
    free(both);
    free(padded);
    a = scratch_xz(plain, 3000, &n);
    b = scratch_xz(plain + 3000, 2000, &m);
    both = joined(a, n, b, m);
    expect_same(both, n + m, plain, 5000);
    free(a);
    free(b);
    free(both);
    free(plain);
}

/* Compressed data cut at any length are refused, never taken for complete. */
static void stream_truncated_at_any_length_is_an_error(void **state)
{
    unsigned char *plain = sample(2000), *packed[2], out[3000];
    size_t len[2], cut, n, k;
    struct fault f;

    (void)state;
    packed[0] = scratch_gzip(plain, 2000, &len[0]);
    packed[1] = scratch_xz(plain, 2000, &len[1]);
    for (k = 0; k < 2; k++) {
        for (cut = 6; cut < len[k]; cut++) {
            memset(&f, 0, sizeof(f));
            assert_int_equal(
                read_memory(packed[k], cut, 4096, out, sizeof(out), &n, &f),
                ERR_FORMAT);
            assert_non_null(strstr(f.text, "end early"));
            assert_non_null(strstr(f.text, "mem: byte "));
        }
        free(packed[k]);
    }
    free(plain);
}

/* A flipped bit anywhere in the compressed data is noticed or harmless: never
 * does the stream end well with other bytes. */
static void stream_damage_is_never_taken_for_data(void **state)
{
    unsigned char *plain = sample(2000), *packed[2], out[4096];
    size_t len[2], i, n, k, errors = 0;

    (void)state;
    packed[0] = scratch_gzip(plain, 2000, &len[0]);
    packed[1] = scratch_xz(plain, 2000, &len[1]);
    for (k = 0; k < 2; k++) {
        for (i = 6; i < len[k]; i++) {
            struct fault f = {0};
            enum err err;

            packed[k][i] ^= 0x10;
            err =
                read_memory(packed[k], len[k], 4096, out, sizeof(out), &n, &f);
            packed[k][i] ^= 0x10;
            if (err) {
                errors++;
                assert_non_null(strstr(f.text, "mem: "));
            } else {
                assert_int_equal(n, 2000);
                assert_memory_equal(out, plain, 2000);
            }
        }
        free(packed[k]);
    }
    assert_true(errors > 100);
    free(plain);
}

/* Bytes behind a gzip member must be another one: garbage is an error. */
static void stream_garbage_after_gzip_is_an_error(void **state)
{
    unsigned char *plain = sample(100), *gz, *more, out[500];
    struct fault f = {0};
    size_t len, n;

    (void)state;
    gz = scratch_gzip(plain, 100, &len);
    more = joined(gz, len, (const unsigned char *)"garbage", 7);
    assert_int_equal(read_memory(more, len + 7, 64, out, sizeof(out), &n, &f),
                     ERR_FORMAT);
    assert_non_null(strstr(f.text, "another gzip member"));
    free(gz);
    free(more);
    free(plain);
}

/* Compressions that are not read are refused by name. */
static void stream_other_compressions_are_refused_by_name(void **state)
{
    static const struct {
        const char *bytes;
        const char *name;
    } cases[] = {{"BZh91AY&SY", "bzip2"},
                 {"\x28\xb5\x2f\xfd....", "zstd"},
                 {"PK\x03\x04....", "zip"}};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct data_stream *s;
        struct fault f = {0};

        assert_int_equal(data_stream_memory("mem", cases[i].bytes,
                                            strlen(cases[i].bytes), &s, &f),
                         ERR_UNSUPPORTED);
        assert_non_null(strstr(f.text, cases[i].name));
        assert_non_null(strstr(f.text, "gzip or xz"));
    }
}

/* An empty file is an empty stream; a missing one and a folder are errors that
 * name the path. */
static void stream_paths_that_are_no_file_are_errors(void **state)
{
    struct data_stream *s;
    struct fault f = {0};
    unsigned char byte;
    size_t n;

    (void)state;
    scratch_text("empty", "");
    assert_int_equal(data_stream_open(scratch_path("empty"), &s, &f), ERR_OK);
    assert_int_equal(data_stream_read(s, &byte, 1, &n, &f), ERR_OK);
    assert_int_equal(n, 0);
    assert_string_equal(data_stream_name(s), scratch_path("empty"));
    data_stream_close(s);
    assert_int_equal(data_stream_open(scratch_path("none"), &s, &f), ERR_NOENT);
    assert_non_null(strstr(f.text, scratch_path("none")));
    assert_int_equal(data_stream_open(scratch_folder(), &s, &f), ERR_INVAL);
    assert_non_null(strstr(f.text, "not a regular file"));
}

/* A file larger than the buffers reads as it was written. */
static void stream_large_file_reads_whole(void **state)
{
    enum { N = 600000 };
    unsigned char *plain = sample(N), *out = malloc(N + 10);
    struct data_stream *s;
    struct fault f = {0};
    size_t n;

    (void)state;
    assert_non_null(out);
    scratch_write("large", plain, N);
    assert_int_equal(data_stream_open(scratch_path("large"), &s, &f), ERR_OK);
    assert_int_equal(drain(s, 70000, out, N + 10, &n, &f), ERR_OK);
    assert_int_equal(n, N);
    assert_memory_equal(out, plain, N);
    data_stream_close(s);
    free(plain);
    free(out);
}

static void expect_file(const unsigned char *packed, size_t len,
                        const unsigned char *plain, size_t n)
{
    unsigned char *out = malloc(n + 10);
    struct data_stream *s;
    struct fault f = {0};
    size_t got;

    assert_non_null(out);
    scratch_write("packed", packed, len);
    assert_int_equal(data_stream_open(scratch_path("packed"), &s, &f), ERR_OK);
    assert_int_equal(drain(s, 70000, out, n + 10, &got, &f), ERR_OK);
    assert_int_equal(got, n);
    assert_memory_equal(out, plain, n);
    data_stream_close(s);
    free(out);
}

/* So does one that is compressed, and still larger than the buffers. */
static void stream_large_compressed_file_reads_whole(void **state)
{
    enum { N = 700001, BUFFER = 256 * 1024 };
    unsigned char *plain = malloc(N), *gz, *xz;
    uint32_t x = 1;
    size_t gz_len, xz_len;

    (void)state;
    assert_non_null(plain);
    for (size_t i = 0; i < N; i++) {
        x = x * 1664525 + 1013904223;
        plain[i] = (unsigned char)(x >> 24);
    }
    gz = scratch_gzip(plain, N, &gz_len);
    xz = scratch_xz(plain, N, &xz_len);
    assert_true(gz_len > 2 * BUFFER && xz_len > 2 * BUFFER);
    expect_file(gz, gz_len, plain, N);
    expect_file(xz, xz_len, plain, N);
    free(plain);
    free(gz);
    free(xz);
}

/* A window larger than what is given without a question (xz -9: 64 MiB) is
 * given where the machine has it. */
static void stream_xz_of_a_large_window_is_read(void **state)
{
    enum { N = 5000, ROOM = 2 * N };
    unsigned char *plain = sample(N), *xz = malloc(ROOM);
    size_t len = 0;

    (void)state;
    assert_non_null(xz);
    assert_true(data_memory_limit() > 80 << 20);
    assert_int_equal(lzma_easy_buffer_encode(9, LZMA_CHECK_CRC32, NULL, plain,
                                             N, xz, &len, ROOM),
                     LZMA_OK);
    expect_same(xz, len, plain, N);
    free(plain);
    free(xz);
}

/* Every allocation that fails is an error that leaves nothing behind. */
static void stream_allocation_failure_leaves_nothing(void **state)
{
    int64_t before = mem_outstanding();
    int nth, failed = 1;

    (void)state;
    for (nth = 1; failed; nth++) {
        struct data_stream *s = NULL;
        enum err err;

        mem_fail_at(nth, 0);
        err = data_stream_memory("mem", "abc", 3, &s, NULL);
        failed = mem_failed();
        mem_fail_at(0, 0);
        assert_int_equal(err, failed ? ERR_NOMEM : ERR_OK);
        if (!err)
            data_stream_close(s);
        assert_int_equal(mem_outstanding(), before);
    }
    assert_true(nth > 3);
    data_stream_close(NULL);
}

/* The limit is what the machine has, and exceeding it says both sizes. */
static void memory_limit_is_real_and_explained(void **state)
{
    uint64_t limit = data_memory_limit();
    struct fault f = {0};

    (void)state;
    assert_true(limit > 1 << 20);
    assert_true(limit < (uint64_t)1 << 50);
    assert_int_equal(data_memory_check("x", 10, 10, &f), ERR_OK);
    assert_int_equal(data_memory_check("x", 30 << 20, 10 << 20, &f), ERR_LIMIT);
    assert_string_equal(f.text,
                        "x: needs 30.0 MiB of memory, only 10.0 MiB are left");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stream_any_codec_gives_the_plain_bytes),
        cmocka_unit_test(stream_output_after_the_last_input_is_delivered),
        cmocka_unit_test(stream_concatenated_members_follow_one_another),
        cmocka_unit_test(stream_truncated_at_any_length_is_an_error),
        cmocka_unit_test(stream_damage_is_never_taken_for_data),
        cmocka_unit_test(stream_garbage_after_gzip_is_an_error),
        cmocka_unit_test(stream_other_compressions_are_refused_by_name),
        cmocka_unit_test_setup_teardown(
            stream_paths_that_are_no_file_are_errors, scratch_make,
            scratch_remove),
        cmocka_unit_test_setup_teardown(stream_large_file_reads_whole,
                                        scratch_make, scratch_remove),
        cmocka_unit_test_setup_teardown(
            stream_large_compressed_file_reads_whole, scratch_make,
            scratch_remove),
        cmocka_unit_test(stream_xz_of_a_large_window_is_read),
        cmocka_unit_test(stream_allocation_failure_leaves_nothing),
        cmocka_unit_test(memory_limit_is_real_and_explained),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
