/* Strategy `tupaq` (Sparks et al. 2015, TuPAQ; what MLtuner's paper names
 * beside Hyperband and Spearmint): bandit allocation over batches of settings.
 *
 * `batch` trials train in turns, `partial` epochs each. Then those that are
 * worse than the best of all by more than 1 + `epsilon` are given up, those
 * that were trained to their ends are over, and new settings take their places
 * until the budget of settings is spent. */
#include "base/mem.h"
#include "tuner/board/strategy.h"
#include "tuner/core/lifecycle.h"
#include "tuner/strategies/choice.h"
#include "tuner/strategies/contest_alone.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

struct tupaq {
    struct board *c;
    struct contest ct;
    double epsilon;
    uint32_t batch, partial;
    uint32_t place[TRIALS_LIVE_MAX]; /* trials; 0: free */
    uint32_t goal[TRIALS_LIVE_MAX];  /* epochs that each is taken to next */
};

static void tupaq_close(void *state)
{
    struct tupaq *s = state;

    if (!s)
        return;
    contest_deinit(&s->ct);
    mem_free(s);
}

static enum err tupaq_open(struct board *c, const json_t *settings,
                           void **state, struct fault *f)
{
    struct tupaq *s = mem_calloc(1, sizeof(*s));
    json_t *own = NULL;
    enum err err;

    if (!s)
        return fault_set(f, ERR_NOMEM, "no memory for a strategy");
    s->c = c;
    err = choice_settings(&strategy_tupaq, settings, &own, f);
    if (!err)
        err = contest_init(&s->ct, c, f);
    if (!err) {
        json_int_t batch = json_integer_value(json_object_get(own, "batch"));
        json_int_t part = json_integer_value(json_object_get(own, "partial"));

        s->batch = (uint32_t)batch;
        s->partial = (uint32_t)part;
        s->epsilon = json_number_value(json_object_get(own, "epsilon"));
    }
    json_decref(own);
    if (err)
        tupaq_close(s);
    else
        *state = s;
    return err;
}

static struct contestant *in(struct tupaq *s, uint32_t i)
{
    assert(i < TRIALS_LIVE_MAX);
    return s->place[i] ? contest_trial(&s->ct, s->place[i]) : NULL;
}

/* The paper's quality: more is better, and above 0. A metric of which more is
 * better is one; of a loss it is what a searcher is told. */
static double quality(const struct tupaq *s, double score)
{
    double result = board_result(s->c, score);

    if (isnan(score))
        return 0;
    return result != score && result > 0
               ? result
               : contest_quality(s->ct.reference, score);
}

/* The best of all trials so far. */
static double best_quality(const struct tupaq *s)
{
    double best = 0;

    for (uint32_t i = 0; i < contest_begun(&s->ct); i++)
        best = fmax(best, quality(s, s->ct.x[i].best));
    return best;
}

/* ---- rounds -------------------------------------------------------------- */

/* Where memory is short, batches are smaller. */
static void share_memory(struct tupaq *s)
{
    if (contest_shortages(&s->ct) == 0 || s->batch == 1)
        return;
    s->batch--;
    board_decision(s->c, "memory", "memory is short: batches of %u trials",
                   s->batch);
}

static uint32_t places_taken(const struct tupaq *s)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < TRIALS_LIVE_MAX; i++)
        n += s->place[i] > 0;
    return n;
}

static void fill(struct tupaq *s)
{
    for (uint32_t i = 0; i < TRIALS_LIVE_MAX; i++) {
        struct contestant *x;

        share_memory(s);
        if (s->place[i] || places_taken(s) >= s->batch)
            continue;
        x = contest_begin(&s->ct);
        if (!x)
            return;
        s->place[i] = contest_number(x);
        s->goal[i] = s->partial;
    }
}

/* Takes each as far as its part. True: all that are there have run it. */
static bool ran(struct tupaq *s)
{
    for (uint32_t i = 0; i < TRIALS_LIVE_MAX; i++) {
        struct contestant *x = in(s, i);

        if (!x)
            continue;
        share_memory(s);
        if (contest_run(&s->ct, x, s->goal[i]) == CONTEST_BUSY ||
            lifecycle_ends(s->c))
            return false;
    }
    return true;
}

/* Gives up what cannot be among the good ones, and frees the places of what is
 * over. */
static void allocate(struct tupaq *s)
{
    double best = best_quality(s);

    for (uint32_t i = 0; i < TRIALS_LIVE_MAX; i++) {
        struct contestant *x = in(s, i);

        if (!x)
            continue;
        contest_judge(&s->ct, x);
        if (!x->out && !x->over &&
            quality(s, x->score) * (1 + s->epsilon) < best) {
            board_decision(s->c, "bandit",
                           "trial %u is given up after %u epochs: another is "
                           "more than %g times as good",
                           contest_number(x), x->last.e.epoch, 1 + s->epsilon);
            contest_drop(&s->ct, x, "another is better");
        } else if (x->over) {
            contest_drop(&s->ct, x, "it is trained to its end");
        }
        s->goal[i] += s->partial;
        if (x->out)
            s->place[i] = 0;
    }
}

static void finish(struct tupaq *s)
{
    struct contest *ct = &s->ct;
    char text[96];

    snprintf(text, sizeof(text),
             "all %u settings of this search were given up or trained",
             contest_begun(ct));
    contest_finish(ct, ct->leader ? contest_trial(ct, ct->leader) : NULL, text);
}

static void tupaq_advance(void *state)
{
    struct tupaq *s = state;
    struct board *c = s->c;
    uint32_t max = 12 + 6 * (uint32_t)space_dims(board_space(c));

    if (board_max_trials(c))
        max = board_max_trials(c);
    if (contest_trains_adopted(&s->ct) ||
        !contest_start(&s->ct, max, "batches of settings"))
        return;
    while (!lifecycle_ends(c)) {
        fill(s);
        if (places_taken(s) == 0) {
            if (contest_spent(&s->ct))
                finish(s);
            return;
        }
        if (!ran(s))
            return;
        allocate(s);
    }
}

static enum err tupaq_adopt(void *state, branch_id branch)
{
    struct tupaq *s = state;

    return contest_adopt(&s->ct, branch);
}

static enum err tupaq_save(void *state, branch_id *branch, json_t **out)
{
    const struct tupaq *s = state;

    return contest_save(&s->ct, branch, out);
}

static enum err tupaq_restore(void *state, const json_t *saved,
                              branch_id branch)
{
    struct tupaq *s = state;

    return contest_restore(&s->ct, saved, branch);
}

const struct strategy_ops strategy_tupaq = {
    .name = "tupaq",
    .summary = "bandit allocation over batches of settings: what is much worse "
               "than the best is given up (Sparks et al. 2015; resumed "
               "within the search it begins anew)",
    .settings =
        "{\"type\": \"object\", \"properties\": {"
        "\"batch\": {\"type\": \"integer\", \"minimum\": 1, \"maximum\": 16, "
        "\"default\": 10, \"description\": \"settings that train in turns\"}, "
        "\"partial\": {\"type\": \"integer\", \"minimum\": 1, "
        "\"maximum\": 100000, \"default\": 10, \"description\": \"epochs "
        "between two looks at all of them\"}, "
        "\"epsilon\": {\"type\": \"number\", \"minimum\": 0, \"maximum\": "
        "1000, "
        "\"default\": 0.5, \"description\": \"what is worse than the best by "
        "more than 1 + epsilon is given up\"}}}",
    .open = tupaq_open,
    .close = tupaq_close,
    .advance = tupaq_advance,
    .adopt = tupaq_adopt,
    .save = tupaq_save,
    .restore = tupaq_restore,
};
