#include "cli/check/script.h"

#include <assert.h>
#include <signal.h>

#define NEED(n)                                                                \
    {                                                                          \
        .kind = STEP_NEED, .need = NEED_##n                                    \
    }
#define FORK(s, of, t)                                                         \
    {                                                                          \
        .kind = STEP_FORK, .slot = (s), .from = (of), .type = BRANCH_##t       \
    }
#define FORK_AS(s, of, t, how)                                                 \
    {                                                                          \
        .kind = STEP_FORK, .slot = (s), .from = (of), .type = BRANCH_##t,      \
        .setting = SETTING_##how                                               \
    }
#define FREE(s)                                                                \
    {                                                                          \
        .kind = STEP_FREE, .slot = (s)                                         \
    }
#define RUN(s, n, into)                                                        \
    {                                                                          \
        .kind = STEP_RUN, .slot = (s), .count = (n), .series = (into)          \
    }
#define RUN_AS_LONG(s, as, into)                                               \
    {                                                                          \
        .kind = STEP_RUN, .slot = (s), .from = (as), .series = (into)          \
    }
#define EPOCH(s, into)                                                         \
    {                                                                          \
        .kind = STEP_EPOCH, .slot = (s), .series = (into)                      \
    }
#define QUEUE(s, n, into)                                                      \
    {                                                                          \
        .kind = STEP_QUEUE, .slot = (s), .count = (n), .series = (into)        \
    }
#define CUT                                                                    \
    {                                                                          \
        .kind = STEP_CUT                                                       \
    }
#define BREATHE(ms)                                                            \
    {                                                                          \
        .kind = STEP_BREATHE, .count = (ms)                                    \
    }
#define IDLE(ms)                                                               \
    {                                                                          \
        .kind = STEP_IDLE, .count = (ms)                                       \
    }
#define WAIT                                                                   \
    {                                                                          \
        .kind = STEP_WAIT                                                      \
    }
#define SAME(a, b, r)                                                          \
    {                                                                          \
        .kind = STEP_SAME, .series = (a), .from = (b), .rule = RULE_##r        \
    }
#define DIFFER(a, b, r)                                                        \
    {                                                                          \
        .kind = STEP_DIFFER, .series = (a), .from = (b), .rule = RULE_##r      \
    }
#define STEADY(a, b)                                                           \
    {                                                                          \
        .kind = STEP_STEADY, .series = (a), .from = (b)                        \
    }
#define HALVES(a, b, r)                                                        \
    {                                                                          \
        .kind = STEP_HALVES, .series = (a), .from = (b), .rule = RULE_##r      \
    }
#define ALIKE(a, b, r)                                                         \
    {                                                                          \
        .kind = STEP_ALIKE, .series = (a), .from = (b), .rule = RULE_##r       \
    }
#define QUEUE_TO_FAIL(s, into)                                                 \
    {                                                                          \
        .kind = STEP_QUEUE, .slot = (s), .series = (into), .may_fail = true    \
    }
#define FAILED(s)                                                              \
    {                                                                          \
        .kind = STEP_NEED, .need = NEED_BROKEN, .slot = (s)                    \
    }
#define FILL(of)                                                               \
    {                                                                          \
        .kind = STEP_FILL, .from = (of)                                        \
    }
#define EMPTY(n)                                                               \
    {                                                                          \
        .kind = STEP_EMPTY, .count = (n)                                       \
    }
#define SIGNAL(n)                                                              \
    {                                                                          \
        .kind = STEP_SIGNAL, .count = (n)                                      \
    }
#define UNLOADED                                                               \
    {                                                                          \
        .kind = STEP_UNLOADED                                                  \
    }
#define REFUSED(w, of)                                                         \
    {                                                                          \
        .kind = STEP_REFUSED, .refusal = REFUSAL_##w, .from = (of)             \
    }
#define RAW(t)                                                                 \
    {                                                                          \
        .kind = STEP_RAW, .text = (t)                                          \
    }
#define SNAPSHOT(s, n)                                                         \
    {                                                                          \
        .kind = STEP_SNAPSHOT, .slot = (s), .count = (n)                       \
    }
#define RESTORE(s, n)                                                          \
    {                                                                          \
        .kind = STEP_RESTORE, .slot = (s), .count = (n)                        \
    }
#define SAVE(s)                                                                \
    {                                                                          \
        .kind = STEP_SAVE, .slot = (s)                                         \
    }
#define STOP                                                                   \
    {                                                                          \
        .kind = STEP_STOP                                                      \
    }
#define LOSE                                                                   \
    {                                                                          \
        .kind = STEP_LOSE                                                      \
    }
#define END                                                                    \
    {                                                                          \
        .kind = STEP_END                                                       \
    }

/* Steps that the player asks of every program that it starts. */
static const struct check_step start[] = {END};

static const struct check_step beats[] = {IDLE(4500), END};

static const struct check_step forks[] = {
    FORK(1, 0, TRAINING),
    RUN(1, 6, 0),
    FORK(2, 1, KEPT),
    FORK(3, 1, TRAINING),
    RUN(1, 6, 1),
    RUN(3, 6, 2),
    SAME(1, 2, S1),
    FORK(4, 2, TRAINING),
    RUN(4, 6, 3),
    SAME(1, 3, S1),
    FREE(1),
    FREE(3),
    FORK(5, 2, KEPT),
    FREE(2),
    FORK(6, 5, TRAINING),
    RUN(6, 6, 4),
    SAME(1, 4, S1),
    END,
};

/* Siblings that run one after the other see what the first one saw. */
static const struct check_step siblings[] = {
    FORK(1, 0, TRAINING), FORK(2, 0, TRAINING), RUN(1, 8, 0),
    RUN(2, 8, 1),         SAME(0, 1, S3),       FORK(3, 0, TRAINING),
    RUN(3, 8, 2),         SAME(0, 2, S3),       END,
};

/* Before the update: what follows from it, the rate or whether anything is
 * learned, is no matter of the first clock. */
static const struct check_step measures[] = {
    FORK(1, 0, TRAINING),
    RUN(1, 4, 0),
    FORK(2, 1, PROBE),
    FORK(3, 1, TRAINING),
    RUN(2, 1, 1),
    RUN(3, 1, 2),
    SAME(1, 2, S6),
    FORK_AS(4, 1, TRAINING, FASTER),
    RUN(4, 1, 3),
    SAME(1, 3, S6),
    END,
};

/* Added up: an epoch of a probe has the same sum in clocks of any size. */
static const struct check_step sums[] = {
    NEED(BATCH), FORK(1, 0, PROBE), FORK_AS(2, 0, PROBE, DOUBLE),
    EPOCH(1, 0), EPOCH(2, 1),       ALIKE(0, 1, S6),
    END,
};

static const struct check_step penalties[] = {
    NEED(DECAY),
    FORK(1, 0, TRAINING),
    RUN(1, 4, 0),
    FORK(2, 1, PROBE),
    FORK_AS(3, 1, PROBE, DECAY),
    RUN(2, 4, 1),
    RUN(3, 4, 2),
    SAME(1, 2, S6),
    END,
};

/* Whatever their batch sizes: by probes, whose parameters are the same. */
static const struct check_step batches[] = {
    NEED(BATCH),
    FORK(1, 0, TRAINING),
    RUN(1, 6, 0),
    EPOCH(1, 0), /* to where an epoch begins */
    FORK(2, 1, PROBE),
    EPOCH(2, 1),
    EPOCH(2, 2),
    STEADY(1, 2),
    FORK(3, 1, PROBE),
    RUN(3, 8, 3),
    FORK_AS(4, 1, PROBE, DOUBLE),
    RUN(4, 4, 4),
    HALVES(3, 4, S3),
    END,
};

static const struct check_step probes[] = {
    FORK(1, 0, TRAINING),
    RUN(1, 4, 0),
    FORK(2, 1, PROBE),
    FORK(3, 1, TRAINING),
    RUN(2, 8, 1),
    RUN(3, 8, 2),
    DIFFER(1, 2, S4),
    FORK(4, 1, TRAINING),
    RUN(4, 8, 3),
    SAME(2, 3, S4),
    FREE(2),
    RUN(1, 8, 4),
    SAME(2, 4, S4),
    END,
};

/* A probe with another rate: the same sums, for it learns nothing. */
static const struct check_step probe_rates[] = {
    NEED(RATE),
    FORK(1, 0, TRAINING),
    RUN(1, 4, 0),
    FORK(2, 1, PROBE),
    FORK_AS(3, 1, PROBE, FASTER),
    RUN(2, 8, 1),
    RUN(3, 8, 2),
    SAME(1, 2, S4),
    END,
};

static const struct check_step interleaving[] = {
    FORK(1, 0, TRAINING),
    RUN(1, 12, 0),
    FORK(2, 0, TRAINING),
    FORK_AS(3, 0, TRAINING, FASTER),
    RUN(2, 3, 1),
    RUN(3, 4, 2),
    RUN(2, 1, 1),
    FORK(4, 3, PROBE),
    RUN(4, 3, 3),
    RUN(2, 4, 1),
    FREE(4),
    FREE(3),
    RUN(2, 4, 1),
    SAME(0, 1, S2),
    END,
};

static const struct check_step tests[] = {
    NEED(VALIDATION),
    FORK(1, 0, TRAINING),
    RUN(1, 4, 0),
    FORK(2, 1, TRAINING),
    RUN(2, 8, 1),
    FORK(3, 1, TESTING),
    FORK(4, 1, KEPT),
    RUN(3, 1, 2),
    RUN(1, 4, 3),
    RUN(3, 1, 4),
    SAME(2, 4, L6),
    FORK(5, 4, TESTING),
    RUN(5, 1, 5),
    SAME(2, 5, S1),
    RUN(1, 4, 3),
    SAME(1, 3, S2),
    END,
};

static const struct check_step epochs[] = {
    FORK(1, 0, TRAINING), EPOCH(1, 0),
    EPOCH(1, 1),          FORK_AS(2, 0, TRAINING, DOUBLE),
    EPOCH(2, 2),          FORK(3, 0, PROBE),
    EPOCH(3, 3),          END,
};

static const struct check_step cuts[] = {
    FORK_AS(1, 0, TRAINING, SMALL),
    FORK_AS(2, 0, TRAINING, SMALL),
    FORK_AS(3, 1, TRAINING, SMALL),
    QUEUE(1, 0, 0),
    BREATHE(500),
    CUT,
    QUEUE(3, 0, 3), /* cut while it waits, or runs */
    CUT,
    WAIT,
    RUN_AS_LONG(2, 0, 1),
    SAME(0, 1, C6),
    FORK_AS(4, 1, TRAINING, SMALL),
    RUN(1, 4, 4),
    RUN(4, 4, 5),
    SAME(4, 5, C6),
    RUN(2, 4, 6),
    SAME(4, 6, C6),
    END,
};

/* Requests that arrive together, and while a slice runs. */
static const struct check_step order[] = {
    FORK_AS(1, 0, TRAINING, SMALL),
    QUEUE(1, 64, 0),
    FORK_AS(2, 0, TRAINING, SMALL), /* answered while it runs */
    WAIT,
    RUN_AS_LONG(2, 0, 1),
    SAME(0, 1, S3),
    FORK(3, 0, TRAINING),
    QUEUE(3, 4, 2),
    FORK(4, 3, TRAINING), /* takes effect after that slice */
    QUEUE(3, 4, 3),
    QUEUE(4, 4, 4),
    WAIT,
    SAME(3, 4, C3),
    FORK(5, 0, TRAINING),
    QUEUE(5, 4, 5),
    REFUSED(RUN_FREED, 5),
    WAIT,
    QUEUE(3, 4, 6),
    FORK(5, 3, TRAINING), /* freed before it is made */
    FREE(3),              /* and its parent, too */
    QUEUE(5, 4, 7),
    FREE(5),
    QUEUE(4, 4, 5),
    WAIT,
    END,
};

static const struct check_step refusals[] = {
    FORK(1, 0, TRAINING),
    RUN(1, 4, 0),
    FORK(2, 1, TRAINING),
    FORK(3, 1, KEPT),
    RUN(1, 4, 1),
    REFUSED(FORK_OF_UNKNOWN, 2),
    REFUSED(FORK_TWICE, 2),
    REFUSED(RUN_UNKNOWN, 2),
    REFUSED(RUN_INIT, 0),
    REFUSED(RUN_KEPT, 3),
    REFUSED(RUN_WINDOWS, 2),
    REFUSED(RUN_EARLIER, 2),
    REFUSED(FREE_UNKNOWN, 2),
    REFUSED(SNAPSHOT_UNKNOWN, 2),
    REFUSED(SNAPSHOT_TRAINING, 2),
    REFUSED(SAVE_UNKNOWN, 2),
    REFUSED(OP_AGAIN, 2),
    RUN(2, 4, 2),
    SAME(1, 2, C3),
    FORK(4, 3, TRAINING),
    RUN(4, 4, 3),
    SAME(1, 3, C3),
    END,
};

static const struct check_step values[] = {
    NEED(RATE), FORK(1, 0, TRAINING), REFUSED(FORK_RATE, 1), RUN(1, 2, 0), END,
};

static const struct check_step batch_values[] = {
    NEED(BATCH), FORK(1, 0, TRAINING), REFUSED(FORK_BATCH, 1), RUN(1, 2, 0),
    END,
};

static const struct check_step strange[] = {
    FORK(1, 0, TRAINING),
    RUN(1, 4, 0),
    RAW(""),
    RAW("{"),
    RAW("\xff\xfe\xff"),
    RAW("[]"),
    RAW("7"),
    RAW("null"),
    RAW("{\"kind\":7}"),
    RAW("{\"op\":4}"),
    RAW("{\"kind\":\"dance\",\"op\":900000}"),
    RAW("{\"kind\":\"fork\",\"op\":\"x\"}"),
    RAW("{\"kind\":\"fork\",\"branch\":{},\"parent\":[],\"type\":1}"),
    RAW("{\"kind\":\"free\"}"),
    RAW("{\"kind\":\"schedule\",\"branch\":1,\"first\":\"a\",\"count\":-1}"),
    RAW("{\"kind\":\"beat\",\"node\":0}"),
    RAW("{\"kind\":\"cut\",\"target\":999999}"),
    FORK(2, 0, TRAINING),
    RUN(2, 4, 1),
    SAME(0, 1, W3),
    END,
};

static const struct check_step members[] = {
    FORK(1, 0, TRAINING),
    RUN(1, 4, 0),
    FORK(2, 0, TRAINING),
    {.kind = STEP_RUN, .slot = 2, .count = 4, .series = 1, .text = "unknown"},
    SAME(0, 1, W2),
    END,
};

static const struct check_step disk[] = {
    FORK(1, 0, TRAINING),
    RUN(1, 6, 0),
    FORK(2, 1, KEPT),
    SNAPSHOT(2, 1),
    RUN(1, 6, 1),
    STOP,
    RESTORE(3, 1), /* the first thing in the new process */
    FORK(5, 0, TRAINING),
    RUN(5, 6, 3),
    SAME(0, 3, S8),
    FORK(4, 3, TRAINING),
    RUN(4, 6, 2),
    SAME(1, 2, D1),
    REFUSED(RESTORE_TWICE, 4),
    SNAPSHOT(3, 2),
    FORK(6, 3, TRAINING),
    RUN(6, 6, 4),
    SAME(1, 4, D1),
    END,
};

static const struct check_step models[] = {
    FORK(1, 0, TRAINING), RUN(1, 4, 0), FORK(2, 1, TRAINING), SAVE(1),
    RUN(1, 4, 1),         RUN(2, 4, 2), SAME(1, 2, S2),       END,
};

static const struct check_step divergence[] = {
    NEED(RATE),
    FORK_AS(1, 0, TRAINING, WILD),
    QUEUE(1, 0, 0),
    WAIT,
    FREE(1),
    FORK(2, 0, TRAINING),
    FORK(3, 0, TRAINING),
    RUN(2, 4, 1),
    RUN(3, 4, 2),
    SAME(1, 2, S2),
    END,
};

/* A slice that fails cannot be asked for; a rate that no number survives makes
 * some programs fail it. The forks were granted before. */
static const struct check_step broken[] = {
    NEED(RATE),
    FORK_AS(1, 0, TRAINING, WILD),
    QUEUE_TO_FAIL(1, 0),
    FORK(2, 1, TRAINING),
    FORK(3, 1, KEPT),
    WAIT,
    FAILED(1),
    REFUSED(RUN_BROKEN, 1),
    REFUSED(SAVE_BROKEN, 1),
    REFUSED(RUN_BROKEN, 2),
    REFUSED(SNAPSHOT_BROKEN, 3),
    FREE(1),
    FREE(2),
    FREE(3),
    FORK(4, 0, TRAINING),
    FORK(5, 0, TRAINING),
    RUN(4, 4, 1),
    RUN(5, 4, 2),
    SAME(1, 2, S2),
    END,
};

/* Full, it goes on as before; a free makes room again. */
static const struct check_step memory[] = {
    FORK(1, 0, TRAINING),
    RUN(1, 4, 0),
    FORK(2, 1, TRAINING),
    RUN(1, 4, 1),
    FILL(0),
    RUN(2, 4, 2),
    SAME(1, 2, C9),
    EMPTY(1),
    FORK(3, 0, TRAINING),
    RUN(3, 4, 3),
    SAME(0, 3, C9),
    EMPTY(0),
    END,
};

static const struct check_step stops[] = {
    FORK_AS(1, 0, TRAINING, SMALL),
    QUEUE(1, 0, 0),
    STOP,
    END,
};

static const struct check_step losses[] = {
    FORK_AS(1, 0, TRAINING, SMALL),
    QUEUE(1, 0, 0),
    LOSE,
    END,
};

/* In the midst of a slice, and while nothing is asked. */
static const struct check_step signals[] = {
    FORK_AS(1, 0, TRAINING, SMALL),
    QUEUE(1, 0, 0),
    BREATHE(300),
    SIGNAL(SIGTERM),
    FORK(1, 0, TRAINING),
    RUN(1, 1, 0),
    SIGNAL(SIGINT),
    END,
};

/* After `signals`: no program runs. */
static const struct check_step unloadable[] = {UNLOADED, END};

const struct trainer_check checks[] = {
    {"start", "says hello, takes the configuration, is ready", RULE_C1, start},
    {"beats", "says something each second", RULE_W5, beats},
    {"forks", "forks equal their parents", RULE_S1, forks},
    {"siblings", "siblings see the same samples", RULE_S3, siblings},
    {"measures", "the loss is that before the update", RULE_S6, measures},
    {"probes", "a probe does not learn", RULE_S4, probes},
    {"probe_rates", "a probe's loss is not a matter of its rate", RULE_S4,
     probe_rates},
    {"sums", "the loss is a sum over samples", RULE_S6, sums},
    {"penalties", "the loss is without weight decay", RULE_S6, penalties},
    {"batches", "siblings see the same samples in other batches", RULE_S3,
     batches},
    {"interleaving", "what else runs changes nothing", RULE_S2, interleaving},
    {"tests", "testing covers the validation set and changes nothing", RULE_L6,
     tests},
    {"epochs", "an epoch is all samples, once", RULE_L5, epochs},
    {"cuts", "a cut slice is as many clocks", RULE_C6, cuts},
    {"order", "requests are carried out in order", RULE_C3, order},
    {"refusals", "refusals change nothing", RULE_C3, refusals},
    {"values", "a learning rate that cannot be is refused", RULE_S7, values},
    {"batch_values", "a batch size that cannot be is refused", RULE_S7,
     batch_values},
    {"strange", "strange messages are survived", RULE_W3, strange},
    {"members", "members that nobody knows are ignored", RULE_W2, members},
    {"divergence", "a sum that is not finite ends a slice", RULE_C7,
     divergence},
    {"broken", "a branch whose slice failed is of no use", RULE_C8, broken},
    {"memory", "memory that is out is a refusal", RULE_C9, memory},
    {"disk", "snapshots are restored bit for bit in a new process", RULE_D1,
     disk},
    {"models", "a model is saved", RULE_D2, models},
    {"stop", "told to stop it ends in time, with code 0", RULE_E1, stops},
    {"loss", "without a tuner it ends in time, with code 69", RULE_E2, losses},
    {"signals", "it ends by SIGTERM, and by SIGINT", RULE_E4, signals},
    {"unloadable", "without memory it says so and ends with code 1", RULE_E3,
     unloadable},
};
const int checks_len = sizeof(checks) / sizeof(*checks);

const struct refusal_info *refusal_info(enum check_refusal refusal)
{
    static const struct refusal_info rows[REFUSAL_COUNT] = {
#define REFUSAL_ROW(name, c, r, t) {ERR_##c, RULE_##r, t},
        REFUSAL_LIST(REFUSAL_ROW)
#undef REFUSAL_ROW
    };

    assert((unsigned)refusal < REFUSAL_COUNT);
    return &rows[refusal];
}
