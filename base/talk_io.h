/* What a program says on stderr while it has better to do than to be heard.
 *
 * A terminal can be held, and a pipe may lead to a program that hangs: who
 * writes there waits. What talks only does, as long as it takes. A run or a
 * service is in a hurry: a line waits DEADLINE_TALK_MS for room, those of the
 * minute after it do not wait, and what finds none is left out. Once there is
 * room again, it is said how much that was. Thread-safe.
 */
#ifndef BASE_TALK_IO_H
#define BASE_TALK_IO_H

#include <stdbool.h>
#include <stddef.h>

/* From now on nobody waits for who reads stderr, or everybody does. */
void talk_hurry(bool hurry);

/* @text[@len] to stderr: a line, or what belongs to none (a live line). A line
 * longer than a pipe takes at once may lose its end. Nobody is left to tell
 * when stderr is gone. */
void talk(const char *text, size_t len);

#endif
