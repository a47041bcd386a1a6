#include "tuner/history/record_table.h"

#include "base/json/json.h"

#include <string.h>

static const char *status_name(unsigned n)
{
    return run_status_name((enum run_status)n);
}

static const char *label_name(unsigned n)
{
    return trial_label_name((enum trial_label)n);
}

static const char *state_name(unsigned n)
{
    return suggestion_state_name((enum suggestion_state)n);
}

static const char *wanted_name(unsigned n)
{
    return asking_name((enum asking)n);
}

static const char *unit_name(unsigned n)
{
    return speed_unit_name((enum speed_unit)n);
}

static const char *type_name(unsigned n)
{
    return branch_type_name((enum branch_type)n);
}

/* The figures of a decision, of which @member is the whole: an object of them
 * by name. */
static json_t *numbers_to_json(const void *member)
{
    const struct record_decision *d = member;
    json_t *o = json_object();

    for (uint32_t i = 0; o && i < d->numbers; i++)
        if (json_object_set_new(o, d->number[i].name,
                                json_of_number(d->number[i].value))) {
            json_decref(o);
            return NULL;
        }
    return o;
}

static bool numbers_from_json(const json_t *v, void *member)
{
    struct record_decision *d = member;
    const char *key;
    json_t *value;

    if (!json_is_object(v) || json_object_size(v) > RECORD_NUMBERS_MAX)
        return false;
    json_object_foreach((json_t *)v, key, value)
    {
        size_t len = strlen(key);

        if (len >= sizeof(d->number[0].name) ||
            !json_to_number(value, &d->number[d->numbers].value))
            return false;
        memcpy(d->number[d->numbers++].name, key, len + 1);
    }
    return true;
}

static const struct field_custom numbers_codec = {numbers_to_json,
                                                  numbers_from_json};

/* All newer than the first journals. */
static const struct json_field limits[] = {
    {FIELD_OF(record_limits, REAL, target_loss), .optional = true},
    {FIELD_OF(record_limits, REAL, target_metric), .optional = true},
    {FIELD_OF(record_limits, REAL, max_time_s), .optional = true},
    {FIELD_OF(record_limits, U32, plateau_epochs), .optional = true},
    {FIELD_OF(record_limits, U32, max_epochs), .optional = true},
    {.name = NULL},
};

static const struct json_field run_started[] = {
    {FIELD_OF(record_run_started, TEXT, run)},
    {FIELD_OF(record_run_started, TEXT, name)},
    {FIELD_OF(record_run_started, TEXT, app)},
    {FIELD_OF(record_run_started, TEXT, strategy)},
    {FIELD_OF(record_run_started, TEXT, searcher)},
    {FIELD_OF(record_run_started, U64, seed)},
    {FIELD_OF(record_run_started, REAL, started_unix_s)},
    {FIELD_OF(record_run_started, U64, samples)},
    {FIELD_OF(record_run_started, U64, validation_samples)},
    {FIELD_OF(record_run_started, U64, parts)},
    {FIELD_OF(record_run_started, U32, workers)},
    {FIELD_OF(record_run_started, TEXT, metric)},
    {FIELD_OF(record_run_started, BOOL, metric_higher_better)},
    {FIELD_OF(record_run_started, PART, limits), .part = limits},
    {.name = NULL},
};

static const struct json_field run_status[] = {
    {FIELD_WITHIN(record_run_status, ENUM, status, 0, RUN_STATUS_COUNT - 1),
     .name_of = status_name},
    {FIELD_OF(record_run_status, REASON, reason)},
    {.name = NULL},
};

static const struct json_field run_finished[] = {
    {FIELD_WITHIN(record_run_finished, ENUM, status, 0, RUN_STATUS_COUNT - 1),
     .name_of = status_name},
    {FIELD_OF(record_run_finished, TEXT, reason)},
    {FIELD_OF(record_run_finished, REASON, message)},
    {FIELD_OF(record_run_finished, REAL, waiting_s), .optional = true},
    {FIELD_OF(record_run_finished, ARRAY, last_words), .optional = true},
    {FIELD_OF(record_run_finished, ID, last_words_node), .optional = true},
    {.name = NULL},
};

static const struct json_field run_resumed[] = {
    {FIELD_OF(record_run_resumed, ID_OR_NULL, from)},
    {FIELD_OF(record_run_resumed, U32, epoch)},
    {FIELD_OF(record_run_resumed, U32, best_epoch)},
    {FIELD_OF(record_run_resumed, ID, best_of), .optional = true},
    {FIELD_OF(record_run_resumed, U32, search)},
    {FIELD_OF(record_run_resumed, U32, next_trial), .optional = true,
     .sparse = true},
    {FIELD_OF(record_run_resumed, U32, restarts)},
    {FIELD_OF(record_run_resumed, REAL, unix_s), .optional = true},
    {FIELD_OF(record_run_resumed, TEXT, path)},
    {FIELD_OF(record_run_resumed, TEXT, reason)},
    {.name = NULL},
};

static const struct json_field command[] = {
    {FIELD_OF(record_command, TEXT, command)},
    {FIELD_OF(record_command, BOOL, paused)},
    {FIELD_OF(record_command, BOOL, retune)},
    {FIELD_OF(record_command, PART, limits), .part = limits},
    {.name = NULL},
};

static const struct json_field search_started[] = {
    {FIELD_OF(record_search_started, U32, search)},
    {FIELD_OF(record_search_started, BOOL, retune)},
    {FIELD_OF(record_search_started, ID_OR_NULL, parent)},
    {FIELD_OF(record_search_started, U32, trials_max)},
    {FIELD_OF(record_search_started, REASON, reason)},
    {FIELD_OF(record_search_started, OBJECT, tunables), .optional = true},
    {.name = NULL},
};

static const struct json_field search_decided[] = {
    {FIELD_OF(record_search_decided, U32, search)},
    {FIELD_OF(record_search_decided, REAL, trial_s)},
    {FIELD_OF(record_search_decided, REAL, judged_s)},
    {.name = NULL},
};

static const struct json_field search_ended[] = {
    {FIELD_OF(record_search_ended, U32, search)},
    {FIELD_OF(record_search_ended, U32, trials)},
    {FIELD_OF(record_search_ended, U32, winner)},
    {FIELD_OF(record_search_ended, REAL, trial_s)},
    {FIELD_OF(record_search_ended, REAL, seconds)},
    {FIELD_OF(record_search_ended, U64, clocks)},
    {FIELD_OF(record_search_ended, REASON, reason)},
    {FIELD_OF(record_search_ended, REAL, waiting_s), .optional = true},
    {.name = NULL},
};

/* The points stand as two arrays in the struct, time and loss. */
static const struct json_field point_columns[] = {
    {.name = "time_s", .kind = FIELD_REAL},
    {.name = "loss",
     .kind = FIELD_REAL,
     .offset = offsetof(struct trial_figures, loss) -
               offsetof(struct trial_figures, time_s)},
    {.name = NULL},
};
static const struct field_list points = {
    .fields = point_columns,
    .item = sizeof(double),
    .count = offsetof(struct record_trial, figures.points),
};
static const struct json_field trial[] = {
    {FIELD_OF(record_trial, U32, trial)},
    {FIELD_OF(record_trial, U32, search)},
    {FIELD_OF(record_trial, ID_OR_NULL, branch)},
    {FIELD_OF(record_trial, OBJECT, setting), .optional = true},
    {FIELD_OF(record_trial, BOOL, incumbent)},
    {FIELD_WITHIN(record_trial, ENUM, label, 0, TRIAL_LABEL_COUNT - 1),
     .name_of = label_name},
    {FIELD_AS("speed", record_trial, REAL, figures.speed)},
    {.name = "speed_unit",
     .kind = FIELD_ENUM,
     .offset = offsetof(struct record_trial, figures.speed_unit),
     .max = SPEED_UNIT_COUNT - 1,
     .name_of = unit_name,
     .optional = true,
     .sparse = true},
    {FIELD_AS("noise", record_trial, REAL, figures.noise)},
    {FIELD_AS("range", record_trial, REAL, figures.range)},
    {FIELD_AS("seconds", record_trial, REAL, figures.seconds)},
    {FIELD_AS("samples", record_trial, U64, figures.samples)},
    {FIELD_AS("clocks", record_trial, U64, figures.clocks)},
    {FIELD_AS("lead", record_trial, REAL, figures.lead), .optional = true},
    {FIELD_AS("lead_se", record_trial, REAL, figures.lead_se),
     .optional = true},
    {FIELD_AS("pace", record_trial, REAL, figures.pace), .optional = true},
    {FIELD_AS("paced", record_trial, REAL, figures.paced), .optional = true},
    {FIELD_AS("run_s", record_trial, REAL, figures.run_s), .optional = true},
    {FIELD_AS("pairs", record_trial, U32, figures.pairs), .optional = true},
    {FIELD_AS("window_noise", record_trial, REAL, figures.window_noise),
     .optional = true},
    {FIELD_AS("result", record_trial, REAL, figures.result), .optional = true},
    {FIELD_AS("tested", record_trial, BOOL, figures.tested), .optional = true},
    {FIELD_OF(record_trial, REASON, reason), .optional = true},
    {FIELD_OF(record_trial, U32, suggestion), .optional = true},
    {FIELD_WITHIN(record_trial, COLUMNS, figures.time_s, 0, RECORD_POINTS_MAX),
     .list = &points},
    {.name = NULL},
};

static const struct json_field branch_created[] = {
    {FIELD_OF(record_branch_created, ID_OR_NULL, branch)},
    {FIELD_OF(record_branch_created, ID_OR_NULL, parent)},
    {FIELD_WITHIN(record_branch_created, ENUM, type, 0, BRANCH_TYPE_COUNT - 1),
     .name_of = type_name},
    {FIELD_OF(record_branch_created, OBJECT, setting), .optional = true},
    {FIELD_OF(record_branch_created, TEXT, role)},
    {.name = NULL},
};

static const struct json_field branch_freed[] = {
    {FIELD_OF(record_branch_freed, ID_OR_NULL, branch)},
    {FIELD_OF(record_branch_freed, TEXT, reason)},
    {.name = NULL},
};

static const struct json_field user_branch[] = {
    {FIELD_OF(record_user_branch, ID_OR_NULL, branch)},
    {FIELD_OF(record_user_branch, ID_OR_NULL, instead_of)},
    {FIELD_OF(record_user_branch, BOOL, promoted)},
    {FIELD_OF(record_user_branch, U32, epochs)},
    {FIELD_OF(record_user_branch, U64, clocks)},
    {.name = NULL},
};

static const struct json_field suggestion[] = {
    {FIELD_OF(record_suggestion, U32, suggestion)},
    {FIELD_WITHIN(record_suggestion, ENUM, state, 0,
                  SUGGESTION_STATE_COUNT - 1),
     .name_of = state_name},
    {FIELD_OF(record_suggestion, U32, trial)},
    {FIELD_OF(record_suggestion, OBJECT, setting), .optional = true},
    {FIELD_OF(record_suggestion, REASON, reason)},
    {FIELD_OF(record_suggestion, TEXT, key)},
    {.name = NULL},
};

static const struct json_field asking[] = {
    {FIELD_OF(record_asking, U32, search)},
    {FIELD_WITHIN(record_asking, ENUM, asking, 0, ASKING_COUNT - 1),
     .name_of = wanted_name},
    {FIELD_OF(record_asking, REASON, reason)},
    {.name = NULL},
};

static const struct json_field tables[] = {
    {FIELD_OF(record_tables, ARRAY, tables), .optional = true},
    {FIELD_OF(record_tables, TREE, data), .optional = true},
    {.name = NULL},
};

static const struct json_field increment[] = {
    {FIELD_OF(record_increment, U64, number)},
    {FIELD_OF(record_increment, ID_OR_NULL, branch)},
    {FIELD_OF(record_increment, TEXT, table)},
    {FIELD_OF(record_increment, U64, row)},
    {FIELD_OF(record_increment, U32, values)},
    {FIELD_OF(record_increment, REAL, norm)},
    {.name = NULL},
};

static const struct json_field slice_scheduled[] = {
    {FIELD_OF(record_slice_scheduled, ID_OR_NULL, branch)},
    {FIELD_OF(record_slice_scheduled, U64, first)},
    {FIELD_OF(record_slice_scheduled, U64, count)},
    {FIELD_OF(record_slice_scheduled, U64, report_every)},
    {.name = NULL},
};

static const struct json_field slice_ended[] = {
    {FIELD_OF(record_slice_ended, ID_OR_NULL, branch)},
    {FIELD_OF(record_slice_ended, U64, first)},
    {FIELD_OF(record_slice_ended, U64, clocks)},
    {FIELD_OF(record_slice_ended, REAL, switch_s)},
    {FIELD_OF(record_slice_ended, U64, data_bytes), .optional = true},
    {FIELD_OF(record_slice_ended, U64, reads), .optional = true},
    {FIELD_OF(record_slice_ended, REAL, staleness), .optional = true},
    {FIELD_OF(record_slice_ended, REAL, waiting_s), .optional = true},
    {.name = NULL},
};

static const struct json_field window[] = {
    {FIELD_OF(progress_window, REAL, sum)},
    {FIELD_OF(progress_window, U64, samples)},
    {FIELD_OF(progress_window, U64, clocks)},
    {FIELD_OF(progress_window, REAL, seconds)},
    {FIELD_OF(progress_window, REAL, copy_s)},
    {FIELD_OF(progress_window, REAL, stalled_s)},
    {.name = NULL},
};
static const struct field_list windows = {
    .fields = window,
    .item = sizeof(struct progress_window),
    .count = offsetof(struct record_progress, windows),
};
static const struct json_field progress[] = {
    {FIELD_OF(record_progress, ID_OR_NULL, branch)},
    {FIELD_OF(record_progress, U64, first)},
    {FIELD_OF(record_progress, U64, branch_clock)},
    {.name = "windows",
     .kind = FIELD_OBJECTS,
     .offset = offsetof(struct record_progress, window),
     .max = RECORD_WINDOWS_MAX,
     .list = &windows},
    {FIELD_OF(record_progress, OBJECT, values), .optional = true},
    {.name = NULL},
};

static const struct json_field epoch_ended[] = {
    {FIELD_OF(record_epoch_ended, U32, epoch)},
    {FIELD_OF(record_epoch_ended, ID_OR_NULL, branch)},
    {FIELD_OF(record_epoch_ended, BOOL, surviving)},
    {FIELD_OF(record_epoch_ended, OBJECT, setting), .optional = true},
    {FIELD_OF(record_epoch_ended, U64, clock)},
    {FIELD_OF(record_epoch_ended, REAL, loss)},
    {FIELD_OF(record_epoch_ended, REAL, metric)},
    {FIELD_OF(record_epoch_ended, BOOL, best)},
    {FIELD_OF(record_epoch_ended, REAL, seconds)},
    {.name = NULL},
};

static const struct json_field setting_chosen[] = {
    {FIELD_OF(record_setting_chosen, U64, clock)},
    {FIELD_OF(record_setting_chosen, ID_OR_NULL, branch)},
    {FIELD_OF(record_setting_chosen, OBJECT, setting), .optional = true},
    {FIELD_OF(record_setting_chosen, REASON, reason)},
    {.name = NULL},
};

static const struct json_field decision[] = {
    {FIELD_OF(record_decision, TEXT, decision)},
    {FIELD_OF(record_decision, REASON, text)},
    {.name = "numbers", .kind = FIELD_CUSTOM, .custom = &numbers_codec},
    {.name = NULL},
};

static const struct json_field snapshot_written[] = {
    {FIELD_OF(record_snapshot_written, ID_OR_NULL, branch)},
    {FIELD_OF(record_snapshot_written, U64, clock)},
    {FIELD_OF(record_snapshot_written, U32, epoch)},
    {FIELD_OF(record_snapshot_written, U64, bytes)},
    {FIELD_OF(record_snapshot_written, TEXT, path)},
    {FIELD_OF(record_snapshot_written, U32, best_epoch), .optional = true},
    {FIELD_OF(record_snapshot_written, ID, best_of), .optional = true},
    {FIELD_OF(record_snapshot_written, TEXT, best_path), .optional = true},
    {FIELD_OF(record_snapshot_written, OBJECT, state), .optional = true},
    {.name = NULL},
};

static const struct json_field model_saved[] = {
    {FIELD_OF(record_model_saved, ID_OR_NULL, branch)},
    {FIELD_OF(record_model_saved, U32, epoch)},
    {FIELD_OF(record_model_saved, REAL, loss)},
    {FIELD_OF(record_model_saved, REAL, metric)},
    {FIELD_OF(record_model_saved, U64, bytes)},
    {FIELD_OF(record_model_saved, TEXT, path)},
    {FIELD_OF(record_model_saved, OBJECT, data), .optional = true},
    {.name = NULL},
};

static const struct json_field node[] = {
    {FIELD_OF(record_node, PART, beat), .part = msg_beat_fields},
    {.name = NULL},
};

const struct record_members record_kinds[RECORD_KIND_COUNT] = {
#define KIND(NAME, lower)                                                      \
    [RECORD_##NAME] = {lower, sizeof(struct record_##lower)},
#define TRIAL(NAME)                                                            \
    [RECORD_TRIAL_##NAME] = {trial, sizeof(struct record_trial)},
    KIND(RUN_STARTED, run_started) KIND(RUN_STATUS, run_status) KIND(
        RUN_FINISHED, run_finished) KIND(RUN_RESUMED, run_resumed)
        KIND(COMMAND, command) KIND(SEARCH_STARTED, search_started) KIND(
            SEARCH_DECIDED, search_decided) KIND(SEARCH_ENDED, search_ended)
            TRIAL(STARTED) TRIAL(UPDATED) TRIAL(ENDED) KIND(
                BRANCH_CREATED, branch_created) KIND(BRANCH_FREED, branch_freed)
                KIND(USER_BRANCH, user_branch) KIND(SUGGESTION, suggestion)
                    KIND(ASKING, asking) KIND(TABLES, tables) KIND(INCREMENT,
                                                                   increment)
                        KIND(SLICE_SCHEDULED, slice_scheduled) KIND(
                            SLICE_ENDED, slice_ended) KIND(PROGRESS, progress)
                            KIND(EPOCH_ENDED, epoch_ended)
                                KIND(SETTING_CHOSEN, setting_chosen)
                                    KIND(DECISION, decision)
                                        KIND(SNAPSHOT_WRITTEN, snapshot_written)
                                            KIND(MODEL_SAVED, model_saved)
                                                KIND(NODE, node)
#undef KIND
#undef TRIAL
};
