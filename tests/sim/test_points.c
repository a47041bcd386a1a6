/* Whole runs, each time with one call that fails: an allocation of the tuner's,
 * its history's, its journal's or SQLite's, or a call on the disk; the N-th of
 * its kind, once or from there on.
 *
 * Whatever N, the run ends as the undisturbed one, to the bit, if need be once
 * it is resumed on a machine that is well. Nothing hangs, nothing leaks, and
 * what was promised is there.
 *
 * The gate takes some points of each kind, always the same. POINTS_STEP=n takes
 * each n-th (`make fault-sim` all), JOB=name one job; POINT=N one point, of the
 * kind that KIND names.
 */
#include "base/json/json.h"
#include "base/mem.h"
#include "searchers/built_in.h"
#include "tests/sim/families.h"
#include "tests/sim/sim.h"

#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/sqlite_memory.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the jobs ------------------------------------------------------------ */

/* What a run does follows from its setting and position alone, not from the
 * time that is lost. */
static const struct sim_family usual = {
    .name = "points",
    .space = "{" RATE "," BATCH "}",
    .samples = 2048,
    SIM_PACED,
    .max_epochs = 3,
    .max_trials = 3,
    .trial_clocks = 24,
    .snapshot_s = 0.5,
    .disk_s = 0.05,
    .repeats = true,
    SIM_USUAL,
};

struct job {
    const char *name;
    const char *strategy, *settings;
    const struct searcher_ops *searcher;
    bool retunes;
    double killed; /* part of the run after which it is killed, and what fails
                    * does in who resumes it; 0: it is not */
};

static const struct job jobs[] = {
    {.name = "run"},
    {.name = "resume", .killed = 0.5},
    {.name = "retunes", .retunes = true},
    {.name = "retunes-resumed", .retunes = true, .killed = 0.8},
    {.name = "tpe", .searcher = &searcher_tpe},
    {.name = "gp", .searcher = &searcher_gp},
    {.name = "grid", .searcher = &searcher_grid},
    {.name = "hyperband",
     .strategy = "hyperband",
     .settings = "{\"horizon\": \"finite\", \"max_resource\": 4}"},
    {.name = "hyperband-resumed",
     .strategy = "hyperband",
     .settings = "{\"horizon\": \"finite\", \"max_resource\": 4}",
     .killed = 0.7},
    {.name = "asha", .strategy = "asha", .settings = "{\"eta\": 3}"},
    {.name = "complete",
     .strategy = "complete",
     .settings = "{\"pruner\": \"median\", \"startup\": 2}"},
    {.name = "tupaq", .strategy = "tupaq"},
    {.name = "pbt",
     .strategy = "pbt",
     .settings = "{\"population\": 3, \"interval\": 3}"},
    {.name = "fixed",
     .strategy = "fixed",
     .settings = "{\"schedule\": \"exponential\", \"gamma\": 0.5}"},
};

static struct sim_family family_of(const struct job *j)
{
    struct sim_family f = usual;

    f.strategy = j->strategy;
    f.strategy_settings = j->settings;
    f.searcher = j->searcher;
    if (j->strategy)
        f.trial_clocks = 0;
    if (j->searcher == &searcher_grid)
        f.space = "{" RATE "}";
    if (j->strategy && strcmp(j->strategy, "fixed") == 0)
        f.cliff = 0;
    if (j->retunes) {
        f.converged = true;
        f.max_epochs = 5;
        f.plateau_epochs = 1;
    }
    return f;
}

/* ---- one run ------------------------------------------------------------- */

static char point[160]; /* the one that is tried */

/* What a run that hangs or breaks off was about. */
static void say_point(int signal)
{
    static const char what[] = "at the point ";

    (void)!write(STDERR_FILENO, what, sizeof(what) - 1);
    (void)!write(STDERR_FILENO, point, strlen(point));
    (void)!write(STDERR_FILENO, "\n", 1);
    if (signal == SIGALRM)
        _exit(1);
}

enum { HANGS_S = 60 };

struct whole {
    struct sim_family family;
    struct sim_result undisturbed;
    struct sim_storage storage;                   /* without faults */
    unsigned process;                             /* whose calls fail */
    uint64_t allocations, called[SIM_DISK_CALLS]; /* of it, undisturbed */
};

static void run(const struct whole *w, const struct sim_storage *storage,
                struct sim_result *r)
{
    struct sim_options o = {.storage = storage};
    int64_t before = mem_outstanding();

    alarm(HANGS_S);
    sim_run(&w->family, 1, &o, r);
    alarm(0);
    if (mem_outstanding() != before)
        fail_msg("%s: %" PRId64 " allocations are left", point,
                 mem_outstanding() - before);
}

static void check_end(const struct whole *w, const struct sim_result *r)
{
    const struct sim_result *u = &w->undisturbed;

    if (r->hung || r->finish.status != RUN_FINISHED ||
        strcmp(r->finish.reason, u->finish.reason) != 0)
        fail_msg("%s: %s, %s: %s: %s", point, r->hung ? "hung" : "ended",
                 run_status_name(r->finish.status), r->finish.reason,
                 r->finish.message);
    if (r->epochs != u->epochs || r->loss != u->loss)
        fail_msg("%s: %u epochs, loss %.17g; undisturbed %u, %.17g", point,
                 r->epochs, r->loss, u->epochs, u->loss);
    if (r->crashed > w->process + 1)
        fail_msg("%s: resumed %u times", point, r->crashed);
}

static void count(struct whole *w)
{
    struct scarce scarce = {.process = w->process};
    struct sim_storage storage = w->storage;
    struct sim_result r;

    storage.scarce = &scarce;
    storage.faults.process = w->process;
    run(w, &storage, &r);
    check_end(w, &r);
    w->allocations = (uint64_t)r.allocations;
    memcpy(w->called, r.disk.called, sizeof(w->called));
}

static void prepare(const struct job *j, struct whole *w)
{
    memset(w, 0, sizeof(*w));
    w->family = family_of(j);
    w->process = j->killed > 0;
    snprintf(point, sizeof(point), "%s, undisturbed", j->name);
    run(w, &w->storage, &w->undisturbed);
    assert_int_equal(w->undisturbed.finish.status, RUN_FINISHED);
    assert_true(isfinite(w->undisturbed.loss));
    w->storage.killed_at_s = j->killed * w->undisturbed.seconds;
    run(w, &w->storage, &w->undisturbed);
    assert_int_equal(w->undisturbed.crashed, w->process);
    count(w);
}

/* ---- points -------------------------------------------------------------- */

struct count {
    uint64_t points, interrupted;
};

static uint64_t from_environment(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text ? strtoull(text, NULL, 10) : otherwise;
}

/* From one point to the next: the gate takes @few of @calls. */
static uint64_t step_of(uint64_t calls, uint64_t few)
{
    uint64_t step = from_environment("POINTS_STEP", 0);

    return step ? step : calls / (few ? few : 1) + 1;
}

static void one(const struct whole *w, const struct sim_storage *storage,
                struct count *c)
{
    struct sim_result r;

    run(w, storage, &r);
    check_end(w, &r);
    c->points++;
    c->interrupted += r.crashed > w->process;
    if (storage->scarce && !r.ran_out)
        fail_msg("%s: so many allocations there are not", point);
}

enum { ENDS = 4 };

/* Every allocation of the process, as far as they are asked for. */
static void allocations_fail(const struct job *j, const struct whole *w,
                             uint64_t few, bool forever, struct count *c)
{
    struct scarce scarce = {.forever = forever, .process = w->process};
    struct sim_storage storage = w->storage;
    uint64_t nth = from_environment("POINT", 1);

    storage.scarce = &scarce;
    /* The end of the run, where nothing else is under way, more closely: who
     * waits for memory then must not do so for ever. */
    for (uint64_t k = 1; few && forever && nth == 1 && k <= ENDS; k++) {
        scarce.nth = (int64_t)(w->allocations - k * w->allocations / 120);
        snprintf(point, sizeof(point),
                 "JOB=%s KIND=memory POINT=%" PRId64 " for ever", j->name,
                 scarce.nth);
        one(w, &storage, c);
    }
    for (; nth <= w->allocations; nth += step_of(w->allocations, few)) {
        scarce.nth = (int64_t)nth;
        snprintf(point, sizeof(point), "JOB=%s KIND=memory POINT=%" PRIu64 "%s",
                 j->name, nth, forever ? " for ever" : "");
        one(w, &storage, c);
        if (getenv("POINT"))
            break;
    }
}

/* The same of one kind of call on the disk. */
static void calls_fail(const struct job *j, const struct whole *w, uint64_t few,
                       enum sim_disk_call call, bool forever, struct count *c)
{
    static const int with[SIM_DISK_CALLS] = {
        [SIM_DISK_OPEN] = EMFILE,  [SIM_DISK_READ] = EIO,
        [SIM_DISK_WRITE] = ENOSPC, [SIM_DISK_SYNC] = EIO,
        [SIM_DISK_RENAME] = EIO,   [SIM_DISK_UNLINK] = EIO,
        [SIM_DISK_MKDIR] = ENOSPC, [SIM_DISK_TRUNCATE] = EIO,
        [SIM_DISK_SIZE] = EIO};
    struct sim_storage storage = w->storage;
    uint64_t calls = w->called[call], nth = from_environment("POINT", 1);

    storage.faults = (struct sim_disk_faults){.call = call,
                                              .with = with[call],
                                              .forever = forever,
                                              .process = w->process};
    for (; nth <= calls; nth += step_of(calls, few)) {
        storage.faults.nth = nth;
        snprintf(point, sizeof(point), "JOB=%s KIND=%s POINT=%" PRIu64 "%s",
                 j->name, sim_disk_call_name(call), nth,
                 forever ? " for ever" : "");
        one(w, &storage, c);
        if (getenv("POINT"))
            break;
    }
}

static bool is_asked_for(const char *kind)
{
    const char *only = getenv("KIND");

    return !only || strcmp(only, kind) == 0;
}

static void say(const char *job, const char *kind, uint64_t calls,
                const struct count *c)
{
    printf("sim_points job=%s kind=%s calls=%" PRIu64 " points=%" PRIu64
           " resumed=%" PRIu64 "\n",
           job, kind, calls, c->points, c->interrupted);
    fflush(stdout);
}

static uint64_t try_job(const struct job *j, uint64_t few)
{
    static struct whole w;
    struct count c = {0};
    uint64_t points;

    prepare(j, &w);
    for (int forever = 0; forever < 2 && is_asked_for("memory"); forever++)
        allocations_fail(j, &w, few, forever, &c);
    say(j->name, "memory", w.allocations, &c);
    points = c.points;
    for (int call = 0; call < SIM_DISK_CALLS; call++) {
        const char *name = sim_disk_call_name((enum sim_disk_call)call);

        memset(&c, 0, sizeof(c));
        for (int forever = 0; forever < 2 && is_asked_for(name); forever++)
            calls_fail(j, &w, few / 4, (enum sim_disk_call)call, forever, &c);
        say(j->name, name, w.called[call], &c);
        points += c.points;
    }
    return points;
}

/* Whichever call fails, the run ends as it should. */
static void calls_that_fail_change_no_run(void **state)
{
    const char *only = getenv("JOB");
    uint64_t points = 0;

    (void)state;
    for (size_t i = 0; i < sizeof(jobs) / sizeof(*jobs);
         i += !only && sim_fewer() ? 3 : 1)
        if (!only || strcmp(only, jobs[i].name) == 0)
            points += try_job(&jobs[i], sim_fewer() ? 2 : 6);
    printf("sim_points points=%" PRIu64 "\n", points);
    assert_true(points > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_that_fail_change_no_run),
    };

    json_count_memory();
    sqlite_memory_count();
    signal(SIGABRT, say_point);
    signal(SIGALRM, say_point);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
