#include "tuner/board/models.h"

#include "base/mem.h"
#include "tuner/board/branch.h"
#include "tuner/board/parts.h"

#include <assert.h>
#include <math.h>

struct models {
    branch_id base;
    struct best best; /* its branch is held */
    bool no_number;   /* a validation gave none, which has been told */
};

enum err models_init(struct board *c)
{
    assert(!c->models);
    c->models = mem_calloc(1, sizeof(*c->models));
    if (!c->models)
        return ERR_NOMEM;
    models_forget(c);
    return ERR_OK;
}

void models_deinit(struct board *c)
{
    mem_free(c->models);
    c->models = NULL;
}

void models_restore(struct board *c, branch_id base, const struct best *best)
{
    assert(base != BRANCH_NONE);
    *c->models = (struct models){.base = base, .best = *best};
}

void models_forget(struct board *c)
{
    *c->models = (struct models){.base = 0, .best.branch = BRANCH_NONE};
}

/* ---- the present state --------------------------------------------------- */

branch_id board_base(const struct board *c)
{
    return c->models->base;
}

void board_set_base(struct board *c, branch_id branch)
{
    assert(branch != BRANCH_NONE);
    c->models->base = branch;
}

bool board_has_progress(const struct board *c)
{
    return c->models->best.branch != BRANCH_NONE || c->models->base != 0;
}

/* ---- the best model ------------------------------------------------------ */

const struct best *board_best(const struct board *c)
{
    return &c->models->best;
}

double board_score(const struct board *c, double loss, double metric)
{
    if (!board_validates(c))
        return loss;
    return board_system(c)->metric_higher_better ? -metric : metric;
}

double board_result(const struct board *c, double score)
{
    const struct msg_ready *m = board_system(c);
    bool turned = m->validation_samples && m->metric_higher_better;

    return turned ? -score : score;
}

bool board_is_better(const struct board *c, double loss, double metric)
{
    const struct best *best = &c->models->best;
    double score = board_score(c, loss, metric), least;

    if (!isfinite(score))
        return false;
    if (best->branch == BRANCH_NONE)
        return true;
    least = board_score(c, best->loss, best->metric);
    return score < least || (score == least && loss < best->loss);
}

void board_note_metric(struct board *c, const struct branch *b, uint32_t epochs,
                       double metric)
{
    struct record_decision *d;
    char setting[160];

    assert(b);
    if (!isnan(metric) || c->models->no_number)
        return;
    c->models->no_number = true;
    setting_text(board_space(c), &b->setting, setting, sizeof(setting));
    d = board_decision(c, "validation",
                       "the validation of epoch %u gave no number (NaN) with "
                       "%s: its model cannot be the best one",
                       epochs, setting);
    board_decision_number(d, "epoch", epochs);
    board_decision_number(d, "branch", b->id);
}

void board_set_best(struct board *c, branch_id kept, branch_id of,
                    const struct epoch_result *e, double metric)
{
    branch_id old = c->models->best.branch;

    assert(e->epoch > 0);
    assert(branch_is_live(board_branch(c, kept)));
    board_hold(c, kept);
    c->models->best = (struct best){kept, of, e->epoch, e->loss, metric};
    board_drop(c, old, "a better model");
}
