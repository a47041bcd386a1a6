/* word2vec: a model's answers to questions (w2v_app.h). */
#include "apps/settings.h"
#include "apps/word2vec/w2v_app.h"
#include "base/mem.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static int fill_unit(const struct w2v *m, struct mlt_worker *w, float *unit)
{
    for (uint32_t i = 0; i < w2v_words(m); i++) {
        const float *v = mlt_get_row(w, m->table[W2V_VECTORS], i);
        float *to = unit + (size_t)i * m->stride, length;

        if (!v)
            return ERR_CANCELED;
        memcpy(to, v, m->size * sizeof(*to));
        length = sqrtf(w2v_dot(m->stride, to, to));
        for (unsigned j = 0; j < m->size && length > 0; j++)
            to[j] /= length;
    }
    return 0;
}

/* The worker's copies of all vectors, of length 1. */
static int make_unit(const struct w2v *m, struct mlt_worker *w,
                     struct w2v_work *k)
{
    float *unit;
    int err;

    if (k->unit)
        return 0;
    unit = mem_calloc((size_t)w2v_words(m) * m->stride, sizeof(*unit));
    if (!unit)
        return ERR_NOMEM;
    err = fill_unit(m, w, unit);
    if (err)
        mem_free(unit);
    else
        k->unit = unit;
    return err;
}

static const float *unit_of(const struct w2v *m, const struct w2v_work *k,
                            uint32_t word)
{
    return k->unit + (size_t)word * m->stride;
}

static bool is_known(const uint32_t word[], unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (word[i] == WORD_NONE)
            return false;
    return true;
}

/* The word nearest to b - a + c, none of these three (Mikolov, Yih and Zweig
 * 2013); WORD_NONE where the model has no other. */
static uint32_t answer(const struct w2v *m, struct w2v_work *k,
                       const uint32_t word[])
{
    uint32_t best = WORD_NONE;
    float most = -INFINITY;

    for (unsigned j = 0; j < m->stride; j++)
        k->change[j] = unit_of(m, k, word[1])[j] - unit_of(m, k, word[0])[j] +
                       unit_of(m, k, word[2])[j];
    for (uint32_t i = 0; i < w2v_words(m); i++) {
        float near = w2v_dot(m->stride, k->change, unit_of(m, k, i));

        if (near > most && i != word[0] && i != word[1] && i != word[2]) {
            most = near;
            best = i;
        }
    }
    return best;
}

static double similarity(const struct w2v *m, const struct w2v_work *k,
                         const uint32_t word[])
{
    return (double)w2v_dot(m->stride, unit_of(m, k, word[0]),
                           unit_of(m, k, word[1]));
}

/* ---- scores -------------------------------------------------------------- */

static void report_analogies(const struct w2v *m, struct mlt_worker *w,
                             struct w2v_work *k, uint64_t first, uint64_t count,
                             bool hits)
{
    uint64_t asked = 0, right = 0;

    for (uint64_t i = first; i < first + count; i++) {
        const uint32_t *word = m->question.word + i * W2V_QUESTION_WORDS;

        if (!is_known(word, W2V_QUESTION_WORDS))
            continue;
        asked++;
        right += answer(m, k, word) == word[3];
    }
    if (asked > 0)
        mlt_report(w, (double)(hits ? right : asked - right), asked);
}

/* All of them are ranked by whoever has the first. */
static int report_similarities(const struct w2v *m, struct mlt_worker *w,
                               struct w2v_work *k, bool rank)
{
    const struct w2v_questions *q = &m->question;
    double *said = mem_alloc(q->count * sizeof(*said));
    double *found = mem_alloc(q->count * sizeof(*found)), rho = 0;
    size_t n = 0;
    int err = said && found ? 0 : ERR_NOMEM;

    for (uint64_t i = 0; i < q->count && !err; i++) {
        const uint32_t *word = q->word + i * W2V_QUESTION_WORDS;

        if (!is_known(word, 2))
            continue;
        said[n] = q->said[i];
        found[n++] = similarity(m, k, word);
    }
    if (!err)
        err = (int)w2v_spearman(said, found, n, &rho);
    if (!err)
        mlt_report(w, (rank ? rho : 1 - rho) * (double)n, n);
    mem_free(said);
    mem_free(found);
    return err;
}

int w2v_report_answers(struct w2v *m, struct mlt_worker *w, uint64_t first,
                       uint64_t count, bool metric)
{
    struct w2v_work *k = &m->work[mlt_worker_index(w)];
    int err = make_unit(m, w, k);

    if (err)
        return err;
    if (m->question.form == W2V_SIMILARITIES)
        return first == 0 && count > 0 ? report_similarities(m, w, k, metric)
                                       : 0;
    report_analogies(m, w, k, first, count, metric);
    return 0;
}

/* ---- predictions --------------------------------------------------------- */

int w2v_columns(void *app, const struct mlt_column **column, uint32_t *count,
                struct mlt_error *error)
{
    struct w2v *m = app;
    struct fault f = {0};
    uint32_t words = w2v_words(m);

    *column = &m->column;
    *count = 1;
    m->column = (struct mlt_column){.name = "similarity"};
    if (m->question.form == W2V_SIMILARITIES)
        return 0;
    if (!m->label)
        m->label = mem_alloc(words * sizeof(*m->label));
    if (!m->label) {
        fault_set(&f, ERR_NOMEM, "word2vec: out of memory");
        return settings_fault(&f, error);
    }
    for (uint32_t i = 0; i < words; i++)
        m->label[i] = vocabulary_word(&m->text.map.name, i);
    m->column = (struct mlt_column){"word", m->label, words};
    return 0;
}

/* No number where the model does not know a word that is asked with. */
int w2v_predict(void *app, struct mlt_worker *w, uint64_t first, uint64_t count,
                double *out)
{
    struct w2v *m = app;
    struct w2v_work *k = &m->work[mlt_worker_index(w)];
    bool analogy = m->question.form == W2V_ANALOGIES;
    int err = make_unit(m, w, k);

    assert(first + count <= m->question.count);
    for (uint64_t i = 0; i < count && !err; i++) {
        const uint32_t *word =
            m->question.word + (first + i) * W2V_QUESTION_WORDS;

        out[i] = NAN;
        if (!is_known(word, analogy ? W2V_QUESTION_WORDS - 1 : 2))
            continue;
        out[i] = analogy ? answer(m, k, word) : similarity(m, k, word);
        if (analogy && out[i] == (double)WORD_NONE)
            out[i] = NAN;
    }
    return err;
}
