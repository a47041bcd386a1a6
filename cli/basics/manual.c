#include "cli/basics/manual.h"

#include "base/text.h"
#include "cli/basics/examples.h"
#include "cli/basics/verbs.h"

#include <assert.h>
#include <string.h>

/* ---- mdoc ---------------------------------------------------------------- */

void manual_plain(struct text *t, const char *s)
{
    for (bool first = true; *s; s++) {
        if (first && (*s == '.' || *s == '\''))
            text_puts(t, "\\&");
        first = *s == '\n';
        if (*s == '\\')
            text_puts(t, "\\e");
        else if (*s == '-')
            text_puts(t, "\\-");
        else
            text_add(t, s, 1);
    }
}

void manual_quoted(struct text *t, const char *s)
{
    text_puts(t, "\"");
    for (; *s; s++) {
        if (*s == '"')
            text_puts(t, "\\(dq");
        else if (*s == '-')
            text_puts(t, "\\-");
        else if (*s == '\\')
            text_puts(t, "\\e");
        else
            text_add(t, s, 1);
    }
    text_puts(t, "\"");
}

static void add_flag(struct text *t, const struct option_spec *o)
{
    if (o->letter)
        text_printf(t, "Fl %c , ", o->letter);
    text_puts(t, "Fl \\-");
    for (const char *s = o->name; *s; s++) {
        if (*s == '-')
            text_puts(t, "\\");
        text_add(t, s, 1);
    }
    if (o->arg) {
        text_puts(t, " Ar ");
        manual_quoted(t, o->arg);
    }
    text_puts(t, "\n");
}

static void add_option(struct text *t, const struct option_spec *o)
{
    text_puts(t, ".It ");
    add_flag(t, o);
    manual_plain(t, o->help);
    text_puts(t, "\n");
}

/* The lines of what help shows as they are, for some are tables. */
static void add_details(struct text *t, const char *details)
{
    text_puts(t, ".Bd -literal\n");
    manual_plain(t, details);
    text_puts(t, "\n.Ed\n");
}

static void add_examples(struct text *t, const char *verb)
{
    const struct example *e = example_of(verb, 0);

    if (e)
        text_puts(t, ".Sh EXAMPLES\n");
    for (size_t i = 0; (e = example_of(verb, i)); i++) {
        text_puts(t, ".Bd -literal\n$ ");
        manual_plain(t, e->line);
        text_puts(t, *e->what ? "\n    " : "");
        manual_plain(t, e->what);
        text_puts(t, "\n.Ed\n");
    }
}

char *manual_page(const struct usage *u)
{
    const struct verb *verb = verb_find(u->verb);
    struct text t = {0};
    size_t n;
    const struct option_spec *common = options_common(&n);

    assert(verb);
    text_puts(&t, ".Dd November 22, 2026\n.Dt ");
    for (const char *s = u->verb; *s; s++)
        text_printf(&t, "%s%c", s == u->verb ? "MLTUNE\\-" : "",
                    *s >= 'a' && *s <= 'z' ? *s - 'a' + 'A' : *s);
    text_puts(&t, " 1\n.Os\n.Sh NAME\n.Nm mltune\\-");
    manual_plain(&t, u->verb);
    text_puts(&t, "\n.Nd ");
    manual_plain(&t, verb->summary);
    text_puts(&t, "\n.Sh SYNOPSIS\n.Nm mltune\n.Cm ");
    manual_plain(&t, u->verb);
    text_puts(&t, "\n.Op Ar option ...\n");
    if (*u->operands) {
        text_puts(&t, ".Ar ");
        manual_quoted(&t, u->operands);
        text_puts(&t, "\n");
    }
    if (*u->details) {
        text_puts(&t, ".Sh DESCRIPTION\n");
        add_details(&t, u->details);
    }
    text_puts(&t, ".Sh OPTIONS\n.Bl -tag -width Ds\n");
    for (size_t i = 0; i < u->n; i++)
        add_option(&t, &u->option[i]);
    for (size_t i = 0; i < n; i++)
        add_option(&t, &common[i]);
    text_puts(&t, ".El\n");
    add_examples(&t, u->verb);
    text_puts(&t, ".Sh SEE ALSO\n.Xr mltune 1\n");
    return text_take(&t);
}
