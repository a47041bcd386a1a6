/* The settings of a service: STATE/service.json, which `mltune serve` and the
 * service that `mltune open` starts read when they begin.
 *
 * What is in no run's configuration, since whoever may submit a run does not
 * thereby decide on those of others.
 */
#ifndef CLI_SERVICE_SETTINGS_H
#define CLI_SERVICE_SETTINGS_H

#include "base/json/config.h"
#include "base/json/problems.h"

#include <stdint.h>

/* Of the state folder. */
#define SERVICE_SETTINGS "service.json"

enum { SERVICE_KEEP_MAX = 1000000, SERVICE_KEEP_DAYS_MAX = 36500 };

/* What the options of `mltune serve` say in other words. */
#define SERVICE_KEEP_HELP                                                      \
    "of the submitted runs that have ended keep so many, the newest; all "     \
    "unless given"
#define SERVICE_KEEP_AGE_HELP                                                  \
    "remove those that ended longer ago; none unless given"

struct service_settings {
    uint32_t keep;       /* runs; 0: not said */
    double keep_age_s;   /* seconds; 0: not said */
    bool keep_resumable; /* those that could be continued stay */
};

/* The table; *@n gets its length. */
const struct config_field *service_settings_table(size_t *n);

/* Settings from @text[@len]. All that is wrong goes to @problems (zeroed
 * before; the caller releases them), with lines and columns. Errors: ERR_INVAL,
 * ERR_NOMEM. */
enum err service_settings_parse(const char *text, size_t len,
                                struct service_settings *out,
                                struct problems *problems);

#endif
