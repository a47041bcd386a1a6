/* The host's inside: what its files share. host_io.c opens and closes it,
 * host_slice_io.c runs its slices, host_ready_io.c says what it can,
 * host_model_io.c saves a model, host_evaluate_io.c scores one and predicts
 * with it, host_metric_io.c measures the metric that is asked for. */
#ifndef PS_HOST_INTERNAL_IO_H
#define PS_HOST_INTERNAL_IO_H

#include "base/clock_io.h"
#include "ps/node/host_io.h"
#include "ps/node/host_metric_io.h"
#include "ps/node/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HOST_LINE_BYTES = 64 };

/* One worker's side of a clock; nobody else touches it while a slice runs. */
struct host_lane {
    _Alignas(HOST_LINE_BYTES) struct host *host;
    double sum; /* reported in the present clock */
    uint64_t samples;
    uint64_t *ids; /* [ids_room] */
    size_t ids_room;
    int failed; /* what run_clock returned */
    uint64_t failed_clock;
};

struct host {
    struct host_facts facts;
    void *app; /* of facts.app */
    struct mlt_ps *ps;
    mlt_table cursor;
    bool barrier;        /* every clock ends with one */
    bool uses_staleness; /* the consistency model does */
    bool uses_barrier_k;
    bool evaluate, predict;
    unsigned workers, nodes;
    struct host_lane *lane; /* [workers] */
    struct slice *slice;
    struct live_read *glance;
    struct host_metric *metric; /* NULL: the application's own, or none */

    /* The slice that runs: written while no worker does. */
    struct node_setting setting;
    enum mlt_clock_type type;
    branch_id branch;
    time_ns turn_ns;
};

/* @code of the application or the parameter server as ours, with its text, or
 * with @what where it has none. */
enum err host_take_error(int code, const struct mlt_error *e, const char *what,
                         struct fault *f);

/* An operation of the application that gives members for model.json. */
typedef int host_text(void *app, const char *dir, char *json, size_t size,
                      struct mlt_error *err);

/* What @ask gives, as an object; {} for no text. Errors: those of the
 * application, with its words; ERR_APP, ERR_FORMAT, ERR_NOMEM. */
enum err host_take_text(host_text *ask, void *app, const char *dir,
                        json_t **out, struct fault *f);

/* The tables that a model has, as model.json lists them; NULL when out of
 * memory. */
json_t *host_saved_tables(const struct mlt_ps *ps);

#endif
