#include "cli/state/removal.h"

#include "cli/state/mend.h"
#include "cli/state/tune_folder.h"
#include "tuner/history/journal_io.h"
#include "tuner/shell/state_io.h"

#include <assert.h>

/* ERR_BUSY: its tuner lives. Its lock is ours meanwhile, so that
 * nobody resumes it. */
static enum err remove_folder(const char *state, const char *id,
                              struct fault *f)
{
    struct run_folder run;
    enum err err = run_folder_open(&run, state, id, f);

    if (err)
        return err == ERR_NOENT ? ERR_OK : err;
    err = tune_folder_remove(state, id, f);
    if (!err)
        err = folder_remove(run.path, f);
    run_folder_close(&run);
    return err;
}

enum err removal_of_run(const char *state, const char *id, int64_t *newest,
                        struct fault *f)
{
    struct journal *j = NULL;
    enum err err = remove_folder(state, id, f);

    assert(state[0] == '/' && id);
    if (err)
        return err;
    err = mend_open(state, true, JOURNAL_BUSY_MS, &j, f);
    if (!err)
        err = journal_remove_run(j, id, newest, f);
    journal_close(j);
    return err == ERR_BUSY ? ERR_IO : err;
}
