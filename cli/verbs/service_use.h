/* A service that a verb sends something to: where it is, and what its refusals
 * mean. One owner thread.
 */
#ifndef CLI_SERVICE_USE_H
#define CLI_SERVICE_USE_H

#include "api/http/token_io.h"
#include "base/fault.h"
#include "base/file_io.h"
#include "cli/remote/client.h"

#include <jansson.h>

struct service_place {
    char url[CLIENT_URL_MAX];
    char socket[FILE_PATH_MAX]; /* "": none */
    char token[TOKEN_LEN_MAX + 1];
};

/* The service @server (an address, or NULL: MLTUNE_SERVER), else that of the
 * state folder @state. Errors: ERR_INVAL, ERR_NODE; of token_read. */
enum err service_find(const char *state, const char *server,
                      struct service_place *out, struct fault *f);

/* Exit code of a verb that could not ask. */
int service_exit_code(enum err err);

/* Says on stderr what a server refused, and why. */
void service_say_refusal(const struct client_answer *answer);

/* The same of the service; the verb's exit code. */
int service_refusal(const struct client_answer *answer);

/* Text @name of the object @o; "" where it has none. */
const char *service_text(const json_t *o, const char *name);

#endif
