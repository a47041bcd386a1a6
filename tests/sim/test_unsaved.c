/* Runs whose model cannot be written, in the simulator: a snapshot says how
 * they ended, and who resumes them writes the model and nothing else. */
#include "tests/sim/families.h"
#include "tests/sim/sim.h"

#include "tests/unit/fixture/check.h"

enum {
    TRIES = 4,
    CRASHES = 4
}; /* of the model, before the run is interrupted
    */

static const struct sim_family unsaved = {
    .name = "unsaved",
    .space = "{" RATE "}",
    .samples = 4096,
    SIM_PACED,
    .max_epochs = 4,
    .plateau_epochs = 1000,
    .max_trials = 6,
    SIM_USUAL,
};

/* What the journal says of one start of the run, from 0. */
struct life {
    unsigned snapshots, slices;
    enum run_status status;
    char reason[64], message[512];
};

struct lives {
    struct life life[CRASHES + 1];
    unsigned n;
};

static void look(struct lives *l, const struct record *r)
{
    struct life *life;

    l->n += r->kind == RECORD_RUN_STARTED || r->kind == RECORD_RUN_RESUMED;
    assert_in_range(l->n, 1, CRASHES + 1);
    life = &l->life[l->n - 1];
    life->snapshots += r->kind == RECORD_SNAPSHOT_WRITTEN;
    life->slices += r->kind == RECORD_SLICE_SCHEDULED;
    if (r->kind != RECORD_RUN_FINISHED)
        return;
    life->status = r->run_finished.status;
    snprintf(life->reason, sizeof(life->reason), "%s", r->run_finished.reason);
    snprintf(life->message, sizeof(life->message), "%.500s",
             r->run_finished.message);
}

/* Runs it, and resumes it whenever it is interrupted; once more where it
 * failed. */
static void live(const struct sim_family *f, uint64_t seed, struct lives *l)
{
    static const uint64_t never[CRASHES] = {UINT64_MAX, UINT64_MAX, UINT64_MAX,
                                            UINT64_MAX};
    json_t *journal = NULL, *item;
    struct sim_options o = {
        .crash = never, .crashes = CRASHES, .failed = 1, .journal = &journal};
    struct sim_result r;
    size_t i;

    *l = (struct lives){0};
    sim_run(f, seed, &o, &r);
    assert_false(r.hung);
    json_array_foreach(journal, i, item)
    {
        struct record record;

        assert_int_equal(record_from_json(item, &record, NULL), ERR_OK);
        look(l, &record);
        record_deinit(&record);
    }
    json_decref(journal);
}

/* When the run is over whose model is not written. */
static double interrupted_at(const struct sim_family *f, uint64_t seed)
{
    struct sim_result r;

    sim_run(f, seed, NULL, &r);
    assert_false(r.hung);
    assert_string_equal(r.finish.reason, "not_saved");
    return r.seconds;
}

/* Where there is still no room when it is resumed, no second snapshot of the
 * end is tried, and what it says is true of the one that there is. */
static void unsaved_twice_has_one_snapshot_of_its_end(void **state)
{
    static const char *const strategies[] = {NULL, "fixed"};

    (void)state;
    for (unsigned seed = 1; seed <= sim_seeds(6); seed++) {
        struct sim_family f = unsaved;
        struct lives l;

        f.strategy = strategies[seed % 2];
        f.save_fails = 2 * TRIES;
        if (seed % 3 == 0) /* nor is there room for one */
            f.snapshots_until_s = interrupted_at(&f, seed) + 0.5;
        live(&f, seed, &l);
        assert_int_equal(l.n, 3);
        for (unsigned i = 0; i < 2; i++) {
            assert_string_equal(l.life[i].reason, "not_saved");
            assert_non_null(
                strstr(l.life[i].message, "only the model is written then"));
        }
        assert_int_equal(l.life[1].snapshots, 0);
        assert_int_equal(l.life[1].slices, 0);
        assert_int_equal(l.life[2].status, RUN_FINISHED);
        assert_int_equal(l.life[2].snapshots + l.life[2].slices, 0);
    }
}

/* A user (or a scheduler's signal) asks for a snapshot while that of the end is
 * read: there is no strategy then whose state it could have, and one that had
 * none would be gone on from later. */
static void unsaved_asked_for_a_snapshot_writes_none(void **state)
{
    static const char *const strategies[] = {NULL, "fixed", "asha"};

    (void)state;
    for (unsigned seed = 1; seed <= sim_seeds(6); seed++) {
        struct sim_family f = unsaved;
        struct lives l;

        f.strategy = strategies[seed % 3];
        f.save_fails = TRIES;
        f.clock_s = 1; /* there are snapshots on the way */
        /* Nodes are ready a second after that. */
        f.command[0].at_s = interrupted_at(&f, seed) + 0.5;
        f.command[0].command = COMMAND_SNAPSHOT;
        live(&f, seed, &l);
        assert_int_equal(l.n, 2);
        assert_string_equal(l.life[0].reason, "not_saved");
        assert_int_equal(l.life[1].status, RUN_FINISHED);
        assert_int_equal(l.life[1].snapshots + l.life[1].slices, 0);
    }
}

/* The same of a run that failed: who resumes it again, once its model is
 * written, finds the state in which it failed. */
static void unsaved_failure_asked_for_a_snapshot_writes_none(void **state)
{
    static const char *const strategies[] = {NULL, "fixed"};

    (void)state;
    for (unsigned seed = 1; seed <= sim_seeds(6); seed++) {
        struct sim_family f = unsaved;
        struct lives l;

        f.strategy = strategies[seed % 2];
        f.save_fails = TRIES;
        f.clock_s = 1;
        f.max_epochs = f.plateau_epochs = 20;
        f.cliff = 0;
        f.late_limit = 1e-9;
        f.late_after = 5;
        f.command[0].at_s = interrupted_at(&f, seed) + 0.5;
        f.command[0].command = COMMAND_SNAPSHOT;
        live(&f, seed, &l);
        assert_int_equal(l.n, 3);
        assert_int_equal(l.life[1].status, RUN_FAILED);
        assert_int_equal(l.life[1].snapshots + l.life[1].slices, 0);
        assert_int_equal(l.life[2].status, RUN_FAILED);
        assert_true(l.life[2].slices > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unsaved_twice_has_one_snapshot_of_its_end),
        cmocka_unit_test(unsaved_asked_for_a_snapshot_writes_none),
        cmocka_unit_test(unsaved_failure_asked_for_a_snapshot_writes_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
