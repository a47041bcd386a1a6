#include "api/listen.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

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

static enum err refuse_remote(struct fault *f, const char *text)
{
    return fault_set(f, ERR_UNSUPPORTED,
                     "will not listen on \"%.64s\": other machines could reach "
                     "it, which needs a token and TLS, and this version has "
                     "neither; listen on 127.0.0.1 and forward the port "
                     "(ssh -L 8080:127.0.0.1:8080 THIS_MACHINE)",
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
            return bracketed ? malformed(f, text) : refuse_remote(f, text);
        if (!is_loopback(&a))
            return refuse_remote(f, text);
    }
    *out = a;
    return ERR_OK;
}
