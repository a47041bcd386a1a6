#include "base/json/json.h"
#include "base/mem.h"
#include "searchers/built_in.h"

#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/searcher_suite.h"
#include "tests/unit/fixture/space_text.h"

#include <math.h>

/* A searcher made for these tests: proposes what it is told to, and can fail.
 */
struct fake {
    struct setting next;
    enum err ask_err, tell_err;
    int tells, closed;
};
static struct fake fake;

static enum err fake_open(const struct space *space, const json_t *settings,
                          uint64_t seed, void **state, struct fault *f)
{
    (void)space;
    (void)seed;
    (void)f;
    assert_int_equal(json_integer_value(json_object_get(settings, "n")), 7);
    *state = &fake;
    return ERR_OK;
}

static void fake_close(void *state)
{
    ((struct fake *)state)->closed++;
}

static enum err fake_ask(void *state, const struct searcher_query *q,
                         struct setting *out, struct fault *f)
{
    (void)q;
    (void)f;
    *out = ((struct fake *)state)->next;
    return ((struct fake *)state)->ask_err;
}

static enum err fake_tell(void *state, const struct observation *o,
                          struct fault *f)
{
    (void)o;
    (void)f;
    ((struct fake *)state)->tells++;
    return ((struct fake *)state)->tell_err;
}

static const struct searcher_ops fake_ops = {
    .name = "fake",
    .summary = "for tests",
    .settings = "{\"type\": \"object\", \"properties\": {\"n\": {\"type\": "
                "\"integer\", \"minimum\": 1, \"default\": 7}}}",
    .open = fake_open,
    .close = fake_close,
    .ask = fake_ask,
    .tell = fake_tell};

static struct searcher *open_fake(struct space *space)
{
    struct searcher *s = NULL;

    memset(&fake, 0, sizeof(fake));
    assert_int_equal(
        space_from_text("{\"lr\": {\"type\": \"float\", \"min\": 1, \"max\": "
                        "2}, \"fix\": {\"type\": \"int\", \"fixed\": 3}}",
                        space, NULL),
        ERR_OK);
    assert_int_equal(searcher_open(&fake_ops, space, NULL, 1, &s, NULL),
                     ERR_OK);
    return s;
}

/* A proposal outside the space is the searcher's fault, told with tunable and
 * name, and nothing is written; one inside passes. */
static void searcher_ask_foreign_proposal_is_refused(void **state)
{
    struct space space;
    struct searcher *s = open_fake(&space);
    struct setting x = {.value = {42}};
    struct fault f;

    (void)state;
    fake.next = (struct setting){.value = {2.5, 3}};
    assert_int_equal(searcher_ask(s, NULL, 0, NULL, &x, &f), ERR_PROTO);
    assert_non_null(strstr(f.text, "fake"));
    assert_non_null(strstr(f.text, "lr"));
    fake.next.value[0] = NAN;
    assert_int_equal(searcher_ask(s, NULL, 0, NULL, &x, &f), ERR_PROTO);
    fake.next = (struct setting){.value = {1.5, 4}};
    assert_int_equal(searcher_ask(s, NULL, 0, NULL, &x, &f), ERR_PROTO);
    assert_true(x.value[0] == 42);
    fake.next.value[1] = 3;
    assert_int_equal(searcher_ask(s, NULL, 0, NULL, &x, &f), ERR_OK);
    assert_true(x.value[0] == 1.5);
    searcher_close(s);
    assert_int_equal(fake.closed, 1);
}

/* "Not now" and "exhausted" come through as they are. */
static void searcher_ask_codes_come_through(void **state)
{
    struct space space;
    struct searcher *s = open_fake(&space);
    struct setting x;

    (void)state;
    fake.ask_err = ERR_AGAIN;
    assert_int_equal(searcher_ask(s, NULL, 0, NULL, &x, NULL), ERR_AGAIN);
    fake.ask_err = ERR_EXHAUSTED;
    assert_int_equal(searcher_ask(s, NULL, 0, NULL, &x, NULL), ERR_EXHAUSTED);
    searcher_close(s);
}

/* Observations that cannot be are refused before the searcher hears them. */
static void searcher_tell_refuses_nonsense(void **state)
{
    struct space space;
    struct searcher *s = open_fake(&space);
    const struct observation good = {
        .setting = {.value = {1.5, 3}}, .speed = 1, .resource = 1};
    struct observation o;
    struct fault f;
    size_t n;

    (void)state;
    o = good;
    o.speed = NAN;
    assert_int_equal(searcher_tell(s, &o, &f), ERR_INVAL);
    o.speed = INFINITY;
    assert_int_equal(searcher_tell(s, &o, &f), ERR_INVAL);
    o.speed = -1;
    assert_int_equal(searcher_tell(s, &o, &f), ERR_INVAL);
    o = good;
    o.resource = -1;
    assert_int_equal(searcher_tell(s, &o, &f), ERR_INVAL);
    o = good;
    o.outcome = OUTCOME_COUNT;
    assert_int_equal(searcher_tell(s, &o, &f), ERR_INVAL);
    o = good;
    o.setting.value[0] = 3;
    assert_int_equal(searcher_tell(s, &o, &f), ERR_INVAL);
    assert_non_null(strstr(f.text, "lr"));
    assert_int_equal(fake.tells, 0);
    assert_int_equal(searcher_tell(s, &good, &f), ERR_OK);
    o = good;
    o.setting.value[0] = 1.25;
    assert_int_equal(searcher_tell(s, &o, &f), ERR_INVAL);
    searcher_told(s, &n);
    assert_int_equal(n, 1);
    searcher_close(s);
}

/* When the implementation cannot take an observation in, it is as if it had not
 * been told, whether the trial is new or known. */
static void searcher_tell_failure_takes_it_back(void **state)
{
    struct space space;
    struct searcher *s = open_fake(&space);
    struct observation o = {
        .trial = 4, .setting = {.value = {1.5, 3}}, .speed = 1};
    const struct observation *told;
    size_t n;

    (void)state;
    fake.tell_err = ERR_IO;
    assert_int_equal(searcher_tell(s, &o, NULL), ERR_IO);
    searcher_told(s, &n);
    assert_int_equal(n, 0);
    fake.tell_err = ERR_OK;
    assert_int_equal(searcher_tell(s, &o, NULL), ERR_OK);
    fake.tell_err = ERR_NOMEM;
    o.speed = 9;
    assert_int_equal(searcher_tell(s, &o, NULL), ERR_NOMEM);
    told = searcher_told(s, &n);
    assert_int_equal(n, 1);
    assert_true(told[0].speed == 1);
    searcher_close(s);
}

/* Settings are checked against the schema and completed before open sees them;
 * those that do not fit are refused with expected and found. */
static void searcher_open_checks_settings(void **state)
{
    struct space space;
    struct searcher *s = open_fake(&space), *other = NULL;
    json_t *settings = json_pack("{s:i}", "n", 0);
    struct fault f;

    (void)state;
    assert_int_equal(searcher_open(&fake_ops, &space, settings, 1, &other, &f),
                     ERR_INVAL);
    assert_string_equal(f.text, "searcher_settings: /n: expected a whole "
                                "number of at least 1, found 0");
    assert_null(other);
    json_decref(settings);
    searcher_close(s);
    searcher_close(NULL);
}

/* ---- a fallback ---------------------------------------------------------- */

static const struct searcher_ops *fake_fallback(const void *state)
{
    (void)state;
    return &searcher_random;
}

static const struct searcher_ops faulty_ops = {
    .name = "faulty",
    .summary = "for tests",
    .settings = "{\"type\": \"object\", \"properties\": {\"n\": {\"type\": "
                "\"integer\", \"default\": 7}}}",
    .open = fake_open,
    .close = fake_close,
    .ask = fake_ask,
    .tell = fake_tell,
    .fallback = fake_fallback};

static struct searcher *open_faulty(void)
{
    struct space space;
    struct searcher *s = NULL;

    memset(&fake, 0, sizeof(fake));
    assert_int_equal(
        space_from_text("{\"a\": {\"type\": \"int\", \"min\": 1, \"max\": "
                        "3}}",
                        &space, NULL),
        ERR_OK);
    assert_int_equal(searcher_open(&faulty_ops, &space, NULL, 1, &s, NULL),
                     ERR_OK);
    fake.next.value[0] = 2;
    return s;
}

/* Proposals of the fallback until it has nothing left. */
static size_t ask_out(struct searcher *s, uint64_t trial)
{
    struct observation o = {.outcome = OUTCOME_SPEED, .speed = 1};
    size_t n = 0;

    while (searcher_ask(s, NULL, 0, NULL, &o.setting, NULL) == ERR_OK) {
        o.trial = trial + n++;
        assert_int_equal(searcher_tell(s, &o, NULL), ERR_OK);
    }
    return n;
}

/* A searcher that fails, or proposes what is not in the space, is replaced once
 * by its fallback, which knows what was told: of three settings one is gone. */
static void searcher_fallback_takes_over(void **state)
{
    const enum err errors[] = {ERR_IO, ERR_TIMEOUT, ERR_PROTO, ERR_OK};
    struct observation o = {
        .setting = {.value = {2}}, .outcome = OUTCOME_SPEED, .speed = 1};

    (void)state;
    for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
        struct searcher *s = open_faulty();

        assert_int_equal(searcher_tell(s, &o, NULL), ERR_OK);
        assert_null(searcher_fallen(s));
        fake.ask_err = errors[i];
        fake.next.value[0] = 17;
        assert_int_equal(ask_out(s, 1), 2);
        assert_non_null(strstr(searcher_fallen(s), "random goes on"));
        assert_ptr_equal(searcher_ops_of(s), &searcher_random);
        assert_int_equal(fake.closed, 1);
        searcher_close(s);
        assert_int_equal(fake.closed, 1);
    }
}

/* So it is when telling fails; what was told is not lost. */
static void searcher_fallback_takes_over_a_tell(void **state)
{
    struct searcher *s = open_faulty();
    struct observation o = {
        .setting = {.value = {2}}, .outcome = OUTCOME_SPEED, .speed = 1};
    size_t n;

    (void)state;
    fake.tell_err = ERR_IO;
    assert_int_equal(searcher_tell(s, &o, NULL), ERR_OK);
    searcher_told(s, &n);
    assert_int_equal(n, 1);
    assert_non_null(searcher_fallen(s));
    assert_int_equal(ask_out(s, 1), 2);
    searcher_close(s);
}

/* No answer yet, nothing left and no memory are no faults. */
static void searcher_fallback_waits_for_faults(void **state)
{
    const enum err errors[] = {ERR_AGAIN, ERR_EXHAUSTED, ERR_NOMEM};
    struct searcher *s = open_faulty();
    struct setting x;

    (void)state;
    for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
        fake.ask_err = errors[i];
        assert_int_equal(searcher_ask(s, NULL, 0, NULL, &x, NULL), errors[i]);
        assert_null(searcher_fallen(s));
    }
    searcher_close(s);
}

/* Without memory for the fallback nothing has changed: it is tried again. */
static void searcher_fallback_survives_want_of_memory(void **state)
{
    struct searcher *s = open_faulty();
    int failed = 1;

    (void)state;
    fake.ask_err = ERR_IO;
    for (int nth = 1; failed; nth++) {
        struct setting x;
        enum err err;

        mem_fail_at(nth, 0);
        err = searcher_ask(s, NULL, 0, NULL, &x, NULL);
        failed = mem_failed();
        mem_fail_at(0, 0);
        assert_int_equal(err, failed ? ERR_NOMEM : ERR_OK);
        assert_int_equal(searcher_fallen(s) != NULL, !failed);
    }
    searcher_close(s);
}

/* ---- marginal ------------------------------------------------------------ */

static const char plane_text[] =
    "{\"lr\": {\"type\": \"float\", \"min\": 1e-4, \"max\": 1, \"scale\": "
    "\"log\"}, \"rule\": {\"type\": \"categorical\", \"values\": [\"a\", "
    "\"b\"]}, \"beta\": {\"type\": \"float\", \"min\": 0, \"max\": 1, "
    "\"when\": {\"rule\": \"b\"}}, \"n\": {\"type\": \"int\", \"min\": 1, "
    "\"max\": 3}}";

/* Axes of @space along which @x and @y differ while both act. */
static size_t moved(const struct space *space, const struct setting *x,
                    const struct setting *y, size_t seen[])
{
    size_t n = 0;

    for (size_t i = 0; i < space->len; i++)
        if (space_active(space, x, i) && space_active(space, y, i) &&
            x->value[i] != y->value[i]) {
            seen[i]++;
            n++;
        }
    return n;
}

/* With a setting in use, one tunable at a time moves, each in turn, until their
 * lines are tried whole; without one the base searches the whole space. */
static void marginal_moves_one_tunable_at_a_time(void **state)
{
    size_t seen[TUNABLES_MAX] = {0};
    struct observation o = {.outcome = OUTCOME_SPEED};
    struct space space;
    struct searcher *s;
    struct setting incumbent;

    (void)state;
    assert_int_equal(space_from_text(plane_text, &space, NULL), ERR_OK);
    assert_int_equal(
        searcher_open(&searcher_marginal, &space, NULL, 5, &s, NULL), ERR_OK);
    space_default(&space, &incumbent);
    incumbent.value[1] = 1; /* rule b: beta acts */
    incumbent.value[2] = 0.25;
    for (uint64_t i = 0; i < 11; i++) {
        o.trial = i;
        o.speed = (double)i;
        assert_int_equal(searcher_ask(s, NULL, 0, &incumbent, &o.setting, NULL),
                         ERR_OK);
        assert_int_equal(moved(&space, &o.setting, &incumbent, seen), 1);
        assert_int_equal(searcher_tell(s, &o, NULL), ERR_OK);
    }
    assert_int_equal(seen[0], 4);
    assert_int_equal(seen[1], 1);
    assert_int_equal(seen[2], 4);
    assert_int_equal(seen[3], 2);
    searcher_close(s);
}

/* Without a setting in use it is its base. */
static void marginal_without_incumbent_is_its_base(void **state)
{
    struct searcher *s, *base;
    struct space space;

    (void)state;
    assert_int_equal(space_from_text(plane_text, &space, NULL), ERR_OK);
    assert_int_equal(
        searcher_open(&searcher_marginal, &space, NULL, 5, &s, NULL), ERR_OK);
    assert_int_equal(searcher_open(&searcher_tpe, &space, NULL, 5, &base, NULL),
                     ERR_OK);
    for (uint64_t i = 0; i < 20; i++) {
        struct observation o = {.trial = i, .speed = (double)(i % 7)};
        struct setting x;

        assert_int_equal(searcher_ask(s, NULL, 0, NULL, &o.setting, NULL),
                         ERR_OK);
        assert_int_equal(searcher_ask(base, NULL, 0, NULL, &x, NULL), ERR_OK);
        assert_true(space_equal(&space, &o.setting, &x));
        assert_int_equal(searcher_tell(s, &o, NULL), ERR_OK);
        assert_int_equal(searcher_tell(base, &o, NULL), ERR_OK);
    }
    searcher_close(s);
    searcher_close(base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(searcher_ask_foreign_proposal_is_refused),
        cmocka_unit_test(searcher_ask_codes_come_through),
        cmocka_unit_test(searcher_tell_refuses_nonsense),
        cmocka_unit_test(searcher_tell_failure_takes_it_back),
        cmocka_unit_test(searcher_open_checks_settings),
        cmocka_unit_test(searcher_fallback_takes_over),
        cmocka_unit_test(searcher_fallback_takes_over_a_tell),
        cmocka_unit_test(searcher_fallback_waits_for_faults),
        cmocka_unit_test(searcher_fallback_survives_want_of_memory),
        cmocka_unit_test(marginal_moves_one_tunable_at_a_time),
        cmocka_unit_test(marginal_without_incumbent_is_its_base),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    for (size_t i = 0; searchers_built_in[i]; i++) {
        const struct searcher_suite suite = {.ops = searchers_built_in[i],
                                             .name =
                                                 searchers_built_in[i]->name,
                                             .few = 30};

        failed += searcher_suite_run(&suite);
    }
    return failed;
}
