/* SPDX-License-Identifier: BSD-2-Clause */
/* setup.c -- opens what a world consists of, and names the memory that it changes */
#include "world_impl.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>
#include <rdma/fi_ext_pmemverbs.h>

#include "objects/handshake.h"
#include "base/setting.h"
#include "agent/writeback.h"

static void sure(int ret)
{
	if (ret) {
		fprintf(stderr, "the model can't be set up: %s\n", fi_strerror(-ret));
		exit(2);
	}
}

static void open_end(struct world *world, struct end *end)
{
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED, .size = 16};

	sure(sim_fabric(world->sim, &end->sim_fabric));
	end->core = (struct pmv_core){
		.name = "pmemsim", .ops = &pmv_engine_libfabric, .caps = PMV_ENGINE_FENCE};
	end->fabric = (struct pmv_fabric){
		.fabric_fid = {.api_version = FI_VERSION(1, 17)},
		.core_fid = end->sim_fabric,
		.core = &end->core,
	};
	sure(pmv_domain_open(&end->fabric.fabric_fid, world->info, &end->domain, NULL));
	sure(fi_cq_open(end->domain, &attr, &end->cq, NULL));
	for (unsigned int i = 0; i < world->config.num_eps; i++) {
		sure(fi_endpoint(end->domain, world->info, &end->eps[i], NULL));
		sure(fi_ep_bind(end->eps[i], &end->cq->fid, FI_TRANSMIT | FI_RECV));
		sure(fi_enable(end->eps[i]));
	}
}

static void open_links(struct world *world)
{
	for (unsigned int i = 0; i < world->config.num_eps; i++) {
		struct fid_ep *ep = world->away.eps[i];

		if (world->config.one_kind)
			sure(fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_PMEMVERBS_RECV_MR,
				       &world->mr[0], sizeof(world->mr[0])));
		sure(pmv_mailbox_open(&pmv_to_ep(world->home.eps[i])->mailbox));
		sure(pmv_mailbox_open(&pmv_to_ep(ep)->mailbox));
	}
}

static void introduce(struct fid_ep *ep, struct fid_ep *to)
{
	uint8_t buf[PMV_HANDSHAKE_SIZE];
	struct pmv_handshake handshake;

	pmv_mailbox_handshake(&pmv_to_ep(ep)->mailbox, buf);
	pmv_handshake_decode(buf, sizeof(buf), &handshake);
	pmv_handshake_connect(pmv_to_ep(to), &handshake);
}

static void connect_ends(struct world *world)
{
	for (unsigned int i = 0; i < world->config.num_eps; i++) {
		struct fid_ep *one = world->home.eps[i], *other = world->away.eps[i];

		introduce(one, other);
		introduce(other, one);
		sim_connect(pmv_to_ep(one)->engine.fid, pmv_to_ep(other)->engine.fid);
		sure(pmv_agent_attach(&pmv_to_ep(one)->domain->agent, &pmv_to_ep(one)->mailbox));
		sure(pmv_agent_attach(&pmv_to_ep(other)->domain->agent,
				      &pmv_to_ep(other)->mailbox));
	}
}

static void register_memory(struct world *world)
{
	static const enum hw_domain domains[] = {
		[PMV_NONE] = HW_VOLATILE, [PMV_PAGE] = HW_PAGED, [PMV_DMP] = HW_DMP,
		[PMV_MHP] = HW_MHP,       [PMV_WSP] = HW_WSP,
	};
	const struct world_config *config = &world->config;

	world->memory[WORLD_DRAM] = world->room[WORLD_DRAM] = calloc(1, config->region_size);
	pmv_setting.domain_declared = pmv_setting.ddio_declared = true;
	pmv_setting.domain = config->believed.domain;
	pmv_setting.ddio = config->believed.ddio;
	for (unsigned int i = 0; i < config->num_regions; i++) {
		size_t align = config->domain == PMV_PAGE ? HW_PAGE : HW_LINE;

		world->room[i] = calloc(1, config->region_size + align);
		world->memory[i] =
			(char *) (((uintptr_t) world->room[i] + align - 1) / align * align);
		hw_memory(world->sim->hw, world->memory[i], config->region_size,
			  domains[config->domain]);
		sure(fi_mr_reg(world->away.domain, world->memory[i], config->region_size,
			       FI_REMOTE_WRITE | FI_REMOTE_READ, 0, 0, FI_PMEM, &world->mr[i],
			       NULL));
	}
}

/* post_receives -- of each endpoint's messages, in their order */
static void post_receives(struct world *world)
{
	const struct world_config *config = &world->config;

	for (unsigned int i = 0; i < config->num_ops; i++) {
		const struct world_op *op = &config->ops[i];

		if (op->kind == WORLD_SEND)
			sure((int) fi_recv(world->away.eps[op->ep],
					   world->memory[op->region] + op->offset, op->len, NULL, 0,
					   NULL));
	}
}

static void make_info(struct world *world)
{
	struct fi_info *info = fi_allocinfo();

	info->caps = FI_MSG | FI_RMA | FI_ATOMIC | FI_PMEM | FI_FENCE;
	info->ep_attr->type = FI_EP_MSG;
	info->ep_attr->protocol =
		world->config.believed.local ? FI_PROTO_IWARP : FI_PROTO_RDMA_CM_IB_RC;
	info->domain_attr->mr_mode = FI_MR_PROV_KEY | FI_MR_VIRT_ADDR;
	info->fabric_attr->api_version = FI_VERSION(1, 17);
	world->info = info;
}

void world_set_up(struct world *world)
{
	const struct world_config *config = &world->config;

	world->sim = sim_new(&config->rules, config->room);
	world->sim->hw->changed = explore_changed;
	world->sim->hw->may_die = config->dies_from == 0;
	pmv_setting.agent = PMV_AGENT_PROGRESS;
	pmv_setting.relaxed = config->believed.relaxed;
	pmv_setting.commit_all = config->commit_all;
	make_info(world);
	open_end(world, &world->home);
	open_end(world, &world->away);
	register_memory(world);
	open_links(world);
	connect_ends(world);
	post_receives(world);
	world->stack = calloc(1, STACK_SIZE);
	arena_seal();
}

static void close_end(struct world *world, struct end *end)
{
	for (unsigned int i = 0; i < world->config.num_eps; i++)
		sure(fi_close(&end->eps[i]->fid));
	sure(fi_close(&end->cq->fid));
}

void world_tear_down(struct world *world)
{
	close_end(world, &world->home);
	close_end(world, &world->away);
	for (unsigned int i = 0; i < world->config.num_regions; i++)
		sure(fi_close(&world->mr[i]->fid));
	sure(fi_close(&world->home.domain->fid));
	sure(fi_close(&world->away.domain->fid));
	sure(fi_close(&world->home.sim_fabric->fid));
	sure(fi_close(&world->away.sim_fabric->fid));
	sim_free(world->sim);
	fi_freeinfo(world->info);
}

/* Memory that changes */

/* The program's own variables: the provider has some, too. */
extern char __data_start[], _end[];

static void add_span(struct explore_world *explored, void *start, size_t len, unsigned int groups)
{
	if (explored->num_spans == EXPLORE_MAX_SPANS)
		abort();
	explored->spans[explored->num_spans++] = (struct explore_span){start, len, groups};
}

/* Of what is large only a part is used by a program of a few operations. */
static bool is_small(const struct world_config *config)
{
	return config->num_ops <= 4;
}

#define SMALL_REQUESTS 48
#define SMALL_MESSAGES 12

static size_t pool_len(const struct world *world, const struct pmv_op_pool *pool)
{
	return (is_small(&world->config) ? SMALL_REQUESTS : LARGE_REQUESTS) * pool->size;
}

static void add_block(struct world *world, struct explore_world *explored, struct fid_ep *ep,
		      unsigned int groups)
{
	const struct pmv_mailbox *link = &pmv_to_ep(ep)->mailbox;
	/* What arrives and what is sent, messages and acknowledgements. */
	uint8_t *const blocks[] = {link->block, link->outbox};

	for (size_t i = 0; i < 2; i++) {
		if (!is_small(&world->config)) {
			add_span(explored, blocks[i], PMV_BLOCK_SIZE, groups);
			continue;
		}
		add_span(explored, blocks[i], SMALL_MESSAGES * PMV_MESSAGE_SIZE, groups);
		add_span(explored, blocks[i] + PMV_ACKS_AT, SMALL_MESSAGES * PMV_ACK_SIZE, groups);
	}
}

/* batch_works -- so many of a batch's works are used, at most */
static size_t batch_works(const struct world *world)
{
	return is_small(&world->config) ? SMALL_MESSAGES : PMV_BATCH_WORKS;
}

/* A world has few regions, whose pages lie together. */
#define BATCH_TAIL                                                                                 \
	(offsetof(struct pmv_batch, syncs[WORLD_MAX_REGIONS]) - offsetof(struct pmv_batch, count))

/* The initiator's agent is never told anything, so its batch stays what it is. */
static void add_batch(struct world *world, struct explore_world *explored)
{
	struct pmv_batch *batch = pmv_to_domain(world->away.domain)->agent.batch;

	add_span(explored, (char *) batch->works, batch_works(world) * sizeof(batch->works[0]),
		 GROUP_AWAY);
	add_span(explored, (char *) &batch->count, BATCH_TAIL, GROUP_AWAY);
}

void world_reset_batch(struct world *world)
{
	struct pmv_batch *batch = pmv_to_domain(world->away.domain)->agent.batch;
	const struct pmv_batch *kept = world->batch;

	memcpy(batch->works, kept->works, batch_works(world) * sizeof(batch->works[0]));
	memcpy((char *) &batch->count, (const char *) &kept->count, BATCH_TAIL);
}

void world_add_spans(struct world *world, struct explore_world *explored)
{
	struct end *const ends[] = {&world->home, &world->away};

	add_span(explored, __data_start, _end - __data_start, GROUP_HOME | GROUP_AWAY);
	for (size_t i = 0; i < 2; i++) {
		const struct pmv_op_pool *pool = &pmv_to_domain(ends[i]->domain)->ops;

		add_span(explored, pool->base, pool_len(world, pool), 1 << i);
		for (unsigned int j = 0; j < world->config.num_eps; j++)
			add_block(world, explored, ends[i]->eps[j], 1 << i);
	}
	add_batch(world, explored);
	add_span(explored, world->stack, STACK_SIZE, GROUP_AGENT);
	if (world->config.region_size >= HW_PAGE)
		add_span(explored, world->room[WORLD_DRAM], world->config.region_size, GROUP_AWAY);
	for (unsigned int i = 0; i < world->config.num_regions; i++) {
		const struct hw_memory *memory = &world->sim->hw->memories[i];

		/* The others are small. */
		if (memory->domain != HW_PAGED)
			continue;
		add_span(explored, memory->base, memory->len, GROUP_AWAY);
		add_span(explored, memory->durable, memory->len, GROUP_AWAY);
		add_span(explored, memory->pending, memory->len, GROUP_AWAY);
		add_span(explored, memory->placed, memory->len, GROUP_AWAY);
	}
}

void world_check_room(struct world *world)
{
	struct end *const ends[] = {&world->home, &world->away};

	for (size_t i = 0; i < 2; i++) {
		const struct pmv_op_pool *pool = &pmv_to_domain(ends[i]->domain)->ops;

		if (pool->used > pool_len(world, pool))
			abort();
		for (unsigned int j = 0; j < world->config.num_eps; j++) {
			const struct pmv_mailbox *link = &pmv_to_ep(ends[i]->eps[j])->mailbox;

			if (is_small(&world->config) &&
			    (link->sent >= SMALL_MESSAGES || link->acks >= SMALL_MESSAGES))
				abort();
		}
	}
}
