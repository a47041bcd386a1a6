#include "cli/state/address_io.h"

#include "base/file_io.h"
#include "base/mem.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BOOT_MAX = 64, TEXT_MAX = CLIENT_URL_MAX + BOOT_MAX + 16 };

/* Which boot of which machine this is; "": the system does not say. */
static void read_boot(char out[BOOT_MAX])
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, out, BOOT_MAX - 1);

    if (fd >= 0)
        close(fd);
    out[n > 0 ? n : 0] = '\0';
    out[strcspn(out, "\n")] = '\0';
}

/* The second line of who has no socket here and now; false: none can be
 * written. */
static bool line_of(char out[TEXT_MAX])
{
    char boot[BOOT_MAX];

    read_boot(boot);
    snprintf(out, TEXT_MAX, "no socket %s", boot);
    return boot[0];
}

enum err address_write(const char *path, const char *url, bool socket,
                       struct fault *f)
{
    char text[2 * TEXT_MAX], line[TEXT_MAX] = "";

    assert(strlen(url) < CLIENT_URL_MAX);
    if (socket || !line_of(line))
        snprintf(text, sizeof(text), "%s", url);
    else
        snprintf(text, sizeof(text), "%s\n%s\n", url, line);
    return file_write(path, text, strlen(text), f);
}

enum err address_read(const char *path, char url[CLIENT_URL_MAX], bool *socket,
                      struct fault *f)
{
    char *text = NULL, line[TEXT_MAX];
    const char *rest;
    size_t len, n;
    enum err err = file_read(path, TEXT_MAX, &text, &len, f);

    assert(socket);
    if (err)
        return err;
    n = strcspn(text, "\n");
    if (n >= CLIENT_URL_MAX) {
        mem_free(text);
        return fault_set(f, ERR_LIMIT, "%s: the address is too long", path);
    }
    memcpy(url, text, n);
    url[n] = '\0';
    rest = text + n + (text[n] == '\n');
    *socket = !line_of(line) || strncmp(rest, line, strlen(line)) != 0 ||
              strcmp(rest + strlen(line), "\n") != 0;
    mem_free(text);
    return ERR_OK;
}
