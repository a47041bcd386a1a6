#include "cli/basics/fold.h"
#include "cli/basics/table.h"

#include "tests/unit/fixture/check.h"

#include <stdio.h>

static void folds(const char *s, unsigned width, const char *expected)
{
    struct text t = {0};

    fold_lines(s, width, &t);
    assert_string_equal(text_so_far(&t), expected);
    text_deinit(&t);
}

/* Between words, under the text behind the first gap; a word that is wider than
 * the line stays whole. */
static void test_lines(void **state)
{
    (void)state;
    folds("as it is, however long it may be\n", 0,
          "as it is, however long it may be\n");
    folds("", 20, "");
    folds("\n\n", 20, "\n\n");
    folds("twenty columns, whole\n", 21, "twenty columns, whole\n");
    folds("setting   rate=0.1 momentum=0.9 batch=64\n", 30,
          "setting   rate=0.1\n          momentum=0.9\n          batch=64\n");
    folds("    10 ms  search: it begins here\n", 24,
          "    10 ms  search: it\n           begins here\n");
    folds("a-word-that-is-wider-than-the-line and more", 20,
          "a-word-that-is-wider-than-the-line\nand more");
    /* Characters count, not bytes. */
    folds("\303\244\303\266\303\274\303\244\303\266\303\274 "
          "\303\244\303\266\303\274\303\244\303\266\303\274 abcdef",
          20,
          "\303\244\303\266\303\274\303\244\303\266\303\274 "
          "\303\244\303\266\303\274\303\244\303\266\303\274 abcdef");
}

/* No line of any text is wider than the terminal unless it is one word with
 * what leads to it, and no byte but blanks is lost. */
static void test_no_text_is_cut(void **state)
{
    unsigned seed = 7;

    (void)state;
    for (int round = 0; round < 2000; round++) {
        char text[200], plain[200], back[400];
        unsigned width = 20 + (unsigned)round % 60;
        struct text t = {0};
        size_t n = 0, m = 0;

        for (size_t i = 0; i + 1 < sizeof(text); i++) {
            seed = seed * 1664525u + 1013904223u;
            text[i] = seed >> 28 < 4 ? ' ' : (char)('a' + (seed >> 20) % 26);
        }
        text[sizeof(text) - 1] = '\0';
        fold_lines(text, width, &t);
        for (const char *c = text; *c; c++)
            if (*c != ' ')
                plain[n++] = *c;
        for (const char *c = text_so_far(&t); *c; c++)
            if (*c != ' ' && *c != '\n')
                back[m++] = *c;
        assert_int_equal(n, m);
        assert_memory_equal(plain, back, n);
        for (const char *line = text_so_far(&t); *line;) {
            size_t len = strcspn(line, "\n"), lead = strspn(line, " ");

            assert_true(len <= width || !memchr(line + lead, ' ', len - lead));
            line += len + (line[len] == '\n');
        }
        text_deinit(&t);
    }
}

static void prints(struct text_table *t, const char *indent,
                   const char *expected)
{
    char *page = NULL;
    size_t size;
    FILE *out = open_memstream(&page, &size);

    assert_int_equal(table_print(t, out, indent), 0);
    fclose(out);
    assert_string_equal(page, expected);
    free(page);
}

static void fill(struct text_table *t)
{
    static const char *const cells[] = {
        "RUN",
        "STATUS",
        "SETTING",
        "a-1",
        "finished: converged",
        "a=1",
        "b-2",
        "stopped",
        "a=1 bb=2 ccc=333333",
    };

    for (size_t i = 0; i < sizeof(cells) / sizeof(*cells); i++)
        table_add(t, "%s", cells[i]);
}

/* Cells are folded where the table is too wide, and a list is made where even
 * words are; nothing is padded behind its text. */
static void test_tables(void **state)
{
    struct text_table t = {.columns = 3};

    (void)state;
    fill(&t);
    prints(&t, "",
           "RUN  STATUS               SETTING\n"
           "a-1  finished: converged  a=1\n"
           "b-2  stopped              a=1 bb=2 ccc=333333\n");
    t.width = 30;
    prints(&t, " ",
           " RUN  STATUS     SETTING\n"
           " a-1  finished:  a=1\n"
           "      converged\n"
           " b-2  stopped    a=1 bb=2\n"
           "                 ccc=333333\n");
    t.width = 23;
    prints(&t, "",
           "RUN  STATUS\n"
           "    SETTING\n"
           "a-1  finished:\n"
           "     converged\n"
           "    a=1\n"
           "b-2  stopped\n"
           "    a=1 bb=2 ccc=333333\n");
    t.no_heading = true;
    t.width = 20;
    prints(&t, "",
           "RUN  STATUS\n"
           "    SETTING\n"
           "a-1  finished:\n"
           "     converged\n"
           "    a=1\n"
           "b-2  stopped\n"
           "    a=1 bb=2\n"
           "    ccc=333333\n");
    table_deinit(&t);
    t = (struct text_table){.columns = 3, .width = 20};
    fill(&t);
    table_add(&t, "an-id-that-is-long");
    table_add(&t, "ends");
    table_add(&t, "");
    prints(&t, "",
           "RUN      a-1\n"
           "STATUS   finished:\n"
           "         converged\n"
           "SETTING  a=1\n\n"
           "RUN      b-2\n"
           "STATUS   stopped\n"
           "SETTING  a=1 bb=2\n"
           "         ccc=333333\n\n"
           "RUN\n         an-id-that-is-long\n"
           "STATUS   ends\n\n");
    table_deinit(&t);
}

/* A long setting is not cut in its cell. */
static void test_long_cells(void **state)
{
    struct text_table t = {.columns = 1};
    char cell[1000];

    (void)state;
    memset(cell, 'x', sizeof(cell) - 1);
    cell[sizeof(cell) - 1] = '\0';
    table_add(&t, "H");
    table_add(&t, "%s", cell);
    assert_string_equal(table_cell(&t, 1), cell);
    table_deinit(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_no_text_is_cut),
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_long_cells),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
