/* Proposals: which setting is tried next, and what the searcher hears.
 *
 * The conversation of a search or a contest with its searcher, and with whoever
 * suggests settings from outside (tuner/core/suggest.h): those are tried
 * first. One step of the owner is
 *
 *   if (!proposals_waits(p)) {
 *       err = proposals_suggested(p) ? proposals_take(p)     an outsider's
 *                                    : proposals_ask(p, ...) the searcher's
 *       proposals_settle(p, err, &fault);
 *   }
 *
 * Inside tuner/ only; pure.
 */
#ifndef TUNER_PROPOSALS_H
#define TUNER_PROPOSALS_H

#include "tuner/search/trials.h"

enum { PROPOSALS_BARRED_MAX = 16 };

struct proposals {
    struct trials *trials;     /* borrowed */
    struct searcher *searcher; /* owned; NULL: not open */
    bool exhausted;            /* the searcher has no other setting */
    struct setting barred[PROPOSALS_BARRED_MAX]; /* are not tried */
    size_t barred_len;
    uint32_t barred_told; /* proposals that it was told are barred */

    struct setting next;      /* to be tried, not begun yet */
    json_t *next_json;        /* owned; NULL: there is none */
    uint32_t next_suggestion; /* that it is; 0: none */

    double decision_s; /* longest of the searcher's answers */
    bool asked;        /* in this step */
    bool answered;     /* one has come, the searcher has started */
    bool asking;       /* its answer is awaited since asking_s */
    double asking_s;
};

void proposals_init(struct proposals *p, struct trials *t);

/* Opens the searcher of the run's options where none is open. Errors: those of
 * searcher_open. */
enum err proposals_open(struct proposals *p, uint64_t seed, struct fault *f);

/* Closes the searcher: another may be opened, to begin anew. */
void proposals_close(struct proposals *p);

/* Gives the memory back. Accepts a zeroed one. */
void proposals_deinit(struct proposals *p);

/* Once an event: takes the time of the step before, if the searcher was asked
 * in it. */
void proposals_measure(struct proposals *p);

/* Whether the run's settings come from outside only. */
bool proposals_outside(const struct proposals *p);

/* Whether nothing follows of the searcher's own; or, where settings come from
 * outside only, of theirs. */
bool proposals_exhausted(const struct proposals *p);

/* Whether there may be a next setting: one is suggested, or not exhausted. */
bool proposals_possible(struct proposals *p);

/* Whether a suggestion waits that can be tried; settles those that cannot. */
bool proposals_suggested(struct proposals *p);

/* Takes the oldest suggestion as the next setting; there is one. */
void proposals_take(struct proposals *p);

/* The searcher's next setting into `next`. It hears first of the trials that
 * are news; barred settings are told as diverged. @incumbent may be NULL.
 * @runs: a trial is under way, so that those outside are not waited for yet.
 * Errors: those of searcher_ask and searcher_tell; where settings come from
 * outside only, ERR_AGAIN (wait) or ERR_EXHAUSTED. */
enum err proposals_ask(struct proposals *p, const struct setting *incumbent,
                       bool runs, struct fault *f);

/* After a try to fill `next`: ERR_OK makes its text form. A searcher that fails
 * has nothing more to say; one that has no memory, or says not now, is asked
 * again. True: `next` is there. */
bool proposals_settle(struct proposals *p, enum err err, const struct fault *f);

/* A trial of `next` has begun; its text form is the trial's. */
void proposals_begun(struct proposals *p);

bool proposals_barred(const struct proposals *p, const struct setting *x);

#endif
