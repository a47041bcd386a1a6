/* Any bytes as the rows of a part's numbers: refused with name and reason, or a
 * permutation that is written again to the letter. One worker with two placed
 * tables and one that is not; the seal is that of the input, and a wrong one.
 */
#include "base/crc32c.h"
#include "ps/disk/numbering.h"

#include <stdlib.h>
#include <string.h>

enum { NUMBERING_ROWS_A = 3, NUMBERING_ROWS_B = 5, NUMBERING_BYTES = 32 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct manifest *numbering_manifest(void)
{
    static struct manifest_table table[3] = {
        {.name = "a", .rows = NUMBERING_ROWS_A, .chunk_rows = 2, .placed = 1},
        {.name = "b", .rows = 7, .chunk_rows = 4},
        {.name = "c", .rows = NUMBERING_ROWS_B, .chunk_rows = 4, .placed = 9}};
    static struct manifest_part part;
    static struct manifest m = {
        .nodes = 1, .workers = 1, .table = table, .tables = 3, .part = &part};

    return &m;
}

static void numbering_again(const struct numbering *n, const uint8_t *data)
{
    const struct table table[3] = {{.row_at = n->table[0].row_at},
                                   {.row_at = NULL},
                                   {.row_at = n->table[2].row_at}};
    unsigned char out[NUMBERING_BYTES];
    unsigned sum = 0;

    numbering_put(numbering_manifest(), table, 0, out);
    if (memcmp(out, data, sizeof(out)) != 0 || n->table[1].row_at)
        abort();
    for (uint64_t i = 0; i < NUMBERING_ROWS_B; i++)
        sum |= 1U << numbering_row(n, 2, i);
    if (sum != (1U << NUMBERING_ROWS_B) - 1)
        abort();
}

static enum err numbering_try(const uint8_t *data, size_t size, uint32_t seal)
{
    struct manifest *m = numbering_manifest();
    struct numbering n;
    struct fault f = {0};
    enum err err = numbering_init(&n, m);

    if (err)
        abort();
    m->part[0].rows_seal = seal;
    err = numbering_take(&n, m, 0, data, size, "fuzz", &f);
    if (err && (f.code != err || !strstr(f.text, "fuzz: ")))
        abort();
    if (!err)
        numbering_again(&n, data);
    numbering_deinit(&n);
    return err;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint32_t seal = crc32c(0, data, size);

    numbering_try(data, size, seal);
    if (numbering_try(data, size, ~seal) == ERR_OK)
        abort();
    return 0;
}
