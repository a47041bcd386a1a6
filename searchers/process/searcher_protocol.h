/* Lines between mltune and a searcher in another process: JSON objects, one a
 * line (docs/searcher-protocol.md).
 *
 * Pure: texts in, values out. Both ends are here, because mltune also hosts the
 * shared objects (searchers/process/plugin_host_io.h). What the other end sent
 * is checked whole; a fault says what was expected and what came.
 */
#ifndef SEARCHERS_SEARCHER_PROTOCOL_H
#define SEARCHERS_SEARCHER_PROTOCOL_H

#include "searchers/searcher.h"

enum {
    SEARCHER_PROTOCOL_VERSION = 1,
    SEARCHER_PROTOCOL_ANSWER_MAX =
        65536, /* bytes of an answer, its newline included */
    SEARCHER_PROTOCOL_NAME_MAX = 64, /* a searcher's name, with its end */
    SEARCHER_PROTOCOL_SUMMARY_MAX = 256
};

/* ---- from mltune --------------------------------------------------------- */

/* Requests, one line each with its newline; owned by the caller (mem_free);
 * NULL when out of memory. Those with an @id want one answer that repeats it.
 */
char *searcher_protocol_hello(uint64_t id);
char *searcher_protocol_open(uint64_t id, const struct space *space,
                             const json_t *settings, uint64_t seed);
char *searcher_protocol_ask(uint64_t id, const struct space *space,
                            const struct searcher_query *q);
char *searcher_protocol_tell(const struct space *space,
                             const struct observation *o);

struct searcher_protocol_hello {
    char name[SEARCHER_PROTOCOL_NAME_MAX];       /* "": it has not said */
    char summary[SEARCHER_PROTOCOL_SUMMARY_MAX]; /* "" */
    json_t *settings; /* owned: JSON schema of its settings; NULL: any */
};
void searcher_protocol_hello_deinit(struct searcher_protocol_hello *h);

/* The answers, @len bytes of @text without the newline. @id is the request's.
 *
 * Errors: ERR_PROTO for nonsense; ERR_VERSION (hello); ERR_INVAL where the
 * searcher refuses hello or open, ERR_APP where it says that it failed, its own
 * words in @f; ERR_NOMEM. */
enum err searcher_protocol_read_hello(const char *text, size_t len, uint64_t id,
                                      struct searcher_protocol_hello *out,
                                      struct fault *f);
enum err searcher_protocol_read_open(const char *text, size_t len, uint64_t id,
                                     struct fault *f);
/* ERR_OK with a canonical setting of @space in @out; ERR_AGAIN ("wait"),
 * ERR_EXHAUSTED. */
enum err searcher_protocol_read_ask(const char *text, size_t len, uint64_t id,
                                    const struct space *space,
                                    struct setting *out, struct fault *f);

/* ---- to mltune ----------------------------------------------------------- */

enum lines_kind {
    SEARCHER_PROTOCOL_HELLO,
    SEARCHER_PROTOCOL_OPEN,
    SEARCHER_PROTOCOL_ASK,
    SEARCHER_PROTOCOL_TELL
};

/* A request as the other end sees it. */
struct searcher_protocol_request {
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
enum err searcher_protocol_read_request(const char *text, size_t len,
                                        const struct space *space,
                                        struct searcher_protocol_request *out,
                                        struct fault *f);
void searcher_protocol_request_deinit(struct searcher_protocol_request *r);

/* Answers, as above. @settings may be NULL. */
char *searcher_protocol_answer_hello(uint64_t id, const char *name,
                                     const char *summary, const char *settings);
char *searcher_protocol_answer_done(uint64_t id);
/* @result as an ask's: ERR_OK with @setting, ERR_AGAIN, ERR_EXHAUSTED; else
 * @f has the words. */
char *searcher_protocol_answer_ask(uint64_t id, const struct space *space,
                                   enum err result,
                                   const struct setting *setting,
                                   const struct fault *f);
char *searcher_protocol_answer_error(uint64_t id, const char *text);

#endif
