/* Any bytes: decoding refuses them with a reason, or gives a frame that encodes
 * to the same bytes and whose records can all be read. */
#include "base/mem.h"
#include "ps/nodes/frame.h"

#include "tests/unit/fixture/frame_whole.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint64_t last_row; /* so that it is read */

static void read_records(const struct frame *f)
{
    unsigned char *values = mem_calloc((size_t)f->width + 1, 8);

    if (!values)
        abort();
    for (uint32_t i = 0; i < f->count; i++) {
        last_row = frame_row(f, i);
        if (f->width)
            frame_row_values(f, i, values);
    }
    mem_free(values);
}

static void same_bytes(const struct frame *f, const uint8_t *data, size_t size)
{
    size_t room = size + FRAME_FIXED_BYTES_MAX;
    unsigned char *again = mem_alloc(room);

    if (!again || frame_whole(f, again, room) != size ||
        memcmp(again, data, size) != 0)
        abort();
    mem_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fault fault = {0};
    struct frame f;
    /* Memory of its very size, so that a read past the end is seen. */
    uint8_t *copy = mem_alloc(size + 1);

    if (!copy)
        abort();
    memmove(copy + 1, data, size); /* and not aligned */
    if (frame_decode(copy + 1, size, &f, &fault) == ERR_OK) {
        read_records(&f);
        same_bytes(&f, copy + 1, size);
    } else if (!fault.text[0]) {
        abort();
    }
    mem_free(copy);
    return 0;
}
