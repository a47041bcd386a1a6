#include "apps/formats/data_cifar.h"
#include "base/mem.h"

#include <stdio.h>

#include "tests/unit/fixture/check.h"

enum { RECORDS = 3, BYTES_MAX = RECORDS * (2 + CIFAR_PIXELS) };

static uint8_t bytes[BYTES_MAX];

/* Records with labels 2, 5, 8 (coarse 1 where there are two); pixel j of record
 * i is (i + j) mod 251. Their length. */
static size_t fill(size_t labels)
{
    size_t i, j, at = 0;

    for (i = 0; i < RECORDS; i++) {
        if (labels == 2)
            bytes[at++] = 1;
        bytes[at++] = (uint8_t)(2 + 3 * i);
        for (j = 0; j < CIFAR_PIXELS; j++)
            bytes[at++] = (uint8_t)((i + j) % 251);
    }
    return at;
}

static enum err read_bytes(size_t n, uint64_t limit, struct images *im,
                           struct fault *f)
{
    struct data_stream *s;
    enum err err = data_stream_memory("C", bytes, n, &s, f);

    if (err)
        return err;
    err = cifar_read(s, limit, im, f);
    data_stream_close(s);
    return err;
}

static void refused(size_t n, enum err code, const char *says)
{
    struct images im = {0};
    struct fault f = {0};

    if (read_bytes(n, UINT64_MAX, &im, &f) != code || !strstr(f.text, says))
        fail_msg("%s (wanted %s)", f.text, says);
    images_deinit(&im);
}

/* Both kinds read with shape, labels and planar pixels; batches add up. */
static void cifar_batches_are_read_and_joined(void **state)
{
    size_t labels, i;

    (void)state;
    for (labels = 1; labels <= 2; labels++) {
        struct images im = {0};
        size_t n = fill(labels);

        assert_true(cifar_sniff(bytes, n));
        assert_int_equal(read_bytes(n, UINT64_MAX, &im, NULL), ERR_OK);
        assert_int_equal(read_bytes(n, UINT64_MAX, &im, NULL), ERR_OK);
        assert_int_equal(im.count, 2 * RECORDS);
        assert_int_equal(im.rows, 32);
        assert_int_equal(im.cols, 32);
        assert_int_equal(im.depth, 3);
        assert_int_equal(im.classes, labels == 1 ? 10 : 100);
        for (i = 0; i < 2 * RECORDS; i++) {
            assert_int_equal(im.label[i], 2 + 3 * (i % RECORDS));
            assert_int_equal(im.pixel[i * CIFAR_PIXELS + 1024],
                             (i % RECORDS + 1024) % 251);
        }
        images_deinit(&im);
    }
}

/* Another kind of file is refused with its byte. */
static void cifar_faults_say_the_byte(void **state)
{
    struct images im = {0};
    struct fault f = {0};
    size_t n = fill(1);

    (void)state;
    assert_false(cifar_sniff("\x2a\x2a", 2));
    refused(0, ERR_FORMAT, "C: byte 0: expected whole CIFAR records");
    refused(n - 1, ERR_FORMAT, "byte 9218: expected whole CIFAR records");
    bytes[1 + CIFAR_PIXELS] = 10;
    refused(n, ERR_FORMAT, "C: byte 3073: expected a label below 10, found 10");
    n = fill(2);
    bytes[1] = 100;
    refused(n, ERR_FORMAT, "byte 0: expected labels below 20 and 100, found 1");
    n = fill(1);
    assert_int_equal(read_bytes(n, 1000, &im, &f), ERR_LIMIT);
    assert_int_equal(read_bytes(n, UINT64_MAX, &im, &f), ERR_OK);
    n = fill(2);
    assert_int_equal(read_bytes(n, UINT64_MAX, &im, &f), ERR_FORMAT);
    assert_non_null(strstr(f.text, "expected CIFAR-10 like the file before"));
    images_deinit(&im);
}

/* Every allocation that fails is reported and undone. */
static void cifar_allocation_failure_leaves_nothing(void **state)
{
    int64_t before = mem_outstanding();
    int nth, failed = 1;
    size_t n = fill(1);

    (void)state;
    for (nth = 1; failed; nth++) {
        struct images im = {0};
        enum err err;

        mem_fail_at(nth, 0);
        err = read_bytes(n, UINT64_MAX, &im, NULL);
        failed = mem_failed();
        mem_fail_at(0, 0);
        assert_int_equal(err, failed ? ERR_NOMEM : ERR_OK);
        images_deinit(&im);
        assert_int_equal(mem_outstanding(), before);
    }
    assert_true(nth > 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cifar_batches_are_read_and_joined),
        cmocka_unit_test(cifar_faults_say_the_byte),
        cmocka_unit_test(cifar_allocation_failure_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
