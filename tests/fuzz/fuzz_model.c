/* Any bytes as a model folder's model.json: refused with a reason, or what was
 * read, written again, reads the same. */
#include "base/json/json.h"
#include "base/mem.h"
#include "cli/state/model_io.h"
#include "tests/fuzz/must.h"
#include "tests/fuzz/one_file.h"

#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void round_trip(const struct model *m)
{
    const struct model_facts facts = {.run = "run",
                                      .app = m->app,
                                      .folder = m->folder,
                                      .settings = m->settings,
                                      .setting = m->setting,
                                      .loss = NAN,
                                      .seed = m->seed};
    struct model again;

    must(model_write("folder", &facts, NULL) == ERR_OK);
    must(model_read("folder", &again, NULL) == ERR_OK);
    must(strcmp(m->app, again.app) == 0 && m->seed == again.seed);
    must(strcmp(m->folder, again.folder) == 0);
    must(json_equal(m->settings, again.settings));
    must(json_equal(m->setting, again.setting));
    model_deinit(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t before;
    struct model m = {0};
    struct fault f = {0};
    enum err err;

    json_count_memory();
    before = mem_outstanding();
    one_file_begin(data, size);
    err = model_read("folder", &m, &f);
    if (!err)
        round_trip(&m);
    else
        must(f.code == err && strstr(f.text, "folder/model.json"));
    model_deinit(&m);
    one_file_end();
    must(mem_outstanding() == before);
    return 0;
}
