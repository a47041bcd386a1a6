/* Runs whose journal, snapshots and model are on a simulated disk that tears
 * writes, reorders and loses what was not flushed, fills up and fails, while
 * tuner, node and machine are killed and the line between them falls silent.
 *
 * Whoever runs the program resumes it whenever it has ended. It finishes as it
 * would have, in time, once it is left in peace; nothing that was promised is
 * lost. SEEDS and FIRST choose the seeds: `make sim SEEDS=100000`. */
#include "base/mem.h"
#include "base/rng.h"
#include "searchers/built_in.h"
#include "tests/sim/families.h"
#include "tests/sim/sim.h"

#include "tests/unit/fixture/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct sim_family small = {
    .name = "stored",
    .space = "{" RATE "}",
    .samples = 2048,
    SIM_PACED,
    .max_epochs = 8,
    .max_trials = 6,
    .snapshot_s = 0.5,
    .disk_s = 0.05,
    SIM_USUAL,
};

/* Everything at once, in doses that differ from seed to seed. */
static struct sim_storage weather(uint64_t seed, double length_s)
{
    struct sim_storage o = {.calm_s = 3 * length_s};
    struct rng rng;

    rng_init(&rng, rng_mix(seed, 41));
    if (rng_below(&rng, 4) > 0)
        o.kill_s = length_s * (0.05 + 0.4 * rng_uniform(&rng));
    if (rng_below(&rng, 4) > 0)
        o.power_s = length_s * (0.05 + 0.4 * rng_uniform(&rng));
    if (rng_below(&rng, 3) == 0)
        o.node_s = length_s * (0.05 + 0.4 * rng_uniform(&rng));
    if (rng_below(&rng, 3) == 0)
        o.silence_s = length_s * (0.05 + 0.4 * rng_uniform(&rng));
    /* Journal and all, or what a node writes. */
    if (rng_below(&rng, 2) == 0)
        o.faults.below = SIM_DISK_SNAPSHOTS;
    if (rng_below(&rng, 2) == 0)
        o.faults.error = pow(10, -2.5 + 2 * rng_uniform(&rng));
    if (rng_below(&rng, 3) == 0)
        o.faults.full = pow(10, -2.5 + 2 * rng_uniform(&rng));
    if (rng_below(&rng, 6) == 0)
        o.faults.room = 4096 + rng_below(&rng, 400000);
    return o;
}

struct sum {
    uint64_t runs, kills, power_cuts, nodes, silences, gave_up, unwritten;
    uint64_t failed, full, lost_names, lost_sectors, resumes, snapshots;
};

/* Searches that began anew may find others, and see sooner or later that
 * nothing is to be gained. */
static bool is_true_reason(const struct sim_family *f, const char *reason,
                           const char *whole)
{
    return strcmp(reason, whole) == 0 ||
           (f->converged && (strcmp(reason, "max_epochs") == 0 ||
                             strcmp(reason, "converged") == 0));
}

static void run_one(const struct sim_family *f, uint64_t seed, struct sum *t)
{
    struct sim_options o = {0};
    struct sim_storage storage;
    static struct sim_result whole, r;

    sim_run(f, seed, NULL, &whole);
    assert_false(whole.hung);
    if (whole.finish.status != RUN_FINISHED)
        fail_msg("family %s seed %llu fails without faults: %s", f->name,
                 (unsigned long long)seed, whole.finish.message);
    storage = weather(seed, whole.seconds);
    o.storage = &storage;
    sim_run(f, seed, &o, &r);
    if (r.hung || r.finish.status != RUN_FINISHED ||
        !is_true_reason(f, r.finish.reason, whole.finish.reason))
        fail_msg("family %s seed %llu: %s, %s: %s; without faults %s", f->name,
                 (unsigned long long)seed, r.hung ? "hung" : "ended",
                 run_status_name(r.finish.status), r.finish.reason,
                 whole.finish.reason);
    /* In time: what it takes undisturbed, and what its restarts cost. */
    if (r.seconds >
        storage.calm_s + 3 * whole.seconds + 10 * r.crashed + 100 + r.silent_s)
        fail_msg("family %s seed %llu: late, after %g s; without faults %g s",
                 f->name, (unsigned long long)seed, r.seconds, whole.seconds);
    assert_true(r.epochs <= f->max_epochs);
    if (strcmp(r.finish.reason, "max_epochs") == 0)
        assert_int_equal(r.epochs, f->max_epochs);
    assert_true(isfinite(r.loss));
    /* Where nothing hangs on a clock, to the bit. */
    if (f->repeats && (r.epochs != whole.epochs || r.loss != whole.loss))
        fail_msg("family %s seed %llu, %s: %u epochs, loss %.17g; without "
                 "faults %u, %.17g",
                 f->name, (unsigned long long)seed,
                 f->strategy ? f->strategy : "mltuner", r.epochs, r.loss,
                 whole.epochs, whole.loss);
    t->runs++;
    t->kills += r.kills;
    t->power_cuts += r.power_cuts;
    t->nodes += r.nodes_lost;
    t->silences += r.silences;
    t->gave_up += r.gave_up;
    t->unwritten += r.unwritten;
    t->resumes += r.resumes;
    t->snapshots += r.snapshots;
    t->failed += r.disk.failed;
    t->full += r.disk.full;
    t->lost_names += r.disk.lost_names;
    t->lost_sectors += r.disk.lost_sectors;
}

/* One of all strategies and searchers, drawn by @seed; what it trains, and on
 * how many workers. */
static struct sim_family drawn(uint64_t seed)
{
    static const struct {
        const char *strategy, *settings;
    } strategies[] = {
        {NULL, NULL},
        {"hyperband", "{\"horizon\": \"finite\", \"max_resource\": 9}"},
        {"hyperband", "{\"unit\": 10, \"sampling\": \"searcher\"}"},
        {"asha", "{\"eta\": 3}"},
        {"asha", "{\"concurrent\": 1, \"unit\": 7, \"max_resource\": 50}"},
        {"complete", NULL},
        {"complete", "{\"pruner\": \"median\", \"startup\": 2}"},
        {"complete", "{\"pruner\": \"halving\"}"},
        {"tupaq", NULL},
        {"tupaq", "{\"batch\": 3, \"partial\": 2}"},
        {"pbt", NULL},
        {"pbt", "{\"population\": 4, \"interval\": 3, \"resample\": 0.1}"},
        {"fixed", "{\"schedule\": \"exponential\", \"gamma\": 0.5}"},
    };
    static const struct searcher_ops *const searchers[] = {
        NULL, &searcher_tpe, &searcher_gp, &searcher_grid};
    struct sim_family f = small;
    struct rng rng;
    size_t i;

    rng_init(&rng, rng_mix(seed, 43));
    i = rng_below(&rng, sizeof(strategies) / sizeof(*strategies));
    f.name = "stored-drawn";
    f.strategy = strategies[i].strategy;
    f.strategy_settings = strategies[i].settings;
    if (f.strategy && strcmp(f.strategy, "fixed") == 0)
        f.cliff = 0; /* no setting diverges: there is no other one */
    f.searcher = searchers[rng_below(&rng, 4)];
    f.workers = 1 + (unsigned)rng_below(&rng, 4);
    /* Of six settings of a grid of two tunables none may make progress. */
    if (rng_below(&rng, 2) == 0 && f.searcher != &searcher_grid)
        f.space = "{" RATE "," BATCH "}";
    if (rng_below(&rng, 3) == 0)
        f.parts = 16;
    if (!f.strategy && rng_below(&rng, 2) == 0)
        f.trial_clocks = 24;
    if (rng_below(&rng, 4) == 0)
        f.validation = 0;
    f.snapshot_s = 0.1 + rng_uniform(&rng);
    f.repeats = f.strategy || f.trial_clocks;
    return f;
}

static uint64_t from_environment(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text ? strtoull(text, NULL, 10) : otherwise;
}

/* @f: NULL, a family of its own for each seed. */
static void run_all(const struct sim_family *f, uint64_t few)
{
    uint64_t first = from_environment("FIRST", 1);
    uint64_t n = from_environment("SEEDS", few);
    struct sum t = {0};

    for (uint64_t seed = first; seed < first + n; seed++) {
        struct sim_family own = f ? *f : drawn(seed);

        run_one(&own, seed, &t);
    }
    printf("sim_storage family=%s runs=%llu kills=%llu power_cuts=%llu "
           "nodes_lost=%llu silences=%llu resumes=%llu "
           "snapshots=%llu gave_up=%llu "
           "unwritten=%llu calls_failed=%llu disk_full=%llu lost_names=%llu "
           "lost_sectors=%llu\n",
           f ? f->name : "stored-drawn", (unsigned long long)t.runs,
           (unsigned long long)t.kills, (unsigned long long)t.power_cuts,
           (unsigned long long)t.nodes, (unsigned long long)t.silences,
           (unsigned long long)t.resumes, (unsigned long long)t.snapshots,
           (unsigned long long)t.gave_up, (unsigned long long)t.unwritten,
           (unsigned long long)t.failed, (unsigned long long)t.full,
           (unsigned long long)t.lost_names,
           (unsigned long long)t.lost_sectors);
    if (n < (getenv("SEEDS") ? 2000 : 100))
        return;
    /* All that is said above has come about: of the gate's seeds, or of many.
     */
    assert_true(t.kills && t.power_cuts && t.nodes && t.silences);
    assert_true(t.gave_up && t.unwritten && t.failed && t.full);
    assert_true(t.lost_names && t.lost_sectors);
}

/* A run finishes in time whatever befalls its disk, its processes and its
 * machine, and nothing that was promised is lost. */
static void storage_faults_lose_nothing(void **state)
{
    (void)state;
    run_all(&small, 150);
}

/* The same of runs that tune again and again, and of other strategies. */
static void storage_faults_lose_nothing_of_searches(void **state)
{
    struct sim_family f = small;

    (void)state;
    f.name = "stored-converged";
    f.converged = true;
    run_all(&f, 50);
    f = small;
    f.name = "stored-hyperband";
    f.strategy = "hyperband";
    run_all(&f, 50);
}

/* The same of every strategy, searcher and space. */
static void storage_faults_lose_nothing_of_any_strategy(void **state)
{
    (void)state;
    run_all(NULL, sim_fewer() ? 30 : 100);
}

/* ---- all of it at once ----------------------------------------------------
 */

/* What befell messages, in runs that @sum counts. */
struct line_sum {
    struct sum disk;
    uint64_t hit[LINE_FAULTS], failed, nothing_trained, processes, compared;
    double latest_s;
};

static struct line_plan trouble(uint64_t seed)
{
    struct line_plan plan = {.load_s = 0.3, .deadline_s = 1e9};
    struct rng rng;

    rng_init(&rng, rng_mix(seed, 47));
    plan.rate = pow(10, -0.7 - 1.5 * rng_uniform(&rng));
    plan.most = 1 + (unsigned)rng_below(&rng, 6);
    plan.program = rng_below(&rng, 3) == 0;
    return plan;
}

/* By then it has ended: left in peace after @calm_s it takes what it takes; on
 * the way each message can have cost a clock (6 h), a word that is late (2 h)
 * and a process that comes up. */
static double latest_end(const struct sim_result *whole,
                         const struct sim_result *r, double calm_s)
{
    return calm_s + 3 * whole->seconds + 10 * r->crashed + 100 + r->silent_s +
           10.0 * r->processes + r->hits * (21600 + 7200 + 600.0);
}

/* Nothing that it was told was false, and nothing that it asked refused: then
 * it ends as it would have. */
static bool is_undisturbed(const struct sim_result *r)
{
    return r->hit[LINE_STRANGE] == 0 && r->hit[LINE_REFUSED] == 0 &&
           r->protests == 0;
}

static void check_end(const struct sim_family *f, uint64_t seed,
                      const struct sim_result *whole,
                      const struct sim_result *r)
{
    bool same = r->epochs == whole->epochs && r->loss == whole->loss;

    assert_true(r->epochs <= f->max_epochs);
    assert_true(isfinite(r->loss));
    if (!is_undisturbed(r))
        return;
    if (!is_true_reason(f, r->finish.reason, whole->finish.reason) ||
        (f->repeats && !same))
        fail_msg("seed %llu, %s: %s, %u epochs, loss %.17g; without faults "
                 "%s, %u, %.17g",
                 (unsigned long long)seed,
                 f->strategy ? f->strategy : "mltuner", r->finish.reason,
                 r->epochs, r->loss, whole->finish.reason, whole->epochs,
                 whole->loss);
}

static void run_at_once(uint64_t seed, struct line_sum *t)
{
    struct sim_family f = drawn(seed);
    struct line_plan plan = trouble(seed);
    struct sim_storage storage;
    struct sim_options o = {.storage = &storage, .line = &plan};
    static struct sim_result whole, r;
    char *trace = NULL;

    f.name = "at-once";
    sim_run(&f, seed, NULL, &whole);
    assert_int_equal(whole.finish.status, RUN_FINISHED);
    storage = weather(seed, whole.seconds);
    storage.calm_s += 20; /* each resume takes 5 s */
    o.trace = getenv("TRACE") ? &trace : NULL;
    sim_run(&f, seed, &o, &r);
    if (trace)
        fputs(trace, stdout);
    mem_free(trace);
    if (r.hung || r.seconds > latest_end(&whole, &r, storage.calm_s) ||
        (r.finish.status != RUN_FINISHED && r.finish.status != RUN_FAILED) ||
        !run_reason_is_known(r.finish.reason))
        fail_msg("seed %llu, %s: %s, after %g s: %s: %s: %s",
                 (unsigned long long)seed, f.strategy ? f.strategy : "mltuner",
                 r.hung ? "hangs" : "ends", r.seconds,
                 run_status_name(r.finish.status), r.finish.reason,
                 r.finish.message);
    if (r.finish.status == RUN_FINISHED)
        check_end(&f, seed, &whole, &r);
    t->nothing_trained += r.finish.status == RUN_FAILED;
    t->compared += r.finish.status == RUN_FINISHED && is_undisturbed(&r);
    t->failed += r.failed_ends;
    t->processes += r.processes;
    t->latest_s = fmax(t->latest_s, r.seconds);
    for (int i = 0; i < LINE_FAULTS; i++)
        t->hit[i] += r.hit[i];
    t->disk.runs++;
    t->disk.kills += r.kills;
    t->disk.power_cuts += r.power_cuts;
    t->disk.nodes += r.nodes_lost;
    t->disk.silences += r.silences;
    t->disk.gave_up += r.gave_up;
    t->disk.unwritten += r.unwritten;
    t->disk.resumes += r.resumes;
    t->disk.failed += r.disk.failed;
    t->disk.full += r.disk.full;
    t->disk.lost_names += r.disk.lost_names;
    t->disk.lost_sectors += r.disk.lost_sectors;
}

/* A node that refused everything was asked for a snapshot all the time. The run
 * was gone: it was registered behind what another process had failed to flush
 * (two). A run whose search had found nothing failed of it again and again. One
 * finished without a model: no copy could be kept, and its branch was lost. */
static const uint64_t failed_once[] = {2019, 2710,  4558, 5185,
                                       7113, 66088, 98553};

/* A bad disk, kills, power cuts, and messages that are lost, refused, late,
 * repeated or garbled, all in one run, of any strategy: whoever runs it resumes
 * it, and it finishes in time. A run fails for ever only where nothing was
 * trained. */
static void storage_and_line_lose_nothing_together(void **state)
{
    uint64_t first = from_environment("FIRST", 1);
    uint64_t n = from_environment("SEEDS", sim_fewer() ? 30 : 100);
    struct line_sum t = {0};

    (void)state;
    for (uint64_t seed = first; seed < first + n; seed++) {
        run_at_once(seed, &t);
        if ((seed - first + 1) % 1000 == 0) {
            printf("%llu seeds\n", (unsigned long long)(seed - first + 1));
            fflush(stdout);
        }
    }
    for (size_t i = 0; i < sizeof(failed_once) / sizeof(*failed_once); i++)
        run_at_once(failed_once[i], &t);
    printf(
        "sim_storage family=at-once runs=%llu kills=%llu power_cuts=%llu "
        "nodes_lost=%llu silences=%llu resumes=%llu gave_up=%llu "
        "unwritten=%llu calls_failed=%llu disk_full=%llu lost_names=%llu "
        "lost_sectors=%llu processes=%llu failed_and_resumed=%llu "
        "nothing_trained=%llu compared=%llu latest_s=%.0f",
        (unsigned long long)t.disk.runs, (unsigned long long)t.disk.kills,
        (unsigned long long)t.disk.power_cuts, (unsigned long long)t.disk.nodes,
        (unsigned long long)t.disk.silences, (unsigned long long)t.disk.resumes,
        (unsigned long long)t.disk.gave_up,
        (unsigned long long)t.disk.unwritten, (unsigned long long)t.disk.failed,
        (unsigned long long)t.disk.full, (unsigned long long)t.disk.lost_names,
        (unsigned long long)t.disk.lost_sectors,
        (unsigned long long)t.processes, (unsigned long long)t.failed,
        (unsigned long long)t.nothing_trained, (unsigned long long)t.compared,
        t.latest_s);
    for (int i = LINE_LOST; i < LINE_FAULTS; i++)
        printf(" %s=%llu", line_fault_name((enum line_fault)i),
               (unsigned long long)t.hit[i]);
    printf("\n");
    assert_true(t.nothing_trained * 10 <= n);
    if (n < (getenv("SEEDS") ? 2000 : 100))
        return;
    for (int i = LINE_LOST; i < LINE_FAULTS; i++)
        assert_true(t.hit[i]);
    assert_true(t.disk.kills && t.disk.power_cuts && t.disk.nodes);
    assert_true(t.disk.silences && t.disk.failed && t.disk.full);
    assert_true(t.disk.gave_up && t.disk.unwritten && t.compared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(storage_faults_lose_nothing),
        cmocka_unit_test(storage_faults_lose_nothing_of_searches),
        cmocka_unit_test(storage_faults_lose_nothing_of_any_strategy),
        cmocka_unit_test(storage_and_line_lose_nothing_together),
    };

    if (getenv("ONLY")) /* the name of a test */
        cmocka_set_test_filter(getenv("ONLY"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
