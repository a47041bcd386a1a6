/* word2vec: settings, data (w2v_app.h). */
#include "apps/data/data.h"
#include "apps/data/data_find.h"
#include "apps/settings.h"
#include "apps/word2vec/w2v_app.h"
#include "base/file_io.h"
#include "base/json/json.h"
#include "base/log.h"
#include "base/mem.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

static const double default_fraction = 0.05;

enum { BYTES_A_WORD = 64 }; /* of the vocabulary, and what is drawn from */

static void free_work(struct w2v_work *k)
{
    for (int i = 0; i < 2; i++)
        w2v_pairs_deinit(&k->block[i].pairs);
    mem_free(k->at);
    for (int side = 0; side < W2V_SIDES; side++) {
        mem_free(k->copy[side].place);
        mem_free(k->copy[side].word);
        mem_free(k->copy[side].steps);
        mem_free(k->copy[side].row);
    }
    mem_free(k->change);
    mem_free(k->unit);
}

void w2v_close(void *app)
{
    struct w2v *m = app;

    if (!m)
        return;
    for (unsigned i = 0; m->work && i < m->workers; i++)
        free_work(&m->work[i]);
    mem_free(m->work);
    mem_free(m->held);
    mem_free(m->summary);
    mem_free(m->label);
    words_deinit(&m->text);
    w2v_questions_deinit(&m->question);
    w2v_source_deinit(&m->source);
    mem_free(m);
}

/* ---- settings ------------------------------------------------------------ */

/* The place of the setting's text among @names[@n]; 0 where it is absent. */
static unsigned choice(const struct settings *s, const char *name,
                       const char *const names[], unsigned n)
{
    const char *text = json_string_value(json_object_get(s->json, name));

    for (unsigned i = 0; text && i < n; i++)
        if (strcmp(text, names[i]) == 0)
            return i;
    return 0;
}

static void take_settings(struct w2v *m, const struct settings *s)
{
    static const char *const forms[] = {"letters", "blanks"};
    static const char *const ends[] = {"lines", "paragraphs", "files"};
    static const char *const files[] = {"text", "binary", "both", "none"};
    unsigned file = choice(s, "vectors_file", files, 4);

    m->size = (unsigned)settings_number(s, "size", 100);
    m->stride = (m->size + W2V_LANES - 1) / W2V_LANES * W2V_LANES;
    m->window = (unsigned)settings_number(s, "window", 5);
    m->negative = (unsigned)settings_number(s, "negative", 5);
    m->sample = settings_number(s, "sample", 1e-3);
    m->min_count = (uint64_t)settings_number(s, "min_count", 5);
    m->options.form =
        choice(s, "words", forms, 2) == 0 ? WORDS_LETTERS : WORDS_BLANKS;
    m->options.end = (enum words_end)choice(s, "sentences", ends, 3);
    m->options.keep_case = json_is_true(json_object_get(s->json, "keep_case"));
    m->text_file = file == 0 || file == 2;
    m->binary_file = file == 1 || file == 2;
}

/* ---- training ------------------------------------------------------------ */

/* What the text holds, for who looks at the run (docs/data.md). NULL: out of
 * memory. */
static char *summary_of(const struct w2v *m)
{
    json_t *o =
        json_pack("{s:s, s:I, s:I, s:I, s:I}", "kind", "text", "tokens",
                  (json_int_t)m->text.tokens, "words", (json_int_t)w2v_words(m),
                  "dropped", (json_int_t)m->text.dropped, "sentences",
                  (json_int_t)(m->text.count - m->text.tokens));
    char *text = o ? json_write(o, 0) : NULL;

    json_decref(o);
    return text;
}

/* What is before @word[@n] ends a sentence. Returns how many words that took.
 */
static unsigned end_sentence(uint32_t word[], uint64_t n)
{
    if (n == 0 || word[n - 1] == WORDS_BREAK)
        return 0;
    word[n - 1] = WORDS_BREAK;
    return 1;
}

/* Moves the stretches that the seed chooses from the text to what is held out;
 * where one was, and between those that were no neighbours, is a break. */
static enum err hold_out(struct w2v *m, double fraction)
{
    uint64_t stretches = w2v_stretches(m->text.count), kept = 0, held = 0;
    uint64_t want = (uint64_t)((double)stretches * fraction + 0.5);
    struct perm perm;
    bool out = false;

    want = want < 1 && fraction > 0 ? 1 : want;
    m->held = mem_alloc((want + 1) * W2V_STRETCH * sizeof(*m->held));
    if (!m->held)
        return ERR_NOMEM;
    perm_init(&perm, stretches, m->seed);
    m->text.tokens = 0;
    for (uint64_t i = 0; i < m->text.count; i++) {
        uint32_t word = m->text.word[i];

        if (i % W2V_STRETCH == 0) {
            out = perm_at(&perm, i / W2V_STRETCH) < want;
            if (out)
                m->text.tokens -= end_sentence(m->text.word, kept);
            else
                end_sentence(m->held, held);
        }
        if (out) {
            m->held[held++] = word;
            continue;
        }
        m->text.word[kept++] = word;
        m->text.tokens += word != WORDS_BREAK;
    }
    m->text.count = kept;
    m->held_count = held;
    return ERR_OK;
}

/* Some word stands beside another. */
static enum err check_pairs(const uint32_t word[], uint64_t n, const char *what,
                            struct fault *f)
{
    for (uint64_t i = 1; i < n; i++)
        if (word[i] != WORDS_BREAK && word[i - 1] != WORDS_BREAK)
            return ERR_OK;
    return fault_set(f, ERR_INVAL,
                     "%s: expected a sentence of two words or more, found none "
                     "(\"sentences\" says what ends one)",
                     what);
}

/* The file of validation: its words are those of the training text. */
static enum err load_test(struct w2v *m, const struct settings *s,
                          struct fault *f)
{
    struct text_words test = {.fixed = true, .map = m->text.map};
    enum err err = data_load_words(s->test, s->folder, &m->options, &test, f);

    memset(&test.map, 0, sizeof(test.map)); /* it is the text's */
    if (!err && test.tokens < 2)
        err = fault_set(f, ERR_INVAL,
                        "%s: expected words that the training text has, found "
                        "%" PRIu64,
                        s->test, test.tokens);
    if (!err)
        err = check_pairs(test.word, test.count, s->test, f);
    if (!err) {
        m->held = test.word;
        m->held_count = test.count;
        test.word = NULL;
    }
    words_deinit(&test);
    return err;
}

static enum err few_words(const struct w2v *m, const struct settings *s,
                          struct fault *f)
{
    return fault_set(f, ERR_INVAL,
                     "%s: expected at least two words that occur %" PRIu64
                     " times or more (\"min_count\"), found %" PRIu32,
                     s->data, m->min_count, w2v_words(m));
}

static enum err nothing_left(const struct settings *s, struct fault *f)
{
    return fault_set(f, ERR_INVAL,
                     "%s: all of the text is held out for validation, in "
                     "stretches of %d words: expected a longer text, a smaller "
                     "\"test_fraction\" (0: none is), or a \"test\"",
                     s->data, (int)W2V_STRETCH);
}

static uint64_t clocks_of(const struct w2v *m, const struct settings *s)
{
    uint64_t clocks = m->text.tokens / W2V_CLOCK_WORDS;

    if (s->clocks > 0)
        return s->clocks < m->text.tokens ? s->clocks : m->text.tokens;
    clocks = clocks < W2V_CLOCKS_MIN ? W2V_CLOCKS_MIN : clocks;
    clocks = clocks > W2V_CLOCKS_MAX ? W2V_CLOCKS_MAX : clocks;
    return clocks < m->text.tokens ? clocks : m->text.tokens;
}

static enum err make_source(struct w2v *m, const char *what, struct fault *f)
{
    enum err err = data_memory_check(
        what,
        (uint64_t)w2v_words(m) *
            (BYTES_A_WORD +
             m->workers * (W2V_SIDES * sizeof(float) * (uint64_t)m->stride +
                           W2V_SIDES * 16)),
        data_memory_limit(), f);

    if (err)
        return err;
    if (w2v_source_init(&m->source, m->text.times, w2v_words(m), m->sample,
                        m->window, m->negative))
        return fault_set(f, ERR_NOMEM, "%s: out of memory", what);
    return ERR_OK;
}

static enum err load_training(struct w2v *m, const struct settings *s,
                              struct fault *f)
{
    double fraction =
        s->test_fraction < 0 ? default_fraction : s->test_fraction;
    enum err err =
        data_load_words(s->data, s->folder, &m->options, &m->text, f);

    if (err)
        return err;
    if (words_finish(&m->text, m->min_count))
        return fault_set(f, ERR_NOMEM, "%s: out of memory", s->data);
    if (w2v_words(m) < 2)
        return few_words(m, s, f);
    m->summary = summary_of(m);
    err = s->test ? load_test(m, s, f) : hold_out(m, fraction);
    if (!err && m->text.tokens < 2)
        err = nothing_left(s, f);
    if (!err)
        err = check_pairs(m->text.word, m->text.count, s->data, f);
    if (err || !m->summary)
        return err == ERR_OK || err == ERR_NOMEM
                   ? fault_set(f, ERR_NOMEM, "%s: out of memory", s->data)
                   : err;
    m->parts = clocks_of(m, s);
    return make_source(m, s->data, f);
}

/* ---- a model ------------------------------------------------------------- */

/* The one file that may hold questions, sniffed. *@form: text where there is no
 * such one. */
static enum err find_form(const struct settings *s, enum w2v_form *form,
                          char path[FILE_PATH_MAX], struct fault *f)
{
    char bytes[DATA_SNIFF_BYTES];
    struct data_stream *stream;
    struct data_found fd;
    size_t n = 0;
    enum err err;

    *form = W2V_TEXT;
    if (gen_is(s->data))
        return ERR_OK;
    err = data_find(s->data, s->folder, &fd, f);
    if (err)
        return err;
    if (fd.files.count == 1 && strlen(fd.files.path[0]) < FILE_PATH_MAX) {
        strcpy(path, fd.files.path[0]);
        err = data_stream_open(path, &stream, f);
        if (!err) {
            err = data_stream_read(stream, bytes, sizeof(bytes), &n, f);
            data_stream_close(stream);
        }
        if (!err)
            *form = w2v_form_of(bytes, n, n < sizeof(bytes));
    }
    data_found_deinit(&fd);
    return err;
}

static enum err load_questions(struct w2v *m, enum w2v_form form,
                               const char *path, struct fault *f)
{
    struct w2v_questions *q = &m->question;
    struct data_stream *s;
    enum err err = data_stream_open(path, &s, f);

    if (err)
        return err;
    err = w2v_questions_read(q, form, s, &m->text.map, !m->options.keep_case,
                             data_memory_limit(), f);
    data_stream_close(s);
    if (err)
        return err;
    if (q->known == 0 && !m->predict)
        return fault_set(f, ERR_INVAL,
                         "%s: the model does not know all words of any of its "
                         "%" PRIu64 " questions",
                         path, q->count);
    if (q->known < q->count)
        log_event(LOG_WARN, "unknown_words",
                  "questions=%" PRIu64 " of=%" PRIu64 " data=%s",
                  q->count - q->known, q->count, path);
    return ERR_OK;
}

/* The text to evaluate: all of it is held out. */
static enum err load_held(struct w2v *m, const struct settings *s,
                          struct fault *f)
{
    enum err err;

    if (m->predict)
        return fault_set(f, ERR_UNSUPPORTED,
                         "%s: expected questions (analogies, or pairs of words "
                         "with a number: docs/word2vec.md), found a text",
                         s->data);
    err = data_load_words(s->data, s->folder, &m->options, &m->text, f);
    if (err)
        return err;
    if (m->text.tokens < 2)
        return fault_set(f, ERR_INVAL,
                         "%s: expected words that the model knows, found "
                         "%" PRIu64,
                         s->data, m->text.tokens);
    m->held = m->text.word;
    m->held_count = m->text.count;
    m->text.word = NULL;
    m->text.count = m->text.word_room = 0;
    return make_source(m, s->data, f);
}

static enum err load_for_model(struct w2v *m, const struct settings *s,
                               struct fault *f)
{
    char path[FILE_PATH_MAX];
    enum w2v_form form;
    enum err err = w2v_read_vocabulary(m, s->model, f);

    if (!err)
        err = find_form(s, &form, path, f);
    if (err)
        return err;
    m->parts = 1;
    return form == W2V_TEXT ? load_held(m, s, f)
                            : load_questions(m, form, path, f);
}

/* ---- opening ------------------------------------------------------------- */

static enum err open_w2v(struct w2v *m, const struct mlt_app_config *config,
                         struct fault *f)
{
    struct settings s;
    enum err err = settings_init(&s, config, f);

    if (err)
        return err;
    data_memory_allow(config->memory_limit);
    take_settings(m, &s);
    assert(m->size >= 1 && m->size <= W2V_SIZE_MAX);
    m->seed = s.seed;
    m->evaluate = s.evaluate;
    m->predict = s.predict != NULL;
    m->workers = config->workers;
    w2v_curve_init(&m->curve);
    err = s.evaluate ? load_for_model(m, &s, f) : load_training(m, &s, f);
    settings_deinit(&s);
    return err;
}

static void describe(const struct w2v *m, struct mlt_app_info *info)
{
    uint64_t scored =
        m->question.count ? m->question.count : w2v_stretches(m->held_count);

    *info = (struct mlt_app_info){
        .samples = m->evaluate ? scored : m->text.tokens,
        .validation_samples = scored,
        .order = MLT_ORDER_PARTS,
        .parts = m->parts,
        .metric = "skip_gram_loss",
        .metric_reduction = MLT_MEAN,
        .loss_floor = 0,
        .data = m->summary,
    };
    if (m->question.form == W2V_ANALOGIES)
        info->metric = "accuracy";
    if (m->question.form == W2V_SIMILARITIES) {
        info->metric = "spearman";
        info->metric_reduction = MLT_WHOLE;
    }
    info->metric_higher_better = m->question.form != W2V_TEXT;
}

int w2v_open(const struct mlt_app_config *config, struct mlt_app_info *info,
             void **app, struct mlt_error *error)
{
    struct w2v *m = mem_calloc(1, sizeof(*m));
    struct fault f = {0};

    assert(config->workers >= 1);
    if (!m || open_w2v(m, config, &f)) {
        if (!m)
            fault_set(&f, ERR_NOMEM, "word2vec: out of memory");
        w2v_close(m);
        return settings_fault(&f, error);
    }
    describe(m, info);
    *app = m;
    return 0;
}
