/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bench_rdm.h -- commits over FI_EP_RDM, for counting instructions: two endpoints of this process
 *
 * libfabric loads the provider that FI_PROVIDER_PATH names, and RxM and tcp are its own.  How often
 * a queue has to be read depends on the kernel, so only the call that commits is counted.
 */
#ifndef BENCH_RDM_H
#define BENCH_RDM_H

#include <stdbool.h>

/* bench_rdm_open -- the target's memory is of that domain; false: what went wrong was printed */
bool bench_rdm_open(const char *domain, void (*count)(void (*call)(int i), int times));
/* bench_rdm_commit -- one that completes; the call that posts it is handed to COUNT */
void bench_rdm_commit(int i);
void bench_rdm_close(void);

#endif
