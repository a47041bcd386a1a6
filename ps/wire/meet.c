#include "ps/wire/meet.h"

#include "base/mem.h"
#include "base/rng.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { HEAD_BYTES = 64, HEX_DIGITS = 16, REASON_MAX = 512 };

static const char magic[] = "mltune-meet";

/* ---- writing ------------------------------------------------------------- */

/* Room for @room bytes more than a head. */
static char *begin(size_t room, const char *fmt, ...)
{
    char *text = mem_alloc(HEAD_BYTES + room);
    va_list ap;

    if (!text)
        return NULL;
    va_start(ap, fmt);
    vsnprintf(text, HEAD_BYTES, fmt, ap);
    va_end(ap);
    return text;
}

char *meet_report_write(const struct meet_report *r)
{
    char *text = begin(MEET_ENDPOINT_MAX,
                       "%s %d report %" PRIu32 " %" PRIu32 " %016" PRIx64 " ",
                       magic, MEET_VERSION, r->node, r->nodes, r->number);

    assert(r->endpoint[0]);
    if (text)
        snprintf(text + strlen(text), MEET_ENDPOINT_MAX, "%s", r->endpoint);
    return text;
}

char *meet_answer_write(uint64_t run, uint32_t nodes,
                        const struct meet_node node[])
{
    char *text = begin((size_t)nodes * (MEET_ENDPOINT_MAX + 1),
                       "%s %d run %016" PRIx64, magic, MEET_VERSION, run);
    size_t n = text ? strlen(text) : 0;

    assert(nodes > 0);
    for (uint32_t i = 0; text && i < nodes; i++)
        n += (size_t)snprintf(text + n, MEET_ENDPOINT_MAX + 1, " %s",
                              node[i].endpoint);
    return text;
}

char *meet_refusal_write(const char *reason)
{
    char *text = begin(REASON_MAX, "%s %d refused ", magic, MEET_VERSION);

    if (text)
        snprintf(text + strlen(text), REASON_MAX, "%s", reason);
    return text;
}

/* ---- reading ------------------------------------------------------------- */

/* The rest of a message. */
struct words {
    const char *at, *end;
};

/* The next word, which fits into @out; only what is printed. */
static bool next(struct words *w, char *out, size_t room)
{
    size_t n = 0;

    while (w->at + n < w->end && w->at[n] > ' ' && w->at[n] <= '~' &&
           n + 1 < room) {
        out[n] = w->at[n];
        n++;
    }
    out[n] = '\0';
    w->at += n;
    if (n == 0 || (w->at < w->end && *w->at != ' '))
        return false;
    w->at += w->at < w->end;
    return true;
}

static bool next_uint(struct words *w, uint32_t *out)
{
    char word[11];
    uint64_t value = 0;

    if (!next(w, word, sizeof(word)))
        return false;
    for (const char *c = word; *c; c++) {
        if (*c < '0' || *c > '9')
            return false;
        value = value * 10 + (uint64_t)(*c - '0');
    }
    *out = (uint32_t)value;
    return value <= UINT32_MAX;
}

static bool next_hex(struct words *w, uint64_t *out)
{
    char word[HEX_DIGITS + 1];

    return next(w, word, sizeof(word)) && strlen(word) == HEX_DIGITS &&
           strspn(word, "0123456789abcdef") == HEX_DIGITS &&
           sscanf(word, "%16" SCNx64, out) == 1;
}

/* The head, and which message it is. */
static enum err open_message(struct words *w, const char *text, size_t len,
                             char verb[HEAD_BYTES], struct fault *f)
{
    char word[HEAD_BYTES];
    uint32_t version;

    *w = (struct words){text, text + len};
    if (!next(w, word, sizeof(word)) || strcmp(word, magic) != 0 ||
        !next_uint(w, &version))
        return fault_set(f, ERR_FORMAT, "no node says this");
    if (version != MEET_VERSION)
        return fault_set(f, ERR_VERSION,
                         "version %u of meeting, expected %d: all nodes must "
                         "run the same mltune",
                         version, MEET_VERSION);
    if (!next(w, verb, HEAD_BYTES))
        return fault_set(f, ERR_FORMAT, "expected what it says");
    return ERR_OK;
}

enum err meet_report_read(const char *text, size_t len, struct meet_report *out,
                          struct fault *f)
{
    struct meet_report r = {0};
    char verb[HEAD_BYTES];
    struct words w;
    enum err err = open_message(&w, text, len, verb, f);

    if (err)
        return err;
    if (strcmp(verb, "report") != 0)
        return fault_set(f, ERR_FORMAT, "expected a report");
    if (!next_uint(&w, &r.node) || !next_uint(&w, &r.nodes) ||
        !next_hex(&w, &r.number) || !next(&w, r.endpoint, sizeof(r.endpoint)) ||
        w.at != w.end || text[len - 1] == ' ')
        return fault_set(f, ERR_FORMAT,
                         "a report is a node's number, how many there are, 16 "
                         "hex digits, and where the node listens");
    *out = r;
    return ERR_OK;
}

/* ---- a file of the folder ------------------------------------------------ */

void meet_line_write(const struct meet_node *node, char out[MEET_LINE_MAX])
{
    int n = snprintf(out, MEET_LINE_MAX, "%s %016" PRIx64 "\n", node->endpoint,
                     node->number);

    assert(n > 0 && n < MEET_LINE_MAX);
}

enum err meet_line_read(const char *line, struct meet_node *out)
{
    struct words w = {line, line + strcspn(line, "\n")};
    struct meet_node node;

    if (*w.end != '\n' || !next(&w, node.endpoint, sizeof(node.endpoint)) ||
        !next_hex(&w, &node.number) || w.at != w.end || w.end[-1] == ' ')
        return ERR_FORMAT;
    *out = node;
    return ERR_OK;
}

/* ---- the answer ---------------------------------------------------------- */

/* Twice: first it is only checked. */
static bool take_endpoints(struct words w, uint32_t nodes,
                           struct meet_node node[])
{
    char endpoint[MEET_ENDPOINT_MAX];

    for (uint32_t i = 0; i < nodes; i++) {
        if (!next(&w, endpoint, sizeof(endpoint)))
            return false;
        if (node)
            memcpy(node[i].endpoint, endpoint, sizeof(endpoint));
    }
    return w.at == w.end && w.end[-1] != ' ';
}

enum err meet_answer_read(const char *text, size_t len, uint32_t nodes,
                          uint64_t *run, struct meet_node node[],
                          struct fault *f)
{
    char verb[HEAD_BYTES];
    uint64_t number;
    struct words w;
    enum err err = open_message(&w, text, len, verb, f);

    assert(nodes > 0);
    assert(run && node);
    if (err)
        return err;
    if (strcmp(verb, "refused") == 0)
        return fault_set(
            f, ERR_NODE, "%.*s",
            (int)(w.end - w.at < REASON_MAX ? w.end - w.at : REASON_MAX), w.at);
    if (strcmp(verb, "run") != 0 || !next_hex(&w, &number) ||
        !take_endpoints(w, nodes, NULL))
        return fault_set(f, ERR_FORMAT,
                         "expected 16 hex digits and where %u nodes listen",
                         nodes);
    take_endpoints(w, nodes, node);
    *run = number;
    return ERR_OK;
}

/* ---- who is there -------------------------------------------------------- */

bool meet_is_address(const char *place)
{
    assert(place);
    return strstr(place, "://") != NULL;
}

enum err meet_take(const struct meet_report *r, uint32_t nodes,
                   struct meet_node node[], struct fault *f)
{
    struct meet_node *n = r->node < nodes ? &node[r->node] : NULL;

    assert(nodes > 0);
    if (r->nodes != nodes)
        return fault_set(f, ERR_INVAL,
                         "node %u was started for %u nodes, node 0 for %u: "
                         "start all with one configuration",
                         r->node, r->nodes, nodes);
    if (!n)
        return fault_set(f, ERR_INVAL, "node %u: there are %u nodes, from 0",
                         r->node, nodes);
    if (n->endpoint[0] && n->number != r->number)
        return fault_set(f, ERR_EXIST,
                         "node %u is there already, at %.200s: give each node "
                         "a number of its own",
                         r->node, n->endpoint);
    n->number = r->number;
    memcpy(n->endpoint, r->endpoint, sizeof(n->endpoint));
    return ERR_OK;
}

uint32_t meet_missing(uint32_t nodes, const struct meet_node node[], char *out,
                      size_t room)
{
    uint32_t missing = 0;
    size_t n = 0;

    assert(room > 0);
    out[0] = '\0';
    for (uint32_t i = 0; i < nodes; i++) {
        if (node[i].endpoint[0])
            continue;
        if (n + 16 < room)
            n += (size_t)snprintf(out + n, room - n, "%s%u",
                                  missing ? ", " : "", i);
        missing++;
    }
    return missing;
}

uint64_t meet_run(uint32_t nodes, const struct meet_node node[])
{
    uint64_t run = nodes;

    assert(nodes > 0);
    for (uint32_t i = 0; i < nodes; i++)
        run = rng_mix(run, node[i].number);
    return run;
}
