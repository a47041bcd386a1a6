/* What every fuzz target asks of the address sanitizer: few freed blocks are
 * kept from use, since an input is forgotten when the next comes. As it comes,
 * 256 MB are kept, and each execution works in memory that no cache holds. */

const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
    return "quarantine_size_mb=1:thread_local_quarantine_size_kb=64:"
           "malloc_context_size=4";
}
