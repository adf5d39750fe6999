/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * start.c -- a program on libfabric begins with three naps instead of seven hundred, and asks less
 *
 * To be preloaded (LD_PRELOAD).  Libraries that libfabric 1.17 loads for NICs that are not here
 * (infinipath, psm2, and its own psm3) measure the processor's clock in each process, in naps of
 * 125 us until 100 ms have passed.  To wake up so often costs more processor time than all else
 * that such a program does at its start.  And its provider verbs asks a device for each address
 * for which that has room: Soft-RoCE for 1,024, each time by a system call.
 */
#include <dlfcn.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#define NAP_US 125
#define MEASURED_US 100000
#define ADDRESSES 16 /* no device here has so many */

int usleep(useconds_t us)
{
	useconds_t all = us == NAP_US ? MEASURED_US : us;
	struct timespec time = {.tv_sec = all / 1000000, .tv_nsec = (long) (all % 1000000) * 1000};

	return nanosleep(&time, NULL);
}

int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	static int (*query_gid)(struct ibv_context *, uint8_t, int, union ibv_gid *);

	if (index >= ADDRESSES)
		return -1;
	/* Not RTLD_NEXT: who loads libfabric later does so for itself. */
	if (!query_gid)
		query_gid = (int (*)(struct ibv_context *, uint8_t, int, union ibv_gid *)) dlsym(
			dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD), "ibv_query_gid");
	return query_gid(context, port, index, gid);
}
