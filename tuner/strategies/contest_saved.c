/* What a snapshot keeps of a contest: what is trained once its search is over.
 */
#include "searchers/space/space_json.h"
#include "tuner/board/saved.h"
#include "tuner/strategies/contest.h"

#include <math.h>

/* What is trained alone; NULL: the search is under way, or came to nothing. */
static const struct contestant *trained(const struct contest *ct)
{
    if (ct->has_adopted)
        return &ct->adopted;
    if (!ct->ended || ct->leader == 0)
        return NULL;
    return &ct->x[ct->leader - ct->first_trial];
}

enum err contest_save(const struct contest *ct, branch_id *branch, json_t **out)
{
    const struct contestant *x = trained(ct);
    branch_id of;
    json_t *o;

    if (!x || x->out)
        return ERR_OK;
    of = x->started ? training_restorable(&x->line) : BRANCH_NONE;
    if (of == BRANCH_NONE)
        return ERR_AGAIN;
    o = json_object();
    if (saved_put_count(o, "epochs", x->line.epochs) |
        saved_put(o, "setting",
                  setting_to_json(board_space(ct->c), &x->setting)) |
        saved_put_plateau(o, &x->plateau)) {
        json_decref(o);
        return ERR_NOMEM;
    }
    *branch = of;
    *out = o;
    return ERR_OK;
}

enum err contest_restore(struct contest *ct, const json_t *saved,
                         branch_id branch)
{
    struct contestant x = {
        .branch = BRANCH_NONE, .judged = true, .score = NAN, .best = NAN};
    struct board *c = ct->c;
    uint32_t epochs;
    enum err err;

    if (!saved)
        return ERR_OK; /* from the beginning */
    plateau_init(&x.plateau, board_options(c)->plateau_epochs);
    if (branch == 0 || !saved_count(saved, "epochs", &epochs) ||
        !saved_plateau(saved, &x.plateau) ||
        !training_may_restore(board_branch(c, branch), epochs))
        return ERR_FORMAT;
    err = saved_setting(board_space(c), json_object_get(saved, "setting"),
                        &x.setting);
    if (err)
        return err;
    x.json = setting_to_json(board_space(c), &x.setting);
    if (!x.json)
        return ERR_NOMEM;
    ct->adopted = x;
    ct->has_adopted = ct->ended = true;
    ct->from = branch;
    ct->from_epochs = epochs;
    board_hold(c, branch);
    return ERR_OK;
}
