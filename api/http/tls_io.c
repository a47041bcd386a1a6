#include "api/http/tls_io.h"

#include "base/log.h"
#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PEM_BYTES_MAX = 256 * 1024, CHAIN_MAX = 16 };

/* ---- files --------------------------------------------------------------- */

/* Debian keeps keys in /etc/ssl/private, root's and open to the group ssl-cert.
 */
static bool is_private(const struct stat *st)
{
    if (st->st_uid == 0 && geteuid() != 0)
        return (st->st_mode & 027) == 0;
    return st->st_uid == geteuid() && (st->st_mode & 077) == 0;
}

static enum err read_all(int fd, const char *path, char **out, struct fault *f)
{
    char *text = mem_alloc(PEM_BYTES_MAX + 1);
    size_t len = 0;
    ssize_t n = 1;

    if (!text)
        return fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    while (n > 0 && len <= PEM_BYTES_MAX) {
        n = read(fd, text + len, PEM_BYTES_MAX + 1 - len);
        if (n < 0) {
            mem_free(text);
            return fault_errno(f, ERR_IO, errno, "read %s", path);
        }
        len += (size_t)n;
    }
    if (len > PEM_BYTES_MAX) {
        mem_free(text);
        return fault_set(f, ERR_INVAL,
                         "%s: longer than %d bytes, which no "
                         "certificate or key is",
                         path, PEM_BYTES_MAX);
    }
    text[len] = '\0';
    *out = text;
    return ERR_OK;
}

static enum err read_pem(const char *path, bool secret, char **out,
                         struct fault *f)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    enum err err = ERR_OK;

    if (fd < 0)
        return fault_errno(f, ERR_IO, errno, "read %s", path);
    if (fstat(fd, &st) != 0)
        err = fault_errno(f, ERR_IO, errno, "read %s", path);
    else if (!S_ISREG(st.st_mode))
        err = fault_set(f, ERR_INVAL, "%s is no file", path);
    else if (secret && !is_private(&st))
        err = fault_set(f, ERR_INVAL,
                        "%s: the key must be a file of yours that nobody else "
                        "can read: chmod 600 it",
                        path);
    if (!err)
        err = read_all(fd, path, out, f);
    close(fd);
    return err;
}

/* ---- what is in them ----------------------------------------------------- */

/* An address as in a url. */
static bool write_ip(const unsigned char *ip, size_t len, char *out,
                     size_t size)
{
    char text[INET6_ADDRSTRLEN];

    if ((len != 4 && len != 16) ||
        !inet_ntop(len == 4 ? AF_INET : AF_INET6, ip, text, sizeof(text)))
        return false;
    snprintf(out, size, len == 4 ? "%s" : "[%s]", text);
    return true;
}

/* Takes those of the subject's alternative names that a url can have. One that
 * does not fit is left out: nobody is let in by that. */
static void take_names(gnutls_x509_crt_t cert, struct listen_address *self)
{
    for (unsigned i = 0; self->names < LISTEN_NAMES_MAX; i++) {
        char *name = self->name[self->names];
        char text[LISTEN_NAME_MAX];
        size_t len = sizeof(text) - 1;
        int kind =
            gnutls_x509_crt_get_subject_alt_name(cert, i, text, &len, NULL);

        /* One that is too long is no name of ours; after any other error there
         * may be no end. */
        if (kind == GNUTLS_E_SHORT_MEMORY_BUFFER)
            continue;
        if (kind < 0)
            break;
        if (kind == GNUTLS_SAN_DNSNAME && len > 0) {
            snprintf(name, LISTEN_NAME_MAX, "%.*s", (int)len, text);
            self->names++;
        } else if (kind == GNUTLS_SAN_IPADDRESS &&
                   write_ip((unsigned char *)text, len, name,
                            LISTEN_NAME_MAX)) {
            self->names++;
        }
    }
}

static void say_when(gnutls_x509_crt_t cert, const char *path)
{
    time_t now = time(NULL);

    if (now < gnutls_x509_crt_get_activation_time(cert) ||
        now > gnutls_x509_crt_get_expiration_time(cert))
        log_event(LOG_WARN, "tls_certificate_out_of_date", "file=%s", path);
}

static enum err check_cert(const char *path, const char *pem,
                           struct listen_address *self, struct fault *f)
{
    gnutls_datum_t data = {(unsigned char *)pem, (unsigned)strlen(pem)};
    gnutls_x509_crt_t chain[CHAIN_MAX];
    unsigned n = CHAIN_MAX;
    int got =
        gnutls_x509_crt_list_import(chain, &n, &data, GNUTLS_X509_FMT_PEM, 0);

    if (got < 1)
        return fault_set(f, ERR_INVAL, "%s: no certificate in PEM form (%s)",
                         path, gnutls_strerror(got));
    take_names(chain[0], self);
    say_when(chain[0], path);
    for (int i = 0; i < got; i++)
        gnutls_x509_crt_deinit(chain[i]);
    return ERR_OK;
}

/* Checks that the key is the certificate's, as the library will find it. */
static enum err check_pair(const char *cert_path, const char *key_path,
                           const struct tls_identity *t, struct fault *f)
{
    gnutls_datum_t cert = {(unsigned char *)t->cert, (unsigned)strlen(t->cert)};
    gnutls_datum_t key = {(unsigned char *)t->key, (unsigned)strlen(t->key)};
    gnutls_certificate_credentials_t pair;
    int got = gnutls_certificate_allocate_credentials(&pair);

    if (got != 0)
        return fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    got = gnutls_certificate_set_x509_key_mem(pair, &cert, &key,
                                              GNUTLS_X509_FMT_PEM);
    gnutls_certificate_free_credentials(pair);
    if (got >= 0)
        return ERR_OK;
    if (got == GNUTLS_E_CERTIFICATE_KEY_MISMATCH)
        return fault_set(f, ERR_INVAL,
                         "%s is not the key of the certificate "
                         "in %s",
                         key_path, cert_path);
    return fault_set(f, ERR_INVAL,
                     "%s: no key in PEM form without a password (%s)", key_path,
                     gnutls_strerror(got));
}

enum err tls_identity_load(const char *cert, const char *key,
                           struct tls_identity *out,
                           struct listen_address *self, struct fault *f)
{
    struct tls_identity t = {0};
    enum err err;

    assert(out);
    assert(self);
    *out = t;
    if (!cert && !key)
        return ERR_OK;
    if (!cert || !key)
        return fault_set(f, ERR_INVAL,
                         "TLS needs a certificate and its key; only the %s is "
                         "named",
                         cert ? "certificate" : "key");
    err = read_pem(cert, false, &t.cert, f);
    if (!err)
        err = read_pem(key, true, &t.key, f);
    if (!err) {
        assert(t.cert && t.key);
        err = check_cert(cert, t.cert, self, f);
    }
    if (!err)
        err = check_pair(cert, key, &t, f);
    if (err) {
        tls_identity_deinit(&t);
        return err;
    }
    self->tls = true;
    *out = t;
    return ERR_OK;
}

void tls_identity_deinit(struct tls_identity *t)
{
    if (t->key)
        explicit_bzero(t->key, strlen(t->key));
    mem_free(t->key);
    mem_free(t->cert);
    *t = (struct tls_identity){NULL, NULL};
}
