/* The page's way in: an address that is good once, and the cookie that a
 * browser gets by it.
 *
 * Where reads need the token, a browser cannot send it with a page or a stream.
 * Whoever sees the terminal, or the state folder, has the one-time address
 * "/enter?code=CODE"; it answers with a cookie (HttpOnly, SameSite=Strict) and
 * leads to the page. The cookie reads and never writes: browsers send it to
 * every port of the host, so that another account's server could get it. Pure.
 */
#ifndef API_ENTRANCE_H
#define API_ENTRANCE_H

#include "api/http/guard.h"
#include "api/http/response.h"

#include <stdbool.h>
#include <stdint.h>

enum { ENTRANCE_LEN = 64 /* characters of a secret */ };

/* Zeroed: nobody comes in. */
struct entrance {
    uint16_t port;               /* in the cookie's name: one a server */
    bool tls;                    /* the cookie is for https only */
    char code[ENTRANCE_LEN + 1]; /* good for the next one; "": for nobody */
    char pass[ENTRANCE_LEN + 1]; /* of the cookie; "": nobody has one */
};

/* Whether @head asks to come in, whatever its code is. */
bool entrance_is_asked(const struct head *head);

/* Answers whoever asks: with the cookie, and the code is good no more (true);
 * or with 401. */
bool entrance_answer(struct entrance *e, const struct head *head,
                     struct response *out);

/* Whether @head has the cookie. */
bool entrance_knows(const struct entrance *e, const struct head *head);

/* Whether @a[@a_len] is the secret @b; where they differ does not show in the
 * time that it takes. */
bool secret_is(const char *a, size_t a_len, const char *b);

#endif
