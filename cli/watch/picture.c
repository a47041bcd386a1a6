#include "cli/watch/picture.h"

#include "base/json/json.h"
#include "cli/basics/progress.h"
#include "cli/watch/chart.h"
#include "cli/watch/picture_panels.h"
#include "tuner/history/record.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    WIDE = 110,     /* from here on two columns */
    HEAD_ROWS = 5,  /* title and figures */
    CHART_LEAST = 5 /* rows of a chart with its axis */
};

/* ---- figures ------------------------------------------------------------- */

static bool is_one_of(const char *word, const char *const words[], size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(word, words[i]) == 0)
            return true;
    return false;
}

bool picture_is_over(const json_t *run)
{
    return run_status_names_end(json_text_at(run, "/status"));
}

/* Wall time that the run has had, pauses left out; NAN before its first clock.
 */
static double seconds_of(const json_t *run)
{
    double paused = json_number_at(run, "/paused_seconds");

    return json_time_at(run, "/updated_at") -
           json_time_at(run, "/first_clock_at") - (isnan(paused) ? 0 : paused);
}

/* The same since its beginning, which is what stop.max_time counts. */
static double seconds_begun(const json_t *run)
{
    double before =
        json_time_at(run, "/first_clock_at") - json_time_at(run, "/started_at");

    return seconds_of(run) + (before > 0 ? before : 0);
}

double picture_time_left(const json_t *run)
{
    double spent = seconds_of(run), left = INFINITY, training;
    double max_time = json_number_at(run, "/stop/max_time");
    double max_epochs = json_number_at(run, "/stop/max_epochs");
    double epochs = json_number_at(run, "/epochs");

    if (picture_is_over(run) || isnan(spent))
        return NAN;
    training = spent - json_number_at(run, "/tuning/seconds");
    if (isfinite(max_time))
        left = max_time - seconds_begun(run);
    if (max_epochs > 0 && epochs > 0 && training > 0)
        left = fmin(left, training / epochs * (max_epochs - epochs));
    return isfinite(left) ? fmax(left, 0) : NAN;
}

static enum canvas_style style_of_status(const char *status)
{
    static const char *const warn[] = {"paused", "held", "interrupted",
                                       "stopped", "queued"};

    if (strcmp(status, "failed") == 0)
        return STYLE_BAD;
    if (strcmp(status, "finished") == 0)
        return STYLE_GOOD;
    return is_one_of(status, warn, 5) ? STYLE_WARN : STYLE_ACCENT;
}

static void draw_title(const json_t *run, struct canvas *c)
{
    const char *name = json_text_at(run, "/name"),
               *id = json_text_at(run, "/run");
    const char *status = json_text_at(run, "/status");
    int width = canvas_width_of(c, status) + 2, x;

    canvas_bar(c, 0, 0, c->width, STYLE_TITLE);
    x = canvas_put(c, 1, 0, c->width - width - 1, STYLE_TITLE,
                   *name ? name : id);
    if (*name && strcmp(name, id) != 0)
        canvas_printf(c, x + 2, 0, c->width - width - 1, STYLE_TITLE, "%s", id);
    canvas_put(c, c->width - width + 1, 0, c->width, STYLE_TITLE, status);
}

/* The run's progress: a bar where a limit says of what. */
static int draw_bar(struct canvas *c, int x, int y, double share)
{
    const char *full = c->ascii ? "#" : "\u2501";
    const char *rest = c->ascii ? "-" : "\u2501";
    int cells = c->width >= WIDE ? 24 : 12;
    int done = (int)lround(share * cells);

    for (int i = 0; i < cells; i++)
        canvas_put(c, x + i, y, c->width, i < done ? STYLE_ACCENT : STYLE_FAINT,
                   i < done ? full : rest);
    return x + cells + 2;
}

static void draw_progress(const json_t *run, struct canvas *c)
{
    double epochs = json_number_at(run, "/epochs"),
           left = picture_time_left(run);
    double max_epochs = json_number_at(run, "/stop/max_epochs");
    double spent = seconds_of(run), share = NAN;
    char time[32];
    int x = 1;

    if (spent + left > 0)
        share = spent / (spent + left);
    else if (max_epochs > 0)
        share = epochs / max_epochs;
    if (!isnan(share) && !picture_is_over(run))
        x = draw_bar(c, x, 1, fmin(share, 1));
    if (!isnan(epochs))
        x = canvas_printf(c, x, 1, c->width, STYLE_PLAIN, "epoch %.0f", epochs);
    if (max_epochs > 0 && !picture_is_over(run))
        x = canvas_printf(c, x, 1, c->width, STYLE_FAINT, " of at most %.0f",
                          max_epochs);
    if (!isnan(spent)) {
        progress_duration(spent, time, sizeof(time));
        x = canvas_printf(c, x + 2, 1, c->width, STYLE_PLAIN, "%s", time);
    }
    if (!isnan(left)) {
        progress_duration(left, time, sizeof(time));
        canvas_printf(c, x, 1, c->width, STYLE_PLAIN, ", at most %s left",
                      time);
    }
}

static void draw_outcome(const json_t *run, struct canvas *c)
{
    const char *metric = json_text_at(run, "/job/metric/name");
    double best = json_number_at(run, "/best/metric");
    double loss = json_number_at(run, "/loss");
    double epoch = json_number_at(run, "/best/epoch");
    int x = 1;

    if (isnan(best))
        best = json_number_at(run, "/best/loss");

    if (!isnan(loss)) {
        x = canvas_put(c, x, 2, c->width, STYLE_FAINT, "loss ");
        x = canvas_printf(c, x, 2, c->width, STYLE_BOLD, "%.5g", loss) + 2;
    }
    if (*metric && !isnan(json_number_at(run, "/last_epoch/metric"))) {
        x = canvas_printf(c, x, 2, c->width, STYLE_FAINT, "%s ", metric);
        x = canvas_printf(c, x, 2, c->width, STYLE_BOLD, "%.5g",
                          json_number_at(run, "/last_epoch/metric")) +
            2;
    }
    if (!isnan(best)) {
        x = canvas_put(c, x, 2, c->width, STYLE_FAINT, "best ");
        x = canvas_printf(c, x, 2, c->width, STYLE_GOOD, "%.5g", best);
        if (!isnan(epoch))
            x = canvas_printf(c, x, 2, c->width, STYLE_FAINT, " in epoch %.0f",
                              epoch);
        x += 2;
    }
    x = canvas_put(c, x, 2, c->width, STYLE_FAINT, "clock ");
    canvas_printf(c, x, 2, c->width, STYLE_PLAIN, "%.0f",
                  fmax(json_number_at(run, "/clock"), 0));
}

static void draw_setting(const struct picture *p, struct canvas *c)
{
    const json_t *choice = json_array_get(p->schedule, 0);
    double since = json_number_at(choice, "/clock");
    char setting[512];
    int x;

    progress_setting(json_at(p->run, "/setting"), setting, sizeof(setting));
    x = canvas_put(c, 1, 3, c->width, STYLE_FAINT, "setting  ");
    x = canvas_put(c, x, 3, c->width, STYLE_BOLD, setting);
    if (*json_text_at(choice, "/reason") && !isnan(since) && x + 30 < c->width)
        canvas_printf(c, x + 2, 3, c->width, STYLE_FAINT,
                      "since clock %.0f: %s", since,
                      json_text_at(choice, "/reason"));
}

static void draw_state(const json_t *run, struct canvas *c)
{
    const char *status = json_text_at(run, "/status");
    const char *why = json_text_at(run, "/message");
    double searches = fmax(json_number_at(run, "/tuning/searches"), 0);
    char time[32];
    int x;

    if (!*why)
        why = json_text_at(run, "/status_reason");
    /* While it tunes or trains, the feed says why. */
    if (strcmp(status, "tuning") != 0 && strcmp(status, "training") != 0) {
        x = canvas_put(c, 1, 4, c->width, style_of_status(status), status);
        if (*json_text_at(run, "/reason"))
            x = canvas_printf(c, x, 4, c->width, style_of_status(status),
                              ", %s", json_text_at(run, "/reason"));
        if (*why)
            canvas_printf(c, x, 4, c->width, STYLE_PLAIN, ": %s", why);
        return;
    }
    progress_duration(json_number_at(run, "/tuning/seconds"), time,
                      sizeof(time));
    x = canvas_put(c, 1, 4, c->width, STYLE_FAINT, "tuning   ");
    x = canvas_printf(c, x, 4, c->width, STYLE_PLAIN,
                      "%.0f trials in %.0f search%s, %s",
                      fmax(json_number_at(run, "/tuning/trials"), 0), searches,
                      searches == 1 ? "" : "es", time);
    canvas_printf(c, x + 2, 4, c->width, STYLE_FAINT, "%s, %s",
                  json_text_at(run, "/tuning/strategy"),
                  json_text_at(run, "/tuning/searcher"));
}

static void draw_head(const struct picture *p, struct canvas *c)
{
    draw_title(p->run, c);
    draw_progress(p->run, c);
    draw_outcome(p->run, c);
    draw_setting(p, c);
    draw_state(p->run, c);
}

/* The last row: what may be done, and how fresh it all is. */
static void draw_foot(const struct picture *p, struct canvas *c)
{
    int y = c->height - 1, x;
    const char *help =
        picture_is_over(p->run) ? "q leaves" : "q leaves, the run goes on";

    x = canvas_put(c, 1, y, c->width, STYLE_FAINT, help);
    if (p->note)
        canvas_put(c, x + 2, y, c->width, p->bad ? STYLE_BAD : STYLE_FAINT,
                   p->note);
}

/* ---- where what is ------------------------------------------------------- */

int picture_spans(int width, bool ascii)
{
    int left = width >= WIDE ? width * 11 / 20 - 1 : width;
    int spans = chart_dots(left - 1, ascii);

    return spans < 20 ? 20 : spans > 2000 ? 2000 : spans;
}

static int node_rows(const struct picture *p, int most)
{
    int n = (int)json_array_size(p->nodes);

    if (n < 2)
        return 0;
    return n + 1 < most ? n + 1 : most;
}

static int trial_rows(const struct picture *p)
{
    return json_array_size(p->trials) > 0 ? 2 + part_trials_shown(p) : 1;
}

/* One column: chart, search, nodes, feed. */
static void draw_narrow(const struct picture *p, struct canvas *c)
{
    int y = HEAD_ROWS, bottom = c->height - 1, rows = bottom - y;
    int chart = rows * 4 / 10, nodes, trials, most;

    if (chart >= CHART_LEAST) {
        part_chart(p, c, 0, y, c->width, y + chart);
        y += chart;
    }
    nodes = node_rows(p, rows / 4);
    most = (bottom - y - nodes) / 2;
    trials = trial_rows(p) < most ? trial_rows(p) : most;
    part_search(p, c, 0, y, c->width, y + trials);
    y += trials;
    if (nodes)
        part_nodes(p, c, 0, y, c->width, y + nodes);
    y += nodes;
    part_feed(p, c, 0, y, c->width, bottom);
}

/* Two columns: chart over feed, search over nodes. */
static void draw_wide(const struct picture *p, struct canvas *c)
{
    int y = HEAD_ROWS + 1, bottom = c->height - 1, rows = bottom - y;
    int middle = c->width * 11 / 20, chart = rows * 5 / 10;
    int nodes = node_rows(p, rows / 3);

    if (chart >= CHART_LEAST) {
        part_chart(p, c, 0, y, middle - 1, y + chart);
        part_feed(p, c, 0, y + chart + 1, middle - 1, bottom);
    } else {
        part_feed(p, c, 0, y, middle - 1, bottom);
    }
    part_search(p, c, middle + 1, y, c->width, bottom - nodes - (nodes > 0));
    if (nodes)
        part_nodes(p, c, middle + 1, bottom - nodes, c->width, bottom);
}

void picture_draw(const struct picture *p, struct canvas *c)
{
    assert(p);
    assert(c->cell);
    if (!p->run) {
        canvas_put(c, 1, 0, c->width, STYLE_FAINT, "asking ...");
    } else {
        draw_head(p, c);
        if (c->width >= WIDE)
            draw_wide(p, c);
        else
            draw_narrow(p, c);
    }
    draw_foot(p, c);
}
