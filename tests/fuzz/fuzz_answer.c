/* Any bytes as a server's answer to the command line: refused with a reason, or
 * taken apart; the JSON of one that is taken is drawn as each part of a run's
 * picture, whatever it is. Nothing that a terminal would obey comes through. */
#include "base/json/json.h"
#include "base/mem.h"
#include "cli/state/source.h"
#include "cli/watch/picture.h"
#include "tests/fuzz/must.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* As an exchange is when the server has hung up. */
static enum err read_answer(const uint8_t *data, size_t size,
                            struct client_exchange *x, int *status,
                            const char **body, size_t *len, struct fault *f)
{
    *x = (struct client_exchange){
        .fd = -1, .phase = CLIENT_DONE, .url = "http://127.0.0.1:1/"};
    x->out = mem_strdup("GET");
    must(x->out != NULL);
    if (size > 0)
        text_add(&x->in, (const char *)data, size);
    return client_step(x, status, body, len, f);
}

static void check_headers(const struct client_exchange *x)
{
    static const char *const names[] = {"Log-Offset", "Log-Next-Offset",
                                        "Content-Length", "Retry-After"};
    uint64_t number;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        client_header(x, names[i], &number);
}

/* Of control characters a drawing has only those that begin a colour. */
static void check_drawing(const struct text *t)
{
    must(!t->no_memory);
    must(text_bytes_are_utf8(t->s, t->len));
    for (size_t i = 0; i < t->len; i++) {
        unsigned char c = (unsigned char)t->s[i];

        must(c >= 0x20 ? c != 0x7f : c == '\033');
        must(c != '\033' || t->s[i + 1] == '[');
    }
}

static void draw(const json_t *json, int width, bool ascii)
{
    struct picture p = {.run = json,
                        .searches = json,
                        .trials = json,
                        .schedule = json,
                        .curve = json,
                        .decisions = json,
                        .nodes = json};
    struct canvas c;

    must(canvas_init(&c, width, 30, ascii) == ERR_OK);
    picture_draw(&p, &c);
    for (int y = 0; y < c.height; y++) {
        struct text row = {0};

        must(canvas_row(&c, y, true, true, &row) <= width);
        check_drawing(&row);
        text_deinit(&row);
    }
    canvas_deinit(&c);
    picture_is_over(json);
    must(!(picture_time_left(json) < 0));
}

static void draw_parts(const json_t *json)
{
    const char *name;
    json_t *part;

    draw(json, 100, true);
    json_object_foreach((json_t *)json, name, part) draw(part, 80, false);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct source from = {.url = "http://127.0.0.1:1/"};
    struct client_exchange x;
    struct fault f = {0};
    const char *body = NULL;
    json_t *json = NULL;
    int64_t before;
    size_t len = 0;
    int status = 0;
    enum err err;

    setlocale(LC_CTYPE, "C.UTF-8");
    json_count_memory();
    before = mem_outstanding();
    err = read_answer(data, size, &x, &status, &body, &len, &f);
    if (!err) {
        must(status >= 100 && status <= 999);
        must(body >= x.in.s && body + len == x.in.s + x.in.len);
        check_headers(&x);
        err = source_answer(&from, status, body, len, &json, &f);
    }
    if (err)
        must(f.code == err && f.text[0]);
    else
        draw_parts(json);
    json_decref(json);
    client_close(&x);
    must(mem_outstanding() == before);
    return 0;
}
