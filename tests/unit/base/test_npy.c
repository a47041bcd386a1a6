#include "base/mem.h"
#include "base/npy_io.h"
#include "base/rng.h"
#include "tests/unit/fixture/check.h"

#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/test_npy-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

static const char *in_folder(const char *name)
{
    static char path[128];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static enum err write_file(const char *path, const struct npy_info *info,
                           const void *values, struct fault *f)
{
    size_t bytes = info->rows * info->cols * npy_type_bytes(info->type);
    struct npy_writer *w;
    enum err err = npy_create(path, info, &w, f);

    if (err)
        return err;
    err = npy_write(w, values, bytes / 2, f);
    if (!err)
        err = npy_write(w, (const char *)values + bytes / 2, bytes - bytes / 2,
                        f);
    if (!err)
        return npy_commit(w, NULL, f);
    npy_abort(w);
    return err;
}

static enum err read_file(const char *path, struct npy_info *info, void *values,
                          size_t bytes, struct fault *f)
{
    struct npy_reader *r;
    enum err err = npy_open(path, info, &r, f);

    if (err)
        return err;
    err = npy_read(r, values, bytes, f);
    npy_close(r);
    return err;
}

/* Written data are read again, value for value, in every type, and the
 * values begin at a multiple of 64. */
static void npy_written_file_reads_back(void **state)
{
    (void)state;
    for (int type = NPY_F32; type <= NPY_I64; type++) {
        struct npy_info info = {(enum npy_type)type, 13, 7}, got;
        unsigned char values[13 * 7 * 8], back[13 * 7 * 8];
        size_t bytes = 13 * 7 * npy_type_bytes(info.type);
        const char *path = in_folder("a.npy");
        struct fault f;
        struct stat st;

        for (size_t i = 0; i < sizeof(values); i++)
            values[i] = (unsigned char)(i * 37);
        assert_int_equal(write_file(path, &info, values, &f), ERR_OK);
        assert_int_equal(read_file(path, &got, back, bytes, &f), ERR_OK);
        assert_memory_equal(values, back, bytes);
        assert_int_equal(got.type, info.type);
        assert_int_equal(got.rows, 13);
        assert_int_equal(got.cols, 7);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(((size_t)st.st_size - bytes) % 64, 0);
        unlink(path);
    }
}

static enum err parse(const char *dictionary, struct npy_info *info,
                      struct fault *f)
{
    unsigned char bytes[512] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0};
    size_t n = strlen(dictionary), offset;
    enum err err;

    bytes[8] = (unsigned char)n;
    memcpy(bytes + 10, dictionary, n);
    err = npy_parse_header(bytes, 10 + n, info, &offset, f);
    if (!err)
        assert_int_equal(offset, 10 + n);
    return err;
}

/* Headers as other programs write them: other orders of keys, no blanks, one
 * dimension. */
static void npy_header_of_other_writers_is_read(void **state)
{
    struct npy_info info;
    struct fault f;

    (void)state;
    assert_int_equal(parse("{'shape':(3,),'descr':'<f8',"
                           "'fortran_order':False}\n",
                           &info, &f),
                     ERR_OK);
    assert_int_equal(info.type, NPY_F64);
    assert_int_equal(info.rows, 3);
    assert_int_equal(info.cols, 1);
    assert_int_equal(parse("{'fortran_order': False, 'shape': (0, 5), "
                           "'descr': '<i4', }   \n",
                           &info, &f),
                     ERR_OK);
    assert_int_equal(info.rows, 0);
    assert_int_equal(info.cols, 5);
}

/* An unreadable file is refused, and the fault says which part it is. */
static void npy_unfit_header_is_refused_by_name(void **state)
{
    static const struct {
        const char *dictionary, *says;
    } cases[] = {
        {"{'descr': '>f4', 'fortran_order': False, 'shape': (1, 2)}", "descr"},
        {"{'descr': '<f2', 'fortran_order': False, 'shape': (1, 2)}", "descr"},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (1, 2)}",
         "fortran_order"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2, 3)}",
         "shape"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': ()}", "shape"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 2)}", "shape"},
        {"{'descr': '<f4', 'fortran_order': False, "
         "'shape': (99999999999999999999999, 2)}",
         "shape"},
        {"{'descr': '<f4', 'fortran_order': False, "
         "'shape': (4611686018427387904, 2)}",
         "too large"},
        {"{'descr': '<f4', 'fortran_order': False}", "missing"},
        {"{'descr': '<f4', 'descr': '<f4', 'shape': (1, 2)}", "once"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2)} x",
         "after"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2)", "keys"},
        {"['descr']", "dictionary"},
        {"", "dictionary"},
    };
    struct npy_info info;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fault f;

        assert_int_equal(parse(cases[i].dictionary, &info, &f), ERR_FORMAT);
        if (!strstr(f.text, cases[i].says))
            fail_msg("%s: \"%s\" does not say \"%s\"", cases[i].dictionary,
                     f.text, cases[i].says);
    }
}

static size_t slurp(const char *path, unsigned char *out, size_t size)
{
    FILE *file = fopen(path, "rb");
    size_t n;

    assert_non_null(file);
    n = fread(out, 1, size, file);
    fclose(file);
    return n;
}

static void spill(const char *path, const unsigned char *bytes, size_t n)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    fclose(file);
}

/* A file that is cut off anywhere, or longer than its header says, is refused
 * with its name. */
static void npy_wrong_length_is_refused(void **state)
{
    struct npy_info info = {NPY_F32, 4, 3}, got;
    float values[12] = {1, 2, 3};
    unsigned char bytes[512];
    char path[128];
    struct npy_reader *r;
    struct fault f;
    size_t n;

    (void)state;
    strcpy(path, in_folder("cut.npy"));
    assert_int_equal(write_file(path, &info, values, &f), ERR_OK);
    n = slurp(path, bytes, sizeof(bytes));
    for (size_t cut = 0; cut <= n + 1; cut++) {
        if (cut == n)
            continue;
        spill(path, bytes, cut);
        assert_int_equal(npy_open(path, &got, &r, &f), ERR_FORMAT);
        assert_non_null(strstr(f.text, "cut.npy"));
    }
    unlink(path);
    assert_int_equal(npy_open(path, &got, &r, &f), ERR_IO);
    assert_non_null(strstr(f.text, "No such file"));
}

/* Reading more than the file holds is an error, not garbage. */
static void npy_read_past_the_end_is_refused(void **state)
{
    struct npy_info info = {NPY_I32, 1, 2};
    int32_t values[2] = {1, 2}, back[3];
    const char *path = in_folder("b.npy");
    struct fault f;

    (void)state;
    assert_int_equal(write_file(path, &info, values, &f), ERR_OK);
    assert_int_equal(read_file(path, &info, back, sizeof(back), &f),
                     ERR_FORMAT);
    unlink(path);
}

/* A writer that gives up, or cannot begin, leaves neither file nor temporary.
 */
static void npy_given_up_file_is_not_there(void **state)
{
    struct npy_info info = {NPY_F32, 2, 2};
    struct npy_writer *w;
    struct fault f;

    (void)state;
    assert_int_equal(npy_create(in_folder("c.npy"), &info, &w, &f), ERR_OK);
    npy_abort(w);
    npy_abort(NULL);
    assert_int_equal(access(in_folder("c.npy"), F_OK), -1);
    assert_int_equal(access(in_folder("c.npy.tmp"), F_OK), -1);
    assert_int_equal(npy_create(in_folder("no/c.npy"), &info, &w, &f), ERR_IO);
    assert_non_null(strstr(f.text, "no/c.npy"));
}

/* Runs in a child, whose files may not grow beyond @limit bytes. 0: the write
 * failed as it should; 1: it succeeded; more: wrong. */
static int write_with_limit(rlim_t limit)
{
    struct npy_info info = {NPY_F32, 64, 1024};
    static float values[64 * 1024];
    struct rlimit rl = {limit, limit};
    struct fault f;
    enum err err;

    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &rl);
    err = write_file(in_folder("d.npy"), &info, values, &f);
    if (err == ERR_OK)
        return access(in_folder("d.npy"), F_OK) == 0 ? 1 : 2;
    if (err != ERR_IO || !strstr(f.text, "d.npy"))
        return 3;
    if (access(in_folder("d.npy"), F_OK) == 0 ||
        access(in_folder("d.npy.tmp"), F_OK) == 0)
        return 4;
    return 0;
}

/* Whichever write fails, the error says so and no file is left. */
static void npy_any_failing_write_leaves_nothing(void **state)
{
    rlim_t limit = 0;
    int status;

    (void)state;
    do {
        pid_t pid = fork();

        if (pid == 0)
            _exit(write_with_limit(limit));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) <= 1);
        limit += 50000;
    } while (WEXITSTATUS(status) == 0);
    assert_true(limit > 64 * 1024 * 4);
    unlink(in_folder("d.npy"));
}

/* Every allocation that fails is reported and leaks nothing. */
static void npy_any_failing_allocation_is_clean(void **state)
{
    struct npy_info info = {NPY_F32, 2, 2};
    float values[4] = {0}, back[4];
    int64_t before = mem_outstanding();
    int failed, n = 0;

    (void)state;
    do {
        enum err err;

        mem_fail_at(++n, 0);
        err = write_file(in_folder("e.npy"), &info, values, NULL);
        if (!err)
            err =
                read_file(in_folder("e.npy"), &info, back, sizeof(back), NULL);
        failed = mem_failed();
        mem_fail_at(0, 0);
        assert_int_equal(err, failed ? ERR_NOMEM : ERR_OK);
        assert_int_equal(mem_outstanding(), before);
        unlink(in_folder("e.npy"));
    } while (failed);
    assert_true(n > 4);
}

/* Runs a Python program on the folder; its exit code, 127 without Python. */
static int python(const char *program)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        execl("/usr/bin/python3", "python3", "-c", program, folder,
              (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/* NumPy reads what we write, and we read what NumPy writes. */
static void npy_numpy_agrees(void **state)
{
    struct npy_info info = {NPY_F32, 3, 2};
    float values[6] = {0, 0.5f, -1, 2, 1e20f, -3};
    double doubles[5];
    struct fault f;

    (void)state;
    assert_int_equal(write_file(in_folder("f.npy"), &info, values, &f), ERR_OK);
    assert_int_equal(
        python("import numpy, sys\n"
               "a = numpy.load(sys.argv[1] + '/f.npy')\n"
               "b = numpy.array([[0, .5], [-1, 2], [1e20, -3]], 'float32')\n"
               "assert a.dtype == b.dtype and (a == b).all()\n"
               "numpy.save(sys.argv[1] + '/g.npy', numpy.arange(5.0))\n"),
        0);
    assert_int_equal(
        read_file(in_folder("g.npy"), &info, doubles, sizeof(doubles), &f),
        ERR_OK);
    assert_int_equal(info.type, NPY_F64);
    assert_int_equal(info.rows, 5);
    for (int i = 0; i < 5; i++)
        assert_true(doubles[i] == i);
    unlink(in_folder("f.npy"));
    unlink(in_folder("g.npy"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(npy_written_file_reads_back),
        cmocka_unit_test(npy_header_of_other_writers_is_read),
        cmocka_unit_test(npy_unfit_header_is_refused_by_name),
        cmocka_unit_test(npy_wrong_length_is_refused),
        cmocka_unit_test(npy_read_past_the_end_is_refused),
        cmocka_unit_test(npy_given_up_file_is_not_there),
        cmocka_unit_test(npy_any_failing_write_leaves_nothing),
        cmocka_unit_test(npy_any_failing_allocation_is_clean),
        cmocka_unit_test(npy_numpy_agrees),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
