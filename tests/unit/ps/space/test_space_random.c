/* Random programs over several streams, with the events that they need: on the
 * fake device, whatever the order in which its streams get on, they leave the
 * bytes that they leave on the host. */
#include "base/deadlines.h"
#include "base/mem.h"
#include "base/rng.h"
#include "ps/space/fake_io.h"
#include "ps/space/host.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum {
    PROGRAMS = 1000,
    STEPS = 40,
    STREAMS = 3,
    BUFFERS = 5, /* of the space */
    PINNED = 2,  /* of the host, after those */
    PLACES = BUFFERS + PINNED,
    ROWS = 16,
    WIDTH = 8, /* values of a row; as many slots */
    FLOATS = ROWS * WIDTH * 2,
    BYTES = FLOATS * sizeof(float)
};

struct program {
    struct memory_space *space;
    const struct space_ops *ops;
    struct space_stream *stream[STREAMS];
    float *place[PLACES];
    uint32_t *index; /* in the space: [ROWS] */
    /* When a place was last written, and last read by each stream. */
    struct space_event *written[PLACES], *read[PLACES][STREAMS];
    struct rng rng;
    bool waits; /* for what it must */
};

static void open_program(struct program *p, const struct space_ops *ops,
                         const struct space_options *o, uint64_t seed)
{
    *p = (struct program){.ops = ops, .waits = true};
    rng_init(&p->rng, seed);
    assert_int_equal(ops->open(o, &p->space, NULL), ERR_OK);
    for (unsigned s = 0; s < STREAMS; s++)
        assert_int_equal(ops->stream_open(p->space, &p->stream[s], NULL),
                         ERR_OK);
    for (unsigned i = 0; i < PLACES; i++) {
        enum err (*take)(struct memory_space *, size_t, void **,
                         struct fault *) =
            i < BUFFERS ? ops->alloc : ops->pinned_alloc;

        assert_int_equal(take(p->space, BYTES, (void **)&p->place[i], NULL),
                         ERR_OK);
        assert_int_equal(ops->event_open(p->space, &p->written[i], NULL),
                         ERR_OK);
        for (unsigned s = 0; s < STREAMS; s++)
            assert_int_equal(ops->event_open(p->space, &p->read[i][s], NULL),
                             ERR_OK);
    }
    assert_int_equal(ops->alloc(p->space, ROWS * sizeof(*p->index),
                                (void **)&p->index, NULL),
                     ERR_OK);
}

static void close_program(struct program *p)
{
    for (unsigned s = 0; s < STREAMS; s++)
        p->ops->stream_close(p->stream[s]);
    for (unsigned i = 0; i < PLACES; i++) {
        p->ops->event_close(p->written[i]);
        for (unsigned s = 0; s < STREAMS; s++)
            p->ops->event_close(p->read[i][s]);
        (i < BUFFERS ? p->ops->free : p->ops->pinned_free)(p->space,
                                                           p->place[i], BYTES);
    }
    p->ops->free(p->space, p->index, ROWS * sizeof(*p->index));
    p->ops->close(p->space);
}

/* The state before a program: numbers, and a permutation of the rows. */
static void fill_places(struct program *p)
{
    uint32_t order[ROWS];
    float start[FLOATS];

    for (uint32_t i = 0; i < ROWS; i++)
        order[i] = (i * 5 + 3) % ROWS;
    p->ops->copy(p->stream[0], p->index, order, sizeof(order), SPACE_FROM_HOST);
    for (unsigned i = 0; i < PLACES; i++) {
        for (unsigned j = 0; j < FLOATS; j++)
            start[j] = (float)rng_uniform(&p->rng) + 0.5f;
        if (i < BUFFERS)
            p->ops->copy(p->stream[0], p->place[i], start, BYTES,
                         SPACE_FROM_HOST);
        else
            memcpy(p->place[i], start, BYTES);
    }
    assert_int_equal(
        p->ops->stream_sync(p->stream[0], DEADLINE_DEVICE_MS, NULL), ERR_OK);
}

/* One piece of work of stream @s that reads place @from and writes @to; both of
 * the space. */
static void put_work(struct program *p, struct space_stream *s, unsigned from,
                     unsigned to)
{
    const struct space_rows rows = {.base = p->place[to],
                                    .stride = BYTES / ROWS,
                                    .rows = ROWS,
                                    .index = p->index};
    struct space_rows source = rows;

    source.base = p->place[from];
    switch (rng_below(&p->rng, 6)) {
    case 0:
        p->ops->fill(s, p->place[to], BYTES,
                     0x3f000000 + rng_below(&p->rng, 1000), 4);
        break;
    case 1:
        p->ops->copy(s, p->place[to], p->place[from], BYTES, SPACE_WITHIN);
        break;
    case 2:
        p->ops->gather(s, &source, ROWS, BYTES / ROWS, p->place[to]);
        break;
    case 3:
        p->ops->scatter(s, &rows, ROWS, WIDTH * sizeof(float), p->place[from]);
        break;
    case 4:
        p->ops->add(s, &rows, ROWS, MLT_F32, WIDTH, p->place[from]);
        break;
    default:
        p->ops->update(s, &(struct space_update){.rule = rule_find("rmsprop"),
                                                 .type = MLT_F32,
                                                 .width = WIDTH,
                                                 .slots = 1,
                                                 .params = {0.01f, 0},
                                                 .n = ROWS,
                                                 .rows = rows,
                                                 .sum = p->place[from]});
    }
}

static void step(struct program *p)
{
    unsigned s = (unsigned)rng_below(&p->rng, STREAMS);
    unsigned from = (unsigned)rng_below(&p->rng, PLACES);
    unsigned to = (unsigned)rng_below(&p->rng, PLACES - 1);
    struct space_stream *st = p->stream[s];

    to += to >= from;
    if (from >= BUFFERS && to >= BUFFERS)
        return;
    if (p->waits) {
        p->ops->event_wait(st, p->written[from]);
        p->ops->event_wait(st, p->written[to]);
        for (unsigned i = 0; i < STREAMS; i++)
            p->ops->event_wait(st, p->read[to][i]);
    }
    if (from >= BUFFERS || to >= BUFFERS)
        p->ops->copy(st, p->place[to], p->place[from], BYTES,
                     from >= BUFFERS ? SPACE_FROM_HOST : SPACE_TO_HOST);
    else
        put_work(p, st, from, to);
    p->ops->event_record(st, p->written[to]);
    p->ops->event_record(st, p->read[from][s]);
}

/* Runs it; @out gets all places where no stream failed. */
static enum err run_program(struct program *p, float out[PLACES][FLOATS])
{
    enum err err = ERR_OK;

    fill_places(p);
    for (unsigned i = 0; i < STEPS; i++)
        step(p);
    for (unsigned s = 0; s < STREAMS; s++) {
        enum err of =
            p->ops->stream_sync(p->stream[s], DEADLINE_DEVICE_MS, NULL);

        err = err ? err : of;
    }
    for (unsigned i = 0; i < PLACES && !err; i++) {
        if (i < BUFFERS)
            p->ops->copy(p->stream[0], out[i], p->place[i], BYTES,
                         SPACE_TO_HOST);
        else
            memcpy(out[i], p->place[i], BYTES);
    }
    return err ? err
               : p->ops->stream_sync(p->stream[0], DEADLINE_DEVICE_MS, NULL);
}

static float on_host[PLACES][FLOATS], on_fake[PLACES][FLOATS];

/* Program @seed on the host, then on the fake device. */
static enum err run_both(uint64_t seed, bool waits, uint64_t fails_after)
{
    const struct space_options plain = {0}, late = {.seed = seed ^ 77,
                                                    .fails_after = fails_after};
    struct program p;
    enum err err;

    open_program(&p, &space_host, &plain, seed);
    assert_int_equal(run_program(&p, on_host), ERR_OK);
    close_program(&p);
    open_program(&p, &space_fake, &late, seed);
    p.waits = waits;
    err = run_program(&p, on_fake);
    close_program(&p);
    return err;
}

/* Programs that wait for what they must leave the same bytes, in any order. */
static void test_same_bytes(void **state)
{
    int64_t before = mem_outstanding();

    (void)state;
    for (uint64_t seed = 0; seed < PROGRAMS; seed++) {
        assert_int_equal(run_both(seed, true, 0), ERR_OK);
        if (memcmp(on_host, on_fake, sizeof(on_host)) != 0)
            fail_msg("program %llu", (unsigned long long)seed);
        assert_int_equal(mem_outstanding(), before);
    }
}

/* Those that do not are found out, most of them. */
static void test_no_waits(void **state)
{
    unsigned found = 0, programs = 50;

    (void)state;
    for (uint64_t seed = 0; seed < programs; seed++) {
        assert_int_equal(run_both(seed, false, 0), ERR_OK);
        found += memcmp(on_host, on_fake, sizeof(on_host)) != 0;
    }
    assert_true(found > programs / 2);
}

/* A device that fails at any one piece of work is an error of a stream, and
 * nothing leaks or hangs. */
static void test_failing(void **state)
{
    int64_t before = mem_outstanding();
    unsigned first = BUFFERS + 1; /* before a program begins */

    (void)state;
    for (uint64_t nth = first + 1; nth < first + 20; nth++) {
        assert_int_equal(run_both(nth, true, nth), ERR_IO);
        assert_int_equal(mem_outstanding(), before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bytes),
        cmocka_unit_test(test_no_waits),
        cmocka_unit_test(test_failing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
