#include "apps/formats/data_idx.h"
#include "base/mem.h"
#include "base/rng.h"

#include <stdio.h>

#include "tests/unit/fixture/check.h"

static enum err parse(const void *bytes, size_t len, uint64_t limit,
                      struct idx_array *a, struct fault *f)
{
    struct data_stream *s;
    enum err err = data_stream_memory("mem", bytes, len, &s, f);

    if (err)
        return err;
    err = idx_read(s, limit, a, f);
    data_stream_close(s);
    return err;
}

/* Header of @dims dimensions, each @dim, into @out; its length. */
static size_t header(uint8_t *out, unsigned dims, const uint32_t dim[])
{
    unsigned i;

    out[0] = out[1] = 0;
    out[2] = 8;
    out[3] = (uint8_t)dims;
    for (i = 0; i < dims; i++) {
        out[4 + 4 * i] = (uint8_t)(dim[i] >> 24);
        out[5 + 4 * i] = (uint8_t)(dim[i] >> 16);
        out[6 + 4 * i] = (uint8_t)(dim[i] >> 8);
        out[7 + 4 * i] = (uint8_t)dim[i];
    }
    return 4 + 4 * dims;
}

/* Arrays of one to four dimensions read back byte for byte, also when they are
 * larger than the first block. */
static void idx_arrays_read_back(void **state)
{
    static const uint32_t shapes[][4] = {{7, 1, 1, 1},
                                         {3, 5, 1, 1},
                                         {2, 28, 28, 1},
                                         {1, 2, 3, 4},
                                         {2000, 40, 40, 1}};
    static const unsigned dims[] = {1, 2, 3, 4, 3};
    size_t i, k;

    (void)state;
    for (i = 0; i < sizeof(dims) / sizeof(dims[0]); i++) {
        const uint32_t *d = shapes[i];
        size_t total = (size_t)d[0] * d[1] * d[2] * d[3], head;
        uint8_t *bytes = malloc(20 + total);
        struct idx_array a;
        struct fault f = {0};
        unsigned sniffed;

        assert_non_null(bytes);
        head = header(bytes, dims[i], d);
        for (k = 0; k < total; k++)
            bytes[head + k] = (uint8_t)(k * 31);
        assert_true(idx_sniff(bytes, head, &sniffed));
        assert_int_equal(sniffed, dims[i]);
        assert_int_equal(parse(bytes, head + total, UINT64_MAX, &a, &f),
                         ERR_OK);
        assert_int_equal(a.dims, dims[i]);
        for (k = 0; k < 4; k++)
            assert_int_equal(a.dim[k], d[k]);
        assert_memory_equal(a.bytes, bytes + head, total);
        idx_array_deinit(&a);
        free(bytes);
    }
}

/* A file cut at any length, or with a byte too many, is refused with the offset
 * at which it goes wrong, and leaves nothing behind. */
static void idx_wrong_length_is_refused_with_its_offset(void **state)
{
    static const uint32_t dim[] = {4, 5, 6};
    uint8_t bytes[16 + 120 + 1] = {0};
    size_t n = header(bytes, 3, dim) + 120, cut;
    int64_t before = mem_outstanding();
    struct idx_array a;
    char place[64];

    (void)state;
    for (cut = 0; cut < n; cut++) {
        struct fault f = {0};

        assert_int_equal(parse(bytes, cut, UINT64_MAX, &a, &f), ERR_FORMAT);
        snprintf(place, sizeof(place), "mem: byte %zu: expected", cut);
        if (strncmp(f.text, place, strlen(place)) != 0)
            fail_msg("cut at %zu: %s", cut, f.text);
        assert_int_equal(mem_outstanding(), before);
    }
    {
        struct fault f = {0};

        assert_int_equal(parse(bytes, n + 1, UINT64_MAX, &a, &f), ERR_FORMAT);
        assert_non_null(strstr(f.text, "byte 136: expected the end"));
    }
    assert_int_equal(mem_outstanding(), before);
}

/* Other magics, types, dimensions and sizes are refused with what was found. */
static void idx_wrong_header_is_refused(void **state)
{
    static const struct {
        const char *bytes, *says;
        enum err err;
    } cases[] = {
        {"\0\0\x08\x00\0\0\0\1....", "byte 3: expected 1 to 4", ERR_FORMAT},
        {"\0\0\x08\x05\0\0\0\1....", "byte 3: expected 1 to 4", ERR_FORMAT},
        {"\0\0\x0D\x01\0\0\0\1....", "byte 2: expected IDX type 08",
         ERR_UNSUPPORTED},
        {"\0\0\x07\x01\0\0\0\1....", "byte 0: expected an IDX", ERR_FORMAT},
        {"\0\1\x08\x01\0\0\0\1....", "found 00 01 08 01", ERR_FORMAT},
        {"\0\0\x08\x01\0\0\0\0....", "byte 4: expected a dimension",
         ERR_FORMAT},
    };
    static const uint32_t huge[] = {UINT32_MAX, UINT32_MAX, UINT32_MAX};
    uint8_t bytes[32];
    struct idx_array a;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fault f = {0};

        assert_int_equal(parse(cases[i].bytes, 12, UINT64_MAX, &a, &f),
                         cases[i].err);
        if (!strstr(f.text, cases[i].says))
            fail_msg("%s: %s", cases[i].says, f.text);
    }
    i = header(bytes, 3, huge);
    assert_int_equal(parse(bytes, i, UINT64_MAX, &a, NULL), ERR_FORMAT);
    i = header(bytes, 1, huge);
    assert_int_equal(parse(bytes, i, 1 << 20, &a, NULL), ERR_LIMIT);
}

/* A header that announces gigabytes over a short file costs no gigabytes: the
 * memory follows what was read. */
static void idx_memory_follows_the_file_not_the_header(void **state)
{
    static const uint32_t dim[] = {1u << 30, 1u << 10};
    uint8_t bytes[100] = {0};
    struct idx_array a;

    (void)state;
    header(bytes, 2, dim);
    assert_int_equal(parse(bytes, sizeof(bytes), UINT64_MAX, &a, NULL),
                     ERR_FORMAT);
}

static void make_arrays(struct idx_array *pixels, struct idx_array *labels,
                        uint32_t n)
{
    uint8_t bytes[1024];
    uint32_t dim[] = {n, 2, 3};
    size_t head = header(bytes, 3, dim), i;

    for (i = 0; i < n * 6; i++)
        bytes[head + i] = (uint8_t)i;
    assert_int_equal(parse(bytes, head + i, UINT64_MAX, pixels, NULL), ERR_OK);
    head = header(bytes, 1, dim);
    for (i = 0; i < n; i++)
        bytes[head + i] = (uint8_t)(i % 7);
    assert_int_equal(parse(bytes, head + i, UINT64_MAX, labels, NULL), ERR_OK);
}

/* Images and labels join only where their counts and dimensions fit; the
 * messages name both files. */
static void idx_images_and_labels_must_fit(void **state)
{
    struct idx_array pixels, labels, few, other;
    struct images im;
    struct fault f = {0};

    (void)state;
    make_arrays(&pixels, &labels, 20);
    make_arrays(&other, &few, 19);
    assert_int_equal(images_join(&pixels, "P", &few, "L", &im, &f), ERR_FORMAT);
    assert_string_equal(
        f.text, "P: expected as many images as L has labels (19), found 20");
    assert_int_equal(images_join(&labels, "P", &few, "L", &im, &f), ERR_FORMAT);
    assert_non_null(strstr(f.text, "P: expected images"));
    assert_int_equal(images_join(&pixels, "P", &other, "L", &im, &f),
                     ERR_FORMAT);
    assert_non_null(strstr(f.text, "L: expected labels"));
    assert_int_equal(images_join(&pixels, "P", &labels, "L", &im, &f), ERR_OK);
    assert_null(pixels.bytes);
    assert_null(labels.bytes);
    assert_int_equal(im.count, 20);
    assert_int_equal(images_width(&im), 6);
    assert_int_equal(im.classes, 7);
    images_deinit(&im);
    idx_array_deinit(&few);
    idx_array_deinit(&other);
}

/* A fourth dimension is the channels of a pixel: images come out planar. */
static void idx_channels_come_first(void **state)
{
    static const uint8_t last[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    static const uint8_t first[] = {1, 3, 5, 2, 4, 6, 7, 9, 11, 8, 10, 12};
    struct idx_array pixels = {4, {2, 1, 3, 2}, NULL};
    struct idx_array labels = {1, {2, 1, 1, 1}, NULL};
    struct images im;

    (void)state;
    pixels.bytes = mem_alloc(sizeof(last));
    labels.bytes = mem_calloc(2, 1);
    memcpy(pixels.bytes, last, sizeof(last));
    mem_fail_at(1, 0);
    assert_int_equal(images_join(&pixels, "P", &labels, "L", &im, NULL),
                     ERR_NOMEM);
    mem_fail_at(0, 0);
    assert_int_equal(images_join(&pixels, "P", &labels, "L", &im, NULL),
                     ERR_OK);
    assert_memory_equal(im.pixel, first, sizeof(first));
    assert_int_equal(im.rows, 1);
    assert_int_equal(im.cols, 3);
    assert_int_equal(im.depth, 2);
    images_deinit(&im);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(idx_arrays_read_back),
        cmocka_unit_test(idx_wrong_length_is_refused_with_its_offset),
        cmocka_unit_test(idx_wrong_header_is_refused),
        cmocka_unit_test(idx_memory_follows_the_file_not_the_header),
        cmocka_unit_test(idx_images_and_labels_must_fit),
        cmocka_unit_test(idx_channels_come_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
