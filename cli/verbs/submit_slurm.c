#include "cli/verbs/submit_slurm.h"

#include "base/deadlines.h"
#include "base/file_io.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "base/subprocess_io.h"
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/config/config_file.h"
#include "cli/verbs/slurm_job.h"
#include "tuner/shell/keeper.h"
#include "tuner/shell/state_io.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { JOB_ID_MAX = 80 }; /* bytes of what sbatch calls the job, with its end */

/* What one is made of. */
struct job_parts {
    char state[FILE_PATH_MAX], slurm[FILE_PATH_MAX], program[PATH_MAX];
    struct run_config *config; /* owned */
    char *text;                /* owned */
    struct slurm_job job;
};

static void parts_deinit(struct job_parts *p)
{
    run_config_free(p->config);
    mem_free(p->text);
}

static int read_config(const struct submit_slurm *s, struct job_parts *p)
{
    const struct option_list sets = {.len = 1,
                                     .item = {"cluster.launcher=slurm"}};

    return run_config_load_text(s->config, &sets, &p->config, &p->text);
}

static int find_program(struct job_parts *p)
{
    ssize_t n = readlink("/proc/self/exe", p->program, sizeof(p->program) - 1);

    if (n > 0) {
        p->program[n] = '\0';
        return EXIT_DONE;
    }
    console_error("which program this is is not known: %s", strerror(errno));
    return EXIT_IO;
}

/* Of a state folder that is not there, too: nothing is made yet. */
static enum err absolute(const char *path, char out[FILE_PATH_MAX],
                         struct fault *f)
{
    char here[FILE_PATH_MAX];

    if (access(path, F_OK) == 0)
        return folder_absolute(path, out, f);
    if (path[0] != '/' && !getcwd(here, sizeof(here)))
        return fault_errno(f, ERR_IO, errno, "this folder");
    return path[0] == '/' ? file_join(out, "", path + 1, f)
                          : file_join(out, here, path, f);
}

static int find_folders(const struct submit_slurm *s, struct job_parts *p)
{
    struct fault f = {0};
    enum err err = absolute(s->state, p->state, &f);

    if (!err)
        err = file_join(p->slurm, p->state, "slurm", &f);
    if (err)
        console_error("%s", f.text);
    return exit_code_of(err);
}

/* What was said of the number; 0: nothing, of nodes that is 1. */
static unsigned given(const struct job_parts *p, const char *pointer)
{
    const json_t *n = json_at(p->config->given, pointer);

    return json_is_integer(n) ? (unsigned)json_integer_value(n) : 0;
}

static int count_nodes(const struct submit_slurm *s, struct job_parts *p)
{
    unsigned said = given(p, "/cluster/nodes");

    if (s->nodes.given &&
        (s->nodes.value < 1 || s->nodes.value > KEEPER_NODES_MAX)) {
        console_error("--nodes: expected 1 to %d", KEEPER_NODES_MAX);
        return EXIT_USAGE;
    }
    p->job.nodes = s->nodes.given ? (unsigned)s->nodes.value : said ? said : 1;
    return EXIT_DONE;
}

static int prepare(const struct submit_slurm *s, struct job_parts *p)
{
    int code = read_config(s, p);

    if (code == EXIT_DONE)
        code = find_program(p);
    if (code == EXIT_DONE)
        code = count_nodes(s, p);
    if (code == EXIT_DONE)
        code = find_folders(s, p);
    if (code != EXIT_DONE)
        return code;
    p->job.name = p->config->name;
    p->job.workers = given(p, "/cluster/workers");
    p->job.time = s->time;
    p->job.partition = s->partition;
    p->job.more = s->more;
    p->job.program = p->program;
    p->job.command =
        json_string_value(json_at(p->config->given, "/cluster/command"));
    p->job.state = p->state;
    p->job.folder = p->config->folder;
    p->job.config = p->text;
    return EXIT_DONE;
}

/* ---- sbatch -------------------------------------------------------------- */

/* Its answer, one line, into @out; "": it gave none. */
static void read_answer(FILE *answer, char out[JOB_ID_MAX])
{
    out[0] = '\0';
    rewind(answer);
    if (!fgets(out, JOB_ID_MAX, answer))
        out[0] = '\0';
    out[strcspn(out, ";\n")] = '\0'; /* behind it, which cluster */
}

static enum err run_sbatch(const char *script, FILE *in, FILE *answer,
                           struct fault *f)
{
    char program[FILE_PATH_MAX];
    char *argv[] = {"sbatch", "--parsable", NULL};
    struct subprocess_options o = {
        .path = program,
        .argv = argv,
        .file = {fileno(in), fileno(answer), STDERR_FILENO},
        .signals = SUBPROCESS_SIGNALS_USUAL,
        .death_signal = SIGKILL};
    struct subprocess p;
    bool ended;
    enum err err;

    if (!subprocess_find("sbatch", program, sizeof(program)))
        return fault_set(f, ERR_NODE,
                         "the program `sbatch` is not on this machine: Slurm "
                         "is needed here (--print prints the job's script)");
    if (fputs(script, in) == EOF || fflush(in) != 0)
        return fault_errno(f, ERR_IO, errno, "the script for sbatch");
    rewind(in);
    err = subprocess_start(&p, &o, f);
    if (err)
        return err;
    ended = subprocess_wait(&p, DEADLINE_SBATCH_MS, -1);
    subprocess_stop(&p, 0, -1);
    if (!ended)
        return fault_set(f, ERR_NODE,
                         "sbatch has not answered in %d s: whether the job was "
                         "taken, squeue tells",
                         DEADLINE_SBATCH_MS / 1000);
    return p.code == 0 ? ERR_OK
                       : fault_set(f, ERR_NODE, "sbatch did not take the job");
}

static enum err hand_over(const char *script, char job[JOB_ID_MAX],
                          struct fault *f)
{
    FILE *in = tmpfile(), *answer = in ? tmpfile() : NULL;
    enum err err = answer ? run_sbatch(script, in, answer, f)
                          : fault_errno(f, ERR_IO, errno, "a temporary file");

    if (!err)
        read_answer(answer, job);
    if (!err && !job[0])
        err = fault_set(f, ERR_NODE, "sbatch named no job");
    if (in)
        fclose(in);
    if (answer)
        fclose(answer);
    return err;
}

static int say(const struct submit_slurm *s, const struct job_parts *p,
               const char *job)
{
    char log[FILE_PATH_MAX + JOB_ID_MAX + 16];
    json_t *o;
    int code;

    snprintf(log, sizeof(log), "%s/slurm/%s.log", p->state, job);
    if (!s->json) {
        console_line(stdout, "job %s: its log is %s", job, log);
        return EXIT_DONE;
    }
    o = json_pack("{s:s, s:s, s:s}", "job", job, "log", log, "state", p->state);
    code = console_json(o, 0);
    json_decref(o);
    return code;
}

/* Nothing is made but what was asked for. */
static int print(const struct job_parts *p, char *script)
{
    if (access(p->slurm, F_OK) != 0)
        console_note("sbatch needs the folder %s, which is not there",
                     p->slurm);
    return console_text(script);
}

static int submit(const struct submit_slurm *s, const struct job_parts *p,
                  const char *script)
{
    char job[JOB_ID_MAX], state[FILE_PATH_MAX];
    struct fault f = {0};
    enum err err = state_make(s->state, state, &f);

    if (!err)
        err = folder_make(p->slurm, &f);
    if (!err)
        err = hand_over(script, job, &f);
    if (!err)
        return say(s, p, job);
    console_error("%s", f.text);
    return err == ERR_NODE ? EXIT_NO_SERVER : exit_code_of(err);
}

int submit_slurm(const struct submit_slurm *s)
{
    struct job_parts p = {.config = NULL};
    struct text script = {0};
    struct fault f = {0};
    int code = prepare(s, &p);
    enum err err =
        code == EXIT_DONE ? slurm_job_script(&p.job, &script, &f) : ERR_OK;

    assert(s->config && s->state);
    if (err) {
        console_error("%s", f.text);
        code = err == ERR_INVAL ? EXIT_USAGE : exit_code_of(err);
    } else if (code == EXIT_DONE && s->print) {
        code = print(&p, text_take(&script));
    } else if (code == EXIT_DONE) {
        code = submit(s, &p, text_so_far(&script));
    }
    text_deinit(&script);
    parts_deinit(&p);
    return code;
}
