/* The files of api/web, compiled in: the program serves them from memory and
 * never from a path. Each ends where its `_end` begins. */
#ifndef API_WEB_H
#define API_WEB_H

extern const char web_status_html[], web_status_html_end[];
extern const char web_status_js[], web_status_js_end[];
extern const char web_status_css[], web_status_css_end[];

#endif
