/* Any bytes as the second copy of a journal's head, mltune.head, beside a
 * journal whose own is there, gone, or cut off: refused with words, or the
 * journal is given what the copy says, and opened, read, or refused in words.
 *
 * The first byte says what the journal is like; with its lowest bit the copy
 * gets its checksum, so that what lies behind that is reached. The disk is the
 * simulator's. */
#include "base/crc32c.h"
#include "base/file_io.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "tests/fuzz/must.h"
#include "tests/sim/disk.h"
#include "tuner/history/journal_head_io.h"
#include "tuner/history/journal_io.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

enum {
    SUMMED = 1,   /* the copy's checksum is right */
    HEADLESS = 2, /* the journal's first page is zeros */
    CUT_OFF = 4,  /* it has nothing behind that page */
    PAGE = 4096,
    JOURNAL_BYTES_MAX = 1 << 20
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char db[] = SIM_DISK_STATE "/mltune.db";
static const char head[] = SIM_DISK_STATE "/" JOURNAL_HEAD;

static char *whole; /* a sound journal; owned, as long as the program */
static size_t whole_bytes;

static void put_file(const char *path, const void *bytes, size_t n)
{
    const struct disk_ops *disk = disk_system();
    int fd = disk->open(path, O_RDWR | O_CREAT, 0600);

    must(fd >= 0 && (n == 0 || disk->write(fd, bytes, n) == (ssize_t)n));
    disk->close(fd);
}

/* A journal with a run that has ended. */
static void make_journal(void)
{
    static const char record[] = "{\"kind\":\"decision\",\"decision\":\"d\"}";
    struct journal *j = NULL;
    char *bytes = NULL;

    sim_disk_init(1);
    put_file(db, "", 0);
    must(journal_open(SIM_DISK_STATE, true, 0, &j, NULL) == ERR_OK);
    must(journal_begin_run(j, "a-000001", "a", "{}", 1, NULL) == ERR_OK);
    must(journal_append(j, "decision", record, strlen(record), 1, NULL) ==
         ERR_OK);
    must(journal_end_run(j, "finished", "max_epochs", "{}", 1, NULL) == ERR_OK);
    journal_close(j);
    must(file_read(db, JOURNAL_BYTES_MAX, &bytes, &whole_bytes, NULL) ==
         ERR_OK);
    must(whole_bytes > PAGE);
    whole = malloc(whole_bytes);
    must(whole != NULL);
    memcpy(whole, bytes, whole_bytes);
    mem_free(bytes);
    sim_disk_deinit();
}

static void put_journal(unsigned how)
{
    static char bytes[JOURNAL_BYTES_MAX];

    memcpy(bytes, whole, whole_bytes);
    if (how & HEADLESS)
        memset(bytes, 0, PAGE);
    put_file(db, bytes, how & CUT_OFF ? PAGE : whole_bytes);
}

static void put_copy(const uint8_t *data, size_t size, bool summed)
{
    char *line = malloc(size + 16);
    char sum[16];

    must(line != NULL);
    if (size > 0)
        memcpy(line + 9, data, size);
    snprintf(sum, sizeof(sum), "%08x ", crc32c(0, line + 9, size));
    memcpy(line, sum, 9);
    line[9 + size] = '\n';
    if (summed)
        put_file(head, line, size + 10);
    else
        put_file(head, data, size);
    free(line);
}

static enum err see(void *ctx, const struct journal_run *run)
{
    (void)ctx;
    must(run->id != NULL);
    return ERR_OK;
}

/* What comes of it may be no journal; nothing is taken for granted. */
static void read_journal(void)
{
    struct journal *j = NULL;
    struct fault f = {0};
    enum err err = journal_open(SIM_DISK_STATE, true, 0, &j, &f);

    if (!err)
        err = journal_each_run(j, see, NULL, &f);
    must(!err || (f.code == err && f.text[0]));
    journal_close(j);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned how = size > 0 ? data[0] : 0;
    struct fault f = {0};
    int64_t before;
    bool kept;
    enum err err;

    json_count_memory();
    if (!whole)
        make_journal();
    before = mem_outstanding();
    sim_disk_init(1);
    put_journal(how);
    put_copy(data + (size > 0), size - (size > 0), how & SUMMED);
    kept = journal_head_kept(SIM_DISK_STATE);
    must(kept || !(how & SUMMED) || size < 2);
    err = journal_head_restore(SIM_DISK_STATE, &f);
    must(!err || (f.code == err && f.text[0]));
    must(kept || err == ERR_NOENT);
    read_journal();
    sim_disk_deinit();
    must(mem_outstanding() == before);
    return 0;
}
