/* Matrix factorization for the cluster in virtual time: ratings of a low rank
 * with noise, users at their workers (updated at once, by the same rule), items
 * in the shared table; a clock is a part of a pass over the data. Made of a
 * seed. Thesis of Cui, equations 2.1 and 2.2, as apps/mf/mf.h has it. */
#ifndef TESTS_SIM_VIRTUAL_MF_H
#define TESTS_SIM_VIRTUAL_MF_H

#include "tests/sim/virtual.h"

struct virtual_mf_options {
    uint32_t users, items, ratings, rank;
    uint32_t workers; /* over all nodes */
    int parts;        /* clocks of a pass */
    int rounds; /* of a clock's ratings: an item is visited in each of them that
                 * has ratings of it; 0: 1 */
    double skew;     /* of popularity, 0..1: the item at a share s of all in the
                      * order of how many ratings they have has about s^-skew
                      * times as many as the last one; 0: all about the same */
    double locality; /* of a user's ratings, the part among the items that his
                      * worker's users like most; the rest are of any */
    const char *rule; /* of the users' rows, too */
    struct rule_params params;
    double slow; /* factor of the work that a rating is, which is about a core's
                  * for 1; 0: 1 */
    uint64_t seed;
};

struct virtual_mf;

struct virtual_mf *virtual_mf_new(const struct virtual_mf_options *opt);
void virtual_mf_free(struct virtual_mf *mf);

/* Members that virtual_options needs: program, rows, width, type, rule, params.
 * The others are left alone. */
void virtual_mf_options(struct virtual_mf *mf, struct virtual_options *out);

/* Before the first run: small random items. */
void virtual_mf_init(struct virtual_mf *mf, struct virtual *v);

/* Mean squared error over all ratings, between runs. */
double virtual_mf_loss(const struct virtual_mf *mf, const struct virtual *v);

#endif
