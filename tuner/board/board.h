/* The board: the branches of a run, as strategies and searches see them.
 *
 * It turns what a strategy wants (fork this, run that for so many clocks, free
 * it) into messages and records, in clock order, and shows what the answers and
 * reports made of its branches. It knows nothing about searching, nor about
 * commands, snapshots and the end of a run (tuner/core/lifecycle.h). What is
 * behind it is the business of tuner/board and tuner/core alone.
 *
 * A branch is a slot in a fixed table. Its pointer stays valid until the branch
 * is freed; strategies keep numbers and look them up. Inside tuner/ only; one
 * owner thread.
 */
#ifndef TUNER_BOARD_H
#define TUNER_BOARD_H

#include "searchers/searcher.h"
#include "searchers/space/space.h"
#include "tuner/board/step.h"
#include "tuner/board/trace.h"
#include "tuner/history/nodes.h"
#include "tuner/history/record.h"

enum {
    BOARD_EPOCHS_KEPT = 4 /* results of epochs a branch remembers */
};

/* A finished epoch of a branch's lineage. */
struct epoch_result {
    uint32_t epoch; /* from 1; 0: none */
    double loss;    /* mean over its samples */
    double seconds; /* of training */
    clock_no clock; /* global number after its last clock */
};

/* A branch, as the functions below tell of it. */
struct branch;

/* The best model so far: a kept branch, held by the board. */
struct best {
    branch_id branch; /* BRANCH_NONE: there is none */
    branch_id of;     /* that ran its epoch; BRANCH_NONE: not known */
    uint32_t epoch;
    double loss, metric;
};

struct board;

/* ---- the run ------------------------------------------------------------- */

/* The records so far of a run that goes on; NULL: it is new. */
const struct history *board_history(const struct board *c);

/* The searcher that proposes settings, and its own settings; NULL: nothing
 * proposes. Searches propose with @searcher from now on, with its default
 * settings. */
const struct searcher_ops *board_searcher(const struct board *c);
const json_t *board_searcher_settings(const struct board *c);
void board_set_searcher(struct board *c, const struct searcher_ops *searcher);

/* The setting to start from instead of a first search; NULL: search. */
const struct setting *board_initial(const struct board *c);

/* What earlier runs found; NULL: nothing. */
const struct earlier *board_earlier(const struct board *c);

/* The user's wishes for searches (struct tuner_options): whether there are any
 * after the first, trials of the first (0: as many as the tunables call for),
 * what becomes of trials that cannot win, how long each is (0: to be found). */
bool board_retunes(const struct board *c);
uint32_t board_max_trials(const struct board *c);
enum tuner_trial_stops board_trial_stops(const struct board *c);
uint64_t board_trial_clocks(const struct board *c);

uint64_t board_seed(const struct board *c);

/* The tunables; once the training system is ready `acts` is as it says. */
const struct space *board_space(const struct board *c);

/* The training system as it said it is; `tunables` and `tables` are NULL. */
const struct msg_ready *board_system(const struct board *c);

/* Training samples an epoch, and the value that the loss cannot be below (NAN:
 * not known). */
uint64_t board_samples(const struct board *c);
double board_loss_floor(const struct board *c);

/* It has samples for validation; an epoch has fixed parts, a clock each. */
bool board_validates(const struct board *c);
bool board_has_parts(const struct board *c);

/* The limits that end the run, as they are now: they may have been steered. */
struct record_limits board_limits(const struct board *c);

/* Records a new status of the run if it is one. */
void board_set_status(struct board *c, enum run_status status,
                      const char *reason);

/* The same where the reason is another than that of the last record, too. */
void board_renew_status(struct board *c, enum run_status status,
                        const char *reason);

/* The branch that is the run's present state: what an end or a snapshot takes.
 * A training or kept branch; 0 at first. */
branch_id board_base(const struct board *c);
void board_set_base(struct board *c, branch_id branch);

/* There is something that a resume would go on from. */
bool board_has_progress(const struct board *c);

/* ---- records ------------------------------------------------------------- */

/* A record at the end of the actions, to be filled in: of each kind a function
 * that gives its members, as board_record_slice_ended. */
#define BOARD_RECORD(name, lower, what)                                        \
    struct record_##what *board_record_##lower(struct board *c);
RECORD_LIST(BOARD_RECORD)
#undef BOARD_RECORD

/* A decision and its reason; numbers follow with board_decision_number. */
struct record_decision *board_decision(struct board *c, const char *decision,
                                       const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void board_decision_number(struct record_decision *d, const char *name,
                           double value);

/* ---- time ---------------------------------------------------------------- */

/* The time that has passed, without pauses: for what is measured over more than
 * one event. */
double board_active_s(const struct board *c);

/* Duration of the step before this one; 0: not measured. */
double board_step_s(const struct board *c);

/* Time for which the training system had nothing to do before a slice: in all,
 * and before the latest that came when none was out (NAN: none yet). */
double board_waited_s(const struct board *c);
double board_latest_wait_s(const struct board *c);

/* Asks for another step in a tenth of a second: something (memory, the
 * searcher) was not to be had now. */
void board_retry(struct board *c);

/* Asks for another step @seconds (> 0) from now at the latest. */
void board_retry_after(struct board *c, double seconds);

/* ---- branches ------------------------------------------------------------ */

/* NULL when there is no such branch, or it was freed. */
const struct branch *board_branch(const struct board *c, branch_id id);

/* Forks at the end of all slices that are out. The child's lineage continues
 * @parent's. @json: the setting's text form (shared, not consumed). Result: the
 * new branch, forking; or NULL when no slot is free, which is like a refusal.
 */
const struct branch *board_fork(struct board *c, const struct branch *parent,
                                enum branch_type type,
                                const struct setting *setting, json_t *json,
                                const char *role);

/* @id, a fork of @kept that was not scheduled yet, goes on as what that was
 * made of: all that it ran since its fork counts as run by @id. */
void board_go_on(struct board *c, branch_id id, branch_id kept);

/* A read-only fork of @parent with one hold. */
const struct branch *board_keep(struct board *c, const struct branch *parent,
                                const char *role);
void board_hold(struct board *c, branch_id kept);

/* Guards a branch that is idle: what would change or free it makes a kept fork
 * of it first, with one hold, for who guards it; a branch has one guard at a
 * time. Its end is no error where the branch is gone. */
void board_guard(struct board *c, branch_id id);
void board_guard_end(struct board *c, branch_id id);
bool board_guarded(const struct board *c, branch_id id);

/* That fork of a branch that was guarded; BRANCH_NONE: there is none, since
 * nothing came, or since no branch was free for it. */
branch_id board_guard_fork(const struct board *c, branch_id id);

/* @id is about to change: for those that change branches. */
void board_guard_check(struct board *c, branch_id id);
/* BRANCH_NONE is allowed. Branch 0 is never freed by this. */
void board_drop(struct board *c, branch_id kept, const char *reason);

/* Frees a branch after the slices that are out; forgets a refused one.
 * BRANCH_NONE and branches that are gone are allowed. */
void board_free(struct board *c, branch_id id, const char *reason);

/* @id is of no use: what had to follow from it failed with @error, since @why.
 */
void board_set_error(struct board *c, branch_id id, enum err error,
                     const char *why);

/* Questions about a branch; pointers are borrowed from it. */

/* The number it was given by its fork. */
branch_id branch_number(const struct branch *b);

/* Its fork is not answered yet; it was refused (nothing exists; to be forgotten
 * with board_free); or neither: it can run. */
bool branch_is_forking(const struct branch *b);
bool branch_is_refused(const struct branch *b);
bool branch_is_live(const struct branch *b);

/* Why its fork or a slice of it failed, ERR_OK: none did; and the same in
 * words, those of the training system where it said any. */
enum err branch_error(const struct branch *b);
const char *branch_failure(const struct branch *b);

/* It reported something that is not finite. */
bool branch_is_nonfinite(const struct branch *b);

/* Its parent's slice is not over: the lineage's numbers are to come. */
bool branch_waits(const struct branch *b);

/* Live, and no slice of it is out. */
bool branch_idle(const struct branch *b);

/* Slices that are scheduled and not answered. */
uint32_t branch_slices_out(const struct branch *b);

/* Its setting, and that as the messages carry it. */
const struct setting *branch_setting(const struct branch *b);
json_t *branch_json(const struct branch *b);

/* Run by the lineage: clocks, and epochs that are finished. */
uint64_t branch_clocks(const struct branch *b);
uint32_t branch_epochs(const struct branch *b);

/* Run since the fork: clocks, samples, their mean loss (samples > 0), and what
 * was reported. */
uint64_t branch_own_clocks(const struct branch *b);
uint64_t branch_own_samples(const struct branch *b);
double branch_own_loss(const struct branch *b);
const struct trace *branch_trace(const struct branch *b);

/* The global number of the first clock since the fork; where none is scheduled
 * yet, of the next one. */
clock_no branch_began(const struct board *c, const struct branch *b);

/* @copy is a fork of @b that has all of it, rows that users added to since
 * included. */
bool branch_is_copy(const struct branch *copy, const struct branch *b);

/* Result of the lineage's epoch @epoch, one of the last BOARD_EPOCHS_KEPT. */
const struct epoch_result *branch_epoch(const struct branch *b, uint32_t epoch);
/* Whether one of these is of that epoch, and of that loss: siblings' differ. */
bool branch_had_epoch(const struct branch *b, uint32_t epoch, double loss);

/* ---- slices -------------------------------------------------------------- */

/* Length of an epoch in units of position: clocks where the training system
 * has parts, else samples. */
uint64_t board_units(const struct board *c);

/* Samples a clock with @setting takes; 0: not known yet. */
uint64_t board_samples_per_clock(const struct board *c,
                                 const struct setting *setting);

/* Clocks until @b's epoch ends, after the slices that are out; 1 where the size
 * of a clock is not known. */
uint64_t board_clocks_left(const struct board *c, const struct branch *b);

/* Units of position that @b has run since its fork; will have run when the
 * slices that are out are over; and where in its epoch it then is. */
uint64_t board_units_run(const struct board *c, const struct branch *b);
uint64_t board_units_planned(const struct board *c, const struct branch *b);
/* Whether @b has run more than was planned. The plan is made anew when its
 * slices have ended; until then it does not say what is left of the epoch. */
bool board_plan_is_behind(const struct board *c, const struct branch *b);
uint64_t branch_plan(const struct branch *b);

/* Clocks of @b that are scheduled and not reported yet. */
uint64_t board_clocks_out(const struct board *c, const struct branch *b);

/* Schedules one slice of @count clocks, at most board_clocks_left and
 * PROTO_WINDOWS_MAX windows; more is cut to that. Returns the clocks. */
uint64_t board_run(struct board *c, const struct branch *b, uint64_t count,
                   uint64_t report_every);

/* Schedules @count clocks of a testing branch. */
void board_test(struct board *c, const struct branch *b, uint64_t count);

/* Median of the latest measured costs of a switch; 0 before there is any. */
double board_switch_cost(const struct board *c);

/* Cuts the slice that runs if it is @b's (BRANCH_NONE: whosever). */
void board_cut(struct board *c, branch_id branch);

/* The global number of the next clock that is scheduled. */
clock_no board_next_clock(const struct board *c);

/* Clocks that were run by all branches. */
uint64_t board_clocks_run(const struct board *c);

/* The reason of the last slice that failed. */
const char *board_failure(const struct board *c);

/* ---- the best model ------------------------------------------------------ */

const struct best *board_best(const struct board *c);

/* Makes @kept (live, held by the caller; the board takes a hold of its own), as
 * @of was at the end of its epoch @e, the best model so far. */
void board_set_best(struct board *c, branch_id kept, branch_id of,
                    const struct epoch_result *e, double metric);

/* True if (@loss, @metric) of an epoch beats the best model so far: a better
 * metric, or an equal one and less loss. */
bool board_is_better(const struct board *c, double loss, double metric);

/* Branch @b was validated after @epochs epochs, and has @metric (NAN: no number
 * came of it). The first time that there is none is told as a decision: a user
 * who never hears of it would wait for a best model. */
void board_note_metric(struct board *c, const struct branch *b, uint32_t epochs,
                       double metric);

/* The metric as a number of which less is better; without validation the
 * loss. */
double board_score(const struct board *c, double loss, double metric);

/* The reverse: what a person calls a score. */
double board_result(const struct board *c, double score);

#endif
