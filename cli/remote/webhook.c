#include "cli/remote/webhook.h"

#include "base/mem.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- where to ------------------------------------------------------------ */

enum err webhook_split(const char *url, struct webhook_place *out,
                       struct fault *f)
{
    static const char scheme[] = "https://";
    const char *host = url + sizeof(scheme) - 1, *path, *end;
    size_t n, len;

    if (strncasecmp(url, scheme, sizeof(scheme) - 1) != 0)
        goto wrong;
    path = host + strcspn(host, "/?#");
    n = (size_t)(path - host);
    if (n == 0 || n + sizeof(scheme) + 1 > sizeof(out->base) ||
        host[strcspn(host, "@#\\ \"<>")] || (*path && *path != '/') ||
        strlen(path) >= sizeof(out->target))
        goto wrong;
    for (const char *s = url; *s; s++)
        if (*s <= ' ' || *s > '~')
            goto wrong;
    end = *host == '[' ? strchr(host, ']') : NULL;
    end = end && end < path ? end + 1 : host + strcspn(host, ":/");
    len = (size_t)(end - host);
    snprintf(out->base, sizeof(out->base), "%s%.*s/", scheme, (int)n, host);
    snprintf(out->target, sizeof(out->target), "%s", *path ? path : "/");
    snprintf(out->host, sizeof(out->host), "%.*s", (int)len, host);
    for (char *s = out->host; *s; s++)
        *s = (char)tolower((unsigned char)*s);
    return ERR_OK;

wrong:
    return fault_set(f, ERR_INVAL,
                     "\"%.100s\" is no address of a webhook: expected "
                     "https://HOST[:PORT]/PATH",
                     url);
}

/* ---- the signature ------------------------------------------------------- */

enum err webhook_secret(int fd, const char *path,
                        char out[WEBHOOK_SECRET_MAX + 1], struct fault *f)
{
    char text[WEBHOOK_SECRET_MAX + 2];
    struct stat st;
    ssize_t n;

    assert(fd >= 0 && out);
    if (fstat(fd, &st) != 0)
        return fault_errno(f, ERR_IO, errno, "read %.200s", path);
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077))
        return fault_set(f, ERR_INVAL,
                         "%.200s must be a file of yours that nobody else can "
                         "read: chmod 600 it",
                         path);
    n = read(fd, text, sizeof(text) - 1);
    if (n < 0)
        return fault_errno(f, ERR_IO, errno, "read %.200s", path);
    text[n] = '\0';
    text[strcspn(text, "\r\n")] = '\0';
    if (strlen(text) < WEBHOOK_SECRET_MIN || strlen(text) > WEBHOOK_SECRET_MAX)
        return fault_set(f, ERR_INVAL,
                         "%.200s: a secret has %d to %d characters in one line",
                         path, WEBHOOK_SECRET_MIN, WEBHOOK_SECRET_MAX);
    memcpy(out, text, strlen(text) + 1);
    return ERR_OK;
}

enum err webhook_sign(const char *secret, int64_t unix_s, const char *body,
                      char out[WEBHOOK_SIGNATURE_MAX])
{
    unsigned char digest[32];
    gnutls_hmac_hd_t h;
    char begin[32];
    int n = snprintf(begin, sizeof(begin), "%lld.", (long long)unix_s);

    assert(secret[0]);
    if (gnutls_hmac_init(&h, GNUTLS_MAC_SHA256, secret, strlen(secret)) != 0)
        return ERR_UNSUPPORTED;
    gnutls_hmac(h, begin, (size_t)n);
    gnutls_hmac(h, body, strlen(body));
    gnutls_hmac_deinit(h, digest);
    n = snprintf(out, WEBHOOK_SIGNATURE_MAX, "t=%lld,v1=", (long long)unix_s);
    for (size_t i = 0; i < sizeof(digest); i++)
        n += snprintf(out + n, WEBHOOK_SIGNATURE_MAX - (size_t)n, "%02x",
                      digest[i]);
    return ERR_OK;
}

/* ---- sending ------------------------------------------------------------- */

bool webhook_may_pass(int status)
{
    return status == 408 || status == 425 || status == 429 || status >= 500;
}

static enum err judge(int status, struct fault *f)
{
    if (status >= 200 && status < 300)
        return ERR_OK;
    if (status >= 300 && status < 400)
        return fault_set(f, ERR_INVAL,
                         "it answers %d: redirects are not followed", status);
    return fault_set(f, webhook_may_pass(status) ? ERR_NODE : ERR_INVAL,
                     "it answers %d", status);
}

/* The same in each attempt for one event: by it the server knows one that comes
 * twice. */
static enum err name_delivery(const struct webhook *w,
                              char out[WEBHOOK_SIGNATURE_MAX])
{
    enum err err = webhook_sign(w->secret, 0, w->body, out);

    if (!err) { /* "t=0,v1=" goes, half of the digest stays */
        memmove(out, out + 7, 32);
        out[32] = '\0';
    }
    return err;
}

static enum err attempt(const struct webhook *w, const char *delivery,
                        double left_s, struct fault *f)
{
    char signature[WEBHOOK_SIGNATURE_MAX], headers[256];
    double patience = w->patience_s < left_s ? w->patience_s : left_s;
    const struct client_request q = {.url = w->to->base,
                                     .method = "POST",
                                     .target = w->to->target,
                                     .body = w->body,
                                     .key = delivery,
                                     .headers = headers,
                                     .public_only = !w->any_address,
                                     .head_alone = true,
                                     .patience_s = patience};
    struct client_exchange x;
    const char *body;
    size_t len;
    int status = 0;
    enum err err =
        webhook_sign(w->secret, (int64_t)time(NULL), w->body, signature);

    if (err)
        return fault_set(f, err, "%s", err_text(err));
    snprintf(headers, sizeof(headers),
             "User-Agent: mltune\r\nX-Mltune-Event: %.32s\r\n"
             "X-Mltune-Signature: %s\r\n",
             w->event, signature);
    err = client_open(&q, &x, f);
    if (err)
        return err;
    err = client_wait(&x, &status, &body, &len, f);
    client_close(&x);
    if (err == ERR_FORMAT) /* no HTTP, or too long: it may be mended */
        err = fault_set(f, ERR_NODE, "what answers there speaks no HTTP");
    return err ? err : judge(status, f);
}

static void pause_s(double seconds)
{
    const struct timespec t = {
        (time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};

    nanosleep(&t, NULL);
}

enum err webhook_send(const struct webhook *w, struct fault *f)
{
    char delivery[WEBHOOK_SIGNATURE_MAX];
    double end = (double)clock_monotonic() * 1e-9 + w->seconds, left;
    double rest = 1;
    enum err err = name_delivery(w, delivery);

    assert(w->seconds > 0 && w->patience_s > 0);
    for (*w->attempts = 0; !err || err == ERR_NODE;
         rest = rest * 2 < WEBHOOK_PAUSE_MAX_S ? rest * 2
                                               : WEBHOOK_PAUSE_MAX_S) {
        left = end - (double)clock_monotonic() * 1e-9;
        if (left <= 0)
            return err;
        *w->attempts += 1;
        err = attempt(w, delivery, left, f);
        if (err != ERR_NODE)
            return err;
        left = end - (double)clock_monotonic() * 1e-9;
        if (left <= rest)
            return err;
        pause_s(rest);
    }
    return fault_set(f, err, "%s", err_text(err));
}
