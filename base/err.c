#include "base/err.h"

struct err_row {
    const char *name;
    const char *text;
};

#define ERR_ROW(name, lower, text) {#lower, text},
static const struct err_row rows[] = {ERR_LIST(ERR_ROW)};
#undef ERR_ROW

const char *err_text(enum err err)
{
    if ((unsigned)err >= ERR_COUNT)
        return "unknown error";
    return rows[err].text;
}

const char *err_name(enum err err)
{
    if ((unsigned)err >= ERR_COUNT)
        return "unknown";
    return rows[err].name;
}

bool err_may_pass(enum err err)
{
    return err == ERR_NOMEM || err == ERR_IO || err == ERR_BUSY ||
           err == ERR_NODE || err == ERR_TIMEOUT || err == ERR_AGAIN;
}
