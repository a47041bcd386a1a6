/* What a data setting (apps/data/data.h) holds: kind, counts, columns; of what
 * nothing here reads, why not and what to do. */
#ifndef APPS_DATA_INFO_H
#define APPS_DATA_INFO_H

#include "apps/data/data_kind.h"
#include "apps/samples/data_csv.h"
#include "base/fault.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum { DATA_WORDS_MAX = 512 };

/* Contents of a data setting. */
struct data_info {
    enum data_kind kind;
    bool readable;         /* false: nothing loads it; see why and advice */
    uint64_t files;        /* 0: generated */
    uint64_t samples;      /* ratings, rows for training, documents */
    uint64_t test_samples; /* images and tables */
    uint64_t users, items;
    uint64_t words, entries, tokens; /* of documents; of sparse samples */
    uint64_t nodes, edges, dangling; /* of a graph */
    uint64_t sentences;              /* of a text; its words, tokens */
    uint32_t columns, lowest;        /* of sparse samples (data_libsvm.h) */
    double min, max, mean; /* ratings; targets, labels of sparse samples */
    uint32_t channels, height, width; /* of an image; columns x 1 x 1 */
    unsigned classes;            /* 0: a table whose last column is no class */
    uint64_t class_samples[256]; /* training samples of each label */
    char why[DATA_WORDS_MAX];    /* not readable: why not */
    const char *advice;          /* not readable: what to do; static */
    json_t *table; /* of a table: table_summary.h; owned, or NULL */
};

void data_info_deinit(struct data_info *info);

/* What @spec holds, in @folder. @csv: it is a table, to be read so; NULL: what
 * it looks like, a table's last column its label. What is found but is not
 * readable, a table with a wrong place in it included, is described so, and is
 * no error. Errors: those of looking for files, and of reading the other kinds,
 * ERR_NOMEM. */
enum err data_describe(const char *spec, const char *folder,
                       const struct csv_options *csv, struct data_info *out,
                       struct fault *f);

/* What the heads of a data setting's files say, and their sizes. */
struct data_glimpse {
    enum data_kind kind;
    uint64_t files; /* 0: generated */
    uint64_t bytes; /* of the files; generated: that they take in memory */
    bool hopeless;  /* nothing here loads that kind */
};

/* A look that loads nothing. Errors: as data_describe, but for what stands
 * behind the heads. */
enum err data_glance(const char *spec, const char *folder,
                     struct data_glimpse *out, struct fault *f);

/* The members of @info that its kind has, as one object: owned by the caller;
 * NULL when out of memory. */
json_t *data_info_json(const struct data_info *info);

#endif
