/* Any bytes as encoding.json of a model folder: refused with words, or columns
 * whose own text reads back the same. */
#include "apps/samples/encoding_file.h"
#include "base/json/json.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void encoding_must(bool holds)
{
    if (!holds)
        abort();
}

static void same_column(const struct encoded_column *a,
                        const struct encoded_column *b)
{
    encoding_must(a->category == b->category && a->missing == b->missing);
    encoding_must(a->fill == b->fill);
    encoding_must(!a->name == !b->name &&
                  (!a->name || strcmp(a->name, b->name) == 0));
    encoding_must(a->categories.count == b->categories.count);
    for (uint32_t i = 0; i < a->categories.count; i++)
        encoding_must(categories_find(&b->categories, a->categories.name[i]) ==
                      i);
}

static void check_again(const struct encoding *e)
{
    struct encoding again;
    json_t *o = encoding_json(e);
    char *text = o ? json_write(o, 0) : NULL;

    encoding_must(text != NULL);
    encoding_must(encoding_parse(text, strlen(text), &again, NULL) == ERR_OK);
    encoding_must(again.columns == e->columns && again.inputs == e->inputs);
    for (uint64_t c = 0; c < e->columns; c++)
        same_column(&e->column[c], &again.column[c]);
    encoding_deinit(&again);
    json_decref(o);
    mem_free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t before = mem_outstanding();
    struct encoding e;
    struct fault f = {0};

    if (encoding_parse((const char *)data, size, &e, &f)) {
        encoding_must(f.text[0] != '\0');
    } else {
        encoding_must(e.inputs >= 1 && e.inputs <= ENCODING_INPUTS_MAX);
        check_again(&e);
        encoding_deinit(&e);
    }
    encoding_must(mem_outstanding() == before);
    return 0;
}
