#include "searchers/process/plugin_host_io.h"

#include "base/json/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "mltune/searcher.h"
#include "searchers/process/searcher_protocol.h"
#include "searchers/space/space_json.h"

#include <assert.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* One process hosts one plug-in. */
static const struct mlt_searcher_ops *plugin;

/* A search within the plug-in. */
struct hosted {
    const struct space *space; /* borrowed */
    void *state;               /* the plug-in's */
    size_t axes, index[TUNABLES_MAX];
    struct mlt_searcher_axis axis[TUNABLES_MAX];
};

/* Queries as the plug-in sees them: one block of coordinates for all. */
struct shown {
    struct mlt_searcher_trial *told;
    struct mlt_searcher_point *running;
    struct mlt_searcher_point incumbent;
    double *numbers; /* [points][2][axes] */
};

/* ---- loading ------------------------------------------------------------- */

static enum err check_ops(const struct mlt_searcher_ops *ops, const char *file,
                          struct fault *f)
{
    json_t *schema = NULL;
    enum err err = ERR_OK;

    if (ops->version != MLT_SEARCHER_VERSION)
        return fault_set(f, ERR_VERSION,
                         "%s was built for version %u of mltune/searcher.h, "
                         "this mltune has version %d: build it again",
                         file, ops->version, MLT_SEARCHER_VERSION);
    if (!ops->name || !*ops->name || !ops->summary || !ops->ask)
        return fault_set(f, ERR_INVAL,
                         "%s: mltune_searcher lacks .name, .summary or .ask",
                         file);
    if (ops->settings)
        err = json_load(ops->settings, strlen(ops->settings), &schema, NULL, f);
    if (err)
        return fault_wrap(f, "%s: .settings is no JSON schema", file);
    if (schema && !json_is_object(schema))
        err = fault_set(f, ERR_INVAL, "%s: .settings is no JSON object", file);
    json_decref(schema);
    return err;
}

static enum err load(const char *file, struct fault *f)
{
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    const struct mlt_searcher_ops *ops;
    enum err err;

    if (!handle)
        return fault_set(f, ERR_NOENT, "cannot load: %.300s", dlerror());
    ops = dlsym(handle, "mltune_searcher");
    if (!ops)
        return fault_set(f, ERR_INVAL,
                         "%s is no searcher: it has no symbol mltune_searcher "
                         "(mltune/searcher.h)",
                         file);
    err = check_ops(ops, file, f);
    if (!err)
        plugin = ops; /* the handle stays open: the code is needed */
    return err;
}

/* ---- the plug-in as a searcher ------------------------------------------- */

static enum mlt_searcher_type type_of(const struct tunable *t)
{
    return t->type == TUNABLE_FLOAT ? MLT_SEARCHER_FLOAT
           : t->type == TUNABLE_INT ? MLT_SEARCHER_INT
                                    : MLT_SEARCHER_CATEGORICAL;
}

static void make_axes(struct hosted *h)
{
    assert(h->space->len <= TUNABLES_MAX);
    h->axes = space_axes(h->space, h->index);
    for (size_t k = 0; k < h->axes; k++) {
        const struct tunable *t = &h->space->tunable[h->index[k]];
        bool category = t->type == TUNABLE_CATEGORICAL;

        h->axis[k] = (struct mlt_searcher_axis){
            .name = t->name,
            .type = type_of(t),
            .values = tunable_count(t),
            .min = category ? 0 : t->min,
            .max = category ? (double)t->values_len - 1 : t->max};
    }
}

/* The plug-in's @result with its own words. */
static enum err result_of(int result, const struct mlt_searcher_error *e,
                          struct fault *f)
{
    switch (result) {
    case MLT_SEARCHER_OK:
        return ERR_OK;
    case MLT_SEARCHER_WAIT:
        return ERR_AGAIN;
    case MLT_SEARCHER_EXHAUSTED:
        return ERR_EXHAUSTED;
    case MLT_SEARCHER_FAILED:
        return fault_set(f, ERR_APP, "%.250s",
                         *e->text ? e->text : "it gave no reason");
    default:
        return fault_set(f, ERR_APP, "it returned %d, which means nothing",
                         result);
    }
}

static enum err call_open(struct hosted *h, const json_t *settings,
                          uint64_t seed, struct fault *f)
{
    struct mlt_searcher_error e = {{0}};
    json_t *space = space_to_json(h->space);
    char *space_text = space ? json_write(space, 0) : NULL;
    char *settings_text = json_write(settings, 0);
    enum err err = ERR_NOMEM;

    if (space_text && settings_text) {
        const struct mlt_searcher_config config = {.size = sizeof(config),
                                                   .axes = h->axes,
                                                   .axis = h->axis,
                                                   .space = space_text,
                                                   .settings = settings_text,
                                                   .seed = seed};

        err = result_of(plugin->open(&config, &h->state, &e), &e, f);
        e.text[sizeof(e.text) - 1] = '\0';
    }
    json_decref(space);
    mem_free(space_text);
    mem_free(settings_text);
    return err;
}

static enum err hosted_open(const struct space *space, const json_t *settings,
                            uint64_t seed, void **state, struct fault *f)
{
    struct hosted *h = mem_calloc(1, sizeof(*h));
    enum err err = ERR_OK;

    if (!h)
        return fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    h->space = space;
    make_axes(h);
    if (plugin->open)
        err = call_open(h, settings, seed, f);
    if (err)
        mem_free(h);
    else
        *state = h;
    return err;
}

static void hosted_close(void *state)
{
    struct hosted *h = state;

    if (plugin->close)
        plugin->close(h->state);
    mem_free(h);
}

/* @x as point number @i of @s. */
static struct mlt_searcher_point show(const struct hosted *h, struct shown *s,
                                      size_t i, const struct setting *x)
{
    double *unit = s->numbers + 2 * i * h->axes, *value = unit + h->axes;
    double u[TUNABLES_MAX];

    space_to_unit(h->space, x, u);
    for (size_t k = 0; k < h->axes; k++) {
        unit[k] = u[k];
        value[k] = x->value[h->index[k]];
    }
    return (struct mlt_searcher_point){unit, value};
}

static enum mlt_searcher_outcome outcome_shown(enum outcome outcome)
{
    static const enum mlt_searcher_outcome shown[OUTCOME_COUNT] = {
        [OUTCOME_SPEED] = MLT_SEARCHER_SPEED,
        [OUTCOME_DIVERGED] = MLT_SEARCHER_DIVERGED,
        [OUTCOME_FAILED] = MLT_SEARCHER_NO_RESULT,
        [OUTCOME_STOPPED] = MLT_SEARCHER_STOPPED};

    return shown[outcome];
}

static void fill(const struct hosted *h, const struct searcher_query *q,
                 struct shown *s)
{
    size_t n = 0;

    for (size_t i = 0; i < q->told_len; i++) {
        const struct observation *o = &q->told[i];

        s->told[i] =
            (struct mlt_searcher_trial){.number = o->trial,
                                        .at = show(h, s, n++, &o->setting),
                                        .outcome = outcome_shown(o->outcome),
                                        .speed = o->speed,
                                        .resource = o->resource};
    }
    for (size_t i = 0; i < q->running_len; i++)
        s->running[i] = show(h, s, n++, &q->running[i]);
    if (q->incumbent)
        s->incumbent = show(h, s, n, q->incumbent);
}

static enum err shown_init(const struct hosted *h,
                           const struct searcher_query *q, struct shown *s)
{
    size_t points = q->told_len + q->running_len + 1;

    memset(s, 0, sizeof(*s));
    s->told = mem_alloc((q->told_len + 1) * sizeof(*s->told));
    s->running = mem_alloc((q->running_len + 1) * sizeof(*s->running));
    s->numbers = mem_alloc((2 * points * h->axes + 1) * sizeof(double));
    if (!s->told || !s->running || !s->numbers)
        return ERR_NOMEM;
    fill(h, q, s);
    return ERR_OK;
}

static void shown_deinit(struct shown *s)
{
    mem_free(s->told);
    mem_free(s->running);
    mem_free(s->numbers);
}

static enum err call_ask(const struct hosted *h, const struct searcher_query *q,
                         const struct shown *s, double unit[], struct fault *f)
{
    const struct mlt_searcher_query query = {
        .size = sizeof(query),
        .axes = h->axes,
        .told_len = q->told_len,
        .told = s->told,
        .running_len = q->running_len,
        .running = s->running,
        .incumbent = q->incumbent ? &s->incumbent : NULL};
    struct mlt_searcher_error e = {{0}};
    enum err err = result_of(plugin->ask(h->state, &query, unit, &e), &e, f);

    e.text[sizeof(e.text) - 1] = '\0';
    for (size_t k = 0; !err && k < h->axes; k++)
        if (!(unit[k] >= 0 && unit[k] <= 1))
            err =
                fault_set(f, ERR_APP, "it proposed %g for %s, expected 0 to 1",
                          unit[k], h->axis[k].name);
    return err;
}

static enum err hosted_ask(void *state, const struct searcher_query *q,
                           struct setting *out, struct fault *f)
{
    const struct hosted *h = state;
    double unit[TUNABLES_MAX];
    struct shown s;
    enum err err = shown_init(h, q, &s);

    for (size_t k = 0; k < TUNABLES_MAX; k++)
        unit[k] = NAN; /* one that was not written is noticed */
    if (!err)
        err = call_ask(h, q, &s, unit, f);
    shown_deinit(&s);
    if (!err)
        space_from_unit(h->space, unit, out);
    return err;
}

static const struct searcher_ops hosted_ops = {
    .name = "hosted",
    .summary = "the plug-in of this process",
    .settings = "{\"type\": \"object\"}", /* the tuner has checked them */
    .open = hosted_open,
    .close = hosted_close,
    .ask = hosted_ask,
};

/* ---- serving ------------------------------------------------------------- */

struct plugin_host {
    FILE *out;
    struct fault not_loaded; /* why there is no plug-in */
    struct searcher *searcher;
};

static bool reply(struct plugin_host *h, char *line)
{
    bool ok = line && fputs(line, h->out) != EOF && fflush(h->out) == 0;

    mem_free(line);
    return ok;
}

static bool reply_hello(struct plugin_host *h, uint64_t id)
{
    if (!plugin)
        return reply(h, searcher_protocol_answer_error(id, h->not_loaded.text));
    return reply(h, searcher_protocol_answer_hello(
                        id, plugin->name, plugin->summary, plugin->settings));
}

static bool reply_open(struct plugin_host *h,
                       const struct searcher_protocol_request *r)
{
    struct fault f = {0};
    enum err err = ERR_PROTO;

    if (plugin && !h->searcher)
        err = searcher_open(&hosted_ops, &r->space, r->settings, r->seed,
                            &h->searcher, &f);
    if (err)
        return reply(h, searcher_protocol_answer_error(
                            r->id, *f.text ? f.text : err_text(err)));
    return reply(h, searcher_protocol_answer_done(r->id));
}

static bool reply_ask(struct plugin_host *h,
                      const struct searcher_protocol_request *r)
{
    const struct space *space = searcher_space(h->searcher);
    struct setting x = {0};
    struct fault f = {0};
    enum err err =
        searcher_ask(h->searcher, r->running, r->running_len,
                     r->has_incumbent ? &r->incumbent : NULL, &x, &f);

    return reply(h, searcher_protocol_answer_ask(r->id, space, err, &x, &f));
}

static bool serve(struct plugin_host *h,
                  const struct searcher_protocol_request *r)
{
    switch (r->kind) {
    case SEARCHER_PROTOCOL_HELLO:
        return reply_hello(h, r->id);
    case SEARCHER_PROTOCOL_OPEN:
        return reply_open(h, r);
    case SEARCHER_PROTOCOL_ASK:
        return reply_ask(h, r);
    case SEARCHER_PROTOCOL_TELL:
        return searcher_tell(h->searcher, &r->told, NULL) == ERR_OK;
    }
    return false;
}

static bool serve_line(struct plugin_host *h, const char *line, size_t len)
{
    struct searcher_protocol_request r;
    struct fault f = {0};
    bool ok;

    if (searcher_protocol_read_request(
            line, len, h->searcher ? searcher_space(h->searcher) : NULL, &r,
            &f)) {
        fprintf(stderr, "mltune searcher-host: %s\n", f.text);
        return false;
    }
    ok = serve(h, &r);
    searcher_protocol_request_deinit(&r);
    return ok;
}

/* Answers leave by a descriptor of their own, so that what the plug-in prints
 * does not come between them. */
static FILE *take_stdout(void)
{
    int fd = dup(STDOUT_FILENO);

    if (fd < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        return NULL;
    setvbuf(stdout, NULL, _IOLBF, 0);
    return fdopen(fd, "w");
}

int plugin_host_run(const char *file)
{
    struct plugin_host h = {.out = take_stdout()};
    char *line = NULL;
    size_t size = 0;
    ssize_t n;
    bool ok = true;

    assert(file);
    prctl(PR_SET_NAME, "mltune-searcher");
    if (!h.out)
        return 1;
    load(file, &h.not_loaded);
    while (ok && (n = getline(&line, &size, stdin)) > 0)
        ok = serve_line(&h, line, (size_t)n - (line[n - 1] == '\n' ? 1 : 0));
    searcher_close(h.searcher);
    free(line);
    fclose(h.out);
    return ok ? 0 : 1;
}
