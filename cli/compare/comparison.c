#include "cli/compare/comparison.h"

#include "base/json/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/basics/fold.h"
#include "cli/basics/progress.h"
#include "cli/basics/table.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ---- spreads ------------------------------------------------------------- */

static bool later(double a, bool a_above, double b, bool b_above)
{
    return a_above != b_above ? a_above : a > b;
}

static void sort(double value[], bool above[], size_t n)
{
    for (size_t i = 1; i < n; i++) {
        double v = value[i];
        bool a = above && above[i];
        size_t k = i;

        for (; k > 0 && later(value[k - 1], above && above[k - 1], v, a); k--) {
            value[k] = value[k - 1];
            if (above)
                above[k] = above[k - 1];
        }
        value[k] = v;
        if (above)
            above[k] = a;
    }
}

struct spread spread_of(double value[], bool above[], size_t n)
{
    struct spread s = {.n = n, .median = NAN, .min = NAN, .max = NAN};
    size_t low = n ? (n - 1) / 2 : 0, high = n / 2;

    if (n == 0)
        return s;
    sort(value, above, n);
    s.median = (value[low] + value[high]) / 2;
    s.min = value[0];
    s.max = value[n - 1];
    if (above) {
        s.median_above = above[low] || above[high];
        s.min_above = above[0];
        s.max_above = above[n - 1];
    }
    return s;
}

/* ---- life ---------------------------------------------------------------- */

enum err comparison_init(struct comparison *c, size_t rows, size_t seeds)
{
    assert(rows > 0 && seeds > 0 && seeds <= COMPARISON_SEEDS_MAX);
    memset(c, 0, sizeof(*c));
    c->target_loss = c->target_metric = NAN;
    c->row = mem_calloc(rows, sizeof(*c->row));
    if (!c->row)
        return ERR_NOMEM;
    c->rows = rows;
    c->seeds = seeds;
    for (size_t i = 0; i < rows; i++) {
        c->row[i].run = mem_calloc(seeds, sizeof(*c->row[i].run));
        if (!c->row[i].run) {
            comparison_deinit(c);
            return ERR_NOMEM;
        }
    }
    return ERR_OK;
}

void comparison_deinit(struct comparison *c)
{
    for (size_t i = 0; i < c->rows; i++) {
        for (size_t k = 0; c->row[i].run && k < c->seeds; k++)
            json_decref(c->row[i].run[k].setting);
        mem_free(c->row[i].run);
    }
    mem_free(c->row);
    memset(c, 0, sizeof(*c));
}

/* ---- what is shown ------------------------------------------------------- */

double comparison_quality(const struct comparison *c,
                          const struct comparison_run *r)
{
    return c->metric[0] ? r->metric : r->loss;
}

static bool has_target(const struct comparison *c)
{
    return !isnan(c->target_loss) || !isnan(c->target_metric);
}

static double quality(const struct comparison *c,
                      const struct comparison_run *r)
{
    return r->whole ? comparison_quality(c, r) : NAN;
}

static double share(const struct comparison *c, const struct comparison_run *r)
{
    (void)c;
    return r->whole && r->seconds > 0 ? fmin(r->tuning_s / r->seconds, 1) : NAN;
}

static double whole_seconds(const struct comparison *c,
                            const struct comparison_run *r)
{
    (void)c;
    return r->whole ? r->seconds : NAN;
}

/* Over a row's runs for which @of is a number. */
static struct spread over_runs(const struct comparison *c,
                               const struct comparison_row *row,
                               double (*of)(const struct comparison *,
                                            const struct comparison_run *))
{
    double value[COMPARISON_SEEDS_MAX];
    size_t n = 0;

    for (size_t i = 0; i < c->seeds; i++) {
        double x = row->run[i].ran ? of(c, &row->run[i]) : NAN;

        if (isfinite(x))
            value[n++] = x;
    }
    return spread_of(value, NULL, n);
}

static struct spread spread_of_target(const struct comparison *c,
                                      const struct comparison_row *row)
{
    double value[COMPARISON_SEEDS_MAX];
    bool above[COMPARISON_SEEDS_MAX];
    size_t n = 0;

    for (size_t i = 0; i < c->seeds && has_target(c); i++) {
        const struct comparison_run *r = &row->run[i];
        bool missed = isnan(r->target_s);
        double x = missed ? r->seconds : r->target_s;

        if (!r->ran || r->unread || !isfinite(x))
            continue;
        above[n] = missed;
        value[n++] = x;
    }
    return spread_of(value, above, n);
}

static size_t count_whole(const struct comparison *c,
                          const struct comparison_row *row)
{
    size_t n = 0;

    for (size_t i = 0; i < c->seeds; i++)
        n += row->run[i].whole;
    return n;
}

/* ---- the table ----------------------------------------------------------- */

static void add_times(struct text_table *t, const struct spread *s)
{
    char median[32], min[32], max[32];

    if (s->n == 0) {
        table_add(t, "-");
        return;
    }
    progress_duration(s->median, median, sizeof(median));
    progress_duration(s->min, min, sizeof(min));
    progress_duration(s->max, max, sizeof(max));
    if (s->n == 1)
        table_add(t, "%s%s", s->median_above ? ">" : "", median);
    else
        table_add(t, "%s%s (%s%s - %s%s)", s->median_above ? ">" : "", median,
                  s->min_above ? ">" : "", min, s->max_above ? ">" : "", max);
}

/* Of @runs; that some have none, as one that trained no epoch, is told. */
static void add_numbers(struct text_table *t, const struct spread *s,
                        size_t runs)
{
    char all[96], some[64] = "";

    if (s->n < runs)
        snprintf(some, sizeof(some), "; %zu of %zu have none", runs - s->n,
                 runs);
    if (s->n > 1)
        snprintf(all, sizeof(all), "%.5g (%.5g - %.5g)", s->median, s->min,
                 s->max);
    else
        snprintf(all, sizeof(all), "%.5g", s->median);
    table_add(t, "%s%s", s->n == 0 ? "-" : all, some);
}

static void add_shares(struct text_table *t, const struct spread *s)
{
    if (s->n == 0)
        table_add(t, "-");
    else if (s->n == 1)
        table_add(t, "%.0f %%", 100 * s->median);
    else
        table_add(t, "%.0f %% (%.0f - %.0f)", 100 * s->median, 100 * s->min,
                  100 * s->max);
}

static void add_row(struct text_table *t, const struct comparison *c,
                    const struct comparison_row *row)
{
    struct spread s = spread_of_target(c, row);

    table_add(t, "%s", row->label);
    table_add(t, "%zu/%zu", count_whole(c, row), c->seeds);
    if (has_target(c))
        add_times(t, &s);
    s = over_runs(c, row, quality);
    add_numbers(t, &s, count_whole(c, row));
    s = over_runs(c, row, share);
    add_shares(t, &s);
    s = over_runs(c, row, whole_seconds);
    add_times(t, &s);
}

int comparison_print(const struct comparison *c, FILE *out)
{
    struct text_table t = {.columns = has_target(c) ? 6 : 5,
                           .width = fold_width(fileno(out))};
    int result;

    assert(out);
    table_add(&t, "STRATEGY");
    table_add(&t, "RUNS");
    if (has_target(c))
        table_add(&t, "TO TARGET");
    table_add(&t, "BEST %s", c->metric[0] ? c->metric : "LOSS");
    table_add(&t, "TUNING");
    table_add(&t, "TIME");
    for (size_t i = 0; i < c->rows; i++)
        add_row(&t, c, &c->row[i]);
    result = table_print(&t, out, "");
    table_deinit(&t);
    return result;
}

/* ---- JSON ---------------------------------------------------------------- */

/* NAN is null. */
static json_t *number(double x)
{
    return isnan(x) ? json_null() : json_of_number(x);
}

static json_t *spread_object(const struct spread *s, bool censored)
{
    json_t *o = json_pack("{s:I, s:o, s:o, s:o}", "runs", (json_int_t)s->n,
                          "median", number(s->median), "min", number(s->min),
                          "max", number(s->max));

    if (o && censored &&
        (json_object_set_new(o, "median_above",
                             json_boolean(s->median_above)) ||
         json_object_set_new(o, "min_above", json_boolean(s->min_above)) ||
         json_object_set_new(o, "max_above", json_boolean(s->max_above)))) {
        json_decref(o);
        return NULL;
    }
    return o;
}

static json_t *run_object(const struct comparison *c,
                          const struct comparison_run *r)
{
    if (!r->ran)
        return json_null();
    return json_pack(
        "{s:I, s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:o}",
        "seed", (json_int_t)r->seed, "run", r->run, "status", r->status,
        "reason", r->reason, "seconds", number(r->seconds), "time_to_target",
        number(r->target_s), "metric", number(r->metric), "loss",
        number(r->loss), "tuning_seconds", number(r->tuning_s), "tuning_share",
        number(share(c, r)), "epochs", (json_int_t)r->epochs, "trials",
        (json_int_t)r->trials, "setting",
        r->setting ? json_incref(r->setting) : json_null());
}

static json_t *row_object(const struct comparison *c,
                          const struct comparison_row *row)
{
    struct spread to_target = spread_of_target(c, row);
    struct spread best = over_runs(c, row, quality);
    struct spread tuning = over_runs(c, row, share);
    struct spread seconds = over_runs(c, row, whole_seconds);
    json_t *runs = json_array();

    for (size_t i = 0; i < c->seeds; i++)
        if (json_array_append_new(runs, run_object(c, &row->run[i]))) {
            json_decref(runs);
            return NULL;
        }
    return json_pack("{s:s, s:s, s:s, s:I, s:o, s:o, s:o, s:o, s:o}", "name",
                     row->label, "strategy", row->strategy, "searcher",
                     row->searcher, "finished", (json_int_t)count_whole(c, row),
                     "time_to_target", spread_object(&to_target, true),
                     "quality", spread_object(&best, false), "tuning_share",
                     spread_object(&tuning, false), "seconds",
                     spread_object(&seconds, false), "runs", runs);
}

json_t *comparison_json(const struct comparison *c)
{
    json_t *rows = json_array();

    assert(c);
    for (size_t i = 0; i < c->rows; i++)
        if (json_array_append_new(rows, row_object(c, &c->row[i]))) {
            json_decref(rows);
            return NULL;
        }
    return json_pack("{s:s, s:s, s:o, s:b, s:o, s:o, s:I, s:o}", "name",
                     c->name, "config", c->config, "metric",
                     c->metric[0] ? json_string(c->metric) : json_null(),
                     "higher_better", c->higher_better, "target_metric",
                     number(c->target_metric), "target_loss",
                     number(c->target_loss), "seeds", (json_int_t)c->seeds,
                     "strategies", rows);
}

/* ---- CSV ----------------------------------------------------------------- */

/* RFC 4180: quoted, quotes doubled. */
static void csv_text(struct text *t, const char *s)
{
    text_puts(t, "\"");
    for (; *s; s++)
        text_add(t, *s == '"' ? "\"\"" : s, *s == '"' ? 2 : 1);
    text_puts(t, "\"");
}

/* Empty where there is no number. */
static void csv_number(struct text *t, double x)
{
    text_puts(t, ",");
    if (!isnan(x))
        text_printf(t, "%.9g", x);
}

static void csv_run(struct text *t, const struct comparison *c,
                    const struct comparison_row *row,
                    const struct comparison_run *r)
{
    csv_text(t, row->label);
    text_printf(t, ",%s,%s,%llu,%s,%s,%s", row->strategy, row->searcher,
                (unsigned long long)r->seed, r->run, r->status, r->reason);
    csv_number(t, r->seconds);
    csv_number(t, r->target_s);
    csv_number(t, r->metric);
    csv_number(t, r->loss);
    csv_number(t, r->tuning_s);
    csv_number(t, share(c, r));
    text_printf(t, ",%llu,%llu\r\n", (unsigned long long)r->epochs,
                (unsigned long long)r->trials);
}

char *comparison_csv(const struct comparison *c)
{
    struct text t = {0};

    assert(c);
    text_puts(&t, "name,strategy,searcher,seed,run,status,reason,seconds,"
                  "time_to_target,metric,loss,tuning_seconds,tuning_share,"
                  "epochs,trials\r\n");
    for (size_t i = 0; i < c->rows; i++)
        for (size_t k = 0; k < c->seeds; k++)
            if (c->row[i].run[k].ran)
                csv_run(&t, c, &c->row[i], &c->row[i].run[k]);
    return text_take(&t);
}
