/* Where a server is: the file in its folder by which others find it.
 *
 * The first line is its address. A second one says that it has no Unix socket,
 * and in which boot of which machine that was written: only there, and then,
 * an address of loopback is its own. Whoever finds no such line asks by the
 * socket or not at all, since a port may be another program's by now.
 */
#ifndef CLI_ADDRESS_IO_H
#define CLI_ADDRESS_IO_H

#include "cli/remote/client.h"

/* Writes the address @url to @path; @socket: the server has a Unix socket.
 * Errors: of file_write. */
enum err address_write(const char *path, const char *url, bool socket,
                       struct fault *f);

/* The address in @path. *@socket: the server is to be asked by its Unix socket;
 * false: it has none, and has said so on this machine since it was started.
 * Errors: of file_read; ERR_LIMIT also an address that is too long. */
enum err address_read(const char *path, char url[CLIENT_URL_MAX], bool *socket,
                      struct fault *f);

/* Whether @url, without TLS, is where a server of the state folder @state says
 * that it is, the service or a run, and its lock says that it lives: as text,
 * so that another name of the host, or none, is another address. */
bool address_is_own(const char *state, const char *url);

#endif
