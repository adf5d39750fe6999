/* SPDX-License-Identifier: BSD-2-Clause */
/* test_guard.c -- whom a page without memory ends: nobody, the process, or who handles it */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "memory/guard.h"
#include "test/support/syscalls.h"

#define PAGES 4

static size_t page;
static char *memory; /* a file of four pages, truncated to one */
static struct pmv_watch *watch;

/* What the handler asks the kernel for, and what it is answered: 0: what the kernel says. */
static int map_error, tries;
static unsigned long max_refused, last_tried;

int syscalls_answer(long number, const long *args)
{
	if (number != SYS_mmap)
		return 0;
	tries++;
	last_tried = (unsigned long) args[1];
	return last_tried <= max_refused ? map_error : 0;
}

static void refuse(int err, unsigned long max)
{
	map_error = err;
	max_refused = max;
}

static void setup(void)
{
	int fd = memfd_create("guarded", MFD_CLOEXEC);

	/* It is looked up now: a handler must not. */
	syscall(SYS_gettid);
	/* Sanitizers have one. */
	signal(SIGBUS, SIG_DFL);
	page = sysconf(_SC_PAGESIZE);
	cr_assert(!ftruncate(fd, (off_t) (PAGES * page)));
	memory = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	cr_assert_neq(memory, MAP_FAILED);
	cr_assert(!ftruncate(fd, (off_t) page));
	close(fd);
}

TestSuite(guard, .init = setup);

static void write_inside(size_t at)
{
	pmv_guard_enter();
	*(volatile char *) &memory[at] = 1;
	pmv_guard_leave();
}

static void add(size_t at, size_t len)
{
	cr_assert_eq(pmv_guard_add(&watch, &memory[at], len), 0);
}

Test(guard, lets_a_copy_inside_the_provider_end_and_remembers)
{
	add(0, PAGES * page);
	write_inside(0);
	cr_expect_not(pmv_guard_was_hit(watch), "there is memory");
	pmv_guard_enter();
	memset(&memory[page / 2], 7, 2 * page);
	pmv_guard_leave();
	cr_expect(pmv_guard_was_hit(watch));
	cr_expect_eq(memory[2 * page], 7);
}

/* send_from -- while the piece [at, at + 8) is sent, the thread reads at `touched` */
static void send_from(size_t at, size_t touched)
{
	const struct iovec pieces[] = {{memory, 0}, {&memory[at], 8}};

	pmv_guard_enter_sending(pieces, 2);
	(void) *(volatile char *) &memory[touched];
	pmv_guard_leave_sending();
}

/* Zeros in its place would arrive, and be durable. */
Test(guard, replaces_no_page_that_is_sent, .signal = SIGBUS)
{
	add(0, PAGES * page);
	send_from(2 * page, 2 * page + 7);
}

Test(guard, replaces_pages_next_to_what_is_sent_and_all_of_them_afterwards)
{
	add(0, PAGES * page);
	send_from(2 * page, page);
	cr_expect(pmv_guard_was_hit(watch));
	write_inside(2 * page);
	cr_expect_eq(memory[2 * page], 1);
}

static void read_inside(size_t at)
{
	pmv_guard_enter();
	(void) *(volatile char *) &memory[at];
	pmv_guard_leave();
}

/* Zeros were read, and nobody knows what for. */
Test(guard, counts_pages_that_were_read)
{
	add(0, PAGES * page);
	read_inside(0);
	cr_expect_eq(pmv_guard_reads, 0);
	read_inside(page);
	cr_expect_eq(pmv_guard_reads, 1);
	read_inside(page);
	cr_expect_eq(pmv_guard_reads, 1, "it is there by now");
	/* What writes data back sends nothing. */
	pmv_guard_enter_flushing();
	read_inside(2 * page);
	pmv_guard_leave_flushing();
	cr_expect_eq(pmv_guard_reads, 1);
}

#ifdef __x86_64__
Test(guard, counts_no_page_that_was_written)
{
	add(0, PAGES * page);
	write_inside(page);
	cr_expect(pmv_guard_was_hit(watch));
	cr_expect_eq(pmv_guard_reads, 0);
}
#endif

Test(guard, knows_all_ranges_of_a_region)
{
	add(0, page);
	add(page, page);
	add(2 * page, 2 * page);
	write_inside(PAGES * page - 1);
	cr_expect(pmv_guard_was_hit(watch));
}

/* A region begins and ends within pages, and the kernel tells pages of poisoned memory. */
Test(guard, takes_ranges_for_whole_pages)
{
	add(page + 100, 10);
	write_inside(page);
	cr_expect(pmv_guard_was_hit(watch));
}

Test(guard, tells_regions_apart)
{
	struct pmv_watch *other = NULL;

	add(page, page);
	cr_assert_eq(pmv_guard_add(&other, &memory[2 * page], page), 0);
	write_inside(2 * page);
	cr_expect(pmv_guard_was_hit(other));
	cr_expect_not(pmv_guard_was_hit(watch));
	/* The next region is not taken for one that is gone. */
	pmv_guard_remove(other);
	other = NULL;
	cr_assert_eq(pmv_guard_add(&other, &memory[3 * page], page), 0);
	cr_expect_not(pmv_guard_was_hit(other));
	write_inside(3 * page);
	cr_expect(pmv_guard_was_hit(other));
}

/* The page is replaced for all that have it. */
Test(guard, tells_all_regions_that_overlap)
{
	struct pmv_watch *other = NULL, *whole = NULL;

	add(0, 2 * page);
	cr_assert_eq(pmv_guard_add(&whole, memory, PAGES * page), 0);
	cr_assert_eq(pmv_guard_add(&other, &memory[2 * page], page), 0);
	write_inside(page);
	cr_expect(pmv_guard_was_hit(watch));
	cr_expect(pmv_guard_was_hit(whole));
	cr_expect_not(pmv_guard_was_hit(other));
}

Test(guard, tells_neighbours_that_share_a_page)
{
	struct pmv_watch *other = NULL;

	add(0, page + 100);
	cr_assert_eq(pmv_guard_add(&other, &memory[page + 100], page), 0);
	write_inside(page + 100);
	cr_expect(pmv_guard_was_hit(watch));
	cr_expect(pmv_guard_was_hit(other));
}

/* As for device DAX, which is cut at huge pages only. */
Test(guard, tells_all_regions_of_a_larger_block)
{
	const size_t block = 1UL << 21;
	int fd = memfd_create("large", MFD_CLOEXEC);
	struct pmv_watch *in = NULL, *behind = NULL;
	char *large;

	cr_assert(!ftruncate(fd, (off_t) (3 * block)));
	large = mmap(NULL, 3 * block, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	cr_assert_neq(large, MAP_FAILED);
	cr_assert(!ftruncate(fd, 0));
	close(fd);
	large = (char *) (((uintptr_t) large + block - 1) & ~(block - 1));
	cr_assert_eq(pmv_guard_add(&watch, large, page), 0);
	cr_assert_eq(pmv_guard_add(&in, &large[block - page], page), 0);
	cr_assert_eq(pmv_guard_add(&behind, &large[block], page), 0);
	refuse(EINVAL, page);
	pmv_guard_enter();
	*(volatile char *) large = 1;
	pmv_guard_leave();
	cr_expect_eq(last_tried, block);
	cr_expect(pmv_guard_was_hit(watch));
	cr_expect(pmv_guard_was_hit(in));
	cr_expect_not(pmv_guard_was_hit(behind));
}

Test(guard, lets_an_application_die_of_its_own_fault, .signal = SIGBUS)
{
	add(0, PAGES * page);
	*(volatile char *) &memory[page] = 1;
}

Test(guard, lets_the_process_die_of_other_memory, .signal = SIGBUS)
{
	add(0, page);
	write_inside(page);
}

Test(guard, lets_the_process_die_of_memory_in_front_of_a_region, .signal = SIGBUS)
{
	add(2 * page, page);
	write_inside(page);
}

Test(guard, lets_the_process_die_of_memory_that_is_no_region_any_more, .signal = SIGBUS)
{
	add(0, PAGES * page);
	pmv_guard_remove(watch);
	write_inside(page);
}

Test(guard, lets_the_process_die_of_a_signal_that_is_sent, .signal = SIGBUS)
{
	add(0, PAGES * page);
	pmv_guard_enter();
	raise(SIGBUS);
	pmv_guard_leave();
}

/* Handlers of an application; they repair what they are called for. */

static volatile sig_atomic_t calls;
static void *volatile fault;

static void repair(void *at)
{
	mmap((void *) ((uintptr_t) at & ~(page - 1)), page, PROT_READ | PROT_WRITE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

static void on_info(int signo, siginfo_t *info, void *context)
{
	cr_expect_eq(signo, SIGBUS);
	cr_expect_not_null(context);
	calls++;
	fault = info->si_addr;
	if (info->si_code > 0)
		repair(info->si_addr);
}

static void on_plain(int signo)
{
	cr_expect_eq(signo, SIGBUS);
	calls++;
	repair(&memory[page]);
}

static void handle(struct sigaction action)
{
	cr_assert(!sigaction(SIGBUS, &action, NULL));
}

Test(guard, leaves_an_application_its_own_faults)
{
	handle((struct sigaction){.sa_sigaction = on_info, .sa_flags = SA_SIGINFO});
	add(0, PAGES * page);
	*(volatile char *) &memory[page + 5] = 1;
	cr_expect_eq(calls, 1);
	cr_expect_eq(fault, &memory[page + 5]);
	write_inside(2 * page);
	cr_expect_eq(calls, 1, "this one was not its own");
	raise(SIGBUS);
	cr_expect_eq(calls, 2);
}

/* It could be sent with any address. */
Test(guard, believes_no_address_but_the_kernels)
{
	siginfo_t info = {.si_signo = SIGBUS, .si_code = SI_QUEUE};

	handle((struct sigaction){.sa_sigaction = on_info, .sa_flags = SA_SIGINFO});
	add(0, PAGES * page);
	info.si_addr = &memory[page];
	pmv_guard_enter();
	cr_assert(!syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), SIGBUS, &info));
	pmv_guard_leave();
	cr_expect_eq(calls, 1);
	cr_expect_not(pmv_guard_was_hit(watch));
}

/* Too many mappings, say: a larger one would be of memory that is no region. */
Test(guard, replaces_no_more_than_a_page_where_that_can_be_done)
{
	handle((struct sigaction){.sa_sigaction = on_info, .sa_flags = SA_SIGINFO});
	add(0, PAGES * page);
	refuse(ENOMEM, page);
	write_inside(page);
	cr_expect_eq(calls, 1);
	cr_expect_eq(tries, 1);
	cr_expect_eq(last_tried, page);
}

Test(guard, calls_a_handler_that_takes_a_number)
{
	handle((struct sigaction){.sa_handler = on_plain});
	add(0, PAGES * page);
	*(volatile char *) &memory[page] = 1;
	*(volatile char *) &memory[page] = 2;
	cr_expect_eq(calls, 1);
}

Test(guard, calls_a_handler_once_that_wants_it_once, .signal = SIGBUS)
{
	handle((struct sigaction){.sa_handler = on_plain, .sa_flags = (int) SA_RESETHAND});
	add(0, PAGES * page);
	*(volatile char *) &memory[page] = 1;
	cr_expect_eq(calls, 1);
	*(volatile char *) &memory[2 * page] = 1;
}

Test(guard, ignores_a_signal_that_is_ignored)
{
	handle((struct sigaction){.sa_handler = SIG_IGN});
	add(0, PAGES * page);
	raise(SIGBUS);
}

/* Poisoned memory that nobody touched: as the kernel does it. */
Test(guard, ignores_an_early_report_that_is_ignored)
{
	siginfo_t info = {.si_signo = SIGBUS, .si_code = BUS_MCEERR_AO};

	handle((struct sigaction){.sa_handler = SIG_IGN});
	add(0, PAGES * page);
	cr_assert(!syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), SIGBUS, &info));
}

Test(guard, lets_the_process_die_of_a_fault_that_is_ignored, .signal = SIGBUS)
{
	handle((struct sigaction){.sa_handler = SIG_IGN});
	add(0, PAGES * page);
	*(volatile char *) &memory[page] = 1;
}

static void *touch_outside(void *arg)
{
	*(volatile char *) arg = 1;
	return NULL;
}

/* While one thread is inside the provider, another one is not. */
Test(guard, tells_threads_apart)
{
	pthread_t thread;

	handle((struct sigaction){.sa_sigaction = on_info, .sa_flags = SA_SIGINFO});
	add(0, PAGES * page);
	pmv_guard_enter();
	cr_assert(!pthread_create(&thread, NULL, touch_outside, &memory[page]));
	pthread_join(thread, NULL);
	pmv_guard_leave();
	cr_expect_eq(calls, 1);
	cr_expect_not(pmv_guard_was_hit(watch));
}
