/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_flush_effect.c -- the table that writes memory back: what comes of it, in
 * files and in cache lines
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

#include "agent/flush.h"
#include "test/support/rig.h"

#define LINE 64
#define PAGE_BYTES 4096

/* A kernel before 5.14: the linker puts this in front of madvise. */
static bool is_older;

int __real_madvise(void *addr, size_t len, int advice);
int __wrap_madvise(void *addr, size_t len, int advice);

int __wrap_madvise(void *addr, size_t len, int advice)
{
	errno = EINVAL;
	return is_older ? -1 : __real_madvise(addr, len, advice);
}

/* Files */

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
	/* Whatever else writes lines back can only make it fewer. */
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

	accepted(pmv_flush_init());
	if (!open_file(&file))
		cr_skip_test("no file system on a disk");
	device = open_device(&file);
	if (getenv("NEEDS_DEVICE"))
		cr_assert(expect_written(&file, device, 0, 1), "the device can't be read");
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
	accepted(pmv_flush_init());
	touch_files();
}

Test(touch, makes_pages_dirty_by_hand_on_an_older_kernel)
{
	is_older = true;
	accepted(pmv_flush_init());
	touch_files();
}

/* Cache lines */

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
	char *memory = aligned_alloc(PAGE_BYTES, PAGE_BYTES);

	accepted(pmv_flush_init());
	for (size_t offset = 0; offset <= 130; offset++) {
		for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
			uintptr_t first = (uintptr_t) memory + offset, last = first + lens[i] - 1;

			begin_steps();
			STEP_FROM_HERE;
			pmv_flush->flush(memory + offset, lens[i]);
			pmv_flush->drain();
			STEP_TO_HERE;
			for (uintptr_t line = first / LINE; line <= last / LINE; line++)
				cr_assert(was_flushed(line), "%zu bytes at %zu", lens[i], offset);
			cr_assert_eq(num_flushed, last / LINE - first / LINE + 1);
			cr_assert_eq(behind_fence, 0, "flushed, and not waited for");
			cr_assert_geq(fences, 1);
		}
	}
	free(memory);
}

Test(store, is_waited_for_by_drain)
{
	char *memory = aligned_alloc(PAGE_BYTES, PAGE_BYTES), from[130] = {1};

	accepted(pmv_flush_init());
	for (size_t len = 1; len <= 130; len++) {
		begin_steps();
		STEP_FROM_HERE;
		pmv_flush->store(memory, from, len);
		STEP_TO_HERE;
		cr_assert_eq(fences, 0, "drain is to wait for several");
		STEP_FROM_HERE;
		pmv_flush->drain();
		STEP_TO_HERE;
		cr_assert_geq(fences, 1);
		cr_assert_eq(behind_fence, 0);
	}
	free(memory);
}
#endif
