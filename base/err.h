/* Error codes: one enumeration for the whole project.
 *
 * Append-only, because the numbers travel in messages and journals. A function
 * that can fail returns `enum err`; its results go through `out` pointers that
 * are written on success only. What a user reads is a `struct fault`.
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <stdbool.h>

#define ERR_LIST(X)                                                            \
    X(OK, ok, "ok")                                                            \
    X(INVAL, inval, "invalid value")                                           \
    X(NOMEM, nomem, "out of memory")                                           \
    X(LIMIT, limit, "limit reached")                                           \
    X(IO, io, "input or output failed")                                        \
    X(FORMAT, format, "malformed data")                                        \
    X(NOENT, noent, "not found")                                               \
    X(EXIST, exist, "exists already")                                          \
    X(BUSY, busy, "busy")                                                      \
    X(PROTO, proto, "protocol violation")                                      \
    X(VERSION, version, "version not supported")                               \
    X(CANCELED, canceled, "canceled")                                          \
    X(DIVERGED, diverged, "diverged")                                          \
    X(APP, app, "the training application failed")                             \
    X(NODE, node, "a node was lost")                                           \
    X(TIMEOUT, timeout, "timed out")                                           \
    X(UNSUPPORTED, unsupported, "not supported")                               \
    X(EXHAUSTED, exhausted, "exhausted")                                       \
    X(AGAIN, again, "not now")

enum err {
#define ERR_ENUM(name, lower, text) ERR_##name,
    ERR_LIST(ERR_ENUM)
#undef ERR_ENUM
        ERR_COUNT
};

/* Short text of @err; never NULL, "unknown error" for a number of a newer
 * version. Static storage. */
const char *err_text(enum err err);

/* Name of @err without the prefix, in lower case ("inval"): the stable code of
 * messages and of HTTP problems. Static storage. */
const char *err_name(enum err err);

/* Whether @err is trouble of the machine, which may be over another time, and
 * not a fault of the program or of what it was given: memory, disk, network,
 * another process. */
bool err_may_pass(enum err err);

#endif
