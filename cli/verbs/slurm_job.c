#include "cli/verbs/slurm_job.h"

#include <assert.h>
#include <string.h>

#define PLAIN                                                                  \
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.,:=+-"

static bool is_plain(const char *text)
{
    return *text && text[strspn(text, PLAIN)] == '\0';
}

/* One line of a script. */
static bool is_line(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 127)
            return false;
    return true;
}

static enum err check(const struct slurm_job *job, struct fault *f)
{
    const char *const paths[] = {job->program, job->state, job->folder};

    if (job->time && !is_plain(job->time))
        return fault_set(f, ERR_INVAL,
                         "--time: expected what sbatch takes, as 90 (minutes), "
                         "12:00:00 or 2-00:00:00");
    if (job->partition && !is_plain(job->partition))
        return fault_set(f, ERR_INVAL,
                         "--partition: expected a partition's name");
    for (size_t i = 0; job->more && i < job->more->len; i++)
        if (job->more->item[i][0] != '-' || !is_line(job->more->item[i]))
            return fault_set(f, ERR_INVAL,
                             "--sbatch: expected an option of sbatch in one "
                             "word, as --sbatch=--mem=8G");
    for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++)
        if (!is_line(paths[i]))
            return fault_set(f, ERR_INVAL,
                             "a path has a character that no batch script can "
                             "have: %.300s",
                             paths[i]);
    return ERR_OK;
}

/* ---- what sbatch reads --------------------------------------------------- */

/* sbatch reads words as a shell would: quotes, and \ before what is meant. In
 * @patterns, names of files, a % is the beginning of one. */
static void add_quoted(struct text *t, const char *value, bool patterns)
{
    for (; *value; value++) {
        if (*value == '"' || *value == '\\')
            text_puts(t, "\\");
        if (*value == '%' && patterns)
            text_puts(t, "%");
        text_add(t, value, 1);
    }
}

static void add_value(struct text *t, const char *value)
{
    if (is_plain(value)) {
        text_puts(t, value);
        return;
    }
    text_puts(t, "\"");
    add_quoted(t, value, false);
    text_puts(t, "\"");
}

static void add_option(struct text *t, const char *name, const char *value)
{
    text_printf(t, "#SBATCH --%s=", name);
    add_value(t, value);
    text_puts(t, "\n");
}

static void add_log(struct text *t, const char *state)
{
    text_puts(t, "#SBATCH --output=\"");
    add_quoted(t, state, true);
    text_puts(t, "/slurm/%j.log\"\n");
}

static void add_more(struct text *t, const struct option_list *more)
{
    for (size_t i = 0; more && i < more->len; i++) {
        const char *word = more->item[i], *value = strchr(word, '=');

        text_puts(t, "#SBATCH ");
        text_add(t, word, value ? (size_t)(value + 1 - word) : strlen(word));
        if (value)
            add_value(t, value + 1);
        text_puts(t, "\n");
    }
}

static void add_head(struct text *t, const struct slurm_job *job)
{
    add_option(t, "job-name", job->name);
    text_printf(t, "#SBATCH --nodes=%u\n", job->nodes);
    if (job->workers)
        text_printf(t, "#SBATCH --cpus-per-task=%u\n", job->workers);
    else
        text_puts(t, "#SBATCH --exclusive\n");
    if (job->time)
        add_option(t, "time", job->time);
    if (job->partition)
        add_option(t, "partition", job->partition);
    text_printf(t,
                "#SBATCH --requeue\n#SBATCH --open-mode=append\n"
                "#SBATCH --signal=B:USR1@%d\n",
                SLURM_JOB_WARNING_S);
    add_log(t, job->state);
    add_option(t, "chdir", job->folder);
    add_more(t, job->more);
}

/* ---- what the shell reads ------------------------------------------------ */

static void add_setting(struct text *t, const char *name, const char *value)
{
    text_printf(t, "%s=", name);
    text_shell_word(t, value);
    text_puts(t, "\n");
}

/* A valid configuration has no line that is a bare word: strings of JSON have
 * no ends of lines in them. */
static void add_config(struct text *t, const char *config)
{
    size_t len = strlen(config);

    text_puts(t, " <<'MLTUNE_CONFIG' &\n");
    text_puts(t, config);
    text_puts(t, len > 0 && config[len - 1] == '\n' ? "" : "\n");
    text_puts(t, "MLTUNE_CONFIG\n");
}

/* scancel and the time limit end all processes of the job: mltune is told by
 * Slurm itself then, and told twice it would end without a snapshot.
 *
 * What a shell starts beside itself ignores SIGINT until it asks for it, so
 * mltune gets SIGTERM, which means the same and is not lost. A warning would
 * end it as long as it does not listen: it is started deaf to it, while there
 * is nothing to save yet. */
static void add_signals(struct text *t)
{
    text_puts(t, "trap '' USR1\n"
                 "trap 'caught=1; if [ \"$pid\" ]; then kill -TERM \"$pid\"; "
                 "else early=1; fi' INT\n"
                 "trap 'caught=1' TERM\n");
}

static void add_start(struct text *t, const struct slurm_job *job)
{
    text_puts(t, "[ \"$restarts\" -gt 0 ] || rm -f \"$run\" \"$asked\"\n"
                 "if [ -s \"$run\" ]; then\n"
                 "    \"$mltune\" resume \"$(cat \"$run\")\" --state "
                 "\"$state\" \\\n"
                 "        --set cluster.nodes=\"$SLURM_JOB_NUM_NODES\" &\n"
                 "else\n"
                 "    \"$mltune\" run - --state \"$state\" --id-file \"$run\" "
                 "\\\n"
                 "        --set cluster.launcher=slurm \\\n"
                 "        --set cluster.nodes=\"$SLURM_JOB_NUM_NODES\"");
    if (!job->command)
        text_puts(t, " \\\n        --set cluster.command=\"$mltune\"");
    add_config(t, job->config);
    text_puts(t, "fi\npid=$!\n"
                 "[ -z \"$early\" ] || kill -TERM \"$pid\"\n"
                 "trap 'caught=1; kill -USR1 \"$pid\"' USR1\n");
}

/* wait ends for a signal, too, whether mltune has ended meanwhile or not. Asked
 * again for an end that it has told, it says 127. */
static void add_end(struct text *t)
{
    text_printf(
        t,
        "code=127\n"
        "while\n"
        "    caught=\n"
        "    wait \"$pid\"\n"
        "    told=$?\n"
        "    [ \"$told\" -eq 127 ] || code=$told\n"
        "    [ \"$caught\" ]\n"
        "do :; done\n"
        "# Interrupted, most likely since a host was lost: again, without it.\n"
        "times=$(cat \"$asked\" 2>/dev/null)\n"
        "if [ \"$code\" -eq 75 ] && [ \"${times:-0}\" -lt %d ] &&\n"
        "    echo \"$((${times:-0} + 1))\" >\"$asked\"; then\n"
        "    scontrol requeue \"$SLURM_JOB_ID\"\n"
        "fi\n"
        "exit \"$code\"\n",
        SLURM_JOB_AGAIN_MAX);
}

enum err slurm_job_script(const struct slurm_job *job, struct text *out,
                          struct fault *f)
{
    enum err err = check(job, f);

    assert(job->name && job->nodes > 0 && job->config);
    if (err)
        return err;
    text_puts(out, "#!/bin/sh\n");
    add_head(out, job);
    text_puts(out,
              "# mltune " MLT_VERSION
              ": the configuration is below. Started again by Slurm, the job\n"
              "# goes on with its run, whose id the file $run keeps.\n");
    add_setting(out, "mltune", job->program);
    add_setting(out, "state", job->state);
    text_puts(out, "run=$state/slurm/$SLURM_JOB_ID.run\n"
                   "asked=$state/slurm/$SLURM_JOB_ID.asked\n"
                   "restarts=${SLURM_RESTART_COUNT:-0}\n"
                   "pid= early= caught=\n");
    add_signals(out);
    add_start(out, job);
    add_end(out);
    return text_lost(out) ? fault_set(f, ERR_NOMEM, "out of memory") : ERR_OK;
}
