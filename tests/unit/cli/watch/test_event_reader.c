/* The reader of event streams: answers as they come, in any pieces, and those
 * that are none. */
#include "tests/fuzz/fuzz_events.c" /* the target itself */

#include <dirent.h>
#include <stdio.h>

#include "tests/unit/fixture/check.h"

static const char folder[] = "tests/fuzz/corpus/events";

static const char head[] = "HTTP/1.1 200 OK\r\nX: y\r\n\r\n";

struct list {
    size_t n, fail_at;
    struct {
        bool numbered;
        uint64_t id;
        char kind[32], data[64];
    } item[8];
};

static enum err keep(void *ctx, const struct event_read *e)
{
    struct list *l = ctx;

    if (l->fail_at && l->n + 1 == l->fail_at)
        return ERR_BUSY;
    assert_true(l->n < 8);
    l->item[l->n].numbered = e->numbered;
    l->item[l->n].id = e->id;
    snprintf(l->item[l->n].kind, 32, "%s", e->kind);
    snprintf(l->item[l->n++].data, 64, "%s", e->data);
    return ERR_OK;
}

static enum err feed(struct event_reader *r, const char *text, struct list *l)
{
    return event_reader_feed(r, text, strlen(text), keep, l);
}

/* Good inputs are read and bad ones refused, as their names say; none crashes
 * or is read otherwise in pieces. */
static void event_reader_corpus_replays_clean(void **state)
{
    static uint8_t bytes[65536];
    DIR *dir = opendir(folder);
    struct dirent *entry;
    int files = 0;

    (void)state;
    assert_non_null(dir);
    while ((entry = readdir(dir))) {
        struct seen seen = {0};
        char path[512];
        FILE *file;
        size_t n;

        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        file = fopen(path, "rb");
        assert_non_null(file);
        n = fread(bytes, 1, sizeof(bytes), file);
        fclose(file);
        LLVMFuzzerTestOneInput(bytes, n);
        assert_int_equal(read_in(bytes, n, n, &seen) == ERR_OK,
                         strncmp(entry->d_name, "good", 4) == 0);
        files++;
    }
    closedir(dir);
    assert_true(files >= 15);
}

/* Numbers, kinds and data of events come out; comments and what is not known do
 * not, and an id holds until the next one. */
static void event_reader_plain_answer_is_read(void **state)
{
    struct event_reader r = {0};
    struct list l = {0};

    (void)state;
    assert_int_equal(feed(&r, head, &l), ERR_OK);
    assert_int_equal(r.status, 200);
    assert_int_equal(feed(&r,
                          "retry: 2000\n\n: beat\n\ndata: first\n\n"
                          "id: 12\nevent: trial_ended\ndata: a\ndata: b\n\n"
                          "data:c\n\n",
                          &l),
                     ERR_OK);
    assert_int_equal(l.n, 3);
    assert_false(l.item[0].numbered);
    assert_string_equal(l.item[0].kind, "message");
    assert_true(l.item[1].numbered);
    assert_int_equal(l.item[1].id, 12);
    assert_string_equal(l.item[1].kind, "trial_ended");
    assert_string_equal(l.item[1].data, "a\nb");
    assert_string_equal(l.item[2].kind, "message");
    assert_string_equal(l.item[2].data, "c");
    assert_int_equal(l.item[2].id, 12);
    event_reader_deinit(&r);
}

/* A body in chunks ends with the empty one, and says so. */
static void event_reader_chunks_are_joined(void **state)
{
    struct event_reader r = {0};
    struct list l = {0};

    (void)state;
    assert_int_equal(
        feed(&r, "HTTP/1.1 200 OK\r\ntransfer-encoding:  Chunked\r\n\r\n", &l),
        ERR_OK);
    assert_int_equal(feed(&r, "7\r\ndata: a\r\n3;x=y\r\nb\n\n\r\n", &l),
                     ERR_OK);
    assert_int_equal(l.n, 1);
    assert_string_equal(l.item[0].data, "ab");
    assert_false(event_reader_over(&r));
    assert_int_equal(feed(&r, "0\r\n\r\n", &l), ERR_OK);
    assert_true(event_reader_over(&r));
    event_reader_deinit(&r);
}

/* The text of a problem document is not taken for events. */
static void event_reader_other_status_has_no_events(void **state)
{
    struct event_reader r = {0};
    struct list l = {0};

    (void)state;
    assert_int_equal(feed(&r, "HTTP/1.1 503 Busy\r\n\r\ndata: no\n\n", &l),
                     ERR_OK);
    assert_int_equal(r.status, 503);
    assert_int_equal(l.n, 0);
    event_reader_deinit(&r);
}

/* A peer that never ends a line, a head or an event is refused, its bytes not
 * kept. */
static void event_reader_endless_parts_are_refused(void **state)
{
    static char many[EVENT_READER_LINE_MAX];
    struct event_reader r = {0};
    struct list l = {0};
    enum err err = ERR_OK;

    (void)state;
    memset(many, 'x', sizeof(many) - 1);
    assert_int_equal(feed(&r, many, &l), ERR_FORMAT);
    event_reader_deinit(&r);
    assert_int_equal(feed(&r, head, &l), ERR_OK);
    assert_int_equal(feed(&r, many, &l), ERR_OK);
    assert_int_equal(feed(&r, many, &l), ERR_FORMAT);
    event_reader_deinit(&r);
    assert_int_equal(feed(&r, head, &l), ERR_OK);
    for (int i = 0; i < EVENT_READER_LINE_MAX / 8 && !err; i++)
        err = feed(&r, "data: 01234567\n", &l);
    assert_int_equal(err, ERR_FORMAT);
    event_reader_deinit(&r);
    assert_int_equal(l.n, 0);
}

/* An error of who visits ends the reading; so does a lack of memory, and
 * nothing is left. */
static void event_reader_errors_are_passed_on(void **state)
{
    struct event_reader r = {0};
    struct list l = {.fail_at = 1};
    int64_t before = mem_outstanding();
    enum err err;

    (void)state;
    assert_int_equal(feed(&r, head, &l), ERR_OK);
    assert_int_equal(feed(&r, "data: x\n\n", &l), ERR_BUSY);
    event_reader_deinit(&r);
    l.fail_at = 0;
    for (int64_t nth = 1;; nth++) {
        mem_fail_at(nth, 0);
        err = feed(&r, head, &l);
        if (!err)
            err = feed(&r, "data: x\n\n", &l);
        mem_fail_at(0, 0);
        event_reader_deinit(&r);
        assert_int_equal(mem_outstanding(), before);
        if (!err)
            break;
        assert_int_equal(err, ERR_NOMEM);
    }
    assert_int_equal(l.n, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(event_reader_corpus_replays_clean),
        cmocka_unit_test(event_reader_plain_answer_is_read),
        cmocka_unit_test(event_reader_chunks_are_joined),
        cmocka_unit_test(event_reader_other_status_has_no_events),
        cmocka_unit_test(event_reader_endless_parts_are_refused),
        cmocka_unit_test(event_reader_errors_are_passed_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
