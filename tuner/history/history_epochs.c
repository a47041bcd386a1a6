#include "tuner/history/history_epochs.h"

#include "base/json/json.h"
#include "base/mem.h"
#include "tuner/history/history_cold.h"

#include <assert.h>
#include <string.h>

/* ---- rows ---------------------------------------------------------------- */

/* The row whose bytes row @i has: the first that ends where it does. */
static size_t source_of(const struct cold_rows *rows, size_t i)
{
    size_t low = 0, high = i;

    assert(i < rows->rows);
    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (rows->end[middle] < rows->end[i])
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct packed_bytes bytes_of(const struct cold_rows *rows, size_t i)
{
    return cold_row(rows, source_of(rows, i));
}

/* A row behind the last, of no bytes where they are those of the last. */
static enum err add(struct cold_rows *rows, struct packed_bytes row)
{
    struct packed_bytes last = {NULL, 0};

    assert(row.left > 0);
    if (rows->rows > 0)
        last = bytes_of(rows, rows->rows - 1);
    if (last.left == row.left && memcmp(last.at, row.at, row.left) == 0)
        row.left = 0;
    return cold_row_add(rows, row.at, row.left);
}

/* Row @i becomes @row: an epoch is recorded again with its own setting, so this
 * is for journals that are not ours. */
static enum err exchange(struct cold_rows *rows, size_t i,
                         struct packed_bytes row)
{
    struct cold_rows all = {.bytes = NULL};
    enum err err = ERR_OK;

    for (size_t k = 0; !err && k < rows->rows; k++)
        err = add(&all, k == i ? row : bytes_of(rows, k));
    if (err) {
        cold_rows_deinit(&all);
        return err;
    }
    cold_rows_deinit(rows);
    *rows = all;
    return ERR_OK;
}

enum err epoch_setting_put(struct history *h, size_t i, const json_t *setting)
{
    struct cold_rows *rows = &h->epoch_setting;
    unsigned char *few = NULL;
    struct packed_bytes row, now;
    enum err err;

    assert(i <= rows->rows);
    err = cold_setting(h, setting, &few, &row.left);
    if (err)
        return err;
    row.at = few;
    if (i == rows->rows)
        err = add(rows, row);
    else {
        now = bytes_of(rows, i);
        if (now.left != row.left || memcmp(now.at, row.at, row.left) != 0)
            err = exchange(rows, i, row);
    }
    mem_free(few);
    return err;
}

bool epoch_setting_is_as_before(const struct history *h, size_t i)
{
    return i > 0 && i < h->epoch_setting.rows &&
           source_of(&h->epoch_setting, i) < i;
}

json_t *history_epoch_setting(const struct history *h,
                              const struct history_epoch *e)
{
    size_t i;

    assert(e >= h->epoch && e < h->epoch + h->epochs);
    i = (size_t)(e - h->epoch);
    if (i < h->epoch_setting.rows)
        return cold_setting_read(h, bytes_of(&h->epoch_setting, i).at);
    return e->e.setting ? json_copied(e->e.setting) : json_null();
}

/* ---- all of them --------------------------------------------------------- */

static enum err settings_of(const struct history *h,
                            bool (*keeps)(const struct history *h, size_t i),
                            struct cold_rows *out)
{
    enum err err = ERR_OK;

    for (size_t i = 0; !err && i < h->epoch_setting.rows; i++)
        if (keeps(h, i))
            err = add(out, bytes_of(&h->epoch_setting, i));
    return err;
}

void history_keep_epochs(struct history *h,
                         bool (*keeps)(const struct history *h, size_t i))
{
    struct cold_rows settings = {.bytes = NULL};
    size_t n = 0, last = 0, best = 0;

    if (settings_of(h, keeps, &settings)) {
        cold_rows_deinit(&settings);
        return;
    }
    for (size_t i = 0; i < h->epochs; i++) {
        if (!keeps(h, i)) {
            json_decref(h->epoch[i].e.setting);
            continue;
        }
        h->epoch[n++] = h->epoch[i];
        last = i + 1 == h->last_epoch ? n : last;
        best = i + 1 == h->best_epoch ? n : best;
    }
    cold_rows_deinit(&h->epoch_setting);
    h->epoch_setting = settings;
    h->epochs_dropped += h->epochs - n;
    h->epochs = n;
    h->last_epoch = last;
    h->best_epoch = best;
}

void epoch_settings_thaw(struct history *h)
{
    for (size_t i = 0; i < h->epoch_setting.rows; i++) {
        json_t *setting =
            cold_setting_read(h, bytes_of(&h->epoch_setting, i).at);

        assert(!h->epoch[i].e.setting);
        h->epoch[i].e.setting = json_is_null(setting) ? NULL : setting;
    }
    cold_rows_deinit(&h->epoch_setting);
}

enum err epoch_settings_cool(struct history *h)
{
    enum err err = ERR_OK;

    assert(h->epoch_setting.rows == 0);
    for (size_t i = 0; !err && i < h->epochs; i++)
        err = epoch_setting_put(h, i, h->epoch[i].e.setting);
    for (size_t i = 0; !err && i < h->epochs; i++) {
        json_decref(h->epoch[i].e.setting);
        h->epoch[i].e.setting = NULL;
    }
    return err;
}
