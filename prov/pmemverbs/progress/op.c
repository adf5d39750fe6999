/* SPDX-License-Identifier: BSD-2-Clause */
/* op.c -- the pool of operations, and how one ends; op.h says what an operation is */
#include "progress/op.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "base/log.h"

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
	struct pmv_op_stack *stack;

	while ((stack = SLIST_FIRST(&pool->stacks))) {
		SLIST_REMOVE_HEAD(&pool->stacks, next_of_all);
		free(stack);
	}
	pthread_mutex_destroy(&pool->lock);
	munmap(pool->base, pool->reserved);
}

int pmv_op_owner_open(struct pmv_op_owner *owner, struct pmv_op_pool *pool)
{
	struct pmv_op_stack *stack;

	pthread_mutex_lock(&pool->lock);
	stack = SLIST_FIRST(&pool->unused);
	if (stack) {
		SLIST_REMOVE_HEAD(&pool->unused, next);
	} else {
		stack = calloc(1, sizeof(*stack));
		if (stack)
			SLIST_INSERT_HEAD(&pool->stacks, stack, next_of_all);
	}
	pthread_mutex_unlock(&pool->lock);
	owner->pool = pool;
	owner->stack = stack;
	owner->acks = NULL;
	owner->reads = atomic_load(&pmv_guard_reads);
	return stack ? 0 : -FI_ENOMEM;
}

void pmv_op_owner_close(struct pmv_op_owner *owner)
{
	pthread_mutex_lock(&owner->pool->lock);
	SLIST_INSERT_HEAD(&owner->pool->unused, owner->stack, next);
	pthread_mutex_unlock(&owner->pool->lock);
	owner->stack = NULL;
}

/* Free operations */

_Static_assert(PMV_OP_OWN <= PMV_OP_NUMBERS, "their numbers fit");

struct pmv_op *pmv_op_take_free(struct pmv_op_owner *owner, enum pmv_op_most most)
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
			op->number = (uint32_t) (pool->used / pool->size);
			op->comp.embedded = true;
		}
		/* At most half of all have a stack: the others are for whoever needs many. */
		op->home = pool->taken <= PMV_OP_APPLICATION / 2 ? owner->stack : NULL;
	}
	pthread_mutex_unlock(&pool->lock);
	return op;
}

struct pmv_op *pmv_op_get(struct pmv_op_owner *owner, enum pmv_op_most most)
{
	const struct pmv_told nobody = {.audience = PMV_TELL_NOBODY};
	struct pmv_op *op = pmv_op_take(owner, most, &nobody);

	if (!op)
		return NULL;
	op->context = NULL;
	op->flags = 0;
	op->prov_errno = 0;
	atomic_store_explicit(&op->quiet_write, false, memory_order_relaxed);
	atomic_store_explicit(&op->quiet_list, false, memory_order_relaxed);
	memset(op + 1, 0, owner->pool->size - sizeof(*op));
	pmv_op_set_owner(op, owner);
	return op;
}

void pmv_op_put_free(struct pmv_op_pool *pool, struct pmv_op *op)
{
	pthread_mutex_lock(&pool->lock);
	STAILQ_INSERT_HEAD(&pool->free, op, next);
	pool->taken--;
	pthread_mutex_unlock(&pool->lock);
}

/* How an operation ends */

static void report_error(struct pmv_op *op, int err)
{
	op->comp.is_error = true;
	op->comp.err = (struct fi_cq_err_entry){.op_context = op->context,
						.flags = op->flags,
						.err = err,
						.prov_errno = op->prov_errno};
}

void pmv_op_fail(struct pmv_op *op, int err, int prov_errno)
{
	struct pmv_op_owner *owner = op->owner;
	int none = 0;

	err = pmv_op_reason(owner, op->flags, err);
	if (!atomic_compare_exchange_strong(&op->error, &none, err))
		return;
	op->prov_errno = prov_errno;
	if (owner && owner->failed)
		owner->failed(owner, op);
}

/*
 * disbelieve -- memory was lost since the endpoint was opened, and something has read zeros in its
 * place: a core, perhaps, that has sent them.  The operation fails, if it sends anything, and so
 * does each later one: they may cover what was sent before.  Its error, or 0
 */
static int disbelieve(struct pmv_op *op)
{
	if (!(op->flags & (FI_WRITE | FI_SEND | FI_ATOMIC)))
		return 0;
	PMV_WARN(EP_DATA,
		 "memory of this process was lost, and zeros may have been sent in its place: "
		 "commits on this connection fail; write again, on a new one, what was written "
		 "since the last commit\n");
	pmv_op_fail(op, FI_EFAULT, 0);
	return FI_EFAULT;
}

bool pmv_op_end(struct pmv_op_pool *pool, struct pmv_op *op)
{
	struct pmv_op_owner *owner = op->owner;
	int err = atomic_load(&op->error);

	if (owner && !err &&
	    owner->reads != atomic_load_explicit(&pmv_guard_reads, memory_order_relaxed))
		err = disbelieve(op);
	if (owner && (err || !op->told.ordinary))
		owner->ended(owner, op);
	/* The application was told when the endpoint was closed. */
	if (!owner || op->told.audience < (err ? PMV_TELL_ERROR : PMV_TELL_ALL)) {
		pmv_unread_drop(&op->comp);
		pmv_op_put(pool, op);
		return false;
	}
	pmv_op_set_owner(op, NULL);
	op->comp.is_error = false;
	if (err)
		report_error(op, err);
	return true;
}

bool pmv_op_done(struct pmv_op_pool *pool, struct pmv_op *op, int err, int prov_errno)
{
	if (err)
		pmv_op_fail(op, err, prov_errno);
	return pmv_op_is_last(op) && pmv_op_finish(pool, op);
}

bool pmv_op_finish(struct pmv_op_pool *pool, struct pmv_op *op)
{
	if (!pmv_op_end(pool, op))
		return false;
	if (!op->comp.is_error)
		op->comp.ok = pmv_op_success(op);
	return true;
}

/* An endpoint's operations */

/* next_of -- the owner's (NULL: anybody's) next operation, or the first one; holds the lock */
static struct pmv_op *next_of(const struct pmv_op_pool *pool, const struct pmv_op_owner *owner,
			      struct pmv_op *op)
{
	char *at = op ? (char *) op + pool->size : pool->base;

	for (; at < pool->base + pool->used; at += pool->size) {
		const struct pmv_op_owner *its = ((struct pmv_op *) at)->owner;

		if (its && (!owner || its == owner))
			return (struct pmv_op *) at;
	}
	return NULL;
}

struct pmv_op *pmv_op_next(struct pmv_op_pool *pool, struct pmv_op *op)
{
	pthread_mutex_lock(&pool->lock);
	op = next_of(pool, NULL, op);
	pthread_mutex_unlock(&pool->lock);
	return op;
}

struct pmv_op *pmv_op_find(struct pmv_op_owner *owner, void *context)
{
	struct pmv_op *op = NULL;

	pthread_mutex_lock(&owner->pool->lock);
	do
		op = next_of(owner->pool, owner, op);
	while (op && !(op->context == context && (op->flags & FI_RECV)));
	pthread_mutex_unlock(&owner->pool->lock);
	return op;
}

struct pmv_op_list pmv_op_abandon(struct pmv_op_owner *owner)
{
	struct pmv_op_list list = STAILQ_HEAD_INITIALIZER(list);
	struct pmv_op *op = NULL;

	pthread_mutex_lock(&owner->pool->lock);
	while ((op = next_of(owner->pool, owner, op))) {
		op->owner = NULL;
		if (op != owner->acks)
			STAILQ_INSERT_HEAD(&list, op, next);
	}
	pthread_mutex_unlock(&owner->pool->lock);
	if (owner->acks && pmv_op_is_last(owner->acks))
		pmv_op_put(owner->pool, owner->acks);
	owner->acks = NULL;
	return list;
}

/* Entries of a connection that are not read */

struct pmv_unread *pmv_unread_open(void)
{
	struct pmv_unread *unread = malloc(sizeof(*unread));

	if (unread)
		atomic_init(&unread->count, 1);
	return unread;
}

void pmv_unread_close(struct pmv_unread *unread)
{
	if (unread && atomic_fetch_sub(&unread->count, 1) == 1)
		free(unread);
}

void pmv_unread_add(struct pmv_unread *unread, struct pmv_comp *comp)
{
	if (unread)
		atomic_fetch_add(&unread->count, 1);
	comp->unread = unread;
}
