#include "base/json.h"
#include "base/mem.h"
#include "searchers/searcher.h"
#include "searchers/space_json.h"

#include "tests/unit/check.h"
#include "tests/unit/searcher_suite.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(searcher_ask_foreign_proposal_is_refused),
        cmocka_unit_test(searcher_ask_codes_come_through),
        cmocka_unit_test(searcher_tell_refuses_nonsense),
        cmocka_unit_test(searcher_tell_failure_takes_it_back),
        cmocka_unit_test(searcher_open_checks_settings),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    for (size_t i = 0; searchers_built_in[i]; i++)
        failed += searcher_suite_run(searchers_built_in[i]);
    return failed;
}
