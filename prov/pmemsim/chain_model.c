/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * chain_model.c -- chains on the model of the hardware, which loses power at every step
 *
 * An initiator writes something, or nothing, and posts a chain of up to four steps.  Each step
 * stores a number of its own into a cache line of its own, so a power failure may leave any of them
 * without the others.  A step stores as a WRITE or as a CAS: which one is no matter, so they take
 * turns.  All combinations of commits are tried, on each kind of memory.
 *
 * In every state:
 * 1. If a power failure leaves what a step has stored, it leaves all that was before the last
 * commit in front of that step, the write in front of the chain included.
 * 2. If the initiator was told that a chain has succeeded whose last step commits, all is left.
 * 3. A step that is not the first has stored nothing that the processor sees before the one in
 *    front of it has.
 *
 * In another chain a step stores, and one behind it reads that as a large result.  Another chain
 * stores there meanwhile.  If the initiator was told that the first one has succeeded, the result
 * is there, and is what the first one has stored.
 *
 * A mutant does one thing wrong, and must break one of these rules.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>
#include <rdma/fi_ext_pmemverbs.h>

#include "agent/large_results.h"
#include "checks.h"
#include "world_impl.h"

#define MOST_STEPS 4
#define MOST_STATES 3000000

/* A chain: bit n of commits is that of step n. */
struct program {
	bool reads;  /* a large result; then no more is looked at than that */
	bool writes; /* something is written before */
	unsigned int steps;
	unsigned int commits;
};

/* What a run of it needs: in the arena. */
struct chain {
	const struct program *program;
	struct fi_pmemverbs_chain_ops *ops;
	struct fi_pmemverbs_step steps[MOST_STEPS + 1], later;
	struct fid_mr *result_mr;
	uint64_t result;
	uint64_t zero, values[MOST_STEPS + 1];
	unsigned int posted;
	bool told, succeeded;
};

static struct chain *chain_of(const struct world *world)
{
	return world->own;
}

/* line -- 0 is what is written before, on a page of its own; n is that of the n-th step */
static char *line(const struct world *world, unsigned int n)
{
	size_t page = n && world->config.domain == PMV_PAGE ? HW_PAGE : 0;

	return world->memory[0] + page + n * HW_LINE;
}

/* open_reading -- behind what was stored; and what is stored later */
static void open_reading(struct world *world, struct chain *chain)
{
	struct pmv_ep *away = pmv_to_ep(world->away.eps[0]);

	world_sure(fi_mr_reg(world->home.domain, &chain->result, sizeof(chain->result),
			     FI_REMOTE_WRITE, 0, 0, 0, &chain->result_mr, NULL));
	/* Its pages are no part of the arena. */
	away->mailbox.receiver.large[0] = pmv_large_results_open(
		away->engine.engine, &away->domain->agent.regions.large_results);
	if (!away->mailbox.receiver.large[0])
		abort();
	chain->later = chain->steps[0];
	chain->later.operand = &chain->values[MOST_STEPS];
	chain->steps[chain->program->steps] = (struct fi_pmemverbs_step){
		.kind = FI_PMEMVERBS_STEP_READ,
		.addr = chain->steps[0].addr,
		.key = chain->steps[0].key,
		.len = 8,
		.result = &chain->result,
		.result_mr = chain->result_mr,
	};
}

static void close_chain(struct world *world)
{
	struct chain *chain = chain_of(world);

	if (chain->result_mr)
		world_sure(fi_close(&chain->result_mr->fid));
}

static void open_chain(struct world *world)
{
	const struct program *program = world->config.arg;
	struct chain *chain = calloc(1, sizeof(*chain));

	if (!chain)
		abort();
	world->own = chain;
	chain->program = program;
	world_sure(fi_open_ops(&world->home.eps[0]->fid, FI_PMEMVERBS_CHAIN_OPS, 0,
			       (void **) &chain->ops, NULL));
	for (unsigned int i = 0; i <= MOST_STEPS; i++)
		chain->values[i] = i + 1;
	for (unsigned int i = 0; i < program->steps; i++) {
		chain->steps[i] = (struct fi_pmemverbs_step){
			.kind = i % 2 ? FI_PMEMVERBS_STEP_CAS : FI_PMEMVERBS_STEP_WRITE,
			.addr = (uintptr_t) line(world, i + 1),
			.key = fi_mr_key(world->mr[0]),
			.len = 8,
			.operand = &chain->values[i + 1],
			.expected = i % 2 ? &chain->zero : NULL,
			.flags = program->commits & 1U << i ? FI_PMEMVERBS_STEP_COMMIT : 0,
		};
	}
	if (program->reads)
		open_reading(world, chain);
}

/* Replies come with acknowledgements.  Nobody tells of what changes in memory for large ones. */
static void add_spans(const struct world *world, struct explore_world *explored)
{
	const struct pmv_receiver *receiver = &pmv_to_ep(world->away.eps[0])->mailbox.receiver;

	if (receiver->large[0])
		world_add_span(explored, receiver->large[0]->memory, sizeof(uint64_t), GROUP_BOTH);
	world_add_files(world, explored);
}

static void leave(struct world *world)
{
	(void) world;
}

static bool may_post(const struct world *world)
{
	const struct chain *chain = chain_of(world);

	return chain->posted < (chain->program->reads ? 3 : 2);
}

static ssize_t post_write(struct world *world)
{
	struct chain *chain = chain_of(world);

	return fi_write(world->home.eps[0], chain->values, 8, NULL, 0, (uintptr_t) line(world, 0),
			fi_mr_key(world->mr[0]), NULL);
}

static void post_next(struct world *world)
{
	struct chain *chain = chain_of(world);
	ssize_t ret = 0;

	if (chain->posted == 2)
		ret = chain->ops->post(world->home.eps[0], &chain->later, 1, NULL, FI_COMPLETION);
	else if (chain->posted)
		ret = chain->ops->post(world->home.eps[0], chain->steps,
				       chain->program->steps + chain->program->reads, chain,
				       FI_COMPLETION);
	else if (chain->program->writes)
		ret = post_write(world);
	if (ret && ret != -FI_EAGAIN)
		snprintf(world->wrong, sizeof(world->wrong), "a call fails");
	explore_changed(chain, sizeof(*chain));
	chain->posted += !ret;
}

static void poll_home(struct world *world)
{
	struct chain *chain = chain_of(world);
	struct fi_cq_tagged_entry entry = {0};
	struct fi_cq_err_entry error = {0};
	ssize_t ret;

	explore_changed(chain, sizeof(*chain));
	while ((ret = fi_cq_read(world->home.cq, &entry, 1)) != -FI_EAGAIN) {
		if (ret == -FI_EAVAIL)
			fi_cq_readerr(world->home.cq, &error, 0);
		if ((ret == 1 ? entry.op_context : error.op_context) != chain)
			continue;
		if (chain->told)
			snprintf(world->wrong, sizeof(world->wrong), "it has completed twice");
		chain->told = true;
		chain->succeeded = ret == 1;
	}
}

static void poll_away(struct world *world)
{
	struct fi_cq_tagged_entry entry;

	while (world_read_away(world, &entry, 1) == 1)
		;
}

/* What must hold */

static bool survives(const struct world *world, unsigned int n)
{
	uint64_t image;

	hw_image(world->sim->hw, line(world, n), sizeof(image), (char *) &image);
	return image == n + 1;
}

static bool is_seen(const struct world *world, unsigned int n)
{
	uint64_t now;

	memcpy(&now, line(world, n), sizeof(now));
	return now == n + 1;
}

static const char *lost(unsigned int n, const char *why)
{
	static char text[160];

	if (n)
		snprintf(text, sizeof(text), "%s; a power failure now loses step %u", why, n);
	else
		snprintf(text, sizeof(text), "%s; a power failure now loses the write before it",
			 why);
	return text;
}

/* first_lost -- of the lines before this one; 0 is there only if something was written */
static bool first_lost(const struct world *world, unsigned int before, unsigned int *n)
{
	for (*n = !chain_of(world)->program->writes; *n < before; ++*n) {
		if (!survives(world, *n))
			return true;
	}
	return false;
}

static const char *check_result(const struct chain *chain, bool final)
{
	if (chain->succeeded && chain->result != chain->values[1])
		return chain->result ? "a later chain has changed a large result"
				     : "the chain succeeds without its large result";
	return final && !chain->succeeded ? "the chain fails" : NULL;
}

static const char *check(void *arg, bool final)
{
	const struct world *world = arg;
	const struct chain *chain = chain_of(world);
	const struct program *program = chain->program;
	unsigned int committed = 0, n;

	if (*world->wrong)
		return world->wrong;
	if (program->reads)
		return check_result(chain, final);
	for (unsigned int i = 1; i <= program->steps; i++) {
		/* All lines before this are durable when step i is executed. */
		if (program->commits & 1U << (i - 1))
			committed = i;
		if (survives(world, i) && first_lost(world, committed, &n))
			return lost(n, "a step behind a commit is there");
		if (i > 1 && is_seen(world, i) && !is_seen(world, i - 1))
			return "a step comes before the one in front of it";
	}
	if (chain->succeeded && (program->commits & 1U << (program->steps - 1)) &&
	    first_lost(world, program->steps + 1, &n))
		return lost(n, "the initiator heard that the chain is durable");
	if (final && !chain->told)
		return "the chain has never completed";
	return final && !chain->succeeded ? "the chain fails" : NULL;
}

static void describe_post(const struct world *world, char *buf, size_t len)
{
	snprintf(buf, len, "the initiator posts %s",
		 chain_of(world)->posted == 2       ? "another chain"
		 : chain_of(world)->posted          ? "the chain"
		 : chain_of(world)->program->writes ? "a write"
						    : "nothing");
}

static const struct world_app chains = {
	.cq_format = FI_CQ_FORMAT_TAGGED,
	.transmit = FI_TRANSMIT,
	.open = open_chain,
	.add_spans = add_spans,
	.close = close_chain,
	.leave = leave,
	.may_post = may_post,
	.post = post_next,
	.poll_home = poll_home,
	.poll_away = poll_away,
	.check = check,
	.describe_post = describe_post,
};

/* Worlds */

static const struct memory {
	const char *name;
	enum pmv_persist domain;
	bool ddio;
} memories[] = {
	{"DMP   DDIO on", PMV_DMP, true},
	{"DMP   DDIO off", PMV_DMP, false},
	{"MHP", PMV_MHP, true},
	{"PAGE", PMV_PAGE, true},
};

#define NUM_MEMORIES (sizeof(memories) / sizeof(memories[0]))

struct mutant {
	const char *name;
	enum world_mutation mutation;
	bool finds[NUM_MEMORIES]; /* where it is found out */
	void (*believe)(struct world_config *config);
};

/* ignore_order -- the provider takes it for a path that keeps it */
static void ignore_order(struct world_config *config)
{
	config->rules.relaxed = true;
}

/* concerns_results -- and what becomes durable is no matter */
static bool concerns_results(const struct mutant *mutant)
{
	return mutant->believe == ignore_order;
}

static const struct mutant mutants[] = {
	{"acknowledged before it is drained or synced",
	 MUTATION_ACK_TOO_SOON,
	 {true, true, false, true},
	 NULL},
	{"swung before the flush", MUTATION_STORE_TOO_SOON, {true, true, false, true}, NULL},
	{"one line too few is flushed", MUTATION_LINE_LEFT_OUT, {true, false, false, false}, NULL},
	{"one page too few is synced", MUTATION_PAGE_LEFT_OUT, {false, false, false, true}, NULL},
	{"the kernel hears of no write", MUTATION_NOT_TOUCHED, {false, false, false, true}, NULL},
	{"no flush in front of the chain",
	 MUTATION_ORDER_DROPPED,
	 {false, true, false, false},
	 NULL},
	{"the fence is ignored", MUTATION_FENCE_IGNORED, {false, true, false, false}, NULL},
	{"caches are believed to persist", MUTATION_NONE, {true, true, false, true}, believe_mhp},
	{"the path reorders writes", MUTATION_NONE, {true, true, true, true}, ignore_order},
};

static struct world_config config_of(const struct memory *memory, const struct mutant *mutant,
				     const struct program *program)
{
	struct world_config config = {
		.rules = {.ddio = memory->ddio, .buffered = !memory->ddio, .granule = HW_LINE},
		.domain = memory->domain,
		.dies_from = WORLD_NEVER_DIES,
		.reduced = true,
		.room = 16,
		.num_eps = 1,
		.num_regions = 1,
		.region_size =
			memory->domain == PMV_PAGE ? 2 * HW_PAGE : (MOST_STEPS + 1) * HW_LINE,
		.num_ops = 2 + program->reads,
		.app = &chains,
		.arg = program,
	};

	world_believe(&config);
	if (mutant) {
		config.mutation = mutant->mutation;
		if (mutant->believe)
			mutant->believe(&config);
	}
	return config;
}

/* each -- all chains of a memory; returns how many are wrong */
static unsigned int each(const struct memory *memory, const struct mutant *mutant, bool tell,
			 uint64_t *states, unsigned int *count)
{
	static const struct program reading = {.reads = true, .steps = 1};
	struct world_config config = config_of(memory, mutant, &reading);
	unsigned int wrong = 0;

	if (!mutant || concerns_results(mutant)) {
		wrong += !checks_explore(&config, MOST_STATES, tell, states);
		++*count;
	}
	if (mutant && concerns_results(mutant))
		return wrong;
	for (unsigned int steps = 1; steps <= MOST_STEPS; steps++) {
		for (unsigned int bits = 0; bits < 2U << steps; bits++) {
			const struct program program = {false, bits & 1, steps, bits >> 1};

			config = config_of(memory, mutant, &program);

			/* One that is found out once is. */
			if (mutant && wrong)
				return wrong;
			wrong += !checks_explore(&config, MOST_STATES, tell, states);
			++*count;
		}
	}
	return wrong;
}

int main(int argc, char **argv)
{
	static const struct argp_child children[] = {{&checks_argp, 0, NULL, 0}, {0}};
	static const struct argp argp = {
		.children = children,
		.doc = "Check chains on a model of the hardware that loses power at every step.",
	};
	size_t number = 0;

	/* Mutants make the provider complain. */
	setenv("FI_LOG_LEVEL", "none", 0);
	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	for (size_t i = 0; i < NUM_MEMORIES; i++) {
		uint64_t states = 0;
		unsigned int count = 0, wrong;

		if (!checks_is_mine(number++) || !checks_wants(memories[i].name))
			continue;
		wrong = each(&memories[i], NULL, true, &states, &count);
		printf("%-6s chains, %s: %u of %u, %llu states\n", wrong ? "not ok" : "ok",
		       memories[i].name, count - wrong, count, (unsigned long long) states);
		checks_judge(!wrong);
	}
	for (size_t m = 0; checks.mutants && m < sizeof(mutants) / sizeof(mutants[0]); m++) {
		for (size_t i = 0; i < NUM_MEMORIES; i++) {
			uint64_t states = 0;
			unsigned int count = 0;
			bool found;

			if (!mutants[m].finds[i] || !checks_is_mine(number++) ||
			    !checks_wants(mutants[m].name))
				continue;
			found = each(&memories[i], &mutants[m], checks.tell, &states, &count);
			printf("%-6s mutant, %s: %s: after %u chains\n", found ? "ok" : "not ok",
			       mutants[m].name, memories[i].name, count);
			checks_judge(found);
		}
	}
	return checks_end();
}
