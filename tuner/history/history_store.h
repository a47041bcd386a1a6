/* What freed branches keep, their points and settings, side by side in one
 * block of a long run.
 *
 * Each by itself is a small piece of memory that gets smaller again and again.
 * Among pieces that live as long as a message, thousands of these leave pages
 * that are nearly empty, and a process that grows for an hour while it holds no
 * more. In a block nothing lies between them; what was given up in it is at
 * most a third of the rest, or so, until it is written anew. Pure; for the
 * files history*.c alone.
 */
#ifndef TUNER_HISTORY_STORE_H
#define TUNER_HISTORY_STORE_H

#include "tuner/history/history.h"

/* Branches that a run has before any is stored: below it there is no block. */
enum { HISTORY_STORE_FROM = 256 };

/* Moves what the freed branch @b keeps into the block, if it is to be there and
 * is not; the points of others may move. Without memory it stays where it is,
 * which serves as well. */
void history_store(struct history *h, struct history_branch *b);

/* The same for all that are freed. */
void history_store_all(struct history *h);

/* Moves what @b keeps out of the block again: then it may grow, and is its own
 * to free. Errors: ERR_NOMEM, nothing changed. */
enum err history_store_take_out(struct history *h, struct history_branch *b);

/* The stored branch @b has fewer points than it had room for. */
void history_store_shrunk(struct history *h, struct history_branch *b);

/* Releases the points and the setting in few bytes of @b, wherever they are. */
void history_store_release(struct history *h, struct history_branch *b);

/* Releases the block; no branch is in it any more. */
void history_store_deinit(struct history *h);

#endif
