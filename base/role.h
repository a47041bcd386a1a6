/* Roles: what somebody may do, each all that those before it may.
 *
 * A person's token has one (api/http/tokens.h), a route and a command need one
 * (api/http/route.h, base/commands/commands.h).
 */
#ifndef BASE_ROLE_H
#define BASE_ROLE_H

enum role {
    ROLE_UNSET,   /* of a row that says nothing; nobody has it */
    ROLE_ANYBODY, /* who has no token; what is open to all */
    ROLE_READ,    /* looks: all that is GET, streams and exports too */
    ROLE_RUN,     /* submits, steers, uploads; deletes what is its own */
    ROLE_ADMIN    /* all, also what others submitted */
};

/* The roles that a token can have, as a person names them. */
#define ROLE_NAMES "read, run or admin"

/* "read", "run", "admin"; of the others "anybody". Static storage. */
const char *role_name(enum role role);

/* The role that a token can have by that name; ROLE_UNSET: it is none. */
enum role role_of_name(const char *name);

#endif
