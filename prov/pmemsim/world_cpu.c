/* SPDX-License-Identifier: BSD-2-Clause */
/* world_cpu.c -- the target's processor and the agent that it runs, step by step */
#include "world_impl.h"

#include <stdlib.h>
#include <string.h>

#include "agent/flush.h"

/* Where the agent leaves its steps to; it is no part of any state. */
static ucontext_t *caller;

void world_prepare_agent(void)
{
	if (!caller)
		caller = calloc(1, sizeof(*caller));
}

/* pause_agent -- anything may happen between two things that the agent does */
static void pause_agent(const char *next)
{
	if (!world_current->looking)
		return;
	world_current->agent_does = next;
	swapcontext(&world_current->agent, caller);
}

static void cpu_flush(const void *addr, size_t len)
{
	pause_agent("writes cache lines back (clwb)");
	if (world_mutates(MUTATION_LINE_LEFT_OUT)) {
		const char *last =
			(const char *) (((uintptr_t) addr + len - 1) / HW_LINE * HW_LINE);

		len = last > (const char *) addr ? (size_t) (last - (const char *) addr) : 0;
	}
	hw_flush(world_current->sim->hw, addr, len);
}

static void settle_debts(void)
{
	if (world_current->drain_due)
		hw_drain(world_current->sim->hw);
	if (world_current->sync_due)
		hw_sync(world_current->sim->hw, world_current->sync_addr, world_current->sync_len);
	world_current->drain_due = world_current->sync_due = false;
	world_current->sync_addr = NULL;
	world_current->sync_len = 0;
}

static void cpu_drain(void)
{
	pause_agent("waits for what it has written back (sfence)");
	if (world_mutates(MUTATION_ACK_TOO_SOON) || world_mutates(MUTATION_STORE_TOO_SOON))
		world_current->drain_due = true;
	else
		hw_drain(world_current->sim->hw);
}

static void cpu_store(void *to, const void *from, size_t len)
{
	pause_agent("stores data that came with the message (non-temporal)");
	hw_store(world_current->sim->hw, to, from, len);
	if (world_mutates(MUTATION_STORE_TOO_SOON)) {
		pause_agent("waits for what was to be durable before");
		settle_debts();
	}
}

static int cpu_touch(void *addr, size_t len)
{
	pause_agent("tells the kernel that pages were written");
	if (!world_mutates(MUTATION_NOT_TOUCHED))
		hw_touch(world_current->sim->hw, addr, len);
	return 0;
}

static int cpu_sync(void *addr, size_t len)
{
	pause_agent("syncs pages (msync)");
	if (world_mutates(MUTATION_PAGE_LEFT_OUT)) {
		char *last = (char *) (((uintptr_t) addr + len - 1) / HW_PAGE * HW_PAGE);

		len = last > (char *) addr ? (size_t) (last - (char *) addr) : 0;
	}
	if (world_mutates(MUTATION_ACK_TOO_SOON) || world_mutates(MUTATION_STORE_TOO_SOON)) {
		world_current->sync_due = true;
		world_current->sync_addr = addr;
		world_current->sync_len = len;
	} else {
		hw_sync(world_current->sim->hw, addr, len);
	}
	return 0;
}

const struct pmv_flush_ops world_cpu = {
	.flush = cpu_flush,
	.drain = cpu_drain,
	.store = cpu_store,
	.touch = cpu_touch,
	.sync = cpu_sync,
};

static void look(void)
{
	pmv_agent_progress(&pmv_to_domain(world_current->away.domain)->agent);
	world_current->looking = false;
}

/* forget_registers -- the caller's, which would only make states of their own */
static void forget_registers(ucontext_t *context)
{
	static const int registers[] = {REG_RBP, REG_R12, REG_R13, REG_R14, REG_R15, REG_RDI,
					REG_RSI, REG_RDX, REG_RCX, REG_R8,  REG_R9};

	for (size_t i = 0; i < sizeof(registers) / sizeof(registers[0]); i++)
		context->uc_mcontext.gregs[registers[i]] = 0;
}

/* stack_used -- up from here; what is below it is zero while the agent does not run */
static char *stack_used(const struct world *world)
{
	if (!world->looking)
		return world->stack + STACK_SIZE;
	/* With the red zone. */
	return (char *) world->agent.uc_mcontext.gregs[REG_RSP] - 128;
}

static void resume_agent(struct world *world)
{
	if (!world->looking) {
		settle_debts();
		world->looking = true;
		getcontext(&world->agent);
		world->agent.uc_stack.ss_sp = world->stack;
		world->agent.uc_stack.ss_size = STACK_SIZE;
		world->agent.uc_link = caller;
		makecontext(&world->agent, look, 0);
		forget_registers(&world->agent);
	}
	swapcontext(caller, &world->agent);
}

/* The end of the stack stays untouched. */
#define STACK_SPARE 512

static void check_depth(const struct world *world)
{
	static const char zeros[STACK_SPARE];

	if (memcmp(world->stack, zeros, STACK_SPARE))
		abort();
}

void world_run_agent(struct world *world)
{
	char *used = stack_used(world), *now;

	resume_agent(world);
	now = stack_used(world);
	check_depth(world);
	memset(world->stack, 0, now - world->stack);
	if (now < used)
		used = now;
	explore_changed(used, world->stack + STACK_SIZE - used);
	if (world->looking)
		return;
	memset(&world->agent, 0, sizeof(world->agent));
	world->agent_does = NULL;
}
