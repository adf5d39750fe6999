/* SPDX-License-Identifier: BSD-2-Clause */
/* cq.c -- completion queues; cq.h says how entries flow */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "base/clock.h"
#include "commit/commit.h"
#include "engine/info.h"
#include "memory/guard.h"
#include "base/log.h"

/*
 * So many entries are taken from the core before the application reads them, beside as
 * many as it has asked for: a short queue, or one that is full of notices, must not
 * keep the core from working.
 */
#define SPARE_ROOM 1024

/* How long to sleep between two looks where nothing wakes who waits. */
#define LOOK_FOR_ROOM_NS 1000000
#define LOOK_FOR_ACKS_NS 50000

/* While acknowledgements are missing somebody has to find out that none will come. */
#define LOSS_POLL_MS 200

size_t pmv_cq_entry_size(enum fi_cq_format format)
{
	switch (format) {
	case FI_CQ_FORMAT_CONTEXT:
		return sizeof(struct fi_cq_entry);
	case FI_CQ_FORMAT_MSG:
		return sizeof(struct fi_cq_msg_entry);
	case FI_CQ_FORMAT_DATA:
		return sizeof(struct fi_cq_data_entry);
	case FI_CQ_FORMAT_TAGGED:
		return sizeof(struct fi_cq_tagged_entry);
	case FI_CQ_FORMAT_UNSPEC:
		break;
	}
	return 0;
}

/* The ready list */

static void ready_add(struct pmv_cq *cq, struct pmv_comp *comp)
{
	pthread_mutex_lock(&cq->ready_lock);
	comp->next = NULL;
	*cq->ready_tail = comp;
	cq->ready_tail = &comp->next;
	atomic_fetch_add(&cq->num_ready, 1);
	pthread_mutex_unlock(&cq->ready_lock);
}

void pmv_cq_wake(struct pmv_cq *cq)
{
	const uint64_t one = 1;

	/* Fails only when it is raised already. */
	if (cq->wake_fd >= 0 && write(cq->wake_fd, &one, sizeof(one)) < 0)
		return;
}

void pmv_cq_add(struct pmv_cq *cq, struct pmv_comp *comp)
{
	ready_add(cq, comp);
	pmv_cq_wake(cq);
}

static struct pmv_comp *ready_take(struct pmv_cq *cq, bool error)
{
	struct pmv_comp *comp;

	if (!atomic_load(&cq->num_ready))
		return NULL;
	pthread_mutex_lock(&cq->ready_lock);
	comp = cq->ready;
	if (comp && comp->is_error == error) {
		cq->ready = comp->next;
		if (!cq->ready)
			cq->ready_tail = &cq->ready;
		atomic_fetch_sub(&cq->num_ready, 1);
	} else {
		comp = NULL;
	}
	pthread_mutex_unlock(&cq->ready_lock);
	if (comp && atomic_load(&cq->room_wanted) && atomic_exchange(&cq->room_wanted, false))
		pmv_agent_kick(&cq->domain->agent);
	return comp;
}

/* is_below -- ... so many entries, else whoever reads some of them says so */
static bool is_below(struct pmv_cq *cq, size_t entries)
{
	if (atomic_load(&cq->num_ready) < entries)
		return true;
	atomic_store(&cq->room_wanted, true);
	return atomic_load(&cq->num_ready) < entries;
}

bool pmv_cq_has_room(struct pmv_cq *cq)
{
	return is_below(cq, cq->size);
}

bool pmv_cq_is_full(struct pmv_cq *cq)
{
	return !is_below(cq, cq->size + SPARE_ROOM);
}

static bool ready_has_error(struct pmv_cq *cq)
{
	bool error;

	if (!atomic_load(&cq->num_ready))
		return false;
	pthread_mutex_lock(&cq->ready_lock);
	error = cq->ready && cq->ready->is_error;
	pthread_mutex_unlock(&cq->ready_lock);
	return error;
}

static void comp_free(struct pmv_cq *cq, struct pmv_comp *comp)
{
	if (comp->embedded)
		pmv_op_put(&cq->domain->reqs, (struct pmv_op *) comp);
	else
		free(comp);
}

/* The core's entries */

/* All formats are prefixes of the tagged one. */
static void write_entry(struct pmv_cq *cq, void *slot, const struct fi_cq_tagged_entry *entry)
{
	memcpy(slot, entry, cq->entry_size);
}

/*
 * settle -- a part of a request has completed without error.  True: its place
 * in the buffer now holds what the application is told.
 */
static bool settle(struct pmv_cq *cq, struct pmv_op *req, char *slot, const char *core_entry)
{
	struct pmv_op_pool *pool = &cq->domain->reqs;
	bool single = req->single;

	if (!pmv_op_part_done(req, 0, 0) || !pmv_op_finish(pool, req))
		return false;
	if (req->comp.is_error) {
		ready_add(cq, &req->comp);
		return false;
	}
	if (single) {
		/* One operation of the core: its entry is right but for the context. */
		memmove(slot, core_entry, cq->entry_size);
		memcpy(slot, &req->context, sizeof(req->context));
	} else {
		write_entry(cq, slot, &req->comp.ok);
	}
	pmv_op_put(pool, req);
	return true;
}

/* put_behind -- an entry, behind those that are ready; false: no memory */
static bool put_behind(struct pmv_cq *cq, const void *entry)
{
	struct pmv_comp *comp = calloc(1, sizeof(*comp));

	if (!comp)
		return false;
	memcpy(&comp->ok, entry, cq->entry_size);
	ready_add(cq, comp);
	return true;
}

/*
 * filter -- take the entries of requests out of a buffer; returns what is left.
 * A flush may complete many writes, for which there is no room here: what follows
 * it then stays behind them.
 */
static size_t filter(struct pmv_cq *cq, char *buf, size_t count)
{
	bool behind = false;
	size_t left = 0;

	for (size_t i = 0; i < count; i++) {
		char *entry = buf + i * cq->entry_size;
		char *slot = buf + left * cq->entry_size;
		void *context;

		memcpy(&context, entry, sizeof(context));
		if (!pmv_is_req(&cq->domain->reqs, context)) {
			if (slot != entry)
				memcpy(slot, entry, cq->entry_size);
		} else {
			size_t ready = atomic_load(&cq->num_ready);
			bool told = settle(cq, context, slot, entry);

			behind |= atomic_load(&cq->num_ready) > ready;
			if (!told)
				continue;
		}
		if (!behind || !put_behind(cq, slot))
			left++;
	}
	return left;
}

/*
 * take_error -- move the core's error entry into the ready list.  Room beyond
 * the entry is for cores with a longer one than this build knows.
 */
static ssize_t take_error(struct pmv_cq *cq)
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
	ret = fi_cq_readerr(cq->core_fid, &err.entry, 0);
	if (ret <= 0) {
		free(comp);
		return ret ? ret : -FI_EAGAIN;
	}
	if (pmv_is_req(&cq->domain->reqs, err.entry.op_context)) {
		struct pmv_op *req = err.entry.op_context;

		free(comp);
		/* The connection is lost: nobody will answer. */
		if (req->ep && !(req->flags & FI_RECV))
			atomic_store(&((struct pmv_ep *) req->ep)->broken, true);
		if (pmv_op_part_done(req, err.entry.err, err.entry.prov_errno) &&
		    pmv_op_finish(&cq->domain->reqs, req))
			ready_add(cq, &req->comp);
		return 0;
	}
	comp->is_error = true;
	comp->err = err.entry;
	if (comp->err.err_data_size > sizeof(comp->err_data))
		comp->err.err_data_size = sizeof(comp->err_data);
	ready_add(cq, comp);
	return 0;
}

void pmv_cq_stall(struct pmv_cq *cq, struct pmv_stall *stall)
{
	int before;

	pthread_mutex_lock(&cq->stall_lock);
	if (!stall->listed) {
		stall->listed = true;
		stall->next = cq->stalled;
		cq->stalled = stall;
	}
	/* Looking at it tells what it really is. */
	before = atomic_exchange(&cq->pending, PMV_PENDING_POSTS);
	pthread_mutex_unlock(&cq->stall_lock);
	/* Whoever sleeps did not know that there is something to look at. */
	if (!before && atomic_exchange(&cq->armed, false))
		pmv_cq_wake(cq);
}

void pmv_cq_unstall(struct pmv_cq *cq, struct pmv_stall *stall)
{
	pthread_mutex_lock(&cq->stall_lock);
	for (struct pmv_stall **at = &cq->stalled; *at; at = &(*at)->next) {
		if (*at == stall) {
			*at = stall->next;
			break;
		}
	}
	stall->listed = false;
	if (!cq->stalled)
		atomic_store(&cq->pending, PMV_PENDING_NONE);
	pthread_mutex_unlock(&cq->stall_lock);
}

static void push_stalled(struct pmv_cq *cq, bool looking)
{
	enum pmv_pending most = PMV_PENDING_NONE;
	struct pmv_stall **at = &cq->stalled;

	if (!atomic_load(&cq->pending))
		return;
	pthread_mutex_lock(&cq->stall_lock);
	while (*at) {
		struct pmv_stall *stall = *at;
		enum pmv_pending pending = pmv_ep_push(stall->ep, looking);

		if (pending > most)
			most = pending;
		if (!pending) {
			*at = stall->next;
			stall->listed = false;
		} else {
			at = &stall->next;
		}
	}
	atomic_store(&cq->pending, most);
	pthread_mutex_unlock(&cq->stall_lock);
}

/* read_core -- a core that needs calls copies what has arrived now, to wherever it belongs */
static ssize_t read_core(struct pmv_cq *cq, void *buf, size_t count)
{
	ssize_t ret;

	pmv_guard_enter();
	ret = fi_cq_read(cq->core_fid, buf, count);
	pmv_guard_leave();
	return ret;
}

/* take_entry -- one, into the ready list; an error if there is none */
static ssize_t take_entry(struct pmv_cq *cq)
{
	ssize_t ret;

	/* Most reads find nothing: what was made for the last one does for this. */
	if (!cq->spare)
		cq->spare = calloc(1, sizeof(*cq->spare));
	if (!cq->spare)
		return -FI_ENOMEM;
	ret = read_core(cq, &cq->spare->ok, 1);
	if (ret == 1 && filter(cq, (char *) &cq->spare->ok, 1)) {
		pmv_cq_add(cq, cq->spare);
		cq->spare = NULL;
	} else if (ret == 1) {
		memset(cq->spare, 0, sizeof(*cq->spare));
	}
	if (ret == -FI_EAVAIL)
		ret = take_error(cq) ? -FI_EAGAIN : 1;
	return ret;
}

static void progress(struct pmv_cq *cq, bool looking)
{
	size_t room = cq->size + SPARE_ROOM;

	pthread_mutex_lock(&cq->lock);
	push_stalled(cq, looking);
	while (atomic_load(&cq->num_ready) < room && take_entry(cq) >= 0)
		;
	if (atomic_load(&cq->num_ready))
		pmv_cq_wake(cq);
	push_stalled(cq, looking);
	pthread_mutex_unlock(&cq->lock);
}

void pmv_cq_progress(struct pmv_cq *cq)
{
	progress(cq, false);
}

void pmv_cq_look(struct pmv_cq *cq)
{
	progress(cq, true);
}

/* The application's calls */

static ssize_t read_ready(struct pmv_cq *cq, char *buf, size_t count)
{
	size_t got = 0;
	struct pmv_comp *comp;

	while (got < count && (comp = ready_take(cq, false))) {
		write_entry(cq, buf + got++ * cq->entry_size, &comp->ok);
		comp_free(cq, comp);
	}
	return got;
}

static ssize_t cq_read(struct fid_cq *fid, void *buf, size_t count)
{
	struct pmv_cq *cq = pmv_to_cq(fid);
	ssize_t ret;

	pmv_agent_progress(cq->domain);
	pthread_mutex_lock(&cq->lock);
	if (cq->domain->engine.core->driven)
		atomic_store_explicit(&cq->reads, cq->reads + 1, memory_order_relaxed);
	do {
		ret = read_ready(cq, buf, count);
		if (ret)
			break;
		if (ready_has_error(cq)) {
			ret = -FI_EAVAIL;
			break;
		}
		ret = read_core(cq, buf, count);
		if (ret > 0)
			ret = filter(cq, buf, ret);
		else if (ret == -FI_EAVAIL)
			ret = take_error(cq);
		else
			break;
	} while (!ret);
	push_stalled(cq, true);
	/* An acknowledgement may have completed something. */
	if (ret == -FI_EAGAIN && atomic_load(&cq->num_ready)) {
		ret = read_ready(cq, buf, count);
		if (!ret && ready_has_error(cq))
			ret = -FI_EAVAIL;
	}
	pthread_mutex_unlock(&cq->lock);
	pmv_agent_nudge(cq->domain);
	return ret ? ret : -FI_EAGAIN;
}

static ssize_t cq_readfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src_addr)
{
	ssize_t ret = cq_read(fid, buf, count);

	/* A connected endpoint has one peer: the core gives no address either. */
	for (ssize_t i = 0; src_addr && i < ret; i++)
		src_addr[i] = FI_ADDR_NOTAVAIL;
	return ret;
}

static ssize_t cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *buf, uint64_t flags)
{
	struct pmv_cq *cq = pmv_to_cq(fid);
	uint32_t api_version = cq->domain->fabric->fabric_fid.api_version;
	struct pmv_comp *comp = ready_take(cq, true);

	(void) flags;
	if (!comp)
		return -FI_EAGAIN;
	if (FI_VERSION_GE(api_version, FI_VERSION(1, 5))) {
		size_t room = buf->err_data ? buf->err_data_size : 0;
		void *data = buf->err_data;

		if (room > comp->err.err_data_size)
			room = comp->err.err_data_size;
		if (room)
			memcpy(data, comp->err_data, room);
		/*
		 * Since 1.20 there is a source address behind, for which older
		 * applications have no room; fi_cq_readerr sets it for the others.
		 */
		memcpy(buf, &comp->err, offsetof(struct fi_cq_err_entry, err_data));
		buf->err_data = room ? data : NULL;
		buf->err_data_size = room;
	} else {
		memcpy(buf, &comp->err, offsetof(struct fi_cq_err_entry, err_data_size));
	}
	comp_free(cq, comp);
	return 1;
}

/*
 * must_look -- would the descriptor keep quiet about what is waited for?  Room
 * for posts comes with reading; acknowledgements wake nobody on cores that place
 * data without the processor's help, unless the agent's thread watches.
 */
static bool must_look(struct pmv_cq *cq)
{
	int pending = atomic_load(&cq->pending);

	if (pmv_agent_needs_calls(cq->domain))
		return true;
	if (pending != PMV_PENDING_ACKS)
		return pending == PMV_PENDING_POSTS;
	return !pmv_agent_watch(cq);
}

int pmv_cq_trywait_core(struct pmv_cq *cq)
{
	struct fid *fid = &cq->core_fid->fid;
	int ret;

	/* Some cores move data here, too. */
	pmv_guard_enter();
	ret = fi_trywait(cq->domain->engine.fabric_fid, &fid, 1);
	pmv_guard_leave();
	return ret;
}

int pmv_cq_trywait(struct pmv_cq *cq)
{
	uint64_t raised;
	int ret;

	if (cq->epoll_fd < 0)
		return -FI_EINVAL;
	/* Lowered before the list is looked at: an entry that comes later raises it again. */
	if (read(cq->wake_fd, &raised, sizeof(raised)) < 0 && errno != EAGAIN)
		return -errno;
	atomic_store(&cq->armed, true);
	if (atomic_load(&cq->num_ready) || must_look(cq) ||
	    atomic_load(&cq->signals) != atomic_load(&cq->heeded))
		return -FI_EAGAIN;
	ret = pmv_cq_trywait_core(cq);
	pmv_agent_nudge(cq->domain);
	return ret;
}

/* wait_for_entries -- until there may be some, or left ms are over (-1: never) */
static int wait_for_entries(struct pmv_cq *cq, int64_t left)
{
	struct pollfd fd = {.fd = cq->epoll_fd, .events = POLLIN};
	int timeout = left < 0 || left > INT32_MAX ? -1 : (int) left;
	struct timespec look = {.tv_nsec = LOOK_FOR_ACKS_NS};
	int ret;

	if (must_look(cq)) {
		if (atomic_load(&cq->pending) == PMV_PENDING_POSTS)
			look.tv_nsec = LOOK_FOR_ROOM_NS;
		nanosleep(&look, NULL);
		return 0;
	}
	ret = pmv_cq_trywait(cq);
	if (ret)
		return ret == -FI_EAGAIN ? 0 : ret;
	if (atomic_load(&cq->pending) && (timeout < 0 || timeout > LOSS_POLL_MS))
		timeout = LOSS_POLL_MS;
	return poll(&fd, 1, timeout) >= 0 || errno == EINTR ? 0 : -errno;
}

/*
 * is_signaled -- since the count was `heeded`, also if that was before the call:
 * a signal that nobody was there for is not lost, and it ends all calls that
 * sleep
 */
static bool is_signaled(struct pmv_cq *cq, unsigned heeded)
{
	unsigned signals = atomic_load(&cq->signals);

	if (signals == heeded)
		return false;
	atomic_store(&cq->heeded, signals);
	if (atomic_load(&cq->sleepers) > 1)
		pmv_cq_wake(cq);
	return true;
}

static ssize_t read_or_wait(struct fid_cq *fid, void *buf, size_t count, const void *cond,
			    int timeout)
{
	struct pmv_cq *cq = pmv_to_cq(fid);
	unsigned heeded = atomic_load(&cq->heeded);
	int64_t end = pmv_now_ms() + timeout;
	size_t wanted = 1;
	size_t got = 0;

	if (cq->wait_cond == FI_CQ_COND_THRESHOLD)
		wanted = (size_t) cond < count ? (size_t) cond : count;

	for (;;) {
		char *at = (char *) buf + got * cq->entry_size;
		ssize_t ret = cq_read(fid, at, count - got);
		int64_t left = timeout < 0 ? -1 : end - pmv_now_ms();

		if (ret > 0)
			got += ret;
		else if (ret != -FI_EAGAIN)
			return got ? (ssize_t) got : ret;
		if (got && got >= wanted)
			return got;
		if ((timeout >= 0 && left <= 0) || is_signaled(cq, heeded))
			return got ? (ssize_t) got : -FI_EAGAIN;
		ret = wait_for_entries(cq, left);
		if (ret)
			return got ? (ssize_t) got : ret;
	}
}

static ssize_t cq_sread(struct fid_cq *fid, void *buf, size_t count, const void *cond, int timeout)
{
	struct pmv_cq *cq = pmv_to_cq(fid);
	ssize_t ret;

	if (cq->epoll_fd < 0)
		return -FI_ENOSYS;
	atomic_fetch_add(&cq->sleepers, 1);
	ret = read_or_wait(fid, buf, count, cond, timeout);
	atomic_fetch_sub(&cq->sleepers, 1);
	return ret;
}

static ssize_t cq_sreadfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src_addr,
			    const void *cond, int timeout)
{
	ssize_t ret = cq_sread(fid, buf, count, cond, timeout);

	for (ssize_t i = 0; src_addr && i < ret; i++)
		src_addr[i] = FI_ADDR_NOTAVAIL;
	return ret;
}

static int cq_signal(struct fid_cq *fid)
{
	struct pmv_cq *cq = pmv_to_cq(fid);

	if (cq->epoll_fd < 0)
		return -FI_ENOSYS;
	atomic_fetch_add(&cq->signals, 1);
	pmv_cq_wake(cq);
	return 0;
}

static const char *cq_strerror(struct fid_cq *fid, int prov_errno, const void *err_data, char *buf,
			       size_t len)
{
	return fi_cq_strerror(pmv_to_cq(fid)->core_fid, prov_errno, err_data, buf, len);
}

static struct fi_ops_cq cq_ops = {
	.size = sizeof(struct fi_ops_cq),
	.read = cq_read,
	.readfrom = cq_readfrom,
	.readerr = cq_readerr,
	.sread = cq_sread,
	.sreadfrom = cq_sreadfrom,
	.signal = cq_signal,
	.strerror = cq_strerror,
};

static int cq_getwait(struct pmv_cq *cq, void *arg)
{
	struct fi_wait_pollfd *pollfd = arg;
	size_t room;

	if (cq->epoll_fd < 0)
		return -FI_ENODATA;
	if (cq->wait_obj == FI_WAIT_YIELD)
		return -FI_ENODATA;
	if (cq->wait_obj == FI_WAIT_FD) {
		*(int *) arg = cq->epoll_fd;
		return 0;
	}
	room = pollfd->nfds;
	pollfd->nfds = 1;
	if (!room)
		return -FI_ETOOSMALL;
	pollfd->fd[0] = (struct pollfd){.fd = cq->epoll_fd, .events = POLLIN};
	pollfd->change_index = 0;
	return 0;
}

static int cq_control(struct fid *fid, int command, void *arg)
{
	struct pmv_cq *cq = pmv_container_of(fid, struct pmv_cq, cq_fid.fid);

	switch (command) {
	case FI_GETWAIT:
		return cq_getwait(cq, arg);
	case FI_GETWAITOBJ:
		*(enum fi_wait_obj *) arg = cq->wait_obj;
		return 0;
	default:
		return fi_control(&cq->core_fid->fid, command, arg);
	}
}

static void cq_free(struct pmv_cq *cq)
{
	struct pmv_comp *comp;

	while ((comp = cq->ready)) {
		cq->ready = comp->next;
		comp_free(cq, comp);
	}
	free(cq->spare);
	if (cq->epoll_fd >= 0)
		close(cq->epoll_fd);
	if (cq->wake_fd >= 0)
		close(cq->wake_fd);
	pthread_mutex_destroy(&cq->lock);
	pthread_mutex_destroy(&cq->ready_lock);
	pthread_mutex_destroy(&cq->stall_lock);
	free(cq);
}

static int cq_close(struct fid *fid)
{
	struct pmv_cq *cq = pmv_container_of(fid, struct pmv_cq, cq_fid.fid);
	int ret;

	pmv_agent_leave(cq);
	ret = fi_close(&cq->core_fid->fid);
	if (ret)
		return ret;
	atomic_fetch_sub(&cq->domain->users, 1);
	cq_free(cq);
	return 0;
}

struct fi_ops pmv_cq_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = cq_close,
	.control = cq_control,
};

/* make_waitable -- one descriptor for the core's events and for ours */
static int make_waitable(struct pmv_cq *cq)
{
	struct epoll_event event = {.events = EPOLLIN};
	cq->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	cq->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (cq->wake_fd < 0 || cq->epoll_fd < 0 ||
	    epoll_ctl(cq->epoll_fd, EPOLL_CTL_ADD, cq->wake_fd, &event) ||
	    epoll_ctl(cq->epoll_fd, EPOLL_CTL_ADD, cq->core_fd, &event))
		return -errno;
	return 0;
}

/* Shorter ones are of no use to the RDM layer. */
#define LEAST_RDM_SIZE 1024

/*
 * open_core -- every commit takes several entries of the core's queue, which
 * overruns silently on some; where no such long queue is to be had, the length
 * asked for has to do.  The RDM layer asks for as many peers as there may be in a job
 * (FI_UNIVERSE_SIZE, 256), which is more than some devices have: it gets what
 * there is.
 */
static int open_core(struct pmv_cq *cq, const struct fi_cq_attr *attr)
{
	struct fi_cq_attr core_attr = *attr;
	int ret;

	/* The agent's thread sleeps on it, too, where the core needs calls. */
	core_attr.wait_obj = cq->wait_obj == FI_WAIT_NONE && !cq->domain->engine.core->driven
				     ? FI_WAIT_NONE
				     : FI_WAIT_FD;
	core_attr.wait_cond = FI_CQ_COND_NONE;
	core_attr.format = cq->format;
	core_attr.size = cq->size * PMV_INFO_MAX_REQUESTS;
	ret = fi_cq_open(cq->domain->engine.domain_fid, &core_attr, &cq->core_fid, cq);
	if (!ret)
		return 0;
	core_attr.size = attr->size;
	ret = fi_cq_open(cq->domain->engine.domain_fid, &core_attr, &cq->core_fid, cq);
	/* Devices' limits are powers of two, or one less. */
	while (ret && cq->domain->hooks && core_attr.size > LEAST_RDM_SIZE) {
		core_attr.size = (core_attr.size - 1) / 2;
		ret = fi_cq_open(cq->domain->engine.domain_fid, &core_attr, &cq->core_fid, cq);
	}
	if (!ret && cq->domain->pmem)
		PMV_WARN(CQ,
			 "the core has no CQ of %zu entries: keep at most %zu commits under way on "
			 "this one\n",
			 cq->size * PMV_INFO_MAX_REQUESTS,
			 (core_attr.size ? core_attr.size : cq->size) / PMV_INFO_MAX_REQUESTS);
	return ret;
}

int pmv_cq_open(struct fid_domain *domain_fid, struct fi_cq_attr *attr, struct fid_cq **cq_fid,
		void *context)
{
	static const size_t default_size = 1024;
	struct fi_cq_attr none = {0};
	struct pmv_cq *cq;
	int ret;

	if (!attr)
		attr = &none;
	switch (attr->wait_obj) {
	case FI_WAIT_NONE:
	case FI_WAIT_UNSPEC:
	case FI_WAIT_FD:
	case FI_WAIT_POLLFD:
	case FI_WAIT_YIELD:
		break;
	default:
		return -FI_ENOSYS;
	}

	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return -FI_ENOMEM;
	cq->domain = pmv_to_domain(domain_fid);
	cq->format = attr->format == FI_CQ_FORMAT_UNSPEC ? FI_CQ_FORMAT_CONTEXT : attr->format;
	cq->entry_size = pmv_cq_entry_size(cq->format);
	cq->size = attr->size ? attr->size : default_size;
	cq->wait_obj = attr->wait_obj == FI_WAIT_UNSPEC ? FI_WAIT_FD : attr->wait_obj;
	cq->wait_cond = attr->wait_cond;
	cq->epoll_fd = -1;
	cq->wake_fd = -1;
	cq->core_fd = -1;
	cq->ready_tail = &cq->ready;
	pthread_mutex_init(&cq->lock, NULL);
	pthread_mutex_init(&cq->ready_lock, NULL);
	pthread_mutex_init(&cq->stall_lock, NULL);

	ret = open_core(cq, attr);
	if (ret) {
		cq_free(cq);
		return ret;
	}
	if (cq->wait_obj != FI_WAIT_NONE || cq->domain->engine.core->driven)
		ret = fi_control(&cq->core_fid->fid, FI_GETWAIT, &cq->core_fd);
	if (!ret && cq->wait_obj != FI_WAIT_NONE)
		ret = make_waitable(cq);
	if (ret) {
		fi_close(&cq->core_fid->fid);
		cq_free(cq);
		return ret;
	}
	cq->cq_fid = (struct fid_cq){
		.fid = {.fclass = FI_CLASS_CQ, .context = context, .ops = &pmv_cq_fi_ops},
		.ops = &cq_ops,
	};
	atomic_fetch_add(&cq->domain->users, 1);
	*cq_fid = &cq->cq_fid;
	return 0;
}
