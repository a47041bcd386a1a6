#include "apps/samples/data_info.h"

#include "apps/data/data.h"
#include "apps/data/data_find.h"
#include "apps/data/data_refusal.h"
#include "apps/formats/data_root.h"
#include "apps/formats/data_stream.h"
#include "apps/samples/data_samples.h"
#include "apps/samples/table_summary.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "base/text.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

void data_info_deinit(struct data_info *info)
{
    json_decref(info->table);
    info->table = NULL;
}

static void describe_values(const float *value, uint64_t n,
                            struct data_info *out)
{
    double sum = 0;
    uint64_t i;

    assert(n > 0 && value);
    out->min = out->max = (double)value[0];
    for (i = 0; i < n; i++) {
        double v = (double)value[i];

        out->min = fmin(out->min, v);
        out->max = fmax(out->max, v);
        sum += v;
    }
    out->mean = sum / (double)n;
}

static void describe_ratings(const struct ratings *r, struct data_info *out)
{
    out->samples = r->count;
    out->users = r->users.count;
    out->items = r->items.count;
    describe_values(r->value, r->count, out);
}

static void describe_samples(const struct samples *train,
                             const struct samples *test, struct data_info *out)
{
    uint64_t i;

    out->samples = train->count;
    out->test_samples = test->count;
    out->channels = train->channels;
    out->height = train->height;
    out->width = train->width;
    out->classes = train->classes;
    for (i = 0; train->label && i < train->count; i++)
        out->class_samples[train->label[i]]++;
    if (train->target)
        describe_values(train->target, train->count, out);
}

/* A table's last column is taken for classes, and where there are too many, for
 * numbers to predict. */
static enum err load_samples(const char *spec, const char *folder,
                             const struct csv_options *as, enum data_kind kind,
                             struct samples *train, struct samples *test,
                             struct fault *f)
{
    struct csv_options csv = as ? *as : (struct csv_options){.header = -1};
    enum err err = data_load_samples(spec, folder, &csv, train, test, f);

    if (err != ERR_LIMIT || kind != DATA_CSV)
        return err;
    csv.targets = true;
    return data_load_samples(spec, folder, &csv, train, test, f);
}

static void describe_corpus(const struct corpus *c, struct data_info *out)
{
    out->samples = c->docs;
    out->words = c->words;
    out->entries = c->entries;
    out->tokens = c->tokens;
}

/* Labels in the list that `data info` gives; of more, their range says enough.
 */
enum { LABELS_MAX = 50 };

static json_t *label_counts(const struct sparse *s)
{
    double label[LABELS_MAX];
    uint64_t count[LABELS_MAX] = {0};
    size_t n = sparse_labels(s, LABELS_MAX, label);
    json_t *list = json_array();
    int failed = 0;

    if (n > LABELS_MAX)
        return list;
    for (uint64_t i = 0; i < s->count; i++)
        for (size_t k = 0; k < n; k++)
            count[k] += s->label[i] == label[k];
    for (size_t k = 0; k < n; k++)
        failed |= json_array_append_new(list, json_pack("{s:f, s:I}", "label",
                                                        label[k], "samples",
                                                        (json_int_t)count[k]));
    return json_whole(list, failed);
}

static void describe_sparse(const struct sparse *s, struct data_info *out)
{
    double sum = 0;

    assert(s->count > 0);
    out->samples = s->count;
    out->entries = s->entries;
    out->columns = s->columns;
    out->lowest = s->lowest;
    out->min = out->max = s->label[0];
    for (uint64_t i = 0; i < s->count; i++) {
        out->min = fmin(out->min, s->label[i]);
        out->max = fmax(out->max, s->label[i]);
        sum += s->label[i];
    }
    out->mean = sum / (double)s->count;
    out->table = json_pack("{s:o}", "labels", label_counts(s));
}

/* A node with no edge away dangles. */
static enum err load_edges(const char *spec, const char *folder,
                           struct data_info *out, struct fault *f)
{
    struct edges g = {0};
    unsigned char *away;
    enum err err = data_load_edges(spec, folder, &g, f);

    if (err)
        return err;
    out->nodes = out->dangling = g.nodes.count;
    out->edges = g.count;
    away = mem_calloc(g.nodes.count, 1);
    for (uint64_t i = 0; away && i < g.count; i++) {
        out->dangling -= !away[g.from[i]];
        away[g.from[i]] = 1;
    }
    mem_free(away);
    edges_deinit(&g);
    return away ? ERR_OK : fault_set(f, ERR_NOMEM, "%s: out of memory", spec);
}

enum { FREQUENT_WORDS = 10 };

/* [{"word", "times"}], the most frequent ones. */
static json_t *frequent_words(const struct text_words *w)
{
    json_t *list = json_array();
    int failed = 0;

    for (uint32_t i = 0; i < w->map.name.words && i < FREQUENT_WORDS; i++)
        failed |= json_array_append_new(
            list,
            json_pack("{s:s, s:I}", "word", vocabulary_word(&w->map.name, i),
                      "times", (json_int_t)w->times[i]));
    return json_whole(list, failed);
}

/* A text, of words as word2vec takes them if nothing else is said. */
static enum err load_text(const char *spec, const char *folder,
                          struct data_info *out, struct fault *f)
{
    const struct words_options usual = {0};
    struct text_words w = {0};
    enum err err = data_load_words(spec, folder, &usual, &w, f);

    if (!err && words_finish(&w, 1))
        err = fault_set(f, ERR_NOMEM, "%s: out of memory", spec);
    if (!err) {
        out->tokens = w.tokens;
        out->words = w.map.name.words;
        out->sentences = w.count - w.tokens;
        out->table = json_pack("{s:o}", "frequent", frequent_words(&w));
    }
    words_deinit(&w);
    return err || out->table
               ? err
               : fault_set(f, ERR_NOMEM, "%s: out of memory", spec);
}

static enum err load_sparse(const char *spec, const char *folder,
                            struct data_info *out, struct fault *f)
{
    struct sparse train = {0}, test = {0};
    enum err err = data_load_sparse(spec, folder, &train, &test, f);

    if (err)
        return err;
    describe_sparse(&train, out);
    out->test_samples = test.count;
    sparse_deinit(&train);
    sparse_deinit(&test);
    return out->table ? ERR_OK
                      : fault_set(f, ERR_NOMEM, "%s: out of memory", spec);
}

static bool is_bow(enum data_kind kind)
{
    return kind == DATA_LDAC || kind == DATA_DOCWORD;
}

static enum err load_and_describe(const char *spec, const char *folder,
                                  const struct csv_options *csv,
                                  struct data_info *out, struct fault *f)
{
    struct ratings r = {0};
    struct samples train = {0}, test = {0};
    struct corpus c = {0};
    enum err err;

    if (out->kind == DATA_RATINGS) {
        err = data_load_ratings(spec, folder, &r, f);
        if (!err)
            describe_ratings(&r, out);
        ratings_deinit(&r);
        return err;
    }
    if (is_bow(out->kind)) {
        err = data_load_bow(spec, folder, &c, f);
        if (!err)
            describe_corpus(&c, out);
        corpus_deinit(&c);
        return err;
    }
    if (out->kind == DATA_LIBSVM)
        return load_sparse(spec, folder, out, f);
    if (out->kind == DATA_EDGES)
        return load_edges(spec, folder, out, f);
    if (out->kind == DATA_TEXT)
        return load_text(spec, folder, out, f);
    err = load_samples(spec, folder, csv, out->kind, &train, &test, f);
    if (!err)
        describe_samples(&train, &test, out);
    if (!err && train.columns) {
        out->table = table_summary(&train);
        if (!out->table)
            err = fault_set(f, ERR_NOMEM, "%s: out of memory", spec);
    }
    samples_deinit(&train);
    samples_deinit(&test);
    return err;
}

/* Kind of the whole setting: that of the file; of many files, what loads. */
static enum data_kind kind_of_found(const struct data_found *fd)
{
    bool seen[DATA_KIND_COUNT] = {false}, pixels = false;
    size_t bow = fd->files.count, i;

    for (i = 0; i < fd->files.count; i++) {
        seen[fd->kind[i]] = true;
        pixels |= fd->kind[i] == DATA_IDX && fd->dims[i] > 1;
        if (is_bow(fd->kind[i]))
            bow = i;
    }
    if (pixels)
        return DATA_IDX;
    return seen[DATA_CIFAR]        ? DATA_CIFAR
           : seen[DATA_RATINGS]    ? DATA_RATINGS
           : seen[DATA_LIBSVM]     ? DATA_LIBSVM
           : bow < fd->files.count ? fd->kind[bow]
           : seen[DATA_CSV]        ? DATA_CSV
           : seen[DATA_EDGES]      ? DATA_EDGES
                                   : fd->kind[0];
}

static bool is_readable(enum data_kind kind)
{
    return kind == DATA_RATINGS || kind == DATA_IDX || kind == DATA_CIFAR ||
           kind == DATA_CSV || kind == DATA_LIBSVM || kind == DATA_EDGES ||
           is_bow(kind);
}

/* The beginning of the first file; what cannot be read is no beginning. */
static size_t beginning_of(const struct data_found *fd,
                           char bytes[DATA_SNIFF_BYTES])
{
    struct data_stream *s;
    size_t n = 0;

    if (data_stream_open(fd->files.path[0], &s, NULL))
        return 0;
    if (data_stream_read(s, bytes, DATA_SNIFF_BYTES, &n, NULL))
        n = 0;
    data_stream_close(s);
    return n;
}

static void refuse(struct data_info *info, const char *why, const char *advice)
{
    info->readable = false;
    snprintf(info->why, sizeof(info->why), "%s", why);
    text_clean(info->why); /* it may cite the file */
    info->advice = advice;
}

/* A table that does not load says where it is wrong. */
static enum err describe_table(const char *spec, const char *folder,
                               const struct csv_options *csv,
                               struct data_info *info, struct fault *f)
{
    struct data_info table = *info;
    struct fault own = {0};
    enum err err;

    table.kind = DATA_CSV;
    table.readable = true;
    err = load_and_describe(spec, folder, csv, &table, &own);
    if (!err)
        *info = table;
    else if (err == ERR_FORMAT || err == ERR_UNSUPPORTED)
        refuse(info, own.text, data_table_advice);
    else
        return fault_set(f, err, "%s", own.text);
    return ERR_OK;
}

/* A text without a word, or one that is not UTF-8, says so. */
static enum err describe_text(const char *spec, const char *folder,
                              struct data_info *info, struct fault *f)
{
    struct fault own = {0};
    enum err err = load_text(spec, folder, info, &own);

    info->readable = !err;
    if (err == ERR_FORMAT)
        refuse(info, own.text, data_text_advice);
    else if (err)
        return fault_set(f, err, "%s", own.text);
    return ERR_OK;
}

/* What was found, whether it is readable or not. */
static enum err describe_found(const char *spec, const char *folder,
                               const struct data_found *fd,
                               const struct csv_options *csv,
                               struct data_info *info, struct fault *f)
{
    char bytes[DATA_SNIFF_BYTES];
    struct data_refusal refusal;
    size_t n;

    if (info->kind == DATA_CSV || (csv && info->kind == DATA_RATINGS))
        return describe_table(spec, folder, csv, info, f);
    if (is_readable(info->kind)) {
        info->readable = true;
        return load_and_describe(spec, folder, csv, info, f);
    }
    n = beginning_of(fd, bytes);
    if (info->kind == DATA_TEXT && data_looks_like_table(bytes, n))
        return describe_table(spec, folder, csv, info, f);
    if (info->kind == DATA_TEXT)
        return describe_text(spec, folder, info, f);
    refusal = data_refusal_of(info->kind, bytes, n);
    refuse(info, refusal.why, refusal.advice);
    return ERR_OK;
}

enum err data_describe(const char *spec, const char *folder,
                       const struct csv_options *csv, struct data_info *out,
                       struct fault *f)
{
    struct data_info info = {.readable = true};
    const struct gen_kind *kind;
    double value[GEN_KEYS_MAX];
    struct data_found fd;
    enum err err;

    if (gen_is(spec)) {
        err = gen_parse(spec, &kind, value, f);
        if (err)
            return err;
        info.kind = kind->kind;
        err = load_and_describe(spec, folder, csv, &info, f);
    } else {
        err = data_find(spec, folder, &fd, f);
        if (err)
            return err;
        info.kind = kind_of_found(&fd);
        info.files = fd.files.count;
        err = describe_found(spec, folder, &fd, csv, &info, f);
        data_found_deinit(&fd);
    }
    if (!err)
        *out = info;
    return err;
}

/* ---- a look ---------------------------------------------------------------
 */

/* Text that is no table at first sight may be one
 * (apps/samples/data_samples.h).
 */
static bool is_hopeless(enum data_kind kind)
{
    return kind == DATA_BINARY || kind == DATA_EMPTY;
}

static enum err glance_at_files(const struct data_found *fd,
                                struct data_glimpse *out, struct fault *f)
{
    enum data_kind kind = kind_of_found(fd);
    uint64_t bytes = 0;

    for (size_t i = 0; i < fd->files.count; i++) {
        struct stat st;
        enum err err = data_look(fd->files.path[i], &st, f);

        if (err)
            return err;
        bytes += (uint64_t)st.st_size;
    }
    *out =
        (struct data_glimpse){kind, fd->files.count, bytes, is_hopeless(kind)};
    return ERR_OK;
}

enum err data_glance(const char *spec, const char *folder,
                     struct data_glimpse *out, struct fault *f)
{
    const struct gen_kind *kind;
    double value[GEN_KEYS_MAX];
    struct data_found fd;
    enum err err;

    if (gen_is(spec)) {
        err = gen_parse(spec, &kind, value, f);
        if (!err)
            *out = (struct data_glimpse){.kind = kind->kind,
                                         .bytes = kind->bytes(value)};
        return err;
    }
    err = data_find(spec, folder, &fd, f);
    if (err)
        return err;
    err = glance_at_files(&fd, out, f);
    data_found_deinit(&fd);
    return err;
}

/* ---- as JSON --------------------------------------------------------------
 */

static json_t *class_counts(const struct data_info *info)
{
    json_t *counts = json_array();
    int failed = 0;

    for (unsigned i = 0; i < info->classes; i++)
        failed |= json_array_append_new(
            counts, json_integer((json_int_t)info->class_samples[i]));
    return json_whole(counts, failed);
}

static json_t *members_json(const struct data_info *info)
{
    const char *kind = data_kind_name(info->kind);

    if (!info->readable)
        return json_pack("{s:s, s:b, s:s, s:I, s:s, s:s}", "kind", kind,
                         "readable", 0, "holds", data_kind_text(info->kind),
                         "files", (json_int_t)info->files, "why", info->why,
                         "advice", info->advice);
    if (info->kind == DATA_RATINGS)
        return json_pack(
            "{s:s, s:b, s:I, s:I, s:I, s:I, s:f, s:f, s:f}", "kind", kind,
            "readable", 1, "files", (json_int_t)info->files, "ratings",
            (json_int_t)info->samples, "users", (json_int_t)info->users,
            "items", (json_int_t)info->items, "min", info->min, "max",
            info->max, "mean", info->mean);
    if (is_bow(info->kind))
        return json_pack("{s:s, s:b, s:I, s:I, s:I, s:I, s:I}", "kind", kind,
                         "readable", 1, "files", (json_int_t)info->files,
                         "documents", (json_int_t)info->samples, "words",
                         (json_int_t)info->words, "entries",
                         (json_int_t)info->entries, "tokens",
                         (json_int_t)info->tokens);
    if (info->kind == DATA_EDGES)
        return json_pack("{s:s, s:b, s:I, s:I, s:I, s:I}", "kind", kind,
                         "readable", 1, "files", (json_int_t)info->files,
                         "nodes", (json_int_t)info->nodes, "edges",
                         (json_int_t)info->edges, "dangling",
                         (json_int_t)info->dangling);
    if (info->kind == DATA_TEXT)
        return json_pack("{s:s, s:b, s:I, s:I, s:I, s:I}", "kind", kind,
                         "readable", 1, "files", (json_int_t)info->files,
                         "tokens", (json_int_t)info->tokens, "words",
                         (json_int_t)info->words, "sentences",
                         (json_int_t)info->sentences);
    if (info->kind == DATA_LIBSVM)
        return json_pack(
            "{s:s, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f}", "kind",
            kind, "readable", 1, "files", (json_int_t)info->files, "samples",
            (json_int_t)info->samples, "test_samples",
            (json_int_t)info->test_samples, "entries",
            (json_int_t)info->entries, "lowest_index", (json_int_t)info->lowest,
            "highest_index", (json_int_t)info->columns - 1, "min", info->min,
            "max", info->max, "mean", info->mean);
    if (info->classes == 0)
        return json_pack(
            "{s:s, s:b, s:I, s:I, s:I, s:[I, I, I], s:f, s:f, s:f}", "kind",
            kind, "readable", 1, "files", (json_int_t)info->files, "samples",
            (json_int_t)info->samples, "test_samples",
            (json_int_t)info->test_samples, "shape", (json_int_t)info->channels,
            (json_int_t)info->height, (json_int_t)info->width, "min", info->min,
            "max", info->max, "mean", info->mean);
    return json_pack("{s:s, s:b, s:I, s:I, s:I, s:[I, I, I], s:i, s:o}", "kind",
                     kind, "readable", 1, "files", (json_int_t)info->files,
                     "samples", (json_int_t)info->samples, "test_samples",
                     (json_int_t)info->test_samples, "shape",
                     (json_int_t)info->channels, (json_int_t)info->height,
                     (json_int_t)info->width, "classes", (int)info->classes,
                     "class_samples", class_counts(info));
}

json_t *data_info_json(const struct data_info *info)
{
    json_t *o = members_json(info);

    if (!o || !info->table || json_object_update(o, info->table) == 0)
        return o;
    json_decref(o);
    return NULL;
}
