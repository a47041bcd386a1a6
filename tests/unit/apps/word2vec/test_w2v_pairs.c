/* Pairs out of a text: windows, breaks, what is passed over, negatives. */
#include "apps/word2vec/w2v_pairs.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/fixture/check.h"

#define BREAK WORDS_BREAK

static const uint64_t times[5] = {1000, 300, 100, 10, 1};

/* How often each pair (middle, around) is drawn in @rounds. */
static void count_pairs(const struct w2v_source *s, const uint32_t text[],
                        uint64_t length, uint64_t first, uint64_t count,
                        unsigned rounds, unsigned seen[5][5])
{
    struct w2v_pairs p = {0};
    struct rng rng;

    rng_init(&rng, 7);
    memset(seen, 0, 25 * sizeof(unsigned));
    for (unsigned r = 0; r < rounds; r++) {
        assert_int_equal(w2v_draw(s, text, length, first, count, &rng, &p),
                         ERR_OK);
        for (size_t i = 0; i < p.pairs; i++)
            seen[p.out[i * (1 + s->negative)]][p.in[i]]++;
    }
    w2v_pairs_deinit(&p);
}

/* Windows reach 1 to `window` words, over the ends of what is asked for and not
 * over a break. */
static void windows_end_at_breaks(void **state)
{
    static const uint32_t text[] = {0, 1, 2, BREAK, 3, 4};
    enum { ROUNDS = 3000 };
    struct w2v_source s;
    unsigned seen[5][5];

    (void)state;
    assert_int_equal(w2v_source_init(&s, times, 5, 0, 2, 1), ERR_OK);
    count_pairs(&s, text, 6, 0, 6, ROUNDS, seen);
    assert_int_equal(seen[0][1], ROUNDS); /* one word away: always */
    assert_int_equal(seen[1][0], ROUNDS);
    assert_int_equal(seen[3][4], ROUNDS);
    assert_in_range(seen[0][2], ROUNDS * 2 / 5, ROUNDS * 3 / 5);
    assert_int_equal(seen[2][3] + seen[3][2] + seen[2][4] + seen[4][2], 0);
    /* The word in the middle is 1 alone; those around it lie outside. */
    count_pairs(&s, text, 6, 1, 1, 10, seen);
    assert_int_equal(seen[1][0], 10);
    assert_int_equal(seen[1][2], 10);
    assert_int_equal(seen[0][1] + seen[2][1], 0);
    w2v_source_deinit(&s);
}

/* A word of share f stays with chance sqrt(t / f) + t / f, and the window goes
 * over those that do not. */
static void frequent_words_are_passed_over(void **state)
{
    static const uint32_t text[] = {3, 0, 4};
    enum { ROUNDS = 20000 };
    struct w2v_source s;
    unsigned seen[5][5];
    double share = 1000.0 / 1411, sample = 0.01;
    double stay = sqrt(sample / share) + sample / share;

    (void)state;
    assert_int_equal(w2v_source_init(&s, times, 5, sample, 1, 1), ERR_OK);
    assert_true(fabs((double)s.keep[0] - stay) < 1e-6);
    assert_true(s.keep[4] >= 1);
    count_pairs(&s, text, 3, 0, 3, ROUNDS, seen);
    /* Five standard deviations. */
    assert_true(fabs(seen[3][0] - stay * ROUNDS) <
                5 * sqrt(ROUNDS * stay * (1 - stay)));
    assert_int_equal(seen[3][0] + seen[3][4], ROUNDS);
    w2v_source_deinit(&s);
}

/* Negative examples have the shares of times^0.75, and none is what is to be
 * predicted. */
static void negatives_have_their_shares(void **state)
{
    enum { DRAWS = 400000 };
    static const uint32_t text[] = {0, 1};
    struct w2v_source s;
    struct w2v_pairs p = {0};
    struct rng rng;
    unsigned seen[5] = {0}, none = 0;
    double all = 0;

    (void)state;
    assert_int_equal(w2v_source_init(&s, times, 5, 0, 1, 3), ERR_OK);
    for (int i = 0; i < 5; i++)
        all += pow((double)times[i], 0.75);
    rng_init(&rng, 1);
    for (int i = 0; i < DRAWS; i++)
        seen[w2v_negative(&s, &rng)]++;
    for (int i = 0; i < 5; i++) {
        double share = pow((double)times[i], 0.75) / all;

        assert_true(fabs(seen[i] - share * DRAWS) <
                    5 * sqrt(DRAWS * share * (1 - share)) + 1);
    }
    for (int i = 0; i < 200; i++) {
        assert_int_equal(w2v_draw(&s, text, 2, 0, 2, &rng, &p), ERR_OK);
        assert_int_equal(p.pairs, 2);
        for (size_t k = 0; k < 8; k++) {
            none += p.out[k] == WORD_NONE;
            if (k % 4)
                assert_true(p.out[k] != p.out[k / 4 * 4]);
        }
    }
    assert_in_range(none, 200, 1000);
    w2v_pairs_deinit(&p);
    w2v_source_deinit(&s);
}

/* One word, equal words, and memory that fails. */
static void odd_sources_are_made(void **state)
{
    static const uint64_t one[] = {5}, equal[] = {2, 2, 2};
    int64_t before = mem_outstanding();
    struct w2v_source s;
    struct rng rng;

    (void)state;
    rng_init(&rng, 1);
    assert_int_equal(w2v_source_init(&s, one, 1, 1e-3, 1, 1), ERR_OK);
    assert_int_equal(w2v_negative(&s, &rng), 0);
    w2v_source_deinit(&s);
    assert_int_equal(w2v_source_init(&s, equal, 3, 0, 1, 1), ERR_OK);
    for (int i = 0; i < 3; i++)
        assert_true(s.own[i] >= 0.999F);
    w2v_source_deinit(&s);
    assert_int_equal(mem_outstanding(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_end_at_breaks),
        cmocka_unit_test(frequent_words_are_passed_over),
        cmocka_unit_test(negatives_have_their_shares),
        cmocka_unit_test(odd_sources_are_made),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
