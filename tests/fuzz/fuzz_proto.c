/* Any bytes: decoding refuses them with a reason, or gives a message that
 * encodes to a text which decodes to the same message. */
#include "base/mem.h"
#include "base/proto/proto.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void round_trip(const struct msg *m)
{
    struct msg again;
    char *first, *second;
    size_t n, k;

    if (msg_encode(m, &first, &n) != ERR_OK)
        abort();
    if (msg_decode(first, n, &again, NULL) != ERR_OK)
        abort();
    if (msg_encode(&again, &second, &k) != ERR_OK)
        abort();
    if (n != k || memcmp(first, second, n) != 0 || again.op != m->op)
        abort();
    mem_free(first);
    mem_free(second);
    msg_deinit(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t before = mem_outstanding();
    struct fault fault = {0};
    struct msg m;

    if (msg_decode((const char *)data, size, &m, &fault) == ERR_OK) {
        round_trip(&m);
        msg_deinit(&m);
    } else if (!fault.text[0]) {
        abort();
    }
    if (mem_outstanding() != before)
        abort();
    return 0;
}
