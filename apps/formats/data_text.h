/* A text of lines, read token by token, whatever the length of its lines.
 *
 * The reader sees a window: at least TEXT_TOKEN_MAX bytes ahead of where it
 * is, or all that is left, and behind that a zero byte, which belongs to no
 * token. One owner thread.
 */
#ifndef APPS_DATA_TEXT_H
#define APPS_DATA_TEXT_H

#include "apps/formats/data_stream.h"
#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TEXT_TOKEN_MAX = 256, TEXT_WINDOW = 1 << 16 };

struct data_text {
    struct data_stream *s; /* borrowed */
    struct fault *f;       /* borrowed, or NULL */
    uint64_t line;         /* from 1 */
    enum err err;          /* of the stream; then the text has ended */
    bool last;             /* the window reaches the end of the text */
    size_t at, end;
    char window[TEXT_WINDOW + 1];
};

/* A reader of @s (both borrowed), a byte order mark passed over. NULL and @f
 * when out of memory; released by data_text_free. */
struct data_text *data_text_new(struct data_stream *s, struct fault *f);
void data_text_free(struct data_text *t);

/* Fills the window again. */
void data_text_refill(struct data_text *t);

/* Where the reader is. */
static inline const char *data_text_at(struct data_text *t)
{
    if (t->end - t->at < TEXT_TOKEN_MAX && !t->last)
        data_text_refill(t);
    return t->window + t->at;
}

/* It is at @p, which data_text_at's window holds. */
static inline void data_text_go(struct data_text *t, const char *p)
{
    t->at = (size_t)(p - t->window);
}

/* Nothing is left, or the stream failed. */
static inline bool data_text_ended(struct data_text *t)
{
    data_text_at(t);
    return t->at == t->end;
}

/* Passes spaces, tabs and carriage returns; returns where the reader is then.
 */
const char *data_text_skip_blanks(struct data_text *t);

/* Passes everything up to the end of the line, which stays. */
void data_text_skip_line(struct data_text *t);

/* Passes the end of the line, or of the text, if it is there. */
bool data_text_pass_line_end(struct data_text *t);

/* ERR_FORMAT with file, line, @what was expected and what stands there; or the
 * stream's error. */
enum err data_text_expected(struct data_text *t, const char *what);

#endif
