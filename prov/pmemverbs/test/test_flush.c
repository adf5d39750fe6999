/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_flush.c -- the table that writes memory back: what it asks of libpmem2 and
 * of the kernel, and what comes of it
 *
 * The linker puts what is here in front of msync, madvise and libpmem2's functions.
 */
#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <ucontext.h>
#include <unistd.h>

#include <libpmem2.h>

#include "pair.h"

#define LINE 64
#define PAGE_BYTES 4096

/* What was called: F flush, D drain, C copy, Y msync, A madvise. */
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

/* What comes of it: files */

#define FILE_PAGES 5
/* The last page is not full. */
#define FILE_BYTES (FILE_PAGES * PAGE_BYTES - 3000)

struct file {
	int fd;
	char *at;
};

static void expect_on_disk(const char *dir, struct file *file)
{
	struct statfs fs;

	file->fd = -1;
	if (statfs(dir, &fs) || fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC)
		return;
	file->fd = open(dir, O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
}

/* open_file -- mapped, with all its blocks, and nothing to be written back; false: no disk */
static bool open_file(struct file *file)
{
	static const char zeros[FILE_BYTES];

	expect_on_disk(".", file);
	if (file->fd < 0)
		expect_on_disk("/var/tmp", file);
	if (file->fd < 0)
		return false;
	cr_assert_eq(pwrite(file->fd, zeros, FILE_BYTES, 0), FILE_BYTES);
	accepted(fsync(file->fd));
	file->at = mmap(NULL, FILE_PAGES * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd,
			0);
	cr_assert_neq(file->at, MAP_FAILED);
	return true;
}

/* dirty_pages -- of a range: dirty, or being written; -1: the kernel does not say (before 6.5) */
static int dirty_pages(const struct file *file, size_t offset, size_t len)
{
	struct {
		uint64_t offset, len;
	} range = {offset, len};
	struct {
		uint64_t cached, dirty, writeback, evicted, recently;
	} stat = {0};

#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif
	if (syscall(SYS_cachestat, file->fd, &range, &stat, 0))
		return -1;
	return (int) (stat.dirty + stat.writeback);
}

/* on_device -- where the file system has put that page; -1: it does not say */
static int64_t on_device(const struct file *file, size_t offset)
{
	struct {
		struct fiemap map;
		struct fiemap_extent extent;
	} got = {.map = {.fm_start = offset, .fm_length = PAGE_BYTES, .fm_extent_count = 1}};

	if (ioctl(file->fd, FS_IOC_FIEMAP, &got) || got.map.fm_mapped_extents != 1)
		return -1;
	return (int64_t) (got.extent.fe_physical + (offset - got.extent.fe_logical));
}

/* open_device -- the one below the file system, past all caches; -1: it can't be opened */
static int open_device(const struct file *file)
{
	char name[64], line[128];
	struct stat st;
	int fd = -1;
	FILE *uevent;

	accepted(fstat(file->fd, &st));
	snprintf(name, sizeof(name), "/sys/dev/block/%u:%u/uevent", major(st.st_dev),
		 minor(st.st_dev));
	uevent = fopen(name, "re");
	while (uevent && fgets(line, sizeof(line), uevent)) {
		if (sscanf(line, "DEVNAME=%50s", name) == 1) {
			snprintf(line, sizeof(line), "/dev/%s", name);
			fd = open(line, O_RDONLY | O_DIRECT | O_CLOEXEC);
		}
	}
	if (uevent)
		fclose(uevent);
	return fd;
}

/* expect_written -- a range is on the device, byte by byte; false: that can't be seen here */
static bool expect_written(const struct file *file, int device, size_t offset, size_t len)
{
	static _Alignas(PAGE_BYTES) char block[PAGE_BYTES];

	if (device < 0)
		return false;
	for (size_t i = offset; i < offset + len; i++) {
		if (i == offset || i % PAGE_BYTES == 0) {
			int64_t from = on_device(file, i / PAGE_BYTES * PAGE_BYTES);

			if (from < 0)
				return false;
			cr_assert_eq(pread(device, block, PAGE_BYTES, from), PAGE_BYTES);
		}
		cr_assert_eq(block[i % PAGE_BYTES], file->at[i], "byte %zu", i);
	}
	return true;
}

static void write_and_sync(const struct file *file, size_t offset, size_t len, int device)
{
	static char next;

	memset(file->at + offset, ++next, len);
	accepted(pmv_flush->sync(file->at + offset, len));
	num_calls = 0;
	/* Who writes back by himself can only make it fewer. */
	cr_assert_leq(dirty_pages(file, offset, len), 0, "%zu bytes at %zu", len, offset);
	expect_written(file, device, offset, len);
}

Test(sync, leaves_nothing_of_a_file_to_be_written)
{
	static const size_t offsets[] = {0,    1,    4032,         4095,
					 4096, 8000, 12288 + 4095, FILE_BYTES - 1};
	static const size_t lens[] = {1, 64, 65, 4095, 4096, 4097, 8192, 8193, 12289};
	struct file file;
	int device;

	open_table();
	if (!open_file(&file))
		cr_skip_test("no file system on a disk");
	device = open_device(&file);
	if (dirty_pages(&file, 0, 0) < 0 && !expect_written(&file, device, 0, 1))
		cr_skip_test("neither the kernel nor the device shows what was written");
	for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
		for (size_t j = 0; j < sizeof(lens) / sizeof(lens[0]); j++) {
			if (offsets[i] + lens[j] <= FILE_BYTES)
				write_and_sync(&file, offsets[i], lens[j], device);
		}
	}
	if (device >= 0)
		close(device);
	close(file.fd);
}

/* expect_touched -- the kernel then knows these pages to be dirty, and what is in them stays */
static void expect_touched(const struct file *file, size_t offset, size_t len)
{
	size_t first = offset / PAGE_BYTES, last = (offset + len - 1) / PAGE_BYTES;
	char before[FILE_BYTES];

	accepted(fsync(file->fd));
	memcpy(before, file->at, FILE_BYTES);
	cr_assert_eq(dirty_pages(file, 0, 0), 0);
	accepted(pmv_flush->touch(file->at + offset, len));
	num_calls = 0;
	/* Beside them others may be dirty, too: the kernel keeps pages in groups. */
	cr_assert_eq(dirty_pages(file, offset, len), (int) (last - first + 1), "%zu bytes at %zu",
		     len, offset);
	cr_assert_arr_eq(file->at, before, FILE_BYTES);
}

static void touch_files(void)
{
	struct file file;

	if (!open_file(&file))
		cr_skip_test("no file system on a disk");
	if (dirty_pages(&file, 0, 0) < 0)
		cr_skip_test("the kernel does not show what is dirty");
	memset(file.at, 7, FILE_BYTES);
	expect_touched(&file, 0, 1);
	expect_touched(&file, PAGE_BYTES - 1, 2);
	expect_touched(&file, PAGE_BYTES - 1, PAGE_BYTES + 1);
	expect_touched(&file, PAGE_BYTES, 3 * PAGE_BYTES);
	expect_touched(&file, FILE_BYTES - 1, 1);
	expect_touched(&file, 1, FILE_BYTES - 1);
	close(file.fd);
}

Test(touch, makes_pages_dirty)
{
	open_table();
	touch_files();
}

/* Before 5.14 the advice is not known, for no memory. */
Test(touch, makes_pages_dirty_by_hand_on_an_older_kernel)
{
	advise_errno = EINVAL;
	open_table();
	touch_files();
}

/* What comes of it: cache lines */

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)

static uintptr_t flushed[16];
static size_t num_flushed, fences, behind_fence; /* behind_fence: flushed since the last one */

/* operand -- the address that an instruction names by base and displacement */
static uintptr_t operand(const uint8_t *modrm, bool extended, const greg_t *regs)
{
	static const int names[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
				    REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
				    REG_R12, REG_R13, REG_R14, REG_R15};
	unsigned mod = *modrm >> 6, base = *modrm & 7;
	int32_t displacement = 0;

	/* Compilers of libpmem2 use no other forms. */
	if (base == 4 || (base == 5 && !mod))
		abort();
	if (mod == 1)
		displacement = (int8_t) modrm[1];
	if (mod == 2)
		memcpy(&displacement, modrm + 1, sizeof(displacement));
	return (uintptr_t) regs[names[base + (extended ? 8 : 0)]] + (uintptr_t) displacement;
}

/* on_step -- before each instruction: is it clflush, clflushopt, clwb, or sfence? */
static void on_step(int sig, siginfo_t *info, void *arg)
{
	const greg_t *regs = ((ucontext_t *) arg)->uc_mcontext.gregs;
	const uint8_t *code = (const uint8_t *) regs[REG_RIP];
	bool prefixed = *code == 0x66, extended = false;
	unsigned group;

	(void) sig, (void) info;
	code += prefixed;
	if ((*code & 0xf0) == 0x40)
		extended = *code++ & 1;
	if (code[0] != 0x0f || code[1] != 0xae)
		return;
	group = code[2] >> 3 & 7;
	if (code[2] == 0xf8) {
		fences++;
		behind_fence = 0;
	} else if (code[2] < 0xc0 && (group == 7 || (prefixed && group == 6))) {
		if (num_flushed == sizeof(flushed) / sizeof(flushed[0]))
			abort();
		flushed[num_flushed++] = operand(code + 2, extended, regs);
		behind_fence++;
	}
}

static void begin_steps(void)
{
	struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};

	accepted(sigaction(SIGTRAP, &action, NULL));
	num_flushed = fences = behind_fence = 0;
}

/* The trap flag, in front of and behind what is to be looked at. */
#define STEP_FROM_HERE                                                                             \
	__asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\torq $0x100, (%%rsp)\n\tpopfq\n\t"    \
			 "lea 128(%%rsp), %%rsp" ::                                                \
				 : "memory", "cc")
#define STEP_TO_HERE                                                                               \
	__asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq\n\t"  \
			 "lea 128(%%rsp), %%rsp" ::                                                \
				 : "memory", "cc")

static bool was_flushed(uintptr_t line)
{
	for (size_t i = 0; i < num_flushed; i++) {
		if (flushed[i] / LINE == line)
			return true;
	}
	return false;
}

Test(flush, reaches_every_cache_line_and_drain_waits_for_it)
{
	static const size_t lens[] = {1, 8, 63, 64, 65, 127, 128, 129, 130};
	char *memory = pages(1);

	open_table();
	for (size_t offset = 0; offset <= 130; offset++) {
		for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
			uintptr_t first = (uintptr_t) memory + offset, last = first + lens[i] - 1;

			begin_steps();
			STEP_FROM_HERE;
			pmv_flush->flush(memory + offset, lens[i]);
			pmv_flush->drain();
			STEP_TO_HERE;
			num_calls = 0;
			for (uintptr_t line = first / LINE; line <= last / LINE; line++)
				cr_assert(was_flushed(line), "%zu bytes at %zu", lens[i], offset);
			cr_assert_eq(num_flushed, last / LINE - first / LINE + 1);
			cr_assert_eq(behind_fence, 0, "flushed, and not waited for");
			cr_assert_geq(fences, 1);
		}
	}
}

Test(store, is_waited_for_by_drain)
{
	char *memory = pages(1), from[130] = {1};

	open_table();
	for (size_t len = 1; len <= 130; len++) {
		begin_steps();
		STEP_FROM_HERE;
		pmv_flush->store(memory, from, len);
		STEP_TO_HERE;
		cr_assert_eq(fences, 0, "drain is to wait for several");
		STEP_FROM_HERE;
		pmv_flush->drain();
		STEP_TO_HERE;
		num_calls = 0;
		cr_assert_geq(fences, 1);
		cr_assert_eq(behind_fence, 0);
	}
}
#endif

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
	struct pmv_message message = {.count = 1};

	message.ranges[0] =
		(struct pmv_range){offset, len, (uint32_t) pmv_key_core(fi_mr_key(pieces->mr))};
	num_calls = 0;
	pair_tell(pieces->pair, &message);
	pair_serve(pieces->pair);
	pair_expect_ack(pieces->pair, message.number, PMV_FAULT_NONE);
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
