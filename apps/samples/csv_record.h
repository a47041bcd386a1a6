/* Records of a CSV stream (RFC 4180), whatever the separator.
 *
 * A field is plain, its blanks at both ends dropped, or between double quotes,
 * where "" is a quote and separators and line breaks are text. Lines end with
 * LF or CR LF; blank lines are passed over, as is a byte order mark. Between
 * fields that blanks separate there may be any number of them.
 */
#ifndef APPS_CSV_RECORD_H
#define APPS_CSV_RECORD_H

#include "apps/formats/data_stream.h"
#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CSV_RECORD_MAX = 1 << 20, CSV_BLOCK_BYTES = 1 << 16 };

struct csv_record {
    struct data_stream *stream; /* borrowed */
    char separator;             /* '\0': the first record tells */
    uint64_t line;              /* where the record begins, from 1 */
    size_t fields;
    char **field; /* [fields] texts with their ends, until the next record */

    char *text; /* owned, like what follows: the record's bytes */
    size_t len, text_capacity, field_capacity;
    char *block;
    size_t block_pos, block_len;
    uint64_t lines; /* behind us */
};

/* Errors: ERR_NOMEM. */
enum err csv_record_init(struct csv_record *r, struct data_stream *s,
                         char separator, struct fault *f);
void csv_record_deinit(struct csv_record *r);

/* The next record; *@got is false at the end of the stream. Errors: those of
 * the stream; ERR_FORMAT (a NUL byte, quotes that do not match, a record longer
 * than CSV_RECORD_MAX) with file, line and field; ERR_NOMEM. */
enum err csv_record_next(struct csv_record *r, bool *got, struct fault *f);

#endif
