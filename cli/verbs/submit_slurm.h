/* `mltune submit --launcher slurm CONFIG`: a batch job of Slurm's
 * (cli/verbs/slurm_job.h), handed to sbatch or printed. */
#ifndef CLI_SUBMIT_SLURM_H
#define CLI_SUBMIT_SLURM_H

#include "cli/basics/options.h"

#include <stdbool.h>

/* All borrowed. */
struct submit_slurm {
    const char *config, *state;     /* a file ("-": stdin), a folder */
    struct option_uint nodes;       /* hosts; not given: cluster.nodes, or 1 */
    const char *time, *partition;   /* NULL: none said */
    const struct option_list *more; /* words for sbatch */
    bool print, json;
};

/* Checks the configuration, and makes STATE/slurm and submits the job, or
 * prints its script alone. Returns the exit code. */
int submit_slurm(const struct submit_slurm *s);

#endif
