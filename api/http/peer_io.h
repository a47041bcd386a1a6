/* Whose process is at the other end of a connection. */
#ifndef API_PEER_IO_H
#define API_PEER_IO_H

#include <stdbool.h>
#include <stdint.h>

/* Whether the connection @fd was made by a process of this very user, or of
 * root, on this machine: the kernel is asked for the other end's socket
 * (sock_diag(7)). Where it does not say, it was not. */
bool peer_is_own(int fd);

/* A number for the address that @fd comes from, without its port: all of
 * loopback is one. */
uint32_t peer_address(int fd);

/* KiB that the other end of the TCP connection @fd has sent so far. */
uint64_t peer_sent_kib(int fd);

#endif
