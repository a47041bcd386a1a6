/* A set of samples as glm has it: sparse rows, whatever they came from.
 *
 * Values of images are byte / 255, of tables as the scaling left them; those
 * that are 0 are left out. One owner thread.
 */
#ifndef APPS_GLM_SET_H
#define APPS_GLM_SET_H

#include "apps/formats/data_libsvm.h"
#include "apps/samples/samples.h"
#include "base/fault.h"

#include <stdint.h>

/* Zeroed: none. */
struct glm_set {
    uint64_t count;
    uint64_t *begin; /* [count + 1]: owned */
    uint32_t *index; /* [begin[count]] ascending within a sample: owned */
    float *value;    /* the same, finite: owned */
    float *y;        /* [count] a class's number, or the target: owned */
};

void glm_set_deinit(struct glm_set *set);

/* Of dense samples, which stay; without labels and targets y is 0. Errors:
 * ERR_LIMIT, ERR_NOMEM. */
enum err glm_set_of_samples(const struct samples *s, struct glm_set *out,
                            struct fault *f);

/* Takes over what @s has; y[i] is label[i] as it is. Errors: ERR_NOMEM. */
enum err glm_set_of_sparse(struct sparse *s, struct glm_set *out,
                           struct fault *f);

/* Drops entries of columns from @columns on; returns how many. */
uint64_t glm_set_narrow(struct glm_set *set, uint32_t columns);

#endif
