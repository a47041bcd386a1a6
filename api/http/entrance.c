#include "api/http/entrance.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static const char way[] = "/enter?code=";

bool secret_is(const char *a, size_t a_len, const char *b)
{
    size_t b_len = strlen(b);
    volatile unsigned char differ = a_len != b_len;

    assert(b_len > 0);
    for (size_t i = 0; i < a_len; i++)
        differ |= (unsigned char)(a[i] ^ b[i % b_len]);
    return differ == 0;
}

bool entrance_is_asked(const struct head *head)
{
    assert(head->method && head->target);
    return strcmp(head->method, "GET") == 0 &&
           strncmp(head->target, way, sizeof(way) - 1) == 0;
}

bool entrance_answer(struct entrance *e, const struct head *head,
                     struct response *out)
{
    const char *code = head->target + sizeof(way) - 1;

    assert(entrance_is_asked(head));
    if (!e->code[0] || !e->pass[0] || !secret_is(code, strlen(code), e->code)) {
        response_problem(out, 401, "unauthorized", NULL,
                         "this address was good once; the state folder has the "
                         "next one, in serve.page");
        return false;
    }
    memset(e->code, 0, sizeof(e->code));
    response_enter(out, "mltune-%u=%s; Path=/; HttpOnly; SameSite=Strict%s",
                   (unsigned)e->port, e->pass, e->tls ? "; Secure" : "");
    return true;
}

bool entrance_knows(const struct entrance *e, const struct head *head)
{
    const struct head_field *f = head_field(head, "cookie");
    char name[24];
    size_t n =
        (size_t)snprintf(name, sizeof(name), "mltune-%u=", (unsigned)e->port);
    size_t at = 0, end;

    if (!f || !e->pass[0])
        return false;
    for (; at < f->value_len; at = end + 1) {
        while (at < f->value_len && f->value[at] == ' ')
            at++;
        for (end = at; end < f->value_len && f->value[end] != ';'; end++)
            ;
        if (end - at > n && memcmp(f->value + at, name, n) == 0 &&
            secret_is(f->value + at + n, end - at - n, e->pass))
            return true;
    }
    return false;
}
