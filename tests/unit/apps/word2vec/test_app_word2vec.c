/* word2vec in its host: what it learns, alone and with others, and its model.
 */
#include "apps/data/data.h"
#include "apps/word2vec/w2v_app.h"
#include "apps/word2vec/word2vec.h"
#include "base/mem.h"
#include "tests/unit/fixture/app_run.h"
#include "tests/unit/fixture/scratch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/fixture/check.h"

#define SPEC "gen:text?tokens=60000&rows=6&columns=6&near=4"

static void open_run(struct app_run *r, unsigned workers, const char *ps)
{
    app_run_open(r, &app_word2vec, 1, "{\"learning_rate\": 0.05}",
                 "{\"app\": {\"name\": \"word2vec\", \"data\": \"" SPEC
                 "\", \"size\": 20, \"sample\": 0, \"vectors_file\": \"both\"},"
                 " \"cluster\": {\"workers\": %u},"
                 " \"tunables\": {\"learning_rate\": {\"type\": \"float\","
                 " \"min\": 0.001, \"max\": 1}}%s}",
                 workers, ps);
}

/* Its learning rate acts, though no rule of a table has one. */
static void the_learning_rate_acts(void **state)
{
    struct app_run r;

    (void)state;
    open_run(&r, 2, ", \"ps\": {\"consistency\": \"ssp\"}");
    app_run_tunables(&r, "[\"learning_rate\", \"staleness\", \"warmup\"]");
    app_run_close(&r);
}

/* Analogies and similarities that the generator puts into the text. */
static void write_questions(void)
{
    char text[65536], *p = text;

    p += sprintf(p, ": cells\n");
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < 5; j++)
            p += sprintf(p, "w%d_%d w%d_%d w%d_%d w%d_%d\n", i, j, i, j + 1,
                         i + 1, j, i + 1, j + 1);
    scratch_text("analogies", text);
    p = text + sprintf(text, "word,word,score\n");
    for (int i = 0; i < 36; i++)
        for (int k = 0; k < i; k++)
            p += sprintf(p, "w%d_%d,w%d_%d,%d\n", i / 6, i % 6, k / 6, k % 6,
                         (i / 6 == k / 6) + (i % 6 == k % 6));
    scratch_text("pairs", text);
}

/* Whatever the workers and the model, the vectors know which words go together:
 * chance would answer one of 80, and correlate by 0. */
static void vectors_answer_what_the_text_knows(void **state)
{
    static const struct {
        unsigned workers;
        const char *ps;
    } runs[] = {{1, ""},
                {3, ""},
                {4, ", \"ps\": {\"consistency\": \"ssp\", \"staleness\": 1}"}};

    (void)state;
    write_questions();
    for (size_t i = 0; i < sizeof(runs) / sizeof(*runs); i++) {
        struct app_run r;
        struct host_score score;
        char dir[512], config[768], name[16];
        double loss, metric;

        open_run(&r, runs[i].workers, runs[i].ps);
        app_run_train(&r, 2);
        loss = app_run_train(&r, 2);
        metric = app_run_metric(&r);
        /* Six targets at vectors of 0: 6 log 2. */
        assert_true(metric < 0.6 * 6 * log(2));
        /* The loss that is told is that of words to come. */
        assert_true(fabs(loss - metric) < 0.1 * metric);
        snprintf(name, sizeof(name), "model%zu", i);
        scratch_mkdir(name);
        snprintf(dir, sizeof(dir), "%s", scratch_path(name));
        app_run_save(&r, dir);
        app_run_close(&r);
        snprintf(config, sizeof(config),
                 "{\"app\": {\"name\": \"word2vec\", \"data\": \"%s\"}}",
                 scratch_path("analogies"));
        score = app_run_evaluate(&app_word2vec, dir, config);
        if (!(score.metric > 0.8))
            fail_msg("%u workers answer %g of the analogies", runs[i].workers,
                     score.metric);
        assert_true(fabs(score.loss - (1 - score.metric)) < 1e-9);
        snprintf(config, sizeof(config),
                 "{\"app\": {\"name\": \"word2vec\", \"data\": \"%s\"}}",
                 scratch_path("pairs"));
        score = app_run_evaluate(&app_word2vec, dir, config);
        if (!(score.metric > 0.6))
            fail_msg("%u workers: correlation %g", runs[i].workers,
                     score.metric);
        score = app_run_evaluate(
            &app_word2vec, dir,
            "{\"app\": {\"name\": \"word2vec\", \"data\": \"" SPEC
            "&seed=2\", \"sample\": 0}}");
        assert_true(fabs(score.metric - metric) < 0.1 * metric);
    }
}

/* A text of its own for validation: words that training has not are dropped. */
static void validation_may_be_a_text_of_its_own(void **state)
{
    struct app_run r;

    (void)state;
    scratch_text("other", "w0_0 r0_0 c0_0 unknown r0_1\n");
    app_run_open(&r, &app_word2vec, 1, "{\"learning_rate\": 0.05}",
                 "{\"app\": {\"name\": \"word2vec\", \"data\": \"" SPEC
                 "\", \"test\": \"%s\", \"size\": 8, \"sample\": 0}}",
                 scratch_path("other"));
    assert_true(fabs(app_run_metric(&r) - 6 * log(2)) < 1e-3);
    app_run_train(&r, 2);
    assert_true(app_run_metric(&r) < 0.8 * 6 * log(2));
    app_run_close(&r);
}

/* word2vec's own files hold the table's values. */
static void vectors_files_hold_the_table(void **state)
{
    struct app_run r;
    char dir[512], word[64];
    unsigned words, size;
    char *text, *p;
    unsigned char *binary;
    float first;
    size_t n, bytes;
    double value;

    (void)state;
    open_run(&r, 1, "");
    app_run_train(&r, 1);
    scratch_mkdir("model");
    snprintf(dir, sizeof(dir), "%s", scratch_path("model"));
    app_run_save(&r, dir);
    value = app_run_value(&r, "vectors", 1, 20, 3);
    text = (char *)scratch_read("model/vectors.txt", &n);
    binary = scratch_read("model/vectors.bin", &bytes);
    assert_int_equal(sscanf(text, "%u %u", &words, &size), 2);
    assert_int_equal(size, 20);
    p = strchr(strchr(text, '\n') + 1, '\n') + 1;
    assert_int_equal(sscanf(p, "%63s %*f %*f %*f %f", word, &first), 2);
    assert_true(fabs((double)first - value) < 1e-9);
    p = (char *)binary;
    assert_int_equal(strncmp(p, text, (size_t)(strchr(text, '\n') - text)), 0);
    p = strchr(strchr(p, '\n') + 1, ' ') + 1 + 20 * sizeof(float) + 1;
    assert_int_equal(strncmp(p, word, strlen(word)), 0);
    memcpy(&first, p + strlen(word) + 1 + 3 * sizeof(float), sizeof(first));
    assert_true(fabs((double)first - value) < 1e-9);
    free(text);
    free(binary);
    app_run_close(&r);
}

static void bad_texts_are_refused(void **state)
{
    (void)state;
    scratch_text("few", "one two three\n");
    scratch_write("latin", "caf\xe9 au lait\n", 13);
    scratch_text("good", "a b a b a b a b a b a b\n");
    scratch_text("other", "x y z\n");
    app_run_refused(&app_word2vec, ERR_INVAL,
                    "at least two words that occur 5 times",
                    "{\"app\": {\"name\": \"word2vec\", \"data\": \"%s\"}}",
                    scratch_path("few"));
    app_run_refused(&app_word2vec, ERR_FORMAT, "line 1: expected UTF-8",
                    "{\"app\": {\"name\": \"word2vec\", \"data\": \"%s\"}}",
                    scratch_path("latin"));
    app_run_refused(&app_word2vec, ERR_INVAL,
                    "expected words that the training text has, found 0",
                    "{\"app\": {\"name\": \"word2vec\", \"data\": \"%s\","
                    " \"test\": \"%s\"}}",
                    scratch_path("good"), scratch_path("other"));
    scratch_text("lines", "a\nb\na\nb\na\nb\na\nb\na\nb\n");
    app_run_refused(&app_word2vec, ERR_INVAL, "a sentence of two words or more",
                    "{\"app\": {\"name\": \"word2vec\", \"data\": \"%s\","
                    " \"test_fraction\": 0}}",
                    scratch_path("lines"));
    app_run_refused(&app_word2vec, ERR_INVAL, "a sentence of two words or more",
                    "{\"app\": {\"name\": \"word2vec\", \"data\": \"%s\","
                    " \"test\": \"%s\"}}",
                    scratch_path("good"), scratch_path("lines"));
    /* Nothing is left for training where all of it is held out. */
    app_run_refused(&app_word2vec, ERR_INVAL,
                    "all of the text is held out for validation",
                    "{\"app\": {\"name\": \"word2vec\", \"data\": \"%s\"}}",
                    scratch_path("good"));
}

/* Of a text w0 w1 w2 ...: words that stand beside each other did before. */
static uint64_t count_in_order(const struct w2v *m, const uint32_t word[],
                               uint64_t n)
{
    uint64_t words = 0;
    int last = -1;

    for (uint64_t i = 0; i < n; i++) {
        int number =
            word[i] == WORDS_BREAK
                ? -1
                : atoi(vocabulary_word(&m->text.map.name, word[i]) + 1);

        if (number >= 0 && last >= 0)
            assert_int_equal(number, last + 1);
        words += number >= 0;
        last = number;
    }
    return words;
}

/* No window goes from one held-out stretch to another that was elsewhere, nor
 * over where one was taken out; the words are counted as they are then. */
static void what_is_held_out_leaves_no_seam(void **state)
{
    enum { WORDS = 40 * W2V_STRETCH };
    char *text = malloc(WORDS * 8), *p = text, settings[700];
    struct mlt_app_config config = {.size = sizeof(config),
                                    .settings = settings,
                                    .folder = ".",
                                    .workers = 1,
                                    .seed = 1};
    struct mlt_app_info info = {0};
    struct mlt_error error = {0};
    struct w2v *m;
    void *app = NULL;

    (void)state;
    for (int i = 0; i < WORDS; i++)
        p += sprintf(p, "w%d ", i);
    scratch_text("long", text);
    free(text);
    snprintf(settings, sizeof(settings),
             "{\"name\": \"word2vec\", \"data\": \"%s\", \"min_count\": 1,"
             " \"test_fraction\": 0.4}",
             scratch_path("long"));
    assert_int_equal(w2v_open(&config, &info, &app, &error), 0);
    m = app;
    assert_int_equal(count_in_order(m, m->text.word, m->text.count),
                     m->text.tokens);
    assert_int_equal(info.samples, m->text.tokens);
    assert_true(count_in_order(m, m->held, m->held_count) > WORDS / 3);
    w2v_close(app);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_learning_rate_acts),
        cmocka_unit_test_setup_teardown(vectors_answer_what_the_text_knows,
                                        scratch_make, scratch_remove),
        cmocka_unit_test_setup_teardown(validation_may_be_a_text_of_its_own,
                                        scratch_make, scratch_remove),
        cmocka_unit_test_setup_teardown(vectors_files_hold_the_table,
                                        scratch_make, scratch_remove),
        cmocka_unit_test_setup_teardown(what_is_held_out_leaves_no_seam,
                                        scratch_make, scratch_remove),
        cmocka_unit_test_setup_teardown(bad_texts_are_refused, scratch_make,
                                        scratch_remove),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
