/* `mltune save RUN`: a model from a run's snapshot, without going on with the
 * run: what is trained is not lost, whatever became of the rest. */
#include "base/file_io.h"
#include "base/host/machine_io.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "base/run_files.h"
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/options.h"
#include "cli/basics/verbs.h"
#include "cli/config/config.h"
#include "cli/config/config_file.h"
#include "cli/config/registry.h"
#include "cli/run/session.h"
#include "cli/state/model_io.h"
#include "cli/state/replay.h"
#include "ps/disk/reopen_io.h"
#include "ps/node/app_plugin_io.h"
#include "ps/node/host_io.h"
#include "ps/node/kept_io.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char details[] = RUN_OPERAND
    " The model\n"
    "of its newest snapshot is written, with the same files as the run's own. "
    "No data\n"
    "are needed (but by a plug-in that keeps nothing of them). A snapshot that "
    "is\n"
    "damaged is passed over for the one before. The run stays as it is, and "
    "may "
    "go on\n"
    "meanwhile.";

struct save_arguments {
    const char *state, *from, *out;
    bool json;
};

/* One saving. */
struct save {
    const struct save_arguments *a;
    char state[FILE_PATH_MAX];  /* absolute */
    char folder[FILE_PATH_MAX]; /* where the run's relative paths start */
    char out[FILE_PATH_MAX];    /* the model's, absolute */
    struct replayed run;
    struct run_config *config; /* owned */
    const struct mlt_app_ops *app;
    char kept[FILE_PATH_MAX]; /* what the run kept of its data */
    bool keeps;               /* that serves, and no data are loaded */
    struct mlt_ps *ps;        /* owned: the snapshot then */
    struct host *host;        /* owned: else the application and its data */
    const struct history_snapshot *from;
    char path[FILE_PATH_MAX]; /* of the folder that was read */
    branch_id branch;         /* that it became */
    bool best;                /* it is of the best epoch */
};

/* ---- the application ----------------------------------------------------- */

/* The configuration with all workers in this one process. NULL when out of
 * memory. */
static json_t *alone(const struct run_config *c)
{
    json_t *config = json_copied(c->effective);
    json_t *cluster = json_object_get(config, "cluster");

    if (cluster &&
        (json_object_set_new(cluster, "nodes", json_integer(1)) != 0 ||
         json_object_set_new(cluster, "workers",
                             json_integer((json_int_t)c->nodes * c->workers)) !=
             0)) {
        json_decref(config);
        return NULL;
    }
    return config;
}

static enum err open_host(struct save *s, struct fault *f)
{
    const struct run_config *c = s->config;
    struct host_config h = {
        .app = s->app, .folder = c->folder, .seed = c->seed};
    json_t *config = alone(c);
    enum err err;

    if (!config)
        return fault_set(f, ERR_NOMEM, "out of memory");
    h.config = config;
    err = host_open(&h, &s->host, f);
    json_decref(config);
    return err;
}

/* The application; with its data where the run kept nothing of them. */
static enum err open_app(struct save *s, struct fault *f)
{
    const char *plugin =
        json_string_value(json_object_get(s->config->app_settings, "plugin"));
    char sub[RUN_ID_MAX + 64];
    enum err err;

    s->app = s->config->app->ops;
    err = plugin ? app_plugin_open(plugin, &s->app, f) : ERR_OK;
    snprintf(sub, sizeof(sub), "runs/%s/" RUN_KEPT, s->run.id);
    if (!err)
        err = file_join(s->kept, s->state, sub, f);
    if (err)
        return err;
    s->keeps = app_keeps(s->app) && kept_there(s->kept);
    return s->keeps ? ERR_OK : open_host(s, f);
}

/* ---- the snapshot -------------------------------------------------------- */

/* Folder of @recorded, a snapshot's path, where the state folder is now. */
static enum err find_folder(const struct save *s, const char *recorded,
                            char out[FILE_PATH_MAX], struct fault *f)
{
    const char *name = strrchr(recorded, '/');
    char sub[RUN_ID_MAX + 64];

    snprintf(sub, sizeof(sub), "runs/%s/snapshots/%.32s", s->run.id,
             name ? name + 1 : recorded);
    return file_join(out, s->state, sub, f);
}

/* Reads one, its best model or what was trained last. */
static enum err read_folder(struct save *s, const struct history_snapshot *h,
                            bool best, struct fault *f)
{
    enum err err =
        find_folder(s, best ? h->s.best_path : h->s.path, s->path, f);

    if (err)
        return err;
    s->branch++; /* a number that is new to the host */
    mlt_ps_free(s->ps);
    s->ps = NULL;
    err = s->keeps ? ps_reopen(s->path, s->branch, 0, &s->ps, f)
                   : host_restore(s->host, s->branch, s->path, f);
    if (err)
        return err;
    s->from = h;
    s->best = best;
    return ERR_OK;
}

/* Whether another one is to be tried. */
static bool is_lost(enum err err)
{
    return err == ERR_NOENT || err == ERR_FORMAT || err == ERR_VERSION;
}

/* Of a run without an epoch there is no best one yet; of one whose best is
 * damaged, what was trained last serves. */
static enum err read_snapshot(struct save *s, const struct history_snapshot *h,
                              struct fault *f)
{
    bool best = strcmp(s->a->from, "last") != 0 && h->s.best_path[0];
    struct fault why = {0};
    enum err err = read_folder(s, h, best, &why);

    if (err && best && is_lost(err) && read_folder(s, h, false, f) == ERR_OK) {
        console_error("the best model cannot be used: %s; what was trained "
                      "last is taken",
                      why.text);
        return ERR_OK;
    }
    return err ? fault_set(f, err, "%s", why.text) : ERR_OK;
}

/* Whether it is of a run's beginning: in a first search trials alone are
 * trained, and nothing says which would win. */
static bool is_beginning(const struct history_snapshot *h)
{
    return h->s.clock == 0 && !h->s.best_path[0];
}

/* Why there is no snapshot, and what gives one. */
static enum err say_none(const struct save *s, struct fault *f)
{
    const struct history *h = &s->run.history;
    const char *id = s->run.id;

    if (history_snapshots_len(h) > 0)
        return fault_set(f, ERR_NOENT,
                         "run %s has no snapshot that can be read%s", id,
                         is_beginning(history_snapshot_at(h, 0))
                             ? ": what there is, is of its first search, in "
                               "which nothing but trials is trained"
                             : "");
    if (s->run.alive)
        return fault_set(f, ERR_NOENT,
                         "run %s has no snapshot yet; mltune snapshot %s "
                         "writes one",
                         id, id);
    return fault_set(f, ERR_NOENT,
                     "run %s has no snapshot: it ended before the first one "
                     "was written%s%s",
                     id, replay_resumable(&s->run) ? "; mltune resume " : "",
                     replay_resumable(&s->run) ? id : "");
}

/* The newest that can be read. Those that are not there any more were removed
 * for newer ones. */
static enum err find_snapshot(struct save *s, struct fault *f)
{
    const struct history *h = &s->run.history;
    enum err err = ERR_NOENT;

    for (size_t i = history_snapshots_len(h); i-- > 0 && err;) {
        const struct history_snapshot *w = history_snapshot_at(h, i);
        char path[FILE_PATH_MAX];

        if (is_beginning(w))
            break;
        err = find_folder(s, w->s.path, path, f);
        if (!err && access(path, F_OK) != 0)
            err = ERR_NOENT;
        else if (!err)
            err = read_snapshot(s, w, f);
        else
            return err;
        if (err && !is_lost(err))
            return err;
        if (err && access(path, F_OK) == 0)
            console_error("a snapshot cannot be used: %s; the one before it is "
                          "tried",
                          f->text);
    }
    return err ? say_none(s, f) : ERR_OK;
}

/* ---- the model ----------------------------------------------------------- */

/* The epoch whose end the snapshot has, or that it is beyond by some clocks;
 * NULL: none had ended. */
static const struct history_epoch *epoch_of(const struct save *s)
{
    const struct history *h = &s->run.history;
    uint32_t n = s->best ? s->from->s.best_epoch : s->from->s.epoch;
    const struct history_epoch *of = NULL;

    /* Of a contest the best need be none of those that survive. */
    if (s->best)
        of = history_epoch_of(h, n, s->from->s.best_of);
    if (of)
        return of;
    /* At an interruption the epoch that it names may have ended, and not been
     * tested: no record has it. */
    for (size_t i = history_epochs_len(h); i-- > 0;) {
        const struct history_epoch *e = history_epoch_at(h, i);

        if (e->e.surviving && e->e.epoch <= n &&
            (!of || e->e.epoch > of->e.epoch))
            of = e;
    }
    return of;
}

static enum err write_model(struct save *s, struct fault *f)
{
    char tmp[FILE_PATH_MAX];
    json_t *data = NULL;
    enum err err = folder_begin(s->out, tmp, f);

    if (err)
        return err;
    err = s->keeps ? kept_save(s->app, s->kept, s->ps, s->branch, tmp, &data, f)
                   : host_save(s->host, s->branch, tmp, NULL, &data, f);
    if (!err)
        err = model_write_epoch(tmp, &s->run.history, epoch_of(s), s->run.id,
                                s->folder, s->config->effective, data, f);
    json_decref(data);
    if (!err)
        err = folder_publish(tmp, s->out, f);
    if (err)
        folder_remove(tmp, NULL);
    return err;
}

static int say(const struct save *s)
{
    const struct history_epoch *e = epoch_of(s);
    json_t *o;
    int code;

    if (!s->a->json) {
        printf("model     %s\n", s->out);
        printf("of        epoch %u of run %s\n", e ? e->e.epoch : 0, s->run.id);
        printf("snapshot  %s\n", s->path);
        return EXIT_DONE;
    }
    o = json_pack(
        "{s:s, s:s, s:s, s:i, s:o}", "model", s->out, "run", s->run.id,
        "snapshot", s->path, "epoch", e ? (int)e->e.epoch : 0, "loss",
        e && isfinite(e->e.loss) ? json_real(e->e.loss) : json_null());
    code = console_json(o, 0);
    json_decref(o);
    return code;
}

/* ---- from beginning to end ----------------------------------------------- */

/* What a user's shared object may stand for and a model is written without: the
 * object need not be there. */
static const struct {
    const char *pointer, *instead;
} unneeded[] = {{"/ps/update_rule", "sgd"}, {"/ps/consistency", "bsp"}};

enum { UNNEEDED = sizeof(unneeded) / sizeof(*unneeded) };

/* NULL when out of memory. */
static json_t *without_objects(const json_t *config)
{
    json_t *out = json_copied(config);
    enum err err = ERR_OK;

    for (size_t i = 0; out && !err && i < UNNEEDED; i++)
        if (json_object_get(json_at(out, unneeded[i].pointer), "plugin"))
            err = json_put(out, unneeded[i].pointer,
                           json_string(unneeded[i].instead));
    if (!err)
        return out;
    json_decref(out);
    return NULL;
}

/* Where the data are loaded, the tables are declared as they were. */
static enum err put_objects(json_t *effective, const json_t *config)
{
    enum err err = ERR_OK;

    for (size_t i = 0; !err && i < UNNEEDED; i++) {
        json_t *value = json_at(config, unneeded[i].pointer);

        if (json_object_get(value, "plugin"))
            err = json_put(effective, unneeded[i].pointer, json_incref(value));
    }
    return err;
}

static int read_config(struct save *s)
{
    const struct config_env env = {.registry = cli_registry(),
                                   .cores = machine_cores("")};
    struct problems problems = {0};
    json_t *config = s->run.config ? without_objects(s->run.config) : NULL;
    char *text = config ? json_write(config, 0) : NULL;
    enum err err = text ? run_config_parse(&env, text, strlen(text), s->folder,
                                           NULL, &s->config, &problems)
                        : ERR_NOMEM;

    if (!err)
        err = put_objects(s->config->effective, s->run.config);
    if (err == ERR_NOMEM)
        console_error("out of memory");
    else if (err)
        run_config_say("the run's configuration", &problems);
    problems_deinit(&problems);
    json_decref(config);
    mem_free(text);
    return err == ERR_INVAL ? EXIT_CONFIG : exit_code_of(err);
}

/* What a program wrote, the program alone can read. */
static int refuse_program(const struct save *s)
{
    const struct history_snapshot *last =
        history_last_snapshot(&s->run.history);
    char path[FILE_PATH_MAX] = "";
    struct fault f = {0};

    say_none(s, &f);
    if (last)
        find_folder(s, last->s.best_path[0] ? last->s.best_path : last->s.path,
                    path, NULL);
    if (path[0])
        console_error("run %s trains a program of your own, which alone can "
                      "make a model of its snapshot: the files that it wrote "
                      "are in %s (torch.load or numpy.load reads what mltune's "
                      "Python package wrote); or resume the run",
                      s->run.id, path);
    else
        console_error("%s", f.text);
    return path[0] ? EXIT_CONFIG : EXIT_RUN_FAILED;
}

/* Journal and folder of run @word. */
static enum err find_run(struct save *s, const char *word, struct fault *f)
{
    struct journal *j = NULL;
    char unused[FILE_PATH_MAX];
    enum err err = replay_open(s->a->state, s->state, &j, f);

    if (err)
        return err;
    err = replay_run(j, s->state, word, &s->run, f);
    journal_close(j);
    if (!err)
        err = session_recall(s->state, s->run.id, s->folder, unused, f);
    return err;
}

static enum err place(struct save *s, struct fault *f)
{
    char name[RUN_ID_MAX + 16];

    snprintf(name, sizeof(name), "%s-model", s->run.id);
    return model_place(s->a->out ? s->a->out : name, s->out, f);
}

static int save(struct save *s, const char *word)
{
    struct fault f = {0};
    enum err err = find_run(s, word, &f);
    int code;

    if (err) {
        console_error("%s", f.text);
        return replay_exit_code(err);
    }
    code = read_config(s);
    if (code != EXIT_DONE)
        return code;
    if (config_is_program(s->config))
        return refuse_program(s);
    err = place(s, &f);
    if (err) {
        console_error("%s", f.text);
        return err == ERR_EXIST ? EXIT_USAGE : EXIT_IO;
    }
    if (history_snapshots_len(&s->run.history) > 0)
        err = open_app(s, &f);
    if (err) {
        console_error("the application cannot be opened: %s", f.text);
        return exit_code_of(err);
    }
    err = find_snapshot(s, &f);
    code = err == ERR_NOENT ? EXIT_RUN_FAILED : exit_code_of(err);
    if (!err) {
        err = write_model(s, &f);
        code = exit_code_of(err);
    }
    if (err)
        console_error("%s", f.text);
    return err ? code : say(s);
}

static int parse(struct save_arguments *a, int argc, char **argv,
                 const char **run)
{
    const struct option_spec options[] = {
        {"from", 0, OPTION_TEXT, "best|last",
         "the best epoch as of the snapshot (best), or what was trained last",
         &a->from},
        {"out", 0, OPTION_TEXT, "DIR", "the model's folder (./ID-model)",
         &a->out},
        STATE_OPTION(a->state),
        {"json", 0, OPTION_FLAG, NULL, "what was written as one JSON object",
         &a->json},
    };
    const struct usage usage = {
        .verb = "save",
        .operands = "RUN",
        .details = details,
        .operands_min = 1,
        .operands_max = 1,
        .n = sizeof(options) / sizeof(*options),
        .option = options,
    };
    struct operands operands;
    int code = options_parse(&usage, argc, argv, &operands);

    if (code != OPTIONS_GO_ON)
        return code;
    *run = operands_at(&operands, 0);
    if (strcmp(a->from, "best") != 0 && strcmp(a->from, "last") != 0) {
        console_error("--from %s: expected best or last", a->from);
        return EXIT_USAGE;
    }
    return OPTIONS_GO_ON;
}

int verb_save(int argc, char **argv)
{
    struct save_arguments a = {.state = STATE_DEFAULT, .from = "best"};
    struct save s = {.a = &a};
    const char *run;
    int code = parse(&a, argc, argv, &run);

    if (code != OPTIONS_GO_ON)
        return code;
    code = save(&s, run);
    mlt_ps_free(s.ps);
    host_close(s.host);
    run_config_free(s.config);
    replayed_deinit(&s.run);
    return code;
}
