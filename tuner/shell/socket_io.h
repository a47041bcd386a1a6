/* The tuner's end of the control protocol: a ZeroMQ ROUTER for its nodes.
 *
 * On one machine it is a Unix socket in a folder of mode 0700, so that nobody
 * but this user reaches it. For nodes of other machines it is a TCP port, where
 * the run's key is asked for (base/run_key_io.h) and a gate is kept
 * (base/host/gate.h). Nothing here blocks. One owner thread.
 */
#ifndef TUNER_SOCKET_IO_H
#define TUNER_SOCKET_IO_H

#include "base/fault.h"
#include "base/file_io.h"
#include "base/host/gate_io.h"
#include "base/proto/proto.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SOCKET_PEER_MAX = 255,    /* bytes of a ZeroMQ identity */
    SOCKET_QUEUE_MAX = 10000, /* messages that wait to be sent to a peer */
};

/* The sender of a message. */
struct socket_peer {
    unsigned char id[SOCKET_PEER_MAX];
    size_t len; /* 0: nobody */
};

struct tuner_socket {
    void *context, *router;       /* owned */
    struct gate_keeper *gate;     /* owned; NULL: no other machine reaches it */
    char folder[FILE_PATH_MAX];   /* of the Unix socket; removed on close */
    char endpoint[FILE_PATH_MAX]; /* "ipc://...", "tcp://ADDRESS:PORT" */
};

/* Listens in a new folder inside @dir, or, where the path would be too long for
 * a Unix socket or @dir cannot hold one, in one made in $XDG_RUNTIME_DIR or
 * /tmp. Errors: ERR_IO with the reason. */
enum err socket_open(struct tuner_socket *s, const char *dir, struct fault *f);

/* Listens at @address of this machine, "10.0.0.1:7000", port * for any, for
 * @nodes nodes that have @key. The folder is made anew in @dir, for what the
 * nodes share. @advice: what is to be done where the address is taken or
 * another's. Errors: ERR_IO, ERR_INVAL, ERR_UNSUPPORTED, with the reason. */
enum err socket_open_outside(struct tuner_socket *s, const char *dir,
                             const char *address, const char *advice,
                             const char *key, uint32_t nodes, struct fault *f);

/* Takes away what tuners of this user that were killed have left in
 * $XDG_RUNTIME_DIR and /tmp: only sockets, and folders that then are empty.
 * socket_open does it itself, where it looks. */
void socket_sweep(void);

/* Messages not sent yet are dropped. Accepts a zeroed one. */
void socket_close(struct tuner_socket *s);

/* Next message: its sender, and its bytes with a zero byte behind them, owned
 * by the caller (mem_free). Errors: ERR_AGAIN none waits; ERR_PROTO one that
 * has not the form of a message was dropped; ERR_NOMEM one was dropped; ERR_IO.
 */
enum err socket_receive(struct tuner_socket *s, struct socket_peer *from,
                        char **text, size_t *len);

/* Errors: ERR_NODE the peer is not connected; ERR_LIMIT it has not taken
 * SOCKET_QUEUE_MAX messages; ERR_NOMEM; ERR_IO. Then nothing was sent. */
enum err socket_send(struct tuner_socket *s, const struct socket_peer *to,
                     const char *text, size_t len);

bool socket_peer_same(const struct socket_peer *a, const struct socket_peer *b);

#endif
