/* Any bytes as what a run's folder remembers: behind a byte 'j' its job.json,
 * behind any other its session.json. Refused with a reason, or what was read,
 * written again, reads the same. */
#include "base/json/json.h"
#include "base/mem.h"
#include "cli/run/session.h"
#include "cli/state/job.h"
#include "tests/fuzz/must.h"
#include "tests/fuzz/one_file.h"

#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Where session.json is damaged its copy is read, which is the same bytes here.
 */
static void fuzz_recall(void)
{
    static char folder[FILE_PATH_MAX], out[FILE_PATH_MAX];
    static char folder_too[FILE_PATH_MAX], out_too[FILE_PATH_MAX];
    struct fault f = {0};
    enum err err = session_recall("/s", "a-000000", folder, out, &f);
    json_t *o;
    char *text;

    if (err) {
        must(f.code == err && f.text[0]);
        return;
    }
    must(folder[0] == '/');
    o = json_pack("{s:s, s:s}", "folder", folder, "out", out);
    text = o ? json_write(o, 0) : NULL;
    must(text != NULL);
    one_file.in = (const uint8_t *)text;
    one_file.in_bytes = strlen(text);
    must(session_recall("/s", "a-000000", folder_too, out_too, NULL) == ERR_OK);
    must(strcmp(folder, folder_too) == 0 && strcmp(out, out_too) == 0);
    mem_free(text);
    json_decref(o);
}

static void fuzz_job(void)
{
    struct fault f = {0};
    struct job job, again;
    enum err err = job_read("/s", "a-000000", &job, &f);

    if (err) {
        must(f.code == err && strstr(f.text, "job.json"));
        return;
    }
    must(job_write("/s", "a-000000", &job, NULL) == ERR_OK);
    must(job_read("/s", "a-000000", &again, NULL) == ERR_OK);
    must(strcmp(job.group, again.group) == 0 && job.number == again.number &&
         job.submitted_ns == again.submitted_ns && job.held == again.held &&
         strcmp(job.reason, again.reason) == 0 &&
         strcmp(job.key, again.key) == 0 && job.body_hash == again.body_hash);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t before;

    json_count_memory();
    before = mem_outstanding();
    if (size == 0)
        return 0;
    one_file_begin(data + 1, size - 1);
    if (data[0] == 'j')
        fuzz_job();
    else
        fuzz_recall();
    one_file_end();
    must(mem_outstanding() == before);
    return 0;
}
