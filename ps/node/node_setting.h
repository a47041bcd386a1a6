/* A branch's setting as the training node uses it: one number for each tunable.
 *
 * The names that everybody knows act in the parameter server and in the order
 * of the samples; the application's own are handed to it. Pure functions.
 */
#ifndef PS_NODE_SETTING_H
#define PS_NODE_SETTING_H

#include "base/fault.h"
#include "base/proto/proto.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum { SETTING_BATCH_MAX = 1 << 30, SETTING_WARMUP_MAX = 1000000 };

struct node_setting {
    double learning_rate; /* finite, >= 0; default 0.01 */
    double momentum;      /* 0 <= m < 1; default 0 */
    double weight_decay;  /* finite, >= 0; default 0; 0 where the application
                           * does not list it */
    uint32_t rule;        /* rule_choice; default 0: the run's */
    double warmup;        /* epochs from the beginning over which the learning
                           * rate rises; 0 .. SETTING_WARMUP_MAX; default 0; 0 where
                           * the application does not list it */
    unsigned staleness;   /* clocks; default 0 */
    unsigned barrier_k;   /* workers; default 0: as ps.consistency says */
    uint64_t batch_size;  /* samples a worker and clock; default 64 */
    double
        bandwidth_mbps; /* that a node may send; 0, the default: as it goes */
    struct {
        char name[PROTO_NAME_MAX + 1];
        double value;
    } own[PROTO_TUNABLES_MAX]; /* the application's */
    unsigned owns;
};

/* The defaults of a run: those above, then what its configuration says (the
 * "tunables" object: `fixed`, else `default` of each).
 *
 * @tunables  may be NULL; a name with "free": true is taken from then on,
 *            whether somebody has it or not
 * @any       every name is taken so
 * @app       names of the tunables that the application has, NULL-terminated
 *
 * Errors: ERR_INVAL with the tunable and what was expected. */
enum err node_setting_init(struct node_setting *s, const json_t *tunables,
                           const char *const app[], bool any, struct fault *f);

/* @base with what the object @values says. bandwidth_mbps has no effect on one
 * node; an own tunable whose value is a string stays out of @out.
 * Errors: ERR_INVAL (a name that nobody knows, a value out of range) with the
 * tunable and what was expected; @out is then unspecified. */
enum err node_setting_read(const struct node_setting *base,
                           const json_t *values, const char *const app[],
                           struct node_setting *out, struct fault *f);

/* Value of the application's own tunable @name, else @fallback. */
double node_setting_own(const struct node_setting *s, const char *name,
                        double fallback);

#endif
