#include "cli/run/warm.h"

#include "base/json/json.h"
#include "cli/basics/console.h"
#include "cli/state/replay.h"
#include "tuner/board/earlier.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum {
    WARM_LOOKED_MAX = 1000, /* runs whose configurations are read */
    WARM_RUNS = 1, /* that are used: more were no better (docs/algorithms.md) */
    WARM_ALIKE_MAX = WARM_RUNS + EARLIER_SKIPPED_MAX
};
_Static_assert((int)WARM_RUNS <= (int)EARLIER_RUNS_MAX, "a list of these");

static const char pointer[] = "/tuner/warm_start";

/* What is looked for, and the ids of runs that are alike, newest first. */
struct warm {
    const struct run_config *c;
    const char *state, *resume;
    struct journal *journal;
    unsigned looked;
    size_t alike;
    char id[WARM_ALIKE_MAX][RUN_ID_MAX + 1];
    json_t *runs, *skipped; /* owned */
};

/* ---- alike --------------------------------------------------------------- */

/* Whether the data are named so that they are the same from any folder. */
static bool is_anywhere(const json_t *app)
{
    const char *data = json_string_value(json_object_get(app, "data"));

    return data && (*data == '/' || strncmp(data, "gen:", 4) == 0);
}

/* Where a program or relative data of run @id are looked for, is ours. */
static bool same_folder(const struct warm *w, const char *id)
{
    char path[FILE_PATH_MAX];
    struct checkpoint at;
    bool same;

    replay_folder(w->state, id, path);
    if (checkpoint_read(path, &at, NULL, NULL) != ERR_OK)
        return false;
    same = at.has_start && at.start.folder &&
           strcmp(at.start.folder, w->c->folder) == 0;
    checkpoint_deinit(&at);
    return same;
}

/* Equal, or both absent. */
static bool same_at(const json_t *a, const json_t *b, const char *at)
{
    const json_t *x = json_at(a, at), *y = json_at(b, at);

    return x && y ? json_equal(x, y) : !x && !y;
}

static bool alike(const struct warm *w, const char *id, const json_t *config)
{
    const json_t *own = w->c->effective;

    return same_at(own, config, "/app") && same_at(own, config, "/metric") &&
           same_at(own, config, "/ps/update_rule") &&
           (is_anywhere(json_at(own, "/app")) || same_folder(w, id));
}

static enum err look(void *ctx, const struct journal_run *run)
{
    struct warm *w = ctx;
    json_t *config = NULL;

    if (++w->looked > WARM_LOOKED_MAX || w->alike == WARM_ALIKE_MAX)
        return ERR_EXIST; /* enough */
    if (run->damaged || !run_id_valid(run->id) ||
        (w->resume && strcmp(run->id, w->resume) == 0) ||
        run_folder_alive(w->state, run->id) ||
        json_load(run->config, strlen(run->config), &config, NULL, NULL))
        return ERR_OK;
    if (alike(w, run->id, config))
        snprintf(w->id[w->alike++], RUN_ID_MAX + 1, "%s", run->id);
    json_decref(config);
    return ERR_OK;
}

/* ---- what they found ----------------------------------------------------- */

static enum err skip(struct warm *w, const char *id, const char *reason)
{
    if (json_array_size(w->skipped) == EARLIER_SKIPPED_MAX)
        return ERR_OK;
    return json_array_append_new(
               w->skipped, json_pack("{s:s, s:s}", "run", id, "reason", reason))
               ? ERR_NOMEM
               : ERR_OK;
}

static enum err take(struct warm *w, const char *id)
{
    struct replayed r;
    struct fault f = {0};
    const char *why = NULL;
    json_t *found = NULL;
    enum err err = replay_run(w->journal, w->state, id, &r, &f);

    if (err == ERR_NOMEM)
        return err;
    if (err)
        return skip(w, id, "it cannot be read");
    if (!earlier_same_tunables(&w->c->space, json_at(r.config, "/tunables")))
        why = "its tunables were others";
    else if (r.passed_over > 0)
        why = "records of it are damaged";
    else
        err = earlier_of(&r.history, &found, &why);
    replayed_deinit(&r);
    if (err == ERR_NOMEM)
        return err;
    if (!found)
        return skip(w, id, why);
    return json_array_append_new(w->runs, found) ? ERR_NOMEM : ERR_OK;
}

/* The object that takes the place of "auto"; NULL: out of memory. */
static json_t *search(struct warm *w)
{
    enum err err = ERR_OK;

    w->runs = json_array();
    w->skipped = json_array();
    if (!w->runs || !w->skipped)
        err = ERR_NOMEM;
    for (size_t i = 0;
         i < w->alike && !err && json_array_size(w->runs) < WARM_RUNS; i++)
        err = take(w, w->id[i]);
    if (err) {
        json_decref(w->runs);
        json_decref(w->skipped);
        return NULL;
    }
    return json_pack("{s:o, s:o}", "runs", w->runs, "skipped", w->skipped);
}

/* Whether the run that is to begin did so before: it goes on as it was. */
static bool has_begun(const struct warm *w)
{
    struct replayed r;
    bool begun;

    if (!w->resume ||
        replay_run(w->journal, w->state, w->resume, &r, NULL) != ERR_OK)
        return w->resume != NULL;
    begun = history_records(&r.history) > 0;
    replayed_deinit(&r);
    return begun;
}

/* A run is not to fail for what others left. */
static void tell_trouble(const struct fault *f)
{
    console_error("earlier runs are not looked at: %s", f->text);
}

enum err warm_begin(const char *state, const char *resume,
                    const struct run_config *c, bool *changed, struct fault *f)
{
    struct warm w = {.c = c, .resume = resume};
    char path[FILE_PATH_MAX];
    struct fault why = {0};
    json_t *found;
    enum err err;

    assert(state && c && changed);
    *changed = false;
    if (!c->warm_auto)
        return ERR_OK;
    err = replay_open(state, path, &w.journal, &why);
    w.state = path;
    if (!err && has_begun(&w)) {
        journal_close(w.journal);
        return ERR_OK;
    }
    if (!err)
        err = journal_each_run(w.journal, look, &w, &why);
    if (err && err != ERR_NOENT && err != ERR_EXIST)
        tell_trouble(&why);
    found = search(&w);
    journal_close(w.journal);
    if (!found || json_put(c->effective, pointer, found) != ERR_OK)
        return fault_set(f, ERR_NOMEM, "out of memory");
    *changed = true;
    return ERR_OK;
}
