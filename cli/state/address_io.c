#include "cli/state/address_io.h"

#include "base/file_io.h"
#include "base/mem.h"

#include "cli/state/serve.h"
#include "tuner/shell/state_io.h"

#include <assert.h>
#include <dirent.h>
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

/* Length of an address without the slash at its end. */
static size_t bare_len(const char *url)
{
    size_t n = strlen(url);

    return n > 0 && url[n - 1] == '/' ? n - 1 : n;
}

/* Whether the file DIR/@name holds that address. */
static bool holds(const char *dir, const char *name, const char *url)
{
    char path[FILE_PATH_MAX], own[CLIENT_URL_MAX];
    bool has;

    return file_join(path, dir, name, NULL) == ERR_OK &&
           address_read(path, own, &has, NULL) == ERR_OK &&
           bare_len(own) == bare_len(url) &&
           strncmp(own, url, bare_len(url)) == 0;
}

static bool service_is(const char *state, const char *url)
{
    char lock[FILE_PATH_MAX];

    return holds(state, SERVE_URL, url) &&
           file_join(lock, state, SERVE_LOCK, NULL) == ERR_OK &&
           file_locked(lock, NULL);
}

static bool a_run_is(const char *state, const char *url)
{
    char runs[FILE_PATH_MAX], name[RUN_ID_MAX + 8];
    const struct dirent *entry;
    bool found = false;
    DIR *d;

    if (file_join(runs, state, "runs", NULL) != ERR_OK || !(d = opendir(runs)))
        return false;
    while (!found && (entry = readdir(d))) {
        if (!run_id_valid(entry->d_name))
            continue;
        snprintf(name, sizeof(name), "%.*s/url", RUN_ID_MAX, entry->d_name);
        found =
            holds(runs, name, url) && run_folder_alive(state, entry->d_name);
    }
    closedir(d);
    return found;
}

bool address_is_own(const char *state, const char *url)
{
    assert(state && url);
    return service_is(state, url) || a_run_is(state, url);
}
