/* SPDX-License-Identifier: BSD-2-Clause */
/* test_syncing.c -- pages are synced beside the agent's thread */
#include "disks.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "objects/domain.h"

/* Who waits for a disk */

Test(syncing, commit_that_needs_no_disk_waits_for_none, .timeout = 60)
{
	open_target();
	begin_sync(PAGE);
	commit_for_a_while(1);
	cr_expect_eq(look_at(0).acks, 0, "it is acknowledged before it is durable");
	end_sync();
	cr_expect_eq(look_at(0).faulted, 0);
	close_target();
}

static void expect_independence(void)
{
	open_target();
	begin_sync(PAGE);
	ask_for(1, PAGE_TOO, 0);
	await_end(1);
	cr_expect_eq(look_at(0).acks, 0);
	set_error(PAGE, -FI_EIO);
	ask_for(1, PAGE_TOO, 64);
	await_end(1);
	end_sync();
	cr_expect_eq(look_at(0).faulted, 1);
	cr_expect_eq(look_at(1).faulted, 0);
	close_target();
}

Test(syncing, disks_do_not_wait_for_each_other, .timeout = 60)
{
	expect_independence();
}

Test(syncing, files_of_a_device_do_not_wait_for_each_other, .timeout = 60)
{
	one_device = true;
	expect_independence();
}

/* One group of both: they are written side by side. */
Test(syncing, request_with_pages_in_two_files_of_a_device_syncs_them_together, .timeout = 60)
{
	struct pmv_region *other;

	one_device = true;
	open_target();
	other = ((struct pmv_mr *) pair->mr[PAGE_TOO])->region;
	hold(PAGE, true);
	ask_for_both(0, 0);
	await_begun(PAGE, 1);
	cr_expect_eq(pthread_mutex_trylock(&other->syncing), EBUSY);
	end_sync();
	cr_expect_eq(look_at(0).faulted, 0);
	cr_expect_eq(number_of(disk.ended, PAGE_TOO), 1);
	close_target();
}

/* What is on both disks waits for both, but nobody waits for it. */
Test(syncing, request_with_pages_on_two_disks_holds_up_neither, .timeout = 60)
{
	open_target();
	hold(PAGE, true);
	ask_for_both(0, 0);
	await_begun(PAGE, 1);
	ask_for(1, PAGE_TOO, 64);
	await_end(1);
	cr_expect_eq(look_at(0).acks, 0);
	end_sync();
	close_target();
}

Test(syncing, closing_a_region_waits_for_no_other_disk, .timeout = 60)
{
	open_target();
	hold(PAGE, true);
	ask_for_both(0, 0);
	await_begun(PAGE, 1);
	accepted(fi_close(&pair->mr[PAGE_TOO]->fid));
	pair->mr[PAGE_TOO] = NULL;
	cr_expect_eq(look_at(0).acks, 0);
	end_sync();
	close_target();
}

Test(syncing, requests_of_one_connection_stay_in_order, .timeout = 60)
{
	open_target();
	begin_sync(PAGE);
	ask_for(0, DMP, 0);
	/* Whoever serves this one has looked at the other connection, too. */
	commit_for_a_while(1);
	cr_expect_eq(look_at(0).acks, 0);
	cr_expect_eq(look_at(0).served, 1);
	end_sync();
	cr_expect_eq(look_at(0).acks, 2);
	close_target();
}

/* Groups */

Test(syncing, requests_that_come_while_a_disk_is_busy_share_a_sync, .timeout = 60)
{
	open_target();
	begin_sync(PAGE);
	ask_for(1, PAGE, 64);
	ask_for(2, PAGE, 4096);
	await_syncing(1);
	await_syncing(2);
	hold(PAGE, false);
	for (int i = 0; i < PEERS; i++)
		await_end(i);
	cr_expect_eq(number_of(disk.begun, PAGE), 2);
	cr_expect_eq(disk.len[PAGE], 4096 + 8 - 64);
	close_target();
}

Test(syncing, error_fails_those_that_it_concerns, .timeout = 60)
{
	open_target();
	begin_sync(PAGE);
	ask_for(1, PAGE_TOO, 0);
	ask_for(2, DMP, 0);
	set_error(PAGE, -FI_EIO);
	hold(PAGE, false);
	for (int i = 0; i < PEERS; i++)
		await_end(i);
	cr_expect_eq(look_at(0).faulted, 1);
	cr_expect_eq(look_at(1).faulted, 0);
	cr_expect_eq(look_at(2).faulted, 0);
	/* Nobody can tell which bytes are lost. */
	set_error(PAGE, 0);
	ask_for(1, PAGE, 64);
	await_end(1);
	cr_expect_eq(look_at(1).faulted, 2);
	close_target();
}

/* The kernel tells of an error once: whoever syncs next must not be told of success. */
Test(syncing, one_region_is_synced_by_one_thread_at_a_time, .timeout = 60)
{
	open_target();
	begin_sync(PAGE);
	ask_for_both(1, 64);
	await_syncing(1);
	commit_for_a_while(2);
	set_error(PAGE, -FI_EIO);
	end_sync();
	await_end(1);
	cr_expect_eq(look_at(1).faulted, 1);
	cr_expect_eq(number_of(disk.begun, PAGE), 1);
	close_target();
}

/* Where a mapping is the application's, it tells whoever syncs first in the whole process. */
Test(syncing, only_one_mapping_that_is_not_ours_is_synced_at_a_time, .timeout = 60)
{
	uncovered = true;
	open_target();
	begin_sync(PAGE);
	ask_for(1, PAGE_TOO, 0);
	await_syncing(1);
	commit_for_a_while(2);
	set_error(PAGE, -FI_EIO);
	end_sync();
	await_end(1);
	cr_expect_eq(look_at(1).faulted, 1);
	cr_expect_eq(number_of(disk.begun, PAGE_TOO), 0);
	close_target();
}

/* Data behind a fence are stored when all that was before is durable, the disk's part as well. */
Test(syncing, fenced_data_are_stored_after_earlier_pages_are_durable, .timeout = 60)
{
	struct pmv_flush_message fenced = {.count = 1, .store = true, .ordered = true};
	const char *at;

	open_target();
	at = pair->memory[DMP] + 128;
	begin_sync(PAGE);
	fenced.ranges[0] = pair_range(pair, DMP, 128, 8);
	memcpy(fenced.ranges + 1, "fenced!", 8);
	ask(0, &fenced);
	commit_for_a_while(1);
	cr_expect_str_neq(at, "fenced!");
	end_sync();
	cr_expect_str_eq(at, "fenced!");
	close_target();
}

Test(syncing, fenced_data_are_not_stored_after_an_error, .timeout = 60)
{
	struct pmv_flush_message fenced = {.count = 1, .store = true, .ordered = true};

	open_target();
	begin_sync(PAGE);
	fenced.envelope.unacked = 1;
	fenced.ranges[0] = pair_range(pair, DMP, 128, 8);
	memcpy(fenced.ranges + 1, "fenced!", 8);
	ask(0, &fenced);
	set_error(PAGE, -FI_EIO);
	end_sync();
	cr_expect_eq(look_at(0).faulted, 2);
	cr_expect_str_neq(pair->memory[DMP] + 128, "fenced!");
	close_target();
}

/* The agent's thread */

/* await_sleep -- one that ends by itself, so that there was no kick before; then the next one */
static void await_sleep(struct pmv_agent *agent)
{
	unsigned long slept = atomic_load(&agent->sleeps) - atomic_load(&agent->wakes);

	while (atomic_load(&agent->sleeps) - atomic_load(&agent->wakes) == slept ||
	       !atomic_load(&agent->asleep))
		sched_yield();
}

Test(syncing, thread_that_sleeps_is_woken_when_a_group_is_done, .timeout = 60)
{
	struct pmv_agent *agent = pair_agent((open_target(), pair));
	unsigned long wakes;

	/* It may be awake by chance. */
	do {
		begin_sync(PAGE);
		await_sleep(agent);
		wakes = atomic_load(&agent->wakes);
		hold(PAGE, false);
		await_end(0);
	} while (atomic_load(&agent->wakes) == wakes);
	close_target();
}

/* expire -- the mailbox's window is over, and its peer sends hints; is it parked? */
static bool expire(int peer)
{
	struct pmv_receiver *receiver = &peers[peer]->mailbox.receiver;

	receiver->look.hinted = true;
	pmv_look_park(&pair_agent(pair)->looks, INT64_MAX);
	return receiver->look.parked;
}

/* Its acknowledgement may have to be tried again. */
Test(syncing, mailbox_is_looked_after_until_its_requests_are_done)
{
	open_target_with(false);
	peers[0]->mailbox.receiver.syncing = true;
	cr_expect_not(expire(0));
	cr_expect(expire(1));
	peers[0]->mailbox.receiver.syncing = false;
	cr_expect(expire(0));
	close_target();
}

/* Closing */

Test(syncing, endpoint_is_closed_without_waiting_for_a_disk, .timeout = 60)
{
	uint64_t number;

	open_target();
	begin_sync(PAGE);
	ask_for(1, PAGE, 64);
	ask_for(2, PAGE, 128);
	await_syncing(1);
	await_syncing(2);
	number = peers[1]->mailbox.receiver.number;
	for (int i = 0; i < 2; i++)
		accepted(fi_close(&peers[i]->ep_fid.fid));
	peers[0] = NULL;
	/* Whoever has its place is not taken for it: its faults are not the newcomer's. */
	peers[1] = pair_join(pair);
	cr_expect_neq(peers[1]->mailbox.receiver.number, number);
	hold(PAGE, false);
	await_end(2);
	cr_expect_eq(look_at(2).faulted, 0);
	cr_expect_eq(disk.len[PAGE], 8);
	close_target();
}

static atomic_bool closed;

static void *close_region(void *arg)
{
	(void) arg;
	pair_unregister(pair, PAGE);
	atomic_store(&closed, true);
	return NULL;
}

Test(syncing, region_is_closed_after_its_sync_and_before_the_next, .timeout = 60)
{
	struct pmv_regions *regions = &pair_agent((open_target(), pair))->regions;
	const struct pmv_region *region = ((struct pmv_mr *) pair->mr[PAGE])->region;
	uint32_t key = region->attr.key;
	uint64_t serial = region->serial;
	struct pmv_region *found;
	pthread_t closer;

	begin_sync(PAGE);
	ask_for(1, PAGE, 64);
	await_syncing(1);
	cr_assert_eq(pthread_create(&closer, NULL, close_region, NULL), 0);
	while ((found = pmv_region_hold(regions, key, serial))) {
		pmv_region_put(regions, found);
		sched_yield();
	}
	cr_expect_not(atomic_load(&closed), "it is closed while it is being synced");
	hold(PAGE, false);
	pthread_join(closer, NULL);
	await_end(0);
	await_end(1);
	cr_expect_eq(look_at(1).faulted, 1);
	cr_expect_eq(number_of(disk.begun, PAGE), 1);
	close_target();
}

Test(syncing, end_of_the_process_waits_for_no_disk, .timeout = 60)
{
	struct pmv_agent *agent;

	open_target();
	agent = pair_agent(pair);
	begin_sync(PAGE);
	/* One more group, which is not begun any more. */
	ask_for(1, PAGE, 64);
	await_syncing(1);
	pmv_agent_stop_all();
	cr_expect_eq(number_of(disk.ended, PAGE), 0);
	hold(PAGE, false);
	/* It was left behind; it ends when it can. */
	cr_expect(atomic_load(&agent->running));
	pthread_join(agent->thread, NULL);
	cr_expect_eq(number_of(disk.begun, PAGE), 1);
	close_target();
}

Test(syncing, data_of_who_is_gone_do_not_come_over_newer_ones, .timeout = 60)
{
	struct pmv_flush_message fenced = {.count = 1, .store = true, .ordered = true};
	struct pmv_agent *agent;
	char *at;

	open_target();
	agent = pair_agent(pair);
	at = pair->memory[DMP] + 128;
	hold(PAGE, true);
	/* Both are in one group. */
	pthread_mutex_lock(&agent->serving);
	ask_for(0, PAGE, 0);
	fenced.ranges[0] = pair_range(pair, DMP, 128, 8);
	memcpy(fenced.ranges + 1, "earlier", 8);
	ask(0, &fenced);
	pthread_mutex_unlock(&agent->serving);
	await_begun(PAGE, 1);
	accepted(fi_close(&peers[0]->ep_fid.fid));
	peers[0] = NULL;
	/* It has connected again. */
	memcpy(at, "newdata", 8);
	ask_for(1, DMP, 128);
	await_end(1);
	hold(PAGE, false);
	ask_for(2, PAGE, 64);
	await_end(2);
	cr_expect_str_eq(at, "newdata");
	close_target();
}

/* Where there is no thread */

static void expect_synced(void)
{
	int before = number_of(disk.ended, PAGE);

	for (int i = 0; i < 2; i++) {
		ask_for(0, PAGE, 64);
		await_end(0);
	}
	cr_expect_eq(look_at(0).faulted, 0);
	cr_expect_eq(number_of(disk.ended, PAGE) - before, 2);
}

Test(syncing, agent_syncs_by_itself_where_there_is_no_second_thread, .timeout = 60)
{
	only_main = true;
	open_target();
	expect_synced();
	close_target();
}

Test(syncing, stand_in_serves_where_a_disk_gets_no_thread, .timeout = 60)
{
	open_target();
	/* As soon as it has a stand-in. */
	ask_for(1, PAGE_TOO, 0);
	await_end(1);
	only_main = true;
	begin_sync(PAGE);
	ask_for(1, DMP, 64);
	await_end(1);
	end_sync();
	expect_synced();
	close_target();
}
