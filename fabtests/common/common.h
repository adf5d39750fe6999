/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * common.h -- what the programs on libfabric share: connections as the options say
 *
 * Functions that can fail return 0 or a negative fi_errno, and have printed what failed.
 */
#ifndef PMEM_COMMON_H
#define PMEM_COMMON_H

#include <stdbool.h>
#include <stdint.h>

#include "../../util/connection/connection.h"
#include "options.h"

/* is_core -- -p names a core provider, to see what it does by itself: it knows no commits */
bool is_core(const struct options *opts);

/*
 * fabric_listen, fabric_open, fabric_offered -- node_listen, node_open and node_offered, with the
 * options' provider, device, addresses and time limit.  Who listens on a known port says that
 * clients may come.
 */
int fabric_listen(struct node *node, const struct options *opts, const struct node_attr *attr);
int fabric_open(struct node *node, const struct options *opts, const struct node_attr *attr);
int fabric_offered(const struct options *opts, const struct node_attr *attr, struct fi_info **info);

/* report -- print a failed call and return its error */
int report(const char *call, ssize_t ret);

/* CLOSE -- close_fid of an object that need not have been opened */
#define CLOSE(object) ((object) ? close_fid(&(object)->fid, #object) : 0)

/* DO -- a call that has to succeed: report, and return from the function, if it does not */
#define DO(call)                                                                                   \
	do {                                                                                       \
		ssize_t ret_ = (call);                                                             \
		if (ret_)                                                                          \
			return report(#call, ret_);                                                \
	} while (0)

/* deadline_in -- the point in time, on now_ns()'s clock */
uint64_t deadline_in(unsigned long seconds);

/*
 * rest -- after a look for completions: with one processor the peer and the device need it to get
 * on.  A thread that has found none for some time sleeps a little: what is waited for may be a
 * disk.
 */
void rest(bool found);

#endif /* PMEM_COMMON_H */
