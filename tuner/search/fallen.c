#include "tuner/search/fallen.h"

#include "searchers/space/space_json.h"

#include <assert.h>
#include <math.h>

void fallen_init(struct fallen *x)
{
    assert(x);
    *x = (struct fallen){.branch = BRANCH_NONE, .epoch = {.metric = NAN}};
}

void fallen_deinit(struct fallen *x, struct board *c)
{
    assert(x && c);
    if (x->started)
        training_deinit(&x->line);
    x->started = false;
    board_free(c, x->branch, "a look with a lower learning rate");
    x->branch = BRANCH_NONE;
}

static const struct branch *fork_of(struct board *c, branch_id parent,
                                    const struct setting *setting)
{
    struct setting low = *setting;
    int rate = space_find(board_space(c), "learning_rate");
    const struct branch *b = NULL;
    json_t *json;

    assert(rate >= 0);
    low.value[rate] *= FALLEN_RATE;
    json = setting_to_json(board_space(c), &low);
    if (json)
        b = board_fork(c, board_branch(c, parent), BRANCH_TRAINING, &low, json,
                       "finalist");
    json_decref(json);
    return b;
}

/* Its branch is there and a line runs it. False: not yet, or it is over. */
static bool started(struct fallen *x, struct board *c, branch_id parent,
                    const struct setting *setting)
{
    const struct branch *b = board_branch(c, x->branch);

    if (x->started)
        return true;
    if (!b) {
        b = fork_of(c, parent, setting);
        if (!b) {
            board_retry(c);
            return false;
        }
        x->branch = branch_number(b);
    }
    if (branch_is_refused(b)) {
        fallen_deinit(x, c);
        x->over = true;
    }
    if (x->over || !branch_is_live(b) || branch_waits(b))
        return false;
    training_init(&x->line, c, x->branch, false);
    x->started = true;
    return true;
}

bool fallen_advance(struct fallen *x, struct board *c, branch_id parent,
                    const struct setting *setting)
{
    uint32_t before = branch_epochs(board_branch(c, parent));
    enum training_state state;

    if (x->over || !started(x, c, parent, setting))
        return x->over;
    /* The line may hand over the epoch first that its parent ended with. */
    do {
        training_go(&x->line);
        state = training_advance(&x->line, &x->epoch);
    } while (state == TRAINING_EPOCH && x->epoch.e.epoch <= before);
    if (state == TRAINING_BUSY)
        return false;
    assert(state == TRAINING_EPOCH || state == TRAINING_BROKEN);
    x->seen = state == TRAINING_EPOCH;
    if (x->seen)
        training_record(&x->line, &x->epoch, false, false);
    fallen_deinit(x, c);
    x->over = true;
    return true;
}
