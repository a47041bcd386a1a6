/* The key of a run: by it the processes of a run know one another over TCP.
 *
 * 32 random bytes that whoever starts the processes hands to all of them, as 64
 * hexadecimal digits: in MLTUNE_KEY, or in a file that MLTUNE_KEY_FILE names
 * ("-": the first line of stdin). Never in an argument.
 *
 * It is the secret half of a pair of CURVE (ZeroMQ's CurveZMQ, RFC 26), which
 * every process has. Its public half is as secret: it is never sent, and
 * without it nobody can write the first message of a handshake. So a stranger's
 * connection ends before a frame of it is read, nobody but a process of the run
 * can listen in another's place, and what is said is encrypted with keys that
 * are new for each connection.
 */
#ifndef BASE_RUN_KEY_IO_H
#define BASE_RUN_KEY_IO_H

#include "base/fault.h"

#include <stdbool.h>

enum {
    RUN_KEY_LEN = 64, /* digits */
    RUN_KEY_HALF = 41 /* bytes of half a pair in ZeroMQ's Z85, with its end */
};

/* Zeroed: there is none. */
struct run_key {
    bool given;
    char public_half[RUN_KEY_HALF], secret_half[RUN_KEY_HALF];
};

/* A new one as text. Errors: ERR_IO no random bytes. */
enum err run_key_make(char out[RUN_KEY_LEN + 1], struct fault *f);

/* The key that this process was given; none is no error. Errors: ERR_INVAL it
 * is no key, or others may read its file; ERR_IO; ERR_UNSUPPORTED a libzmq
 * without CURVE; in words. One from stdin is kept in the environment: the first
 * call then comes before any thread. */
enum err run_key_find(struct run_key *out, struct fault *f);

/* The key that @text is, as run_key_make writes it. Errors: ERR_INVAL,
 * ERR_UNSUPPORTED, in words. */
enum err run_key_read(const char *text, struct run_key *out, struct fault *f);

/* Whether processes of other machines reach the ZeroMQ endpoint @endpoint:
 * "tcp://" with any host but loopback's. */
bool run_key_is_outside(const char *endpoint);

/* Before a ZeroMQ socket is bound (@listens) or connected to @endpoint: over
 * TCP none but holders of the key get through, and others are turned away
 * within seconds. One that does not get through tries again every 2 s. Does
 * nothing for other kinds of endpoints, and without a key.
 * Errors: ERR_UNSUPPORTED without a key, where @endpoint is outside. */
enum err run_key_apply(const struct run_key *key, void *socket,
                       const char *endpoint, bool listens, struct fault *f);

#endif
