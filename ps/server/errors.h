/* Errors of the parameter server: those of its caller, and those it gives. */
#ifndef PS_ERRORS_H
#define PS_ERRORS_H

#include "base/fault.h"
#include "mltune/ps.h"

/* Programmer's error: says what in the log and aborts. */
_Noreturn void ps_misuse(const char *fmt, ...)
    __attribute__((format(printf, 1, 2)));

/* @f as the installed interface has it (@out may be NULL); returns its code. */
int ps_give_error(struct mlt_error *out, const struct fault *f);

#endif
