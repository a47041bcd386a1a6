/* Metrics by task: what a model's predictions are measured by, and which way is
 * better. The one list of their names: for a configuration's "metric", for
 * validation (ps/node/host_metric_io.c) and for `mltune eval`
 * (ps/node/scores.h, which computes them). Constants; pure.
 */
#ifndef BASE_METRICS_H
#define BASE_METRICS_H

#include <stdbool.h>
#include <stddef.h>

enum metric_task { METRICS_OF_CLASSES, METRICS_OF_NUMBERS, METRIC_TASKS };

enum { METRICS_MAX = 5, METRICS_TEXT_MAX = 128 };

struct metric {
    const char *name;
    bool higher_better;
    bool share;        /* the mean of 0 or 1 a sample */
    bool of_two_alone; /* of two classes, not of more */
};

/* The metrics of a task: [*n], *n <= METRICS_MAX; static. */
const struct metric *metrics_of(enum metric_task task, size_t *n);

/* NULL: the task has none of that name. */
const struct metric *metrics_find(enum metric_task task, const char *name);

/* Whether a task of @classes (0: numbers) has @m. */
bool metrics_has(const struct metric *m, unsigned classes);

/* "accuracy, balanced_accuracy, ...": the names of the metrics of a task of
 * @classes (0: numbers). Returns @out. */
const char *metrics_text(unsigned classes, char out[METRICS_TEXT_MAX]);

/* "higher is better" or "lower is better". */
const char *metrics_direction(bool higher_better);

/* The task that an application's schema calls "classes" or "numbers";
 * METRIC_TASKS: none. */
enum metric_task metrics_task(const char *name);

#endif
