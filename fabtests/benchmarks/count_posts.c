/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * count_posts.c -- how often a program rings a NIC's doorbell
 *
 * To be preloaded (LD_PRELOAD) into any program on libibverbs.  Each call of ibv_post_send
 * is counted, and the work requests in its list; most devices ring the doorbell once a call.
 * When the program ends, a line "CALLS REQUESTS" is appended to the file that
 * PMEM_COUNT_POSTS names.  Calls by several threads at a time are all counted.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <infiniband/verbs.h>

typedef int post_send_fn(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);

static post_send_fn *post_send;
static atomic_ulong calls, requests;

static int count(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	const struct ibv_send_wr *each;

	atomic_fetch_add(&calls, 1);
	for (each = wr; each; each = each->next)
		atomic_fetch_add(&requests, 1);
	return post_send(qp, wr, bad);
}

#undef ibv_open_device
struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	static struct ibv_context *(*open_device)(struct ibv_device *);
	struct ibv_context *context;

	if (!open_device)
		open_device = (struct ibv_context * (*) (struct ibv_device *) )
			dlsym(RTLD_NEXT, "ibv_open_device");
	context = open_device(device);
	/* Devices of a second driver are not counted: there is room for one driver's function. */
	if (context && (!post_send || post_send == context->ops.post_send)) {
		post_send = context->ops.post_send;
		context->ops.post_send = count;
	}
	return context;
}

static void __attribute__((destructor)) tell(void)
{
	const char *path = getenv("PMEM_COUNT_POSTS");
	FILE *file = path ? fopen(path, "a") : NULL;

	if (!file)
		return;
	fprintf(file, "%lu %lu\n", atomic_load(&calls), atomic_load(&requests));
	fclose(file);
}
