/* Any bytes as the beginning of a .npy file: refused with a reason, or a shape
 * whose own header says the same. */
#include "base/npy_io.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void npy_must(int holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char header[NPY_OWN_HEADER_MAX];
    struct npy_info info, again;
    struct fault f = {0};
    size_t offset, length;

    if (npy_parse_header(data, size, &info, &offset, &f)) {
        npy_must(f.code == ERR_FORMAT && f.text[0]);
        return 0;
    }
    npy_must(offset <= size);
    npy_must(info.cols == 0 || info.rows <= ((uint64_t)1 << 62) / info.cols);
    length = npy_put_header(header, &info);
    npy_must(length % 64 == 0);
    npy_must(npy_parse_header((const unsigned char *)header, length, &again,
                              &offset, NULL) == ERR_OK);
    npy_must(offset == length && again.type == info.type &&
             again.rows == info.rows && again.cols == info.cols);
    return 0;
}
