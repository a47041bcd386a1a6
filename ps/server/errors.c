#include "ps/server/errors.h"

#include "base/log.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ps_misuse(const char *fmt, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    log_event(LOG_ERROR, "ps_misuse", "what=\"%s\"", text);
    abort();
}

int ps_give_error(struct mlt_error *out, const struct fault *f)
{
    _Static_assert(sizeof(out->text) == sizeof(f->text), "same text");

    assert(f->code != ERR_OK);
    if (out) {
        out->code = (int)f->code;
        memcpy(out->text, f->text, sizeof(out->text));
    }
    return (int)f->code;
}

const char *mlt_error_text(int error)
{
    return err_text((enum err)error);
}
