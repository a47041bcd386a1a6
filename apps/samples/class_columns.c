#include "apps/samples/class_columns.h"

#include "apps/samples/samples.h"
#include "base/mem.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

void class_columns_deinit(struct class_columns *c)
{
    for (uint32_t i = 0; i + 1 < c->count; i++) {
        if (c->name)
            mem_free(c->name[i]);
        if (c->title)
            mem_free(c->title[i]);
    }
    mem_free((void *)c->name);
    mem_free((void *)c->title);
    mem_free(c->column);
    memset(c, 0, sizeof(*c));
}

static enum err fill(struct class_columns *c, char *const *name, unsigned names)
{
    char text[SAMPLES_NAME_BYTES_MAX + 32];

    for (unsigned i = 0; i + 1 < c->count; i++) {
        if (i < names)
            snprintf(text, sizeof(text), "%s", name[i]);
        else
            snprintf(text, sizeof(text), "%u", i);
        c->name[i] = mem_strdup(text);
        if (c->name[i])
            snprintf(text, sizeof(text), "probability_%s", c->name[i]);
        c->title[i] = mem_strdup(text);
        if (!c->name[i] || !c->title[i])
            return ERR_NOMEM;
        c->column[i + 1].name = c->title[i];
    }
    c->column[0] = (struct mlt_column){"class", (const char *const *)c->name,
                                       c->count - 1};
    return ERR_OK;
}

/* The first @names classes have the names @name. */
static enum err make(struct class_columns *c, char *const *name, unsigned names,
                     unsigned classes, struct fault *f)
{
    enum err err = ERR_NOMEM;

    assert(classes >= 1 && names <= classes);
    *c = (struct class_columns){.count = classes + 1};
    c->column = mem_calloc(c->count, sizeof(*c->column));
    c->name = mem_calloc(classes, sizeof(char *));
    c->title = mem_calloc(classes, sizeof(char *));
    if (c->column && c->name && c->title)
        err = fill(c, name, names);
    if (!err)
        return ERR_OK;
    class_columns_deinit(c);
    return fault_set(f, err, "columns: out of memory");
}

enum err class_columns_of(struct class_columns *c, char *const *name,
                          unsigned classes, struct fault *f)
{
    return make(c, name, name ? classes : 0, classes, f);
}

enum err class_columns_init(struct class_columns *c, const char *dir,
                            unsigned classes, struct fault *f)
{
    char *name[SAMPLES_CLASSES_MAX] = {NULL};
    unsigned names = 0;
    enum err err = samples_class_names(dir, name, &names, f);

    *c = (struct class_columns){.count = 0};
    if (!err && names > classes)
        err = fault_set(f, ERR_FORMAT,
                        "%s: names of %u classes, but the model has %u", dir,
                        names, classes);
    if (!err)
        err = make(c, name, names, classes, f);
    for (unsigned i = 0; i < names; i++)
        mem_free(name[i]);
    return err;
}

void class_columns_fill(const float *z, unsigned classes, double *out)
{
    unsigned best = 0;
    double sum = 0;

    assert(classes >= 1);
    for (unsigned c = 1; c < classes; c++)
        best = z[c] > z[best] ? c : best;
    for (unsigned c = 0; c < classes; c++) {
        out[c + 1] = exp((double)z[c] - (double)z[best]);
        sum += out[c + 1];
    }
    for (unsigned c = 0; c < classes; c++)
        out[c + 1] /= sum;
    out[0] = best;
}
