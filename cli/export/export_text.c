/* CSV: a folder of tables. JSON lines: the journal's records as they are. */
#include "cli/export/export.h"

#include "base/json/json.h"
#include "base/text.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ---- cells --------------------------------------------------------------- */

/* In the fewest digits that read back the same; nan, inf and -inf by name. */
static void put_number(FILE *out, double value)
{
    char text[TEXT_NUMBER_MAX];

    if (isnan(value) || isinf(value)) {
        fputs(isnan(value) ? "nan" : value > 0 ? "inf" : "-inf", out);
        return;
    }
    text_number(value, text);
    fputs(text, out);
}

static void put_value(FILE *out, const json_t *value)
{
    if (json_is_integer(value))
        fprintf(out, "%lld", (long long)json_integer_value(value));
    else if (json_is_number(value))
        put_number(out, json_number_value(value));
    else if (json_is_string(value))
        text_put_csv(out, json_string_value(value));
}

/* ",NAME" for each tunable. */
static void put_names(FILE *out, const struct space *space)
{
    for (size_t i = 0; i < space_len(space); i++) {
        fputc(',', out);
        text_put_csv(out, space_name(space, i));
    }
}

/* ",VALUE" for each tunable. */
static void put_setting(FILE *out, const struct space *space,
                        const json_t *setting)
{
    assert(setting);
    for (size_t i = 0; i < space_len(space); i++) {
        fputc(',', out);
        put_value(out, json_object_get(setting, space_name(space, i)));
    }
}

static void put_numbers(FILE *out, size_t n, const double value[])
{
    for (size_t i = 0; i < n; i++) {
        fputc(',', out);
        put_number(out, value[i]);
    }
}

static void put_branch(FILE *out, branch_id branch)
{
    if (branch != BRANCH_NONE)
        fprintf(out, "%u", branch);
}

/* ---- tables -------------------------------------------------------------- */

static enum err write_trials(const struct export_source *s, FILE *out,
                             struct fault *f)
{
    const struct history *h = &s->run->history;

    (void)f;
    fputs("trial,search,branch,label,incumbent,speed,noise,range,seconds,"
          "samples,clocks,started_at_s,ended_at_s",
          out);
    put_names(out, &s->space);
    fputs("\r\n", out);
    for (size_t i = 0; i < history_trials_len(h); i++) {
        struct history_trial trial = history_trial_at(h, i);
        const struct record_trial *t = &trial.t;
        json_t *setting = history_trial_setting(h, i);

        if (!setting)
            return ERR_NOMEM;
        fprintf(out, "%u,%u,", t->trial, t->search);
        put_branch(out, t->branch);
        fprintf(out, ",%s,%s", trial_label_name(t->label),
                t->incumbent ? "true" : "false");
        put_numbers(out, 4,
                    (double[]){t->figures.speed, t->figures.noise,
                               t->figures.range, t->figures.seconds});
        fprintf(out, ",%llu,%llu", (unsigned long long)t->figures.samples,
                (unsigned long long)t->figures.clocks);
        put_numbers(out, 2, (double[]){trial.started_at_s, trial.ended_at_s});
        put_setting(out, &s->space, setting);
        json_decref(setting);
        fputs("\r\n", out);
    }
    return ERR_OK;
}

/* A column a further metric, empty where it has no value; @value NULL: their
 * names. */
static void put_extras(FILE *out, const struct export_source *s,
                       const double *value)
{
    const struct extras *names = history_extras(&s->run->history);
    char number[TEXT_NUMBER_MAX];

    for (uint32_t i = 0; i < names->len; i++) {
        if (!value)
            fprintf(out, ",values/%s", names->name[i]);
        else if (isnan(value[i]))
            fputc(',', out);
        else
            fprintf(out, ",%s", (text_real(value[i], number), number));
    }
}

static enum err write_epochs(const struct export_source *s, FILE *out,
                             struct fault *f)
{
    const struct history *h = &s->run->history;

    (void)f;
    fputs("epoch,branch,surviving,best,clock,loss,metric,seconds,at_s", out);
    put_names(out, &s->space);
    put_extras(out, s, NULL);
    fputs("\r\n", out);
    for (size_t i = 0; i < history_epochs_len(h); i++) {
        const struct history_epoch *of = history_epoch_at(h, i);
        const struct record_epoch_ended *e = &of->e;
        json_t *setting = history_epoch_setting(h, of);

        if (!setting)
            return ERR_NOMEM;
        fprintf(out, "%u,%u,%s,%s,%llu", e->epoch, e->branch,
                e->surviving ? "true" : "false", e->best ? "true" : "false",
                (unsigned long long)e->clock);
        put_numbers(out, 4,
                    (double[]){e->loss, e->metric, e->seconds, of->at_s});
        put_setting(out, &s->space, setting);
        json_decref(setting);
        put_extras(out, s, of->extra);
        fputs("\r\n", out);
    }
    return ERR_OK;
}

static enum err write_schedule(const struct export_source *s, FILE *out,
                               struct fault *f)
{
    const struct history *h = &s->run->history;

    (void)f;
    fputs("clock,branch,at_s,reason", out);
    put_names(out, &s->space);
    fputs("\r\n", out);
    for (size_t i = 0; i < history_choices_len(h); i++) {
        struct history_choice c = history_choice_at(h, i);
        json_t *setting = history_choice_setting(h, i);

        if (!setting)
            return ERR_NOMEM;
        fprintf(out, "%llu,%u", (unsigned long long)c.c.clock, c.c.branch);
        put_numbers(out, 1, &c.at_s);
        fputc(',', out);
        text_put_csv(out, c.c.reason);
        put_setting(out, &s->space, setting);
        json_decref(setting);
        fputs("\r\n", out);
    }
    return ERR_OK;
}

struct point_table {
    const struct export_source *s;
    FILE *out;
};

static enum err write_point(void *ctx, const struct lineage_point *p)
{
    const struct point_table *table = ctx;
    FILE *out = table->out;

    fprintf(out, "%u,%llu,%llu,%s", p->branch, (unsigned long long)p->clock,
            (unsigned long long)p->branch_clock,
            p->surviving ? "true" : "false");
    put_numbers(out, 1, (double[]){window_mean(&p->w)});
    fprintf(out, ",%llu,%llu", (unsigned long long)p->w.samples,
            (unsigned long long)p->w.clocks);
    put_numbers(out, 2, (double[]){p->w.seconds, p->at_s});
    put_extras(out, table->s, p->extra);
    fputs("\r\n", out);
    return ferror(out) ? ERR_IO : ERR_OK;
}

static enum err write_progress(const struct export_source *s, FILE *out,
                               struct fault *f)
{
    struct point_table table = {s, out};

    fputs("branch,clock,branch_clock,surviving,loss,samples,clocks,seconds,"
          "at_s",
          out);
    put_extras(out, s, NULL);
    fputs("\r\n", out);
    return export_each_point(s, write_point, &table, f);
}

struct table_of {
    const struct export_source *s;
    enum err (*write)(const struct export_source *s, FILE *out,
                      struct fault *f);
};

static enum err write_table(const void *ctx, FILE *out, struct fault *f)
{
    const struct table_of *table = ctx;

    return table->write(table->s, out, f);
}

static enum err csv_write(const struct export_source *s,
                          const struct export_target *t, struct fault *f)
{
    const struct table_of trials = {s, write_trials},
                          epochs = {s, write_epochs},
                          schedule = {s, write_schedule},
                          progress = {s, write_progress};
    enum err err = export_file(t, "trials.csv", write_table, &trials, f);

    if (!err)
        err = export_file(t, "epochs.csv", write_table, &epochs, f);
    if (!err)
        err = export_file(t, "schedule.csv", write_table, &schedule, f);
    if (!err)
        err = export_file(t, "progress.csv", write_table, &progress, f);
    return err;
}

const struct export_ops export_csv = {
    .name = "csv",
    .summary = "a folder of trials.csv, epochs.csv, schedule.csv, progress.csv",
    .folder = true,
    .write = csv_write,
};

/* ---- JSON lines ---------------------------------------------------------- */

static enum err write_record(void *ctx, const struct journal_record *r)
{
    FILE *out = ctx;

    fwrite(r->json, 1, r->len, out);
    fputc('\n', out);
    return ferror(out) ? ERR_IO : ERR_OK;
}

static enum err jsonl_write(const struct export_source *s,
                            const struct export_target *t, struct fault *f)
{
    uint64_t folded = 0;
    enum err err = export_folded(s, &folded, f);

    if (!err && folded > 0)
        fprintf(t->out, "{\"kind\":\"folded\",\"records\":%llu}\n",
                (unsigned long long)folded);
    return err ? err : export_each_record(s, write_record, t->out, f);
}

const struct export_ops export_jsonl = {
    .name = "jsonl",
    .summary =
        "the records of the journal, one a line; of a long run those since "
        "it was folded",
    .write = jsonl_write,
};
