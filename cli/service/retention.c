#include "cli/service/retention.h"

#include "base/file_io.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/basics/console.h"
#include "cli/config/service_settings.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Age alone takes runs while none ends. */
static const time_ns LOOK_EVERY = INT64_C(3600) * 1000000000;

/* The supervisor's loop answers commands in between. */
static const time_ns TURN = 50000000;

/* One run that cannot be removed keeps no other; but what keeps many may be the
 * journal or the disk, and each takes time and a line of the log. */
enum { FAILED_MAX = 8 };

/* ---- the rule --------------------------------------------------------------
 */

enum { SETTINGS_MAX = 1 << 16 };

static enum err read_settings(const char *path, struct service_settings *out,
                              struct fault *f)
{
    struct problems problems = {0};
    char *text, line[1024];
    size_t len;
    enum err err = file_read(path, SETTINGS_MAX, &text, &len, f);

    if (err)
        return err;
    err = service_settings_parse(text, len, out, &problems);
    mem_free(text);
    for (size_t i = 0; i < problems.len; i++)
        console_error(
            "%s", problem_text(&problems.item[i], path, line, sizeof(line)));
    problems_deinit(&problems);
    return err ? fault_set(f, err,
                           "%s: the service begins once it is right (mltune "
                           "schema --service says what it may hold)",
                           path)
               : ERR_OK;
}

enum err retention_settle(const char *state, struct retention *r,
                          struct fault *f)
{
    struct service_settings s = {.keep_resumable = true};
    char path[FILE_PATH_MAX];
    enum err err = file_join(path, state, SERVICE_SETTINGS, f);

    if (!err)
        err = read_settings(path, &s, f);
    if (err && err != ERR_NOENT)
        return err;
    if (r->number == 0)
        r->number = s.keep;
    if (r->age_ns == 0)
        r->age_ns = (int64_t)(s.keep_age_s * 1e9);
    r->resumable |= !s.keep_resumable;
    return ERR_OK;
}

/* ---- what goes ----------------------------------------------------------- */

static int by_end(const void *a, const void *b)
{
    const struct retention_run *x = a, *y = b;

    if (x->ended_ns != y->ended_ns)
        return x->ended_ns < y->ended_ns ? 1 : -1;
    return strcmp(x->id, y->id);
}

size_t retention_first(const struct retention *r, int64_t now_ns,
                       struct retention_run run[], size_t n)
{
    size_t i = 0;

    assert(r->age_ns >= 0);
    if (n > 1)
        qsort(run, n, sizeof(*run), by_end);
    while (i < n &&
           (run[i].ended_ns > now_ns - RETENTION_GRACE_NS ||
            ((r->number == 0 || i < r->number) &&
             (r->age_ns == 0 || run[i].ended_ns >= now_ns - r->age_ns))))
        i++;
    return i;
}

/* ---- a look -------------------------------------------------------------- */

struct looking {
    struct retention_work *work;
    const char *state;
};

static enum err take_ended(void *ctx, const struct journal_ended *run)
{
    const struct looking *l = ctx;
    struct retention_work *w = l->work;
    void *grown = w->run;
    bool failed = strcmp(run->status, run_status_name(RUN_FAILED)) == 0;
    bool stopped = strcmp(run->status, run_status_name(RUN_STOPPED)) == 0;

    if ((!failed && !stopped &&
         strcmp(run->status, run_status_name(RUN_FINISHED)) != 0) ||
        !run_id_valid(run->id) || !job_exists(l->state, run->id))
        return ERR_OK;
    if (mem_grow(&grown, &w->capacity, sizeof(*w->run), w->len + 1))
        return ERR_NOMEM;
    w->run = grown;
    w->run[w->len] = (struct retention_run){
        .ended_ns = run->ended_ns, .failed = failed, .stopped = stopped};
    snprintf(w->run[w->len++].id, sizeof(w->run->id), "%s", run->id);
    return ERR_OK;
}

static void look(struct retention_work *w, const struct retention *r,
                 struct fleet *fleet)
{
    struct looking l = {w, fleet->state};
    struct fault f = {0};

    w->len = w->failed = 0;
    w->look_at = clock_monotonic() + LOOK_EVERY;
    if (journal_each_ended(fleet->journal, take_ended, &l, &f) != ERR_OK) {
        log_event(LOG_WARN, "retention_not_looked", "reason=\"%s\"", f.text);
        w->len = 0;
    }
    w->next = retention_first(r, clock_wall(), w->run, w->len);
    w->many = r->number == 0 ? w->len : r->number;
    if (w->next > w->many) /* some have ended just now */
        w->look_at = clock_monotonic() + RETENTION_GRACE_NS;
}

/* ---- removal ------------------------------------------------------------- */

/* Whether it may go still: it may have been continued since the look. */
static bool may_go(const struct retention *r, const struct retention_run *gone,
                   const struct fleet_run *run)
{
    if (!r->resumable &&
        (gone->stopped || (gone->failed && (!run || run->unread))))
        return false;
    return !run || (fleet_over(run) && run->ended &&
                    (r->resumable || !fleet_resumable(run)));
}

static enum err see_end(void *ctx, const struct journal_run *run)
{
    int64_t *ended_ns = ctx;

    *ended_ns = run->status ? run->ended_ns : -1;
    return ERR_OK;
}

/* Of one that is not listed the journal alone knows. */
static bool ended_then(const struct fleet *fleet,
                       const struct retention_run *gone)
{
    int64_t ended_ns = -1;

    return journal_find_run(fleet->journal, gone->id, see_end, &ended_ns,
                            NULL) == ERR_OK &&
           ended_ns == gone->ended_ns;
}

static void log_gone(const struct retention_work *w, const struct retention *r,
                     const char *id)
{
    if (w->next >= w->many)
        log_event(LOG_WARN, "run_not_kept",
                  "run=%s reason=\"there are newer ones: %u\"", id, r->number);
    else
        log_event(LOG_WARN, "run_not_kept",
                  "run=%s reason=\"ended before %g days\"", id,
                  (double)r->age_ns / (double)RETENTION_DAY_NS);
}

static enum err let_go(const struct retention_work *w,
                       const struct retention *r, struct fleet *fleet,
                       struct fault *f)
{
    const struct retention_run *gone = &w->run[w->next];
    struct fleet_run *run = fleet_find(fleet, gone->id);
    enum err err;

    if (!may_go(r, gone, run) || !ended_then(fleet, gone))
        return ERR_OK;
    err = run ? fleet_remove(fleet, run, f)
              : fleet_remove_unlisted(fleet, gone->id, f);
    if (!err)
        log_gone(w, r, gone->id);
    return err == ERR_BUSY ? ERR_OK : err;
}

void retention_turn(struct retention_work *w, const struct retention *r,
                    struct fleet *fleet)
{
    time_ns began = clock_monotonic();
    struct fault f = {0};

    if (r->number == 0 && r->age_ns == 0)
        return;
    if (!retention_busy(w) && began >= w->look_at)
        look(w, r, fleet);
    for (; retention_busy(w) && clock_monotonic() - began < TURN; w->next++)
        if (let_go(w, r, fleet, &f) != ERR_OK) {
            log_event(LOG_WARN, "run_not_removed", "run=%s reason=\"%s\"",
                      w->run[w->next].id, f.text);
            if (++w->failed >= FAILED_MAX)
                w->next = w->len - 1; /* the last for now */
        }
}

bool retention_busy(const struct retention_work *w)
{
    return w->next < w->len;
}

void retention_due(struct retention_work *w)
{
    w->look_at = 0;
}

void retention_deinit(struct retention_work *w)
{
    mem_free(w->run);
    *w = (struct retention_work){0};
}
