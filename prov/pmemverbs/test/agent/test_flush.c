/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_flush.c -- the table that writes memory back: what it asks of libpmem2 and
 * of the kernel
 *
 * The linker puts what is here in front of msync, madvise, sync_file_range and libpmem2's
 * functions.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <libpmem2.h>

#include "test/support/pair.h"

#define PAGE_BYTES 4096

/* What was called: F flush, D drain, C copy, Y msync, A madvise, R sync_file_range. */
struct call {
	char what;
	uintptr_t at;
	size_t len;
	int flags;
};

static struct call calls[64];
static size_t num_calls;
static int sync_errno, advise_errno;

static void note(char what, const void *at, size_t len, int flags)
{
	cr_assert_lt(num_calls, sizeof(calls) / sizeof(calls[0]));
	calls[num_calls++] = (struct call){what, (uintptr_t) at, len, flags};
}

int __real_msync(void *addr, size_t len, int flags);
int __wrap_msync(void *addr, size_t len, int flags);
int __real_madvise(void *addr, size_t len, int advice);
int __wrap_madvise(void *addr, size_t len, int advice);
pmem2_flush_fn __real_pmem2_get_flush_fn(struct pmem2_map *map);
pmem2_flush_fn __wrap_pmem2_get_flush_fn(struct pmem2_map *map);
pmem2_drain_fn __real_pmem2_get_drain_fn(struct pmem2_map *map);
pmem2_drain_fn __wrap_pmem2_get_drain_fn(struct pmem2_map *map);
pmem2_memcpy_fn __real_pmem2_get_memcpy_fn(struct pmem2_map *map);
pmem2_memcpy_fn __wrap_pmem2_get_memcpy_fn(struct pmem2_map *map);

int __wrap_msync(void *addr, size_t len, int flags)
{
	note('Y', addr, len, flags);
	errno = sync_errno;
	return sync_errno ? -1 : __real_msync(addr, len, flags);
}

int __wrap_madvise(void *addr, size_t len, int advice)
{
	note('A', addr, len, advice);
	errno = advise_errno;
	return advise_errno ? -1 : __real_madvise(addr, len, advice);
}

int __wrap_sync_file_range(int fd, off_t offset, off_t len, unsigned int flags);

int __wrap_sync_file_range(int fd, off_t offset, off_t len, unsigned int flags)
{
	cr_assert_eq(fd, 7);
	note('R', (const void *) offset, (size_t) len, (int) flags);
	errno = sync_errno;
	return sync_errno ? -1 : 0;
}

static pmem2_flush_fn real_flush;
static pmem2_drain_fn real_drain;
static pmem2_memcpy_fn real_memcpy;

static void seen_flush(const void *addr, size_t len)
{
	note('F', addr, len, 0);
	real_flush(addr, len);
}

static void seen_drain(void)
{
	note('D', NULL, 0, 0);
	real_drain();
}

static void *seen_memcpy(void *to, const void *from, size_t len, unsigned flags)
{
	note('C', to, len, (int) flags);
	return real_memcpy(to, from, len, flags);
}

pmem2_flush_fn __wrap_pmem2_get_flush_fn(struct pmem2_map *map)
{
	real_flush = __real_pmem2_get_flush_fn(map);
	return seen_flush;
}

pmem2_drain_fn __wrap_pmem2_get_drain_fn(struct pmem2_map *map)
{
	real_drain = __real_pmem2_get_drain_fn(map);
	return seen_drain;
}

pmem2_memcpy_fn __wrap_pmem2_get_memcpy_fn(struct pmem2_map *map)
{
	real_memcpy = __real_pmem2_get_memcpy_fn(map);
	return seen_memcpy;
}

static void open_table(void)
{
	accepted(pmv_flush_init());
	num_calls = 0;
}

static char *pages(size_t count)
{
	char *memory = mmap(NULL, count * PAGE_BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq(memory, MAP_FAILED);
	return memory;
}

/* expect_call -- the only one since the last time */
static const struct call *expect_call(char what)
{
	cr_assert_eq(num_calls, 1);
	num_calls = 0;
	cr_assert_eq(calls[0].what, what);
	return &calls[0];
}

/* expect_units -- whole units, all of those that a range has a byte in, and no other */
static void expect_units(char what, int flags, const char *at, size_t len, uintptr_t unit)
{
	const struct call *call = expect_call(what);
	uintptr_t start = (uintptr_t) at, end = start + len;

	cr_assert_eq(call->flags, flags);
	cr_assert_eq(call->at, start / unit * unit, "%zu bytes at %p", len, (void *) at);
	cr_assert_eq(call->at + call->len, (end + unit - 1) / unit * unit, "%zu bytes at %p", len,
		     (void *) at);
}

/* What it asks for */

Test(flush, passes_every_range_on_as_it_is)
{
	char *memory = pages(1);

	open_table();
	for (size_t offset = 0; offset <= 130; offset++) {
		for (size_t len = 0; len <= 130; len++) {
			const struct call *call;

			pmv_flush->flush(memory + offset, len);
			call = expect_call('F');
			cr_assert_eq(call->at, (uintptr_t) memory + offset);
			cr_assert_eq(call->len, len);
		}
	}
	pmv_flush->drain();
	expect_call('D');
}

Test(store, goes_past_the_caches_and_is_not_drained_before_drain)
{
	char *memory = pages(1), from[131], expected[PAGE_BYTES];

	open_table();
	for (size_t i = 0; i < sizeof(from); i++)
		from[i] = (char) (i + 1);
	for (size_t offset = 0; offset <= 130; offset++) {
		for (size_t len = 0; len <= 130; len++) {
			const struct call *call;

			memset(memory, 0, PAGE_BYTES);
			memset(expected, 0, PAGE_BYTES);
			memcpy(expected + offset, from, len);
			pmv_flush->store(memory + offset, from, len);
			call = expect_call('C');
			cr_assert_eq(call->at, (uintptr_t) memory + offset);
			cr_assert_eq(call->len, len);
			cr_assert_eq(call->flags, PMEM2_F_MEM_NONTEMPORAL | PMEM2_F_MEM_NODRAIN);
			cr_assert_arr_eq(memory, expected, PAGE_BYTES);
		}
	}
	pmv_flush->drain();
	expect_call('D');
}

/* on_pages -- ranges that begin and end around the bounds of pages */
static void on_pages(void (*check)(char *at, size_t len))
{
	static const size_t steps[] = {0, 1, 7, 63, 64, 65, 2048, 4031, 4032, 4088, 4094, 4095};
	const size_t count = sizeof(steps) / sizeof(steps[0]);
	char *memory = pages(8);

	open_table();
	for (size_t page = 1; page < 3; page++) {
		for (size_t offset = 0; offset <= 130; offset++) {
			for (size_t len = 1; len <= 130; len++)
				check(memory + page * PAGE_BYTES - 65 + offset, len);
		}
		for (size_t i = 0; i < count; i++) {
			for (size_t j = 0; j < 4 * count; j++)
				check(memory + page * PAGE_BYTES + steps[i],
				      j / count * PAGE_BYTES + steps[j % count] + 1);
		}
	}
}

static void check_sync(char *at, size_t len)
{
	accepted(pmv_flush->sync(at, len));
	expect_units('Y', MS_SYNC, at, len, PAGE_BYTES);
}

Test(sync, waits_for_all_pages_of_a_range_and_no_others)
{
	on_pages(check_sync);
}

static void check_touch(char *at, size_t len)
{
	accepted(pmv_flush->touch(at, len));
	expect_units('A', MADV_POPULATE_WRITE, at, len, PAGE_BYTES);
}

Test(touch, tells_of_all_pages_of_a_range_and_no_others)
{
	on_pages(check_touch);
}

Test(sync, passes_on_every_error)
{
	static const int errors[] = {EIO, ENOSPC, ENOMEM, EINVAL, EBUSY, EDQUOT, EINTR};
	char *memory = pages(1);

	open_table();
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		sync_errno = errors[i];
		cr_expect_eq(pmv_flush->sync(memory, 8), -errors[i]);
	}
	sync_errno = 0;
	accepted(pmv_flush->sync(memory, 8));
}

/* EINVAL among them: a kernel that was seen to know the advice is no older one. */
Test(touch, passes_on_every_error)
{
	static const int errors[] = {EINVAL, EFAULT, ENOMEM, EIO, EHWPOISON, EAGAIN, EPERM};
	char *memory = pages(1);

	open_table();
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		advise_errno = errors[i];
		cr_expect_eq(pmv_flush->touch(memory, 8), -errors[i]);
	}
	advise_errno = 0;
	accepted(pmv_flush->touch(memory, 8));
}

/* What was on its way already when it was started is to be written again before that is over. */
Test(writing, is_begun_and_awaited)
{
	open_table();
	cr_assert_eq(pmv_flush->start(7, 5, 10), 0);
	cr_assert_eq(pmv_flush->await(7, 15, 20), 0);
	cr_assert_eq(num_calls, 2);
	cr_assert_eq(calls[0].at, 5);
	cr_assert_eq(calls[0].len, 10);
	cr_assert_eq(calls[0].flags, SYNC_FILE_RANGE_WRITE);
	cr_assert_eq(calls[1].at, 15);
	cr_assert_eq(calls[1].len, 20);
	cr_assert_eq(calls[1].flags, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
					     SYNC_FILE_RANGE_WAIT_AFTER);
	sync_errno = EIO;
	cr_assert_eq(pmv_flush->start(7, 0, 1), -EIO);
	cr_assert_eq(pmv_flush->await(7, 0, 1), -EIO);
}

/* Before 5.14 the advice is not known, for no memory: each page is written to, then. */
Test(touch, reaches_every_page_by_hand_on_an_older_kernel)
{
	for (size_t offset = 0; offset < 2 * PAGE_BYTES; offset += PAGE_BYTES - 1) {
		char *memory = pages(8);
		unsigned char there[8];

		advise_errno = EINVAL;
		open_table();
		accepted(__real_madvise(memory, 8 * PAGE_BYTES, MADV_NOHUGEPAGE));
		accepted(pmv_flush->touch(memory + offset, 4 * PAGE_BYTES + 2));
		accepted(mincore(memory, 8 * PAGE_BYTES, there));
		for (size_t page = 0; page < 8; page++)
			cr_expect_eq(there[page] & 1,
				     page >= offset / PAGE_BYTES &&
					     page <= (offset + 4 * PAGE_BYTES + 1) / PAGE_BYTES,
				     "page %zu from offset %zu", page, offset);
		cr_expect_eq(num_calls, 0);
	}
}

/* As an application leaves it that has taken its right to write away. */
Test(touch, of_memory_that_may_not_be_written_fails)
{
	char *memory = pages(2);

	open_table();
	accepted(mprotect(memory, PAGE_BYTES, PROT_READ));
	cr_expect_eq(pmv_flush->touch(memory, 8), -EINVAL);
	cr_expect_eq(pmv_flush->touch(memory, PAGE_BYTES + 8), -EINVAL);
	accepted(pmv_flush->touch(memory + PAGE_BYTES, 8));
}

Test(sync, of_memory_that_is_not_mapped_fails)
{
	char *memory = pages(2);

	open_table();
	accepted(munmap(memory + PAGE_BYTES, PAGE_BYTES));
	cr_expect_eq(pmv_flush->sync(memory, PAGE_BYTES + 1), -ENOMEM);
	accepted(pmv_flush->sync(memory, PAGE_BYTES));
}

/* By the agent */

static const struct pmv_flush_ops *real_table;

/* A region of several pieces, which do not lie side by side. */
struct pieces {
	struct pair *pair;
	struct fid_mr *mr;
	char *memory;
	struct iovec iov[3];
};

static void open_pieces(struct pieces *pieces, enum pmv_persist persist)
{
	struct fi_mr_attr attr = {
		.mr_iov = pieces->iov,
		.iov_count = 3,
		.access = FI_REMOTE_WRITE | FI_REMOTE_READ,
	};

	real_table = pmv_flush;
	/* Peers name offsets: those of one piece behind the other. */
	pieces->pair = pair_open(&(struct pair_options){.offsets = true});
	pmv_flush = real_table;
	pieces->memory = pages(16);
	pieces->iov[0] = (struct iovec){pieces->memory + 8 * PAGE_BYTES, 100};
	pieces->iov[1] = (struct iovec){pieces->memory, PAGE_BYTES + 1};
	pieces->iov[2] = (struct iovec){pieces->memory + 4 * PAGE_BYTES + 4000, 200};
	pmv_setting.domain = persist;
	accepted(fi_mr_regattr(pieces->pair->away->domain, &attr, FI_PMEM, &pieces->mr));
	open_table();
}

static void close_pieces(struct pieces *pieces)
{
	accepted(fi_close(&pieces->mr->fid));
	pair_close(pieces->pair);
	accepted(munmap(pieces->memory, 16 * PAGE_BYTES));
}

static void commit_pieces(struct pieces *pieces, uint64_t offset, uint64_t len)
{
	struct pmv_flush_message message = {.count = 1};

	message.ranges[0] =
		(struct pmv_range){offset, len, (uint32_t) pmv_key_core(fi_mr_key(pieces->mr))};
	num_calls = 0;
	pair_tell(pieces->pair, &message);
	pair_serve(pieces->pair);
	pair_expect_ack(pieces->pair, message.envelope.number, PMV_FAULT_NONE);
}

static void expect_seen(size_t n, char what, const char *at, size_t len)
{
	cr_assert_lt(n, num_calls);
	cr_assert_eq(calls[n].what, what);
	cr_assert_eq(calls[n].at, (uintptr_t) at, "call %zu", n);
	cr_assert_eq(calls[n].len, len, "call %zu", n);
}

Test(pieces, are_flushed_each_where_it_is)
{
	struct pieces pieces;
	char *memory;

	open_pieces(&pieces, PMV_DMP);
	memory = pieces.memory;
	commit_pieces(&pieces, 99, PAGE_BYTES + 3);
	cr_assert_eq(num_calls, 4);
	expect_seen(0, 'F', memory + 8 * PAGE_BYTES + 99, 1);
	expect_seen(1, 'F', memory, PAGE_BYTES + 1);
	expect_seen(2, 'F', memory + 4 * PAGE_BYTES + 4000, 1);
	expect_seen(3, 'D', NULL, 0);
	close_pieces(&pieces);
}

Test(pieces, are_synced_each_where_it_is)
{
	struct pieces pieces;
	char *memory;

	open_pieces(&pieces, PMV_PAGE);
	memory = pieces.memory;
	commit_pieces(&pieces, 100, PAGE_BYTES + 1 + 200);
	cr_assert_eq(num_calls, 5);
	expect_seen(0, 'A', memory, 2 * PAGE_BYTES);
	expect_seen(1, 'A', memory + 4 * PAGE_BYTES, 2 * PAGE_BYTES);
	expect_seen(2, 'Y', memory, 2 * PAGE_BYTES);
	expect_seen(3, 'Y', memory + 4 * PAGE_BYTES, 2 * PAGE_BYTES);
	cr_assert_eq(calls[2].flags, MS_SYNC);
	cr_assert_eq(calls[3].flags, MS_SYNC);
	expect_seen(4, 'D', NULL, 0);
	close_pieces(&pieces);
}
