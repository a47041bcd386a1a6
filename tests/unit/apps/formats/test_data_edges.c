/* Graphs: the parser of lists of edges, the loader, the generator. */
#include "apps/data/data.h"
#include "base/mem.h"
#include "tests/unit/fixture/scratch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/fixture/check.h"

static enum err read_bytes(const char *text, size_t n, uint64_t limit,
                           struct edges *g, struct fault *f)
{
    struct data_stream *stream;
    enum err err;

    assert_int_equal(data_stream_memory("it", text, n, &stream, f), ERR_OK);
    err = edges_read(g, stream, limit, f);
    data_stream_close(stream);
    return err;
}

/* Edges with any blanks, a comma, comments and ids of any size are read; ids
 * become numbers in order of appearance. */
static void edges_forms_are_read(void **state)
{
    static const char text[] = "# Nodes: 3\n% more\n\n 5\t7\r\n7, 5\n"
                               "0  9223372036854775807\n5 5";
    static const uint32_t from[] = {0, 1, 2, 0}, to[] = {1, 0, 3, 0};
    struct edges g = {0};
    struct fault f = {0};

    (void)state;
    if (read_bytes(text, strlen(text), UINT64_MAX, &g, &f))
        fail_msg("%s", f.text);
    assert_int_equal(g.count, 4);
    assert_int_equal(g.nodes.count, 4);
    assert_true(g.nodes.id[3] == INT64_MAX);
    assert_memory_equal(g.from, from, sizeof(from));
    assert_memory_equal(g.to, to, sizeof(to));
    edges_deinit(&g);
}

static void refuse(const char *text, enum err code, const char *says)
{
    struct edges g = {0};
    struct fault f = {0};
    enum err err = read_bytes(text, strlen(text), 1 << 20, &g, &f);

    if (err != code || !strstr(f.text, says))
        fail_msg("%s\n%s: %s\nwanted %s: %s", text, err_name(err), f.text,
                 err_name(code), says);
    edges_deinit(&g);
}

/* A malformed text is refused with line, what was expected and found. */
static void edges_errors_name_the_line(void **state)
{
    (void)state;
    refuse("", ERR_FORMAT, "no edge in it");
    refuse("# only\n", ERR_FORMAT, "no edge in it");
    refuse("1 2\nx 3\n", ERR_FORMAT,
           "it: line 2: expected the id of a node (an integer from 0 to 2^63 - "
           "1), found \"x\"");
    refuse("1 2\n-1 3\n", ERR_FORMAT, "found \"-1\"");
    refuse("1\n", ERR_FORMAT, "expected a blank or a comma behind the id");
    refuse("1 \n", ERR_FORMAT, "found the end of the line");
    refuse("1 2 3\n", ERR_FORMAT,
           "expected the end of the line (an edge is two ids), found \"3\"");
    refuse("1 9223372036854775808\n", ERR_FORMAT, "expected the id of a node");
    refuse("1x2\n", ERR_FORMAT, "expected a blank or a comma");
}

/* Memory is counted while it loads, and an allocation that fails is reported
 * and undone. */
static void edges_memory_is_counted_and_may_fail(void **state)
{
    enum { LINES = 100000 };
    char *text = malloc(LINES * 16 + 1);
    int64_t before = mem_outstanding();
    struct edges g = {0};
    size_t n = 0;
    int nth, failed = 1;

    (void)state;
    for (int i = 0; i < LINES; i++)
        n += (size_t)sprintf(text + n, "%d %d\n", i, 2 * i);
    assert_int_equal(read_bytes(text, n, 200000, &g, NULL), ERR_LIMIT);
    assert_in_range(g.count, 1, LINES / 4);
    edges_deinit(&g);
    for (nth = 1; failed; nth++) {
        static const char few[] = "1 2\n3 4\n5 6\n7 8\n9 10\n";
        struct data_stream *stream;
        enum err err;

        assert_int_equal(
            data_stream_memory("it", few, strlen(few), &stream, NULL), ERR_OK);
        mem_fail_at(nth, 0);
        err = edges_read(&g, stream, UINT64_MAX, NULL);
        failed = mem_failed();
        mem_fail_at(0, 0);
        assert_int_equal(err, failed ? ERR_NOMEM : ERR_OK);
        data_stream_close(stream);
        edges_deinit(&g);
        assert_int_equal(mem_outstanding(), before);
    }
    assert_true(nth > 4);
    free(text);
}

/* What the generator makes reads back the same from its file; of a folder all
 * lists are joined. */
static void gen_edges_reads_back(void **state)
{
    struct edges a = {0}, b = {0};
    char path[512];
    struct fault f = {0};

    (void)state;
    snprintf(path, sizeof(path), "%s", scratch_path("made"));
    assert_int_equal(
        data_load_edges("gen:edges?nodes=50&edges=400", NULL, &a, NULL),
        ERR_OK);
    assert_int_equal(a.count, 400);
    assert_in_range(a.nodes.count, 30, 50);
    assert_int_equal(data_generate("gen:edges?nodes=50&edges=400", path, NULL),
                     ERR_OK);
    assert_int_equal(data_load_edges(path, NULL, &b, NULL), ERR_OK);
    assert_int_equal(b.count, a.count);
    assert_memory_equal(a.from, b.from, a.count * sizeof(*a.from));
    assert_memory_equal(a.to, b.to, a.count * sizeof(*a.to));
    edges_deinit(&b);
    scratch_text("more", "# two\n1 2\n2 1\n");
    scratch_text("other", "some text\n");
    assert_int_equal(data_load_edges(".", scratch_folder(), &b, NULL), ERR_OK);
    assert_int_equal(b.count, 402);
    edges_deinit(&a);
    edges_deinit(&b);
    assert_int_equal(data_load_edges("other", scratch_folder(), &b, &f),
                     ERR_UNSUPPORTED);
    assert_non_null(strstr(f.text, "expected a list of edges"));
    assert_int_equal(data_load_edges("gen:bow", NULL, &b, &f), ERR_INVAL);
}

/* The real graphs have the sizes that their source states. */
static void edges_real_graphs_have_the_published_sizes(void **state)
{
    static const struct {
        const char *file;
        uint64_t nodes, edges;
    } sets[] = {{"wiki-Vote.txt.xz", 7115, 103689},
                {"ego-Facebook.txt.xz", 4039, 88234},
                {"soc-Slashdot0902.txt.xz", 82168, 948464}};
    const char *real = scratch_real_data();

    (void)state;
    for (size_t i = 0; real && i < sizeof(sets) / sizeof(*sets); i++) {
        struct edges g = {0};
        struct fault f = {0};

        if (data_load_edges(sets[i].file, real, &g, &f))
            fail_msg("%s", f.text);
        assert_int_equal(g.nodes.count, sets[i].nodes);
        assert_int_equal(g.count, sets[i].edges);
        edges_deinit(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edges_forms_are_read),
        cmocka_unit_test(edges_errors_name_the_line),
        cmocka_unit_test(edges_memory_is_counted_and_may_fail),
        cmocka_unit_test_setup_teardown(gen_edges_reads_back, scratch_make,
                                        scratch_remove),
        cmocka_unit_test(edges_real_graphs_have_the_published_sizes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
