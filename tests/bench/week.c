/* A week of re-tunes, written into the journal of a run whose tuner was killed:
 *
 *     week STATE RUN [RETUNES [EPOCHS]]
 *
 * EPOCHS (2) are those after each re-tune; how memory grows is printed.
 *
 * Records are made up (tests/unit/fixture/retunes.h) and taken as a tuner's
 * are: folded into the history, appended, and kept within journal.limit by the
 * session's own code. The run's newest snapshot is journaled once more at the
 * end, so that it can be resumed. tests/bench/week.py measures what then is.
 * Without a state folder nothing is done, as in `make bench`. SIGTERM ends the
 * week early, as well as its own end would.
 */
#include "base/json/json.h"
#include "base/mem.h"
#include "cli/run/session_internal.h"
#include "cli/state/replay.h"
#include "tests/unit/fixture/retunes.h"

#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    RETUNES = 120960, /* one in 5 s */
    MIB = 64,
    COMMIT_EVERY = 16, /* records */
    LOOK_EVERY = 32,   /* re-tunes: as often as snapshots in 160 s */
    BITS = 8           /* of random numbers */
};

struct week {
    struct session s;
    struct session_options o;
    struct retunes w;
    uint64_t put;
};

static volatile sig_atomic_t ends;

static void end_early(int signal)
{
    (void)signal;
    ends = 1;
}

static void fail(const char *what, const struct fault *f)
{
    fprintf(stderr, "%s: %s\n", what, f->text);
    exit(1);
}

static void put(void *ctx, struct record *r)
{
    struct week *k = ctx;
    json_t *json = record_to_json(r);
    char *text = json ? json_write(json, 0) : NULL;
    struct fault f = {0};
    enum err err = history_apply(&k->s.history, r);

    if (err || !text)
        fail(record_kind_name(r->kind), &(struct fault){.text = "refused"});
    if (journal_append(k->s.journal, record_kind_name(r->kind), text,
                       strlen(text), 1, &f))
        fail("journal", &f);
    if (++k->put % COMMIT_EVERY == 0 && journal_commit(k->s.journal, false, &f))
        fail("journal", &f);
    session_kept_record(&k->s, r);
    mem_free(text);
    json_decref(json);
    record_deinit(r);
}

/* What the tuner that was killed had begun. */
static void end_what_is_open(struct week *k)
{
    const struct history *h = &k->s.history;

    for (size_t i = 0; i < history_trials_len(h); i++) {
        struct history_trial t = history_trial_at(h, i);
        struct record r;

        if (t.ended)
            continue;
        record_init(&r, RECORD_TRIAL_ENDED);
        r.trial = t.t;
        r.trial.setting = history_trial_setting(h, i);
        r.trial.label = TRIAL_INTERRUPTED;
        retunes_put(&k->w, &r);
    }
    for (size_t i = 0; i < history_searches_len(h); i++) {
        struct history_search s = history_search_at(h, i);
        struct record r;

        if (s.ended)
            continue;
        record_init(&r, RECORD_SEARCH_ENDED);
        r.search_ended.search = s.started.search;
        retunes_put(&k->w, &r);
    }
}

static void open_run(struct week *k, const char *state, const char *run,
                     uint64_t limit, struct record_snapshot_written *last)
{
    struct view_options none = {NULL};
    struct fault f = {0};
    struct replayed r;
    const struct history *h = &k->s.history;

    if (journal_open(state, true, JOURNAL_BUSY_MS, &k->s.journal, &f) ||
        replay_run(k->s.journal, state, run, &r, &f) ||
        journal_take_run(k->s.journal, r.id, &f))
        fail(run, &f);
    k->o.journal_limit = limit;
    k->s.o = &k->o;
    k->s.history = r.history;
    history_init(&r.history);
    k->s.kept.start = r.start;
    r.start = (struct checkpoint_start){.run = NULL};
    journal_skip(k->s.journal, history_records(h));
    replay_folder(state, r.id, k->s.folder.path);
    replayed_deinit(&r);
    if (view_new(&none, &k->s.view) || !history_last_snapshot(h))
        fail(run, &(struct fault){.text = "it has no snapshot"});
    *last = history_last_snapshot(h)->s;
    json_incref(last->state);
    k->w = (struct retunes){
        .put = put,
        .ctx = k,
        .step_s = 5.0 / 100,
        .at_s = history_at_s(h),
        .clock = history_clock(h),
        .next = history_branch_at(h, history_branches_len(h) - 1)->branch + 1,
        .tip = last->branch,
        .search = history_searches_made(h),
        .trial = history_trials_made(h),
        .epoch = last->epoch,
        .random = 1,
        .bits = BITS};
}

static void look(struct week *k)
{
    struct fault f = {0};

    if (journal_commit(k->s.journal, false, &f) ||
        session_kept_look(&k->s, k->w.at_s, &f))
        fail("journal", &f);
}

static void say(const struct week *k, unsigned retunes)
{
    struct mallinfo2 m = mallinfo2();
    long pages = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");

    if (!f || fscanf(f, "%ld %ld", &pages, &resident) != 2)
        resident = 0;
    if (f)
        fclose(f);
    printf("week_retunes n=%u trials=%u resident_mb=%.2f heap_mb=%.2f "
           "free_mb=%.2f branches=%zu points=%zu cold_mb=%.2f "
           "checkpoint_mb=%.2f %.2f MB\n",
           retunes, history_trials_made(&k->s.history),
           (double)resident * (double)sysconf(_SC_PAGESIZE) / 0x1p20,
           (double)(m.uordblks + m.hblkhd) / 0x1p20,
           (double)m.fordblks / 0x1p20, k->s.history.branches,
           k->s.history.freed_points,
           (double)k->s.history.cold_trial.len / 0x1p20,
           (double)k->s.kept.bytes / 0x1p20,
           (double)journal_bytes(k->s.journal) / 0x1p20);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    unsigned retunes = argc > 3 ? (unsigned)atoi(argv[3]) : RETUNES;
    struct record r;
    struct week k;
    struct fault f = {0};

    if (argc < 3)
        return 0;
    memset(&k, 0, sizeof(k));
    json_count_memory();
    record_init(&r, RECORD_SNAPSHOT_WRITTEN);
    open_run(&k, argv[1], argv[2], (uint64_t)MIB << 20, &r.snapshot_written);
    k.w.epochs = argc > 4 ? (uint32_t)atoi(argv[4]) : 0;
    end_what_is_open(&k);
    /* The snapshot's own branch may be freed. */
    k.w.tip = retunes_fork(&k.w, BRANCH_TRAINING, "training", json_object());
    signal(SIGTERM, end_early);
    for (unsigned i = 1; i <= retunes; i++) {
        if (ends)
            retunes = i;
        retunes_one(&k.w);
        if (i % LOOK_EVERY == 0)
            look(&k);
        if ((i <= 1000 && i % 40 == 0) || i % 2000 == 0)
            say(&k, i);
    }
    retunes_put(&k.w, &r);
    look(&k);
    if (journal_commit(k.s.journal, true, &f))
        fail("journal", &f);
    say(&k, retunes);
    journal_close(k.s.journal);
    view_free(k.s.view);
    history_deinit(&k.s.history);
    checkpoint_start_deinit(&k.s.kept.start);
    return 0;
}
