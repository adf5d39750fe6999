/* SPDX-License-Identifier: BSD-2-Clause */
/* world_setup.c -- opens and closes what a world consists of */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rdma/fi_errno.h>
#include <rdma/fi_ext_pmemverbs.h>

#include "agent/flush.h"
#include "base/setting.h"
#include "engine/core.h"
#include "engine/engine.h"
#include "engine/info.h"
#include "memory/platform.h"
#include "testcore/fid.h"

/* A disk that does not answer, to all who wait for something else. */
#define HANG_NS INT64_C(500000000)

void sure(int ret, const char *what)
{
	if (ret)
		sched_fail("%s: %s", what, fi_strerror(-ret));
}

/* Writing back takes time */

static void flush(const void *addr, size_t len)
{
	(void) addr;
	sched_spend((int64_t) (len / 8 + 50));
}

static void drain(void)
{
	sched_spend(300);
}

static void store(void *to, const void *from, size_t len)
{
	memcpy(to, from, len);
	sched_spend(100);
}

static int touch(void *addr, size_t len)
{
	(void) addr, (void) len;
	sched_spend(100);
	return 0;
}

static int sync_pages(void *addr, size_t len)
{
	int64_t ns = sched_between(5000, world.most_sync_ns);

	(void) addr, (void) len;
	if (world.hangs && !world.hung && sched_one_in(4)) {
		world.hung = true;
		ns = HANG_NS;
	}
	sched_trace("syncs for %d us", (int) (ns / 1000));
	if (!world.syncs++)
		world.syncs_since_ns = sched_now_ns;
	sched_sleep(ns);
	world.synced_ns = world_synced_ns();
	world.syncs_since_ns = --world.syncs ? sched_now_ns : 0;
	return 0;
}

static const struct pmv_flush_ops slow_memory = {
	.flush = flush,
	.drain = drain,
	.store = store,
	.touch = touch,
	.sync = sync_pages,
};

/* describe_memory -- what the kernel would say of it: nothing of files */
static void describe_memory(void)
{
	static const char maps[] = "1000-7ffffffff000 rw-p 00000000 00:00 0 \n";
	static char path[64];
	int fd = memfd_create("maps", MFD_CLOEXEC);

	if (fd < 0 || write(fd, maps, sizeof(maps) - 1) != (ssize_t) sizeof(maps) - 1)
		sched_fail("memory can't be described");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	pmv_platform.smaps = pmv_platform.maps = path;
}

/* Opening */

static void make_info(void)
{
	struct fi_info *info = fi_allocinfo();

	info->caps = FI_MSG | FI_RMA | FI_ATOMIC | FI_FENCE | FI_PMEM;
	if (world.events)
		info->caps |= FI_RMA_EVENT;
	info->ep_attr->type = FI_EP_MSG;
	info->ep_attr->protocol = core_rules.nic ? FI_PROTO_RDMA_CM_IB_RC : FI_PROTO_SOCK_TCP;
	info->domain_attr->mr_mode = FI_MR_PROV_KEY | FI_MR_VIRT_ADDR;
	info->fabric_attr->api_version = FI_VERSION(1, 17);
	world.info = info;
}

static void open_party(struct party *party)
{
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_CONTEXT,
				  .size = party == &world.target ? world.target_size : 64,
				  .wait_obj = party->waits == WAITS_POLLING ? FI_WAIT_NONE
									    : FI_WAIT_FD};
	struct fi_cntr_attr cntr_attr = {.events = FI_CNTR_EVENTS_COMP};
	struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_FD};

	core_open(&party->core);
	party->row = (struct pmv_core){
		.name = "simulated",
		.ops = &pmv_engine_libfabric,
		.caps = !core_rules.nic ? PMV_ENGINE_DELIVER
			: world.fences  ? PMV_ENGINE_FENCE
					: 0,
		.cpu_placed = !core_rules.nic,
		.manual_progress = !core_rules.nic,
		.lingers = core_rules.nic,
		.needs_cqs = !core_rules.nic,
		.uses_sockets = core_rules.sockets,
	};
	party->fabric = (struct pmv_fabric){
		.fabric_fid = {.api_version = FI_VERSION(1, 17)},
		.core_fid = &party->core.fabric,
		.core = &party->row,
	};
	sure(pmv_domain_open(&party->fabric.fabric_fid, world.info, &party->domain, NULL),
	     "a domain");
	sure(fi_cq_open(party->domain, &attr, &party->cq, NULL), "a queue");
	party->rx_cq = party->cq;
	attr.wait_obj = FI_WAIT_FD;
	if (party->splits)
		sure(fi_cq_open(party->domain, &attr, &party->rx_cq, NULL), "another queue");
	sure(pmv_eq_open(&party->fabric.fabric_fid, &eq_attr, &party->eq, NULL), "an event queue");
	if (party->waits == WAITS_COUNTER)
		sure(fi_cntr_open(party->domain, &cntr_attr, &party->cntr, NULL), "a counter");
}

void world_in(struct party *party)
{
	sched_enter(&party->process);
}

static void register_as(enum pmv_persist persist, struct party *party, char **memory,
			struct fid_mr **mr)
{
	*memory = testcore_need(aligned_alloc(4096, WORLD_REGION));
	memset(*memory, 0, WORLD_REGION);
	pmv_setting.domain_declared = pmv_setting.ddio_declared = pmv_setting.ddio = true;
	pmv_setting.domain = persist;
	sure(fi_mr_reg(party->domain, *memory, WORLD_REGION, FI_REMOTE_WRITE | FI_REMOTE_READ, 0, 0,
		       FI_PMEM, mr, NULL),
	     "a region");
}

static void register_memory(void)
{
	static const enum pmv_persist persist[MEMORIES] = {PMV_DMP, PMV_PAGE, PMV_NONE};

	world_in(&world.target);
	for (int i = 0; i < MEMORIES; i++) {
		if (i != MEMORY_PAGE || world.most_sync_ns)
			register_as(persist[i], &world.target, &world.memory[i], &world.mr[i]);
	}
}

void world_prepare(void)
{
	pmv_flush = &slow_memory;
	describe_memory();
	world.source = testcore_need(calloc(1, WORLD_REGION));
}

void world_open(void)
{
	struct sched_process *director = sched_process();

	world_prepare();
	make_info();
	world_in(&world.target);
	open_party(&world.target);
	register_memory();
	floods_open();
	events_open();
	messages_start();
	callers_open();
	for (unsigned int i = 0; i < world.num_initiators; i++) {
		world_in(&world.initiators[i]);
		open_party(&world.initiators[i]);
		if (world.answers)
			register_as(PMV_DMP, &world.initiators[i], &world.initiators[i].own_memory,
				    &world.initiators[i].own_mr);
	}
	sched_enter(director);
}

void world_connect(void)
{
	struct sched_process *director = sched_process();

	for (unsigned int i = 0; i < world.num_initiators; i++) {
		unsigned int eps = 1 + (unsigned int) sched_dice(WORLD_EPS);

		while (eps--)
			conns_add(&world.initiators[i]);
	}
	sched_enter(director);
}

/* Closing */

static void close_party(struct party *party)
{
	world_in(party);
	if (party == &world.target)
		callers_close();
	for (unsigned int i = 0; i < party->num_conns; i++) {
		party->conns[i].open = false;
		sure(fi_close(&party->conns[i].ep->fid), "to close an endpoint");
	}
	if (party->cntr)
		sure(fi_close(&party->cntr->fid), "to close a counter");
	sure(fi_close(&party->cq->fid), "to close a queue");
	if (party->splits)
		sure(fi_close(&party->rx_cq->fid), "to close the other queue");
	sure(fi_close(&party->eq->fid), "to close an event queue");
	for (int i = 0; i < MEMORIES && party == &world.target; i++) {
		if (world.mr[i])
			sure(fi_close(&world.mr[i]->fid), "to close a region");
		free(world.memory[i]);
	}
	if (party == &world.target) {
		messages_end();
		events_close();
		floods_close();
	}
	if (party->own_mr)
		sure(fi_close(&party->own_mr->fid), "to close a region");
	free(party->own_memory);
	sure(fi_close(&party->domain->fid), "to close a domain");
	core_close(&party->core);
}

void world_close(void)
{
	struct sched_process *director = sched_process();
	bool target_first = sched_one_in(2);

	if (target_first)
		close_party(&world.target);
	for (unsigned int i = 0; i < world.num_initiators; i++)
		close_party(&world.initiators[i]);
	if (!target_first)
		close_party(&world.target);
	sched_enter(director);
	fi_freeinfo(world.info);
	free(world.source);
	if (descriptors_open())
		sched_fail("%u descriptors were not closed", descriptors_open());
}
