/* Any lines as the records of a run's journal, each with its JSON: refused with
 * what is wrong, or what was read, written again, reads the same. Those that
 * fit what came before are folded into a history, which packs into bytes that
 * unpack to the same. */
#include "base/json/json.h"
#include "base/mem.h"
#include "tests/fuzz/must.h"
#include "tuner/history/history.h"
#include "tuner/history/history_pack.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_round_trip(const struct record *r)
{
    json_t *first = record_to_json(r), *second;
    struct fault f = {0};
    struct record again;

    must(first != NULL);
    must(record_from_json(first, &again, &f) == ERR_OK);
    second = record_to_json(&again);
    must(second && json_equal(first, second));
    record_deinit(&again);
    json_decref(first);
    json_decref(second);
}

static void take_line(struct history *h, const char *line, size_t len)
{
    json_t *json;
    struct fault f = {0};
    struct record r;
    enum err err;

    if (json_load(line, len, &json, NULL, NULL))
        return;
    err = record_from_json(json, &r, &f);
    json_decref(json);
    if (err) {
        must(err == ERR_FORMAT && f.code == err && f.text[0]);
        return;
    }
    check_round_trip(&r);
    err = history_apply(h, &r);
    must(err == ERR_OK || err == ERR_FORMAT);
    record_deinit(&r);
}

static void check_pack(const struct history *h)
{
    struct text bytes = {0}, same = {0};
    struct fault f = {0};
    struct history again;

    must(history_pack(h, HISTORY_PACK_ALL, &bytes) == ERR_OK);
    must(history_unpack(bytes.s, bytes.len, &again, &f) == ERR_OK);
    must(history_pack(&again, HISTORY_PACK_ALL, &same) == ERR_OK);
    must(bytes.len == same.len && memcmp(bytes.s, same.s, same.len) == 0);
    history_deinit(&again);
    text_deinit(&bytes);
    text_deinit(&same);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *at = (const char *)data, *end = at + size;
    struct history h;
    int64_t before;

    json_count_memory();
    before = mem_outstanding();
    history_init(&h);
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t len = (size_t)((stop ? stop : end) - at);

        take_line(&h, at, len);
        at += len + 1;
    }
    check_pack(&h);
    history_deinit(&h);
    must(mem_outstanding() == before);
    return 0;
}
