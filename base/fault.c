#include "base/fault.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum err fault_set(struct fault *f, enum err code, const char *fmt, ...)
{
    va_list ap;

    assert((unsigned)code < ERR_COUNT && code != ERR_OK);
    assert(fmt);
    if (!f)
        return code;
    f->code = code;
    va_start(ap, fmt);
    vsnprintf(f->text, sizeof(f->text), fmt, ap);
    va_end(ap);
    return code;
}

enum err fault_wrap(struct fault *f, const char *fmt, ...)
{
    char old[FAULT_TEXT_MAX];
    va_list ap;
    size_t n;

    if (!f)
        return ERR_OK;
    memcpy(old, f->text, sizeof(old));
    va_start(ap, fmt);
    vsnprintf(f->text, sizeof(f->text), fmt, ap);
    va_end(ap);
    n = strlen(f->text);
    snprintf(f->text + n, sizeof(f->text) - n, ": %s", old);
    return f->code;
}

enum err fault_errno(struct fault *f, enum err code, int errnum,
                     const char *fmt, ...)
{
    char reason[128];
    va_list ap;
    size_t n;

    assert((unsigned)code < ERR_COUNT && code != ERR_OK);
    if (!f)
        return code;
    f->code = code;
    va_start(ap, fmt);
    vsnprintf(f->text, sizeof(f->text), fmt, ap);
    va_end(ap);
    n = strlen(f->text);
    snprintf(f->text + n, sizeof(f->text) - n, ": %s",
             strerror_r(errnum, reason, sizeof(reason)));
    return code;
}
