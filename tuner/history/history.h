/* History: the state of a run, folded from its records.
 *
 * Live, the tuner's shell feeds each record as it is journaled; `mltune show`
 * replays the journal: the same fold, so the same answer. HTTP routes read it
 * under the caller's lock.
 *
 * Memory is bounded, however long a run lasts (history_bounds.c):
 *
 * * A branch's progress is halved in resolution whenever it would exceed
 *   HISTORY_POINTS_MAX points (an eighth of that once it is freed, and less,
 * the oldest first, where all freed branches together would hold more than
 *   HISTORY_FREED_POINTS_MAX). The setting of a freed one takes few bytes.
 * * Slices and decisions keep the latest, the others are counted.
 * * Searches that are over, their trials and the settings chosen are kept in
 * few bytes once others follow (history_cold.h), and give way from the oldest
 * on; they are counted. The latest search keeps all of its trials.
 * * JSON that equals that of the item before is held once.
 * * Of the older half of the epochs every second goes, but for the best and the
 *   last: what is long ago is kept ever more coarsely. Their settings take few
 *   bytes.
 * * Freed branches that no trial or epoch names go first, then the others; what
 *   was forked from one that goes counts as forked from its parent.
 *
 * What is kept takes, in bytes of 64-bit machines:
 *
 *   a trial    840, once it is long over 200; 4,096 of the latter
 *   its branch 264, 48 for its setting, 80 a point; 8,192, with 24,576 points
 *   a search   1,088, then 140; 1,024
 *   a choice   512, then 100; 4,096
 *   an epoch   204, 34 where its setting is another one; 8,192
 *   a decision 888; 1,024
 *   a slice    64; 4,096
 *
 * A re-tune of six trials with 26 points each so takes some 16 kB at first, and
 * 3.5 kB once the points are as many as may be. All lists full are some 12 MB,
 * after a week as after two hours of a re-tune each 5 s.
 *
 * A history as bytes is history_pack.h's.
 */
#ifndef TUNER_HISTORY_H
#define TUNER_HISTORY_H

#include "base/proto/table_info.h"
#include "tuner/history/nodes.h"
#include "tuner/history/record.h"

enum {
    HISTORY_POINTS_MAX = 1024,           /* a live branch; / 8 once freed */
    HISTORY_FREED_POINTS_MAX = 24 << 10, /* of all freed branches together, as
                                          * long as each has more than: */
    HISTORY_FREED_POINTS_MIN = 2,
    HISTORY_SLICES_MAX = 4096,
    HISTORY_DECISIONS_MAX = 1024,
    HISTORY_SEARCHES_MAX = 1024,
    HISTORY_TRIALS_MAX = 4096, /* of searches before the latest, about */
    HISTORY_EPOCHS_MAX = 8192,
    HISTORY_CHOICES_MAX = 4096,
    /* Of these so many are kept whole, about; the others in few bytes. A run
     * that goes back to one of its snapshots finds its search among them. */
    HISTORY_SEARCHES_WHOLE = 64,
    HISTORY_TRIALS_WHOLE = 2048, /* fewer: only those of these searches */
    HISTORY_CHOICES_WHOLE = 64,
    HISTORY_BRANCHES_MAX = 8192, /* more only where more are in use */
    HISTORY_SNAPSHOTS_MAX = 16,  /* latest */
    HISTORY_SUGGESTIONS_MAX = 65536,
    HISTORY_ERAS_MAX = 32 /* latest */
};

/* Consecutive windows joined. */
struct history_point {
    clock_no branch_clock; /* of the lineage, at the point's end */
    clock_no clock;        /* global, of the last window's first clock */
    double at_s;           /* of the last record that went in */
    struct progress_window w;
};

struct history_branch {
    branch_id branch, parent;
    enum branch_type type;
    char role[16];
    /* Owned: its setting while it lives; once it is freed, in few bytes
     * (history_branch_setting). */
    json_t *setting;
    unsigned char *few;
    size_t few_len;
    bool stored; /* @few and @point are the history's (history_store.h) */
    double created_at_s, freed_at_s; /* freed: NAN while live */
    char freed_reason[RECORD_NAME_MAX];
    clock_no created_clock;
    /* Forked by hand: what the user still wants of it when it is lost. */
    enum { WISH_NONE, WISH_RUN, WISH_PROMOTE } wish;
    uint32_t kept_in; /* number of the first snapshot of a lineage that it was
                       * promoted to: no need to do so again from there on; 0:
                       * none */
    uint32_t wish_epochs;
    uint64_t wish_clocks;
    uint64_t clocks; /* run by itself */
    uint64_t samples;
    double seconds;
    /* Sent between nodes while it ran; reads whose staleness is known, and the
     * sum of it (base/proto/staleness.h). */
    uint64_t data_bytes, reads;
    double staleness;
    /* Progress, oldest first; each point holds @merge windows (the last may
     * hold fewer). */
    struct history_point *point; /* owned, unless @stored */
    size_t points, capacity;
    struct history_extras *extras; /* owned: further metrics; NULL: none */
    uint64_t merge, last_merged;
    bool on_way; /* while the fold compares with a lineage: is of it */
};

struct history_search {
    struct record_search_started started; /* tunables owned */
    bool ended;
    bool closed;                    /* takes no further trial */
    struct record_search_ended end; /* where ended */
    double started_at_s, ended_at_s;
    double paused_before_s; /* history_paused when it began */
    bool decided;           /* how long a trial takes */
    double trial_s, judged_s;
};

struct history_trial {
    struct record_trial t; /* latest; setting owned */
    bool ended;
    bool outlived; /* its branch lived when its search ended */
    double started_at_s, ended_at_s; /* NAN while it runs */
};

/* A setting that somebody outside wants to be tried; `trial` also of one that
 * has begun. One whose trial was interrupted waits again. */
struct history_suggestion {
    struct record_suggestion s; /* latest; setting owned */
    double at_s, settled_at_s;  /* accepted; no longer waiting, NAN before */
    bool by_end; /* dropped because the run ended: waits again if it goes on */
};

struct history_slice {
    struct record_slice_scheduled s;
    bool ended;
    uint64_t clocks; /* run, where ended */
    double scheduled_at_s, ended_at_s;
};

struct history_epoch {
    struct record_epoch_ended e; /* setting NULL: history_epoch_setting */
    double at_s;
    /* Further metrics of its validation, by history.extras; NAN: none. */
    double extra[EXTRAS_MAX];
};

struct history_choice {
    struct record_setting_chosen c; /* setting owned */
    double at_s;
};

struct history_snapshot {
    struct record_snapshot_written s; /* state owned */
    double at_s;
};

/* From @at_s of a run on, its time 0 is @zero_unix_s: a resumed run's clock has
 * stood still while it was not there. */
struct history_era {
    double at_s, zero_unix_s;
};

struct history_decision {
    struct record_decision d;
    double at_s;
    clock_no clock;
};

/* Items in few bytes, oldest first; row i ends at end[i]. */
struct cold_rows {
    unsigned char *bytes; /* owned, [len] */
    uint32_t *end;        /* owned, [rows] */
    size_t len, room, rows, ends_cap;
};

/* What freed branches keep, side by side: [len] of [room] bytes are used, of
 * which [dead] are nobody's any more. */
struct history_store {
    unsigned char *bytes; /* owned (mem_reserve) */
    size_t len, room, dead;
};

enum { COLD_SHAPES_MAX = 16 };

struct history {
    bool started;
    struct record_run_started run;
    enum run_status status;
    char status_reason[RECORD_TEXT_MAX];
    bool finished;
    struct record_run_finished end;
    double at_s;             /* of the last record */
    clock_no clock;          /* next global clock */
    uint64_t clocks;         /* run, over all branches */
    double first_clock_at_s; /* NAN before */
    double paused_s;         /* in pauses that are over */
    double paused_at_s;      /* when the one that lasts began; NAN: none */
    double first_paused_s;   /* history_paused at the first clock */
    double waited_s;         /* the training system, for the tuner */
    /* State that the user's commands come to. */
    bool pause_wanted, retune_wanted;
    struct record_limits limits;
    uint64_t records; /* number of the last one */

    /* By number, those that are kept whole: search n at index n - 1 -
     * searches_dropped - cold_search.rows; trials the same. Those before them
     * are cold. */
    struct history_search *search;
    struct history_trial *trial;
    struct cold_rows cold_search, cold_trial, cold_choice;
    struct cold_rows epoch_setting; /* of each epoch (history_epochs.h) */
    json_t *shape[COLD_SHAPES_MAX]; /* owned: what JSON of theirs is like */
    size_t shapes;
    struct history_suggestion *suggestion; /* n at index n - 1 */
    struct history_branch *branch;     /* by number of creation, oldest first */
    struct history_slice *slice;       /* latest, oldest first */
    struct history_epoch *epoch;       /* of all lineages, in order */
    struct history_choice *choice;     /* the schedule of settings by clock,
                                        * after those that are cold */
    struct history_decision *decision; /* latest, oldest first */
    size_t searches, trials, suggestions, branches, slices, epochs, choices,
        decisions;
    size_t searches_cap, trials_cap, suggestions_cap, branches_cap, slices_cap,
        epochs_cap, choices_cap, decisions_cap;
    /* State of asking those outside: OPEN, EXHAUSTED until a search ends,
     * SILENT until they speak, OVER until the run is resumed; and why. */
    enum asking asking;
    char asking_reason[RECORD_TEXT_MAX];
    uint64_t slices_dropped, decisions_dropped;
    uint32_t searches_dropped, trials_dropped;
    uint64_t epochs_dropped, choices_dropped, branches_dropped;
    /* What searches and trials that gave way had cost; trials of them that were
     * stopped. */
    double dropped_s;
    uint64_t dropped_clocks, dropped_stopped;
    uint64_t failed; /* trials that did; why the latest of them */
    char failed_reason[RECORD_TEXT_MAX];
    size_t freed_points, freed_points_each; /* held; the most of one branch */
    struct history_store store;             /* of freed branches */
    /* The built-in searcher that has taken over from one that failed, by the
     * decision "searcher_fallback"; "": none has. */
    char fallback[RECORD_NAME_MAX];
    /* What the first search began with of earlier runs, as the decision
     * "warm_start" says; "": it was not to. */
    char warm_start[RECORD_TEXT_MAX];
    /* Why the run goes on without its searcher, a sentence, as the decision
     * "searcher_fallback" or "searcher_silent" says; "": it has it. */
    char searcher_failed[RECORD_TEXT_MAX];
    /* One above the index of the latest epoch of the surviving lineage, and of
     * the one whose parameters are kept as best; 0: none. */
    size_t last_epoch, best_epoch;
    /* The latest, oldest first. */
    struct history_snapshot *snapshot; /* owned */
    size_t snapshots, snapshots_cap;
    uint32_t snapshot_number; /* highest of any folder, of use or not */
    /* Number of the one that the run went back to; 0: none has followed. Those
     * after it are forgotten when a newer one is written: until then whoever
     * resumes the run tries them again. */
    uint32_t snapshot_back;
    struct history_era era[HISTORY_ERAS_MAX]; /* oldest first */
    size_t eras;
    uint32_t resumes; /* how often the run went on from a snapshot */
    json_t *data;     /* owned: what the data hold, as told last; NULL */
    struct table_info *table; /* owned, [tables] as told last */
    size_t tables;
    uint64_t increments; /* highest number of any */
    struct nodes nodes;
    struct extras extras; /* names of further metrics, as they came */
    struct record_model_saved model; /* path "" without one; data owned */
};

void history_init(struct history *h);
void history_deinit(struct history *h);

/* Keeps of a run that is over what a list of runs shows of it, some 6 kB: its
 * state, counts and costs, the last epoch and the best, its last setting and
 * losses. The lists are empty from here on, and no record is folded in any
 * more: whoever wants all reads the journal again. */
void history_rest(struct history *h);

/* Folds @r in. Errors: ERR_NOMEM, ERR_FORMAT (a record that does not fit what
 * came before, as from a damaged journal); then nothing changed. */
enum err history_apply(struct history *h, const struct record *r);

/* ---- what it holds ------------------------------------------------------- */

/* For readers: the members above are the fold's. */
bool history_started(const struct history *h);
bool history_finished(const struct history *h);
enum run_status history_status(const struct history *h);
const struct record_run_started *history_run(const struct history *h);
const struct record_run_finished *history_end(const struct history *h);
/* The searcher that took the place of one that failed; "": none has. */
const char *history_fallback(const struct history *h);
/* What the first search began with of earlier runs, a sentence; "": with
 * nothing. */
const char *history_warm_start(const struct history *h);
const char *history_searcher_failed(const struct history *h);
const struct record_limits *history_limits(const struct history *h);
const struct nodes *history_nodes(const struct history *h);
const struct extras *history_extras(const struct history *h);
bool history_pause_wanted(const struct history *h);
bool history_retune_wanted(const struct history *h);
uint64_t history_records(const struct history *h);
uint64_t history_increments(const struct history *h);
/* Number of the next snapshot. The tuner that died may have written one that
 * was not journaled, and may still be writing: each time a run goes on it
 * begins further up. */
uint32_t history_snapshot_next(const struct history *h);
clock_no history_clock(const struct history *h);
uint64_t history_clocks(const struct history *h);
double history_at_s(const struct history *h);
double history_first_clock_at_s(const struct history *h);

/* Each list's length, and its item at @i < that, in the list's order:
 * history_epochs_len, history_epoch_at. */
#define HISTORY_LISTS(X)                                                       \
    X(branch, branches, struct history_branch)                                 \
    X(slice, slices, struct history_slice)                                     \
    X(epoch, epochs, struct history_epoch)                                     \
    X(snapshot, snapshots, struct history_snapshot)                            \
    X(table, tables, struct table_info)
#define HISTORY_LIST(item, items, type)                                        \
    size_t history_##items##_len(const struct history *h);                     \
    const type *history_##item##_at(const struct history *h, size_t i);
HISTORY_LISTS(HISTORY_LIST)
#undef HISTORY_LIST

/* The same of what may be kept in few bytes. The item is without its JSON
 * (NULL), which is asked for by itself: new, and the caller's; null where it
 * has none, NULL: out of memory. Cost: some 0.2 us, and 2 us for the JSON. */
#define HISTORY_LONG_LISTS(X)                                                  \
    X(search, searches, tunables)                                              \
    X(trial, trials, setting)                                                  \
    X(choice, choices, setting)
#define HISTORY_LONG_LIST(item, items, json)                                   \
    size_t history_##items##_len(const struct history *h);                     \
    struct history_##item history_##item##_at(const struct history *h,         \
                                              size_t i);                       \
    json_t *history_##item##_##json(const struct history *h, size_t i);
HISTORY_LONG_LISTS(HISTORY_LONG_LIST)
#undef HISTORY_LONG_LIST

/* Searches and trials that there were, with those that gave way. */
uint32_t history_searches_made(const struct history *h);
uint32_t history_trials_made(const struct history *h);

/* The search, the trial of that number, where it is kept whole: as those are
 * that a run may go on with. NULL: there was none, it is long over, or it gave
 * way. */
const struct history_search *history_search(const struct history *h,
                                            uint32_t number);
const struct history_trial *history_trial(const struct history *h,
                                          uint32_t number);

/* The search that @t belongs to. */
uint32_t history_trial_search(const struct history_trial *t);

/* The record of @t as one that was interrupted; its setting is the caller's to
 * give back. */
struct record_trial history_trial_interrupted(const struct history_trial *t);

/* What search @number has run so far: trials but the incumbent, and clocks of
 * all, of those that are kept whole. */
struct history_run_of_search {
    uint32_t trials;
    uint64_t clocks;
};
struct history_run_of_search history_search_run(const struct history *h,
                                                uint32_t number);

/* Index of the trial of that number in its list; SIZE_MAX: there was none, or
 * it gave way. */
size_t history_trial_index(const struct history *h, uint32_t number);

/* Halves the resolution of what freed branches keep, down to
 * HISTORY_FREED_POINTS_MIN points each. */
void history_thin(struct history *h);

/* The records up to number @number that were not folded in are damaged or gone:
 * the next one that is counts as the one after. */
void history_skip(struct history *h, uint64_t number);

/* The branch of that number; NULL when there was none. O(log n). */
const struct history_branch *history_branch(const struct history *h,
                                            branch_id branch);

/* The setting of @b, a branch of @h: new, and the caller's; null where it has
 * none. NULL: out of memory. */
json_t *history_branch_setting(const struct history *h,
                               const struct history_branch *b);

/* The setting of @e, an epoch of @h: new, and the caller's; null where it has
 * none. NULL: out of memory. */
json_t *history_epoch_setting(const struct history *h,
                              const struct history_epoch *e);

/* Value of further metric @metric (its index in history.extras) at point @point
 * of @b: the mean over the point's clocks; NAN where there is none. */
double history_extra(const struct history_branch *b, size_t metric,
                     size_t point);

/* Whether any point of @b has a value of it. */
bool history_extra_is_there(const struct history_branch *b, size_t metric);

/* The table of that name, or whose number it is (from 0, in decimals); NULL
 * when there is none. */
const struct table_info *history_table(const struct history *h,
                                       const char *name);

/* The branch that training goes on in: that of the last setting chosen, or of a
 * later epoch. BRANCH_NONE before there is one. */
branch_id history_tip(const struct history *h);

/* The last epoch of the surviving lineage, and the one whose parameters are
 * kept as best; NULL before. */
const struct history_epoch *history_last_epoch(const struct history *h);
const struct history_epoch *history_best_epoch(const struct history *h);

/* The epoch of that number that the branch @of ran itself; NULL: it has none,
 * or it is no longer kept. */
const struct history_epoch *history_epoch_of(const struct history *h,
                                             uint32_t epoch, branch_id of);

/* The newest snapshot; NULL before. */
const struct history_snapshot *history_last_snapshot(const struct history *h);

/* Path of the model that the run has written; "": none. */
const char *history_model_path(const struct history *h);

/* Whether a resume has something to go on from that a new run has not: a
 * snapshot, or a trial (a first search writes no snapshots; its trials are
 * known to a resume). */
bool history_has_work(const struct history *h);

/* The snapshots are in the folder @dir now, under the names that they have:
 * records say where they were when they were written. Errors: ERR_LIMIT (a path
 * would be too long); then nothing changed. */
enum err history_move_snapshots(struct history *h, const char *dir);

/* Number that a snapshot's folder is named by; 0: none. */
uint32_t history_snapshot_number(const char *path);

/* Name of the folder, beside that of the snapshots, that trial @trial's branch
 * was written to with snapshot @number. */
enum { HISTORY_TRIAL_FOLDER_MAX = 32 };
void history_trial_folder(uint32_t number, uint32_t trial,
                          char name[HISTORY_TRIAL_FOLDER_MAX]);

/* That of the @i-th trial that snapshot @s counts on. False: it counts on no
 * more. */
bool history_snapshot_trial(const struct record_snapshot_written *s, size_t i,
                            char name[HISTORY_TRIAL_FOLDER_MAX]);

/* Wall time of @at_s, seconds since the epoch, by @era[n] of a run that began
 * at
 * @started_unix_s. NAN where one of them is. */
double history_wall(const struct history_era era[], size_t n,
                    double started_unix_s, double at_s);

/* Wall time of @at_s by the eras of @h. */
double history_wall_of(const struct history *h, double at_s);

/* Number of epochs of the surviving lineage. */
uint32_t history_epochs(const struct history *h);

/* Seconds that the run was paused, up to the latest record. */
double history_paused(const struct history *h);
/* Seconds that the training system waited for the tuner, in all. */
double history_waited(const struct history *h);

/* Cost of searching so far, the winners' own training left out. A search
 * that is open counts up to the latest record, but for the epochs of the
 * surviving lineage that ended in it. */
struct history_tuning {
    double seconds;
    uint64_t clocks; /* of the searches that are over */
    uint64_t anew;   /* searches that a resume began anew, of those that are
                      * remembered one by one */
    uint64_t failed; /* trials */
    char failed_reason[RECORD_TEXT_MAX]; /* of the latest of these; "" */
};
struct history_tuning history_tuning(const struct history *h);

/* Mean over the newest surviving training progress: what a live line shows.
 * NAN before there is any. */
double history_loss(const struct history *h);

/* The contract's result object of `mltune run --json`; @state and @url may be
 * NULL. Valid at any time (status "running" parts as they are). NULL: out of
 * memory. */
json_t *history_result(const struct history *h, const char *state,
                       const char *url);

#endif
