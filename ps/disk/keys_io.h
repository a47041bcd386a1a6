/* Keys of a table (ps/server/keys.h) as files of a checkpoint.
 *
 *   DIR/keys-T-N   file N, from 0, of table T's: some million keys with their
 *                  rows, in no order
 *
 * All numbers little-endian, u32: "MLTK", the version, the seal of the first
 * shard's file, T, N, whether it is the last, how many keys; of each key its
 * row's number and 1, and its low and its high half; the CRC-32C of all that.
 * By the seal files of two checkpoints are told apart.
 *
 * Keys are written while others are added. Those are in it or not: in the
 * checkpoint's branch they have their initial rows, as all keys that it lacks.
 *
 * Of a saved model
 *
 *   DIR/NAME.keys.npy   i64 [keys][2], in the order of keys as u64: each key,
 * by its bits, and its row in NAME.npy
 */
#ifndef PS_KEYS_IO_H
#define PS_KEYS_IO_H

#include "base/fault.h"
#include "ps/server/keys.h"

/* Whether a file of that name is one. */
bool keys_file_is_ours(const char *name);

/* Writes table @table's into @dir; adds their length to *@bytes. Errors:
 * ERR_IO, ERR_NOMEM. */
enum err keys_store(struct keys *k, uint32_t table, uint32_t seal,
                    const char *dir, uint64_t *bytes, struct fault *f);

/* Checks all files of the table in @dir and, with @put, has @k take their keys.
 * Between runs. Errors: ERR_NOENT, ERR_FORMAT (damage, another checkpoint's);
 * ERR_INVAL: @k gave a key, or a row, otherwise; ERR_IO, ERR_NOMEM (some keys
 * may have been taken: they have rows, which nobody has written). */
enum err keys_load(struct keys *k, uint32_t table, uint32_t seal,
                   const char *dir, bool put, struct fault *f);

/* A saved model's, @path as above. */
enum err keys_save(struct keys *k, const char *path, uint64_t *bytes,
                   struct fault *f);
/* Has @k take them. Errors as keys_load. */
enum err keys_open(struct keys *k, const char *path, struct fault *f);

#endif
