/* SPDX-License-Identifier: BSD-2-Clause */
/* disks.c -- a target whose memory is on several disks, and its peers */
#include "disks.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "objects/domain.h"

bool only_main;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *),
			  void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *),
			  void *arg);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *),
			  void *arg)
{
	if (only_main && gettid() != getpid())
		return EAGAIN;
	return __real_pthread_create(thread, attr, start, arg);
}

bool __wrap_pmv_files_cover(const struct pmv_files *files);

bool uncovered;
bool one_device;

bool __wrap_pmv_files_cover(const struct pmv_files *files)
{
	(void) files;
	return !uncovered;
}

/* What is done to memory */

struct disk disk = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static int memory_of(const void *at)
{
	int memory = 0;

	while ((const char *) at < disk.pair->memory[memory] ||
	       (const char *) at >= disk.pair->memory[memory] + PAIR_SIZE)
		memory++;
	return memory;
}

static void flush_nothing(const void *addr, size_t len)
{
	(void) addr, (void) len;
}

static void drain_nothing(void)
{
}

static void store(void *to, const void *from, size_t len)
{
	pthread_mutex_lock(&disk.lock);
	if (disk.on_store)
		disk.on_store();
	pthread_mutex_unlock(&disk.lock);
	memcpy(to, from, len);
}

static int touch_nothing(void *addr, size_t len)
{
	(void) addr, (void) len;
	return 0;
}

static int sync_slowly(void *addr, size_t len)
{
	int memory = memory_of(addr), error;

	pthread_mutex_lock(&disk.lock);
	disk.begun[memory]++;
	disk.len[memory] = len;
	pthread_cond_broadcast(&disk.changed);
	if (disk.on_sync)
		disk.on_sync((enum pair_memory) memory);
	while (disk.held[memory])
		pthread_cond_wait(&disk.changed, &disk.lock);
	disk.ended[memory]++;
	error = disk.errors[memory];
	pthread_mutex_unlock(&disk.lock);
	return error;
}

static const struct pmv_flush_ops slow = {
	.flush = flush_nothing,
	.drain = drain_nothing,
	.store = store,
	.touch = touch_nothing,
	.sync = sync_slowly,
};

void hold(enum pair_memory memory, bool held)
{
	pthread_mutex_lock(&disk.lock);
	disk.held[memory] = held;
	pthread_cond_broadcast(&disk.changed);
	pthread_mutex_unlock(&disk.lock);
}

void watch_syncs(void (*on_sync)(enum pair_memory memory))
{
	pthread_mutex_lock(&disk.lock);
	disk.on_sync = on_sync;
	pthread_mutex_unlock(&disk.lock);
}

void watch_stores(void (*on_store)(void))
{
	pthread_mutex_lock(&disk.lock);
	disk.on_store = on_store;
	pthread_mutex_unlock(&disk.lock);
}

void set_error(enum pair_memory memory, int error)
{
	pthread_mutex_lock(&disk.lock);
	disk.errors[memory] = error;
	pthread_mutex_unlock(&disk.lock);
}

int number_of(const int *counts, enum pair_memory memory)
{
	int count;

	pthread_mutex_lock(&disk.lock);
	count = counts[memory];
	pthread_mutex_unlock(&disk.lock);
	return count;
}

void await_begun(enum pair_memory memory, int count)
{
	pthread_mutex_lock(&disk.lock);
	while (disk.begun[memory] < count)
		pthread_cond_wait(&disk.changed, &disk.lock);
	pthread_mutex_unlock(&disk.lock);
}

/* The target and its peers */

struct pair *pair;
struct pmv_ep *peers[PEERS];
uint64_t asked[PEERS];

void open_target_with(bool threads)
{
	struct pmv_agent *agent;

	pair = disk.pair = pair_open(&(struct pair_options){
		.thread = threads, .automatic = true, .away = {.wait_obj = FI_WAIT_FD}});
	agent = pair_agent(pair);
	pmv_flush = &slow;
	pair->forgets_events = true;
	for (int i = 0; i < PEERS; i++)
		peers[i] = pair_join(pair);
	pthread_mutex_lock(&agent->lock);
	for (int i = 0; i < PAIR_MEMORIES; i++) {
		struct pmv_region *region = ((struct pmv_mr *) pair->mr[i])->region;

		/* Each on a disk of its own. */
		if (region && region->disk != PMV_DISK_NONE)
			region->disk = one_device ? pmv_disk_lane(1, i) : pmv_disk_lane(1 + i, 0);
	}
	pthread_mutex_unlock(&agent->lock);
}

void open_target(void)
{
	open_target_with(true);
}

void close_target(void)
{
	for (int i = 0; i < PEERS; i++) {
		if (peers[i])
			accepted(fi_close(&peers[i]->ep_fid.fid));
	}
	pair_close(pair);
}

void ask(int peer, struct pmv_flush_message *message)
{
	struct pmv_mailbox *mailbox = &peers[peer]->mailbox;

	message->envelope.number = ++asked[peer];
	message_encode(mailbox->link.block + asked[peer] % PMV_SLOTS * PMV_MESSAGE_SIZE, message,
		       &mailbox->receiver.message_in);
	pmv_agent_kick(pair_agent(pair));
}

void ask_for(int peer, enum pair_memory memory, size_t offset)
{
	ask(peer, &(struct pmv_flush_message){.count = 1,
					      .ranges = {pair_range(pair, memory, offset, 8)}});
}

void ask_for_both(int peer, size_t offset)
{
	ask(peer, &(struct pmv_flush_message){.count = 2,
					      .ranges = {pair_range(pair, PAGE_TOO, offset, 8),
							 pair_range(pair, PAGE, offset, 8)}});
}

struct seen look_at(int peer)
{
	const struct pmv_receiver *receiver = &peers[peer]->mailbox.receiver;
	struct pmv_agent *agent = pair_agent(pair);
	struct seen seen;

	pthread_mutex_lock(&agent->lock);
	seen = (struct seen){receiver->served, receiver->posted_acks, receiver->faulted,
			     receiver->syncing};
	pthread_mutex_unlock(&agent->lock);
	return seen;
}

void await_end(int peer)
{
	while (look_at(peer).acks < asked[peer])
		sched_yield();
}

void await_syncing(int peer)
{
	while (!look_at(peer).syncing)
		sched_yield();
}

void begin_sync(enum pair_memory memory)
{
	int before = number_of(disk.begun, memory);

	hold(memory, true);
	ask_for(0, memory, 0);
	await_begun(memory, before + 1);
}

void end_sync(void)
{
	hold(PAGE, false);
	await_end(0);
}

void commit_for_a_while(int peer)
{
	for (int i = 0; i < 20; i++) {
		ask_for(peer, DMP, 64);
		await_end(peer);
		sched_yield();
	}
}
