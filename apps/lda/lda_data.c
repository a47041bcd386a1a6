/* lda: settings, data (lda_app.h). */
#include "apps/data/data.h"
#include "apps/lda/lda_app.h"
#include "apps/settings.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "base/rng.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

static const double default_fraction = 0.1;

/* Distinct streams of the seed: the split takes it as it is. */
enum { SEED_OF_PARTS = 0x9a47, SEED_OF_HELD = 0x4e1d, SEED_OF_TOPICS = 0x70c5 };

enum {
    BYTES_A_TOKEN = 6,       /* document and topic */
    BYTES_AN_ENTRY = 20,     /* of held-out documents, and of runs */
    LOOP_BYTES_AN_ENTRY = 72 /* its copies, and what planning takes */
};

void lda_close(void *app)
{
    struct lda *l = app;

    if (!l)
        return;
    for (unsigned i = 0; l->scratch && i < l->workers; i++) {
        lda_sampler_deinit(&l->scratch[i].sampler);
        mem_free(l->scratch[i].z);
        mem_free(l->scratch[i].delta);
        mem_free(l->scratch[i].phi);
        mem_free(l->scratch[i].mix);
        mem_free(l->scratch[i].row);
        mem_free(l->scratch[i].count);
    }
    mem_free(l->scratch);
    mem_free(l->summary);
    mem_free(l->column);
    mem_free(l->title);
    vocabulary_deinit(&l->vocabulary);
    corpus_deinit(&l->data);
    lda_layout_deinit(&l->layout);
    lda_held_deinit(&l->held);
    lda_loop_free(l);
    mem_free(l);
}

uint16_t lda_first_topic(const struct lda *l, uint32_t doc, uint32_t word,
                         uint32_t nth)
{
    uint64_t token = (uint64_t)word << 32 | nth;
    uint64_t seed = rng_mix(l->seed + SEED_OF_TOPICS, doc);

    return (uint16_t)((rng_mix(seed, token) >> 32) * l->prior.topics >> 32);
}

static enum err choose_test(const struct settings *s, struct corpus *train,
                            struct corpus *test, struct fault *f)
{
    double fraction =
        s->test_fraction < 0 ? default_fraction : s->test_fraction;

    if (s->test)
        return data_load_bow(s->test, s->folder, test, f);
    if (corpus_split(train, fraction, s->seed, test))
        return fault_set(f, ERR_NOMEM, "%s: out of memory", s->data);
    if (train->tokens == 0)
        return fault_set(f, ERR_INVAL, "%s: no word is left for training",
                         s->data);
    return ERR_OK;
}

/* The vocabulary, if one is named, has a word for every number. */
static enum err read_vocabulary(struct lda *l, const struct settings *s,
                                struct corpus *train, struct fault *f)
{
    const char *spec = json_string_value(json_object_get(s->json, "vocab"));
    enum err err;

    if (!spec)
        return ERR_OK;
    err = data_load_vocabulary(spec, s->folder, &l->vocabulary, f);
    if (err)
        return err;
    if (l->vocabulary.words < train->words)
        return fault_set(f, ERR_FORMAT,
                         "%s: %" PRIu32 " words, but %s has words numbered up "
                         "to %" PRIu32 ": expected a line for each",
                         spec, l->vocabulary.words, s->data, train->words);
    train->words = l->vocabulary.words;
    return ERR_OK;
}

/* What the training documents hold, for who looks at the run (docs/data.md).
 * NULL: out of memory. */
static char *summary_of(const struct corpus *c)
{
    json_t *o =
        json_pack("{s:s, s:I, s:I, s:I, s:I}", "kind", "documents", "samples",
                  (json_int_t)c->docs, "words", (json_int_t)c->words, "entries",
                  (json_int_t)c->entries, "tokens", (json_int_t)c->tokens);
    char *text = o ? json_write(o, 0) : NULL;

    json_decref(o);
    return text;
}

static enum err arrange(struct lda *l, const struct settings *s,
                        struct corpus *train, const struct corpus *test)
{
    uint32_t parts =
        s->clocks == 0 ? (uint32_t)LDA_CLOCKS_DEFAULT : (uint32_t)s->clocks;
    enum err err = lda_held_init(&l->held, test, train->words,
                                 rng_mix(l->seed, SEED_OF_HELD));

    if (err)
        return err;
    l->summary = summary_of(train);
    if (!l->summary)
        return ERR_NOMEM;
    if (l->loop.wanted)
        return lda_loop_take(l, train, parts);
    return lda_layout_init(&l->layout, train, parts, l->workers,
                           rng_mix(l->seed, SEED_OF_PARTS));
}

static enum err load_training(struct lda *l, const struct settings *s,
                              uint32_t topics, double alpha, double beta,
                              struct fault *f)
{
    struct corpus train = {0}, test = {0};
    enum err err = data_load_bow(s->data, s->folder, &train, f);

    if (!err)
        err = read_vocabulary(l, s, &train, f);
    if (!err)
        err = choose_test(s, &train, &test, f);
    if (!err && train.tokens > INT32_MAX)
        err = fault_set(f, ERR_LIMIT,
                        "%s: %" PRIu64 " tokens, but totals are counted up to "
                        "2^31 - 1",
                        s->data, train.tokens);
    if (!err)
        err = data_memory_check(
            s->data,
            train.tokens * BYTES_A_TOKEN +
                (train.entries + test.entries) * BYTES_AN_ENTRY +
                l->loop.wanted * train.entries * LOOP_BYTES_AN_ENTRY,
            data_memory_limit(), f);
    if (!err) {
        lda_prior_init(&l->prior, topics, train.words, alpha, beta);
        err = arrange(l, s, &train, &test);
        if (err)
            fault_set(f, err, "%s: %s", s->data, err_text(err));
    }
    corpus_deinit(&train);
    corpus_deinit(&test);
    return err;
}

/* Evaluation: the model will say which words it knows; until then all. */
static enum err load_evaluation(struct lda *l, const struct settings *s,
                                uint32_t topics, double alpha, double beta,
                                struct fault *f)
{
    enum err err = data_load_bow(s->data, s->folder, &l->data, f);

    if (!err)
        lda_prior_init(&l->prior, topics, l->data.words, alpha, beta);
    return err;
}

static enum err read_parallel(struct lda *l, const struct settings *s,
                              struct fault *f)
{
    const json_t *parallel = json_object_get(s->json, "parallel");
    const char *word = parallel ? json_string_value(parallel) : "data";

    l->loop.wanted = word && strcmp(word, "loop") == 0 && !s->evaluate;
    if (!word || (strcmp(word, "loop") != 0 && strcmp(word, "data") != 0))
        return fault_set(f, ERR_INVAL,
                         "parallel: expected \"data\" or \"loop\"");
    if (l->loop.wanted && s->clocks > MLT_LOOP_PARTS_MAX)
        return fault_set(f, ERR_INVAL,
                         "clock: %" PRIu64 " clocks a pass, expected at most "
                         "%d with \"parallel\": \"loop\"",
                         s->clocks, MLT_LOOP_PARTS_MAX);
    return ERR_OK;
}

static enum err open_lda(struct lda *l, const struct mlt_app_config *config,
                         struct fault *f)
{
    struct settings s;
    uint32_t topics;
    double alpha, beta;
    enum err err = settings_init(&s, config, f);

    if (err)
        return err;
    data_memory_allow(config->memory_limit);
    topics = (uint32_t)settings_number(&s, "topics", 100);
    alpha = settings_number(&s, "alpha", 0.1);
    beta = settings_number(&s, "beta", 0.01);
    assert(topics >= 1 && topics <= LDA_TOPICS_MAX);
    l->seed = s.seed;
    l->evaluate = s.evaluate;
    l->predict = s.predict != NULL;
    l->workers = config->workers;
    err = read_parallel(l, &s, f);
    if (err)
        ; /* said */
    else if (s.evaluate)
        err = load_evaluation(l, &s, topics, alpha, beta, f);
    else
        err = load_training(l, &s, topics, alpha, beta, f);
    settings_deinit(&s);
    return err;
}

int lda_open(const struct mlt_app_config *config, struct mlt_app_info *info,
             void **app, struct mlt_error *error)
{
    struct lda *l = mem_calloc(1, sizeof(*l));
    struct fault f = {0};

    assert(config->workers >= 1);
    if (!l || open_lda(l, config, &f)) {
        if (!l)
            fault_set(&f, ERR_NOMEM, "lda: out of memory");
        lda_close(l);
        return settings_fault(&f, error);
    }
    *info = (struct mlt_app_info){
        .samples = l->evaluate ? l->data.docs : l->layout.tokens,
        .validation_samples = l->evaluate ? l->data.docs : l->held.docs,
        .order = MLT_ORDER_PARTS,
        .parts = l->evaluate ? 1 : l->layout.parts,
        .metric = "perplexity",
        .metric_higher_better = 0,
        .metric_reduction = MLT_EXP_MEAN,
        .loss_floor = 0,
        .data = l->summary,
    };
    *app = l;
    return 0;
}
