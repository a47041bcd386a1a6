/* Which files data were read from, as JSON: for each its path, its bytes and
 * their checksum, in the order of the paths.
 *
 *   [{"path": "/home/me/digits.csv", "bytes": 1234, "sum": 4711}, ...]
 *
 * Pure. */
#ifndef BASE_DATA_LIST_H
#define BASE_DATA_LIST_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct file_read;

enum {
    /* Entries of `ready`'s: of paths as long as they may be, each byte written
     * as \u007f, it is a message still. */
    DATA_LIST_TOLD_MAX = 128
};

/* A new list of @file[n] with at most @max >= 2 entries: of more files the last
 * one stands for the rest. NULL: no memory. */
json_t *data_list_new(const struct file_read *file, size_t n, size_t max);

/* Whether @list is one, of at most @max entries. */
bool data_list_is(const json_t *list, size_t max);

enum data_list_change {
    DATA_LIST_SAME,
    DATA_LIST_CONTENT, /* a file of both holds other bytes */
    DATA_LIST_LACKS,   /* the second lacks a file of the first */
    DATA_LIST_ADDS     /* the second has a file that the first lacks */
};

struct data_list_diff {
    const char *path;  /* borrowed from the lists */
    long long was, is; /* CONTENT: its bytes in each */
};

/* How the list @is differs from @was first. Files of other paths are the same
 * ones where both lists, path by path, hold the same contents in the same
 * order: they were moved. Two that changed places are not. */
enum data_list_change data_list_compare(const json_t *was, const json_t *is,
                                        struct data_list_diff *out);

#endif
