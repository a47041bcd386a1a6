#include "api/web.h"

/* The assembler takes the files in as they are; api/api.mk has this object
 * rebuilt when one of them changes. Paths start at the repository's root, where
 * make runs the compiler. */
#define WEB_FILE(symbol, path)                                                 \
    __asm__(".section .rodata\n"                                               \
            ".global " #symbol "\n"                                            \
            ".hidden " #symbol "\n"                                            \
            ".global " #symbol "_end\n"                                        \
            ".hidden " #symbol "_end\n" #symbol ":\n"                          \
            ".incbin \"" path "\"\n" #symbol "_end:\n"                         \
            ".byte 0\n"                                                        \
            ".previous\n")

WEB_FILE(web_status_html, "api/web/status.html");
WEB_FILE(web_status_js, "api/web/status.js");
WEB_FILE(web_status_css, "api/web/status.css");
