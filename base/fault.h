/* Faults: what went wrong, in words for the person who has to mend it.
 *
 * A fault says what was wrong, where (file, line, offset or JSON pointer), what
 * was expected, and what to do. Functions take a `struct fault *` as their last
 * argument where a bare code would not help; NULL is always allowed.
 */
#ifndef BASE_FAULT_H
#define BASE_FAULT_H

#include "base/err.h"

enum { FAULT_TEXT_MAX = 512 };

struct fault {
    enum err code;
    char text[FAULT_TEXT_MAX]; /* one sentence, no newline, always terminated */
};

/* Records @code and the formatted text in @f (if not NULL; too long a text is
 * cut) and returns @code, so that callers can `return fault_set(...)`. */
enum err fault_set(struct fault *f, enum err code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts "prefix: " before the text that is already in @f. Returns f->code. */
enum err fault_wrap(struct fault *f, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Records @code with its standard text and strerror(@errnum), "what" naming the
 * operation and its object ("write model/users.npy"). Returns @code. */
enum err fault_errno(struct fault *f, enum err code, int errnum,
                     const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

#endif
