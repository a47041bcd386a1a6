/* The bearer token that every write needs.
 *
 * 256 random bits as text in the file `token` of the state folder, mode 0600,
 * made by the first run there and used by all; or MLTUNE_TOKEN. Never in an
 * argument, a log, an address or the environment of a node.
 */
#ifndef API_TOKEN_IO_H
#define API_TOKEN_IO_H

#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>

enum { TOKEN_LEN_MIN = 16, TOKEN_LEN_MAX = 256 };

/* The token of the state folder @state: MLTUNE_TOKEN where it is set, else the
 * file's. Errors, all with what to do in @f: ERR_NOENT there is no file,
 * ERR_INVAL (too short or long, not printable, or others may read the file),
 * ERR_IO. */
enum err token_read(const char *state, char out[TOKEN_LEN_MAX + 1],
                    struct fault *f);

/* The token as token_read gives it; makes the file where it is missing, and
 * takes MLTUNE_TOKEN out of the environment. Before any thread is started. */
enum err token_make(const char *state, char out[TOKEN_LEN_MAX + 1],
                    struct fault *f);

#endif
