/* Headers of archives: what POSIX says of each field, and what does not fit. */
#include "cli/export/tar.h"

#include "tests/unit/fixture/check.h"

#include <stdio.h>

/* Octal in @len bytes of @at. */
static unsigned long octal(const unsigned char *at, int len)
{
    char text[16];

    snprintf(text, sizeof(text), "%.*s", len, (const char *)at);
    return strtoul(text, NULL, 8);
}

static unsigned sum_of(const unsigned char *block)
{
    unsigned sum = 0;

    for (int i = 0; i < TAR_BLOCK; i++)
        sum += i >= 148 && i < 156 ? ' ' : block[i];
    return sum;
}

/* The fields are where POSIX has them, and the checksum is theirs. */
static void tar_header_has_its_fields(void **state)
{
    unsigned char b[TAR_BLOCK];

    (void)state;
    assert_int_equal(tar_header("run/trials.csv", 1000, 1700000000, b), ERR_OK);
    assert_string_equal((char *)b, "run/trials.csv");
    assert_int_equal(octal(b + 100, 8), 0644);
    assert_int_equal(octal(b + 124, 12), 1000);
    assert_int_equal(octal(b + 136, 12), 1700000000);
    assert_int_equal(b[156], '0');
    assert_memory_equal(b + 257, "ustar\00000", 8);
    assert_int_equal(octal(b + 148, 8), sum_of(b));
    assert_int_equal(tar_header("a", 0, -5, b), ERR_OK);
    assert_int_equal(octal(b + 136, 12), 0);
}

/* A name of more than 100 bytes is parted at a slash; one that cannot be is
 * refused. */
static void tar_long_names_are_parted(void **state)
{
    unsigned char b[TAR_BLOCK];
    char name[400], joined[400];

    (void)state;
    for (size_t len = 90; len < 300; len++) {
        enum err err;

        /* Folders of 9 letters. */
        for (size_t i = 0; i < len; i++)
            name[i] = i % 10 == 9 && i + 1 < len ? '/' : 'a';
        name[len] = 0;
        err = tar_header(name, 1, 1, b);
        if (len <= 230)
            assert_int_equal(err, ERR_OK);
        if (len > 256)
            assert_int_equal(err, ERR_LIMIT);
        if (err)
            continue;
        snprintf(joined, sizeof(joined), "%.155s%s%.100s", b + 345,
                 b[345] ? "/" : "", b);
        assert_string_equal(joined, name);
        assert_int_equal(octal(b + 148, 8), sum_of(b));
    }
    memset(name, 'x', 150);
    name[150] = 0;
    assert_int_equal(tar_header(name, 1, 1, b), ERR_LIMIT);
}

/* Sizes that eleven octal digits do not hold are binary. */
static void tar_large_sizes_are_binary(void **state)
{
    unsigned char b[TAR_BLOCK];
    uint64_t size = 0;

    (void)state;
    assert_int_equal(tar_header("a", (UINT64_C(1) << 33) - 1, 1, b), ERR_OK);
    assert_memory_equal(b + 124, "77777777777", 12);
    assert_int_equal(tar_header("a", UINT64_C(0x123456789ab), 1, b), ERR_OK);
    assert_int_equal(b[124], 0x80);
    for (int i = 125; i < 136; i++)
        size = size << 8 | b[i];
    assert_true(size == UINT64_C(0x123456789ab));
    assert_int_equal(octal(b + 148, 8), sum_of(b));
}

/* Contents are filled up to whole blocks. */
static void tar_padding_fills_blocks(void **state)
{
    (void)state;
    for (uint64_t size = 0; size < 2000; size++) {
        assert_true(tar_padding(size) < TAR_BLOCK);
        assert_int_equal((size + tar_padding(size)) % TAR_BLOCK, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tar_header_has_its_fields),
        cmocka_unit_test(tar_long_names_are_parted),
        cmocka_unit_test(tar_large_sizes_are_binary),
        cmocka_unit_test(tar_padding_fills_blocks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
