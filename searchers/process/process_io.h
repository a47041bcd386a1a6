/* Searchers that run in another process and speak JSON lines
 * (searchers/process/searcher_protocol.h, docs/searcher-protocol.md): a program
 * in any language, or a shared object hosted by `mltune searcher-host`.
 *
 * Why shared objects, too, get a process: within the tuner a crash or an
 * endless loop in foreign code could not be caught, and would take the run with
 * it. The price is a message of some 50 us a proposal.
 *
 * The settings of both (what the configuration's "searcher" says, completed):
 *
 *     command   ["python3", "my.py"]; found in PATH, or from folder where it
 *               has a slash             (searcher_process)
 *     plugin    path of the shared object, absolute   (searcher_plugin)
 *     folder    working folder of the process, absolute
 *     timeout   longest an answer may take, "10s"
 *     fallback  what goes on when it fails: tpe
 *     settings  its own, checked by the schema that it states
 *     broken    why it is not to be started at all; "": it is
 *
 * Nothing blocks but close, for at most a quarter of a second, and a new ask,
 * for a fifth of a millisecond: it is ERR_AGAIN until the answer has come. What
 * goes wrong is told by an ask, once: no start, ERR_NOENT or ERR_IO; no answer
 * in time, ERR_TIMEOUT; an end, ERR_IO; nonsense, ERR_PROTO; its own error,
 * ERR_APP or ERR_INVAL. The process is killed by then, with all of its process
 * group. A proposal that was tried already is replaced by one of `random`.
 */
#ifndef SEARCHERS_PROCESS_IO_H
#define SEARCHERS_PROCESS_IO_H

#include "searchers/process/searcher_protocol.h"

extern const struct searcher_ops searcher_process;
extern const struct searcher_ops searcher_plugin;

/* Starts the searcher that @settings describe, as @ops would, to see whether it
 * can search @space (NULL: only what it says of itself), and ends it again.
 * Blocks for at most its time-out.
 *
 * @hello    what it says of itself; may be NULL;
 * searcher_protocol_hello_deinit, on success
 *
 * Errors: those of ask, ERR_INVAL for settings that it refuses, ERR_NOMEM. */
enum err searcher_process_try(const struct searcher_ops *ops,
                              const struct space *space, const json_t *settings,
                              struct searcher_protocol_hello *hello,
                              struct fault *f);

/* Whether an error of searcher_process_try is the configuration's fault, which
 * the user should mend, rather than an accident in a run that can go on. */
bool searcher_process_is_refusal(enum err err);

#endif
