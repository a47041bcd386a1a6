#include "cli/basics/progress.h"

#include "base/json/json.h"
#include "base/talk_io.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* ---- texts --------------------------------------------------------------- */

/* A text that is cut at its end, never overrun. */
struct status_line {
    char *s;
    size_t len, size;
};

static void add(struct status_line *l, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void add(struct status_line *l, const char *fmt, ...)
{
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(l->s + l->len, l->size - l->len, fmt, ap);
    va_end(ap);
    if (n < 0)
        return;
    l->len += (size_t)n;
    if (l->len >= l->size)
        l->len = l->size - 1;
}

void progress_duration(double seconds, char *out, size_t size)
{
    bool known = seconds >= 0 && seconds <= 1e9;
    long whole = known ? (long)seconds : 0;

    assert(size > 0);
    if (!known)
        snprintf(out, size, "-");
    else if (seconds < 1)
        snprintf(out, size, "%.0f ms", seconds * 1e3);
    else if (seconds < 60)
        snprintf(out, size, "%.1f s", seconds);
    else if (seconds < 3600)
        snprintf(out, size, "%ldm %02lds", whole / 60, whole % 60);
    else
        snprintf(out, size, "%ldh %02ldm", whole / 3600, whole / 60 % 60);
}

void progress_setting(const json_t *setting, char *out, size_t size)
{
    struct status_line l = {out, 0, size};
    const char *name;
    const json_t *value;
    double number;

    assert(size > 0);
    out[0] = '\0';
    /* jansson takes a json_t that it does not change. */
    json_object_foreach((json_t *)setting, name, value)
    {
        if (l.len)
            add(&l, " ");
        if (json_to_number(value, &number))
            add(&l, "%s=%.4g", name, number);
        else
            add(&l, "%s=%s", name,
                json_is_string(value) ? json_string_value(value) : "?");
    }
    if (l.len == 0)
        add(&l, "-");
}

static void add_number(struct status_line *l, const char *name, double x)
{
    if (!isnan(x))
        add(l, " %s %.5g", name, x);
}

/* The branch that the newest slice belongs to, testing branches left out. */
static const struct history_branch *running(const struct history *h)
{
    for (size_t i = history_slices_len(h); i > 0; i--) {
        const struct history_branch *b =
            history_branch(h, history_slice_at(h, i - 1)->s.branch);

        if (b && b->type != BRANCH_TESTING)
            return b;
    }
    return NULL;
}

/* The number of the trial that @b is, as lists of trials have it; 0: none. */
static uint32_t trial_of(const struct history *h,
                         const struct history_branch *b)
{
    for (size_t i = history_trials_len(h); i > 0; i--) {
        struct history_trial trial = history_trial_at(h, i - 1);

        if (trial.t.branch == b->branch)
            return trial.t.trial;
    }
    return 0;
}

static void add_branch(struct status_line *l, const struct history *h,
                       const struct history_branch *b)
{
    uint32_t trial = strcmp(b->role, "trial") == 0 ? trial_of(h, b) : 0;
    const struct history_point *last =
        b->points ? &b->point[b->points - 1] : NULL;

    if (trial)
        add(l, " | trial %u", trial);
    else
        add(l, " | branch %u", b->branch);
    if (last && last->w.samples > 0)
        add(l, " | loss %.5g", window_mean(&last->w));
}

static void add_setting(struct status_line *l, const struct history *h,
                        const struct history_branch *b)
{
    json_t *value = history_branch_setting(h, b);
    char setting[256];

    progress_setting(value, setting, sizeof(setting));
    json_decref(value);
    add(l, " | %s", setting);
}

static void add_best(struct status_line *l, const struct history *h)
{
    const struct history_epoch *best = history_best_epoch(h);

    if (!best)
        return;
    add(l, " | best");
    if (isnan(best->e.metric))
        add_number(l, "loss", best->e.loss);
    else
        add_number(l, history_run(h)->metric, best->e.metric);
    add(l, " (epoch %u of %u)", best->e.epoch, history_epochs(h));
}

void progress_line(const struct history *h, double now_s, char *out,
                   size_t size)
{
    struct status_line l = {out, 0, size};
    const struct history_branch *b = running(h);
    char time[32];

    assert(h);
    assert(size > 0);
    add(&l, "%s", run_status_name(history_status(h)));
    if (b)
        add_branch(&l, h, b);
    add_best(&l, h);
    if (b) {
        clock_no clock =
            b->points ? b->point[b->points - 1].clock : history_clock(h);

        add(&l, " | clock %llu", (unsigned long long)clock);
    }
    progress_duration(now_s, time, sizeof(time));
    add(&l, " | %s", time);
    /* Last, since it is long: a narrow terminal does without. */
    if (b)
        add_setting(&l, h, b);
}

size_t progress_fit(const char *line, size_t columns)
{
    size_t n = strlen(line);

    if (n <= columns)
        return n;
    for (n = columns; n > 0 && line[n] != ' '; n--)
        ;
    while (n > 0 && strchr(" |", line[n - 1]))
        n--;
    return n > 0 ? n : columns;
}

/* ---- events -------------------------------------------------------------- */

static void event_epoch(const struct history *h, struct status_line *l,
                        const struct record_epoch_ended *e)
{
    char time[32], setting[256];

    progress_duration(e->seconds, time, sizeof(time));
    progress_setting(e->setting, setting, sizeof(setting));
    add(l, "epoch %u:", e->epoch);
    add_number(l, "loss", e->loss);
    add_number(l, history_run(h)->metric, e->metric);
    add(l, ", %s, branch %u, %s%s%s", time, e->branch, setting,
        e->best ? ", best" : "", e->surviving ? "" : " (finalist)");
}

static void event_trial(struct status_line *l, const struct record_trial *t)
{
    char time[32], setting[256];

    progress_duration(t->figures.seconds, time, sizeof(time));
    progress_setting(t->setting, setting, sizeof(setting));
    add(l, "trial %u: %s: %s", t->trial, setting, trial_label_name(t->label));
    add_number(l, "speed", t->figures.speed);
    add(l, ", %llu clocks, %s", (unsigned long long)t->figures.clocks, time);
}

static void event_search_ended(struct status_line *l,
                               const struct record_search_ended *s)
{
    char time[32];

    progress_duration(s->seconds, time, sizeof(time));
    add(l, "search %u: %u trials, %s, ", s->search, s->trials, time);
    if (s->winner)
        add(l, "trial %u wins", s->winner);
    else
        add(l, "the setting stays");
    add(l, ": %s", s->reason);
}

/* Decisions that another record tells of, too. */
static bool is_told(const struct record_decision *d)
{
    static const char *const told[] = {"search", "retune", "search_ended",
                                       "setting"};

    for (size_t i = 0; i < sizeof(told) / sizeof(*told); i++)
        if (strcmp(d->decision, told[i]) == 0)
            return true;
    return false;
}

bool progress_event(const struct history *h, const struct record *record,
                    char *out, size_t size)
{
    struct status_line l = {out, 0, size};
    char setting[256];

    assert(h);
    assert(size > 0);
    out[0] = '\0';
    switch (record->kind) {
    case RECORD_RUN_STARTED:
        add(&l, "loaded: %llu samples",
            (unsigned long long)record->run_started.samples);
        add(&l, ", %llu for validation, %u workers",
            (unsigned long long)record->run_started.validation_samples,
            record->run_started.workers);
        break;
    case RECORD_RUN_RESUMED:
        add(&l, "resumed after epoch %u: %s", record->run_resumed.epoch,
            record->run_resumed.reason);
        break;
    case RECORD_SEARCH_STARTED:
        add(&l, "search %u: at most %u trials from branch %u: %s",
            record->search_started.search, record->search_started.trials_max,
            record->search_started.parent, record->search_started.reason);
        break;
    case RECORD_SEARCH_ENDED:
        event_search_ended(&l, &record->search_ended);
        break;
    case RECORD_TRIAL_ENDED:
        event_trial(&l, &record->trial);
        break;
    case RECORD_EPOCH_ENDED:
        event_epoch(h, &l, &record->epoch_ended);
        break;
    case RECORD_SETTING_CHOSEN:
        progress_setting(record->setting_chosen.setting, setting,
                         sizeof(setting));
        add(&l, "setting: %s: %s", setting, record->setting_chosen.reason);
        break;
    case RECORD_DECISION:
        if (is_told(&record->decision))
            return false;
        add(&l, "%s: %s", record->decision.decision, record->decision.text);
        break;
    case RECORD_SNAPSHOT_WRITTEN:
        add(&l, "snapshot: %s", record->snapshot_written.path);
        break;
    case RECORD_MODEL_SAVED:
        add(&l, "model of epoch %u: %s", record->model_saved.epoch,
            record->model_saved.path);
        break;
    default:
        return false;
    }
    return true;
}

/* ---- the terminal -------------------------------------------------------- */

static unsigned terminal_columns(void)
{
    struct winsize size;

    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 20)
        return 80;
    return size.ws_col;
}

static void erase(const struct progress *p)
{
    if (p->line[0])
        talk("\r\x1b[K", 4);
}

/* The live line again, cut to the terminal so that it never wraps. */
static void restore(const struct progress *p)
{
    talk(p->line, progress_fit(p->line, terminal_columns() - 1));
}

static void put_line(struct progress *p, const char *prefix, const char *text)
{
    char line[2 * PROGRESS_LINE_MAX + 64];
    struct status_line l = {line, 0, sizeof(line) - 1};

    add(&l, "%s%s", prefix, text);
    line[l.len] = '\n';
    pthread_mutex_lock(&p->lock);
    erase(p);
    talk(line, l.len + 1);
    restore(p);
    pthread_mutex_unlock(&p->lock);
}

/* Decisions are told as events; their numbers are in the run's log. */
static bool is_event(const char *line)
{
    return strstr(line, " info decision what=") != NULL;
}

static void take_log_line(void *ctx, enum log_level level, const char *line)
{
    struct progress *p = ctx;

    if (p->log_fd >= 0)
        dprintf(p->log_fd, "%s\n", line);
    if (level <= p->level && !is_event(line))
        put_line(p, "", line);
}

void progress_start(struct progress *p, bool quiet, bool verbose, int log_fd)
{
    assert(p);
    memset(p, 0, sizeof(*p));
    p->live = !quiet && isatty(STDERR_FILENO);
    p->plain = !quiet && !p->live;
    p->verbose = verbose;
    p->log_fd = log_fd;
    p->drawn_at_s = p->live ? -INFINITY : 0;
    p->level = quiet ? LOG_ERROR : verbose ? LOG_INFO : LOG_WARN;
    pthread_mutex_init(&p->lock, NULL);
    log_set_level(LOG_INFO);
    log_set_sink(take_log_line, p);
}

void progress_stop(struct progress *p)
{
    pthread_mutex_lock(&p->lock);
    erase(p);
    p->line[0] = '\0';
    pthread_mutex_unlock(&p->lock);
    log_set_sink(NULL, NULL);
    log_set_level(p->level);
    pthread_mutex_destroy(&p->lock);
}

static void draw_plain(struct progress *p, const struct history *h,
                       double now_s)
{
    char line[PROGRESS_LINE_MAX];

    if (now_s < p->drawn_at_s + PROGRESS_PLAIN_S)
        return;
    p->drawn_at_s = now_s;
    progress_line(h, now_s, line, sizeof(line));
    put_line(p, "mltune: ", line);
}

void progress_draw(struct progress *p, const struct history *h, double now_s)
{
    assert(h && isfinite(now_s));
    if (p->plain)
        draw_plain(p, h, now_s);
    if (!p->live || now_s < p->drawn_at_s + PROGRESS_TICK_MS / 1000.0)
        return;
    p->drawn_at_s = now_s;
    pthread_mutex_lock(&p->lock);
    erase(p);
    progress_line(h, now_s, p->line, sizeof(p->line));
    restore(p);
    pthread_mutex_unlock(&p->lock);
}

void progress_record(struct progress *p, const struct history *h,
                     const struct record *record)
{
    char text[2 * PROGRESS_LINE_MAX], time[32];
    struct status_line l = {text, 0, sizeof(text)};

    assert(h);
    assert(record);
    if (!p->verbose)
        return;
    progress_duration(record->at_s, time, sizeof(time));
    add(&l, "%8s  ", time);
    if (progress_event(h, record, text + l.len, sizeof(text) - l.len))
        put_line(p, "", text);
}

void progress_note(struct progress *p, const char *text)
{
    put_line(p, "mltune: ", text);
}
