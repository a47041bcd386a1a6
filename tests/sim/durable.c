#include "tests/sim/durable.h"

#include "base/file_io.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "cli/state/replay.h"
#include "tests/sim/scarce.h"
#include "tests/sim/sim.h"
#include "tuner/history/journal_io.h"

#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DB SIM_DISK_STATE "/mltune.db"
#define MODEL SIM_DISK_STATE "/model"

static const char run_id[] = "run-000001";

enum { SNAPSHOT_BYTES_MAX = 4096, DIGEST_BYTES = 24 };

struct durable {
    struct journal *journal; /* NULL: closed */
    json_t *record;          /* owned: all that were appended, in order */
    size_t committed, durable;
    bool begun;   /* the run is registered, durably */
    bool machine; /* it lost power since the journal was open last */
    unsigned opened, refused;
};

static uint64_t seed_now; /* for messages */

__attribute__((noreturn)) static void broken(const char *what)
{
    fprintf(stderr, "sim: seed %" PRIu64 ": durable: %s\n", seed_now, what);
    abort();
}

static void must(bool holds, const char *what)
{
    if (!holds)
        broken(what);
}

struct durable *durable_new(uint64_t seed)
{
    struct durable *d = mem_calloc(1, sizeof(*d));

    must(d != NULL, "memory");
    d->record = json_array();
    seed_now = seed;
    sim_disk_init(seed);
    return d;
}

static void close_journal(struct durable *d)
{
    SCARCE(journal_close(d->journal));
    d->journal = NULL;
}

/* The process that runs has ended. */
static void process_ends(void)
{
    sim_disk_process_ends();
    scarce_process_ends();
}

void durable_free(struct durable *d)
{
    if (!d)
        return;
    close_journal(d);
    sim_disk_process_ends();
    sim_disk_deinit();
    json_decref(d->record);
    mem_free(d);
}

/* ---- reading what is there ----------------------------------------------- */

static void fold(const struct durable *d, size_t n, struct history *h)
{
    history_init(h);
    for (size_t i = 0; i < n; i++) {
        struct record r;

        must(record_from_json(json_array_get(d->record, i), &r, NULL) == ERR_OK,
             "a record does not come back from JSON");
        must(history_apply(h, &r) == ERR_OK, "a record is refused");
        record_deinit(&r);
    }
}

static void check_same(const struct history *a, const struct history *b)
{
    json_t *x = history_result(a, "", ""), *y = history_result(b, "", "");

    must(x && y && json_equal(x, y), "the journal gives another history");
    json_decref(x);
    json_decref(y);
}

/* What came back is what was written, and at least what was promised. */
static void check_history(struct durable *d, const struct history *h)
{
    size_t n = history_records(h);
    size_t least = d->machine ? d->durable : d->committed;
    struct history written;

    if (n < least || n > json_array_size(d->record))
        fprintf(stderr, "sim: %zu records came back, %zu were promised\n", n,
                least);
    must(n >= least, "records are lost");
    must(n <= json_array_size(d->record), "records come from nowhere");
    fold(d, n, &written);
    check_same(h, &written);
    history_deinit(&written);
    while (json_array_size(d->record) > n)
        json_array_remove(d->record, json_array_size(d->record) - 1);
    d->committed = n;
    d->durable = d->durable < n ? d->durable : n;
    d->machine = false;
}

/* The file is made by the journal, with a call that goes past the disk's
 * table. */
static enum err make_file(struct fault *f)
{
    int fd;

    if (sim_disk_has(DB))
        return ERR_OK;
    fd = disk_system()->open(DB, O_RDWR | O_CREAT, 0600);
    if (fd < 0)
        return fault_set(f, ERR_IO, "%s cannot be made", DB);
    disk_system()->close(fd);
    return ERR_OK;
}

static enum err take_up(struct durable *d, struct history *h, bool *over,
                        struct fault *f)
{
    struct replayed r;
    enum err err;

    SCARCE(err = replay_run(d->journal, SIM_DISK_STATE, run_id, &r, f));
    if (err == ERR_NOENT) {
        must(!d->begun, "the run is gone");
        SCARCE(err = journal_begin_run(d->journal, run_id, "sim", "{}", 1, f));
        d->begun |= !err;
        return err;
    }
    if (err)
        return err;
    d->begun = true;
    check_history(d, &r.history);
    /* Killed between its last record and the entry of its end, it has ended
     * all the same. */
    *over =
        !replay_resumable(&r) ||
        (history_finished(&r.history) &&
         r.history.end.status != RUN_INTERRUPTED &&
         !(r.history.end.status == RUN_FAILED && history_has_work(&r.history)));
    if (!*over)
        SCARCE(err = journal_continue_run(d->journal, run_id, f));
    if (!*over && !err) /* it has flushed what was there */
        d->durable = d->committed;
    if (!err || *over) {
        *h = r.history;
        history_init(&r.history);
    }
    replayed_deinit(&r);
    return err;
}

enum err durable_open(struct durable *d, struct history *h, bool *over,
                      struct fault *f)
{
    enum err err = make_file(f);

    assert(!d->journal);
    d->opened++;
    *over = false;
    history_init(h);
    if (!err)
        SCARCE(err = journal_open(SIM_DISK_STATE, true, 0, &d->journal, f));
    if (!err)
        err = take_up(d, h, over, f);
    if (!err && !*over)
        return ERR_OK;
    d->refused += err != ERR_OK;
    close_journal(d);
    process_ends();
    return err;
}

/* ---- writing ------------------------------------------------------------- */

enum err durable_append(struct durable *d, const struct record *r,
                        struct fault *f)
{
    json_t *json;
    char *text;
    enum err err = ERR_NOMEM;

    scarce_begin();
    json = record_to_json(r);
    text = json ? json_write(json, 0) : NULL;
    if (text)
        err = journal_append(d->journal, record_kind_name(r->kind), text,
                             strlen(text), 1, f);
    else
        fault_set(f, err, "journal: out of memory");
    scarce_end();
    must(text || scarce_failed(), "a record has no JSON");
    if (!err)
        json_array_append(d->record, json);
    json_decref(json);
    mem_free(text);
    return err;
}

enum err durable_commit(struct durable *d, bool durable, struct fault *f)
{
    enum err err;

    SCARCE(err = journal_commit(d->journal, durable, f));

    if (err)
        return err;
    d->committed = json_array_size(d->record);
    if (durable)
        d->durable = d->committed;
    return ERR_OK;
}

void durable_end(struct durable *d, const char *status, const char *reason)
{
    SCARCE(journal_end_run(d->journal, status, reason, NULL, 1, NULL));
    close_journal(d);
    process_ends();
}

void durable_kill(struct durable *d, bool machine)
{
    sim_disk_kill();
    close_journal(d);
    d->machine |= machine;
    if (machine)
        sim_disk_power_cut();
    else
        sim_disk_process_ends();
    scarce_process_ends();
}

/* ---- snapshots and models ------------------------------------------------ */

static uint64_t digest_of(const void *bytes, size_t n)
{
    const unsigned char *c = bytes;
    uint64_t x = 0xcbf29ce484222325u;

    for (size_t i = 0; i < n; i++)
        x = (x ^ c[i]) * 0x100000001b3u;
    return x;
}

static void digest_text(const void *bytes, size_t n, char out[DIGEST_BYTES])
{
    snprintf(out, DIGEST_BYTES, "%016" PRIx64 " %zu", digest_of(bytes, n), n);
}

static void join(char out[FILE_PATH_MAX], const char *path, const char *end)
{
    snprintf(out, FILE_PATH_MAX, "%.1000s%.40s", path, end);
}

enum err durable_snapshot_begin(struct durable *d, const char *path,
                                const void *bytes, size_t n, struct fault *f)
{
    char tmp[FILE_PATH_MAX], file[FILE_PATH_MAX], digest[DIGEST_BYTES];
    enum err err;

    (void)d;
    assert(n <= SNAPSHOT_BYTES_MAX);
    join(tmp, path, ".tmp");
    sim_disk_remove(tmp); /* of a process that was killed */
    SCARCE(err = folder_new(tmp, FOLDER_SHARED, f));
    join(file, tmp, "/shard-0");
    if (!err)
        SCARCE(err = file_write(file, bytes, n, f));
    digest_text(bytes, n, digest);
    join(file, tmp, "/manifest.json");
    if (!err)
        SCARCE(err = file_write(file, digest, strlen(digest), f));
    if (err)
        sim_disk_remove(tmp);
    return err;
}

enum err durable_snapshot_end(struct durable *d, const char *path,
                              struct fault *f)
{
    char tmp[FILE_PATH_MAX];
    enum err err;

    (void)d;
    join(tmp, path, ".tmp");
    SCARCE(err = file_rename(tmp, path, f));
    if (err) {
        sim_disk_remove(tmp);
        return err;
    }
    SCARCE(err = disk_flush_parent(NULL, path, f));
    if (err)
        sim_disk_remove(path);
    return err;
}

static enum err read_checked(const char *file, const char *manifest, void *out,
                             size_t n, struct fault *f)
{
    char digest[DIGEST_BYTES];
    char *bytes = NULL, *text = NULL;
    size_t len = 0, text_len = 0;
    enum err err;

    SCARCE(err = file_read(manifest, DIGEST_BYTES, &text, &text_len, f));
    if (!err)
        SCARCE(err = file_read(file, SNAPSHOT_BYTES_MAX, &bytes, &len, f));
    if (!err) {
        digest_text(bytes, len, digest);
        if (len != n || strcmp(text, digest) != 0)
            err = fault_set(f, ERR_FORMAT, "%s is damaged", file);
        else
            memcpy(out, bytes, n);
    }
    mem_free(bytes);
    mem_free(text);
    return err;
}

enum err durable_snapshot_read(struct durable *d, const char *path, void *out,
                               size_t n, struct fault *f)
{
    char file[FILE_PATH_MAX], manifest[FILE_PATH_MAX];

    (void)d;
    join(file, path, "/shard-0");
    join(manifest, path, "/manifest.json");
    return read_checked(file, manifest, out, n, f);
}

static void sweep_one(void *ctx, const char *path)
{
    const struct history *h = ctx;

    for (size_t i = 0; i < history_snapshots_len(h); i++) {
        const struct record_snapshot_written *w = &history_snapshot_at(h, i)->s;

        if (strcmp(w->path, path) == 0 || strcmp(w->best_path, path) == 0 ||
            sim_names_trial(w, path))
            return;
    }
    sim_disk_remove(path);
}

void durable_sweep(struct durable *d, const struct history *h)
{
    (void)d;
    sim_disk_each(SIM_DISK_SNAPSHOTS, sweep_one, (void *)h);
}

/* As folder_publish, of one file. */
enum err durable_model(struct durable *d, const void *bytes, size_t n,
                       struct fault *f)
{
    enum err err;

    (void)d;
    SCARCE(err = file_write(MODEL, bytes, n, f));
    return err;
}

bool durable_has_model(const struct durable *d, const void *bytes, size_t n)
{
    char *found = NULL;
    size_t len = 0;
    bool same;

    (void)d;
    if (file_read(MODEL, SNAPSHOT_BYTES_MAX, &found, &len, NULL) != ERR_OK)
        return false;
    same = len == n && memcmp(found, bytes, n) == 0;
    mem_free(found);
    return same;
}

struct durable_counts durable_counts(const struct durable *d)
{
    return (struct durable_counts){json_array_size(d->record), d->committed,
                                   d->durable, d->opened, d->refused};
}
