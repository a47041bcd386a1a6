/* word2vec: the saved model (w2v_app.h): its vocabulary beside the tables, and
 * the vectors in word2vec's own forms:
 *
 *     vectors.txt   "WORDS SIZE", then a line a word: the word and its values
 *     vectors.bin   the same first line, then a word, a blank, SIZE floats as
 *                   they lie in memory, and an end of line
 */
#include "apps/settings.h"
#include "apps/word2vec/w2v_app.h"
#include "base/disk_io.h"
#include "base/file_io.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "base/npy_io.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { NUMBER_MAX = 24, LINE_MAX_BYTES = VOCABULARY_WORD_MAX + 32 };

/* ---- vectors in word2vec's forms ----------------------------------------- */

struct vectors_out {
    const struct w2v *m;
    bool binary;
    struct disk_out to;
    struct npy_reader *from;
    float *row; /* [size] */
    uint64_t words;
};

static enum err put_line(struct disk_out *to, const char *line, int n,
                         struct fault *f)
{
    assert(n > 0 && n < LINE_MAX_BYTES);
    return disk_out_put(to, line, (size_t)n, f);
}

static enum err put_row(struct vectors_out *o, uint32_t word, struct fault *f)
{
    char text[LINE_MAX_BYTES];
    int n = snprintf(text, sizeof(text), "%s%s",
                     vocabulary_word(&o->m->text.map.name, word),
                     o->binary ? " " : "");
    enum err err = put_line(&o->to, text, n, f);

    if (o->binary && !err)
        err = disk_out_put(&o->to, o->row, o->m->size * sizeof(*o->row), f);
    for (unsigned j = 0; j < o->m->size && !o->binary && !err; j++) {
        n = snprintf(text, sizeof(text), " %.9g", (double)o->row[j]);
        err = put_line(&o->to, text, n, f);
    }
    return err ? err : disk_out_put(&o->to, "\n", 1, f);
}

static enum err put_all(struct vectors_out *o, struct fault *f)
{
    char text[LINE_MAX_BYTES];
    int n =
        snprintf(text, sizeof(text), "%" PRIu64 " %u\n", o->words, o->m->size);
    enum err err = put_line(&o->to, text, n, f);

    for (uint32_t i = 0; i < o->words && !err; i++) {
        err = npy_read(o->from, o->row, o->m->size * sizeof(*o->row), f);
        if (!err)
            err = put_row(o, i, f);
    }
    return err;
}

/* Opens DIR/TABLE.npy, which is to have a row a word. *@size: its width. */
static enum err open_table(const struct w2v *m, const char *dir, int side,
                           struct npy_reader **out, unsigned *size,
                           struct fault *f)
{
    char name[NUMBER_MAX], path[FILE_PATH_MAX];
    struct npy_info info;
    enum err err;

    snprintf(name, sizeof(name), "%s.npy", w2v_table_name[side]);
    err = file_join(path, dir, name, f);
    if (!err)
        err = npy_open(path, &info, out, f);
    if (err)
        return err;
    if (info.type != NPY_F32 || info.rows != w2v_words(m) || info.cols < 1 ||
        info.cols > W2V_SIZE_MAX) {
        npy_close(*out);
        return fault_set(
            f, ERR_FORMAT,
            "%s: expected float32, a row for each of the %" PRIu32
            " words of " W2V_WORDS_FILE "; found %s of %" PRIu64 " x %" PRIu64,
            path, w2v_words(m), npy_type_name(info.type), info.rows, info.cols);
    }
    *size = (unsigned)info.cols;
    return ERR_OK;
}

static enum err write_vectors(const struct w2v *m, const char *dir, bool binary,
                              struct fault *f)
{
    struct vectors_out o = {.m = m, .binary = binary, .words = w2v_words(m)};
    char path[FILE_PATH_MAX];
    unsigned size = 0;
    enum err err = open_table(m, dir, W2V_VECTORS, &o.from, &size, f);

    if (err)
        return err;
    if (size != m->size) {
        npy_close(o.from);
        return fault_set(f, ERR_FORMAT,
                         "%s: vectors of %u values, but the model says %u", dir,
                         size, m->size);
    }
    o.row = mem_alloc(size * sizeof(*o.row));
    err = o.row
              ? file_join(path, dir, binary ? "vectors.bin" : "vectors.txt", f)
              : fault_set(f, ERR_NOMEM, "%s: out of memory", dir);
    if (!err)
        err = disk_out_open(&o.to, NULL, path, DISK_SHARED, f);
    if (!err)
        err = disk_out_end(&o.to, put_all(&o, f), f);
    npy_close(o.from);
    mem_free(o.row);
    return err;
}

static enum err write_forms(const struct w2v *m, const char *dir,
                            struct fault *f)
{
    enum err err = m->text_file ? write_vectors(m, dir, false, f) : ERR_OK;

    return !err && m->binary_file ? write_vectors(m, dir, true, f) : err;
}

/* ---- saving -------------------------------------------------------------- */

static enum err write_vocabulary(const struct w2v *m, const char *dir,
                                 struct fault *f)
{
    char path[FILE_PATH_MAX], text[LINE_MAX_BYTES];
    struct disk_out to;
    enum err err = file_join(path, dir, W2V_WORDS_FILE, f);

    if (!err)
        err = disk_out_open(&to, NULL, path, DISK_SHARED, f);
    if (err)
        return err;
    for (uint32_t i = 0; i < w2v_words(m) && !err; i++) {
        int n =
            snprintf(text, sizeof(text), "%s %" PRIu64 "\n",
                     vocabulary_word(&m->text.map.name, i), m->text.times[i]);

        err = put_line(&to, text, n, f);
    }
    return disk_out_end(&to, err, f);
}

/* The members for model.json. */
static enum err say(const struct w2v *m, char *json, size_t size,
                    struct fault *f)
{
    const char *files = m->text_file && m->binary_file ? "both"
                        : m->text_file                 ? "text"
                        : m->binary_file               ? "binary"
                                                       : "none";
    int n = snprintf(json, size,
                     "{\"words\":%" PRIu32 ",\"size\":%u,\"tokens\":%" PRIu64
                     ",\"vocabulary\":\"" W2V_WORDS_FILE
                     "\",\"vectors_file\":\"%s\"}",
                     w2v_words(m), m->size, m->text.tokens, files);

    if (n < 0 || (size_t)n >= size)
        return fault_set(f, ERR_LIMIT, "word2vec: model.json has no room");
    return ERR_OK;
}

int w2v_keep(void *app, const char *dir, char *json, size_t size,
             struct mlt_error *error)
{
    struct fault f = {0};

    if (!say(app, json, size, &f))
        write_vocabulary(app, dir, &f);
    return f.code ? settings_fault(&f, error) : 0;
}

int w2v_save(void *app, const char *dir, char *json, size_t size,
             struct mlt_error *error)
{
    const struct w2v *m = app;
    struct fault f = {0};
    int err = w2v_keep(app, dir, json, size, error);

    if (err)
        return err;
    return write_forms(m, dir, &f) ? settings_fault(&f, error) : 0;
}

/* ---- without the data ---------------------------------------------------- */

enum err w2v_read_vocabulary(struct w2v *m, const char *dir, struct fault *f)
{
    struct data_stream *s;
    char path[FILE_PATH_MAX];
    enum err err = file_join(path, dir, W2V_WORDS_FILE, f);

    if (!err)
        err = data_stream_open(path, &s, f);
    if (err)
        return err;
    err = words_know(&m->text, s, data_memory_limit(), f);
    data_stream_close(s);
    return err;
}

/* What @json says of the run, as `say` wrote it. */
static enum err take_kept(struct w2v *m, const char *json, struct fault *f)
{
    json_t *kept = NULL;
    enum err err = json_load(json, strlen(json), &kept, NULL, f);
    json_int_t size = json_integer_value(json_object_get(kept, "size"));
    const char *files =
        json_string_value(json_object_get(kept, "vectors_file"));

    if (!err && (size < 1 || size > W2V_SIZE_MAX || !files))
        err = fault_set(f, ERR_FORMAT,
                        "expected size and vectors_file; found %.80s", json);
    if (!err && files) {
        m->size = (unsigned)size;
        m->text_file = strcmp(files, "text") == 0 || strcmp(files, "both") == 0;
        m->binary_file =
            strcmp(files, "binary") == 0 || strcmp(files, "both") == 0;
    }
    json_decref(kept);
    return err;
}

int w2v_save_kept(const char *kept, const char *json, const char *dir,
                  struct mlt_error *error)
{
    struct w2v m = {0};
    struct fault f = {0};
    enum err err = take_kept(&m, json, &f);

    if (!err)
        err = w2v_read_vocabulary(&m, kept, &f);
    if (!err)
        err = write_vocabulary(&m, dir, &f);
    if (!err)
        err = write_forms(&m, dir, &f);
    words_deinit(&m.text);
    return err ? settings_fault(&f, error) : 0;
}

/* ---- a model ------------------------------------------------------------- */

/* Its vocabulary was read when the data were. */
int w2v_load(void *app, const char *dir, struct mlt_error *error)
{
    struct w2v *m = app;
    struct fault f = {0};

    for (int side = 0; side < W2V_SIDES; side++) {
        struct npy_reader *r;
        unsigned size = 0;

        if (open_table(m, dir, side, &r, &size, &f))
            return settings_fault(&f, error);
        npy_close(r);
        if (side > 0 && size != m->size) {
            fault_set(&f, ERR_FORMAT, "%s: vectors have %u values, contexts %u",
                      dir, m->size, size);
            return settings_fault(&f, error);
        }
        m->size = size;
    }
    m->stride = (m->size + W2V_LANES - 1) / W2V_LANES * W2V_LANES;
    return 0;
}
