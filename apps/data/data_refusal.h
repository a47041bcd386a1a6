/* Words for data that nothing here reads: why not, and what to do. */
#ifndef APPS_DATA_REFUSAL_H
#define APPS_DATA_REFUSAL_H

#include "apps/data/data_kind.h"

#include <stdbool.h>
#include <stddef.h>

struct data_refusal {
    const char *why, *advice; /* static */
};

/* Of a file of a kind that no application reads, which begins with
 * @bytes[@len]: a binary one by the mark that its format begins with. */
struct data_refusal data_refusal_of(enum data_kind kind, const void *bytes,
                                    size_t len);

/* The advice for a table that is not read as it is. */
extern const char data_table_advice[];

/* The advice for a text that is not read as it is. */
extern const char data_text_advice[];

/* Whether a text that begins with @text[@len] may be meant as a table: its
 * first two lines have equally many commas, semicolons or tabs, and some. */
bool data_looks_like_table(const char *text, size_t len);

#endif
