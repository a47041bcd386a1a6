#include "apps/word2vec/word2vec.h"

#include "apps/settings.h"
#include "apps/word2vec/w2v_app.h"
#include "base/mem.h"
#include "base/rng.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum {
    BLOCK_WORDS = 1024, /* of the text, whose pairs are drawn at once */
    AHEAD = 8,          /* of so many pairs one tells the loss */
    CHUNK_BYTES_MIN = 4096,
    CHUNK_BYTES_MAX = 65536,
    CHUNKS_A_WORKER = 16 /* so that what workers own differs little */
};

/* Distinct streams of the seed: what is held out takes it as it is. */
enum { SEED_OF_ROWS = 0x3ec7, SEED_OF_HELD = 0x6e1d };

const char *const w2v_table_name[W2V_SIDES] = {"vectors", "contexts"};

/* clang-format off */
static const char schema[] =
    "{\"type\": \"object\", \"x-task\": \"numbers\","
    " \"required\": [\"data\"], \"properties\": {"
    SETTINGS_SCHEMA("word2vec", "a text") ","
    "\"test_fraction\": {\"type\": \"number\", \"default\": 0.05,"
    " \"minimum\": 0, \"exclusiveMaximum\": 1, \"description\":"
    " \"share of the text held out for validation, by seed, where test"
    " names none\"},"
    "\"clock\": {\"anyOf\": [{\"enum\": [\"auto\", \"pass\"]},"
    " {\"type\": \"integer\", \"minimum\": 1, \"maximum\": 1000000}],"
    " \"default\": \"auto\", \"description\":"
    " \"clocks a pass over the text; pass is 1; auto is 10 to 10,000, with"
    " 16,384 words each\"},"
    "\"size\": {\"type\": \"integer\", \"default\": 100,"
    " \"minimum\": 1, \"maximum\": 4096,"
    " \"description\": \"values of a vector\"},"
    "\"window\": {\"type\": \"integer\", \"default\": 5,"
    " \"minimum\": 1, \"maximum\": 100, \"description\":"
    " \"words to each side that a word predicts with, at most: each"
    " time 1 to this many\"},"
    "\"negative\": {\"type\": \"integer\", \"default\": 5,"
    " \"minimum\": 1, \"maximum\": 100,"
    " \"description\": \"negative examples a pair\"},"
    "\"sample\": {\"type\": \"number\", \"default\": 0.001,"
    " \"minimum\": 0, \"maximum\": 1, \"description\":"
    " \"words with more than this share of the text are passed over now and"
    " then; 0: none is\"},"
    "\"min_count\": {\"type\": \"integer\", \"default\": 5,"
    " \"minimum\": 1, \"maximum\": 1000000000,"
    " \"description\": \"words that occur less often are left out\"},"
    "\"words\": {\"enum\": [\"letters\", \"blanks\"],"
    " \"default\": \"letters\", \"description\":"
    " \"a word is a run of letters and digits, or what stands between"
    " blanks\"},"
    "\"keep_case\": {\"type\": \"boolean\", \"default\": false,"
    " \"description\": \"false: A to Z are taken for a to z\"},"
    "\"sentences\": {\"enum\": [\"lines\", \"paragraphs\", \"files\"],"
    " \"default\": \"lines\", \"description\":"
    " \"what a window does not reach beyond\"},"
    "\"vectors_file\": {\"enum\": [\"text\", \"binary\", \"both\", \"none\"],"
    " \"default\": \"text\", \"description\":"
    " \"word2vec's own files in the model: vectors.txt, vectors.bin\"}"
    "}}";
/* clang-format on */

static const char *const tunables[] = {"learning_rate", "staleness", "warmup",
                                       NULL};

/* ---- tables -------------------------------------------------------------- */

static int out_of_memory(struct mlt_error *error)
{
    struct fault f = {0};

    fault_set(&f, ERR_NOMEM, "word2vec: out of memory");
    return settings_fault(&f, error);
}

static int make_work(struct w2v *m, struct mlt_error *error)
{
    uint32_t words = w2v_words(m);

    m->work = mem_calloc(m->workers, sizeof(*m->work));
    if (!m->work)
        return out_of_memory(error);
    for (unsigned i = 0; i < m->workers; i++) {
        struct w2v_work *k = &m->work[i];

        k->change = mem_alloc(m->stride * sizeof(*k->change));
        for (int side = 0; side < W2V_SIDES; side++) {
            struct w2v_copy *c = &k->copy[side];

            c->place = mem_alloc(words * sizeof(*c->place));
            if (c->place)
                memset(c->place, 0xff, words * sizeof(*c->place));
        }
        if (!k->change || !k->copy[0].place || !k->copy[1].place)
            return out_of_memory(error);
    }
    return 0;
}

/* Small enough that cutting at chunks deals rows out evenly. */
static uint32_t chunk_bytes(const struct w2v *m)
{
    uint64_t bytes = (uint64_t)w2v_words(m) * m->size * sizeof(float);
    uint32_t chunk = CHUNK_BYTES_MAX;

    while (chunk > CHUNK_BYTES_MIN &&
           bytes / chunk < CHUNKS_A_WORKER * (uint64_t)m->workers)
        chunk /= 2;
    return chunk;
}

static int w2v_declare(void *app, struct mlt_ps *ps, struct mlt_error *error)
{
    struct w2v *m = app;
    int err = make_work(m, error);

    m->ps = ps;
    for (int side = 0; side < W2V_SIDES && !err; side++) {
        const struct mlt_table_options opt = {
            .size = sizeof(opt),
            .name = w2v_table_name[side],
            .rows = w2v_words(m),
            .width = m->size,
            .type = MLT_F32,
            .access = MLT_SHARED,
            .rule = "add",
            .flags = MLT_NO_MOMENTUM,
            .chunk_bytes = chunk_bytes(m),
        };

        err = mlt_ps_table(ps, &opt, &m->table[side], error);
    }
    return err;
}

/* Vectors begin between -0.5 / size and 0.5 / size, contexts at 0. */
static int w2v_init(void *app, struct mlt_worker *w)
{
    struct w2v *m = app;
    unsigned index = mlt_worker_index(w);
    float *row = m->work[index].change;
    uint64_t first, count;

    mlt_owned_rows(m->ps, m->table[W2V_VECTORS], index, &first, &count);
    for (uint64_t i = first; i < first + count && !m->evaluate; i++) {
        uint64_t word = mlt_row_at(m->ps, m->table[W2V_VECTORS], i);
        struct rng rng;

        rng_init(&rng, rng_mix(m->seed + SEED_OF_ROWS, word));
        for (unsigned j = 0; j < m->size; j++)
            row[j] = (float)((rng_uniform(&rng) - 0.5) / m->size);
        mlt_init_row(w, m->table[W2V_VECTORS], word, row);
    }
    return 0;
}

/* ---- copies of rows ------------------------------------------------------ */

/* The place of @word's copy, which is to be filled where it is new. */
static enum err place_word(struct w2v_copy *c, uint32_t word, uint32_t *place)
{
    if (c->place[word] == WORD_NONE) {
        if (mem_grow((void **)&c->word, &c->word_room, sizeof(*c->word),
                     c->held + (size_t)1) ||
            mem_grow((void **)&c->steps, &c->steps_room, sizeof(*c->steps),
                     c->held + (size_t)1))
            return ERR_NOMEM;
        c->steps[c->held] = 0;
        c->word[c->held] = word;
        c->place[word] = c->held++;
    }
    *place = c->place[word];
    c->steps[*place]++;
    return ERR_OK;
}

/* Words become places of their copies. */
static enum err place_pairs(const struct w2v *m, struct w2v_work *k,
                            struct w2v_pairs *p)
{
    size_t outs = p->pairs * (1 + m->negative);
    enum err err = ERR_OK;

    for (size_t i = 0; i < p->pairs && !err; i++)
        err = place_word(&k->copy[W2V_VECTORS], p->in[i], &p->in[i]);
    for (size_t i = 0; i < outs && !err; i++)
        if (p->out[i] != WORD_NONE)
            err = place_word(&k->copy[W2V_CONTEXTS], p->out[i], &p->out[i]);
    return err;
}

/* Places the pairs that were drawn, and sends for the rows that are new. */
static int send_for(const struct w2v *m, struct mlt_worker *w,
                    struct w2v_work *k, struct w2v_block *b)
{
    int err;

    for (int side = 0; side < W2V_SIDES; side++)
        b->from[side] = k->copy[side].held;
    err = (int)place_pairs(m, k, &b->pairs);
    for (int side = 0; side < W2V_SIDES && !err; side++) {
        const struct w2v_copy *c = &k->copy[side];

        b->end[side] = c->held;
        if (b->end[side] > b->from[side])
            err = mlt_get_rows_begin(w, m->table[side],
                                     b->end[side] - b->from[side],
                                     c->word + b->from[side], &b->batch[side]);
    }
    return err;
}

/* Copies the rows that were sent for. @update: the worker's updates begin with
 * what is to be taken off at the clock's end. */
static int take_side(const struct w2v *m, struct mlt_worker *w,
                     struct w2v_work *k, const struct w2v_block *b, int side,
                     bool update)
{
    struct w2v_copy *c = &k->copy[side];
    uint32_t from = b->from[side], n = b->end[side] - from;
    int err;

    if (n == 0)
        return 0;
    if (mem_grow((void **)&c->row, &c->row_room, m->stride * sizeof(*c->row),
                 c->held) ||
        mem_grow((void **)&k->at, &k->at_room, sizeof(*k->at), n))
        return ERR_NOMEM;
    err = mlt_get_rows_wait(w, b->batch[side], k->at);
    for (uint32_t r = 0; r < n && !err; r++) {
        float *row = c->row + (size_t)(from + r) * m->stride, *less;

        memset(row + m->size, 0, (m->stride - m->size) * sizeof(*row));
        memcpy(row, k->at[r], m->size * sizeof(*row));
        if (!update)
            continue;
        less = mlt_update_row(w, m->table[side], c->word[from + r]);
        for (unsigned j = 0; j < m->size; j++)
            less[j] = -row[j];
    }
    return err;
}

static int take(const struct w2v *m, struct mlt_worker *w, struct w2v_work *k,
                const struct w2v_block *b, bool update)
{
    int err = 0;

    for (int side = 0; side < W2V_SIDES && !err; side++)
        err = take_side(m, w, k, b, side, update);
    return err;
}

static void forget(struct w2v_copy *c)
{
    for (uint32_t i = 0; i < c->held; i++)
        c->place[c->word[i]] = WORD_NONE;
    c->held = 0;
}

/* ---- training ------------------------------------------------------------ */

/* The share of its way that a row is to go where all @workers come from the
 * same place with about as many steps as this one. One worker's steps take a
 * row the share 1 - exp(-a) of its way to where it rests, a being the rate
 * times the curvature (at most 1/4, of vectors of length 1) times the steps;
 * all steps one after another would take it 1 - exp(-a workers). The sum of the
 * workers' ways is to be that: rare words go all of their way, the most
 * frequent ones go to the workers' mean. */
static float share_of_way(double rate, uint32_t steps, unsigned workers)
{
    double a = rate * steps, one = -expm1(-a);

    return workers == 1 || !(one > 0)
               ? 1
               : (float)(-expm1(-a * workers) / (workers * one));
}

/* The worker's updates are how far its copies have come. */
static void give_back(const struct w2v *m, struct mlt_worker *w, int side,
                      struct w2v_copy *c, double rate)
{
    for (uint32_t i = 0; i < c->held; i++) {
        const float *row = c->row + (size_t)i * m->stride;
        float *by = mlt_update_row(w, m->table[side], c->word[i]);
        float share = share_of_way(rate, c->steps[i], mlt_worker_count(w));

        for (unsigned j = 0; j < m->size; j++)
            by[j] = share * (row[j] + by[j]);
    }
}

static struct w2v_step step_of(const struct w2v *m, struct w2v_work *k,
                               const struct w2v_block *b, double rate)
{
    return (struct w2v_step){
        .pairs = b->pairs.pairs,
        .targets = 1 + m->negative,
        .stride = m->stride,
        .in = b->pairs.in,
        .out = b->pairs.out,
        .vectors = k->copy[W2V_VECTORS].row,
        .contexts = k->copy[W2V_CONTEXTS].row,
        .rate = (float)rate,
        .change = k->change,
        .curve = &m->curve,
    };
}

/* The loss of the block's last pairs before any of its steps. Within a sentence
 * a step for one pair lowers the next ones' loss, which says little about other
 * sentences, and more the higher the rate is. */
static double loss_ahead(const struct w2v_step *all, size_t *pairs)
{
    struct w2v_step last = *all;

    last.pairs = (all->pairs + AHEAD - 1) / AHEAD;
    last.in += all->pairs - last.pairs;
    last.out += (all->pairs - last.pairs) * all->targets;
    *pairs += last.pairs;
    return w2v_loss(&last);
}

/* Of places first .. end - 1 of the text the next block, from *@at on: its
 * pairs are drawn and its rows are sent for. */
static int draw_block(const struct w2v *m, struct mlt_worker *w,
                      struct w2v_work *k, struct w2v_block *b, uint64_t *at,
                      uint64_t end, struct rng *rng)
{
    uint64_t n = end - *at < BLOCK_WORDS ? end - *at : BLOCK_WORDS;
    int err = (int)w2v_draw(&m->source, m->text.word, m->text.count, *at, n,
                            rng, &b->pairs);

    *at += n;
    return err ? err : send_for(m, w, k, b);
}

/* Places first .. end - 1 of the text. While the steps of a block are taken,
 * the rows of the next are on their way. */
static int train(const struct w2v *m, struct mlt_worker *w, struct w2v_work *k,
                 uint64_t first, uint64_t end, uint64_t seed)
{
    double rate = mlt_tunable(w, "learning_rate", 0), sum = 0;
    uint64_t drawn = first;
    size_t pairs = 0;
    struct rng rng;
    int err = 0;

    rng_init(&rng, seed);
    if (drawn < end)
        err = draw_block(m, w, k, &k->block[0], &drawn, end, &rng);
    for (uint64_t at = first, i = 0; at < end && !err; at += BLOCK_WORDS, i++) {
        struct w2v_block *b = &k->block[i % 2];
        struct w2v_step step;

        if (drawn < end)
            err =
                draw_block(m, w, k, &k->block[(i + 1) % 2], &drawn, end, &rng);
        if (!err)
            err = take(m, w, k, b, true);
        if (err)
            break;
        step = step_of(m, k, b, rate);
        sum += loss_ahead(&step, &pairs);
        w2v_train(&step);
    }
    for (int side = 0; side < W2V_SIDES; side++) {
        if (!err)
            give_back(m, w, side, &k->copy[side], rate);
        forget(&k->copy[side]);
    }
    if (!err && pairs > 0)
        mlt_report(w, sum, pairs);
    return err;
}

static int train_part(const struct w2v *m, struct mlt_worker *w,
                      const struct mlt_clock_ctx *ctx)
{
    unsigned index = mlt_worker_index(w);
    uint64_t shares = m->parts * m->workers;
    uint64_t share = ctx->part * m->workers + index;
    unsigned __int128 all = m->text.count;

    return train(m, w, &m->work[index], (uint64_t)(all * share / shares),
                 (uint64_t)(all * (share + 1) / shares), ctx->seed);
}

/* ---- scoring ------------------------------------------------------------- */

/* Stretches first .. first + count - 1 of what is held out; the pairs are the
 * same each time. */
static int score(const struct w2v *m, struct mlt_worker *w, uint64_t first,
                 uint64_t count)
{
    struct w2v_work *k = &m->work[mlt_worker_index(w)];
    struct w2v_block *b = &k->block[0];
    int err = 0;

    for (uint64_t i = first; i < first + count && !err; i++) {
        uint64_t at = i * W2V_STRETCH, left = m->held_count - at;
        struct w2v_step step;
        struct rng rng;

        rng_init(&rng, rng_mix(m->seed + SEED_OF_HELD, i));
        err = (int)w2v_draw(&m->source, m->held, m->held_count, at,
                            left < W2V_STRETCH ? left : W2V_STRETCH, &rng,
                            &b->pairs);
        if (!err)
            err = send_for(m, w, k, b);
        if (!err)
            err = take(m, w, k, b, false);
        if (err)
            break;
        step = step_of(m, k, b, 0);
        if (b->pairs.pairs > 0)
            mlt_report(w, w2v_loss(&step), b->pairs.pairs);
    }
    for (int side = 0; side < W2V_SIDES; side++)
        forget(&k->copy[side]);
    return err;
}

static int w2v_run_clock(void *app, struct mlt_worker *w,
                         const struct mlt_clock_ctx *ctx)
{
    struct w2v *m = app;
    uint64_t index = mlt_worker_index(w), first = ctx->first, end;
    uint64_t all =
        m->question.count ? m->question.count : w2v_stretches(m->held_count);

    if (ctx->type != MLT_CLOCK_TESTING && !m->evaluate)
        return train_part(m, w, ctx);
    end = first + ctx->count;
    if (ctx->type != MLT_CLOCK_TESTING) {
        first = all * index / m->workers;
        end = all * (index + 1) / m->workers;
    }
    if (m->question.count == 0)
        return score(m, w, first, end - first);
    return w2v_report_answers(m, w, first, end - first,
                              ctx->type == MLT_CLOCK_TESTING);
}

const struct mlt_app_ops app_word2vec = {
    .version = MLT_APP_VERSION,
    .name = "word2vec",
    .summary = "vectors of words, by skip-gram with negative sampling",
    .schema = schema,
    .tunables = tunables,
    .open = w2v_open,
    .declare = w2v_declare,
    .init = w2v_init,
    .run_clock = w2v_run_clock,
    .save = w2v_save,
    .load = w2v_load,
    .close = w2v_close,
    .columns = w2v_columns,
    .predict = w2v_predict,
    .keep = w2v_keep,
    .save_kept = w2v_save_kept,
};
