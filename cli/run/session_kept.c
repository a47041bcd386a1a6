/* The journal of a run stays within its limit: checkpoints, and the records
 * that they make unneeded. */
#include "cli/run/session_internal.h"

#include "base/json/json.h"
#include "base/log.h"
#include "base/mem.h"

#include <assert.h>
#include <malloc.h>
#include <math.h>
#include <string.h>

/* Parts of journal.limit: what is appended between two checkpoints, what the
 * records keep at least (two such parts are there at any time), and what one of
 * the two checkpoints may take. */
enum { PART_BETWEEN = 8, PART_RECORDS = 2, PART_CHECKPOINT = 5 };

/* SQLite's log may grow by so much beside them: a reader or a long commit keeps
 * it for a moment. */
enum {
    LOG_ROOM = 16 << 20,
    LOG_LARGE = LOG_ROOM / 2, /* from here on it is folded by hand */
};

/* It is looked at so often. */
static const double LOG_EVERY_S = 1;

/* Where the disk did not take one it is tried again after so long. */
static const double AGAIN_S = 10;

enum err session_kept_begin(struct session *s, struct fault *f)
{
    struct checkpoint_start *start = &s->kept.start;

    assert(s->folder.id[0]);
    start->run = mem_strdup(s->folder.id);
    start->name = mem_strdup(s->o->tuner->name);
    start->config = json_write(s->o->config, 0);
    start->folder = mem_strdup(s->o->folder);
    start->out = mem_strdup(s->o->out ? s->model_dir : "");
    start->began_ns = s->kept.began_ns;
    return start->run && start->name && start->config && start->folder &&
                   start->out
               ? ERR_OK
               : fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
}

void session_kept_record(struct session *s, const struct record *record)
{
    /* What is beside the snapshot is what it can be gone on from with. */
    s->kept.due |= record->kind == RECORD_SNAPSHOT_WRITTEN;
}

static enum err write_it(struct session *s, struct fault *f)
{
    struct session_kept *k = &s->kept;
    size_t bytes = 0;
    enum err err = journal_commit(s->journal, true, f);

    if (err)
        return err;
    /* What the journal could not take before, as on a full disk, a checkpoint
     * must not stand for: the run ends for it. */
    if (journal_last(s->journal) != history_records(&s->history))
        return fault_set(f, ERR_IO, "the journal lacks records of this run");
    err = k->mends ? checkpoint_mend(s->folder.path, &k->start, &s->history, f)
                   : checkpoint_write(s->folder.path, &k->start, &s->history,
                                      HISTORY_PACK_ALL, &bytes, f);
    if (err)
        return err;
    k->before = k->mends ? 0 : k->last;
    k->mends = false;
    k->last = history_records(&s->history);
    k->bytes = bytes;
    k->due = k->told = false;
    return ERR_OK;
}

/* The journal's own trouble ends the run; a checkpoint that cannot be written
 * does not, as long as there is room for the records. */
static void could_not(struct session *s, double now_s, const struct fault *f)
{
    s->kept.again_s = now_s + AGAIN_S;
    s->kept.due = true; /* not only when the journal has grown again */
    log_event(LOG_WARN, "checkpoint_not_written", "code=%s reason=\"%s\"",
              err_name(f->code), f->text);
    if (!s->kept.told)
        progress_note(&s->progress, f->text);
    s->kept.told = true;
}

static bool is_due(const struct session *s)
{
    const struct session_kept *k = &s->kept;
    uint64_t part = s->o->journal_limit / PART_BETWEEN;

    return history_records(&s->history) > k->last &&
           (k->due || journal_bytes(s->journal) >= k->grown + part);
}

/* What a curve long ago looked like is what can be told most briefly. */
static void thin(struct session *s)
{
    view_lock(s->view);
    history_thin(&s->history);
    view_unlock(s->view);
}

/* What the run takes, the checkpoint before the last included. */
static uint64_t taken(const struct session *s)
{
    return journal_bytes(s->journal) + 2 * s->kept.bytes;
}

/* The log's bytes, which is folded where it is large. Many who read by turns
 * keep SQLite from it as one does who never ends; that one costs a wait, so it
 * is tried again once the log is twice as large. */
static uint64_t folded_log(struct session *s)
{
    uint64_t bytes = journal_log_bytes(s->journal);

    if (bytes < s->kept.log_bytes)
        s->kept.log_bytes = bytes; /* that one is gone */
    if (bytes <= LOG_LARGE || (bytes / 2 < s->kept.log_bytes &&
                               bytes <= s->o->journal_limit + LOG_ROOM))
        return bytes;
    journal_fold_log(s->journal, NULL); /* what fails shows in its bytes */
    s->kept.log_bytes = journal_log_bytes(s->journal);
    return s->kept.log_bytes;
}

/* While one reads the journal without end, a debugger or a program that is
 * stopped, all that is written stays in the log, which nothing cuts. */
static enum err look_at_log(struct session *s, double now_s, struct fault *f)
{
    uint64_t limit = s->o->journal_limit, bytes;

    if (now_s >= s->kept.log_s && now_s < s->kept.log_s + LOG_EVERY_S)
        return ERR_OK;
    s->kept.log_s = now_s;
    bytes = folded_log(s);
    if (bytes <= limit + LOG_ROOM)
        return ERR_OK;
    return fault_set(f, ERR_LIMIT,
                     "mltune.db-wal takes %.1f MiB: another program reads the "
                     "journal without end, so that it cannot be folded "
                     "(journal.limit is %.1f MiB). `fuser` says which: end it, "
                     "and resume the run",
                     (double)bytes / 0x1p20, (double)limit / 0x1p20);
}

enum err session_kept_look(struct session *s, double now_s, struct fault *f)
{
    struct session_kept *k = &s->kept;
    uint64_t limit = s->o->journal_limit, all;
    struct fault why = {0};

    assert(limit > 0);
    if (look_at_log(s, now_s, f))
        return f->code;
    if (!is_due(s) || now_s < k->again_s)
        return ERR_OK;
    if (write_it(s, &why))
        could_not(s, now_s, &why);
    else if (k->bytes > limit / PART_CHECKPOINT)
        thin(s);
    /* A checkpoint's bytes are in memory once, and what history gives up lies
     * between what it keeps: it would be the process's for ever. */
    malloc_trim(0);
    journal_forget(s->journal, k->before, limit / PART_RECORDS);
    k->grown = journal_bytes(s->journal);
    if (k->before && k->grown > limit / PART_RECORDS)
        k->grown = limit / PART_RECORDS; /* what it falls to */
    /* A run ends for its limit only where nothing can be given up any more. */
    if (taken(s) > limit && journal_trim(s->journal, f))
        return f->code;
    for (size_t before = SIZE_MAX; taken(s) > limit && k->bytes < before;) {
        before = k->bytes;
        thin(s);
        if (why.code || write_it(s, &why))
            break;
    }
    all = taken(s);
    if (all <= limit)
        return ERR_OK;
    return fault_set(f, ERR_LIMIT,
                     "the journal of this run takes %.1f MiB, though all that "
                     "can be was folded; journal.limit is %.1f MiB: resume it "
                     "with --set journal.limit=...%s%.200s",
                     (double)all / 0x1p20, (double)limit / 0x1p20,
                     why.text[0] ? "; " : "", why.text);
}

void session_kept_end(struct session *s)
{
    struct fault why = {0};

    if (s->begun && history_records(&s->history) > s->kept.last &&
        write_it(s, &why))
        log_event(LOG_WARN, "checkpoint_not_written", "code=%s reason=\"%s\"",
                  err_name(why.code), why.text);
}
