/* SPDX-License-Identifier: BSD-2-Clause */
/* cq.c -- completion queues: the application's calls; progress/queue.h says how entries flow */
#include "objects/cq.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rdma/fi_errno.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/container.h"
#include "engine/info.h"
#include "base/log.h"
#include "objects/unwrap.h"
#include "progress/op.h"

/* How long to sleep between two looks where nothing wakes who waits. */
#define LOOK_FOR_ROOM_NS 1000000
#define LOOK_FOR_ACKS_NS 50000

/*
 * Whoever waits looks for so long before it sleeps: often what it waits for comes before a sleep
 * would have begun and ended.  Measured over tcp, on two processors, with 12,500 commits of 64
 * bytes by the agent: with the look 19 us for a commit, and 0.85 s of the initiator's processor
 * time, without it 34 us and 0.99 s; with a look of 10 us, 27 us and 0.82 s.
 *
 * A look in vain takes the processor from others.  So after one the next waits do without: 1, then
 * 3, 7, and so on up to the second number.  Waits for acknowledgements are counted apart: others
 * may be long.
 */
#define LOOK_BEFORE_SLEEP_NS 40000
#define MOST_SKIPS 255

/*
 * In tcp of libfabric 1.17, as long as a message finds no receive, fi_trywait says that there is
 * work, or the core's descriptor is ready.  Whoever sleeps would look without pause.  So behind
 * PMV_IDLE_MOST_PATIENCE looks in vain, if there still is work, it sleeps until something new
 * comes: for 1 ms at most, then behind half as many looks for twice as long, up to this.
 */
#define LONGEST_NAP_MS 10

/* While acknowledgements are missing somebody has to find out that none will come. */
#define LOSS_POLL_MS (PMV_IDLE_LOSS_NS / 1000000)

/* The application's calls */

__attribute__((noinline)) static ssize_t serve_and_read(struct pmv_cq *cq, void *buf, size_t count)
{
	struct pmv_agent *agent = &cq->domain->agent;
	ssize_t ret;

	pmv_agent_progress(agent);
	ret = pmv_queue_read(&cq->queue, buf, count);
	pmv_agent_nudge(agent);
	if (ret == -FI_EAGAIN)
		pmv_agent_has_read(agent, &cq->queue);
	return ret;
}

static ssize_t cq_read(struct fid_cq *fid, void *buf, size_t count)
{
	struct pmv_cq *cq = pmv_to_cq(fid);

	if (pmv_agent_has_use_for_calls(&cq->domain->agent))
		return serve_and_read(cq, buf, count);
	return pmv_queue_read(&cq->queue, buf, count);
}

/* no_source -- a connected endpoint has one peer: the core gives no address either */
static ssize_t no_source(fi_addr_t *src_addr, ssize_t count)
{
	for (ssize_t i = 0; src_addr && i < count; i++)
		src_addr[i] = FI_ADDR_NOTAVAIL;
	return count;
}

static ssize_t cq_readfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src_addr)
{
	return no_source(src_addr, cq_read(fid, buf, count));
}

static ssize_t cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *buf, uint64_t flags)
{
	struct pmv_cq *cq = pmv_to_cq(fid);
	uint32_t api_version = cq->domain->fabric->fabric_fid.api_version;
	struct pmv_comp *comp = pmv_queue_take(&cq->queue, true);

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
	pmv_queue_free(&cq->queue, comp);
	return 1;
}

/*
 * must_look -- would the descriptor keep quiet about what is waited for?  Room for
 * posts comes with reading.  Acknowledgements wake nobody on cores that place data
 * without the processor's help, unless the agent's thread watches.
 */
static bool must_look(struct pmv_cq *cq)
{
	struct pmv_agent *agent = &cq->domain->agent;
	enum pmv_pending pending = pmv_queue_pending(&cq->queue);

	if (pmv_agent_needs_calls(agent))
		return true;
	if (pending != PMV_PENDING_ACKS)
		return pending == PMV_PENDING_POSTS;
	return !pmv_agent_watch(agent, &cq->queue);
}

/*
 * may_sleep -- 0: the descriptor is told of all that comes from now on; *works: if not, it is the
 * core that has work
 */
static int may_sleep(struct pmv_cq *cq, bool *works)
{
	int ret;

	*works = false;
	if (cq->queue.epoll_fd < 0)
		return -FI_EINVAL;
	ret = pmv_queue_arm(&cq->queue);
	if (ret)
		return ret;
	if (atomic_load(&cq->queue.num_ready)) {
		/* Others may sleep, too: this has taken what told them of an entry. */
		pmv_queue_wake(&cq->queue);
		return -FI_EAGAIN;
	}
	if (must_look(cq) || atomic_load(&cq->signals) != atomic_load(&cq->heeded))
		return -FI_EAGAIN;
	/* If the queue is attended the agent's thread reads it, and the core is not asked. */
	ret = atomic_load(&cq->queue.attended) ? 0 : pmv_queue_trywait(&cq->queue);
	*works = ret == -FI_EAGAIN;
	pmv_agent_nudge(&cq->domain->agent);
	return ret;
}

int pmv_cq_trywait(struct pmv_cq *cq)
{
	bool works;
	int ret = may_sleep(cq, &works);

	if (!ret && pmv_queue_may_have_room(&cq->queue)) {
		/* Others may have been refused, too: this call took what told them. */
		pmv_queue_wake(&cq->queue);
		return -FI_EAGAIN;
	}
	if (!ret)
		pmv_agent_has_left(&cq->domain->agent, &cq->queue);
	return ret;
}

/* looks_uselessly -- so often that the next look can wait */
static bool looks_uselessly(struct pmv_cq *cq)
{
	return atomic_load(&cq->useless_looks) >= atomic_load(&cq->patience);
}

/*
 * await_event -- as poll(2); works: the core has said that there is work, so the descriptor alone
 * must not be waited for, whatever other threads have read meanwhile
 */
static int await_event(struct pmv_cq *cq, bool works, int timeout)
{
	struct pollfd fd = {.fd = cq->queue.epoll_fd, .events = POLLIN};
	unsigned int patience = atomic_load(&cq->patience);
	int ret, nap = (int) (PMV_IDLE_MOST_PATIENCE / patience);

	if (!works && !looks_uselessly(cq))
		return poll(&fd, 1, timeout);
	atomic_store(&cq->useless_looks, 0);
	if (!works && !poll(&fd, 1, 0)) {
		atomic_store(&cq->patience, PMV_IDLE_MOST_PATIENCE);
		return poll(&fd, 1, timeout);
	}
	if (nap > LONGEST_NAP_MS)
		nap = LONGEST_NAP_MS;
	ret = pmv_queue_await_news(&cq->queue, timeout < 0 || timeout > nap ? nap : timeout);
	/* Where news end the naps, data arrive, and many looks may be needed to move them. */
	if (!ret && patience > PMV_IDLE_LEAST_PATIENCE)
		atomic_store(&cq->patience, patience / 2);
	return ret;
}

/* count_look -- what it has found: entries, or an error */
static void count_look(struct pmv_cq *cq, ssize_t ret)
{
	if (ret > 0)
		atomic_store_explicit(&cq->useless_looks, 0, memory_order_relaxed);
	else if (cq->queue.engine->core->manual_progress)
		atomic_fetch_add_explicit(&cq->useless_looks, 1, memory_order_relaxed);
}

/* How a call waits. */
struct wait {
	const void *cond;
	int timeout;
	int cancel; /* whether the thread may be cancelled in its sleep */
	bool works; /* the core has told this call of what is there, and so nobody else */
};

/* wait_for_entries -- or until left ms are over (-1: never); 1: something has come */
static int wait_for_entries(struct pmv_cq *cq, int64_t left, struct wait *wait)
{
	int timeout = left < 0 || left > INT32_MAX ? -1 : (int) left;
	struct timespec look = {.tv_nsec = LOOK_FOR_ACKS_NS};
	bool works;
	int ret;

	if (must_look(cq)) {
		if (pmv_queue_pending(&cq->queue) == PMV_PENDING_POSTS)
			look.tv_nsec = LOOK_FOR_ROOM_NS;
		pmv_cancel_restore(wait->cancel);
		nanosleep(&look, NULL);
		pmv_cancel_off();
		return 0;
	}
	ret = may_sleep(cq, &works);
	wait->works |= works;
	if (ret && !(works && looks_uselessly(cq)))
		return ret == -FI_EAGAIN ? 0 : ret;
	if (pmv_queue_pending(&cq->queue) && (timeout < 0 || timeout > LOSS_POLL_MS))
		timeout = LOSS_POLL_MS;
	pmv_cancel_restore(wait->cancel);
	ret = await_event(cq, works, timeout);
	pmv_cancel_off();
	return ret >= 0 ? ret : errno == EINTR ? 0 : -errno;
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
	if (atomic_load(&cq->queue.sleepers) > 1)
		pmv_queue_wake(&cq->queue);
	return true;
}

struct look {
	int64_t until_ns; /* 0: it has not begun */
	bool on;
	struct pmv_looked *before_sleep; /* NULL: it is for more of what this call has moved */
};

static bool sleeps_alone(struct pmv_cq *cq)
{
	return atomic_load(&cq->queue.sleepers) == 1;
}

static void begin_look(struct pmv_cq *cq, struct look *look)
{
	struct pmv_looked *looked = &cq->looked[pmv_queue_pending(&cq->queue) == PMV_PENDING_ACKS];
	unsigned skips_left = atomic_load(&looked->skips_left);

	look->before_sleep = looked;
	look->until_ns = pmv_clock_ns() + LOOK_BEFORE_SLEEP_NS;
	look->on = !skips_left && sleeps_alone(cq);
	if (skips_left)
		atomic_store(&looked->skips_left, skips_left - 1);
}

/* skip_next_looks -- the last one was in vain */
static void skip_next_looks(struct pmv_looked *looked)
{
	unsigned skips = atomic_load(&looked->skips);

	skips = skips < MOST_SKIPS ? 2 * skips + 1 : MOST_SKIPS;
	atomic_store(&looked->skips, skips);
	atomic_store(&looked->skips_left, skips);
}

/*
 * look_on -- something has come, and was no entry, nor the answer that is waited for: over a core
 * that moves data in calls it may have been a peer's one-sided operation, and this thread serves
 * those while the agent's leaves them to it
 */
static void look_on(struct pmv_cq *cq, struct look *look)
{
	if (!cq->queue.engine->core->manual_progress || pmv_queue_pending(&cq->queue) ||
	    !sleeps_alone(cq))
		return;
	*look = (struct look){.until_ns = pmv_clock_ns() + PMV_IDLE_LEAST_TRAFFIC_NS, .on = true};
}

/* goes_on_looking -- instead of sleeping */
static bool goes_on_looking(struct pmv_cq *cq, struct look *look)
{
	if (!look->until_ns)
		begin_look(cq, look);
	if (!look->on || pmv_clock_ns() < look->until_ns)
		return look->on;
	look->on = false;
	if (look->before_sleep)
		skip_next_looks(look->before_sleep);
	return false;
}

static ssize_t read_or_wait(struct fid_cq *fid, void *buf, size_t count, struct wait *wait)
{
	struct pmv_cq *cq = pmv_to_cq(fid);
	unsigned heeded = atomic_load(&cq->heeded);
	int64_t end = pmv_clock_ms() + wait->timeout;
	struct look look = {.until_ns = 0};
	size_t wanted = 1;
	size_t got = 0;

	if (cq->wait_cond == FI_CQ_COND_THRESHOLD)
		wanted = (size_t) wait->cond < count ? (size_t) wait->cond : count;

	for (;;) {
		char *at = (char *) buf + got * cq->queue.entry_size;
		ssize_t ret = cq_read(fid, at, count - got);
		int64_t left = wait->timeout < 0 ? -1 : end - pmv_clock_ms();

		count_look(cq, ret);
		if (ret > 0)
			got += ret;
		else if (ret != -FI_EAGAIN)
			return got ? (ssize_t) got : ret;
		if (got && got >= wanted) {
			if (look.on && look.before_sleep)
				atomic_store(&look.before_sleep->skips, 0);
			return got;
		}
		if ((wait->timeout >= 0 && left <= 0) || is_signaled(cq, heeded))
			return got ? (ssize_t) got : -FI_EAGAIN;
		if (goes_on_looking(cq, &look))
			continue;
		ret = wait_for_entries(cq, left, wait);
		if (ret < 0)
			return got ? (ssize_t) got : ret;
		if (ret)
			look_on(cq, &look);
	}
}

/* leave -- the call ends, or its thread is cancelled */
static void leave(void *arg)
{
	struct pmv_cq *cq = arg;

	if (atomic_fetch_sub(&cq->queue.sleepers, 1) == 1)
		pmv_agent_has_left(&cq->domain->agent, &cq->queue);
}

static ssize_t cq_sread(struct fid_cq *fid, void *buf, size_t count, const void *cond, int timeout)
{
	struct pmv_cq *cq = pmv_to_cq(fid);
	struct wait wait = {.cond = cond, .timeout = timeout};
	ssize_t ret;

	if (cq->queue.epoll_fd < 0)
		return -FI_ENOSYS;
	wait.cancel = pmv_cancel_off();
	atomic_fetch_add(&cq->queue.sleepers, 1);
	pthread_cleanup_push(leave, cq);
	ret = read_or_wait(fid, buf, count, &wait);
	pthread_cleanup_pop(1);
	/* What is left is for others that sleep. */
	if (wait.works && ret != -FI_EAGAIN && atomic_load(&cq->queue.sleepers))
		pmv_queue_wake(&cq->queue);
	pmv_cancel_restore(wait.cancel);
	return ret;
}

static ssize_t cq_sreadfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src_addr,
			    const void *cond, int timeout)
{
	return no_source(src_addr, cq_sread(fid, buf, count, cond, timeout));
}

static int cq_signal(struct fid_cq *fid)
{
	struct pmv_cq *cq = pmv_to_cq(fid);

	if (cq->queue.epoll_fd < 0)
		return -FI_ENOSYS;
	atomic_fetch_add(&cq->signals, 1);
	pmv_queue_wake(&cq->queue);
	return 0;
}

static const char *cq_strerror(struct fid_cq *fid, int prov_errno, const void *err_data, char *buf,
			       size_t len)
{
	return fi_cq_strerror(pmv_to_cq(fid)->queue.core_fid, prov_errno, err_data, buf, len);
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

	if (cq->queue.epoll_fd < 0 || cq->wait_obj == FI_WAIT_YIELD)
		return -FI_ENODATA;
	if (cq->wait_obj == FI_WAIT_FD) {
		*(int *) arg = cq->queue.epoll_fd;
		return 0;
	}
	room = pollfd->nfds;
	pollfd->nfds = 1;
	if (!room)
		return -FI_ETOOSMALL;
	pollfd->fd[0] = (struct pollfd){.fd = cq->queue.epoll_fd, .events = POLLIN};
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
		return pmv_unwrap_control(fid, command, arg);
	}
}

static int cq_close(struct fid *fid)
{
	struct pmv_cq *cq = pmv_container_of(fid, struct pmv_cq, cq_fid.fid);
	int ret;

	pmv_agent_leave(&cq->domain->agent, &cq->queue);
	ret = fi_close(&cq->queue.core_fid->fid);
	if (ret) {
		pmv_agent_join(&cq->domain->agent, &cq->queue);
		return ret;
	}
	pmv_queue_close(&cq->queue);
	atomic_fetch_sub(&cq->domain->users, 1);
	free(cq->closed_ep);
	free(cq);
	return 0;
}

struct fi_ops pmv_cq_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = cq_close,
	.control = cq_control,
};

/* The smallest queue that a layer above can work with. */
#define LEAST_LAYER_SIZE 1024

/*
 * open_core -- every commit takes several entries of the core's queue, which overruns
 * silently on some cores.  Where the core has no queue that long, the length that was
 * asked for has to do.  A layer between the application and this domain asks for more
 * than it needs, and more than some devices have: it gets what there is.
 */
static int open_core(struct pmv_cq *cq, const struct fi_cq_attr *attr, size_t size,
		     struct fid_cq **core_fid)
{
	struct pmv_domain *domain = cq->domain;
	struct fi_cq_attr core_attr = *attr;
	int ret;

	/* The agent's thread sleeps on it, too, where the core needs calls. */
	core_attr.wait_obj = cq->wait_obj == FI_WAIT_NONE && !domain->engine.core->manual_progress
				     ? FI_WAIT_NONE
				     : FI_WAIT_FD;
	core_attr.wait_cond = FI_CQ_COND_NONE;
	core_attr.format = cq->format;
	core_attr.size = size * PMV_INFO_MAX_REQUESTS;
	ret = fi_cq_open(domain->engine.domain_fid, &core_attr, core_fid, cq);
	if (!ret)
		return 0;
	core_attr.size = attr->size;
	ret = fi_cq_open(domain->engine.domain_fid, &core_attr, core_fid, cq);
	/* Devices' limits are powers of two, or one less. */
	while (ret && domain->hooks && core_attr.size > LEAST_LAYER_SIZE) {
		core_attr.size = (core_attr.size - 1) / 2;
		ret = fi_cq_open(domain->engine.domain_fid, &core_attr, core_fid, cq);
	}
	if (!ret && domain->pmem)
		PMV_WARN(CQ,
			 "the core has no CQ of %zu entries: keep at most %zu commits under way on "
			 "this one\n",
			 size * PMV_INFO_MAX_REQUESTS,
			 (core_attr.size ? core_attr.size : size) / PMV_INFO_MAX_REQUESTS);
	return ret;
}

/* kick -- there is room in the queue that the agent waited for */
static void kick(void *arg)
{
	pmv_agent_kick(arg);
}

static int open_queue(struct pmv_cq *cq, const struct fi_cq_attr *attr)
{
	static const size_t default_size = 1024;
	struct pmv_domain *domain = cq->domain;
	struct pmv_queue *queue = &cq->queue;
	int ret;

	*queue = (struct pmv_queue){
		.engine = &domain->engine,
		.pool = &domain->ops,
		.entry_size = pmv_queue_entry_size(cq->format),
		.size = attr->size ? attr->size : default_size,
		.contexts = domain->hooks,
		.has_room = kick,
		.has_room_arg = &domain->agent,
	};
	ret = open_core(cq, attr, queue->size, &queue->core_fid);
	if (ret)
		return ret;
	ret = pmv_queue_open(queue,
			     cq->wait_obj != FI_WAIT_NONE || domain->engine.core->manual_progress,
			     cq->wait_obj != FI_WAIT_NONE);
	if (ret)
		fi_close(&queue->core_fid->fid);
	return ret;
}

int pmv_cq_open(struct fid_domain *domain_fid, struct fi_cq_attr *attr, struct fid_cq **cq_fid,
		void *context)
{
	struct fi_cq_attr none = {0};
	struct pmv_cq *cq;
	int ret;

	if (!attr)
		attr = &none;
	if (attr->wait_obj == FI_WAIT_SET || attr->wait_obj == FI_WAIT_MUTEX_COND ||
	    attr->wait_obj > FI_WAIT_POLLFD)
		return -FI_ENOSYS;
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return -FI_ENOMEM;
	cq->domain = pmv_to_domain(domain_fid);
	cq->format = attr->format == FI_CQ_FORMAT_UNSPEC ? FI_CQ_FORMAT_CONTEXT : attr->format;
	cq->wait_obj = attr->wait_obj == FI_WAIT_UNSPEC ? FI_WAIT_FD : attr->wait_obj;
	cq->wait_cond = attr->wait_cond;
	atomic_init(&cq->patience, PMV_IDLE_MOST_PATIENCE);
	ret = open_queue(cq, attr);
	if (ret) {
		free(cq);
		return ret;
	}
	cq->cq_fid = (struct fid_cq){
		.fid = {.fclass = FI_CLASS_CQ, .context = context, .ops = &pmv_cq_fi_ops},
		.ops = &cq_ops,
	};
	pmv_agent_join(&cq->domain->agent, &cq->queue);
	atomic_fetch_add(&cq->domain->users, 1);
	*cq_fid = &cq->cq_fid;
	return 0;
}
