/* lda as a loop: what it counts, reports and learns, beside its other form. */
#include "apps/data/data.h"
#include "apps/lda/lda.h"
#include "apps/lda/lda_app.h"
#include "base/mem.h"
#include "tests/unit/fixture/app_run.h"
#include "tests/unit/fixture/rows_whole.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/fixture/check.h"

enum { WORDS = 80, TOKENS = 6000, STRIDE_MAX = 96 };

/* Many documents, of which the plan leaves each with a worker; few, of which it
 * moves them and leaves words. */
struct shape {
    unsigned docs;
    const char *space;
};
static const struct shape shape[2] = {{300, "space: index 0"},
                                      {30, "space: index 1"}};

static void open_run(struct app_run *r, uint64_t seed, const char *parallel,
                     unsigned docs, unsigned topics, unsigned clocks,
                     unsigned workers, const char *model, double held_out)
{
    app_run_open(r, &app_lda, seed, "{}",
                 "{\"app\": {\"name\": \"lda\", \"topics\": %u, \"clock\": %u,"
                 " \"parallel\": \"%s\", \"test_fraction\": %g, \"data\":"
                 " \"gen:bow?docs=%u&words=%d&tokens=%d&topics=4&alpha=0.1"
                 "&beta=0.1\"}, \"cluster\": {\"workers\": %u},"
                 " \"ps\": {\"consistency\": \"%s\"}}",
                 topics, clocks, parallel, held_out, docs, WORDS, TOKENS,
                 workers, model);
}

static void read_table(struct app_run *r, const char *name, uint64_t rows,
                       double values[])
{
    assert_int_equal(
        rows_read_whole(host_ps(r->host), 1, name, 0, rows, values), ERR_OK);
}

/* Sums over @rows rows of the first @topics of @width values each. */
static void sums_of(struct app_run *r, const char *name, uint64_t rows,
                    uint32_t width, uint32_t topics, double out[])
{
    double *values = mem_calloc(rows * width, sizeof(*values));

    assert_non_null(values);
    read_table(r, name, rows, values);
    for (uint32_t k = 0; k < topics; k++)
        out[k] = 0;
    for (uint64_t i = 0; i < rows; i++)
        for (uint32_t k = 0; k < width; k++) {
            double n = values[i * width + k];

            assert_true(n >= 0 && (k < topics || n == 0));
            if (k < topics)
                out[k] += n;
        }
    mem_free(values);
}

/* Words' counts, documents' and totals are of the same tokens. */
static void check_sums(struct app_run *r, unsigned docs, uint32_t topics)
{
    uint32_t stride = (topics + 31) / 32 * 32;
    double word[STRIDE_MAX], doc[STRIDE_MAX], total[STRIDE_MAX], all = 0;

    sums_of(r, "word_topic", WORDS, topics, topics, word);
    sums_of(r, "doc_topic", docs, stride, topics, doc);
    read_table(r, "topic_total", 1, total);
    for (uint32_t k = 0; k < topics; k++) {
        assert_true(word[k] == total[k] && doc[k] == total[k]);
        all += total[k];
    }
    assert_true(all == (double)host_facts(r->host)->info.samples);
}

/* After any clock, by any number of workers, with and without barriers, however
 * it is split. */
static void lda_loop_counts_stay_those_of_the_tokens(void **state)
{
    int64_t before = mem_outstanding();

    (void)state;
    for (unsigned workers = 1; workers <= 4; workers++)
        for (unsigned i = 0; i < 4; i++) {
            struct app_run r;

            open_run(&r, 1, "loop", shape[i / 2].docs, 33, 3, workers,
                     i % 2 ? "ssp" : "bsp", 0.0);
            check_sums(&r, shape[i / 2].docs, 33);
            r.clocks = 1; /* an "epoch" is a clock now */
            for (int clock = 0; clock < 5; clock++) {
                app_run_train(&r, 1);
                check_sums(&r, shape[i / 2].docs, 33);
            }
            app_run_close(&r);
        }
    assert_int_equal(mem_outstanding(), before);
}

static double *word_topic(struct app_run *r, uint32_t topics)
{
    double *values = mem_calloc((size_t)WORDS * topics, sizeof(*values));

    assert_non_null(values);
    read_table(r, "word_topic", WORDS, values);
    return values;
}

/* Loss a token of a pass that learns nothing. */
static double probe(struct app_run *r)
{
    struct host_slice s = {2, BRANCH_PROBE, &r->setting, r->clocks, r->clocks};
    struct host_result result;
    const struct progress_window *w;

    assert_int_equal(ps_fork(host_ps(r->host), 2, 1, BRANCH_PROBE), ERR_OK);
    assert_int_equal(host_slice_begin(r->host, &s, NULL), ERR_OK);
    assert_int_equal(host_slice_end(r->host, &result, NULL), ERR_OK);
    w = host_slice_window(r->host, 0);
    assert_int_equal(w->samples, TOKENS);
    return w->sum / TOKENS;
}

/* It begins with the other form's state, whose loss is -log p(w, z) a token
 * (test_app_lda.c): a pass adds up to the same. */
static void lda_loop_begins_as_the_other_form(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct app_run data;
        double *want, loss;

        open_run(&data, 1, "data", shape[i].docs, 33, 4, 1, "bsp", 0.0);
        want = word_topic(&data, 33);
        loss = probe(&data);
        for (unsigned workers = 1; workers <= 3; workers++) {
            struct app_run r;
            double *found, now;

            open_run(&r, 1, "loop", shape[i].docs, 33, 4, workers, "bsp", 0.0);
            found = word_topic(&r, 33);
            assert_memory_equal(found, want, 33 * WORDS * sizeof(*want));
            now = probe(&r);
            if (!(fabs(now - loss) < 1e-9 * loss))
                fail_msg("%u workers: %.15g, not %.15g", workers, now, loss);
            mem_free(found);
            app_run_close(&r);
        }
        mem_free(want);
        app_run_close(&data);
    }
}

/* Means over seeds: the loss of the last of some passes, and the perplexity of
 * held-out documents. */
static void train(const char *parallel, unsigned docs, unsigned workers,
                  double *loss, double *perplexity)
{
    enum { SEEDS = 5, PASSES = 40 };

    *loss = *perplexity = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct app_run r;

        open_run(&r, seed, parallel, docs, 6, 5, workers, "bsp", 0.2);
        app_run_train(&r, PASSES);
        *loss += app_run_train(&r, 1) / SEEDS;
        *perplexity += exp(app_run_metric(&r)) / SEEDS;
        app_run_close(&r);
    }
}

/* It learns what the other form does with one worker, whose draws are exact;
 * without topics the perplexity is about 70. */
static void lda_loop_learns_as_the_other_form(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        double loss, perplexity, now, then;

        train("data", shape[i].docs, 1, &loss, &perplexity);
        for (unsigned workers = 1; workers <= 3; workers += 2) {
            train("loop", shape[i].docs, workers, &now, &then);
            if (!(now < loss + 0.1 && then < 1.1 * perplexity))
                fail_msg("%u documents, %u workers: loss %g, perplexity %g; "
                         "the other form's %g, %g",
                         shape[i].docs, workers, now, then, loss, perplexity);
        }
    }
}

/* With the same number of workers it is the same every time, whatever the
 * threads do. */
static void lda_loop_is_the_same_every_time(void **state)
{
    double *first = NULL;

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct app_run r;
        double *now;

        open_run(&r, 1, "loop", 300, 33, 4, 3, "bsp", 0.0);
        app_run_train(&r, 2);
        now = word_topic(&r, 33);
        if (first)
            assert_memory_equal(now, first, 33 * WORDS * sizeof(*now));
        mem_free(first);
        first = now;
        app_run_close(&r);
    }
    mem_free(first);
}

static void lda_loop_shows_its_plan(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct app_run r;
        const char *text;

        open_run(&r, 1, "loop", shape[i].docs, 33, 4, 2, "bsp", 0.0);
        text = host_work_plan(r.host);
        assert_non_null(text);
        assert_non_null(strstr(text, "strategy: two dimensions"));
        if (!strstr(text, shape[i].space))
            fail_msg("not %s:\n%s", shape[i].space, text);
        app_run_close(&r);
    }
}

static void lda_loop_refuses_what_it_can_not(void **state)
{
    static const char config[] =
        "{\"app\": {\"name\": \"lda\", \"topics\": 3, \"clock\": %d, "
        "\"parallel\": \"%s\", \"data\": \"gen:bow?docs=30&words=20\"}}";

    (void)state;
    app_run_refused(&app_lda, ERR_INVAL, "expected one of \"data\", \"loop\"",
                    config, 2, "both");
    app_run_refused(&app_lda, ERR_INVAL, "5000 clocks a pass, expected at most",
                    config, 5000, "loop");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lda_loop_counts_stay_those_of_the_tokens),
        cmocka_unit_test(lda_loop_begins_as_the_other_form),
        cmocka_unit_test(lda_loop_learns_as_the_other_form),
        cmocka_unit_test(lda_loop_is_the_same_every_time),
        cmocka_unit_test(lda_loop_shows_its_plan),
        cmocka_unit_test(lda_loop_refuses_what_it_can_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
