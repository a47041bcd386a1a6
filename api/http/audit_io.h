/* The audit: who changed what in a service, when, and what came of it.
 *
 * A line of JSON each, in the file `audit` of the state folder, mode 0600:
 *   {"at": "2026-11-23T20:40:00Z", "by": "alice", "role": "run",
 *    "what": "stop", "on": "digits-4f9c2a", "outcome": "202"}
 *
 * The file is bounded: past AUDIT_FILE_MAX bytes it becomes `audit.1`, whose
 * place it takes, and a new one begins. So between AUDIT_FILE_MAX and twice as
 * many bytes are kept, some 30,000 lines at least. Each line is one write at
 * the end of the file, so servers and commands may write at once. It is not
 * flushed: a loss of power may take the last seconds.
 */
#ifndef API_AUDIT_IO_H
#define API_AUDIT_IO_H

#include "base/fault.h"
#include "base/role.h"

#include <stddef.h>

enum {
    AUDIT_FILE_MAX = 4 * 1024 * 1024,
    AUDIT_LINE_MAX = 2048,
    AUDIT_TEXT_MAX = 128 /* bytes of `on`; longer ones are cut */
};

/* All borrowed. */
struct audit_entry {
    const char *by; /* as struct asker has it; or ASKER_SHELL */
    enum role role;
    const char *what;    /* a command's name, "token add", "token revoke" */
    const char *on;      /* the run, file or token; "" none */
    const char *outcome; /* the answer's status; "done", or why not */
};

/* Who changes the state folder by a command, without any server. */
#define ASKER_SHELL "(shell)"

/* Writes @entry, of now. Errors, all with the file in @f: ERR_IO, ERR_NOMEM,
 * ERR_LIMIT; nothing of it is there then, or a line without an end, which a
 * reader passes over. */
enum err audit_write(const char *state, const struct audit_entry *entry,
                     struct fault *f);

/* The same, for whoever can do nothing about it: where it cannot be written the
 * log has the line. */
void audit_note(const char *state, const struct audit_entry *entry);

/* All lines that are kept, the oldest first; the caller's (mem_free). "" where
 * there are none. Errors: ERR_IO, ERR_NOMEM. */
enum err audit_read(const char *state, char **out, size_t *len,
                    struct fault *f);

#endif
