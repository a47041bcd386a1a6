#include "base/proto/proto_table.h"

#include "base/proto/table_info.h"

#include <string.h>

#define AT(member) offsetof(struct msg, member)
#define COUNT(n, member, lo, hi)                                               \
    {                                                                          \
        n, FIELD_COUNT, false, AT(member), lo, hi                              \
    }
#define SMALL(n, member, lo, hi)                                               \
    {                                                                          \
        n, FIELD_SMALL, false, AT(member), lo, hi                              \
    }
#define TEXT(n, kind, member, lo)                                              \
    {                                                                          \
        n, kind, false, AT(member), lo, sizeof(((struct msg *)0)->member) - 1  \
    }
#define PLAIN(n, kind, member)                                                 \
    {                                                                          \
        n, kind, false, AT(member), 0, PROTO_INT_MAX                           \
    }
#define OPTIONAL(n, kind, member)                                              \
    {                                                                          \
        n, kind, true, AT(member), 0, PROTO_INT_MAX                            \
    }
#define END                                                                    \
    {                                                                          \
        NULL, FIELD_COUNT, true, 0, 0, 0                                       \
    }

static const struct proto_field config_fields[] = {
    PLAIN("config", FIELD_OBJECT, config.config),
    PLAIN("folder", FIELD_STRING, config.folder),
    COUNT("seed", config.seed, 0, PROTO_INT_MAX),
    END,
};
static const struct proto_field fork_fields[] = {
    PLAIN("branch", FIELD_BRANCH, fork.branch),
    PLAIN("parent", FIELD_BRANCH, fork.parent),
    PLAIN("type", FIELD_TYPE, fork.type),
    PLAIN("setting", FIELD_OBJECT, fork.setting),
    END,
};
static const struct proto_field free_fields[] = {
    PLAIN("branch", FIELD_BRANCH, free.branch),
    END,
};
static const struct proto_field schedule_fields[] = {
    PLAIN("branch", FIELD_BRANCH, schedule.branch),
    COUNT("first", schedule.first, 0, PROTO_INT_MAX),
    COUNT("count", schedule.count, 1, PROTO_INT_MAX),
    COUNT("report_every", schedule.report_every, 1, PROTO_INT_MAX),
    END,
};
static const struct proto_field cut_fields[] = {
    COUNT("target", cut.target, 1, PROTO_INT_MAX),
    END,
};
static const struct proto_field snapshot_fields[] = {
    PLAIN("branch", FIELD_BRANCH, snapshot.branch),
    TEXT("path", FIELD_NAME, snapshot.path, 1),
    END,
};
static const struct proto_field restore_fields[] = {
    PLAIN("branch", FIELD_BRANCH, restore.branch),
    TEXT("path", FIELD_NAME, restore.path, 1),
    END,
};
static const struct proto_field save_fields[] = {
    PLAIN("branch", FIELD_BRANCH, save.branch),
    TEXT("path", FIELD_NAME, save.path, 1),
    END,
};
static const struct proto_field rows_fields[] = {
    PLAIN("branch", FIELD_BRANCH, rows.branch),
    TEXT("table", FIELD_NAME, rows.table, 1),
    COUNT("first", rows.first, 0, PROTO_INT_MAX),
    SMALL("count", rows.count, 1, PROTO_ROWS_MAX),
    {"from", FIELD_SMALL, true, AT(rows.from), 0, UINT32_MAX},
    {"values", FIELD_SMALL, true, AT(rows.values), 0, UINT32_MAX},
    OPTIONAL("increment", FIELD_JSON, rows.increment),
    END,
};
static const struct proto_field stop_fields[] = {
    TEXT("reason", FIELD_REASON, stop.reason, 0),
    END,
};
static const struct proto_field hello_fields[] = {
    SMALL("version", hello.version, 1, UINT32_MAX),
    SMALL("node", hello.node, 0, UINT32_MAX),
    SMALL("workers", hello.workers, 1, UINT32_MAX),
    PLAIN("pid", FIELD_PID, hello.pid),
    END,
};
static const struct proto_field ready_fields[] = {
    COUNT("samples", ready.samples, 1, PROTO_INT_MAX),
    COUNT("validation_samples", ready.validation_samples, 0, PROTO_INT_MAX),
    COUNT("parts", ready.parts, 0, PROTO_INT_MAX),
    SMALL("workers", ready.workers, 1, UINT32_MAX),
    PLAIN("tunables", FIELD_NAMES, ready.tunables),
    TEXT("metric", FIELD_NAME, ready.metric, 0),
    PLAIN("metric_higher_better", FIELD_FLAG, ready.metric_higher_better),
    TEXT("metric_reduction", FIELD_NAME, ready.metric_reduction, 1),
    PLAIN("loss_floor", FIELD_REAL, ready.loss_floor),
    COUNT("model_bytes", ready.model_bytes, 0, PROTO_INT_MAX),
    OPTIONAL("tables", FIELD_JSON, ready.tables),
    END,
};
static const struct proto_field forked_fields[] = {
    PLAIN("branch", FIELD_BRANCH, forked.branch),
    END,
};
static const struct proto_field done_fields[] = {
    OPTIONAL("branch", FIELD_BRANCH, done.branch),
    OPTIONAL("clocks", FIELD_COUNT, done.clocks),
    OPTIONAL("switch_s", FIELD_SECONDS, done.switch_s),
    OPTIONAL("bytes", FIELD_COUNT, done.bytes),
    OPTIONAL("data_bytes", FIELD_COUNT, done.data_bytes),
    OPTIONAL("reads", FIELD_COUNT, done.reads),
    OPTIONAL("staleness", FIELD_REAL, done.staleness),
    OPTIONAL("data", FIELD_JSON, done.data),
    END,
};
static const struct proto_field failed_fields[] = {
    OPTIONAL("branch", FIELD_BRANCH, failed.branch),
    PLAIN("code", FIELD_CODE, failed.code),
    TEXT("reason", FIELD_REASON, failed.reason, 0),
    END,
};
/* The windows follow as parallel arrays: see proto_window. */
static const struct proto_field report_fields[] = {
    PLAIN("branch", FIELD_BRANCH, report.branch),
    COUNT("first", report.first, 0, PROTO_INT_MAX),
    END,
};
static const struct proto_field beat_fields[] = {
    SMALL("node", beat.node, 0, UINT32_MAX),
    OPTIONAL("memory_bytes", FIELD_COUNT, beat.memory_bytes),
    OPTIONAL("memory_reserved_bytes", FIELD_COUNT, beat.memory_reserved_bytes),
    OPTIONAL("memory_limit_bytes", FIELD_COUNT, beat.memory_limit_bytes),
    OPTIONAL("chunks_shared", FIELD_COUNT, beat.chunks_shared),
    OPTIONAL("chunks_private", FIELD_COUNT, beat.chunks_private),
    OPTIONAL("bytes_copied", FIELD_COUNT, beat.bytes_copied),
    OPTIONAL("bytes_sent", FIELD_COUNT, beat.bytes_sent),
    OPTIONAL("bytes_received", FIELD_COUNT, beat.bytes_received),
    {"branches", FIELD_SMALL, true, AT(beat.branches), 0, UINT32_MAX},
    {"workers", FIELD_SMALL, true, AT(beat.workers), 0, UINT32_MAX},
    OPTIONAL("seconds", FIELD_SECONDS, beat.seconds),
    OPTIONAL("wait_s", FIELD_SECONDS, beat.wait_s),
    OPTIONAL("copy_s", FIELD_SECONDS, beat.copy_s),
    OPTIONAL("stalled_s", FIELD_SECONDS, beat.stalled_s),
    OPTIONAL("data_bytes_sent", FIELD_COUNT, beat.data_bytes_sent),
    OPTIONAL("data_bytes_received", FIELD_COUNT, beat.data_bytes_received),
    OPTIONAL("data_frames_sent", FIELD_COUNT, beat.data_frames_sent),
    OPTIONAL("data_frames_received", FIELD_COUNT, beat.data_frames_received),
    OPTIONAL("data_frames_ignored", FIELD_COUNT, beat.data_frames_ignored),
    OPTIONAL("rows_updated", FIELD_COUNT, beat.rows_updated),
    OPTIONAL("rows_asked", FIELD_COUNT, beat.rows_asked),
    OPTIONAL("rows_got", FIELD_COUNT, beat.rows_got),
    OPTIONAL("rows_due", FIELD_COUNT, beat.rows_due),
    OPTIONAL("rows_early", FIELD_COUNT, beat.rows_early),
    OPTIONAL("rows_answered", FIELD_COUNT, beat.rows_answered),
    OPTIONAL("rows_pushed", FIELD_COUNT, beat.rows_pushed),
    OPTIONAL("rows_pushed_early", FIELD_COUNT, beat.rows_pushed_early),
    OPTIONAL("bytes_charged", FIELD_COUNT, beat.bytes_charged),
    OPTIONAL("overused", FIELD_COUNT, beat.overused),
    OPTIONAL("early_suspended", FIELD_COUNT, beat.early_suspended),
    OPTIONAL("client_wait_s", FIELD_SECONDS, beat.client_wait_s),
    OPTIONAL("server_wait_s", FIELD_SECONDS, beat.server_wait_s),
    OPTIONAL("staleness", FIELD_STALENESS, beat.staleness),
    OPTIONAL("held", FIELD_HELD, beat.hold),
    END,
};

const struct proto_kind proto_kinds[MSG_KIND_COUNT] = {
    [MSG_CONFIG] = {"config", OP_ALLOWED, config_fields},
    [MSG_FORK] = {"fork", OP_NEEDED, fork_fields},
    [MSG_FREE] = {"free", OP_NEEDED, free_fields},
    [MSG_SCHEDULE] = {"schedule", OP_NEEDED, schedule_fields},
    [MSG_CUT] = {"cut", OP_ALLOWED, cut_fields},
    [MSG_SNAPSHOT] = {"snapshot", OP_NEEDED, snapshot_fields},
    [MSG_RESTORE] = {"restore", OP_NEEDED, restore_fields},
    [MSG_SAVE] = {"save", OP_NEEDED, save_fields},
    [MSG_ROWS] = {"rows", OP_NEEDED, rows_fields},
    [MSG_STOP] = {"stop", OP_ALLOWED, stop_fields},
    [MSG_HELLO] = {"hello", OP_ALLOWED, hello_fields},
    [MSG_READY] = {"ready", OP_ALLOWED, ready_fields},
    [MSG_FORKED] = {"forked", OP_NEEDED, forked_fields},
    [MSG_DONE] = {"done", OP_NEEDED, done_fields},
    [MSG_FAILED] = {"failed", OP_ALLOWED, failed_fields},
    [MSG_REPORT] = {"report", OP_ALLOWED, report_fields},
    [MSG_BEAT] = {"beat", OP_ALLOWED, beat_fields},
};

#define WINDOW(member) offsetof(struct msg_window, member)
const struct proto_field proto_window[] = {
    {"sum", FIELD_REAL, false, WINDOW(sum), 0, 0},
    {"samples", FIELD_COUNT, false, WINDOW(samples), 0, PROTO_INT_MAX},
    {"clocks", FIELD_COUNT, false, WINDOW(clocks), 1, PROTO_INT_MAX},
    {"seconds", FIELD_SECONDS, false, WINDOW(seconds), 0, 0},
    {"wait_s", FIELD_SECONDS, false, WINDOW(wait_s), 0, 0},
    {"copy_s", FIELD_SECONDS, false, WINDOW(copy_s), 0, 0},
    {"stalled_s", FIELD_SECONDS, false, WINDOW(stalled_s), 0, 0},
    END,
};

static const char *const reductions[] = {"mean", "sqrt_mean", "exp_mean"};

/* ---- rules that concern more than one member ----------------------------- */

/* Name of a tunable or table: what a log line and a file name can hold. */
static bool is_name(const char *s)
{
    return s && *s && strlen(s) <= PROTO_NAME_MAX;
}

static const char *check_setting(const json_t *setting)
{
    const char *name;
    json_t *value;

    if (json_object_size(setting) > PROTO_TUNABLES_MAX)
        return "setting: too many tunables";
    json_object_foreach((json_t *)setting, name, value)
    {
        if (!is_name(name))
            return "setting: a tunable's name has 1 to 64 bytes";
        if (!json_is_number(value) && !json_is_string(value))
            return "setting: a value is a number or a string";
    }
    return NULL;
}

static const char *check_fork(const struct msg_fork *m)
{
    if (m->branch == m->parent)
        return "branch: a branch cannot be its own parent";
    return check_setting(m->setting);
}

static const char *check_rows(const struct msg_rows *m)
{
    size_t i, k, width = json_array_size(json_array_get(m->increment, 0));
    const json_t *row;

    if (!m->increment)
        return NULL;
    if (m->from || m->values)
        return "increment: whole rows only, without `from` and `values`";
    if (json_array_size(m->increment) != m->count)
        return "increment: expected an array of `count` arrays";
    for (i = 0; i < m->count; i++) {
        row = json_array_get(m->increment, i);
        if (!json_is_array(row) || json_array_size(row) != width || !width)
            return "increment: rows are arrays of the same length, not empty";
        for (k = 0; k < width; k++)
            if (!json_is_number(json_array_get(row, k)))
                return "increment: values are numbers";
    }
    return NULL;
}

static const char *check_names(const json_t *names)
{
    size_t i;

    if (json_array_size(names) > PROTO_TUNABLES_MAX)
        return "tunables: too many";
    for (i = 0; i < json_array_size(names); i++)
        if (!is_name(json_string_value(json_array_get(names, i))))
            return "tunables: a name has 1 to 64 bytes";
    return NULL;
}

static const char *check_ready(const struct msg_ready *m)
{
    const char *wrong;
    size_t i = 0, n;

    while (strcmp(m->metric_reduction, reductions[i]) != 0)
        if (++i == sizeof(reductions) / sizeof(*reductions))
            return "metric_reduction: expected mean, sqrt_mean or exp_mean";
    wrong = check_names(m->tunables);
    if (wrong || !m->tables)
        return wrong;
    return table_infos_from_json(m->tables, NULL, &n);
}

const char *proto_check(const struct msg *m)
{
    switch (m->kind) {
    case MSG_FORK:
        return check_fork(&m->fork);
    case MSG_ROWS:
        return check_rows(&m->rows);
    case MSG_READY:
        return check_ready(&m->ready);
    case MSG_REPORT:
        if (m->report.windows < 1 || m->report.windows > PROTO_WINDOWS_MAX)
            return "sum: expected 1 to 1000 windows";
        return NULL;
    default:
        return NULL;
    }
}
