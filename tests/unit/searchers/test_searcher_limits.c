/* Searchers over spaces of which a part cannot be run. */
#include "searchers/built_in.h"

#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/space_text.h"

#include <math.h>

enum { TRIALS = 30, SEEDS = 8 };

/* The larger the batch, the faster, up to where memory refuses it: a model of
 * speed alone always looks beyond. */
struct limits_case {
    const char *space;
    double batch_max; /* a greater one fails */
    double rate_max;  /* a greater one diverges */
    double share;     /* of blind draws' failures, that a model may make */
};

#define RATE                                                                   \
    "\"learning_rate\": {\"type\": \"float\", \"min\": 1e-5, \"max\": 1, "     \
    "\"scale\": \"log\"}"

static const struct limits_case cases[] = {
    {"{" RATE ", \"batch_size\": {\"type\": \"int\", \"values\": [16, 64, "
     "256]}}",
     64, 0.1, 0.6},
    {"{" RATE ", \"batch_size\": {\"type\": \"categorical\", \"values\": [16, "
     "64, 256]}, \"momentum\": {\"type\": \"float\", \"min\": 0, \"max\": "
     "0.99}}",
     1.5, 0.1, 0.6},
    {"{" RATE ", \"batch_size\": {\"type\": \"int\", \"min\": 16, \"max\": "
     "1024, \"scale\": \"log\"}, \"momentum\": {\"type\": \"float\", \"min\": "
     "0, \"max\": 0.99}}",
     160, 0.1, 1},
};

/* What a trial of @x comes to: fastest at the largest batch that runs, with a
 * rate of 0.02. */
static void run_trial(const struct limits_case *c, const struct space *space,
                      struct observation *o)
{
    double rate = setting_number(space, &o->setting, "learning_rate", 0);
    double batch = o->setting.value[space_find(space, "batch_size")];

    o->outcome = batch > c->batch_max ? OUTCOME_FAILED
                 : rate > c->rate_max ? OUTCOME_DIVERGED
                                      : OUTCOME_SPEED;
    o->speed = o->outcome == OUTCOME_SPEED
                   ? exp(-fabs(log(rate / 0.02))) * sqrt(1 + batch)
                   : 0;
}

/* Trials that fail, of TRIALS, over all seeds; *best: mean over the seeds of
 * the best speed. */
static unsigned failures(const struct searcher_ops *ops,
                         const struct limits_case *c, double *best)
{
    unsigned failed = 0;
    struct space space;

    *best = 0;
    assert_int_equal(space_from_text(c->space, &space, NULL), ERR_OK);
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct searcher *s;
        double most = 0;

        assert_int_equal(searcher_open(ops, &space, NULL, seed, &s, NULL),
                         ERR_OK);
        for (uint64_t i = 1; i <= TRIALS; i++) {
            struct observation o = {.trial = i};

            assert_int_equal(searcher_ask(s, NULL, 0, NULL, &o.setting, NULL),
                             ERR_OK);
            run_trial(c, &space, &o);
            failed += o.outcome == OUTCOME_FAILED;
            most = fmax(most, o.speed);
            assert_int_equal(searcher_tell(s, &o, NULL), ERR_OK);
        }
        *best += most / SEEDS;
        searcher_close(s);
    }
    return failed;
}

/* By the thirtieth trial, ten of which are blind, a model has proposed what
 * memory refuses at most as often as blind draws do, much less often where it
 * is a value of its own, and what it finds is better. */
static void searcher_models_keep_away_from_what_fails(void **state)
{
    static const struct searcher_ops *const models[] = {&searcher_tpe,
                                                        &searcher_gp};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        double blind_best, best;
        unsigned blind = failures(&searcher_random, &cases[i], &blind_best);

        for (size_t k = 0; k < 2; k++) {
            unsigned n = failures(models[k], &cases[i], &best);

            if (n > cases[i].share * blind)
                fail_msg("case %zu: %s fails %u times, blind draws %u", i,
                         models[k]->name, n, blind);
            assert_true(best > blind_best);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(searcher_models_keep_away_from_what_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
