/* Any bytes as the file of a run's key: refused with words, or a key that the
 * same digits give again by the environment. */
#include "base/run_key_io.h"
#include "tests/fuzz/must.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* It is there as long as the program runs. */
static char path[] = "/tmp/mltune-fuzz-key-XXXXXX";

static void remove_file(void)
{
    unlink(path);
}

static int open_file(void)
{
    static int fd = -1;

    if (fd < 0) {
        fd = mkostemp(path, O_CLOEXEC);
        must(fd >= 0 && atexit(remove_file) == 0);
    }
    must(setenv("MLTUNE_KEY_FILE", path, 1) == 0);
    return fd;
}

static void check_digits(const uint8_t *data, size_t size,
                         const struct run_key *key)
{
    char digits[RUN_KEY_LEN + 1] = "";
    struct run_key same;

    must(size >= RUN_KEY_LEN);
    memcpy(digits, data, RUN_KEY_LEN);
    must(strspn(digits, "0123456789abcdef") == RUN_KEY_LEN);
    must(size == RUN_KEY_LEN || data[RUN_KEY_LEN] == '\n' ||
         data[RUN_KEY_LEN] == '\0');
    must(setenv("MLTUNE_KEY", digits, 1) == 0);
    must(run_key_find(&same, NULL) == ERR_OK);
    unsetenv("MLTUNE_KEY");
    must(memcmp(&same, key, sizeof(same)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct run_key key;
    struct fault f = {0};
    int fd = open_file();

    must(ftruncate(fd, 0) == 0);
    must(pwrite(fd, data, size, 0) == (ssize_t)size);
    unsetenv("MLTUNE_KEY");
    if (run_key_find(&key, &f))
        must(f.text[0] && !key.given);
    else
        check_digits(data, size, &key);
    unsetenv("MLTUNE_KEY_FILE");
    return 0;
}
