/* A training system that does not exist: it answers the control protocol as a
 * node does, in virtual time, with losses from a formula.
 *
 * sim_run drives the real tuner and the real searchers through a whole run and
 * checks the invariants below after every step; a violation prints the seed and
 * aborts. Everything is a function of family and seed.
 *
 * What the loss does and what a clock takes: tests/sim/physics.h. What the
 * choice of samples adds to a window is the same for siblings.
 */
#ifndef TESTS_SIM_SIM_H
#define TESTS_SIM_SIM_H

#include "tests/sim/disk.h"
#include "tests/sim/line.h"
#include "tests/sim/scarce.h"
#include "tuner/board/earlier.h"
#include "tuner/core/tuner.h"
#include "tuner/history/history.h"

#include <stdbool.h>
#include <stdint.h>

enum { SIM_COMMANDS_MAX = 6 };

struct sim_family {
    const char *name;
    const char *space; /* JSON of "tunables" */
    const struct searcher_ops *searcher;
    const char *searcher_settings; /* JSON, or NULL */
    uint64_t samples, validation, parts;
    unsigned workers;

    /* Physics (tests/sim/physics.h). */
    double condition; /* of the curvatures; 0: the formula, not the quadratic */
    double test_noise; /* of a validation, relative; 0: 1e-4 */
    bool hits;     /* the metric is an accuracy: of physics_hits, the mean of as
                    * many draws as there are validation samples */
    double noise;  /* of one sample, in units of the loss */
    double jitter; /* of a branch's own, per update, relative to its noise
                    * ball */
    double ball;   /* noise ball at the best rate, relative to the start */
    double rate;   /* e-folds an epoch at the best rate */
    double slow;   /* part of the loss that favours larger rates; 0: none */
    double cliff;  /* times the best rate; 0: none */
    double waiting; /* e-folds that pass before the loss moves at all */
    double moved;   /* after `moved_after` epochs the best rate is this times
                     * the first; 0: it stays; quadratic: over 1 the noise is
                     * this times the first */
    unsigned moved_after;
    bool converged; /* nothing to gain from the start */
    bool oracle;    /* judge re-tunes by a grid, too */
    bool repeats;   /* noise of a branch's own and of tests is drawn by setting
                     * and position: who runs it again sees the same */

    /* Costs. */
    double clock_s, sample_s; /* a clock takes clock_s + samples * sample_s */
    double cost_noise;        /* relative, per clock */
    double stall;             /* probability a clock; found by the node */
    double hiccup; /* probability a clock of five times its time, not found */
    double switch_s, copy_s;
    unsigned test_clocks; /* that a validation takes; 0: one */
    double answer_s;      /* until a slice begins that comes when none is out */
    double snapshot_s;    /* between snapshots; 0: 20 */
    bool trials_anew;     /* trials that wait are in none of them */
    double disk_s; /* that writing one takes, while slices run; killed before it
                    * is over it is not there */
    unsigned branches_max; /* live; further forks fail; 0: as many as wanted */

    /* Members of the run. */
    const char *strategy;          /* a registered name; NULL: mltuner */
    const char *strategy_settings; /* JSON, or NULL */
    uint32_t max_epochs, plateau_epochs, max_trials;
    uint64_t plateau_samples;
    bool plateau_hits;
    uint64_t trial_clocks;
    bool run_doomed; /* trials that cannot win are found, but not stopped */
    double max_time_s, target_metric; /* 0: none */
    const char *initial;              /* JSON, or NULL */
    const struct earlier *earlier;    /* what earlier runs found, or NULL */
    struct {
        double at_s; /* 0: never */
        enum command_id command;
        struct command_limits limits; /* of LIMITS */
        struct command_fork fork;     /* of FORK, PROMOTE, FREE; its branch: */
        enum sim_target {
            SIM_GIVEN,
            SIM_TIP,    /* what is trained, else 0 */
            SIM_NEWEST, /* the live branch that was created last */
            SIM_USER    /* the same of those forked by hand; else none */
        } of;
        const char *suggest; /* of SUGGEST: JSON array of settings, or NULL */
        bool exhausted;      /* the same */
    } command[SIM_COMMANDS_MAX]; /* in order */
    /* Somebody outside who suggests learning rates, one after the other, as
     * apps/plugins/rest_searcher.py does. */
    struct {
        unsigned trials; /* of each search, then none; 0: nobody is there */
        double every_s;  /* looks so often */
        double gone_s;   /* never comes back from then on; 0: stays */
        double rate;     /* suggests always this one; 0: ever others */
    } outside;
    double lost_s;   /* when the node is lost; 0: never */
    double retune_s; /* a user asks for a re-tune so often; 0: never */
    double adds_s;   /* adds to a row of some branch so often; 0: never */

    /* Faults. */
    double late_limit;     /* rates above this times the best diverge ... */
    unsigned late_after;   /* ... once the lineage has made so many epochs */
    unsigned app_fails_at; /* number of the training slice that fails, from 1 */
    unsigned app_fails_for;            /* that many do; 0: one */
    enum err app_fails_with;           /* ERR_OK: the application's own error */
    enum err refused_with;             /* forks are; ERR_OK: ERR_LIMIT */
    unsigned refused_from, refused_to; /* forks of these numbers are, from 1 */
    double keeps_refused; /* probability that a kept fork is refused */
    unsigned empty_after; /* clocks, then none has a sample; 0: never */
    unsigned save_fails;  /* that many writes of the model fail */
    bool snapshot_fails;
    double snapshots_until_s; /* those after it fail; 0: none does */
    bool lies;                /* reports of clocks that nobody asked for */
    unsigned torture;         /* in one of so many steps an allocation fails */
};

/* The quality of one search's winner. */
struct sim_search {
    bool retune, won;
    unsigned moved; /* the optimum has: 2, before the parent; 1, within an epoch
                     * after it; 0: no */
    double seconds; /* virtual */
    unsigned doomed;  /* trials found to have no chance */
    bool doomed_won;  /* the winner was one of them */
    double waiting_s; /* as the tuner measured it */
    unsigned trials;
    uint32_t winner;
    double winner_value; /* learning rate */
    double grid_value;   /* of the best of the grid */
    double at_trial;     /* its true speed over the trial's time, relative to
                          * the best of those tried */
    double at_three;     /* the same over three epochs */
    double at_oracle;    /* over three epochs, relative to the best of a fine
                          * grid; first re-tunes after a move, of families with
                          * `oracle` */
};

enum { SIM_SEARCHES_MAX = 256 };

struct sim_result {
    struct tuner_finish finish;
    bool hung;
    uint64_t steps, clocks;
    unsigned faults, failed_steps;     /* allocations, and steps they failed */
    unsigned snapshots, removed;       /* written, and told to be removed */
    unsigned commanded;                /* commands given */
    unsigned answered, refused;        /* with ERR_OK; with another */
    enum err answer[SIM_COMMANDS_MAX]; /* to each; ERR_BUSY: none */
    unsigned added;                    /* increments that were answered */
    unsigned suggested, suggested_again; /* by those outside: accepted, and
                                          * answered as accepted before */
    uint32_t last_suggestion;            /* number that was answered */
    uint64_t actions;
    unsigned crashed, damaged; /* snapshots that were read in vain */
    unsigned forks_refused;
    double seconds, tuning_s; /* virtual */
    double trial_s;           /* of all trials, as they were judged */
    uint32_t epochs, trials;
    double loss;      /* true, of the saved model; NAN without one */
    double best_rate; /* of the physics */
    struct sim_search search[SIM_SEARCHES_MAX];
    unsigned searches;
    uint64_t digest; /* of settings and slices, in order */
    /* Of a simulated disk. */
    unsigned kills, power_cuts, nodes_lost, silences;
    double silent_s;      /* all silences together */
    unsigned gave_up;     /* the tuner could not write its journal, or begin */
    unsigned resumes;     /* by whoever runs it */
    unsigned failed_ends; /* so often it had failed, then */
    unsigned unwritten;   /* snapshots and models that failed */
    struct sim_disk_stats disk;
    /* Of a line with faults (tests/sim/line.h). */
    uint64_t messages;
    unsigned hits, processes;
    unsigned hit[LINE_FAULTS]; /* of each kind */
    unsigned protests;   /* of a process that made no sense of what it got */
    int64_t allocations; /* that scarce.h counted */
    bool ran_out;
};

/* @trace, if not NULL: every action as a line of text is appended (mem_realloc;
 * the caller's), with @numbers epochs with time and metric. @replay: also
 * checks that the records, through JSON, give the live state. */
struct sim_options {
    bool replay, numbers;
    char **trace;
    /* Tuner and training system are killed after so many actions each since
     * they began, in turn; a new tuner goes on from what is journaled. */
    const uint64_t *crash; /* [crashes] */
    size_t crashes;
    double crash_s;      /* killed at that time, once; 0: not */
    bool restarts;       /* it goes on by itself: no user resumes it */
    unsigned failed;     /* so often a user resumes it though it had failed */
    double damage;       /* probability that a snapshot cannot be read */
    bool best_damage;    /* that of a best model can never be read */
    bool from_beginning; /* the tuner's option of that name */
    double mangle;       /* that a member of a snapshot's record is another */
    json_t **journal;    /* the records, committed, in order; the caller's */
    const struct sim_storage *storage; /* NULL: nothing is written */
    const struct line_plan *line;      /* what befalls messages; NULL: nothing,
                                        * and nobody looks. With a storage, too:
                                        * all at once */
};

/* Journal, snapshots and model on a simulated disk (tests/sim/durable.h), with
 * what befalls it, the processes and the line between them. Times are drawn
 * from exponential distributions, in virtual seconds; 0: never. Whoever runs
 * the program resumes it whenever it has ended without being finished. */
struct sim_storage {
    double kill_s;    /* tuner and node are killed */
    double power_s;   /* the machine loses power */
    double node_s;    /* the node is lost; the tuner starts another */
    double silence_s; /* the line is dead for a while: messages are late */
    struct sim_disk_faults faults;
    double calm_s; /* from then on nothing happens any more; 0: never */
    const struct scarce *scarce; /* NULL: memory never runs out */
    double killed_at_s; /* tuner and node are killed then, once; 0: not */
};

/* Whether a test runs fewer seeds and moments than it could: under the address
 * sanitizer, ten times as slow, which looks at memory and not at statistics.
 * The release tier runs them all. SIM_FEWER in the environment asks for it in
 * any build. */
bool sim_fewer(void);

/* Seeds of a family: @few, or a third of them where sim_fewer, or as many as
 * SIM_SEEDS in the environment says. At least 1. */
unsigned sim_seeds(unsigned few);

/* The physics with a seed. */
double sim_best_rate(uint64_t seed);

/* Whether @path is the folder of a trial that @w counts on. */
bool sim_names_trial(const struct record_snapshot_written *w, const char *path);

void sim_run(const struct sim_family *family, uint64_t seed,
             const struct sim_options *options, struct sim_result *out);

#endif
