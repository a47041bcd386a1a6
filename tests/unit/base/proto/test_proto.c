/* The codec of the control protocol: what goes in comes out, and nothing else
 * is let in. */
#include "base/json/json.h"
#include "base/mem.h"
#include "base/proto/proto.h"
#include "base/proto/proto_table.h"
#include "base/proto/table_info.h"
#include "base/rng.h"

#include <math.h>
#include <stdio.h>

#include "tests/unit/fixture/check.h"

/* ---- random messages ----------------------------------------------------- */

static uint64_t any_count(struct rng *r)
{
    /* All magnitudes alike: the ends of the range are where codecs break. */
    return rng_next(r) >> (1 + rng_below(r, 63));
}

static branch_id any_branch(struct rng *r)
{
    return (branch_id)rng_below(r, BRANCH_NONE);
}

static double any_real(struct rng *r)
{
    static const double odd[] = {0.0,    -0.0,     1e-308,    5e-324, 1e308,
                                 -1e308, INFINITY, -INFINITY, 1.0 / 3};
    if (rng_below(r, 4) == 0)
        return odd[rng_below(r, sizeof(odd) / sizeof(*odd))];
    return ldexp(rng_uniform(r) - 0.5, (int)rng_below(r, 200) - 100);
}

static double any_seconds(struct rng *r)
{
    double x = any_real(r);

    return isfinite(x) ? fabs(x) : 0;
}

static void any_text(struct rng *r, char *out, size_t min, size_t max)
{
    static const char *const parts[] = {
        "a",   "Z", "0", "\"", "\\", "\n", "/", "ü", "€", "\xf0\x9f\x90\x8d",
        "\x01"};
    size_t want = min + rng_below(r, max - min + 1), n = 0, k;

    while (n < want) {
        const char *p = parts[rng_below(r, sizeof(parts) / sizeof(*parts))];

        k = strlen(p);
        if (n + k > max)
            p = "x", k = 1;
        memcpy(out + n, p, k);
        n += k;
    }
    out[n] = 0;
}

static json_t *any_setting(struct rng *r)
{
    json_t *o = json_object();
    char name[PROTO_NAME_MAX + 1], text[33];
    int i, n = (int)rng_below(r, 6);

    for (i = 0; i < n; i++) {
        any_text(r, name, 1, PROTO_NAME_MAX);
        any_text(r, text, 0, 32);
        json_object_set_new(o, name,
                            rng_below(r, 3) == 0 ? json_string(text)
                            : rng_below(r, 2)    ? json_real(any_seconds(r))
                                                 : json_integer(7));
    }
    return o;
}

static json_t *any_rows(struct rng *r, uint32_t count, int integers)
{
    json_t *rows = json_array();
    uint32_t i, k, width = 1 + (uint32_t)rng_below(r, 5);

    for (i = 0; i < count; i++) {
        json_t *row = json_array();

        for (k = 0; k < width; k++)
            json_array_append_new(row, integers ? json_integer((json_int_t)i)
                                                : json_real(any_seconds(r)));
        json_array_append_new(rows, row);
    }
    return rows;
}

static void any_windows(struct rng *r, struct msg_report *m)
{
    uint32_t i;

    m->windows = 1 + (uint32_t)rng_below(r, rng_below(r, 20) ? 12 : 1000);
    m->window = mem_calloc(m->windows, sizeof(*m->window));
    for (i = 0; i < m->windows; i++)
        m->window[i] = (struct progress_window){
            .sum = any_real(r),
            .samples = any_count(r),
            .clocks = 1 + any_count(r) / 2,
            .seconds = any_seconds(r),
            .wait_s = any_seconds(r),
            .copy_s = any_seconds(r),
            .stalled_s = any_seconds(r),
        };
}

/* Further metrics, or none. */
static json_t *any_values(struct rng *r, uint32_t windows)
{
    json_t *o = rng_below(r, 2) ? json_object() : NULL;
    uint32_t n = (uint32_t)rng_below(r, EXTRAS_MAX + 1);
    char name[64];

    for (uint32_t i = 0; o && i < n; i++) {
        json_t *column = json_array();

        for (uint32_t k = 0; k < windows; k++)
            json_array_append_new(column, rng_below(r, 3)
                                              ? json_of_number(any_real(r))
                                              : json_null());
        snprintf(name, sizeof(name), "v%u/a metric_of:any-kind.", i);
        json_object_set_new(o, name, column);
    }
    return o;
}

static json_t *any_tables(struct rng *r)
{
    json_t *array = json_array();
    int i, n = (int)rng_below(r, 4);

    for (i = 0; i < n; i++) {
        struct table_info t = {
            .rows = 1 + any_count(r) / 2,
            .width = 1 + (uint32_t)rng_below(r, 1000),
            .type = (enum table_type)rng_below(r, TABLE_TYPE_COUNT),
            .access = (enum table_access)rng_below(r, TABLE_ACCESS_COUNT),
            .rule = "sgd",
            .saved = rng_below(r, 2),
        };

        snprintf(t.name, sizeof(t.name), "table_%d", i);
        json_array_append_new(array, table_info_to_json(&t));
    }
    return array;
}

static void any_ready(struct rng *r, struct msg_ready *m)
{
    static const char *const reductions[] = {"mean", "sqrt_mean", "exp_mean"};

    m->samples = 1 + any_count(r) / 2;
    m->validation_samples = any_count(r);
    m->parts = any_count(r);
    m->workers = 1 + (uint32_t)rng_below(r, UINT32_MAX);
    m->tunables = json_pack("[ss]", "learning_rate", "ü");
    any_text(r, m->metric, 0, sizeof(m->metric) - 1);
    m->metric_higher_better = rng_below(r, 2);
    strcpy(m->metric_reduction, reductions[rng_below(r, 3)]);
    m->loss_floor = any_real(r);
    m->model_bytes = any_count(r);
    if (rng_below(r, 2))
        m->tables = any_tables(r);
    if (rng_below(r, 2))
        m->files = json_pack("[{s:s, s:I, s:I}]", "path", "/ü", "bytes",
                             (json_int_t)any_count(r) / 2, "sum",
                             (json_int_t)any_count(r) / 2);
    m->cuts = (enum proto_cuts)rng_below(r, CUTS_COUNT);
}

/* The counts of a beat that are all of one type, in the order of the struct. */
enum { BEAT_COUNTS = 31 };

static uint64_t *beat_count(struct msg_beat *m, int i)
{
    uint64_t *const all[BEAT_COUNTS] = {&m->memory_bytes,
                                        &m->memory_reserved_bytes,
                                        &m->memory_limit_bytes,
                                        &m->memory_saved_bytes,
                                        &m->device_bytes,
                                        &m->device_limit_bytes,
                                        &m->device_bytes_in,
                                        &m->device_bytes_out,
                                        &m->device_waits,
                                        &m->chunks_shared,
                                        &m->chunks_private,
                                        &m->bytes_copied,
                                        &m->bytes_sent,
                                        &m->bytes_received,
                                        &m->data_bytes_sent,
                                        &m->data_bytes_received,
                                        &m->data_frames_sent,
                                        &m->data_frames_received,
                                        &m->data_frames_ignored,
                                        &m->rows_updated,
                                        &m->rows_asked,
                                        &m->rows_got,
                                        &m->rows_due,
                                        &m->rows_early,
                                        &m->rows_answered,
                                        &m->rows_pushed,
                                        &m->rows_pushed_early,
                                        &m->bytes_charged,
                                        &m->overused,
                                        &m->early_suspended,
                                        &m->clocks};

    return all[i];
}

static void any_beat(struct rng *r, struct msg_beat *m)
{
    int i;

    for (i = 0; i < BEAT_COUNTS; i++)
        *beat_count(m, i) = any_count(r);
    m->node = (uint32_t)rng_next(r);
    m->workers = (uint32_t)rng_next(r);
    m->branches = (uint32_t)rng_next(r);
    m->seconds = any_seconds(r);
    m->wait_s = any_seconds(r);
    m->copy_s = any_seconds(r);
    m->stalled_s = any_seconds(r);
    m->client_wait_s = any_seconds(r);
    m->server_wait_s = any_seconds(r);
    for (i = (int)rng_below(r, 20); i > 0; i--)
        staleness_add(&m->staleness, (int64_t)rng_below(r, 90) - 50);
    m->held = (uint32_t)rng_below(r, PROTO_HELD_MAX + 1);
    for (i = 0; i < (int)m->held; i++)
        m->hold[i] =
            (struct msg_held){any_branch(r), any_count(r), any_count(r)};
}

static void any_answer(struct rng *r, struct msg *m)
{
    switch (m->kind) {
    case MSG_HELLO:
        m->hello = (struct msg_hello){
            1 + (uint32_t)rng_below(r, 9), (uint32_t)rng_next(r),
            1 + (uint32_t)rng_below(r, 64), (int64_t)any_count(r)};
        break;
    case MSG_READY:
        any_ready(r, &m->ready);
        break;
    case MSG_FORKED:
        m->forked.branch = any_branch(r);
        break;
    case MSG_DONE:
        m->done =
            (struct msg_done){rng_below(r, 4) ? any_branch(r) : BRANCH_NONE,
                              any_count(r),
                              any_seconds(r),
                              any_count(r),
                              any_count(r),
                              any_count(r),
                              -any_seconds(r),
                              rng_below(r, 2) ? any_rows(r, 3, 0) : NULL};
        break;
    case MSG_FAILED:
        m->failed.branch = rng_below(r, 4) ? any_branch(r) : BRANCH_NONE;
        m->failed.code = (enum err)(1 + rng_below(r, ERR_COUNT - 1));
        any_text(r, m->failed.reason, 0, PROTO_TEXT_MAX - 1);
        break;
    case MSG_REPORT:
        m->report.branch = any_branch(r);
        m->report.first = any_count(r);
        any_windows(r, &m->report);
        m->report.values = any_values(r, m->report.windows);
        break;
    default:
        any_beat(r, &m->beat);
    }
}

static void any_request(struct rng *r, struct msg *m)
{
    switch (m->kind) {
    case MSG_CONFIG:
        m->config.config = any_setting(r);
        m->config.folder = mem_strdup("/a/\"b\\\xc3\xbc");
        m->config.seed = any_count(r);
        break;
    case MSG_FORK:
        m->fork.branch = any_branch(r);
        m->fork.parent = m->fork.branch ? m->fork.branch - 1 : 1;
        m->fork.type = (enum branch_type)(1 + rng_below(r, 4));
        m->fork.setting = any_setting(r);
        break;
    case MSG_FREE:
        m->free.branch = any_branch(r);
        break;
    case MSG_SCHEDULE:
        m->schedule =
            (struct msg_schedule){any_branch(r), any_count(r),
                                  1 + any_count(r) / 2, 1 + any_count(r) / 2};
        break;
    case MSG_CUT:
        m->cut.target = 1 + any_count(r) / 2;
        m->cut.clocks = rng_below(r, 2) ? any_count(r) : 0;
        break;
    case MSG_HOLD:
        m->hold.target = 1 + any_count(r) / 2;
        break;
    case MSG_SNAPSHOT:
    case MSG_RESTORE:
    case MSG_SAVE:
        m->save.branch = any_branch(r);
        any_text(r, m->save.path, 1, PROTO_PATH_MAX - 1);
        break;
    case MSG_ROWS:
        m->rows.branch = any_branch(r);
        any_text(r, m->rows.table, 1, PROTO_NAME_MAX);
        m->rows.first = any_count(r);
        m->rows.count = 1 + (uint32_t)rng_below(r, 5);
        if (rng_below(r, 2)) {
            m->rows.increment = any_rows(r, m->rows.count, 1);
        } else {
            m->rows.from = (uint32_t)rng_below(r, 100);
            m->rows.values = (uint32_t)rng_below(r, 100);
        }
        break;
    default:
        any_text(r, m->stop.reason, 0, PROTO_TEXT_MAX - 1);
    }
}

static struct msg any_message(struct rng *r, enum msg_kind kind)
{
    struct msg m = {.kind = kind, .op = 1 + any_count(r) / 2};

    if (kind < MSG_HELLO)
        any_request(r, &m);
    else
        any_answer(r, &m);
    return m;
}

/* ---- equality ------------------------------------------------------------ */

static int same_real(double a, double b)
{
    return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

static int same_json(const json_t *a, const json_t *b)
{
    return (!a && !b) || json_equal(a, b);
}

static int same_report(const struct msg_report *a, const struct msg_report *b)
{
    uint32_t i;

    if (a->branch != b->branch || a->first != b->first ||
        a->windows != b->windows)
        return 0;
    for (i = 0; i < a->windows; i++) {
        const struct progress_window *x = &a->window[i], *y = &b->window[i];

        if (!same_real(x->sum, y->sum) || x->samples != y->samples ||
            x->clocks != y->clocks || !same_real(x->seconds, y->seconds) ||
            !same_real(x->wait_s, y->wait_s) ||
            !same_real(x->copy_s, y->copy_s) ||
            !same_real(x->stalled_s, y->stalled_s))
            return 0;
    }
    return same_json(a->values, b->values);
}

static int same_ready(const struct msg_ready *a, const struct msg_ready *b)
{
    return a->samples == b->samples &&
           a->validation_samples == b->validation_samples &&
           a->parts == b->parts && a->workers == b->workers &&
           same_json(a->tunables, b->tunables) &&
           strcmp(a->metric, b->metric) == 0 &&
           a->metric_higher_better == b->metric_higher_better &&
           strcmp(a->metric_reduction, b->metric_reduction) == 0 &&
           same_real(a->loss_floor, b->loss_floor) &&
           a->model_bytes == b->model_bytes &&
           same_json(a->tables, b->tables) && a->cuts == b->cuts &&
           same_json(a->metrics, b->metrics);
}

static int same_beat(const struct msg_beat *a, const struct msg_beat *b)
{
    struct msg_beat x = *a, y = *b;
    uint32_t i;

    for (i = 0; i < BEAT_COUNTS; i++)
        if (*beat_count(&x, (int)i) != *beat_count(&y, (int)i))
            return 0;
    for (i = 0; i < x.held; i++)
        if (x.hold[i].branch != y.hold[i].branch ||
            x.hold[i].shared_bytes != y.hold[i].shared_bytes ||
            x.hold[i].private_bytes != y.hold[i].private_bytes)
            return 0;
    return x.node == y.node && x.workers == y.workers &&
           x.branches == y.branches && x.held == y.held &&
           same_real(x.seconds, y.seconds) && same_real(x.wait_s, y.wait_s) &&
           same_real(x.copy_s, y.copy_s) &&
           same_real(x.stalled_s, y.stalled_s) &&
           same_real(x.client_wait_s, y.client_wait_s) &&
           same_real(x.server_wait_s, y.server_wait_s) &&
           memcmp(&x.staleness, &y.staleness, sizeof(x.staleness)) == 0;
}

static int same_answer(const struct msg *a, const struct msg *b)
{
    switch (a->kind) {
    case MSG_HELLO:
        return a->hello.version == b->hello.version &&
               a->hello.node == b->hello.node &&
               a->hello.workers == b->hello.workers &&
               a->hello.pid == b->hello.pid;
    case MSG_READY:
        return same_ready(&a->ready, &b->ready);
    case MSG_FORKED:
        return a->forked.branch == b->forked.branch;
    case MSG_DONE:
        return a->done.branch == b->done.branch &&
               a->done.clocks == b->done.clocks &&
               same_real(a->done.switch_s, b->done.switch_s) &&
               a->done.bytes == b->done.bytes &&
               a->done.data_bytes == b->done.data_bytes &&
               a->done.reads == b->done.reads &&
               same_real(a->done.staleness, b->done.staleness) &&
               same_json(a->done.data, b->done.data);
    case MSG_FAILED:
        return a->failed.branch == b->failed.branch &&
               a->failed.code == b->failed.code &&
               strcmp(a->failed.reason, b->failed.reason) == 0;
    case MSG_REPORT:
        return same_report(&a->report, &b->report);
    default:
        return same_beat(&a->beat, &b->beat);
    }
}

static int same_request(const struct msg *a, const struct msg *b)
{
    switch (a->kind) {
    case MSG_CONFIG:
        return same_json(a->config.config, b->config.config) &&
               strcmp(a->config.folder, b->config.folder) == 0 &&
               a->config.seed == b->config.seed;
    case MSG_FORK:
        return a->fork.branch == b->fork.branch &&
               a->fork.parent == b->fork.parent &&
               a->fork.type == b->fork.type &&
               same_json(a->fork.setting, b->fork.setting);
    case MSG_FREE:
        return a->free.branch == b->free.branch;
    case MSG_SCHEDULE:
        return memcmp(&a->schedule.first, &b->schedule.first,
                      3 * sizeof(uint64_t)) == 0 &&
               a->schedule.branch == b->schedule.branch;
    case MSG_CUT:
        return a->cut.target == b->cut.target && a->cut.clocks == b->cut.clocks;
    case MSG_HOLD:
        return a->hold.target == b->hold.target;
    case MSG_SNAPSHOT:
    case MSG_RESTORE:
    case MSG_SAVE:
        return a->save.branch == b->save.branch &&
               strcmp(a->save.path, b->save.path) == 0;
    case MSG_ROWS:
        return a->rows.branch == b->rows.branch &&
               strcmp(a->rows.table, b->rows.table) == 0 &&
               a->rows.first == b->rows.first &&
               a->rows.count == b->rows.count && a->rows.from == b->rows.from &&
               a->rows.values == b->rows.values &&
               same_json(a->rows.increment, b->rows.increment);
    default:
        return strcmp(a->stop.reason, b->stop.reason) == 0;
    }
}

static int same(const struct msg *a, const struct msg *b)
{
    return a->kind == b->kind && a->op == b->op &&
           (a->kind < MSG_HELLO ? same_request(a, b) : same_answer(a, b));
}

/* ---- round trips --------------------------------------------------------- */

/* Any message of any kind, encoded and decoded, equals itself in every member,
 * on one line of text. */
static void proto_any_message_survives_a_round_trip(void **state)
{
    struct rng r;
    int kind, i;

    (void)state;
    rng_init(&r, 20);
    for (kind = 0; kind < MSG_KIND_COUNT; kind++)
        for (i = 0; i < 300; i++) {
            struct msg m = any_message(&r, (enum msg_kind)kind), back;
            struct fault f = {0};
            char *text;
            size_t n;

            assert_int_equal(msg_encode(&m, &text, &n), ERR_OK);
            assert_null(strchr(text, '\n'));
            assert_int_equal(n, strlen(text));
            if (msg_decode(text, n, &back, &f) != ERR_OK)
                fail_msg("%s in %s", f.text, text);
            if (!same(&m, &back))
                fail_msg("changed on the way: %s", text);
            mem_free(text);
            msg_deinit(&m);
            msg_deinit(&back);
        }
}

/* NaN and the infinities arrive as what they were: divergence is never lost on
 * the way. */
static void proto_non_finite_sums_arrive(void **state)
{
    struct progress_window w[3] = {
        {.sum = NAN, .samples = 1, .clocks = 1},
        {.sum = INFINITY, .samples = 1, .clocks = 1},
        {.sum = -INFINITY, .samples = 1, .clocks = 1}};
    struct msg m = {.kind = MSG_REPORT, .op = 4}, back;
    char *text;
    size_t n;

    (void)state;
    m.report = (struct msg_report){1, 0, 3, w, NULL};
    assert_int_equal(msg_encode(&m, &text, &n), ERR_OK);
    assert_non_null(strstr(text, "[\"nan\",\"inf\",\"-inf\"]"));
    assert_int_equal(msg_decode(text, n, &back, NULL), ERR_OK);
    assert_true(isnan(back.report.window[0].sum));
    assert_true(isinf(back.report.window[1].sum));
    assert_true(back.report.window[2].sum < 0);
    mem_free(text);
    msg_deinit(&back);
}

/* A reason cut in the middle of a character, or of any bytes, still arrives:
 * the bad bytes as question marks. */
static void proto_reason_of_any_bytes_arrives(void **state)
{
    static const char *const bad[][2] = {
        {"cut \xe2\x82", "cut ??"},   {"\xff", "?"},
        {"a\xc0\x80z", "a??z"},       {"\xed\xa0\x80", "???"},
        {"\xf0\x80\x80\x80", "????"}, {"\xf4\x90\x80\x80", "????"},
        {"\xe0\x80\x80", "???"},      {"ok \xe2\x82\xac", "ok \xe2\x82\xac"},
    };
    size_t i, n;

    (void)state;
    for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct msg m = {.kind = MSG_FAILED, .op = 1}, back;
        char *text;

        m.failed.branch = BRANCH_NONE;
        m.failed.code = ERR_APP;
        strcpy(m.failed.reason, bad[i][0]);
        assert_int_equal(msg_encode(&m, &text, &n), ERR_OK);
        assert_int_equal(msg_decode(text, n, &back, NULL), ERR_OK);
        assert_string_equal(back.failed.reason, bad[i][1]);
        assert_int_equal(back.failed.branch, BRANCH_NONE);
        mem_free(text);
        msg_deinit(&back);
    }
}

/* ---- refusals ------------------------------------------------------------ */

#define REPORT_WITH(values)                                                    \
    "{\"kind\":\"report\",\"op\":1,\"branch\":1,\"first\":0,\"sum\":[1,2],"    \
    "\"samples\":[1,1],\"clocks\":[1,1],\"seconds\":[1,1],\"wait_s\":[0,0],"   \
    "\"copy_s\":[0,0],\"stalled_s\":[0,0],\"values\":" values "}"
#define READY_WITH(tables)                                                     \
    "{\"kind\":\"ready\",\"samples\":1,\"validation_samples\":0,"              \
    "\"parts\":0,\"workers\":1,\"tunables\":[],\"metric\":\"\","               \
    "\"metric_higher_better\":true,\"metric_reduction\":\"mean\","             \
    "\"loss_floor\":0,\"model_bytes\":1,\"tables\":" tables "}"
#define ONE_TABLE                                                              \
    "{\"name\":\"t\",\"rule\":\"\",\"rows\":1,\"width\":1,"                    \
    "\"type\":\"i32\",\"access\":\"local\",\"saved\":false}"

/* Every fault of a message is refused as a violation, and the words name the
 * member and what was expected. */
static void proto_faulty_messages_are_refused_by_member(void **state)
{
    static const char *const bad[][2] = {
        {"", "no JSON"},
        {"{", "no JSON"},
        {"[]", "object"},
        {"{\"kind\":\"free\",\"op\":1,\"branch\":1} x", "no JSON"},
        {"{\"kind\":\"free\",\"kind\":\"free\"}", "no JSON"},
        {"{\"op\":1}", "kind"},
        {"{\"kind\":3}", "kind"},
        {"{\"kind\":\"fork_\"}", "fork_"},
        {"{\"kind\":\"free\",\"branch\":1}", "op: expected"},
        {"{\"kind\":\"free\",\"op\":0,\"branch\":1}", "op: expected"},
        {"{\"kind\":\"free\",\"op\":-1,\"branch\":1}", "op: expected"},
        {"{\"kind\":\"free\",\"op\":1.0,\"branch\":1}", "op: expected"},
        {"{\"kind\":\"free\",\"op\":1}", "branch: expected"},
        {"{\"kind\":\"free\",\"op\":1,\"branch\":-1}", "found -1"},
        {"{\"kind\":\"free\",\"op\":1,\"branch\":4294967295}", "4294967294"},
        {"{\"kind\":\"free\",\"op\":1,\"branch\":null}", "found null"},
        {"{\"kind\":\"free\",\"op\":1,\"branch\":\"1\"}", "found \"1\""},
        {"{\"kind\":\"fork\",\"op\":1,\"branch\":1,\"parent\":0,"
         "\"type\":\"init\",\"setting\":{}}",
         "type: expected"},
        {"{\"kind\":\"fork\",\"op\":1,\"branch\":1,\"parent\":1,"
         "\"type\":\"kept\",\"setting\":{}}",
         "own parent"},
        {"{\"kind\":\"fork\",\"op\":1,\"branch\":1,\"parent\":0,"
         "\"type\":\"kept\",\"setting\":[]}",
         "setting: expected"},
        {"{\"kind\":\"fork\",\"op\":1,\"branch\":1,\"parent\":0,"
         "\"type\":\"kept\",\"setting\":{\"a\":true}}",
         "setting"},
        {"{\"kind\":\"fork\",\"op\":1,\"branch\":1,\"parent\":0,"
         "\"type\":\"kept\",\"setting\":{\"\":1}}",
         "setting"},
        {"{\"kind\":\"schedule\",\"op\":1,\"branch\":1,\"first\":0,"
         "\"count\":0,\"report_every\":1}",
         "count: expected"},
        {"{\"kind\":\"schedule\",\"op\":1,\"branch\":1,\"first\":0,"
         "\"count\":1,\"report_every\":0}",
         "report_every: expected"},
        {"{\"kind\":\"cut\",\"target\":0}", "target: expected"},
        {"{\"kind\":\"save\",\"op\":1,\"branch\":1,\"path\":\"\"}",
         "path: expected"},
        {"{\"kind\":\"rows\",\"op\":1,\"branch\":1,\"table\":\"t\","
         "\"first\":0,\"count\":1025}",
         "count: expected"},
        {"{\"kind\":\"rows\",\"op\":1,\"branch\":1,\"table\":\"t\","
         "\"first\":0,\"count\":2,\"increment\":[[1]]}",
         "increment"},
        {"{\"kind\":\"rows\",\"op\":1,\"branch\":1,\"table\":\"t\","
         "\"first\":0,\"count\":2,\"increment\":[[1],[1,2]]}",
         "increment"},
        {"{\"kind\":\"rows\",\"op\":1,\"branch\":1,\"table\":\"t\","
         "\"first\":0,\"count\":1,\"increment\":[[\"nan\"]]}",
         "increment"},
        {"{\"kind\":\"rows\",\"op\":1,\"branch\":1,\"table\":\"t\","
         "\"first\":0,\"count\":1,\"increment\":{}}",
         "increment"},
        {"{\"kind\":\"rows\",\"op\":1,\"branch\":1,\"table\":\"t\","
         "\"first\":0,\"count\":1,\"from\":1,\"increment\":[[1]]}",
         "whole rows"},
        {"{\"kind\":\"rows\",\"op\":1,\"branch\":1,\"table\":\"t\","
         "\"first\":0,\"count\":1,\"values\":-1}",
         "values: expected"},
        {REPORT_WITH("[]"), "values: expected"},
        {REPORT_WITH("{\"a\":[1]}"), "an entry a window"},
        {REPORT_WITH("{\"a\":[1,2,3]}"), "an entry a window"},
        {REPORT_WITH("{\"a\":1}"), "an entry a window"},
        {REPORT_WITH("{\"a\":[1,\"x\"]}"), "numbers or null"},
        {REPORT_WITH("{\"a\":[1,[]]}"), "numbers or null"},
        {REPORT_WITH("{\"\":[1,2]}"), "a name has"},
        {REPORT_WITH("{\"../x\":[1,2]}"), "a name has"},
        {REPORT_WITH("{\"a..b\":[1,2]}"), "a name has"},
        {REPORT_WITH("{\"=1\":[1,2]}"), "a name has"},
        {REPORT_WITH("{\"a,b\":[1,2]}"), "a name has"},
        {REPORT_WITH("{\"\u00e4\":[1,2]}"), "a name has"},
        {REPORT_WITH("{\"a23456789012345678901234567890123\":[1,2]}"),
         "a name has"},
        {READY_WITH("{}"), "tables: expected an array of at most"},
        {READY_WITH("[1]"), "tables: expected objects"},
        {READY_WITH("[{\"name\":\"\"}]"), "a name has 1 to 64"},
        {READY_WITH("[{\"name\":\"t\"}]"), "a rule has at most"},
        {READY_WITH("[{\"name\":\"t\",\"rule\":\"\",\"rows\":0,"
                    "\"width\":1}]"),
         "whole numbers from 1"},
        {READY_WITH("[{\"name\":\"t\",\"rule\":\"\",\"rows\":1,"
                    "\"width\":1,\"type\":\"f16\"}]"),
         "expected type"},
        {READY_WITH("[{\"name\":\"t\",\"rule\":\"\",\"rows\":1,"
                    "\"width\":1,\"type\":\"f32\",\"access\":\"\"}]"),
         "expected access"},
        {READY_WITH("[{\"name\":\"t\",\"rule\":\"\",\"rows\":1,"
                    "\"width\":1,\"type\":\"f32\",\"access\":\"local\"}]"),
         "expected saved"},
        {READY_WITH("[" ONE_TABLE "," ONE_TABLE "]"), "the same name"},
        {"{\"kind\":\"config\",\"config\":{},\"folder\":\"\",\"seed\":1}",
         "folder: expected"},
        {"{\"kind\":\"config\",\"config\":{},\"folder\":\"/\","
         "\"seed\":18446744073709551615}",
         "no JSON"},
        {"{\"kind\":\"hello\",\"version\":1,\"node\":0,\"workers\":0,"
         "\"pid\":1}",
         "workers: expected"},
        {"{\"kind\":\"hello\",\"version\":1,\"node\":0,\"workers\":1,"
         "\"pid\":-1}",
         "pid: expected"},
        {"{\"kind\":\"failed\",\"code\":\"ok\",\"reason\":\"\"}",
         "code: expected"},
        {"{\"kind\":\"failed\",\"code\":2,\"reason\":\"\"}", "code: expected"},
        {"{\"kind\":\"failed\",\"code\":\"io\"}", "reason: expected"},
        {"{\"kind\":\"done\",\"op\":1,\"switch_s\":-1}", "switch_s: expected"},
        {"{\"kind\":\"done\",\"op\":1,\"switch_s\":\"inf\"}",
         "switch_s: expected"},
        {"{\"kind\":\"done\",\"op\":1,\"data\":3}", "data: expected"},
        {"{\"kind\":\"beat\",\"node\":0,\"staleness\":{\"least\":-33,"
         "\"counts\":[1],\"sum\":0}}",
         "staleness: expected"},
        {"{\"kind\":\"beat\",\"node\":0,\"staleness\":{\"least\":31,"
         "\"counts\":[1,1],\"sum\":0}}",
         "staleness: expected"},
        {"{\"kind\":\"beat\",\"node\":0,\"staleness\":{\"least\":-1,"
         "\"counts\":[-1],\"sum\":0}}",
         "staleness: expected"},
        {"{\"kind\":\"beat\",\"node\":0,\"staleness\":{\"least\":-1,"
         "\"counts\":[],\"sum\":5}}",
         "staleness: expected"},
        {"{\"kind\":\"beat\",\"node\":0,\"held\":[[1,2]]}",
         "held: expected at most 64"},
        {"{\"kind\":\"beat\",\"node\":0,\"held\":[[-1,2,3]]}",
         "held: expected"},
        {"{\"kind\":\"beat\",\"node\":0,\"held\":{}}", "held: expected"},
        {"{\"kind\":\"report\",\"branch\":1,\"first\":0}", "sum: expected"},
        {"{\"kind\":\"report\",\"branch\":1,\"first\":0,\"sum\":[]}",
         "sum: expected"},
        {"{\"kind\":\"report\",\"branch\":1,\"first\":0,\"sum\":[1,2],"
         "\"samples\":[1]}",
         "samples: expected"},
        {"{\"kind\":\"report\",\"branch\":1,\"first\":0,\"sum\":[1],"
         "\"samples\":[1],\"clocks\":[0]}",
         "clocks: expected"},
        {"{\"kind\":\"report\",\"branch\":1,\"first\":0,\"sum\":[1],"
         "\"samples\":[1],\"clocks\":[1],\"seconds\":[0],\"copy_s\":[]}",
         "copy_s: expected"},
        {"{\"kind\":\"report\",\"branch\":1,\"first\":0,\"sum\":[\"1\"]}",
         "sum: expected"},
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct fault f = {0};
        struct msg m;

        if (msg_decode(bad[i][0], strlen(bad[i][0]), &m, &f) != ERR_PROTO)
            fail_msg("let in: %s", bad[i][0]);
        if (!strstr(f.text, bad[i][1]))
            fail_msg("%s: said %s, not %s", bad[i][0], f.text, bad[i][1]);
    }
}

/* Taking any one required member out of any message is refused, and no member
 * can change its type unseen. */
static void proto_missing_or_mistyped_members_are_refused(void **state)
{
    static const char *const optional[] = {
        "op",        "clocks", "switch_s",  "bytes",      "data",
        "increment", "branch", "reads",     "data_bytes", "staleness",
        "from",      "values", "tables",    "metrics",    "cuts",
        "wait_s",    "copy_s", "stalled_s", NULL};
    struct rng r;
    int kind;

    (void)state;
    rng_init(&r, 21);
    for (kind = 0; kind < MSG_KIND_COUNT; kind++) {
        struct msg m = any_message(&r, (enum msg_kind)kind), back;
        const char *name;
        json_t *o, *v;
        char *text;
        size_t n;
        int i;

        assert_int_equal(msg_encode(&m, &text, &n), ERR_OK);
        o = json_loads(text, 0, NULL);
        json_object_foreach(o, name, v)
        {
            json_t *less = json_copy(o), *other = json_copy(o);
            char *t;

            for (i = 0; optional[i] && strcmp(optional[i], name) != 0; i++)
                ;
            json_object_del(less, name);
            t = json_dumps(less, 0);
            if (!optional[i] && kind != MSG_BEAT &&
                msg_decode(t, strlen(t), &back, NULL) != ERR_PROTO)
                fail_msg("let in: %s", t);
            free(t);
            json_object_set_new(other, name, json_null());
            t = json_dumps(other, 0);
            if (msg_decode(t, strlen(t), &back, NULL) != ERR_PROTO)
                fail_msg("let in: %s", t);
            free(t);
            json_decref(less);
            json_decref(other);
        }
        json_decref(o);
        mem_free(text);
        msg_deinit(&m);
    }
}

/* A text beyond the limit is refused before it is read. */
static void proto_too_long_a_text_is_refused(void **state)
{
    char *text = mem_alloc(PROTO_BYTES_MAX + 2);
    struct fault f = {0};
    struct msg m;

    (void)state;
    memset(text, ' ', PROTO_BYTES_MAX + 1);
    assert_int_equal(msg_decode(text, PROTO_BYTES_MAX + 1, &m, &f), ERR_LIMIT);
    assert_non_null(strstr(f.text, "at most"));
    mem_free(text);
}

/* A message out of its bounds, or too long, is not sent. */
static void proto_faulty_members_are_not_encoded(void **state)
{
    struct progress_window w = {.clocks = 0};
    struct msg m = {.kind = MSG_SCHEDULE, .op = 1};
    json_t *deep;
    char *text;
    size_t n;
    int i;

    (void)state;
    m.schedule = (struct msg_schedule){1, 0, 0, 1};
    assert_int_equal(msg_encode(&m, &text, &n), ERR_INVAL);
    m.schedule = (struct msg_schedule){1, (uint64_t)1 << 63, 1, 1};
    assert_int_equal(msg_encode(&m, &text, &n), ERR_INVAL);
    m.schedule = (struct msg_schedule){BRANCH_NONE, 0, 1, 1};
    assert_int_equal(msg_encode(&m, &text, &n), ERR_INVAL);
    m.schedule = (struct msg_schedule){1, 0, 1, 1};
    m.op = 0;
    assert_int_equal(msg_encode(&m, &text, &n), ERR_INVAL);
    m = (struct msg){.kind = MSG_REPORT, .op = 1};
    m.report = (struct msg_report){1, 0, 1, &w, NULL};
    assert_int_equal(msg_encode(&m, &text, &n), ERR_INVAL);
    w.clocks = 1;
    w.seconds = NAN;
    assert_int_equal(msg_encode(&m, &text, &n), ERR_INVAL);
    m.report.windows = 0;
    assert_int_equal(msg_encode(&m, &text, &n), ERR_INVAL);
    m = (struct msg){.kind = MSG_SAVE, .op = 1};
    memset(m.save.path, 'a', sizeof(m.save.path));
    assert_int_equal(msg_encode(&m, &text, &n), ERR_INVAL);
    strcpy(m.save.path, "/\xff");
    assert_int_equal(msg_encode(&m, &text, &n), ERR_INVAL);
    m = (struct msg){.kind = MSG_DONE, .op = 1};
    deep = json_array();
    for (i = 0; i < PROTO_BYTES_MAX / 2; i++)
        json_array_append_new(deep, json_integer(1));
    m.done.data = deep;
    assert_int_equal(msg_encode(&m, &text, &n), ERR_LIMIT);
    json_decref(deep);
}

/* Members of a later version are passed over, and what may be left out reads as
 * nothing. */
static void proto_unknown_members_are_passed_over(void **state)
{
    static const char text[] = "{\"kind\":\"done\",\"op\":9,\"later\":[1,{}]}";
    struct msg m;

    (void)state;
    assert_int_equal(msg_decode(text, strlen(text), &m, NULL), ERR_OK);
    assert_int_equal(m.done.branch, BRANCH_NONE);
    assert_int_equal(m.done.clocks, 0);
    assert_null(m.done.data);
    msg_deinit(&m);
}

/* ---- the document -------------------------------------------------------- */

static char *read_document(void)
{
    FILE *file = fopen("docs/protocol.md", "r");
    char *text = mem_calloc(1, 1 << 17);
    size_t n;

    assert_non_null(file);
    assert_non_null(text);
    n = fread(text, 1, (1 << 17) - 1, file);
    fclose(file);
    assert_true(n > 1000);
    return text;
}

/* The member's line in the section of its message; NULL where there is none. */
static const char *find_member(const char *document, const char *kind,
                               const char *member)
{
    char heading[64], line[64];
    const char *section, *end, *at;

    snprintf(heading, sizeof(heading), "\n### %s\n", kind);
    snprintf(line, sizeof(line), "\n| `%s` |", member);
    section = strstr(document, heading);
    if (!section)
        return NULL;
    end = strstr(section + 1, "\n##");
    at = strstr(section, line);
    return at && (!end || at < end) ? at : NULL;
}

static void check_told(const char *document, enum msg_kind kind,
                       const struct json_field *f)
{
    if (!find_member(document, proto_kinds[kind].name, f->name))
        fail_msg("%s: %s is not told", proto_kinds[kind].name, f->name);
}

/* docs/protocol.md has a section for every message and a line for every member
 * that the codec reads. */
static void proto_document_tells_every_member(void **state)
{
    char *document = read_document();
    int kind;

    (void)state;
    for (kind = 0; kind < MSG_KIND_COUNT; kind++) {
        const struct json_field *f = proto_kinds[kind].fields;

        for (; f->name; f++)
            if (f->kind != FIELD_COLUMNS)
                check_told(document, (enum msg_kind)kind, f);
            else
                for (const struct json_field *column = f->list->fields;
                     column->name; column++)
                    check_told(document, (enum msg_kind)kind, column);
    }
    mem_free(document);
}

/* ---- want of memory ------------------------------------------------------ */

/* Whichever allocation fails, also inside of the JSON library, encoding says so
 * and leaves nothing behind. */
static void proto_each_allocation_of_encoding_may_fail(void **state)
{
    struct rng r;
    int kind, nth;

    (void)state;
    json_set_alloc_funcs(mem_alloc, mem_free);
    rng_init(&r, 22);
    for (kind = 0; kind < MSG_KIND_COUNT; kind++) {
        struct msg m = any_message(&r, (enum msg_kind)kind);
        int64_t before = mem_outstanding();
        char *text = NULL;
        enum err err;
        size_t n;

        for (nth = 1;; nth++) {
            mem_fail_at(nth, 0);
            err = msg_encode(&m, &text, &n);
            if (!mem_failed())
                break;
            assert_int_equal(err, ERR_NOMEM);
            assert_int_equal(mem_outstanding(), before);
        }
        mem_fail_at(0, 0);
        assert_int_equal(err, ERR_OK);
        assert_true(nth > 3);
        mem_free(text);
        msg_deinit(&m);
    }
    json_set_alloc_funcs(malloc, free);
}

/* Whichever of the decoder's own allocations fails, it says so and leaves
 * nothing behind. */
static void proto_each_allocation_of_decoding_may_fail(void **state)
{
    struct rng r;
    int kind, nth, failures = 0;

    (void)state;
    rng_init(&r, 23);
    for (kind = 0; kind < MSG_KIND_COUNT; kind++) {
        struct msg m = any_message(&r, (enum msg_kind)kind), back;
        int64_t before;
        struct fault f;
        char *text;
        enum err err;
        size_t n;

        assert_int_equal(msg_encode(&m, &text, &n), ERR_OK);
        before = mem_outstanding();
        for (nth = 1;; nth++) {
            mem_fail_at(nth, 0);
            err = msg_decode(text, n, &back, &f);
            if (!mem_failed())
                break;
            failures++;
            assert_int_equal(err, ERR_NOMEM);
            assert_int_equal(mem_outstanding(), before);
        }
        mem_fail_at(0, 0);
        assert_int_equal(err, ERR_OK);
        msg_deinit(&back);
        mem_free(text);
        msg_deinit(&m);
    }
    /* A folder, a report's windows; and the parser's reserve, each time. */
    assert_int_equal(failures, 2 + MSG_KIND_COUNT);
}

/* The kind is told of a message that is wrong otherwise, and of nothing else.
 */
static void proto_kind_of_a_faulty_message_is_told(void **state)
{
    static const struct {
        const char *text;
        enum msg_kind kind;
    } texts[] = {
        {"{\"kind\":\"ready\",\"samples\":0}", MSG_READY},
        {"{\"kind\":\"hello\"}", MSG_HELLO},
        {"{\"kind\":\"hullo\"}", MSG_KIND_COUNT},
        {"{\"kind\":7}", MSG_KIND_COUNT},
        {"[]", MSG_KIND_COUNT},
        {"{\"kind\":", MSG_KIND_COUNT},
        {"", MSG_KIND_COUNT},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
        assert_int_equal(msg_kind_of(texts[i].text, strlen(texts[i].text)),
                         texts[i].kind);
    assert_int_equal(msg_kind_of(NULL, 0), MSG_KIND_COUNT);
}

/* A part of further metrics has those that are known, at most 16, and none
 * where none has a value. */
static void proto_part_of_values_has_known_names(void **state)
{
    struct extras few = {0};
    json_t *values = json_object(), *part;
    char name[16];

    (void)state;
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof(name), "m%d", i);
        json_object_set_new(values, name, json_pack("[i, n]", i));
        assert_int_equal(extras_add(&few, name), i < EXTRAS_MAX ? i : -1);
    }
    assert_int_equal(extras_part(&few, values, 0, 1, &part), ERR_OK);
    assert_int_equal(json_object_size(part), EXTRAS_MAX);
    assert_null(json_object_get(part, "m16"));
    json_decref(part);
    assert_int_equal(extras_part(&few, values, 1, 1, &part), ERR_OK);
    assert_null(part); /* nulls alone */
    json_decref(values);
}

/* Without memory there is no part: it is no report without values. */
static void proto_part_of_values_without_memory_is_an_error(void **state)
{
    struct extras two = {0};
    json_t *values = json_pack("{s:[i,i,n], s:[n,i,i]}", "a", 1, 2, "b", 3, 4);
    int64_t before = mem_outstanding();
    enum err err = ERR_NOMEM;
    json_t *part = NULL;
    int n = 0;

    (void)state;
    extras_add(&two, "a");
    extras_add(&two, "b");
    json_set_alloc_funcs(mem_alloc, mem_free);
    while (err == ERR_NOMEM) {
        mem_fail_at(++n, 0);
        err = extras_part(&two, values, 0, 3, &part);
        mem_fail_at(0, 0);
        assert_true(err == ERR_OK || mem_outstanding() == before);
    }
    assert_int_equal(err, ERR_OK);
    assert_true(n > 6);
    assert_int_equal(json_object_size(part), 2);
    json_decref(part);
    assert_int_equal(mem_outstanding(), before);
    json_set_alloc_funcs(malloc, free);
    json_decref(values);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(proto_any_message_survives_a_round_trip),
        cmocka_unit_test(proto_non_finite_sums_arrive),
        cmocka_unit_test(proto_reason_of_any_bytes_arrives),
        cmocka_unit_test(proto_faulty_messages_are_refused_by_member),
        cmocka_unit_test(proto_missing_or_mistyped_members_are_refused),
        cmocka_unit_test(proto_kind_of_a_faulty_message_is_told),
        cmocka_unit_test(proto_too_long_a_text_is_refused),
        cmocka_unit_test(proto_part_of_values_has_known_names),
        cmocka_unit_test(proto_part_of_values_without_memory_is_an_error),
        cmocka_unit_test(proto_faulty_members_are_not_encoded),
        cmocka_unit_test(proto_unknown_members_are_passed_over),
        cmocka_unit_test(proto_document_tells_every_member),
        cmocka_unit_test(proto_each_allocation_of_encoding_may_fail),
        cmocka_unit_test(proto_each_allocation_of_decoding_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
