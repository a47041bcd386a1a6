/* Event files of TensorBoard: rows of TFRecords, each an `Event`.
 *
 * A TFRecord is the length, its masked CRC-32C, the data, their masked CRC-32C
 * (tensorflow/core/lib/io/record_writer.h). The data are protocol buffers
 * `Event` (tensorflow/core/util/event.proto), of which few fields are needed
 * here: they are encoded by hand. Records are added to a text; where its memory
 * runs out the text says so.
 */
#ifndef CLI_EVENT_FILE_H
#define CLI_EVENT_FILE_H

#include "base/text.h"

#include <stdint.h>

enum { EVENT_TAG_MAX = 100 }; /* bytes of a tag that are written */

/* The first event of each file. @wall_s: seconds since 1970. */
void event_version(struct text *out, double wall_s);

/* What a reader has of the same folder from step 0 on, of any file before this
 * one, counts no more: the events that follow say it anew. */
void event_restart(struct text *out, double wall_s);

/* @value of @tag at @step; it has the 24 bits of a float there. */
void event_scalar(struct text *out, double wall_s, uint64_t step,
                  const char *tag, double value);

/* @data, a message of the plug-in "hparams", as metadata of @tag, which is how
 * it reads them. @data is released and empty then. */
void event_hparams(struct text *out, double wall_s, const char *tag,
                   struct text *data);

#endif
