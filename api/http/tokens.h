/* Named tokens: who may ask besides those who have the server's own token, and
 * what each may do.
 *
 * A token is a secret of 256 random bits in hexadecimal. Of it only a hash is
 * kept, SHA-256, without salt and without repetition: those are for passwords,
 * which people choose from few and use twice. 2^256 equally likely secrets
 * cannot be tried, whatever a try costs, nor can two be the same. So who reads
 * the file gets in nowhere, and each request costs one hash of 64 bytes.
 *
 * The text that keeps them is JSON:
 *   {"version": 1, "tokens": [{"name": "alice", "role": "run",
 *    "made": "2026-11-23T20:40:00Z", "sha256": 64 hexadecimal digits}]}
 * Where one of them has "upload_limit", bytes, it is version 2: programs that
 * know no limits read no such text, and all others.
 *
 * Pure. One owner thread.
 */
#ifndef API_TOKENS_H
#define API_TOKENS_H

#include "base/fault.h"
#include "base/role.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TOKENS_MAX = 256, /* further ones are refused */
    TOKENS_NAME_MAX = 64,
    TOKENS_MADE_MAX = 31,
    TOKENS_HASH_LEN = 64,
    TOKENS_TEXT_MAX = 128 * 1024 /* bytes of the text */
};

/* The largest limit of uploads: more than any disk has. */
#define TOKENS_UPLOAD_MAX UINT64_C(999999999999999999)

struct named_token {
    char name[TOKENS_NAME_MAX + 1]; /* unique */
    enum role role;                 /* READ, RUN, ADMIN */
    char made[TOKENS_MADE_MAX + 1]; /* RFC 3339, UTC */
    char hash[TOKENS_HASH_LEN + 1]; /* of the secret; lower case */
    bool upload_limited;            /* its uploads have a limit of their own: */
    uint64_t upload_max;            /* bytes, all together */
};

struct named_tokens {
    size_t len, capacity;
    struct named_token *item; /* owned, [capacity] */
};

/* Accepts a zeroed one. */
void tokens_deinit(struct named_tokens *t);

/* 1 to TOKENS_NAME_MAX of A-Z a-z 0-9 . _ @ -, the first a letter or digit: it
 * fits into a line of the audit, and is no option. */
bool token_name_valid(const char *name);

/* The hash of a secret. False: GnuTLS has no SHA-256. */
bool token_hash(const char *secret, size_t len, char out[TOKENS_HASH_LEN + 1]);

/* From the text of @len bytes. Errors: ERR_FORMAT, with what is wrong and where
 * in @f; ERR_VERSION a later program wrote it; ERR_NOMEM. */
enum err tokens_parse(const char *text, size_t len, struct named_tokens *out,
                      struct fault *f);

/* The text, which tokens_parse takes; the caller's (mem_free). NULL: no memory.
 */
char *tokens_print(const struct named_tokens *t);

/* The token whose secret is @secret[@len], or NULL. All hashes are compared,
 * each to its end: the time tells nothing of any. */
const struct named_token *tokens_find(const struct named_tokens *t,
                                      const char *secret, size_t len);

/* A number that tells @token from all others, also from a later one of its
 * name; never 0. */
uint64_t token_number(const struct named_token *token);

/* Whether one of @t has that number. */
bool tokens_has(const struct named_tokens *t, uint64_t number);

/* The token @name, or NULL. */
const struct named_token *tokens_named(const struct named_tokens *t,
                                       const char *name);

/* Appends @token. Errors: ERR_EXIST one has its name, ERR_LIMIT, ERR_NOMEM; @t
 * is as it was then. */
enum err tokens_put(struct named_tokens *t, const struct named_token *token);

/* Takes the token @name out. False: there is none. */
bool tokens_remove(struct named_tokens *t, const char *name);

#endif
