#include "api/service/reply_io.h"

#include "api/http/headers_io.h"
#include "base/mem.h"

#include <assert.h>
#include <string.h>

enum { HEAD_BLOCK = 64 }; /* of a body that is never read */

struct MHD_Response *reply_make(struct response *r)
{
    struct MHD_Response *made;

    assert(r->status && r->body);
    /* The library does not write to what it is told is persistent. */
    if (r->owned)
        made = MHD_create_response_from_buffer_with_free_callback(
            r->len, r->owned, mem_free);
    else
        made = MHD_create_response_from_buffer(r->len, (void *)r->body,
                                               MHD_RESPMEM_PERSISTENT);
    if (!made)
        return NULL;
    r->owned = NULL;
    if (!headers_add(made, r)) {
        MHD_destroy_response(made);
        return NULL;
    }
    return made;
}

enum MHD_Result reply_send(struct MHD_Connection *connection,
                           struct response *r)
{
    struct MHD_Response *made = reply_make(r);
    enum MHD_Result result = MHD_NO;

    if (made) {
        result = MHD_queue_response(connection, (unsigned)r->status, made);
        MHD_destroy_response(made);
    }
    return result;
}

/* Nobody asks for the body of an answer to HEAD. */
static ssize_t on_no_read(void *cls, uint64_t position, char *buffer,
                          size_t max)
{
    (void)cls;
    (void)position;
    (void)buffer;
    (void)max;
    return MHD_CONTENT_READER_END_OF_STREAM;
}

enum MHD_Result reply_send_head(struct MHD_Connection *connection,
                                struct response *r)
{
    struct MHD_Response *made = MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, HEAD_BLOCK, on_no_read, NULL, NULL);
    enum MHD_Result result = MHD_NO;

    assert(r->stream || r->export_format);
    r->close = true;
    if (made && headers_add(made, r) &&
        MHD_set_response_options(made, MHD_RF_HTTP_1_0_COMPATIBLE_STRICT,
                                 MHD_RO_END) == MHD_YES)
        result = MHD_queue_response(connection, MHD_HTTP_OK, made);
    if (made)
        MHD_destroy_response(made);
    return result;
}

/* ---- those that are kept ------------------------------------------------- */

static struct reply *slot_of(struct replies *all, const char *target)
{
    uint32_t hash = 2166136261u; /* FNV-1a */

    for (; *target; target++)
        hash = (hash ^ (unsigned char)*target) * 16777619u;
    return &all->reply[hash % REPLIES_KEPT];
}

static void reply_deinit(struct reply *r)
{
    if (!r->target)
        return;
    mem_free(r->target);
    MHD_destroy_response(r->response);
    r->target = NULL;
}

void replies_deinit(struct replies *all)
{
    for (size_t i = 0; i < REPLIES_KEPT; i++)
        reply_deinit(&all->reply[i]);
}

struct MHD_Response *replies_find(struct replies *all, const char *target,
                                  uint64_t version)
{
    const struct reply *r = slot_of(all, target);

    assert(target[0]);
    return r->target && r->version == version && strcmp(r->target, target) == 0
               ? r->response
               : NULL;
}

void replies_keep(struct replies *all, const char *target, uint64_t version,
                  struct MHD_Response *response, size_t len)
{
    char *copy = len <= REPLY_BODY_MAX ? mem_strdup(target) : NULL;
    struct reply *r = slot_of(all, target);

    assert(target[0]);
    assert(response);
    if (!copy) {
        MHD_destroy_response(response);
        return;
    }
    reply_deinit(r);
    *r = (struct reply){copy, version, response};
}
