/* The state of strategy `mltuner`: mltuner.c goes through the phases,
 * mltuner_saved.c writes it into snapshots and reads it back. */
#ifndef TUNER_MLTUNER_H
#define TUNER_MLTUNER_H

#include "tuner/board/plateau.h"
#include "tuner/board/training.h"
#include "tuner/search/finals.h"
#include "tuner/search/search.h"
#include "tuner/strategies/cooldown.h"
#include "tuner/strategies/horizon.h"

enum phase {
    PHASE_BEGIN,  /* nothing yet */
    PHASE_FORK,   /* a training branch without a search */
    PHASE_RESUME, /* as it was when the run was interrupted */
    PHASE_SEARCH, /* trials */
    PHASE_FINALS, /* finalists */
    PHASE_TRAIN
};

struct mltuner {
    struct board *c;
    enum phase phase;
    struct setting start; /* `initial`, or the defaults */
    json_t *start_json;   /* owned */
    branch_id forked;     /* in PHASE_FORK */
    struct training line;
    struct plateau plateau;
    struct cooldown cool;
    struct horizon horizon;
    branch_id cooler; /* takes the line's place; BRANCH_NONE: none is forked */
    struct search search;
    struct finals finals;
    double search_share; /* of the run's time: the first search's at most */
    uint32_t searches, trials; /* begun so far */
    uint32_t
        made; /* of these searches, those that no resume went back before */
    uint32_t vain;         /* re-tunes in a row that changed nothing */
    bool best_aside;       /* the best model is none of the line's: a finalist
                            * had it that lost, or what was trained before the
                            * user promoted another branch */
    double trained;        /* since the last search: seconds, or samples with
                            * trial_clocks */
    bool rescue;           /* the search answers a divergence */
    branch_id held_parent; /* of the search, held; BRANCH_NONE: the line's own
                            * branch, or 0 */
    uint32_t returns;
    struct setting barred[PROPOSALS_BARRED_MAX];
    size_t barred_len;
    /* A resumed run, in PHASE_RESUME. */
    struct resumed {
        enum phase phase;       /* that it goes on in: SEARCH or TRAIN */
        branch_id branch;       /* restored, held */
        uint32_t epochs;        /* of its lineage, handed over */
        uint32_t search;        /* that goes on; 0: none */
        bool from_best;         /* the search's parent is the best model */
        bool from_start;        /* or branch 0 */
        bool rescue;            /* the search answers a divergence */
        struct setting setting; /* in use, or that diverged */
    } resumed;
};

/* The setting in use; of a cooldown, the one that it fell from. */
struct setting mltuner_steady(const struct mltuner *s);

#endif
