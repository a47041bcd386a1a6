/* The training system's processes of a session. */
#include "base/json/json.h"
#include "cli/run/session_internal.h"

#include <assert.h>
#include <stdio.h>

enum { LAST_WORDS_MAX = 2048 };

static enum err node_log(const struct session *s, unsigned node,
                         char out[FILE_PATH_MAX], struct fault *f)
{
    char name[32];

    snprintf(name, sizeof(name), "node-%u.log", node);
    return file_join(out, s->folder.path, name, f);
}

static enum err launch_node(struct session *s, unsigned node, struct fault *f)
{
    char path[FILE_PATH_MAX];
    struct launch launch = {.log_path = path,
                            .node = node,
                            .meet = s->nodes > 1 ? s->meet : NULL,
                            .endpoint = s->socket.endpoint,
                            .verbose = s->o->verbose};
    enum err err = node_log(s, node, path, f);

    return err ? err : launcher_start(&s->node[node], &launch, f);
}

/* A new folder for each start, beside the control socket: what nodes that were
 * killed left in it is not met again. */
static enum err make_meet(struct session *s, struct fault *f)
{
    char name[32];
    enum err err = ERR_OK;

    if (s->meet[0])
        err = folder_remove(s->meet, f);
    snprintf(name, sizeof(name), "m%u", ++s->starts);
    if (!err)
        err = file_join(s->meet, s->socket.folder, name, f);
    return err ? err : folder_make(s->meet, f);
}

enum err session_launch_nodes(struct session *s, struct fault *f)
{
    enum err err = s->nodes > 1 ? make_meet(s, f) : ERR_OK;

    for (unsigned i = 0; i < s->nodes && !err; i++)
        err = launch_node(s, i, f);
    for (unsigned i = 0; i < s->nodes && err; i++)
        launcher_stop(&s->node[i], 0, -1);
    return err;
}

enum err session_start_nodes(struct session *s, struct fault *f)
{
    const json_t *nodes = json_at(s->o->config, "/cluster/nodes");
    enum err err = socket_open(&s->socket, s->folder.path, f);

    s->nodes = json_is_integer(nodes) ? (unsigned)json_integer_value(nodes) : 1;
    assert(s->nodes >= 1 && s->nodes <= KEEPER_NODES_MAX);
    return err ? err : session_launch_nodes(s, f);
}

void session_last_words(const struct session *s)
{
    char words[LAST_WORDS_MAX], path[FILE_PATH_MAX];

    if (!s->result.node_lost)
        return;
    for (unsigned i = 0; i < s->nodes; i++) {
        if (node_log(s, i, path, NULL) != ERR_OK)
            continue;
        launcher_last_words(&s->node[i], words, sizeof(words));
        if (words[0] && s->nodes == 1)
            fprintf(stderr, "its last words (all of them are in %s):\n%s", path,
                    words);
        else if (words[0])
            fprintf(stderr,
                    "last words of node %u (all of them are in %s):\n%s", i,
                    path, words);
    }
}
