/* SPDX-License-Identifier: BSD-2-Clause */
/* net_objects.h -- what net.c and net_events.c share */
#ifndef RPC_FUZZ_NET_OBJECTS_H
#define RPC_FUZZ_NET_OBJECTS_H

#include "net.h"

/* net_get_wait -- FI_GETWAIT of an object with that descriptor */
int net_get_wait(int fd, int command, void *arg);

/* net_eq_open, net_passive_ep -- of a fabric */
int net_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **fid,
		void *context);
int net_passive_ep(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **fid,
		   void *context);

#endif /* RPC_FUZZ_NET_OBJECTS_H */
