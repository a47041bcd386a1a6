/* The file `tokens` of a state folder: its named tokens.
 *
 * Mode 0600, written whole or not at all (base/file_io.h), under the lock of
 * `tokens.lock`: two who change it at once lose nothing. Servers of the folder
 * only read it: each looks at its time and size (stat, about a microsecond)
 * with every request that has a token, and reads it where they are new, so a
 * token that was revoked is none from the next request on.
 */
#ifndef API_TOKENS_IO_H
#define API_TOKENS_IO_H

#include "api/http/tokens.h"
#include "base/clock_io.h"

#include <limits.h>
#include <sys/stat.h>

enum { TOKENS_SECRET_LEN = 64 }; /* 256 bits in hexadecimal */

/* The tokens of the state folder @state; none where there is no file. Errors,
 * all with what to do in @f: ERR_INVAL (others may read or write it), as
 * tokens_parse's, ERR_IO. */
enum err tokens_read(const char *state, struct named_tokens *out,
                     struct fault *f);

/* Adds the token @name with @role, made now, and gives its secret, which is
 * kept nowhere. @upload_max: bytes that it may upload in all, at most
 * TOKENS_UPLOAD_MAX; NULL: no limit of its own. Errors: also ERR_EXIST,
 * ERR_LIMIT; ERR_BUSY another process changes the tokens; the file is as it was
 * then. */
enum err tokens_add(const char *state, const char *name, enum role role,
                    const uint64_t *upload_max,
                    char secret[TOKENS_SECRET_LEN + 1], struct fault *f);

/* The token @name may upload @upload_max bytes from now on, as above. Errors:
 * as tokens_add's, and ERR_NOENT. */
enum err tokens_limit(const char *state, const char *name,
                      const uint64_t *upload_max, struct fault *f);

/* Takes the token @name out. Errors: as tokens_add's, and ERR_NOENT. */
enum err tokens_revoke(const char *state, const char *name, struct fault *f);

/* What a server knows of them. One owner thread. */
struct tokens_watch {
    char path[PATH_MAX]; /* "": there are none for good */
    struct named_tokens tokens;
    struct stat seen; /* of the file that was read; zeroed: none */
    bool fresh;       /* it was so new then that it may have changed since */
    bool unread;      /* it could not be read, which may pass */
    unsigned reads;   /* that made a difference: tokens may be gone */
};

/* Zeroed before. @state: NULL, there are none. */
void tokens_watch_init(struct tokens_watch *w, const char *state);
void tokens_watch_deinit(struct tokens_watch *w);

/* The tokens as they are now; until the next call. A file that cannot be read,
 * or is damaged, gives none, which is logged once for each such file. */
const struct named_tokens *tokens_watch_look(struct tokens_watch *w);

#endif
