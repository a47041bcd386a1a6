#include "cli/service/runner.h"

#include "base/file_io.h"
#include "base/text.h"

#include <assert.h>
#include <unistd.h>

/* Where memory runs short, a run goes before the service. */
enum { OOM_SCORE = 500 };

enum err runner_start(const struct runner_options *o, struct subprocess *out,
                      struct fault *f)
{
    char *argv[] = {
        "mltune",   "resume",      (char *)o->run, "--state", (char *)o->state,
        "--listen", "127.0.0.1:0", NULL,           NULL};
    struct subprocess_options options = {.argv = argv,
                                         .file = {SUBPROCESS_NULL, -1, -1},
                                         .deaf = true, /* until it hears */
                                         .oom_score = OOM_SCORE};
    struct text variable = {0};
    int log_fd;
    enum err err;

    assert(out);
    if (o->other_data)
        argv[sizeof(argv) / sizeof(*argv) - 2] = "--other-data";
    if (o->token)
        text_printf(&variable, "MLTUNE_TOKEN=%s", o->token);
    if (text_lost(&variable)) {
        text_deinit(&variable);
        return fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    }
    options.set = o->token ? text_so_far(&variable) : NULL;
    err = file_open_log(o->log_path, &log_fd, f);
    if (!err) {
        options.file[1] = options.file[2] = log_fd;
        err = subprocess_start(out, &options, f);
        if (err)
            fault_wrap(f, "start a run");
        close(log_fd);
    }
    text_deinit(&variable);
    return err;
}
