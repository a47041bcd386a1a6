#include "apps/data/staged.h"

#include "base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void release(struct staged *w)
{
    if (w->file)
        fclose(w->file);
    mem_free(w->path);
    mem_free(w->temporary);
    memset(w, 0, sizeof(*w));
}

enum err staged_begin(struct staged *w, const char *path, struct fault *f)
{
    size_t size = strlen(path) + sizeof(".tmp");
    enum err err;

    memset(w, 0, sizeof(*w));
    w->path = mem_strdup(path);
    w->temporary = mem_alloc(size);
    if (!w->path || !w->temporary) {
        release(w);
        return fault_set(f, ERR_NOMEM, "%s: out of memory", path);
    }
    snprintf(w->temporary, size, "%s.tmp", path);
    w->file = fopen(w->temporary, "wbe");
    if (w->file)
        return ERR_OK;
    err = fault_errno(f, ERR_IO, errno, "create %s", w->temporary);
    release(w);
    return err;
}

enum err staged_write(struct staged *w, const void *bytes, size_t n,
                      struct fault *f)
{
    if (n == 0 || fwrite(bytes, 1, n, w->file) == n)
        return ERR_OK;
    return fault_errno(f, ERR_IO, errno, "write %s", w->temporary);
}

enum err staged_commit(struct staged *w, struct fault *f)
{
    enum err err = ERR_OK;
    int rc;

    if (fflush(w->file) != 0 || fsync(fileno(w->file)) != 0)
        err = fault_errno(f, ERR_IO, errno, "write %s", w->temporary);
    rc = fclose(w->file);
    w->file = NULL;
    if (!err && rc != 0)
        err = fault_errno(f, ERR_IO, errno, "close %s", w->temporary);
    if (!err && rename(w->temporary, w->path) != 0)
        err = fault_errno(f, ERR_IO, errno, "rename to %s", w->path);
    if (err)
        unlink(w->temporary);
    release(w);
    return err;
}

void staged_abandon(struct staged *w)
{
    if (w->temporary)
        unlink(w->temporary);
    release(w);
}

enum err staged_text(const char *path, const char *text, struct fault *f)
{
    struct staged w;
    enum err err = staged_begin(&w, path, f);

    if (err)
        return err;
    err = staged_write(&w, text, strlen(text), f);
    if (!err)
        err = staged_write(&w, "\n", 1, f);
    if (!err)
        return staged_commit(&w, f);
    staged_abandon(&w);
    return err;
}
