/* `mltune recover STATE`: what is whole of a damaged state folder, in a new one
 * from which runs can be resumed. The damaged one is only read. */
#include "base/file_io.h"
#include "base/folder_copy_io.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/options.h"
#include "cli/basics/verbs.h"
#include "cli/config/service_settings.h"
#include "cli/run/session.h"
#include "cli/state/salvage.h"
#include "ps/disk/check_io.h"
#include "tuner/history/checkpoint_io.h"
#include "tuner/history/journal_head_io.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char details[] =
    "STATE is the damaged state folder, which is only read: no tuner may run "
    "there.\n"
    "What is whole goes to a new folder: the runs with those records that can "
    "be read,\n"
    "their snapshots and models. What is not whole is said, by run. The runs "
    "go on from\n"
    "there: mltune resume RUN --state DIR. Exit code 0: nothing is missing; 1: "
    "something\n"
    "is, and was said.";

/* A run as journal, checkpoint and folder together still have it. */
struct found {
    struct replayed run;
    struct checkpoint_start start; /* owned */
};

struct recovery {
    char from[FILE_PATH_MAX], to[FILE_PATH_MAX]; /* absolute */
    char tmp[FILE_PATH_MAX]; /* until @to is whole: of this process alone */
    struct salvage salvage;
    unsigned whole;                /* runs that are there */
    char snapshots[FILE_PATH_MAX]; /* where those of the run under way go */
};

/* ---- what is said -------------------------------------------------------- */

static void tell(void *ctx, const char *what)
{
    (void)ctx;
    console_line(stdout, "  not whole: %s", what);
}

static void lost_file(void *ctx, const char *path, const char *why)
{
    struct recovery *r = ctx;

    salvage_lose(&r->salvage, "%s: %s", path, why);
}

/* ---- which runs there are ------------------------------------------------ */

static bool is_journal(const char *name)
{
    return strcmp(name, "mltune.db") == 0 ||
           strcmp(name, "mltune.db-wal") == 0 ||
           strcmp(name, JOURNAL_HEAD) == 0;
}

/* Opens a copy of the journal, with the copy of its head where its own is
 * damaged, and lists its runs. */
static enum err read_journal(struct recovery *r, struct fault *f)
{
    struct salvage *s = &r->salvage;
    char copy[FILE_PATH_MAX];
    struct fault why = {0};
    enum err err = file_join(copy, r->tmp, "damaged.tmp", f);

    if (!err)
        err = folder_copy_torn(r->from, copy, is_journal, lost_file, r, f);
    if (err)
        return err;
    err = journal_open(copy, true, JOURNAL_BUSY_MS, &s->old, &why);
    if (err == ERR_FORMAT && journal_head_restore(copy, NULL) == ERR_OK)
        err = journal_open(copy, true, JOURNAL_BUSY_MS, &s->old, &why);
    if (err == ERR_NOMEM)
        return fault_set(f, err, "out of memory");
    if (err) {
        salvage_lose(s, "the journal: %s", why.text);
        s->old = NULL;
    }
    return salvage_list(s, f);
}

/* ---- one run ------------------------------------------------------------- */

static void found_deinit(struct found *x)
{
    replayed_deinit(&x->run);
    checkpoint_start_deinit(&x->start);
}

/* ---- records ------------------------------------------------------------- */

/* A snapshot's path, in the folder as it will be. */
static enum err relocate(struct recovery *r, json_t *record, const char *member)
{
    const char *path = json_string_value(json_object_get(record, member));
    const char *name = path ? strrchr(path, '/') : NULL;
    char moved[FILE_PATH_MAX];

    if (!name || !name[1])
        return ERR_OK;
    if (file_join(moved, r->snapshots, name + 1, NULL) != ERR_OK)
        return ERR_LIMIT;
    return json_object_set_new(record, member, json_string(moved)) == 0
               ? ERR_OK
               : ERR_NOMEM;
}

/* @path within the damaged folder as it will be in the new one: false where it
 * lies elsewhere, as a model of --out may. */
static bool inside(const struct recovery *r, const char *path,
                   char moved[FILE_PATH_MAX])
{
    size_t n = strlen(r->from);

    return path && strncmp(path, r->from, n) == 0 && path[n] == '/' &&
           file_join(moved, r->to, path + n + 1, NULL) == ERR_OK;
}

/* The member of @o that is the path of a model. */
static enum err relocate_model(const struct recovery *r, json_t *o,
                               const char *member)
{
    char moved[FILE_PATH_MAX];

    if (!inside(r, json_string_value(json_object_get(o, member)), moved))
        return ERR_OK;
    return json_object_set_new(o, member, json_string(moved)) == 0 ? ERR_OK
                                                                   : ERR_NOMEM;
}

/* A record as it was, but for the places of snapshots and the model. */
static enum err change_record(void *ctx, const char *kind, json_t *json)
{
    struct recovery *r = ctx;
    enum err err;

    if (strcmp(kind, "model_saved") == 0)
        return relocate_model(r, json, "path");
    if (strcmp(kind, "snapshot_written") != 0 &&
        strcmp(kind, "run_resumed") != 0)
        return ERR_OK;
    err = relocate(r, json, "path");
    return err ? err : relocate(r, json, "best_path");
}

/* The history, its snapshots and its model where they will be. */
static enum err relocate_history(const struct recovery *r, struct history *h,
                                 struct fault *f)
{
    char moved[FILE_PATH_MAX];

    if (inside(r, h->model.path, moved) &&
        strlen(moved) < sizeof(h->model.path))
        memcpy(h->model.path, moved, strlen(moved) + 1);
    return history_move_snapshots(h, r->snapshots) == ERR_OK
               ? ERR_OK
               : fault_set(f, ERR_LIMIT, "path too long: %.200s...",
                           r->snapshots);
}

/* ---- files --------------------------------------------------------------- */

/* What belongs to a process is not taken over, nor what is written anew. */
static bool is_of_run(const char *name)
{
    static const char *const not [] = {
        "lock",      "url",        "session.json",  "config.json",
        "snapshots", "checkpoint", "checkpoint.old"};
    size_t n = strlen(name);

    for (size_t i = 0; i < sizeof(not ) / sizeof(*not ); i++)
        if (strcmp(name, not [i]) == 0)
            return false;
    return n < 4 || strcmp(name + n - 4, ".tmp") != 0;
}

/* One snapshot's folder; a damaged one stays behind. Of a program's own files
 * nobody else can say whether they are whole. */
static enum err copy_snapshot(struct recovery *r, bool program,
                              const char *from, const char *to,
                              const char *name, struct fault *f)
{
    char source[FILE_PATH_MAX], target[FILE_PATH_MAX], manifest[FILE_PATH_MAX];
    struct fault why = {0};
    enum err err = file_join(source, from, name, f);

    if (!err)
        err = file_join(target, to, name, f);
    if (!err)
        err = file_join(manifest, source, "manifest.json", f);
    if (err)
        return err;
    if (!program || access(manifest, F_OK) == 0)
        err = checkpoint_check(source, &why);
    if (err == ERR_NOMEM)
        return fault_set(f, err, "out of memory");
    if (err) {
        salvage_lose(&r->salvage, "snapshot %s: %s", name, why.text);
        return ERR_OK;
    }
    return folder_copy(source, target, NULL, lost_file, r, f);
}

static enum err copy_snapshots(struct recovery *r, bool program,
                               const char *from, const char *to,
                               struct fault *f)
{
    enum err err = folder_ensure(to, FOLDER_PRIVATE, f);
    DIR *d = err ? NULL : opendir(from);
    struct dirent *entry;

    if (!d) /* a run that has written none, or */
        return err ? err : salvage_unlisted(&r->salvage, from, errno, f);
    while (!err && (entry = readdir(d)))
        if (entry->d_name[0] != '.' && !strstr(entry->d_name, ".tmp"))
            err = copy_snapshot(r, program, from, to, entry->d_name, f);
    closedir(d);
    return err;
}

/* Where the run's relative paths start, and where its model goes. */
static enum err find_start(struct recovery *r, struct found *x, struct fault *f)
{
    char folder[FILE_PATH_MAX], out[FILE_PATH_MAX] = "";
    struct checkpoint_start *start = &x->start;
    struct fault why = {0};

    if (session_recall(r->from, x->run.id, folder, out, &why)) {
        char *end;

        snprintf(folder, sizeof(folder), "%s", r->from);
        end = strrchr(folder, '/');
        if (end > folder)
            *end = '\0';
        out[0] = '\0';
        salvage_lose(
            &r->salvage,
            "%s; relative paths of the configuration start at %s from now on, "
            "and the model goes into the run's folder",
            why.text, folder);
    }
    start->run = mem_strdup(x->run.id);
    start->name = mem_strdup(x->run.name);
    start->config = json_write(x->run.config, 0);
    start->folder = mem_strdup(folder);
    start->out = mem_strdup(out);
    start->began_ns = x->run.began_ns;
    return start->run && start->name && start->config && start->folder &&
                   start->out
               ? ERR_OK
               : fault_set(f, ERR_NOMEM, "out of memory");
}

static enum err copy_files(struct recovery *r, const struct found *x,
                           const char *to, struct fault *f)
{
    bool program = json_at(x->run.config, "/app/command") != NULL;
    char from[FILE_PATH_MAX], source[FILE_PATH_MAX], target[FILE_PATH_MAX];
    enum err err = folder_make(to, f);

    replay_folder(r->from, x->run.id, from);
    if (!err && access(from, F_OK) != 0)
        salvage_lose(&r->salvage, "its folder is gone, with all snapshots");
    else if (!err)
        err = folder_copy(from, to, is_of_run, lost_file, r, f);
    if (!err)
        err = file_join(target, to, "config.json", f);
    if (!err)
        err = file_write(target, x->start.config, strlen(x->start.config), f);
    if (!err)
        err = file_join(source, from, "snapshots", f);
    if (!err)
        err = file_join(target, to, "snapshots", f);
    return err ? err : copy_snapshots(r, program, source, target, f);
}

static enum err write_run(struct recovery *r, struct found *x, struct fault *f)
{
    char to[FILE_PATH_MAX];
    enum err err = find_start(r, x, f);

    replay_folder(r->tmp, x->run.id, to);
    if (!err && relocate_model(r, x->run.result, "model"))
        err = fault_set(f, ERR_NOMEM, "out of memory");
    if (!err)
        err = salvage_run(&r->salvage, &x->run, x->start.config, f);
    if (!err)
        err = copy_files(r, x, to, f);
    if (!err)
        err = relocate_history(r, &x->run.history, f);
    if (!err)
        err = session_remember(to, &x->start, f);
    return err ? err
               : checkpoint_write(to, &x->start, &x->run.history,
                                  HISTORY_PACK_ALL, NULL, f);
}

static enum err copy_run(struct recovery *r, const char *id, struct fault *f)
{
    char sub[RUN_ID_MAX + 32];
    struct found x = {.start = {.run = NULL}};
    enum err err;

    console_line(stdout, "%s", id);
    snprintf(sub, sizeof(sub), "runs/%s/snapshots", id);
    err = file_join(r->snapshots, r->to, sub, f);
    if (!err)
        err = salvage_find(&r->salvage, id, &x.run, f);
    if (err)
        return err == ERR_NOENT ? ERR_OK : err;
    err = write_run(r, &x, f);
    r->whole += !err;
    found_deinit(&x);
    return err;
}

/* What can be done with each, as the verbs that will do it see it. */
static void tell_runs(struct recovery *r)
{
    for (size_t i = r->salvage.runs; i-- > 0;) {
        struct replayed run;
        struct fault f = {0};
        enum err err =
            replay_run(r->salvage.new, r->tmp, r->salvage.id[i], &run, &f);

        if (err && err != ERR_NOENT) {
            console_line(stdout, "%s", r->salvage.id[i]);
            salvage_lose(&r->salvage, "%s", f.text);
        }
        if (err)
            continue;
        if (replay_resumable(&run))
            printf("recovered %s: mltune resume %s --state %s\n", run.id,
                   run.id, r->to);
        else
            printf("recovered %s: %s\n", run.id, run.status);
        replayed_deinit(&run);
    }
}

/* ---- from beginning to end ----------------------------------------------- */

/* What the folder has beside its runs: results of comparisons and tunes, who
 * may use a service, its settings, what was done and what was uploaded. */
static bool is_of_folder(const char *name)
{
    static const char *const names[] = {"tune",    "token",          "tokens",
                                        "uploads", SERVICE_SETTINGS, "audit",
                                        "audit.1"};

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static enum err refuse_alive(const struct recovery *r, struct fault *f)
{
    for (size_t i = 0; i < r->salvage.runs; i++)
        if (run_folder_alive(r->from, r->salvage.id[i]))
            return fault_set(f, ERR_BUSY, "run %s is running: end it first",
                             r->salvage.id[i]);
    return ERR_OK;
}

static enum err recover(struct recovery *r, struct fault *f)
{
    enum err err = folder_begin(r->to, r->tmp, f);

    if (!err)
        err = read_journal(r, f);
    if (!err)
        err = refuse_alive(r, f);
    if (!err)
        err = salvage_open(&r->salvage, r->tmp, f);
    /* The oldest first, as they began. */
    for (size_t i = r->salvage.runs; i-- > 0 && !err;) {
        err = copy_run(r, r->salvage.id[i], f);
        if (!err)
            err = salvage_open(&r->salvage, r->tmp, f);
    }
    if (!err)
        err = folder_copy(r->from, r->tmp, is_of_folder, lost_file, r, f);
    if (err)
        return err;
    tell_runs(r);
    return ERR_OK;
}

static enum err refuse_taken(const struct recovery *r, struct fault *f)
{
    struct stat st;

    if (lstat(r->to, &st) == 0 && !folder_is_empty(r->to))
        return fault_set(f, ERR_EXIST, "%s exists: name a new folder with --to",
                         r->to);
    return ERR_OK;
}

/* Closes both journals and gives the new folder its name, unless another has
 * taken it meanwhile. */
static enum err publish(struct recovery *r, struct fault *f)
{
    char copy[FILE_PATH_MAX];
    enum err err = file_join(copy, r->tmp, "damaged.tmp", f);

    salvage_deinit(&r->salvage);
    if (!err)
        err = folder_remove(copy, f);
    if (!err)
        err = refuse_taken(r, f);
    return err ? err : folder_publish(r->tmp, r->to, f);
}

static enum err find_folders(struct recovery *r, const char *from,
                             const char *to, struct fault *f)
{
    struct stat st;
    char *real = realpath(from, NULL);
    char beside[FILE_PATH_MAX];
    enum err err = ERR_OK;

    if (!real || strlen(real) >= sizeof(r->from) || stat(real, &st) != 0 ||
        !S_ISDIR(st.st_mode))
        err = fault_set(f, ERR_NOENT, "%s is no folder", from);
    else
        snprintf(r->from, sizeof(r->from), "%s", real);
    free(real);
    if (err)
        return err;
    if (snprintf(beside, sizeof(beside), "%s-recovered", r->from) >=
        (int)sizeof(beside))
        return fault_set(f, ERR_LIMIT, "%s: path is too long", from);
    err = folder_absolute(to ? to : beside, r->to, f);
    if (err)
        return err;
    return refuse_taken(r, f);
}

static void recovery_deinit(struct recovery *r)
{
    salvage_deinit(&r->salvage);
    if (r->tmp[0])
        folder_remove(r->tmp, NULL);
}

int verb_recover(int argc, char **argv)
{
    const char *to = NULL;
    const struct option_spec options[] = {
        {"to", 0, OPTION_TEXT, "DIR", "the new folder (STATE-recovered)", &to},
    };
    const struct usage usage = {
        .verb = "recover",
        .operands = "STATE",
        .details = details,
        .operands_min = 1,
        .operands_max = 1,
        .n = sizeof(options) / sizeof(*options),
        .option = options,
    };
    struct recovery r = {
        .salvage = {.from = r.from, .tell = tell, .change = change_record}};
    struct operands operands;
    struct fault f = {0};
    int code = options_parse(&usage, argc, argv, &operands);
    enum err err;

    if (code != OPTIONS_GO_ON)
        return code;
    r.salvage.ctx = &r;
    err = find_folders(&r, operands_at(&operands, 0), to, &f);
    if (!err)
        err = recover(&r, &f);
    if (!err)
        err = publish(&r, &f);
    if (err)
        console_error("%s", f.text);
    else
        printf("%u runs are in %s\n", r.whole, r.to);
    recovery_deinit(&r);
    if (err)
        return err == ERR_EXIST ? EXIT_USAGE : replay_exit_code(err);
    return r.salvage.losses ? EXIT_RUN_FAILED : EXIT_DONE;
}
