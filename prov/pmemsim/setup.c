/* SPDX-License-Identifier: BSD-2-Clause */
/* setup.c -- opens what a world consists of, and names the memory that it changes */
#include "world_impl.h"

#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>
#include <rdma/fi_ext_pmemverbs.h>

#include "test/support/introduce.h"
#include "base/setting.h"
#include "agent/writeback.h"
#include "commit/sample.h"
#include "objects/cq.h"

void world_sure(int ret)
{
	if (ret) {
		fprintf(stderr, "the model can't be set up: %s\n", fi_strerror(-ret));
		exit(2);
	}
}

static void open_end(struct world *world, struct end *end, unsigned int group)
{
	size_t before, after;
	char *objects;
	struct fi_cq_attr attr = {.format = world->app->cq_format, .size = 16};

	world_sure(sim_fabric(world->sim, &end->sim_fabric));
	end->core = (struct pmv_core){
		.name = "pmemsim",
		.ops = &pmv_engine_libfabric,
		.caps = PMV_ENGINE_FENCE | (world->config.delivers ? PMV_ENGINE_DELIVER : 0),
		.posts_lists = world->config.flushes,
	};
	end->fabric = (struct pmv_fabric){
		.fabric_fid = {.api_version = FI_VERSION(1, 17)},
		.core_fid = end->sim_fabric,
		.core = &end->core,
	};
	world_sure(pmv_domain_open(&end->fabric.fabric_fid, world->info, &end->domain, NULL));
	world_sure(fi_cq_open(end->domain, &attr, &end->cq, NULL));
	/* What domains have is shared, in parts. */
	objects = arena_small(&before);
	for (unsigned int i = 0; i < world->config.num_eps; i++) {
		world_sure(fi_endpoint(end->domain, world->info, &end->eps[i], NULL));
		world_sure(fi_ep_bind(end->eps[i], &end->cq->fid, world->app->transmit));
		world_sure(fi_ep_bind(end->eps[i], &end->cq->fid, FI_RECV));
		world_sure(fi_enable(end->eps[i]));
	}
	arena_small(&after);
	end->own = (struct explore_told){objects + before, after - before, group};
}

static void open_links(struct world *world)
{
	for (unsigned int i = 0; i < world->config.num_eps; i++) {
		struct fid_ep *ep = world->away.eps[i];

		if (world->config.one_kind)
			world_sure(fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_PMEMVERBS_RECV_MR,
					     &world->mr[0], sizeof(world->mr[0])));
		pmv_to_ep(world->home.eps[i])->initiator.passes = world->config.passes;
		if (!world->config.stores)
			pmv_to_ep(world->home.eps[i])->initiator.stores_from = UINT64_MAX;
		world_sure(pmv_mailbox_open(&pmv_to_ep(world->home.eps[i])->mailbox));
		world_sure(pmv_mailbox_open(&pmv_to_ep(ep)->mailbox));
	}
}

static void connect_ends(struct world *world)
{
	for (unsigned int i = 0; i < world->config.num_eps; i++) {
		struct fid_ep *one = world->home.eps[i], *other = world->away.eps[i];

		introduce(one, other);
		introduce(other, one);
		pmv_initiator_established(&pmv_to_ep(one)->initiator);
		pmv_initiator_established(&pmv_to_ep(other)->initiator);
		sim_connect(pmv_to_ep(one)->engine.fid, pmv_to_ep(other)->engine.fid);
		world_sure(pmv_agent_attach(&pmv_to_ep(one)->domain->agent,
					    &pmv_to_ep(one)->mailbox.receiver));
		world_sure(pmv_agent_attach(&pmv_to_ep(other)->domain->agent,
					    &pmv_to_ep(other)->mailbox.receiver));
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
		if (world->app->make_memory)
			world->app->make_memory(world, domains[config->domain]);
		else
			hw_memory(world->sim->hw, world->memory[i], config->region_size,
				  domains[config->domain]);
		world_sure(fi_mr_reg(world->away.domain, world->memory[i], config->region_size,
				     FI_REMOTE_WRITE | FI_REMOTE_READ, 0, 0, FI_PMEM, &world->mr[i],
				     NULL));
	}
}

static void make_info(struct world *world)
{
	struct fi_info *info = fi_allocinfo();

	info->caps = FI_MSG | FI_RMA | FI_ATOMIC | FI_PMEM | FI_FENCE;
	if (world->config.events)
		info->caps |= FI_RMA_EVENT;
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
	world->sim->atomic_writes = config->atomic_writes;
	world->sim->slots = config->mutation == MUTATION_SLOTS_IGNORED ? 0 : config->rules.slots;
	world->sim->hw->changed = explore_changed;
	world->sim->hw->may_die = config->dies_from == 0;
	pmv_setting.agent = PMV_AGENT_PROGRESS;
	pmv_setting.relaxed = config->believed.relaxed;
	pmv_setting.commit_all = config->commit_all;
	make_info(world);
	open_end(world, &world->home, GROUP_HOME);
	open_end(world, &world->away, GROUP_AWAY);
	register_memory(world);
	open_links(world);
	connect_ends(world);
	world->app->open(world);
	world->agent.stack = calloc(1, STACK_SIZE);
	if (world->app->threaded)
		world->target.stack = calloc(1, STACK_SIZE);
	for (unsigned int i = 0; i < world->app->others; i++)
		world->others[i].stack = calloc(1, STACK_SIZE);
	arena_seal();
}

static void close_end(struct world *world, struct end *end)
{
	for (unsigned int i = 0; i < world->config.num_eps; i++)
		world_sure(fi_close(&end->eps[i]->fid));
	world_sure(fi_close(&end->cq->fid));
}

void world_tear_down(struct world *world)
{
	if (world->app->close)
		world->app->close(world);
	close_end(world, &world->home);
	close_end(world, &world->away);
	for (unsigned int i = 0; i < world->config.num_regions; i++)
		world_sure(fi_close(&world->mr[i]->fid));
	world_sure(fi_close(&world->home.domain->fid));
	world_sure(fi_close(&world->away.domain->fid));
	world_sure(fi_close(&world->home.sim_fabric->fid));
	world_sure(fi_close(&world->away.sim_fabric->fid));
	sim_free(world->sim);
	fi_freeinfo(world->info);
}

/* Memory that changes */

/* The program's own variables: the provider has some, too. */
extern char __data_start[], __bss_start[], _end[];

void world_add_span(struct explore_world *explored, void *start, size_t len, unsigned int groups)
{
	if (explored->num_spans == EXPLORE_MAX_SPANS)
		abort();
	explored->spans[explored->num_spans++] = (struct explore_span){start, len, groups};
}

static void add_span(struct explore_world *explored, void *start, size_t len)
{
	world_add_span(explored, start, len, 0);
}

void world_add_told(struct explore_world *explored, const void *start, size_t len,
		    unsigned int groups)
{
	if (explored->num_told == EXPLORE_MAX_TOLD)
		abort();
	explored->told[explored->num_told++] = (struct explore_told){start, len, groups};
}

/*
 * add_variables -- what has a value from the start, such as a table of functions, keeps it; and
 * without metrics nobody fills the histograms
 */
static void add_variables(struct explore_world *explored)
{
	char *const histograms = (char *) &pmv_sample_histograms;
	char *const behind = (char *) (&pmv_sample_histograms + 1);

	/* analyse comparePointers: the linker's names are those of places among them */
	if (histograms < __bss_start || behind > _end)
		abort();
	add_span(explored, __data_start, __bss_start - __data_start);
	world_add_span(explored, __bss_start, histograms - __bss_start, GROUP_BOTH);
	add_span(explored, histograms, behind - histograms);
	world_add_span(explored, behind, _end - behind, GROUP_BOTH);
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

static void add_block(struct world *world, struct explore_world *explored, struct fid_ep *ep)
{
	const struct pmv_mailbox *mailbox = &pmv_to_ep(ep)->mailbox;
	/* What arrives and what is sent, messages and acknowledgements. */
	uint8_t *const blocks[] = {mailbox->link.block, mailbox->link.outbox};

	for (size_t i = 0; i < 2; i++) {
		if (!is_small(&world->config)) {
			add_span(explored, blocks[i], PMV_BLOCK_SIZE);
			continue;
		}
		add_span(explored, blocks[i], SMALL_MESSAGES * PMV_MESSAGE_SIZE);
		add_span(explored, blocks[i] + PMV_ACKS_AT, SMALL_MESSAGES * PMV_ACK_SLOT);
	}
}

/* batch_works -- so many of a batch's works are used, at most */
static size_t batch_works(const struct world *world)
{
	return is_small(&world->config) ? SMALL_MESSAGES : PMV_WRITEBACK_WORKS;
}

/* A world has few regions, whose pages lie together. */
#define BATCH_TAIL                                                                                 \
	(offsetof(struct pmv_writeback_batch, syncs[WORLD_MAX_REGIONS]) -                          \
	 offsetof(struct pmv_writeback_batch, count))

void world_add_batch(const struct world *world, struct explore_world *explored,
		     struct pmv_writeback_batch *batch)
{
	add_span(explored, batch->works, batch_works(world) * sizeof(batch->works[0]));
	add_span(explored, &batch->count, BATCH_TAIL);
}

/* used_messages -- so many places of a connection's blocks were ever used, at most */
static size_t used_messages(const struct world *world, unsigned int ep)
{
	const struct pmv_mailbox *one = &pmv_to_ep(world->home.eps[ep])->mailbox;
	const struct pmv_mailbox *other = &pmv_to_ep(world->away.eps[ep])->mailbox;
	size_t most = is_small(&world->config) ? SMALL_MESSAGES : PMV_SLOTS;
	size_t used =
		1 + (one->sender.sent > other->sender.sent ? one->sender.sent : other->sender.sent);

	return used < most ? used : most;
}

/* used_works -- so many of the batch's works were ever used, at most */
static size_t used_works(const struct world *world)
{
	size_t works = 0;

	for (unsigned int i = 0; i < world->config.num_eps; i++)
		works += used_messages(world, i);
	return works < batch_works(world) ? works : batch_works(world);
}

void world_tell_batch(const struct world *world, const struct pmv_writeback_batch *batch)
{
	explore_changed(batch->works, used_works(world) * sizeof(batch->works[0]));
	explore_changed(&batch->count, BATCH_TAIL);
}

void world_reset_batch(struct world *world)
{
	struct pmv_writeback_batch *batch = pmv_to_domain(world->away.domain)->agent.batch;
	const struct pmv_writeback_batch *kept = world->batch;

	memcpy(batch->works, kept->works, used_works(world) * sizeof(batch->works[0]));
	memcpy((char *) &batch->count, (const char *) &kept->count, BATCH_TAIL);
}

static int compare_told(const void *a, const void *b)
{
	const struct explore_told *one = a, *other = b;

	return (one->start > other->start) - (one->start < other->start);
}

/* add_object -- an object that was allocated by itself */
static void add_object(struct explore_world *explored, const void *object, unsigned int groups)
{
	world_add_told(explored, object, arena_len(object), groups);
}

/* add_own -- what is an end's, and the ports among that, of which everybody tells */
static void add_own(const struct world *world, const struct end *end,
		    struct explore_world *explored)
{
	const char *at = end->own.start, *behind = at + end->own.len;
	unsigned int groups = end->own.groups;

	add_object(explored, pmv_to_domain(end->domain), groups);
	add_object(explored, pmv_to_cq(end->cq), groups);
	for (unsigned int i = 0; i < world->config.num_eps; i++) {
		const char *port = (const char *) world_port(end->eps[i]);

		if (port < at || port >= behind)
			abort();
		world_add_told(explored, at, (size_t) (port - at), groups);
		world_add_told(explored, port, sizeof(struct hw_port), 0);
		at = port + sizeof(struct hw_port);
	}
	world_add_told(explored, at, (size_t) (behind - at), groups);
}

/* add_told -- what is large in the arena, and is the model's own, or an end's */
static void add_told(struct world *world, struct explore_world *explored)
{
	const struct hw *hw = world->sim->hw;

	world_add_told(explored, world->ops, sizeof(world->ops), 0);
	world_add_told(explored, hw, sizeof(*hw), 0);
	add_own(world, &world->home, explored);
	add_own(world, &world->away, explored);
}

/* The others' memory is small. */
void world_add_files(const struct world *world, struct explore_world *explored)
{
	for (unsigned int i = 0; i < world->config.num_regions; i++) {
		const struct hw_memory *memory = &world->sim->hw->memories[i];

		if (memory->domain != HW_PAGED)
			continue;
		add_span(explored, memory->base, memory->len);
		add_span(explored, memory->durable, memory->len);
		add_span(explored, memory->pending, memory->len);
		add_span(explored, memory->placed, memory->len);
		if (memory->written)
			add_span(explored, memory->written, memory->len);
	}
}

void world_add_spans(struct world *world, struct explore_world *explored)
{
	struct end *const ends[] = {&world->home, &world->away};

	add_told(world, explored);
	add_variables(explored);
	for (size_t i = 0; i < 2; i++) {
		const struct pmv_op_pool *pool = &pmv_to_domain(ends[i]->domain)->ops;

		add_span(explored, pool->base, pool_len(world, pool));
		for (unsigned int j = 0; j < world->config.num_eps; j++)
			add_block(world, explored, ends[i]->eps[j]);
	}
	/* The initiator's agent is never told anything, so its batch stays what it is. */
	world_add_batch(world, explored, pmv_to_domain(world->away.domain)->agent.batch);
	add_span(explored, world->agent.stack, STACK_SIZE);
	if (world->target.stack)
		add_span(explored, world->target.stack, STACK_SIZE);
	for (unsigned int i = 0; i < world->app->others; i++)
		add_span(explored, world->others[i].stack, STACK_SIZE);
	if (world->config.region_size >= HW_PAGE)
		add_span(explored, world->room[WORLD_DRAM], world->config.region_size);
	if (world->app->add_spans)
		world->app->add_spans(world, explored);
	else
		world_add_files(world, explored);
	qsort(explored->told, explored->num_told, sizeof(explored->told[0]), compare_told);
}

void world_tell_used(struct world *world, const struct end *end)
{
	const struct pmv_op_pool *pool = &pmv_to_domain(end->domain)->ops;
	const struct pmv_writeback_batch *batch = pmv_to_domain(world->away.domain)->agent.batch;

	explore_changed(pool->base, pool->used);
	for (unsigned int i = 0; i < world->config.num_eps; i++) {
		const struct pmv_mailbox *mailbox = &pmv_to_ep(end->eps[i])->mailbox;
		size_t used = used_messages(world, i);

		explore_changed(mailbox->link.block, used * PMV_MESSAGE_SIZE);
		explore_changed(mailbox->link.outbox, used * PMV_MESSAGE_SIZE);
		explore_changed(mailbox->link.block + PMV_ACKS_AT, used * PMV_ACK_SLOT);
		explore_changed(mailbox->link.outbox + PMV_ACKS_AT, used * PMV_ACK_SLOT);
	}
	if (end == &world->home)
		return;
	world_tell_batch(world, batch);
	if (world->app->tell_used)
		world->app->tell_used(world);
	/* The agent stores to files by itself.  What is small is in the arena. */
	for (unsigned int i = 0; i <= WORLD_DRAM && world->config.region_size >= HW_PAGE; i++)
		explore_changed(world->memory[i], world->memory[i] ? world->config.region_size : 0);
}

void world_check_room(struct world *world)
{
	struct end *const ends[] = {&world->home, &world->away};

	for (size_t i = 0; i < 2; i++) {
		const struct pmv_op_pool *pool = &pmv_to_domain(ends[i]->domain)->ops;

		if (pool->used > pool_len(world, pool))
			abort();
		for (unsigned int j = 0; j < world->config.num_eps; j++) {
			const struct pmv_mailbox *mailbox = &pmv_to_ep(ends[i]->eps[j])->mailbox;

			if (is_small(&world->config) &&
			    (mailbox->sender.sent >= SMALL_MESSAGES ||
			     mailbox->receiver.posted_acks >= SMALL_MESSAGES))
				abort();
		}
	}
}
