/* SPDX-License-Identifier: BSD-2-Clause */
/* locked.c -- what may be locked; locked.h says what for */
#include "memory/locked.h"

#include <sys/resource.h>

#include <rdma/fi_errno.h>

#include "base/log.h"

int pmv_locked_explain(int err, size_t len)
{
	struct rlimit limit;

	if (err == -FI_ENOMEM && !getrlimit(RLIMIT_MEMLOCK, &limit) &&
	    limit.rlim_cur != RLIM_INFINITY)
		PMV_WARN(MR,
			 "%zu bytes can't be registered: there is no memory, or this process may "
			 "not lock so much for a NIC (RLIMIT_MEMLOCK is %llu KiB; see ulimit -l)\n",
			 len, (unsigned long long) limit.rlim_cur / 1024);
	return err;
}
