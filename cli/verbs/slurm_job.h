/* A batch job of Slurm: the script that trains a configuration in an
 * allocation, a node on each host, and goes on with its run when Slurm starts
 * the job again (requeue, preemption, a host that crashed), on as many hosts
 * as it has then. Pure.
 *
 * The script is whole: the configuration stands in it, so that changing the
 * file does not change a job that waits. Slurm's warning before the time limit
 * comes to the script's shell, which hands it on.
 */
#ifndef CLI_SLURM_JOB_H
#define CLI_SLURM_JOB_H

#include "base/fault.h"
#include "base/text.h"
#include "cli/basics/options.h"

enum {
    SLURM_JOB_WARNING_S = 120, /* before the time limit */
    /* Times that the script itself has the job started again, since the run
     * was interrupted (exit code 75): most likely a host was lost, of which
     * Slurm itself learns only minutes later. It counts them itself, since
     * Slurm's count has preemptions and requeues by hand in it. */
    SLURM_JOB_AGAIN_MAX = 5,
};

/* All borrowed. */
struct slurm_job {
    const char *name;               /* of job and run */
    unsigned nodes;                 /* hosts, 1 or more */
    unsigned workers;               /* of each node; 0: its host's cores, which
                                     * nobody else gets then */
    const char *time, *partition;   /* as sbatch takes them; NULL: none said */
    const struct option_list *more; /* words for sbatch; NULL: none */
    const char *program;            /* mltune, absolute */
    const char *command;            /* of the nodes; NULL: the same */
    const char *state, *folder;     /* absolute; relative paths start there */
    const char *config;             /* the text of the configuration */
};

/* Writes the script to @out. What it needs beside is the folder STATE/slurm,
 * where its log goes (JOB.log) and where it keeps the id of the job's run
 * (JOB.run) and how often it has asked for another start (JOB.asked).
 * Errors: ERR_INVAL an option cannot stand in a script, or a path (an end of a
 * line in it), by name; ERR_NOMEM. */
enum err slurm_job_script(const struct slurm_job *job, struct text *out,
                          struct fault *f);

#endif
