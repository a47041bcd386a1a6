#include "api/http/page.h"

#include "api/http/value.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A token is "trials.asc.57": opaque to clients, who only hand it back. */
enum { TOKEN_MAX = 64 };

static const char *order_name(const struct page *page)
{
    return page->descending ? "desc" : "asc";
}

static bool token_parse(const char *token, struct page *page)
{
    char prefix[TOKEN_MAX];
    size_t digits;
    size_t n = (size_t)snprintf(prefix, sizeof(prefix), "%s.%s.", page->list,
                                order_name(page));

    assert(n < sizeof(prefix));
    if (strncmp(token, prefix, n) != 0)
        return false;
    digits = strspn(token + n, "0123456789");
    if (digits == 0 || digits > 18 || token[n + digits])
        return false;
    page->has_start = true;
    page->start = strtoull(token + n, NULL, 10);
    return true;
}

bool page_parse(const struct route_call *call, const char *list,
                struct page *page, struct response *out)
{
    const struct route_arg *token = route_arg(call, "page_token");
    struct response_faults faults = {0};

    assert(list[0]);
    assert(page);
    *page = (struct page){
        .list = list,
        .size = (size_t)route_arg(call, "page_size")->number,
        .descending = route_arg(call, "order")->number == 1,
    };
    if (!token->given || token_parse(token->text, page))
        return true;
    response_fault_add(&faults, "/query/page_token",
                       "expected next_page_token of a page of %s with the same "
                       "order, found \"%.64s\"",
                       list, token->text);
    response_problem(out, 400, "invalid_parameter", &faults,
                     "1 parameter of the request is not valid");
    return false;
}

struct page_span page_span(const struct page *page, uint64_t low, uint64_t len)
{
    uint64_t high = low + len; /* past the last */
    struct page_span span = {.step = page->descending ? -1 : 1};

    assert(low <= UINT64_MAX - len);
    if (page->descending) {
        /* Items dropped in the meantime are passed over at either end. */
        uint64_t last =
            page->has_start && page->start < high ? page->start + 1 : high;
        span.count = last > low ? last - low : 0;
        span.first = last - (span.count > 0);
    } else {
        span.first = page->has_start && page->start > low ? page->start : low;
        span.count = high > span.first ? high - span.first : 0;
    }
    return span;
}

void page_respond(const struct page *page, json_t *items, uint64_t len,
                  bool more, uint64_t next, struct response *out)
{
    char token[TOKEN_MAX + 24] = "";

    assert(page->size >= 1);
    assert(page);
    if (more)
        snprintf(token, sizeof(token), "%s.%s.%llu", page->list,
                 order_name(page), (unsigned long long)next);
    response_json(out, 200,
                  json_pack("{s:o, s:o, s:I}", page->list, items,
                            "next_page_token", value_text_or_null(token),
                            "total", (json_int_t)len));
}
