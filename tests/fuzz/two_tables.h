/* The little cluster of the targets that play one side of it: two nodes of two
 * workers, two tables, and a consistency model and a rule that the input names.
 */
#ifndef FUZZ_TWO_TABLES_H
#define FUZZ_TWO_TABLES_H

#include "ps/rows/consistency.h"
#include "ps/rows/table.h"
#include "tests/fuzz/bytes_in.h"
#include "tests/fuzz/must.h"

enum {
    FUZZ_NODES = 2,
    FUZZ_WORKERS = 2, /* a node */
    FUZZ_TABLES = 2,
    FUZZ_ROWS = 12,
    FUZZ_WIDTH = 2
};

static const struct consistency_ops *two_tables_model(struct bytes_in *in)
{
    static const char *const models[] = {"bsp", "ssp", "essp", "async",
                                         "barrier"};
    const struct consistency_ops *model =
        consistency_find(models[in_below(in, 5)]);

    must(model != NULL);
    return model;
}

static void two_tables_make(struct table *t, const char *name, const char *rule,
                            unsigned flags)
{
    struct mlt_table_options opt = {.size = sizeof(opt),
                                    .name = name,
                                    .rows = FUZZ_ROWS,
                                    .width = FUZZ_WIDTH,
                                    .rule = rule,
                                    .flags = flags,
                                    .chunk_bytes = 16};

    must(table_init(t, &opt, NULL, NULL) == ERR_OK);
    table_partition(t, FUZZ_NODES * FUZZ_WORKERS);
}

/* The second one of them by a rule that is named, with @flags. */
static void two_tables_open(struct table table[FUZZ_TABLES],
                            struct bytes_in *in, unsigned flags)
{
    static const char *const rules[] = {"add", "sgd", "adagrad", "adarevision"};

    two_tables_make(&table[0], "weights", "add", 0);
    two_tables_make(&table[1], "learned", rules[in_below(in, 4)], flags);
}

#endif
