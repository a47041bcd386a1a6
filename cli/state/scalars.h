/* What event files say of a run (cli/state/event_file.h): the same in an export
 * and in files that are written while the run goes on.
 *
 * Two runs of TensorBoard: `training` by clock and epoch, `trials` by number.
 */
#ifndef CLI_SCALARS_H
#define CLI_SCALARS_H

#include "cli/state/event_file.h"
#include "cli/state/lineage.h"
#include "tuner/history/history.h"

/* A history, and when its run began, for times that it does not know. */
struct scalars {
    const struct history *h; /* borrowed */
    double began_s;          /* since 1970 */
};

/* Where the events of a run are; @run is training or trials. */
#define SCALARS_FILE "events.out.tfevents.%010.0f.mltune"

/* Wall time of @at_s of the run, seconds since 1970. */
double scalars_wall(const struct scalars *s, double at_s);

/* Setting @i of the schedule, at its clock. Errors: ERR_NOMEM, as all here
 * where a setting is read. */
enum err scalars_choice(const struct scalars *s, struct text *out, size_t i);

/* Surviving epochs after *@epoch, each with loss, metric, further metrics.
 * *@epoch and *@of, the branch that ran it, become the last one's. */
void scalars_epochs(const struct scalars *s, struct text *out, uint32_t *epoch,
                    branch_id *of);

/* Whether epoch @epoch of branch @of survives. */
bool scalars_has_epoch(const struct scalars *s, uint32_t epoch, branch_id of);

/* Mean loss and further metrics from @p's first clock on. */
void scalars_point(const struct scalars *s, struct text *out,
                   const struct lineage_point *p);

/* What is said of a trial; times since 1970. */
struct trial_told {
    uint32_t number, search;
    bool ended;
    enum trial_label label;
    double began_s, ended_s;     /* while it runs: of no meaning */
    double speed, seconds, loss; /* the last loss; NAN: none */
};
struct trial_told scalars_told(const struct scalars *s, size_t i);

/* Trial @i of the history's list. */
enum err scalars_trial(const struct scalars *s, struct text *out, size_t i);

#endif
