/* A training application in its host, for tests: branch 1 trains. */
#ifndef TESTS_UNIT_APP_RUN_H
#define TESTS_UNIT_APP_RUN_H

#include "mltune/app.h"
#include "ps/host_io.h"

struct app_run {
    struct host *host;
    json_t *setting;
    uint64_t clocks; /* of an epoch */
};

/* Opens @app with the configuration text (printf-like) and forks branch 1 with
 * the setting; @seed of the run. Fails the test with the reason. */
void app_run_open(struct app_run *r, const struct mlt_app_ops *app,
                  uint64_t seed, const char *setting, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
void app_run_close(struct app_run *r);

/* Expects that opening fails with @code and a text that has @says in it. */
void app_run_refused(const struct mlt_app_ops *app, enum err code,
                     const char *says, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Mean loss over @epochs epochs of branch 1; NAN samples fail the test. */
double app_run_train(struct app_run *r, unsigned epochs);

/* The metric of branch 1 on the validation data, reduced. */
double app_run_metric(struct app_run *r);

/* Saves branch 1 into the folder @dir. */
void app_run_save(struct app_run *r, const char *dir);

/* Score of the model in @dir on other data. */
struct host_score app_run_evaluate(const struct mlt_app_ops *app,
                                   const char *dir, const char *config);

/* Value (@row, @j) of a table in branch 1. */
double app_run_value(struct app_run *r, const char *table, uint64_t row,
                     uint32_t width, uint32_t j);

#endif
