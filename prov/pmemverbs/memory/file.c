/* SPDX-License-Identifier: BSD-2-Clause */
/* file.c -- opens the files behind a region again; file.h says why */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "memory/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "base/log.h"
#include "memory/platform.h"
#include "memory/vma.h"

struct file {
	int fd;
	dev_t dev; /* as the kernel describes mappings */
	ino_t ino;
	bool sized;   /* it is no device, and was long enough for the region */
	bool linked;  /* it is no device, and had a name */
	uint64_t end; /* of the region's part of it */
};

/* Part of a region that is one mapping of one file, as ours is. */
struct segment {
	uintptr_t start; /* in the application's mapping; whole pages */
	uintptr_t end;
	char *own; /* ours, or NULL */
	size_t file;
	uint64_t offset; /* of start, in the file */
};

struct pmv_files {
	struct file *files;
	size_t num_files;
	struct segment *segments;
	size_t num_segments;
	bool gaps; /* part of the region is in none of them */
};

/* While files are opened. */
struct opening {
	struct pmv_files *files;
	const struct pmv_file_demand *demand;
	uintptr_t start; /* the part of the region that is looked at */
	uintptr_t end;
	struct pmv_mem *mem;
};

static uintptr_t page_size(void)
{
	return sysconf(_SC_PAGESIZE);
}

/* The file behind a page of the application's. */
struct wanted {
	const struct pmv_vma *vma;
	uintptr_t at; /* the page, which the region has part of */
	bool synced;  /* on DAX the numbers are enough: no such file system has subvolumes */
};

/* Is it the file that the kernel says is mapped at our address? */
struct comparison {
	const struct pmv_vma *with;
	bool same;
};

static int compare(void *arg, const struct pmv_vma *vma)
{
	struct comparison *comparison = arg;

	comparison->same = vma->shared && vma->file.dev == comparison->with->file.dev &&
			   vma->file.ino == comparison->with->file.ino;
	return 0;
}

/* has_numbers -- on btrfs and overlayfs stat returns other numbers than mappings have */
static bool has_numbers(const void *page, const struct pmv_vma *vma)
{
	struct comparison comparison = {.with = vma};
	struct pmv_mem mem;

	return !pmv_vma_each(pmv_platform.maps, page, page_size(), compare, &comparison, &mem) &&
	       comparison.same;
}

/*
 * is_same_page -- on btrfs files of several subvolumes share the numbers.  The kernel
 * knows a futex by its inode and offset, and refuses (EINVAL) to move those who wait
 * from one to itself.  For two different ones it compares the word at the first: at
 * most one of two values is there, so not both answers can be EINVAL.  Nobody waits
 * there, so nothing is moved; a page that can't be read is an error, not a signal.
 * The application's page may be mapped to read only, the other one may not.
 */
static bool is_same_page(void *theirs, void *own)
{
	static const int words[] = {0x5d0f7e31, ~0x5d0f7e31};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		long ret = syscall(SYS_futex, theirs, FUTEX_CMP_REQUEUE_PI, 1, NULL, own, words[i]);

		if (ret >= 0)
			errno = ESTALE;
		if (ret >= 0 || errno != EINVAL)
			return false;
	}
	return true;
}

/* is_mapped_file -- found out with a mapping of our own; errno: why not */
static bool is_mapped_file(int fd, const struct wanted *wanted)
{
	off_t offset = (off_t) (wanted->vma->offset + (wanted->at - wanted->vma->start));
	struct stat st;
	void *own;
	bool same;
	int err;

	/* Mapping a device that happens to be there may have effects. */
	errno = ESTALE;
	if (fstat(fd, &st) || !(S_ISREG(st.st_mode) || S_ISBLK(st.st_mode)))
		return false;
	own = mmap(NULL, page_size(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
	if (own == MAP_FAILED)
		return false;
	same = has_numbers(own, wanted->vma);
	errno = same ? 0 : ESTALE;
	if (same && wanted->synced && lseek(fd, 0, SEEK_END) <= offset) {
		errno = ENXIO;
		same = false;
	} else if (same && wanted->synced) {
		same = is_same_page((void *) wanted->at, own);
		/* The kernel has compared the words. */
		errno = errno == EAGAIN ? ESTALE : errno;
	}
	err = errno;
	munmap(own, page_size());
	errno = err;
	return same;
}

static int open_path(const char *path, const struct wanted *wanted)
{
	/* Writable: a shared mapping that can never be written is not a shared one to the kernel.
	 */
	int fd = *path == '/' ? open(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK) : -1;

	int err;

	if (fd < 0 || is_mapped_file(fd, wanted))
		return fd;
	err = errno;
	close(fd);
	errno = err;
	return -1;
}

/*
 * open_anew -- by its path, which may lead to another file here; or by its mapping, for
 * which not every process has the right
 */
static int open_anew(const struct wanted *wanted)
{
	char path[80];
	int err, fd = open_path(wanted->vma->path, wanted);

	if (fd >= 0)
		return fd;
	err = errno;
	snprintf(path, sizeof(path), "/proc/self/map_files/%" PRIxPTR "-%" PRIxPTR,
		 wanted->vma->start, wanted->vma->end);
	fd = open_path(path, wanted);
	if (fd < 0)
		errno = err;
	return fd;
}

static int refuse_end(const char *path, struct pmv_mem *mem)
{
	return pmv_refuse(mem, FI_EINVAL,
			  "the region reaches beyond the end of %.80s, where nothing is saved: "
			  "extend the file, or register less",
			  path);
}

/* why_not -- what errno means for a file that can't be opened */
static const char *why_not(bool unnamed)
{
	if (unnamed)
		return "its name is gone, so nobody finds it after a power failure; map a file by "
		       "a name that stays";
	if (errno == ESTALE)
		return "its path leads to another file here, and it has to be opened once more; "
		       "map it by a path that this process has";
	if (errno == EFAULT)
		return "a page of it can't be read or written; give the file all its blocks "
		       "(posix_fallocate)";
	if (errno == ENOSYS)
		return "the kernel can't say whether it is the same file (futex); use a kernel "
		       "that can, or let seccomp allow it";
	return NULL;
}

static int refuse_open(const struct pmv_vma *vma, bool unnamed, struct pmv_mem *mem)
{
	const char *why = why_not(unnamed);

	if (errno == EMFILE || errno == ENFILE)
		return pmv_refuse(mem, FI_EMFILE,
				  "%.80s can't be opened once more (%m): each region needs a file "
				  "descriptor; raise the limit (ulimit -n)",
				  vma->path);
	if (errno == ENXIO)
		return refuse_end(vma->path, mem);
	if (why)
		return pmv_refuse(mem, FI_EOPNOTSUPP, "%.80s can't be opened once more: %s",
				  vma->path, why);
	return pmv_refuse(mem, FI_EOPNOTSUPP,
			  "%.80s can't be opened to read and write (%m), so somebody else could "
			  "take the error when its pages are lost; give this process the right to, "
			  "or map it by a path that this process has, or declare with "
			  "FI_PMEMVERBS_DOMAIN what survives a power failure there",
			  vma->path);
}

/* check_past -- an earlier error that was not reported; this takes it only from our description */
static int check_past(const struct file *file, const struct segment *segment, const char *path,
		      struct pmv_mem *mem)
{
	if (!sync_file_range(file->fd, (off_t) segment->offset, (off_t) page_size(),
			     SYNC_FILE_RANGE_WAIT_BEFORE))
		return 0;
	if (errno != EIO && errno != ENOSPC && errno != EDQUOT)
		return 0;
	return pmv_refuse(
		mem, FI_EIO,
		"pages of %.80s were lost before it was registered (%m); check the medium "
		"and what is in the file, then register it again",
		path);
}

/* has_holes -- also true if that is unknown */
static bool has_holes(int fd, uint64_t offset, uint64_t len)
{
	off_t hole = lseek(fd, (off_t) offset, SEEK_HOLE);

	return hole < 0 || (uint64_t) hole < offset + len;
}

/*
 * reserve -- allocate blocks for all of a part, so that no write finds the disk full.  Not
 * all file systems can do that.  ZFS needs that much free space even without holes.
 */
static int reserve(const struct file *file, uint64_t offset, uint64_t len, const char *path,
		   struct pmv_mem *mem)
{
	int ret;

	do {
		ret = fallocate(file->fd, 0, (off_t) offset, (off_t) len);
	} while (ret && errno == EINTR);
	if (ret && (errno == ENOSPC || errno == EDQUOT)) {
		int err = errno;

		if (!has_holes(file->fd, offset, len))
			return 0;
		errno = err;
		return pmv_refuse(
			mem, FI_ENOSPC,
			"there is no room for all of %.80s, which has holes (%m): make room, "
			"and write or allocate (posix_fallocate) the whole file",
			path);
	}
	if (ret && errno == EIO)
		return pmv_refuse(mem, FI_EIO, "%.80s can't be given its blocks: %m", path);
	return 0;
}

/* check_file -- can what is committed to this part be found after a power failure? */
static int check_file(struct file *file, const struct segment *segment, uint64_t end,
		      const char *path, const struct opening *opening)
{
	struct pmv_mem *mem = opening->mem;
	struct stat st;
	int ret;

	if (fstat(file->fd, &st))
		return pmv_refuse(mem, FI_EIO, "%.80s: %m", path);
	ret = check_past(file, segment, path, mem);
	if (ret || !S_ISREG(st.st_mode)) {
		file->linked = file->sized = false;
		return ret;
	}
	file->linked = st.st_nlink;
	if (!file->linked && !opening->demand->declared)
		return pmv_refuse(mem, FI_EOPNOTSUPP,
				  "%.80s is unlinked: nobody finds it after a power failure; map a "
				  "file by a name that stays",
				  path);
	file->sized &= (uint64_t) st.st_size >= end;
	if (!file->sized && !opening->demand->declared)
		return refuse_end(path, mem);
	if (file->end < end)
		file->end = end;
	return file->sized ? reserve(file, segment->offset, end - segment->offset, path, mem) : 0;
}

static void *grow(void *array, size_t count, size_t size)
{
	/* A power of two is as many as there is room for. */
	return count & (count - 1) ? array : realloc(array, (count ? 2 * count : 1) * size);
}

/* find_file -- open it, unless the region has it already; -1 and errno: it can't be opened */
static ssize_t find_file(struct pmv_files *files, const struct wanted *wanted)
{
	const struct pmv_mapped *mapped = &wanted->vma->file;
	struct file *room;
	int fd;

	for (size_t i = 0; i < files->num_files; i++) {
		const struct file *file = &files->files[i];

		if (file->dev == mapped->dev && file->ino == mapped->ino &&
		    is_mapped_file(file->fd, wanted))
			return (ssize_t) i;
	}
	room = grow(files->files, files->num_files, sizeof(*room));
	if (!room)
		return -1;
	files->files = room;
	fd = open_anew(wanted);
	if (fd < 0)
		return -1;
	files->files[files->num_files] =
		(struct file){.fd = fd, .dev = mapped->dev, .ino = mapped->ino, .sized = true};
	return (ssize_t) files->num_files++;
}

static int map_segment(const struct pmv_files *files, struct segment *segment, struct pmv_mem *mem)
{
	void *own = mmap(NULL, segment->end - segment->start, PROT_READ | PROT_WRITE, MAP_SHARED,
			 files->files[segment->file].fd, (off_t) segment->offset);

	if (own == MAP_FAILED)
		return pmv_refuse(mem, FI_ENOMEM,
				  "a file can't be mapped once more (%m): raise the limit of the "
				  "address space (ulimit -v), of locked memory (ulimit -l, after "
				  "mlockall) or of mappings (vm.max_map_count)");
	segment->own = own;
	return 0;
}

/* add_segment -- the part of a mapping that is in the region */
static int add_segment(struct opening *opening, const struct pmv_vma *vma, size_t file)
{
	struct pmv_files *files = opening->files;
	uintptr_t start = opening->start > vma->start ? opening->start : vma->start;
	uintptr_t end = opening->end < vma->end ? opening->end : vma->end;
	struct segment segment = {.start = start & ~(page_size() - 1), .file = file};
	struct segment *room = grow(files->segments, files->num_segments, sizeof(*room));
	int ret;

	if (!room)
		return pmv_refuse(opening->mem, FI_ENOMEM, "no memory for a region's files");
	files->segments = room;
	segment.end = (end + page_size() - 1) & ~(page_size() - 1);
	segment.offset = vma->offset + (segment.start - vma->start);
	ret = check_file(&files->files[file], &segment, vma->offset + (end - vma->start), vma->path,
			 opening);
	if (!ret && opening->demand->persist == PMV_PAGE)
		ret = map_segment(files, &segment, opening->mem);
	if (!ret)
		files->segments[files->num_segments++] = segment;
	return ret;
}

/* go_without -- a file that can't be opened, and need not be */
static int go_without(struct opening *opening, const struct pmv_vma *vma)
{
	opening->files->gaps = true;
	if (opening->demand->persist == PMV_PAGE)
		PMV_WARN(MR,
			 "%.80s can't be opened once more (%m): if somebody else syncs it and "
			 "takes the error, a commit may succeed although its pages were lost\n",
			 vma->path);
	else
		PMV_INFO(MR,
			 "%.80s can't be opened (%m): its length, blocks and links are not "
			 "checked\n",
			 vma->path);
	return 0;
}

/* open_vma -- what is behind one mapping of the region */
static int open_vma(void *arg, const struct pmv_vma *vma)
{
	struct opening *opening = arg;
	uintptr_t start = opening->start > vma->start ? opening->start : vma->start;
	const struct wanted wanted = {
		.vma = vma,
		.at = start & ~(page_size() - 1),
		.synced = opening->demand->persist == PMV_PAGE,
	};
	struct pmv_mem one = {.numa_node = -1};
	ssize_t file;

	one.backing = PMV_ANON;
	if (vma->shared && (vma->file.ino || vma->file.dev)) {
		one.backing = PMV_UNKNOWN;
		pmv_mapping_detect(&pmv_platform, &vma->file, 0, &one);
	}
	if (one.backing == PMV_ANON || one.backing == PMV_VOLATILE_FS ||
	    one.backing == PMV_DEVDAX) {
		opening->files->gaps = true;
		return 0;
	}
	file = find_file(opening->files, &wanted);
	if (file >= 0)
		return add_segment(opening, vma, (size_t) file);
	/* Nobody syncs files on DAX, so nobody takes their errors. */
	if (opening->demand->declared ||
	    (!wanted.synced && !one.unnamed && errno != EMFILE && errno != ENFILE))
		return go_without(opening, vma);
	return refuse_open(vma, one.unnamed, opening->mem);
}

int pmv_files_open(const struct iovec *iov, size_t count, const struct pmv_file_demand *demand,
		   struct pmv_files **files, struct pmv_mem *mem)
{
	struct opening opening = {.demand = demand, .mem = mem};
	int ret = 0;

	*files = NULL;
	/* If no sync is needed, by declaration, the files are not checked. */
	if (demand->persist == PMV_NONE || (demand->declared && demand->persist != PMV_PAGE))
		return 0;
	opening.files = calloc(1, sizeof(*opening.files));
	if (!opening.files)
		return pmv_refuse(mem, FI_ENOMEM, "no memory for a region's files");
	for (size_t i = 0; i < count && !ret; i++) {
		opening.start = (uintptr_t) iov[i].iov_base;
		opening.end = opening.start + iov[i].iov_len;
		if (iov[i].iov_len)
			ret = pmv_vma_each(pmv_platform.maps, iov[i].iov_base, iov[i].iov_len,
					   open_vma, &opening, mem);
	}
	if (ret || demand->persist != PMV_PAGE || !opening.files->num_segments) {
		pmv_files_close(opening.files);
		return ret;
	}
	*files = opening.files;
	return 0;
}

void pmv_files_close(struct pmv_files *files)
{
	if (!files)
		return;
	for (size_t i = 0; i < files->num_segments; i++) {
		const struct segment *segment = &files->segments[i];

		if (segment->own)
			munmap(segment->own, segment->end - segment->start);
	}
	for (size_t i = 0; i < files->num_files; i++)
		close(files->files[i].fd);
	free(files->segments);
	free(files->files);
	free(files);
}

void *pmv_files_map(const struct pmv_files *files, const void *addr, size_t *len)
{
	uintptr_t at = (uintptr_t) addr;

	for (size_t i = 0; files && i < files->num_segments; i++) {
		const struct segment *segment = &files->segments[i];

		if (at >= segment->start && at < segment->end) {
			if (*len > segment->end - at)
				*len = segment->end - at;
			return segment->own + (at - segment->start);
		}
		/* There is none up to the start of this one. */
		if (segment->start > at && *len > segment->start - at)
			*len = segment->start - at;
	}
	return NULL;
}

bool pmv_files_cover(const struct pmv_files *files)
{
	return files && !files->gaps;
}

int pmv_files_each(const struct pmv_files *files, int (*each)(void *arg, void *addr, size_t len),
		   void *arg)
{
	int ret = 0;

	for (size_t i = 0; files && i < files->num_segments && !ret; i++) {
		const struct segment *segment = &files->segments[i];

		ret = each(arg, segment->own, segment->end - segment->start);
	}
	return ret;
}

/*
 * look_at -- only links and size: since Linux 6.13 asking for the times makes the next
 * write change the inode on the disk
 */
static int look_at(int fd, struct statx *stx)
{
	return statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_NLINK | STATX_SIZE, stx);
}

enum pmv_file_state pmv_files_state(const struct pmv_files *files)
{
	for (size_t i = 0; files && i < files->num_files; i++) {
		const struct file *file = &files->files[i];
		struct statx stx;

		if (!file->linked && !file->sized)
			continue;
		if (look_at(file->fd, &stx))
			return PMV_FILE_UNKNOWN;
		if (file->linked && !stx.stx_nlink)
			return PMV_FILE_UNLINKED;
		if (file->sized && stx.stx_size < file->end)
			return PMV_FILE_SHORTER;
	}
	return PMV_FILE_HERE;
}
