/* Deadlines: the longest that anything here waits for anything else, in one
 * table. docs/failures.md has the same table; a test compares the two.
 *
 * X(name, milliseconds, what is waited for, what happens then): the first
 * becomes DEADLINE_<name>_MS. Waits that a user may set are here with the value
 * that they have where nothing is set, and the key.
 */
#ifndef BASE_DEADLINES_H
#define BASE_DEADLINES_H

#define DEADLINES(X)                                                           \
    /* between tuner and node */                                               \
    X(SILENCE, 60000,                                                          \
      "`hello` of a node (programs: `app.hello_timeout`), and any word after " \
      "it: it beats once a second",                                            \
      "it is killed, and started again")                                       \
    X(READY, 3600000,                                                          \
      "`ready` of a node (`cluster.ready_timeout`, `app.ready_timeout`): it "  \
      "loads its data",                                                        \
      "it is killed; the run ends")                                            \
    X(LATE_READY, 600000,                                                      \
      "the same of a run whose `stop.max_time` is over, and that has a "       \
      "snapshot: its model is to be written",                                  \
      "the run ends")                                                          \
    X(CLOCK, 21600000,                                                         \
      "the next clock of a slice (programs: `app.clock_timeout`)",             \
      "the node is killed, and started again")                                 \
    X(ANSWER, 3600000,                                                         \
      "any other answer of a node: fork, snapshot, model, restore",            \
      "the node is killed, and started again")                                 \
    X(NODE_END, 600000, "the next clock of a node whose run is to end",        \
      "the node is killed, and started again")                                 \
    X(NODE_END_SILENCE, 30000, "a word of a node whose run is to end",         \
      "the node is killed, and started again")                                 \
    X(PROGRAM_END, 30000, "the clock of a program whose run is to end",        \
      "the program is killed")                                                 \
    X(FAREWELL, 3000, "the end of a program that said that it failed",         \
      "it is killed")                                                          \
    X(NODE_STOP, 10000,                                                        \
      "all nodes to end after `stop`; SIGTERM comes at half of it",            \
      "they are killed")                                                       \
    X(KILLED, 1000, "a process to be gone after SIGKILL",                      \
      "it is left to the system")                                              \
    X(TUNER_CONNECT, 30000, "a node's first connection to its tuner",          \
      "the node ends")                                                         \
    X(TUNER_AGAIN, 3000, "a node's lost connection to its tuner to come back", \
      "the node ends")                                                         \
    X(TUNER_BEAT, 30000, "a sign of the tuner's machine, over tcp",            \
      "the connection is lost")                                                \
    X(SSH, 15000, "a host that `ssh` is to reach, or a sign of life of it",    \
      "its node is lost")                                                      \
    X(RANK, 60000,                                                             \
      "a process of `mpirun` to take its node; the tuner among them",          \
      "the run ends; it ends")                                                 \
    X(POD, 600000,                                                             \
      "a pod of a job of Kubernetes to take its node (`mltune deploy "         \
      "--wait`); index 0 among them",                                          \
      "the run ends; the pod ends")                                            \
    X(POD_STARTS, 2000, "an answer of the resolver, by a pod that waits",      \
      "it asks again")                                                         \
    X(NODE_LINGER, 1000, "a node's last messages to leave",                    \
      "they are dropped")                                                      \
    X(NODE_GRACE, 3000, "what a node still does when it is to end",            \
      "its process ends without it")                                           \
    X(DEVICE, 60000, "work that was put into a stream of a GPU",               \
      "its branch fails")                                                      \
    /* between nodes */                                                        \
    X(NODES_MEET, 3600000, "the nodes of a run to find one another",           \
      "they end; the run ends")                                                \
    X(NODES_HELLO, 3600000, "each node's first word to the others", "it ends") \
    X(NODES_REACH, 60000,                                                      \
      "the first connection of two nodes that have met, over tcp",             \
      "both end, and are started again")                                       \
    X(NODES_AGAIN, 1000,                                                       \
      "a lost connection of two nodes to come back; over tcp where it is "     \
      "refused",                                                               \
      "both end, and are started again")                                       \
    X(NODES_BACK, 8000, "the same over tcp, and what was lost on the way",     \
      "both end, and are started again")                                       \
    X(NODES_RING, 30000,                                                       \
      "the offer of a ring of two nodes on one host, and its answer",          \
      "their frames go through sockets")                                       \
    X(NODES_BEAT, 5000,                                                        \
      "a sign of life over tcp: an answer to who listens, the kernel's for "   \
      "who connected",                                                         \
      "the connection is cut, and made again")                                 \
    X(NODES_ECHO, 30000, "an answer to who connected",                         \
      "the connection is cut, and made again")                                 \
    /* the tuner by itself */                                                  \
    X(MEMORY, 60000,                                                           \
      "memory that a tuner needs to go on, while nothing that it asked for "   \
      "is "                                                                    \
      "out",                                                                   \
      "the run is interrupted")                                                \
    /* a run or service that is to end */                                      \
    X(STOP_SNAPSHOT, 6000, "the snapshot of a run that got SIGTERM or SIGHUP", \
      "the run ends without it")                                               \
    X(STOP_NODES, 7500, "its nodes to end, from the signal on",                \
      "they are killed")                                                       \
    X(STOP_RUN, 9000, "the end of the run, from the signal on",                \
      "its process ends at once, as one that is killed")                       \
    X(STOP_SERVICE, 9700, "the end of a service and its runs, likewise",       \
      "its process ends at once, and asks its runs to end")                    \
    X(STOP_WORDS, 200, "the last words of a process that ends at once",        \
      "it ends without them")                                                  \
    X(STOP_AGAIN, 3000, "the end after a second signal",                       \
      "the process ends at once")                                              \
    X(TUNER_SIGN, 300000,                                                      \
      "a sign of life of a tuner, by its service (`serve --silence`)",         \
      "it gets SIGTERM, 10 s later SIGKILL; its run goes on")                  \
    X(TALK, 1000, "who reads stderr, by a run, a service or a comparison",     \
      "the line is left out; those of the next minute do not wait")            \
    X(HOOK, 30000, "the end of a run's hook (`hooks.timeout`)",                \
      "it is killed")                                                          \
    X(WEBHOOK, 10000, "an answer of a webhook's server to one attempt",        \
      "it is tried again, as long as there is time (`hooks.timeout`)")         \
    X(HOOK_STOP, 1000, "hooks of a run that ended by a signal",                \
      "they are killed, and told of in the log")                               \
    /* the state folder */                                                     \
    X(JOURNAL_BUSY, 5000, "another program that writes the journal",           \
      "the verb fails; a run that trains tries again")                         \
    X(JOURNAL_WAIT, 60000,                                                     \
      "the same, by a run that trains: it may be suspended",                   \
      "the run is interrupted")                                                \
    X(TOKENS, 2000, "another program that changes the tokens of a folder",     \
      "`mltune token` fails, and has changed nothing")                         \
    /* clients and server */                                                   \
    X(COMMAND, 30000, "a run's answer to a command over HTTP", "503")          \
    X(CLIENT, 45000, "a server's answer to the command line",                  \
      "the verb fails, exit code 69")                                          \
    X(SBATCH, 60000, "`sbatch` to take a job", "the verb fails, exit code 69") \
    X(OPEN, 30000,                                                             \
      "the answer of a service that `mltune open` finds or starts",            \
      "one that it started is ended; the verb fails, exit code 69")            \
    X(LOOKUP, 15000,                                                           \
      "an answer of the system's resolver: the address of a name",             \
      "nobody answers there, exit code 69")                                    \
    X(HTTP_SILENT, 30000, "the first byte of a client, by TCP",                \
      "its head is waited for")                                                \
    X(HTTP_HEAD, 10000, "the head of a request; 1 s where clients crowd",      \
      "the connection is cut")                                                 \
    X(HTTP_BODY, 30000, "the body of a request", "the connection is cut")      \
    X(HTTP_ANSWER, 60000,                                                      \
      "a client to take an answer, or the next part of a stream",              \
      "the connection is cut")                                                 \
    X(HTTP_IDLE, 60000, "the next request of a client",                        \
      "the connection is closed")                                              \
    /* plug-ins */                                                             \
    X(APP_PLUGIN, 10000, "a shared object to say what it trains",              \
      "the configuration is refused")                                          \
    X(SEARCHER, 10000, "an answer of a searcher (its `timeout`)",              \
      "the search goes on with another searcher, or ends")                     \
    X(SEARCHER_END, 5000, "the end of a searcher's process after its search",  \
      "it is killed")

enum deadline_ms {
#define X(name, ms, what, then) DEADLINE_##name##_MS = (ms),
    DEADLINES(X)
#undef X
};

#endif
