/* SPDX-License-Identifier: BSD-2-Clause */
/* queue.c -- completions on their way to the application; queue.h says how they flow */
#include "progress/queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "base/inline.h"
#include "engine/engine.h"
#include "memory/guard.h"
#include "progress/op.h"

/*
 * So many entries more than the application asked for are taken from the core: a short queue,
 * or one that is full of notices, must not keep the core from working
 */
#define SPARE_ROOM 1024

size_t pmv_queue_entry_size(enum fi_cq_format format)
{
	static const size_t sizes[] = {
		[FI_CQ_FORMAT_CONTEXT] = sizeof(struct fi_cq_entry),
		[FI_CQ_FORMAT_MSG] = sizeof(struct fi_cq_msg_entry),
		[FI_CQ_FORMAT_DATA] = sizeof(struct fi_cq_data_entry),
		[FI_CQ_FORMAT_TAGGED] = sizeof(struct fi_cq_tagged_entry),
	};

	return (size_t) format < sizeof(sizes) / sizeof(sizes[0]) ? sizes[format] : 0;
}

/* The ready list */

static void ready_add(struct pmv_queue *queue, struct pmv_comp *comp)
{
	pthread_mutex_lock(&queue->ready_lock);
	STAILQ_INSERT_TAIL(&queue->ready, comp, next);
	atomic_fetch_add(&queue->num_ready, 1);
	pthread_mutex_unlock(&queue->ready_lock);
}

void pmv_queue_wake(struct pmv_queue *queue)
{
	const uint64_t one = 1;

	/* Fails only when the descriptor is ready already. */
	if (queue->wake_fd >= 0 && write(queue->wake_fd, &one, sizeof(one)) < 0)
		return;
}

void pmv_queue_add(struct pmv_queue *queue, struct pmv_comp *comp)
{
	ready_add(queue, comp);
	pmv_queue_wake(queue);
}

struct pmv_comp *pmv_queue_take(struct pmv_queue *queue, bool error)
{
	struct pmv_comp *comp;

	if (!atomic_load(&queue->num_ready))
		return NULL;
	pthread_mutex_lock(&queue->ready_lock);
	comp = STAILQ_FIRST(&queue->ready);
	if (comp && comp->is_error == error) {
		STAILQ_REMOVE_HEAD(&queue->ready, next);
		atomic_fetch_sub(&queue->num_ready, 1);
	} else {
		comp = NULL;
	}
	pthread_mutex_unlock(&queue->ready_lock);
	if (comp && atomic_load(&queue->room_wanted) && atomic_exchange(&queue->room_wanted, false))
		queue->has_room(queue->has_room_arg);
	return comp;
}

/* is_below -- does the ready list have fewer entries?  If not, has_room is called later */
static bool is_below(struct pmv_queue *queue, size_t entries)
{
	if (atomic_load(&queue->num_ready) < entries)
		return true;
	atomic_store(&queue->room_wanted, true);
	return atomic_load(&queue->num_ready) < entries;
}

bool pmv_queue_has_room(struct pmv_queue *queue)
{
	return is_below(queue, queue->size);
}

bool pmv_queue_is_full(struct pmv_queue *queue)
{
	return !is_below(queue, queue->size + SPARE_ROOM);
}

static bool ready_has_error(struct pmv_queue *queue)
{
	const struct pmv_comp *first;
	bool error;

	pthread_mutex_lock(&queue->ready_lock);
	first = STAILQ_FIRST(&queue->ready);
	error = first && first->is_error;
	pthread_mutex_unlock(&queue->ready_lock);
	return error;
}

void pmv_queue_free(struct pmv_queue *queue, struct pmv_comp *comp)
{
	if (comp->embedded)
		pmv_op_put(queue->pool, (struct pmv_op *) comp);
	else
		free(comp);
}

/* The core's entries */

/* tell_part -- the format has less than there is to tell, or the core's entry tells more */
__attribute__((noinline)) static void tell_part(struct pmv_queue *queue, const struct pmv_op *op,
						char *slot, const char *core_entry)
{
	if (op->single) {
		/* The core's entry is right except for the context. */
		memmove(slot, core_entry, queue->entry_size);
		memcpy(slot, &op->context, sizeof(op->context));
	} else {
		const struct fi_cq_tagged_entry ok = pmv_op_success(op);

		/* All formats are prefixes of the tagged one. */
		memcpy(slot, &ok, queue->entry_size);
	}
}

/* tell -- the slot gets what the application is told of an operation that has succeeded */
static inline void tell(struct pmv_queue *queue, const struct pmv_op *op, void *slot,
			const char *core_entry)
{
	struct fi_cq_tagged_entry *entry = slot;

	if (op->single || queue->entry_size != sizeof(*entry)) {
		tell_part(queue, op, slot, core_entry);
		return;
	}
	entry->op_context = op->context;
	entry->flags = op->flags;
	entry->len = entry->data = entry->tag = 0;
	entry->buf = NULL;
}

/* put_behind -- add a copy of an entry to the ready list; false: no memory */
__attribute__((noinline)) static bool put_behind(struct pmv_queue *queue, const void *entry)
{
	struct pmv_comp *comp = calloc(1, sizeof(*comp));

	if (!comp)
		return false;
	memcpy(&comp->ok, entry, queue->entry_size);
	ready_add(queue, comp);
	return true;
}

/*
 * settle -- the last work request of an operation has completed; true: the slot holds what the
 * application is told
 */
static inline bool settle(struct pmv_queue *queue, struct pmv_op *op, char *slot,
			  const char *core_entry)
{
	if (!pmv_op_end(queue->pool, op))
		return false;
	if (op->comp.is_error) {
		ready_add(queue, &op->comp);
		return false;
	}
	tell(queue, op, slot, core_entry);
	pmv_op_put(queue->pool, op);
	return true;
}

/*
 * filter -- remove the entries of operations from a buffer, or rewrite them; returns how many
 * are left.  A flush may end many writes, whose entries go to the ready list, and those behind
 * it, too.
 */
PMV_ALWAYS_INLINE size_t filter(struct pmv_queue *queue, char *buf, size_t count, size_t ready)
{
	size_t left = 0;
	char *slot = buf;

	for (char *entry = buf; count; count--, entry += queue->entry_size) {
		void *context;

		memcpy(&context, entry, sizeof(context));
		if (pmv_is_op(queue->pool, context)) {
			if (!pmv_op_is_last(context) || !settle(queue, context, slot, entry))
				continue;
		} else if (slot != entry) {
			memcpy(slot, entry, queue->entry_size);
		}
		if (atomic_load(&queue->num_ready) > ready && put_behind(queue, slot))
			continue;
		slot += queue->entry_size;
		left++;
	}
	return left;
}

/* end_with_error -- a work request of an operation has failed */
static void end_with_error(struct pmv_queue *queue, const struct fi_cq_err_entry *entry)
{
	struct pmv_op *op = entry->op_context;
	struct pmv_op_owner *owner = op->owner;

	if (owner && !(op->flags & FI_RECV))
		owner->lost(owner);
	if (pmv_op_done(queue->pool, op, entry->err, entry->prov_errno))
		ready_add(queue, &op->comp);
}

/* take_error -- move the core's error entry, perhaps a longer one than ours, to the ready list */
static ssize_t take_error(struct pmv_queue *queue)
{
	union {
		struct fi_cq_err_entry entry;
		char room[sizeof(struct fi_cq_err_entry) + 64];
	} err = {0};
	struct pmv_comp *comp;
	ssize_t ret;

	comp = calloc(1, sizeof(*comp));
	if (!comp)
		return -FI_ENOMEM;
	err.entry.err_data = comp->err_data;
	err.entry.err_data_size = sizeof(comp->err_data);
	ret = queue->ops->poll_error(queue->core_fid, &err.entry, 0);
	if (ret <= 0) {
		free(comp);
		return ret ? ret : -FI_EAGAIN;
	}
	if (pmv_is_op(queue->pool, err.entry.op_context)) {
		end_with_error(queue, &err.entry);
	} else if (err.entry.op_context || !queue->contexts) {
		comp->is_error = true;
		comp->err = err.entry;
		if (comp->err.err_data_size > sizeof(comp->err_data))
			comp->err.err_data_size = sizeof(comp->err_data);
		ready_add(queue, comp);
		comp = NULL;
	}
	free(comp);
	return 0;
}

/* poll_core -- some cores copy what has arrived now, to wherever it belongs */
static inline ssize_t poll_core(struct pmv_queue *queue, void *buf, size_t count)
{
	ssize_t ret;

	pmv_guard_enter();
	ret = queue->ops->poll(queue->core_fid, buf, count);
	pmv_guard_leave();
	return ret;
}

/* take_entry -- one, into the ready list; an error if there is none */
static ssize_t take_entry(struct pmv_queue *queue)
{
	struct pmv_comp *comp = queue->spare;
	ssize_t ret;

	/* Most polls find nothing, and the next one uses the same memory. */
	if (!comp)
		comp = queue->spare = calloc(1, sizeof(*comp));
	if (!comp)
		return -FI_ENOMEM;
	ret = poll_core(queue, &comp->ok, 1);
	if (ret == 1 && filter(queue, (char *) &comp->ok, 1, atomic_load(&queue->num_ready))) {
		queue->spare = NULL;
		pmv_queue_add(queue, comp);
	} else if (ret == 1) {
		memset(comp, 0, sizeof(*comp));
	}
	if (ret == -FI_EAVAIL)
		ret = take_error(queue) ? -FI_EAGAIN : 1;
	return ret;
}

/* Waiters */

void pmv_queue_wait(struct pmv_queue *queue, struct pmv_waiter *waiter)
{
	int before;

	pthread_mutex_lock(&queue->stall_lock);
	if (!waiter->listed) {
		waiter->listed = true;
		TAILQ_INSERT_HEAD(&queue->waiters, waiter, next);
	}
	/* The next push finds out what it really waits for. */
	before = atomic_exchange(&queue->pending, PMV_PENDING_POSTS);
	pthread_mutex_unlock(&queue->stall_lock);
	/* Whoever sleeps did not know that there is something to push. */
	if (!before && atomic_exchange(&queue->armed, false))
		pmv_queue_wake(queue);
}

void pmv_queue_unwait(struct pmv_queue *queue, struct pmv_waiter *waiter)
{
	pthread_mutex_lock(&queue->stall_lock);
	if (waiter->listed)
		TAILQ_REMOVE(&queue->waiters, waiter, next);
	waiter->listed = false;
	if (TAILQ_EMPTY(&queue->waiters))
		atomic_store(&queue->pending, PMV_PENDING_NONE);
	pthread_mutex_unlock(&queue->stall_lock);
}

static void push_all(struct pmv_queue *queue, bool looking)
{
	enum pmv_pending most = PMV_PENDING_NONE;
	struct pmv_waiter *waiter, *next;

	pthread_mutex_lock(&queue->stall_lock);
	for (waiter = TAILQ_FIRST(&queue->waiters); waiter; waiter = next) {
		enum pmv_pending pending = waiter->push(waiter, looking);

		next = TAILQ_NEXT(waiter, next);
		if (pending > most)
			most = pending;
		if (pending == PMV_PENDING_NONE) {
			TAILQ_REMOVE(&queue->waiters, waiter, next);
			waiter->listed = false;
		}
	}
	atomic_store(&queue->pending, most);
	pthread_mutex_unlock(&queue->stall_lock);
}

static inline void push_waiters(struct pmv_queue *queue, bool looking)
{
	if (atomic_load(&queue->pending))
		push_all(queue, looking);
}

void pmv_queue_progress(struct pmv_queue *queue, bool looking)
{
	size_t room = queue->size + SPARE_ROOM;

	pthread_mutex_lock(&queue->lock);
	push_waiters(queue, looking);
	while (atomic_load(&queue->num_ready) < room && take_entry(queue) >= 0)
		;
	if (atomic_load(&queue->num_ready))
		pmv_queue_wake(queue);
	push_waiters(queue, looking);
	pthread_mutex_unlock(&queue->lock);
}

/* Reading */

/* read_ready -- so many entries of the ready list, or -FI_EAVAIL: an error is next */
static ssize_t read_ready(struct pmv_queue *queue, char *buf, size_t count)
{
	ssize_t got = 0;
	struct pmv_comp *comp;

	while ((size_t) got < count && (comp = pmv_queue_take(queue, false))) {
		memcpy(buf + got++ * queue->entry_size, &comp->ok, queue->entry_size);
		pmv_queue_free(queue, comp);
	}
	return !got && ready_has_error(queue) ? -FI_EAVAIL : got;
}

ssize_t pmv_queue_read(struct pmv_queue *queue, void *buf, size_t count)
{
	ssize_t ret = 0;

	pthread_mutex_lock(&queue->lock);
	if (queue->manual_progress)
		atomic_store_explicit(&queue->reads, queue->reads + 1, memory_order_relaxed);
	do {
		if (atomic_load(&queue->num_ready))
			ret = read_ready(queue, buf, count);
		if (ret)
			break;
		ret = poll_core(queue, buf, count);
		if (ret > 0)
			ret = filter(queue, buf, ret, 0);
		else if (ret == -FI_EAVAIL)
			ret = take_error(queue);
		else
			break;
	} while (!ret);
	push_waiters(queue, true);
	/* An acknowledgement may have ended something. */
	if (ret == -FI_EAGAIN && atomic_load(&queue->num_ready))
		ret = read_ready(queue, buf, count);
	pthread_mutex_unlock(&queue->lock);
	return ret ? ret : -FI_EAGAIN;
}

/* Sleeping */

bool pmv_queue_is_armed(struct pmv_queue *queue)
{
	return queue && atomic_load(&queue->armed);
}

int pmv_queue_arm(struct pmv_queue *queue)
{
	uint64_t raised;

	/* Before the caller looks at the list: an entry that comes later raises it again. */
	if (read(queue->wake_fd, &raised, sizeof(raised)) < 0 && errno != EAGAIN)
		return -errno;
	atomic_store(&queue->armed, true);
	return 0;
}

int pmv_queue_trywait(struct pmv_queue *queue)
{
	struct fid *fid = &queue->core_fid->fid;
	int ret;

	/* Some cores move data here, too. */
	pmv_guard_enter();
	ret = fi_trywait(queue->engine->fabric_fid, &fid, 1);
	pmv_guard_leave();
	return ret;
}

/* Opening and closing */

/* make_waitable -- one descriptor for the core's events and for ours */
static int make_waitable(struct pmv_queue *queue)
{
	struct epoll_event event = {.events = EPOLLIN};

	queue->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	queue->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (queue->wake_fd < 0 || queue->epoll_fd < 0 ||
	    epoll_ctl(queue->epoll_fd, EPOLL_CTL_ADD, queue->wake_fd, &event) ||
	    epoll_ctl(queue->epoll_fd, EPOLL_CTL_ADD, queue->core_fd, &event))
		return -errno;
	return 0;
}

int pmv_queue_open(struct pmv_queue *queue, bool has_fd, bool waitable)
{
	int ret = 0;

	queue->ops = queue->engine->core->ops;
	queue->manual_progress = queue->engine->core->manual_progress;
	queue->epoll_fd = queue->wake_fd = queue->core_fd = -1;
	STAILQ_INIT(&queue->ready);
	TAILQ_INIT(&queue->waiters);
	pthread_mutex_init(&queue->lock, NULL);
	pthread_mutex_init(&queue->ready_lock, NULL);
	pthread_mutex_init(&queue->stall_lock, NULL);
	if (has_fd)
		ret = fi_control(&queue->core_fid->fid, FI_GETWAIT, &queue->core_fd);
	if (!ret && waitable)
		ret = make_waitable(queue);
	if (ret)
		pmv_queue_close(queue);
	return ret;
}

void pmv_queue_close(struct pmv_queue *queue)
{
	struct pmv_comp *comp;

	while ((comp = STAILQ_FIRST(&queue->ready))) {
		STAILQ_REMOVE_HEAD(&queue->ready, next);
		pmv_queue_free(queue, comp);
	}
	free(queue->spare);
	if (queue->epoll_fd >= 0)
		close(queue->epoll_fd);
	if (queue->wake_fd >= 0)
		close(queue->wake_fd);
	pthread_mutex_destroy(&queue->lock);
	pthread_mutex_destroy(&queue->ready_lock);
	pthread_mutex_destroy(&queue->stall_lock);
}
