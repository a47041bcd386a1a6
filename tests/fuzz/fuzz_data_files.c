/* Any bytes as the list of the files that a run began with (kept.json): damaged
 * it counts as none, and is written anew; whole it is of these data, or refuses
 * them by words that say how to go on. */
#include "base/files_read.h"
#include "base/json/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "ps/node/data_files_io.h"
#include "tests/fuzz/must.h"
#include "tests/fuzz/one_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct file_read file[] = {{"/a", 5, 1}, {"/b", 6, 2}, {"/c\xff", 7, 3}};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const size_t n = sizeof(file) / sizeof(*file);
    struct fault f = {0};
    int64_t before;
    enum err err;

    json_count_memory();
    log_set_level(LOG_ERROR);
    before = mem_outstanding();
    one_file_begin(data, size);
    err = data_files_check("/s/kept", file, n, &f);
    if (err) {
        must(err == ERR_INVAL && f.code == err);
        must(strstr(f.text, "--other-data"));
        must(!one_file.out);
    } else {
        must(data_files_check("/s/kept", file, n, NULL) == ERR_OK);
    }
    if (one_file.out) /* it was none: now it is the list of these */
        must(data_files_check("/s/kept", file, n - 1, NULL) == ERR_INVAL);
    one_file_end();
    must(mem_outstanding() == before);
    return 0;
}
