#include "ps/nodes/frame.h"

#include "base/bytes.h"
#include "base/rng.h"
#include "tests/fuzz/fuzz_frame.c" /* the target itself */

#include <dirent.h>
#include <stdio.h>

#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/frame_whole.h"

static const char folder[] = "tests/fuzz/corpus/frame";

/* One of each kind, every field of it set. */
static struct frame sample(enum frame_kind kind)
{
    struct frame f = {.kind = kind, .from = 3, .run = 0x1122, .sequence = 9};

    f.slice = 5;
    switch (kind) {
    case FRAME_HELLO:
        f.nodes = 4;
        f.workers = 2;
        f.layout = 0xfeedface;
        break;
    case FRAME_ACK:
        f.through = 77;
        break;
    case FRAME_UPDATE:
    case FRAME_ROWS:
        f.flags = kind == FRAME_UPDATE ? FRAME_VERSIONS | FRAME_SHORT : 0;
        f.values = FRAME_F32;
        f.width = 3;
        f.table = 1;
        f.worker = 6;
        f.clock = -2;
        f.through = kind == FRAME_UPDATE ? UINT64_C(1) << 41 : 0;
        break;
    case FRAME_APPLIED:
        f.through = UINT64_C(1) << 43;
        break;
    case FRAME_TAKEN:
        f.table = 1;
        f.worker = 6;
        f.through = UINT64_C(1) << 42;
        break;
    case FRAME_CLOCK:
        f.table = FRAME_ALL_TABLES;
        f.worker = 6;
        f.clock = 11;
        f.seconds = 0.25;
        f.through = 1234;
        break;
    case FRAME_READ:
        f.flags = FRAME_HALF | FRAME_SHORT;
        f.table = 1;
        f.worker = 6;
        f.clock = 11;
        break;
    case FRAME_CLOCKS:
        f.values = FRAME_I64;
        f.width = 1;
        break;
    case FRAME_EXPECT:
        f.values = FRAME_I32;
        f.width = 1;
        f.table = 1;
        break;
    case FRAME_DRAIN:
        f.worker = 6;
        f.clock = 12;
        break;
    case FRAME_FORK:
        f.op = 40;
        f.branch = 7;
        f.parent = 2;
        f.type = 4;
        break;
    case FRAME_FREE:
        f.op = 41;
        f.branch = 7;
        break;
    case FRAME_BEGIN:
        f.op = 42;
        f.branch = 7;
        f.clock = 1000;
        f.staleness = 3;
        f.learning_rate = 0.1;
        f.momentum = 0.9;
        f.weight_decay = 0.01;
        f.rule = 6;
        f.warmup = 100;
        f.warmed = 7;
        break;
    case FRAME_DONE:
        f.op = 43;
        f.code = ERR_LIMIT;
        break;
    case FRAME_FITS:
        f.fits = 12;
        break;
    case FRAME_PASS:
        f.op = 44;
        f.layout = UINT64_C(0x123456789abcdef0);
        break;
    case FRAME_PART:
        f.flags = FRAME_SHORT;
        f.values = FRAME_I32;
        f.width = 2;
        f.table = 1;
        f.worker = 6;
        f.op = 44;
        f.through = 3;
        break;
    case FRAME_TOTAL:
        f.values = FRAME_F64;
        f.width = 2;
        f.op = 44;
        break;
    case FRAME_PLACED:
        f.layout = UINT64_C(0xfedcba9876543210);
        break;
    case FRAME_HELD:
    case FRAME_END:
        f.clocks = 17;
        break;
    case FRAME_FAIL:
        f.code = ERR_APP;
        break;
    default:
        break;
    }
    return f;
}

static size_t write_sample(enum frame_kind kind, unsigned char *bytes,
                           size_t room)
{
    static const float values[2][3] = {{1, -2, 0.5F}, {4, 5, 6}};
    static const int64_t clock = 12;
    static const int32_t touches = 5, words[2] = {7, -8};
    static const double totals[2] = {0.5, -1e300};
    struct frame f = sample(kind);
    struct frame_writer w;
    size_t n;

    frame_begin(&w, &f, bytes, room);
    if (f.flags & FRAME_VERSIONS) {
        assert_true(frame_add_version(&w, 8, 70, values[0]));
        assert_true(frame_add_version(&w, 9, UINT32_MAX, values[1]));
    } else if (f.values == FRAME_F32) {
        assert_true(frame_add(&w, 8, values[0]));
        assert_true(frame_add(&w, (uint64_t)1 << 40, values[1]));
    } else if (kind == FRAME_READ) {
        assert_true(frame_add(&w, 8, NULL));
        assert_true(frame_add(&w, 9, NULL));
    } else if (kind == FRAME_CLOCKS) {
        assert_true(frame_add(&w, 1, &clock));
    } else if (kind == FRAME_EXPECT) {
        assert_true(frame_add(&w, 8, &touches));
        assert_true(frame_add(&w, 300, &touches));
    } else if (kind == FRAME_PART || kind == FRAME_TOTAL) {
        const void *in =
            kind == FRAME_PART ? (const void *)words : (const void *)totals;

        assert_true(frame_add(&w, 8, in));
        assert_true(frame_add(&w, 9, in));
    }
    n = frame_end(&w);
    frame_stamp(bytes, f.from, f.run, f.sequence);
    return n;
}

/* A frame of every kind comes back with every field that it was given. */
static void frame_every_kind_round_trips(void **state)
{
    unsigned char bytes[512];

    (void)state;
    for (unsigned k = FRAME_HELLO; k < FRAME_KIND_COUNT; k++) {
        struct frame f = sample(k), got;
        size_t n = write_sample(k, bytes, sizeof(bytes));

        assert_int_equal(frame_decode(bytes, n, &got, NULL), ERR_OK);
        assert_int_equal(got.count,
                         got.records ? (k == FRAME_CLOCKS ? 1 : 2) : 0);
        got.count = 0;
        got.records = NULL;
        assert_memory_equal(&got, &f, sizeof(f));
        LLVMFuzzerTestOneInput(bytes, n);
    }
}

/* Rows and values come back as they were given, at any address. */
static void frame_records_come_back(void **state)
{
    unsigned char bytes[512], moved[513];
    size_t n = write_sample(FRAME_ROWS, bytes, sizeof(bytes));
    float values[3];
    struct frame f;

    (void)state;
    memcpy(moved + 1, bytes, n);
    assert_int_equal(frame_decode(moved + 1, n, &f, NULL), ERR_OK);
    assert_int_equal(f.count, 2);
    assert_true(frame_row(&f, 0) == 8);
    assert_true(frame_row(&f, 1) == (uint64_t)1 << 40);
    frame_row_values(&f, 1, values);
    assert_true(values[0] == 4 && values[1] == 5 && values[2] == 6);
}

/* Numbers of rows take four bytes each where a table's fit, the largest one
 * included, with versions and without. */
static void frame_short_numbers(void **state)
{
    const float in[3] = {4, 5, 6};

    (void)state;
    assert_int_equal(frame_flags_of((uint64_t)1 << 32), FRAME_SHORT);
    assert_int_equal(frame_flags_of(((uint64_t)1 << 32) + 1), 0);
    for (unsigned versions = 0; versions < 2; versions++) {
        unsigned flags = versions ? FRAME_VERSIONS : 0;
        struct frame f = sample(FRAME_ROWS), got;
        unsigned char bytes[512];
        struct frame_writer w;
        float values[3] = {0};

        f.flags = flags | FRAME_SHORT;
        assert_int_equal(frame_record_bytes(f.flags, f.values, f.width),
                         frame_record_bytes(flags, f.values, f.width) - 4);
        frame_begin(&w, &f, bytes, sizeof(bytes));
        memcpy(frame_add_place(&w, 7, 70), in, sizeof(in));
        memcpy(frame_add_place(&w, UINT32_MAX, 71), in, sizeof(in));
        assert_int_equal(frame_decode(bytes, frame_end(&w), &got, NULL),
                         ERR_OK);
        assert_true(frame_row(&got, 0) == 7);
        assert_true(frame_row(&got, 1) == UINT32_MAX);
        assert_int_equal(frame_row_version(&got, 1), versions ? 71 : 0);
        frame_row_values(&got, 1, values);
        assert_memory_equal(values, in, sizeof(in));
    }
}

/* Values may be written and read where they lie in the frame, but read only
 * where an address suits their type; and halves are never of the type. */
static void frame_values_in_place(void **state)
{
    _Alignas(8) unsigned char bytes[512], moved[513];
    const float in[3] = {4, 5, 6};
    struct frame f = sample(FRAME_ROWS), got;
    struct frame_writer w;
    float scratch[3];
    const void *place;
    size_t n;

    (void)state;
    frame_begin(&w, &f, bytes, sizeof(bytes));
    memcpy(frame_add_place(&w, 8, 0), in, sizeof(in));
    memcpy(frame_add_place(&w, 9, 0), in, sizeof(in));
    n = frame_end(&w);
    assert_int_equal(frame_decode(bytes, n, &got, NULL), ERR_OK);
    assert_true(frame_row(&got, 1) == 9);
    place = frame_row_place(&got, 1, scratch);
    assert_true(place != scratch);
    assert_memory_equal(place, in, sizeof(in));
    memcpy(moved + 1, bytes, n);
    assert_int_equal(frame_decode(moved + 1, n, &got, NULL), ERR_OK);
    assert_ptr_equal(frame_row_place(&got, 1, scratch), scratch);
    assert_memory_equal(scratch, in, sizeof(in));
    f.values = FRAME_F16;
    frame_begin(&w, &f, bytes, sizeof(bytes));
    assert_true(frame_add(&w, 8, in));
    assert_int_equal(frame_decode(bytes, frame_end(&w), &got, NULL), ERR_OK);
    assert_ptr_equal(frame_row_place(&got, 0, scratch), scratch);
    assert_memory_equal(scratch, in, sizeof(in));
}

/* So do versions, where room is for them and for the values; and no room is no
 * place. */
static void frame_versions_in_place(void **state)
{
    _Alignas(8) unsigned char bytes[FRAME_FIXED_BYTES_MAX + 24];
    const float in[3] = {4, 5, 6};
    struct frame f = sample(FRAME_UPDATE), got;
    struct frame_writer w;
    void *place;

    (void)state;
    frame_begin(&w, &f, bytes, sizeof(bytes));
    place = frame_add_place(&w, 8, 70);
    assert_non_null(place);
    memcpy(place, in, sizeof(in));
    while (frame_fits(&w))
        memset(frame_add_place(&w, 9, 1), 0, sizeof(in));
    assert_null(frame_add_place(&w, 9, 1));
    assert_int_equal(frame_decode(bytes, frame_end(&w), &got, NULL), ERR_OK);
    assert_true(frame_row(&got, 0) == 8 && frame_row_version(&got, 0) == 70);
    frame_row_values(&got, 0, bytes);
    assert_memory_equal(bytes, in, sizeof(in));
}

/* So do versions, and the values behind them; a frame without has version 0. */
static void frame_versions_come_back(void **state)
{
    unsigned char bytes[512];
    size_t n = write_sample(FRAME_UPDATE, bytes, sizeof(bytes));
    float values[3];
    struct frame f;

    (void)state;
    assert_int_equal(frame_decode(bytes, n, &f, NULL), ERR_OK);
    assert_true(frame_row(&f, 0) == 8 && frame_row(&f, 1) == 9);
    assert_true(frame_row_version(&f, 0) == 70);
    assert_true(frame_row_version(&f, 1) == UINT32_MAX);
    frame_row_values(&f, 1, values);
    assert_true(values[0] == 4 && values[1] == 5 && values[2] == 6);
    n = write_sample(FRAME_ROWS, bytes, sizeof(bytes));
    assert_int_equal(frame_decode(bytes, n, &f, NULL), ERR_OK);
    assert_true(frame_row_version(&f, 1) == 0);
}

/* Halves come back as the nearest half of what was given. */
static void frame_halves_are_rounded(void **state)
{
    struct frame f = sample(FRAME_ROWS), got;
    const float in[3] = {1.0F / 3, 1000.3F, -1e-9F};
    unsigned char bytes[256];
    struct frame_writer w;
    float out[3];
    size_t n;

    (void)state;
    f.values = frame_values_of(MLT_F32, true);
    frame_begin(&w, &f, bytes, sizeof(bytes));
    assert_true(frame_add(&w, 0, in));
    n = frame_end(&w);
    assert_int_equal(n, FRAME_HEADER_BYTES + 16 + 8 + 8 + 6);
    assert_int_equal(frame_decode(bytes, n, &got, NULL), ERR_OK);
    frame_row_values(&got, 0, out);
    assert_float_equal(out[0], in[0], 1e-4);
    assert_float_equal(out[1], 1000.5F, 0);
    assert_float_equal(out[2], 0, 0);
    assert_int_equal(frame_values_of(MLT_I32, true), FRAME_I32);
    assert_int_equal(frame_values_of(MLT_F64, true), FRAME_F64);
}

/* A writer takes records as long as there is room, and says when not. */
static void frame_writer_stops_when_full(void **state)
{
    unsigned char bytes[FRAME_FIXED_BYTES_MAX + 1];
    struct frame f = sample(FRAME_READ), got;
    struct frame_writer w;
    uint32_t n = 0;

    (void)state;
    memset(bytes, 0xee, sizeof(bytes));
    frame_begin(&w, &f, bytes, FRAME_FIXED_BYTES_MAX);
    while (frame_add(&w, n, NULL))
        n++;
    assert_int_equal(n, (FRAME_FIXED_BYTES_MAX - w.len) / 8 + n);
    assert_int_equal(bytes[FRAME_FIXED_BYTES_MAX], 0xee);
    assert_int_equal(frame_decode(bytes, frame_end(&w), &got, NULL), ERR_OK);
    assert_int_equal(got.count, n);
    assert_int_equal(frame_whole(&got, bytes, FRAME_FIXED_BYTES_MAX - 1), 0);
}

/* Cut off anywhere, or one byte longer, no frame of any kind is let in. */
static void frame_of_another_length_is_refused(void **state)
{
    unsigned char bytes[512] = {0};

    (void)state;
    for (unsigned k = FRAME_HELLO; k < FRAME_KIND_COUNT; k++) {
        size_t n = write_sample(k, bytes, sizeof(bytes));
        struct fault fault;
        struct frame f;

        for (size_t cut = 0; cut <= n + 1; cut++) {
            if (cut == n)
                continue;
            assert_int_equal(frame_decode(bytes, cut, &f, &fault), ERR_FORMAT);
            bytes_put32(bytes + 8, (uint32_t)cut); /* and says so */
            assert_int_equal(frame_decode(bytes, cut, &f, &fault), ERR_FORMAT);
            assert_non_null(strstr(fault.text, "frame, byte"));
            bytes_put32(bytes + 8, (uint32_t)n);
        }
    }
}

/* Each part of the header that is not as it must be is refused by name. */
static void frame_bad_header_is_refused(void **state)
{
    static const struct {
        size_t at;
        unsigned char value;
        enum err err;
        const char *word;
    } bad[] = {
        {0, 'X', ERR_FORMAT, "MLTF"},
        {4, 1, ERR_VERSION, "version 1"},
        {5, 0, ERR_FORMAT, "kind"},
        {5, FRAME_KIND_COUNT, ERR_FORMAT, "kind"},
        {6, FRAME_I64, ERR_FORMAT, "carry"},
        {6, 99, ERR_FORMAT, "carry"},
        {7, 2, ERR_FORMAT, "records"},
        {7, FRAME_SHORT, ERR_FORMAT, "records"},
        {7, 8, ERR_FORMAT, "flag"},
        {56, 0, ERR_FORMAT, "width"},
        {56, 4, ERR_FORMAT, "records"},
        {60, 9, ERR_FORMAT, "records"},
    };
    unsigned char bytes[512];

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        size_t n = write_sample(FRAME_ROWS, bytes, sizeof(bytes));
        struct fault fault;
        struct frame f;

        bytes[bad[i].at] = bad[i].value;
        assert_int_equal(frame_decode(bytes, n, &f, &fault), bad[i].err);
        if (!strstr(fault.text, bad[i].word))
            fail_msg("%zu: %s", i, fault.text);
    }
    for (unsigned k = FRAME_HELLO; k < FRAME_KIND_COUNT; k++) {
        size_t n = write_sample(k, bytes, sizeof(bytes));
        struct fault fault;
        struct frame f;

        if (k == FRAME_UPDATE || k == FRAME_ROWS)
            continue;
        bytes[7] |= FRAME_VERSIONS;
        assert_int_equal(frame_decode(bytes, n, &f, &fault), ERR_FORMAT);
        assert_non_null(strstr(fault.text, "versions"));
    }
    for (unsigned k = FRAME_HELLO; k < FRAME_KIND_COUNT; k++) {
        size_t n = write_sample(k, bytes, sizeof(bytes));
        struct fault fault;
        struct frame f;

        if (k == FRAME_UPDATE || k == FRAME_ROWS || k == FRAME_READ ||
            k == FRAME_EXPECT || k == FRAME_PART)
            continue;
        bytes[7] |= FRAME_SHORT;
        assert_int_equal(frame_decode(bytes, n, &f, &fault), ERR_FORMAT);
        assert_non_null(strstr(fault.text, "short"));
    }
}

/* Random damage to one byte never does more than change the frame. */
static void frame_damage_is_harmless(void **state)
{
    unsigned char bytes[512];
    struct rng rng;

    (void)state;
    rng_init(&rng, 5);
    for (int i = 0; i < 20000; i++) {
        enum frame_kind k = 1 + rng_below(&rng, FRAME_KIND_COUNT - 1);
        size_t n = write_sample(k, bytes, sizeof(bytes));

        for (int j = 0; j < 2; j++)
            bytes[rng_below(&rng, n)] = (unsigned char)rng_next(&rng);
        LLVMFuzzerTestOneInput(bytes, n);
    }
}

/* No committed input makes the decoder read past its end; what is named for a
 * kind is let in, what is named bad is not. */
static void frame_corpus_replays_clean(void **state)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    int files = 0;

    (void)state;
    assert_non_null(dir);
    while ((entry = readdir(dir))) {
        unsigned char bytes[4096];
        char path[512];
        struct frame f;
        FILE *file;
        size_t n;

        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        file = fopen(path, "rb");
        assert_non_null(file);
        n = fread(bytes, 1, sizeof(bytes), file);
        assert_true(feof(file));
        fclose(file);
        LLVMFuzzerTestOneInput(bytes, n);
        if (frame_decode(bytes, n, &f, NULL) == ERR_OK)
            assert_string_equal(entry->d_name, frame_kind_name(f.kind));
        else if (strncmp(entry->d_name, "bad", 3) != 0)
            fail_msg("%s is refused", entry->d_name);
        files++;
    }
    closedir(dir);
    assert_true(files >= FRAME_KIND_COUNT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frame_every_kind_round_trips),
        cmocka_unit_test(frame_records_come_back),
        cmocka_unit_test(frame_short_numbers),
        cmocka_unit_test(frame_values_in_place),
        cmocka_unit_test(frame_versions_in_place),
        cmocka_unit_test(frame_versions_come_back),
        cmocka_unit_test(frame_halves_are_rounded),
        cmocka_unit_test(frame_writer_stops_when_full),
        cmocka_unit_test(frame_of_another_length_is_refused),
        cmocka_unit_test(frame_bad_header_is_refused),
        cmocka_unit_test(frame_damage_is_harmless),
        cmocka_unit_test(frame_corpus_replays_clean),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
