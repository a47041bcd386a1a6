/* A process that reads what strangers have written gives up what it does not
 * need for that (seccomp): were it taken over by a file, it could do little.
 *
 * What is given up fails with EPERM from then on, in all threads, and in what
 * they start. A system that does not know it, changes nothing.
 */
#ifndef BASE_HOST_CONFINE_IO_H
#define BASE_HOST_CONFINE_IO_H

#include <stdbool.h>

enum confine {
    /* Starts no program, takes nothing from another process by a call made for
     * that (/proc/PID/mem is a file: the system says who may), opens no sockets
     * but those of networks and Unix, changes nothing of the system itself. */
    CONFINE_NODE,
    /* Besides opens no socket at all, and makes, changes and removes no file:
     * reads, and says what it has read. */
    CONFINE_READ
};

/* False: the system has no such thing, or refuses it. */
bool confine(enum confine how);

#endif
