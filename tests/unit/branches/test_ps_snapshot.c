#include "base/json/json.h"
#include "base/mem.h"
#include "ps/disk/backup_io.h"
#include "ps/disk/restore_io.h"
#include "ps/server/ps.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/ps_fixture.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WORKERS = 3 };

static char folder[64];

static const char *in_folder(const char *name)
{
    static char path[2][128];
    static int next;

    next = !next;
    snprintf(path[next], sizeof(path[next]), "%s/%s", folder, name);
    return path[next];
}

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/test_ps_snapshot-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static void remove_snapshot(const char *name)
{
    char manifest[64];

    for (int i = 0; i < WORKERS; i++) {
        char shard[64];

        snprintf(shard, sizeof(shard), "%s/shard-%d", name, i);
        unlink(in_folder(shard));
    }
    snprintf(manifest, sizeof(manifest), "%s/manifest.json", name);
    unlink(in_folder(manifest));
    rmdir(in_folder(name));
}

/* Fails where a test left anything but its snapshots. */
static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

static enum err write_snapshot(struct mlt_ps *ps, branch_id id,
                               const char *name, struct fault *f)
{
    struct pollfd p = {.events = POLLIN};
    enum err err = ps_snapshot_begin(ps, id, in_folder(name), f);

    if (err)
        return err;
    p.fd = ps_snapshot_fd(ps);
    assert_int_equal(poll(&p, 1, 60000), 1);
    return ps_snapshot_end(ps, NULL, f);
}

/* A server whose branch 1 is kept after five clocks; *s its state. */
static struct mlt_ps *ps_with_kept(struct fixture_state *s)
{
    struct mlt_ps *ps = fixture_full_ps(WORKERS, "bsp");

    fixture_clocks(ps, 0, 5);
    fixture_state(ps, 0, s);
    assert_int_equal(ps_fork(ps, 1, 0, BRANCH_KEPT), ERR_OK);
    return ps;
}

/* A snapshot that is written while training goes on holds the state of its
 * branch, slots and local tables included: restored in another process's place
 * and trained further, it becomes to the bit what the original becomes. */
static void snapshot_restored_goes_on_as_the_original(void **state)
{
    static struct fixture_state want, got;
    struct mlt_ps *ps = ps_with_kept(&want);
    uint64_t bytes = 0;
    struct fault f;

    (void)state;
    assert_int_equal(ps_snapshot_begin(ps, 1, in_folder("a"), &f), ERR_OK);
    fixture_clocks(ps, 0, 7);
    assert_int_equal(ps_snapshot_end(ps, &bytes, &f), ERR_OK);
    assert_true(bytes > 2 * FIXTURE_ROWS * FIXTURE_WIDTH * 8);
    assert_int_equal(ps_drop(ps, 1), ERR_OK);
    fixture_state(ps, 0, &want);
    mlt_ps_free(ps);
    ps = fixture_full_ps(WORKERS, "bsp");
    assert_int_equal(ps_restore(ps, 40, in_folder("a"), &f), ERR_OK);
    assert_int_equal(ps_fork(ps, 41, 40, BRANCH_TRAINING), ERR_OK);
    fixture_clocks(ps, 41, 7);
    fixture_state(ps, 41, &got);
    assert_memory_equal(&want, &got, sizeof(want));
    mlt_ps_free(ps);
    remove_snapshot("a");
}

/* One at a time, of a kept branch, into a new folder; the branch stays until it
 * is written. */
static void snapshot_begin_refuses_what_it_cannot_do(void **state)
{
    static struct fixture_state s;
    struct mlt_ps *ps = ps_with_kept(&s);
    struct fault f;

    (void)state;
    assert_int_equal(ps_snapshot_fd(ps), -1);
    assert_false(ps_snapshot_done(ps));
    assert_int_equal(ps_snapshot_end(ps, NULL, &f), ERR_NOENT);
    assert_int_equal(ps_snapshot_begin(ps, 9, in_folder("a"), &f), ERR_NOENT);
    assert_int_equal(ps_snapshot_begin(ps, 0, in_folder("a"), &f), ERR_INVAL);
    assert_int_equal(ps_snapshot_begin(ps, 1, in_folder("a"), &f), ERR_OK);
    assert_int_equal(ps_snapshot_begin(ps, 1, in_folder("b"), &f), ERR_BUSY);
    assert_int_equal(ps_drop(ps, 1), ERR_BUSY);
    assert_int_equal(ps_snapshot_end(ps, NULL, &f), ERR_OK);
    assert_int_equal(ps_snapshot_begin(ps, 1, in_folder("a/"), &f), ERR_EXIST);
    assert_non_null(strstr(f.text, "/a"));
    assert_int_equal(ps_drop(ps, 1), ERR_OK);
    mlt_ps_free(ps);
    remove_snapshot("a");
}

/* A folder that cannot be made fails the snapshot, in words; a temporary one
 * that a killed process left is replaced. */
static void snapshot_folder_errors_leave_nothing(void **state)
{
    static struct fixture_state s;
    struct mlt_ps *ps = ps_with_kept(&s);
    struct fault f;
    FILE *left;

    (void)state;
    assert_int_equal(write_snapshot(ps, 1, "no/a", &f), ERR_IO);
    assert_non_null(strstr(f.text, "no/a.tmp"));
    assert_int_equal(mkdir(in_folder("b.tmp"), 0777), 0);
    left = fopen(in_folder("b.tmp/shard-7"), "w");
    assert_non_null(left);
    fclose(left);
    assert_int_equal(write_snapshot(ps, 1, "b", &f), ERR_OK);
    assert_int_equal(access(in_folder("b/shard-7"), F_OK), -1);
    assert_int_equal(access(in_folder("b.tmp"), F_OK), -1);
    mlt_ps_free(ps);
    remove_snapshot("b");
}

/* Canceled, or given up with its server: whole or not there. */
static void snapshot_canceled_is_whole_or_not_there(void **state)
{
    static struct fixture_state s;
    struct mlt_ps *ps = ps_with_kept(&s);
    int64_t before;
    struct fault f;
    enum err err;

    (void)state;
    assert_int_equal(ps_snapshot_begin(ps, 1, in_folder("a"), &f), ERR_OK);
    ps_snapshot_cancel(ps);
    err = ps_snapshot_end(ps, NULL, &f);
    assert_true(err == ERR_OK || err == ERR_CANCELED);
    assert_int_equal(access(in_folder("a"), F_OK), err == ERR_OK ? 0 : -1);
    remove_snapshot("a");
    mlt_ps_free(ps);
    before = mem_outstanding();
    ps = ps_with_kept(&s);
    assert_int_equal(ps_snapshot_begin(ps, 1, in_folder("a"), &f), ERR_OK);
    mlt_ps_free(ps);
    assert_int_equal(mem_outstanding(), before);
    remove_snapshot("a");
    assert_int_equal(access(in_folder("a.tmp"), F_OK), -1);
}

/* Refused with @code and a fault that names what @says, nothing changed. */
static void refused(struct mlt_ps *ps, const char *name, enum err code,
                    const char *says)
{
    struct store_stats before, after;
    struct fault f;

    ps_stats(ps, &before);
    assert_int_equal(ps_restore(ps, 40, in_folder(name), &f), code);
    if (!strstr(f.text, says))
        fail_msg("\"%s\" does not say \"%s\"", f.text, says);
    assert_false(ps_has(ps, 40));
    ps_stats(ps, &after);
    assert_int_equal(before.branches, after.branches);
    assert_int_equal(before.reserved_bytes, after.reserved_bytes);
    assert_int_equal(before.chunks_in_use, after.chunks_in_use);
}

static void flip_byte(const char *path, long offset)
{
    FILE *file = fopen(path, "r+b");
    int c;

    assert_non_null(file);
    assert_int_equal(fseek(file, offset, SEEK_SET), 0);
    c = fgetc(file);
    assert_int_equal(fseek(file, offset, SEEK_SET), 0);
    assert_true(fputc(c ^ 0x10, file) != EOF);
    fclose(file);
}

/* Damage in any shard's file refuses the whole snapshot by the file's name, and
 * takes back the shards before it. */
static void restore_of_a_damaged_shard_changes_nothing(void **state)
{
    static struct fixture_state s;
    struct mlt_ps *ps = ps_with_kept(&s);
    struct fault f;

    (void)state;
    assert_int_equal(write_snapshot(ps, 1, "a", &f), ERR_OK);
    for (int shard = 0; shard < WORKERS; shard++) {
        char name[32];

        snprintf(name, sizeof(name), "a/shard-%d", shard);
        for (long offset = 3; offset < 3000; offset += 499) {
            flip_byte(in_folder(name), offset);
            refused(ps, "a", ERR_FORMAT, strchr(name, '/'));
            flip_byte(in_folder(name), offset);
        }
    }
    assert_int_equal(ps_restore(ps, 0, in_folder("a"), &f), ERR_EXIST);
    assert_int_equal(ps_restore(ps, 40, in_folder("a"), &f), ERR_OK);
    assert_int_equal(unlink(in_folder("a/shard-2")), 0);
    assert_int_equal(ps_drop(ps, 40), ERR_OK);
    refused(ps, "a", ERR_NOENT, "a/shard-2");
    refused(ps, "nothing", ERR_NOENT, "nothing/manifest.json");
    mlt_ps_free(ps);
    remove_snapshot("a");
}

/* A file of another snapshot, whole in itself, a file that was cut, and one
 * that is longer are refused by name; so is a folder without its manifest. */
static void restore_of_mixed_files_changes_nothing(void **state)
{
    static struct fixture_state s;
    struct mlt_ps *ps = ps_with_kept(&s);
    struct fault f;

    (void)state;
    assert_int_equal(write_snapshot(ps, 1, "a", &f), ERR_OK);
    fixture_clocks(ps, 0, 1);
    assert_int_equal(ps_fork(ps, 2, 0, BRANCH_KEPT), ERR_OK);
    assert_int_equal(write_snapshot(ps, 2, "b", &f), ERR_OK);
    assert_int_equal(rename(in_folder("b/shard-1"), in_folder("a/shard-1")), 0);
    refused(ps, "a", ERR_FORMAT, "a/shard-1: seal");
    assert_int_equal(truncate(in_folder("a/shard-1"), 5000), 0);
    refused(ps, "a", ERR_FORMAT, "a/shard-1: 5000 bytes");
    assert_int_equal(unlink(in_folder("b/manifest.json")), 0);
    refused(ps, "b", ERR_NOENT, "b/manifest.json");
    mlt_ps_free(ps);
    remove_snapshot("a");
    remove_snapshot("b");
}

/* A snapshot of other tables or of another rule is not believed; nor one of
 * another number of workers where a local table says nothing about it. */
static void restore_into_another_server_is_refused(void **state)
{
    static struct fixture_state s;
    struct mlt_ps *ps = ps_with_kept(&s);
    struct fault f;

    (void)state;
    assert_int_equal(write_snapshot(ps, 1, "a", &f), ERR_OK);
    mlt_ps_free(ps);
    ps = fixture_full_ps(2, "bsp");
    refused(ps, "a", ERR_UNSUPPORTED, "restore with 3 workers");
    mlt_ps_free(ps);
    ps = fixture_ps(WORKERS, "bsp", "adagrad");
    fixture_table(ps, "weights", MLT_F32, MLT_SHARED, 0);
    fixture_table(ps, "users", MLT_F32, MLT_EXCLUSIVE, 0);
    fixture_table(ps, "counter", MLT_I32, MLT_LOCAL, 0);
    fixture_start(ps);
    refused(ps, "a", ERR_INVAL, "adagrad");
    mlt_ps_free(ps);
    remove_snapshot("a");
}

/* ---- another number of workers ------------------------------------------- */

/* Worker w of now gets rows w, w + workers, ... of before, whose counter is in
 * row w of worker w; and says how often it was asked. */
static int move_counters(const struct mlt_move *m, void *arg)
{
    int *calls = arg;

    for (unsigned was = 0; was < m->workers_before; was++) {
        const int32_t *from = mlt_move_from(m, was, was);
        int32_t *to = mlt_move_to(m, was % m->workers, was % m->workers);

        assert_non_null(to); /* one node */
        to[0] += from[0];
    }
    ++*calls;
    return 0;
}

static int refuse_to_move(const struct mlt_move *m, void *arg)
{
    (void)m;
    (void)arg;
    return ERR_APP;
}

/* Values, and through an update with gradients alike, what the rules remember:
 * slots differ wherever one bit does. */
static void update_all(struct mlt_ps *ps, branch_id id, struct fixture_state *s)
{
    static double delta[FIXTURE_ROWS * FIXTURE_WIDTH];

    for (int i = 0; i < FIXTURE_ROWS * FIXTURE_WIDTH; i++)
        delta[i] = (double)fixture_noise((uint64_t)i, 1, 2);
    assert_int_equal(ps_inc_rows(ps, id, "weights", 0, FIXTURE_ROWS, delta),
                     ERR_OK);
    assert_int_equal(ps_inc_rows(ps, id, "users", 0, FIXTURE_ROWS, delta),
                     ERR_OK);
    fixture_state(ps, id, s);
}

/* Onto any number of workers rows come as they were, bit for bit, slots
 * included, and a local table as its mover says. */
static void restore_onto_other_workers_has_the_same_rows(void **state)
{
    static struct fixture_state want, got;
    struct mlt_ps *ps = ps_with_kept(&want);
    struct fault f;

    (void)state;
    assert_int_equal(write_snapshot(ps, 1, "a", &f), ERR_OK);
    update_all(ps, 0, &want);
    mlt_ps_free(ps);
    for (unsigned workers = 1; workers <= 8; workers++) {
        int calls = 0;
        uint64_t clocks = 0;

        ps = fixture_full_ps(workers, "bsp");
        assert_int_equal(mlt_ps_set_mover(ps, 2, move_counters, &calls), 0);
        assert_int_equal(ps_restore(ps, 40, in_folder("a"), &f), ERR_OK);
        assert_int_equal(mlt_ps_clocks(ps, 40, &clocks), 0);
        assert_int_equal(clocks, 5);
        assert_int_equal(calls, workers != WORKERS);
        assert_int_equal(ps_fork(ps, 41, 40, BRANCH_TRAINING), ERR_OK);
        update_all(ps, 41, &got);
        assert_memory_equal(want.weights, got.weights, sizeof(got.weights));
        assert_memory_equal(want.users, got.users, sizeof(got.users));
        for (unsigned w = 0, sum = 0; w < workers; w++) {
            sum += (unsigned)got.counter[w];
            if (w + 1 == workers)
                assert_int_equal(sum, 5 * WORKERS);
        }
        fixture_clocks(ps, 41, 2); /* it can be trained on */
        mlt_ps_free(ps);
    }
    ps = fixture_full_ps(2, "bsp");
    mlt_ps_set_mover(ps, 2, refuse_to_move, NULL);
    refused(ps, "a", ERR_APP, "table counter");
    mlt_ps_free(ps);
    remove_snapshot("a");
}

/* Snapshots with chunks of another size, which the application may choose. */
static void restore_onto_other_chunks_has_the_same_rows(void **state)
{
    static struct fixture_state want;
    struct mlt_ps *ps = ps_with_kept(&want);
    struct mlt_table_options opt = {.size = sizeof(opt),
                                    .name = "weights",
                                    .rows = FIXTURE_ROWS,
                                    .width = FIXTURE_WIDTH};
    struct fault f;
    mlt_table t;

    (void)state;
    assert_int_equal(write_snapshot(ps, 1, "a", &f), ERR_OK);
    mlt_ps_free(ps);
    ps = fixture_ps(WORKERS, "bsp", "sgd");
    mlt_ps_table(ps, &opt, &t, NULL);
    opt.name = "users";
    opt.access = MLT_EXCLUSIVE;
    opt.rule = "adagrad";
    mlt_ps_table(ps, &opt, &t, NULL);
    opt = (struct mlt_table_options){.size = sizeof(opt),
                                     .name = "counter",
                                     .rows = FIXTURE_ROWS,
                                     .width = FIXTURE_WIDTH,
                                     .type = MLT_I32,
                                     .access = MLT_LOCAL};
    mlt_ps_table(ps, &opt, &t, NULL);
    fixture_start(ps);
    assert_int_equal(ps_restore(ps, 40, in_folder("a"), &f), ERR_OK);
    {
        static struct fixture_state got;

        assert_int_equal(ps_fork(ps, 41, 40, BRANCH_TRAINING), ERR_OK);
        fixture_state(ps, 41, &got);
        assert_memory_equal(&want, &got, sizeof(want));
    }
    mlt_ps_free(ps);
    remove_snapshot("a");
}

/* ---- memory and disk ----------------------------------------------------- */

/* A file that cannot grow (as on a full disk) fails the snapshot by the file's
 * name and leaves nothing; training is not touched. */
static void snapshot_on_a_full_disk_leaves_nothing(void **state)
{
    static struct fixture_state s;
    struct mlt_ps *ps = ps_with_kept(&s);
    struct rlimit was, small;
    struct fault f;

    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    small = was;
    small.rlim_cur = 1500;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_int_equal(write_snapshot(ps, 1, "a", &f), ERR_IO);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    assert_non_null(strstr(f.text, "a.tmp/shard-0"));
    fixture_clocks(ps, 0, 1);
    assert_int_equal(write_snapshot(ps, 1, "a", &f), ERR_OK);
    mlt_ps_free(ps);
    remove_snapshot("a");
}

static void restore_with_failing_allocations(struct mlt_ps *ps)
{
    bool failed;
    int n = 0;

    do {
        enum err err;

        mem_fail_at(++n, 0);
        err = ps_restore(ps, 40, in_folder("a"), NULL);
        failed = mem_failed();
        mem_fail_at(0, 0);
        assert_int_equal(err, failed ? ERR_NOMEM : ERR_OK);
        assert_int_equal(ps_has(ps, 40), !failed);
    } while (failed);
}

/* Every allocation that fails, while a snapshot begins or is restored, is
 * reported, leaks nothing and leaves no branch. */
static void snapshot_any_failing_allocation_is_clean(void **state)
{
    static struct fixture_state s;
    struct mlt_ps *ps = ps_with_kept(&s);
    bool failed;
    int n = 0;

    (void)state;
    do {
        int64_t before = mem_outstanding();
        enum err err;

        mem_fail_at(++n, 0);
        err = write_snapshot(ps, 1, "a", NULL);
        failed = mem_failed();
        mem_fail_at(0, 0);
        assert_int_equal(err, failed ? ERR_NOMEM : ERR_OK);
        assert_int_equal(mem_outstanding(), before);
    } while (failed);
    restore_with_failing_allocations(ps);
    mlt_ps_free(ps);
    ps = fixture_full_ps(5, "bsp");
    mlt_ps_set_mover(ps, 2, move_counters, &n);
    restore_with_failing_allocations(ps);
    mlt_ps_free(ps);
    remove_snapshot("a");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(snapshot_restored_goes_on_as_the_original),
        cmocka_unit_test(snapshot_begin_refuses_what_it_cannot_do),
        cmocka_unit_test(snapshot_folder_errors_leave_nothing),
        cmocka_unit_test(snapshot_canceled_is_whole_or_not_there),
        cmocka_unit_test(restore_of_a_damaged_shard_changes_nothing),
        cmocka_unit_test(restore_of_mixed_files_changes_nothing),
        cmocka_unit_test(restore_into_another_server_is_refused),
        cmocka_unit_test(restore_onto_other_workers_has_the_same_rows),
        cmocka_unit_test(restore_onto_other_chunks_has_the_same_rows),
        cmocka_unit_test(snapshot_on_a_full_disk_leaves_nothing),
        cmocka_unit_test(snapshot_any_failing_allocation_is_clean),
    };

    json_count_memory();
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
