/* Scripts: what check-trainer asks of a program, as tables.
 *
 * A check is a conversation in steps: branches in numbered slots are forked and
 * run, what they report is kept as numbered series, and series are compared.
 * The player (player.h) carries them out. Every check begins at branch 0 (slot
 * 0) and leaves no branch behind. Pure data.
 */
#ifndef CLI_CHECK_SCRIPT_H
#define CLI_CHECK_SCRIPT_H

#include "base/err.h"
#include "base/proto/branch.h"
#include "cli/check/rules.h"

#include <stdbool.h>
#include <stdint.h>

enum { SLOTS_MAX = 8, SERIES_MAX = 8 };

enum step_kind {
    STEP_END,      /* frees all slots; the check has passed */
    STEP_NEED,     /* @need, or the check does not apply */
    STEP_FORK,     /* @slot from @from, @type, @setting */
    STEP_FREE,     /* @slot */
    STEP_RUN,      /* @slot, @count clocks (0: as many as @from has), a window
                    * each, at the end of @series */
    STEP_EPOCH,    /* @slot to its epoch's end, into @series */
    STEP_QUEUE,    /* as RUN, one slice, without waiting for it; 0: to the
                    * epoch's end */
    STEP_CUT,      /* the last slice, without waiting */
    STEP_BREATHE,  /* waits for a report, at most so many @count ms */
    STEP_IDLE,     /* nothing is asked for @count ms */
    STEP_WAIT,     /* for all answers */
    STEP_SAME,     /* @series and @from are the same to the last bit */
    STEP_DIFFER,   /* they are not, though their first windows are */
    STEP_STEADY,   /* they add up to the same, nearly: the loss of a sample is
                    * no matter of chance; or the check does not apply */
    STEP_HALVES,   /* two windows of @series are one of @from, nearly */
    STEP_ALIKE,    /* @series and @from add up to about the same */
    STEP_REFUSED,  /* @refusal is asked and refused */
    STEP_FILL,     /* forks from @from until memory is full */
    STEP_EMPTY,    /* frees @count of these (0: all) */
    STEP_RAW,      /* @text is sent as it stands */
    STEP_SNAPSHOT, /* @slot, into folder number @count */
    STEP_RESTORE,  /* the reverse */
    STEP_SAVE,     /* @slot */
    STEP_STOP,     /* told to end, it does */
    STEP_LOSE,     /* the tuner is gone: it ends */
    STEP_SIGNAL,   /* signal number @count: it ends */
    STEP_UNLOADED, /* no program runs: a new one cannot load, and ends */
    STEP_KIND_COUNT
};

enum check_need {
    NEED_VALIDATION,
    NEED_RATE,
    NEED_BATCH,
    NEED_DECAY,
    NEED_BROKEN /* a slice of @slot has failed */
};

enum check_setting {
    SETTING_USUAL,
    SETTING_FASTER,   /* three times the rate */
    SETTING_WILD,     /* a rate that no number survives */
    SETTING_NEGATIVE, /* a rate that cannot be */
    SETTING_DOUBLE,   /* twice the batch size */
    SETTING_SMALL,    /* an eighth of it */
    SETTING_EMPTY,    /* none */
    SETTING_DECAY     /* a weight decay */
};

/* Requests that are refused; @from is a slot of use to them. OK: with any
 * code. */
#define REFUSAL_LIST(X)                                                        \
    X(FORK_OF_UNKNOWN, NOENT, C3, "a fork from a branch that is not there")    \
    X(FORK_TWICE, EXIST, C3, "a fork to a number that a live branch has")      \
    X(FORK_RATE, INVAL, S7, "a fork with a learning rate below 0")             \
    X(FORK_BATCH, INVAL, S7, "a fork with a batch size of 0")                  \
    X(RUN_UNKNOWN, NOENT, C3, "a slice of a branch that is not there")         \
    X(RUN_INIT, INVAL, C3, "a slice of branch 0")                              \
    X(RUN_KEPT, INVAL, C3, "a slice of a kept branch")                         \
    X(RUN_WINDOWS, INVAL, L2, "a slice of 1,001 windows")                      \
    X(RUN_EARLIER, INVAL, C5, "a slice that begins with clock 0 again")        \
    X(RUN_FREED, NOENT, C3, "a slice of a branch whose free waits")            \
    X(FREE_UNKNOWN, NOENT, C3, "a free of a branch that is not there")         \
    X(SNAPSHOT_UNKNOWN, NOENT, C3, "a snapshot of a branch that is not there") \
    X(SNAPSHOT_TRAINING, INVAL, C3, "a snapshot of a training branch")         \
    X(SAVE_UNKNOWN, NOENT, C3, "a save of a branch that is not there")         \
    X(RESTORE_TWICE, EXIST, C3, "a restore to a number of a live branch")      \
    X(OP_AGAIN, PROTO, C2, "a request with a number that was used")            \
    X(RUN_BROKEN, OK, C8, "a slice of a broken branch")                        \
    X(SAVE_BROKEN, OK, C8, "a save of a broken branch")                        \
    X(SNAPSHOT_BROKEN, OK, C8, "a snapshot of a kept fork of a broken branch")

enum check_refusal {
#define REFUSAL_ENUM(name, code, rule, text) REFUSAL_##name,
    REFUSAL_LIST(REFUSAL_ENUM)
#undef REFUSAL_ENUM
        REFUSAL_COUNT
};

struct refusal_info {
    enum err code;
    enum rule rule;
    const char *text;
};

struct check_step {
    enum step_kind kind;
    int slot, from, count, series;
    enum branch_type type;
    enum check_setting setting;
    enum check_need need;
    enum check_refusal refusal;
    enum rule rule; /* that a failure of SAME, DIFFER, HALVES, ALIKE breaks */
    bool may_fail;  /* QUEUE: the slice */
    const char *text;
};

struct trainer_check {
    const char *name;
    const char *title;
    enum rule rule; /* that an end or a silence in its midst breaks */
    const struct check_step *step;
};

extern const struct trainer_check checks[];
extern const int checks_len;

const struct refusal_info *refusal_info(enum check_refusal refusal);

#endif
