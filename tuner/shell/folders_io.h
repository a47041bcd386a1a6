/* Folders that nodes write: a model or a snapshot appears whole or not at all.
 *
 * A node is told to write into a temporary folder beside the final one; when it
 * has, the loop completes the folder and it gets its name. A snapshot of one
 * node is written so by the node itself; of several, each writes its part. That
 * of a program is whole once each of its processes has said `done`. One owner
 * thread, the loop's.
 */
#ifndef TUNER_FOLDERS_IO_H
#define TUNER_FOLDERS_IO_H

#include "base/fault.h"
#include "base/file_io.h"
#include "base/proto/proto.h"

enum folders_writer {
    FOLDERS_NODE,    /* one: makes snapshots whole itself */
    FOLDERS_NODES,   /* several: a manifest says that all parts are there */
    FOLDERS_PROGRAM, /* of the user's own, one process */
    FOLDERS_PROGRAMS /* several; where they are nodes of ours (mlt_node_run), as
                      * FOLDERS_NODES */
};

struct folders {
    const char *model_dir; /* borrowed */
    enum folders_writer writer;
    op_id model_op, snapshot_op;      /* under way; 0: none */
    char model_tmp[FILE_PATH_MAX];    /* where it is written; "": nowhere */
    char snapshot_tmp[FILE_PATH_MAX]; /* not of FOLDERS_NODE */
    char snapshot_dir[FILE_PATH_MAX]; /* what that will be called */
};

void folders_init(struct folders *d, const char *model_dir,
                  enum folders_writer writer);

/* @m is about to leave: `save`, and `snapshot` but to one node, get another
 * path, of an empty folder; a snapshot of one process of a program of none: it
 * makes that. Errors: ERR_LIMIT, ERR_IO. */
enum err folders_redirect(struct folders *d, struct msg *m, struct fault *f);

/* The model's folder is whole, or the snapshot's: it gets its name. Errors:
 * ERR_IO; it is gone then. */
enum err folders_publish_model(struct folders *d, struct fault *f);
enum err folders_publish_snapshot(struct folders *d, struct fault *f);

/* Removes what is half written. */
void folders_drop_model(struct folders *d);
void folders_drop_snapshot(struct folders *d);

#endif
