/* Pages of lists: `page_size`, `page_token`, `order`.
 *
 * Items of a list are numbered in their order for good (also where the oldest
 * are dropped in time), and a token names the number that comes next: a walk
 * through the pages sees every item once, while the list grows. Pure.
 */
#ifndef API_PAGE_H
#define API_PAGE_H

#include "api/http/route.h"

enum { PAGE_SIZE_MAX = 1000, PAGE_SIZE_DEFAULT = 100 };

/* For the parameters of a list's route. */
#define PAGE_PARAMS                                                            \
    {.type = PARAM_INT,                                                        \
     .name = "page_size",                                                      \
     .help = "items a page",                                                   \
     .min = 1,                                                                 \
     .max = PAGE_SIZE_MAX,                                                     \
     .fallback = PAGE_SIZE_DEFAULT},                                           \
        {.type = PARAM_TEXT,                                                   \
         .name = "page_token",                                                 \
         .help = "next_page_token of the page before"},                        \
    {                                                                          \
        .type = PARAM_CHOICE, .name = "order",                                 \
        .help = "oldest or newest first", .choices = "asc|desc"                \
    }

struct page {
    const char *list; /* the list's name in the answer: "trials" */
    size_t size;
    bool descending;
    bool has_start;
    uint64_t start; /* number of the first item, where has_start */
};

/* The page that @call asks for. False: @out answers 400 (the token is none, or
 * of another list or order). */
bool page_parse(const struct route_call *call, const char *list,
                struct page *page, struct response *out);

/* Numbers from the page's start to the end of the list: first, first + step,
 * ..., @count of them; the page shows at most its size. */
struct page_span {
    uint64_t first;
    int step; /* 1 or -1 */
    uint64_t count;
};

/* The part that @page shows of a list of the numbers @low .. @low + @len - 1.
 */
struct page_span page_span(const struct page *page, uint64_t low, uint64_t len);

/* Answers with the @items (array, transferred; NULL: out of memory) of a list
 * that has @len; @next is the number at which the next page starts where there
 * @more. */
void page_respond(const struct page *page, json_t *items, uint64_t len,
                  bool more, uint64_t next, struct response *out);

#endif
