#include "tuner/shell/engine.h"

#include "base/mem.h"
#include "base/text.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum {
    EXIT_NOT_EXECUTABLE = 126, /* as shells have it */
    EXIT_NOT_FOUND = 127
};

static void add(struct engine_words *w, char *word, bool *failed)
{
    assert(w->n < ENGINE_WORDS_MAX);
    if (word)
        w->word[w->n++] = word;
    *failed |= !word;
}

static void add_copies(struct engine_words *w, const char *const word[],
                       size_t n, bool *failed)
{
    for (size_t i = 0; i < n; i++)
        add(w, mem_strdup(word[i]), failed);
}

void engine_words_deinit(struct engine_words *w)
{
    assert(w);
    for (size_t i = 0; i < w->n; i++)
        mem_free(w->word[i]);
    memset(w, 0, sizeof(*w));
}

static enum err finish(struct engine_words *w, bool failed,
                       struct engine_words *out)
{
    if (failed) {
        engine_words_deinit(w);
        return ERR_NOMEM;
    }
    *out = *w;
    return ERR_OK;
}

/* ---- ssh ----------------------------------------------------------------- */

/* The far shell gets one line. */
static char *line_of(char *const node[])
{
    struct text t = {0};

    for (size_t i = 0; node[i]; i++) {
        if (i)
            text_puts(&t, " ");
        text_shell_word(&t, node[i]);
    }
    return text_take(&t);
}

/* Asks nobody for a password; a host that does not answer, or falls silent, is
 * given up within DEADLINE_SSH_MS (base/deadlines.h; 3 times 5 s). A connection
 * that others share would outlive what we end. */
static enum err wrap_ssh(const char *host, char *const node[],
                         struct engine_words *out)
{
    static const char *const head[] = {"ssh", "-T",
                                       "-o",  "BatchMode=yes",
                                       "-o",  "ConnectTimeout=15",
                                       "-o",  "ServerAliveInterval=5",
                                       "-o",  "ServerAliveCountMax=3",
                                       "-o",  "ControlMaster=no",
                                       "-o",  "ControlPath=none",
                                       "--"};
    struct engine_words w = {.n = 0};
    bool failed = false;

    assert(host && node && node[0]);
    add_copies(&w, head, sizeof(head) / sizeof(*head), &failed);
    add(&w, mem_strdup(host), &failed);
    add(&w, line_of(node), &failed);
    return finish(&w, failed, out);
}

/* What ssh says where sshd drops connections (its MaxStartups), or its machine
 * had no turn to accept one. */
static bool ssh_is_busy(const char *words)
{
    static const char *const says[] = {
        "kex_exchange_identification", "Connection closed by",
        "Connection reset by", "Exceeded MaxStartups", "banner exchange"};

    assert(words);
    for (size_t i = 0; i < sizeof(says) / sizeof(*says); i++)
        if (strstr(words, says[i]))
            return true;
    return false;
}

/* ---- slurm --------------------------------------------------------------- */

/* A step of the allocation that this process is in. It may use what other steps
 * use (we may be one), and all cores of its host. */
static enum err wrap_srun(const char *host, char *const node[],
                          struct engine_words *out)
{
    static const char *const head[] = {"srun",
                                       "--nodes=1",
                                       "--ntasks=1",
                                       "--overlap",
                                       "--quiet",
                                       "--cpu-bind=none",
                                       "--kill-on-bad-exit=1",
                                       "--mpi=none",
                                       "--no-kill",
                                       "--unbuffered",
                                       "--nodelist"};
    struct engine_words w = {.n = 0};
    bool failed = false;

    assert(host && node && node[0]);
    add_copies(&w, head, sizeof(head) / sizeof(*head), &failed);
    add(&w, mem_strdup(host), &failed);
    for (size_t i = 0; node[i]; i++)
        add(&w, mem_strdup(node[i]), &failed);
    return finish(&w, failed, out);
}

static bool srun_is_busy(const char *words)
{
    assert(words);
    return strstr(words, "Socket timed out") ||
           strstr(words, "Job step creation temporarily disabled");
}

/* ---- mpi, kubernetes ----------------------------------------------------- */

/* What the ranks meet by is in the environment (cli/verbs/rank_node.c). */
static enum err wrap_rank(const char *host, char *const node[],
                          struct engine_words *out)
{
    static const char *const head[] = {"mltune", "rank-node"};
    struct engine_words w = {.n = 0};
    bool failed = false;

    assert(host && node && node[0]);
    add_copies(&w, head, sizeof(head) / sizeof(*head), &failed);
    for (size_t i = 1; node[i]; i++)
        add(&w, mem_strdup(node[i]), &failed);
    return finish(&w, failed, out);
}

static bool rank_is_busy(const char *words)
{
    (void)words;
    return false;
}

/* ---- the table ----------------------------------------------------------- */

static const struct engine engines[] = {
    {.name = "local"},
    {.name = "ssh",
     .program = "ssh",
     .wrap = wrap_ssh,
     .unreached = 255,
     .busy = ssh_is_busy},
    {.name = "slurm",
     .program = "srun",
     .wrap = wrap_srun,
     .unreached = 1,
     .busy = srun_is_busy},
    {.name = "mpi",
     .program = "/proc/self/exe",
     .wrap = wrap_rank,
     .unreached = 1,
     .busy = rank_is_busy},
    {.name = "kubernetes",
     .program = "/proc/self/exe",
     .wrap = wrap_rank,
     .unreached = 1,
     .busy = rank_is_busy},
};

const struct engine *engine_find(const char *name)
{
    assert(name);
    for (size_t i = 0; i < sizeof(engines) / sizeof(*engines); i++)
        if (strcmp(engines[i].name, name) == 0)
            return &engines[i];
    return NULL;
}

static size_t length_of_line(const char *at)
{
    return strcspn(at, "\n");
}

/* What explains most: what a node of ours gave as its error (@own), without its
 * name; else the last line that says something. Its length is *@n; 0: there is
 * none. */
static const char *find_line(const char *words, size_t *n, bool *own)
{
    static const char error[] = "mltune: error: ";
    const char *best = words;

    *n = 0;
    *own = false;
    for (const char *at = words; *at;) {
        size_t len = length_of_line(at);
        bool ours = strncmp(at, error, sizeof(error) - 1) == 0;
        int name = 0;

        if (len && (ours || !*own)) {
            *own = ours;
            best = ours ? at + sizeof(error) - 1 : at;
            if (ours && sscanf(best, "node %*u: %n", &name) == 0 && name > 0)
                best += name;
            *n = len - (size_t)(best - at);
        }
        at += len + (at[len] != '\0');
    }
    return best;
}

void engine_cause(const struct engine *e, int code, const char *words,
                  const char *command, char *out, size_t size)
{
    size_t n, len = strlen(e->program);
    bool own;
    const char *line = find_line(words, &n, &own), *colon = n ? ": " : "";
    int most = n < 400 ? (int)n : 400;
    bool named = strncmp(line, e->program, len) == 0 && line[len] == ':';

    assert(e->program && size > 0);
    if (!own && (code == EXIT_NOT_FOUND || code == EXIT_NOT_EXECUTABLE ||
                 strstr(words, "execve():")))
        snprintf(out, size,
                 "there is no program `%s` to be run (cluster.command names "
                 "mltune's on the hosts)%s%.*s",
                 command, colon, most, line);
    else if (n && (own || code == e->unreached))
        snprintf(out, size, "%s%s%.*s", named || own ? "" : e->program,
                 named || own ? "" : ": ", most, line);
    else
        snprintf(out, size, "it ended with exit code %d%s%.*s", code, colon,
                 most, line);
}

bool engine_accused(const char *words, unsigned *node, char *out, size_t size)
{
    static const char after[] = " is gone";
    unsigned n;
    int end;

    assert(node && size > 0);
    for (const char *at = words; (at = strstr(at, "node ")); at++) {
        end = 0;
        if (sscanf(at, "node %u%n", &n, &end) != 1 || !end ||
            strncmp(at + end, after, sizeof(after) - 1) != 0)
            continue;
        *node = n;
        /* In the log it stands between quotation marks. */
        snprintf(out, size, "%.*s", (int)strcspn(at, "\"\n"), at);
        return true;
    }
    return false;
}
