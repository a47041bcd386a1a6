/* Any bytes as what a run's lock has once its tuner is gone: nothing is told,
 * or an end that could be told is, which told again is the same. */
#include "base/mem.h"
#include "tests/fuzz/must.h"
#include "tests/fuzz/one_file.h"
#include "tuner/history/record.h"
#include "tuner/shell/state_io.h"

#include <ctype.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct run_end end, again;
    int64_t before = mem_outstanding();
    char text[256];

    one_file_begin(data, size);
    if (run_folder_told_end("/s", "a-000000", &end)) {
        must(run_status_names_end(end.status));
        for (const char *c = end.reason; *c; c++)
            must(islower((unsigned char)*c) || isdigit((unsigned char)*c) ||
                 *c == '_');
        snprintf(text, sizeof(text), "4711\n%s %s\n", end.status, end.reason);
        one_file.in = (const uint8_t *)text;
        one_file.in_bytes = strlen(text);
        must(run_folder_told_end("/s", "a-000000", &again));
        must(strcmp(end.status, again.status) == 0);
        must(strcmp(end.reason, again.reason) == 0);
    }
    one_file_end();
    must(mem_outstanding() == before);
    return 0;
}
