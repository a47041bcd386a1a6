#include "tuner/strategies/contest_alone.h"
#include "tuner/core/stops.h"

#include "searchers/space/space_json.h"
#include "tuner/board/saved.h"
#include "tuner/core/suggest.h"
#include "tuner/strategies/choice.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

/* A trial of no search: number 0, as of the leader where there is none. */
static void make_adopted(struct contest *ct, const struct branch *b)
{
    struct contestant *x = &ct->adopted;

    assert(b);
    contest_take_over(ct, branch_number(b), branch_setting(b),
                      json_incref(branch_json(b)));
    x->started = true;
    plateau_init(&x->plateau, board_limits(ct->c).plateau_epochs);
    training_init(&x->line, ct->c, branch_number(b), true);
}

enum err contest_adopt(struct contest *ct, branch_id branch)
{
    struct board *c = ct->c;
    char reason[64];

    assert(board_branch(c, branch));
    snprintf(reason, sizeof(reason), "the user promotes branch %u", branch);
    if (ct->open && !ct->ended)
        contest_end(ct, NULL, reason);
    for (uint32_t i = 0; i < contest_begun(ct); i++)
        contest_drop(ct, &ct->x[i], "replaced by the user's");
    if (ct->has_adopted && !ct->adopted.out)
        contest_drop(ct, &ct->adopted, "replaced by the user's");
    if (ct->from)
        board_drop(c, ct->from, "replaced by the user's");
    ct->from = 0;
    suggest_over(c, "the user has promoted a branch: that is trained");
    ct->ended = true;
    ct->leader = 0;
    make_adopted(ct, board_branch(c, branch));
    board_set_base(c, branch);
    choice_record(c, board_branch(c, branch), "promoted by the user");
    board_set_status(c, RUN_TRAINING, "a branch that the user has promoted");
    return ERR_OK;
}

bool contest_trains_adopted(struct contest *ct)
{
    if (!ct->has_adopted)
        return false;
    suggest_over(ct->c, "the strategy makes one search, and that is over");
    contest_train(ct, &ct->adopted);
    return true;
}

/* ---- resuming ------------------------------------------------------------ */

/* The contest's part of a snapshot. */
struct saved_contest {
    uint32_t epochs; /* of its lineage, handed over */
    json_t *setting; /* owned */
    struct plateau plateau;
};

static const struct json_field saved_fields[] = {
    {FIELD_OF(saved_contest, U32, epochs)},
    {FIELD_OF(saved_contest, OBJECT, setting)},
    {FIELD_OF(saved_contest, PART, plateau), .part = saved_plateau},
    {.name = NULL},
};

/* The contestant that is trained alone; NULL: the search is under way, or came
 * to nothing. */
static const struct contestant *trained(const struct contest *ct)
{
    if (ct->has_adopted)
        return &ct->adopted;
    if (!ct->ended || ct->leader == 0)
        return NULL;
    return &ct->x[ct->leader - ct->trials.first];
}

enum err contest_save(const struct contest *ct, branch_id *branch, json_t **out)
{
    const struct contestant *x = trained(ct);
    struct saved_contest saved;
    branch_id of;
    json_t *o;

    assert(branch && out);
    if (!x || x->out)
        return ERR_OK;
    of = x->started ? training_restorable(&x->line) : BRANCH_NONE;
    if (of == BRANCH_NONE)
        return ERR_AGAIN;
    saved = (struct saved_contest){
        .epochs = x->line.epochs,
        .setting = setting_to_json(board_space(ct->c), contest_setting(x)),
        .plateau = x->plateau};
    o = saved.setting ? saved_new(saved_fields, &saved) : NULL;
    fields_deinit(saved_fields, &saved);
    if (!o)
        return ERR_NOMEM;
    *branch = of;
    *out = o;
    return ERR_OK;
}

enum err contest_restore(struct contest *ct, const json_t *saved,
                         branch_id branch)
{
    struct board *c = ct->c;
    struct setting setting;
    json_t *json;
    struct saved_contest read = {0};
    enum err err = ERR_FORMAT;

    assert(!ct->open);
    if (!saved)
        return ERR_OK; /* from the beginning */
    if (branch != 0 && saved_read(saved, saved_fields, &read) &&
        training_may_restore(board_branch(c, branch), read.epochs))
        err = saved_setting(board_space(c), read.setting, &setting);
    fields_deinit(saved_fields, &read);
    if (err)
        return err;
    json = setting_to_json(board_space(c), &setting);
    if (!json)
        return ERR_NOMEM;
    contest_take_over(ct, BRANCH_NONE, &setting, json);
    ct->adopted.plateau = read.plateau;
    ct->adopted.plateau.limit = stops_patience(c);
    ct->ended = true;
    ct->from = branch;
    ct->from_epochs = read.epochs;
    board_hold(c, branch);
    return ERR_OK;
}
