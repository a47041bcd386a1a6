/* Uploads: files that come over HTTP into the service's data folder.
 *
 * A file comes in pieces, each a request. What has come lies in the folder as
 * `.NAME.upload`, which no name of an upload can be and no pattern finds. The
 * piece that completes it gives it its name, in one step, unless something has
 * that name. What is there stays over a restart, so an upload goes on where it
 * was; one that nobody goes on with for a day is removed when another begins.
 * Who began it, or an admin, goes on with it or begins it anew: nobody else.
 *
 * Names hold no '/' and begin with no '.' (api/routes/submit_routes.h), and no
 * link is followed, so nothing outside the folder is touched.
 *
 * The file `uploads` of the state folder lists them, a line each: the name, the
 * bytes announced for it, and the name of the token that began it, if it has
 * one. The limits of all of them together, and of each such token, are kept by
 * what is announced; a line without bytes, of an older version, counts what is
 * there.
 */
#ifndef CLI_UPLOAD_H
#define CLI_UPLOAD_H

#include "api/http/response.h"
#include "api/view/desk.h"

#include <stdint.h>

enum {
    UPLOADS_OPEN_MAX = 16, /* of a token at a time */
    UPLOADS_MAX = 4096
};

#define UPLOAD_FILE_MAX (UINT64_C(4) << 30)
#define UPLOAD_ALL_MAX (UINT64_C(16) << 30)
/* Room that stays for others. */
#define UPLOAD_ROOM_LEFT (UINT64_C(64) << 20)
#define UPLOAD_IDLE_S 86400
/* A token that has all it may have under way, and begins another, gives up the
 * one that rests longest, where that has rested so long. */
#define UPLOAD_REST_S 600

struct upload_place {
    const char *data, *state;   /* folders, absolute: borrowed */
    uint64_t file_max, all_max; /* bytes; 0: nothing may be uploaded */
};

/* Takes the piece in @r, whose name fits, and answers: how much of the file is
 * there. No bytes at the end of a file that is all there give it its name.
 * Refuses: 403 role_too_low; 409 already_exists, wrong_offset, wrong_size,
 * not_supported; 413 upload_too_long, uploads_full, token_uploads_full; 422
 * invalid_piece; 429 too_many_uploads; 507 no_room, not_stored. A piece that is
 * refused leaves what was there, but for one with which an upload was to begin
 * anew. 507 not_flushed: the file has its name, which a loss of power may take.
 */
void upload_take(const struct upload_place *p, const struct desk_request *r,
                 struct response *out);

/* Bytes of @owner's uploads, as the list of the state folder @state has them: a
 * file that was removed counts until the next upload begins. @owner: the name
 * of a token. Errors: ERR_IO, ERR_NOMEM. */
enum err uploads_of(const char *state, const char *owner, uint64_t *out,
                    struct fault *f);

/* Answers how much is there of the file @name, or 404 upload_not_found. */
void upload_look(const struct upload_place *p, const char *name,
                 struct response *out);

/* Removes what is there of the upload that @r names: its bytes are no more
 * counted. Refuses: 403 role_too_low, of another's; 404 upload_not_found; 409
 * already_exists, of a file that is whole: whose folder it is removes that;
 * 507 not_stored. */
void upload_withdraw(const struct upload_place *p, const struct desk_request *r,
                     struct response *out);

#endif
