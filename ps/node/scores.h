/* Scores of what a model predicts, by what is true: the metrics of
 * base/metrics.h, for `mltune eval` and for validation, and a confusion matrix.
 * One owner thread; pure.
 *
 *   classes  accuracy, balanced_accuracy (mean recall of the classes that
 *            occur), macro_f1 (mean F1 of the classes that occur or are
 *            predicted), log_loss (a probability counts as at least
 *            DBL_EPSILON), auc (two classes: of the second one)
 *   numbers  rmse, mae, r2
 *
 * Each is what scikit-learn 1.2 gives for the same rows, but for what has no
 * value (no sample, one class for auc, one value for r2): NAN.
 */
#ifndef PS_SCORES_H
#define PS_SCORES_H

#include "base/err.h"
#include "base/metrics.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SCORES_CLASSES_MAX = 4096 };

struct scores_pair; /* probability of the second class, and whether it is it */

struct scores {
    unsigned classes;         /* 0: numbers */
    uint64_t count;           /* samples so far */
    uint64_t room;            /* samples at most */
    uint64_t *matrix;         /* [classes][classes] true, predicted: owned */
    double log_sum;           /* of -log of the true class's probability */
    struct scores_pair *pair; /* [room], of two classes: owned */
    double absolute, squares; /* sums of |error| and error^2 */
    double mean, spread;      /* of the truth; its sum of squared deviations */
};

struct score {
    const struct metric *metric; /* static */
    double value;
};

/* For at most @samples of @classes (0: numbers). Errors: ERR_LIMIT (more than
 * SCORES_CLASSES_MAX), ERR_NOMEM; nothing to release then. */
enum err scores_init(struct scores *s, unsigned classes, uint64_t samples);
void scores_deinit(struct scores *s);

/* Forgets the samples. */
void scores_reset(struct scores *s);

/* Whether a sample can be added: with classes, that the predicted and the true
 * one are numbers of classes, and that each probability is a number. An
 * application's own code says them. */
bool scores_fit(const struct scores *s, const double *row, double truth);

/* A sample that fits: @row[1 + classes], the predicted class and the
 * probabilities, or the predicted number; @truth the class's number, below
 * `classes`, or the number. */
void scores_add(struct scores *s, const double *row, double truth);

/* Adds the samples of @from, of as many classes; there is room for them. */
void scores_join(struct scores *s, const struct scores *from);

/* The metrics of base/metrics.h that there are, in its order, into @out; their
 * number. Cost O(n log n) for auc, whose pairs are sorted in place. */
size_t scores_metrics(struct scores *s, struct score out[METRICS_MAX]);

/* The value of @m, which a task of these classes has. */
double scores_value(struct scores *s, const struct metric *m);

/* Samples of class @truth of which @predicted was said. */
uint64_t scores_of(const struct scores *s, unsigned truth, unsigned predicted);

#endif
