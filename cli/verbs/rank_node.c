/* `mltune rank-node node ...`: what stands for a node on another rank
 * (cluster.launcher mpi and kubernetes), and is that node on rank 0; started by
 * tuners.
 *
 * Standard input begins with the run's key, as that of `mltune node --tether`;
 * what that rank's node writes goes where our standard output does. Ends as the
 * node does. */
#include "base/clock_io.h"
#include "base/deadlines.h"
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/verbs.h"
#include "tuner/shell/ranks_io.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct relay {
    const char *place;
    unsigned rank;
    struct ranks all; /* of ours the rank is 0 */
    struct ranks_work work;
    bool asked, taken, stopped; /* the rank is free, has it, is to end it */
    time_ns until;              /* it is to be taken, or to end */
};

/* After the word --node. */
static bool find_rank(int argc, char **argv, unsigned *out)
{
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], "--node") == 0)
            return sscanf(argv[i + 1], "%u", out) == 1;
    return false;
}

/* The first line of standard input, and no byte behind it. */
static bool read_key(char key[RUN_KEY_LEN + 1])
{
    char end;

    for (size_t n = 0; n < RUN_KEY_LEN;) {
        ssize_t got = read(STDIN_FILENO, key + n, RUN_KEY_LEN - n);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        n += (size_t)got;
    }
    key[RUN_KEY_LEN] = '\0';
    return read(STDIN_FILENO, &end, 1) == 1 && end == '\n';
}

static bool find_log(char out[FILE_PATH_MAX])
{
    ssize_t n = readlink("/proc/self/fd/1", out, FILE_PATH_MAX - 1);

    if (n > 0)
        out[n] = '\0';
    return n > 0 && out[0] == '/';
}

static void wait_for(struct relay *r, int ms)
{
    r->until = clock_monotonic() + ms * 1000000LL;
}

/* Tells the rank what to start, as soon as it is free. What it asked before, in
 * an earlier job, is asked no more. */
static int hand_over(struct relay *r)
{
    char host[RANKS_HOST_MAX];
    struct fault f = {0};
    uint64_t number;

    if (r->asked && !ranks_answer_waits(r->place, r->rank)) {
        r->taken = true;
        return EXIT_DONE;
    }
    if (!ranks_asked(r->place, r->rank, &number, host) ||
        (r->asked && number == r->work.number))
        return EXIT_DONE;
    r->work.number = number;
    r->asked = true;
    if (ranks_answer(r->place, r->rank, &r->work, &f) == ERR_OK)
        return EXIT_DONE;
    console_error("%s", f.text);
    return EXIT_IO;
}

static int ended(const struct relay *r, int code)
{
    if (code >= 0)
        return code;
    console_error("node %u: it was killed by signal %d", r->rank, -code);
    return EXIT_SIGNAL - code;
}

/* Our standard input has ended: so is the node's. */
static void look_at_stdin(struct relay *r)
{
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};

    if (r->stopped) {
        poll(NULL, 0, RANKS_LOOK_MS);
        return;
    }
    if (poll(&p, 1, RANKS_LOOK_MS) <= 0)
        return;
    r->stopped = true;
    wait_for(r, DEADLINE_NODE_STOP_MS);
    if (r->asked)
        ranks_stop(r->place, r->rank, r->work.number, NULL);
}

/* Whether it asks for another node while it should have this one: it is a new
 * pod. (A rank says that its node has ended before it asks again.) */
static bool is_replaced(const struct relay *r)
{
    char host[RANKS_HOST_MAX];
    uint64_t number;

    return r->taken && ranks_asked(r->place, r->rank, &number, host) &&
           number != r->work.number;
}

static int give_up(const struct relay *r)
{
    if (r->stopped)
        console_error("rank %u does not end its node", r->rank);
    else if (r->all.pods)
        console_error("index %u of the job has not come within %d s to take "
                      "its node: kubectl describe says why its pod is not "
                      "there",
                      r->rank, r->all.wait_ms / 1000);
    else
        console_error("rank %u, of those that mpirun has started, does not "
                      "take its node",
                      r->rank);
    return EXIT_RUN_FAILED;
}

static int relay(struct relay *r)
{
    int code = EXIT_DONE;

    wait_for(r, r->all.wait_ms);
    while (code == EXIT_DONE) {
        bool replaced = is_replaced(r);

        if (r->asked && ranks_ended(r->place, r->rank, r->work.number, &code))
            return ended(r, code);
        if (replaced) {
            console_error("node %u: its pod was started anew", r->rank);
            return EXIT_RUN_FAILED;
        }
        if (!r->taken)
            code = hand_over(r);
        if ((!r->taken || r->stopped) && clock_monotonic() > r->until)
            return give_up(r);
        look_at_stdin(r);
    }
    return code;
}

int verb_rank_node(int argc, char **argv)
{
    struct relay r = {.place = getenv("MLTUNE_RANKS")};

    if (argc < 2 || argc > RANKS_WORDS_MAX || !r.place ||
        !find_rank(argc, argv, &r.rank) ||
        !(ranks_find_pod(&r.all) || ranks_find(&r.all))) {
        console_error("rank-node: it is started by tuners under mpirun and in "
                      "pods of Kubernetes");
        return EXIT_USAGE;
    }
    if (r.rank == 0) {
        argv[0] = "mltune";
        execv("/proc/self/exe", argv);
        console_error("node 0: %s", strerror(errno));
        return EXIT_IO;
    }
    if (!read_key(r.work.key) || !find_log(r.work.log)) {
        console_error("rank-node: no key on standard input, or no log");
        return EXIT_IO;
    }
    r.work.n = (size_t)argc - 1;
    memcpy(r.work.word, argv + 1, r.work.n * sizeof(*argv));
    return relay(&r);
}
