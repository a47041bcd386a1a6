#include "tuner/search/failures.h"

#include "base/text.h"
#include "tuner/core/lifecycle.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>

/* Past a number; else past one character. */
static const char *past(const char *s)
{
    if (!isdigit((unsigned char)*s))
        return s + 1;
    while (isdigit((unsigned char)*s) ||
           (*s == '.' && isdigit((unsigned char)s[1])))
        s++;
    return s;
}

static bool alike(const char *a, const char *b)
{
    while (*a && *b) {
        bool number = isdigit((unsigned char)*a);

        if (number ? !isdigit((unsigned char)*b) : *a != *b)
            return false;
        a = past(a);
        b = past(b);
    }
    return *a == *b;
}

static void tell(struct failures *f, const char *reason)
{
    if (f->times == f->failed)
        snprintf(f->text, sizeof(f->text), "%u of %u trials failed: %.320s",
                 f->failed, f->tried, reason);
    else
        snprintf(f->text, sizeof(f->text),
                 "%u of %u trials failed, %u of them since: %.320s", f->failed,
                 f->tried, f->times, reason);
    text_to_utf8(f->text);
}

struct failures failures_of(const struct trials *t)
{
    const char *kind[FAILURES_KINDS];
    uint32_t times[FAILURES_KINDS], kinds = 0, commonest = 0;
    struct failures f = {.tried = t->n};

    for (uint32_t i = 0; i < t->n; i++) {
        const struct trial *x = &t->list[i];
        uint32_t k = 0;

        if (x->label != TRIAL_FAILED)
            continue;
        f.failed++;
        while (k < kinds && !alike(kind[k], x->reason))
            k++;
        if (k == FAILURES_KINDS)
            continue;
        if (k == kinds) {
            kind[kinds] = x->reason;
            times[kinds++] = 0;
        }
        if (++times[k] > times[commonest])
            commonest = k;
    }
    if (kinds == 0)
        return f;
    f.times = times[commonest];
    tell(&f, kind[commonest]);
    return f;
}

bool failures_end(struct board *c, const struct failures *f)
{
    assert(f->failed <= f->tried);
    if (f->failed == 0)
        return false;
    if (f->failed == f->tried)
        lifecycle_end(c, RUN_FAILED, board_failure(c)[0] ? "app" : "limit",
                      "%s", f->text);
    else
        lifecycle_end(c, RUN_FAILED, "diverged",
                      "no setting that was tried makes progress, and %s",
                      f->text);
    return true;
}
