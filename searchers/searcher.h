/* Searchers: ask for a setting to try, tell how fast it converged.
 *
 * A searcher maximises convergence speed over a space. What it proposes is a
 * function of its space, settings and seed, of the observations told, and of
 * the trials running: asking changes nothing. So asking twice gives the same
 * answer, an answer may be thrown away, and a searcher is rebuilt after a crash
 * by telling the same observations again.
 *
 *   struct searcher *s;
 *   searcher_open(ops, &space, settings, seed, &s, &fault);
 *   searcher_ask(s, running, n, NULL, &setting, &fault)   may be ERR_AGAIN
 *   searcher_tell(s, &observation, &fault);
 *   searcher_close(s);
 *
 * `struct searcher` is the same for every implementation: it keeps the
 * observations, checks proposals, and is what callers use; `struct
 * searcher_ops` is what implementations provide.
 *
 * One owner thread. Pure: no clock, file or hidden randomness; how long an
 * answer took is for the caller to measure around searcher_ask.
 */
#ifndef SEARCHERS_SEARCHER_H
#define SEARCHERS_SEARCHER_H

#include "searchers/space/space.h"

#include <jansson.h>

enum { SEARCHER_OBSERVATIONS_MAX = 65536 };

enum outcome {
    OUTCOME_SPEED,    /* ran its time; `speed` is its result */
    OUTCOME_DIVERGED, /* worse than any speed; no number */
    OUTCOME_FAILED,   /* could not be run (memory, an app error): says nothing
                       * about speed, but is not to be proposed again */
    OUTCOME_STOPPED,  /* ended early; `speed` is what it had by `resource` */
    OUTCOME_COUNT
};

/* "speed", "diverged", "failed", "stopped"; static storage. */
const char *outcome_name(enum outcome outcome);

struct observation {
    uint64_t trial; /* number within the search; grows with each trial begun */
    struct setting setting;
    enum outcome outcome;
    double speed; /* >= 0, of one unit in a search; finite where it counts, else
                     0 */
    double resource; /* what the observation rests on, in the search's own unit
                      * (seconds, clocks, epochs); >= 0 */
};

/* A query: all that a searcher sees when it is asked; borrowed for the call. */
struct searcher_query {
    size_t told_len;
    const struct observation *told; /* by trial number, one a trial */
    size_t running_len;
    const struct setting *running; /* begun and not told yet */
    const struct setting
        *incumbent; /* what the job trains with now; NULL: none.
                     * It competes anyway: not to be proposed */
};

/* An implementation. `state` is what open made; it holds nothing that told
 * observations do not give back. */
struct searcher_ops {
    const char *name;    /* as in the configuration, [a-z][a-z0-9_]* */
    const char *summary; /* one line for `mltune searchers` */
    /* JSON schema of its settings (base/json/schema.h); never NULL. Settings
     * are checked and completed with it before open is called. */
    const char *settings;

    /* Prepares for searching @space (borrowed until close) with @settings
     * (borrowed for the call, checked and complete). May be slow. Errors:
     * ERR_INVAL where it cannot search this space (in @f: why, and what to
     * do), ERR_NOMEM; nothing is left behind. */
    enum err (*open)(const struct space *space, const json_t *settings,
                     uint64_t seed, void **state, struct fault *f);

    /* Accepts what open made; must not fail. */
    void (*close)(void *state);

    /* Writes the next setting to try to @out, canonical. Duties: a setting that
     * was told, runs, or is the incumbent is not proposed again in a space
     * where that can be avoided; every tunable stays in its range; the same
     * query gives the same answer. Must not block.
     * ERR_AGAIN: not now, ask again after the next tell or event.
     * ERR_EXHAUSTED: nothing left to try, whatever is told. ERR_NOMEM and
     * others: nothing changed, may be asked again. */
    enum err (*ask)(void *state, const struct searcher_query *q,
                    struct setting *out, struct fault *f);

    /* Optional (NULL): called with each new observation, after it is recorded;
     * a second one of the same trial (more resource) replaces the first. For
     * implementations that keep a model or pass it on to a process. Must not
     * block. Errors: ERR_NOMEM, ERR_IO; the observation is then taken back. */
    enum err (*tell)(void *state, const struct observation *o, struct fault *f);

    /* Optional (NULL): what goes on in its place, with its own defaults, once
     * an ask or a tell has failed with another error than those above, or a
     * proposal lay outside the space. For what others wrote. */
    const struct searcher_ops *(*fallback)(const void *state);

    /* Optional (NULL): settings come from outside, its ask never has any. How
     * long a search waits for them, seconds, >= 0. */
    double (*patience_s)(const void *state);
};

struct searcher;

/* @space is copied; @settings is borrowed (NULL or {}: defaults; checked
 * against ops->settings, so that callers need not). On success the caller owns
 * *@out. Errors: ERR_INVAL with the fault's place in @f; ERR_NOMEM. */
enum err searcher_open(const struct searcher_ops *ops,
                       const struct space *space, const json_t *settings,
                       uint64_t seed, struct searcher **out, struct fault *f);

/* Accepts NULL. */
void searcher_close(struct searcher *s);

const struct searcher_ops *searcher_ops_of(const struct searcher *s);
const struct space *searcher_space(const struct searcher *s);

/* Why the fallback took over, in one sentence with both names; NULL: it did
 * not. From then on searcher_ops_of is the fallback's, which knows all that was
 * told. Borrowed from @s. */
const char *searcher_fallen(const struct searcher *s);

/* The time for which a search waits for settings from outside, seconds; NAN:
 * the searcher has its own. */
double searcher_patience_s(const struct searcher *s);

/* Next setting to try while @running[n] run; @incumbent may be NULL.
 * ERR_OK, ERR_AGAIN and ERR_EXHAUSTED as above; ERR_PROTO for a proposal
 * outside the space (@f says which tunable). Where the searcher has a fallback,
 * that answers instead of such an error. */
enum err searcher_ask(struct searcher *s, const struct setting running[],
                      size_t n, const struct setting *incumbent,
                      struct setting *out, struct fault *f);

/* Records @o (copied). A trial's second observation replaces its first.
 * Non-finite or negative speeds are ERR_INVAL (divergence is an outcome), so is
 * another setting for the same trial. Settings need not have come from ask.
 * Errors: ERR_INVAL, ERR_LIMIT, ERR_NOMEM; nothing changed. */
enum err searcher_tell(struct searcher *s, const struct observation *o,
                       struct fault *f);

/* Observations told, by trial number; borrowed until the next tell. */
const struct observation *searcher_told(const struct searcher *s, size_t *n);

/* ---- for implementations --------------------------------------------------*/

/* @settings (NULL: none) checked against the schema of @ops, with every default
 * filled in; owned by the caller. Errors: ERR_INVAL, ERR_NOMEM. */
enum err searcher_settings(const struct searcher_ops *ops, const json_t *given,
                           json_t **out, struct fault *f);

/* Whether @x was told, runs, or is the incumbent: not to be proposed. O(n). */
bool searcher_seen(const struct space *space, const struct searcher_query *q,
                   const struct setting *x);

#endif
