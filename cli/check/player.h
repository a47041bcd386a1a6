/* The player: a tuner that carries out scripts and judges what comes back.
 *
 * Events with their time go in, what is to be done comes out in order. One
 * program is started for as many checks as it survives; after a failed check
 * another is. Pure; one owner thread.
 *
 *   player_start, _hear, _take, _wrong, _looked, _ended, _tick  ──► player
 *   player ──► player_next: start, send, close, look, kill, over
 */
#ifndef CLI_CHECK_PLAYER_H
#define CLI_CHECK_PLAYER_H

#include "base/proto/proto.h"
#include "cli/check/script.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct player;

struct player_options {
    json_t *config;     /* borrowed: sent as `config` */
    const char *folder; /* borrowed: absolute; where the program works */
    const char *work;   /* borrowed: absolute; snapshots go below */
    const char *only; /* borrowed: checks to make, by names with commas between;
                       * NULL: all */
    const char *skip; /* borrowed: those not to make; NULL: none */
    const struct trainer_check *checks; /* [checks_len] borrowed; NULL: those of
                                         * script.h */
    size_t checks_len;
    uint32_t nodes;
    bool first;    /* ends with the first failure */
    double step_s; /* a step's deadline; of loading ten times that */
};

enum player_act_kind {
    ACT_START,  /* the processes, each with a connection of its own */
    ACT_SEND,   /* message, to all */
    ACT_RAW,    /* text, to all */
    ACT_CLOSE,  /* the socket: the tuner is gone */
    ACT_LOOK,   /* what is in the folder path: player_looked */
    ACT_SIGNAL, /* number, to the processes */
    ACT_KILL,   /* the processes: no player_ended for them */
    ACT_OVER    /* all checks are made */
};

struct player_act {
    enum player_act_kind kind;
    struct msg message; /* SEND: transferred */
    const char *text;   /* RAW, SEND: with it another member; static */
    int number;         /* SIGNAL */
    char path[PROTO_PATH_MAX];
};

enum check_outcome { OUTCOME_PASSED, OUTCOME_FAILED, OUTCOME_NOT_APPLICABLE };

struct check_result {
    const struct trainer_check *check;
    enum check_outcome outcome;
    enum rule rule;                /* FAILED: that it breaks */
    char expected[256], came[512]; /* NOT_APPLICABLE: why, in came */
    bool fatal;                    /* nothing else could be checked after it */
};

/* The first name in @o->only or @o->skip that no check has, and its bytes;
 * NULL: all are known. */
const char *player_unknown(const struct player_options *o, size_t *len);

/* Errors: ERR_NOMEM; ERR_NOENT no check has that name. */
enum err player_new(const struct player_options *o, struct player **out);
void player_free(struct player *p);

/* The first event. */
void player_start(struct player *p, double now_s);

/* Node @node has said something, whatever it was. */
void player_hear(struct player *p, uint32_t node, double now_s);

/* A message of the program, of all processes as one; its members are
 * transferred. @pid_known: a hello's process is one that was started. */
void player_take(struct player *p, struct msg *m, bool pid_known, double now_s);

/* Something that is no message, or processes that disagree (@rule M1). */
void player_wrong(struct player *p, enum rule rule, const char *what,
                  double now_s);

/* Files that were looked for, and their bytes; @missing: one that @done named
 * and that is not there, or NULL. */
void player_looked(struct player *p, uint64_t files, uint64_t bytes,
                   const char *missing, double now_s);

/* All processes have ended: @code as subprocess has it, @verdict for people. */
void player_ended(struct player *p, int code, const char *verdict,
                  double now_s);

/* Time has passed. */
void player_tick(struct player *p, double now_s);

/* When player_tick is due, at the latest. */
double player_wake_at(const struct player *p);

/* The next thing to do; false: none. */
bool player_next(struct player *p, struct player_act *out);

/* Data of the `done` that the last ACT_LOOK is about; borrowed, or NULL. */
const json_t *player_looks_for(const struct player *p);

/* Results, [*n], in order. */
const struct check_result *player_results(const struct player *p, size_t *n);
bool player_passed(const struct player *p);

#endif
