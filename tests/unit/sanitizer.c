/* What the sanitizers must know, linked into every test. */
#include <stddef.h>

const char *__tsan_default_suppressions(void);

/* libzmq is not built with tsan, which therefore does not see the atomics that
 * its own threads synchronise with. Our code's races are still found: a report
 * is dropped only where libzmq itself is on the stack, and what its threads
 * read into a message is not taken for a write that races with ours. The same
 * of libpgm, which it starts and stops with each context. */
__attribute__((visibility("default"))) const char *
__tsan_default_suppressions(void)
{
    return "race:libzmq.so\ncalled_from_lib:libzmq.so\nrace:libpgm-\n";
}
