/* Any bytes as the file that says where a server is: refused with its path, or
 * an address that, written again, is read the same. */
#include "base/mem.h"
#include "cli/state/address_io.h"
#include "tests/fuzz/must.h"
#include "tests/fuzz/one_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char url[CLIENT_URL_MAX], again[CLIENT_URL_MAX];
    bool socket, socket_too;
    int64_t before = mem_outstanding();
    struct fault f = {0};
    enum err err;

    one_file_begin(data, size);
    err = address_read("/s/url", url, &socket, &f);
    if (err) {
        must(f.code == err && strstr(f.text, "/s/url"));
    } else {
        must(!strchr(url, '\n'));
        must(address_write("/s/url", url, socket, NULL) == ERR_OK);
        must(address_read("/s/url", again, &socket_too, NULL) == ERR_OK);
        must(strcmp(url, again) == 0 && socket == socket_too);
    }
    one_file_end();
    must(mem_outstanding() == before);
    return 0;
}
