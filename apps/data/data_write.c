/* Generated data sets as files (apps/data/data.h). */
#include "apps/data/data.h"
#include "apps/data/data_path.h"
#include "base/disk_io.h"
#include "base/file_io.h"
#include "base/mem.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static enum err put_ratings(struct disk_out *w, const struct ratings *r,
                            struct fault *f)
{
    char line[96];
    uint64_t i;
    enum err err = ERR_OK;

    for (i = 0; i < r->count && !err; i++) {
        int n = snprintf(line, sizeof(line), "%" PRId64 "\t%" PRId64 "\t%.9g\n",
                         r->users.id[r->user[i]], r->items.id[r->item[i]],
                         (double)r->value[i]);

        err = disk_out_put(w, line, (size_t)n, f);
    }
    return err;
}

static enum err write_ratings(const char *out, const struct ratings *r,
                              struct fault *f)
{
    struct disk_out w;
    enum err err = disk_out_open(&w, NULL, out, DISK_SHARED, f);

    if (err)
        return err;
    err = put_ratings(&w, r, f);
    return disk_out_end(&w, err, f);
}

static void put_u32(uint8_t *to, uint64_t v)
{
    to[0] = (uint8_t)(v >> 24);
    to[1] = (uint8_t)(v >> 16);
    to[2] = (uint8_t)(v >> 8);
    to[3] = (uint8_t)v;
}

static enum err write_array(const char *dir, const char *name,
                            const struct images *im, unsigned dims,
                            const uint8_t *bytes, struct fault *f)
{
    uint8_t header[16] = {0, 0, 8, (uint8_t)dims};
    uint64_t n = im->count * (dims == 1 ? 1 : images_width(im));
    struct disk_out w;
    char *path = data_path_join(dir, name);
    enum err err;

    if (!path)
        return fault_set(f, ERR_NOMEM, "%s: out of memory", dir);
    err = disk_out_open(&w, NULL, path, DISK_SHARED, f);
    mem_free(path);
    if (err)
        return err;
    put_u32(header + 4, im->count);
    put_u32(header + 8, im->rows);
    put_u32(header + 12, im->cols);
    err = disk_out_put(&w, header, 4 + 4 * (size_t)dims, f);
    if (!err)
        err = disk_out_put(&w, bytes, n, f);
    return disk_out_end(&w, err, f);
}

static enum err write_images(const char *out, const struct images *train,
                             const struct images *test, struct fault *f)
{
    enum err err = folder_ensure(out, FOLDER_SHARED, f);

    if (!err)
        err = write_array(out, "train-images-idx3-ubyte", train, 3,
                          train->pixel, f);
    if (!err)
        err = write_array(out, "train-labels-idx1-ubyte", train, 1,
                          train->label, f);
    if (!err && test->count)
        err =
            write_array(out, "t10k-images-idx3-ubyte", test, 3, test->pixel, f);
    if (!err && test->count)
        err =
            write_array(out, "t10k-labels-idx1-ubyte", test, 1, test->label, f);
    return err;
}

static enum err put_corpus(struct disk_out *w, const struct corpus *c,
                           struct fault *f)
{
    char text[48];
    uint64_t d, i;
    enum err err = ERR_OK;

    for (d = 0; d < c->docs && !err; d++) {
        int n = snprintf(text, sizeof(text), "%" PRIu64,
                         c->begin[d + 1] - c->begin[d]);

        err = disk_out_put(w, text, (size_t)n, f);
        for (i = c->begin[d]; i < c->begin[d + 1] && !err; i++) {
            n = snprintf(text, sizeof(text), " %" PRIu32 ":%" PRIu32,
                         c->word[i], c->count[i]);
            err = disk_out_put(w, text, (size_t)n, f);
        }
        if (!err)
            err = disk_out_put(w, "\n", 1, f);
    }
    return err;
}

static enum err write_corpus(const char *out, const struct corpus *c,
                             struct fault *f)
{
    struct disk_out w;
    enum err err = disk_out_open(&w, NULL, out, DISK_SHARED, f);

    if (err)
        return err;
    err = put_corpus(&w, c, f);
    return disk_out_end(&w, err, f);
}

static enum err put_sample(struct disk_out *w, const struct sparse *s,
                           uint64_t i, struct fault *f)
{
    char number[TEXT_NUMBER_MAX], text[48];
    enum err err;

    text_number(s->label[i], number);
    err = disk_out_put(w, number, strlen(number), f);
    for (uint64_t e = s->begin[i]; e < s->begin[i + 1] && !err; e++) {
        int n = snprintf(text, sizeof(text), " %" PRIu32 ":%.9g", s->index[e],
                         (double)s->value[e]);

        err = disk_out_put(w, text, (size_t)n, f);
    }
    return err ? err : disk_out_put(w, "\n", 1, f);
}

static enum err write_sparse(const char *out, const struct sparse *s,
                             struct fault *f)
{
    struct disk_out w;
    enum err err = disk_out_open(&w, NULL, out, DISK_SHARED, f);

    if (err)
        return err;
    for (uint64_t i = 0; i < s->count && !err; i++)
        err = put_sample(&w, s, i, f);
    return disk_out_end(&w, err, f);
}

static enum err write_edges(const char *out, const struct edges *g,
                            struct fault *f)
{
    char line[64];
    struct disk_out w;
    enum err err = disk_out_open(&w, NULL, out, DISK_SHARED, f);

    if (err)
        return err;
    for (uint64_t i = 0; i < g->count && !err; i++) {
        int n = snprintf(line, sizeof(line), "%" PRId64 "\t%" PRId64 "\n",
                         g->nodes.id[g->from[i]], g->nodes.id[g->to[i]]);

        err = disk_out_put(&w, line, (size_t)n, f);
    }
    return disk_out_end(&w, err, f);
}

static enum err write_words(const char *out, const struct text_words *text,
                            struct fault *f)
{
    struct disk_out w;
    enum err err = disk_out_open(&w, NULL, out, DISK_SHARED, f);

    if (err)
        return err;
    for (uint64_t i = 0; i < text->count && !err; i++) {
        bool last = i + 1 == text->count || text->word[i + 1] == WORDS_BREAK;
        const char *word;

        if (text->word[i] == WORDS_BREAK)
            continue;
        word = vocabulary_word(&text->map.name, text->word[i]);
        err = disk_out_put(&w, word, strlen(word), f);
        if (!err)
            err = disk_out_put(&w, last ? "\n" : " ", 1, f);
    }
    return disk_out_end(&w, err, f);
}

enum err data_generate(const char *spec, const char *out, struct fault *f)
{
    const struct gen_kind *kind;
    double value[GEN_KEYS_MAX];
    struct ratings r = {0};
    struct images train = {0}, test = {0};
    struct corpus c = {0};
    struct sparse sparse = {0};
    struct edges edges = {0};
    struct text_words words = {0};
    enum err err;

    if (!gen_is(spec))
        return fault_set(f, ERR_INVAL,
                         "%s: expected a generator (gen:ratings?..., "
                         "gen:digits?..., gen:bow?..., gen:libsvm?..., "
                         "gen:edges?..., gen:text?...)",
                         spec);
    err = gen_parse(spec, &kind, value, f);
    if (err)
        return err;
    if (kind->kind == DATA_RATINGS) {
        err = gen_ratings(spec, data_memory_limit(), &r, f);
        if (!err)
            err = write_ratings(out, &r, f);
        ratings_deinit(&r);
        return err;
    }
    if (kind->kind == DATA_DOCWORD) {
        err = gen_bow(spec, data_memory_limit(), &c, f);
        if (!err)
            err = write_corpus(out, &c, f);
        corpus_deinit(&c);
        return err;
    }
    if (kind->kind == DATA_LIBSVM) {
        err = gen_libsvm(spec, data_memory_limit(), &sparse, f);
        if (!err)
            err = write_sparse(out, &sparse, f);
        sparse_deinit(&sparse);
        return err;
    }
    if (kind->kind == DATA_EDGES) {
        err = gen_edges(spec, data_memory_limit(), &edges, f);
        if (!err)
            err = write_edges(out, &edges, f);
        edges_deinit(&edges);
        return err;
    }
    if (kind->kind == DATA_TEXT) {
        err = gen_text(spec, data_memory_limit(), &words, f);
        if (!err)
            err = write_words(out, &words, f);
        words_deinit(&words);
        return err;
    }
    err = gen_digits(spec, data_memory_limit(), &train, &test, f);
    if (!err)
        err = write_images(out, &train, &test, f);
    images_deinit(&train);
    images_deinit(&test);
    return err;
}
