/* Names of the service in its state folder, for whoever looks for it; and of a
 * run's own server in the run's. */
#ifndef CLI_SERVE_H
#define CLI_SERVE_H

#define SERVE_LISTEN_DEFAULT "127.0.0.1:8080"
#define SERVE_LOCK "serve.lock"   /* held while it lives */
#define SERVE_OPENING "open.lock" /* held while mltune open starts one */
#define SERVE_LOG "serve.log"     /* what one that mltune open started says */
/* Of --idle, in seconds. */
#define SERVE_IDLE_MAX 31536000
#define SERVE_IDLE_EXPECTED "expected a time of 1s to 365 days, as 30m"
/* There while it leaves what is queued alone: then another takes its place. */
#define SERVE_LEAVES "serve.leaves"
#define SERVE_PAGE                                                             \
    "serve.page" /* the page's next one-time address, from there */
#define SERVE_SOCKET "serve.sock" /* its Unix socket, the same */
#define SERVE_URL "serve.url"     /* its address, the same */

#define RUN_SOCKET "http.sock" /* a run's, in its folder */

#endif
