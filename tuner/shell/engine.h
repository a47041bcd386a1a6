/* Engines: what starts a node where it is to run (`cluster.launcher`).
 *
 * A node on another machine is known here by a child process that stands in its
 * place: `ssh HOST ...` or `srun --nodelist HOST ...`. Its standard input is
 * the node's, by which the node learns that we are gone; what the node says
 * comes out of it; and it ends as the node ends, or because it could not reach
 * one. An engine says what such a child is called with, and what its end means.
 * Pure.
 */
#ifndef TUNER_ENGINE_H
#define TUNER_ENGINE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    ENGINE_WORDS_MAX = 40,
    ENGINE_HOST_MAX = 256, /* bytes of a host's name, with its end */
    /* Starts of one node whose host was too busy to listen; and before the
     * Nth of them the pause is N times so long. */
    ENGINE_TRIES_MAX = 8,
    ENGINE_PAUSE_MS = 500,
};

/* An argument vector, NULL at the end; owned. */
struct engine_words {
    char *word[ENGINE_WORDS_MAX + 1];
    size_t n;
};

struct engine {
    const char *name;
    /* What is executed, as PATH finds it; NULL: the nodes are our own children,
     * and there is none of the following. */
    const char *program;
    /* The child for the node that is called with @node (NULL at the end, its
     * program first) on @host. @out is owned by the caller
     * (engine_words_deinit); only on success. Errors: ERR_NOMEM. */
    enum err (*wrap)(const char *host, char *const node[],
                     struct engine_words *out);
    /* The exit code by which the child says that it reached no node. */
    int unreached;
    /* Whether its last words say that the host was too busy: worth another
     * try. */
    bool (*busy)(const char *words);
};

/* NULL: there is no such engine. */
const struct engine *engine_find(const char *name);

/* Accepts a zeroed one. */
void engine_words_deinit(struct engine_words *w);

/* Why a child that ended with exit code @code (>= 0) did, for people: "ssh:
 * connect to host beta port 22: Connection refused". @words: the last lines
 * that came out of it; @command: what was to be run there. Into @out[size].
 */
void engine_cause(const struct engine *e, int code, const char *words,
                  const char *command, char *out, size_t size);

/* The node that the last words of another say it has lost ("node 3 is gone:
 * ..."), and that sentence, into @out[size]. False: they say nothing of the
 * kind. */
bool engine_accused(const char *words, unsigned *node, char *out, size_t size);

#endif
