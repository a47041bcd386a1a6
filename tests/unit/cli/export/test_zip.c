/* What stands around the files of a zip archive, also where 32 bits are too
 * few. That others read it: tests/process/test_onnx.py. */
#include "cli/export/zip.h"

#include "tests/unit/fixture/check.h"

#include <stdlib.h>
#include <string.h>

static uint64_t number(const char *at, int bytes)
{
    uint64_t value = 0;

    while (bytes-- > 0)
        value = value << 8 | (unsigned char)at[bytes];
    return value;
}

/* The check value of the polynomial, whole and in pieces. */
static void zip_checksum_is_the_known_one(void **state)
{
    (void)state;
    assert_int_equal(zip_crc(0, "123456789", 9), 0xcbf43926);
    assert_int_equal(zip_crc(zip_crc(0, "1234", 4), "56789", 5), 0xcbf43926);
    assert_int_equal(zip_crc(0, "", 0), 0);
}

/* Sizes and places that 32 bits hold stand in the plain fields alone. */
static void zip_of_small_files_is_plain(void **state)
{
    struct text out = {0};
    struct zip z = {.at = 0};
    size_t central;

    (void)state;
    assert_int_equal(zip_file(&z, "m/a", 3, 0x352441c2, 1700000000, &out),
                     ERR_OK);
    assert_int_equal(out.len, 30 + 3);
    assert_int_equal(number(out.s, 4), 0x04034b50);
    assert_int_equal(number(out.s + 10, 2), 22 << 11 | 13 << 5 | 20 / 2);
    assert_int_equal(number(out.s + 12, 2), 43 << 9 | 11 << 5 | 14);
    assert_int_equal(number(out.s + 14, 4), 0x352441c2);
    assert_int_equal(number(out.s + 18, 4), 3);
    assert_int_equal(number(out.s + 28, 2), 0);
    text_puts(&out, "abc");
    assert_int_equal(z.at, out.len);
    central = out.len;
    assert_int_equal(zip_end(&z, &out), ERR_OK);
    assert_int_equal(number(out.s + central, 4), 0x02014b50);
    assert_int_equal(out.len, central + 46 + 3 + 22);
    assert_int_equal(number(out.s + out.len - 6, 4), central);
    assert_int_equal(number(out.s + out.len - 12, 2), 1);
    text_deinit(&out);
    zip_deinit(&z);
}

/* Beyond 4 GiB they stand in the fields of ZIP64. */
static void zip_of_large_files_is_zip64(void **state)
{
    const uint64_t large = UINT64_C(5) << 30;
    struct text out = {0};
    struct zip z = {.at = 0};
    const char *end;

    (void)state;
    assert_int_equal(zip_file(&z, "big", large, 1, 0, &out), ERR_OK);
    assert_int_equal(out.len, 30 + 3 + 20);
    assert_int_equal(number(out.s + 18, 4), 0xffffffff);
    assert_int_equal(number(out.s + 33, 2), 1);
    assert_true(number(out.s + 37, 8) == large);
    assert_true(z.at == out.len + large);
    out.len = 0;
    assert_int_equal(zip_file(&z, "far", 1, 2, 0, &out), ERR_OK);
    assert_int_equal(out.len, 30 + 3);
    out.len = 0;
    assert_int_equal(zip_end(&z, &out), ERR_OK);
    /* Of the second: its place alone. */
    end = out.s + 46 + 3 + 20;
    assert_int_equal(number(end + 42, 4), 0xffffffff);
    assert_int_equal(number(end + 49 + 2, 2), 8);
    assert_true(number(end + 49 + 4, 8) == 30 + 3 + 20 + large);
    end = out.s + out.len - 22 - 20 - 56;
    assert_int_equal(number(end, 4), 0x06064b50);
    assert_int_equal(number(end + 32, 8), 2);
    assert_true(number(end + 48, 8) == z.at);
    assert_true(number(end + 56 + 8, 8) == z.at + z.central.len);
    text_deinit(&out);
    zip_deinit(&z);
}

/* A name that its length cannot tell is refused, and nothing is listed. */
static void zip_refuses_long_names(void **state)
{
    char *name = malloc(ZIP_NAME_MAX + 2);
    struct text out = {0};
    struct zip z = {.at = 0};

    (void)state;
    assert_non_null(name);
    memset(name, 'x', ZIP_NAME_MAX + 1);
    name[ZIP_NAME_MAX + 1] = '\0';
    assert_int_equal(zip_file(&z, name, 1, 1, 0, &out), ERR_LIMIT);
    assert_int_equal(z.entries, 0);
    free(name);
    text_deinit(&out);
    zip_deinit(&z);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zip_checksum_is_the_known_one),
        cmocka_unit_test(zip_of_small_files_is_plain),
        cmocka_unit_test(zip_of_large_files_is_zip64),
        cmocka_unit_test(zip_refuses_long_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
