#include "apps/samples/table_summary.h"

#include "base/json/json.h"
#include "base/text.h"
#include "mltune/app.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 64 };

/* Numbers of a column or of the targets, without those that are missing. */
struct column_figures {
    uint64_t there;
    double min, max, sum;
};

static struct column_figures measure(const float *value, uint64_t n,
                                     uint64_t stride)
{
    struct column_figures m = {0, INFINITY, -INFINITY, 0};

    for (uint64_t i = 0; i < n; i++) {
        double v = (double)value[i * stride];

        if (isnan(v))
            continue;
        m.there++;
        m.min = fmin(m.min, v);
        m.max = fmax(m.max, v);
        m.sum += v;
    }
    return m;
}

/* JSON of a name, cut where it is long; null where there is none. */
static json_t *name_json(const char *name)
{
    char text[NAME_BYTES + 1];

    if (!name)
        return json_null();
    snprintf(text, sizeof(text), "%s", name);
    text_clean(text);
    return json_string(text);
}

static json_t *figures_json(const char *name, const char *kind, uint64_t n,
                            const struct column_figures *m)
{
    json_t *o = json_pack("{s:o, s:s, s:I}", "name", name_json(name), "kind",
                          kind, "missing", (json_int_t)(n - m->there));
    bool any = m->there > 0;
    int failed;

    failed =
        json_object_set_new(o, "min", any ? json_real(m->min) : json_null()) |
        json_object_set_new(o, "max", any ? json_real(m->max) : json_null()) |
        json_object_set_new(o, "mean",
                            any ? json_real(m->sum / (double)m->there)
                                : json_null());
    return json_whole(o, failed);
}

static json_t *column_json(const struct samples *s, uint64_t c)
{
    const struct encoded_column *column = &s->columns->column[c];
    const char *name = s->column_name ? s->column_name[c] : NULL;
    struct column_figures m =
        measure(s->value + c, s->count, samples_values(s));

    if (!column->category)
        return figures_json(name, "number", s->count, &m);
    return json_pack("{s:o, s:s, s:I, s:I}", "name", name_json(name), "kind",
                     "category", "missing", (json_int_t)(s->count - m.there),
                     "categories", (json_int_t)column->categories.count);
}

/* Classes of images are numbers. */
static json_t *class_json(const struct samples *s, unsigned c)
{
    char number[16];

    if (s->class_name)
        return name_json(s->class_name[c]);
    snprintf(number, sizeof(number), "%u", c);
    return json_string(number);
}

static unsigned classes_left_out(const struct samples *s)
{
    return s->classes > SUMMARY_CLASSES_MAX ? s->classes - SUMMARY_CLASSES_MAX
                                            : 0;
}

static json_t *classes_json(const struct samples *s)
{
    uint64_t samples[SAMPLES_CLASSES_MAX] = {0};
    json_t *list = json_array();
    int failed = 0;

    for (uint64_t i = 0; i < s->count; i++)
        samples[s->label[i]]++;
    for (unsigned c = 0; c < s->classes && c < SUMMARY_CLASSES_MAX; c++)
        failed |= json_array_append_new(
            list, json_pack("{s:o, s:I}", "name", class_json(s, c), "samples",
                            (json_int_t)samples[c]));
    return json_whole(list, failed);
}

static json_t *label_json(const struct samples *s)
{
    const char *name = s->columns->label;
    struct column_figures m;

    if (s->target) {
        m = measure(s->target, s->count, 1);
        return figures_json(name, "label", s->count, &m);
    }
    return json_pack("{s:o, s:s, s:i, s:o, s:I}", "name", name_json(name),
                     "kind", "label", "missing", 0, "classes", classes_json(s),
                     "classes_left_out", (json_int_t)classes_left_out(s));
}

static uint64_t count_missing(const struct samples *s)
{
    uint64_t n = s->count * samples_values(s), missing = 0;

    for (uint64_t i = 0; i < n; i++)
        missing += isnan(s->value[i]);
    return missing;
}

json_t *table_summary(const struct samples *s)
{
    uint64_t columns = samples_values(s);
    uint64_t listed =
        columns < SUMMARY_COLUMNS_MAX ? columns : SUMMARY_COLUMNS_MAX;
    json_t *list = json_array();
    int failed = 0;

    assert(s->columns && s->columns->inputs == 0 && (s->label || s->target));
    for (uint64_t c = 0; c < listed; c++)
        failed |= json_array_append_new(list, column_json(s, c));
    failed |= json_array_append_new(list, label_json(s));
    list = json_whole(list, failed);
    return json_pack("{s:I, s:o, s:I}", "missing", (json_int_t)count_missing(s),
                     "columns", list, "columns_left_out",
                     (json_int_t)(columns - listed));
}

static json_t *images_summary(const struct samples *s)
{
    return json_pack("{s:[I, I, I], s:o, s:I}", "shape",
                     (json_int_t)s->channels, (json_int_t)s->height,
                     (json_int_t)s->width, "classes", classes_json(s),
                     "classes_left_out", (json_int_t)classes_left_out(s));
}

char *samples_summary(const struct samples *s)
{
    json_t *more = s->pixel ? images_summary(s) : table_summary(s);
    json_t *o = json_pack("{s:s, s:I}", "kind", s->pixel ? "images" : "table",
                          "samples", (json_int_t)s->count);
    char *text = NULL;

    assert(s->count > 0);
    if (more && o && json_object_update(o, more) == 0)
        text = json_write(o, 0);
    json_decref(more);
    json_decref(o);
    assert(!text || strlen(text) <= MLT_DATA_MAX);
    return text;
}
