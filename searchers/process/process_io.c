#include "searchers/process/process_io.h"

#include "base/deadlines.h"
#include "base/json/json.h"
#include "base/json/schema.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/text.h"
#include "searchers/built_in.h"
#include "searchers/process/child_io.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* From the end of a process' output to its own, at most; else it has only
 * closed the one and lives on. */
#define PROCESS_END (DEADLINE_SEARCHER_END_MS * (time_ns)1000000)
/* A shared object that computes little has answered by then, and the tuner need
 * not look again a millisecond later. */
#define PROCESS_MOMENT ((time_ns)200 * 1000)
/* The time a process has to go when its search is over. */
#define PROCESS_GRACE ((time_ns)250 * 1000 * 1000)
#define PROCESS_NAME_MAX 80
#define PROCESS_PENDING ((size_t)256 * 1024) /* bytes told ahead */

enum process_stage {
    PROCESS_GREETING, /* hello is sent */
    PROCESS_OPENING,  /* open is sent */
    PROCESS_READY,
    PROCESS_BROKEN /* `fault` says why */
};

struct process {
    const struct space *space; /* borrowed; NULL: hello only */
    uint64_t seed;
    char name[PROCESS_NAME_MAX]; /* for people */
    json_t *settings;            /* owned: the searcher's own */
    const struct searcher_ops *fallback;
    time_ns timeout;
    void *random; /* owned: in the place of what was tried already */

    struct child child;
    enum process_stage stage;
    struct fault fault;
    bool warned;
    struct searcher_protocol_hello hello; /* owned, from PROCESS_OPENING on */
    char **told; /* owned, [told_len]: tells from before open */
    size_t told_len, told_capacity;

    uint64_t last_id;
    uint64_t awaited; /* id; 0: no answer is awaited */
    time_ns asked_at;
    time_ns closed_at; /* when its output ended; 0: it has not */
    size_t unread;     /* bytes that wait for it, as last seen */
    time_ns read_at;   /* when they last changed */
    uint64_t tells;    /* so far */
    uint64_t asked;    /* digest of the query that was asked; */
    bool answered;     /* with this answer: */
    enum err result;   /* ERR_OK, ERR_AGAIN, ERR_EXHAUSTED */
    struct setting setting;
};

#define PROCESS_SCHEMA(what)                                                   \
    "{\"type\": \"object\", \"properties\": {" what                            \
    "\"folder\": {\"type\": \"string\", \"default\": \"\", "                   \
    "\"description\": \"where the process works\"},"                           \
    "\"timeout\": {\"type\": [\"string\", \"number\"], "                       \
    "\"format\": \"seconds\", \"minimum\": 0.001, \"maximum\": 86400, "        \
    "\"default\": \"10s\", \"description\": \"longest it may take to "         \
    "answer\"},"                                                               \
    "\"fallback\": {\"enum\": [\"tpe\", \"gp\", \"random\", \"grid\", "        \
    "\"marginal\"], \"default\": \"tpe\", "                                    \
    "\"description\": \"what goes on when it fails\"},"                        \
    "\"broken\": {\"type\": \"string\", \"default\": \"\", "                   \
    "\"description\": \"why it is not started at all\"},"                      \
    "\"settings\": {\"type\": \"object\", \"default\": {}, "                   \
    "\"description\": \"its own\"}}}"

static const char process_schema[] = PROCESS_SCHEMA(
    "\"command\": {\"type\": \"array\", \"minItems\": 1, \"maxItems\": 60, "
    "\"items\": {\"type\": \"string\"}, "
    "\"description\": \"program and arguments\"},");
static const char plugin_schema[] =
    PROCESS_SCHEMA("\"plugin\": {\"type\": \"string\", \"minLength\": 1, "
                   "\"description\": \"the shared object\"},");

/* ---- breaking ------------------------------------------------------------ */

/* It is of no use any more, for the reason in @why: nothing of it stays. */
static void give_up(struct process *p, enum err code, const char *why)
{
    const struct child *c = &p->child;
    bool words = c->words_len > 0 && code != ERR_INVAL && code != ERR_APP;

    assert(why);
    assert(p->stage != PROCESS_BROKEN);
    p->stage = PROCESS_BROKEN;
    p->awaited = 0;
    fault_set(&p->fault, code, "searcher %s %.220s%s%s%s", p->name, why,
              words ? " (its last words: " : "", words ? c->words : "",
              words ? ")" : "");
    child_stop(&p->child, 0);
}

/* Its output has ended. What became of it is known a moment later. */
static void output_ended(struct process *p)
{
    time_ns now = clock_monotonic();
    time_ns wait = p->timeout < PROCESS_END ? p->timeout : PROCESS_END;
    char verdict[64];

    if (!p->closed_at)
        p->closed_at = now;
    if (!child_ended(&p->child) && now - p->closed_at <= wait)
        return;
    child_verdict(&p->child, verdict, sizeof(verdict));
    give_up(p, ERR_IO, verdict);
}

/* Nonsense, or its own words. */
static void bad_answer(struct process *p, enum err code, const char *text)
{
    char why[FAULT_TEXT_MAX + 32];
    const char *what = code == ERR_INVAL   ? "refuses"
                       : code == ERR_APP   ? "failed"
                       : code == ERR_PROTO ? "answered nonsense"
                                           : "cannot be used";

    assert(text);
    snprintf(why, sizeof(why), "%s: %s", what, text);
    give_up(p, code, why);
}

/* ---- sending ------------------------------------------------------------- */

static enum err send_line(struct process *p, const char *line)
{
    enum err err = child_send(&p->child, line);

    if (err == ERR_LIMIT)
        give_up(p, ERR_TIMEOUT, "does not read what it is told");
    return err;
}

/* The request @line (transferred; NULL: out of memory), whose answer is awaited
 * from now on. */
static enum err send_request(struct process *p, char *line)
{
    enum err err = line ? send_line(p, line) : ERR_NOMEM;

    mem_free(line);
    if (err)
        return err;
    p->awaited = ++p->last_id;
    p->asked_at = clock_monotonic();
    return ERR_OK;
}

/* Hands on what was told, as far as the process reads it: what is told after a
 * resume may be more than a pipe should hold. */
static enum err send_told(struct process *p)
{
    enum err err = ERR_OK;
    size_t n = 0;

    while (n < p->told_len && p->child.pending_len < PROCESS_PENDING && !err) {
        err = send_line(p, p->told[n]);
        if (!err)
            mem_free(p->told[n++]);
    }
    p->told_len -= n;
    if (n > 0)
        memmove(p->told, p->told + n, p->told_len * sizeof(*p->told));
    return err;
}

/* While there is more to tell: it has to go on reading. */
static void see_to_reading(struct process *p)
{
    time_ns now = clock_monotonic();

    if (p->told_len == 0 || p->child.pending_len != p->unread) {
        p->unread = p->child.pending_len;
        p->read_at = now;
    } else if (now - p->read_at > p->timeout) {
        give_up(p, ERR_TIMEOUT, "does not read what it is told");
    }
}

/* ---- answers ------------------------------------------------------------- */

/* Its settings by the schema that it states. */
static enum err check_settings(struct process *p, struct fault *f)
{
    struct problems problems = {0};
    char line[FAULT_TEXT_MAX];
    enum err err = ERR_OK;

    if (!p->hello.settings)
        return ERR_OK;
    schema_check(p->hello.settings, p->settings, "", &problems);
    if (problems.no_memory)
        err = fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    else if (problems.errors > 0)
        err = fault_set(f, ERR_INVAL, "%s",
                        problem_text(&problems.item[0], "searcher_settings",
                                     line, sizeof(line)));
    problems_deinit(&problems);
    if (!err && schema_complete(p->hello.settings, p->settings))
        err = fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    return err;
}

static enum err take_hello(struct process *p, const char *line, size_t len,
                           struct fault *f)
{
    enum err err =
        searcher_protocol_read_hello(line, len, p->awaited, &p->hello, f);

    if (err)
        return err;
    err = check_settings(p, f);
    if (!err && p->space)
        err = send_request(p, searcher_protocol_open(p->last_id + 1, p->space,
                                                     p->settings, p->seed));
    if (err == ERR_NOMEM)
        searcher_protocol_hello_deinit(&p->hello); /* the line is read again */
    return err;
}

static enum err take_proposal(struct process *p, const char *line, size_t len,
                              struct fault *f)
{
    struct setting x = {0};
    enum err err =
        searcher_protocol_read_ask(line, len, p->awaited, p->space, &x, f);

    if (err && err != ERR_AGAIN && err != ERR_EXHAUSTED)
        return err;
    p->answered = true;
    p->result = err;
    p->setting = x;
    return ERR_OK;
}

static enum err take_by_stage(struct process *p, const char *line, size_t len,
                              struct fault *f)
{
    enum err err;

    switch (p->stage) {
    case PROCESS_GREETING:
        err = take_hello(p, line, len, f);
        if (!err)
            p->stage = p->space ? PROCESS_OPENING : PROCESS_READY;
        return err;
    case PROCESS_OPENING:
        err = searcher_protocol_read_open(line, len, p->awaited, f);
        if (!err)
            p->stage = PROCESS_READY;
        return err;
    case PROCESS_READY:
        return take_proposal(p, line, len, f);
    case PROCESS_BROKEN:
        break;
    }
    return ERR_OK;
}

/* ERR_NOMEM: the line is not taken, nothing changed. */
static enum err take_line(struct process *p, const char *line, size_t len)
{
    uint64_t awaited = p->awaited;
    struct fault f = {0};
    enum err err;

    if (!awaited) {
        give_up(p, ERR_PROTO, "answered what it was not asked");
        return ERR_OK;
    }
    err = take_by_stage(p, line, len, &f);
    if (err == ERR_NOMEM || p->stage == PROCESS_BROKEN)
        return err;
    if (err)
        bad_answer(p, err, *f.text ? f.text : err_text(err));
    else if (p->awaited == awaited)
        p->awaited = 0;
    return ERR_OK;
}

/* One that has ended may have left others that hold its output open: they are
 * given the same time to answer. */
static void see_to_timeout(struct process *p)
{
    char why[64];

    if (p->stage == PROCESS_BROKEN || p->closed_at || !p->awaited ||
        clock_monotonic() - p->asked_at <= p->timeout)
        return;
    if (child_ended(&p->child)) {
        child_verdict(&p->child, why, sizeof(why));
        give_up(p, ERR_IO, why);
        return;
    }
    snprintf(why, sizeof(why), "did not answer within %.4g s",
             (double)p->timeout * 1e-9);
    give_up(p, ERR_TIMEOUT, why);
}

/* Takes what has come and sends what waits. Errors: ERR_NOMEM. */
static enum err pump(struct process *p)
{
    const char *line;
    size_t len;

    while (p->stage != PROCESS_BROKEN) {
        enum err err = child_line(&p->child, &line, &len);

        if (err == ERR_IO)
            output_ended(p);
        if (err == ERR_AGAIN || err == ERR_IO)
            break;
        if (err == ERR_LIMIT)
            give_up(p, ERR_PROTO, "answered a line of over 65536 bytes");
        else if (take_line(p, line, len) == ERR_NOMEM) {
            child_unread(&p->child, len);
            return ERR_NOMEM;
        }
    }
    see_to_timeout(p);
    return ERR_OK;
}

/* ---- start --------------------------------------------------------------- */

static enum err start_child(struct process *p, const char *const argv[],
                            const char *folder, struct fault *f)
{
    char path[PATH_MAX];

    if (!subprocess_find(argv[0], path, sizeof(path)))
        return fault_set(f, ERR_NOENT, "cannot start %s: not found in PATH",
                         argv[0]);
    return child_start(&p->child, path, (char *const *)argv, folder,
                       SEARCHER_PROTOCOL_ANSWER_MAX, f);
}

/* A program that is not there is as broken as one that dies. */
static enum err start(struct process *p, const char *const argv[],
                      const char *folder)
{
    struct fault f = {0};
    enum err err = start_child(p, argv, folder, &f);

    if (!err)
        return send_request(p, searcher_protocol_hello(p->last_id + 1));
    if (err == ERR_NOMEM)
        return err;
    p->stage = PROCESS_BROKEN;
    fault_set(&p->fault, err, "searcher %s: %.300s", p->name, f.text);
    return ERR_OK;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash && slash[1] ? slash + 1 : path;
}

/* "python3 my_searcher.py" */
static void name_command(struct process *p, const char *const argv[])
{
    size_t n = 0;

    for (size_t i = 0; argv[i] && n < sizeof(p->name); i++)
        n += (size_t)snprintf(p->name + n, sizeof(p->name) - n, "%s%s",
                              i > 0 ? " " : "", base_name(argv[i]));
    text_clean(p->name);
}

static void release(struct process *p)
{
    for (size_t i = 0; i < p->told_len; i++)
        mem_free(p->told[i]);
    mem_free(p->told);
    searcher_protocol_hello_deinit(&p->hello);
    json_decref(p->settings);
    if (p->random)
        searcher_random.close(p->random);
    child_stop(&p->child, PROCESS_GRACE);
    mem_free(p);
}

static const char *text_of(const json_t *object, const char *name)
{
    const char *s = json_string_value(json_object_get(object, name));

    return s ? s : "";
}

/* A process with all that @settings say but the program; NULL when out of
 * memory. */
static struct process *make(const struct space *space, const json_t *settings,
                            uint64_t seed, struct fault *f)
{
    struct process *p = mem_calloc(1, sizeof(*p));
    double seconds = DEADLINE_SEARCHER_MS * 1e-3;

    fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    if (!p)
        return NULL;
    json_to_seconds(json_object_get(settings, "timeout"), &seconds);
    p->space = space;
    p->seed = seed;
    p->timeout = (time_ns)(seconds * 1e9);
    p->fallback = searcher_built_in(text_of(settings, "fallback"));
    assert(p->fallback);
    p->settings = json_copied(json_object_get(settings, "settings"));
    if (p->settings &&
        (!space || searcher_random.open(space, NULL, rng_mix(seed, 1),
                                        &p->random, f) == ERR_OK))
        return p;
    release(p);
    return NULL;
}

static enum err launch(struct process *p, const char *const argv[],
                       const json_t *settings, void **state, struct fault *f)
{
    const char *broken = text_of(settings, "broken");
    enum err err = ERR_OK;

    if (*broken) {
        p->stage = PROCESS_BROKEN;
        fault_set(&p->fault, ERR_IO, "%s", broken);
    } else {
        err = start(p, argv, text_of(settings, "folder"));
    }
    if (err) {
        release(p);
        return fault_set(f, err, "%s", err_text(err));
    }
    *state = p;
    return ERR_OK;
}

static enum err process_open(const struct space *space, const json_t *settings,
                             uint64_t seed, void **state, struct fault *f)
{
    const json_t *command = json_object_get(settings, "command");
    const char *argv[CHILD_ARGS_MAX] = {NULL};
    size_t n = json_array_size(command);
    struct process *p;

    if (n == 0 || n >= CHILD_ARGS_MAX)
        return fault_set(f, ERR_INVAL, "expected a program as \"command\"");
    for (size_t i = 0; i < n; i++)
        argv[i] = json_string_value(json_array_get(command, i));
    p = make(space, settings, seed, f);
    if (!p)
        return ERR_NOMEM;
    name_command(p, argv);
    return launch(p, argv, settings, state, f);
}

static enum err plugin_open(const struct space *space, const json_t *settings,
                            uint64_t seed, void **state, struct fault *f)
{
    const char *file = text_of(settings, "plugin");
    const char *argv[] = {"/proc/self/exe", "searcher-host", file, NULL};
    struct process *p;

    if (!*file)
        return fault_set(f, ERR_INVAL, "expected a file as \"plugin\"");
    p = make(space, settings, seed, f);
    if (!p)
        return ERR_NOMEM;
    snprintf(p->name, sizeof(p->name), "%s", base_name(file));
    text_clean(p->name);
    return launch(p, argv, settings, state, f);
}

static void process_close(void *state)
{
    release(state);
}

/* ---- ask and tell -------------------------------------------------------- */

static uint64_t digest_setting(uint64_t digest, const struct space *space,
                               const struct setting *x)
{
    for (size_t i = 0; i < space_len(space); i++) {
        uint64_t bits;

        memcpy(&bits, &x->value[i], sizeof(bits));
        digest = rng_mix(digest, bits);
    }
    return digest;
}

/* Two queries with the same digest are the same: nothing was told between. */
static uint64_t digest_query(const struct process *p,
                             const struct searcher_query *q)
{
    uint64_t d = rng_mix(p->tells, q->running_len * 2 + !!q->incumbent);

    for (size_t i = 0; i < q->running_len; i++)
        d = digest_setting(d, p->space, &q->running[i]);
    return q->incumbent ? digest_setting(d, p->space, q->incumbent) : d;
}

/* The fault, and one line in the log for the first who hears it. */
static enum err report(struct process *p, struct fault *f)
{
    if (!p->warned)
        log_event(LOG_WARN, "searcher_failed", "fallback=%s reason=\"%s\"",
                  p->fallback->name, p->fault.text);
    p->warned = true;
    return fault_set(f, p->fault.code, "%s", p->fault.text);
}

static enum err put_question(struct process *p, const struct searcher_query *q,
                             uint64_t digest, struct fault *f)
{
    enum err err;

    p->answered = false;
    err = send_request(p, searcher_protocol_ask(p->last_id + 1, p->space, q));
    if (err == ERR_NOMEM)
        return fault_set(f, err, "%s", err_text(err));
    p->asked = digest;
    err = pump(p);
    if (!err && p->awaited) {
        child_wait(&p->child, PROCESS_MOMENT);
        err = pump(p);
    }
    return err;
}

/* The answer to the query as it is. */
static enum err give_answer(struct process *p, const struct searcher_query *q,
                            struct setting *out, struct fault *f)
{
    if (p->result == ERR_AGAIN && q->running_len == 0) {
        give_up(p, ERR_PROTO,
                "answered nonsense: it waits though no trial runs");
        return report(p, f);
    }
    if (p->result)
        return p->result;
    if (searcher_seen(p->space, q, &p->setting))
        return searcher_random.ask(p->random, q, out, f);
    *out = p->setting;
    return ERR_OK;
}

static enum err process_ask(void *state, const struct searcher_query *q,
                            struct setting *out, struct fault *f)
{
    struct process *p = state;
    uint64_t digest = digest_query(p, q);
    enum err err = ERR_OK;

    assert(q && out);
    if (p->stage != PROCESS_BROKEN)
        err = pump(p);
    if (!err && p->stage == PROCESS_READY) {
        err = send_told(p);
        see_to_reading(p);
    }
    if (!err && p->stage == PROCESS_READY && p->told_len == 0 && !p->awaited &&
        !p->closed_at && !(p->answered && p->asked == digest))
        err = put_question(p, q, digest, f);
    if (err == ERR_NOMEM)
        return fault_set(f, err, "%s", err_text(err));
    if (p->stage == PROCESS_BROKEN)
        return report(p, f);
    if (p->stage == PROCESS_READY && p->answered && p->asked == digest)
        return give_answer(p, q, out, f);
    return fault_set(f, ERR_AGAIN, "no answer yet");
}

static enum err process_tell(void *state, const struct observation *o,
                             struct fault *f)
{
    struct process *p = state;
    char *line;

    assert(o);
    if (p->stage == PROCESS_BROKEN)
        return ERR_OK; /* the next ask says so */
    line = searcher_protocol_tell(p->space, o);
    if (!line || mem_grow((void **)&p->told, &p->told_capacity,
                          sizeof(*p->told), p->told_len + 1) != 0) {
        mem_free(line);
        return fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    }
    p->told[p->told_len++] = line;
    p->tells++;
    return ERR_OK;
}

static const struct searcher_ops *process_fallback(const void *state)
{
    return ((const struct process *)state)->fallback;
}

/* ---- a trial start ------------------------------------------------------- */

static enum err try_it(struct process *p, struct searcher_protocol_hello *hello,
                       struct fault *f)
{
    while (p->stage != PROCESS_READY && p->stage != PROCESS_BROKEN) {
        child_wait(&p->child, p->timeout / 16 + 1000000);
        if (pump(p) == ERR_NOMEM)
            return fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    }
    if (p->stage == PROCESS_BROKEN)
        return fault_set(f, p->fault.code, "%s", p->fault.text);
    if (hello) {
        *hello = p->hello;
        memset(&p->hello, 0, sizeof(p->hello));
    }
    return ERR_OK;
}

enum err searcher_process_try(const struct searcher_ops *ops,
                              const struct space *space, const json_t *settings,
                              struct searcher_protocol_hello *hello,
                              struct fault *f)
{
    json_t *own = NULL;
    void *state = NULL;
    enum err err = searcher_settings(ops, settings, &own, f);

    assert(ops);
    assert(ops == &searcher_process || ops == &searcher_plugin);
    if (!err)
        err = ops->open(space, own, 1, &state, f);
    json_decref(own);
    if (err)
        return err;
    err = try_it(state, hello, f);
    process_close(state);
    return err;
}

bool searcher_process_is_refusal(enum err err)
{
    return err == ERR_NOENT || err == ERR_INVAL || err == ERR_VERSION;
}

const struct searcher_ops searcher_process = {
    .name = "process",
    .summary = "a program of your own that speaks JSON lines",
    .settings = process_schema,
    .open = process_open,
    .close = process_close,
    .ask = process_ask,
    .tell = process_tell,
    .fallback = process_fallback,
};

const struct searcher_ops searcher_plugin = {
    .name = "plugin",
    .summary = "a shared object of your own, in a process of its own",
    .settings = plugin_schema,
    .open = plugin_open,
    .close = process_close,
    .ask = process_ask,
    .tell = process_tell,
    .fallback = process_fallback,
};
