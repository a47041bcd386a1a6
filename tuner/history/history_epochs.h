/* The settings of a run's epochs in few bytes, beside the list of epochs.
 *
 * An epoch takes 200 bytes, and 4 for its setting where that is the one of the
 * epoch before, as it mostly is; else some 30 more. As a tree it would take
 * 700. A row of 0 bytes is as the row before it. Pure; for the files history*.c
 * alone: others ask by history_epoch_setting.
 */
#ifndef TUNER_HISTORY_EPOCHS_H
#define TUNER_HISTORY_EPOCHS_H

#include "tuner/history/history.h"

/* Epoch @i <= their number has @setting, which stays the caller's; a new row
 * where @i is that number. Errors: ERR_NOMEM, nothing changed. */
enum err epoch_setting_put(struct history *h, size_t i, const json_t *setting);

/* Whether epoch @i has the setting of the one before it. */
bool epoch_setting_is_as_before(const struct history *h, size_t i);

/* The epochs that @keeps are the list, with their settings; without memory all
 * stay. @keeps says the same each time it is asked. */
void history_keep_epochs(struct history *h,
                         bool (*keeps)(const struct history *h, size_t i));

/* All settings are trees again, owned by their epochs: the rows name shapes,
 * and those go. Without memory: no setting. */
void epoch_settings_thaw(struct history *h);

/* And back, of epochs as they were read. Errors: ERR_NOMEM. */
enum err epoch_settings_cool(struct history *h);

#endif
