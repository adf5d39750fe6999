/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * signals.h -- a process that is told to end does end
 *
 * libfabric loads libinfinipath (through psm), which installs handlers for SIGINT, SIGTERM
 * and the signals of crashes.  They call exit(), which may wait for a lock that the
 * interrupted code holds, such as malloc's: then the process never ends.
 */
#ifndef PMV_SIGNALS_H
#define PMV_SIGNALS_H

/* pmv_signals_restore -- remove libinfinipath's handlers; the application's stay */
void pmv_signals_restore(void);

#endif /* PMV_SIGNALS_H */
