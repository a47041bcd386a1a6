#include "tuner/strategies/contest_saved.h"

#include "base/mem.h"
#include "searchers/space/space_json.h"
#include "tuner/board/saved.h"
#include "tuner/core/lifecycle.h"
#include "tuner/core/stops.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ---- as it is written ---------------------------------------------------- */

struct saved_trial {
    json_t *setting; /* owned */
    uint32_t suggestion;
    enum trial_label label;
    char reason[RECORD_TEXT_MAX];
    bool judged, news, heard;
    bool branch;   /* it has one */
    bool diverged; /* it has one of no use, and is not out yet */
    uint32_t line_epochs;
    struct contestant x;
    double leg_sum;
    uint64_t leg_samples;
};

static const char *label_name(unsigned label)
{
    return trial_label_name((enum trial_label)label);
}

static const struct json_field trial_fields[] = {
    {FIELD_OF(saved_trial, OBJECT, setting)},
    {FIELD_OF(saved_trial, U32, suggestion), .optional = true, .sparse = true},
    {.name = "label",
     .kind = FIELD_ENUM,
     .offset = offsetof(struct saved_trial, label),
     .max = TRIAL_LABEL_COUNT - 1,
     .name_of = label_name},
    {FIELD_OF(saved_trial, REASON, reason)},
    {FIELD_OF(saved_trial, BOOL, judged)},
    {FIELD_OF(saved_trial, BOOL, news)},
    {FIELD_OF(saved_trial, BOOL, heard)},
    {FIELD_OF(saved_trial, BOOL, branch)},
    {FIELD_OF(saved_trial, BOOL, diverged), .optional = true, .sparse = true},
    {FIELD_OF(saved_trial, U32, line_epochs)},
    {FIELD_AS("parent", saved_trial, U32, x.parent)},
    {FIELD_AS("group", saved_trial, U32, x.group)},
    {FIELD_AS("rung", saved_trial, U32, x.rung)},
    {FIELD_AS("spent", saved_trial, U32, x.spent)},
    {FIELD_AS("running", saved_trial, BOOL, x.running)},
    {FIELD_AS("parked", saved_trial, BOOL, x.parked)},
    {FIELD_AS("over", saved_trial, BOOL, x.over)},
    {FIELD_AS("out", saved_trial, BOOL, x.out)},
    {FIELD_AS("plateau", saved_trial, PART, x.plateau), .part = saved_plateau},
    {FIELD_AS("last_epoch", saved_trial, U32, x.last.e.epoch)},
    {FIELD_AS("last_loss", saved_trial, REAL, x.last.e.loss)},
    {FIELD_AS("last_seconds", saved_trial, REAL, x.last.e.seconds)},
    {FIELD_AS("last_clock", saved_trial, U64, x.last.e.clock)},
    {FIELD_AS("last_metric", saved_trial, REAL, x.last.metric)},
    {FIELD_AS("score", saved_trial, REAL, x.score)},
    {FIELD_AS("best", saved_trial, REAL, x.best)},
    {FIELD_AS("seconds", saved_trial, REAL, x.seconds)},
    {FIELD_AS("clocks", saved_trial, U64, x.clocks)},
    {FIELD_AS("ran", saved_trial, U64, x.samples), .optional = true},
    {FIELD_OF(saved_trial, REAL, leg_sum)},
    {FIELD_OF(saved_trial, U64, leg_samples)},
    {.name = NULL},
};

struct saved_rounds {
    uint32_t search, first, max, searchers, refused, troubles, leader, champion;
    double reference;
    double seconds; /* since it began: clocks of processes differ */
    uint64_t started_clocks;
    bool open;      /* the searcher is */
    json_t *trials; /* owned */
};

static const struct json_field search_fields[] = {
    {FIELD_OF(saved_rounds, U32, search), .min = 1},
    {FIELD_OF(saved_rounds, U32, first), .min = 1},
    {FIELD_WITHIN(saved_rounds, U32, max, 1, TUNER_TRIALS_MAX)},
    {FIELD_OF(saved_rounds, U32, searchers)},
    {FIELD_OF(saved_rounds, U32, refused)},
    {FIELD_OF(saved_rounds, U32, troubles)},
    {FIELD_OF(saved_rounds, U32, leader)},
    {FIELD_OF(saved_rounds, U32, champion)},
    {FIELD_OF(saved_rounds, REAL, reference)},
    {FIELD_OF(saved_rounds, REAL, seconds)},
    {FIELD_OF(saved_rounds, U64, started_clocks)},
    {FIELD_OF(saved_rounds, BOOL, open)},
    {FIELD_OF(saved_rounds, ARRAY, trials)},
    {.name = NULL},
};

/* ---- writing ------------------------------------------------------------- */

/* Its numbers are of no use, which the strategy has not seen yet: the slices of
 * it that are out come first, and at the end of the run nobody looks. */
static bool is_diverged(const struct contest *ct, const struct contestant *x)
{
    const struct branch *b = board_branch(ct->c, x->t->branch);

    return x->started && !x->out && b && branch_is_nonfinite(b);
}

static branch_id branch_of(const struct contest *ct, const struct contestant *x)
{
    return x->out || x->parked || !x->started || is_diverged(ct, x)
               ? BRANCH_NONE
               : training_restorable(&x->line);
}

/* Nothing to go on from, now. */
static bool is_between(const struct contest *ct, const struct contestant *x)
{
    return x->started && !x->out && !x->parked && !is_diverged(ct, x) &&
           branch_of(ct, x) == BRANCH_NONE;
}

static json_t *trial_to_json(const struct contest *ct,
                             const struct contestant *x)
{
    const struct trial *t = x->t;
    struct saved_trial s = {
        .setting = setting_to_json(board_space(ct->c), &t->setting),
        .suggestion = t->suggestion,
        .label = t->label,
        .judged = t->judged,
        .news = t->news,
        .heard = t->heard,
        .branch = branch_of(ct, x) != BRANCH_NONE,
        .diverged = is_diverged(ct, x),
        .line_epochs = x->line.epochs,
        .x = *x,
        .leg_sum = x->line.leg_sum,
        .leg_samples = x->line.leg_samples};
    json_t *o;

    if (s.diverged)
        contest_count_spent(ct, &s.x); /* it comes back without its branch */
    memcpy(s.reason, t->reason, sizeof(s.reason));
    o = s.setting ? saved_new(trial_fields, &s) : NULL;
    json_decref(s.setting);
    return o;
}

/* The branch that a resume goes on from: the leader's, else the best model. */
static branch_id main_of(const struct contest *ct)
{
    const struct contestant *x =
        ct->leader ? &ct->x[ct->leader - ct->trials.first] : NULL;
    branch_id of = x ? branch_of(ct, x) : BRANCH_NONE;

    if (of == BRANCH_NONE)
        of = board_best(ct->c)->branch;
    return of == BRANCH_NONE ? 0 : of;
}

void contest_waiting(const struct contest *ct, struct strategy_waiting *out)
{
    branch_id main = ct->open && !ct->ended ? main_of(ct) : BRANCH_NONE;

    out->n = 0;
    if (main == BRANCH_NONE)
        return;
    for (uint32_t i = 0; i < ct->trials.n; i++) {
        branch_id of = branch_of(ct, &ct->x[i]);

        if (of == BRANCH_NONE || of == main)
            continue;
        assert(out->n < STRATEGY_WAITING_MAX);
        out->x[out->n].trial = contest_number(&ct->x[i]);
        out->x[out->n++].branch = of;
    }
}

enum err contest_save_search(const struct contest *ct, branch_id *branch,
                             json_t **out)
{
    struct saved_rounds s = {
        .search = ct->trials.search,
        .first = ct->trials.first,
        .max = ct->trials.max,
        .searchers = ct->searchers,
        .open = ct->proposals.searcher || ct->reopens,
        .refused = ct->refused,
        .troubles = ct->troubles,
        .leader = ct->leader,
        .champion = ct->champion,
        .reference = ct->reference,
        .seconds = board_active_s(ct->c) - ct->started_s,
        .started_clocks = ct->started_clocks,
    };
    int failed = 0;

    assert(ct->open && !ct->ended);
    if (ct->restoring)
        return ERR_AGAIN;
    for (uint32_t i = 0; i < ct->trials.n; i++)
        if (is_between(ct, &ct->x[i]))
            return ERR_AGAIN;
    s.trials = json_array();
    for (uint32_t i = 0; i < ct->trials.n; i++)
        failed |= json_array_append_new(s.trials, trial_to_json(ct, &ct->x[i]));
    *out = s.trials && !failed ? saved_new(search_fields, &s) : NULL;
    json_decref(s.trials);
    if (!*out)
        return ERR_NOMEM;
    *branch = main_of(ct);
    return ERR_OK;
}

/* ---- reading ------------------------------------------------------------- */

bool contest_saved_search(const json_t *saved)
{
    return json_object_get(saved, "trials") != NULL;
}

static enum err take_trial(struct contest *ct, const json_t *o, branch_id main)
{
    struct contestant *x = &ct->x[ct->trials.n];
    struct saved_trial s = {0};
    struct setting setting;
    struct trial *t;
    enum err err = ERR_FORMAT;

    if (saved_read(o, trial_fields, &s))
        err = saved_setting(board_space(ct->c), s.setting, &setting);
    if (err) {
        fields_deinit(trial_fields, &s);
        return err;
    }
    t = trials_next(&ct->trials, &setting, s.setting, s.suggestion);
    t->label = s.label;
    memcpy(t->reason, s.reason, sizeof(t->reason));
    t->judged = s.judged;
    t->news = s.news;
    t->heard = s.heard;
    s.x.t = t;
    *x = s.x;
    x->plateau.limit = stops_patience(ct->c);
    x->line.epochs = s.line_epochs;
    x->line.leg_sum = s.leg_sum;
    x->line.leg_samples = s.leg_samples;
    x->from = BRANCH_NONE;
    x->diverged = s.diverged && !s.x.out;
    ct->trials.n++;
    if (!s.branch)
        return ERR_OK;
    x->from =
        t->number == ct->leader ? main : lifecycle_restored(ct->c, t->number);
    if (x->from == BRANCH_NONE || x->from == 0 ||
        !training_may_restore(board_branch(ct->c, x->from), s.line_epochs))
        return ERR_FORMAT;
    return ERR_OK;
}

void contest_forget_search(struct contest *ct)
{
    struct contest was = {.c = ct->c,
                          .first = ct->first,
                          .unit_clocks = ct->unit_clocks,
                          .in_turns = ct->in_turns,
                          .reference = NAN};

    memcpy(was.unit, ct->unit, sizeof(was.unit));
    for (uint32_t i = 0; ct->restoring && i < ct->trials.n; i++)
        if (ct->x[i].from != BRANCH_NONE)
            board_drop(ct->c, ct->x[i].from, "not usable");
    proposals_deinit(&ct->proposals);
    trials_deinit(&ct->trials);
    mem_free(ct->x);
    *ct = was;
}

bool contest_has(const struct contest *ct, uint32_t number)
{
    return number == 0 || (number >= ct->trials.first &&
                           number - ct->trials.first < ct->trials.n);
}

/* Numbers that stand for trials do, and those of parents for earlier ones. */
static bool fits(const struct contest *ct)
{
    if (!contest_has(ct, ct->leader) || !contest_has(ct, ct->champion))
        return false;
    for (uint32_t i = 0; i < ct->trials.n; i++)
        if (!contest_has(ct, ct->x[i].parent) ||
            ct->x[i].parent >= ct->trials.first + i)
            return false;
    return true;
}

static enum err take_search(struct contest *ct, const struct saved_rounds *s,
                            branch_id main)
{
    size_t n = json_array_size(s->trials);
    enum err err;

    if (n > s->max || s->search != lifecycle_search_resumed(ct->c) ||
        s->first + n > (uint64_t)lifecycle_trials_before(ct->c) + 1 ||
        !(s->seconds >= 0) || s->started_clocks > board_clocks_run(ct->c))
        return ERR_FORMAT;
    trials_init(&ct->trials, ct->c, board_space(ct->c), s->search, s->first);
    ct->x = mem_calloc(s->max, sizeof(*ct->x));
    err = ct->x ? trials_open(&ct->trials, s->max) : ERR_NOMEM;
    ct->leader = s->leader;
    ct->champion = s->champion;
    for (size_t i = 0; i < n && !err; i++)
        err = take_trial(ct, json_array_get(s->trials, i), main);
    return err || fits(ct) ? err : ERR_FORMAT;
}

enum err contest_restore_search(struct contest *ct, const json_t *saved,
                                branch_id branch)
{
    struct board *c = ct->c;
    struct saved_rounds s = {0};
    enum err err = ERR_FORMAT;

    assert(!ct->open);
    if (saved_read(saved, search_fields, &s))
        err = take_search(ct, &s, branch);
    fields_deinit(search_fields, &s);
    if (err) {
        contest_forget_search(ct);
        return err;
    }
    for (uint32_t i = 0; i < ct->trials.n; i++)
        if (ct->x[i].from != BRANCH_NONE)
            board_hold(c, ct->x[i].from);
    ct->searchers = s.searchers;
    ct->reopens = s.open;
    ct->refused = s.refused;
    ct->troubles = s.troubles;
    ct->reference = s.reference;
    ct->started_s = board_active_s(c) - s.seconds;
    ct->started_clocks = s.started_clocks;
    proposals_init(&ct->proposals, &ct->trials);
    ct->open = ct->restoring = true;
    return ERR_OK;
}

/* ---- their branches ------------------------------------------------------ */

/* False: not yet. */
static bool has_branch(struct contest *ct, struct contestant *x)
{
    struct board *c = ct->c;
    uint32_t epochs = x->line.epochs;
    double sum = x->line.leg_sum;
    uint64_t samples = x->line.leg_samples;
    const struct branch *b = board_branch(c, x->t->branch);

    if (!b) {
        if (trial_fork(c, x->t, x->from))
            board_go_on(c, x->t->branch, x->from);
        else
            board_retry(c);
        return false;
    }
    if (branch_is_refused(b)) {
        board_free(c, branch_number(b), "refused");
        x->t->branch = BRANCH_NONE;
        lifecycle_interrupted(c, "restore_failed",
                              "no memory to go on from the snapshot");
        return false;
    }
    if (!branch_is_live(b))
        return false;
    training_restore(&x->line, c, branch_number(b), epochs, 0);
    x->line.leg_sum = sum;
    x->line.leg_samples = samples;
    x->started = true;
    if (contest_number(x) == ct->leader)
        board_set_base(c, x->t->branch);
    contest_record(ct, x, RECORD_TRIAL_UPDATED);
    board_drop(c, x->from, "the run goes on from it");
    x->from = BRANCH_NONE;
    return true;
}

/* One after the other: two models for each at the same time would be too much.
 */
bool contest_restored(struct contest *ct)
{
    if (!ct->restoring)
        return true;
    for (uint32_t i = 0; i < contest_begun(ct); i++)
        if (ct->x[i].from != BRANCH_NONE && !has_branch(ct, &ct->x[i]))
            return false;
    board_set_status(ct->c, RUN_TUNING, "the search goes on");
    ct->restoring = false;
    for (uint32_t i = 0; i < contest_begun(ct); i++)
        if (ct->x[i].diverged)
            contest_diverged(ct, &ct->x[i]);
    return true;
}
