#include "cli/watch/picture_panels.h"

#include "base/json/json.h"
#include "base/mem.h"
#include "cli/basics/progress.h"
#include "cli/watch/chart.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TRIALS_MAX = 100, TUNABLES_MAX = 8 };

static double item_number(const json_t *array, size_t i)
{
    double number;

    return json_to_number(json_array_get(array, i), &number) ? number : NAN;
}

static void put_heading(struct canvas *c, int x, int y, int end,
                        const char *title, const char *more)
{
    x = canvas_put(c, x + 1, y, end, STYLE_BOLD, title);
    if (*more)
        canvas_printf(c, x, y, end, STYLE_FAINT, "  %s", more);
}

/* ---- the curve ----------------------------------------------------------- */

struct panel_columns {
    double *x, *y; /* owned */
    unsigned *branch;
    size_t n;
};

static bool read_columns(const json_t *o, struct panel_columns *out)
{
    const json_t *clock = o ? json_object_get(o, "clock") : NULL;
    const json_t *loss = o ? json_object_get(o, "loss") : NULL;
    const json_t *branch = o ? json_object_get(o, "branch") : NULL;
    size_t n = json_array_size(clock);

    *out = (struct panel_columns){.n = n};
    if (json_array_size(loss) < n || json_array_size(branch) < n)
        out->n = n = 0;
    out->x = mem_calloc(n + 1, sizeof(*out->x));
    out->y = mem_calloc(n + 1, sizeof(*out->y));
    out->branch = mem_calloc(n + 1, sizeof(*out->branch));
    if (!out->x || !out->y || !out->branch)
        return false;
    for (size_t i = 0; i < n; i++) {
        out->x[i] = item_number(clock, i);
        out->y[i] = item_number(loss, i);
        out->branch[i] =
            (unsigned)json_integer_value(json_array_get(branch, i));
    }
    return true;
}

static void columns_deinit(struct panel_columns *s)
{
    mem_free(s->x);
    mem_free(s->y);
    mem_free(s->branch);
}

static struct chart_series series_of(const struct panel_columns *s)
{
    return (struct chart_series){s->n, s->x, s->y, s->branch};
}

void part_chart(const struct picture *p, struct canvas *c, int x, int y,
                int end, int bottom)
{
    struct panel_columns line, faint;
    bool whole = read_columns(json_object_get(p->curve, "lineage"), &line);
    bool more = read_columns(json_object_get(p->curve, "others"), &faint);
    struct chart chart = {.x_from = json_number_at(p->curve, "/from"),
                          .x_to = json_number_at(p->curve, "/to"),
                          .x_unit = "clock"};
    bool logarithmic = false;

    if (whole && more && line.n + faint.n > 0) {
        chart.line = series_of(&line);
        chart.faint = series_of(&faint);
        logarithmic = chart_draw(c, x, y + 1, end - 1, bottom, &chart);
        put_heading(c, x, y, end, "loss over clocks",
                    logarithmic ? "logarithmic; faint: what was tried"
                                : "faint: what was tried");
    } else {
        put_heading(c, x, y, end, "loss over clocks", "none so far");
    }
    columns_deinit(&line);
    columns_deinit(&faint);
}

/* ---- the search ---------------------------------------------------------- */

struct trial_row {
    const json_t *trial;
    bool running;
    double speed;
};

static int by_interest(const void *a, const void *b)
{
    const struct trial_row *s = a, *t = b;
    double n = json_number_at(s->trial, "/trial"),
           m = json_number_at(t->trial, "/trial");

    if (s->running != t->running)
        return s->running ? -1 : 1;
    if (!s->running && s->speed != t->speed)
        return s->speed > t->speed ? -1 : 1;
    return n > m ? -1 : n < m;
}

/* Trials of the newest search in the order in which they are shown; how many.
 */
static int read_trials(const struct picture *p, struct trial_row out[])
{
    double search = json_number_at(json_array_get(p->trials, 0), "/search");
    const json_t *trial;
    size_t i;
    int n = 0;

    json_array_foreach(p->trials, i, trial)
    {
        double speed = json_number_at(trial, "/speed");

        if (n == TRIALS_MAX || json_number_at(trial, "/search") != search)
            break;
        out[n++] = (struct trial_row){
            trial, strcmp(json_text_at(trial, "/label"), "running") == 0,
            isnan(speed) ? -1 : speed};
    }
    qsort(out, (size_t)n, sizeof(*out), by_interest);
    return n;
}

int part_trials_shown(const struct picture *p)
{
    struct trial_row row[TRIALS_MAX];

    return read_trials(p, row);
}

static enum canvas_style style_of_label(const char *label)
{
    if (strcmp(label, "converging") == 0)
        return STYLE_GOOD;
    if (strcmp(label, "unstable") == 0)
        return STYLE_WARN;
    if (strcmp(label, "diverged") == 0 || strcmp(label, "failed") == 0)
        return STYLE_BAD;
    return STYLE_PLAIN;
}

/* "learning_rate" in a narrow column: its end says less than its beginning. */
enum { NUMBER = 7, LABEL = 11, SPEED = 10, VALUE_LEAST = 9, VALUE_MOST = 14 };

enum { MORE = 3 }; /* "+12", of those that have no room */

struct tunable_columns {
    const char *name[TUNABLES_MAX];
    int width[TUNABLES_MAX], n;
    int hidden; /* tunables for which there is no room */
};

static void find_columns(const struct canvas *c, const json_t *setting,
                         int room, struct tunable_columns *out)
{
    const char *name;
    const json_t *value;

    out->n = out->hidden = 0;
    /* jansson takes a json_t that it does not change. */
    json_object_foreach((json_t *)setting, name, value)
    {
        int width = canvas_width_of(c, name) + 1;

        width = width < VALUE_LEAST  ? VALUE_LEAST
                : width > VALUE_MOST ? VALUE_MOST
                                     : width;
        if (out->hidden || out->n == TUNABLES_MAX || width > room) {
            out->hidden++;
            continue;
        }
        out->name[out->n] = name;
        out->width[out->n++] = width;
        room -= width;
    }
    if (out->hidden && room < MORE && out->n > 0) { /* to say so */
        out->n--;
        out->hidden++;
    }
}

static void put_value(struct canvas *c, int x, int y, int end,
                      enum canvas_style style, const json_t *value)
{
    double number;

    if (json_to_number(value, &number) && !isnan(number))
        canvas_printf(c, x, y, end, style, "%.4g", number);
    else if (json_is_string(value))
        canvas_put(c, x, y, end, style, json_string_value(value));
    else
        canvas_put(c, x, y, end, style, "-");
}

static void put_trial(struct canvas *c, int x, int y, int end,
                      const struct trial_row *row, bool won,
                      const struct tunable_columns *columns)
{
    const char *label = json_text_at(row->trial, "/label");
    const json_t *setting = json_object_get(row->trial, "setting");
    enum canvas_style style = won            ? STYLE_BOLD
                              : row->running ? STYLE_ACCENT
                                             : STYLE_PLAIN;
    bool incumbent = json_is_true(json_object_get(row->trial, "incumbent"));
    double number = json_number_at(row->trial, "/trial");

    canvas_put(c, x + 1, y, x + NUMBER - 1, style,
               won            ? "*"
               : row->running ? ">"
                              : "");
    if (!isnan(number))
        canvas_printf(c, x + 2, y, x + NUMBER - 1, style, "%4.0f", number);
    x += NUMBER;
    canvas_put(c, x, y, x + LABEL - 1,
               row->running ? style : style_of_label(label),
               row->running && incumbent ? "in use" : label);
    x += LABEL;
    if (row->running || row->speed < 0)
        canvas_put(c, x, y, end, style, "-");
    else
        canvas_printf(c, x, y, x + SPEED - 1, style, "%.4g", row->speed);
    x += SPEED;
    for (int i = 0; i < columns->n; i++) {
        put_value(c, x, y,
                  x + columns->width[i] - 1 < end ? x + columns->width[i] - 1
                                                  : end,
                  style, json_object_get(setting, columns->name[i]));
        x += columns->width[i];
    }
}

/* The result of a search that is over. */
static void put_result(struct canvas *c, int x, int y, int end,
                       const json_t *result)
{
    double trials = json_number_at(result, "/trials");
    double seconds = json_number_at(result, "/seconds");
    char time[32];

    x = canvas_put(c, x, y, end, STYLE_FAINT, "over: ");
    if (!isnan(trials))
        x = canvas_printf(c, x, y, end, STYLE_FAINT, "%.0f trials, ", trials);
    if (!isnan(seconds)) {
        progress_duration(seconds, time, sizeof(time));
        x = canvas_printf(c, x, y, end, STYLE_FAINT, "%s, ", time);
    }
    canvas_put(c, x, y, end, STYLE_FAINT, json_text_at(result, "/reason"));
}

/* Number of trials that the search @number has had. Trials are numbered in
 * their run, so that of the first search the newest one says it; of others
 * there are at least those that are listed. */
static double trials_so_far(const struct picture *p, double number, int listed)
{
    double newest = json_number_at(json_array_get(p->trials, 0), "/trial");

    return number == 1 && newest > listed ? newest : listed;
}

static void put_search(const struct picture *p, struct canvas *c, int x, int y,
                       int end)
{
    const json_t *search = json_array_get(p->searches, 0);
    const json_t *result = search ? json_object_get(search, "result") : NULL;
    double number = json_number_at(search, "/search");
    double most = json_number_at(search, "/max_trials");
    int listed = part_trials_shown(p);
    bool all = listed < TRIALS_MAX;

    x = canvas_put(c, x + 1, y, end, STYLE_BOLD, "search");
    if (!isnan(number))
        x = canvas_printf(c, x, y, end, STYLE_BOLD, " %.0f", number);
    x += 2;
    if (json_is_object(result)) {
        put_result(c, x, y, end, result);
        return;
    }
    x = canvas_printf(c, x, y, end, STYLE_ACCENT, "under way: trial %.0f%s",
                      trials_so_far(p, number, listed),
                      all || number == 1 ? "" : " or more");
    if (!isnan(most))
        x = canvas_printf(c, x, y, end, STYLE_ACCENT, " of at most %.0f", most);
    x = canvas_printf(c, x, y, end, STYLE_ACCENT, ", %s",
                      json_text_at(search, "/reason"));
    if (!all)
        canvas_printf(c, x, y, end, STYLE_FAINT, "; the newest %d are listed",
                      TRIALS_MAX);
}

void part_search(const struct picture *p, struct canvas *c, int x, int y,
                 int end, int bottom)
{
    const json_t *search = json_array_get(p->searches, 0);
    double winner = json_number_at(search, "/result/winner");
    struct tunable_columns columns;
    struct trial_row row[TRIALS_MAX];
    int n, at = x + NUMBER + LABEL + SPEED;

    if (y >= bottom)
        return;
    if (!search) {
        put_heading(c, x, y, end, "search", "none so far");
        return;
    }
    put_search(p, c, x, y++, end);
    n = read_trials(p, row);
    if (n == 0 || y + 1 >= bottom ||
        json_number_at(row[0].trial, "/search") !=
            json_number_at(search, "/search"))
        return;
    find_columns(c, json_object_get(row[0].trial, "setting"), end - at,
                 &columns);
    canvas_put(c, x + 1, y, end, STYLE_FAINT, "trial");
    canvas_put(c, x + NUMBER, y, end, STYLE_FAINT, "verdict");
    canvas_put(c, x + NUMBER + LABEL, y, end, STYLE_FAINT, "speed");
    for (int i = 0; i < columns.n; i++) {
        canvas_put(c, at, y, at + columns.width[i] - 1, STYLE_FAINT,
                   columns.name[i]);
        at += columns.width[i];
    }
    if (columns.hidden)
        canvas_printf(c, at, y, end, STYLE_FAINT, "+%d", columns.hidden);
    y++;
    for (int i = 0; i < n && y < bottom; i++, y++) {
        bool won = json_number_at(row[i].trial, "/trial") == winner;

        put_trial(c, x, y, end, &row[i], won, &columns);
    }
}

/* ---- nodes --------------------------------------------------------------- */

/* A node's figures; those that are not there are left out. */
static void put_node(struct canvas *c, int x, int y, int end,
                     const json_t *node)
{
    bool alive = json_is_true(json_object_get(node, "alive"));
    double number = json_number_at(node, "/node");
    double workers = json_number_at(node, "/workers");
    double memory = json_number_at(node, "/memory/in_use_bytes") / 1048576;
    double work = json_number_at(node, "/seconds/work");
    double all = work + json_number_at(node, "/seconds/wait");
    double sent = json_number_at(node, "/traffic/bytes_sent") * 1e-6;
    enum canvas_style style = alive ? STYLE_GOOD : STYLE_BAD;

    if (!isnan(number))
        canvas_printf(c, x + 1, y, end, STYLE_PLAIN, "%3.0f ", number);
    x = canvas_put(c, x + 5, y, end, style, alive ? "alive" : "lost");
    if (!isnan(workers))
        x = canvas_printf(c, x, y, end, STYLE_PLAIN, "  %.0f workers", workers);
    if (!isnan(memory))
        x = canvas_printf(c, x, y, end, STYLE_PLAIN, "  %.0f MiB", memory);
    if (!isnan(all))
        x = canvas_printf(c, x, y, end, STYLE_PLAIN, "  working %.0f %%",
                          all > 0 ? 100 * work / all : 0);
    if (!isnan(sent))
        canvas_printf(c, x, y, end, STYLE_PLAIN, "  sent %.4g MB", sent);
}

void part_nodes(const struct picture *p, struct canvas *c, int x, int y,
                int end, int bottom)
{
    const json_t *node;
    size_t i;

    put_heading(c, x, y++, end, "nodes", "");
    json_array_foreach(p->nodes, i, node)
    {
        if (y >= bottom)
            return;
        put_node(c, x, y++, end, node);
    }
}

/* ---- why ----------------------------------------------------------------- */

void part_feed(const struct picture *p, struct canvas *c, int x, int y, int end,
               int bottom)
{
    const json_t *decision;
    size_t i;

    if (y >= bottom)
        return;
    put_heading(c, x, y++, end, "why",
                json_array_size(p->decisions) > 0 ? "the newest first"
                                                  : "nothing was decided yet");
    json_array_foreach(p->decisions, i, decision)
    {
        double at = json_time_at(decision, "/at");
        time_t seconds = isnan(at) ? 0 : (time_t)at;
        struct tm tm;
        char time[16] = "";

        if (y >= bottom)
            return;
        if (!isnan(at) && localtime_r(&seconds, &tm))
            strftime(time, sizeof(time), "%H:%M:%S", &tm);
        canvas_put(c, x + 1, y, end, STYLE_FAINT, time);
        y = canvas_wrap(c, x + 11, y, end - 1, bottom, STYLE_PLAIN,
                        json_text_at(decision, "/text"));
    }
}
