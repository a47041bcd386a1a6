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
#include "cli/run/session.h"
#include "cli/state/replay.h"
#include "ps/disk/check_io.h"
#include "tuner/history/checkpoint_io.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RUNS_MAX = 100000, COMMIT_EVERY = 4096 };

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
    char tmp[FILE_PATH_MAX];                     /* of @to, until it is whole */
    struct journal *old, *new;  /* old: a copy; NULL: it cannot be read */
    char (*id)[RUN_ID_MAX + 1]; /* [runs] owned; the newest first */
    size_t runs, capacity;
    unsigned losses, whole;        /* told; runs that are there */
    char snapshots[FILE_PATH_MAX]; /* where those of the run under way go */
    unsigned pending;              /* records that are not committed */
};

/* ---- what is said -------------------------------------------------------- */

static void lose(struct recovery *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void lose(struct recovery *r, const char *format, ...)
{
    char text[FAULT_TEXT_MAX];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    console_line(stdout, "  not whole: %s", text);
    r->losses++;
}

static void lost_file(void *ctx, const char *path, const char *why)
{
    lose(ctx, "%s: %s", path, why);
}

/* ---- which runs there are ------------------------------------------------ */

static enum err add_run(struct recovery *r, const char *id)
{
    if (!run_id_valid(id) || r->runs == RUNS_MAX)
        return ERR_OK;
    for (size_t i = 0; i < r->runs; i++)
        if (strcmp(r->id[i], id) == 0)
            return ERR_OK;
    if (r->runs == r->capacity &&
        mem_grow((void **)&r->id, &r->capacity, sizeof(*r->id), r->runs + 1))
        return ERR_NOMEM;
    snprintf(r->id[r->runs++], sizeof(*r->id), "%s", id);
    return ERR_OK;
}

static enum err take_run(void *ctx, const struct journal_run *run)
{
    return add_run(ctx, run->id);
}

/* Runs that the journal does not know any more have folders still. */
static enum err add_folders(struct recovery *r, struct fault *f)
{
    char path[FILE_PATH_MAX];
    struct dirent *entry;
    enum err err = file_join(path, r->from, "runs", f);
    DIR *d = err ? NULL : opendir(path);

    while (d && !err && (entry = readdir(d)))
        err = add_run(r, entry->d_name);
    if (d)
        closedir(d);
    return err;
}

static bool is_journal(const char *name)
{
    return strcmp(name, "mltune.db") == 0 || strcmp(name, "mltune.db-wal") == 0;
}

/* Opens a copy of the journal, and lists its runs. */
static enum err read_journal(struct recovery *r, struct fault *f)
{
    char copy[FILE_PATH_MAX];
    struct fault why = {0};
    enum err err = file_join(copy, r->tmp, "damaged.tmp", f);

    if (!err)
        err = folder_copy_torn(r->from, copy, is_journal, lost_file, r, f);
    if (err)
        return err;
    err = journal_open(copy, true, JOURNAL_BUSY_MS, &r->old, &why);
    if (!err)
        err = journal_each_run(r->old, take_run, r, &why);
    if (err && err != ERR_NOMEM) {
        lose(r, "the journal: %s", why.text);
        journal_close(r->old);
        r->old = NULL;
        err = ERR_OK;
    }
    if (!err)
        err = add_folders(r, f);
    return err == ERR_NOMEM ? fault_set(f, err, "out of memory") : err;
}

/* ---- one run ------------------------------------------------------------- */

static void found_deinit(struct found *x)
{
    replayed_deinit(&x->run);
    checkpoint_start_deinit(&x->start);
}

/* From its checkpoint alone. */
static enum err read_checkpoint(struct recovery *r, const char *id,
                                struct replayed *out, struct fault *f)
{
    char path[FILE_PATH_MAX];
    struct checkpoint c;
    struct fault told = {0};
    enum err err;

    memset(out, 0, sizeof(*out));
    history_init(&out->history);
    replay_folder(r->from, id, path);
    err = checkpoint_read(path, &c, &told, f);
    if (err)
        return err;
    snprintf(out->id, sizeof(out->id), "%s", id);
    if (!c.has_start || json_load(c.start.config, strlen(c.start.config),
                                  &out->config, NULL, NULL) != ERR_OK)
        err = fault_set(f, ERR_FORMAT, "its configuration is lost");
    if (!err) {
        snprintf(out->name, sizeof(out->name), "%s", c.start.name);
        out->began_ns = out->last_ns = c.start.began_ns;
    }
    if (!err && c.has_history) {
        out->history = c.history;
        c.has_history = false;
        lose(r, "its records after the checkpoint, number %llu",
             (unsigned long long)history_records(&out->history));
    }
    checkpoint_deinit(&c);
    return err;
}

/* All that is known of it; why not, is told, and ERR_NOENT. */
static enum err find_run(struct recovery *r, const char *id, struct found *out,
                         struct fault *f)
{
    struct fault why = {0};
    enum err err = ERR_NOENT;

    memset(out, 0, sizeof(*out));
    if (r->old)
        err = replay_run(r->old, r->from, id, &out->run, &why);
    if (!err && out->run.damage[0])
        lose(r, "%s", out->run.damage);
    if (!err && out->run.passed_over)
        lose(r, "%llu records in all",
             (unsigned long long)out->run.passed_over);
    if (err && err != ERR_NOMEM)
        err = read_checkpoint(r, id, &out->run, &why);
    if (err == ERR_NOMEM)
        return fault_set(f, err, "out of memory");
    if (err) {
        lose(r,
             "neither the journal nor a checkpoint has it (%s): it cannot be "
             "resumed; its folder stays as it is",
             why.text);
        found_deinit(out);
        return ERR_NOENT;
    }
    return ERR_OK;
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
static enum err keep_record(struct recovery *r,
                            const struct journal_record *stored, json_t *json,
                            struct fault *f)
{
    bool model = strcmp(stored->kind, "model_saved") == 0;
    char *text;
    enum err err =
        model ? relocate_model(r, json, "path") : relocate(r, json, "path");

    if (!err)
        err = relocate(r, json, "best_path");
    text = err ? NULL : json_write(json, 0);
    if (!text)
        return fault_set(f, ERR_NOMEM, "out of memory");
    journal_skip(r->new, stored->seq - 1);
    err = journal_append(r->new, stored->kind, text, strlen(text),
                         stored->wall_ns, f);
    mem_free(text);
    if (!err && ++r->pending == COMMIT_EVERY) {
        r->pending = 0;
        err = journal_commit(r->new, false, f);
    }
    return err;
}

struct transfer {
    struct recovery *r;
    struct fault *fault;
};

static enum err take_record(void *ctx, const struct journal_record *stored)
{
    struct transfer *c = ctx;
    json_t *json = NULL;
    enum err err = json_load(stored->json, stored->len, &json, NULL, NULL);

    if (err && err != ERR_NOMEM)
        return ERR_OK; /* told already */
    if (!err && (strcmp(stored->kind, "snapshot_written") == 0 ||
                 strcmp(stored->kind, "model_saved") == 0 ||
                 strcmp(stored->kind, "run_resumed") == 0)) {
        err = keep_record(c->r, stored, json, c->fault);
    } else if (!err) {
        journal_skip(c->r->new, stored->seq - 1);
        err = journal_append(c->r->new, stored->kind, stored->json, stored->len,
                             stored->wall_ns, c->fault);
    }
    json_decref(json);
    return err;
}

/* What the records came to is in the checkpoint; they themselves are for who
 * exports them. */
static enum err copy_records(struct recovery *r, const struct found *x,
                             struct fault *f)
{
    struct transfer c = {r, f};
    enum err err = ERR_OK;

    r->pending = 0;
    if (r->old)
        err = journal_each_record(r->old, x->run.id, 0, take_record, &c, f);
    if (err == ERR_NOENT)
        err = ERR_OK;
    if (!err)
        journal_skip(r->new, history_records(&x->run.history));
    return err ? err : journal_commit(r->new, true, f);
}

/* The history, its snapshots and its model where they will be. */
static void relocate_history(const struct recovery *r, struct history *h)
{
    char moved[FILE_PATH_MAX];

    for (size_t i = 0; i < h->snapshots; i++) {
        struct record_snapshot_written *s = &h->snapshot[i].s;
        char *const path[] = {s->path, s->best_path};

        for (int k = 0; k < 2; k++) {
            const char *name = strrchr(path[k], '/');

            if (name &&
                file_join(moved, r->snapshots, name + 1, NULL) == ERR_OK &&
                strlen(moved) < sizeof(s->path))
                memcpy(path[k], moved, strlen(moved) + 1);
        }
    }
    if (inside(r, h->model.path, moved) &&
        strlen(moved) < sizeof(h->model.path))
        memcpy(h->model.path, moved, strlen(moved) + 1);
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
        lose(r, "snapshot %s: %s", name, why.text);
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

    if (!d) /* a run that has written none */
        return err;
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
        lose(r,
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
        lose(r, "its folder is gone, with all snapshots");
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
    if (!err)
        err = journal_begin_run(r->new, x->run.id, x->run.name, x->start.config,
                                x->run.began_ns, f);
    if (!err)
        err = copy_records(r, x, f);
    if (!err && x->run.ended) {
        char *result = NULL;

        err = relocate_model(r, x->run.result, "model");
        if (!err && x->run.result)
            result = json_write(x->run.result, 0);
        if (err || (x->run.result && !result))
            return fault_set(f, ERR_NOMEM, "out of memory");
        err = journal_end_run(r->new, x->run.status, x->run.reason, result,
                              x->run.last_ns, f);
        mem_free(result);
    }
    if (!err)
        err = copy_files(r, x, to, f);
    relocate_history(r, &x->run.history);
    if (!err)
        err = session_remember(to, &x->start, f);
    return err ? err
               : checkpoint_write(to, &x->start, &x->run.history,
                                  HISTORY_PACK_ALL, NULL, f);
}

static enum err copy_run(struct recovery *r, const char *id, struct fault *f)
{
    char sub[RUN_ID_MAX + 32];
    struct found x;
    enum err err;

    console_line(stdout, "%s", id);
    snprintf(sub, sizeof(sub), "runs/%s/snapshots", id);
    err = file_join(r->snapshots, r->to, sub, f);
    if (!err)
        err = find_run(r, id, &x, f);
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
    for (size_t i = r->runs; i-- > 0;) {
        struct replayed run;
        struct fault f = {0};
        enum err err = replay_run(r->new, r->tmp, r->id[i], &run, &f);

        if (err && err != ERR_NOENT) {
            console_line(stdout, "%s", r->id[i]);
            lose(r, "%s", f.text);
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

static bool is_tune(const char *name)
{
    return strcmp(name, "tune") == 0;
}

static enum err refuse_alive(const struct recovery *r, struct fault *f)
{
    for (size_t i = 0; i < r->runs; i++)
        if (run_folder_alive(r->from, r->id[i]))
            return fault_set(f, ERR_BUSY, "run %s is running: end it first",
                             r->id[i]);
    return ERR_OK;
}

/* A handle of the journal writes one run. */
static enum err open_new(struct recovery *r, struct fault *f)
{
    journal_close(r->new);
    r->new = NULL;
    return journal_open(r->tmp, true, JOURNAL_BUSY_MS, &r->new, f);
}

static enum err recover(struct recovery *r, struct fault *f)
{
    enum err err = folder_remove(r->tmp, f);

    if (!err)
        err = folder_make(r->tmp, f);
    if (!err)
        err = read_journal(r, f);
    if (!err)
        err = refuse_alive(r, f);
    if (!err)
        err = open_new(r, f);
    /* The oldest first, as they began. */
    for (size_t i = r->runs; i-- > 0 && !err;) {
        err = copy_run(r, r->id[i], f);
        if (!err)
            err = open_new(r, f);
    }
    if (!err)
        err = folder_copy(r->from, r->tmp, is_tune, lost_file, r, f);
    if (err)
        return err;
    tell_runs(r);
    return ERR_OK;
}

/* Closes both journals and gives the new folder its name. */
static enum err publish(struct recovery *r, struct fault *f)
{
    char copy[FILE_PATH_MAX];
    enum err err = file_join(copy, r->tmp, "damaged.tmp", f);

    journal_close(r->new);
    journal_close(r->old);
    r->new = r->old = NULL;
    if (!err)
        err = folder_remove(copy, f);
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
    if (lstat(r->to, &st) == 0 && !folder_is_empty(r->to))
        return fault_set(f, ERR_EXIST, "%s exists: name a new folder with --to",
                         r->to);
    if (snprintf(r->tmp, sizeof(r->tmp), "%s.tmp", r->to) >=
        (int)sizeof(r->tmp))
        return fault_set(f, ERR_LIMIT, "%s: path is too long", r->to);
    return ERR_OK;
}

static void recovery_deinit(struct recovery *r)
{
    journal_close(r->new);
    journal_close(r->old);
    if (r->tmp[0])
        folder_remove(r->tmp, NULL);
    mem_free(r->id);
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
    struct recovery r = {.from = ""};
    struct operands operands;
    struct fault f = {0};
    int code = options_parse(&usage, argc, argv, &operands);
    enum err err;

    if (code != OPTIONS_GO_ON)
        return code;
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
    return r.losses ? EXIT_RUN_FAILED : EXIT_DONE;
}
