/* The service: from a request's head to its response, without sockets.
 *
 * The guard, the taking apart of the target and the table of routes in one
 * call; what the server runs for each request, and what tests and the fuzzer
 * run without a server. Pure but for the locks of view and mailbox. Of reads,
 * those that the view cannot answer (rows) go the way of writes, without a
 * token where it is not asked of reads.
 *
 * A write goes to the run's mailbox, or where the view has a desk to that: a
 * service of many runs decides itself what is done with it. It comes in four
 * steps, so that nothing is read of a body that will be
 * refused, and nobody waits: service_accept and service_begin with the head,
 * service_write with the body, service_collect when the run has answered.
 */
#ifndef API_SERVICE_H
#define API_SERVICE_H

#include "api/http/asker.h"
#include "api/http/audit_io.h"
#include "api/http/entrance.h"
#include "api/http/guard.h"
#include "api/http/response.h"
#include "api/http/route.h"
#include "api/http/tokens.h"
#include "api/view/desk.h"
#include "api/view/view.h"
#include "tuner/shell/mailbox_io.h"

/* True when @head may be answered by service_respond (GET, HEAD) or
 * service_begin (others); else @out holds the refusal and the connection is to
 * be closed after it. */
bool service_accept(const struct head *head, const struct listen_address *self,
                    struct response *out);

/* Who may read without token and cookie, on loopback; elsewhere nobody may. */
enum read_rule {
    READ_EVERYONE, /* whoever has an account on the machine */
    READ_USER,     /* this very user, and root */
    READ_TOKEN     /* nobody */
};

/* "everyone", "user", "token"; any other word is the last. */
enum read_rule service_read_rule(const char *name);

/* All borrowed. */
struct service_readers {
    enum read_rule rule;
    const char *token; /* the server's own; NULL: none is right */
    const struct named_tokens *named; /* others; NULL: there are none */
    const struct entrance *entrance;  /* NULL: there is no cookie */
    bool local; /* who asks came by the Unix socket: needs none of them */
};

/* Whoever has sent @head: the Unix socket and the server's own token make an
 * admin, a named token what it says, the page's cookie a reader. */
struct asker service_asker(const struct service_readers *who,
                           const struct head *head);

/* True when the accepted read @head may be answered: its route is open to all,
 * or @by has the role that it needs. Where the rule lets its sender read (@own:
 * a process of this user), @by is a reader from here on. Else @out refuses it
 * (401, 403). */
bool service_may_read(const struct service_readers *who, struct asker *by,
                      const struct head *head,
                      const struct listen_address *self, bool own,
                      struct response *out);

/* Whether the run that @target asks about rests, so that service_respond would
 * read it first, which takes long: @id, of RECORD_NAME_MAX. */
bool service_sleeps(struct view *view, const char *method, const char *target,
                    char id[RECORD_NAME_MAX]);

/* Run @id could not be read, for @f: @out says so. */
void service_unread(const char *id, const struct fault *f,
                    struct response *out);

/* Answers an accepted read for @method and @target. False: not from the view:
 * it is to be asked as a write is, by service_write without a body. */
bool service_respond(struct view *view, const char *method, const char *target,
                     struct response *out);

/* The same for @by, whom the answer may be about. */
bool service_respond_to(struct view *view, const struct asker *by,
                        const char *method, const char *target,
                        struct response *out);

/* A write on its way. */
struct service_write {
    struct asker by;
    const struct command *command; /* NULL: no route of a command was found */
    char on[AUDIT_TEXT_MAX + 1];   /* run or file that the path names; or "" */
    char run[ROUTE_ID_MAX + 1];
    struct mailbox_request request;
    struct mailbox *mailbox; /* borrowed from the view; NULL: the desk's */
    struct desk *desk;       /* the same; NULL: the run's own mailbox */
    uint64_t ticket;         /* of either; 0: not posted */
};

/* True when the body of the accepted @head may come: there is such a route, @by
 * has the role that it needs, the body's type is JSON where there is one. Else
 * @out refuses it (404, 405, 400, 401, 403, 415). */
bool service_begin(struct view *view, const struct asker *by,
                   const struct head *head, struct service_write *w,
                   struct response *out);

/* Gives the run what the body of @len bytes asks for. True: it was posted,
 * @wake_fd will be written when service_collect has something. False: @out
 * answers (400, 404, 409, 422, 503). */
bool service_write(struct view *view, const char *method, const char *target,
                   const char *body, size_t len, int wake_fd,
                   struct service_write *w, struct response *out);

/* True: the run has answered, and @out with it. */
bool service_collect(struct service_write *w, struct response *out);

/* What came of @w, which @out answers, for the audit; borrowed from both, but
 * for the text of the status. False: it does not belong there. It is no change
 * (a check, a row that is read), a piece of a file but the last, an addition to
 * a row, which programs make all the time, or of somebody unknown. */
bool service_audit(const struct service_write *w, const struct response *out,
                   char status[8], struct audit_entry *entry);

/* Nobody waits for the answer any more. Accepts one that was not posted. */
void service_forget(struct service_write *w);

#endif
