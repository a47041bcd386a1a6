/* The first line of a script (base/shebang.h). */
#include "base/shebang.h"
#include "tests/unit/fixture/check.h"

#include <string.h>

static void expect(const char *text, const char *name)
{
    char out[SHEBANG_MAX] = "untouched";
    bool found = shebang_read(text, strlen(text), out);

    assert_int_equal(found, name != NULL);
    assert_string_equal(out, name ? name : "untouched");
}

/* A name is what stands between blanks, as the kernel reads it. */
static void shebang_is_read_as_the_kernel_reads_it(void **state)
{
    (void)state;
    expect("#!/bin/sh", "/bin/sh");
    expect("#!/bin/sh\nmore", "/bin/sh");
    expect("#! \t/usr/bin/env python3 -u\n", "/usr/bin/env");
    expect("#!/bin/sh\r\n", "/bin/sh\r");
    expect("#!sh\n", "sh");
}

/* Anything else names none. */
static void shebang_of_no_script_is_none(void **state)
{
    char out[SHEBANG_MAX];

    (void)state;
    expect("", NULL);
    expect("#", NULL);
    expect("#!", NULL);
    expect("#! \n/bin/sh", NULL);
    expect(" #!/bin/sh", NULL);
    assert_false(shebang_read(NULL, 0, out));
    assert_true(shebang_read("#!/a\0b", 6, out));
    assert_string_equal(out, "/a");
}

/* A name that is not whole within what the kernel looks at is none. */
static void shebang_that_is_too_long_is_none(void **state)
{
    char text[2 * SHEBANG_MAX], out[SHEBANG_MAX];

    (void)state;
    memset(text, 'a', sizeof(text));
    memcpy(text, "#!", 2);
    assert_false(shebang_read(text, sizeof(text), out));
    text[SHEBANG_MAX] = '\n';
    assert_false(shebang_read(text, sizeof(text), out));
    text[SHEBANG_MAX - 1] = '\n';
    assert_true(shebang_read(text, sizeof(text), out));
    assert_int_equal(strlen(out), SHEBANG_MAX - 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shebang_is_read_as_the_kernel_reads_it),
        cmocka_unit_test(shebang_of_no_script_is_none),
        cmocka_unit_test(shebang_that_is_too_long_is_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
