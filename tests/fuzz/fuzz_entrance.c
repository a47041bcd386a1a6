/* Any bytes as what a browser comes in with: the first line as the target of a
 * GET, which may be the one-time address, the rest as its cookies. Nobody comes
 * in without the secret, and no code is good twice. */
#include "api/http/entrance.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "tests/fuzz/must.h"

#include <stdlib.h>
#include <string.h>

#define CODE "c0de"
#define PASS "0a5e"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* With the right code once, then never; with another one never. */
static void check_way_in(const struct head *head)
{
    struct entrance e = {.port = 80, .code = CODE, .pass = PASS};
    bool right = strcmp(head->target, "/enter?code=" CODE) == 0;

    for (int i = 0; i < 2; i++) {
        struct response r = {0};
        bool in = entrance_answer(&e, head, &r);

        must(in == (right && i == 0));
        must(in ? r.status < 400 : r.status == 401);
        must(in == (e.code[0] == '\0') || i == 1);
        response_deinit(&r);
    }
}

static bool says_pass(const char *cookies, size_t n)
{
    for (size_t i = 0; i + sizeof(PASS) - 1 <= n; i++)
        if (memcmp(cookies + i, PASS, sizeof(PASS) - 1) == 0)
            return true;
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct entrance e = {.port = 80, .pass = PASS}, closed = {.port = 80};
    struct head head = {.method = "GET", .version = "HTTP/1.1", .fields = 1};
    int64_t before;
    char *text = malloc(size + 1);
    size_t line;

    must(text != NULL);
    json_count_memory();
    before = mem_outstanding();
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    line = strcspn(text, "\n");
    head.field[0] = (struct head_field){.name = "Cookie",
                                        .name_len = 6,
                                        .value = text + line,
                                        .value_len = size - line};
    if (line < size) {
        text[line] = '\0';
        head.field[0].value++;
        head.field[0].value_len--;
    }
    head.target = text;
    if (entrance_is_asked(&head))
        check_way_in(&head);
    if (entrance_knows(&e, &head))
        must(says_pass(head.field[0].value, head.field[0].value_len));
    must(!entrance_knows(&closed, &head));
    free(text);
    must(mem_outstanding() == before);
    return 0;
}
