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
    WARM_ALIKE_MAX = 32 /* whose records are read */
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

/* Whether all that is named is the same from any folder: data, or there are
 * none, other files, the application. A program (command) is not. */
static bool is_anywhere(const json_t *app)
{
    static const char *const files[] = {"data", "test", "vocab", "plugin"};

    if (!json_object_get(app, "data") || json_object_get(app, "command"))
        return false;
    for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
        const json_t *value = json_object_get(app, files[i]);
        const char *name = json_string_value(value);

        if (value && !json_is_null(value) &&
            !(name && (*name == '/' || strncmp(name, "gen:", 4) == 0)))
            return false;
    }
    return true;
}

/* Where a program or relative files of run @r are looked for, is ours. */
static bool same_folder(const struct warm *w, const struct replayed *r)
{
    return r->start.folder && strcmp(r->start.folder, w->c->folder) == 0;
}

/* Equal, or both absent. */
static bool same_at(const json_t *a, const json_t *b, const char *at)
{
    const json_t *x = json_at(a, at), *y = json_at(b, at);

    return x && y ? json_equal(x, y) : !x && !y;
}

static bool alike(const struct warm *w, const json_t *config)
{
    const json_t *own = w->c->effective;

    return same_at(own, config, "/app") && same_at(own, config, "/metric") &&
           same_at(own, config, "/ps/update_rule");
}

/* Whether it had a first search of mltuner, for all that it says. */
static bool searches(const json_t *config)
{
    const char *strategy =
        json_string_value(json_at(config, "/tuner/strategy"));

    return (!strategy || strcmp(strategy, "mltuner") == 0) &&
           !json_is_object(json_at(config, "/tuner/initial"));
}

static enum err look(void *ctx, const struct journal_run *run)
{
    struct warm *w = ctx;
    json_t *config = NULL;
    enum err err;

    if (++w->looked > WARM_LOOKED_MAX || w->alike == WARM_ALIKE_MAX)
        return ERR_EXIST; /* enough */
    if (run->damaged || (run->records == 0 && !run->status) ||
        !run_id_valid(run->id) ||
        (w->resume && strcmp(run->id, w->resume) == 0) ||
        run_folder_alive(w->state, run->id))
        return ERR_OK;
    err = json_load(run->config, strlen(run->config), &config, NULL, NULL);
    if (err)
        return err == ERR_NOMEM ? err : ERR_OK;
    if (searches(config) && alike(w, config))
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
    if (!is_anywhere(json_at(w->c->effective, "/app")) && !same_folder(w, &r)) {
        replayed_deinit(&r);
        return ERR_OK; /* another job */
    }
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

/* *@begun: the run that is to begin did so before, and goes on as it was. */
static enum err has_begun(const struct warm *w, bool *begun, struct fault *f)
{
    struct replayed r;
    enum err err;

    *begun = w->resume != NULL; /* what cannot be read is not changed */
    if (!w->resume)
        return ERR_OK;
    err = replay_run(w->journal, w->state, w->resume, &r, f);
    if (err)
        return err;
    *begun = history_records(&r.history) > 0;
    replayed_deinit(&r);
    return ERR_OK;
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
    bool begun = false;
    json_t *found;
    enum err err;

    assert(state && c && changed);
    *changed = false;
    if (!c->warm_auto)
        return ERR_OK;
    err = replay_open(state, path, &w.journal, &why);
    w.state = path;
    if (!err)
        err = has_begun(&w, &begun, &why);
    if (!err && !begun)
        err = journal_each_run(w.journal, look, &w, &why);
    if (err && err != ERR_NOMEM && err != ERR_NOENT && err != ERR_EXIST)
        tell_trouble(&why);
    if (begun || err == ERR_NOMEM) {
        journal_close(w.journal);
        return err == ERR_NOMEM ? fault_set(f, err, "out of memory") : ERR_OK;
    }
    found = search(&w);
    journal_close(w.journal);
    if (!found || json_put(c->effective, pointer, found) != ERR_OK)
        return fault_set(f, ERR_NOMEM, "out of memory");
    *changed = true;
    return ERR_OK;
}
