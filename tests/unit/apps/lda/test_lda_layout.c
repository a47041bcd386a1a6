#include "apps/data/gen.h"
#include "apps/lda/lda_layout.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/fixture/check.h"

static struct corpus make_corpus(void)
{
    struct corpus c;

    assert_int_equal(gen_bow("gen:bow?docs=60&words=40&tokens=3000&topics=4",
                             UINT64_MAX, &c, NULL),
                     ERR_OK);
    return c;
}

/* Counts tokens of each (document, word) over all shares. */
static void count(const struct lda_layout *l, uint32_t words, uint32_t seen[])
{
    for (unsigned w = 0; w < l->workers; w++) {
        const struct lda_share *s = &l->share[w];
        uint64_t row = 0;

        for (uint32_t p = 0; p < l->parts; p++) {
            const struct lda_part *part = &s->part[p];
            uint64_t token = 0;

            assert_int_equal(part->first_row, row);
            row += lda_rows_of(part->tokens);
            for (uint32_t r = 0; r < part->runs; r++) {
                assert_true(r == 0 ||
                            part->run[r].word > part->run[r - 1].word);
                for (uint32_t i = 0; i < part->run[r].count; i++) {
                    uint32_t d = part->doc[token++];

                    assert_true(d < part->docs);
                    seen[part->id[d] * words + part->run[r].word]++;
                }
            }
            assert_int_equal(token, part->tokens);
        }
        assert_int_equal(row, s->rows);
    }
}

/* Every token is in one place, parts hold about equal numbers of tokens and the
 * same documents whatever the number of workers. */
static void lda_layout_has_every_token_once(void **state)
{
    struct corpus c = make_corpus();
    uint32_t *seen = calloc(c.docs * c.words, sizeof(*seen));
    uint32_t part_of[2][60];

    (void)state;
    for (unsigned workers = 1; workers <= 5; workers++) {
        struct lda_layout l;

        assert_int_equal(lda_layout_init(&l, &c, 7, workers, 3), ERR_OK);
        assert_int_equal(l.parts, 7);
        assert_int_equal(l.tokens, 3000);
        memset(seen, 0, c.docs * c.words * sizeof(*seen));
        count(&l, c.words, seen);
        for (uint64_t d = 0; d < c.docs; d++)
            for (uint64_t i = c.begin[d]; i < c.begin[d + 1]; i++)
                assert_int_equal(seen[d * c.words + c.word[i]], c.count[i]);
        for (uint32_t p = 0; p < l.parts; p++) {
            assert_in_range(l.part_tokens[p], 3000 / 7 - 120, 3000 / 7 + 120);
            for (unsigned w = 0; w < workers; w++)
                for (uint32_t d = 0; d < l.share[w].part[p].docs; d++)
                    part_of[workers > 1][l.share[w].part[p].id[d]] = p;
        }
        if (workers > 1)
            assert_memory_equal(part_of[0], part_of[1], sizeof(part_of[0]));
        lda_layout_deinit(&l);
    }
    free(seen);
    corpus_deinit(&c);
}

/* There are never more parts than documents with words in them, and none of
 * them is empty, however uneven the documents are. */
static void lda_layout_has_no_empty_part(void **state)
{
    struct corpus c = {0};
    struct lda_layout l;

    (void)state;
    for (uint32_t d = 0; d < 9; d++) {
        corpus_begin_doc(&c);
        if (d != 4)
            corpus_add(&c, d % 2, d == 3 ? 5000 : 1);
    }
    assert_int_equal(lda_layout_init(&l, &c, 100, 3, 1), ERR_OK);
    assert_int_equal(l.parts, 8);
    for (uint32_t p = 0; p < l.parts; p++)
        assert_true(l.part_tokens[p] > 0);
    lda_layout_deinit(&l);
    assert_int_equal(lda_layout_init(&l, &c, 4, 1, 1), ERR_OK);
    for (uint32_t p = 0; p < l.parts; p++)
        assert_true(l.part_tokens[p] > 0);
    assert_true(l.share[0].tokens_max >= 5000);
    assert_true(l.share[0].run_max >= 5000);
    lda_layout_deinit(&l);
    corpus_deinit(&c);
}

/* Every allocation that fails is reported and undone. */
static void lda_layout_without_memory_is_refused(void **state)
{
    struct corpus c = make_corpus();
    int64_t before = mem_outstanding();
    struct lda_layout l;
    int nth, failed = 1;

    (void)state;
    for (nth = 1; failed; nth++) {
        enum err err;

        mem_fail_at(nth, 0);
        err = lda_layout_init(&l, &c, 3, 2, 1);
        failed = mem_failed();
        mem_fail_at(0, 0);
        assert_int_equal(err, failed ? ERR_NOMEM : ERR_OK);
        lda_layout_deinit(&l);
        assert_int_equal(mem_outstanding(), before);
    }
    assert_true(nth > 20);
    corpus_deinit(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lda_layout_has_every_token_once),
        cmocka_unit_test(lda_layout_has_no_empty_part),
        cmocka_unit_test(lda_layout_without_memory_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
