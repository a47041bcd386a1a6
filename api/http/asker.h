/* Askers: who sends a request, and what that lets them do. */
#ifndef API_ASKER_H
#define API_ASKER_H

#include "api/http/tokens.h"
#include "base/role.h"

#include <stdbool.h>
#include <stdint.h>

/* What those are called who have no named token: no name has a bracket. */
#define ASKER_OWN_TOKEN "(token)"
#define ASKER_LOCAL "(socket)"
#define ASKER_PAGE "(page)"
/* Whom the rule for loopback lets read (api/service/service.h). */
#define ASKER_RULE "(loopback)"

/* "" and ROLE_ANYBODY: nobody known. */
struct asker {
    char name[TOKENS_NAME_MAX + 1];
    enum role role;
    uint64_t token;      /* the number of the named token; 0: it is none */
    bool upload_limited; /* as the named token is */
    uint64_t upload_max;
};

#endif
