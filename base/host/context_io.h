/* A context of ZeroMQ, begun so that want of memory is an error and no end of
 * the process. */
#ifndef BASE_CONTEXT_IO_H
#define BASE_CONTEXT_IO_H

#include "base/err.h"

/* As zmq_ctx_new; the caller ends it by zmq_ctx_term. NULL: errno says why.
 *
 * libzmq begins with OpenPGM, and that with a protocol's number, for which
 * glibc reads /etc/nsswitch.conf. Where there is no memory for that, the first
 * one of a process to ask is killed by SIGSEGV (glibc's nss_database.c). So it
 * is not asked unless there is some, for the C library, too. */
void *context_new(void);

/* After that, or ZeroMQ, has failed: ERR_NOMEM or ERR_IO, as errno says. */
enum err context_error(void);

#endif
