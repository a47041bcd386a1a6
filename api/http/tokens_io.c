#include "api/http/tokens_io.h"

#include "base/deadlines.h"
#include "base/file_io.h"
#include "base/log.h"
#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

/* A file that changed so lately may change again without a sign: the clock of
 * file systems ticks some hundred times a second. */
static const time_ns FRESH = 1000000000;

static const time_ns LOCK_PAUSE = 20000000;

/* ---- reading ------------------------------------------------------------- */

static enum err path_of(const char *state, const char *name,
                        char out[FILE_PATH_MAX], struct fault *f)
{
    assert(state[0]);
    return file_join(out, state, name, f);
}

static enum err check_file(const char *path, const struct stat *st,
                           struct fault *f)
{
    if (S_ISREG(st->st_mode) && st->st_uid == geteuid() &&
        (st->st_mode & 077) == 0)
        return ERR_OK;
    return fault_set(f, ERR_INVAL,
                     "%s must be a file of yours that nobody else can read or "
                     "write: chmod 600 it",
                     path);
}

static enum err read_text(int fd, const char *path, char *text, size_t *len,
                          struct fault *f)
{
    *len = 0;
    while (*len < TOKENS_TEXT_MAX + 1) {
        ssize_t n = read(fd, text + *len, TOKENS_TEXT_MAX + 1 - *len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fault_errno(f, ERR_IO, errno, "read %s", path);
        if (n == 0)
            break;
        *len += (size_t)n;
    }
    return ERR_OK;
}

/* @st: of the file that was read; zeroed: there is none. */
static enum err read_file(const char *path, struct named_tokens *out,
                          struct stat *st, struct fault *f)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    char *text;
    size_t len;
    enum err err;

    *out = (struct named_tokens){.len = 0};
    *st = (struct stat){.st_size = 0};
    if (fd < 0 && errno == ENOENT)
        return ERR_OK;
    if (fd < 0)
        return fault_errno(f, ERR_IO, errno, "read %s", path);
    text = mem_alloc(TOKENS_TEXT_MAX + 1);
    if (!text)
        err = fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    else if (fstat(fd, st) != 0)
        err = fault_errno(f, ERR_IO, errno, "read %s", path);
    else
        err = check_file(path, st, f);
    if (!err)
        err = read_text(fd, path, text, &len, f);
    if (!err) {
        err = tokens_parse(text, len, out, f);
        if (err && f)
            fault_wrap(f,
                       "%s is damaged (move it away, and add the tokens "
                       "again)",
                       path);
    }
    close(fd);
    mem_free(text);
    return err;
}

enum err tokens_read(const char *state, struct named_tokens *out,
                     struct fault *f)
{
    char path[FILE_PATH_MAX];
    struct stat st;
    enum err err = path_of(state, "tokens", path, f);

    return err ? err : read_file(path, out, &st, f);
}

/* ---- changing ------------------------------------------------------------ */

/* Waits for another who changes them, which takes some milliseconds. */
static enum err lock(const char *state, int *fd, struct fault *f)
{
    const struct timespec pause = {.tv_nsec = LOCK_PAUSE};
    time_ns until = clock_monotonic() + DEADLINE_TOKENS_MS * 1000000ll;
    char path[FILE_PATH_MAX];
    enum err err = path_of(state, "tokens.lock", path, f);

    *fd = -1;
    while (!err) {
        err = file_lock(path, fd, f);
        if (err != ERR_BUSY || clock_monotonic() >= until)
            break;
        nanosleep(&pause, NULL);
        err = ERR_OK;
    }
    if (err == ERR_BUSY)
        fault_set(f, err,
                  "another process changes the tokens of %s just now: try "
                  "again",
                  state);
    return err;
}

static enum err store(const char *state, const struct named_tokens *t,
                      struct fault *f)
{
    char path[FILE_PATH_MAX];
    char *text = tokens_print(t);
    enum err err;

    if (!text)
        return fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    err = path_of(state, "tokens", path, f);
    if (!err)
        err = file_write(path, text, strlen(text), f);
    mem_free(text);
    return err;
}

static enum err make_secret(char out[TOKENS_SECRET_LEN + 1], struct fault *f)
{
    unsigned char bytes[TOKENS_SECRET_LEN / 2];

    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        return fault_errno(f, ERR_IO, errno, "random bytes for a token");
    for (size_t i = 0; i < sizeof(bytes); i++)
        snprintf(out + 2 * i, 3, "%02x", (unsigned)bytes[i]);
    return ERR_OK;
}

/* A new token of @name, and its secret. */
static enum err make(const char *name, enum role role, struct named_token *out,
                     char secret[TOKENS_SECRET_LEN + 1], struct fault *f)
{
    time_t now = (time_t)(clock_wall() / 1000000000);
    struct tm utc;
    enum err err = make_secret(secret, f);

    *out = (struct named_token){.role = role};
    if (err)
        return err;
    memcpy(out->name, name, strlen(name) + 1);
    gmtime_r(&now, &utc);
    strftime(out->made, sizeof(out->made), "%Y-%m-%dT%H:%M:%SZ", &utc);
    if (!token_hash(secret, TOKENS_SECRET_LEN, out->hash))
        return fault_set(f, ERR_UNSUPPORTED, "this GnuTLS has no SHA-256");
    return ERR_OK;
}

static enum err put(struct named_tokens *t, const struct named_token *token,
                    struct fault *f)
{
    enum err err = tokens_put(t, token);

    if (err == ERR_EXIST)
        return fault_set(f, err,
                         "there is a token %s already: choose another name, or "
                         "revoke it first",
                         token->name);
    if (err == ERR_LIMIT)
        return fault_set(f, err, "there are %d tokens, and no more are kept",
                         TOKENS_MAX);
    return err ? fault_set(f, err, "%s", err_text(err)) : ERR_OK;
}

static void set_limit(struct named_token *token, const uint64_t *upload_max)
{
    assert(token);
    assert(!upload_max || *upload_max <= TOKENS_UPLOAD_MAX);
    token->upload_limited = upload_max != NULL;
    token->upload_max = upload_max ? *upload_max : 0;
}

static enum err no_such(const char *name, struct fault *f)
{
    return fault_set(f, ERR_NOENT,
                     "there is no token %s: mltune token ls names them", name);
}

enum err tokens_add(const char *state, const char *name, enum role role,
                    const uint64_t *upload_max,
                    char secret[TOKENS_SECRET_LEN + 1], struct fault *f)
{
    struct named_tokens t = {.len = 0};
    struct named_token token;
    int fd;
    enum err err = lock(state, &fd, f);

    assert(token_name_valid(name));
    if (err)
        return err;
    err = tokens_read(state, &t, f);
    if (!err)
        err = make(name, role, &token, secret, f);
    if (!err) {
        set_limit(&token, upload_max);
        err = put(&t, &token, f);
    }
    if (!err)
        err = store(state, &t, f);
    tokens_deinit(&t);
    close(fd);
    return err;
}

enum err tokens_revoke(const char *state, const char *name, struct fault *f)
{
    struct named_tokens t = {.len = 0};
    int fd;
    enum err err = lock(state, &fd, f);

    if (err)
        return err;
    err = tokens_read(state, &t, f);
    if (!err && !tokens_remove(&t, name))
        err = no_such(name, f);
    if (!err)
        err = store(state, &t, f);
    tokens_deinit(&t);
    close(fd);
    return err;
}

enum err tokens_limit(const char *state, const char *name,
                      const uint64_t *upload_max, struct fault *f)
{
    struct named_tokens t = {.len = 0};
    size_t i = 0;
    int fd;
    enum err err = lock(state, &fd, f);

    if (err)
        return err;
    err = tokens_read(state, &t, f);
    while (!err && i < t.len && strcmp(t.item[i].name, name) != 0)
        i++;
    if (!err && i == t.len)
        err = no_such(name, f);
    if (!err) {
        set_limit(&t.item[i], upload_max);
        err = store(state, &t, f);
    }
    tokens_deinit(&t);
    close(fd);
    return err;
}

/* ---- watching ------------------------------------------------------------ */

void tokens_watch_init(struct tokens_watch *w, const char *state)
{
    if (!state || (size_t)snprintf(w->path, sizeof(w->path), "%s/tokens",
                                   state) >= sizeof(w->path))
        w->path[0] = '\0';
}

void tokens_watch_deinit(struct tokens_watch *w)
{
    tokens_deinit(&w->tokens);
}

static bool same_time(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino &&
           a->st_size == b->st_size && a->st_mode == b->st_mode &&
           a->st_uid == b->st_uid && same_time(&a->st_mtim, &b->st_mtim) &&
           same_time(&a->st_ctim, &b->st_ctim);
}

static bool is_fresh(const struct stat *st)
{
    time_ns changed =
        (time_ns)st->st_ctim.tv_sec * 1000000000 + st->st_ctim.tv_nsec;
    time_ns now = clock_wall();

    return st->st_ino && (now < changed || now - changed < FRESH);
}

const struct named_tokens *tokens_watch_look(struct tokens_watch *w)
{
    struct stat found = {.st_size = 0}, now;
    struct named_tokens tokens;
    struct fault f = {0};
    enum err err;

    if (!w->path[0])
        return &w->tokens;
    if (lstat(w->path, &found) != 0)
        found = (struct stat){.st_size = 0};
    if (same_file(&found, &w->seen) && !w->fresh && !w->unread)
        return &w->tokens;
    err = read_file(w->path, &tokens, &now, &f);
    if (err && now.st_ino == 0)
        now = found; /* it cannot even be opened */
    if (err && !same_file(&now, &w->seen))
        log_event(LOG_ERROR, "tokens_not_read", "reason=\"%s\"", f.text);
    tokens_deinit(&w->tokens);
    w->tokens = tokens;
    /* What could not be read for lack of memory or descriptors, or by a disk
     * that fails, is tried again: the file need not change for that. */
    w->unread = err == ERR_NOMEM || err == ERR_IO;
    w->fresh = is_fresh(&now);
    w->seen = now;
    w->reads++;
    return &w->tokens;
}
