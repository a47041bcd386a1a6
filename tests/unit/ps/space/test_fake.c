/* The fake device finds what a real one would do wrong now and then. */
#include "base/deadlines.h"
#include "base/mem.h"
#include "ps/space/fake_io.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { BYTES = 64, SEEDS = 50 };

static const struct space_ops *const ops = &space_fake;

struct device {
    struct memory_space *space;
    struct space_stream *stream, *other;
    char *at, *pinned;
};

static void open_device(struct device *d, const struct space_options *o)
{
    assert_int_equal(ops->open(o, &d->space, NULL), ERR_OK);
    assert_int_equal(ops->stream_open(d->space, &d->stream, NULL), ERR_OK);
    assert_int_equal(ops->stream_open(d->space, &d->other, NULL), ERR_OK);
    assert_int_equal(ops->alloc(d->space, BYTES, (void **)&d->at, NULL),
                     ERR_OK);
    assert_int_equal(
        ops->pinned_alloc(d->space, BYTES, (void **)&d->pinned, NULL), ERR_OK);
}

static void close_device(struct device *d)
{
    ops->stream_close(d->stream);
    ops->stream_close(d->other);
    ops->free(d->space, d->at, BYTES);
    ops->pinned_free(d->space, d->pinned, BYTES);
    ops->close(d->space);
}

static enum err sync_of(struct space_stream *st, struct fault *f)
{
    return ops->stream_sync(st, DEADLINE_DEVICE_MS, f);
}

/* What was never written is poison, and so is what is read before its copy was
 * waited for; after that it is there. */
static void test_poison(void **state)
{
    static const unsigned char poison[BYTES] = {[0 ... BYTES - 1] = 0xff};
    const struct space_options o = {.seed = 1};
    struct device d;

    (void)state;
    open_device(&d, &o);
    ops->copy(d.stream, d.pinned, d.at, BYTES, SPACE_TO_HOST);
    assert_int_equal(sync_of(d.stream, NULL), ERR_OK);
    assert_memory_equal(d.pinned, poison, BYTES);
    memset(d.pinned, 3, BYTES);
    ops->fill(d.other, d.at, BYTES, 7, 1);
    assert_int_equal(sync_of(d.other, NULL), ERR_OK);
    ops->copy(d.stream, d.pinned, d.at, BYTES, SPACE_TO_HOST);
    assert_memory_equal(d.pinned, poison, BYTES);
    assert_int_equal(sync_of(d.stream, NULL), ERR_OK);
    assert_int_equal(d.pinned[0], 7);
    close_device(&d);
}

/* The byte that a program gets that forgot an event between two streams. */
static unsigned char unordered(uint64_t seed)
{
    const struct space_options o = {.seed = seed};
    struct device d;
    unsigned char got;

    open_device(&d, &o);
    ops->fill(d.stream, d.at, BYTES, 1, 1);
    assert_int_equal(sync_of(d.stream, NULL), ERR_OK);
    ops->fill(d.stream, d.at, BYTES, 2, 1);
    ops->copy(d.other, d.pinned, d.at, BYTES, SPACE_TO_HOST);
    assert_int_equal(sync_of(d.other, NULL), ERR_OK);
    got = (unsigned char)d.pinned[0];
    assert_int_equal(sync_of(d.stream, NULL), ERR_OK);
    close_device(&d);
    return got;
}

/* Streams get on in an order that differs from seed to seed, and is the same
 * for a seed: a forgotten event shows as poison or as the old bytes. */
static void test_orders(void **state)
{
    unsigned poison = 0, right = 0;

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        unsigned char got = unordered(seed);

        assert_int_equal(got, unordered(seed));
        poison += got == 0xff;
        right += got == 2;
    }
    assert_true(poison > 0 && right > 0);
}

/* What is in memory that copies read may change until they are done. */
static void test_source(void **state)
{
    const struct space_options o = {.seed = 1};
    struct device d;

    (void)state;
    open_device(&d, &o);
    memset(d.pinned, 1, BYTES);
    ops->copy(d.stream, d.at, d.pinned, BYTES, SPACE_FROM_HOST);
    memset(d.pinned, 2, BYTES); /* too early */
    ops->copy(d.stream, d.pinned, d.at, BYTES, SPACE_TO_HOST);
    assert_int_equal(sync_of(d.stream, NULL), ERR_OK);
    assert_int_equal(d.pinned[0], 2);
    close_device(&d);
}

/* Beyond its size it has no memory, and says how much was asked for and is
 * left. */
static void test_size(void **state)
{
    const struct space_options o = {.total = 4 << 20};
    struct memory_space *s;
    struct fault f = {0};
    void *most, *more;

    (void)state;
    assert_int_equal(ops->open(&o, &s, NULL), ERR_OK);
    assert_int_equal(ops->alloc(s, 3 << 20, &most, &f), ERR_OK);
    assert_int_equal(ops->alloc(s, 2 << 20, &more, &f), ERR_LIMIT);
    assert_non_null(strstr(f.text, "2.0 MiB of the device's memory were asked "
                                   "for: of 4.0 MiB, 1.0 MiB are free"));
    ops->free(s, most, 3 << 20);
    assert_int_equal(ops->alloc(s, 4 << 20, &more, &f), ERR_OK);
    ops->free(s, more, 4 << 20);
    ops->close(s);
}

/* Work on memory that is not the space's fails: source or target, and a row
 * beyond its table. */
static void test_foreign(void **state)
{
    static const char *const words[] = {
        "writes 64 bytes that are no memory of the space",
        "reads 64 bytes that are no memory of the space",
        "a copy from the host reads memory of the space",
        "row 2 of a table in the space that has 2 rows",
    };
    char own[BYTES] = {0};

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        const struct space_options o = {.seed = i};
        struct device d;
        struct space_rows rows = {.stride = 16, .rows = 2, .first = 1};
        struct fault f = {0};

        open_device(&d, &o);
        rows.base = d.at;
        if (i == 0)
            ops->fill(d.stream, own, BYTES, 0, 1);
        else if (i == 1)
            ops->copy(d.stream, d.at, own, BYTES, SPACE_WITHIN);
        else if (i == 2)
            ops->copy(d.stream, d.at, d.at, BYTES, SPACE_FROM_HOST);
        else
            ops->gather(d.stream, &rows, 2, 16, d.at + 32);
        assert_int_equal(sync_of(d.stream, &f), ERR_INVAL);
        if (!strstr(f.text, words[i]))
            fail_msg("%s", f.text);
        close_device(&d);
    }
}

/* The device fails at the work that was asked for: that stream alone, what it
 * was to write stays poison, and what follows is left out. */
static void test_fails(void **state)
{
    const struct space_options o = {.fails_after = 2};
    struct device d;
    struct fault f = {0};

    (void)state;
    open_device(&d, &o);
    ops->fill(d.stream, d.at, BYTES, 1, 1);
    ops->fill(d.stream, d.at, BYTES, 2, 1);
    ops->fill(d.stream, d.at, BYTES, 3, 1);
    assert_int_equal(sync_of(d.stream, &f), ERR_IO);
    assert_string_equal(f.text, "the device failed at work number 2");
    ops->copy(d.other, d.pinned, d.at, BYTES, SPACE_TO_HOST);
    assert_int_equal(sync_of(d.other, NULL), ERR_OK);
    assert_int_equal((unsigned char)d.pinned[0], 0xff);
    close_device(&d);
}

/* A stream is waited for no longer than was said, and again after that; an
 * event may be closed while work waits for it. */
static void test_deadline(void **state)
{
    const struct space_options o = {0};
    struct device d;
    struct space_event *e;
    struct fault f = {0};

    (void)state;
    open_device(&d, &o);
    assert_int_equal(ops->event_open(d.space, &e, NULL), ERR_OK);
    ops->fill(d.other, d.at, BYTES, 1, 1);
    ops->event_record(d.other, e);
    ops->event_wait(d.stream, e);
    assert_int_equal(ops->stream_query(d.stream, NULL), ERR_AGAIN);
    assert_int_equal(ops->stream_sync(d.stream, 0, &f), ERR_TIMEOUT);
    assert_string_equal(f.text, "the device has not done its work in 0 ms");
    ops->event_close(e); /* what waits for it goes on waiting */
    assert_int_equal(sync_of(d.stream, NULL), ERR_OK);
    close_device(&d);
}

struct add_arg {
    char *to;
    int by;
};

static enum err add_to(const void *arg, struct fault *f)
{
    const struct add_arg *a = arg;

    for (unsigned i = 0; i < BYTES; i++)
        a->to[i] = (char)(a->to[i] + a->by);
    return a->by > 100 ? fault_set(f, ERR_APP, "too much") : ERR_OK;
}

/* A function of the host's runs in its stream's order, on bytes that are poison
 * for others meanwhile; its error is the stream's. */
static void test_call(void **state)
{
    const struct space_options o = {.seed = 3};
    struct add_arg arg;
    struct space_call call = {
        .fn = add_to, .arg = &arg, .arg_bytes = sizeof(arg)};
    struct fault f = {0};
    struct device d;

    (void)state;
    open_device(&d, &o);
    call.write[0] = (struct space_span){d.at, BYTES};
    ops->fill(d.stream, d.at, BYTES, 1, 1);
    arg = (struct add_arg){d.at, 5};
    ops->call(d.stream, &call);
    arg.by = 20;
    ops->call(d.stream, &call);
    arg.by = -99; /* the arguments were copied */
    ops->copy(d.stream, d.pinned, d.at, BYTES, SPACE_TO_HOST);
    assert_int_equal(sync_of(d.stream, NULL), ERR_OK);
    assert_int_equal(d.pinned[BYTES - 1], 26);
    arg.by = 101;
    ops->call(d.stream, &call);
    assert_int_equal(sync_of(d.stream, &f), ERR_APP);
    assert_string_equal(f.text, "too much");
    close_device(&d);
}

/* More than may wait is done without anybody who waits. */
static void test_late(void **state)
{
    const struct space_options o = {.seed = 2};
    struct device d;

    (void)state;
    open_device(&d, &o);
    for (unsigned i = 0; i < 1000; i++)
        ops->fill(d.stream, d.at, BYTES, i, 1);
    ops->copy(d.stream, d.pinned, d.at, BYTES, SPACE_TO_HOST);
    assert_int_equal(sync_of(d.stream, NULL), ERR_OK);
    assert_int_equal((unsigned char)d.pinned[0], 999 & 0xff);
    close_device(&d);
}

/* All that a small job allocates, in @d as far as it came. */
static enum err small_job(struct device *d)
{
    const struct space_options o = {.seed = 4};
    struct space_event *e = NULL;
    struct add_arg arg = {NULL, 1};
    struct space_call call = {
        .fn = add_to, .arg = &arg, .arg_bytes = sizeof(arg)};
    enum err err = ops->open(&o, &d->space, NULL);

    if (!err)
        err = ops->stream_open(d->space, &d->stream, NULL);
    if (!err)
        err = ops->alloc(d->space, BYTES, (void **)&d->at, NULL);
    if (!err)
        err = ops->pinned_alloc(d->space, BYTES, (void **)&d->pinned, NULL);
    if (!err)
        err = ops->event_open(d->space, &e, NULL);
    if (!err) {
        arg.to = d->at;
        call.write[0] = (struct space_span){d->at, BYTES};
        ops->fill(d->stream, d->at, BYTES, 1, 1);
        ops->call(d->stream, &call);
        ops->event_record(d->stream, e);
        ops->copy(d->stream, d->pinned, d->at, BYTES, SPACE_TO_HOST);
        err = sync_of(d->stream, NULL);
    }
    ops->event_close(e);
    return err;
}

/* An allocation that fails is an error of the call or of the stream; nothing
 * leaks. */
static void test_no_memory(void **state)
{
    int64_t before = mem_outstanding();
    bool failed = true;

    (void)state;
    for (int64_t nth = 1; failed; nth++) {
        struct device d = {0};
        enum err err;

        mem_fail_at(nth, 0);
        err = small_job(&d);
        failed = mem_failed() != 0;
        mem_fail_at(0, 0);
        assert_int_equal(err, failed ? ERR_NOMEM : ERR_OK);
        if (!failed)
            assert_int_equal(d.pinned[0], 2);
        if (d.space)
            close_device(&d);
        assert_int_equal(mem_outstanding(), before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_poison),   cmocka_unit_test(test_orders),
        cmocka_unit_test(test_source),   cmocka_unit_test(test_size),
        cmocka_unit_test(test_foreign),  cmocka_unit_test(test_fails),
        cmocka_unit_test(test_deadline), cmocka_unit_test(test_call),
        cmocka_unit_test(test_late),     cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
