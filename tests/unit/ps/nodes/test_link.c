#include "ps/nodes/link.h"

#include "tests/unit/fixture/check.h"

enum { RUN = 0xabc, WINDOW = 4 };

static struct frame one_frame(struct link *from)
{
    struct frame f = {.kind = FRAME_DRAINED}, got;
    unsigned char bytes[FRAME_FIXED_BYTES_MAX];
    struct frame_writer w;
    size_t n;

    frame_begin(&w, &f, bytes, sizeof(bytes));
    n = frame_end(&w);
    link_send(from, bytes);
    assert_int_equal(frame_decode(bytes, n, &got, NULL), ERR_OK);
    return got;
}

static struct frame one_ack(struct link *from)
{
    unsigned char bytes[FRAME_FIXED_BYTES_MAX];
    struct frame got;
    size_t n = link_ack(from, bytes, sizeof(bytes));

    assert_int_equal(frame_decode(bytes, n, &got, NULL), ERR_OK);
    return got;
}

static void pair(struct link *a, struct link *b)
{
    link_init(a, RUN, 1, 2, WINDOW);
    link_init(b, RUN, 2, 1, WINDOW);
}

/* Frames are taken in order; the window closes, and opens when they have been
 * acknowledged. */
static void link_window_closes_and_opens(void **state)
{
    struct link a, b;
    struct frame f;

    (void)state;
    pair(&a, &b);
    for (int i = 0; i < WINDOW; i++) {
        assert_true(link_open(&a));
        f = one_frame(&a);
        assert_int_equal(link_owes_ack(&b), i >= WINDOW / 2);
        assert_int_equal(link_take(&b, &f, NULL), ERR_OK);
    }
    assert_false(link_open(&a));
    assert_true(link_owes_ack(&b));
    f = one_ack(&b);
    assert_false(link_owes_ack(&b));
    link_ack_every(&b, WINDOW); /* later than half the window: never */
    assert_int_equal(b.ack_every, (WINDOW + 1) / 2);
    link_ack_every(&b, 1);
    assert_int_equal(b.ack_every, 1);
    link_ack_every(&b, 0);
    assert_int_equal(b.ack_every, (WINDOW + 1) / 2);
    assert_int_equal(link_take(&a, &f, NULL), ERR_OK);
    assert_true(link_open(&a));
    assert_true(a.acked == WINDOW);
}

/* A frame taken before, or one that comes too early, is refused; so are
 * replayed acknowledgements; the conversation goes on. */
static void link_refuses_replays_and_gaps(void **state)
{
    struct frame first, second, ack;
    struct fault fault;
    struct link a, b;

    (void)state;
    pair(&a, &b);
    first = one_frame(&a);
    second = one_frame(&a);
    assert_int_equal(link_take(&b, &second, &fault), ERR_PROTO);
    assert_non_null(strstr(fault.text, "before others"));
    assert_int_equal(link_take(&b, &first, NULL), ERR_OK);
    assert_int_equal(link_take(&b, &first, &fault), ERR_PROTO);
    assert_non_null(strstr(fault.text, "taken before"));
    assert_int_equal(link_take(&b, &second, NULL), ERR_OK);
    ack = one_ack(&b);
    assert_int_equal(link_take(&a, &ack, NULL), ERR_OK);
    assert_int_equal(link_take(&a, &ack, NULL), ERR_PROTO);
}

/* After a break all goes again that is not acknowledged, and is taken once:
 * what came before is refused, what was lost on the way is not. */
static void link_says_what_goes_again(void **state)
{
    struct frame frame[3], ack;
    struct link a, b;

    (void)state;
    pair(&a, &b);
    assert_true(link_again(&a) == a.sent + 1);
    for (int i = 0; i < 3; i++)
        frame[i] = one_frame(&a);
    assert_int_equal(link_take(&b, &frame[0], NULL), ERR_OK);
    ack = one_ack(&b);
    assert_int_equal(link_take(&b, &frame[1], NULL), ERR_OK);
    assert_int_equal(link_take(&a, &ack, NULL), ERR_OK);
    assert_true(link_again(&a) == 2 && a.sent == 3);
    assert_int_equal(link_take(&b, &frame[1], NULL), ERR_PROTO);
    assert_int_equal(link_take(&b, &frame[2], NULL), ERR_OK);
    assert_true(b.got == 3);
}

/* An acknowledgement that was lost is made good by the next. */
static void link_takes_what_a_lost_acknowledgement_said(void **state)
{
    struct frame frame, lost, next;
    struct link a, b;

    (void)state;
    pair(&a, &b);
    frame = one_frame(&a);
    assert_int_equal(link_take(&b, &frame, NULL), ERR_OK);
    lost = one_ack(&b);
    next = one_ack(&b);
    assert_int_equal(link_take(&a, &next, NULL), ERR_OK);
    assert_true(a.acked == 1 && a.acks_got == 2);
    assert_int_equal(link_take(&a, &lost, NULL), ERR_PROTO);
}

/* Frames of another run, of another node, and acknowledgements of what was
 * never sent change nothing. */
static void link_refuses_the_foreign(void **state)
{
    struct link a, b, other;
    struct frame f;

    (void)state;
    pair(&a, &b);
    link_init(&other, RUN + 1, 1, 2, WINDOW);
    f = one_frame(&other);
    assert_int_equal(link_take(&b, &f, NULL), ERR_PROTO);
    link_init(&other, RUN, 3, 2, WINDOW);
    f = one_frame(&other);
    assert_int_equal(link_take(&b, &f, NULL), ERR_PROTO);
    b.got = 7;
    f = one_ack(&b);
    assert_int_equal(link_take(&a, &f, NULL), ERR_PROTO);
    assert_true(a.acked == 0 && a.acks_got == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(link_window_closes_and_opens),
        cmocka_unit_test(link_refuses_replays_and_gaps),
        cmocka_unit_test(link_says_what_goes_again),
        cmocka_unit_test(link_takes_what_a_lost_acknowledgement_said),
        cmocka_unit_test(link_refuses_the_foreign),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
