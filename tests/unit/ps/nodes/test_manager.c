/* The communication manager: budgets, shares, and networks that are overused.
 */
#include "base/rng.h"
#include "ps/nodes/manager.h"
#include "tests/unit/fixture/check.h"

#include <math.h>
#include <stdio.h>

enum { FRAME_MIN = 300, FRAME_MAX = 1 << 20, SENDS_MAX = 200000 };

#define MS INT64_C(1000000)
#define S (1000 * MS)

/* ---- what left ----------------------------------------------------------- */

struct send {
    int64_t at;
    double bytes;
};
static struct send sends[SENDS_MAX];
static size_t sent;

static void note(int64_t at, size_t bytes)
{
    assert_true(sent < SENDS_MAX);
    sends[sent++] = (struct send){at, (double)bytes};
}

/* The most bytes in any time of @length. */
static double most_within(int64_t length)
{
    double sum = 0, most = 0;
    size_t first = 0;

    for (size_t i = 0; i < sent; i++) {
        sum += sends[i].bytes;
        while (sends[first].at <= sends[i].at - length)
            sum -= sends[first++].bytes;
        most = fmax(most, sum);
    }
    return most;
}

/* Sends for ten seconds whenever there is room, and notices late by up to
 * @late. Returns bytes a second. */
static double send_for_long(struct manager *m, int64_t late, uint64_t seed)
{
    struct rng rng;
    int64_t now = 5 * S, end = 15 * S;
    double bytes = 0;

    rng_init(&rng, seed);
    sent = 0;
    while (now < end) {
        while (manager_has_room(m, now)) {
            size_t n = manager_frame_bytes(m);

            if (rng_below(&rng, 4) == 0)
                n = 1 + rng_below(&rng, n);
            manager_charge(m, MANAGER_CLIENT, n, now);
            note(now, manager_cost(n));
            bytes += (double)manager_cost(n);
            if (rng_below(&rng, 8) == 0 && manager_has_room_to_ack(m, now)) {
                manager_charge_ack(m, 60, now);
                note(now, manager_cost(60));
                bytes += (double)manager_cost(60);
            }
        }
        now = manager_room_at(m);
        if (late)
            now += (int64_t)rng_below(&rng, (uint64_t)late);
    }
    return bytes / 10;
}

/* ---- tests --------------------------------------------------------------- */

/* Over any time the budget and one queue at most; and nearly all of the budget,
 * though whoever sends comes up to ten milliseconds late. */
static void manager_keeps_and_uses_the_budget(void **state)
{
    static const double mbps[] = {10, 100, 800};
    static const int64_t late[] = {0, MS, 10 * MS};

    (void)state;
    for (size_t i = 0; i < 9; i++) {
        double budget = mbps[i / 3] * 1e6 / 8, used;
        struct manager m;

        manager_init(&m, FRAME_MIN, FRAME_MAX);
        manager_set_budget(&m, budget, 5 * S);
        used = send_for_long(&m, late[i % 3], i);
        assert_true(m.queue == budget * MANAGER_QUEUE_MS / 1000);
        assert_true(used >= 0.99 * budget);
        for (int64_t t = MS; t <= S; t *= 10)
            assert_true(most_within(t) <=
                        budget * (double)t / 1e9 + m.queue + 1);
    }
}

/* Bytes that come are acknowledged by TCP, two segments at a time: those bytes
 * are of the budget too. */
static void manager_pays_for_what_comes(void **state)
{
    double budget = 10e6 / 8, level;
    struct manager m;

    (void)state;
    manager_init(&m, FRAME_MIN, FRAME_MAX);
    manager_charge_received(&m, 5000, 0); /* without a budget: nothing waits */
    assert_true(manager_has_room(&m, 0));
    manager_set_budget(&m, budget, S);
    level = m.level;
    manager_charge_received(&m, 10 * 1448 - 9, S);
    assert_true(fabs(m.level - level - 5 * 66) < 1e-6);
    manager_charge_received(&m, 10, S); /* one segment: an acknowledgement */
    assert_true(fabs(m.level - level - 6 * 66) < 1e-6);
    while (manager_has_room(&m, S))
        manager_charge_received(&m, 100000, S);
    for (int i = 0; i < 100; i++)
        manager_charge_received(&m, 100000, S);
    assert_true(m.level > m.queue); /* asks nobody */
    assert_true(manager_room_at(&m) > S);
    assert_true(manager_has_room(&m, manager_room_at(&m)));
}

/* A row as wide as many queues leaves all the same: the queue is then two of
 * them. */
static void manager_wide_rows_make_a_longer_queue(void **state)
{
    struct manager m;
    double used;

    (void)state;
    manager_init(&m, 500000, FRAME_MAX);
    manager_set_budget(&m, 1.25e6, 5 * S);
    assert_int_equal(manager_frame_bytes(&m), 500000);
    used = send_for_long(&m, MS, 3);
    assert_true(used >= 0.99 * 1.25e6);
    assert_true(most_within(S) <= 1.25e6 + m.queue + 1);
    assert_true(m.queue < 2.2 * 500000);
}

/* The budget's headers are what a packet dump shows: a full segment carries
 * 1448 bytes in 1514. */
static void manager_counts_headers(void **state)
{
    (void)state;
    assert_int_equal(manager_cost(40), 40 + 9 + 66);
    assert_int_equal(manager_cost(1439), 1514);
    assert_int_equal(manager_cost(1440), 1440 + 9 + 2 * 66);
}

/* Without a budget nothing waits, whatever is sent; bytes are counted. */
static void manager_without_budget_never_waits(void **state)
{
    struct manager m;

    (void)state;
    manager_init(&m, FRAME_MIN, FRAME_MAX);
    for (int i = 0; i < 1000; i++) {
        assert_true(manager_has_room(&m, 7) && manager_has_room_to_ack(&m, 7));
        assert_int_equal(manager_frame_bytes(&m), FRAME_MAX);
        manager_charge(&m, MANAGER_SERVER, FRAME_MAX, 7);
    }
    assert_true(m.charged > 1000.0 * FRAME_MAX);
    assert_int_equal(manager_room_at(&m), 7);
}

/* Another budget acts at once; what was sent before is not forgotten. */
static void manager_budget_changes(void **state)
{
    struct manager m;

    (void)state;
    manager_init(&m, FRAME_MIN, FRAME_MAX);
    manager_set_budget(&m, 1e6, 0);
    while (manager_has_room(&m, 0))
        manager_charge(&m, MANAGER_CLIENT, manager_frame_bytes(&m), 0);
    manager_set_budget(&m, 1e6, 0); /* the next slice */
    assert_false(manager_has_room(&m, 0));
    manager_set_budget(&m, 2e6, 0);
    assert_true(manager_has_room(&m, 0)); /* a longer queue */
    while (manager_has_room(&m, 0))
        manager_charge(&m, MANAGER_CLIENT, manager_frame_bytes(&m), 0);
    manager_set_budget(&m, 1e5, 0);
    assert_false(manager_has_room(&m, 0));
    assert_true(manager_room_at(&m) < 20 * MS);
    manager_set_budget(&m, 0, 0);
    assert_true(manager_has_room(&m, 0));
}

/* While both sides have something each has half; then the one that has, all,
 * and the other has no claim to what it did not use. */
static void manager_shares_between_client_and_server(void **state)
{
    struct manager m;
    double bytes[MANAGER_STREAMS] = {0};

    (void)state;
    manager_init(&m, FRAME_MIN, FRAME_MAX);
    manager_set_budget(&m, 1e6, 0);
    for (int i = 0; i < 1000; i++) { /* servers alone */
        int64_t at = manager_room_at(&m);

        manager_charge(&m, MANAGER_SERVER, 1000, at);
    }
    for (int i = 0; i < 1000; i++) {
        int64_t at = manager_room_at(&m);
        enum manager_stream turn = manager_turn(&m);
        size_t n = turn == MANAGER_CLIENT ? 1000 : 3000;

        manager_charge(&m, turn, n, at);
        bytes[turn] += (double)n;
    }
    assert_true(bytes[MANAGER_CLIENT] > 0.95 * bytes[MANAGER_SERVER]);
    assert_true(bytes[MANAGER_CLIENT] < 1.05 * bytes[MANAGER_SERVER]);
}

/* Time counts while a frame is ready and has to wait. */
static void manager_counts_waits(void **state)
{
    struct manager m;

    (void)state;
    manager_init(&m, FRAME_MIN, FRAME_MAX);
    manager_set_budget(&m, 1e6, 0);
    manager_note_wait(&m, MANAGER_CLIENT, false, 10);
    manager_note_wait(&m, MANAGER_CLIENT, true, 100);
    manager_note_wait(&m, MANAGER_SERVER, true, 150);
    manager_note_wait(&m, MANAGER_CLIENT, true, 200);
    manager_note_wait(&m, MANAGER_CLIENT, false, 400);
    manager_note_wait(&m, MANAGER_CLIENT, false, 500);
    assert_int_equal(m.wait_ns[MANAGER_CLIENT], 300);
    assert_int_equal(m.wait_ns[MANAGER_SERVER], 0);
    manager_note_wait(&m, MANAGER_SERVER, false, 450);
    assert_int_equal(m.wait_ns[MANAGER_SERVER], 300);
}

/* ---- networks ------------------------------------------------------------ */

/* A wire of @wire_s bytes a second under a budget of @bytes_s, for ten seconds.
 * The receiver acknowledges as ps/nodes/link.h does. */
struct wire_result {
    double used_s, delay_s; /* bytes a second; of the last second, mean */
    uint64_t overused;
    uint32_t window;
};

static struct wire_result run_wire(double bytes_s, double wire_s, double from_s,
                                   double until_s)
{
    struct wire_result out = {0};
    double arrives[MANAGER_WINDOW_MAX], wire_free = 0, now = 0, delays = 0;
    uint64_t got = 0, told = 0, late = 0;
    struct manager_peer p;
    struct manager m;

    manager_init(&m, FRAME_MIN, FRAME_MAX);
    manager_set_budget(&m, bytes_s, 0);
    manager_peer_init(&p, MANAGER_WINDOW_MAX, 0);
    for (; now < 10; now += 1e-4) {
        int64_t ns = (int64_t)(now * 1e9);
        double rate = now >= from_s && now < until_s ? wire_s : bytes_s * 4;

        while (got < p.sent && arrives[(got + 1) % MANAGER_WINDOW_MAX] <= now)
            got++;
        if (got - told >= MANAGER_ACK_EVERY) {
            told = got;
            manager_peer_acked(&p, got, ns);
        }
        while (manager_has_room(&m, ns) && manager_peer_open(&p, ns)) {
            size_t n = manager_frame_bytes(&m);

            manager_charge(&m, MANAGER_CLIENT, n, ns);
            manager_peer_sent(&p, ns);
            wire_free = fmax(wire_free, now) + (double)n / rate;
            arrives[p.sent % MANAGER_WINDOW_MAX] = wire_free + 1e-3;
            out.used_s += (double)n / 10;
            if (now >= 9) {
                delays += wire_free + 1e-3 - now;
                late++;
            }
        }
    }
    out.delay_s = late ? delays / (double)late : 0;
    out.overused = p.overused;
    out.window = p.window;
    return out;
}

/* A network that carries a tenth of the budget is noticed: what is under way
 * shrinks until it is there in less than a second, where a fixed window would
 * keep it waiting for three; and what the network carries is used. */
static void manager_backs_off_where_the_network_carries_less(void **state)
{
    struct wire_result r = run_wire(1e7, 1e6, 0, 10);

    (void)state;
    printf("a tenth: %.2f of the wire, delay %.3f s, window %u, overused %d\n",
           r.used_s / 1e6, r.delay_s, r.window, (int)r.overused);
    assert_true(r.overused > 0);
    assert_true(r.window < MANAGER_WINDOW_MAX / 2);
    assert_true(r.delay_s < 1);
    assert_true(r.used_s > 0.8e6);
}

/* Where it carries the budget nothing is held back; after a second in which it
 * did not, all is used again. */
static void manager_recovers_when_the_network_does(void **state)
{
    struct wire_result r = run_wire(1e7, 1e7, 0, 10);

    (void)state;
    assert_int_equal(r.overused, 0);
    assert_int_equal(r.window, MANAGER_WINDOW_MAX);
    assert_true(r.used_s > 0.93e7); /* without headers */
    r = run_wire(1e7, 1e6, 3, 4);
    assert_true(r.overused > 0);
    assert_true(r.used_s > 0.8e7);
    assert_int_equal(r.window, MANAGER_WINDOW_MAX);
}

/* Acknowledgements that never come stop nothing for ever, and nothing is late
 * that is not due: a few frames, and then none. */
static void manager_lost_acknowledgements_are_no_end(void **state)
{
    struct manager_peer p;
    int64_t now = 0;

    (void)state;
    manager_peer_init(&p, MANAGER_WINDOW_MAX, 100);
    for (int i = 0; i + 1 < MANAGER_ACK_EVERY; i++)
        manager_peer_sent(&p, now);
    assert_true(manager_peer_open(&p, 100 * S));
    assert_true(manager_peer_wake_at(&p) == MANAGER_NEVER);
    manager_peer_sent(&p, 100 * S);
    assert_true(manager_peer_open(&p, 100 * S));
    assert_false(manager_peer_open(&p, 101 * S));
    now = manager_peer_wake_at(&p);
    assert_true(now <= 102 * S);
    assert_true(manager_peer_open(&p, now));
    assert_int_equal(p.overused, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(manager_keeps_and_uses_the_budget),
        cmocka_unit_test(manager_pays_for_what_comes),
        cmocka_unit_test(manager_wide_rows_make_a_longer_queue),
        cmocka_unit_test(manager_counts_headers),
        cmocka_unit_test(manager_without_budget_never_waits),
        cmocka_unit_test(manager_budget_changes),
        cmocka_unit_test(manager_shares_between_client_and_server),
        cmocka_unit_test(manager_counts_waits),
        cmocka_unit_test(manager_backs_off_where_the_network_carries_less),
        cmocka_unit_test(manager_recovers_when_the_network_does),
        cmocka_unit_test(manager_lost_acknowledgements_are_no_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
