#include "api/routes/given_io.h"

#include "api/routes/log_io.h"
#include "api/view/list.h"
#include "api/view/view.h"
#include "base/file_io.h"
#include "base/mem.h"
#include "base/run_files.h"

#include <assert.h>
#include <stdio.h>

static void refuse(enum err err, const char *run, struct response *out)
{
    if (err == ERR_NOENT)
        response_problem(out, 404, "config_not_found", NULL,
                         "of run %s the completed configuration alone was kept",
                         run);
    else if (err == ERR_NOMEM)
        response_json(out, 200, NULL); /* 503 */
    else
        response_problem(out, 500, "config_not_readable", NULL,
                         "the given configuration of run %s cannot be read: %s",
                         run, err_text(err));
}

void given_respond(const struct route_call *call, struct response *out)
{
    const char *state = view_options(call->view)->state;
    char name[RECORD_NAME_MAX + 48] = "", path[FILE_PATH_MAX];
    const struct view_run *run;
    struct log_piece all;
    enum err err;

    assert(out->status == 0);
    view_lock(call->view);
    run = list_view_run(call, out);
    if (run)
        snprintf(name, sizeof(name), "runs/%s/" RUN_GIVEN, run->id);
    view_unlock(call->view);
    if (!run)
        return;
    err = state ? file_join(path, state, name, NULL) : ERR_NOENT;
    if (!err)
        err = log_read(path, 0, LOG_PIECE_MAX + 1, &all);
    if (!err && all.len > LOG_PIECE_MAX) {
        mem_free(all.bytes);
        err = ERR_LIMIT;
    }
    if (err)
        refuse(err, route_arg(call, "run")->text, out);
    else
        response_text(out, 200, "application/json", all.bytes, all.len);
}
