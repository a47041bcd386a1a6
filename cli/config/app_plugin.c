#include "cli/config/app_plugin.h"

#include "base/clock_io.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "base/subprocess_io.h"
#include "base/text.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { WORDS_MAX = 256 };

const struct registry_entry app_plugin_entry = {
    .kind = REGISTRY_APP,
    .name = APP_PLUGIN_ENTRY,
    .summary = "an application of your own, as a shared object",
    .settings =
        "{\"required\": [\"plugin\"], \"additionalProperties\": true,"
        " \"properties\": {"
        "\"plugin\": {\"type\": \"string\", \"minLength\": 1,"
        " \"maxLength\": 4000, \"description\": "
        "\"the shared object (mltune/app.h), from the configuration's folder "
        "or in MLTUNE_PLUGIN_PATH\"},"
        "\"name\": {\"type\": \"string\", \"minLength\": 1, \"maxLength\": 63,"
        " \"description\": \"what it is called; as it calls itself unless "
        "given\"}}}",
    .hidden = true};

/* ---- what it says of itself ---------------------------------------------- */

void app_plugin_free(struct app_plugin *p)
{
    if (!p)
        return;
    json_decref(p->about);
    mem_free(p->settings);
    mem_free(p);
}

/* Its schema with what the configuration says beside its settings. */
static enum err make_settings(struct app_plugin *p)
{
    static const char *const also[] = {"name", "plugin"};
    json_t *schema = json_object_get(p->about, "schema");
    json_t *own = json_object_get(schema, "properties");
    int failed = 0;

    if (!json_is_object(own)) {
        own = json_object();
        failed |= json_object_set_new(schema, "properties", own);
    }
    for (size_t i = 0; i < sizeof(also) / sizeof(*also) && !failed; i++)
        if (!json_object_get(own, also[i]))
            failed |= json_object_set_new(own, also[i],
                                          json_pack("{s:s}", "type", "string"));
    if (!failed)
        p->settings = json_write(schema, 0);
    return p->settings ? ERR_OK : ERR_NOMEM;
}

static bool take_members(struct app_plugin *p)
{
    const json_t *tunables = json_object_get(p->about, "tunables"), *one;
    size_t i;

    p->entry.name = json_string_value(json_object_get(p->about, "name"));
    p->entry.summary = json_string_value(json_object_get(p->about, "summary"));
    if (!p->entry.name || !p->entry.summary || !json_is_array(tunables) ||
        !json_is_object(json_object_get(p->about, "schema")) ||
        json_array_size(tunables) >= sizeof(p->tunables) / sizeof(*p->tunables))
        return false;
    json_array_foreach((json_t *)tunables, i, one)
    {
        p->tunables[i] = json_string_value(one);
        if (!p->tunables[i])
            return false;
    }
    return true;
}

/* Errors: the one that the process has told. */
static enum err told_error(const json_t *about, const char *path,
                           struct fault *f)
{
    const char *code = json_string_value(json_object_get(about, "code"));
    const char *error = json_string_value(json_object_get(about, "error"));
    enum err err = ERR_APP;

    if (!error)
        return ERR_OK;
    for (int e = ERR_OK + 1; code && e < ERR_COUNT; e++)
        if (strcmp(err_name((enum err)e), code) == 0)
            err = (enum err)e;
    return strstr(error, path) ? fault_set(f, err, "%s", error)
                               : fault_set(f, err, "%s: %s", path, error);
}

enum err app_plugin_read(const char *path, const char *text, size_t len,
                         struct app_plugin **out, struct fault *f)
{
    struct app_plugin *p = mem_calloc(1, sizeof(*p));
    enum err err;

    assert(path);
    assert(out);
    if (!p)
        return fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    err = json_load(text, len, &p->about, NULL, NULL);
    if (err == ERR_OK)
        err = told_error(p->about, path, f);
    else if (err != ERR_NOMEM)
        err = fault_set(f, ERR_APP, "%s: its process has not said what it is",
                        path);
    if (!err && !take_members(p))
        err = fault_set(f, ERR_APP, "%s: its process has said nonsense", path);
    if (!err)
        err = make_settings(p);
    if (err) {
        if (err == ERR_NOMEM)
            fault_set(f, err, "%s", err_text(err));
        app_plugin_free(p);
        return err;
    }
    p->entry.kind = REGISTRY_APP;
    p->entry.settings = p->settings;
    p->entry.tunables = p->tunables;
    p->entry.hidden = true;
    *out = p;
    return ERR_OK;
}

/* ---- the process --------------------------------------------------------- */

/* Words that come from it: its answer, and what it prints. */
struct hearsay {
    struct text out;
    char words[WORDS_MAX]; /* the end of the other one */
    size_t words_len;
};

static void keep_words(struct hearsay *s, const char *bytes, size_t n)
{
    size_t keep, space = sizeof(s->words) - 1;

    if (n > space) {
        bytes += n - space;
        n = space;
    }
    keep = s->words_len + n > space ? space - n : s->words_len;
    memmove(s->words, s->words + s->words_len - keep, keep);
    memcpy(s->words + keep, bytes, n);
    s->words_len = keep + n;
    s->words[s->words_len] = '\0';
}

/* False at its end. */
static bool take(struct hearsay *s, int fd, bool words)
{
    char bytes[4096];
    ssize_t n = read(fd, bytes, sizeof(bytes));

    if (n < 0)
        return errno == EINTR || errno == EAGAIN;
    if (words)
        keep_words(s, bytes, (size_t)n);
    else if (s->out.len <= APP_PLUGIN_BYTES_MAX)
        text_add(&s->out, bytes, (size_t)n);
    return n > 0;
}

/* Reads until it has closed both, or the time is up. False: it is. */
static bool read_both(struct hearsay *s, const int fd[2])
{
    struct pollfd item[2] = {{.fd = fd[0], .events = POLLIN},
                             {.fd = fd[1], .events = POLLIN}};
    time_ns end = clock_monotonic() + (time_ns)APP_PLUGIN_MS * 1000000;

    while (item[0].fd >= 0 || item[1].fd >= 0) {
        time_ns left = end - clock_monotonic();

        if (left <= 0)
            return false;
        if (poll(item, 2, (int)(left / 1000000) + 1) <= 0)
            continue;
        for (int i = 0; i < 2; i++)
            if (item[i].fd >= 0 && item[i].revents && !take(s, fd[i], i == 1))
                item[i].fd = -1;
    }
    return true;
}

static enum err judge(const char *path, const struct subprocess *p,
                      struct hearsay *s, struct app_plugin **out,
                      struct fault *f)
{
    char verdict[64];

    if (p->code >= 0 && s->out.len > APP_PLUGIN_BYTES_MAX)
        return fault_set(f, ERR_APP, "%s says more than %d bytes of itself",
                         path, APP_PLUGIN_BYTES_MAX);
    if (p->code >= 0 && s->out.s)
        return app_plugin_read(path, s->out.s, s->out.len, out, f);
    subprocess_verdict(p, verdict, sizeof(verdict));
    text_clean(s->words);
    return fault_set(f, ERR_APP,
                     "%s: a process that loaded it, to see what it is, %s%s%s",
                     path, verdict, s->words_len ? ": " : "", s->words);
}

/* @option: "--model", "--rule", or NULL for an application. */
static enum err ask(const char *path, const char *option,
                    struct app_plugin **out, struct fault *f)
{
    char *argv[] = {"mltune", "app-host", (char *)path, (char *)option, NULL};
    struct subprocess_options o = {.argv = argv,
                                   .unset = "MLTUNE_TOKEN",
                                   .file = {SUBPROCESS_NULL, -1, -1},
                                   .signals = SUBPROCESS_SIGNALS_USUAL,
                                   .death_signal = SIGKILL};
    struct subprocess p = {.end_fd = -1};
    struct hearsay s = {.words_len = 0};
    int first[2], second[2];
    enum err err;

    assert(*path == '/');
    if (pipe2(first, O_CLOEXEC) != 0)
        return fault_errno(f, ERR_IO, errno, "load %s", path);
    if (pipe2(second, O_CLOEXEC) != 0) {
        err = fault_errno(f, ERR_IO, errno, "load %s", path);
        goto close_first;
    }
    o.file[1] = first[1];
    o.file[2] = second[1];
    err = subprocess_start(&p, &o, f);
    close(second[1]);
    close(first[1]);
    second[1] = first[1] = -1;
    if (err)
        goto close_second;
    if (read_both(&s, (int[2]){first[0], second[0]}) &&
        subprocess_wait(&p, APP_PLUGIN_MS, -1))
        err = judge(path, &p, &s, out, f);
    else
        err = fault_set(f, ERR_TIMEOUT,
                        "%s has not said in %d s what it is: what it does "
                        "when it is loaded takes too long",
                        path, APP_PLUGIN_MS / 1000);
    subprocess_stop(&p, 0, -1);
    text_deinit(&s.out);
close_second:
    close(second[0]);
close_first:
    close(first[0]);
    if (first[1] >= 0)
        close(first[1]);
    return err;
}

enum err app_plugin_ask(const char *path, struct app_plugin **out,
                        struct fault *f)
{
    return ask(path, NULL, out, f);
}

enum err app_plugin_ask_model(const char *path, struct app_plugin **out,
                              struct fault *f)
{
    enum err err = ask(path, "--model", out, f);

    if (!err)
        (*out)->entry.kind = REGISTRY_CONSISTENCY;
    return err;
}

enum err app_plugin_ask_rule(const char *path, struct app_plugin **out,
                             struct fault *f)
{
    enum err err = ask(path, "--rule", out, f);

    if (!err)
        (*out)->entry.kind = REGISTRY_RULE;
    return err;
}
