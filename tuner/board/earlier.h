/* What earlier runs of the same application and data found, for a first search
 * to begin from (`tuner.warm_start`).
 *
 * Who starts a run looks for such runs (cli/run/warm.h) and writes what it
 * takes from each into the configuration, so that a run that is resumed, or
 * repeated, begins from the same, whatever has become of the state folder:
 *
 *   {"runs": [{"run": "id", "samples": 6000, "validation_samples": 600,
 *              "trials": [{"setting": {...}, "share": 0.8,
 *                          "outcome": "speed", "best": true}]}],
 *    "skipped": [{"run": "id", "reason": "..."}]}
 *
 * A share is a trial's speed by the fastest of its search, 0 .. 1: speeds of
 * two runs say little beside each other, since machines and loads differ. The
 * search that begins from them finds out what one is in its own unit
 * (tuner/search/primed.h). Pure.
 */
#ifndef TUNER_EARLIER_H
#define TUNER_EARLIER_H

#include "searchers/searcher.h"
#include "tuner/history/record.h"

enum {
    EARLIER_RUNS_MAX = 3,     /* in a configuration, newest first */
    EARLIER_TRIALS_MAX = 64,  /* of all runs together */
    EARLIER_OF_RUN_MAX = 32,  /* of one: the winner and the fastest, */
    EARLIER_DIVERGED_MAX = 8, /* and of those that diverged the first */
    EARLIER_BEST_MAX = 3,     /* settings that are tried first */
    EARLIER_SKIPPED_MAX = 4   /* runs that are told of */
};

struct earlier_run {
    char run[RECORD_NAME_MAX];
    uint64_t samples, validation; /* that it had: other data than ours, where
                                   * they differ */
};

struct earlier_trial {
    struct setting setting; /* canonical in its space */
    enum outcome outcome;
    double share; /* of the fastest's speed, 0 .. 1; 0 without a speed */
    uint32_t run; /* its index */
    bool best;    /* it won its search, hardly as another one before did */
};

struct earlier {
    size_t runs, len, skips;
    struct earlier_run run[EARLIER_RUNS_MAX];       /* [runs], newest first */
    struct earlier_trial trial[EARLIER_TRIALS_MAX]; /* [len], distinct */
    struct {
        char run[RECORD_NAME_MAX], reason[RECORD_NAME_MAX];
    } skipped[EARLIER_SKIPPED_MAX]; /* [skips]: that could not be used */
};

struct history;

/* What @h knows for later runs, as an element of `runs` above, into @out: new,
 * and the caller's. Trials that failed are not in it: why may be gone. Errors:
 * ERR_NOENT nothing, *@why says why in a few words (static storage); ERR_NOMEM.
 * Cost O(trials). */
enum err earlier_of(const struct history *h, json_t **out, const char **why);

/* @json, as above, in @space. Trials whose settings are not of @space are left
 * out, and runs of which none is left are among the skipped. Only on success:
 * @out. Errors: ERR_INVAL @json is not of this form (@f: what was expected);
 * ERR_NOMEM. */
enum err earlier_from_json(const struct space *space, const json_t *json,
                           struct earlier *out, struct fault *f);

/* Whether the settings of a run with the tunables @theirs, an object by name,
 * have a value for each of @space's, and no other. */
bool earlier_same_tunables(const struct space *space, const json_t *theirs);

#endif
