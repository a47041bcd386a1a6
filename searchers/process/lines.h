/* What mltune says to a searcher in another process, and what that answers:
 * JSON objects, one a line (docs/searcher-protocol.md).
 *
 * Pure: texts in, values out. Both ends are here, because mltune also hosts the
 * shared objects (searchers/process/plugin_host_io.h). What the other end sent
 * is checked whole; a fault says what was expected and what came.
 */
#ifndef SEARCHERS_LINES_H
#define SEARCHERS_LINES_H

#include "searchers/searcher.h"

enum {
    LINES_VERSION = 1,
    LINES_ANSWER_MAX = 65536, /* bytes of an answer, its newline included */
    LINES_NAME_MAX = 64,      /* a searcher's name, with its end */
    LINES_SUMMARY_MAX = 256
};

/* ---- from mltune --------------------------------------------------------- */

/* Requests, one line each with its newline; owned by the caller (mem_free);
 * NULL when out of memory. Those with an @id want one answer that repeats it.
 */
char *lines_hello(uint64_t id);
char *lines_open(uint64_t id, const struct space *space, const json_t *settings,
                 uint64_t seed);
char *lines_ask(uint64_t id, const struct space *space,
                const struct searcher_query *q);
char *lines_tell(const struct space *space, const struct observation *o);

struct lines_hello {
    char name[LINES_NAME_MAX];       /* "": it has not said */
    char summary[LINES_SUMMARY_MAX]; /* "" */
    json_t *settings; /* owned: JSON schema of its settings; NULL: any */
};
void lines_hello_deinit(struct lines_hello *h);

/* The answers, @len bytes of @text without the newline. @id is the request's.
 *
 * Errors: ERR_PROTO for nonsense; ERR_VERSION (hello); ERR_INVAL where the
 * searcher refuses hello or open, ERR_APP where it says that it failed, its own
 * words in @f; ERR_NOMEM. */
enum err lines_read_hello(const char *text, size_t len, uint64_t id,
                          struct lines_hello *out, struct fault *f);
enum err lines_read_open(const char *text, size_t len, uint64_t id,
                         struct fault *f);
/* ERR_OK with a canonical setting of @space in @out; ERR_AGAIN ("wait"),
 * ERR_EXHAUSTED. */
enum err lines_read_ask(const char *text, size_t len, uint64_t id,
                        const struct space *space, struct setting *out,
                        struct fault *f);

/* ---- to mltune ----------------------------------------------------------- */

enum lines_kind { LINES_HELLO, LINES_OPEN, LINES_ASK, LINES_TELL };

/* A request as the other end sees it. */
struct lines_request {
    enum lines_kind kind;
    uint64_t id;             /* 0 for tell */
    json_t *object;          /* owned: the whole; members below point into it */
    uint64_t seed;           /* open */
    json_t *settings;        /* open */
    struct space space;      /* open */
    struct observation told; /* tell: over the space given */
    struct setting *running; /* ask; owned, [running_len] */
    size_t running_len;
    bool has_incumbent; /* ask */
    struct setting incumbent;
};

/* @space is the one that open brought (NULL before it: ask and tell are then
 * refused). Errors: ERR_PROTO, ERR_NOMEM; @out is empty then. */
enum err lines_read_request(const char *text, size_t len,
                            const struct space *space,
                            struct lines_request *out, struct fault *f);
void lines_request_deinit(struct lines_request *r);

/* Answers, as above. @settings may be NULL. */
char *lines_answer_hello(uint64_t id, const char *name, const char *summary,
                         const char *settings);
char *lines_answer_done(uint64_t id);
/* @result as an ask's: ERR_OK with @setting, ERR_AGAIN, ERR_EXHAUSTED; else
 * @f has the words. */
char *lines_answer_ask(uint64_t id, const struct space *space, enum err result,
                       const struct setting *setting, const struct fault *f);
char *lines_answer_error(uint64_t id, const char *text);

#endif
