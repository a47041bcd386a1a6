#include "cli/state/removal.h"
#include "base/run_files.h"

#include "cli/state/job.h"
#include "cli/state/mend.h"
#include "cli/state/serve.h"
#include "cli/state/tune_folder.h"
#include "tuner/history/checkpoint_io.h"
#include "tuner/shell/socket_io.h"
#include "tuner/shell/state_io.h"

#include <assert.h>
#include <dirent.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* From a folder's making to its lock's, at most. */
enum { UNLOCKED_S = 60 };

/* ERR_BUSY: its tuner lives. Its lock is ours meanwhile, so that
 * nobody resumes it. */
static enum err remove_folder(const char *state, const char *id,
                              struct fault *f)
{
    struct run_folder run;
    enum err err = run_folder_open(&run, state, id, f);

    if (err)
        return err == ERR_NOENT ? ERR_OK : err;
    err = tune_folder_remove(state, id, f);
    if (!err)
        err = folder_remove(run.path, f);
    run_folder_close(&run);
    return err;
}

enum err removal_of_run(const char *state, const char *id, int64_t *newest,
                        struct fault *f)
{
    struct journal *j = NULL;
    enum err err = remove_folder(state, id, f);

    assert(state[0] == '/' && id);
    if (err)
        return err;
    /* Where its path was too long for a socket, that lay elsewhere. */
    socket_sweep();
    err = mend_open(state, true, JOURNAL_BUSY_MS, &j, f);
    if (!err)
        err = journal_remove_run(j, id, newest, f);
    journal_close(j);
    return err == ERR_BUSY ? ERR_IO : err;
}

/* ---- killed before the journal knew it ----------------------------------- */

static enum err see_run(void *ctx, const struct journal_run *run)
{
    (void)ctx;
    (void)run;
    return ERR_OK;
}

/* Whether @folder has an entry @name, as far as one can see. */
static bool has(const char *folder, const char *name)
{
    char path[FILE_PATH_MAX];

    return file_join(path, folder, name, NULL) != ERR_OK ||
           access(path, F_OK) == 0;
}

/* One that is being made has no lock yet. */
static bool is_new(const char *folder)
{
    struct stat st;

    return !has(folder, "lock") &&
           (stat(folder, &st) != 0 || time(NULL) - st.st_mtime < UNLOCKED_S);
}

/* Whether its files tell of anything that was done. */
static bool is_blank(const char *folder)
{
    char path[FILE_PATH_MAX];
    struct checkpoint c;
    bool done;
    enum err err = checkpoint_read(folder, &c, NULL, NULL);

    if (err)
        done = err != ERR_NOENT;
    else
        done = c.has_history;
    if (!err)
        checkpoint_deinit(&c);
    return !done && !has(folder, "model") &&
           file_join(path, folder, "snapshots", NULL) == ERR_OK &&
           (access(path, F_OK) != 0 || folder_is_empty(path));
}

/* What a run has in its folder before its journal knows it. */
static bool is_of_beginning(const char *name)
{
    static const char *const own[] = {
        "lock",      "log",          "url",         RUN_SOCKET,   "job.json",
        "tuner.log", "session.json", "snapshots",   "checkpoint", "config.json",
        RUN_GIVEN,   RUN_KEPT,       RUN_KEPT_FILES};
    const size_t n = strlen(name);

    for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++)
        if (strncmp(name, own[i], strlen(own[i])) == 0 &&
            (!name[strlen(own[i])] || strcmp(name + n - 4, ".tmp") == 0))
            return true;
    return n > 9 && strncmp(name, "node-", 5) == 0 &&
           strspn(name + 5, "0123456789") == n - 9 &&
           strcmp(name + n - 4, ".log") == 0;
}

/* Whether nobody else has put anything there: that would not be ours to
 * remove. */
static bool is_own(const char *folder)
{
    struct dirent *e;
    DIR *d = opendir(folder);
    bool own = d != NULL;

    while (own && (e = readdir(d)))
        own = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
              is_of_beginning(e->d_name);
    if (d)
        closedir(d);
    return own;
}

void removal_of_unborn(const char *state, struct journal *j)
{
    char runs[FILE_PATH_MAX], path[FILE_PATH_MAX];
    struct dirent *e;
    DIR *d =
        file_join(runs, state, "runs", NULL) == ERR_OK ? opendir(runs) : NULL;

    assert(state[0] == '/' && j);
    /* Most have a second checkpoint: nothing more is asked of them. */
    while (d && (e = readdir(d)))
        if (run_id_valid(e->d_name) &&
            file_join(path, runs, e->d_name, NULL) == ERR_OK &&
            !has(path, "checkpoint.old") && !is_new(path) &&
            !job_exists(state, e->d_name) &&
            !run_folder_alive(state, e->d_name) &&
            journal_find_run(j, e->d_name, see_run, NULL, NULL) == ERR_NOENT &&
            is_own(path) && is_blank(path))
            folder_remove(path, NULL);
    if (d)
        closedir(d);
}
