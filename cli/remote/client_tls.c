#include "cli/remote/client_tls.h"

#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <gnutls/gnutls.h>

struct client_tls {
    gnutls_session_t session;
    gnutls_certificate_credentials_t trust;
    char *host; /* owned: the session borrows it */
};

static enum err tell(struct fault *f, enum err err, const char *what, int got)
{
    return fault_set(f, err, "%s: %s", what, gnutls_strerror(got));
}

static enum err load_trust(struct client_tls *t, const char *cacert,
                           struct fault *f)
{
    const char *named = cacert ? cacert : getenv("MLTUNE_CACERT");
    int got;

    got = gnutls_certificate_allocate_credentials(&t->trust);
    if (got != 0)
        return tell(f, ERR_NOMEM, "TLS", got);
    if (!named || !*named) {
        gnutls_certificate_set_x509_system_trust(t->trust);
        return ERR_OK;
    }
    got = gnutls_certificate_set_x509_trust_file(t->trust, named,
                                                 GNUTLS_X509_FMT_PEM);
    if (got < 0)
        return fault_set(f, ERR_INVAL,
                         "%.200s (--cacert or MLTUNE_CACERT): no file of "
                         "certificates in PEM form (%s)",
                         named, gnutls_strerror(got));
    return ERR_OK;
}

static bool is_address(const char *host)
{
    unsigned char ip[16];

    return inet_pton(AF_INET, host, ip) == 1 ||
           inet_pton(AF_INET6, host, ip) == 1;
}

static enum err open_session(struct client_tls *t, struct fault *f)
{
    int got = gnutls_init(&t->session,
                          GNUTLS_CLIENT | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL);

    if (got != 0)
        return tell(f, ERR_NOMEM, "TLS", got);
    got = gnutls_set_default_priority(t->session);
    if (got == 0)
        got = gnutls_credentials_set(t->session, GNUTLS_CRD_CERTIFICATE,
                                     t->trust);
    if (got == 0 && !is_address(t->host)) /* RFC 6066, section 3 */
        got = gnutls_server_name_set(t->session, GNUTLS_NAME_DNS, t->host,
                                     strlen(t->host));
    if (got != 0)
        return tell(f, ERR_INVAL, "TLS", got);
    gnutls_session_set_verify_cert(t->session, t->host, 0);
    return ERR_OK;
}

enum err client_tls_new(const char *host, const char *cacert,
                        struct client_tls **out, struct fault *f)
{
    struct client_tls *t = mem_calloc(1, sizeof(*t));
    enum err err;

    assert(host[0]);
    assert(out);
    if (!t)
        return fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    t->host = mem_strdup(host);
    err = t->host ? load_trust(t, cacert, f)
                  : fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    if (!err)
        err = open_session(t, f);
    if (err)
        client_tls_free(t);
    else
        *out = t;
    return err;
}

void client_tls_free(struct client_tls *t)
{
    if (!t)
        return;
    if (t->session)
        gnutls_deinit(t->session);
    if (t->trust)
        gnutls_certificate_free_credentials(t->trust);
    mem_free(t->host);
    mem_free(t);
}

static enum err not_trusted(struct client_tls *t, const char *url,
                            struct fault *f)
{
    unsigned status = gnutls_session_get_verify_cert_status(t->session);
    gnutls_datum_t why = {NULL, 0};
    enum err err;

    gnutls_certificate_verification_status_print(status, GNUTLS_CRT_X509, &why,
                                                 0);
    err = fault_set(f, ERR_NODE,
                    "the server at %.100s is not to be trusted: %.200s Name "
                    "the certificate that vouches for it with --cacert FILE "
                    "or MLTUNE_CACERT",
                    url, why.data ? (const char *)why.data : "");
    gnutls_free(why.data);
    return err;
}

enum err client_tls_greet(struct client_tls *t, int fd, const char *url,
                          struct fault *f)
{
    int got;

    assert(fd >= 0);
    assert(url);
    gnutls_transport_set_int(t->session, fd);
    do
        got = gnutls_handshake(t->session);
    while (got < 0 && got != GNUTLS_E_AGAIN && !gnutls_error_is_fatal(got));
    if (got == GNUTLS_E_SUCCESS)
        return ERR_OK;
    if (got == GNUTLS_E_AGAIN)
        return ERR_AGAIN;
    if (got == GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR)
        return not_trusted(t, url, f);
    return fault_set(f, ERR_NODE,
                     "what answers at %.100s does not speak TLS "
                     "as expected: %s",
                     url, gnutls_strerror(got));
}

/* Bytes, or -1 with errno. */
static ssize_t as_bytes(ssize_t got)
{
    if (got >= 0)
        return got;
    errno = got == GNUTLS_E_AGAIN              ? EAGAIN
            : !gnutls_error_is_fatal((int)got) ? EINTR
                                               : EIO;
    return -1;
}

ssize_t client_tls_send(struct client_tls *t, const void *data, size_t len)
{
    return as_bytes(gnutls_record_send(t->session, data, len));
}

ssize_t client_tls_receive(struct client_tls *t, void *out, size_t size)
{
    return as_bytes(gnutls_record_recv(t->session, out, size));
}

bool client_tls_writes(const struct client_tls *t)
{
    return gnutls_record_get_direction(t->session) == 1;
}
