/* The list of uploads: what came into the data folder, how much was announced
 * for each file, and who began it. cli/service/upload.h has the format.
 */
#ifndef CLI_UPLOAD_LIST_H
#define CLI_UPLOAD_LIST_H

#include "api/http/tokens.h"
#include "base/file_io.h"
#include "base/text.h"
#include "cli/service/upload.h"

/* A file's name, and what it is called until it is whole. */
struct upload_paths {
    char whole[FILE_PATH_MAX], part[FILE_PATH_MAX];
};

enum err upload_paths_of(const struct upload_place *p, const char *name,
                         struct upload_paths *out, struct fault *f);

/* Bytes of the regular file @path; -1: there is none. */
int64_t upload_bytes_of(const char *path);

/* Whether there is anything of that name. */
bool upload_exists(const char *path);

#define UPLOAD_SIZE_UNKNOWN UINT64_MAX

/* What all uploads take, without that of one name. */
struct upload_sum {
    const char *owner;  /* whose is counted apart, "" without a name; borrowed
                         */
    uint64_t bytes;     /* announced, or there */
    uint64_t own;       /* of these the owner's, who has a name */
    uint64_t announced; /* for the one name; UPLOAD_SIZE_UNKNOWN */
    /* Somebody else's who began the one that is under way of that name. */
    bool others;
    bool left; /* the same, but nobody goes on with it any more */
    char holder[TOKENS_NAME_MAX + 1]; /* "": they have no name */
    unsigned names;                   /* in the list */
    unsigned open;                    /* not complete, the owner's */
    int64_t idlest_s;                 /* of these: written last, Unix time */
    char idlest[DESK_UPLOAD_MAX + 1]; /* its name; "": none is open */
    int64_t rested_s;      /* the same of anybody's, and what it counts for */
    uint64_t rested_bytes; /* 0: none is open */
    char rested[DESK_UPLOAD_MAX + 1];
    struct text list; /* those that are there */
};

void upload_sum_deinit(struct upload_sum *sum);

/* Finds what was announced for the file of @r in the list @path, and by whom;
 * with @all sums up all others too, which looks at each file and removes those
 * that nobody goes on with. @out is to be released also after an error. Errors:
 * ERR_IO, ERR_NOMEM. */
enum err upload_list_sum(const struct upload_place *p, const char *path,
                         const struct desk_request *r, bool all,
                         struct upload_sum *out, struct fault *f);

/* Lists the upload of @r, of @size bytes, beside those of @sum: what is on the
 * disk is counted. Errors: ERR_IO, ERR_NOMEM. */
enum err upload_list_add(const char *path, const struct desk_request *r,
                         uint64_t size, struct upload_sum *sum,
                         struct fault *f);

/* Writes those of @sum, which has no more of them than were there: without the
 * one name. Errors: ERR_IO, ERR_NOMEM. */
enum err upload_list_write(const char *path, const struct upload_sum *sum,
                           struct fault *f);

#endif
