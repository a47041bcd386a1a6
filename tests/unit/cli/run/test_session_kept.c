/* A run's journal stays within journal.limit. */
#include "base/json/json.h"
#include "base/mem.h"
#include "cli/run/session_internal.h"
#include "cli/state/replay.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/retunes.h"
#include "tests/unit/fixture/scratch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

/* A session as far as its journal goes, and what feeds it. */
struct kept {
    struct session s;
    struct session_options o;
    struct retunes w;
    uint64_t peak; /* bytes of records and both checkpoints */
};

static int make_run(void **state)
{
    int failed = scratch_make(state);

    if (!failed) {
        scratch_mkdir("runs");
        scratch_mkdir("runs/week-1");
    }
    return failed;
}

static void put(void *ctx, struct record *r)
{
    struct kept *k = ctx;
    json_t *json = record_to_json(r);
    char *text = json_write(json, 0);
    struct fault f = {0};

    assert_int_equal(history_apply(&k->s.history, r), ERR_OK);
    if (journal_append(k->s.journal, record_kind_name(r->kind), text,
                       strlen(text), 1, &f))
        fail_msg("%s", f.text);
    session_kept_record(&k->s, r);
    mem_free(text);
    json_decref(json);
    record_deinit(r);
}

static void begin(struct kept *k, uint64_t limit)
{
    struct fault f = {0};
    struct view_options none = {NULL};

    memset(k, 0, sizeof(*k));
    k->o.journal_limit = limit;
    k->s.o = &k->o;
    history_init(&k->s.history);
    snprintf(k->s.folder.path, sizeof(k->s.folder.path), "%s",
             scratch_path("runs/week-1"));
    k->s.kept.start = (struct checkpoint_start){.run = mem_strdup("week-1"),
                                                .name = mem_strdup("week"),
                                                .config = mem_strdup("{}"),
                                                .folder = mem_strdup("/"),
                                                .out = mem_strdup("")};
    assert_int_equal(view_new(&none, &k->s.view), ERR_OK);
    if (journal_open(scratch_folder(), true, 1000, &k->s.journal, &f) ||
        journal_begin_run(k->s.journal, "week-1", "week", "{}", 1, &f))
        fail_msg("%s", f.text);
    k->w = (struct retunes){.put = put, .ctx = k, .step_s = 0.01, .random = 1};
    retunes_begin(&k->w);
}

static void end(struct kept *k)
{
    journal_close(k->s.journal);
    view_free(k->s.view);
    history_deinit(&k->s.history);
    checkpoint_start_deinit(&k->s.kept.start);
}

static enum err one_more(struct kept *k, struct fault *f)
{
    uint64_t taken;
    enum err err;

    retunes_one(&k->w);
    err = journal_commit(k->s.journal, false, f);
    if (!err)
        err = session_kept_look(&k->s, k->w.at_s, f);
    taken = journal_bytes(k->s.journal) + 2 * k->s.kept.bytes;
    k->peak = taken > k->peak ? taken : k->peak;
    return err;
}

static enum err count(void *ctx, const struct journal_record *stored)
{
    uint64_t *n = ctx;

    (void)stored;
    ++*n;
    return ERR_OK;
}

static void assert_reads_back(struct kept *k)
{
    struct text live = {0}, again = {0};
    struct replayed r;
    struct fault f = {0};

    if (replay_run(k->s.journal, scratch_folder(), "week-1", &r, &f))
        fail_msg("%s", f.text);
    assert_string_equal(r.damage, "");
    assert_int_equal(history_pack(&k->s.history, HISTORY_PACK_ALL, &live),
                     ERR_OK);
    assert_int_equal(history_pack(&r.history, HISTORY_PACK_ALL, &again),
                     ERR_OK);
    assert_int_equal(live.len, again.len);
    assert_memory_equal(live.s, again.s, live.len);
    text_deinit(&live);
    text_deinit(&again);
    replayed_deinit(&r);
}

/* Records that a checkpoint stands for go: all together take no more than the
 * limit, however long the run lasts, and what is read back is the same. */
static void session_keeps_the_journal_within_its_limit(void **state)
{
    enum { LIMIT = 8 << 20, RETUNES = 240 };
    struct kept k;
    uint64_t left = 0;
    struct fault f = {0};

    (void)state;
    begin(&k, LIMIT);
    for (int i = 0; i < RETUNES; i++) {
        if (one_more(&k, &f))
            fail_msg("%s", f.text);
        if (i % 60 == 0)
            assert_reads_back(&k);
    }
    assert_true(k.peak > LIMIT / 2 && k.peak <= LIMIT);
    assert_int_equal(
        journal_each_record(k.s.journal, "week-1", 0, count, &left, &f),
        ERR_OK);
    assert_true(left < journal_last(k.s.journal) * 3 / 4);
    assert_reads_back(&k);
    end(&k);
}

/* One commit of however many records: the next ones give up as much, in bytes,
 * and a run does not end for records that nobody needs. */
static void session_gives_up_records_as_fast_as_they_come(void **state)
{
    enum { LIMIT = 8 << 20, BURST = 40 };
    struct kept k;
    struct fault f = {0};

    (void)state;
    begin(&k, LIMIT);
    for (int i = 0; i < 160; i++)
        if (one_more(&k, &f))
            fail_msg("%s", f.text);
    /* Some 2,700 records, 1 MB, in each commit. */
    for (int i = 0; i < 8; i++) {
        for (int n = 1; n < BURST; n++)
            retunes_one(&k.w);
        if (one_more(&k, &f))
            fail_msg("%s", f.text);
    }
    assert_true(journal_bytes(k.s.journal) <= LIMIT / 2 + (2 << 20));
    journal_forget(k.s.journal, journal_last(k.s.journal), 1 << 20);
    assert_int_equal(journal_trim(k.s.journal, &f), ERR_OK);
    assert_in_range(journal_bytes(k.s.journal), 1, 1 << 20);
    end(&k);
}

/* Where what came of the records does not fit either, that is said, with the
 * way out; nothing is lost. */
static void session_beyond_its_limit_is_told(void **state)
{
    struct fault f = {0};
    enum err err = ERR_OK;
    struct kept k;

    (void)state;
    begin(&k, 256 << 10);
    for (int i = 0; i < 200 && !err; i++)
        err = one_more(&k, &f);
    assert_int_equal(err, ERR_LIMIT);
    assert_non_null(strstr(f.text, "journal.limit"));
    assert_reads_back(&k);
    end(&k);
}

/* Writes while a record is being read, as where who reads is stopped: the log
 * grows, and what ends the run for it says so. */
static enum err write_meanwhile(void *ctx, const struct journal_record *stored)
{
    struct kept *k = ctx;
    struct fault f = {0};
    enum err err = ERR_OK;

    (void)stored;
    for (int i = 0; i < 4000 && !err; i++)
        err = one_more(k, &f);
    assert_int_equal(err, ERR_LIMIT);
    assert_non_null(strstr(f.text, "mltune.db-wal"));
    assert_in_range(journal_log_bytes(k->s.journal), 20 << 20, 24 << 20);
    return ERR_AGAIN;
}

/* A reader that does not end bounds the run, not the disk; once it has, all is
 * as before. */
static void session_ends_where_a_reader_keeps_the_log(void **state)
{
    struct journal *reader;
    struct fault f = {0};
    struct kept k;

    (void)state;
    begin(&k, 4 << 20);
    assert_int_equal(one_more(&k, &f), ERR_OK);
    assert_int_equal(journal_open(scratch_folder(), false, 0, &reader, &f),
                     ERR_OK);
    assert_int_equal(
        journal_each_record(reader, "week-1", 0, write_meanwhile, &k, &f),
        ERR_AGAIN);
    journal_close(reader);
    f = (struct fault){0};
    for (int i = 0; i < 10; i++)
        (void)one_more(&k, &f);
    assert_in_range(journal_log_bytes(k.s.journal), 1, 5 << 20);
    k.s.kept.log_s = -1;
    k.w.at_s += 1;
    assert_int_equal(one_more(&k, &f), ERR_OK);
    assert_reads_back(&k);
    end(&k);
}

/* Two who read by turns: each ends once the other has begun. */
struct turns {
    atomic_uint begun[2];
    atomic_bool over;
};

struct turn {
    struct turns *turns;
    int self;
};

static enum err until_the_other(void *ctx, const struct journal_record *stored)
{
    const struct turn *t = ctx;
    unsigned mine = ++t->turns->begun[t->self];

    (void)stored;
    while (t->turns->begun[!t->self] < mine + t->self && !t->turns->over)
        usleep(500);
    return ERR_AGAIN;
}

static void *read_by_turns(void *arg)
{
    struct turn *t = arg;
    struct journal *reader;

    if (journal_open(scratch_folder(), false, 1000, &reader, NULL))
        return NULL;
    while (!t->turns->over)
        journal_each_record(reader, "week-1", 0, until_the_other, t, NULL);
    journal_close(reader);
    return t;
}

/* None of them reads for long, and there is no moment without one. */
static void session_folds_the_log_while_others_read_by_turns(void **state)
{
    struct turns turns = {.over = false};
    struct turn turn[2] = {{&turns, 0}, {&turns, 1}};
    pthread_t thread[2];
    uint64_t most = 0, bytes = 1;
    enum err err = ERR_OK;
    struct fault f = {0};
    void *done;
    struct kept k;

    (void)state;
    begin(&k, 4 << 20);
    assert_int_equal(one_more(&k, &f), ERR_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(
            pthread_create(&thread[i], NULL, read_by_turns, &turn[i]), 0);
    while (!err && bytes >= most / 2) {
        err = one_more(&k, &f);
        bytes = journal_log_bytes(k.s.journal);
        most = bytes > most ? bytes : most;
    }
    turns.over = true;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(thread[i], &done), 0);
        assert_ptr_equal(done, &turn[i]);
    }
    if (err)
        fail_msg("%s", f.text);
    assert_in_range(most, 6 << 20, 20 << 20);
    end(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            session_keeps_the_journal_within_its_limit, make_run,
            scratch_remove),
        cmocka_unit_test_setup_teardown(
            session_gives_up_records_as_fast_as_they_come, make_run,
            scratch_remove),
        cmocka_unit_test_setup_teardown(
            session_ends_where_a_reader_keeps_the_log, make_run,
            scratch_remove),
        cmocka_unit_test_setup_teardown(
            session_folds_the_log_while_others_read_by_turns, make_run,
            scratch_remove),
        cmocka_unit_test_setup_teardown(session_beyond_its_limit_is_told,
                                        make_run, scratch_remove),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
