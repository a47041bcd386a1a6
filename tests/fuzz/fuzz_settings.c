/* Any bytes as a service's settings, service.json: refused with every fault and
 * its place, or values within the table's ranges, which are the same when they
 * are read once more. */
#include "base/json/json.h"
#include "base/mem.h"
#include "cli/config/service_settings.h"
#include "tests/fuzz/must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_values(const struct service_settings *s)
{
    must(s->keep <= SERVICE_KEEP_MAX);
    must(s->keep_age_s == 0 ||
         (s->keep_age_s >= 60 &&
          s->keep_age_s <= SERVICE_KEEP_DAYS_MAX * 86400.0));
}

static void read_once_more(const uint8_t *data, size_t size,
                           const struct service_settings *first)
{
    struct problems problems = {0};
    struct service_settings s = {.keep = 0};

    must(service_settings_parse((const char *)data, size, &s, &problems) ==
         ERR_OK);
    must(s.keep == first->keep && s.keep_age_s == first->keep_age_s &&
         s.keep_resumable == first->keep_resumable);
    problems_deinit(&problems);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct problems problems = {0};
    struct service_settings s = {.keep = 0};
    int64_t before;
    enum err err;

    json_count_memory();
    before = mem_outstanding();
    err = service_settings_parse((const char *)data, size, &s, &problems);
    must(err == ERR_OK || err == ERR_INVAL);
    must((err == ERR_INVAL) == (problems_errors(&problems) > 0));
    if (!err) {
        check_values(&s);
        read_once_more(data, size, &s);
    }
    problems_deinit(&problems);
    must(mem_outstanding() == before);
    return 0;
}
