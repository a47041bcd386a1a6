/* Any bytes as a service's list of uploads: what it says is summed up whatever
 * it is, and an upload that is added is there when the list is read again.
 *
 * The data folder has some whole files and some parts; the list itself is not
 * on the disk (one_file.h). */
#include "base/mem.h"
#include "cli/service/upload_list.h"
#include "tests/fuzz/must.h"
#include "tests/fuzz/one_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[] = "/tmp/mltune-fuzz-uploads-XXXXXX";
static const char *const names[] = {"a", ".b.upload", "c", ".c.upload"};
enum { NAMES = sizeof(names) / sizeof(*names), BYTES = 5 };

static void remove_folder(void)
{
    char path[128];

    for (size_t i = 0; i < NAMES; i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
}

static void make_folder(void)
{
    char path[128];

    must(mkdtemp(folder) && atexit(remove_folder) == 0);
    for (size_t i = 0; i < NAMES; i++) {
        FILE *file;

        snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        file = fopen(path, "we");
        must(file && fwrite("12345", 1, BYTES, file) == BYTES);
        fclose(file);
    }
}

/* What was announced for "new" by "tok", by a list that has it. */
static void check_added(const struct upload_place *p, struct desk_request *r,
                        struct upload_sum *sum)
{
    struct upload_sum again;

    must(upload_list_add(folder, r, 1234, sum, NULL) == ERR_OK);
    must(upload_list_sum(p, folder, r, true, &again, NULL) == ERR_OK);
    must(again.announced == 1234);
    must(again.bytes == sum->bytes && again.own == sum->own);
    must(again.names + 1 == sum->names && again.open == sum->open);
    upload_sum_deinit(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool made;
    const struct upload_place p = {.data = folder, .state = folder};
    struct desk_request r = {.by = "tok", .upload = "new"};
    struct upload_sum sum;
    struct fault f = {0};
    int64_t before = mem_outstanding();

    if (!made)
        make_folder();
    made = true;
    one_file_begin(data, size);
    if (upload_list_sum(&p, folder, &r, true, &sum, &f)) {
        must(f.text[0]);
    } else {
        must(sum.own <= sum.bytes && sum.open <= sum.names);
        must(sum.names == 0 || sum.bytes > 0);
        check_added(&p, &r, &sum);
    }
    upload_sum_deinit(&sum);
    one_file_end();
    must(mem_outstanding() == before);
    return 0;
}
