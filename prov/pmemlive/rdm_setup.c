/* SPDX-License-Identifier: BSD-2-Clause */
/* rdm_setup.c -- processes of FI_EP_RDM begin, end, and are killed */
#include "rdm_world.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext_pmemverbs.h>
#include <rdma/providers/fi_prov.h>

#include "base/setting.h"
#include "descriptors.h"
#include "testcore/fid.h"

#define FIRST_PORT 60000
#define ENTRIES 64

struct core_domain *rdm_core_of(const struct sched_process *process)
{
	for (int i = 0; i < rdm_world.num_lives; i++) {
		if (&rdm_world.lives[i].process == process)
			return &rdm_world.lives[i].core;
	}
	sched_fail("%s has no core", process->name);
}

/*
 * alias_of -- each life of an initiator sees the target at an address of its own: the provider
 * keeps one list in a process of the peers that it can't reach, and all processes are one here
 */
static uint32_t alias_of(const struct rdm_party *party)
{
	return party->place == RDM_TARGET ? 0 : (uint32_t) (party - rdm_world.lives) << 8;
}

static uint32_t ip_of(int place)
{
	return 0x7f000001U + (place == RDM_TARGET ? 0x10000U : (uint32_t) place);
}

static void ask(struct rdm_party *party)
{
	struct fi_info *hints = testcore_need(fi_allocinfo());

	hints->caps = FI_MSG | FI_RMA | FI_PMEM | (rdm_world.atomics ? FI_ATOMIC : 0) |
		      (rdm_world.fences ? FI_FENCE : 0);
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->data_progress =
		rdm_world.threads ? FI_PROGRESS_AUTO : FI_PROGRESS_MANUAL;
	hints->domain_attr->mr_mode = FI_MR_PROV_KEY | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED;
	hints->fabric_attr->prov_name = strdup("pmemverbs");
	sure(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &party->info), "FI_EP_RDM");
	/* RxM fills as much memory for each entry as a small world has in all. */
	party->info->tx_attr->size = party->info->rx_attr->size = ENTRIES;
	fi_freeinfo(hints);
}

static void add_peer(struct rdm_party *party, int place)
{
	const struct sockaddr_in addr = {
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t) (FIRST_PORT + place)),
		.sin_addr.s_addr = htonl(ip_of(place) + alias_of(party)),
	};

	if (fi_av_insert(party->av, &addr, 1, &party->peers[place], 0, NULL) != 1)
		sched_fail("an address is refused");
}

static void open_endpoint(struct rdm_party *party)
{
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_CONTEXT,
				  .size = 64,
				  .wait_obj = party->waits == WAITS_POLLING ? FI_WAIT_NONE
									    : FI_WAIT_FD};

	sure(fi_av_open(party->domain, &av_attr, &party->av, NULL), "an address vector");
	sure(fi_cq_open(party->domain, &attr, &party->cq, NULL), "a queue");
	sure(fi_endpoint(party->domain, party->info, &party->ep, NULL), "an endpoint");
	sure(fi_ep_bind(party->ep, &party->av->fid, 0), "its address vector");
	sure(fi_ep_bind(party->ep, &party->cq->fid, FI_TRANSMIT | FI_RECV), "its queue");
	sure(fi_enable(party->ep), "to enable it");
	for (int place = 0; place < rdm_world.num_places; place++) {
		if (place != party->place)
			add_peer(party, place);
	}
}

static void register_memory(struct rdm_party *party)
{
	static const enum pmv_persist persist[] = {PMV_DMP, PMV_DMP, PMV_MHP};

	party->memory = testcore_need(aligned_alloc(4096, WORLD_REGION));
	memset(party->memory, 0, WORLD_REGION);
	pmv_setting.domain_declared = pmv_setting.ddio_declared = pmv_setting.ddio = true;
	pmv_setting.domain = persist[sched_dice(3)];
	sure(fi_mr_reg(party->domain, party->memory, WORLD_REGION, FI_REMOTE_WRITE | FI_REMOTE_READ,
		       0, 0, FI_PMEM, &party->mr, NULL),
	     "a region");
}

static void choose_application(struct rdm_party *party)
{
	static const enum waits targets[] = {WAITS_POLLING, WAITS_SREAD, WAITS_DESCRIPTOR,
					     WAITS_ASIDE};
	static const enum waits initiators[] = {WAITS_POLLING,  WAITS_SREAD,      WAITS_SREAD,
						WAITS_SREAD_MS, WAITS_DESCRIPTOR, WAITS_DESCRIPTOR};

	party->waits =
		party->place == RDM_TARGET
			? targets[sched_dice(rdm_world.threads && !rdm_world.answers ? 4 : 3)]
			: initiators[sched_dice(6)];
	party->depth = (unsigned int[]){1, 3, RDM_DEPTH}[sched_dice(3)];
	party->most_pause_ns = (int64_t[]){0, 100000, 5000000, 400000000}[sched_dice(4)];
}

void rdm_open(int place)
{
	struct sched_process *before = sched_process();
	const struct core_domain *last = core_domain_at((uint16_t) (FIRST_PORT + place));
	struct rdm_party *party = &rdm_world.lives[rdm_world.num_lives++];

	snprintf(party->process.name, sizeof(party->process.name), "%s%d",
		 place == RDM_TARGET ? "target" : "home", rdm_world.num_lives - 1);
	party->process.pid = 100 + rdm_world.num_lives;
	party->place = place;
	for (int i = 0; i < rdm_world.num_places; i++)
		party->born[i] = rdm_link_of(party, i)->harms;
	choose_application(party);
	core_open(&party->core);
	party->core.ip = ip_of(place);
	party->core.alias = alias_of(party);
	party->core.port = (uint16_t) (FIRST_PORT + place);
	party->core.cut_off = last && last->cut_off;
	party->core.near = last && last->near;
	sched_enter(&party->process);
	ask(party);
	sure(fi_fabric(party->info->fabric_attr, &party->fabric, NULL), "a fabric");
	sure(fi_domain(party->fabric, party->info, &party->domain, NULL), "a domain");
	register_memory(party);
	open_endpoint(party);
	rdm_world.at[place] = party;
	sched_enter(before);
}

static bool may_be_killed(void *arg)
{
	return !((struct rdm_party *) arg)->process.common_locks;
}

void rdm_kill(struct rdm_party *party)
{
	sched_block("waits for common locks", may_be_killed, party, SCHED_NEVER);
	sched_trace("%s is killed", party->process.name);
	party->killed = true;
	party->process.stopped_until_ns = SCHED_NEVER;
	core_kill(&party->core);
	descriptors_kill(&party->process);
}

void rdm_close(struct rdm_party *party)
{
	struct sched_process *before = sched_process();

	if (party->killed)
		return;
	sched_enter(&party->process);
	sure(fi_close(&party->ep->fid), "to close an endpoint");
	sure(fi_close(&party->cq->fid), "to close a queue");
	sure(fi_close(&party->av->fid), "to close an address vector");
	sure(fi_close(&party->mr->fid), "to close a region");
	sure(fi_close(&party->domain->fid), "to close a domain");
	sure(fi_close(&party->fabric->fid), "to close a fabric");
	fi_freeinfo(party->info);
	free(party->memory);
	core_close(&party->core);
	sched_enter(before);
}
