/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * retransmit.c -- how long a NIC waits for an answer until it repeats its requests
 *
 * To be preloaded (LD_PRELOAD) into a program on libibverbs.  PMEM_RETRANSMIT says how: often (as
 * soon as the device can; Soft-RoCE: a few milliseconds, often in the middle of what is going on)
 * or never (no packet gets lost between two programs in one machine).
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

/* The time is 4.096 us times two to the power of this; 0 is for ever. */
static unsigned char exponent;

static void __attribute__((constructor)) read_setting(void)
{
	const char *when = getenv("PMEM_RETRANSMIT");

	if (when && !strcmp(when, "often")) {
		exponent = 1;
	} else if (!when || strcmp(when, "never")) {
		fputs("PMEM_RETRANSMIT has to be 'often' or 'never'\n", stderr);
		exit(2);
	}
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	static int (*modify_qp)(struct ibv_qp *, struct ibv_qp_attr *, int);
	struct ibv_qp_attr mine = *attr;

	if (!modify_qp)
		modify_qp = (int (*)(struct ibv_qp *, struct ibv_qp_attr *, int)) dlsym(
			RTLD_NEXT, "ibv_modify_qp");
	if (mask & IBV_QP_TIMEOUT)
		mine.timeout = exponent;
	return modify_qp(qp, &mine, mask);
}
