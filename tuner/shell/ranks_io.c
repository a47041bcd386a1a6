#include "tuner/shell/ranks_io.h"

#include "base/deadlines.h"
#include "base/mem.h"
#include "base/text.h"

#include <assert.h>
#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- who we are ---------------------------------------------------------- */

/* The first of @names[n] that the environment has; NULL. */
static const char *first(const char *const names[], size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *text = getenv(names[i]);

        if (text && *text)
            return text;
    }
    return NULL;
}

static bool number_of(const char *text, unsigned *out)
{
    char *end;
    unsigned long n = text ? strtoul(text, &end, 10) : 0;

    if (!text || *text < '0' || *text > '9' || *end || n > UINT32_MAX)
        return false;
    *out = (unsigned)n;
    return true;
}

/* As the name of a folder. */
static void clean(const char *job, char out[RANKS_JOB_MAX])
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    size_t n = strlen(job),
           from = n < RANKS_JOB_MAX ? 0 : n - RANKS_JOB_MAX + 1;

    snprintf(out, RANKS_JOB_MAX, "%s", job + from);
    for (char *c = out; *c; c++)
        if (!strchr(plain, *c))
            *c = '-';
}

bool ranks_find(struct ranks *out)
{
    static const char *const ranks[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK",
                                        "PMI_RANK"};
    static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                        "SLURM_STEP_NUM_TASKS"};
    static const char *const jobs[] = {"MLTUNE_JOB", "PMIX_NAMESPACE",
                                       "OMPI_MCA_ess_base_jobid", "PMI_JOBID",
                                       "SLURM_JOB_ID"};
    struct ranks r = {.wait_ms = DEADLINE_RANK_MS};
    const char *job = first(jobs, sizeof(jobs) / sizeof(*jobs));

    if (!job || !number_of(first(ranks, 3), &r.rank) ||
        !number_of(first(sizes, 3), &r.size) || r.rank >= r.size)
        return false;
    clean(job, r.job);
    *out = r;
    return true;
}

bool ranks_find_pod(struct ranks *out)
{
    struct ranks r = {.pods = true, .wait_ms = DEADLINE_POD_MS};
    const char *job = getenv("MLTUNE_JOB");
    unsigned wait_s;

    if (!job || !*job || !number_of(getenv("JOB_COMPLETION_INDEX"), &r.rank) ||
        !number_of(getenv("MLTUNE_PODS"), &r.size) || r.rank >= r.size)
        return false;
    if (number_of(getenv("MLTUNE_POD_WAIT"), &wait_s) && wait_s > 0 &&
        wait_s <= INT_MAX / 1000)
        r.wait_ms = (int)wait_s * 1000;
    clean(job, r.job);
    *out = r;
    return true;
}

/* ---- the place ----------------------------------------------------------- */

enum err ranks_place(const char *state, const struct ranks *r,
                     char out[FILE_PATH_MAX], struct fault *f)
{
    char all[FILE_PATH_MAX];
    enum err err = file_join(all, state, r->pods ? "kubernetes" : "mpi", f);

    if (!err)
        err = file_join(out, all, r->job, f);
    if (!err)
        err = folder_make(all, f);
    return err ? err : folder_ensure(out, FOLDER_PRIVATE, f);
}

/* One without a lock is only just being made. */
static void sweep(const char *own)
{
    char all[FILE_PATH_MAX], path[FILE_PATH_MAX], lock[FILE_PATH_MAX];
    const char *name = strrchr(own, '/');
    struct dirent *e;
    DIR *d;

    assert(name);
    snprintf(all, sizeof(all), "%.*s", (int)(name - own), own);
    d = opendir(all);
    while (d && (e = readdir(d)))
        if (e->d_name[0] != '.' &&
            file_join(path, all, e->d_name, NULL) == ERR_OK &&
            strcmp(path, own) != 0 &&
            file_join(lock, path, "lock", NULL) == ERR_OK &&
            access(lock, F_OK) == 0 && !file_locked(lock, NULL))
            folder_remove(path, NULL);
    if (d)
        closedir(d);
}

enum err ranks_hold(const char *place, int *fd, struct fault *f)
{
    char path[FILE_PATH_MAX];
    enum err err = file_join(path, place, "lock", f);

    if (!err)
        err = file_lock(path, fd, f);
    if (err == ERR_BUSY)
        fault_set(f, ERR_BUSY, "another job meets in %s", place);
    if (!err)
        sweep(place);
    return err;
}

bool ranks_held(const char *place)
{
    char path[FILE_PATH_MAX];

    return file_join(path, place, "lock", NULL) == ERR_OK &&
           file_locked(path, NULL);
}

/* ---- files --------------------------------------------------------------- */

static enum err path_of(char out[FILE_PATH_MAX], const char *place,
                        const char *kind, unsigned rank, struct fault *f)
{
    char name[48];

    snprintf(name, sizeof(name), "%s-%u", kind, rank);
    return file_join(out, place, name, f);
}

static bool is_there(const char *place, const char *kind, unsigned rank)
{
    char path[FILE_PATH_MAX];

    return path_of(path, place, kind, rank, NULL) == ERR_OK &&
           access(path, F_OK) == 0;
}

static void drop(const char *place, const char *kind, unsigned rank)
{
    char path[FILE_PATH_MAX];

    if (path_of(path, place, kind, rank, NULL) == ERR_OK)
        file_remove(path);
}

static enum err put(const char *place, const char *kind, unsigned rank,
                    const char *text, struct fault *f)
{
    char path[FILE_PATH_MAX];
    enum err err = path_of(path, place, kind, rank, f);

    return err ? err : file_write(path, text, strlen(text), f);
}

/* Owned by the caller; NULL: there is none. */
static char *get(const char *place, const char *kind, unsigned rank)
{
    char path[FILE_PATH_MAX], *text = NULL;
    size_t len;

    if (path_of(path, place, kind, rank, NULL) != ERR_OK ||
        file_read(path, RANKS_TEXT_MAX, &text, &len, NULL) != ERR_OK)
        return NULL;
    return text;
}

/* The number @number and @code (may be NULL) behind it. */
static enum err put_number(const char *place, const char *kind, unsigned rank,
                           uint64_t number, int code, struct fault *f)
{
    char text[64];

    snprintf(text, sizeof(text), "%016" PRIx64 " %d\n", number, code);
    return put(place, kind, rank, text, f);
}

static bool has_number(const char *place, const char *kind, unsigned rank,
                       uint64_t number, int *code)
{
    char *text = get(place, kind, rank);
    uint64_t n;
    int c;
    bool same =
        text && sscanf(text, "%16" SCNx64 " %d", &n, &c) == 2 && n == number;

    mem_free(text);
    if (same && code)
        *code = c;
    return same;
}

/* ---- asking -------------------------------------------------------------- */

void ranks_own_host(unsigned rank, char out[RANKS_HOST_MAX])
{
    memset(out, 0, RANKS_HOST_MAX);
    if (gethostname(out, RANKS_HOST_MAX - 1) != 0 || !out[0])
        snprintf(out, RANKS_HOST_MAX, "rank-%u", rank);
}

enum err ranks_ask(const char *place, unsigned rank, uint64_t number,
                   const char *host, struct fault *f)
{
    char text[RANKS_HOST_MAX + 32];

    snprintf(text, sizeof(text), "%016" PRIx64 " %s\n", number, host);
    drop(place, "left", rank);
    return put(place, "ask", rank, text, f);
}

bool ranks_asked(const char *place, unsigned rank, uint64_t *number,
                 char host[RANKS_HOST_MAX])
{
    char *text = get(place, "ask", rank);
    bool asked = text && sscanf(text, "%16" SCNx64 " %255s", number, host) == 2;

    mem_free(text);
    return asked;
}

static bool add_line(struct text *t, const char *line)
{
    text_puts(t, line);
    text_puts(t, "\n");
    return !strchr(line, '\n');
}

enum err ranks_answer(const char *place, unsigned rank,
                      const struct ranks_work *w, struct fault *f)
{
    struct text t = {0};
    bool fits;
    enum err err;

    text_printf(&t, "%016" PRIx64 "\n", w->number);
    fits = add_line(&t, w->key);
    fits &= add_line(&t, w->log);
    for (size_t i = 0; i < w->n; i++)
        fits &= add_line(&t, w->word[i]);
    if (text_lost(&t))
        err = fault_set(f, ERR_NOMEM, "out of memory");
    else if (!fits || text_length(&t) > RANKS_TEXT_MAX)
        err = fault_set(f, ERR_LIMIT,
                        "a node's path has an end of a line in it, or is too "
                        "long");
    else
        err = put(place, "answer", rank, text_so_far(&t), f);
    text_deinit(&t);
    return err;
}

bool ranks_answer_waits(const char *place, unsigned rank)
{
    return is_there(place, "answer", rank);
}

/* The next line of @*at, ended; NULL: there is none. */
static char *next_line(char **at)
{
    char *line = *at, *end = strchr(line, '\n');

    if (!end)
        return NULL;
    *end = '\0';
    *at = end + 1;
    return line;
}

/* Takes @w->text apart. */
static bool parse_work(struct ranks_work *w)
{
    char *at = w->text, *number = next_line(&at), *key = next_line(&at),
         *log = key ? next_line(&at) : NULL;

    if (!number || !log || sscanf(number, "%16" SCNx64, &w->number) != 1 ||
        strlen(key) != RUN_KEY_LEN || strlen(log) >= sizeof(w->log))
        return false;
    memcpy(w->key, key, RUN_KEY_LEN + 1);
    memcpy(w->log, log, strlen(log) + 1);
    for (char *word; w->n < RANKS_WORDS_MAX && (word = next_line(&at));)
        w->word[w->n++] = word;
    return w->n > 0 && !*at;
}

bool ranks_read_work(char *text, struct ranks_work *out)
{
    struct ranks_work w = {.text = text};

    if (text && parse_work(&w)) {
        *out = w;
        return true;
    }
    ranks_work_deinit(&w);
    return false;
}

static void forget_answer(const char *place, unsigned rank)
{
    drop(place, "ask", rank);
    drop(place, "answer", rank);
}

bool ranks_answered(const char *place, unsigned rank, uint64_t number,
                    struct ranks_work *out)
{
    struct ranks_work w;

    if (!ranks_read_work(get(place, "answer", rank), &w))
        return false;
    if (w.number != number) {
        ranks_work_deinit(&w);
        return false;
    }
    *out = w;
    forget_answer(place, rank);
    return true;
}

char *ranks_answer_to(const char *place, unsigned rank, uint64_t number)
{
    char *text = get(place, "answer", rank);
    uint64_t n;

    if (text && sscanf(text, "%16" SCNx64, &n) == 1 && n == number)
        return text;
    mem_free(text);
    return NULL;
}

void ranks_taken(const char *place, unsigned rank, uint64_t number)
{
    char *text = ranks_answer_to(place, rank, number);

    if (text)
        forget_answer(place, rank);
    mem_free(text);
}

void ranks_work_deinit(struct ranks_work *w)
{
    assert(w);
    mem_free(w->text);
    memset(w, 0, sizeof(*w));
}

/* ---- words of one number ------------------------------------------------- */

enum err ranks_stop(const char *place, unsigned rank, uint64_t number,
                    struct fault *f)
{
    return put_number(place, "stop", rank, number, 0, f);
}

bool ranks_stopped(const char *place, unsigned rank, uint64_t number)
{
    return has_number(place, "stop", rank, number, NULL);
}

enum err ranks_over(const char *place, unsigned rank, uint64_t number,
                    struct fault *f)
{
    return put_number(place, "over", rank, number, 0, f);
}

bool ranks_is_over(const char *place, unsigned rank, uint64_t number)
{
    return has_number(place, "over", rank, number, NULL);
}

enum err ranks_end(const char *place, unsigned rank, uint64_t number, int code,
                   struct fault *f)
{
    return put_number(place, "end", rank, number, code, f);
}

bool ranks_ended(const char *place, unsigned rank, uint64_t number, int *code)
{
    return has_number(place, "end", rank, number, code);
}

void ranks_leave(const char *place, unsigned rank)
{
    drop(place, "ask", rank);
    put(place, "left", rank, "", NULL);
}

bool ranks_left(const char *place, unsigned rank)
{
    return is_there(place, "left", rank);
}
