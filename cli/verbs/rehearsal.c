#include "cli/verbs/rehearsal.h"

#include "apps/samples/data_info.h"
#include "base/host/confine_io.h"
#include "base/json/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "mltune/ps.h"
#include "ps/node/app_plugin_io.h"
#include "ps/node/host_io.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Members of `app` that name data; `vocab` is read by its application alone. */
static const char *const members[] = {"data", "test"};

/* The bytes of all data that @c names. Errors: as data_glance; ERR_UNSUPPORTED.
 */
static enum err glance(const struct run_config *c, uint64_t *out,
                       struct fault *f)
{
    struct data_glimpse seen;
    enum err err = ERR_OK;

    *out = 0;
    for (size_t i = 0; i < sizeof(members) / sizeof(*members) && !err; i++) {
        const char *spec =
            json_string_value(json_object_get(c->app_settings, members[i]));

        if (spec)
            err = data_glance(spec, c->folder, &seen, f);
        if (!spec || err)
            continue;
        *out += seen.bytes;
        /* Of what is loaded the application says so, and what it wants. */
        if (seen.hopeless && seen.bytes > REHEARSAL_BYTES)
            err = fault_set(f, ERR_UNSUPPORTED,
                            "%s: %s, which no application here reads", spec,
                            data_kind_text(seen.kind));
    }
    return err;
}

/* The configuration of one node that has what all of them share: of several,
 * each would wait for the others. */
static json_t *config_of_one(const struct run_config *c)
{
    json_t *config = json_copied(c->effective);

    if (config && json_put(config, "/cluster/nodes", json_integer(1)) == ERR_OK)
        return config;
    json_decref(config);
    return NULL;
}

static double mib(uint64_t bytes)
{
    return (double)bytes / 1048576;
}

/* A node's memory, by part. Each counts room for all rows. */
static void print_memory(const struct mlt_ps_memory *m, unsigned nodes,
                         unsigned branches)
{
    printf("memory    %s: %.4g MiB a branch, %u at least; %.4g MiB shared "
           "by all\n",
           nodes > 1 ? "each node at most" : "at most", mib(m->branch),
           branches, mib(m->fixed));
    printf("          updates %.4g MiB, rows read %.4g, sums from other nodes "
           "%.4g, access knowledge %.4g\n",
           mib(m->updates), mib(m->caches), mib(m->sums), mib(m->access));
    if (nodes > 1)
        printf("          between nodes %.4g MiB, beside the limit\n",
               mib(m->frames));
    printf("          of %.4g MiB%s that the data leave; less where fewer "
           "rows are touched\n",
           mib(m->limit), nodes > 1 ? " a node" : "");
}

/* The same as the node would say it. Errors: ERR_LIMIT. */
static enum err check_memory(const struct mlt_ps_memory *m, unsigned nodes,
                             struct fault *f)
{
    uint64_t need = m->branch * HOST_MODELS_MIN + m->fixed + m->updates +
                    m->caches + m->sums + m->access;

    if (need <= m->limit)
        return ERR_OK;
    return fault_set(
        f, ERR_LIMIT,
        "a node needs %.1f MiB beside its data and has %.1f MiB: %d copies of "
        "its part of the training state take %.1f MiB, updates %.1f, rows read "
        "%.1f, sums from other nodes %.1f, access knowledge %.1f; raise "
        "memory.limit by %.1f MiB (%u nodes)",
        mib(need), mib(m->limit), HOST_MODELS_MIN,
        mib(m->branch * HOST_MODELS_MIN), mib(m->updates), mib(m->caches),
        mib(m->sums), mib(m->access), mib((need - m->limit) * nodes) + 0.1,
        nodes);
}

/* What each node of the run takes; of several it is checked here. */
static enum err plan_memory(const struct run_config *c,
                            const struct host_config *one,
                            struct mlt_ps_memory *out, char **work,
                            struct fault *f)
{
    struct host_config o = *one;
    enum err err;

    o.config = c->effective;
    o.meet = "nowhere";
    err = host_plan(&o, out, work, f);
    return err || c->nodes == 1 ? err : check_memory(out, c->nodes, f);
}

/* What a table's label is taken for, and why: classes or numbers. @data: as
 * struct mlt_app_info has it, or NULL. */
static void print_label(const char *data)
{
    json_t *all = data ? json_loads(data, 0, NULL) : NULL;
    const json_t *column, *classes;
    size_t i;

    json_array_foreach((json_t *)json_at(all, "/columns"), i, column)
    {
        const char *name = json_text_at(column, "/name");

        if (strcmp(json_text_at(column, "/kind"), "label") != 0)
            continue;
        classes = json_at(column, "/classes");
        printf("label     %s%s", name, *name ? ": " : "");
        if (classes)
            printf("%zu classes; nn and glm predict numbers with loss "
                   "squared\n",
                   json_array_size(classes) +
                       (size_t)json_integer_value(
                           json_at(column, "/classes_left_out")));
        else
            printf("numbers to predict, %.4g to %.4g, since loss is squared\n",
                   json_number_at(column, "/min"),
                   json_number_at(column, "/max"));
    }
    json_decref(all);
}

/* @work: how the application splits its work, in lines, or NULL. */
static void print_loaded(const struct run_config *c,
                         const struct host_facts *facts,
                         const struct mlt_ps_memory *memory, const char *work)
{
    printf("loaded    %" PRIu64 " samples, %" PRIu64
           " for validation; %.4g MiB a branch\n",
           facts->info.samples, facts->info.validation_samples,
           mib(facts->branch_bytes));
    print_label(facts->info.data);
    print_memory(memory, c->nodes, HOST_MODELS_MIN);
    for (const char *line = work; line && *line;) {
        size_t n = strcspn(line, "\n");

        printf("%-10s%.*s\n", line == work ? "work" : "", (int)n, line);
        line += n + (line[n] == '\n');
    }
}

static enum err open_all(const struct run_config *c,
                         const struct mlt_app_ops *app, bool aloud,
                         struct fault *f)
{
    json_t *config = config_of_one(c);
    struct host_config o = {
        .app = app, .config = config, .folder = c->folder, .seed = c->seed};
    struct host *host = NULL;
    char *work = NULL;
    struct mlt_ps_memory memory;
    struct host_facts facts = {0};
    enum err err = config ? host_open(&o, &host, f)
                          : fault_set(f, ERR_NOMEM, "out of memory");

    if (!err)
        facts = *host_facts(host);
    if (!err)
        err = plan_memory(c, &o, &memory, &work, f);
    if (!err && aloud)
        print_loaded(c, &facts, &memory, work);
    mem_free(work);
    host_close(host);
    json_decref(config);
    return err;
}

/* The application, and what @c names as data where that is no plug-in's own
 * affair. */
static enum err look(const struct run_config *c, bool aloud, struct fault *f)
{
    const char *plugin =
        json_string_value(json_object_get(c->app_settings, "plugin"));
    const struct mlt_app_ops *app = plugin ? NULL : c->app->ops;
    uint64_t bytes = 0;
    enum err err;

    if (plugin) {
        err = app_plugin_open(plugin, &app, f);
        return err ? err : open_all(c, app, aloud, f);
    }
    if (!confine(CONFINE_READ))
        log_event(LOG_WARN, "not_confined", "verb=run");
    err = glance(c, &bytes, f);
    if (err || bytes <= REHEARSAL_BYTES)
        return err ? err : open_all(c, app, aloud, f);
    if (aloud)
        printf("data      %.1f MiB: there, but only their heads were read\n",
               (double)bytes / 1048576);
    return ERR_OK;
}

int rehearse(const struct run_config *c, bool aloud)
{
    struct fault f = {0};
    enum err err;

    assert(c);
    if (config_is_program(c))
        return EXIT_DONE;
    err = look(c, aloud, &f);
    if (err)
        console_error("%s", f.text);
    return exit_code_of_load(err);
}
