/* Any bytes as the number of the last event that a client has read: a number of
 * at most 18 digits, or none, and then it goes on with what is new. */
#include "api/http/event_log.h"
#include "base/mem.h"
#include "tests/fuzz/must.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { NEWEST = 77 };

static struct event_log *log_of_one(void)
{
    static struct event_log *log;

    if (!log) {
        must(event_log_new(&log) == ERR_OK);
        event_log_append(log, NEWEST, "decision", "{}");
    }
    return log;
}

static bool is_number(const char *text)
{
    size_t n = strlen(text);

    return n > 0 && n <= 18 && strspn(text, "0123456789") == n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), again[24];
    uint64_t after;

    must(text != NULL);
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    after = event_log_after(log_of_one(), text);
    if (is_number(text)) {
        snprintf(again, sizeof(again), "%" PRIu64, after);
        must(strcmp(again, text + strspn(text, "0")) == 0 || after == 0);
    } else {
        must(after == NEWEST);
    }
    must(event_log_after(log_of_one(), NULL) == NEWEST);
    free(text);
    return 0;
}
