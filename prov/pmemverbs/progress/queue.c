/* SPDX-License-Identifier: BSD-2-Clause */
/* queue.c -- completions on their way to the application; queue.h says how they flow */
#include "progress/queue.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "base/inline.h"
#include "engine/engine.h"
#include "memory/guard.h"
#include "progress/ready.h"

/* Entries that are asked for in one poll: at first, and at most */
#define LEAST_BATCH 16
#define MOST_BATCH 1024

/* Entries that are taken in one go: whoever is flooded has other queues as well */
#define MOST_TAKEN 4096

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

/* The core's entries */

/* tell -- the slot gets what the application is told of an operation that has succeeded */
__attribute__((noinline)) static void tell(struct pmv_queue *queue, const struct pmv_op *op,
					   char *slot, const char *core_entry)
{
	if (op->told.single) {
		/* The core's entry is right except for the context. */
		memmove(slot, core_entry, queue->entry_size);
		memcpy(slot, &op->context, sizeof(op->context));
	} else {
		const struct fi_cq_tagged_entry ok = pmv_op_success(op);

		/* All formats are prefixes of the tagged one. */
		memcpy(slot, &ok, queue->entry_size);
	}
}

/* put_behind -- add a copy of an entry to the ready list; false: no memory */
__attribute__((noinline)) static bool put_behind(struct pmv_queue *queue, const void *entry)
{
	struct pmv_comp *comp = pmv_comp_success(queue, entry);

	if (!comp)
		return false;
	pmv_ready_add(queue, comp);
	return true;
}

/*
 * settle -- the last work request of an operation has completed; true: the slot holds what the
 * application is told
 * settle_any -- the same of what is not ordinary, or of another format
 */
__attribute__((noinline)) static bool settle_any(struct pmv_queue *queue, struct pmv_op *op,
						 char *slot, const char *core_entry)
{
	if (!pmv_op_is_ordinary(op)) {
		if (!pmv_op_end(queue->pool, op))
			return false;
		if (op->comp.is_error) {
			pmv_ready_add(queue, &op->comp);
			return false;
		}
	}
	tell(queue, op, slot, core_entry);
	pmv_op_put(queue->pool, op);
	return true;
}

PMV_ALWAYS_INLINE bool settle(struct pmv_queue *queue, struct pmv_op *op, char *slot,
			      const char *core_entry)
{
	struct fi_cq_tagged_entry *entry = (struct fi_cq_tagged_entry *) slot;

	if (queue->entry_size != sizeof(*entry) || !pmv_op_is_ordinary(op))
		return settle_any(queue, op, slot, core_entry);
	entry->op_context = op->context;
	entry->flags = op->flags;
	memset(&entry->len, 0, sizeof(*entry) - offsetof(struct fi_cq_tagged_entry, len));
	if (!pmv_op_put_home(op))
		pmv_op_put_free(queue->pool, op);
	return true;
}

/*
 * filter -- remove the entries of operations from a buffer, or rewrite them; returns how many
 * are left.  A flush may end many writes, whose entries go to the ready list, and those behind
 * it, too.
 */
PMV_ALWAYS_INLINE size_t filter(struct pmv_queue *queue, char *buf, size_t count)
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
		if (atomic_load(&queue->num_ready) && put_behind(queue, slot))
			continue;
		slot += queue->entry_size;
		left++;
	}
	return left;
}

/* ends_later -- it was a quiet one, and the READ or FLUSH behind it ends the operation */
static bool ends_later(struct pmv_op *op, const struct fi_cq_err_entry *entry)
{
	bool in_list = atomic_load(&op->quiet_list);

	if (!(entry->flags & FI_WRITE) || !(in_list || atomic_load(&op->quiet_write)))
		return false;
	pmv_op_fail(op, entry->err, entry->prov_errno);
	/* Whoever took the flag meanwhile has given up the READ; behind this the operation may be
	 * gone.
	 */
	return in_list || atomic_exchange(&op->quiet_write, false);
}

/* end_with_error -- a work request of an operation has failed */
static void end_with_error(struct pmv_queue *queue, const struct fi_cq_err_entry *entry)
{
	struct pmv_op *op = entry->op_context;
	struct pmv_op_owner *owner;

	/* Whose it was is found out by a probe, if anybody waits for an answer to it. */
	if (entry->op_context == pmv_op_none(queue->pool))
		return;
	owner = op->owner;
	if (owner && !(op->flags & FI_RECV))
		owner->lost(owner);
	if (!ends_later(op, entry) && pmv_op_done(queue->pool, op, entry->err, entry->prov_errno))
		pmv_ready_add(queue, &op->comp);
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

	comp = pmv_comp_error(NULL, 0, 0);
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
		comp->err = err.entry;
		comp->err.err = pmv_op_reason(queue->first_sender, err.entry.flags, err.entry.err);
		if (comp->err.err_data_size > sizeof(comp->err_data))
			comp->err.err_data_size = sizeof(comp->err_data);
		pmv_ready_add(queue, comp);
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

/* find_places -- for what is wanted, or for less without memory; how many there are */
static size_t find_places(struct pmv_queue *queue)
{
	struct pmv_batch *batch = &queue->batch;
	struct pmv_comp *place;

	while (batch->num_places < batch->wanted && (place = pmv_comp_success(queue, NULL))) {
		STAILQ_INSERT_HEAD(&batch->places, place, next);
		batch->num_places++;
	}
	return batch->num_places;
}

/* want_more -- by the next poll, if there is memory */
static void want_more(struct pmv_queue *queue)
{
	struct pmv_batch *batch = &queue->batch;
	char *entries = NULL;

	if (batch->wanted < MOST_BATCH)
		entries = realloc(batch->entries, 2 * batch->wanted * queue->entry_size);
	if (!entries)
		return;
	batch->entries = entries;
	batch->wanted *= 2;
}

/* place_entry -- one of the core's, in the ready list, unless it is of an operation and untold */
static void place_entry(struct pmv_queue *queue, char *entry)
{
	struct pmv_batch *batch = &queue->batch;
	struct pmv_comp *place;
	void *context;

	memcpy(&context, entry, sizeof(context));
	if (pmv_is_op(queue->pool, context) &&
	    (!pmv_op_is_last(context) || !settle(queue, context, entry, entry)))
		return;
	place = STAILQ_FIRST(&batch->places);
	STAILQ_REMOVE_HEAD(&batch->places, next);
	batch->num_places--;
	memcpy(&place->ok, entry, queue->entry_size);
	pmv_ready_add(queue, place);
}

/* take_entries -- some, into the ready list: how many, or an error if there are none */
static ssize_t take_entries(struct pmv_queue *queue)
{
	struct pmv_batch *batch = &queue->batch;
	size_t wanted = find_places(queue);
	ssize_t ret;

	if (!wanted)
		return -FI_ENOMEM;
	ret = poll_core(queue, batch->entries, wanted);
	for (ssize_t i = 0; i < ret; i++)
		place_entry(queue, batch->entries + i * queue->entry_size);
	if (ret == (ssize_t) wanted)
		want_more(queue);
	if (ret == -FI_EAVAIL)
		ret = take_error(queue) ? -FI_EAGAIN : 1;
	return ret;
}

/* Waiters */

/* tell_sleepers -- whoever sleeps, or is about to, looks once more */
static void tell_sleepers(struct pmv_queue *queue)
{
	if (atomic_exchange(&queue->armed, 0))
		pmv_queue_wake(queue);
}

/* raise_to -- to at least that; false: it was as high */
static inline bool raise_to(atomic_int *level, enum pmv_pending to)
{
	int before = atomic_load(level);

	while (before < (int) to) {
		if (atomic_compare_exchange_weak(level, &before, to))
			return true;
	}
	return false;
}

static void raise_and_unlock(struct pmv_queue *queue, enum pmv_pending pending)
{
	bool raised = raise_to(&queue->pending, pending);

	pthread_mutex_unlock(&queue->stall_lock);
	/* Whoever sleeps did not know of that. */
	if (raised)
		tell_sleepers(queue);
}

void pmv_queue_wait(struct pmv_queue *queue, struct pmv_waiter *waiter, enum pmv_pending pending)
{
	pthread_mutex_lock(&queue->stall_lock);
	if (!waiter->listed) {
		waiter->listed = true;
		TAILQ_INSERT_HEAD(&queue->waiters, waiter, next);
	}
	raise_and_unlock(queue, pending);
}

void pmv_queue_hurry(struct pmv_queue *queue, const struct pmv_waiter *waiter)
{
	pthread_mutex_lock(&queue->stall_lock);
	raise_and_unlock(queue, waiter->listed ? PMV_PENDING_POSTS : PMV_PENDING_NONE);
}

void pmv_queue_raise_pending(struct pmv_queue *queue, enum pmv_pending pending)
{
	if (atomic_load(&queue->pending) == PMV_PENDING_NONE)
		return;
	raise_to(&queue->raised, pending);
	if (raise_to(&queue->pending, pending))
		tell_sleepers(queue);
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
	enum pmv_pending most = PMV_PENDING_NONE, before, raised;
	struct pmv_waiter *waiter, *next;

	pthread_mutex_lock(&queue->stall_lock);
	before = atomic_load(&queue->pending);
	atomic_store(&queue->raised, PMV_PENDING_NONE);
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
	/* What was found may be old. */
	raised = (enum pmv_pending) atomic_load(&queue->raised);
	if (most && raised > most && raise_to(&queue->pending, raised))
		/* Who has begun to sleep since it was lowered does not know. */
		before = PMV_PENDING_NONE;
	pthread_mutex_unlock(&queue->stall_lock);
	/* Whoever sleeps has to ask for acknowledgements, or to post: this call may end. */
	if (most > before)
		tell_sleepers(queue);
}

static inline void push_waiters(struct pmv_queue *queue, bool looking)
{
	if (atomic_load(&queue->pending))
		push_all(queue, looking);
}

/* tell_refused -- data may have been moved, and not by the thread that was refused */
__attribute__((noinline)) static void tell_refused(struct pmv_queue *queue)
{
	if (atomic_load(&queue->refused) == (unsigned long) pthread_self())
		return;
	atomic_store(&queue->refused, 0);
	atomic_store(&queue->made_room, true);
	tell_sleepers(queue);
}

void pmv_queue_progress(struct pmv_queue *queue, bool looking)
{
	size_t taken = 0;
	ssize_t ret = 0;

	pthread_mutex_lock(&queue->lock);
	push_waiters(queue, looking);
	while (taken < MOST_TAKEN && (ret = take_entries(queue)) >= 0)
		taken += ret;
	if (atomic_load(&queue->num_ready))
		pmv_queue_raise(queue);
	/* If the core has failed there, nobody but the application can be told. */
	else if (atomic_load(&queue->attended) && ret < 0 && ret != -FI_EAGAIN)
		pmv_queue_wake(queue);
	push_waiters(queue, looking);
	if (atomic_load(&queue->refused))
		tell_refused(queue);
	pthread_mutex_unlock(&queue->lock);
}

/* Reading */

/* read_ready -- so many entries of the ready list, or -FI_EAVAIL: an error is next */
static ssize_t read_ready(struct pmv_queue *queue, char *buf, size_t count)
{
	ssize_t got = 0;
	struct pmv_comp *comp;

	pmv_signal_read(&queue->signal);
	while ((size_t) got < count && (comp = pmv_ready_take(queue, false))) {
		memcpy(buf + got++ * queue->entry_size, &comp->ok, queue->entry_size);
		pmv_ready_free(queue, comp);
	}
	return !got && ready_has_error(queue) ? -FI_EAVAIL : got;
}

/*
 * push_and_read -- the core has nothing, but an acknowledgement may have ended something.  Nobody
 * is woken for what this call takes: whoever adds an entry either sees `reading` reset, or has
 * counted it before that.
 */
static ssize_t push_and_read(struct pmv_queue *queue, char *buf, size_t count)
{
	bool pushes = atomic_load(&queue->pending);
	ssize_t ret = 0;

	if (pushes) {
		atomic_store(&queue->reading, true);
		push_all(queue, true);
	}
	if (atomic_load(&queue->num_ready))
		ret = read_ready(queue, buf, count);
	if (pushes) {
		atomic_store(&queue->reading, false);
		if (atomic_load(&queue->num_ready))
			pmv_queue_raise(queue);
	}
	return ret ? ret : -FI_EAGAIN;
}

ssize_t pmv_queue_read(struct pmv_queue *queue, void *buf, size_t count)
{
	bool nothing = false;
	ssize_t ret = 0;

	pthread_mutex_lock(&queue->lock);
	do {
		if (atomic_load(&queue->num_ready))
			ret = read_ready(queue, buf, count);
		if (ret)
			break;
		ret = poll_core(queue, buf, count);
		if (ret > 0) {
			if (queue->signal.fd >= 0)
				pmv_signal_found(&queue->signal);
			ret = filter(queue, buf, ret);
		} else if (ret == -FI_EAVAIL) {
			ret = take_error(queue);
		} else {
			nothing = ret == -FI_EAGAIN;
			if (!ret)
				ret = -FI_EAGAIN;
			break;
		}
	} while (!ret);
	if (nothing && queue->counts_reads) {
		atomic_store_explicit(&queue->reads, queue->reads + 1, memory_order_relaxed);
		pmv_signal_read(&queue->signal);
	}
	if (nothing)
		ret = push_and_read(queue, buf, count);
	else
		push_waiters(queue, true);
	pthread_mutex_unlock(&queue->lock);
	return ret;
}

/* Opening and closing */

/* make_waitable -- one descriptor for the core's events and for ours; and one for news alone */
static int make_waitable(struct pmv_queue *queue)
{
	struct epoll_event event = {.events = EPOLLIN};

	queue->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	queue->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (queue->wake_fd < 0 || queue->epoll_fd < 0 ||
	    epoll_ctl(queue->epoll_fd, EPOLL_CTL_ADD, queue->wake_fd, &event) ||
	    epoll_ctl(queue->epoll_fd, EPOLL_CTL_ADD, queue->core_fd, &event))
		return -errno;
	if (!queue->engine->core->manual_progress)
		return 0;
	event.events |= EPOLLET;
	queue->news_fd = epoll_create1(EPOLL_CLOEXEC);
	if (queue->news_fd < 0 || epoll_ctl(queue->news_fd, EPOLL_CTL_ADD, queue->core_fd, &event))
		return -errno;
	return 0;
}

void pmv_queue_join(struct pmv_queue *queue, struct pmv_op_owner *sender)
{
	pthread_mutex_lock(&queue->lock);
	if (queue->num_senders++)
		sender->shares(sender);
	else
		queue->first_sender = sender;
	pthread_mutex_unlock(&queue->lock);
}

void pmv_queue_leave(struct pmv_queue *queue, const struct pmv_op_owner *sender)
{
	pthread_mutex_lock(&queue->lock);
	queue->num_senders--;
	if (queue->first_sender == sender)
		queue->first_sender = NULL;
	pthread_mutex_unlock(&queue->lock);
}

int pmv_queue_open(struct pmv_queue *queue, bool has_fd, bool waitable)
{
	int ret = 0;

	queue->ops = queue->engine->core->ops;
	queue->counts_reads = queue->engine->core->manual_progress || waitable;
	queue->epoll_fd = queue->wake_fd = queue->core_fd = queue->news_fd = -1;
	queue->signal.fd = -1;
	/* The first entry raises it for those, too, who forget to arm it. */
	atomic_init(&queue->raised_arms, UINT_MAX);
	pmv_ready_open(queue);
	TAILQ_INIT(&queue->waiters);
	STAILQ_INIT(&queue->batch.places);
	pthread_mutex_init(&queue->lock, NULL);
	pthread_mutex_init(&queue->stall_lock, NULL);
	queue->batch.wanted = LEAST_BATCH;
	queue->batch.entries = malloc(LEAST_BATCH * queue->entry_size);
	if (!queue->batch.entries)
		ret = -FI_ENOMEM;
	if (!ret && has_fd)
		ret = fi_control(&queue->core_fid->fid, FI_GETWAIT, &queue->core_fd);
	if (!ret && has_fd && FI_VERSION_LT(fi_version(), queue->engine->core->signals_until))
		pmv_signal_find(&queue->signal, queue->core_fd);
	if (!ret && waitable)
		ret = make_waitable(queue);
	if (ret)
		pmv_queue_close(queue);
	return ret;
}

void pmv_queue_close(struct pmv_queue *queue)
{
	struct pmv_comp *place;

	while ((place = STAILQ_FIRST(&queue->batch.places))) {
		STAILQ_REMOVE_HEAD(&queue->batch.places, next);
		free(place);
	}
	free(queue->batch.entries);
	if (queue->epoll_fd >= 0)
		close(queue->epoll_fd);
	if (queue->wake_fd >= 0)
		close(queue->wake_fd);
	if (queue->news_fd >= 0)
		close(queue->news_fd);
	pmv_ready_close(queue);
	pthread_mutex_destroy(&queue->lock);
	pthread_mutex_destroy(&queue->stall_lock);
}
