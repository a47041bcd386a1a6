#include "apps/formats/data_libsvm.h"

#include "apps/formats/data_number.h"
#include "apps/formats/data_text.h"
#include "base/mem.h"
#include "base/rng.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { ENTRY_BYTES = 8, SAMPLE_BYTES = 16 };

static const uint64_t query_max = 1000000000000000000;

static const char an_index[] = "an index (a number from 0 to 2^30 - 1)";

struct libsvm_reader {
    struct sparse *s;
    struct data_text *t;
    uint64_t limit_bytes;
};

void sparse_deinit(struct sparse *s)
{
    mem_free(s->begin);
    mem_free(s->index);
    mem_free(s->value);
    mem_free(s->label);
    memset(s, 0, sizeof(*s));
}

enum err sparse_begin_sample(struct sparse *s, double label)
{
    if (mem_grow((void **)&s->begin, &s->begin_room, sizeof(*s->begin),
                 s->count + 2) ||
        mem_grow((void **)&s->label, &s->label_room, sizeof(*s->label),
                 s->count + 1))
        return ERR_NOMEM;
    s->label[s->count] = label;
    s->begin[s->count++] = s->entries;
    s->begin[s->count] = s->entries;
    return ERR_OK;
}

enum err sparse_add(struct sparse *s, uint32_t index, float value)
{
    assert(s->count > 0 && index < SPARSE_COLUMNS_MAX);
    if (mem_grow((void **)&s->index, &s->index_room, sizeof(*s->index),
                 s->entries + 1) ||
        mem_grow((void **)&s->value, &s->value_room, sizeof(*s->value),
                 s->entries + 1))
        return ERR_NOMEM;
    s->index[s->entries] = index;
    s->value[s->entries] = value;
    s->lowest = s->entries == 0 || index < s->lowest ? index : s->lowest;
    s->begin[s->count] = ++s->entries;
    if (index >= s->columns)
        s->columns = index + 1;
    return ERR_OK;
}

/* Arrays grow by doubling: what they will need is asked for before. */
static enum err check_room(const struct libsvm_reader *rd)
{
    const struct sparse *s = rd->s;
    uint64_t bytes =
        2 * (s->entries * ENTRY_BYTES + (s->count + 1) * SAMPLE_BYTES);

    if (s->entries < s->index_room && s->count + 1 < s->begin_room)
        return ERR_OK;
    return data_memory_check(data_stream_name(rd->t->s), bytes, rd->limit_bytes,
                             rd->t->f);
}

static enum err no_memory(const struct libsvm_reader *rd)
{
    return fault_set(rd->t->f, ERR_NOMEM, "%s: line %" PRIu64 ": out of memory",
                     data_stream_name(rd->t->s), rd->t->line);
}

/* A finite number; a sign of plus may stand before it. */
static const char *pass_value(const char *p, double *out)
{
    p += *p == '+' && p[1] != '+' && p[1] != '-';
    p = number_pass(p, out);
    return p && isfinite(*out) ? p : NULL;
}

/* Digits below @max. */
static const char *pass_whole(const char *p, uint64_t max, uint64_t *out)
{
    const char *begin = p;
    uint64_t v = 0;

    for (; number_digit(*p) && v <= max; p++)
        v = v * 10 + (uint64_t)(*p - '0');
    *out = v;
    return p == begin || v >= max || number_digit(*p) ? NULL : p;
}

static bool ends_token(char c)
{
    return c == '\0' || strchr(" \t\r\n#", c);
}

static enum err read_label(struct libsvm_reader *rd)
{
    const char *p = data_text_at(rd->t), *end;
    double label = 0;
    enum err err = check_room(rd);

    if (err)
        return err;
    end = pass_value(p, &label);
    if (!end || !isfinite((float)label))
        return data_text_expected(rd->t, "a label (a finite number)");
    data_text_go(rd->t, end);
    if (!ends_token(*end))
        return data_text_expected(
            rd->t, "a blank behind the label (a sample has one)");
    return sparse_begin_sample(rd->s, label) ? no_memory(rd) : ERR_OK;
}

/* `qid:NUMBER`, if it is there. */
static enum err pass_query(struct libsvm_reader *rd)
{
    const char *p = data_text_skip_blanks(rd->t);
    uint64_t query;

    if (strncmp(p, "qid:", 4) != 0)
        return ERR_OK;
    data_text_go(rd->t, p + 4);
    p = pass_whole(p + 4, query_max, &query);
    if (!p || !ends_token(*p))
        return data_text_expected(rd->t, "the number of a query behind qid:");
    data_text_go(rd->t, p);
    return ERR_OK;
}

/* The index may not be below @least. */
static enum err read_index(struct libsvm_reader *rd, uint64_t least,
                           uint64_t *out)
{
    const char *p = data_text_at(rd->t);
    const char *end = pass_whole(p, SPARSE_COLUMNS_MAX, out);

    if (!end)
        return data_text_expected(rd->t, an_index);
    if (*out < least)
        return data_text_expected(
            rd->t, "an index above the one before it (they ascend)");
    data_text_go(rd->t, end);
    if (*end != ':')
        return data_text_expected(rd->t, "\":\" and a value behind the index");
    data_text_go(rd->t, end + 1);
    return ERR_OK;
}

static enum err read_pair(struct libsvm_reader *rd, uint64_t *least)
{
    uint64_t index = 0;
    double value = 0;
    const char *end;
    enum err err = read_index(rd, *least, &index);

    if (!err)
        err = check_room(rd);
    if (err)
        return err;
    end = pass_value(data_text_at(rd->t), &value);
    if (!end || !isfinite((float)value) || !ends_token(*end))
        return data_text_expected(rd->t, "a value (a finite number)");
    data_text_go(rd->t, end);
    *least = index + 1;
    return sparse_add(rd->s, (uint32_t)index, (float)value) ? no_memory(rd)
                                                            : ERR_OK;
}

static enum err read_sample(struct libsvm_reader *rd)
{
    uint64_t least = 0;
    enum err err = read_label(rd);

    if (!err)
        err = pass_query(rd);
    while (!err && !data_text_pass_line_end(rd->t)) {
        if (*data_text_at(rd->t) == '#')
            data_text_skip_line(rd->t);
        else
            err = read_pair(rd, &least);
    }
    return err;
}

static enum err read_lines(struct libsvm_reader *rd)
{
    enum err err = ERR_OK;

    while (!err && !data_text_ended(rd->t)) {
        if (*data_text_skip_blanks(rd->t) == '#')
            data_text_skip_line(rd->t);
        if (!data_text_pass_line_end(rd->t))
            err = read_sample(rd);
    }
    return err ? err : rd->t->err;
}

enum err libsvm_read(struct sparse *s, struct data_stream *stream,
                     uint64_t limit_bytes, struct fault *f)
{
    struct libsvm_reader rd = {s, data_text_new(stream, f), limit_bytes};
    uint64_t before = s->count;
    enum err err;

    if (!rd.t)
        return ERR_NOMEM;
    err = read_lines(&rd);
    data_text_free(rd.t);
    if (!err && s->count == before)
        err = fault_set(f, ERR_FORMAT, "%s: no sample in it",
                        data_stream_name(stream));
    return err;
}

enum err sparse_split(struct sparse *s, double fraction, uint64_t seed,
                      struct sparse *test)
{
    struct sparse kept = {0}, made = {0};
    uint64_t below = (uint64_t)(fraction * 0x1p64);
    enum err err = ERR_OK;

    assert(fraction >= 0 && fraction < 1);
    for (uint64_t i = 0; i < s->count && !err; i++) {
        struct sparse *to = rng_mix(seed, i) < below ? &made : &kept;

        err = sparse_begin_sample(to, s->label[i]);
        for (uint64_t e = s->begin[i]; e < s->begin[i + 1] && !err; e++)
            err = sparse_add(to, s->index[e], s->value[e]);
    }
    if (err) {
        sparse_deinit(&kept);
        sparse_deinit(&made);
        return err;
    }
    kept.columns = made.columns = s->columns;
    kept.lowest = made.lowest = s->lowest;
    sparse_deinit(s);
    *s = kept;
    *test = made;
    return ERR_OK;
}

size_t sparse_labels(const struct sparse *s, size_t max, double out[])
{
    size_t n = 0;

    for (uint64_t i = 0; i < s->count; i++) {
        double label = s->label[i];
        size_t low = 0, high = n;

        while (low < high) {
            size_t mid = (low + high) / 2;

            if (out[mid] < label)
                low = mid + 1;
            else
                high = mid;
        }
        if (low < n && out[low] == label)
            continue;
        if (n == max)
            return max + 1;
        memmove(out + low + 1, out + low, (n - low) * sizeof(*out));
        out[low] = label;
        n++;
    }
    return n;
}
