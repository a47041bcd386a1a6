/* Unix sockets: programs of one user, on one machine.
 *
 * A socket is a file of mode 0600, and the kernel says who has connected
 * (SO_PEERCRED): only the user that listens, and root, are let in. A path that
 * no address can hold (107 bytes) is reached by its folder's place in /proc.
 */
#ifndef BASE_HOST_LOCAL_IO_H
#define BASE_HOST_LOCAL_IO_H

#include "base/fault.h"

/* Listens at @path, absolute, in place of a socket that is there: the caller
 * sees to it that nobody listens there any more. On success *@out is the
 * caller's to close, and the file to remove. Errors, with @path in @f: ERR_IO
 * (a file system without sockets, something else is there, permissions). */
enum err local_listen(const char *path, int *out, struct fault *f);

/* The next connection of this user or root, which does not block; -1, with
 * errno: none waits (EAGAIN), or none can be taken (EMFILE say). Others are
 * hung up on; *@refused counts them. */
int local_accept(int fd, unsigned *refused);

/* A connection to who listens at @path (DIR/NAME), which does not block, the
 * caller's; or -1, with errno: nobody does, may not be asked, has no room
 * (EAGAIN), or is neither this user, root nor DIR's owner (EACCES). */
int local_connect(const char *path);

#endif
