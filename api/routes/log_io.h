/* Logs over HTTP: what a run's training system wrote to stdout and stderr.
 *
 * A log is a file of the run's folder, node-N.log, which may be of any length
 * and hold any bytes. An answer is a piece of it: at most LOG_PIECE_MAX bytes,
 * as they are. Only a regular file is read, and no link is followed. The older
 * part of a long one is a hole (tuner/shell/launcher_io.h) and is passed over:
 * places in the log stay as they are. Unlike other answers it is not of the
 * view, so none is kept.
 */
#ifndef API_LOG_IO_H
#define API_LOG_IO_H

#include "api/http/route.h"
#include "base/fault.h"

enum {
    LOG_PIECE_MAX = 1024 * 1024,
    LOG_PIECE_DEFAULT = 64 * 1024,
    LOG_NODES_MAX = 64
};

#define LOG_TYPES "text/plain"

/* Bytes of a log. */
struct log_piece {
    char *bytes; /* owned (mem_free); a zero byte behind them */
    size_t len;
    uint64_t from, next; /* place of the first byte, and behind the last */
};

/* Reads at most @limit bytes (LOG_PIECE_MAX, and one to see whether there are
 * more) of @path from byte @offset on; a negative one counts from the end, one
 * beyond the end is the end, one that is not kept any more is the first that
 * is. Blocks for the disk.
 * Errors: ERR_NOENT there is none, ERR_INVAL it is no regular file, ERR_IO,
 * ERR_NOMEM. */
enum err log_read(const char *path, int64_t offset, size_t limit,
                  struct log_piece *out);

/* GET /runs/{run}/log?node=&offset=&limit= */
route_handler handle_log;

#endif
