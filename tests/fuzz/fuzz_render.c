/* Any JSON as a server's answers, or a run's row out of a damaged journal: what
 * `show`, `ls` and the lists print of it is UTF-8 without anything that a
 * terminal would obey, and what they give as JSON can be written. */
#include "base/json/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/state/render.h"
#include "tests/fuzz/must.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_shown(const char *s, size_t n)
{
    must(text_bytes_are_utf8(s, n));
    for (size_t i = 0; i < n;) {
        size_t k = text_utf8_length(s + i, n - i);

        must(s[i] == '\n' || s[i] == '\t' || !text_is_control(s + i, k));
        i += k;
    }
}

static const json_t *list_of(const json_t *json, const char *name)
{
    const json_t *part = json_object_get(json, name);

    return part ? part : json;
}

static void show(const json_t *json, FILE *out)
{
    const struct run_answers a = {
        .run = (json_t *)json,
        .schedule = (json_t *)list_of(json, "schedule"),
        .nodes = (json_t *)list_of(json, "nodes"),
        .config = (json_t *)list_of(json, "config"),
        .result = (json_t *)list_of(json, "result"),
        .trials = (json_t *)list_of(json, "trials"),
        .epochs = (json_t *)list_of(json, "epochs"),
        .decisions = (json_t *)list_of(json, "decisions")};

    static const struct render_screen screen[] = {{0, 0}, {80, 24}};

    for (size_t i = 0; i < 2; i++)
        render_run(&a, &screen[i], out);
    for (int list = RENDER_RUNS; list <= RENDER_EPOCHS; list++)
        render_table((enum render_list)list, list_of(json, "trials"),
                     json_text_at(json, "/job/metric/name"), " ", out);
}

static void check_text(const json_t *json)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);

    must(out != NULL);
    show(json, out);
    must(fclose(out) == 0);
    check_shown(text, n);
    free(text);
}

/* What has neither id nor status is no run. */
static void check_json(const json_t *json)
{
    struct run_answers a = {.run = (json_t *)json};
    json_t *members = render_members(json), *all;

    must(json_is_object(members));
    json_decref(members);
    if (!json_object_get(json, "run") || !json_object_get(json, "status"))
        return;
    a.config = a.result = a.trials = a.epochs = a.decisions = a.nodes = a.run;
    all = render_answers(&a);
    must(json_is_object(all));
    json_decref(all);
}

static void check_cells(const json_t *json)
{
    char *cells = render_cells(json);

    must(cells != NULL);
    for (const char *c = cells; *c; c++)
        must((unsigned char)*c >= 0x20 || *c == '\t');
    mem_free(cells);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *json = NULL;
    int64_t before;

    setlocale(LC_CTYPE, "C.UTF-8");
    json_count_memory();
    before = mem_outstanding();
    if (json_load((const char *)data, size, &json, NULL, NULL) == ERR_OK) {
        check_text(json);
        if (json_is_object(json)) {
            check_json(json);
            check_cells(json);
        }
    }
    json_decref(json);
    must(mem_outstanding() == before);
    return 0;
}
