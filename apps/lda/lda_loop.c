/* lda as a loop of the parameter server (mltune/loop.h): no two workers have
 * the same document or word at a time.
 *
 *   pass ─► clock ─► step ─► a worker's part ─► run of one word ─► tokens
 *
 * An iteration is a word of a document, all its tokens. It reads and updates
 * the document's counts and the word's, in place. So both are exact at each
 * draw; only the topics' totals are as the other workers left them in earlier
 * clocks: their changes are buffered. Iterations are given by word, so that
 * each part has the tokens of one word together. Topics of tokens lie in the
 * worker's local table in the order of the plan, each part beginning at a row.
 */
#include "apps/lda/lda_app.h"
#include "base/mem.h"
#include "base/rng.h"

#include <assert.h>
#include <string.h>

enum { DOC, WORD }; /* dimensions */
enum { DOC_ROW, WORD_ROW, TOTAL, TOTAL_ADD, TOUCHES };
enum { SEED_OF_TELLING = 0x7e11, SEED_OF_DEALING = 0xdea1 };

/* ---- the iterations ------------------------------------------------------ */

void lda_loop_free(struct lda *l)
{
    mlt_loop_free(l->loop.plan);
    corpus_deinit(&l->loop.docs);
    mem_free(l->loop.key);
    mem_free(l->loop.entry);
    mem_free(l->loop.first);
    mem_free(l->loop.word_tokens);
    mem_free(l->loop.part);
    memset(&l->loop, 0, sizeof(l->loop));
}

static enum err make_entries(struct lda_loop *p)
{
    const struct corpus *c = &p->docs;

    p->key = mem_calloc(c->entries, sizeof(*p->key));
    p->entry = mem_calloc(c->entries, sizeof(*p->entry));
    p->first = mem_calloc(c->words + (size_t)2, sizeof(*p->first));
    p->word_tokens = mem_calloc(c->words, sizeof(*p->word_tokens));
    return p->key && p->entry && p->first && p->word_tokens ? ERR_OK
                                                            : ERR_NOMEM;
}

/* By word, documents rising. first[w + 1] is where the next one of word w goes,
 * and in the end where word w + 1 begins. */
static void sort_entries(struct lda_loop *p, uint64_t seed)
{
    const struct corpus *c = &p->docs;

    for (uint64_t i = 0; i < c->entries; i++) {
        p->first[c->word[i] + (size_t)2]++;
        p->word_tokens[c->word[i]] += c->count[i];
    }
    for (uint32_t w = 0; w < c->words; w++)
        p->first[w + (size_t)2] += p->first[w + (size_t)1];
    for (uint32_t d = 0; d < c->docs; d++) {
        uint64_t n = c->begin[d + (size_t)1] - c->begin[d];
        uint64_t tells = n ? c->begin[d] + rng_mix(seed, d) % n : 0;

        for (uint64_t i = c->begin[d]; i < c->begin[d + (size_t)1]; i++) {
            uint64_t at = p->first[c->word[i] + (size_t)1]++;

            p->key[at][DOC] = d;
            p->key[at][WORD] = c->word[i];
            p->entry[at] = (struct lda_entry){c->count[i], i == tells};
        }
    }
}

enum err lda_loop_take(struct lda *l, struct corpus *train, uint32_t clocks)
{
    struct lda_loop *p = &l->loop;
    uint32_t each = (clocks + l->workers - 1) / l->workers;
    uint32_t most = MLT_LOOP_PARTS_MAX / l->workers;
    enum err err;

    assert(clocks >= 1 && l->workers <= MLT_LOOP_PARTS_MAX);
    p->docs = *train;
    memset(train, 0, sizeof(*train));
    p->time_parts = each < most ? each : most;
    l->layout.tokens = p->docs.tokens;
    l->layout.parts = p->time_parts * l->workers; /* a clock is a step */
    if (l->layout.parts > p->docs.entries)
        l->layout.parts = (uint32_t)p->docs.entries;
    err = make_entries(p);
    if (!err)
        sort_entries(p, rng_mix(l->seed, SEED_OF_TELLING));
    return err;
}

/* ---- the plan ------------------------------------------------------------ */

static int make_plan(struct lda *l, struct mlt_ps *ps, struct mlt_error *error)
{
    struct lda_loop *p = &l->loop;
    const struct mlt_touch touch[TOUCHES] = {
        [DOC_ROW] = {l->doc_topic,
                     MLT_READS | MLT_UPDATES,
                     {MLT_INDEX(DOC, 0)}},
        [WORD_ROW] = {l->word_topic,
                      MLT_READS | MLT_UPDATES,
                      {MLT_INDEX(WORD, 0)}},
        [TOTAL] = {l->topic_total, MLT_READS, {MLT_FIXED(0)}},
        [TOTAL_ADD] = {
            l->topic_total, MLT_UPDATES | MLT_BUFFERED, {MLT_FIXED(0)}}};
    struct mlt_loop_options o = MLT_LOOP_OPTIONS;

    o.name = "lda";
    o.dims = 2;
    o.extent[DOC] = p->docs.docs;
    o.extent[WORD] = l->prior.words;
    o.iterations = p->docs.entries;
    o.key = p->key[0];
    o.value = p->entry;
    o.value_bytes = sizeof(*p->entry);
    o.touch = touch;
    o.touches = TOUCHES;
    o.time_parts = p->time_parts;
    o.shuffle = rng_mix(l->seed, SEED_OF_DEALING) | 1;
    return mlt_loop_new(ps, &o, &p->plan, error);
}

/* Iterations from @at on that are of the same word as that one. */
static size_t run_of(const struct mlt_block *b, size_t at, size_t *tokens)
{
    const struct lda_entry *entry = b->value;
    uint32_t word = b->key[2 * at + WORD];
    size_t end = at;

    *tokens = 0;
    for (; end < b->n && b->key[2 * end + WORD] == word; end++)
        *tokens += entry[end].count;
    return end - at;
}

/* Where the topics of a part lie. */
static void lay_out_part(const struct mlt_block *b, struct lda_share *s,
                         struct lda_stretch *out)
{
    size_t tokens;

    *out = (struct lda_stretch){.first_row = s->rows};
    for (size_t at = 0; at < b->n;) {
        at += run_of(b, at, &tokens);
        out->tokens += tokens;
        if (tokens > s->run_max)
            s->run_max = (uint32_t)tokens;
    }
    s->tokens += out->tokens;
    s->rows += lda_rows_of(out->tokens);
    if (out->tokens > s->tokens_max)
        s->tokens_max = out->tokens;
}

static enum err lay_out(struct lda *l)
{
    struct lda_loop *p = &l->loop;
    unsigned steps = mlt_loop_steps(p->plan);

    l->layout.workers = l->workers;
    l->layout.share = mem_calloc(l->workers, sizeof(*l->layout.share));
    p->part = mem_calloc((size_t)l->workers * steps, sizeof(*p->part));
    if (!l->layout.share || !p->part)
        return ERR_NOMEM;
    for (unsigned w = 0; w < l->workers; w++)
        for (unsigned step = 0; step < steps; step++) {
            struct mlt_block b;

            mlt_loop_part(p->plan, w, step, &b);
            lay_out_part(&b, &l->layout.share[w],
                         &p->part[(size_t)w * steps + step]);
        }
    return ERR_OK;
}

int lda_loop_plan(struct lda *l, struct mlt_ps *ps, struct mlt_error *error)
{
    int err = make_plan(l, ps, error);

    if (err)
        return err;
    assert(mlt_loop_steps(l->loop.plan) >= l->layout.parts);
    err = lay_out(l);
    if (err && error)
        *error = (struct mlt_error){err, "lda: out of memory"};
    return err;
}

const char *lda_loop_text(void *app)
{
    const struct lda *l = app;

    return l->loop.plan ? mlt_loop_text(l->loop.plan) : NULL;
}

static const struct lda_stretch *stretch_of(const struct lda *l,
                                            unsigned worker, unsigned step)
{
    return &l->loop.part[(size_t)worker * mlt_loop_steps(l->loop.plan) + step];
}

/* ---- before training ----------------------------------------------------- */

static void init_topics(const struct lda *l, struct mlt_worker *w)
{
    unsigned index = mlt_worker_index(w);
    uint16_t *z = l->scratch[index].z;

    for (unsigned step = 0; step < mlt_loop_steps(l->loop.plan); step++) {
        const struct lda_stretch *s = stretch_of(l, index, step);
        const struct lda_entry *entry;
        struct mlt_block b;
        uint64_t token = 0;

        mlt_loop_part(l->loop.plan, index, step, &b);
        entry = b.value;
        for (size_t i = 0; i < b.n; i++)
            for (uint32_t nth = 0; nth < entry[i].count; nth++)
                z[token++] = lda_first_topic(l, b.key[2 * i + DOC],
                                             b.key[2 * i + WORD], nth);
        assert(token == s->tokens);
        lda_store_topics(l, w, s->first_row, s->tokens, z);
    }
}

static void init_docs(const struct lda *l, struct mlt_worker *w)
{
    const struct corpus *c = &l->loop.docs;
    float *row = l->scratch[mlt_worker_index(w)].mix;
    uint64_t first, count;

    mlt_owned_rows(l->ps, l->doc_topic, mlt_worker_index(w), &first, &count);
    for (uint64_t d = first; d < first + count; d++) {
        memset(row, 0, lda_stride(&l->prior) * sizeof(*row));
        for (uint64_t i = c->begin[d]; i < c->begin[d + 1]; i++)
            for (uint32_t nth = 0; nth < c->count[i]; nth++)
                row[lda_first_topic(l, (uint32_t)d, c->word[i], nth)]++;
        mlt_init_row(w, l->doc_topic, d, row);
    }
}

/* Adds the first topics of entries @from .. @to - 1, by word, to @row. */
static void count_entries(const struct lda *l, uint64_t from, uint64_t to,
                          int32_t row[])
{
    const struct lda_loop *p = &l->loop;

    for (uint64_t i = from; i < to; i++)
        for (uint32_t nth = 0; nth < p->entry[i].count; nth++)
            row[lda_first_topic(l, p->key[i][DOC], p->key[i][WORD], nth)]++;
}

static void init_words(const struct lda *l, struct mlt_worker *w)
{
    int32_t *row = l->scratch[mlt_worker_index(w)].delta;
    const size_t bytes = l->prior.topics * sizeof(*row);
    uint64_t first, count;

    mlt_owned_rows(l->ps, l->word_topic, mlt_worker_index(w), &first, &count);
    for (uint64_t i = first; i < first + count; i++) {
        memset(row, 0, bytes);
        count_entries(l, l->loop.first[i], l->loop.first[i + 1], row);
        mlt_init_row(w, l->word_topic, i, row);
    }
    mlt_owned_rows(l->ps, l->topic_total, mlt_worker_index(w), &first, &count);
    if (count == 0)
        return;
    memset(row, 0, bytes);
    count_entries(l, 0, l->loop.docs.entries, row);
    mlt_init_row(w, l->topic_total, 0, row);
}

void lda_loop_init(const struct lda *l, struct mlt_worker *w)
{
    init_topics(l, w);
    init_docs(l, w);
    init_words(l, w);
}

/* ---- training ------------------------------------------------------------ */

/* What a run tells of log p(w, z): of its word in proportion to its tokens, and
 * of the documents that are told of here. A pass adds up to the whole. */
static double run_log(const struct lda *l, const struct mlt_block *b, size_t at,
                      size_t n, size_t tokens, const int32_t row[],
                      void *const doc[])
{
    const struct lda_entry *entry = b->value;
    uint32_t word = b->key[2 * at + WORD];
    double sum = lda_row_log(&l->prior, row) * (double)tokens /
                 (double)l->loop.word_tokens[word];

    for (size_t i = 0; i < n; i++)
        if (entry[at + i].tells)
            sum += lda_doc_log(&l->prior, doc[i]);
    return sum;
}

/* Rows of @n iterations become those of their tokens. */
static void spread_rows(float **count, void *const row[],
                        const struct lda_entry entry[], size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < entry[i].count; j++)
            *count++ = row[i];
}

static void move_counts(const struct lda_sampler *s, int32_t row[])
{
    for (size_t i = 0; i < s->changes; i++) {
        row[s->change[2 * i]]--;
        row[s->change[2 * i + 1]]++;
    }
}

/* Passes the run of one word that begins at iteration @at; returns its length.
 */
static size_t pass_run(const struct lda *l, struct lda_scratch *c,
                       const struct mlt_block *b, size_t at)
{
    const struct lda_entry *entry = b->value;
    int32_t *row = mlt_loop_row(b, WORD_ROW, at);
    size_t tokens, n = run_of(b, at, &tokens);

    mlt_loop_rows(b, DOC_ROW, at, n, c->row);
    c->pass.sum += run_log(l, b, at, n, tokens, row, c->row);
    if (c->pass.learns) {
        spread_rows(c->count, c->row, entry + at, n);
        lda_word_begin(&c->sampler, row);
        lda_word_sample_rows(&c->sampler, tokens, c->count,
                             c->z + c->pass.token, &c->pass.rng);
        move_counts(&c->sampler, row);
    }
    c->pass.token += tokens;
    return n;
}

static int pass_part(const struct mlt_block *b, void *arg)
{
    const struct lda *l = arg;
    struct lda_scratch *c = &l->scratch[mlt_worker_index(b->worker)];
    const int32_t *total = mlt_loop_row(b, TOTAL, 0);
    uint64_t before = c->pass.token, tokens;

    c->pass.sum = 0;
    lda_totals_begin(&c->sampler, total);
    for (size_t at = 0; at < b->n;)
        at += pass_run(l, c, b, at);
    tokens = c->pass.token - before;
    c->pass.sum += lda_totals_log(&l->prior, total) * (double)tokens /
                   (double)l->layout.tokens;
    for (uint32_t k = 0; k < l->prior.topics; k++)
        c->delta[k] = c->sampler.total[k] - total[k];
    if (c->pass.learns)
        mlt_loop_add(b, TOTAL_ADD, 0, 0, c->delta);
    mlt_report(b->worker, -c->pass.sum, tokens);
    return 0;
}

static int one_step(const struct lda *l, struct mlt_worker *w, unsigned step,
                    bool last)
{
    unsigned index = mlt_worker_index(w);
    const struct lda_stretch *s = stretch_of(l, index, step);
    struct lda_scratch *c = &l->scratch[index];
    int err;

    c->pass.token = 0;
    lda_load_topics(l, w, s->first_row, s->tokens, c->z);
    err = (last ? mlt_loop_last_step : mlt_loop_step)(w, l->loop.plan, step,
                                                      pass_part, (void *)l);
    if (!err && c->pass.learns)
        lda_store_topics(l, w, s->first_row, s->tokens, c->z);
    return err;
}

int lda_loop_clock(const struct lda *l, struct mlt_worker *w,
                   const struct mlt_clock_ctx *ctx)
{
    struct lda_passing *p = &l->scratch[mlt_worker_index(w)].pass;
    uint64_t steps = mlt_loop_steps(l->loop.plan), parts = l->layout.parts;
    uint64_t step = ctx->part * steps / parts;
    uint64_t end = (ctx->part + 1) * steps / parts;
    int err = 0;

    p->learns = ctx->type == MLT_CLOCK_TRAINING; /* a probe only measures */
    rng_init(&p->rng, ctx->seed);
    for (; step < end && !err; step++)
        err = one_step(l, w, (unsigned)step, step + 1 == end);
    return err;
}
