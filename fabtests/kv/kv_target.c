/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kv_target.c -- the side that has the memory: it registers that, accepts clients, and sleeps
 *
 * All clients share one domain, so each may read and write all that is lent.
 */
#include "kv_target.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include <rdma/fi_ext_pmemverbs.h>

#include "agent/flush.h"
#include "../common/common.h"
#include "../common/memory_direct.h"
#include "../common/stats.h"
#include "kv_store.h"

#define SLEEP_MS 100

struct target {
	const struct options *opts;
	const struct kv_layout *layout;
	struct node node;
	struct memory memory;
	int lock; /* of the memory's file, or -1 */
	struct region region;
	struct kv_store store;
	struct fi_pmemverbs_chain_ops *ops;
	struct fi_pmemverbs_list *list;
	char *stages; /* a client has the one of its number */
	struct region stage_region;
	struct conn clients[KV_PLACES];
	uint64_t gone[KV_PLACES]; /* not 0: its connection has ended, as the how manieth */
	uint64_t departures, arrivals;
};

static volatile sig_atomic_t stopped;

static void stop(int signo)
{
	(void) signo;
	stopped = 1;
}

/* persist -- what this program itself has stored */
static int persist(void *arg, const void *addr, size_t len)
{
	struct target *target = arg;

	if (target->memory.file)
		return memory_persist(&target->memory, addr, len);
	pmv_flush->flush(addr, len);
	pmv_flush->drain();
	return target->memory.is_file ? pmv_flush->sync((void *) (uintptr_t) addr, len) : 0;
}

/* fill_list -- with the buffers that the index does not use */
static int fill_list(struct target *target)
{
	struct kv_store *store = &target->store;
	size_t offset = kv_store_buffers(store);
	int ret = target->ops->list_open(target->region.mr, offset, target->layout->buffer_size,
					 store->buffers, &target->list);

	for (uint64_t i = 0; !ret && i < store->buffers; i++) {
		if (!store->used[i])
			ret = target->ops->list_put(target->list,
						    target->list->addr + i * target->list->size);
	}
	return ret ? report("the list of buffers", ret) : 0;
}

static int start_store(struct target *target)
{
	struct kv_store *store = &target->store;
	struct kv_counts found;
	int ret;

	*store = (struct kv_store){
		.layout = target->layout,
		.memory = target->memory.base,
		.records = target->opts->records,
		.peers = target->region.addr,
		.persist = persist,
		.arg = target,
	};
	ret = kv_store_start(store, &found);
	if (ret)
		return report("the store", ret);
	ret = fill_list(target);
	if (!ret)
		fprintf(stderr, "life %llu: %llu records, %zu buffers free of %llu\n",
			(unsigned long long) kv_store_life(store), (unsigned long long) found.live,
			target->ops->list_num_free(target->list),
			(unsigned long long) store->buffers);
	return ret;
}

/* lock_memory -- two targets would give the same buffers out; direct I/O has a lock of its own */
static int lock_memory(struct target *target)
{
	const char *path = target->opts->memory;

	if (!path || target->memory.file)
		return 0;
	target->lock = open(path, O_RDWR | O_CLOEXEC);
	if (target->lock >= 0 && !flock(target->lock, LOCK_EX | LOCK_NB))
		return 0;
	fprintf(stderr, "%s: %s\n", path,
		errno == EWOULDBLOCK ? "another target uses it" : strerror(errno));
	if (target->lock >= 0)
		close(target->lock);
	target->lock = -1;
	return -1;
}

/* open_memory -- when the first client comes, by whom the domain is known */
static int open_memory(struct target *target, struct fi_info *info)
{
	size_t len = kv_store_len(target->layout, target->opts->records);
	uint64_t access = FI_REMOTE_READ | FI_REMOTE_WRITE;
	int ret = node_domain(&target->node, info);

	if (ret || target->list)
		return ret;
	ret = fi_open_ops(&target->node.domain->fid, FI_PMEMVERBS_CHAIN_OPS, 0,
			  (void **) &target->ops, NULL);
	if (ret)
		return report("fi_open_ops", ret);
	if (memory_open(&target->memory, target->node.domain, target->opts->memory, len))
		return -FI_EBUSY;
	if (lock_memory(target)) {
		memory_unmap(&target->memory);
		return -FI_EBUSY;
	}
	target->stages = calloc(KV_PLACES, target->layout->stage_size);
	if (!target->stages)
		return report("calloc", -FI_ENOMEM);
	ret = region_register(&target->node, &target->region, target->memory.base, len, access,
			      FI_RMA_PMEM);
	if (!ret)
		ret = region_register(&target->node, &target->stage_region, target->stages,
				      KV_PLACES * target->layout->stage_size, access, 0);
	return ret ? ret : start_store(target);
}

static struct kv_stage_head *stage_of(const struct target *target, unsigned int number)
{
	return (struct kv_stage_head *) (target->stages + number * target->layout->stage_size);
}

/*
 * has_limits -- the client's line in the file peers (FI_PMEMVERBS_KEYS) has rights, and what it
 * does here is done without this program: nobody could heed them
 */
static bool has_limits(const struct conn *conn)
{
	struct fi_pmemverbs_peer peer = {0};
	size_t len = sizeof(peer);
	int ret = fi_getopt(&conn->ep->fid, FI_OPT_ENDPOINT, FI_OPT_PMEMVERBS_PEER, &peer, &len);

	/* Without keys, or with another provider, nobody has any. */
	if (ret == -FI_ENODATA || ret == -FI_ENOPROTOOPT || (!ret && !*peer.rights))
		return false;
	if (ret)
		return report("fi_getopt", ret);
	fprintf(stderr, "%s is not let in: its rights (%s) can't be heeded by this program\n",
		peer.name, peer.rights);
	return true;
}

static int accept_client(struct target *target, unsigned int number, struct fi_info *info)
{
	const struct conn_attr attr = {.format = FI_CQ_FORMAT_CONTEXT, .wait = FI_WAIT_UNSPEC};
	uint64_t addr = target->stage_region.addr + number * target->layout->stage_size;
	struct kv_welcome welcome = {.addr = addr, .key = target->stage_region.key};
	struct conn *conn = &target->clients[number];
	int ret = conn_create(conn, &target->node, info, &attr);

	if (ret)
		return ret;
	if (has_limits(conn)) {
		conn_close(conn);
		return -FI_EACCES;
	}
	memset(stage_of(target, number), 0, target->layout->stage_size);
	*stage_of(target, number) = (struct kv_stage_head){
		.lease = {
			.magic = target->layout->magic,
			.key = target->region.key,
			.index = target->region.addr + kv_store_index(&target->store),
			.slots = kv_store_slots(&target->store),
			.life = kv_store_life(&target->store),
			.list = target->list->number,
			.client = ++target->arrivals * KV_PLACES + number,
		}};
	memcpy(welcome.hello, target->layout->hello, KV_HELLO_LEN);
	ret = fi_accept(conn->ep, &welcome, KV_WELCOME_LEN);
	if (ret)
		conn_close(conn);
	return ret ? report("fi_accept", ret) : 0;
}

/* is_busy -- chains write there */
static bool is_busy(const struct target *target, unsigned int number)
{
	return __atomic_load_n(&stage_of(target, number)->busy, __ATOMIC_ACQUIRE);
}

/* give_back -- the buffers that were a client's own.  What stands there is no matter: a list takes
 * only what belongs to it. */
static void give_back(struct target *target, unsigned int number)
{
	uint64_t *own = (uint64_t *) ((char *) stage_of(target, number) + target->layout->own);

	for (unsigned int i = 0; i < target->layout->num_own; i++) {
		if (own[i])
			target->ops->list_put(target->list, own[i]);
		own[i] = 0;
	}
}

/* close_place -- the endpoint of a client that has gone */
static void close_place(struct target *target, unsigned int number)
{
	conn_close(&target->clients[number]);
	target->gone[number] = 0;
	if (target->list && !is_busy(target, number))
		give_back(target, number);
}

/* count_live -- clients that have not gone */
static unsigned int count_live(const struct target *target)
{
	unsigned int live = 0;

	for (unsigned int i = 0; i < KV_PLACES; i++)
		live += target->clients[i].ep && !target->gone[i];
	return live;
}

/* longest_gone -- and none whose chain is under way; KV_PLACES: nobody has gone */
static unsigned int longest_gone(const struct target *target)
{
	unsigned int found = KV_PLACES;

	for (unsigned int i = 0; i < KV_PLACES; i++) {
		if (target->gone[i] && !is_busy(target, i) &&
		    (found == KV_PLACES || target->gone[i] < target->gone[found]))
			found = i;
	}
	return found;
}

/*
 * find_place -- for a client, KV_PLACES if there is none.  A chain ends at its next commit if its
 * endpoint is closed, and its buffer is lost until the target starts again.  Nobody tells this
 * program that a chain waits for the disk.  So it closes the endpoint of a client that has gone
 * only when KV_CLIENTS others have gone since, and takes no place with a chain that came all the
 * same.
 */
static unsigned int find_place(struct target *target)
{
	unsigned int number = 0;

	if (count_live(target) == KV_CLIENTS)
		return KV_PLACES;
	while (number < KV_PLACES &&
	       (target->clients[number].ep || (target->stages && is_busy(target, number))))
		number++;
	if (number < KV_PLACES)
		return number;
	number = longest_gone(target);
	if (number == KV_PLACES)
		return KV_PLACES;
	close_place(target, number);
	return is_busy(target, number) ? KV_PLACES : number;
}

/* welcome -- one client that can't be let in is no reason not to serve others */
static int welcome(struct target *target, struct cm_event *event)
{
	struct fi_info *info = event->entry.info;
	unsigned int number = find_place(target);
	int ret;

	if (number == KV_PLACES || event->len < KV_HELLO_LEN ||
	    memcmp(event->entry.data, target->layout->hello, KV_HELLO_LEN)) {
		node_reject(&target->node, info,
			    number == KV_PLACES ? "too many clients" : "not a client of this");
		return 0;
	}
	ret = open_memory(target, info);
	if (ret) {
		node_reject(&target->node, info, "the store can't be had");
		/* The kernel may take a moment to let go of a killed target's file. */
		return ret == -FI_EBUSY ? 0 : ret;
	}
	if (accept_client(target, number, info))
		node_reject(&target->node, info, NULL);
	else
		fi_freeinfo(info);
	return 0;
}

static int take_event(struct target *target, struct cm_event *event)
{
	if (event->event == FI_CONNREQ && !event->err)
		return welcome(target, event);
	/* A connection that was not made, or that broke, comes as FI_SHUTDOWN, too. */
	for (unsigned int i = 0; event->event == FI_SHUTDOWN && i < KV_PLACES; i++) {
		if (target->clients[i].ep && &target->clients[i].ep->fid == event->entry.fid)
			target->gone[i] = ++target->departures;
	}
	return 0;
}

/* close_all -- chains that are under way end first, if they do so in time */
static void close_all(struct target *target)
{
	uint64_t deadline = deadline_in(target->opts->timeout);
	struct cm_event event;

	for (unsigned int i = 0; i < KV_PLACES; i++) {
		while (target->clients[i].ep && is_busy(target, i) && now_ns() < deadline) {
			if (node_event(&target->node, &event, 1) > 0 && event.event == FI_CONNREQ &&
			    !event.err)
				node_reject(&target->node, event.entry.info, NULL);
		}
		close_place(target, i);
	}
}

/* count_both -- buffers that the index points to, and that are free all the same */
static uint64_t count_both(const struct target *target)
{
	const struct fi_pmemverbs_list *list = target->list;
	uint64_t both = 0;

	/* What is free can't be put back.  What was in use is free then, and nobody is there who
	 * could get it. */
	for (uint64_t i = 0; i < target->store.buffers; i++)
		both += target->store.used[i] &&
			target->ops->list_put(target->list, list->addr + i * list->size) ==
				-FI_EALREADY;
	return both;
}

/* count_buffers -- with nobody connected each is in the index or free */
static int count_buffers(struct target *target)
{
	struct kv_counts counts;
	uint64_t num_free, used, both;

	if (!target->list)
		return 0;
	kv_store_count(&target->store, &counts);
	num_free = target->ops->list_num_free(target->list);
	used = counts.live + counts.deleted;
	both = count_both(target);
	fprintf(stderr, "%llu records, %llu deleted, %llu buffers free of %llu\n",
		(unsigned long long) counts.live, (unsigned long long) counts.deleted,
		(unsigned long long) num_free, (unsigned long long) target->store.buffers);
	if (!counts.torn && !both && used + num_free == target->store.buffers)
		return 0;
	fprintf(stderr,
		"%llu slots lead to no whole record, %llu buffers are in use and free, and %lld "
		"are lost until the target starts again\n",
		(unsigned long long) counts.torn, (unsigned long long) both,
		(long long) (target->store.buffers - used - num_free));
	return -FI_EIO;
}

static void close_target(struct target *target)
{
	if (target->list)
		target->ops->list_close(target->list);
	region_close(&target->stage_region);
	region_close(&target->region);
	kv_store_close(&target->store);
	/* A file's memory belongs to the domain. */
	memory_unmap(&target->memory);
	if (target->lock >= 0)
		close(target->lock);
	node_close(&target->node);
	free(target->stages);
}

int kv_serve(const struct options *opts, const struct kv_layout *layout)
{
	const struct sigaction action = {.sa_handler = stop};
	const struct node_attr attr = {
		.caps = FI_MSG | FI_RMA | FI_RMA_PMEM | FI_FENCE,
		.port = opts->src_port,
	};
	struct target target = {.opts = opts, .layout = layout, .lock = -1};
	struct cm_event event;
	int ret = pmv_flush_init();

	if (ret)
		return report("libpmem2's instructions for this processor", ret);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	ret = fabric_listen(&target.node, opts, &attr);
	while (ret >= 0 && !stopped) {
		ret = node_event(&target.node, &event, SLEEP_MS);
		if (ret > 0)
			ret = take_event(&target, &event);
	}
	close_all(&target);
	if (ret >= 0)
		ret = count_buffers(&target);
	close_target(&target);
	return ret;
}
