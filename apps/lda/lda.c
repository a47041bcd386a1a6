#include "apps/lda/lda.h"

#include "apps/formats/data_stream.h"
#include "apps/lda/lda_app.h"
#include "apps/settings.h"
#include "base/mem.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* clang-format off */
static const char schema[] =
    "{\"type\": \"object\", \"required\": [\"data\"], \"properties\": {"
    SETTINGS_SCHEMA("lda", "bags of words (LDA-C or UCI docword)") ","
    "\"test_fraction\": {\"type\": \"number\", \"default\": 0.1,"
    " \"minimum\": 0, \"exclusiveMaximum\": 1, \"description\":"
    " \"share of the documents split off for validation, by seed, where test"
    " names none\"},"
    "\"vocab\": {\"type\": \"string\", \"minLength\": 1,"
    " \"x-file\": \"data\", \"description\":"
    " \"a file with one word a line, to name the words of the topics\"},"
    "\"clock\": {\"anyOf\": [{\"enum\": [\"pass\"]},"
    " {\"type\": \"integer\", \"minimum\": 1, \"maximum\": 10000}],"
    " \"default\": 25, \"description\":"
    " \"clocks a pass over the documents; pass is 1\"},"
    "\"topics\": {\"type\": \"integer\", \"default\": 100,"
    " \"minimum\": 1, \"maximum\": 32768, \"description\": \"topics\"},"
    "\"alpha\": {\"type\": \"number\", \"default\": 0.1,"
    " \"minimum\": 1e-9, \"maximum\": 1e6, \"description\":"
    " \"prior of each topic in a document\"},"
    "\"beta\": {\"type\": \"number\", \"default\": 0.01,"
    " \"minimum\": 1e-9, \"maximum\": 1e6, \"description\":"
    " \"prior of each word in a topic\"},"
    "\"parallel\": {\"enum\": [\"data\", \"loop\"],"
    " \"default\": \"data\", \"description\":"
    " \"data: workers see each other's counts of earlier clocks; loop: no two"
    " work on one word or document at a time\"}"
    "}}";
/* clang-format on */

static const char *const tunables[] = {"staleness", NULL};

/* ---- tables -------------------------------------------------------------- */

/* Worker @i's; all zero where there is nothing to train. */
static struct lda_share share_of(const struct lda *l, unsigned i)
{
    return l->evaluate ? (struct lda_share){0} : l->layout.share[i];
}

static enum err check_scratch(const struct lda *l, struct fault *f)
{
    uint64_t bytes = 0;

    for (unsigned i = 0; i < l->workers; i++) {
        struct lda_share s = share_of(l, i);
        uint64_t held = l->held.entries_max + UINT64_C(4); /* phi, mix, delta */

        bytes += lda_sampler_bytes(&l->prior, s.docs_max, s.run_max) +
                 s.run_max * 2 * sizeof(float *) +
                 s.tokens_max * sizeof(uint16_t) +
                 held * l->prior.topics * sizeof(float);
    }
    return data_memory_check("lda: documents of a clock and held-out words, by "
                             "topics (raise clock, or fewer topics or workers)",
                             bytes, data_memory_limit(), f);
}

static enum err scratch_init(const struct lda *l, struct lda_scratch *c,
                             const struct lda_share *s)
{
    if (lda_sampler_init(&c->sampler, &l->prior, s->docs_max, s->run_max))
        return ERR_NOMEM;
    c->z = mem_alloc((s->tokens_max + 1) * sizeof(*c->z));
    c->delta = mem_alloc(l->prior.topics * sizeof(*c->delta));
    c->mix = mem_alloc((size_t)2 * c->sampler.stride * sizeof(*c->mix));
    c->phi = mem_calloc(l->held.entries_max + (size_t)1,
                        c->sampler.stride * sizeof(*c->phi));
    c->row = mem_calloc(s->run_max + (size_t)1, sizeof(*c->row));
    c->count = mem_calloc(s->run_max + (size_t)1, sizeof(*c->count));
    return c->z && c->delta && c->mix && c->phi && c->row && c->count
               ? ERR_OK
               : ERR_NOMEM;
}

static enum err make_scratch(struct lda *l, struct fault *f)
{
    enum err err = check_scratch(l, f);

    if (err)
        return err;
    l->scratch = mem_calloc(l->workers, sizeof(*l->scratch));
    err = l->scratch ? ERR_OK : ERR_NOMEM;
    for (unsigned i = 0; !err && i < l->workers; i++) {
        struct lda_share s = share_of(l, i);

        err = scratch_init(l, &l->scratch[i], &s);
    }
    return err ? fault_set(f, err, "lda: out of memory") : ERR_OK;
}

static uint64_t topic_rows(const struct lda *l)
{
    uint64_t most = 1;

    for (unsigned i = 0; i < l->layout.workers; i++)
        if (l->layout.share[i].rows > most)
            most = l->layout.share[i].rows;
    return most;
}

static int declare_topics(struct lda *l, struct mlt_ps *ps,
                          struct mlt_error *error)
{
    const struct mlt_table_options topics = {
        .size = sizeof(topics),
        .name = "topics",
        .rows = topic_rows(l),
        .width = LDA_ROW_TOKENS * sizeof(uint16_t) / sizeof(int32_t),
        .type = MLT_I32,
        .access = MLT_LOCAL,
    };

    return mlt_ps_table(ps, &topics, &l->topics, error);
}

/* Documents' counts, which a loop keeps; and the plan. */
static int declare_loop(struct lda *l, struct mlt_ps *ps,
                        struct mlt_error *error)
{
    const struct mlt_table_options docs = {
        .size = sizeof(docs),
        .name = LDA_DOC_TABLE,
        .rows = l->loop.docs.docs,
        .width = lda_stride(&l->prior),
        .type = MLT_F32,
        .access = MLT_EXCLUSIVE,
        .rule = "add",
        .flags = MLT_NOT_SAVED,
    };
    int err = mlt_ps_table(ps, &docs, &l->doc_topic, error);

    return err ? err : lda_loop_plan(l, ps, error);
}

static int lda_declare(void *app, struct mlt_ps *ps, struct mlt_error *error)
{
    struct lda *l = app;
    struct fault f = {0};
    const struct mlt_table_options words = {
        .size = sizeof(words),
        .name = LDA_WORD_TABLE,
        .rows = l->prior.words,
        .width = l->prior.topics,
        .type = MLT_I32,
        .access = l->loop.wanted ? MLT_EXCLUSIVE : MLT_SHARED,
        .rule = "add",
    };
    struct mlt_table_options totals = words;
    int err;

    l->ps = ps;
    totals.name = LDA_TOTAL_TABLE;
    totals.rows = 1;
    totals.access = MLT_SHARED;
    err = mlt_ps_table(ps, &words, &l->word_topic, error);
    if (!err)
        err = mlt_ps_table(ps, &totals, &l->topic_total, error);
    if (!err && l->loop.wanted)
        err = declare_loop(l, ps, error);
    if (!err && make_scratch(l, &f))
        return settings_fault(&f, error);
    if (!err)
        err = declare_topics(l, ps, error);
    if (!err && !l->loop.wanted)
        err = mlt_ps_set_mover(ps, l->topics, lda_move_topics, l);
    return err;
}

/* ---- every token's topic ------------------------------------------------- */

void lda_load_topics(const struct lda *l, struct mlt_worker *w,
                     uint64_t first_row, uint64_t tokens, uint16_t z[])
{
    for (uint64_t i = 0; i < tokens; i += LDA_ROW_TOKENS) {
        uint64_t left = tokens - i;

        memcpy(z + i, mlt_row(w, l->topics, first_row + i / LDA_ROW_TOKENS),
               (left < LDA_ROW_TOKENS ? left : LDA_ROW_TOKENS) * sizeof(*z));
    }
}

void lda_store_topics(const struct lda *l, struct mlt_worker *w,
                      uint64_t first_row, uint64_t tokens, const uint16_t z[])
{
    for (uint64_t i = 0; i < tokens; i += LDA_ROW_TOKENS) {
        uint64_t left = tokens - i;

        memcpy(mlt_row(w, l->topics, first_row + i / LDA_ROW_TOKENS), z + i,
               (left < LDA_ROW_TOKENS ? left : LDA_ROW_TOKENS) * sizeof(*z));
    }
}

/* ---- before training ----------------------------------------------------- */

/* First topics of a run of one word: tokens of a document stand together. */
static void first_topics(const struct lda *l, const struct lda_part *p,
                         uint64_t token, const struct lda_run *run,
                         uint16_t z[])
{
    uint32_t nth = 0, i;

    for (i = 0; i < run->count; i++) {
        uint32_t doc = p->doc[token + i];

        nth = i > 0 && doc == p->doc[token + i - 1] ? nth + 1 : 0;
        z[i] = lda_first_topic(l, p->id[doc], run->word, nth);
    }
}

static void init_topics(const struct lda *l, struct mlt_worker *w)
{
    unsigned index = mlt_worker_index(w);
    uint16_t *z = l->scratch[index].z;

    for (uint32_t i = 0; i < l->layout.parts; i++) {
        const struct lda_part *p = &l->layout.share[index].part[i];
        uint64_t token = 0;

        for (uint32_t r = 0; r < p->runs; r++) {
            first_topics(l, p, token, &p->run[r], z + token);
            token += p->run[r].count;
        }
        lda_store_topics(l, w, p->first_row, p->tokens, z);
    }
}

/* Where all parts of all workers are, going through the words in order. */
struct lda_cursor {
    const struct lda_part *part;
    uint64_t token;
    uint32_t run;
};

static struct lda_cursor *cursors_new(const struct lda *l, size_t *n)
{
    struct lda_cursor *c;

    *n = (size_t)l->workers * l->layout.parts;
    c = mem_calloc(*n, sizeof(*c));
    for (size_t i = 0; c && i < *n; i++)
        c[i].part =
            &l->layout.share[i / l->layout.parts].part[i % l->layout.parts];
    return c;
}

/* Passes the runs of words up to @word and counts the topics of that one. */
static void count_word(const struct lda *l, struct lda_cursor *c, uint32_t word,
                       uint16_t z[], int32_t row[])
{
    const struct lda_part *p = c->part;

    for (; c->run < p->runs && p->run[c->run].word <= word; c->run++) {
        const struct lda_run *run = &p->run[c->run];

        if (run->word == word) {
            first_topics(l, p, c->token, run, z);
            for (uint32_t i = 0; i < run->count; i++)
                row[z[i]]++;
        }
        c->token += run->count;
    }
}

static uint64_t longest_run(const struct lda *l)
{
    uint64_t most = 1;

    for (unsigned w = 0; w < l->workers; w++)
        if (l->layout.share[w].run_max > most)
            most = l->layout.share[w].run_max;
    return most;
}

static void init_words(const struct lda *l, struct mlt_worker *w,
                       struct lda_cursor c[], size_t n, uint16_t z[])
{
    int32_t *row = l->scratch[mlt_worker_index(w)].delta;
    uint64_t first, count, i;

    mlt_owned_rows(l->ps, l->word_topic, mlt_worker_index(w), &first, &count);
    for (i = first; i < first + count; i++) {
        memset(row, 0, l->prior.topics * sizeof(*row));
        for (size_t j = 0; j < n; j++)
            count_word(l, &c[j], (uint32_t)i, z, row);
        mlt_init_row(w, l->word_topic, i, row);
    }
}

static void init_totals(const struct lda *l, struct mlt_worker *w,
                        const struct lda_cursor c[], size_t n, uint16_t z[])
{
    int32_t *row = l->scratch[mlt_worker_index(w)].delta;
    uint64_t first, count;

    mlt_owned_rows(l->ps, l->topic_total, mlt_worker_index(w), &first, &count);
    if (count == 0)
        return;
    memset(row, 0, l->prior.topics * sizeof(*row));
    for (size_t j = 0; j < n; j++) {
        struct lda_cursor all = {.part = c[j].part};

        for (uint32_t r = 0; r < all.part->runs; r++)
            count_word(l, &all, all.part->run[r].word, z, row);
    }
    mlt_init_row(w, l->topic_total, 0, row);
}

static int lda_init(void *app, struct mlt_worker *w)
{
    struct lda *l = app;
    struct lda_cursor *c;
    uint16_t *z;
    size_t n;

    if (l->evaluate)
        return 0;
    if (l->loop.wanted) {
        lda_loop_init(l, w);
        return 0;
    }
    c = cursors_new(l, &n);
    z = mem_alloc(longest_run(l) * sizeof(*z));
    if (c && z) {
        init_topics(l, w);
        init_totals(l, w, c, n, z);
        init_words(l, w, c, n, z);
    }
    mem_free(c);
    mem_free(z);
    return c && z ? 0 : (int)ERR_NOMEM;
}

/* ---- training ------------------------------------------------------------ */

/* Words of the worker's own shard, in order, for log p(w | z). */
struct walk {
    uint64_t next, end;
    double sum;
};

/* Adds those from walk->next to before @word, and @word if it is one. */
static int walk_to(const struct lda *l, struct mlt_worker *w, struct walk *walk,
                   uint64_t word)
{
    for (; walk->next <= word && walk->next < walk->end; walk->next++) {
        const int32_t *row = mlt_get_row(w, l->word_topic, walk->next);

        if (!row)
            return (int)ERR_CANCELED;
        walk->sum += lda_row_log(&l->prior, row);
    }
    return 0;
}

static void send_changes(const struct lda *l, struct mlt_worker *w,
                         const struct lda_sampler *s, uint32_t word)
{
    int32_t *update;

    if (s->changes == 0)
        return;
    update = mlt_update_row(w, l->word_topic, word);
    for (size_t i = 0; i < s->changes; i++) {
        update[s->change[2 * i]]--;
        update[s->change[2 * i + 1]]++;
    }
}

static int sample_words(const struct lda *l, struct mlt_worker *w,
                        const struct lda_part *p, struct walk *walk,
                        uint64_t seed)
{
    struct lda_scratch *c = &l->scratch[mlt_worker_index(w)];
    uint64_t token = 0;
    struct rng rng;

    rng_init(&rng, seed);
    for (uint32_t r = 0; r < p->runs; r++) {
        const struct lda_run *run = &p->run[r];
        const int32_t *row = mlt_get_row(w, l->word_topic, run->word);

        if (!row)
            return (int)ERR_CANCELED;
        if (walk_to(l, w, walk, run->word))
            return (int)ERR_CANCELED;
        lda_word_begin(&c->sampler, row);
        lda_word_sample(&c->sampler, run->count, p->doc + token, c->z + token,
                        &rng);
        send_changes(l, w, &c->sampler, run->word);
        mlt_offer(w);
        token += run->count;
    }
    return 0;
}

static void send_totals(const struct lda *l, struct mlt_worker *w,
                        const int32_t total[])
{
    struct lda_scratch *c = &l->scratch[mlt_worker_index(w)];

    for (uint32_t k = 0; k < l->prior.topics; k++)
        c->delta[k] = c->sampler.total[k] - total[k];
    mlt_inc_row(w, l->topic_total, 0, c->delta);
}

/* Share of log p(z) of the worker's documents of the part. */
static double count_docs(const struct lda *l, struct lda_scratch *c,
                         const struct lda_part *p)
{
    double prior = l->prior.alpha * l->prior.topics, sum;
    int sign;

    lda_docs_begin(&c->sampler, p->docs);
    sum = lda_docs_count(&c->sampler, p->tokens, p->doc, c->z);
    for (uint32_t d = 0; d < p->docs; d++)
        sum += lgamma_r(prior, &sign) - lgamma_r(prior + p->length[d], &sign);
    return sum;
}

/* -log p(w, z) before the clock: that of the part's documents, and the words'
 * in proportion, so that a pass adds up to the whole. */
static void report(const struct lda *l, struct mlt_worker *w, uint32_t part,
                   const struct lda_part *p, double words, double docs)
{
    double share =
        (double)l->layout.part_tokens[part] / (double)l->layout.tokens;

    mlt_report(w, -(words * share + docs), p->tokens);
}

static int train_part(const struct lda *l, struct mlt_worker *w,
                      const struct mlt_clock_ctx *ctx)
{
    unsigned index = mlt_worker_index(w);
    struct lda_scratch *c = &l->scratch[index];
    uint32_t part = (uint32_t)ctx->part;
    const struct lda_part *p = &l->layout.share[index].part[part];
    const int32_t *total = mlt_get_row(w, l->topic_total, 0);
    struct walk walk = {.sum = 0};
    uint64_t first, count;
    double docs;
    int err = 0;

    if (!total)
        return (int)ERR_CANCELED;
    lda_load_topics(l, w, p->first_row, p->tokens, c->z);
    docs = count_docs(l, c, p);
    lda_totals_begin(&c->sampler, total);
    mlt_owned_rows(l->ps, l->topic_total, index, &first, &count);
    if (count > 0)
        walk.sum += lda_totals_log(&l->prior, total);
    mlt_owned_rows(l->ps, l->word_topic, index, &walk.next, &count);
    walk.end = walk.next + count;
    /* A probe measures the loss and learns nothing. */
    if (ctx->type == MLT_CLOCK_TRAINING) {
        err = sample_words(l, w, p, &walk, ctx->seed);
        if (!err) {
            send_totals(l, w, total);
            lda_store_topics(l, w, p->first_row, p->tokens, c->z);
        }
    }
    if (!err)
        err = walk_to(l, w, &walk, UINT64_MAX);
    if (!err)
        report(l, w, part, p, walk.sum, docs);
    return err;
}

/* ---- held-out documents -------------------------------------------------- */

/* p(w | k) of one word. */
static int word_phi(const struct lda *l, struct mlt_worker *w,
                    const struct lda_sampler *s, uint32_t word, float phi[])
{
    const int32_t *row = mlt_get_row(w, l->word_topic, word);
    const float beta = (float)l->prior.beta;

    if (!row)
        return (int)ERR_CANCELED;
    for (uint32_t k = 0; k < l->prior.topics; k++)
        phi[k] = ((float)(row[k] > 0 ? row[k] : 0) + beta) * s->inverse[k];
    return 0;
}

/* Completes held-out documents first .. first + count - 1. */
static int complete_docs(const struct lda *l, struct mlt_worker *w,
                         uint64_t first, uint64_t count)
{
    struct lda_scratch *c = &l->scratch[mlt_worker_index(w)];
    const int32_t *total = mlt_get_row(w, l->topic_total, 0);
    const struct lda_held *h = &l->held;
    uint32_t stride = c->sampler.stride;
    uint64_t asked = 0, d, i;
    double sum = 0;

    if (!total)
        return (int)ERR_CANCELED;
    lda_totals_begin(&c->sampler, total);
    for (d = first; d < first + count; d++) {
        uint64_t tokens;

        for (i = h->begin[d]; i < h->begin[d + 1]; i++) {
            int err = word_phi(l, w, &c->sampler, h->word[i].word,
                               c->phi + (i - h->begin[d]) * stride);

            if (err)
                return err;
        }
        sum -= lda_held_log(h, d, l->prior.topics, stride, c->phi,
                            l->prior.alpha, c->mix, &tokens);
        asked += tokens;
    }
    if (asked > 0)
        mlt_report(w, sum, asked);
    return 0;
}

/* ---- predicting ---------------------------------------------------------- */

static int lda_columns(void *app, const struct mlt_column **column,
                       uint32_t *count, struct mlt_error *error)
{
    const struct lda *l = app;

    (void)error;
    assert(l->predict && l->column);
    *column = l->column;
    *count = l->prior.topics + 1;
    return 0;
}

static int lda_predict(void *app, struct mlt_worker *w, uint64_t first,
                       uint64_t count, double *out)
{
    const struct lda *l = app;
    struct lda_scratch *c = &l->scratch[mlt_worker_index(w)];
    const int32_t *total = mlt_get_row(w, l->topic_total, 0);
    const struct lda_held *h = &l->held;
    uint32_t stride = c->sampler.stride, topics = l->prior.topics;

    assert(l->predict && first + count <= h->docs);
    if (!total)
        return (int)ERR_CANCELED;
    lda_totals_begin(&c->sampler, total);
    for (uint64_t d = first; d < first + count; d++) {
        double *row = out + (d - first) * (topics + 1);
        uint32_t best = 0;

        for (uint64_t i = h->begin[d]; i < h->begin[d + 1]; i++) {
            int err = word_phi(l, w, &c->sampler, h->word[i].word,
                               c->phi + (i - h->begin[d]) * stride);

            if (err)
                return err;
        }
        lda_held_mix(h, d, topics, stride, c->phi, l->prior.alpha, c->mix,
                     row + 1);
        for (uint32_t k = 1; k < topics; k++)
            best = row[k + 1] > row[best + 1] ? k : best;
        row[0] = best;
    }
    return 0;
}

static int lda_run_clock(void *app, struct mlt_worker *w,
                         const struct mlt_clock_ctx *ctx)
{
    const struct lda *l = app;
    uint64_t index = mlt_worker_index(w), first, end;

    if (!l->evaluate && ctx->type != MLT_CLOCK_TESTING)
        return l->loop.wanted ? lda_loop_clock(l, w, ctx)
                              : train_part(l, w, ctx);
    if (!l->evaluate)
        return complete_docs(l, w, ctx->first, ctx->count);
    /* The documents that have two known words may be fewer than all. */
    first = l->held.docs * index / l->workers;
    end = l->held.docs * (index + 1) / l->workers;
    return complete_docs(l, w, first, end - first);
}

const struct mlt_app_ops app_lda = {
    .version = MLT_APP_VERSION,
    .name = "lda",
    .summary = "topic model of documents; held-out perplexity",
    .schema = schema,
    .tunables = tunables,
    .open = lda_open,
    .declare = lda_declare,
    .init = lda_init,
    .run_clock = lda_run_clock,
    .save = lda_save,
    .load = lda_load,
    .close = lda_close,
    .columns = lda_columns,
    .predict = lda_predict,
    .keep = lda_keep,
    .save_kept = lda_save_kept,
    .plan = lda_loop_text,
};
