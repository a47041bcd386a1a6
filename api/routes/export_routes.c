#include "api/routes/export_routes.h"

#include "api/view/list.h"
#include "api/view/view.h"

/* As EXPORT_FORMATS. Those of many files come as one archive. */
static const struct {
    const char *name;
    bool archive;
} formats[] = {{"csv", true},
               {"jsonl", false},
               {"tensorboard", true},
               {"mlflow", true},
               {"optuna-journal", false}};

void handle_export(const struct route_call *call, struct response *out)
{
    size_t format = (size_t)route_arg(call, "format")->number;
    bool found;

    view_lock(call->view);
    found = list_run(call, out) != NULL;
    view_unlock(call->view);
    if (found)
        response_export(out, route_arg(call, "run")->text, formats[format].name,
                        formats[format].archive);
}
