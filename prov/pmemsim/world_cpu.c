/* SPDX-License-Identifier: BSD-2-Clause */
/* world_cpu.c -- the target's processor and the agent that it runs, step by step */
#include "world_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/flush.h"

/* Where threads leave their steps to; it is no part of any state. */
static char **caller;

/*
 * switch_stacks -- to one where somebody called it, or that begin_stack has made; *from: where to
 * come back to.  swapcontext would be a system call or two each time, and its contexts are a
 * kilobyte of every state.  What a function may change is zero then: it is the other stack's.
 */
void switch_stacks(char **from, char *to);
__asm__(".text\n"
	".type switch_stacks, @function\n"
	"switch_stacks:\n"
	"	pushq %rbp\n"
	"	pushq %rbx\n"
	"	pushq %r12\n"
	"	pushq %r13\n"
	"	pushq %r14\n"
	"	pushq %r15\n"
	"	movq %rsp, (%rdi)\n"
	"	movq %rsi, %rsp\n"
	"	popq %r15\n"
	"	popq %r14\n"
	"	popq %r13\n"
	"	popq %r12\n"
	"	popq %rbx\n"
	"	popq %rbp\n"
	"	xorl %eax, %eax\n"
	"	xorl %ecx, %ecx\n"
	"	xorl %edx, %edx\n"
	"	xorl %esi, %esi\n"
	"	xorl %edi, %edi\n"
	"	xorl %r8d, %r8d\n"
	"	xorl %r9d, %r9d\n"
	"	xorl %r10d, %r10d\n"
	"	xorl %r11d, %r11d\n"
	"	ret\n"
	".size switch_stacks, . - switch_stacks\n");

/* What switch_stacks takes from a stack. */
struct saved {
	uintptr_t registers[6];
	void (*back)(void);
	uintptr_t none; /* nobody has called what begins there */
};

/* A function that is called finds its stack so. */
_Static_assert(sizeof(struct saved) % 16 == 0 && STACK_SIZE % 16 == 0, "alignment of a stack");

static char *begin_stack(char *stack, void (*body)(void))
{
	struct saved *saved = (struct saved *) (stack + STACK_SIZE) - 1;

	*saved = (struct saved){.back = body};
	return (char *) saved;
}

void world_prepare_threads(void)
{
	if (!caller)
		caller = calloc(1, sizeof(*caller));
}

void world_pause(const char *next)
{
	struct world_thread *thread = world_current->running;

	if (!thread)
		return;
	thread->does = next;
	switch_stacks(&thread->top, *caller);
}

static void cpu_flush(const void *addr, size_t len)
{
	world_pause("writes cache lines back (clwb)");
	if (world_mutates(MUTATION_LINE_LEFT_OUT)) {
		const char *last =
			(const char *) (((uintptr_t) addr + len - 1) / HW_LINE * HW_LINE);

		len = last > (const char *) addr ? (size_t) (last - (const char *) addr) : 0;
	}
	hw_flush(world_current->sim->hw, addr, len);
}

static void do_what_is_due(void)
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
	world_pause("waits for what it has written back (sfence)");
	if (world_mutates(MUTATION_ACK_TOO_SOON) || world_mutates(MUTATION_STORE_TOO_SOON))
		world_current->drain_due = true;
	else
		hw_drain(world_current->sim->hw);
}

static void cpu_store(void *to, const void *from, size_t len)
{
	world_pause("stores data that came with the message (non-temporal)");
	hw_store(world_current->sim->hw, to, from, len);
	if (world_mutates(MUTATION_STORE_TOO_SOON)) {
		world_pause("waits for what was to be durable before");
		do_what_is_due();
	}
}

static int cpu_touch(void *addr, size_t len)
{
	world_pause("tells the kernel that pages were written");
	if (!world_mutates(MUTATION_NOT_TOUCHED))
		hw_touch(world_current->sim->hw, addr, len);
	return 0;
}

/* fails_now -- the first sync of a region, if it is to */
static bool fails_now(const char *addr)
{
	struct world *world = world_current;
	unsigned int now = world->config.failing & ~world->failed_syncs;

	for (unsigned int i = 0; i < world->config.num_regions; i++) {
		if (!(now & 1U << i) || addr < world->memory[i] ||
		    addr >= world->memory[i] + world->config.region_size)
			continue;
		world->failed_syncs |= 1U << i;
		return true;
	}
	return false;
}

static int cpu_sync(void *addr, size_t len)
{
	world_pause("syncs pages (msync)");
	if (fails_now(addr)) {
		hw_sync_failing(world_current->sim->hw, addr, len);
		return -EIO;
	}
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

/* A descriptor is the number of its region. */

static int cpu_start(int fd, uint64_t offset, size_t len)
{
	(void) fd;
	(void) offset;
	(void) len;
	/* The kernel may write a page back at any time. */
	world_pause("begins to write pages (sync_file_range)");
	return 0;
}

static int cpu_await(int fd, uint64_t offset, size_t len)
{
	char *addr = world_current->memory[fd] + offset;

	world_pause("waits until pages are written (sync_file_range)");
	if (fails_now(addr)) {
		hw_sync_failing(world_current->sim->hw, addr, len);
		return -EIO;
	}
	if (!world_mutates(MUTATION_NOT_AWAITED))
		hw_write_out(world_current->sim->hw, addr, len);
	return 0;
}

const struct pmv_flush_ops world_cpu = {
	.flush = cpu_flush,
	.drain = cpu_drain,
	.store = cpu_store,
	.touch = cpu_touch,
	.sync = cpu_sync,
	.start = cpu_start,
	.await = cpu_await,
};

static void run_body(void)
{
	struct world_thread *thread = world_current->running;

	thread->body(world_current);
	thread->runs = false;
	switch_stacks(&thread->top, *caller);
}

/* stack_used -- up from here; what is below it is zero while the thread does not run */
static char *stack_used(const struct world_thread *thread)
{
	return thread->runs ? thread->top : thread->stack + STACK_SIZE;
}

static void resume(struct world_thread *thread)
{
	if (!thread->runs) {
		thread->runs = true;
		thread->top = begin_stack(thread->stack, run_body);
	}
	switch_stacks(caller, thread->top);
}

/* The end of the stack stays untouched. */
#define STACK_SPARE 512

static void check_depth(const struct world_thread *thread)
{
	static const char zeros[STACK_SPARE];

	if (memcmp(thread->stack, zeros, STACK_SPARE))
		abort();
}

static void run(struct world *world, struct world_thread *thread)
{
	char *used = stack_used(thread), *now;

	world->running = thread;
	resume(thread);
	world->running = NULL;
	now = stack_used(thread);
	check_depth(thread);
	memset(thread->stack, 0, now - thread->stack);
	if (now < used)
		used = now;
	explore_changed(used, thread->stack + STACK_SIZE - used);
	if (thread->runs)
		return;
	thread->top = NULL;
	thread->does = NULL;
}

static void look(struct world *world)
{
	pmv_agent_progress(&pmv_to_domain(world->away.domain)->agent);
}

/* syncs_beside -- other threads carry out what needs the disk, and do what is due */
static bool syncs_beside(const struct world *world)
{
	return pmv_to_domain(world->away.domain)->agent.syncing.begun;
}

void world_run_agent(struct world *world)
{
	world->agent.body = look;
	if (!world->agent.runs && !syncs_beside(world))
		do_what_is_due();
	run(world, &world->agent);
}

void world_run_target(struct world *world)
{
	world->target.body = world->app->poll_away;
	run(world, &world->target);
}

void world_run_other(struct world *world, unsigned int other)
{
	world->others[other].body = world->app->run_other;
	if (!world->others[other].runs && syncs_beside(world))
		do_what_is_due();
	run(world, &world->others[other]);
}
