/* SPDX-License-Identifier: BSD-2-Clause */
/* direct_file.c -- files for direct I/O; direct.h has the rules */
#include "memory/direct_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "base/log.h"
#include "memory/direct_path.h"
#include "memory/disk.h"
#include "../../../util/sync_name.h"

/* So much is read or written at a time while a file is loaded. */
#define PMV_LOAD_MAX ((size_t) 16 << 20)

static int refuse(const char *path, struct pmv_mem *mem, int err, const char *what)
{
	return pmv_mem_refuse(mem, err, "%.80s can't be %s: %m", path, what);
}

/* lock -- the whole file, against every other opening */
static int lock(int fd, const char *path, struct pmv_mem *mem)
{
	struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	if (!fcntl(fd, F_OFD_SETLK, &all))
		return 0;
	if (errno == EAGAIN || errno == EACCES)
		return pmv_mem_refuse(mem, FI_EBUSY,
				      "%.80s is open already, here or in another process: its "
				      "memory can be had once",
				      path);
	return refuse(path, mem, FI_EOPNOTSUPP, "locked");
}

void pmv_direct_file_unlock(int fd)
{
	struct flock all = {.l_type = F_UNLCK, .l_whence = SEEK_SET};

	fcntl(fd, F_OFD_SETLK, &all);
}

/* restore -- only who has the lock may: else what others have committed would be lost */
static void restore(const struct pmv_direct_file *file, const char *path)
{
	struct stat st, named;

	if (!file->locked || fstat(file->fd, &st))
		return;
	if (file->made) {
		/* The name may be that of another file meanwhile. */
		if (!lstat(path, &named) && named.st_dev == st.st_dev && named.st_ino == st.st_ino)
			unlink(path);
	} else if (st.st_size > file->old_size && ftruncate(file->fd, file->old_size)) {
		PMV_WARN(MR, "%s could not be opened, and is longer now: %s\n", path,
			 strerror(errno));
	}
}

void pmv_direct_file_undo(const struct pmv_direct_file *file, const char *path)
{
	restore(file, path);
	/* A child, or the kernel's end of a ring, may have the description still. */
	if (file->locked)
		pmv_direct_file_unlock(file->fd);
	close(file->fd);
}

/* check_part -- *len becomes the part's length, if it was 0 */
static int check_part(const struct pmv_direct_attr *attr, const struct stat *st, size_t *len,
		      struct pmv_mem *mem)
{
	uint64_t size = (uint64_t) st->st_size;
	uint64_t part = attr->len;

	if (attr->offset > INT64_MAX)
		part = 0;
	else if (!part && size > attr->offset)
		part = (size - attr->offset + PMV_BLOCK - 1) & ~(PMV_BLOCK - 1);
	if (!part || (attr->offset | part) & (PMV_BLOCK - 1) ||
	    part > (uint64_t) INT64_MAX - attr->offset || part > SIZE_MAX / 2)
		return pmv_mem_refuse(mem, FI_EINVAL,
				      "%.80s: offset and length have to be multiples of 4096, and "
				      "not beyond the end without a length",
				      attr->path);
	*len = part;
	return 0;
}

/* is_descriptor -- of a file that is open: its name is the caller's affair */
static bool is_descriptor(const char *path)
{
	static const char start[] = "/proc/self/fd/";
	const char *number = path + strlen(start);

	return !strncmp(path, start, strlen(start)) && *number &&
	       !number[strspn(number, "0123456789")];
}

/* check_and_lock -- the lock comes first: before it, others extend the file or unlink it */
static int check_and_lock(const struct pmv_direct_attr *attr, struct pmv_direct_file *file,
			  struct pmv_mem *mem)
{
	struct pmv_direct_path path;
	struct stat st;
	int ret = lock(file->fd, attr->path, mem);

	if (!ret && fstat(file->fd, &st))
		ret = refuse(attr->path, mem, FI_EIO, "looked at");
	if (ret)
		return ret;
	file->locked = true;
	file->old_size = st.st_size;
	ret = pmv_direct_path_check(file->fd, attr->path, &path, mem);
	if (!ret && !S_ISREG(st.st_mode))
		ret = pmv_mem_refuse(mem, FI_EINVAL, "%.80s is no plain file", attr->path);
	/* Its maker failed, and unlinked it before it was locked here. */
	if (!ret && !st.st_nlink && !is_descriptor(attr->path))
		ret = pmv_mem_refuse(mem, FI_EOPNOTSUPP, "%.80s " PMV_MEM_UNLINKED, attr->path);
	if (!ret)
		ret = check_part(attr, &st, &file->len, mem);
	if (ret)
		return ret;
	file->disk = pmv_disk_lane(st.st_dev, st.st_ino);
	file->fua = path.fua == 1;
	return 0;
}

static int query(const struct pmv_direct_attr *attr, struct pmv_mem *mem)
{
	struct pmv_direct_path path;

	return pmv_direct_path_query(attr->path, &path, mem);
}

/* open_or_make -- and know which; 0 or a negative errno */
static int open_or_make(const struct pmv_direct_attr *attr, int flags, struct pmv_direct_file *file)
{
	file->fd = -1;
	errno = ENOENT;
	if (!attr->exclusive)
		file->fd = open(attr->path, flags);
	if (file->fd < 0 && errno == ENOENT && attr->create) {
		file->fd = open(attr->path, flags | O_CREAT | O_EXCL, attr->mode);
		file->made = file->fd >= 0;
	}
	return file->fd < 0 ? -errno : 0;
}

int pmv_direct_file_open(const struct pmv_direct_attr *attr, struct pmv_direct_file *file,
			 struct pmv_mem *mem)
{
	int flags = O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
	int ret;

	*mem = (struct pmv_mem){.numa_node = -1};
	*file = (struct pmv_direct_file){.offset = (off_t) attr->offset};
	if (!attr->path)
		return pmv_mem_refuse(mem, FI_EINVAL, "a file without a path");
	if (attr->exclusive && !attr->create)
		return pmv_mem_refuse(mem, FI_EINVAL,
				      "a file that must not be there is to be made: "
				      "FI_PMEMVERBS_FILE_EXCL goes with "
				      "FI_PMEMVERBS_FILE_CREATE");
	/* Nothing is made where it can't be used, and opening a device may have effects. */
	ret = query(attr, mem);
	if (ret)
		return ret;
	/* O_DIRECT comes after the check, which knows better why it can't be had. */
	ret = open_or_make(attr, flags, file);
	if (ret) {
		errno = -ret;
		return refuse(attr->path, mem, -ret, "opened");
	}
	ret = check_and_lock(attr, file, mem);
	if (!ret && fcntl(file->fd, F_SETFL, O_DIRECT))
		ret = refuse(attr->path, mem, FI_EOPNOTSUPP, "written by direct I/O");
	if (ret)
		pmv_direct_file_undo(file, attr->path);
	return ret;
}

/* load -- what is in the file; behind its end are zeros */
static int load(const struct pmv_direct_file *file, char *memory)
{
	off_t known = file->old_size - file->offset;
	size_t done = 0;

	while (done < file->len) {
		size_t most = file->len - done < PMV_LOAD_MAX ? file->len - done : PMV_LOAD_MAX;
		ssize_t got = TEMP_FAILURE_RETRY(
			pread(file->fd, memory + done, most, file->offset + (off_t) done));

		if (got < 0)
			return -errno;
		done += (size_t) got;
		/* Less than a block: the end of the file. */
		if (got && (size_t) got % PMV_BLOCK == 0)
			continue;
		memset(memory + done, 0, file->len - done);
		return (off_t) done < known ? -EIO : 0;
	}
	return 0;
}

/* store -- blocks of the memory to the file */
static int store(const struct pmv_direct_file *file, const char *memory, struct pmv_blocks run)
{
	while (run.start < run.end) {
		size_t most =
			run.end - run.start < PMV_LOAD_MAX ? run.end - run.start : PMV_LOAD_MAX;
		ssize_t put = TEMP_FAILURE_RETRY(pwrite(file->fd, memory + run.start, most,
							file->offset + (off_t) run.start));

		if (put < 0)
			return -errno;
		if (!put || (size_t) put % PMV_BLOCK)
			return -EIO;
		run.start += (size_t) put;
	}
	return 0;
}

/* next_hole -- the first block from *at on that was never written; *at becomes what is behind it */
static int next_hole(const struct pmv_direct_file *file, off_t *at, off_t *hole)
{
	off_t end = file->offset + (off_t) file->len, data;

	*hole = lseek(file->fd, *at, SEEK_HOLE);
	/* Behind the end of the file nothing was written either. */
	if (*hole < 0 && errno == ENXIO)
		*hole = *at;
	if (*hole < 0)
		return -errno;
	if (*hole >= end) {
		*hole = *at = end;
		return 0;
	}
	data = lseek(file->fd, *hole, SEEK_DATA);
	if (data < 0 && errno != ENXIO)
		return -errno;
	*at = data < 0 || data > end ? end : data;
	return 0;
}

/* has_room -- on the disk: nobody else is to find it full because of what can't be done anyway */
static bool has_room(const struct pmv_direct_file *file)
{
	struct statvfs fs;
	struct stat st;
	uint64_t has;

	if (fstatvfs(file->fd, &fs) || fstat(file->fd, &st))
		return true;
	has = (uint64_t) st.st_blocks * 512;
	return file->len <= has || file->len - has <= (uint64_t) fs.f_bavail * fs.f_frsize;
}

/*
 * lay_out -- write what was never written.  SEEK_HOLE finds also blocks that are only allocated,
 * if no page of them is dirty, and fsync sees to that.
 */
static int lay_out(const struct pmv_direct_file *file, const char *memory)
{
	off_t at = file->offset, end = file->offset + (off_t) file->len, hole;
	int ret = 0;

	if (fsync(file->fd))
		return -errno;
	if (!has_room(file))
		return -ENOSPC;
	/* Its blocks are side by side then; not all file systems can do it. */
	if (fallocate(file->fd, 0, file->offset, (off_t) file->len) &&
	    (errno == ENOSPC || errno == EDQUOT || errno == EIO))
		return -errno;
	while (at < end && !ret) {
		ret = next_hole(file, &at, &hole);
		if (!ret)
			ret = store(file, memory,
				    pmv_blocks_of((uint64_t) (hole - file->offset),
						  (uint64_t) (at - hole)));
	}
	return ret;
}

static int sync_file(const struct pmv_direct_file *file, const char *path)
{
	if (!is_descriptor(path))
		return sync_name(path, file->fd);
	return fsync(file->fd) ? -errno : 0;
}

int pmv_direct_file_load(const struct pmv_direct_file *file, char *memory, const char *path,
			 struct pmv_mem *mem)
{
	int ret = load(file, memory);

	if (!ret)
		ret = lay_out(file, memory);
	if (!ret)
		ret = sync_file(file, path);
	if (!ret)
		return 0;
	errno = -ret;
	return refuse(path, mem, -ret, "read and laid out");
}
