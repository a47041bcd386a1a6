/* Rules: the sentences of docs/protocol.md that a program can break.
 */
#ifndef CLI_CHECK_RULES_H
#define CLI_CHECK_RULES_H

/* Label, and the sentence as it stands there, without marks. */
#define RULE_LIST(X)                                                           \
    X(W1, "One message is one frame holding one JSON object in UTF-8, at "     \
          "most 4 MiB.")                                                       \
    X(W2, "Both sides ignore members they do not know.")                       \
    X(W3, "It is logged once, counted, and otherwise ignored; the "            \
          "conversation goes on.")                                             \
    X(W5, "A node says something at least once a second, from hello on, also " \
          "while data are loaded and in the midst of a clock.")                \
    X(C1, "The node speaks first (hello); the tuner answers with config; the " \
          "node loads, which may take long, and says ready or failed.")        \
    X(C2, "Every request gets exactly one of ready, forked, done, failed;")    \
    X(C3, "A request is checked when it arrives, against what will be the "    \
          "case when everything before it has been carried out.")              \
    X(C4, "fork is answered on arrival, also in the midst of a slice: memory " \
          "for the worst case is reserved.")                                   \
    X(C5, "first of a slice is not below the end (first + count) of the one "  \
          "before.")                                                           \
    X(C6, "A cut slice ends at the next clock that has not begun.")            \
    X(C7, "A slice ends by itself after a clock whose sum is not finite; the " \
          "window says so.")                                                   \
    X(C8, "After a slice that failed its branch, and whatever is forked from " \
          "it, is broken: it can be freed, and everything else asked of it "   \
          "fails.")                                                            \
    X(C9, "A fork or a restore beyond it is refused with limit and changes "   \
          "nothing; a free gives its room back.")                              \
    X(L1, "Windows come in order and without gaps in one or more reports, "    \
          "all before the slice's done or failed.")                            \
    X(L2, "A slice has at most 1,000 windows; more are refused with inval.")   \
    X(L3, "While a slice runs, what is complete is reported at least once a "  \
          "second.")                                                           \
    X(L4, "The clocks of all windows together are those of done.")             \
    X(L5, "In an epoch (S5) a branch trains on exactly ready.samples "         \
          "samples.")                                                          \
    X(L6, "A clock of a testing branch runs over the whole validation set: "   \
          "samples is ready.validation_samples.")                              \
    X(S1, "A fork equals its parent.")                                         \
    X(S2, "What else runs changes nothing.")                                   \
    X(S3, "Siblings see the same samples in the same order, whatever their "   \
          "batch sizes.")                                                      \
    X(S4, "A probe learns nothing: each of its clocks measures the loss with " \
          "the parameters that it was forked with, on the samples that a "     \
          "training branch would see.")                                        \
    X(S6, "The loss of a clock is measured on the samples that it trains on, " \
          "before their update, in training mode (dropout acts).")             \
    X(S7, "A value that cannot be is refused with inval.")                     \
    X(S8, "The same seed gives the same sums, in another process, too.")       \
    X(D1, "A restore of what snapshot wrote, in a new process, is the branch " \
          "that was written: forked and run on, it reports the same sums to "  \
          "the last bit.")                                                     \
    X(D2, "snapshot and save write into the folder path, which is made where " \
          "it is missing.")                                                    \
    X(D3, "bytes of done are those written, above 0.")                         \
    X(M1, "All grant and refuse alike; what only some could carry out means "  \
          "that all are started anew.")                                        \
    X(M3, "With cuts \"agreed\" a slice does not end by itself at a sum that " \
          "is not finite, since the others would wait in the next clock.")     \
    X(E1, "after stop, within three seconds, also in the midst of a slice")    \
    X(E2, "the tuner is gone: its socket closed and not open again within "    \
          "three seconds, or never there for thirty")                          \
    X(E3, "the application cannot be loaded")                                  \
    X(E4, "SIGTERM, SIGINT or SIGHUP")

enum rule {
#define RULE_ENUM(label, text) RULE_##label,
    RULE_LIST(RULE_ENUM)
#undef RULE_ENUM
        RULE_COUNT
};

/* "S4", and its sentence. Static storage. */
const char *rule_label(enum rule rule);
const char *rule_text(enum rule rule);

#endif
