#include "tuner/strategies/choice.h"

#include "base/json/json.h"
#include "base/json/problems.h"
#include "base/json/schema.h"
#include "tuner/board/strategy.h"
#include "tuner/core/lifecycle.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum err choice_initial(const struct board *c, struct setting *out,
                        struct fault *f)
{
    struct fault why = {0};

    space_default(board_space(c), out);
    if (!board_initial(c))
        return ERR_OK;
    if (space_check(board_space(c), board_initial(c), &why))
        return fault_set(f, ERR_INVAL, "/tuner/initial: %s", why.text);
    *out = *board_initial(c);
    space_canonical(board_space(c), out);
    return ERR_OK;
}

static enum err first_problem(const struct problems *problems, struct fault *f)
{
    char line[FAULT_TEXT_MAX];

    if (problems->no_memory)
        return fault_set(f, ERR_NOMEM, "no memory for a strategy");
    if (problems->errors == 0)
        return ERR_OK;
    return fault_set(f, ERR_INVAL, "%s",
                     problem_text(&problems->item[0], "strategy_settings", line,
                                  sizeof(line)));
}

enum err choice_settings(const struct strategy_ops *ops, const json_t *settings,
                         json_t **out, struct fault *f)
{
    struct problems problems = {0};
    json_t *schema = NULL, *own = NULL;
    enum err err =
        json_load(ops->settings, strlen(ops->settings), &schema, NULL, f);

    assert(ops->settings);
    if (err)
        return err;
    own = settings ? json_copied(settings) : json_object();
    if (own)
        schema_check(schema, own, "", &problems);
    err = own ? first_problem(&problems, f) : ERR_NOMEM;
    if (!err)
        err = schema_complete(schema, own);
    if (err == ERR_NOMEM)
        fault_set(f, err, "no memory for a strategy");
    if (!err)
        *out = own;
    else
        json_decref(own);
    problems_deinit(&problems);
    json_decref(schema);
    return err;
}

static void record(struct board *c, const struct branch *b, const char *what,
                   const char *reason)
{
    struct record_setting_chosen *r = board_record_setting_chosen(c);
    clock_no clock = branch_began(c, b);
    struct record_decision *d;
    char setting[160];

    assert(!branch_is_refused(b));
    assert(branch_json(b));
    r->clock = clock;
    r->branch = branch_number(b);
    r->setting = json_incref(branch_json(b));
    snprintf(r->reason, sizeof(r->reason), "%s", reason);
    setting_text(board_space(c), branch_setting(b), setting, sizeof(setting));
    d = board_decision(c, "setting", "%s %s: %s", what, setting, reason);
    board_decision_number(d, "clock", (double)clock);
    board_decision_number(d, "branch", branch_number(b));
}

void choice_record(struct board *c, const struct branch *b, const char *reason)
{
    record(c, b, "training goes on with", reason);
}

void choice_record_leader(struct board *c, const struct branch *b,
                          const char *reason)
{
    record(c, b, "the leading setting is", reason);
}

void choice_broken(struct board *c, const struct branch *b)
{
    char setting[160];

    assert(branch_is_nonfinite(b) || branch_error(b));
    setting_text(board_space(c), branch_setting(b), setting, sizeof(setting));
    if (branch_is_nonfinite(b))
        lifecycle_end(c, RUN_FAILED, "diverged",
                      "training diverged (loss not finite) with %s", setting);
    else if (branch_error(b) == ERR_LIMIT)
        lifecycle_end(
            c, board_has_progress(c) ? RUN_INTERRUPTED : RUN_FAILED, "limit",
            "no memory for another copy of the model: raise memory.limit");
    else
        lifecycle_end(
            c, err_may_pass(branch_error(b)) ? RUN_INTERRUPTED : RUN_FAILED,
            err_name(branch_error(b)),
            "the training application failed: %.300s", board_failure(c));
}
