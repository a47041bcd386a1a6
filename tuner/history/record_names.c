#include "tuner/history/record.h"

#include <assert.h>
#include <string.h>

static const char *const kind_names[] = {
#define NAME(name, lower, what) [RECORD_##name] = #lower,
    RECORD_LIST(NAME)
#undef NAME
};

static const char *const status_names[] = {
#define NAME(name, lower) [RUN_##name] = #lower,
    RUN_STATUS_LIST(NAME)
#undef NAME
};

static const char *const reason_names[] = {
#define NAME(name) #name,
    RUN_REASON_LIST(NAME)
#undef NAME
};

static const char *const label_names[] = {
#define NAME(name, lower) [TRIAL_##name] = #lower,
    TRIAL_LABEL_LIST(NAME)
#undef NAME
};

static const char *const suggestion_names[] = {
#define NAME(name, lower) [SUGGESTION_##name] = #lower,
    SUGGESTION_STATE_LIST(NAME)
#undef NAME
};

static const char *const asking_names[] = {
#define NAME(name, lower) [ASKING_##name] = #lower,
    ASKING_LIST(NAME)
#undef NAME
};

static const char *const speed_names[] = {
#define NAME(name, lower) [SPEED_##name] = #lower,
    SPEED_UNIT_LIST(NAME)
#undef NAME
};

const char *record_kind_name(enum record_kind kind)
{
    assert((unsigned)kind < RECORD_KIND_COUNT);
    return kind_names[kind];
}

const char *run_status_name(enum run_status status)
{
    assert((unsigned)status < RUN_STATUS_COUNT);
    return status_names[status];
}

const char *run_reason_name(unsigned number)
{
    enum { OWN = sizeof(reason_names) / sizeof(reason_names[0]) };

    assert(number < RUN_REASON_COUNT);
    return number < OWN ? reason_names[number]
                        : err_name((enum err)(number - OWN + 1));
}

bool run_reason_is_known(const char *reason)
{
    assert(reason);
    for (unsigned i = 0; i < RUN_REASON_COUNT; i++)
        if (strcmp(run_reason_name(i), reason) == 0)
            return true;
    return false;
}

const char *trial_label_name(enum trial_label label)
{
    assert((unsigned)label < TRIAL_LABEL_COUNT);
    return label_names[label];
}

const char *suggestion_state_name(enum suggestion_state state)
{
    assert((unsigned)state < SUGGESTION_STATE_COUNT);
    return suggestion_names[state];
}

const char *asking_name(enum asking asking)
{
    assert((unsigned)asking < ASKING_COUNT);
    return asking_names[asking];
}

const char *speed_unit_name(enum speed_unit unit)
{
    assert((unsigned)unit < SPEED_UNIT_COUNT);
    return speed_names[unit];
}

enum speed_unit speed_unit_of(bool e_folds, bool by_samples)
{
    if (by_samples)
        return e_folds ? SPEED_E_FOLDS_PER_SAMPLE : SPEED_LOSS_PER_SAMPLE;
    return e_folds ? SPEED_E_FOLDS_PER_SECOND : SPEED_LOSS_PER_SECOND;
}

bool run_status_is_end(enum run_status status)
{
    return status == RUN_FINISHED || status == RUN_FAILED ||
           status == RUN_INTERRUPTED || status == RUN_STOPPED;
}

static bool is_status(const char *name, enum run_status status)
{
    return strcmp(name, status_names[status]) == 0;
}

bool run_status_names_end(const char *status)
{
    for (int i = 0; status && i < RUN_STATUS_COUNT; i++)
        if (is_status(status, (enum run_status)i))
            return run_status_is_end((enum run_status)i);
    return false;
}

bool run_status_resumes(const char *status, bool work)
{
    assert(status);
    return is_status(status, RUN_INTERRUPTED) ||
           is_status(status, RUN_STOPPED) ||
           (is_status(status, RUN_FAILED) && work);
}
