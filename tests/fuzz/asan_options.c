/* What every fuzz target asks of the address sanitizer: few freed blocks are
 * kept from use, since an input is forgotten when the next comes. As it comes,
 * 256 MB are kept, and each execution works in memory that no cache holds. And
 * who allocated is kept as one address: walking the stack at each allocation is
 * a tenth of the time. Nor is free memory given back, to be asked for again: on
 * a virtual machine that interrupts the other processors. A finding that needs
 * the rest is run once more with ASAN_OPTIONS=malloc_context_size=30, which
 * goes before this. */

const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
    return "quarantine_size_mb=1:thread_local_quarantine_size_kb=64:"
           "malloc_context_size=1:allocator_release_to_os_interval_ms=-1";
}
