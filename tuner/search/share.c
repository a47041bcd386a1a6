#include "tuner/search/share.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

static double limit_s(const struct judge *j)
{
    return board_limits(j->trials->c).max_time_s;
}

bool share_used(const struct judge *j, double share, double took_s)
{
    struct trial *best;

    assert(share >= 0 && took_s >= 0);
    if (share == 0 || units_by_samples(j->trials->c) ||
        took_s < share * limit_s(j))
        return false;
    return trials_incumbent(j->trials) || judge_fastest(j, &best, 1) == 1;
}

/* Whether nothing of the trials is under way; cuts what is. */
static bool at_rest(const struct trial_time *t)
{
    const struct trials *all = t->judge->trials;
    bool rest = true;

    board_cut(all->c, t->judge->probe.branch);
    for (uint32_t i = 0; i < all->n; i++) {
        const struct branch *b = board_branch(all->c, all->list[i].branch);

        if (!b || (!branch_is_forking(b) && branch_slices_out(b) == 0))
            continue;
        if (branch_slices_out(b) > 0)
            board_cut(all->c, branch_number(b));
        rest = false;
    }
    return rest;
}

static bool is_broken(const struct branch *b)
{
    return branch_is_refused(b) || branch_is_nonfinite(b) || branch_error(b);
}

bool share_wind_up(const struct trial_time *t)
{
    struct trials *all = t->judge->trials;

    if (!at_rest(t))
        return false;
    for (uint32_t i = 0; i < all->n; i++) {
        struct trial *x = &all->list[i];
        const struct branch *b = board_branch(all->c, x->branch);

        if (!b)
            continue;
        if (is_broken(b)) {
            x->again = x->judged = false;
            x->arrived = true;
        } else if (!t->decided) { /* all have run for about as long */
            x->arrived = branch_own_samples(b) > 0;
        } else if (!x->arrived && !x->again && !x->incumbent) {
            trial_free(all->c, x, "the search is over");
        }
    }
    judge_arrived(t->judge);
    return true;
}

void share_tell(const struct judge *j, double share, double took_s, char *out,
                size_t size)
{
    struct board *c = j->trials->c;
    struct record_decision *d;

    snprintf(out, size,
             "the first search has had its share of the run's time, %.3g of "
             "%.4g s",
             took_s, limit_s(j));
    d = board_decision(c, "search_share",
                       "%s (search_share %g): after %u trials it ends with the "
                       "best so far",
                       out, share, trials_made(j->trials));
    board_decision_number(d, "seconds", took_s);
    board_decision_number(d, "max_time", limit_s(j));
    board_decision_number(d, "share", share);
    board_decision_number(d, "trials", trials_made(j->trials));
}
