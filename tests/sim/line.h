/* The line between a simulated tuner and its simulated training system, which
 * loses messages, refuses, delays and repeats them, and makes other ones of
 * them; and the process at its other end, which dies or hangs.
 *
 * What is missed, and what then, the keeper of the real control loop decides
 * (tuner/shell/keeper.h); what the loop and its crew do around it is in sim.c,
 * as short as it can be said. Messages are garbled as text, through the real
 * codec: what it refuses costs what it costs a real run.
 */
#ifndef TESTS_SIM_LINE_H
#define TESTS_SIM_LINE_H

#include "base/proto/proto.h"
#include "base/rng.h"
#include "tuner/shell/keeper.h"

enum line_fault {
    LINE_WHOLE,
    LINE_LOST,    /* the message never comes */
    LINE_REFUSED, /* what was asked fails; what was told is `failed` */
    LINE_LATE,    /* it comes, after seconds or hours in which nothing does */
    LINE_TWICE,
    LINE_STRANGE, /* other bytes, or another member */
    LINE_DEAD,    /* the process is killed by then */
    LINE_HUNG,    /* it says and does nothing any more, and lives */
    LINE_FAULTS
};

const char *line_fault_name(enum line_fault fault);

/* What befalls a run. */
struct line_plan {
    double rate;          /* probability that a message is hit */
    unsigned most;        /* so many are, at most */
    uint64_t at;          /* the message of this number, from 1, is hit ... */
    enum line_fault what; /* ... by this; WHOLE: none */
    double load_s;        /* until the training system is ready */
    bool program;         /* it is a user's program: its faults end the run */
    double deadline_s;    /* later than this nothing goes on: it hangs */
};

struct line {
    const struct line_plan *plan; /* NULL: there is no line */
    struct rng rng;
    struct keeper keeper;
    uint64_t messages;         /* so far, both ways */
    unsigned hit[LINE_FAULTS]; /* of these */
    unsigned protests;         /* of a process that is confused */
    bool alive, beats;         /* the process; its sign of life */
    bool confused;             /* what it is told does not fit together */
    enum { LINE_PROTESTS, LINE_IS_DEAF, LINE_ENDS } temper; /* if so */
    double hello_at_s, ready_at_s; /* INFINITY: not to come */
    double stalled_until_s;        /* nothing goes through */
    double recorded_s;             /* when a record was last made */
    bool calm;                     /* nothing befalls messages any more */
    bool deaf;                     /* a grant was broken: what it says now
                                    * does not count */
    op_id refused;                 /* this fails */
    enum err code;                 /* so */
    struct msg held; /* of a program that cannot load; BEAT: none is */
    bool blamed;     /* the program is at fault: nothing it says counts */
    bool restarts;   /* another process is to be started now */
    unsigned processes;
};

void line_init(struct line *l, const struct line_plan *plan, uint64_t seed,
               double now_s);

/* Another run of the program: its keeper knows nothing of the ones before. */
void line_resume(struct line *l, double now_s);

/* Another process begins. */
void line_process(struct line *l, double now_s);

/* A message sets out: what becomes of it. */
enum line_fault line_draw(struct line *l);

/* How long one is late. */
double line_late_s(struct line *l);

/* Why something is refused. */
enum err line_code(struct line *l);

/* The process is lost, or hangs. */
void line_die(struct line *l, bool by_itself, double now_s);
void line_hang(struct line *l);

/* What the process makes of messages does not fit any more. */
void line_confuse(struct line *l, double now_s);

/* @m with other bytes or another member, in @out (the caller releases it).
 * False: that is no message; the node is lost, or its program blamed, if it was
 * one that is waited for, as by the crew. */
bool line_garble(struct line *l, const struct msg *m, struct msg *out,
                 double now_s);

/* Faults so far, of all kinds. */
unsigned line_hits(const struct line *l);

#endif
