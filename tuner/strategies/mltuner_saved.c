#include "tuner/strategies/mltuner_saved.h"

#include "searchers/space/space_json.h"
#include "tuner/board/saved.h"
#include "tuner/core/lifecycle.h"
#include "tuner/core/stops.h"
#include "tuner/history/history.h"

#include <assert.h>
#include <math.h>

/* ---- as it is written ---------------------------------------------------- */

/* The run's part of a snapshot. */
struct saved_mltuner {
    uint32_t epochs; /* of the line's lineage, handed over */
    uint32_t returns, vain;
    uint32_t made; /* searches */
    double trained;
    bool best_aside;
    struct plateau plateau;
    uint32_t cooling; /* epochs after which the cooldown began; 0: it has not */
    uint32_t cooled;  /* epoch that it ends with; 0: the run's last */
    double fell_to;   /* the rate in it; 0: not known */
    double epoch_s;   /* that an epoch takes; 0: not known */
    json_t *barred;   /* owned: settings */
    json_t *setting;  /* owned: in use; NULL: before there was one */
};

static json_t *or_null(const void *member)
{
    json_t *v = *(json_t *const *)member;

    return v ? json_incref(v) : json_null();
}

static bool from_or_null(const json_t *value, void *member)
{
    if (json_is_object(value))
        *(json_t **)member = json_incref((json_t *)(uintptr_t)value);
    return json_is_object(value) || json_is_null(value);
}

static const struct field_custom setting_codec = {or_null, from_or_null};

static const struct json_field saved_fields[] = {
    {FIELD_OF(saved_mltuner, U32, epochs)},
    {FIELD_OF(saved_mltuner, U32, returns)},
    {FIELD_OF(saved_mltuner, U32, vain)},
    /* Snapshots may be older than it. */
    {FIELD_AS("searches", saved_mltuner, U32, made), .optional = true},
    {FIELD_OF(saved_mltuner, REAL, trained)},
    {FIELD_OF(saved_mltuner, BOOL, best_aside), .optional = true,
     .sparse = true},
    {FIELD_OF(saved_mltuner, PART, plateau), .part = saved_plateau},
    {FIELD_OF(saved_mltuner, U32, cooling), .optional = true, .sparse = true},
    {FIELD_OF(saved_mltuner, U32, cooled), .optional = true, .sparse = true},
    /* Snapshots may be older than it. */
    {FIELD_OF(saved_mltuner, REAL, fell_to), .optional = true},
    {FIELD_OF(saved_mltuner, REAL, epoch_s), .optional = true},
    {FIELD_OF(saved_mltuner, ARRAY, barred)},
    {FIELD_OF(saved_mltuner, CUSTOM, setting), .custom = &setting_codec},
    {.name = NULL},
};

/* The search that is under way, as a resumed one needs it. */
struct saved_search {
    uint32_t search;
    bool from_best, from_start, rescue;
};

static const struct json_field search_fields[] = {
    {FIELD_OF(saved_search, U32, search)},
    {FIELD_OF(saved_search, BOOL, from_best)},
    /* Snapshots may be older than it. */
    {FIELD_OF(saved_search, BOOL, from_start), .optional = true},
    {FIELD_OF(saved_search, BOOL, rescue)},
    {.name = NULL},
};

static void saved_deinit(struct saved_mltuner *saved)
{
    json_decref(saved->setting);
    fields_deinit(saved_fields, saved);
}

/* ---- writing ------------------------------------------------------------- */

static json_t *barred_to_json(const struct mltuner *s)
{
    json_t *a = json_array();
    int failed = 0;

    assert(s->barred_len <= PROPOSALS_BARRED_MAX);
    for (size_t i = 0; i < s->barred_len; i++)
        failed |= json_array_append_new(
            a, setting_to_json(board_space(s->c), &s->barred[i]));
    if (!failed)
        return a;
    json_decref(a);
    return NULL;
}

static json_t *to_json(const struct mltuner *s, const struct setting *setting)
{
    bool searches = s->phase == PHASE_SEARCH || s->phase == PHASE_FINALS;
    bool back = s->cool.due && s->held_parent != BRANCH_NONE;
    struct saved_mltuner saved = {
        .epochs = back        ? s->cool.from
                  : s->line.c ? s->line.epochs
                              : 0,
        .returns = s->returns,
        .vain = s->vain,
        .made = s->made,
        .trained = s->trained,
        .best_aside = s->best_aside,
        .plateau = s->plateau,
        .cooling = s->cool.from,
        .cooled = s->cool.end,
        .fell_to = s->cool.from ? s->cool.now : 0,
        .epoch_s = board_trial_clocks(s->c) ? 0 : s->horizon.epoch_s,
        .barred = barred_to_json(s),
        .setting =
            setting ? setting_to_json(board_space(s->c), setting) : NULL};
    json_t *o = saved.barred && (saved.setting || !setting)
                    ? saved_new(saved_fields, &saved)
                    : NULL;

    saved_deinit(&saved);
    if (o && searches) {
        const struct saved_search search = {
            .search = s->search.plan.number,
            .from_best = s->held_parent != BRANCH_NONE && s->held_parent != 0 &&
                         !s->rescue,
            .from_start = s->held_parent == 0 && !s->rescue,
            .rescue = s->rescue};

        o = saved_add(o, search_fields, &search);
    }
    return o;
}

/* Before there is a line there is nothing to write but at the end: a run that
 * is resumed without a snapshot begins at its beginning. */
static branch_id save_first(const struct mltuner *s)
{
    return !lifecycle_ends(s->c) ? BRANCH_NONE : 0;
}

/* While a search runs the line stands still. Its kept end, where that is the
 * same, needs no fork. */
static branch_id save_line(const struct mltuner *s)
{
    const struct branch *b = board_branch(s->c, s->line.branch);
    const struct branch *kept = board_branch(s->c, s->line.kept);

    if (kept && branch_idle(kept) && branch_idle(b) &&
        branch_clocks(kept) == branch_clocks(b))
        return branch_number(kept);
    return training_restorable(&s->line);
}

enum err mltuner_save(void *state, branch_id *branch, json_t **out)
{
    struct mltuner *s = state;
    struct board *c = s->c;
    bool searches = s->phase == PHASE_SEARCH || s->phase == PHASE_FINALS;
    const struct setting *setting = NULL;
    struct setting steady;
    branch_id of;

    assert(branch && out);
    if (searches && !s->search.c)
        return ERR_AGAIN; /* it has ended the run */
    if (searches && s->rescue) {
        of = s->held_parent;
        setting = &s->search.plan.incumbent;
    } else if (s->line.c && s->phase != PHASE_RESUME) {
        /* A cooldown that begins at an earlier epoch is resumed from there. */
        of = s->cool.due && s->held_parent != BRANCH_NONE ? s->held_parent
                                                          : save_line(s);
        steady = mltuner_steady(s);
        setting = &steady;
    } else {
        of = s->phase == PHASE_RESUME ? BRANCH_NONE : save_first(s);
    }
    if (searches && s->held_parent != BRANCH_NONE && s->held_parent != 0 &&
        !s->rescue && s->held_parent != board_best(c)->branch)
        of = BRANCH_NONE; /* it would not be there again */
    if (of == BRANCH_NONE)
        return ERR_AGAIN;
    *out = to_json(s, setting);
    if (!*out)
        return ERR_NOMEM;
    *branch = of;
    return ERR_OK;
}

/* ---- reading ------------------------------------------------------------- */

static enum err read_barred(struct mltuner *s, const json_t *a)
{
    enum err err = ERR_OK;

    if (json_array_size(a) > PROPOSALS_BARRED_MAX)
        return ERR_FORMAT;
    s->barred_len = json_array_size(a);
    for (size_t i = 0; i < s->barred_len && !err; i++)
        err = saved_setting(board_space(s->c), json_array_get(a, i),
                            &s->barred[i]);
    return err;
}

/* The rate falls from that of the setting, which is saved as it was before. */
static enum err restore_cooldown(struct mltuner *s,
                                 const struct saved_mltuner *read)
{
    uint32_t from = read->cooling, end = read->cooled;
    const struct resumed *r = &s->resumed;
    const struct space *space = board_space(s->c);

    if (r->phase != PHASE_TRAIN || from > r->epochs || (end && end <= from) ||
        !cooldown_possible(space))
        return ERR_FORMAT;
    cooldown_begin(&s->cool, space, from, &r->setting);
    s->cool.end = end;
    if (!(read->fell_to >= 0 && read->fell_to <= s->cool.first))
        return ERR_FORMAT;
    if (read->fell_to > 0)
        s->cool.now = read->fell_to;
    return ERR_OK;
}

static enum err take_saved(struct mltuner *s, const struct saved_mltuner *read)
{
    struct resumed *r = &s->resumed;
    enum err err = ERR_OK;

    r->epochs = read->epochs;
    s->returns = read->returns;
    s->vain = read->vain;
    s->made = read->made;
    s->trained = read->trained;
    s->best_aside = read->best_aside;
    s->plateau = read->plateau;
    if (!(read->epoch_s >= 0 && isfinite(read->epoch_s)))
        return ERR_FORMAT;
    horizon_change(&s->horizon, read->epoch_s);
    s->plateau.limit = stops_patience(s->c);
    if (read->setting)
        err = saved_setting(board_space(s->c), read->setting, &r->setting);
    else
        r->phase = PHASE_BEGIN;
    if (!err && read->cooling)
        err = restore_cooldown(s, read);
    return err ? err : read_barred(s, read->barred);
}

static enum err read_saved(struct mltuner *s, const json_t *o)
{
    struct resumed *r = &s->resumed;
    struct saved_mltuner read = {0};
    struct saved_search search = {0};
    enum err err = ERR_FORMAT;
    uint32_t most;

    r->phase = json_object_get(o, "search") ? PHASE_SEARCH : PHASE_TRAIN;
    if (r->phase == PHASE_SEARCH &&
        (!saved_read(o, search_fields, &search) || search.search < 1 ||
         search.search > history_searches_made(board_history(s->c))))
        return ERR_FORMAT;
    /* One that is long over does not go on: another begins from its state. */
    r->search = search.search ? lifecycle_search_resumed(s->c) : 0;
    r->from_best = search.from_best;
    r->from_start = search.from_start;
    r->rescue = search.rescue;
    most = search.search ? search.search : lifecycle_searches_before(s->c);
    read.made = most;
    if (saved_read(o, saved_fields, &read) && read.made <= most &&
        read.made >= (search.search > 0))
        err = take_saved(s, &read);
    saved_deinit(&read);
    return err;
}

enum err mltuner_restore(void *state, const json_t *saved, branch_id branch)
{
    struct mltuner *s = state;
    const struct board *c = s->c;
    struct mltuner before = *s;
    enum err err = ERR_OK;

    assert(s->phase == PHASE_BEGIN);
    s->resumed = (struct resumed){.phase = PHASE_BEGIN, .branch = branch};
    if (saved) {
        err = read_saved(s, saved);
    } else {
        s->resumed.search = lifecycle_search_resumed(c);
        s->made = s->resumed.search > 0;
    }
    if (!err && s->resumed.from_best && board_best(c)->branch == BRANCH_NONE)
        err = ERR_FORMAT;
    if (!err && s->resumed.phase != PHASE_BEGIN && !s->resumed.rescue &&
        !training_may_restore(board_branch(s->c, branch), s->resumed.epochs))
        err = ERR_FORMAT;
    if (err) {
        *s = before;
        return err;
    }
    s->searches = lifecycle_searches_before(c);
    s->trials = lifecycle_trials_before(c);
    s->phase = s->resumed.phase == PHASE_BEGIN ? PHASE_BEGIN : PHASE_RESUME;
    if (s->phase == PHASE_RESUME && branch != 0)
        board_hold(s->c, branch);
    return ERR_OK;
}
