/* SPDX-License-Identifier: BSD-2-Clause */
/* op.c -- the pool of requests; req.h says what one is */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <rdma/fi_errno.h>

#include "commit/flush_request.h"

/*
 * Address space, 16 MiB: memory is used for as many requests as were ever under
 * way at once.  That is a few hundred endpoints with full send queues; whoever
 * has more gets -FI_EAGAIN, as from a full queue.
 */
#define POOL_REQS ((size_t) 1 << 16)
#define POOL_BYTES (sizeof(struct pmv_op) * POOL_REQS)

/* So many of them are kept for what makes others end. */
#define KEPT_REQS ((size_t) 1024)

int pmv_op_pool_init(struct pmv_op_pool *pool)
{
	void *base = mmap(NULL, POOL_BYTES, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (base == MAP_FAILED)
		return -FI_ENOMEM;
	*pool = (struct pmv_op_pool){.base = base, .reserved = POOL_BYTES};
	pthread_mutex_init(&pool->lock, NULL);
	return 0;
}

void pmv_op_pool_destroy(struct pmv_op_pool *pool)
{
	pthread_mutex_destroy(&pool->lock);
	munmap(pool->base, pool->reserved);
}

static struct pmv_op *get(struct pmv_op_pool *pool, struct pmv_ep *ep, size_t most)
{
	struct pmv_op *req = NULL;

	pthread_mutex_lock(&pool->lock);
	if (pool->taken < most) {
		pool->taken++;
		req = pool->free;
		if (req) {
			pool->free = req->next;
		} else {
			req = (struct pmv_op *) (pool->base + pool->used);
			pool->used += sizeof(*req);
		}
		memset(&req->next, 0, sizeof(*req) - offsetof(struct pmv_op, next));
		req->comp.embedded = true;
		req->ep = ep;
		atomic_init(&req->refs, 1);
	}
	pthread_mutex_unlock(&pool->lock);
	return req;
}

struct pmv_op *pmv_op_get(struct pmv_op_pool *pool, struct pmv_ep *ep)
{
	return get(pool, ep, POOL_REQS - KEPT_REQS);
}

struct pmv_op *pmv_op_get_own(struct pmv_op_pool *pool, struct pmv_ep *ep)
{
	return get(pool, ep, POOL_REQS);
}

static void free_content(struct pmv_op *req)
{
	pmv_flush_request_free(req->letter);
	pmv_postponed_free(req->deferred);
	req->letter = NULL;
	req->deferred = NULL;
}

void pmv_op_put(struct pmv_op_pool *pool, struct pmv_op *req)
{
	req->ep = NULL;
	free_content(req);
	pthread_mutex_lock(&pool->lock);
	req->next = pool->free;
	pool->free = req;
	pool->taken--;
	pthread_mutex_unlock(&pool->lock);
}

struct pmv_op *pmv_op_find(struct pmv_op_pool *pool, struct pmv_ep *ep, void *context)
{
	struct pmv_op *found = NULL;

	pthread_mutex_lock(&pool->lock);
	for (size_t at = 0; at < pool->used && !found; at += sizeof(struct pmv_op)) {
		struct pmv_op *req = (struct pmv_op *) (pool->base + at);

		if (req->ep == ep && req->context == context && (req->flags & FI_RECV))
			found = req;
	}
	pthread_mutex_unlock(&pool->lock);
	return found;
}

struct pmv_op *pmv_op_abandon(struct pmv_op_pool *pool, struct pmv_ep *ep)
{
	struct pmv_op *list = NULL;

	pthread_mutex_lock(&pool->lock);
	for (size_t at = 0; at < pool->used; at += sizeof(struct pmv_op)) {
		struct pmv_op *req = (struct pmv_op *) (pool->base + at);

		if (req->ep != ep)
			continue;
		free_content(req);
		req->ep = NULL;
		req->next = list;
		list = req;
	}
	pthread_mutex_unlock(&pool->lock);
	return list;
}

bool pmv_op_owes(struct pmv_op_pool *pool, const struct pmv_ep *ep)
{
	bool found = false;

	pthread_mutex_lock(&pool->lock);
	for (size_t at = 0; at < pool->used && !found; at += sizeof(struct pmv_op)) {
		const struct pmv_op *req = (const struct pmv_op *) (pool->base + at);

		found = req->ep == ep && req->silent;
	}
	pthread_mutex_unlock(&pool->lock);
	return found;
}
