/* Comparisons: the results of `mltune compare`, as a table, JSON and CSV.
 *
 * Plain data and arithmetic; cli/verbs/compare.c fills it in. A run that did
 * not reach the target is *censored*: all that is known is that it takes longer
 * than the run did, which is written ">30 s" and never averaged as if it were
 * the time.
 */
#ifndef CLI_COMPARISON_H
#define CLI_COMPARISON_H

#include "tuner/shell/state_io.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { COMPARISON_TEXT_MAX = 160, COMPARISON_SEEDS_MAX = 1000 };

struct comparison_run {
    uint64_t seed;
    bool ran;    /* anything below is known */
    bool whole;  /* it finished: its quality counts */
    bool unread; /* its records could not be read: it counts in no figure */
    char run[RUN_ID_MAX + 1];
    char status[32], reason[64];
    double seconds;      /* from the first clock; NAN: it came to none */
    double target_s;     /* until the target was reached; NAN: it was not */
    double loss, metric; /* of the best epoch; NAN: none */
    double tuning_s;
    uint64_t epochs, trials;
    json_t *setting; /* owned; NULL: none */
};

struct comparison_row {
    char label[COMPARISON_TEXT_MAX];
    char strategy[64], searcher[64];
    struct comparison_run *run; /* owned, [seeds] */
};

struct comparison {
    char name[64], config[FILE_PATH_MAX];
    char metric[33]; /* its name; "": quality is the loss */
    bool higher_better;
    double target_loss, target_metric; /* NAN: none */
    size_t seeds, rows;
    struct comparison_row *row; /* owned, [rows] */
};

/* A number of runs, some of which are only known to be above their value. */
struct spread {
    size_t n;
    double median, min, max;                 /* NAN where n is 0 */
    bool median_above, min_above, max_above; /* censored */
};

/* Median, least and greatest of @value[n]; @above[n] (NULL: none) marks those
 * that are only known to be larger: they are counted behind all others, and a
 * median that rests on one is marked. Sorts both arrays. */
struct spread spread_of(double value[], bool above[], size_t n);

/* Errors: ERR_NOMEM. */
enum err comparison_init(struct comparison *c, size_t rows, size_t seeds);
void comparison_deinit(struct comparison *c);

/* Quality of a run: metric, else loss. */
double comparison_quality(const struct comparison *c,
                          const struct comparison_run *r);

/* The table; -1 when out of memory. */
int comparison_print(const struct comparison *c, FILE *out);

/* NULL: out of memory. The caller's (json_decref; mem_free). */
json_t *comparison_json(const struct comparison *c);
char *comparison_csv(const struct comparison *c);

#endif
