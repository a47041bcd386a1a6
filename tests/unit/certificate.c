#include "tests/unit/certificate.h"
#include "tests/unit/check.h"
#include "tests/unit/scratch.h"

#include <time.h>

#include <arpa/inet.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <sys/stat.h>

static void add_name(gnutls_x509_crt_t cert, const char *name)
{
    unsigned char ip[4];

    if (inet_pton(AF_INET, name, ip) == 1)
        assert_int_equal(
            gnutls_x509_crt_set_subject_alt_name(
                cert, GNUTLS_SAN_IPADDRESS, ip, sizeof(ip), GNUTLS_FSAN_APPEND),
            0);
    else
        assert_int_equal(gnutls_x509_crt_set_subject_alt_name(
                             cert, GNUTLS_SAN_DNSNAME, name,
                             (unsigned)strlen(name), GNUTLS_FSAN_APPEND),
                         0);
}

static void write_pem(const char *name, const gnutls_datum_t *pem)
{
    scratch_write(name, pem->data, pem->size);
    assert_int_equal(chmod(scratch_path(name), 0600), 0);
}

void certificate_make(const char *const names[])
{
    gnutls_x509_privkey_t key;
    gnutls_x509_crt_t cert;
    gnutls_datum_t pem;
    time_t now = time(NULL);

    assert_int_equal(gnutls_x509_privkey_init(&key), 0);
    assert_int_equal(gnutls_x509_privkey_generate(
                         key, GNUTLS_PK_ECDSA,
                         GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0),
                     0);
    assert_int_equal(gnutls_x509_crt_init(&cert), 0);
    assert_int_equal(gnutls_x509_crt_set_version(cert, 3), 0);
    assert_int_equal(gnutls_x509_crt_set_serial(cert, "\1", 1), 0);
    assert_int_equal(gnutls_x509_crt_set_dn(cert, "CN=mltune test", NULL), 0);
    for (size_t i = 0; names[i]; i++)
        add_name(cert, names[i]);
    gnutls_x509_crt_set_activation_time(cert, now - 86400);
    gnutls_x509_crt_set_expiration_time(cert, now + 86400);
    assert_int_equal(gnutls_x509_crt_set_key(cert, key), 0);
    assert_int_equal(
        gnutls_x509_crt_sign2(cert, cert, key, GNUTLS_DIG_SHA256, 0), 0);
    assert_int_equal(gnutls_x509_crt_export2(cert, GNUTLS_X509_FMT_PEM, &pem),
                     0);
    write_pem("cert.pem", &pem);
    gnutls_free(pem.data);
    assert_int_equal(
        gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &pem), 0);
    write_pem("key.pem", &pem);
    gnutls_free(pem.data);
    gnutls_x509_crt_deinit(cert);
    gnutls_x509_privkey_deinit(key);
}
