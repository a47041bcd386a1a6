/* The HTTP server: the service of api/service/service.h on a socket.
 *
 * One thread, started by api_server_start and ended by api_server_stop, serves
 * all connections; it touches nothing of the program but the view, takes no
 * signal, and keeps finished answers as long as the view's version stays. Where
 * runs rest a second one reads them back (waker_io.h).
 *
 * Besides, it listens on a Unix socket: whoever comes in there is this user, or
 * root (base/host/local_io.h), and may do all without a token.
 *
 * Limits: REAPER_CONNECTIONS_MAX connections and REAPER_LOCAL_MAX by the Unix
 * socket (further ones wait in the listen queue), REAPER_LIMITS on the time of
 * each phase, HEAD_* on the size of requests.
 */
#ifndef API_SERVER_IO_H
#define API_SERVER_IO_H

#include "api/http/reaper.h"
#include "api/service/service.h"
#include "api/view/view.h"
#include "base/fault.h"

struct api_server;

struct api_server_options {
    const char *listen; /* as listen_parse takes it; NULL: any free port */
    const char *local;  /* where its Unix socket is, absolute; copied; NULL:
                         * there is none */
    const char *token;  /* that writes need; copied; NULL: none is right */
    const char *tls_cert, *tls_key; /* files in PEM form; NULL: no TLS */
    const char *state;   /* folder whose runs can be exported, and which has the
                          * named tokens, absolute; copied; NULL: there are
                          * none */
    bool audit;          /* changes have a line each in its audit */
    struct view *view;   /* borrowed until api_server_stop */
    enum read_rule read; /* who reads without the token, on loopback */
    /* Is told the code of the page's way in, URL "enter?code=" CODE: before
     * api_server_start returns, and again whenever one was used, in the
     * server's thread; "": there is none. NULL: nobody comes in so. */
    void (*entered)(void *ctx, const char *code);
    void *entered_ctx;
    const struct reaper_limits *limits; /* copied; NULL: REAPER_LIMITS */
    time_ns heartbeat;                  /* of silent event streams; 0: 15 s */
};

/* On success requests are answered from here on.
 * Errors, all with what to do in @f: ERR_INVAL and ERR_UNSUPPORTED (the
 * address or the files; see listen_parse, listen_check, tls_identity_load),
 * ERR_BUSY (the address is in use), ERR_IO, ERR_NOMEM. */
enum err api_server_start(const struct api_server_options *options,
                          struct api_server **out, struct fault *f);

/* "http://127.0.0.1:41234/" as listen_url makes it, until api_server_stop. */
const char *api_server_url(const struct api_server *s);

/* Why there is no Unix socket where there should be one, until
 * api_server_stop; NULL: there is, or none was wanted. */
const char *api_server_no_local(const struct api_server *s);

/* When its thread last went round: some seconds ago at most, unless it is
 * stuck. Any thread. */
time_ns api_server_turned(const struct api_server *s);

/* When it was last asked for something that the asker may have; now, while an
 * event stream is open. Any thread. */
time_ns api_server_used(const struct api_server *s);

/* Ends the thread and closes all connections, idle or not. Blocks no longer
 * than one answer takes to write into memory, or one run to read back, and a
 * second where streams have something left to say. Accepts NULL. */
void api_server_stop(struct api_server *s);

#endif
