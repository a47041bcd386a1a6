/* Intake of a configuration that came over HTTP: checks it
 * whole, fills in what each run gets, and keeps it to the data folder.
 *
 * Paths of data lead into the data folder, links followed; apps and searchers
 * that are programs or shared objects are refused unless the service allows
 * them: a token is to train models with, not to run programs with. */
#ifndef CLI_INTAKE_H
#define CLI_INTAKE_H

#include "api/http/response.h"
#include "cli/config/config.h"

/* All borrowed. */
struct intake {
    const struct registry *registry;
    const struct config_schemas *schemas; /* of it; NULL: made for each */
    const char *data;     /* absolute, no link in it: where paths start */
    unsigned workers;     /* a run's where it does not say; each node has its
                           * part of them */
    unsigned workers_max; /* that a run may ask for, of all its nodes */
    uint64_t memory;      /* the same, bytes; 0: not limited */
    uint64_t memory_max;
    bool programs;
    /* Webhooks go to these hosts alone, and to addresses that are not public
     * where that is said. */
    const struct option_list *hook_hosts; /* NULL: to none */
    bool hook_private;
};

/* Configuration from @body, a JSON object of @len bytes. As run_config_parse,
 * with the rules above as further problems; and ERR_UNSUPPORTED, with its place
 * in @problems, for an app that the service may not run: nothing else of it is
 * looked at then. */
enum err intake_parse(const struct intake *in, const char *body, size_t len,
                      struct run_config **out, struct problems *problems);

/* Whether the service may run a stored configuration; one that allowed programs
 * may have taken it. */
bool intake_allows(const struct intake *in, const json_t *config);

/* Answers with every error of @problems: 403 after ERR_UNSUPPORTED, else 422.
 */
void intake_refuse(enum err err, const struct problems *problems,
                   struct response *out);

#endif
