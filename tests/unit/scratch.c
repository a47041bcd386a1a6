#include "tests/unit/scratch.h"

#include <ftw.h>
#include <lzma.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "tests/unit/check.h"

static char folder[64];

int scratch_make(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/mltune-unit-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int flag,
                      struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

int scratch_remove(void **state)
{
    (void)state;
    return nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const char *scratch_folder(void)
{
    return folder;
}

const char *scratch_path(const char *name)
{
    static char path[8][512];
    static unsigned next;
    char *p = path[next++ % 8];

    snprintf(p, 512, "%s/%s", folder, name);
    return p;
}

void scratch_write(const char *name, const void *bytes, size_t n)
{
    FILE *file = fopen(scratch_path(name), "wb");

    assert_non_null(file);
    if (n > 0)
        assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

void scratch_text(const char *name, const char *text)
{
    scratch_write(name, text, strlen(text));
}

void scratch_mkdir(const char *name)
{
    assert_int_equal(mkdir(scratch_path(name), 0777), 0);
}

unsigned char *scratch_gzip(const void *bytes, size_t n, size_t *out)
{
    z_stream z = {0};
    unsigned char *p;
    size_t cap;

    assert_int_equal(
        deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    cap = deflateBound(&z, n);
    p = malloc(cap);
    assert_non_null(p);
    z.next_in = (unsigned char *)(size_t)bytes;
    z.avail_in = (uInt)n;
    z.next_out = p;
    z.avail_out = (uInt)cap;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    *out = z.total_out;
    deflateEnd(&z);
    return p;
}

unsigned char *scratch_xz(const void *bytes, size_t n, size_t *out)
{
    size_t cap = lzma_stream_buffer_bound(n);
    unsigned char *p = malloc(cap);

    assert_non_null(p);
    *out = 0;
    assert_int_equal(lzma_easy_buffer_encode(0, LZMA_CHECK_CRC64, NULL, bytes,
                                             n, p, out, cap),
                     LZMA_OK);
    return p;
}

unsigned char *scratch_read(const char *name, size_t *n)
{
    FILE *file = fopen(scratch_path(name), "rb");
    unsigned char *p;
    long size;

    if (!file)
        return NULL;
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    size = ftell(file);
    assert_true(size >= 0);
    rewind(file);
    p = malloc((size_t)size + 1);
    assert_non_null(p);
    *n = fread(p, 1, (size_t)size, file);
    assert_int_equal(*n, size);
    p[*n] = '\0';
    fclose(file);
    return p;
}

const char *scratch_real_data(void)
{
    const char *path = getenv("MLTUNE_DATA");

    if (!path)
        path = "../shared/data";
    return access(path, R_OK) == 0 ? path : NULL;
}
