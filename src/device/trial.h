/* Drivers that open libraries of others are tried in a child process first: one that hangs, crashes or ends the process then
 * costs a wait and gives a reason. The flag `probe` says when, `probe_seconds` how long. */
#ifndef BTI_DEVICE_TRIAL_H
#define BTI_DEVICE_TRIAL_H

#include "drivers/driver.h"

/* Whether the driver may be asked for its devices in this process; if not, the reason. Blocks until the child has ended. `unready`:
 * why its devices cannot be opened, if the child could tell. */
bool bti_trial(const bti_driver *driver, unsigned kinds, bti_str *reason, bti_str *unready);

/* With the flag probe=open: the driver's devices of these kinds opened, each told of, in another child. The time that the flag gives
 * is for each of them. Adds "<ordinal> <bytes>\n" and so many bytes of lines per device to `told`; how it ended before all were told of
 * goes to `reason`. No device is opened in this process. */
void bti_trial_open(const bti_driver *driver, unsigned kinds, bti_str *told, bti_str *reason);
/* The lines of one of them; NULL: it was not reached. Yours to bti_free. */
char *bti_trial_told(const bti_str *told, int ordinal);

/* In a child that was forked to open libraries of others: what they do to it is its end, and nothing of the program's own runs then. What
 * they print goes to `said`, unless it is -1. */
void bti_trial_behave(int said);

#endif
