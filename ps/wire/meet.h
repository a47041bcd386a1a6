/* Messages by which nodes find each other by address, and a list of the nodes
 * that have reported.
 *
 * Every node but 0 reports to node 0; when all have, node 0 answers each with
 * where all of them listen and the number of the run. A message is a line of
 * words, a single space between two, without a newline:
 *
 *     mltune-meet 1 report NODE NODES NUMBER ENDPOINT
 *     mltune-meet 1 run RUN ENDPOINT ENDPOINT ...      (of node 0, of node 1,
 * ...) mltune-meet 1 refused REASON...                  (any words)
 *
 * NODE and NODES are decimal, NUMBER and RUN 16 hexadecimal digits. Pure.
 */
#ifndef PS_MEET_H
#define PS_MEET_H

#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MEET_VERSION = 1,
    MEET_NODES_MAX = 1024,
    MEET_ENDPOINT_MAX = 256, /* bytes with its end */
    MEET_REPORT_MAX = 1024   /* bytes of a report */
};

struct meet_report {
    uint32_t node, nodes;
    uint64_t number; /* random; of this start of the node */
    char endpoint[MEET_ENDPOINT_MAX];
};

/* Whether a place to meet at is an address and no folder. */
bool meet_is_address(const char *place);

/* A node of those that meet. */
struct meet_node {
    uint64_t number;
    char endpoint[MEET_ENDPOINT_MAX]; /* empty: not heard of */
};

/* Owned texts (mem_free); NULL: out of memory. */
char *meet_report_write(const struct meet_report *r);
char *meet_answer_write(uint64_t run, uint32_t nodes,
                        const struct meet_node node[]);
char *meet_refusal_write(const char *reason);

/* Errors: ERR_FORMAT, ERR_VERSION, in words. */
enum err meet_report_read(const char *text, size_t len, struct meet_report *out,
                          struct fault *f);

/* The line of a meeting folder's file, with its newline: where the node that
 * wrote it listens, and its number. @out is written on success only. Errors:
 * ERR_FORMAT. */
enum { MEET_LINE_MAX = MEET_ENDPOINT_MAX + 64 /* bytes with its end */ };
void meet_line_write(const struct meet_node *node, char out[MEET_LINE_MAX]);
enum err meet_line_read(const char *line, struct meet_node *out);

/* @node[nodes]: endpoints are written, on success only. Errors: as above, and
 * ERR_NODE, with the reason, where it is a refusal. */
enum err meet_answer_read(const char *text, size_t len, uint32_t nodes,
                          uint64_t *run, struct meet_node node[],
                          struct fault *f);

/* Notes a report at node 0, again if it is the same. Errors, in words for its
 * sender: ERR_INVAL no such node, or another number of nodes; ERR_EXIST there
 * is another of that number. Nothing has changed then. */
enum err meet_take(const struct meet_report *r, uint32_t nodes,
                   struct meet_node node[], struct fault *f);

/* "2, 5, 6": those not heard of, as far as there is room. Returns how many
 * there are. */
uint32_t meet_missing(uint32_t nodes, const struct meet_node node[], char *out,
                      size_t room);

/* The number of the run: of all nodes' numbers. */
uint64_t meet_run(uint32_t nodes, const struct meet_node node[]);

#endif
