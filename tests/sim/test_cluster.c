#include "tests/sim/cluster.h"

#include "base/mem.h"
#include "tests/unit/fixture/check.h"

#include <stdio.h>

#if defined(__SANITIZE_THREAD__) /* one thread: little to find, and slow */
enum { SEEDS = 5, MANY = 20 };
#elif defined(__SANITIZE_ADDRESS__)
enum { SEEDS = 40, MANY = 100 };
#else
enum { SEEDS = 300, MANY = 100 };
#endif

enum { SEEDS_FOR_ALL = 40 };

static uint64_t number_of(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);

    return text ? strtoull(text, NULL, 10) : fallback;
}

static void add(struct cluster_result *sum, const struct cluster_result *r)
{
    sum->steps += r->steps;
    sum->frames += r->frames;
    sum->reads += r->reads;
    sum->waits += r->waits;
    sum->batches += r->batches;
    sum->batches_waited += r->batches_waited;
    sum->updates += r->updates;
    sum->pushes += r->pushes;
    sum->forks += r->forks;
    sum->forks_refused += r->forks_refused;
    sum->slices += r->slices;
    sum->refused += r->refused;
    sum->breaks += r->breaks;
    sum->lost += r->lost;
    sum->again += r->again;
    sum->passed_over += r->passed_over;
    sum->early += r->early;
    sum->kept += r->kept;
    sum->pushed_early += r->pushed_early;
    sum->overused += r->overused;
    sum->waited_s += r->waited_s;
}

/* Whatever the seed makes of cluster, network and programs: reads are as fresh
 * as promised, sums and forks are those of a sequential run, nothing waits for
 * ever. SEED=n runs that one alone, SEEDS=n so many from
 * FIRST=n on. Connections break, too. */
static void cluster_keeps_its_promises(void **state)
{
    uint64_t first = number_of("SEED", number_of("FIRST", 1));
    uint64_t seeds = getenv("SEED") ? 1 : number_of("SEEDS", SEEDS);
    struct cluster_result sum = {0}, r;
    int64_t before = mem_outstanding();

    (void)state;
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        struct cluster_options opt = {.seed = seed};

        cluster_run(&opt, &r);
        if (r.failed)
            fail_msg("%s", r.why);
        add(&sum, &r);
    }
    assert_int_equal(mem_outstanding(), before);
    printf("%llu seeds: %llu steps, %llu frames, %llu reads (%llu waited), "
           "%llu updates, %llu rows pushed, %llu slices, %llu forks, %llu "
           "refused; %llu bad frames refused\n",
           (unsigned long long)seeds, (unsigned long long)sum.steps,
           (unsigned long long)sum.frames, (unsigned long long)sum.reads,
           (unsigned long long)sum.waits, (unsigned long long)sum.updates,
           (unsigned long long)sum.pushes, (unsigned long long)sum.slices,
           (unsigned long long)sum.forks, (unsigned long long)sum.forks_refused,
           (unsigned long long)sum.refused);
    printf("%llu batches, %llu of them waited for\n",
           (unsigned long long)sum.batches,
           (unsigned long long)sum.batches_waited);
    printf("%llu connections broke: %llu frames lost, %llu sent again, %llu "
           "passed over\n",
           (unsigned long long)sum.breaks, (unsigned long long)sum.lost,
           (unsigned long long)sum.again, (unsigned long long)sum.passed_over);
    printf("with budgets: %llu rows left early, %llu pushed early, %llu times "
           "overused, %.3f s waited\n",
           (unsigned long long)sum.early, (unsigned long long)sum.pushed_early,
           (unsigned long long)sum.overused, sum.waited_s);
    if (getenv("SEED"))
        return;
    assert_true(sum.reads && sum.waits && sum.pushes && sum.refused);
    assert_true((sum.early && sum.pushed_early && sum.waited_s > 0) ||
                seeds < SEEDS_FOR_ALL);
    assert_true(sum.kept && sum.batches_waited);
    assert_true(sum.batches > sum.batches_waited);
    assert_true(sum.breaks && sum.lost && sum.again && sum.passed_over);
    assert_true(sum.forks_refused || seeds < SEEDS_FOR_ALL); /* it happens */
}

static struct staleness seen_by_reads(const char *model, uint64_t seeds)
{
    struct staleness seen = {0};
    struct cluster_result r;

    for (uint64_t seed = 1; seed <= seeds; seed++) {
        struct cluster_options opt = {.seed = seed,
                                      .consistency = model,
                                      .nodes = 4,
                                      .calm = true,
                                      .staleness = 3 + 1};

        cluster_run(&opt, &r);
        if (r.failed)
            fail_msg("%s", r.why);
        staleness_merge(&seen, &r.seen);
    }
    return seen;
}

/* Reads are never staler than promised; under bsp they hold the clocks before
 * and nothing else, and pushes make them fresher (Dai et al. 2015, figure 2).
 */
static void cluster_pushes_make_reads_fresher(void **state)
{
    struct staleness bsp = seen_by_reads("bsp", 5);
    struct staleness ssp = seen_by_reads("ssp", 10);
    struct staleness essp = seen_by_reads("essp", 10);

    (void)state;
    assert_true(bsp.reads && staleness_at(&bsp, -1) == bsp.reads);
    for (int d = STALENESS_LEAST; d < -1 - 3; d++)
        assert_true(!staleness_at(&ssp, d) && !staleness_at(&essp, d));
    printf("reads lag: ssp %.3f, essp %.3f clocks\n", staleness_mean(&ssp),
           staleness_mean(&essp));
    for (int d = -4; d <= 3; d++)
        printf("  %2d: ssp %.3f essp %.3f\n", d,
               (double)staleness_at(&ssp, d) / (double)ssp.reads,
               (double)staleness_at(&essp, d) / (double)essp.reads);
    assert_true(staleness_mean(&essp) > staleness_mean(&ssp) + 0.2);
}

/* A hundred nodes, with barriers and with pushes. */
static void cluster_of_a_hundred_nodes(void **state)
{
    static const char *const models[] = {"bsp", "essp"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct cluster_options opt = {
            .seed = 100 + i,
            .consistency = models[i],
            .nodes = MANY,
        };
        struct cluster_result r;

        cluster_run(&opt, &r);
        if (r.failed)
            fail_msg("%s", r.why);
        assert_int_equal(r.nodes, MANY);
    }
}

/* With a budget far below what the wires carry, at least 95 % of it is used
 * while something waits for it (never more, which every step checks), under a
 * model with barriers, where nothing leaves early, and under one with pushes,
 * where rows do, whatever chooses them. */
static void cluster_uses_its_budget(void **state)
{
    static const char *const models[] = {"bsp", "essp"};

    (void)state;
    for (uint64_t i = 0; i < 12; i++) {
        struct cluster_options opt = {.seed = 500 + i,
                                      .consistency = models[i % 2],
                                      .nodes = 4,
                                      .calm = true,
                                      .budget_bytes_s = i / 2 % 2 ? 1e5 : 3e5};
        struct cluster_result r;
        double used;

        cluster_run(&opt, &r);
        if (r.failed)
            fail_msg("%s", r.why);
        used = r.waited_bytes / (r.waited_s * opt.budget_bytes_s);
        printf("%s, %.1f MB/s: %.3f s waited, %.3f of it used, %llu and %llu "
               "rows early\n",
               r.consistency, opt.budget_bytes_s / 1e6, r.waited_s, used,
               (unsigned long long)r.early, (unsigned long long)r.pushed_early);
        assert_true(r.waited_s > 0 && used >= 0.95);
        assert_true((i % 2 == 0) == (r.early + r.pushed_early == 0));
    }
}

/* One seed gives the same run, to the last frame. */
static void cluster_seed_decides_everything(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 5; seed++) {
        struct cluster_options opt = {.seed = seed};
        struct cluster_result a, b;

        cluster_run(&opt, &a);
        cluster_run(&opt, &b);
        assert_true(a.time_s == b.time_s && a.bytes == b.bytes);
        assert_true(a.frames == b.frames && a.steps == b.steps);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cluster_keeps_its_promises),
        cmocka_unit_test(cluster_pushes_make_reads_fresher),
        cmocka_unit_test(cluster_of_a_hundred_nodes),
        cmocka_unit_test(cluster_uses_its_budget),
        cmocka_unit_test(cluster_seed_decides_everything),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
