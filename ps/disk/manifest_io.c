#include "ps/disk/manifest_io.h"

#include "base/file_io.h"
#include "base/json/json.h"
#include "base/mem.h"

#include <assert.h>
#include <string.h>

enum err manifest_store(const struct manifest *m, const char *path,
                        struct fault *f)
{
    char *text = manifest_encode(m);
    enum err err;

    assert(manifest_missing(m) <= m->workers);
    if (!text)
        return fault_set(f, ERR_NOMEM, "write %s: out of memory", path);
    err = file_write_shared(path, text, strlen(text), f);
    mem_free(text);
    return err;
}

enum err manifest_load(const char *path, struct manifest *out, struct fault *f)
{
    char *text;
    size_t len;
    enum err err = file_read(path, JSON_TEXT_MAX, &text, &len, f);

    assert(path && out);
    if (err == ERR_LIMIT)
        return fault_set(f, ERR_FORMAT, "%s: too long for a manifest", path);
    if (err)
        return err;
    err = manifest_decode(text, len, path, out, f);
    mem_free(text);
    return err;
}
