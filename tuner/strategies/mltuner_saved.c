#include "tuner/strategies/mltuner_saved.h"

#include "base/json/json.h"
#include "searchers/space/space_json.h"
#include "tuner/board/saved.h"
#include "tuner/history/history.h"

#include <assert.h>

/* ---- writing ------------------------------------------------------------- */

/* The search that is under way, as a resumed one needs it. */
static int put_search(json_t *o, const struct mltuner *s)
{
    const struct search_plan *plan = &s->search.plan;
    bool from_best = s->held_parent != BRANCH_NONE && !s->rescue;

    assert(s->phase == PHASE_SEARCH || s->phase == PHASE_FINALS);
    return saved_put_count(o, "search", plan->number) |
           saved_put(o, "from_best", json_boolean(from_best)) |
           saved_put(o, "rescue", json_boolean(s->rescue));
}

static int put_barred(json_t *o, const struct mltuner *s)
{
    json_t *a = json_array();
    int failed = 0;

    assert(s->barred_len <= PROPOSALS_BARRED_MAX);
    for (size_t i = 0; i < s->barred_len; i++)
        failed |= json_array_append_new(
            a, setting_to_json(board_space(s->c), &s->barred[i]));
    return failed | saved_put(o, "barred", a);
}

static json_t *to_json(const struct mltuner *s, const struct setting *setting)
{
    bool searches = s->phase == PHASE_SEARCH || s->phase == PHASE_FINALS;
    json_t *o = json_object();
    int failed = saved_put_count(o, "epochs", s->line.c ? s->line.epochs : 0) |
                 saved_put_count(o, "returns", s->returns) |
                 saved_put_count(o, "vain", s->vain) |
                 saved_put(o, "trained", json_of_number(s->trained)) |
                 saved_put_plateau(o, &s->plateau) | put_barred(o, s) |
                 saved_put(o, "setting",
                           setting ? setting_to_json(board_space(s->c), setting)
                                   : json_null());

    if (searches)
        failed |= put_search(o, s);
    if (!failed)
        return o;
    json_decref(o);
    return NULL;
}

/* Before there is a line there is nothing to write but at the end: a run that
 * is resumed without a snapshot begins at its beginning. */
static branch_id save_first(const struct mltuner *s)
{
    return !board_ends(s->c) ? BRANCH_NONE : 0;
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
    branch_id of;

    assert(branch && out);
    if (searches && s->rescue) {
        of = s->held_parent;
        setting = &s->search.plan.incumbent;
    } else if (s->line.c && s->phase != PHASE_RESUME) {
        of = save_line(s);
        setting = branch_setting(board_branch(c, s->line.branch));
    } else {
        of = s->phase == PHASE_RESUME ? BRANCH_NONE : save_first(s);
    }
    if (searches && s->held_parent != BRANCH_NONE && !s->rescue &&
        s->held_parent != board_best(c)->branch)
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

    if (!json_is_array(a) || json_array_size(a) > PROPOSALS_BARRED_MAX)
        return ERR_FORMAT;
    s->barred_len = json_array_size(a);
    for (size_t i = 0; i < s->barred_len && !err; i++)
        err = saved_setting(board_space(s->c), json_array_get(a, i),
                            &s->barred[i]);
    return err;
}

static enum err read_saved(struct mltuner *s, const json_t *o)
{
    struct resumed *r = &s->resumed;
    const json_t *setting = json_object_get(o, "setting");

    r->phase = json_object_get(o, "search") ? PHASE_SEARCH : PHASE_TRAIN;
    if (!saved_count(o, "epochs", &r->epochs) ||
        !saved_count(o, "returns", &s->returns) ||
        !saved_count(o, "vain", &s->vain) ||
        !json_to_number(json_object_get(o, "trained"), &s->trained) ||
        !saved_plateau(o, &s->plateau))
        return ERR_FORMAT;
    if (r->phase == PHASE_SEARCH &&
        (!saved_count(o, "search", &r->search) || r->search < 1 ||
         r->search > board_history(s->c)->searches ||
         !saved_flag(o, "from_best", &r->from_best) ||
         !saved_flag(o, "rescue", &r->rescue)))
        return ERR_FORMAT;
    if (json_is_null(setting)) { /* before there was one */
        r->phase = PHASE_BEGIN;
        return ERR_OK;
    }
    return saved_setting(board_space(s->c), setting, &r->setting);
}

enum err mltuner_restore(void *state, const json_t *saved, branch_id branch)
{
    struct mltuner *s = state;
    const struct board *c = s->c;
    struct mltuner before = *s;
    enum err err = ERR_OK;

    assert(s->phase == PHASE_BEGIN);
    s->resumed = (struct resumed){.phase = PHASE_BEGIN, .branch = branch};
    if (saved)
        err = read_saved(s, saved);
    else
        s->resumed.search = board_search_resumed(c);
    if (saved && !err)
        err = read_barred(s, json_object_get(saved, "barred"));
    if (!err && s->resumed.from_best && board_best(c)->branch == BRANCH_NONE)
        err = ERR_FORMAT;
    if (!err && s->resumed.phase != PHASE_BEGIN && !s->resumed.rescue &&
        !training_may_restore(board_branch(s->c, branch), s->resumed.epochs))
        err = ERR_FORMAT;
    if (err) {
        *s = before;
        return err;
    }
    s->searches = board_searches_before(c);
    s->trials = board_trials_before(c);
    s->phase = s->resumed.phase == PHASE_BEGIN ? PHASE_BEGIN : PHASE_RESUME;
    if (s->phase == PHASE_RESUME && branch != 0)
        board_hold(s->c, branch);
    return ERR_OK;
}
