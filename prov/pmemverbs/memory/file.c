/* SPDX-License-Identifier: BSD-2-Clause */
/* file.c -- opens the files behind a region again; file.h says why */
#include "memory/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "base/log.h"
#include "memory/disk.h"
#include "memory/platform.h"
#include "memory/vma.h"

struct file {
	SLIST_ENTRY(file) next;
	int fd;
	dev_t dev; /* as the kernel describes mappings */
	ino_t ino;
	bool sized;   /* it is no device, and was long enough for the region */
	bool linked;  /* it is no device, and had a name */
	bool whole;   /* a sync of any part of it flushes what is written of all parts */
	uint64_t end; /* of the region's part of it */
};

/* Part of a region that is one mapping of one file, as ours is. */
struct segment {
	SLIST_ENTRY(segment) next;
	uintptr_t start; /* in the application's mapping; whole pages */
	uintptr_t end;
	char *own; /* ours */
	const struct file *file;
	uint64_t offset; /* in it */
};

struct pmv_files {
	SLIST_HEAD(, file) files;
	SLIST_HEAD(, segment) segments;
	bool gaps; /* part of the region is in none of them */
};

/* While files are opened. */
struct opening {
	struct pmv_files *files;
	enum pmv_persist persist;
	bool declared;
	uintptr_t start; /* the part of the region that is looked at */
	uintptr_t end;
	const struct pmv_vma *vma; /* a mapping there */
	uintptr_t from;            /* the part of the region in it, from the start of a page */
	uintptr_t to;
	struct pmv_mem *mem;
};

static uintptr_t page_size(void)
{
	return sysconf(_SC_PAGESIZE);
}

static off_t offset_of(const struct opening *opening, uintptr_t at)
{
	return (off_t) (opening->vma->offset + (at - opening->vma->start));
}

/* has_numbers -- on btrfs and overlayfs stat returns other numbers than mappings have */
static int has_numbers(void *arg, const struct pmv_vma *vma)
{
	const struct opening *opening = arg;

	return vma->file.shared && vma->file.dev == opening->vma->file.dev &&
	       vma->file.ino == opening->vma->file.ino;
}

/*
 * compare_pages -- on btrfs files of several subvolumes share the numbers.  The kernel
 * knows a futex by its inode and offset, and refuses (EINVAL) to move those who wait
 * from one to itself.  For two different ones it compares the word at the first: at
 * most one of two values is there, so not both answers can be EINVAL.  Nobody waits
 * there, so nothing is moved; a page that can't be read is an error, not a signal.
 * The application's page may be mapped to read only, the other one may not.
 */
static int compare_pages(void *theirs, void *own)
{
	static const int words[] = {0x5d0f7e31, ~0x5d0f7e31};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		long ret = syscall(SYS_futex, theirs, FUTEX_CMP_REQUEUE_PI, 1, NULL, own, words[i]);

		if (ret >= 0 || errno == EAGAIN)
			return ESTALE;
		if (errno != EINVAL)
			return errno;
	}
	return 0;
}

/*
 * compare -- 0: it is the mapped file, as a mapping of our own shows; else an errno.  On
 * DAX the numbers are enough: no such file system has subvolumes.
 */
static int compare(int fd, struct opening *opening)
{
	off_t offset = offset_of(opening, opening->from);
	struct pmv_mem mem;
	struct stat st;
	int err = 0;
	void *own;

	/* Mapping a device that happens to be there may have effects. */
	if (fstat(fd, &st) || !(S_ISREG(st.st_mode) || S_ISBLK(st.st_mode)))
		return ESTALE;
	own = mmap(NULL, page_size(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
	if (own == MAP_FAILED)
		return errno;
	if (pmv_vma_each(pmv_platform.maps, own, page_size(), has_numbers, opening, &mem) != 1)
		err = ESTALE;
	else if (opening->persist == PMV_PAGE && lseek(fd, 0, SEEK_END) <= offset)
		err = ENXIO;
	else if (opening->persist == PMV_PAGE)
		err = compare_pages((void *) opening->from, own);
	munmap(own, page_size());
	return err;
}

/* open_path -- a descriptor, or a negative errno */
static int open_path(const char *path, struct opening *opening)
{
	int err, fd;

	if (*path != '/')
		return -ENOENT;
	/* Writable: to the kernel a mapping that can never be written is not a shared one. */
	fd = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	err = compare(fd, opening);
	if (err)
		close(fd);
	return err ? -err : fd;
}

/* open_anew -- by its path; or by its mapping, for which not every process has the right */
static int open_anew(struct opening *opening)
{
	int other, fd = open_path(opening->vma->path, opening);
	char path[80];

	if (fd >= 0)
		return fd;
	snprintf(path, sizeof(path), "/proc/self/map_files/%" PRIxPTR "-%" PRIxPTR,
		 opening->vma->start, opening->vma->end);
	other = open_path(path, opening);
	return other >= 0 ? other : fd;
}

static int refuse_end(const struct opening *opening)
{
	return pmv_mem_refuse(opening->mem, FI_EINVAL,
			      "the region reaches beyond the end of %.80s, where nothing is saved: "
			      "extend the file, or register less",
			      opening->vma->path);
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

static int refuse_open(const struct opening *opening, bool unnamed)
{
	const char *why = why_not(unnamed), *path = opening->vma->path;

	if (errno == EMFILE || errno == ENFILE)
		return pmv_mem_refuse(opening->mem, FI_EMFILE,
				      "%.80s can't be opened once more (%m): each region needs a "
				      "file descriptor; raise the limit (ulimit -n)",
				      path);
	if (errno == ENXIO)
		return refuse_end(opening);
	if (why)
		return pmv_mem_refuse(opening->mem, FI_EOPNOTSUPP,
				      "%.80s can't be opened once more: %s", path, why);
	return pmv_mem_refuse(opening->mem, FI_EOPNOTSUPP,
			      "%.80s can't be opened to read and write (%m), so somebody else "
			      "could take the error when its pages are lost; give this process the "
			      "right to, or map it by a path that this process has, or declare "
			      "with FI_PMEMVERBS_DOMAIN what survives a power failure there",
			      path);
}

/* check_past -- an earlier error that was not reported; this takes it only from our description */
static int check_past(struct file *file, const struct opening *opening)
{
	int ret = sync_file_range(file->fd, offset_of(opening, opening->from), (off_t) page_size(),
				  SYNC_FILE_RANGE_WAIT_BEFORE);

	/* Where it is forbidden (seccomp), each part gets its own msync. */
	file->whole &= !ret;
	if (!ret || (errno != EIO && errno != ENOSPC && errno != EDQUOT))
		return 0;
	return pmv_mem_refuse(opening->mem, FI_EIO,
			      "pages of %.80s were lost before it was registered (%m); check the "
			      "medium and what is in the file, then register it again",
			      opening->vma->path);
}

/*
 * reserve -- allocate blocks for all of a part, so that no write finds the disk full.  Not
 * all file systems can do that.  ZFS needs that much free space even without holes.
 */
static int reserve(const struct file *file, const struct opening *opening)
{
	off_t hole, start = offset_of(opening, opening->from),
		    end = offset_of(opening, opening->to);
	int err, ret = TEMP_FAILURE_RETRY(fallocate(file->fd, 0, start, end - start));

	if (ret && errno == EIO)
		return pmv_mem_refuse(opening->mem, FI_EIO, "%.80s can't be given its blocks: %m",
				      opening->vma->path);
	if (!ret || (errno != ENOSPC && errno != EDQUOT))
		return 0;
	err = errno;
	hole = lseek(file->fd, start, SEEK_HOLE);
	if (hole >= end)
		return 0;
	errno = err;
	return pmv_mem_refuse(opening->mem, FI_ENOSPC,
			      "there is no room for all of %.80s, which has holes (%m): make room, "
			      "and write or allocate (posix_fallocate) the whole file",
			      opening->vma->path);
}

/* check_file -- can what is committed to this part be found after a power failure? */
static int check_file(struct file *file, const struct opening *opening)
{
	uint64_t end = (uint64_t) offset_of(opening, opening->to);
	const char *path = opening->vma->path;
	struct stat st;
	int ret;

	if (fstat(file->fd, &st))
		return pmv_mem_refuse(opening->mem, FI_EIO, "%.80s: %m", path);
	ret = check_past(file, opening);
	if (ret || !S_ISREG(st.st_mode)) {
		file->linked = file->sized = false;
		return ret;
	}
	file->linked = st.st_nlink;
	if (!file->linked && !opening->declared)
		return pmv_mem_refuse(opening->mem, FI_EOPNOTSUPP, "%.80s " PMV_MEM_UNLINKED, path);
	file->sized &= (uint64_t) st.st_size >= end;
	if (!file->sized && !opening->declared)
		return refuse_end(opening);
	if (file->end < end)
		file->end = end;
	return file->sized ? reserve(file, opening) : 0;
}

static bool syncs_as_a_whole(int fd)
{
	struct statfs fs;

	/* ext2 and ext3 have ext4's number, and each of them does. */
	return !fstatfs(fd, &fs) && (fs.f_type == EXT4_SUPER_MAGIC || fs.f_type == XFS_SUPER_MAGIC);
}

/* find_file -- open it, unless the region has it already; NULL and errno: it can't be opened */
static struct file *find_file(struct opening *opening)
{
	const struct pmv_mapped *mapped = &opening->vma->file;
	struct file *file;
	int fd;

	SLIST_FOREACH(file, &opening->files->files, next) {
		if (file->dev == mapped->dev && file->ino == mapped->ino &&
		    !compare(file->fd, opening))
			return file;
	}
	file = malloc(sizeof(*file));
	fd = file ? open_anew(opening) : -ENOMEM;
	if (fd < 0) {
		free(file);
		errno = -fd;
		return NULL;
	}
	*file = (struct file){
		.fd = fd,
		.dev = mapped->dev,
		.ino = mapped->ino,
		.sized = true,
		.whole = syncs_as_a_whole(fd),
	};
	SLIST_INSERT_HEAD(&opening->files->files, file, next);
	return file;
}

/* map_segment -- map the part of the file once more */
static int map_segment(const struct opening *opening, const struct file *file)
{
	struct segment *segment = malloc(sizeof(*segment));

	if (!segment)
		return pmv_mem_refuse(opening->mem, FI_ENOMEM, "no memory for a region's files");
	segment->file = file;
	segment->offset = (uint64_t) offset_of(opening, opening->from);
	segment->start = opening->from;
	segment->end = (opening->to + page_size() - 1) & ~(page_size() - 1);
	segment->own = mmap(NULL, segment->end - segment->start, PROT_READ | PROT_WRITE, MAP_SHARED,
			    file->fd, offset_of(opening, opening->from));
	if (segment->own == MAP_FAILED) {
		free(segment);
		return pmv_mem_refuse(opening->mem, FI_ENOMEM,
				      "a file can't be mapped once more (%m): raise the limit of "
				      "the address space (ulimit -v), of locked memory (ulimit -l, "
				      "after mlockall) or of mappings (vm.max_map_count)");
	}
	SLIST_INSERT_HEAD(&opening->files->segments, segment, next);
	return 0;
}

/* open_vma -- what is behind one mapping of the region */
static int open_vma(void *arg, const struct pmv_vma *vma)
{
	struct opening *opening = arg;
	bool synced = opening->persist == PMV_PAGE;
	struct file *file;
	struct pmv_mem one;
	int ret;

	pmv_mapping_detect(&vma->file, &one);
	if (one.backing == PMV_ANON || one.backing == PMV_PRIVATE ||
	    one.backing == PMV_VOLATILE_FS || one.backing == PMV_DEVDAX) {
		opening->files->gaps = true;
		return 0;
	}
	opening->vma = vma;
	opening->from = opening->start > vma->start ? opening->start : vma->start;
	opening->from &= ~(page_size() - 1);
	opening->to = opening->end < vma->end ? opening->end : vma->end;
	file = find_file(opening);
	if (file) {
		ret = check_file(file, opening);
		return ret || !synced ? ret : map_segment(opening, file);
	}
	/* Nobody syncs files on DAX, so nobody takes their errors. */
	if (!opening->declared && (synced || one.unnamed || errno == EMFILE || errno == ENFILE))
		return refuse_open(opening, one.unnamed);
	opening->files->gaps = true;
	if (synced)
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

int pmv_files_open(const struct iovec *iov, size_t count, enum pmv_persist persist, bool declared,
		   struct pmv_files **files, struct pmv_mem *mem)
{
	struct opening opening = {.persist = persist, .declared = declared, .mem = mem};
	int ret = 0;

	*files = NULL;
	/* If no sync is needed, by declaration, the files are not checked. */
	if (persist == PMV_NONE || (declared && persist != PMV_PAGE))
		return 0;
	opening.files = calloc(1, sizeof(*opening.files));
	if (!opening.files)
		return pmv_mem_refuse(mem, FI_ENOMEM, "no memory for a region's files");
	for (size_t i = 0; i < count && !ret; i++) {
		opening.start = (uintptr_t) iov[i].iov_base;
		opening.end = opening.start + iov[i].iov_len;
		if (iov[i].iov_len)
			ret = pmv_vma_each(pmv_platform.maps, iov[i].iov_base, iov[i].iov_len,
					   open_vma, &opening, mem);
	}
	if (ret || SLIST_EMPTY(&opening.files->segments))
		pmv_files_close(opening.files);
	else
		*files = opening.files;
	return ret;
}

void pmv_files_close(struct pmv_files *files)
{
	struct segment *segment;
	struct file *file;

	if (!files)
		return;
	while ((segment = SLIST_FIRST(&files->segments))) {
		SLIST_REMOVE_HEAD(&files->segments, next);
		munmap(segment->own, segment->end - segment->start);
		free(segment);
	}
	while ((file = SLIST_FIRST(&files->files))) {
		SLIST_REMOVE_HEAD(&files->files, next);
		close(file->fd);
		free(file);
	}
	free(files);
}

static const struct segment *find_segment(const struct pmv_files *files, uintptr_t at, size_t *len)
{
	const struct segment *segment;

	if (!files)
		return NULL;
	SLIST_FOREACH(segment, &files->segments, next) {
		if (at >= segment->start && at < segment->end) {
			if (*len > segment->end - at)
				*len = segment->end - at;
			return segment;
		}
		/* There is none up to the start of this one. */
		if (segment->start > at && *len > segment->start - at)
			*len = segment->start - at;
	}
	return NULL;
}

void *pmv_files_map(const struct pmv_files *files, const void *addr, size_t *len)
{
	const struct segment *segment = find_segment(files, (uintptr_t) addr, len);

	return segment ? segment->own + ((uintptr_t) addr - segment->start) : NULL;
}

bool pmv_files_find(const struct pmv_files *files, const void *addr, size_t *len,
		    struct pmv_file_part *part)
{
	const struct segment *segment = find_segment(files, (uintptr_t) addr, len);

	if (!segment || !segment->file->whole)
		return false;
	*part = (struct pmv_file_part){
		.dev = segment->file->dev,
		.ino = segment->file->ino,
		.fd = segment->file->fd,
		.offset = segment->offset + ((uintptr_t) addr - segment->start),
	};
	return true;
}

bool pmv_files_cover(const struct pmv_files *files)
{
	return files && !files->gaps;
}

int pmv_files_watch(const struct pmv_files *files, struct pmv_watch **watch)
{
	const struct segment *segment;
	int ret = 0;

	if (!files)
		return 0;
	SLIST_FOREACH(segment, &files->segments, next) {
		if (!ret)
			ret = pmv_guard_add(watch, segment->own, segment->end - segment->start);
	}
	return ret;
}

enum pmv_file_state pmv_file_state(int fd, bool linked, uint64_t end)
{
	/* Not the times: since Linux 6.13 asking for them makes the next write change the inode. */
	const unsigned int mask = STATX_NLINK | STATX_SIZE;
	struct statx stx;

	if (!linked && !end)
		return PMV_FILE_HERE;
	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, mask, &stx))
		return PMV_FILE_UNKNOWN;
	if (linked && !stx.stx_nlink)
		return PMV_FILE_UNLINKED;
	return stx.stx_size < end ? PMV_FILE_SHORTER : PMV_FILE_HERE;
}

enum pmv_file_state pmv_files_state(const struct pmv_files *files)
{
	enum pmv_file_state state = PMV_FILE_HERE;
	const struct file *file;

	if (!files)
		return PMV_FILE_HERE;
	SLIST_FOREACH(file, &files->files, next) {
		state = pmv_file_state(file->fd, file->linked, file->sized ? file->end : 0);
		if (state != PMV_FILE_HERE)
			break;
	}
	return state;
}

uint64_t pmv_files_disk(const struct pmv_files *files)
{
	uint64_t disk = PMV_DISK_NONE;
	const struct file *file;

	if (!pmv_files_cover(files))
		return PMV_DISK_UNKNOWN;
	SLIST_FOREACH(file, &files->files, next)
		disk = pmv_disk_both(disk, pmv_disk_lane(file->dev, file->ino));
	return disk;
}
