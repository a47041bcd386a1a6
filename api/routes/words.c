#include "api/routes/words.h"

#include "base/commands/commands.h"
#include "base/json/fields_schema.h"
#include "base/proto/table_info.h"
#include "base/role.h"
#include "searchers/searcher.h"
#include "tuner/history/record.h"

#include <assert.h>
#include <stdio.h>

/* A table's function as one of numbers. */
#define BY_NUMBER(function, type)                                              \
    static const char *function##_at(unsigned n)                               \
    {                                                                          \
        return function((enum type)n);                                         \
    }
BY_NUMBER(record_kind_name, record_kind)
BY_NUMBER(trial_label_name, trial_label)
BY_NUMBER(suggestion_state_name, suggestion_state)
BY_NUMBER(asking_name, asking)
BY_NUMBER(speed_unit_name, speed_unit)
BY_NUMBER(branch_type_name, branch_type)
BY_NUMBER(outcome_name, outcome)
BY_NUMBER(table_type_name, table_type)
BY_NUMBER(table_access_name, table_access)
BY_NUMBER(role_name, role)
#undef BY_NUMBER

/* Those of the records, and what a service says of a run that waits. */
static const char *status_at(unsigned n)
{
    return n < RUN_STATUS_COUNT    ? run_status_name((enum run_status)n)
           : n == RUN_STATUS_COUNT ? RUN_STATUS_QUEUED
                                   : RUN_STATUS_HELD;
}

static const char *command_at(unsigned n)
{
    return command_of((enum command_id)n)->name;
}

static const struct {
    const char *name;
    const char *(*name_of)(unsigned);
    unsigned min, max;
} words[] = {
    {"run_status", status_at, 0, RUN_STATUS_COUNT + 1},
    {"end_reason", run_reason_name, 0, RUN_REASON_COUNT - 1},
    {"trial_label", trial_label_name_at, 0, TRIAL_LABEL_COUNT - 1},
    {"trial_outcome", outcome_name_at, 0, OUTCOME_COUNT - 1},
    {"speed_unit", speed_unit_name_at, 0, SPEED_UNIT_COUNT - 1},
    {"branch_type", branch_type_name_at, 0, BRANCH_TYPE_COUNT - 1},
    {"suggestion_state", suggestion_state_name_at, 0,
     SUGGESTION_STATE_COUNT - 1},
    {"asking_state", asking_name_at, 0, ASKING_COUNT - 1},
    {"table_type", table_type_name_at, 0, TABLE_TYPE_COUNT - 1},
    {"table_access", table_access_name_at, 0, TABLE_ACCESS_COUNT - 1},
    {"role", role_name_at, ROLE_ANYBODY, ROLE_ADMIN},
    {"command", command_at, 0, COMMAND_COUNT - 1},
    {"event_kind", record_kind_name_at, 0, RECORD_KIND_COUNT - 1},
};

/* `event`: what one of all kinds says. */
static bool add_events(json_t *schemas)
{
    json_t *all = json_array();
    int failed = 0;

    for (unsigned i = 0; i < RECORD_KIND_COUNT; i++) {
        char name[64], at[96];

        snprintf(name, sizeof(name), "event_%s",
                 record_kind_name((enum record_kind)i));
        snprintf(at, sizeof(at), "#/components/schemas/%s", name);
        failed |= json_object_set_new(schemas, name,
                                      record_schema((enum record_kind)i));
        failed |= json_array_append_new(all, json_pack("{s:s}", "$ref", at));
    }
    if (!failed)
        return !json_object_set_new(schemas, "event",
                                    json_pack("{s:o}", "anyOf", all));
    json_decref(all);
    return false;
}

bool words_add(json_t *schemas)
{
    int failed = 0;

    assert(json_is_object(schemas));
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        assert(!json_object_get(schemas, words[i].name));
        failed |= json_object_set_new(
            schemas, words[i].name,
            words_schema(words[i].name_of, words[i].min, words[i].max));
    }
    return !failed && add_events(schemas);
}
