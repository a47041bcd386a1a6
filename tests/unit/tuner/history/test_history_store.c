#include "base/json/json.h"
#include "base/mem.h"
#include "tuner/history/history_store.h"

#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/retunes.h"

enum { WINDOWS = 12, SOME = HISTORY_STORE_FROM + 60 };

static struct history *begin(void)
{
    struct history *h = mem_alloc(sizeof(*h));

    assert_non_null(h);
    history_init(h);
    return h;
}

static void end(struct history *h)
{
    history_deinit(h);
    mem_free(h);
}

static enum err create(struct history *h, branch_id id)
{
    struct record r;
    enum err err;

    record_init(&r, RECORD_BRANCH_CREATED);
    r.branch_created.branch = id;
    r.branch_created.parent = id > 1 ? 1 : BRANCH_NONE;
    r.branch_created.setting = json_pack("{s:f}", "learning_rate", id * 0.1);
    err = history_apply(h, &r);
    record_deinit(&r);
    return err;
}

static enum err run(struct history *h, branch_id id, clock_no ran)
{
    struct record r;
    enum err err;

    record_init(&r, RECORD_PROGRESS);
    r.progress.branch = id;
    r.progress.branch_clock = r.progress.first = ran;
    r.progress.windows = WINDOWS;
    for (uint32_t i = 0; i < WINDOWS; i++)
        r.progress.window[i] = (struct progress_window){
            .sum = id, .samples = 10, .clocks = 1, .seconds = 0.5};
    err = history_apply(h, &r);
    record_deinit(&r);
    return err;
}

static enum err release(struct history *h, branch_id id)
{
    struct record r;
    enum err err;

    record_init(&r, RECORD_BRANCH_FREED);
    r.branch_freed.branch = id;
    err = history_apply(h, &r);
    record_deinit(&r);
    return err;
}

static void one(struct history *h, branch_id id, int times)
{
    assert_int_equal(create(h, id), ERR_OK);
    for (int i = 0; i < times; i++)
        assert_int_equal(run(h, id, (clock_no)i * WINDOWS), ERR_OK);
    assert_int_equal(release(h, id), ERR_OK);
}

/* All that was reported of @id is there, and its setting. */
static void assert_whole(const struct history *h, branch_id id, int times)
{
    const struct history_branch *b = history_branch(h, id);
    json_t *wanted = json_pack("{s:f}", "learning_rate", id * 0.1);
    json_t *setting = history_branch_setting(h, b);
    uint64_t clocks = 0;
    double sum = 0;

    for (size_t i = 0; i < b->points; i++) {
        clocks += b->point[i].w.clocks;
        sum += b->point[i].w.sum;
    }
    assert_int_equal(clocks, times * WINDOWS);
    assert_true(fabs(sum - (double)id * (double)clocks) < 1e-6);
    assert_true(json_equal(setting, wanted));
    json_decref(setting);
    json_decref(wanted);
}

/* What is stored lies within the block, and nothing in another's. */
static void assert_side_by_side(const struct history *h)
{
    size_t used = 0;

    for (size_t i = 0; i < h->branches; i++) {
        const struct history_branch *b = &h->branch[i];
        const unsigned char *point = (const void *)b->point;

        if (!b->stored)
            continue;
        if (point) {
            assert_true(point >= h->store.bytes);
            assert_true(point + b->points * sizeof(*b->point) <= b->few);
        }
        assert_true(b->few >= h->store.bytes);
        assert_true(b->few + b->few_len <= h->store.bytes + h->store.len);
        used += b->points * sizeof(*b->point) + (b->few_len + 7) / 8 * 8;
    }
    assert_int_equal(used, h->store.len - h->store.dead);
}

static void store_begins_when_there_are_many(void **state)
{
    struct history *h = begin();
    branch_id id = 1;

    (void)state;
    for (; id < HISTORY_STORE_FROM; id++)
        one(h, id, 1);
    assert_null(h->store.bytes);
    assert_false(history_branch(h, 1)->stored);
    one(h, id, 1);
    for (branch_id i = 1; i <= id; i++) {
        assert_true(history_branch(h, i)->stored);
        assert_whole(h, i, 1);
    }
    assert_side_by_side(h);
    end(h);
}

/* However many are freed, none holds an allocation of its own. */
static void store_takes_what_small_pieces_there_would_be(void **state)
{
    struct history *h = begin();
    int64_t before;
    branch_id id = 1;

    (void)state;
    for (; id < SOME; id++)
        one(h, id, 2);
    before = mem_outstanding();
    for (; id < 2 * SOME; id++)
        one(h, id, 2);
    assert_int_equal(mem_outstanding(), before);
    assert_side_by_side(h);
    end(h);
}

/* Branches are thinned in the block, which is written anew, and ever less of it
 * is nobody's; a live one stays out of it. */
static void store_is_written_anew_without_what_was_given_up(void **state)
{
    enum { TIMES = 9, MANY = HISTORY_FREED_POINTS_MAX / (TIMES * WINDOWS) * 4 };
    struct history *h = begin();
    size_t most = 0;

    (void)state;
    assert_int_equal(create(h, 1), ERR_OK);
    assert_int_equal(run(h, 1, 0), ERR_OK);
    for (branch_id id = 2; id < MANY; id++) {
        one(h, id, TIMES);
        if (h->store.len > most)
            most = h->store.len;
    }
    assert_false(history_branch(h, 1)->stored);
    for (branch_id id = 1; id < MANY; id++)
        assert_whole(h, id, id == 1 ? 1 : TIMES);
    assert_side_by_side(h);
    history_thin(h);
    assert_side_by_side(h);
    one(h, MANY, TIMES);
    assert_true(h->store.dead <= h->store.len / 4);
    assert_side_by_side(h);
    assert_true(most < HISTORY_FREED_POINTS_MAX * sizeof(struct history_point) *
                               3 / 2 +
                           MANY * 64);
    end(h);
}

/* Without memory for a block all is as it was, and stored later. */
static void store_without_memory_serves_as_well(void **state)
{
    struct history *h = begin();
    branch_id id = 1;

    (void)state;
    for (; id < HISTORY_STORE_FROM; id++)
        one(h, id, 1);
    assert_int_equal(create(h, id), ERR_OK);
    assert_int_equal(run(h, id, 0), ERR_OK);
    mem_fail_at(1, 1);
    assert_int_equal(release(h, id), ERR_OK);
    mem_fail_at(0, 0);
    assert_null(h->store.bytes);
    assert_whole(h, id, 1);
    one(h, ++id, 1);
    assert_whole(h, id, 1);
    assert_whole(h, id - 1, 1);
    assert_true(history_branch(h, id)->stored);
    end(h);
}

/* A journal that is not ours may report of one that is freed. */
static void store_gives_back_one_that_grows(void **state)
{
    struct history *h = begin();
    int refused = 0;

    (void)state;
    for (branch_id id = 1; id < SOME; id++)
        one(h, id, 1);
    for (int64_t n = 1;; n++) {
        enum err err;

        mem_fail_at(n, 1);
        err = run(h, 5, WINDOWS);
        mem_fail_at(0, 0);
        assert_side_by_side(h);
        if (err == ERR_OK)
            break;
        assert_int_equal(err, ERR_NOMEM);
        assert_whole(h, 5, 1);
        refused++;
    }
    assert_true(refused >= 2);
    assert_whole(h, 5, 2);
    assert_false(history_branch(h, 5)->stored);
    history_store(h, &h->branch[4]);
    assert_true(history_branch(h, 5)->stored);
    assert_whole(h, 5, 2);
    assert_side_by_side(h);
    end(h);
}

/* A run at rest keeps its tip's setting and last point, or without memory
 * neither; nothing of the block. */
static void store_goes_when_a_run_rests(void **state)
{
    (void)state;
    for (int64_t n = 0; n < 3; n++) {
        struct history *h = begin();
        struct record r;

        for (branch_id id = 1; id < SOME; id++)
            one(h, id, 1);
        record_init(&r, RECORD_SETTING_CHOSEN);
        r.setting_chosen.branch = SOME - 1;
        r.setting_chosen.setting = json_object();
        assert_int_equal(history_apply(h, &r), ERR_OK);
        record_deinit(&r);
        mem_fail_at(n, 1);
        history_rest(h);
        mem_fail_at(0, 0);
        assert_null(h->store.bytes);
        assert_int_equal(h->branches, 1);
        assert_int_equal(h->branch[0].branch, SOME - 1);
        assert_int_equal(h->branch[0].points, n == 0);
        assert_false(h->branch[0].stored);
        end(h);
    }
}

static void take(void *ctx, struct record *r)
{
    assert_int_equal(history_apply(ctx, r), ERR_OK);
    record_deinit(r);
}

/* Once a run has made an eighth of the trials that are kept, all of them have
 * their room: it grows no more. */
static void trials_have_their_room_at_once(void **state)
{
    struct history *h = begin();
    struct retunes w = {.put = take, .ctx = h, .step_s = 0.05, .random = 1};
    const unsigned char *bytes = NULL;
    int kept = 0, moved = 0;

    (void)state;
    retunes_begin(&w);
    while (history_trials_made(h) < HISTORY_TRIALS_MAX * 2) {
        retunes_one(&w);
        if (h->cold_trial.rows < HISTORY_TRIALS_MAX / 8)
            continue;
        assert_true(h->cold_trial.ends_cap >= HISTORY_TRIALS_MAX);
        moved += bytes && h->cold_trial.bytes != bytes;
        bytes = h->cold_trial.bytes;
        kept++;
    }
    assert_true(kept > 900);
    assert_int_equal(moved, 0);
    end(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(store_begins_when_there_are_many),
        cmocka_unit_test(store_takes_what_small_pieces_there_would_be),
        cmocka_unit_test(store_is_written_anew_without_what_was_given_up),
        cmocka_unit_test(store_without_memory_serves_as_well),
        cmocka_unit_test(store_gives_back_one_that_grows),
        cmocka_unit_test(store_goes_when_a_run_rests),
        cmocka_unit_test(trials_have_their_room_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
