/* SPDX-License-Identifier: BSD-2-Clause */
/* agent.c -- the target's side of a commit; agent.h has the rules */
#include <errno.h>
#include <numa.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "clock.h"
#include "ep.h"
#include "flush.h"
#include "guard.h"
#include "prov.h"

#define BATCH_MESSAGES 64
/* Hardly anybody receives in more regions. */
#define MAX_RECEIVED 8

/* One message on its way from the mailbox to its acknowledgement. */
struct served {
	struct pmv_link *link;
	struct pmv_message message;
	enum pmv_fault fault;
	struct pmv_region *regions[PMV_MAX_RANGES]; /* held until the batch ends */
	struct pmv_region *received[MAX_RECEIVED];  /* where messages were; the batch holds them */
	unsigned int num_received;                  /* more than that: in some of the batch's */
	uint8_t copy[PMV_MESSAGE_SIZE];
};

struct pmv_batch {
	struct served served[BATCH_MESSAGES];
	unsigned int count;
	struct pmv_region *pending; /* with pages to sync */
	struct pmv_region *held;    /* in which messages were received */
	bool undrained;
	bool touch; /* pages that a device wrote */
};

static struct pmv_ep *ep_of(struct pmv_link *link)
{
	return pmv_container_of(link, struct pmv_ep, link);
}

/* Making ranges durable */

static void note_pages(struct pmv_batch *batch, struct pmv_region *region, uint64_t offset,
		       uint64_t len)
{
	/* Those named and no others: between them may lie gigabytes. */
	if (batch->touch)
		pmv_region_touch(region, offset, len);
	if (!region->pending) {
		region->pending = true;
		region->sync_start = offset;
		region->sync_end = offset + len;
		region->next_pending = batch->pending;
		batch->pending = region;
		return;
	}
	if (offset < region->sync_start)
		region->sync_start = offset;
	if (offset + len > region->sync_end)
		region->sync_end = offset + len;
}

static void flush_lines(struct pmv_region *region, uint64_t offset, uint64_t len)
{
	while (len) {
		uint64_t piece = len;
		void *at = pmv_region_piece(region, offset, &piece);

		pmv_flush->flush(at, piece);
		offset += piece;
		len -= piece;
	}
}

static void flush_range(struct pmv_batch *batch, struct pmv_region *region, uint64_t offset,
			uint64_t len)
{
	if (!len)
		return;
	if (region->persist == PMV_PAGE)
		note_pages(batch, region, offset, len);
	else if (region->persist == PMV_DMP)
		flush_lines(region, offset, len);
	/* Caches that persist need no flush, but the stores have to be in them. */
	batch->undrained = true;
}

/* settle -- all that was flushed so far is durable when this returns */
static void settle(struct pmv_batch *batch)
{
	struct pmv_region *region;

	while ((region = batch->pending)) {
		batch->pending = region->next_pending;
		region->pending = false;
		pmv_region_sync(region, region->sync_start, region->sync_end - region->sync_start);
	}
	if (batch->undrained)
		pmv_flush->drain();
	batch->undrained = false;
}

static void store_data(struct pmv_region *region, uint64_t offset, uint64_t len, const char *data)
{
	while (len) {
		uint64_t piece = len;
		void *at = pmv_region_piece(region, offset, &piece);

		if (region->persist == PMV_PAGE)
			memcpy(at, data, piece);
		else
			pmv_flush->store(at, data, piece);
		data += piece;
		offset += piece;
		len -= piece;
	}
}

/* Messages */

/* lost_messages -- is a region lost that messages were received in, or may have been? */
static bool lost_messages(const struct pmv_batch *batch, const struct served *served)
{
	if (served->num_received > MAX_RECEIVED) {
		for (struct pmv_region *region = batch->held; region; region = region->next_held) {
			if (pmv_region_is_lost(region))
				return true;
		}
		return false;
	}
	for (unsigned int i = 0; i < served->num_received; i++) {
		if (pmv_region_is_lost(served->received[i]))
			return true;
	}
	return false;
}

static bool has_failed(const struct pmv_batch *batch, const struct served *served)
{
	if (served->fault || lost_messages(batch, served))
		return true;
	for (unsigned int i = 0; i < served->message.count; i++) {
		if (served->regions[i] && pmv_region_is_lost(served->regions[i]))
			return true;
	}
	return false;
}

/*
 * may_store -- is all that the data are to follow durable?  The sender takes that
 * from it having had the acknowledgements before; those of this batch it has not.
 */
static bool may_store(const struct pmv_batch *batch, const struct served *served)
{
	const struct pmv_link *link = served->link;

	if (link->faulted && (int32_t) (served->message.seen - (uint32_t) link->faulted) < 0)
		return false;
	for (const struct served *before = batch->served; before <= served; before++) {
		if (before->link == link && has_failed(batch, before))
			return false;
	}
	return true;
}

/* What the parts of received messages are flushed for. */
struct flushing {
	struct pmv_agent *agent;
	struct pmv_batch *batch;
	struct served *served;
};

static void note_received(struct served *served, struct pmv_region *region)
{
	for (unsigned int i = 0; i < served->num_received && i < MAX_RECEIVED; i++) {
		if (served->received[i] == region)
			return;
	}
	if (served->num_received < MAX_RECEIVED)
		served->received[served->num_received] = region;
	if (served->num_received <= MAX_RECEIVED)
		served->num_received++;
}

static void flush_span(void *arg, const struct pmv_span *part)
{
	const struct flushing *flushing = arg;
	struct served *served = flushing->served;
	struct pmv_region *region = part->region;

	if (region->held) {
		pmv_region_put(&flushing->agent->regions, region);
	} else {
		region->held = true;
		region->next_held = flushing->batch->held;
		flushing->batch->held = region;
	}
	note_received(served, region);
	flush_range(flushing->batch, region, part->offset, part->len);
}

static void release_held(struct pmv_agent *agent, struct pmv_batch *batch)
{
	struct pmv_region *region;

	while ((region = batch->held)) {
		batch->held = region->next_held;
		region->held = false;
		pmv_region_put(&agent->regions, region);
	}
}

/* flush_messages -- wherever the first messages of the connection were received */
static enum pmv_fault flush_messages(struct pmv_agent *agent, struct pmv_batch *batch,
				     struct served *served)
{
	struct pmv_ep *ep = ep_of(served->link);
	struct flushing flushing = {agent, batch, served};

	if (pmv_ep_direct(ep, PMV_CARE_RECEIVES))
		return PMV_FAULT_MESSAGE;
	return pmv_receives_serve(&ep->receives, &agent->regions, served->message.data, flush_span,
				  &flushing);
}

/*
 * carry_out -- up to the point where only settling is missing.  A range that is
 * none does not keep the others of the message from being flushed: a later
 * commit relies on that they were.  Data is not stored after a fault, since what
 * was to be durable before it is not.
 */
static void carry_out(struct pmv_agent *agent, struct pmv_batch *batch, struct served *served)
{
	struct pmv_message *message = &served->message;
	unsigned int flushed = message->count - (message->store ? 1 : 0);
	uint64_t offset = 0;

	if (served->fault)
		return;
	if (message->messages)
		served->fault = flush_messages(agent, batch, served);
	for (unsigned int i = 0; i < message->count; i++) {
		const struct pmv_range *range = &message->ranges[i];

		served->regions[i] = pmv_region_get(&agent->regions, range->key, range->addr,
						    range->len, &offset);
		if (!served->regions[i])
			served->fault = PMV_FAULT_ACCESS;
		else if (i < flushed)
			flush_range(batch, served->regions[i], offset, range->len);
	}
	if (!message->store || served->fault)
		return;
	settle(batch);
	if (!may_store(batch, served)) {
		served->fault = PMV_FAULT_IO;
		return;
	}
	/* The last range's offset is what the loop has left. */
	store_data(served->regions[flushed], offset, message->ranges[flushed].len,
		   message->payload);
	flush_range(batch, served->regions[flushed], offset, message->ranges[flushed].len);
}

/* notify -- the application's completion, now that all of it is durable */
static void notify(struct pmv_ep *ep, uint64_t data)
{
	struct pmv_comp *comp;

	if (!ep->rx_cq || ep->rx_cq == ep->own_cq)
		return;
	comp = calloc(1, sizeof(*comp));
	if (!comp) {
		PMV_WARN(CQ, "no memory for a completion: a notice is lost\n");
		return;
	}
	comp->ok = (struct fi_cq_tagged_entry){
		.flags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA,
		.data = data,
	};
	pmv_cq_add(ep->rx_cq, comp);
}

static void warn_of_fault(struct pmv_link *link, const struct served *served)
{
	if (!served->fault || served->fault == PMV_FAULT_IO || link->warned)
		return;
	link->warned = true;
	PMV_WARN(EP_DATA, "a peer's commit is refused, %s; more of this connection are not shown\n",
		 served->fault == PMV_FAULT_MESSAGE ? "it makes no sense"
		 : served->message.messages
			 ? "a buffer of its messages is not registered with FI_PMEM any more, or "
			   "there was no memory to know where they are"
			 : "it names memory that is not registered, or beyond its end");
}

static void finish(struct pmv_agent *agent, const struct pmv_batch *batch, struct served *served)
{
	struct pmv_message *message = &served->message;

	if (!served->fault && has_failed(batch, served))
		served->fault = PMV_FAULT_IO;
	if (served->fault)
		served->link->faulted = message->number;
	for (unsigned int i = 0; i < message->count; i++) {
		if (served->regions[i])
			pmv_region_put(&agent->regions, served->regions[i]);
	}
	warn_of_fault(served->link, served);
	if (message->notify && !served->fault)
		notify(ep_of(served->link), message->data);
	pmv_link_owe(served->link, message->number, served->fault);
}

/* has_room -- for notices; without it the peer has to wait for the application */
static bool has_room(struct pmv_link *link)
{
	struct pmv_cq *cq = ep_of(link)->rx_cq;

	return !cq || atomic_load(&cq->num_ready) < cq->size;
}

/* collect -- of one peer a quarter of the batch at the most */
static void collect(struct pmv_batch *batch, struct pmv_link *link)
{
	unsigned int room = BATCH_MESSAGES / 4;

	while (room-- && batch->count < BATCH_MESSAGES && pmv_link_has_message(link)) {
		struct served *served = &batch->served[batch->count];
		enum pmv_arrival arrival =
			pmv_link_take_message(link, served->copy, &served->message);

		if (arrival == PMV_NOT_YET)
			return;
		if (arrival == PMV_ARRIVED && served->message.notify && !has_room(link)) {
			pmv_link_put_back(link);
			return;
		}
		served->link = link;
		served->fault = PMV_FAULT_NONE;
		served->num_received = 0;
		memset(served->regions, 0, sizeof(served->regions));
		if (arrival == PMV_MALFORMED) {
			served->message = (struct pmv_message){.number = link->served};
			served->fault = PMV_FAULT_MESSAGE;
		}
		batch->count++;
	}
}

/* progress_core -- some cores move data in calls only; and what was posted has to be reaped */
static void progress_core(struct pmv_ep *ep)
{
	if (ep->tx_cq)
		pmv_cq_progress(ep->tx_cq);
	if (ep->rx_cq && ep->rx_cq != ep->tx_cq)
		pmv_cq_progress(ep->rx_cq);
}

/*
 * is_new -- once in each round.  Endpoints share CQs, and a core may look at all
 * endpoints of a CQ whenever it is read: by endpoint that would be their number squared.
 */
static bool is_new(struct pmv_cq *cq)
{
	if (!cq || cq->agent_saw)
		return false;
	cq->agent_saw = true;
	return true;
}

/* forget_round -- for each endpoint, before a round */
static void forget_round(struct pmv_ep *ep)
{
	if (ep->tx_cq)
		ep->tx_cq->agent_saw = false;
	if (ep->rx_cq)
		ep->rx_cq->agent_saw = false;
}

static void begin_round(struct pmv_agent *agent)
{
	for (struct pmv_link *link = agent->links; link; link = link->next)
		forget_round(ep_of(link));
}

/* progress_core_once -- what this round has not done yet of it */
static void progress_core_once(struct pmv_ep *ep)
{
	if (is_new(ep->tx_cq))
		pmv_cq_progress(ep->tx_cq);
	if (is_new(ep->rx_cq))
		pmv_cq_progress(ep->rx_cq);
}

static void pay(struct pmv_link *link)
{
	ssize_t ret = pmv_link_pay(ep_of(link));

	if (ret == -FI_EAGAIN) {
		progress_core(ep_of(link));
		ret = pmv_link_pay(ep_of(link));
	}
	/* The connection is lost: its peer hears that from the core. */
	if (ret && ret != -FI_EAGAIN)
		link->num_owed = 0;
}

/* rotate -- the first becomes the last, so that none is always the first */
static void rotate(struct pmv_agent *agent)
{
	struct pmv_link *first = agent->links;

	if (!first || !first->next)
		return;
	agent->links = first->next;
	first->next = NULL;
	*agent->links_tail = first;
	agent->links_tail = &first->next;
}

/* serve -- one batch; true: there was something to do.  Holds the agent's lock. */
static bool serve(struct pmv_domain *domain)
{
	struct pmv_agent *agent = &domain->agent;
	struct pmv_batch *batch = agent->batch;
	bool busy;

	pmv_guard_enter();
	batch->count = 0;
	if (domain->fabric->core->driven)
		begin_round(agent);
	for (struct pmv_link *link = agent->links; link; link = link->next) {
		if (domain->fabric->core->driven)
			progress_core_once(ep_of(link));
		if (link->num_owed)
			pay(link);
		/* What is owed comes first, which bounds what one peer may ask for. */
		if (!link->num_owed)
			collect(batch, link);
	}
	rotate(agent);
	busy = batch->count;
	for (unsigned int i = 0; i < batch->count; i++)
		carry_out(agent, batch, &batch->served[i]);
	settle(batch);
	for (unsigned int i = 0; i < batch->count; i++)
		finish(agent, batch, &batch->served[i]);
	release_held(agent, batch);
	for (unsigned int i = 0; i < batch->count; i++) {
		/* Once for each link. */
		if (batch->served[i].link->num_owed)
			pay(batch->served[i].link);
		forget_round(ep_of(batch->served[i].link));
	}
	for (unsigned int i = 0; i < batch->count; i++)
		progress_core_once(ep_of(batch->served[i].link));
	pmv_guard_leave();
	return busy;
}

void pmv_agent_progress(struct pmv_domain *domain)
{
	struct pmv_agent *agent = &domain->agent;

	if (pmv_setting.agent != PMV_AGENT_PROGRESS || pthread_mutex_trylock(&agent->lock))
		return;
	serve(domain);
	pthread_mutex_unlock(&agent->lock);
}

/* The thread */

/* After the last message it looks on for so long without sleeping ... */
#define SPIN_NS 50000
/* ... then sleeps for longer and longer, but never so long that a commit takes a millisecond. */
#define LEAST_SLEEP_NS 20000
#define LONGEST_SLEEP_NS 700000
/*
 * Where all memory can be flushed from afar, peers may ask for what was received,
 * or because they say themselves that the path reorders.  Hardly any does: only
 * the first one that asks waits for so long, and the others have their processor.
 */
#define DOZE_NS 20000000
/* How often those who wait for acknowledgements look whether the peer is still there. */
#define LOSS_WAKE_NS 200000000
/* Not longer where the core's descriptors wake it up: a thread of the core's may move data. */
#define EVENT_SLEEP_NS 10000000

static void kick(struct pmv_agent *agent)
{
	const uint64_t one = 1;

	if (atomic_load(&agent->asleep) && write(agent->kick_fd, &one, sizeof(one)) < 0)
		return;
}

/*
 * wake_sleepers -- those who wait for acknowledgements that have arrived, and now
 * and then all, to find out whether any will; holds the lock
 */
static bool wake_sleepers(struct pmv_agent *agent)
{
	bool watching = false, watched = false;
	int64_t now;
	bool all;

	/* Most targets wait for none, and may have many links. */
	if (!atomic_exchange(&agent->watched, false))
		return false;
	now = pmv_now_ns();
	all = now - agent->woke_ns > LOSS_WAKE_NS;
	if (all)
		agent->woke_ns = now;

	for (struct pmv_link *link = agent->links; link; link = link->next) {
		struct pmv_ep *ep = ep_of(link);

		if (!ep->tx_cq || !atomic_load(&ep->tx_cq->watched))
			continue;
		watched = true;
		if (!atomic_load(&ep->unacked))
			continue;
		watching = true;
		if ((all || pmv_link_has_ack(link)) && atomic_exchange(&ep->tx_cq->watched, false))
			pmv_cq_wake(ep->tx_cq);
	}
	if (watched)
		atomic_store(&agent->watched, true);
	return watching;
}

static bool add_fd(struct pmv_agent *agent, size_t *count, int fd)
{
	if (*count == agent->room) {
		struct pollfd *fds = realloc(agent->fds, 2 * agent->room * sizeof(*fds));

		if (!fds)
			return false;
		agent->fds = fds;
		agent->room *= 2;
	}
	agent->fds[(*count)++] = (struct pollfd){.fd = fd, .events = POLLIN};
	return true;
}

static bool add_cq(struct pmv_agent *agent, size_t *count, struct pmv_cq *cq)
{
	struct fid *fid;

	if (!is_new(cq))
		return true;
	fid = &cq->core_fid->fid;
	return cq->core_fd >= 0 && !fi_trywait(cq->domain->fabric->core_fid, &fid, 1) &&
	       add_fd(agent, count, cq->core_fd);
}

/*
 * find_events -- the descriptors, behind the agent's own, that tell when a core
 * that needs calls needs one; false: something can't be waited for.  Holds the lock.
 */
static bool find_events(struct pmv_domain *domain, size_t *count)
{
	struct pmv_agent *agent = &domain->agent;

	if (!domain->fabric->core->driven)
		return false;
	begin_round(agent);
	for (struct pmv_link *link = agent->links; link; link = link->next) {
		if (!add_cq(agent, count, ep_of(link)->tx_cq) ||
		    !add_cq(agent, count, ep_of(link)->rx_cq))
			return false;
	}
	return true;
}

static void sleep_for(struct pmv_agent *agent, size_t count, int64_t ns)
{
	const struct timespec ts = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
	uint64_t kicks;

	ppoll(agent->fds, count, &ts, NULL);
	atomic_store(&agent->asleep, false);
	if (read(agent->kick_fd, &kicks, sizeof(kicks)) < 0)
		return;
}

static bool move_to_node(int node)
{
	if (numa_available() >= 0 && node <= numa_max_node())
		numa_run_on_node(node);
	return true;
}

/* has_message -- that can be taken now; holds the lock */
static bool has_message(const struct pmv_agent *agent)
{
	for (const struct pmv_link *link = agent->links; link; link = link->next) {
		if (!link->num_owed && pmv_link_has_message(link))
			return true;
	}
	return false;
}

void pmv_agent_nudge(struct pmv_domain *domain)
{
	struct pmv_agent *agent = &domain->agent;
	bool found = true;

	if (!domain->fabric->core->driven || pmv_setting.agent != PMV_AGENT_THREAD)
		return;
	/* What was moved into a mailbox is there before this looks whether the thread sleeps. */
	atomic_thread_fence(memory_order_seq_cst);
	if (!atomic_load(&agent->asleep))
		return;
	/* It may be falling asleep, and have looked already. */
	if (!pthread_mutex_trylock(&agent->lock)) {
		found = has_message(agent);
		pthread_mutex_unlock(&agent->lock);
	}
	if (found)
		kick(agent);
}

static void *run(void *arg)
{
	struct pmv_domain *domain = arg;
	struct pmv_agent *agent = &domain->agent;
	int64_t sleep_ns = LEAST_SLEEP_NS;
	int64_t spin_until = 0;
	bool placed = false;
	bool asked = false;
	/* The descriptors have not just woken it up, or let it sleep, for nothing. */
	bool rely = true;

	/* Short sleeps are not to be lengthened by the default slack of 50 us. */
	prctl(PR_SET_TIMERSLACK, 1000UL);
	while (!atomic_load(&agent->stop)) {
		bool busy, idle, watching, events;
		int64_t longest_ns;
		size_t count = 1;

		if (!placed && atomic_load(&agent->node) >= 0)
			placed = move_to_node(atomic_load(&agent->node));
		pthread_mutex_lock(&agent->lock);
		busy = serve(domain);
		idle = !busy && pmv_now_ns() >= spin_until;
		/* From here on a kick ends the sleep; what comes with it is looked for below. */
		atomic_store(&agent->asleep, idle);
		watching = wake_sleepers(agent);
		events = idle && rely && find_events(domain, &count);
		/* Others move data as well, and so may what has just prepared the sleep. */
		if (idle && has_message(agent)) {
			atomic_store(&agent->asleep, false);
			idle = false;
		}
		pthread_mutex_unlock(&agent->lock);
		if (busy) {
			asked = true;
			spin_until = pmv_now_ns() + SPIN_NS;
			sleep_ns = LEAST_SLEEP_NS;
			rely = true;
		}
		if (!idle)
			continue;
		rely = !events;
		if (events) {
			sleep_for(agent, count, EVENT_SLEEP_NS);
			continue;
		}
		longest_ns = asked || atomic_load(&agent->needed) ? LONGEST_SLEEP_NS : DOZE_NS;
		if (watching)
			sleep_ns = LEAST_SLEEP_NS;
		else if (sleep_ns > longest_ns)
			sleep_ns = longest_ns;
		/* What woke it up is not for it: the application will see to that. */
		sleep_for(agent, 1, sleep_ns);
		sleep_ns *= 2;
	}
	return NULL;
}

/* All with a thread. */
static struct pmv_agent *threads;
static pthread_mutex_t threads_lock = PTHREAD_MUTEX_INITIALIZER;

/* start -- the thread, once there is something for it to do; holds the lock */
static int start(struct pmv_domain *domain)
{
	struct pmv_agent *agent = &domain->agent;
	sigset_t all, old;
	int ret;

	if (atomic_load(&agent->running) || pmv_setting.agent != PMV_AGENT_THREAD)
		return 0;
	/* The application's signals are not for this thread; a fault of its own is (guard.h). */
	sigfillset(&all);
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	ret = pthread_create(&agent->thread, NULL, run, domain);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (ret) {
		PMV_WARN(DOMAIN, "the agent's thread can't be started: %s\n", strerror(ret));
		return -ret;
	}
	atomic_store(&agent->running, true);
	pthread_mutex_lock(&threads_lock);
	agent->next_running = threads;
	threads = agent;
	pthread_mutex_unlock(&threads_lock);
	return 0;
}

/* stop -- holds threads_lock */
static void stop(struct pmv_agent *agent)
{
	struct pmv_agent **at = &threads;

	while (*at && *at != agent)
		at = &(*at)->next_running;
	if (!*at)
		return;
	*at = agent->next_running;
	atomic_store(&agent->stop, true);
	kick(agent);
	pthread_join(agent->thread, NULL);
	atomic_store(&agent->running, false);
}

void pmv_agent_stop_all(void)
{
	struct timespec end;

	/*
	 * Some signal handlers call exit(), libinfinipath's among them: then the lock
	 * may be held further down on this very stack, and a process that is told to
	 * end must end.
	 */
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += 2;
	if (pthread_mutex_timedlock(&threads_lock, &end))
		return;
	while (threads)
		stop(threads);
	pthread_mutex_unlock(&threads_lock);
}

int pmv_agent_init(struct pmv_domain *domain)
{
	struct pmv_agent *agent = &domain->agent;

	agent->batch = calloc(1, sizeof(*agent->batch));
	agent->links_tail = &agent->links;
	agent->room = 16;
	agent->fds = calloc(agent->room, sizeof(*agent->fds));
	agent->kick_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (!agent->batch || !agent->fds || agent->kick_fd < 0) {
		free(agent->batch);
		free(agent->fds);
		if (agent->kick_fd >= 0)
			close(agent->kick_fd);
		return -FI_ENOMEM;
	}
	agent->fds[0] = (struct pollfd){.fd = agent->kick_fd, .events = POLLIN};
	/* Where software moves the data the kernel sees it. */
	agent->batch->touch = !domain->fabric->core->cpu_placed;
	atomic_init(&agent->node, -1);
	pthread_mutex_init(&agent->lock, NULL);
	pmv_regions_init(&agent->regions);
	return 0;
}

void pmv_agent_destroy(struct pmv_domain *domain)
{
	struct pmv_agent *agent = &domain->agent;

	pthread_mutex_lock(&threads_lock);
	stop(agent);
	pthread_mutex_unlock(&threads_lock);
	pmv_regions_destroy(&agent->regions);
	pthread_mutex_destroy(&agent->lock);
	close(agent->kick_fd);
	free(agent->batch);
	free(agent->fds);
}

/* What it works for */

int pmv_agent_attach(struct pmv_ep *ep)
{
	struct pmv_agent *agent = &ep->domain->agent;
	struct pmv_link *link = &ep->link;
	int ret = 0;

	pthread_mutex_lock(&agent->lock);
	if (!link->attached && !link->closing && link->block && link->connected) {
		link->attached = true;
		link->next = agent->links;
		agent->links = link;
		if (!link->next)
			agent->links_tail = &link->next;
		if (atomic_load(&agent->wanted))
			ret = start(ep->domain);
	}
	pthread_mutex_unlock(&agent->lock);
	kick(agent);
	return ret;
}

void pmv_agent_detach(struct pmv_ep *ep, bool closing)
{
	struct pmv_agent *agent = &ep->domain->agent;

	pthread_mutex_lock(&agent->lock);
	for (struct pmv_link **at = &agent->links; *at; at = &(*at)->next) {
		if (*at == &ep->link) {
			*at = ep->link.next;
			if (!*at)
				agent->links_tail = at;
			break;
		}
	}
	ep->link.attached = false;
	ep->link.closing = closing;
	pthread_mutex_unlock(&agent->lock);
}

void pmv_agent_want(struct pmv_domain *domain)
{
	struct pmv_agent *agent = &domain->agent;

	if (atomic_fetch_add(&agent->wanted, 1))
		return;
	pthread_mutex_lock(&agent->lock);
	if (agent->links)
		start(domain);
	pthread_mutex_unlock(&agent->lock);
}

void pmv_agent_unwant(struct pmv_domain *domain)
{
	atomic_fetch_sub(&domain->agent.wanted, 1);
}

struct pmv_region *pmv_agent_add_region(struct pmv_domain *domain, uint32_t key,
					enum pmv_persist persist, unsigned use, uint64_t start_addr,
					const struct iovec *iov, size_t iov_count, int node,
					bool needed)
{
	struct pmv_agent *agent = &domain->agent;
	struct pmv_region *region =
		pmv_region_add(&agent->regions, key, persist, use, start_addr, iov, iov_count);

	if (!region)
		return NULL;
	if (node >= 0)
		atomic_store(&agent->node, node);
	region->needs_agent = needed;
	if (needed && !atomic_fetch_add(&agent->needed, 1))
		kick(agent);
	pmv_agent_want(domain);
	return region;
}

void pmv_agent_remove_region(struct pmv_domain *domain, struct pmv_region *region)
{
	if (region->needs_agent)
		atomic_fetch_sub(&domain->agent.needed, 1);
	pmv_region_remove(&domain->agent.regions, region);
	pmv_agent_unwant(domain);
}

bool pmv_agent_needs_calls(struct pmv_domain *domain)
{
	return pmv_setting.agent == PMV_AGENT_PROGRESS && atomic_load(&domain->agent.wanted) > 0;
}

bool pmv_agent_watch(struct pmv_cq *cq)
{
	struct pmv_agent *agent = &cq->domain->agent;

	if (pmv_setting.agent != PMV_AGENT_THREAD)
		return false;
	atomic_store(&cq->watched, true);
	atomic_store(&agent->watched, true);
	if (!atomic_load(&agent->running)) {
		pthread_mutex_lock(&agent->lock);
		start(cq->domain);
		pthread_mutex_unlock(&agent->lock);
	}
	kick(agent);
	return atomic_load(&agent->running);
}
