/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * signals.h -- a process that is told to end ends
 *
 * libfabric loads libinfinipath (through psm), which installs handlers for SIGINT,
 * SIGTERM and the signals of crashes when it is loaded.  They call exit(), which is
 * not allowed there: what runs then waits for locks that the interrupted code holds,
 * those of malloc among them, and the process never ends.
 */
#ifndef PMV_SIGNALS_H
#define PMV_SIGNALS_H

/*
 * pmv_signals_restore -- give those of them that still have such a handler the
 * default action again; handlers of the application stay
 */
void pmv_signals_restore(void);

#endif /* PMV_SIGNALS_H */
