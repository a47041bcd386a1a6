/* What a server's refusal says to somebody at a terminal.
 *
 * The server's sentences are for those who wrote the request: they name paths,
 * headers and the body. Who typed a command knows none of these, so they are
 * told what to type, and of the errors each by the name that they gave.
 */
#ifndef CLI_REFUSAL_H
#define CLI_REFUSAL_H

#include "base/text.h"

#include <jansson.h>

/* Appends what the answer @problem (RFC 9457; may be anything, or NULL) with
 * @status says: one line, and one more for each error that it lists. */
void refusal_say(int status, const json_t *problem, struct text *out);

/* Whether what was asked is at fault (4xx), not the server. */
bool refusal_is_ours(int status);

#endif
