/* lda: the saved model (lda_app.h): the top words of each topic beside the
 * tables; and evaluating it on other documents. */
#include "apps/lda/lda_app.h"
#include "apps/settings.h"
#include "base/file_io.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "base/npy_io.h"
#include "base/text.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { NAME_BYTES = VOCABULARY_WORD_MAX + 1 };

/* ---- top words ----------------------------------------------------------- */

/* The most frequent words of each topic so far, in falling order. */
struct top {
    uint32_t topics;
    struct top_word {
        uint32_t word;
        int32_t count; /* 0: none */
    } * word;          /* [topics][LDA_TOP_WORDS]: owned */
    int64_t *total;    /* [topics]: owned */
    int64_t tokens;
};

static void top_deinit(struct top *t)
{
    mem_free(t->word);
    mem_free(t->total);
}

/* Words come in rising order: of equal ones the first stays ahead. */
static void top_add(struct top_word *word, uint32_t id, int32_t count)
{
    int i = LDA_TOP_WORDS - 1;

    if (count <= word[i].count)
        return;
    for (; i > 0 && word[i - 1].count < count; i--)
        word[i] = word[i - 1];
    word[i] = (struct top_word){id, count};
}

static enum err read_rows(struct top *t, struct npy_reader *r, uint64_t rows,
                          struct fault *f)
{
    int32_t *row = mem_alloc(t->topics * sizeof(*row));
    enum err err = row ? ERR_OK : ERR_NOMEM;

    for (uint64_t w = 0; w < rows && !err; w++) {
        err = npy_read(r, row, t->topics * sizeof(*row), f);
        for (uint32_t k = 0; k < t->topics && !err; k++) {
            top_add(t->word + (size_t)k * LDA_TOP_WORDS, (uint32_t)w, row[k]);
            t->total[k] += row[k];
            t->tokens += row[k];
        }
    }
    mem_free(row);
    return err;
}

/* From the table as it was just saved. */
static enum err find_top(struct top *t, const char *dir, struct fault *f)
{
    struct npy_reader *r;
    struct npy_info info;
    char path[FILE_PATH_MAX];
    enum err err = file_join(path, dir, LDA_WORD_TABLE ".npy", f);

    if (!err)
        err = npy_open(path, &info, &r, f);
    if (err)
        return err;
    assert(info.cols == t->topics);
    t->word = mem_calloc((size_t)t->topics * LDA_TOP_WORDS, sizeof(*t->word));
    t->total = mem_calloc(t->topics, sizeof(*t->total));
    err = t->word && t->total ? read_rows(t, r, info.rows, f) : ERR_NOMEM;
    npy_close(r);
    if (err == ERR_NOMEM)
        fault_set(f, err, "%s: out of memory", path);
    return err;
}

/* The word of number @id as JSON can have it; its number without a vocabulary.
 */
static json_t *name_of(const struct vocabulary *v, uint32_t id)
{
    char name[NAME_BYTES];
    json_t *text;

    if (id >= v->words) {
        snprintf(name, sizeof(name), "%" PRIu32, id);
        return json_string(name);
    }
    text = json_string(vocabulary_word(v, id));
    if (text)
        return text;
    snprintf(name, sizeof(name), "%s", vocabulary_word(v, id));
    for (char *c = name; *c; c++) /* not UTF-8 */
        if ((unsigned char)*c >= 0x80)
            *c = '?';
    return json_string(name);
}

static json_t *topic_words(const struct lda *l, const struct top *t, uint32_t k)
{
    const struct top_word *word = t->word + (size_t)k * LDA_TOP_WORDS;
    json_t *words = json_array();
    double total = (double)t->total[k] + l->prior.words * l->prior.beta;

    for (int i = 0; i < LDA_TOP_WORDS && word[i].count > 0; i++) {
        json_t *one = json_pack(
            "{s:o, s:f}", "word", name_of(&l->vocabulary, word[i].word),
            "probability", (word[i].count + l->prior.beta) / total);

        if (json_array_append_new(words, one)) {
            json_decref(words);
            return NULL;
        }
    }
    return words;
}

static json_t *topics_json(const struct lda *l, const struct top *t)
{
    json_t *topics = json_array();

    for (uint32_t k = 0; k < t->topics; k++) {
        double share =
            t->tokens ? (double)t->total[k] / (double)t->tokens : 0.0;
        json_t *topic =
            json_pack("{s:I, s:I, s:f, s:o}", "topic", (json_int_t)k, "tokens",
                      (json_int_t)t->total[k], "share", share, "words",
                      topic_words(l, t, k));

        if (json_array_append_new(topics, topic)) {
            json_decref(topics);
            return NULL;
        }
    }
    return json_pack("{s:b, s:o}", "vocabulary", l->vocabulary.words > 0,
                     "topics", topics);
}

static enum err save_topics(const struct lda *l, const char *dir,
                            struct fault *f)
{
    struct top t = {.topics = l->prior.topics};
    char path[FILE_PATH_MAX];
    json_t *json = NULL;
    char *text = NULL;
    enum err err = file_join(path, dir, LDA_TOPICS_FILE, f);

    if (!err)
        err = find_top(&t, dir, f);
    if (!err) {
        json = topics_json(l, &t);
        text = json ? json_write(json, 1) : NULL;
        err = text ? file_write_line(path, text, f)
                   : fault_set(f, ERR_NOMEM, "%s: out of memory", path);
    }
    mem_free(text);
    json_decref(json);
    top_deinit(&t);
    return err;
}

/* The members for model.json. */
static enum err say(const struct lda *l, char *json, size_t size,
                    struct fault *f)
{
    char alpha[TEXT_NUMBER_MAX], beta[TEXT_NUMBER_MAX];
    int n;

    text_number(l->prior.alpha, alpha);
    text_number(l->prior.beta, beta);
    n = snprintf(json, size,
                 "{\"topics\":%" PRIu32 ",\"words\":%" PRIu32
                 ",\"alpha\":%s,\"beta\":%s,\"tokens\":%" PRIu64
                 ",\"top_words\":\"" LDA_TOPICS_FILE "\"}",
                 l->prior.topics, l->prior.words, alpha, beta,
                 l->layout.tokens);
    if (n < 0 || (size_t)n >= size)
        return fault_set(f, ERR_LIMIT, "lda: model.json has no room");
    return ERR_OK;
}

int lda_save(void *app, const char *dir, char *json, size_t size,
             struct mlt_error *error)
{
    struct fault f = {0};

    if (!say(app, json, size, &f))
        save_topics(app, dir, &f);
    return f.code ? settings_fault(&f, error) : 0;
}

/* ---- without the data ---------------------------------------------------- */

static enum err keep_words(const struct vocabulary *v, const char *dir,
                           struct fault *f)
{
    char path[FILE_PATH_MAX];
    enum err err = file_join(path, dir, LDA_WORDS_FILE, f);
    FILE *file = err ? NULL : fopen(path, "we");

    if (!err && !file)
        return fault_errno(f, ERR_IO, errno, "write %s", path);
    for (uint32_t i = 0; file && i < v->words; i++)
        fprintf(file, "%s\n", vocabulary_word(v, i));
    if (file && (ferror(file) | fclose(file)))
        err = fault_errno(f, ERR_IO, errno, "write %s", path);
    return err;
}

/* The vocabulary, where there is one, a word a line. */
int lda_keep(void *app, const char *dir, char *json, size_t size,
             struct mlt_error *error)
{
    const struct lda *l = app;
    struct fault f = {0};

    if (!say(l, json, size, &f) && l->vocabulary.words > 0)
        keep_words(&l->vocabulary, dir, &f);
    return f.code ? settings_fault(&f, error) : 0;
}

/* What @json says of the run, as `say` wrote it. */
static enum err take_kept(struct lda *l, const char *json, struct fault *f)
{
    json_t *kept = NULL;
    enum err err = json_load(json, strlen(json), &kept, NULL, f);
    json_int_t topics = json_integer_value(json_object_get(kept, "topics"));
    json_int_t words = json_integer_value(json_object_get(kept, "words"));
    double alpha = json_number_value(json_object_get(kept, "alpha"));
    double beta = json_number_value(json_object_get(kept, "beta"));

    json_decref(kept);
    if (err)
        return err;
    if (topics < 1 || topics > LDA_TOPICS_MAX || words < 1 ||
        words > BOW_WORDS_MAX || !(alpha > 0) || !(beta > 0))
        return fault_set(f, ERR_FORMAT,
                         "expected numbers of topics and words, alpha, and "
                         "beta; found %.80s",
                         json);
    lda_prior_init(&l->prior, (uint32_t)topics, (uint32_t)words, alpha, beta);
    return ERR_OK;
}

static enum err read_words(const char *kept, struct vocabulary *out,
                           struct fault *f)
{
    struct data_stream *s = NULL;
    char path[FILE_PATH_MAX];
    enum err err = file_join(path, kept, LDA_WORDS_FILE, f);

    if (err || access(path, F_OK) != 0)
        return err;
    err = data_stream_open(path, &s, f);
    if (!err)
        err = vocabulary_read(s, data_memory_limit(), out, f);
    data_stream_close(s);
    return err;
}

int lda_save_kept(const char *kept, const char *json, const char *dir,
                  struct mlt_error *error)
{
    struct lda l = {0};
    struct fault f = {0};
    enum err err = take_kept(&l, json, &f);

    if (!err)
        err = read_words(kept, &l.vocabulary, &f);
    if (!err)
        err = save_topics(&l, dir, &f);
    vocabulary_deinit(&l.vocabulary);
    return err ? settings_fault(&f, error) : 0;
}

/* ---- evaluation ---------------------------------------------------------- */

static enum err load_model(struct lda *l, const char *dir, struct fault *f)
{
    struct npy_reader *r;
    struct npy_info info;
    char path[FILE_PATH_MAX];
    enum err err = file_join(path, dir, LDA_WORD_TABLE ".npy", f);

    if (!err)
        err = npy_open(path, &info, &r, f);
    if (err)
        return err;
    npy_close(r);
    if (info.type != NPY_I32 || info.rows < 1 || info.rows > BOW_WORDS_MAX ||
        info.cols < 1 || info.cols > LDA_TOPICS_MAX)
        return fault_set(f, ERR_FORMAT,
                         "%s: expected int32 counts, a row a word and a column "
                         "a topic; found %s of %" PRIu64 " x %" PRIu64,
                         path, npy_type_name(info.type), info.rows, info.cols);
    lda_prior_init(&l->prior, (uint32_t)info.cols, (uint32_t)info.rows,
                   l->prior.alpha, l->prior.beta);
    err = l->predict
              ? lda_held_whole(&l->held, &l->data, l->prior.words)
              : lda_held_init(&l->held, &l->data, l->prior.words, l->seed);
    corpus_deinit(&l->data);
    if (err)
        return fault_set(f, err, "%s: %s", dir, err_text(err));
    if (l->held.docs == 0 && !l->predict)
        return fault_set(f, ERR_INVAL,
                         "no document has two words that the model in %s knows",
                         dir);
    return ERR_OK;
}

/* `topic`, the likeliest, then `share_K` of each. */
static enum err make_columns(struct lda *l, struct fault *f)
{
    uint32_t topics = l->prior.topics;

    if (!l->predict)
        return ERR_OK;
    l->column = mem_calloc(topics + 1, sizeof(*l->column));
    l->title = mem_calloc(topics, LDA_TITLE_BYTES);
    if (!l->column || !l->title)
        return fault_set(f, ERR_NOMEM, "lda: out of memory");
    l->column[0].name = "topic";
    for (uint32_t k = 0; k < topics; k++) {
        char *title = l->title + (size_t)k * LDA_TITLE_BYTES;

        snprintf(title, LDA_TITLE_BYTES, "share_%" PRIu32, k);
        l->column[k + 1].name = title;
    }
    return ERR_OK;
}

int lda_load(void *app, const char *dir, struct mlt_error *error)
{
    struct fault f = {0};

    if (!load_model(app, dir, &f))
        make_columns(app, &f);
    return f.code ? settings_fault(&f, error) : 0;
}
