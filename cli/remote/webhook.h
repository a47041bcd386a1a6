/* Webhooks: an event is sent to a server of somebody's, signed.
 *
 * By HTTPS alone, to an address of the public network unless others are
 * allowed: what a name stands for is checked after it was looked up, on the
 * address that is connected to. Redirects are not followed. What may pass
 * (nobody answers, not in time, 408, 425, 429, 5xx) is tried again, after 1 s,
 * then twice as long each time up to WEBHOOK_PAUSE_MAX_S, until the time is
 * over. Waits; one owner thread, in a process of its own (`mltune webhook`).
 */
#ifndef CLI_WEBHOOK_H
#define CLI_WEBHOOK_H

#include "cli/remote/client.h"

enum {
    WEBHOOK_URL_MAX = 512,
    WEBHOOK_SECRET_MIN = 16,
    WEBHOOK_SECRET_MAX = 256,
    WEBHOOK_PAUSE_MAX_S = 60,
    WEBHOOK_SIGNATURE_MAX = 112
};

/* Parts of a webhook's address. */
struct webhook_place {
    char base[CLIENT_URL_MAX];    /* "https://example.org:8443/" */
    char target[WEBHOOK_URL_MAX]; /* "/runs?by=mltune" */
    char host[CLIENT_URL_MAX];    /* "example.org", lower case */
};

/* Errors: ERR_INVAL, with what was expected: "https://HOST[:PORT]/PATH",
 * without a user, a fragment or characters that have to be escaped. */
enum err webhook_split(const char *url, struct webhook_place *out,
                       struct fault *f);

/* The first line of the file @path, open as @fd, of WEBHOOK_SECRET_MIN to _MAX
 * characters; the file must be this user's and closed to others. Errors:
 * ERR_IO, ERR_INVAL. */
enum err webhook_secret(int fd, const char *path,
                        char out[WEBHOOK_SECRET_MAX + 1], struct fault *f);

/* "t=1700000000,v1=HEX": HMAC-SHA256, by @secret, of the seconds, a dot and
 * @body. Errors: ERR_UNSUPPORTED (no HMAC in the library). */
enum err webhook_sign(const char *secret, int64_t unix_s, const char *body,
                      char out[WEBHOOK_SIGNATURE_MAX]);

/* Whether an answer of @status may be another one later. */
bool webhook_may_pass(int status);

/* All borrowed. */
struct webhook {
    const struct webhook_place *to;
    const char *secret;
    const char *event;  /* X-Mltune-Event */
    const char *body;   /* JSON */
    bool any_address;   /* also those that are not public */
    double seconds;     /* in all */
    double patience_s;  /* of each attempt */
    unsigned *attempts; /* out: how many there were */
};

/* Sends it. Errors: ERR_NODE it was not taken: the last attempt's reason;
 * others that trying again would not mend: ERR_INVAL (the address is none that
 * may be asked), ERR_NOMEM. */
enum err webhook_send(const struct webhook *w, struct fault *f);

#endif
