#include "base/proto/proto_table.h"

#include "base/proto/data_list.h"
#include "base/proto/staleness_json.h"
#include "base/proto/table_info.h"

#include <assert.h>
#include <string.h>

static json_t *staleness_json(const void *member)
{
    return staleness_to_json(member);
}

static bool staleness_of(const json_t *value, void *member)
{
    return staleness_from_json(value, member);
}

static const struct field_custom staleness_codec = {staleness_json,
                                                    staleness_of};

static const char *type_name(unsigned type)
{
    return branch_type_name((enum branch_type)type);
}

static const char *code_name(unsigned code)
{
    return err_name((enum err)code);
}

static const char *cuts_name(unsigned cuts)
{
    static const char *const names[] = {"", "own", "agreed"};

    assert(cuts < CUTS_COUNT);
    return names[cuts];
}

#define A_BRANCH .expected = "a branch number from 0 to 4294967294"

static const struct json_field config_fields[] = {
    {FIELD_OF(msg_config, OBJECT, config)},
    {FIELD_OF(msg_config, STRING, folder)},
    {FIELD_OF(msg_config, U64, seed)},
    {FIELD_OF(msg_config, STRING, keep), .optional = true},
    {FIELD_OF(msg_config, U32, goes_on), .optional = true, .sparse = true},
    {FIELD_OF(msg_config, U32, other_data), .optional = true, .sparse = true},
    {.name = NULL},
};

static const struct json_field fork_fields[] = {
    {FIELD_OF(msg_fork, ID, branch), A_BRANCH},
    {FIELD_OF(msg_fork, ID, parent), A_BRANCH},
    {FIELD_WITHIN(msg_fork, ENUM, type, BRANCH_INIT + 1, BRANCH_TYPE_COUNT - 1),
     .name_of = type_name},
    {FIELD_OF(msg_fork, OBJECT, setting)},
    {.name = NULL},
};

static const struct json_field free_fields[] = {
    {FIELD_OF(msg_free, ID, branch), A_BRANCH},
    {.name = NULL},
};

static const struct json_field schedule_fields[] = {
    {FIELD_OF(msg_schedule, ID, branch), A_BRANCH},
    {FIELD_OF(msg_schedule, U64, first)},
    {FIELD_OF(msg_schedule, U64, count), .min = 1},
    {FIELD_OF(msg_schedule, U64, report_every), .min = 1},
    {.name = NULL},
};

static const struct json_field cut_fields[] = {
    {FIELD_OF(msg_cut, U64, target), .min = 1},
    {FIELD_OF(msg_cut, U64, clocks), .optional = true, .sparse = true},
    {.name = NULL},
};

static const struct json_field hold_fields[] = {
    {FIELD_OF(msg_hold, U64, target), .min = 1},
    {.name = NULL},
};

static const struct json_field path_fields[] = {
    {FIELD_OF(msg_path, ID, branch), A_BRANCH},
    {FIELD_OF(msg_path, TEXT, path), .min = 1},
    {.name = NULL},
};

static const struct json_field rows_fields[] = {
    {FIELD_OF(msg_rows, ID, branch), A_BRANCH},
    {FIELD_OF(msg_rows, TEXT, table), .min = 1},
    {FIELD_OF(msg_rows, U64, first)},
    {FIELD_WITHIN(msg_rows, U32, count, 1, PROTO_ROWS_MAX)},
    {FIELD_OF(msg_rows, U32, from), .optional = true},
    {FIELD_OF(msg_rows, U32, values), .optional = true},
    {FIELD_OF(msg_rows, TREE, increment), .optional = true},
    {.name = NULL},
};

static const struct json_field stop_fields[] = {
    {FIELD_OF(msg_stop, REASON, reason)},
    {.name = NULL},
};

static const struct json_field hello_fields[] = {
    {FIELD_OF(msg_hello, U32, version), .min = 1},
    {FIELD_OF(msg_hello, U32, node)},
    {FIELD_OF(msg_hello, U32, workers), .min = 1},
    {FIELD_OF(msg_hello, I64, pid)},
    {.name = NULL},
};

static const struct json_field ready_fields[] = {
    {FIELD_OF(msg_ready, U64, samples), .min = 1},
    {FIELD_OF(msg_ready, U64, validation_samples)},
    {FIELD_OF(msg_ready, U64, parts)},
    {FIELD_OF(msg_ready, U32, workers), .min = 1},
    {FIELD_OF(msg_ready, ARRAY, tunables), .expected = "an array of names"},
    {FIELD_OF(msg_ready, TEXT, metric)},
    {FIELD_OF(msg_ready, BOOL, metric_higher_better)},
    {FIELD_OF(msg_ready, TEXT, metric_reduction), .min = 1},
    {FIELD_OF(msg_ready, REAL, loss_floor)},
    {FIELD_OF(msg_ready, U64, model_bytes)},
    {FIELD_OF(msg_ready, TREE, tables), .optional = true},
    {FIELD_OF(msg_ready, ARRAY, metrics), .optional = true},
    {FIELD_OF(msg_ready, TREE, data), .optional = true},
    {FIELD_OF(msg_ready, TREE, files), .optional = true},
    {FIELD_WITHIN(msg_ready, ENUM, cuts, CUTS_OWN, CUTS_COUNT - 1),
     .name_of = cuts_name, .optional = true, .sparse = true},
    {.name = NULL},
};

static const struct json_field forked_fields[] = {
    {FIELD_OF(msg_forked, ID, branch), A_BRANCH},
    {.name = NULL},
};

static const struct json_field done_fields[] = {
    {FIELD_OF(msg_done, ID, branch), A_BRANCH, .optional = true},
    {FIELD_OF(msg_done, U64, clocks), .optional = true},
    {FIELD_OF(msg_done, SECONDS, switch_s), .optional = true},
    {FIELD_OF(msg_done, U64, bytes), .optional = true},
    {FIELD_OF(msg_done, U64, data_bytes), .optional = true},
    {FIELD_OF(msg_done, U64, reads), .optional = true},
    {FIELD_OF(msg_done, REAL, staleness), .optional = true},
    {FIELD_OF(msg_done, TREE, data), .optional = true},
    {.name = NULL},
};

static const struct json_field failed_fields[] = {
    {FIELD_OF(msg_failed, ID, branch), A_BRANCH, .optional = true},
    {FIELD_WITHIN(msg_failed, ENUM, code, ERR_OK + 1, ERR_COUNT - 1),
     .name_of = code_name, .expected = "the name of an error code"},
    {FIELD_OF(msg_failed, REASON, reason)},
    {.name = NULL},
};

static const struct json_field window_fields[] = {
    {FIELD_OF(progress_window, REAL, sum)},
    {FIELD_OF(progress_window, U64, samples)},
    {FIELD_OF(progress_window, U64, clocks), .min = 1},
    {FIELD_OF(progress_window, SECONDS, seconds)},
    {FIELD_OF(progress_window, SECONDS, wait_s), .optional = true},
    {FIELD_OF(progress_window, SECONDS, copy_s), .optional = true},
    {FIELD_OF(progress_window, SECONDS, stalled_s), .optional = true},
    {.name = NULL},
};

static const struct field_list windows = {
    .fields = window_fields,
    .item = sizeof(struct progress_window),
    .count = offsetof(struct msg_report, windows),
    .owned = true,
};
static const struct json_field report_fields[] = {
    {FIELD_OF(msg_report, ID, branch), A_BRANCH},
    {FIELD_OF(msg_report, U64, first)},
    {.name = "windows",
     .kind = FIELD_COLUMNS,
     .offset = offsetof(struct msg_report, window),
     .min = 1,
     .max = PROTO_WINDOWS_MAX,
     .list = &windows},
    {FIELD_OF(msg_report, OBJECT, values), .optional = true},
    {.name = NULL},
};

static const struct json_field held_fields[] = {
    {FIELD_OF(msg_held, ID, branch), A_BRANCH},
    {FIELD_AS("shared", msg_held, U64, shared_bytes)},
    {FIELD_AS("private", msg_held, U64, private_bytes)},
    {.name = NULL},
};

static const struct field_list held = {
    .fields = held_fields,
    .item = sizeof(struct msg_held),
    .count = offsetof(struct msg_beat, held),
};
const struct json_field msg_beat_fields[] = {
    {FIELD_OF(msg_beat, U32, node)},
    {FIELD_OF(msg_beat, U64, memory_bytes), .optional = true},
    {FIELD_OF(msg_beat, U64, memory_reserved_bytes), .optional = true},
    {FIELD_OF(msg_beat, U64, memory_limit_bytes), .optional = true},
    {FIELD_OF(msg_beat, U64, memory_saved_bytes), .optional = true},
    {FIELD_OF(msg_beat, U64, device_bytes), .optional = true, .sparse = true},
    {FIELD_OF(msg_beat, U64, device_limit_bytes), .optional = true,
     .sparse = true},
    {FIELD_OF(msg_beat, U64, device_bytes_in), .optional = true,
     .sparse = true},
    {FIELD_OF(msg_beat, U64, device_bytes_out), .optional = true,
     .sparse = true},
    {FIELD_OF(msg_beat, U64, device_waits), .optional = true, .sparse = true},
    {FIELD_OF(msg_beat, U64, chunks_shared), .optional = true},
    {FIELD_OF(msg_beat, U64, chunks_private), .optional = true},
    {FIELD_OF(msg_beat, U64, bytes_copied), .optional = true},
    {FIELD_OF(msg_beat, U64, bytes_sent), .optional = true},
    {FIELD_OF(msg_beat, U64, bytes_received), .optional = true},
    {FIELD_OF(msg_beat, U32, branches), .optional = true},
    {FIELD_OF(msg_beat, U32, workers), .optional = true},
    {FIELD_OF(msg_beat, U64, clocks), .optional = true, .sparse = true},
    {FIELD_OF(msg_beat, SECONDS, seconds), .optional = true},
    {FIELD_OF(msg_beat, SECONDS, wait_s), .optional = true},
    {FIELD_OF(msg_beat, SECONDS, copy_s), .optional = true},
    {FIELD_OF(msg_beat, SECONDS, stalled_s), .optional = true},
    {FIELD_OF(msg_beat, U64, data_bytes_sent), .optional = true},
    {FIELD_OF(msg_beat, U64, data_bytes_received), .optional = true},
    {FIELD_OF(msg_beat, U64, data_frames_sent), .optional = true},
    {FIELD_OF(msg_beat, U64, data_frames_received), .optional = true},
    {FIELD_OF(msg_beat, U64, data_frames_ignored), .optional = true},
    {FIELD_OF(msg_beat, U64, rows_updated), .optional = true},
    {FIELD_OF(msg_beat, U64, rows_asked), .optional = true},
    {FIELD_OF(msg_beat, U64, rows_got), .optional = true},
    {FIELD_OF(msg_beat, U64, rows_due), .optional = true},
    {FIELD_OF(msg_beat, U64, rows_early), .optional = true},
    {FIELD_OF(msg_beat, U64, rows_answered), .optional = true},
    {FIELD_OF(msg_beat, U64, rows_pushed), .optional = true},
    {FIELD_OF(msg_beat, U64, rows_pushed_early), .optional = true},
    {FIELD_OF(msg_beat, U64, bytes_charged), .optional = true},
    {FIELD_OF(msg_beat, U64, overused), .optional = true},
    {FIELD_OF(msg_beat, U64, early_suspended), .optional = true},
    {FIELD_OF(msg_beat, SECONDS, client_wait_s), .optional = true},
    {FIELD_OF(msg_beat, SECONDS, server_wait_s), .optional = true},
    {FIELD_OF(msg_beat, CUSTOM, staleness), .optional = true,
     .custom = &staleness_codec,
     .expected = "an object with least, counts and sum"},
    {.name = "held",
     .kind = FIELD_TUPLES,
     .optional = true,
     .offset = offsetof(struct msg_beat, hold),
     .max = PROTO_HELD_MAX,
     .list = &held},
    {.name = NULL},
};

const struct proto_kind proto_kinds[MSG_KIND_COUNT] = {
    [MSG_CONFIG] = {"config", OP_ALLOWED, config_fields},
    [MSG_FORK] = {"fork", OP_NEEDED, fork_fields},
    [MSG_FREE] = {"free", OP_NEEDED, free_fields},
    [MSG_SCHEDULE] = {"schedule", OP_NEEDED, schedule_fields},
    [MSG_CUT] = {"cut", OP_ALLOWED, cut_fields},
    [MSG_HOLD] = {"hold", OP_NEEDED, hold_fields},
    [MSG_SNAPSHOT] = {"snapshot", OP_NEEDED, path_fields},
    [MSG_RESTORE] = {"restore", OP_NEEDED, path_fields},
    [MSG_SAVE] = {"save", OP_NEEDED, path_fields},
    [MSG_ROWS] = {"rows", OP_NEEDED, rows_fields},
    [MSG_STOP] = {"stop", OP_ALLOWED, stop_fields},
    [MSG_HELLO] = {"hello", OP_ALLOWED, hello_fields},
    [MSG_READY] = {"ready", OP_ALLOWED, ready_fields},
    [MSG_FORKED] = {"forked", OP_NEEDED, forked_fields},
    [MSG_DONE] = {"done", OP_NEEDED, done_fields},
    [MSG_FAILED] = {"failed", OP_ALLOWED, failed_fields},
    [MSG_REPORT] = {"report", OP_ALLOWED, report_fields},
    [MSG_BEAT] = {"beat", OP_ALLOWED, msg_beat_fields},
};

static const char *const reductions[] = {"mean", "sqrt_mean", "exp_mean",
                                         "whole"};

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
            return "metric_reduction: expected mean, sqrt_mean, exp_mean or "
                   "whole";
    wrong = check_names(m->tunables);
    if (!wrong)
        wrong = extras_check_names(m->metrics);
    if (!wrong && m->files && !data_list_is(m->files, DATA_LIST_TOLD_MAX))
        wrong = "files: expected objects with path, bytes and sum, at most 128";
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
        return extras_check(m->report.values, m->report.windows);
    default:
        return NULL;
    }
}
