/* SPDX-License-Identifier: BSD-2-Clause */
/* op.c -- the pool of operations, and how one ends; op.h says what an operation is */
#include "progress/op.h"

#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include <rdma/fi_errno.h>

int pmv_op_pool_init(struct pmv_op_pool *pool, size_t size)
{
	size_t reserved = size * PMV_OP_OWN;
	void *base = mmap(NULL, reserved, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (base == MAP_FAILED)
		return -FI_ENOMEM;
	*pool = (struct pmv_op_pool){.base = base, .size = size, .reserved = reserved};
	STAILQ_INIT(&pool->free);
	pthread_mutex_init(&pool->lock, NULL);
	return 0;
}

void pmv_op_pool_destroy(struct pmv_op_pool *pool)
{
	pthread_mutex_destroy(&pool->lock);
	munmap(pool->base, pool->reserved);
}

struct pmv_op *pmv_op_get(struct pmv_op_owner *owner, enum pmv_op_most most)
{
	struct pmv_op_pool *pool = owner->pool;
	struct pmv_op *op = NULL;

	pthread_mutex_lock(&pool->lock);
	if (pool->taken < most) {
		pool->taken++;
		op = STAILQ_FIRST(&pool->free);
		if (op) {
			STAILQ_REMOVE_HEAD(&pool->free, next);
		} else {
			op = (struct pmv_op *) (pool->base + pool->used);
			pool->used += pool->size;
		}
		memset(&op->next, 0, pool->size - offsetof(struct pmv_op, next));
		op->comp.embedded = true;
		atomic_init(&op->pending, 1);
		op->owner = owner;
	}
	pthread_mutex_unlock(&pool->lock);
	return op;
}

void pmv_op_put(struct pmv_op_pool *pool, struct pmv_op *op)
{
	op->owner = NULL;
	pthread_mutex_lock(&pool->lock);
	STAILQ_INSERT_HEAD(&pool->free, op, next);
	pool->taken--;
	pthread_mutex_unlock(&pool->lock);
}

/* How an operation ends */

void pmv_op_fail(struct pmv_op *op, int err, int prov_errno)
{
	struct pmv_op_owner *owner = op->owner;
	int none = 0;

	if (!atomic_compare_exchange_strong(&op->error, &none, err))
		return;
	op->prov_errno = prov_errno;
	if (owner && owner->failed)
		owner->failed(owner, op);
}

/* end -- true: the application is to be told */
static bool end(struct pmv_op_pool *pool, struct pmv_op *op)
{
	struct pmv_op_owner *owner = op->owner;
	int err = atomic_load(&op->error);
	enum pmv_audience least = err ? PMV_TELL_ERROR : PMV_TELL_ALL;

	if (owner)
		owner->ended(owner, op);
	/* The application was told when the endpoint was closed. */
	if (!owner || op->audience < least) {
		pmv_op_put(pool, op);
		return false;
	}
	op->owner = NULL;
	op->comp.is_error = err != 0;
	if (err)
		op->comp.err = (struct fi_cq_err_entry){.op_context = op->context,
							.flags = op->flags,
							.err = err,
							.prov_errno = op->prov_errno};
	else
		op->comp.ok =
			(struct fi_cq_tagged_entry){.op_context = op->context, .flags = op->flags};
	return true;
}

bool pmv_op_done(struct pmv_op_pool *pool, struct pmv_op *op, int err, int prov_errno)
{
	if (err)
		pmv_op_fail(op, err, prov_errno);
	return atomic_fetch_sub(&op->pending, 1) == 1 && end(pool, op);
}

/* An endpoint's operations */

/* next_of -- the owner's next operation in the pool, or its first one; holds the lock */
static struct pmv_op *next_of(struct pmv_op_owner *owner, struct pmv_op *op)
{
	struct pmv_op_pool *pool = owner->pool;
	char *at = op ? (char *) op + pool->size : pool->base;

	for (; at < pool->base + pool->used; at += pool->size) {
		op = (struct pmv_op *) at;
		if (op->owner == owner)
			return op;
	}
	return NULL;
}

struct pmv_op *pmv_op_find(struct pmv_op_owner *owner, void *context)
{
	struct pmv_op *op = NULL;

	pthread_mutex_lock(&owner->pool->lock);
	do
		op = next_of(owner, op);
	while (op && !(op->context == context && (op->flags & FI_RECV)));
	pthread_mutex_unlock(&owner->pool->lock);
	return op;
}

bool pmv_op_owes(struct pmv_op_owner *owner)
{
	struct pmv_op *op = NULL;

	pthread_mutex_lock(&owner->pool->lock);
	do
		op = next_of(owner, op);
	while (op && op->audience != PMV_TELL_NOBODY);
	pthread_mutex_unlock(&owner->pool->lock);
	return op;
}

struct pmv_op_list pmv_op_abandon(struct pmv_op_owner *owner)
{
	struct pmv_op_list list = STAILQ_HEAD_INITIALIZER(list);
	struct pmv_op *op = NULL;

	pthread_mutex_lock(&owner->pool->lock);
	while ((op = next_of(owner, op))) {
		op->owner = NULL;
		STAILQ_INSERT_HEAD(&list, op, next);
	}
	pthread_mutex_unlock(&owner->pool->lock);
	return list;
}
