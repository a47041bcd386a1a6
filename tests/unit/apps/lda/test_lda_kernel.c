#include "apps/lda/lda_held.h"
#include "apps/lda/lda_kernel.h"
#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/fixture/check.h"

enum { TOPICS_MAX = 1100, DOCS = 3, TOKENS = 40 };

/* A small state: counts of a word, totals, and documents. */
struct state {
    struct lda_prior prior;
    struct lda_sampler s;
    int32_t word[TOPICS_MAX], total[TOPICS_MAX];
    uint32_t doc[TOKENS]; /* of all tokens of the documents */
    uint16_t z[TOKENS];
};

static void state_init(struct state *st, uint32_t topics, uint64_t seed)
{
    struct rng rng;
    uint32_t k;
    int i;

    memset(st, 0, sizeof(*st));
    rng_init(&rng, seed);
    lda_prior_init(&st->prior, topics, 50, 0.3, 0.05);
    assert_int_equal(lda_sampler_init(&st->s, &st->prior, DOCS, TOKENS),
                     ERR_OK);
    for (i = 0; i < TOKENS; i++) {
        st->doc[i] = (uint32_t)rng_below(&rng, DOCS);
        st->z[i] = (uint16_t)rng_below(&rng, topics);
        st->word[st->z[i]]++;
    }
    for (k = 0; k < topics; k++) {
        st->word[k] +=
            rng_below(&rng, 3) == 0 ? (int32_t)rng_below(&rng, 6) : 0;
        st->total[k] = st->word[k] + (int32_t)rng_below(&rng, 60);
    }
}

static void begin(struct state *st)
{
    lda_docs_begin(&st->s, DOCS);
    lda_docs_count(&st->s, TOKENS, st->doc, st->z);
    lda_totals_begin(&st->s, st->total);
    lda_word_begin(&st->s, st->word);
}

/* p(z = k | rest) of token @i by its definition, added up to 1. */
static void conditional(const struct state *st, int i, double p[])
{
    uint32_t topics = st->prior.topics, k;
    double sum = 0;

    for (k = 0; k < topics; k++) {
        int own = st->z[i] == k, doc = -own;

        for (int j = 0; j < TOKENS; j++)
            doc += st->doc[j] == st->doc[i] && st->z[j] == k;
        p[k] = (doc + st->prior.alpha) * (st->word[k] - own + st->prior.beta) /
               (st->total[k] - own + st->prior.words * st->prior.beta);
        sum += p[k];
    }
    for (k = 0; k < topics; k++)
        p[k] /= sum;
}

/* Draws are from the exact conditional distribution, whatever the number of
 * topics leaves over of vectors: Pearson's chi-square over topics, those that
 * are rare taken together, lies far below any that a wrong one would have. */
static void lda_draws_are_from_the_conditional(void **state)
{
    static const uint32_t topics[] = {1, 2, 7, 8, 31, 32, 33, 100, 130, 1000};
    static struct state st;
    static double p[TOPICS_MAX];
    static int seen[TOPICS_MAX];
    enum { DRAWS = 30000 };

    (void)state;
    for (size_t t = 0; t < sizeof(topics) / sizeof(*topics); t++) {
        double chi = 0, rare = 0, rare_seen = 0;
        int cells = 0;
        struct rng rng;

        state_init(&st, topics[t], 77 + t);
        rng_init(&rng, 5);
        conditional(&st, 3, p);
        memset(seen, 0, sizeof(seen));
        begin(&st);
        for (int n = 0; n < DRAWS; n++) {
            uint16_t z = st.z[3];

            lda_word_sample(&st.s, 1, &st.doc[3], &z, &rng);
            assert_true(z < topics[t]);
            seen[z]++;
            lda_docs_begin(&st.s, DOCS);
            lda_docs_count(&st.s, TOKENS, st.doc, st.z);
            lda_totals_begin(&st.s, st.total);
            lda_word_begin(&st.s, st.word);
        }
        for (uint32_t k = 0; k < topics[t]; k++) {
            double expected = DRAWS * p[k];

            if (expected < 10) {
                rare += expected;
                rare_seen += seen[k];
                continue;
            }
            chi += (seen[k] - expected) * (seen[k] - expected) / expected;
            cells++;
        }
        if (rare >= 10) {
            chi += (rare_seen - rare) * (rare_seen - rare) / rare;
            cells++;
        }
        if (!(chi < cells + 6 * sqrt(2.0 * cells)))
            fail_msg("%u topics: chi-square %g of %d cells", topics[t], chi,
                     cells);
        lda_sampler_deinit(&st.s);
    }
}

/* After many draws all counts are those of the tokens, and the moves told are
 * those that happened. */
static void lda_counts_follow_the_draws(void **state)
{
    static struct state st;
    static int32_t word[TOPICS_MAX], moved[TOPICS_MAX];
    struct rng rng;

    (void)state;
    state_init(&st, 100, 9);
    rng_init(&rng, 1);
    begin(&st);
    memcpy(word, st.word, sizeof(word));
    for (int i = 0; i < TOKENS; i++)
        word[st.z[i]]--;
    lda_word_sample(&st.s, TOKENS, st.doc, st.z, &rng);
    for (int i = 0; i < TOKENS; i++)
        word[st.z[i]]++;
    for (size_t i = 0; i < st.s.changes; i++) {
        moved[st.s.change[2 * i]]--;
        moved[st.s.change[2 * i + 1]]++;
    }
    for (uint32_t k = 0; k < 100; k++) {
        assert_int_equal(st.s.word[k], word[k]);
        assert_int_equal(st.word[k] + moved[k], word[k]);
        assert_int_equal(st.s.total[k], st.total[k] + moved[k]);
        for (uint32_t d = 0; d < DOCS; d++) {
            int n = 0;

            for (int i = 0; i < TOKENS; i++)
                n += st.doc[i] == d && st.z[i] == k;
            assert_int_equal((int)st.s.count[d * st.s.stride + k], n);
        }
    }
    lda_sampler_deinit(&st.s);
}

/* A view that is too old may hold less than the tokens at hand: it counts as
 * nothing, and draws stay sane. */
static void lda_stale_counts_do_no_harm(void **state)
{
    static struct state st;
    struct rng rng;

    (void)state;
    state_init(&st, 10, 9);
    memset(st.word, 0, sizeof(st.word));
    memset(st.total, 0, sizeof(st.total));
    rng_init(&rng, 1);
    begin(&st);
    for (int i = 0; i < 50; i++)
        lda_word_sample(&st.s, 1, st.doc + i % TOKENS, st.z + i % TOKENS, &rng);
    for (int i = 0; i < TOKENS; i++)
        assert_true(st.z[i] < 10);
    lda_sampler_deinit(&st.s);
}

/* The parts of log p(w, z) are what the gamma function says, for counts within
 * the table and beyond it. */
static void lda_logs_are_those_of_the_gamma_function(void **state)
{
    static struct lda_prior p;
    static int32_t row[TOPICS_MAX];
    static uint32_t doc[10000];
    static uint16_t z[10000];
    struct lda_sampler s;
    double want = 0, got;
    uint32_t k;

    (void)state;
    lda_prior_init(&p, 50, 1000, 0.1, 0.01);
    for (k = 0; k < 50; k++) {
        row[k] = k % 3 ? (int32_t)(k * k * k) : 0;
        want += lgamma(row[k] + 0.01) - lgamma(0.01);
    }
    got = lda_row_log(&p, row);
    assert_true(fabs(got - want) < 1e-9 * fabs(want));
    for (want = 0, k = 0; k < 50; k++)
        want += lgamma(10.0) - lgamma(row[k] + 10.0);
    got = lda_totals_log(&p, row);
    assert_true(fabs(got - want) < 1e-9 * fabs(want));
    for (k = 0; k < 50; k += 3) /* below 0, as a stale view may be: as 0 */
        row[k] = -(int32_t)(1 + k * 1000);
    assert_true(fabs(lda_totals_log(&p, row) - got) < 1e-9 * fabs(got));
    for (want = 0, k = 0; k < 50; k++)
        want += row[k] > 0 ? lgamma(row[k] + 0.01) - lgamma(0.01) : 0;
    got = lda_row_log(&p, row);
    assert_true(fabs(got - want) < 1e-9 * fabs(want));
    assert_int_equal(lda_sampler_init(&s, &p, 2, 1), ERR_OK);
    lda_docs_begin(&s, 2);
    for (k = 0; k < 10000; k++) {
        doc[k] = k % 10 == 0;
        z[k] = k < 9000 ? 7 : 8;
    }
    got = lda_docs_count(&s, 10000, doc, z);
    want = lgamma(8100.1) + lgamma(900.1) + lgamma(900.1) + lgamma(100.1) -
           4 * lgamma(0.1);
    assert_true(fabs(got - want) < 1e-9 * fabs(want));
    lda_sampler_deinit(&s);
}

/* Rows of any length and density: groups that are all zero, all in the table,
 * at its edge and beyond it. */
static void lda_row_logs_of_all_kinds(void **state)
{
    static const int32_t most[] = {1, 3, LDA_LOG_TABLE - 1, LDA_LOG_TABLE,
                                   100000};
    static struct lda_prior p;
    static int32_t row[TOPICS_MAX];
    struct rng rng;

    (void)state;
    rng_init(&rng, 1);
    for (uint32_t topics = 1; topics <= 100; topics++)
        for (size_t kind = 0; kind < 5; kind++) {
            double want = 0, got;

            lda_prior_init(&p, topics, 1000, 0.1, 0.01);
            memset(row, 0, sizeof(row));
            for (uint32_t k = 0; k < topics; k++) {
                if (rng_below(&rng, 4 + kind) == 0)
                    row[k] = k == topics / 2 ? most[kind]
                                             : (int32_t)rng_below(&rng, 50);
                want += lgamma(row[k] + 0.01) - lgamma(0.01);
            }
            got = lda_row_log(&p, row);
            assert_true(fabs(got - want) <= 1e-9 * (1 + fabs(want)));
        }
}

/* The held-out half's probability is that of a fixed point worked out plainly;
 * words that are not known are left out. */
static void lda_completion_is_the_fixed_point(void **state)
{
    enum { K = 3, STRIDE = 32, WORDS = 4 };
    static float phi[WORDS * STRIDE], mix[2 * STRIDE];
    struct corpus c = {0};
    struct lda_held h;
    double theta[K] = {1, 1, 1}, next[K], want = 0, total = 0.5 * K, got;
    uint64_t tokens;
    uint32_t i, k;

    (void)state;
    assert_int_equal(corpus_begin_doc(&c), ERR_OK);
    corpus_add(&c, 0, 1); /* one known token: no document */
    corpus_add(&c, 9, 5);
    assert_int_equal(corpus_begin_doc(&c), ERR_OK);
    for (i = 0; i < WORDS; i++)
        corpus_add(&c, i, i + 2);
    corpus_add(&c, 8, 3);
    assert_int_equal(lda_held_init(&h, &c, 4, 1), ERR_OK);
    assert_int_equal(h.docs, 1);
    assert_int_equal(h.begin[1], WORDS);
    for (i = 0; i < WORDS; i++) {
        assert_int_equal(h.word[i].seen + h.word[i].asked, i + 2);
        for (k = 0; k < K; k++)
            phi[i * STRIDE + k] = (float)(1 + (i * 7 + k * 5) % 4) / 10;
        total += h.word[i].seen;
    }
    for (int step = 0; step < LDA_HELD_STEPS; step++) {
        for (k = 0; k < K; k++)
            next[k] = 0.5;
        for (i = 0; i < WORDS; i++) {
            double sum = 0;

            for (k = 0; k < K; k++)
                sum += theta[k] * (double)phi[i * STRIDE + k];
            for (k = 0; k < K; k++)
                next[k] += h.word[i].seen * theta[k] *
                           (double)phi[i * STRIDE + k] / sum;
        }
        memcpy(theta, next, sizeof(theta));
    }
    for (i = 0; i < WORDS; i++) {
        double sum = 0;

        for (k = 0; k < K; k++)
            sum += theta[k] / total * (double)phi[i * STRIDE + k];
        want += h.word[i].asked * log(sum);
    }
    got = lda_held_log(&h, 0, K, STRIDE, phi, 0.5, mix, &tokens);
    assert_int_equal(tokens, h.asked);
    assert_int_equal(tokens, 7);
    assert_true(fabs(got - want) < 1e-5 * fabs(want));
    lda_held_deinit(&h);
    corpus_deinit(&c);
}

/* Whole documents: all tokens are seen, one without a known word has the even
 * mix, and a word of one topic alone gives that topic nearly all. */
static void lda_held_mix_is_of_all_tokens(void **state)
{
    enum { K = 2, STRIDE = LDA_LANES };
    static float phi[STRIDE], mix[2 * STRIDE];
    struct corpus c = {0};
    struct lda_held h;
    double share[K];

    (void)state;
    assert_int_equal(corpus_begin_doc(&c), ERR_OK);
    corpus_add(&c, 9, 5);
    assert_int_equal(corpus_begin_doc(&c), ERR_OK);
    corpus_add(&c, 1, 7);
    assert_int_equal(lda_held_whole(&h, &c, 4), ERR_OK);
    assert_int_equal(h.docs, 2);
    assert_int_equal(h.asked, 0);
    lda_held_mix(&h, 0, K, STRIDE, phi, 0.5, mix, share);
    assert_float_equal(share[0], 0.5, 1e-7);
    phi[1] = 1;
    lda_held_mix(&h, 1, K, STRIDE, phi, 0.5, mix, share);
    assert_float_equal(share[0], 0.5 / 8, 1e-6); /* alpha / (7 + 2 alpha) */
    assert_float_equal(share[1], 7.5 / 8, 1e-6);
    lda_held_deinit(&h);
    corpus_deinit(&c);
}

/* Every allocation that fails is reported and undone. */
static void lda_sampler_without_memory_is_refused(void **state)
{
    static struct lda_prior p;
    int64_t before = mem_outstanding();
    struct lda_sampler s;
    int nth, failed = 1;

    (void)state;
    lda_prior_init(&p, 10, 10, 1, 1);
    for (nth = 1; failed; nth++) {
        enum err err;

        mem_fail_at(nth, 0);
        err = lda_sampler_init(&s, &p, 4, 4);
        failed = mem_failed();
        mem_fail_at(0, 0);
        assert_int_equal(err, failed ? ERR_NOMEM : ERR_OK);
        if (!err)
            lda_sampler_deinit(&s);
        assert_int_equal(mem_outstanding(), before);
    }
    assert_true(nth > 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lda_draws_are_from_the_conditional),
        cmocka_unit_test(lda_counts_follow_the_draws),
        cmocka_unit_test(lda_stale_counts_do_no_harm),
        cmocka_unit_test(lda_logs_are_those_of_the_gamma_function),
        cmocka_unit_test(lda_row_logs_of_all_kinds),
        cmocka_unit_test(lda_completion_is_the_fixed_point),
        cmocka_unit_test(lda_held_mix_is_of_all_tokens),
        cmocka_unit_test(lda_sampler_without_memory_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
