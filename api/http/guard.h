/* The guard: what is checked of every request before it is routed.
 *
 * libmicrohttpd 0.9.75 lets duplicate and contradicting headers, NUL bytes,
 * folded lines and bare line feeds through; here they are refused. And a page
 * of another site that a browser on this machine shows can send requests to
 * loopback: the Host must be one of ours (against DNS rebinding), and Origin
 * and Sec-Fetch-Site must not be foreign, whatever the method. Nothing is
 * concluded from User-Agent.
 *
 * Pure. Sources: RFC 9112 sections 2.2, 3.2, 5, 6.3; RFC 9110 section 7.4;
 * CVE-2025-62593 and CVE-2026-27482 (Ray) show what the lack of it costs.
 */
#ifndef API_GUARD_H
#define API_GUARD_H

#include "api/http/listen.h"
#include "api/http/response.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HEAD_BYTES_MAX = 16384,
    HEAD_HEADERS_MAX = 64,
    HEAD_TARGET_MAX = 2048,
    HEAD_BODY_MAX = 1048576
};

struct head_field {
    const char *name, *value; /* no end needed; may hold any byte */
    size_t name_len, value_len;
};

/* A request's head as the server library read it. */
struct head {
    const char *method, *target, *version;
    size_t fields; /* seen; of those past HEAD_HEADERS_MAX only the number */
    struct head_field field[HEAD_HEADERS_MAX];
    size_t bytes; /* from the method to the empty line, as it arrived */
};

/* True when @head may be routed. Else @out answers it and asks for the
 * connection to be closed (what follows on it cannot be trusted). */
bool guard_check(const struct head *head, const struct listen_address *self,
                 struct response *out);

/* Value of the only field of that name (lower case), or NULL. */
const struct head_field *head_field(const struct head *head, const char *name);

#endif
