/* A ring's two ends: in one thread, in two, and with another end that lies. */
#include "ps/wire/ring.h"

#include "base/mem.h"
#include "base/rng.h"
#include "tests/unit/fixture/check.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

enum { SIZE = 100, MESSAGE_MAX = 1000 };

struct both {
    struct ring_shared shared;
    unsigned char bytes[SIZE];
    struct ring writer, reader;
    struct ring_message message;
};

static void open_both(struct both *b)
{
    memset(b, 0, sizeof(*b));
    ring_init(&b->writer, &b->shared, b->bytes, SIZE);
    ring_init(&b->reader, &b->shared, b->bytes, SIZE);
}

static unsigned char byte_at(uint64_t i)
{
    return (unsigned char)rng_mix(7, i);
}

/* Bytes come in order and unchanged, however the writes and reads lie to the
 * ring's end; never more than there is room for, never more than were written.
 */
static void ring_bytes_come_as_they_were_written(void **state)
{
    unsigned char in[SIZE + 10], out[SIZE + 10];
    uint64_t written = 0, read = 0;
    struct both b;

    (void)state;
    open_both(&b);
    for (uint64_t i = 0; i < 20000; i++) {
        size_t ask = rng_mix(1, i) % sizeof(in), n;

        for (size_t k = 0; k < ask; k++)
            in[k] = byte_at(written + k);
        n = ring_write(&b.writer, in, ask);
        assert_true(n == ask || written + n - read == SIZE);
        written += n;
        assert_int_equal(ring_room(&b.writer), SIZE - (written - read));
        assert_int_equal(ring_filled(&b.reader), written - read);
        assert_int_equal(ring_has_news(&b.shared), written != read);
        ask = rng_mix(2, i) % sizeof(out);
        n = ring_read(&b.reader, out, ask);
        assert_true(n == ask || read + n == written);
        for (size_t k = 0; k < n; k++)
            assert_int_equal(out[k], byte_at(read + k));
        read += n;
    }
    assert_true(written > 100 * SIZE && !b.writer.torn && !b.reader.torn);
}

static void put(struct both *b, const void *bytes, uint32_t n)
{
    assert_int_equal(ring_write(&b->writer, &n, sizeof(n)), sizeof(n));
    assert_int_equal(ring_write(&b->writer, bytes, n), n);
}

/* A message is whole or not there; one longer than the ring passes in parts,
 * and the next one begins behind it. */
static void ring_messages_come_whole(void **state)
{
    unsigned char big[3 * SIZE];
    uint32_t n = sizeof(big);
    size_t at = 0;
    struct both b;

    (void)state;
    open_both(&b);
    assert_int_equal(ring_next(&b.reader, &b.message, MESSAGE_MAX), ERR_AGAIN);
    put(&b, "one", 3);
    put(&b, "three", 5);
    assert_int_equal(ring_next(&b.reader, &b.message, MESSAGE_MAX), ERR_OK);
    assert_int_equal(b.message.n, 3);
    assert_memory_equal(b.message.bytes, "one", 3);
    assert_int_equal(ring_next(&b.reader, &b.message, MESSAGE_MAX), ERR_OK);
    assert_int_equal(b.message.n, 5);
    assert_memory_equal(b.message.bytes, "three", 5);
    assert_int_equal(ring_next(&b.reader, &b.message, MESSAGE_MAX), ERR_AGAIN);
    for (size_t i = 0; i < sizeof(big); i++)
        big[i] = byte_at(i);
    ring_write(&b.writer, &n, sizeof(n));
    while (at < sizeof(big)) {
        at += ring_write(&b.writer, big + at, sizeof(big) - at);
        assert_int_equal(ring_next(&b.reader, &b.message, MESSAGE_MAX),
                         at < sizeof(big) ? ERR_AGAIN : ERR_OK);
    }
    assert_int_equal(b.message.n, sizeof(big));
    assert_memory_equal(b.message.bytes, big, sizeof(big));
    put(&b, "end", 3);
    assert_int_equal(ring_next(&b.reader, &b.message, MESSAGE_MAX), ERR_OK);
    assert_memory_equal(b.message.bytes, "end", 3);
    ring_message_deinit(&b.message);
}

/* Lengths that cannot be tear the ring, and nothing comes after. */
static void ring_lengths_that_cannot_be_are_refused(void **state)
{
    static const uint32_t length[] = {0, MESSAGE_MAX + 1, UINT32_MAX};

    (void)state;
    for (size_t i = 0; i < sizeof(length) / sizeof(length[0]); i++) {
        struct both b;

        open_both(&b);
        ring_write(&b.writer, &length[i], sizeof(length[i]));
        assert_int_equal(ring_next(&b.reader, &b.message, MESSAGE_MAX),
                         ERR_PROTO);
        put(&b, "x", 1);
        assert_int_equal(ring_next(&b.reader, &b.message, MESSAGE_MAX),
                         ERR_PROTO);
        assert_int_equal(ring_filled(&b.reader), 0);
        ring_message_deinit(&b.message);
    }
}

/* A counter of the other's that went back, or too far, is found and not
 * followed: by reader and writer. */
static void ring_torn_counters_are_refused(void **state)
{
    unsigned char out[SIZE];
    struct both b;

    (void)state;
    for (int i = 0; i < 3; i++) {
        uint64_t head[] = {9, 10 + SIZE + 1, UINT64_MAX};
        uint64_t tail[] = {4, 11, UINT64_MAX};

        open_both(&b);
        assert_int_equal(ring_write(&b.writer, "0123456789", 10), 10);
        assert_int_equal(ring_read(&b.reader, out, 10), 10);
        assert_int_equal(ring_room(&b.writer), SIZE);
        atomic_store(&b.shared.head, head[i]);
        assert_int_equal(ring_filled(&b.reader), 0);
        assert_int_equal(ring_read(&b.reader, out, 10), 0);
        assert_true(b.reader.torn);
        atomic_store(&b.shared.tail, tail[i]);
        assert_int_equal(ring_room(&b.writer), 0);
        assert_int_equal(ring_write(&b.writer, "x", 1), 0);
        assert_true(b.writer.torn);
        /* Nor when it is as it was. */
        atomic_store(&b.shared.head, 10);
        atomic_store(&b.shared.tail, 10);
        assert_int_equal(ring_room(&b.writer), 0);
        assert_int_equal(ring_filled(&b.reader), 0);
    }
}

/* Without memory for a message nothing more comes. */
static void ring_message_without_memory_ends_it(void **state)
{
    struct both b;

    (void)state;
    open_both(&b);
    put(&b, "one", 3);
    mem_fail_at(1, 0);
    assert_int_equal(ring_next(&b.reader, &b.message, MESSAGE_MAX), ERR_NOMEM);
    mem_fail_at(0, 0);
    assert_int_equal(ring_next(&b.reader, &b.message, MESSAGE_MAX), ERR_PROTO);
    ring_message_deinit(&b.message);
}

/* Who sleeps is woken once; who is awake is not; likewise for room. */
static void ring_sleepers_are_woken_once(void **state)
{
    struct both b;

    (void)state;
    open_both(&b);
    assert_false(ring_takes_wake(&b.writer));
    ring_sleep(&b.reader);
    assert_true(ring_takes_wake(&b.writer));
    assert_false(ring_takes_wake(&b.writer));
    ring_sleep(&b.reader);
    ring_stay_awake(&b.reader);
    assert_false(ring_takes_wake(&b.writer));
    assert_false(ring_takes_room(&b.reader));
    ring_wait_room(&b.writer);
    assert_true(ring_takes_room(&b.reader));
    assert_false(ring_takes_room(&b.reader));
}

/* Who waits for room and looks itself sees when more than it knew was read. */
static void ring_room_that_comes_is_seen(void **state)
{
    struct both b;
    char byte;

    (void)state;
    open_both(&b);
    put(&b, "one", 3);
    assert_false(ring_moved_on(b.writer.shared, 0));
    assert_int_equal(ring_read(&b.reader, &byte, 1), 1);
    assert_true(ring_moved_on(b.writer.shared, 0));
    assert_false(ring_moved_on(b.writer.shared, 1));
}

enum { MESSAGES = 20000 };

static void *write_messages(void *arg)
{
    struct both *b = arg;
    unsigned char bytes[2 * SIZE];

    for (uint64_t i = 0; i < MESSAGES; i++) {
        uint32_t n = 1 + (uint32_t)(rng_mix(3, i) % sizeof(bytes));
        unsigned char part[sizeof(n) + sizeof(bytes)];
        size_t at = 0;

        memcpy(part, &n, sizeof(n));
        for (uint32_t k = 0; k < n; k++)
            part[sizeof(n) + k] = byte_at(i + k);
        while (at < sizeof(n) + n) {
            size_t wrote =
                ring_write(&b->writer, part + at, sizeof(n) + n - at);

            at += wrote;
            if (!wrote)
                sched_yield();
        }
    }
    return NULL;
}

/* Two threads: every message comes, whole and in order. */
static void ring_two_threads_agree(void **state)
{
    pthread_t thread;
    struct both b;
    uint64_t got = 0;

    (void)state;
    open_both(&b);
    assert_int_equal(pthread_create(&thread, NULL, write_messages, &b), 0);
    while (got < MESSAGES) {
        enum err err = ring_next(&b.reader, &b.message, MESSAGE_MAX);

        if (err == ERR_AGAIN) {
            sched_yield();
            continue;
        }
        assert_int_equal(err, ERR_OK);
        assert_int_equal(b.message.n, 1 + rng_mix(3, got) % (2 * SIZE));
        for (size_t k = 0; k < b.message.n; k++)
            assert_int_equal(b.message.bytes[k], byte_at(got + k));
        got++;
    }
    pthread_join(thread, NULL);
    ring_message_deinit(&b.message);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ring_bytes_come_as_they_were_written),
        cmocka_unit_test(ring_messages_come_whole),
        cmocka_unit_test(ring_lengths_that_cannot_be_are_refused),
        cmocka_unit_test(ring_torn_counters_are_refused),
        cmocka_unit_test(ring_message_without_memory_ends_it),
        cmocka_unit_test(ring_sleepers_are_woken_once),
        cmocka_unit_test(ring_room_that_comes_is_seen),
        cmocka_unit_test(ring_two_threads_agree),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
