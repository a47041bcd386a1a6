/* Any bytes as a server's certificate and, behind a zero byte, its key: refused
 * with the file's name, or both are there, and the names in the certificate are
 * such as a Host may have. The files are in memory. */
#include "api/http/tls_io.h"
#include "base/log.h"
#include "base/mem.h"
#include "tests/fuzz/must.h"

#include <gnutls/gnutls.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct memory_file {
    int fd;
    char path[32];
};

static void put(struct memory_file *file, const void *bytes, size_t n)
{
    if (!file->path[0]) {
        file->fd = memfd_create("fuzz_tls", MFD_CLOEXEC);
        must(file->fd >= 0 && fchmod(file->fd, 0600) == 0);
        snprintf(file->path, sizeof(file->path), "/proc/self/fd/%d", file->fd);
    }
    must(ftruncate(file->fd, 0) == 0);
    must(n == 0 || pwrite(file->fd, bytes, n, 0) == (ssize_t)n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct memory_file cert, key;
    const uint8_t *end = size ? memchr(data, 0, size) : NULL;
    size_t n = end ? (size_t)(end - data) : size;
    struct listen_address self = {0};
    struct tls_identity t;
    struct fault f = {0};
    int64_t before;
    enum err err;

    gnutls_global_init();
    log_set_level(LOG_ERROR);
    put(&cert, data, n);
    put(&key, end ? end + 1 : NULL, end ? size - n - 1 : 0);
    before = mem_outstanding();
    err = tls_identity_load(cert.path, key.path, &t, &self, &f);
    if (err) {
        must(f.code == err && strstr(f.text, "/proc/self/fd/"));
    } else {
        must(t.cert && t.key && self.tls);
        must(self.names <= LISTEN_NAMES_MAX);
        for (unsigned i = 0; i < self.names; i++)
            must(strlen(self.name[i]) < LISTEN_NAME_MAX);
    }
    tls_identity_deinit(&t);
    must(mem_outstanding() == before);
    return 0;
}
