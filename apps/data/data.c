#include "apps/data/data.h"

#include "apps/data/data_find.h"
#include "apps/formats/data_cifar.h"
#include "base/mem.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static enum err no_such(const char *spec, const struct data_found *fd,
                        const char *expected, struct fault *f)
{
    char text[DATA_LIST_MAX];

    if (fd->files.single)
        return fault_set(f, ERR_UNSUPPORTED, "%s: expected %s, found %s",
                         fd->files.path[0], expected,
                         data_kind_text(fd->kind[0]));
    return fault_set(f, ERR_UNSUPPORTED, "%s: expected %s, found %s", spec,
                     expected, data_found_list(fd, DATA_KIND_COUNT, text));
}

/* ---- ratings ------------------------------------------------------------- */

static bool is_named(const char *path, const char *name)
{
    const char *base = data_path_base(path);
    size_t n = strlen(name);

    return strncmp(base, name, n) == 0 && (base[n] == '.' || base[n] == '\0');
}

/* Marks the files to read: @take[count]. */
static enum err choose_ratings(const char *spec, const struct data_found *fd,
                               bool take[], struct fault *f)
{
    static const char expected[] = "ratings (user, item, rating on a line)";
    size_t n = fd->files.count, named = 0, kind = 0, i;
    char text[DATA_LIST_MAX];

    for (i = 0; i < n; i++) {
        take[i] = fd->kind[i] == DATA_RATINGS;
        kind += take[i];
        named += take[i] && (is_named(fd->files.path[i], "ratings") ||
                             is_named(fd->files.path[i], "u.data"));
    }
    if (kind == 0)
        return no_such(spec, fd, expected, f);
    if (kind == n || kind == 1)
        return ERR_OK;
    if (named != 1)
        return fault_set(f, ERR_INVAL,
                         "%s: which file is meant? Name one of %s", spec,
                         data_found_list(fd, DATA_RATINGS, text));
    for (i = 0; i < n; i++)
        take[i] = take[i] && (is_named(fd->files.path[i], "ratings") ||
                              is_named(fd->files.path[i], "u.data"));
    return ERR_OK;
}

static enum err read_ratings_file(const char *path, bool pairs,
                                  uint64_t limit_bytes, struct ratings *r,
                                  struct fault *f)
{
    struct data_stream *s;
    enum err err = data_stream_open(path, &s, f);

    if (err)
        return err;
    err = pairs ? ratings_read_pairs(r, s, limit_bytes, f)
                : ratings_read(r, s, limit_bytes, f);
    data_stream_close(s);
    return err;
}

static enum err read_ratings(const char *spec, const struct data_found *fd,
                             struct ratings *out, struct fault *f)
{
    struct ratings r = {0};
    uint64_t limit_bytes = data_memory_limit();
    bool *take = mem_calloc(fd->files.count, sizeof(*take));
    enum err err;
    size_t i;

    if (!take)
        return fault_set(f, ERR_NOMEM, "%s: out of memory", spec);
    err = choose_ratings(spec, fd, take, f);
    for (i = 0; i < fd->files.count && !err; i++) {
        if (take[i])
            err =
                read_ratings_file(fd->files.path[i], false, limit_bytes, &r, f);
    }
    mem_free(take);
    if (err) {
        ratings_deinit(&r);
        return err;
    }
    *out = r;
    return ERR_OK;
}

enum err data_load_ratings(const char *spec, const char *folder,
                           struct ratings *out, struct fault *f)
{
    struct data_found fd;
    enum err err;

    if (gen_is(spec))
        return gen_ratings(spec, data_memory_limit(), out, f);
    err = data_find(spec, folder, &fd, f);
    if (err)
        return err;
    err = read_ratings(spec, &fd, out, f);
    data_found_deinit(&fd);
    return err;
}

enum err data_load_pairs(const char *spec, const char *folder,
                         struct ratings *out, struct fault *f)
{
    struct ratings r = {0};
    struct data_found fd;
    enum err err;

    if (gen_is(spec))
        return data_load_ratings(spec, folder, out, f);
    err = data_find(spec, folder, &fd, f);
    if (err)
        return err;
    if (fd.files.single) /* two columns look like an edge list, or a table */
        err = read_ratings_file(fd.files.path[0], true, data_memory_limit(), &r,
                                f);
    else
        err = read_ratings(spec, &fd, &r, f);
    data_found_deinit(&fd);
    if (err)
        ratings_deinit(&r);
    else
        *out = r;
    return err;
}

/* ---- images -------------------------------------------------------------- */

/* @base as what images and labels have in common: without compression, the word
 * images or labels, and the digit behind "idx". */
static void pair_name(const char *path, char out[256])
{
    const char *base = data_path_base(path);
    size_t len = data_path_stem_len(path), i = 0, n = 0;

    while (i < len && n < 255) {
        if (strncmp(base + i, "images", 6) == 0 ||
            strncmp(base + i, "labels", 6) == 0) {
            i += 6;
            continue;
        }
        if (n >= 3 && strncmp(out + n - 3, "idx", 3) == 0 && base[i] >= '1' &&
            base[i] <= '4') {
            i++;
            continue;
        }
        out[n++] = base[i++];
    }
    out[n] = '\0';
}

static bool are_partners(const char *a, const char *b)
{
    char name_a[256], name_b[256];

    pair_name(a, name_a);
    pair_name(b, name_b);
    return strcmp(name_a, name_b) == 0;
}

bool data_is_test_name(const char *path)
{
    const char *base = data_path_base(path);

    return strstr(base, "t10k") || strstr(base, "test");
}

enum { NO_FILE = SIZE_MAX };

struct pair {
    size_t pixels, labels; /* indices of files; NO_FILE: none */
};

/* The only image file of that half of the set; NO_FILE where there is none, an
 * error where there are several. */
static enum err find_pixels(const char *spec, const struct data_found *fd,
                            bool test, size_t *out, struct fault *f)
{
    char text[DATA_LIST_MAX];
    size_t i;

    *out = NO_FILE;
    for (i = 0; i < fd->files.count; i++) {
        if (fd->kind[i] != DATA_IDX || fd->dims[i] < 2 ||
            data_is_test_name(fd->files.path[i]) != test ||
            (*out != NO_FILE &&
             data_path_same_stem(fd->files.path[i], fd->files.path[*out])))
            continue;
        if (*out != NO_FILE)
            return fault_set(f, ERR_INVAL,
                             "%s: several image files; expected one for "
                             "training (and one named t10k or test): %s",
                             spec, data_found_list(fd, DATA_IDX, text));
        *out = i;
    }
    return ERR_OK;
}

static enum err find_labels(const struct data_found *fd, bool needed,
                            struct pair *pair, struct fault *f)
{
    size_t i, labels = 0, last = NO_FILE;

    pair->labels = NO_FILE;
    if (pair->pixels == NO_FILE)
        return ERR_OK;
    for (i = 0; i < fd->files.count; i++) {
        if (fd->kind[i] != DATA_IDX || fd->dims[i] != 1)
            continue;
        labels++;
        last = i;
        if (are_partners(fd->files.path[i], fd->files.path[pair->pixels]))
            pair->labels = i;
    }
    if (pair->labels == NO_FILE && labels == 1 && !fd->files.single)
        pair->labels = last;
    if (pair->labels == NO_FILE && needed)
        return fault_set(f, ERR_NOENT,
                         "%s: expected a file of labels beside it, named alike "
                         "with \"labels\" for \"images\" (and idx1 for idx3); "
                         "found none",
                         fd->files.path[pair->pixels]);
    return ERR_OK;
}

static enum err read_array(const char *path, struct idx_array *out,
                           struct fault *f)
{
    struct data_stream *s;
    enum err err = data_stream_open(path, &s, f);

    if (err)
        return err;
    err = idx_read(s, data_memory_limit(), out, f);
    data_stream_close(s);
    return err;
}

/* Labels of images that have none. */
static enum err no_labels(const struct idx_array *pixels, struct idx_array *out,
                          struct fault *f)
{
    *out = (struct idx_array){.dims = 1, .dim = {pixels->dim[0], 1, 1, 1}};
    out->bytes = mem_calloc(pixels->dim[0] + 1, 1);
    return out->bytes ? ERR_OK : fault_set(f, ERR_NOMEM, "out of memory");
}

static enum err read_pair(const struct data_found *fd, const struct pair *pair,
                          struct images *out, struct fault *f)
{
    struct idx_array pixels = {0}, labels = {0};
    const char *pixels_path, *labels_path;
    enum err err;

    if (pair->pixels == NO_FILE)
        return ERR_OK;
    assert(fd->files.path);
    pixels_path = fd->files.path[pair->pixels];
    labels_path =
        pair->labels == NO_FILE ? "no labels" : fd->files.path[pair->labels];
    err = read_array(pixels_path, &pixels, f);
    if (!err)
        err = pair->labels == NO_FILE ? no_labels(&pixels, &labels, f)
                                      : read_array(labels_path, &labels, f);
    if (!err)
        err = images_join(&pixels, pixels_path, &labels, labels_path, out, f);
    idx_array_deinit(&pixels);
    idx_array_deinit(&labels);
    return err;
}

static enum err choose_pairs(const char *spec, const struct data_found *fd,
                             bool labels, struct pair *train, struct pair *test,
                             struct fault *f)
{
    enum err err = find_pixels(spec, fd, false, &train->pixels, f);

    if (!err)
        err = find_pixels(spec, fd, true, &test->pixels, f);
    if (err)
        return err;
    if (train->pixels == NO_FILE) {
        train->pixels = test->pixels;
        test->pixels = NO_FILE;
    }
    if (train->pixels == NO_FILE)
        return no_such(spec, fd,
                       "images (IDX files, as of MNIST, or CIFAR batches)", f);
    err = find_labels(fd, labels, train, f);
    return err ? err : find_labels(fd, labels, test, f);
}

static enum err same_shape(const char *spec, const struct images *a,
                           const struct images *b, struct fault *f)
{
    if (b->count == 0 || images_width(a) == images_width(b))
        return ERR_OK;
    return fault_set(f, ERR_FORMAT,
                     "%s: training images have %" PRIu64
                     " pixels, those of the test set %" PRIu64,
                     spec, images_width(a), images_width(b));
}

static enum err read_images(const char *spec, const struct data_found *fd,
                            bool labels, struct images *train,
                            struct images *test, struct fault *f)
{
    struct pair train_pair, test_pair;
    struct images a = {0}, b = {0};
    enum err err = choose_pairs(spec, fd, labels, &train_pair, &test_pair, f);

    if (!err)
        err = read_pair(fd, &train_pair, &a, f);
    if (!err)
        err = read_pair(fd, &test_pair, &b, f);
    if (!err)
        err = same_shape(spec, &a, &b, f);
    if (err) {
        images_deinit(&a);
        images_deinit(&b);
        return err;
    }
    *train = a;
    *test = b;
    return ERR_OK;
}

/* ---- CIFAR batches ------------------------------------------------------- */

static bool is_cifar(const struct data_found *fd)
{
    bool found = false;
    size_t i;

    for (i = 0; i < fd->files.count; i++) {
        if (fd->kind[i] == DATA_IDX && fd->dims[i] > 1)
            return false;
        found |= fd->kind[i] == DATA_CIFAR;
    }
    return found;
}

static enum err read_batch(const char *path, struct images *im, struct fault *f)
{
    struct data_stream *s;
    enum err err = data_stream_open(path, &s, f);

    if (err)
        return err;
    err = cifar_read(s, data_memory_limit(), im, f);
    data_stream_close(s);
    return err;
}

/* The batches, each into its half; a file and its compressed copy are one. */
static enum err read_batches(const struct data_found *fd, struct images *train,
                             struct images *test, struct fault *f)
{
    struct images half[2] = {{0}, {0}};
    const char *last = NULL;
    enum err err = ERR_OK;
    size_t i;

    for (i = 0; i < fd->files.count && !err; i++) {
        const char *path = fd->files.path[i];

        if (fd->kind[i] != DATA_CIFAR ||
            (last && data_path_same_stem(path, last)))
            continue;
        last = path;
        err = read_batch(path, &half[data_is_test_name(path)], f);
    }
    if (err) {
        images_deinit(&half[0]);
        images_deinit(&half[1]);
        return err;
    }
    *train = half[half[0].count == 0];
    *test = half[half[0].count == 0 ? 0 : 1];
    return ERR_OK;
}

/* ---- either -------------------------------------------------------------- */

/* Moves what @around has of @named and its other half to @to. */
static enum err take_partners(struct data_files *around, const char *named,
                              struct data_files *to)
{
    size_t i;

    assert(around->path);
    for (i = 0; i < around->count; i++) {
        const char *path = around->path[i];
        bool self = strcmp(data_path_base(path), data_path_base(named)) == 0;

        if (!self &&
            (!are_partners(path, named) || data_path_same_stem(path, named)))
            continue;
        if (mem_grow((void **)&to->path, &to->capacity, sizeof(char *),
                     to->count + 1))
            return ERR_NOMEM;
        to->path[to->count++] = around->path[i];
        around->path[i] = NULL;
    }
    return ERR_OK;
}

/* A file that was named itself: its folder is searched for the partner. */
static enum err add_partner(struct data_found *fd, struct fault *f)
{
    const char *named = fd->files.path[0];
    size_t folder_len = (size_t)(data_path_base(named) - named);
    struct data_files around;
    struct data_found all = {0};
    char *folder = mem_strdup(named);
    enum err err;

    if (!folder)
        return fault_set(f, ERR_NOMEM, "%s: out of memory", named);
    folder[folder_len] = '\0';
    err = data_files_find(*folder ? folder : ".", NULL, &around, f);
    mem_free(folder);
    if (err)
        return err;
    err = take_partners(&around, named, &all.files);
    data_files_deinit(&around);
    if (err)
        err = fault_set(f, err, "%s: out of memory", named);
    else
        err = data_found_sniff(&all, f);
    if (err) {
        data_found_deinit(&all);
        return err;
    }
    all.files.single = true;
    data_found_deinit(fd);
    *fd = all;
    return ERR_OK;
}

static enum err load_images(const char *spec, const char *folder, bool labels,
                            struct images *train, struct images *test,
                            struct fault *f)
{
    struct data_found fd;
    enum err err;

    if (gen_is(spec))
        return gen_digits(spec, data_memory_limit(), train, test, f);
    err = data_find(spec, folder, &fd, f);
    if (err)
        return err;
    if (fd.files.single && fd.kind[0] == DATA_IDX)
        err = add_partner(&fd, f);
    if (!err)
        err = is_cifar(&fd) ? read_batches(&fd, train, test, f)
                            : read_images(spec, &fd, labels, train, test, f);
    data_found_deinit(&fd);
    return err;
}

enum err data_load_images(const char *spec, const char *folder,
                          struct images *train, struct images *test,
                          struct fault *f)
{
    return load_images(spec, folder, true, train, test, f);
}

enum err data_load_pixels(const char *spec, const char *folder,
                          struct images *train, struct images *test,
                          struct fault *f)
{
    return load_images(spec, folder, false, train, test, f);
}
