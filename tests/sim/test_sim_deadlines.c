/* No run is left hanging: whatever befalls its messages and its training
 * system, it ends by its deadline, and says truly why.
 *
 * Any message, in either direction, may be lost, refused, late, repeated or
 * other than it was; the process may die or hang there. After every event the
 * simulator asserts that something with a deadline ends the wait for the next
 * one (check_wait in sim.c): the tuner says what it waits for, and for all that
 * it leaves to the shell the keeper of the real control loop must have a time.
 *
 * The gate takes some messages of each strategy and some seeds. `make
 * deadline-sim` takes SEEDS of them from number FIRST on; MESSAGES=n takes each
 * n-th message, 1 all. STRATEGY=name, MESSAGE=number and FAULT=name say which
 * alone, TRACE=1 what the tuner did.
 */
#include "base/mem.h"
#include "tests/sim/families.h"
#include "tests/sim/sim.h"
#include "tests/unit/fixture/check.h"
#include "tuner/history/record.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct sim_family usual = {
    .name = "deadlines",
    .space = "{" RATE "," BATCH "}",
    .samples = 2048,
    SIM_PACED,
    .max_epochs = 4,
    .max_trials = 4,
    .snapshot_s = 10,
    .disk_s = 0.05,
    SIM_USUAL,
};

static const struct {
    const char *name, *settings;
} strategies[] = {
    {"mltuner", NULL},
    {"fixed", NULL},
    {"hyperband", "{\"horizon\": \"finite\", \"max_resource\": 3}"},
    {"asha", "{\"eta\": 3}"},
    {"complete", "{\"pruner\": \"median\", \"startup\": 2}"},
    {"tupaq", "{\"batch\": 3, \"partial\": 2}"},
    {"pbt", "{\"population\": 3, \"interval\": 1}"},
};
enum { STRATEGIES = sizeof(strategies) / sizeof(strategies[0]) };

/* ---- what must hold ------------------------------------------------------ */

/* Why runs ended, by reason. */
struct tally {
    unsigned runs, hits, processes;
    double latest_s;
    struct {
        char what[96];
        unsigned n;
    } end[64];
};

static void count(struct tally *t, const struct sim_result *r)
{
    char what[96];
    size_t i = 0;

    snprintf(what, sizeof(what), "%s: %.60s", run_status_name(r->finish.status),
             r->finish.reason);
    while (t->end[i].n && strcmp(t->end[i].what, what) != 0)
        assert_true(++i < 64);
    snprintf(t->end[i].what, sizeof(t->end[i].what), "%s", what);
    t->end[i].n++;
    t->runs++;
    t->hits += r->hits;
    t->processes += r->processes;
    t->latest_s = fmax(t->latest_s, r->seconds);
}

static void tell(const char *name, const struct tally *t)
{
    printf("%s runs=%u faults=%u processes=%u latest_s=%.0f\n", name, t->runs,
           t->hits, t->processes, t->latest_s);
    for (size_t i = 0; i < 64 && t->end[i].n; i++)
        printf("%s   %-32s %u\n", name, t->end[i].what, t->end[i].n);
}

static bool is_one_of(const char *reason, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(*list, reason) == 0)
            return true;
    return false;
}

/* The reason is one that what befell the run can have. */
static bool is_true(const struct sim_result *r, bool is_scarce)
{
    static const char *const good[] = {"target", "converged", "max_epochs",
                                       "max_time", NULL};
    /* Of the tuner's own: no fault of a message is one of these. */
    static const char *const never[] = {"stopped", "interrupted", "user",
                                        "resumed", "target",      NULL};
    /* Without any fault of a message, but for want of memory. */
    static const char *const scarce[] = {"limit", "not_saved", NULL};
    bool finished = r->finish.status == RUN_FINISHED;

    if (finished)
        return is_one_of(r->finish.reason, good);
    if (r->processes == 1 && strcmp(r->finish.reason, "max_time") == 0)
        return r->clocks == 0; /* it was not ready in time */
    if (strcmp(r->finish.reason, "diverged") == 0)
        return true;
    if (r->hits == 0 && is_scarce)
        return is_one_of(r->finish.reason, scarce);
    return r->hits > 0 && !is_one_of(r->finish.reason, never);
}

/* @family and @seed, with what @plan says; it ends in time. */
static void run_one(const struct sim_family *f, uint64_t seed,
                    const struct line_plan *plan, struct tally *t,
                    struct sim_result *r)
{
    char *trace = NULL;
    const struct sim_options o = {.line = plan,
                                  .trace = getenv("TRACE") ? &trace : NULL};

    sim_run(f, seed, &o, r);
    if (trace)
        fputs(trace, stdout);
    mem_free(trace);
    if (!r->hung && run_status_is_end(r->finish.status) &&
        run_reason_is_known(r->finish.reason) && r->finish.message[0] &&
        is_true(r, f->keeps_refused > 0 || f->branches_max > 0)) {
        count(t, r);
        return;
    }
    fail_msg("strategy %s seed %llu message %llu %s (%u): %s at %g s, %s, "
             "%s: %s",
             f->strategy, (unsigned long long)seed,
             (unsigned long long)plan->at, line_fault_name(plan->what), r->hits,
             r->hung ? "hangs" : "ends", r->seconds,
             run_status_name(r->finish.status), r->finish.reason,
             r->finish.message);
}

static struct sim_family family_of(unsigned strategy)
{
    struct sim_family f = usual;

    f.strategy = strategies[strategy].name;
    f.strategy_settings = strategies[strategy].settings;
    return f;
}

/* The latest end of a run with @faults: the time that it has or takes, and what
 * each can cost. Where its time is over these are an answer (1 h) or a message
 * that is late (2 h), and a process that comes up and has ten minutes for the
 * model; else a clock (6 h). */
static double deadline(const struct sim_family *f, unsigned faults)
{
    if (f->max_time_s > 0)
        return f->max_time_s + 10 + faults * (3600 + 7200 + 600.0);
    return 600 + faults * (21600 + 7200 + 600.0);
}

/* ---- tests --------------------------------------------------------------- */

static unsigned from_environment(const char *name, unsigned usually)
{
    const char *text = getenv(name);
    unsigned n = text ? (unsigned)strtoul(text, NULL, 10) : 0;

    return n ? n : usually;
}

static bool is_wanted(const char *variable, const char *name)
{
    const char *text = getenv(variable);

    return !text || strcmp(text, name) == 0;
}

/* Each message of a run in turn meets each fault. */
static void deadlines_hold_for_every_message(void **state)
{
    unsigned step = from_environment("MESSAGES", sim_fewer() ? 61 : 17);
    struct tally t = {0};

    (void)state;
    for (unsigned i = 0; i < STRATEGIES; i++) {
        struct sim_family f = family_of(i);
        struct line_plan plan = {.load_s = 0.3};
        struct sim_result r;
        uint64_t messages;

        if (!is_wanted("STRATEGY", strategies[i].name))
            continue;
        plan.deadline_s = deadline(&f, 0);
        run_one(&f, 1, &plan, &t, &r);
        assert_int_equal(r.finish.status, RUN_FINISHED);
        messages = r.messages;
        for (uint64_t at = 1; at <= messages; at += at < 8 ? 1 : step)
            for (int what = LINE_LOST; what < LINE_FAULTS; what++) {
                if (from_environment("MESSAGE", (unsigned)at) != at ||
                    !is_wanted("FAULT", line_fault_name(what)))
                    continue;
                plan.at = at;
                plan.what = (enum line_fault)what;
                plan.program = (at + (unsigned)what) % 2;
                f.max_time_s = at % 3 ? 0 : 2;
                plan.deadline_s = deadline(&f, 1);
                run_one(&f, 1, &plan, &t, &r);
            }
    }
    tell("deadlines_each", &t);
}

/* Any number of them, anywhere. */
static void run_seed(unsigned seed, struct tally *t)
{
    struct sim_family f = family_of(seed % STRATEGIES);
    struct line_plan plan = {
        .rate = pow(10, -1 - 2 * (seed % 97) / 96.0),
        .most = 1 + seed % 5,
        .load_s = seed % 11 ? 0.3 : 5,
        .program = seed % 3 == 0,
    };
    struct sim_result r;

    if (seed % 2)
        f.max_time_s = 0.5 + seed % 40 * 0.1;
    if (seed % 13 == 0)
        f.branches_max = 5 + seed % 4;
    if (seed % 17 == 0)
        f.keeps_refused = 0.3;
    if (seed % 19 == 0)
        f.disk_s = 3;
    plan.deadline_s = deadline(&f, plan.most);
    run_one(&f, seed, &plan, t, &r);
}

/* In the first two a doubled trial time once asked nothing of any trial; in the
 * third a member's fork was to run before its parent's slice had ended. */
static const unsigned hung_once[] = {14665, 76300, 78791};

static void deadlines_hold_for_seeds(void **state)
{
    unsigned n = from_environment("SEEDS", sim_seeds(1500));
    unsigned first = from_environment("FIRST", 1);
    struct tally t = {0};

    (void)state;
    for (unsigned seed = first; seed < first + n; seed++)
        run_seed(seed, &t);
    for (size_t i = 0; i < sizeof(hung_once) / sizeof(*hung_once); i++)
        run_seed(hung_once[i], &t);
    tell("deadlines_seeds", &t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deadlines_hold_for_every_message),
        cmocka_unit_test(deadlines_hold_for_seeds),
    };

    setvbuf(stdout, NULL, _IOLBF, 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
