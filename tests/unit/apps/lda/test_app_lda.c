#include "apps/data/data.h"
#include "apps/lda/lda.h"
#include "apps/lda/lda_app.h"
#include "base/mem.h"
#include "tests/unit/fixture/app_run.h"
#include "tests/unit/fixture/scratch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/rows_whole.h"

#define SMALL                                                                  \
    "gen:bow?docs=120&words=80&tokens=6000&topics=4&alpha=0.1&beta=0.1"

static const char small[] =
    "{\"app\": {\"name\": \"lda\", \"topics\": %u, \"clock\": %u,"
    " \"test_fraction\": %g, \"data\": \"" SMALL "\"},"
    " \"cluster\": {\"workers\": %u}%s}";

static const char ssp[] = ", \"ps\": {\"consistency\": \"ssp\"}";

static double *table(struct app_run *r, const char *name, uint64_t rows,
                     uint32_t width)
{
    double *values = calloc(rows * width, sizeof(*values));

    assert_non_null(values);
    assert_int_equal(
        rows_read_whole(host_ps(r->host), 1, name, 0, rows, values), ERR_OK);
    return values;
}

/* Counts of every topic add up to its total, and all to the tokens. */
static void check_sums(struct app_run *r, uint32_t words, uint32_t topics)
{
    double *word = table(r, "word_topic", words, topics);
    double *total = table(r, "topic_total", 1, topics);
    double all = 0;

    for (uint32_t k = 0; k < topics; k++) {
        double sum = 0;

        for (uint32_t w = 0; w < words; w++) {
            assert_true(word[w * topics + k] >= 0);
            sum += word[w * topics + k];
        }
        assert_true(sum == total[k]);
        all += sum;
    }
    assert_true(all == (double)host_facts(r->host)->info.samples);
    free(word);
    free(total);
}

/* Training raises the likelihood and lowers the perplexity of held-out
 * documents, from that of no topics (about 70) to near that of the topics
 * underneath. */
static void lda_training_raises_the_likelihood(void **state)
{
    struct app_run r;
    double first, last, before, after;

    (void)state;
    app_run_open(&r, &app_lda, 1, "{}", small, 4u, 5u, 0.2, 1u, "");
    before = exp(app_run_metric(&r));
    first = app_run_train(&r, 1);
    last = app_run_train(&r, 59);
    after = exp(app_run_metric(&r));
    if (!(last < first - 0.5 && before > 1.3 * after))
        fail_msg("loss %g to %g, perplexity %g to %g", first, last, before,
                 after);
    check_sums(&r, 80, 4);
    app_run_close(&r);
}

/* No count is lost or doubled, after any clock, by any number of workers, with
 * and without barriers. */
static void lda_counts_stay_those_of_the_tokens(void **state)
{
    (void)state;
    for (unsigned workers = 1; workers <= 4; workers++)
        for (int barriers = 0; barriers < 2; barriers++) {
            struct app_run r;
            double loss;

            app_run_open(&r, &app_lda, 1, "{\"staleness\": 2}", small, 6u, 3u,
                         0.0, workers, barriers ? "" : ssp);
            check_sums(&r, 80, 6);
            r.clocks = 1; /* an "epoch" is a clock now */
            for (int i = 0; i < 5; i++) {
                app_run_train(&r, 1);
                check_sums(&r, 80, 6);
            }
            r.clocks = 90;
            loss = app_run_train(&r, 2);
            check_sums(&r, 80, 6);
            assert_true(loss < 5.2);
            app_run_close(&r);
        }
}

/* The state before training does not depend on the workers, nor on the clock.
 */
static void lda_first_state_does_not_depend_on_the_workers(void **state)
{
    struct app_run one, many;
    double *a, *b;

    (void)state;
    app_run_open(&one, &app_lda, 1, "{}", small, 5u, 4u, 0.1, 1u, "");
    a = table(&one, "word_topic", 80, 5);
    for (unsigned workers = 2; workers <= 4; workers++) {
        app_run_open(&many, &app_lda, 1, "{}", small, 5u, workers, 0.1, workers,
                     "");
        b = table(&many, "word_topic", 80, 5);
        assert_memory_equal(a, b, 400 * sizeof(*a));
        assert_true(fabs(app_run_metric(&one) - app_run_metric(&many)) < 1e-9);
        free(b);
        app_run_close(&many);
    }
    free(a);
    app_run_close(&one);
}

/* log p(w, z) of the state before training by its definition. */
static double first_log(const struct corpus *c, struct lda *l, double alpha,
                        double beta, uint32_t topics)
{
    double *word = calloc((size_t)c->words * topics, sizeof(*word));
    double *total = calloc(topics, sizeof(*total));
    double *doc = calloc(topics, sizeof(*doc));
    double log = 0;

    assert_true(word && total && doc);
    for (uint64_t d = 0; d < c->docs; d++) {
        double length = 0;

        memset(doc, 0, topics * sizeof(*doc));
        for (uint64_t i = c->begin[d]; i < c->begin[d + 1]; i++)
            for (uint32_t j = 0; j < c->count[i]; j++) {
                uint16_t k = lda_first_topic(l, (uint32_t)d, c->word[i], j);

                word[c->word[i] * topics + k]++;
                total[k]++;
                doc[k]++;
                length++;
            }
        log += lgamma(topics * alpha) - lgamma(length + topics * alpha);
        for (uint32_t k = 0; k < topics; k++)
            log += lgamma(doc[k] + alpha) - lgamma(alpha);
    }
    for (uint32_t k = 0; k < topics; k++) {
        log += lgamma(c->words * beta) - lgamma(total[k] + c->words * beta);
        for (uint32_t w = 0; w < c->words; w++)
            log += lgamma(word[w * topics + k] + beta) - lgamma(beta);
    }
    free(word);
    free(total);
    free(doc);
    return log / (double)c->tokens;
}

/* The loss of a pass that learns nothing is -log p(w, z) a token, with any
 * number of workers. */
static void lda_loss_is_the_joint_likelihood(void **state)
{
    struct corpus c;
    struct lda l = {.seed = 1};

    (void)state;
    assert_int_equal(data_load_bow(SMALL, NULL, &c, NULL), ERR_OK);
    lda_prior_init(&l.prior, 7, c.words, 0.1, 0.01);
    for (unsigned workers = 1; workers <= 3; workers++) {
        struct app_run r;
        struct host_slice s = {2, BRANCH_PROBE, NULL, 4, 4};
        struct host_result result;
        const struct progress_window *w;
        double want = -first_log(&c, &l, 0.1, 0.01, 7);

        app_run_open(&r, &app_lda, 1, "{}", small, 7u, 4u, 0.0, workers, "");
        s.setting = &r.setting;
        assert_int_equal(ps_fork(host_ps(r.host), 2, 1, BRANCH_PROBE), ERR_OK);
        assert_int_equal(host_slice_begin(r.host, &s, NULL), ERR_OK);
        assert_int_equal(host_slice_end(r.host, &result, NULL), ERR_OK);
        w = host_slice_window(r.host, 0);
        assert_int_equal(w->samples, 6000);
        if (!(fabs(w->sum / 6000 - want) < 1e-9 * want))
            fail_msg("%.15g, by definition %.15g", w->sum / 6000, want);
        app_run_close(&r);
    }
    corpus_deinit(&c);
}

/* With one topic everything is known: the likelihood of word counts, and that a
 * word is predicted by its share. */
static void lda_with_one_topic_is_word_counts(void **state)
{
    struct app_run r;
    const double v = 3, b = 0.5, n = 6;
    double want = lgamma(v * b) - lgamma(n + v * b) + lgamma(3 + b) +
                  lgamma(2 + b) + lgamma(1 + b) - v * lgamma(b);

    (void)state;
    scratch_text("train", "2 0:2 1:1\n0\n2 0:1 2:2\n");
    scratch_text("test", "1 1:4\n1 7:5\n");
    app_run_open(&r, &app_lda, 1, "{}",
                 "{\"app\": {\"name\": \"lda\", \"topics\": 1, \"beta\": 0.5,"
                 " \"clock\": \"pass\", \"data\": \"%s\", \"test\": \"%s\"}}",
                 scratch_path("train"), scratch_path("test"));
    assert_int_equal(host_facts(r.host)->info.validation_samples, 1);
    assert_true(fabs(app_run_train(&r, 3) + want / n) < 1e-9);
    assert_true(fabs(app_run_metric(&r) + log(1.5 / 7.5)) < 1e-6);
    app_run_close(&r);
}

/* One seed gives the same bits, another one does not; models without
 * barriers are no different for one worker. */
static void lda_is_deterministic_for_a_seed(void **state)
{
    double loss[4];
    uint64_t seed[] = {5, 5, 6, 5};

    (void)state;
    for (int i = 0; i < 4; i++) {
        struct app_run r;

        app_run_open(&r, &app_lda, seed[i], "{}", small, 8u, 4u, 0.1, 1u,
                     i == 3 ? ssp : "");
        loss[i] = app_run_train(&r, 5);
        app_run_close(&r);
    }
    assert_true(loss[0] == loss[1]);
    assert_true(loss[0] != loss[2]);
    assert_true(loss[0] == loss[3]);
}

/* Windows of a slice of @branch: a sum a clock. */
static void trace(struct app_run *r, branch_id branch, uint32_t clocks,
                  double out[])
{
    struct host_slice s = {branch, BRANCH_TRAINING, &r->setting, clocks, 1};
    struct host_result result;

    assert_int_equal(host_slice_begin(r->host, &s, NULL), ERR_OK);
    assert_int_equal(host_slice_end(r->host, &result, NULL), ERR_OK);
    for (uint32_t i = 0; i < clocks; i++)
        out[i] = host_slice_window(r->host, i)->sum;
}

/* A forked branch goes on exactly as its parent would have, also when both run
 * in turns: loss traces and tables are the same to the last bit. */
static void lda_fork_continues_as_its_parent(void **state)
{
    enum { CLOCKS = 23 };
    double parent[CLOCKS], child[CLOCKS], *a, *b;
    struct app_run r;

    (void)state;
    app_run_open(&r, &app_lda, 1, "{}", small, 12u, 10u, 0.1, 1u, "");
    trace(&r, 1, 7, parent);
    assert_int_equal(ps_fork(host_ps(r.host), 2, 1, BRANCH_TRAINING), ERR_OK);
    trace(&r, 1, 11, parent);
    trace(&r, 2, 5, child);
    trace(&r, 1, CLOCKS - 11, parent + 11);
    trace(&r, 2, CLOCKS - 5, child + 5);
    assert_memory_equal(parent, child, sizeof(parent));
    a = table(&r, "word_topic", 80, 12);
    b = calloc(80 * 12, sizeof(*b));
    assert_int_equal(
        rows_read_whole(host_ps(r.host), 2, "word_topic", 0, 80, b), ERR_OK);
    assert_memory_equal(a, b, 80 * 12 * sizeof(*a));
    free(a);
    free(b);
    app_run_close(&r);
}

/* Generated topics are found again: each has one of ours that differs by little
 * in total variation. */
static void lda_recovers_known_topics(void **state)
{
    static const char spec[] = "gen:bow?docs=200&words=100&tokens=20000&"
                               "topics=5&alpha=0.1&beta=0.1";
    enum { K = 5, V = 100 };
    static double truth[K * V];
    double *word, *total;
    struct app_run r;

    (void)state;
    assert_int_equal(gen_bow_topics(spec, truth, NULL), ERR_OK);
    app_run_open(&r, &app_lda, 1, "{}",
                 "{\"app\": {\"name\": \"lda\", \"topics\": 5, \"clock\": 4,"
                 " \"test_fraction\": 0, \"beta\": 0.05, \"data\": \"%s\"},"
                 " \"cluster\": {\"workers\": 2}}",
                 spec);
    app_run_train(&r, 100);
    word = table(&r, "word_topic", V, K);
    total = table(&r, "topic_total", 1, K);
    for (int k = 0; k < K; k++) {
        double best = 1;

        for (int j = 0; j < K; j++) {
            double distance = 0;

            for (int w = 0; w < V; w++)
                distance +=
                    fabs(truth[k * V + w] - word[w * K + j] / total[j]) / 2;
            best = distance < best ? distance : best;
        }
        if (best > 0.15)
            fail_msg("topic %d: nearest is %g away", k, best);
    }
    free(word);
    free(total);
    app_run_close(&r);
}

/* ---- the model ----------------------------------------------------------- */

static void write_two_themes(void)
{
    FILE *train = fopen(scratch_path("train"), "w");
    FILE *test = fopen(scratch_path("test"), "w");

    assert_true(train && test);
    for (int d = 0; d < 60; d++) {
        int theme = d % 2 * 3;

        fprintf(d % 6 == 5 ? test : train, "3 %d:%d %d:4 %d:2\n", theme,
                3 + d % 3, theme + 1, theme + 2);
    }
    fclose(train);
    fclose(test);
    scratch_text("vocab", "ship\nsea\nwave\nbread\r\nb\xe4ker\noven\n");
}

static void open_two_themes(struct app_run *r)
{
    write_two_themes();
    app_run_open(r, &app_lda, 3, "{}",
                 "{\"app\": {\"name\": \"lda\", \"topics\": 2, \"clock\": 2,"
                 " \"data\": \"%s\", \"test\": \"%s\", \"vocab\": \"%s\"}}",
                 scratch_path("train"), scratch_path("test"),
                 scratch_path("vocab"));
}

static const char *word_at(const json_t *topics, size_t k, size_t i)
{
    const json_t *words = json_object_get(
        json_array_get(json_object_get(topics, "topics"), k), "words");
    const char *text =
        json_string_value(json_object_get(json_array_get(words, i), "word"));

    assert_non_null(text);
    return text;
}

/* A saved model has the top words of each topic in words, and scores on the
 * file it was validated with what it scored in training. */
static void lda_saved_model_names_words_and_scores_alike(void **state)
{
    struct app_run r;
    struct host_score score;
    char config[512];
    json_t *topics;
    double metric;
    size_t n, sea;
    unsigned char *text;

    (void)state;
    open_two_themes(&r);
    app_run_train(&r, 30);
    metric = app_run_metric(&r);
    scratch_mkdir("model");
    app_run_save(&r, scratch_path("model"));
    app_run_close(&r);
    text = scratch_read("model/topics.json", &n);
    topics = json_loadb((char *)text, n, 0, NULL);
    free(text);
    assert_non_null(topics);
    sea = strcmp(word_at(topics, 0, 0), "ship") == 0 ||
                  strcmp(word_at(topics, 0, 0), "sea") == 0
              ? 0
              : 1;
    assert_string_equal(word_at(topics, sea, 2), "wave");
    assert_string_equal(word_at(topics, 1 - sea, 2), "oven");
    assert_true(strcmp(word_at(topics, 1 - sea, 0), "b?ker") == 0 ||
                strcmp(word_at(topics, 1 - sea, 1), "b?ker") == 0);
    json_decref(topics);
    snprintf(config, sizeof(config),
             "{\"app\": {\"name\": \"lda\", \"data\": \"%s\"}}",
             scratch_path("test"));
    score = app_run_evaluate(&app_lda, scratch_path("model"), config);
    assert_true(score.metric > 1 && score.metric < 4);
    assert_true(fabs(log(score.metric) - metric) < 0.02);
    assert_true(fabs(log(score.metric) - score.loss) < 1e-9);
}

static enum err evaluate(const char *data, struct fault *f)
{
    json_t *json = json_pack("{s:{s:s, s:s}}", "app", "name", "lda", "data",
                             scratch_path(data));
    struct host_config c = {.app = &app_lda,
                            .config = json,
                            .folder = ".",
                            .seed = 1,
                            .evaluate = scratch_path("model")};
    struct host *host = NULL;
    enum err err = host_open(&c, &host, f);

    json_decref(json);
    host_close(host);
    return err;
}

/* A model that is damaged or incomplete, and data of which it knows no word,
 * are refused in words. */
static void lda_damaged_model_is_refused(void **state)
{
    static const char *const files[] = {"word_topic.npy", "topic_total.npy"};
    struct app_run r;
    struct fault f = {0};
    unsigned char *bytes;
    size_t n;

    (void)state;
    open_two_themes(&r);
    scratch_mkdir("model");
    app_run_save(&r, scratch_path("model"));
    assert_int_equal(evaluate("test", &f), ERR_OK);
    scratch_text("foreign", "1 6:4\n1 9:3\n");
    assert_int_equal(evaluate("foreign", &f), ERR_INVAL);
    assert_non_null(strstr(f.text, "knows"));
    for (size_t i = 0; i < 2; i++) {
        char name[64];

        snprintf(name, sizeof(name), "model/%s", files[i]);
        bytes = scratch_read(name, &n);
        scratch_write(name, bytes, n - 1);
        assert_int_equal(evaluate("test", &f), ERR_FORMAT);
        assert_non_null(strstr(f.text, files[i]));
        unlink(scratch_path(name));
        assert_int_not_equal(evaluate("test", &f), ERR_OK);
        assert_non_null(strstr(f.text, files[i]));
        bytes[20] = 'x'; /* not an array's header any more */
        scratch_write(name, bytes, n);
        assert_int_not_equal(evaluate("test", &f), ERR_OK);
        free(bytes);
        app_run_save(&r, scratch_path("model"));
    }
    app_run_close(&r);
}

/* Where the top words cannot be written, saving fails and says so. */
static void lda_save_without_room_fails(void **state)
{
    struct app_run r;
    struct fault f = {0};
    json_t *json = NULL;
    uint64_t bytes;

    (void)state;
    open_two_themes(&r);
    scratch_mkdir("model");
    scratch_mkdir("model/topics.json.tmp");
    assert_int_equal(
        host_save(r.host, 1, scratch_path("model"), &bytes, &json, &f), ERR_IO);
    assert_non_null(strstr(f.text, "topics.json"));
    app_run_close(&r);
}

/* ---- settings ------------------------------------------------------------ */

/* Memory of the workers is checked before it is taken: 100,000 words
 * of a held-out document by 32,768 topics, 64 times, is 800 GB. */
static void lda_scratch_beyond_the_memory_is_refused(void **state)
{
    static char text[1 << 20];
    size_t len = (size_t)sprintf(text, "100000");

    (void)state;
    for (int i = 0; i < 100000; i++)
        len += (size_t)sprintf(text + len, " %d:2", i);
    scratch_write("wide", text, len);
    app_run_refused(&app_lda, ERR_LIMIT, "raise clock",
                    "{\"app\": {\"data\": \"%s\", \"test\": \"%s\","
                    " \"topics\": 32768}, \"cluster\": {\"workers\": 64}}",
                    scratch_path("wide"), scratch_path("wide"));
}

/* Bad settings and data are refused in words. */
static void lda_bad_configurations_are_refused(void **state)
{
    (void)state;
    scratch_text("bad", "1 2:3\n2 2:x 1:1\n");
    scratch_text("good", "1 2:3\n2 2:1 1:1\n");
    scratch_text("short", "a\nb\n");
    scratch_text("ratings", "1,2,3\n");
    app_run_refused(&app_lda, ERR_INVAL, "data", "{\"app\": {}}");
    app_run_refused(&app_lda, ERR_INVAL, "topics",
                    "{\"app\": {\"data\": \"gen:bow\", \"topics\": 0}}");
    app_run_refused(&app_lda, ERR_INVAL, "topics",
                    "{\"app\": {\"data\": \"gen:bow\", \"topics\": 32769}}");
    app_run_refused(&app_lda, ERR_INVAL, "alpha",
                    "{\"app\": {\"data\": \"gen:bow\", \"alpha\": 0}}");
    app_run_refused(&app_lda, ERR_INVAL, "beta",
                    "{\"app\": {\"data\": \"gen:bow\", \"beta\": -1}}");
    app_run_refused(&app_lda, ERR_INVAL, "clock",
                    "{\"app\": {\"data\": \"gen:bow\", \"clock\": "
                    "\"batch\"}}");
    app_run_refused(&app_lda, ERR_FORMAT, "bad: line 2",
                    "{\"app\": {\"data\": \"%s\"}}", scratch_path("bad"));
    app_run_refused(&app_lda, ERR_UNSUPPORTED, "found ratings",
                    "{\"app\": {\"data\": \"%s\"}}", scratch_path("ratings"));
    app_run_refused(&app_lda, ERR_FORMAT, "short: 2 words",
                    "{\"app\": {\"data\": \"%s\", \"vocab\": \"%s\"}}",
                    scratch_path("good"), scratch_path("short"));
    app_run_refused(&app_lda, ERR_NOENT, "nothing_here",
                    "{\"app\": {\"data\": \"%s\", \"vocab\": "
                    "\"nothing_here\"}}",
                    scratch_path("good"));
    app_run_refused(&app_lda, ERR_NOENT, "nothing_here",
                    "{\"app\": {\"data\": \"%s\", \"test\": "
                    "\"nothing_here\"}}",
                    scratch_path("good"));
    app_run_refused(&app_lda, ERR_INVAL, "no word is left",
                    "{\"app\": {\"data\": \"%s\", \"test_fraction\": "
                    "0.999999}}",
                    scratch_path("good"));
    app_run_refused(&app_lda, ERR_INVAL, "expected bags of words",
                    "{\"app\": {\"data\": \"gen:ratings\"}}");
}

/* Every allocation that fails while opening is reported and undone. */
static void lda_allocation_failure_leaves_nothing(void **state)
{
    int64_t before = mem_outstanding();
    int nth, failed = 1;

    (void)state;
    write_two_themes();
    for (nth = 1; failed; nth++) {
        struct mlt_app_config c = {
            .size = sizeof(c),
            .settings = "{\"data\": \"train\", \"vocab\": \"vocab\","
                        " \"test_fraction\": 0.3}",
            .folder = scratch_folder(),
            .workers = 2,
            .seed = 1};
        struct mlt_app_info info;
        struct mlt_error error = {0};
        void *app = NULL;
        int err;

        mem_fail_at(nth, 0);
        err = app_lda.open(&c, &info, &app, &error);
        failed = mem_failed();
        mem_fail_at(0, 0);
        assert_int_equal(err, failed ? ERR_NOMEM : 0);
        assert_int_equal(err, error.code);
        if (!err)
            app_lda.close(app);
        assert_int_equal(mem_outstanding(), before);
    }
    assert_true(nth > 20);
    app_lda.close(NULL);
}

/* The corpus of the Associated Press: train perplexity is published as 1,623 at
 * 50 topics after 200 sweeps; that of held-out halves falls clearly below that
 * of single words' frequencies (about 4,000). */
static void lda_learns_the_ap_corpus(void **state)
{
    const char *real = scratch_real_data();
    struct app_run r;
    double before, after;

    (void)state;
    if (!real) {
        puts("skip: real data (set MLTUNE_DATA)");
        skip();
    }
    app_run_open(&r, &app_lda, 1, "{}",
                 "{\"app\": {\"name\": \"lda\", \"topics\": 50, \"data\": "
                 "\"%s/ap.ldac.xz\", \"vocab\": \"%s/ap.vocab.txt.xz\"}}",
                 real, real);
    before = exp(app_run_metric(&r));
    app_run_train(&r, 30);
    after = exp(app_run_metric(&r));
    if (!(before > 4000 && after < 3300))
        fail_msg("perplexity %g to %g", before, after);
    check_sums(&r, 10473, 50);
    app_run_close(&r);
}

#define IN_FOLDER(name)                                                        \
    cmocka_unit_test_setup_teardown(name, scratch_make, scratch_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lda_training_raises_the_likelihood),
        cmocka_unit_test(lda_counts_stay_those_of_the_tokens),
        cmocka_unit_test(lda_first_state_does_not_depend_on_the_workers),
        cmocka_unit_test(lda_loss_is_the_joint_likelihood),
        IN_FOLDER(lda_with_one_topic_is_word_counts),
        cmocka_unit_test(lda_is_deterministic_for_a_seed),
        cmocka_unit_test(lda_fork_continues_as_its_parent),
        cmocka_unit_test(lda_recovers_known_topics),
        IN_FOLDER(lda_saved_model_names_words_and_scores_alike),
        IN_FOLDER(lda_damaged_model_is_refused),
        IN_FOLDER(lda_save_without_room_fails),
        IN_FOLDER(lda_scratch_beyond_the_memory_is_refused),
        IN_FOLDER(lda_bad_configurations_are_refused),
        IN_FOLDER(lda_allocation_failure_leaves_nothing),
        cmocka_unit_test(lda_learns_the_ap_corpus),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
