/* Readers of the journal where memory fails, SQLite's own included: they say
 * so, or hand on what is there. Texts are longer than a page, so that SQLite
 * joins them in memory of its own when they are asked for. */
#include "base/crc32c.h"
#include "base/file_io.h"
#include "base/mem.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/sqlite_memory.h"
#include "tuner/history/journal_head_io.h"
#include "tuner/history/journal_io.h"
#include "tuner/history/journal_list_io.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LONG = 20000, RECORDS = 3 };

static char dir[64];

/* An object of JSON that is LONG bytes long. */
static const char *long_json(void)
{
    static char text[LONG + 1];

    memset(text, 'x', LONG);
    memcpy(text, "{\"a\":\"", 6);
    memcpy(text + LONG - 2, "\"}", 3);
    return text;
}

static void end_run(struct journal *j, const char *id)
{
    struct journal_listed listed = {.id = id,
                                    .status = "converged",
                                    .cells = long_json(),
                                    .json = long_json(),
                                    .began_ns = 5};

    assert_int_equal(
        journal_end_run(j, "converged", long_json(), long_json(), 9, NULL),
        ERR_OK);
    assert_int_equal(journal_list_put(j, &listed, NULL), ERR_OK);
}

/* A run that ended and is in the index, and one of which neither holds. */
static int make_journal(void **state)
{
    struct journal *j = NULL;

    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/mltune-test-journal-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    for (int i = 0; i < 2; i++) {
        const char *id = i ? "b-1" : "a-1";

        assert_int_equal(journal_open(dir, true, 0, &j, NULL), ERR_OK);
        assert_int_equal(
            journal_begin_run(j, id, long_json(), long_json(), 5, NULL), 0);
        for (int k = 0; k < RECORDS; k++)
            assert_int_equal(
                journal_append(j, "note", long_json(), LONG, 7, NULL), 0);
        assert_int_equal(journal_commit(j, true, NULL), 0);
        if (i == 0)
            end_run(j, id);
        journal_close(j);
    }
    return 0;
}

static int remove_journal(void **state)
{
    (void)state;
    return folder_remove(dir, NULL) == ERR_OK ? 0 : -1;
}

static void take(uint32_t *sum, const char *text)
{
    *sum = text ? crc32c(*sum, text, strlen(text) + 1) : *sum + 1;
}

static enum err take_run(void *ctx, const struct journal_run *run)
{
    take(ctx, run->id);
    take(ctx, run->name);
    take(ctx, run->config);
    take(ctx, run->status);
    take(ctx, run->reason);
    take(ctx, run->result);
    take(ctx, run->damaged ? "damaged" : "whole");
    *(uint32_t *)ctx += (uint32_t)(run->records + (uint64_t)run->last_ns);
    return ERR_OK;
}

static enum err take_record(void *ctx, const struct journal_record *r)
{
    take(ctx, r->kind);
    take(ctx, r->json);
    return ERR_OK;
}

static enum err take_listed(void *ctx, const struct journal_listed *l)
{
    take(ctx, l->id);
    take(ctx, l->status);
    take(ctx, l->cells);
    assert_null(l->json);
    return ERR_OK;
}

static enum err take_id(void *ctx, const char *id)
{
    take(ctx, id);
    return ERR_OK;
}

static enum err runs(struct journal *j, uint32_t *sum)
{
    return journal_each_run(j, take_run, sum, NULL);
}

static enum err found(struct journal *j, uint32_t *sum)
{
    return journal_find_run(j, "a-", take_run, sum, NULL);
}

static enum err records(struct journal *j, uint32_t *sum)
{
    struct journal_damage damage;
    enum err err =
        journal_each_whole(j, "a-1", 0, take_record, sum, &damage, NULL);

    assert_int_equal(damage.records, 0);
    return err;
}

static enum err listed(struct journal *j, uint32_t *sum)
{
    char *text = NULL;
    enum err err = journal_each_listed(j, take_listed, sum, NULL);

    if (!err)
        err = journal_listed_json(j, 1, &text, NULL);
    take(sum, text);
    mem_free(text);
    return err;
}

static enum err unlisted(struct journal *j, uint32_t *sum)
{
    return journal_each_unlisted(j, take_id, sum, NULL);
}

static enum err new_ones(struct journal *j, uint32_t *sum)
{
    int64_t after = 0;

    return journal_each_new(j, &after, take_id, sum, NULL);
}

static enum err take_ended(void *ctx, const struct journal_ended *run)
{
    take(ctx, run->id);
    take(ctx, run->status);
    return ERR_OK;
}

static enum err ended(struct journal *j, uint32_t *sum)
{
    return journal_each_ended(j, take_ended, sum, NULL);
}

typedef enum err reader(struct journal *j, uint32_t *sum);

/* Each allocation of @read fails, once: returns how many there are. */
static unsigned try_reader(reader *read, uint32_t whole)
{
    unsigned n, failed = 0;

    for (n = 1;; n++) {
        struct journal *j = NULL;
        uint32_t sum = 0;
        bool reached;
        enum err err;

        assert_int_equal(journal_open(dir, false, 0, &j, NULL), ERR_OK);
        mem_fail_at(n, 0);
        err = read(j, &sum);
        reached = mem_fail_left() == 0;
        mem_fail_at(0, 0);
        journal_close(j);
        if (err) {
            assert_int_equal(err, ERR_NOMEM);
            failed++;
        } else {
            assert_int_equal(sum, whole);
        }
        if (!reached)
            break;
    }
    assert_true(failed > 0);
    return n;
}

static void journal_readers_without_memory_say_so(void **state)
{
    static reader *const readers[] = {runs,     found,    records, listed,
                                      unlisted, new_ones, ended};
    unsigned points = 0;

    (void)state;
    for (size_t i = 0; i < sizeof(readers) / sizeof(*readers); i++) {
        struct journal *j = NULL;
        uint32_t whole = 0;

        assert_int_equal(journal_open(dir, false, 0, &j, NULL), ERR_OK);
        assert_int_equal(readers[i](j, &whole), ERR_OK);
        journal_close(j);
        points += try_reader(readers[i], whole);
    }
    print_message("%u points\n", points);
}

/* The copy of the head is the one that was, or none: never one that lacks what
 * there was no memory for. */
static void journal_head_without_memory_is_kept(void **state)
{
    char path[FILE_PATH_MAX], *whole = NULL, *now = NULL;
    size_t len, size;
    bool reached = true;

    (void)state;
    assert_int_equal(file_join(path, dir, JOURNAL_HEAD, NULL), ERR_OK);
    assert_int_equal(file_read(path, 1 << 20, &whole, &len, NULL), ERR_OK);
    for (unsigned n = 1; reached; n++) {
        struct journal *j = NULL;

        assert_int_equal(journal_open(dir, true, 0, &j, NULL), ERR_OK);
        assert_int_equal(unlink(path), 0);
        mem_fail_at(n, 0);
        journal_head_keep(j);
        reached = mem_fail_left() == 0;
        mem_fail_at(0, 0);
        if (file_read(path, 1 << 20, &now, &size, NULL) == ERR_OK) {
            assert_int_equal(size, len);
            assert_memory_equal(now, whole, len);
            mem_free(now);
        }
        journal_head_keep(j);
        journal_close(j);
        assert_int_equal(access(path, F_OK), 0);
    }
    mem_free(whole);
}

#define CASE(name)                                                             \
    cmocka_unit_test_setup_teardown(name, make_journal, remove_journal)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(journal_readers_without_memory_say_so),
        CASE(journal_head_without_memory_is_kept),
    };

    sqlite_memory_count();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
