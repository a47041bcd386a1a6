/* `mltune webhook URL`: sends the event on stdin to a server, signed; started
 * by runs (hooks.url), not by people. */
#include "cli/remote/webhook.h"

#include "apps/formats/data_root.h"
#include "base/deadlines.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/options.h"
#include "cli/basics/verbs.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum { EVENT_BYTES_MAX = 4 * 1024 * 1024 };

/* All of stdin; for mem_free. NULL: it cannot be read, or is too long. */
static char *read_event(void)
{
    struct text t = {0};
    char piece[16384];
    ssize_t n;

    while ((n = read(STDIN_FILENO, piece, sizeof(piece))) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 || text_length(&t) + (size_t)n > EVENT_BYTES_MAX) {
            text_deinit(&t);
            return NULL;
        }
        text_add(&t, piece, (size_t)n);
    }
    return text_take(&t);
}

/* Of a service's run it is data: what leads out of the data folder by now, or
 * into the state folder, is not opened. */
static enum err read_secret(const char *path, char out[WEBHOOK_SECRET_MAX + 1],
                            struct fault *f)
{
    int fd;
    enum err err = data_open(path, false, &fd, f);

    if (err)
        return err;
    err = webhook_secret(fd, path, out, f);
    close(fd);
    return err;
}

static int send(const struct webhook_place *to, const char *secret_path,
                uint64_t seconds, bool any_address, const char *body)
{
    char secret[WEBHOOK_SECRET_MAX + 1];
    const char *event = getenv("MLTUNE_EVENT");
    unsigned attempts = 0;
    const struct webhook w = {.to = to,
                              .secret = secret,
                              .event = event ? event : "",
                              .body = body,
                              .any_address = any_address,
                              .seconds = (double)seconds,
                              .patience_s = DEADLINE_WEBHOOK_MS * 1e-3,
                              .attempts = &attempts};
    struct fault f = {0};
    enum err err = read_secret(secret_path, secret, &f);

    if (!err)
        err = webhook_send(&w, &f);
    if (err) {
        console_error("webhook to %s: not delivered after %u attempt%s: %s",
                      to->base, attempts, attempts == 1 ? "" : "s", f.text);
        return err == ERR_NODE ? EXIT_NO_SERVER : EXIT_RUN_FAILED;
    }
    console_note("webhook to %s: %s delivered, attempt %u", to->base, w.event,
                 attempts);
    return EXIT_DONE;
}

int verb_webhook(int argc, char **argv)
{
    const char *secret = NULL;
    struct option_uint seconds = {.value = DEADLINE_HOOK_MS / 1000};
    bool any_address = false;
    const struct option_spec options[] = {
        {"secret", 0, OPTION_TEXT, "FILE", "what it is signed with", &secret},
        {"seconds", 0, OPTION_UINT, "N", "how long it is tried again",
         &seconds},
        {"private", 0, OPTION_FLAG, NULL,
         "also to addresses that are not public", &any_address},
    };
    const struct usage usage = {.verb = "webhook",
                                .operands = "URL",
                                .details = "",
                                .operands_min = 1,
                                .operands_max = 1,
                                .n = sizeof(options) / sizeof(*options),
                                .option = options};
    struct operands operands;
    struct webhook_place to;
    struct fault f = {0};
    char *body;
    int code = options_parse(&usage, argc, argv, &operands);

    if (code != OPTIONS_GO_ON)
        return code;
    if (!secret || seconds.value < 1 ||
        webhook_split(operands_at(&operands, 0), &to, &f) != ERR_OK) {
        console_error("%s", f.text[0] ? f.text
                                      : "expected --secret FILE, and 1 second "
                                        "or more");
        return EXIT_USAGE;
    }
    body = read_event();
    if (!body) {
        console_error("webhook: the event cannot be read");
        return EXIT_IO;
    }
    code = send(&to, secret, seconds.value, any_address, body);
    mem_free(body);
    return code;
}
