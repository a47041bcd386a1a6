#include "tuner/choice.h"

#include "base/problems.h"
#include "searchers/space_json.h"

#include <assert.h>
#include <stdio.h>

enum err choice_initial(const struct board *c, struct setting *out,
                        struct fault *f)
{
    struct problems problems = {0};
    char text[FAULT_TEXT_MAX];
    enum err err;

    space_default(&c->space, out);
    if (!c->options.initial)
        return ERR_OK;
    err = setting_from_json(&c->space, c->options.initial, "/tuner/initial",
                            out, &problems);
    if (err && problems.len)
        fault_set(f, err, "%s",
                  problem_text(&problems.item[0], "", text, sizeof(text)));
    else if (err)
        fault_set(f, err, "/tuner/initial is no setting of the tunables");
    problems_deinit(&problems);
    return err;
}

void choice_record(struct board *c, const struct branch *b, const char *reason)
{
    struct record_setting_chosen *r =
        &board_record(c, RECORD_SETTING_CHOSEN)->setting_chosen;

    r->clock = b->scheduled ? b->first_clock : c->next_clock;
    r->branch = b->id;
    r->setting = json_incref(b->json);
    snprintf(r->reason, sizeof(r->reason), "%s", reason);
}

void choice_broken(struct board *c, const struct branch *b)
{
    char setting[160];

    assert(b->nonfinite || b->error);
    setting_text(&c->space, &b->setting, setting, sizeof(setting));
    if (b->nonfinite)
        board_end(c, RUN_FAILED, "diverged",
                  "training diverged (loss not finite) with %s", setting);
    else if (b->error == ERR_LIMIT)
        board_end(
            c, RUN_FAILED, "limit",
            "no memory for another copy of the model: raise memory.limit");
    else
        board_end(c, RUN_FAILED, err_name(b->error),
                  "the training application failed: %.300s", c->failure);
}
