/* SPDX-License-Identifier: BSD-2-Clause */
/* rxm.h -- FI_EP_RDM: libfabric's own RxM between the provider and its application */
#ifndef RXM_H
#define RXM_H

struct core_domain;
struct sched_process;

/* So many it posts on each connection. */
#define RXM_RECEIVES 16

/* rxm_load -- libfabric loads its providers, which takes long; once, on the stack of a real thread
 */
void rxm_load(void);

/* rxm_start -- before the simulation begins; find_core: that of a process */
void rxm_start(struct core_domain *(*find_core)(const struct sched_process *process));

#endif /* RXM_H */
