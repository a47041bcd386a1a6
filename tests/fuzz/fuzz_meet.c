/* Any bytes as a report to node 0, as its answer, and as a file of a meeting
 * folder: refused with a reason, or taken and written again as the same. */
#include "base/mem.h"
#include "ps/wire/meet.h"

#include <stdlib.h>
#include <string.h>

enum { NODES = 3 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int ok)
{
    if (!ok)
        abort();
}

static void read_as_report(const char *text, size_t size)
{
    struct meet_node node[NODES] = {{0}};
    struct meet_report r, again;
    struct fault f = {0};
    char *written;

    if (meet_report_read(text, size, &r, &f)) {
        must(f.text[0]);
        return;
    }
    written = meet_report_write(&r);
    must(written &&
         meet_report_read(written, strlen(written), &again, &f) == 0);
    must(again.node == r.node && again.nodes == r.nodes &&
         again.number == r.number && strcmp(again.endpoint, r.endpoint) == 0);
    mem_free(written);
    if (meet_take(&r, NODES, node, &f) == 0)
        must(strcmp(node[r.node].endpoint, r.endpoint) == 0);
    else
        must(f.text[0]);
}

static void read_as_answer(const char *text, size_t size)
{
    struct meet_node node[NODES] = {{0}}, again[NODES] = {{0}};
    struct fault f = {0};
    uint64_t run, same = 0;
    char *written;

    if (meet_answer_read(text, size, NODES, &run, node, &f)) {
        must(!node[0].endpoint[0]);
        return;
    }
    written = meet_answer_write(run, NODES, node);
    must(written && meet_answer_read(written, strlen(written), NODES, &same,
                                     again, &f) == 0);
    must(same == run);
    for (int i = 0; i < NODES; i++)
        must(strcmp(node[i].endpoint, again[i].endpoint) == 0);
    mem_free(written);
}

static void read_as_file(const char *text)
{
    struct meet_node node = {.number = 7}, again;
    char line[MEET_LINE_MAX];

    if (meet_line_read(text, &node)) {
        must(node.number == 7 && !node.endpoint[0]);
        return;
    }
    must(strlen(node.endpoint) < MEET_ENDPOINT_MAX);
    meet_line_write(&node, line);
    must(meet_line_read(line, &again) == ERR_OK);
    must(strcmp(again.endpoint, node.endpoint) == 0);
    must(again.number == node.number);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t before = mem_outstanding();
    char *text = malloc(size ? size : 1); /* exactly: reads past it are found */
    char *line = malloc(size + 1);

    must(text && line);
    if (size)
        memcpy(text, data, size);
    read_as_report(text, size);
    read_as_answer(text, size);
    if (size)
        memcpy(line, data, size);
    line[size] = '\0';
    read_as_file(line);
    free(text);
    free(line);
    must(mem_outstanding() == before);
    return 0;
}
