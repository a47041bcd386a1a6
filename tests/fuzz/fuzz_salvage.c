/* Any damage of a state folder's journal, and of a run's checkpoint: what is
 * whole is read into a new journal, which lists the runs that it was given; the
 * rest is told, and nothing is taken for granted.
 *
 * The first byte says what is there at all, and what is damaged; three each
 * that follow are a place and what stands there instead. The disk is the
 * simulator's. */
#include "base/file_io.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "cli/state/salvage.h"
#include "tests/fuzz/must.h"
#include "tests/sim/disk.h"
#include "tuner/history/checkpoint_io.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

enum {
    NO_JOURNAL = 1,
    NO_CHECKPOINT = 2,
    OF_CHECKPOINT = 4, /* that is damaged, and not the journal */
    CUT_OFF = 8,       /* at the first place, in place of a damage */
    FILE_BYTES_MAX = 1 << 20
};

#define STATE SIM_DISK_STATE
#define TO SIM_DISK_SNAPSHOTS /* a folder that is there */
#define RUN "a-000001"
#define RUN_FOLDER STATE "/runs/" RUN

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A sound one; owned, as long as the program. */
struct whole {
    const char *path;
    uint8_t *bytes;
    size_t len;
};

static struct whole journal = {.path = STATE "/mltune.db"};
static struct whole checkpoint = {.path = RUN_FOLDER "/checkpoint"};

static void put_file(const char *path, const void *bytes, size_t n)
{
    const struct disk_ops *disk = disk_system();
    int fd = disk->open(path, O_RDWR | O_CREAT, 0600);

    must(fd >= 0 && (n == 0 || disk->write(fd, bytes, n) == (ssize_t)n));
    disk->close(fd);
}

static void take(struct whole *w)
{
    char *bytes = NULL;

    must(file_read(w->path, FILE_BYTES_MAX, &bytes, &w->len, NULL) == ERR_OK);
    w->bytes = malloc(w->len);
    must(w->bytes && w->len > 0);
    memcpy(w->bytes, bytes, w->len);
    mem_free(bytes);
}

static void begin_disk(void)
{
    sim_disk_init(1);
    must(disk_system()->mkdir(STATE "/runs", 0700) == 0);
    must(disk_system()->mkdir(RUN_FOLDER, 0700) == 0);
}

/* A run that has ended, with a record and a checkpoint. */
static void make_whole(void)
{
    static const char record[] = "{\"kind\":\"decision\",\"decision\":\"d\"}";
    const struct checkpoint_start start = {.run = RUN,
                                           .name = "a",
                                           .config = "{}",
                                           .folder = "/",
                                           .out = "/m",
                                           .began_ns = 1};
    struct history history;
    struct journal *j = NULL;

    begin_disk();
    history_init(&history);
    put_file(journal.path, "", 0);
    must(journal_open(STATE, true, 0, &j, NULL) == ERR_OK);
    must(journal_begin_run(j, RUN, "a", "{}", 1, NULL) == ERR_OK);
    must(journal_append(j, "decision", record, strlen(record), 1, NULL) ==
         ERR_OK);
    must(journal_end_run(j, "finished", "max_epochs", "{}", 1, NULL) == ERR_OK);
    journal_close(j);
    must(checkpoint_write(RUN_FOLDER, &start, &history, HISTORY_PACK_ALL, NULL,
                          NULL) == ERR_OK);
    history_deinit(&history);
    take(&journal);
    take(&checkpoint);
    sim_disk_deinit();
}

static void put_damaged(const struct whole *w, unsigned how,
                        const uint8_t *data, size_t size)
{
    static uint8_t bytes[FILE_BYTES_MAX];
    size_t len = w->len;

    memcpy(bytes, w->bytes, len);
    for (; size >= 3; data += 3, size -= 3) {
        size_t at = ((size_t)data[0] << 8 | data[1]) % w->len;

        if (how & CUT_OFF)
            len = at;
        how &= ~(unsigned)CUT_OFF;
        bytes[at] = data[2];
    }
    put_file(w->path, bytes, len);
}

static void put_state(unsigned how, const uint8_t *data, size_t size)
{
    bool second = how & OF_CHECKPOINT;

    if (!(how & NO_JOURNAL))
        put_damaged(&journal, how, data, second ? 0 : size);
    if (!(how & NO_CHECKPOINT))
        put_damaged(&checkpoint, how, data, second ? size : 0);
}

static void tell(void *ctx, const char *what)
{
    unsigned *told = ctx;

    must(what && *what);
    ++*told;
}

/* 1: it goes on in the new journal. */
static unsigned save_run(struct salvage *s, const char *id)
{
    struct replayed run;
    struct fault f = {0};
    char *config;
    enum err err = salvage_find(s, id, &run, &f);

    must(!err || err == ERR_NOENT);
    if (err)
        return 0;
    config = json_write(run.config, 0);
    must(config != NULL);
    must(salvage_run(s, &run, config, &f) == ERR_OK);
    must(salvage_open(s, TO, &f) == ERR_OK);
    mem_free(config);
    replayed_deinit(&run);
    return 1;
}

static enum err count_run(void *ctx, const struct journal_run *run)
{
    unsigned *runs = ctx;

    must(run_id_valid(run->id));
    ++*runs;
    return ERR_OK;
}

static void salvage_all(void)
{
    unsigned told = 0, saved = 0, there = 0;
    struct salvage s = {.from = STATE, .tell = tell, .ctx = &told};
    struct fault f = {0};
    enum err err = journal_open(STATE, true, 0, &s.old, &f);

    if (err) {
        must(f.code == err && f.text[0]);
        s.old = NULL;
    }
    must(salvage_list(&s, &f) == ERR_OK);
    must(salvage_open(&s, TO, &f) == ERR_OK);
    for (size_t i = s.runs; i-- > 0;)
        saved += save_run(&s, s.id[i]);
    must(told == s.losses);
    must(journal_each_run(s.new, count_run, &there, &f) == ERR_OK);
    must(there == saved);
    salvage_deinit(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned how = size > 0 ? data[0] : 0;
    int64_t before;

    json_count_memory();
    if (!journal.bytes)
        make_whole();
    before = mem_outstanding();
    begin_disk();
    put_file(TO "/mltune.db", "", 0);
    put_state(how, data + (size > 0), size - (size > 0));
    salvage_all();
    sim_disk_deinit();
    must(mem_outstanding() == before);
    return 0;
}
