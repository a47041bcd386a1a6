/* Protocol buffers and graphs of ONNX, byte by byte. What whole models say is
 * tests/process/test_onnx.py. */
#include "apps/onnx/onnx_graph.h"
#include "base/mem.h"
#include "base/protobuf.h"
#include "tests/unit/fixture/check.h"

#include <stdio.h>
#include <string.h>

#define ASSERT_BYTES(t, bytes)                                                 \
    do {                                                                       \
        assert_int_equal(text_length(&(t)), sizeof(bytes) - 1);                \
        assert_memory_equal(text_so_far(&(t)), bytes, sizeof(bytes) - 1);      \
        text_deinit(&(t));                                                     \
    } while (0)

/* The examples of protobuf.dev, and the ends of the ranges. */
static void protobuf_fields_are_the_formats(void **state)
{
    struct text t = {0}, inner = {0};

    (void)state;
    protobuf_int(&t, 1, 150);
    ASSERT_BYTES(t, "\x08\x96\x01");
    protobuf_int(&t, 1, 0);
    ASSERT_BYTES(t, "\x08\x00");
    protobuf_int(&t, 1, -2);
    ASSERT_BYTES(t, "\x08\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01");
    protobuf_string(&t, 2, "testing");
    ASSERT_BYTES(t, "\x12\x07testing");
    protobuf_bytes(&t, 2, NULL, 0);
    ASSERT_BYTES(t, "\x12\x00");
    protobuf_float(&t, 3, 1.0f);
    ASSERT_BYTES(t, "\x1d\x00\x00\x80\x3f");
    protobuf_int(&t, 16, 127);
    ASSERT_BYTES(t, "\x80\x01\x7f");
    protobuf_int(&t, PROTOBUF_FIELD_MAX, 1);
    ASSERT_BYTES(t, "\xf8\xff\xff\xff\x0f\x01");
    protobuf_head(&t, 4, 300);
    ASSERT_BYTES(t, "\x22\xac\x02");
    protobuf_int(&inner, 1, 150);
    protobuf_message(&t, 3, &inner);
    assert_int_equal(text_length(&inner), 0);
    ASSERT_BYTES(t, "\x1a\x03\x08\x96\x01");
}

/* A graph of one node and one array: value = input + array. */
static enum err write_sum(FILE *out, struct fault *f)
{
    const struct onnx_dims row = {2, {-1, 2}}, two = {1, {2}};
    struct onnx_graph g;
    char name[ONNX_NAME_MAX];
    struct onnx_node node = {
        .op = "Add",
        .in = {"input", name},
        .attribute = {{.name = "axis", .kind = ONNX_INT, .i = {1}},
                      {.name = "pads", .kind = ONNX_INTS, .i = {0, 3}, .n = 2},
                      {.name = "epsilon", .kind = ONNX_REAL, .f = 1}},
        .attributes = 3};
    float *value;
    enum err err;

    onnx_graph_init(&g);
    onnx_input(&g, "input", ONNX_FLOAT, &row);
    value = onnx_array(&g, ONNX_FLOAT, &two, name);
    if (value)
        value[1] = 1;
    onnx_add(&g, &node, "value", NULL);
    onnx_output(&g, "value", ONNX_FLOAT, &row);
    onnx_note(&g, "by", "hand");
    err = onnx_graph_write(&g, "sum", "7", out, f);
    onnx_graph_deinit(&g);
    return err;
}

#define PORT(name)                                                             \
    "\x0a\x05" name "\x12\x0f\x0a\x0d\x08\x01\x12\x09\x0a\x03\x12\x01N"        \
    "\x0a\x02\x08\x02"

static void onnx_graph_is_the_format(void **state)
{
    /* Lengths are those of what follows, worked out by hand. */
    static const char node[] =
        "\x0a\x05input\x0a\x06"
        "array0\x12\x05value\x1a\x0avalue0_Add"
        "\x22\x03"
        "Add"
        "\x2a\x0b\x0a\x04"
        "axis\x18\x01\xa0\x01\x02"
        "\x2a\x0d\x0a\x04pads\x40\x00\x40\x03\xa0\x01\x07"
        "\x2a\x11\x0a\x07"
        "epsilon\x15\x00\x00\x80\x3f\xa0\x01\x01";
    static const char array[] = "\x08\x02\x10\x01\x42\x06"
                                "array0\x4a\x08"
                                "\0\0\0\0\x00\x00\x80\x3f";
    char *bytes = NULL, *at;
    size_t len = 0;
    FILE *out = open_memstream(&bytes, &len);
    struct fault f = {0};

    (void)state;
    assert_int_equal(write_sum(out, &f), ERR_OK);
    fclose(out);
    at = bytes;
    assert_memory_equal(at,
                        "\x08\x07\x12\x06mltune\x1a\x01\x37\x42\x02\x10\x0d"
                        "\x72\x0a\x0a\x02"
                        "by\x12\x04hand\x3a",
                        30);
    at += 30;
    /* The graph: its length, below 2^14, in two bytes. */
    assert_int_equal((at[0] & 0x7f) | at[1] << 7, bytes + len - (at + 2));
    at += 2;
    assert_memory_equal(at, "\x12\x03sum\x0a", 6);
    assert_int_equal(at[6], sizeof(node) - 1);
    assert_memory_equal(at + 7, node, sizeof(node) - 1);
    at += 7 + sizeof(node) - 1;
    assert_memory_equal(at, "\x5a\x18" PORT("input") "\x62\x18" PORT("value"),
                        52);
    at += 52;
    assert_memory_equal(at, "\x2a", 1);
    assert_int_equal(at[1], sizeof(array) - 1);
    assert_memory_equal(at + 2, array, sizeof(array) - 1);
    assert_ptr_equal(at + 2 + sizeof(array) - 1, bytes + len);
    free(bytes);
}

/* Whatever allocation fails, the writing says so and nothing is lost. */
static void onnx_graph_tells_that_memory_ran_out(void **state)
{
    int64_t before = mem_outstanding();
    int failed = 1;

    (void)state;
    for (int nth = 1; failed; nth++) {
        FILE *out = fopen("/dev/null", "we");
        struct fault f = {0};
        enum err err;

        mem_fail_at(nth, 0);
        err = write_sum(out, &f);
        failed = mem_failed();
        mem_fail_at(0, 0);
        assert_int_equal(err, failed ? ERR_NOMEM : ERR_OK);
        fclose(out);
    }
    assert_int_equal(mem_outstanding(), before);
}

/* A full disk, and what is more than protocol buffers hold. */
static void onnx_graph_tells_what_does_not_fit(void **state)
{
    const struct onnx_dims large = {2, {1 << 15, (1 << 15) + 1}};
    struct onnx_graph g;
    char name[ONNX_NAME_MAX];
    struct fault f = {0};
    FILE *out = fopen("/dev/full", "we");

    (void)state;
    setvbuf(out, NULL, _IONBF, 0);
    assert_int_equal(write_sum(out, &f), ERR_IO);
    fclose(out);
    out = fopen("/dev/null", "we");
    onnx_graph_init(&g);
    for (int i = 0; i < 4; i++) {
        /* What is not there is not read: the array's size alone counts. */
        struct onnx_array *a = &g.array[g.arrays++];

        *a = (struct onnx_array){
            .type = ONNX_FLOAT, .dims = large, .bytes = 4ULL << 30};
        snprintf(name, sizeof(name), "a%d", i);
        memcpy(a->name, name, sizeof(a->name));
    }
    assert_int_equal(onnx_graph_write(&g, "m", "1", out, &f), ERR_LIMIT);
    assert_non_null(strstr(f.text, "at most 2 GiB"));
    onnx_graph_deinit(&g);
    fclose(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(protobuf_fields_are_the_formats),
        cmocka_unit_test(onnx_graph_is_the_format),
        cmocka_unit_test(onnx_graph_tells_that_memory_ran_out),
        cmocka_unit_test(onnx_graph_tells_what_does_not_fit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
