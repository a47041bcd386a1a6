#include "api/http/listen.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <arpa/inet.h>

static enum err malformed(struct fault *f, const char *text)
{
    return fault_set(f, ERR_INVAL,
                     "cannot listen on \"%.64s\": expected HOST:PORT such as "
                     "127.0.0.1:8080 or [::1]:8080 (port 0: any free one)",
                     text);
}

static bool port_parse(const char *s, uint16_t *out)
{
    unsigned long n = 0;
    size_t digits = 0;

    for (; s[digits] >= '0' && s[digits] <= '9'; digits++) {
        if (digits == 5)
            return false;
        n = n * 10 + (unsigned long)(s[digits] - '0');
    }
    if (digits == 0 || s[digits] || n > UINT16_MAX)
        return false;
    *out = (uint16_t)n;
    return true;
}

static enum err not_an_address(struct fault *f, const char *text)
{
    return fault_set(f, ERR_INVAL,
                     "cannot listen on \"%.64s\": expected HOST:PORT with an "
                     "address of this machine such as 127.0.0.1, 192.168.1.7 "
                     "or 0.0.0.0 (all), not a name",
                     text);
}

static bool is_loopback(const struct listen_address *a)
{
    static const uint8_t one[16] = {[15] = 1};

    return a->ipv6 ? memcmp(a->ip, one, sizeof(one)) == 0 : a->ip[0] == 127;
}

/* @host without brackets; @bracketed says whether it had some. */
static bool ip_parse(const char *host, bool bracketed,
                     struct listen_address *out)
{
    char ip[INET6_ADDRSTRLEN];

    if (!bracketed && strcmp(host, "localhost") == 0)
        host = "127.0.0.1";
    out->ipv6 = bracketed;
    if (inet_pton(bracketed ? AF_INET6 : AF_INET, host, out->ip) != 1)
        return false;
    /* Written back, so that [0:0::1] is what browsers call it, [::1]. */
    if (!inet_ntop(bracketed ? AF_INET6 : AF_INET, out->ip, ip, sizeof(ip)))
        return false;
    snprintf(out->host, sizeof(out->host), bracketed ? "[%.45s]" : "%.45s", ip);
    return true;
}

/* Splits "HOST:PORT" into @host (LISTEN_HOST_MAX bytes) and the port's text,
 * NULL where there is none. False: malformed. */
static bool split(const char *text, char *host, bool *bracketed,
                  const char **port)
{
    size_t n;

    *bracketed = text[0] == '[';
    if (*bracketed) {
        text++;
        n = strcspn(text, "]");
        if (text[n] != ']' || (text[n + 1] && text[n + 1] != ':'))
            return false;
        *port = text[n + 1] ? text + n + 2 : NULL;
    } else {
        n = strcspn(text, ":");
        *port = text[n] ? text + n + 1 : NULL;
    }
    /* Digits alone are a port, which it was found not to be. */
    if (n == 0 || n >= LISTEN_HOST_MAX || strspn(text, "0123456789") == n)
        return false;
    memcpy(host, text, n);
    host[n] = '\0';
    return true;
}

enum err listen_parse(const char *text, struct listen_address *out,
                      struct fault *f)
{
    struct listen_address a = {.ip = {127, 0, 0, 1}, .host = "127.0.0.1"};
    char host[LISTEN_HOST_MAX];
    const char *port;
    bool bracketed;

    assert(out);
    if (text && text[0] && !port_parse(text, &a.port)) {
        if (!split(text, host, &bracketed, &port) ||
            (port && !port_parse(port, &a.port)))
            return malformed(f, text);
        /* A name that is no address may be any machine's. */
        if (!ip_parse(host, bracketed, &a))
            return bracketed ? malformed(f, text) : not_an_address(f, text);
    }
    a.loopback = is_loopback(&a);
    *out = a;
    return ERR_OK;
}

enum err listen_check(const struct listen_address *a, bool token, bool tls,
                      struct fault *f)
{
    assert(a->host[0]);
    if (a->loopback || (token && tls))
        return ERR_OK;
    return fault_set(f, ERR_UNSUPPORTED,
                     "will not listen on %s: other machines could reach it, "
                     "which needs %s; or listen on 127.0.0.1 and forward the "
                     "port (ssh -L 8080:127.0.0.1:8080 THIS_MACHINE)",
                     a->host,
                     tls     ? "a token"
                     : token ? "TLS: a certificate and its key (--tls-cert, "
                               "--tls-key, or api.tls in the configuration)"
                             : "a token and TLS");
}

/* ---- names --------------------------------------------------------------- */

static bool same(const char *name, const char *host, size_t len)
{
    return strlen(name) == len && strncasecmp(name, host, len) == 0;
}

/* RFC 6125, section 6.4.3: the star is one whole label, the leftmost. */
static bool matches(const char *name, const char *host, size_t len)
{
    const char *dot;

    if (strncmp(name, "*.", 2) != 0)
        return same(name, host, len);
    dot = memchr(host, '.', len);
    return dot && dot > host && same(name + 1, dot, len - (size_t)(dot - host));
}

/* @host without its port; false: the port is another one. */
static bool strip_port(const struct listen_address *a, const char *host,
                       size_t *len)
{
    char port[8];
    size_t n;

    n = (size_t)snprintf(port, sizeof(port), ":%u", (unsigned)a->port);
    if (*len > n && memcmp(host + *len - n, port, n) == 0)
        *len -= n;
    else if (a->port != (a->tls ? 443 : 80))
        return false;
    return true;
}

bool listen_is_self(const struct listen_address *a, const char *host,
                    size_t len)
{
    static const char *const loopback[] = {"localhost", "127.0.0.1", "[::1]"};

    assert(host || len == 0);
    if (!strip_port(a, host, &len))
        return false;
    for (size_t i = 0; i < sizeof(loopback) / sizeof(*loopback); i++)
        if (same(loopback[i], host, len))
            return true;
    for (size_t i = 0; i < a->names; i++)
        if (matches(a->name[i], host, len))
            return true;
    return same(a->host, host, len);
}

static bool is_any(const struct listen_address *a)
{
    static const uint8_t zero[16];

    return memcmp(a->ip, zero, a->ipv6 ? 16 : 4) == 0;
}

/* A client checks the name in the url against the certificate, so it is one of
 * those where the address itself is not. */
void listen_url(const struct listen_address *a, char out[LISTEN_URL_MAX])
{
    const char *host = is_any(a) ? "localhost" : a->host;

    for (size_t i = 0; i < a->names; i++)
        if (same(a->name[i], host, strlen(host)))
            goto known;
    for (size_t i = 0; i < a->names; i++)
        if (a->name[i][0] != '*') {
            host = a->name[i];
            break;
        }
known:
    snprintf(out, LISTEN_URL_MAX, "%s://%s:%u/", a->tls ? "https" : "http",
             host, (unsigned)a->port);
}
