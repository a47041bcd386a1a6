/* Any bytes, compressed or not: the table loader refuses them with a reason
 * that names the file, or gives samples that, written out with every class
 * and category quoted, read back the same. The first byte chooses how to read.
 */
#include "apps/samples/data_csv.h"
#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FUZZ_LIMIT = 64 << 20, FUZZ_NUMBER = 32 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum err read_all(const void *bytes, size_t n,
                         const struct csv_options *o, struct samples *out,
                         struct fault *f)
{
    struct csv_table *t = csv_table_new(o);
    struct data_stream *s;
    enum err err = data_stream_memory("fuzz", bytes, n, &s, f);

    if (!t)
        abort();
    if (!err) {
        err = csv_table_read(t, s, FUZZ_LIMIT, f);
        if (!err)
            err = csv_table_take(t, out, f);
        data_stream_close(s);
    }
    csv_table_free(t);
    return err;
}

static char *put_name(char *p, const char *name)
{
    *p++ = '"';
    for (; *name; name++) {
        if (*name == '"')
            *p++ = '"';
        *p++ = *name;
    }
    *p++ = '"';
    return p;
}

static char *put_value(char *p, const struct encoded_column *c, float value)
{
    if (isnan(value))
        return p + sprintf(p, ",NA");
    if (!c->category)
        return p + sprintf(p, ",%.9g", (double)value);
    if (value < 0 || value >= (float)c->categories.count)
        abort();
    *p++ = ',';
    return put_name(p, c->categories.name[(uint32_t)value]);
}

/* Rows with the label first, so that no blank line can come of them. */
static size_t write_rows(const struct samples *s, char *text)
{
    char *p = text;
    uint64_t i, j;

    for (i = 0; i < s->count; i++) {
        if (s->target)
            p += sprintf(p, "%.9g", (double)s->target[i]);
        else
            p = put_name(p, s->class_name[s->label[i]]);
        for (j = 0; j < s->channels; j++)
            p = put_value(p, &s->columns->column[j],
                          s->value[i * s->channels + j]);
        *p++ = '\n';
    }
    return (size_t)(p - text);
}

static void round_trip(const struct samples *s, bool targets)
{
    struct csv_options o = {.label = "first",
                            .separator = ',',
                            .targets = targets,
                            .like = s->columns};
    size_t field = 2 * CSV_NAME_BYTES_MAX + FUZZ_NUMBER;
    size_t row = field * (s->channels + 1ull);
    char *text = malloc(s->count * row);
    struct samples again;
    uint64_t i;

    if (!text ||
        read_all(text, write_rows(s, text), &o, &again, NULL) != ERR_OK ||
        again.count != s->count || again.channels != s->channels ||
        again.classes != s->classes)
        abort();
    for (i = 0; i < s->count * s->channels; i++) {
        if (isinf(s->value[i]) ||
            (again.value[i] != s->value[i] &&
             !(isnan(again.value[i]) && isnan(s->value[i]))))
            abort();
    }
    for (i = 0; i < s->count; i++) {
        if (targets
                ? again.target[i] != s->target[i]
                : s->label[i] >= s->classes || again.label[i] != s->label[i])
            abort();
    }
    samples_deinit(&again);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const labels[] = {NULL, "first", "2", "y"};
    static const char *const categories[] = {"1"}, *const ignore[] = {"3"};
    int64_t before = mem_outstanding();
    struct samples s = {0};
    struct fault fault = {0};
    uint8_t how = size ? data[0] : 0;
    struct csv_options o = {.label = labels[how & 3],
                            .header = (how >> 2) % 3 - 1,
                            .targets = how & 32,
                            .category = categories,
                            .categories = how & 64 ? 1 : 0,
                            .ignore = ignore,
                            .ignored = how & 128 ? 1 : 0};

    if (size == 0)
        return 0;
    if (read_all(data + 1, size - 1, &o, &s, &fault) == ERR_OK)
        round_trip(&s, o.targets);
    else if (!strstr(fault.text, "fuzz"))
        abort();
    samples_deinit(&s);
    if (mem_outstanding() != before)
        abort();
    return 0;
}
