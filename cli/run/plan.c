#include "cli/run/plan.h"

#include "base/json/json.h"
#include "base/ring_bytes.h"
#include "base/text.h"
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/fold.h"
#include "cli/basics/progress.h"
#include "cli/basics/table.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* One value of a tunable: its text, or its number. */
static void add_value(struct text *t, const struct tunable *tunable, double x)
{
    const char *text = NULL;

    if (tunable->type == TUNABLE_CATEGORICAL) {
        text = tunable_text(tunable, (size_t)x);
        x = tunable->values[(size_t)x].number;
    }
    if (text)
        text_puts(t, text);
    else
        text_printf(t, "%.6g", x);
}

static void add_range(struct text *t, const struct tunable *tunable)
{
    static const char *const scales[] = {[SCALE_LINEAR] = "",
                                         [SCALE_LOG] = ", log",
                                         [SCALE_REVERSE_LOG] = ", reverse log"};

    if (tunable->fixed) {
        text_puts(t, "pinned at ");
        add_value(t, tunable, tunable->pinned);
        return;
    }
    if (tunable->values_len == 0) {
        text_printf(t, "%.6g to %.6g%s", tunable->min, tunable->max,
                    scales[tunable->scale]);
        return;
    }
    for (size_t i = 0; i < tunable->values_len; i++) {
        if (i > 0)
            text_puts(t, ", ");
        add_value(t, tunable, tunable_at(tunable, i));
    }
}

static void print_tunables(const struct space *space)
{
    struct text_table table = {
        .columns = 3, .no_heading = true, .width = fold_width(STDOUT_FILENO)};

    for (size_t i = 0; i < space->len; i++) {
        struct text range = {0}, preset = {0};

        add_range(&range, &space->tunable[i]);
        add_value(&preset, &space->tunable[i], space->tunable[i].preset);
        table_add(&table, "%s", space->tunable[i].name);
        table_add(&table, "%s", range.s ? range.s : "");
        table_add(&table, "default %s", preset.s ? preset.s : "");
        text_deinit(&range);
        text_deinit(&preset);
    }
    table_print(&table, stdout, "          ");
    table_deinit(&table);
}

static void print_stops(const struct run_config *c)
{
    char time[32];

    printf("stop      max_epochs %u, plateau_epochs %u", c->max_epochs,
           c->plateau_epochs);
    if (c->plateau_samples)
        printf(", plateau_samples %llu%s",
               (unsigned long long)c->plateau_samples,
               c->plateau_hits ? " (of hits, too)" : "");
    if (!isnan(c->target_loss))
        printf(", target_loss %.6g", c->target_loss);
    if (!isnan(c->target_metric))
        printf(", target_metric %.6g", c->target_metric);
    if (isfinite(c->max_time_s)) {
        progress_duration(c->max_time_s, time, sizeof(time));
        printf(", max_time %s", time);
    }
    printf("\n");
}

/* The file or command of a searcher from outside (@own, or NULL). */
static void print_program(const json_t *own)
{
    const json_t *command = json_object_get(own, "command"), *word;
    const char *plugin = json_string_value(json_object_get(own, "plugin"));
    size_t i;

    if (plugin)
        printf(" %s", plugin);
    json_array_foreach(command, i, word)
    {
        printf(" %s", json_string_value(word));
    }
}

/* The command that a program will be started with. */
static void print_command(const struct run_config *c)
{
    printf("          command");
    print_program(c->app_settings);
    printf("\n          which is %s, in %s\n", c->program_path,
           c->program_folder);
}

static void print_tuner(const struct run_config *c)
{
    size_t dims = space_dims(&c->space);

    printf("tuner     strategy %s, searcher %s", c->strategy->name,
           c->searcher->name);
    print_program(c->searcher_own);
    if (dims > 0)
        printf(", %zu tunable%s to search, at most %zu trials", dims,
               dims == 1 ? "" : "s",
               c->max_trials ? c->max_trials : 12 + 6 * dims);
    if (c->trial_clocks)
        printf(", %llu clocks a trial", (unsigned long long)c->trial_clocks);
    printf("\n");
}

static const char *where_nodes_run(const struct run_config *c)
{
    const char *launcher =
        json_string_value(json_at(c->effective, "/cluster/launcher"));

    if (launcher && strcmp(launcher, "ssh") == 0)
        return "on hosts by ssh";
    if (launcher && strcmp(launcher, "slurm") == 0)
        return "on hosts of the allocation";
    if (launcher && strcmp(launcher, "mpi") == 0)
        return "where mpirun starts them";
    if (launcher && strcmp(launcher, "kubernetes") == 0)
        return "a pod each";
    return "on this machine";
}

/* How nodes talk that the tuner starts on its own machine; elsewhere they do so
 * over tcp. A program's own server decides for itself. */
static void print_rings(const struct run_config *c)
{
    const json_t *launcher = json_at(c->effective, "/cluster/launcher");
    const json_t *given = json_at(c->effective, "/ps/ring_bytes");
    int64_t bytes = json_is_integer(given)
                        ? json_integer_value(given)
                        : (int64_t)ring_bytes_unless_given(c->nodes);

    if (c->nodes == 1 || config_is_program(c) ||
        (json_is_string(launcher) &&
         strcmp(json_string_value(launcher), "local") != 0))
        return;
    if (bytes > 0)
        printf("          frames between nodes through rings of %lld KiB\n",
               (long long)(bytes >> 10));
    else
        printf("          frames between nodes through sockets\n");
}

int plan_print(const struct run_config *c, bool json)
{
    const char *data =
        json_string_value(json_object_get(c->app_settings, "data"));
    char setting[512];

    assert(c);
    if (json)
        return console_json(c->effective, 0);
    printf("run       %s, seed %llu\n", c->name, (unsigned long long)c->seed);
    printf("app       %s%s%s\n", c->app_name, data ? " on " : "",
           data ? data : "");
    if (config_is_program(c)) {
        print_command(c);
    } else {
        progress_setting(c->app_settings, setting, sizeof(setting));
        printf("          %s\n", setting);
    }
    printf("cluster   %u node%s, %u worker%s%s, %s\n", c->nodes,
           c->nodes == 1 ? "" : "s", c->workers, c->workers == 1 ? "" : "s",
           c->nodes == 1 ? "" : " each", where_nodes_run(c));
    print_rings(c);
    if (!config_is_program(c))
        printf("ps        rule %s%s%s, consistency %s%s%s\n",
               c->update_rule->name, c->rule ? " of your own: " : "",
               c->rule ? c->update_rule->summary : "", c->consistency->name,
               c->model ? ", a model of your own: " : "",
               c->model ? c->consistency->summary : "");
    if (c->metric)
        printf("metric    %s\n", c->metric);
    print_tuner(c);
    print_tunables(&c->space);
    print_stops(c);
    return EXIT_DONE;
}
