/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cp_crash.c -- preloaded into fi_pmem_cp or fi_pmem_target: a disk that forgets, and accidents
 *
 * Whatever a program syncs is copied to the directory PMEM_CP_DISK, under the file's name:
 * that is what a power failure would leave.  A file that is renamed before it is there, or a
 * directory that is not synced behind a renaming or a making, is told of on standard error, and
 * ends the program with 9.  It also says there when a file system was synced.  PMEM_CP_FS is the
 * type that file systems say that they have.  With PMEM_CP_REALTIME the data of all files are on a
 * realtime device, and syncfs leaves them in its cache.  With PMEM_CP_UNNAMED a file that is open
 * is not found by its name.
 *
 * PMEM_CP_ACCIDENT=KIND:MIB lets something happen once so much was synced or, with read and write,
 * has gone through pread and pwrite:
 *
 *   crash     SIGKILL before the next sync.  The last page of the file, the state of a copy, is on
 *             the disk as it is: the kernel may write back any page at any time.
 *   spoil     a byte that is already synced changes
 *   ahead     no accident: the program ends with 9 if it has not asked the disk (posix_fadvise)
 *             for so much behind what it reads
 *   kill, stop, change    SIGKILL, SIGSTOP, a byte of the source changes: instead of a pread or
 *             pwrite
 *
 * Other kinds have no number of MiB:
 *
 *   fail_CALL:TEXT    once, the CALL (syncfs, begin or range for sync_file_range, fsync, fstat,
 *             readdir) of what has a name that ends with TEXT fails with EIO
 *   slow:MS   each fsync takes so much longer
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <linux/fs.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#define PAGE 4096
#define IS_DATA ((size_t) 65536) /* shorter ones are not counted */

int msync(void *addr, size_t len, int flags);
int sync_file_range(int fd, off_t from, off_t len, unsigned int flags);
int fsync(int fd);
int fdatasync(int fd);
int syncfs(int fd);
int fstatfs(int fd, struct statfs *fs);
int ioctl(int fd, unsigned long request, ...);
int stat(const char *path, struct stat *st);
int fstat(int fd, struct stat *st);
int renameat(int olddir, const char *old, int newdir, const char *new);
ssize_t pread(int fd, void *buf, size_t len, off_t at);
ssize_t pwrite(int fd, const void *buf, size_t len, off_t at);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t moved; /* bytes */
/* Directories, after a renaming, or after one was made there. */
static struct {
	ino_t dir;
	bool renamed;
} unsynced[64];
static size_t num_unsynced;

static void end(const char *why)
{
	fprintf(stderr, "cp_crash: %s\n", why);
	_exit(9);
}

/* happens -- once, and now? */
static bool happens(const char *kind, size_t bytes)
{
	const char *wanted = getenv("PMEM_CP_ACCIDENT");
	uint64_t before = moved;
	size_t len = strlen(kind);

	if (!wanted || strncmp(wanted, kind, len) || wanted[len] != ':')
		return false;
	if (bytes >= IS_DATA)
		moved += bytes;
	before >>= 20;
	return before < strtoull(wanted + len + 1, NULL, 10) &&
	       moved >> 20 >= strtoull(wanted + len + 1, NULL, 10);
}

/* on_disk -- the copy of a file, or -1: nobody asked for one */
static int on_disk(const char *path)
{
	const char *dir = getenv("PMEM_CP_DISK");
	char copy[PATH_MAX], name[2 * PATH_MAX];

	if (!dir)
		return -1;
	snprintf(copy, sizeof(copy), "%s", path);
	snprintf(name, sizeof(name), "%s/%s", dir, basename(copy));
	return open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
}

/* save -- part of a file to the disk */
static void save(const char *path, uint64_t from, uint64_t len)
{
	static char buf[1 << 20];
	int fd = open(path, O_RDONLY | O_CLOEXEC), disk = on_disk(path);

	while (fd >= 0 && disk >= 0 && len) {
		size_t part = len < sizeof(buf) ? len : sizeof(buf);
		ssize_t ret = syscall(SYS_pread64, fd, buf, part, (off_t) from);

		if (ret <= 0 || syscall(SYS_pwrite64, disk, buf, ret, (off_t) from) != ret)
			break;
		from += (uint64_t) ret;
		len -= (uint64_t) ret;
	}
	if (fd >= 0)
		close(fd);
	if (disk >= 0)
		close(disk);
}

static uint64_t size_of(const char *path)
{
	struct stat st;

	return lstat(path, &st) ? 0 : (uint64_t) st.st_size;
}

/* crash -- the state is on the disk before what it tells of, if that can be */
static void crash(const char *path)
{
	uint64_t size = size_of(path);

	if (size >= PAGE)
		save(path, size - PAGE, PAGE);
	kill(getpid(), SIGKILL);
}

/* mapped -- the file at an address, and where in it */
static bool mapped(uintptr_t addr, char *path, uint64_t *offset)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	uint64_t start, stop, at;
	char line[PATH_MAX + 100];
	bool found = false;

	while (maps && !found && fgets(line, sizeof(line), maps)) {
		found = sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64 " %*s %*s %4095s",
			       &start, &stop, &at, path) == 4 &&
			start <= addr && addr < stop && *path == '/';
		if (found)
			*offset = at + addr - start;
	}
	if (maps)
		fclose(maps);
	return found;
}

/* What sync_file_range has written, as it was then, and nobody has flushed yet. */
static struct {
	char path[PATH_MAX];
	uint64_t from, len;
	void *bytes;
} written[256];
static size_t num_written;

/* flush_written -- one sync of a file does it for all of it */
static void flush_written(const char *path)
{
	size_t left = 0;
	int disk = on_disk(path);

	for (size_t i = 0; i < num_written; i++) {
		if (strcmp(written[i].path, path)) {
			written[left++] = written[i];
			continue;
		}
		if (disk >= 0 && syscall(SYS_pwrite64, disk, written[i].bytes, written[i].len,
					 (off_t) written[i].from) < 0)
			end("the disk's file");
		free(written[i].bytes);
	}
	num_written = left;
	if (disk >= 0)
		close(disk);
}

/* path_of -- of an open file; "": it has none */
static void path_of(int fd, char *path)
{
	char link[64];
	ssize_t len;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	len = readlink(link, path, PATH_MAX - 1);
	path[len < 0 ? 0 : len] = '\0';
}

static bool is_open(const char *name)
{
	DIR *open_files = opendir("/proc/self/fd");
	const struct dirent *file;
	char path[PATH_MAX];
	bool found = false;

	while (open_files && !found && (file = readdir(open_files))) {
		path_of(atoi(file->d_name), path);
		found = !strcmp(path, name);
	}
	if (open_files)
		closedir(open_files);
	return found;
}

int stat(const char *path, struct stat *st)
{
	if (!getenv("PMEM_CP_UNNAMED") || !is_open(path))
		return fstatat(AT_FDCWD, path, st, 0);
	errno = ENOENT;
	return -1;
}

int fstatfs(int fd, struct statfs *fs)
{
	const char *type = getenv("PMEM_CP_FS");
	int ret = (int) syscall(SYS_fstatfs, fd, fs);

	if (type)
		fs->f_type = strtol(type, NULL, 16);
	return ret;
}

int ioctl(int fd, unsigned long request, ...)
{
	struct fsxattr *attr;
	va_list args;
	void *arg;
	int ret;

	va_start(args, request);
	attr = arg = va_arg(args, void *);
	va_end(args);
	ret = (int) syscall(SYS_ioctl, fd, request, arg);
	if (request != FS_IOC_FSGETXATTR || !getenv("PMEM_CP_REALTIME"))
		return ret;
	attr->fsx_xflags |= FS_XFLAG_REALTIME;
	return 0;
}

/* fails -- once: with errno, and told of */
static bool fails(const char *call, int fd)
{
	const char *wanted = getenv("PMEM_CP_ACCIDENT");
	size_t len = strlen(call), end_len;
	static bool done;
	char path[PATH_MAX];

	if (!wanted || strncmp(wanted, "fail_", 5) || strncmp(wanted + 5, call, len) ||
	    wanted[5 + len] != ':')
		return false;
	wanted += 5 + len + 1;
	end_len = strlen(wanted);
	path_of(fd, path);
	if (done || strlen(path) < end_len || strcmp(path + strlen(path) - end_len, wanted))
		return false;
	done = true;
	fprintf(stderr, "cp_crash: %s fails\n", call);
	errno = EIO;
	return true;
}

int fstat(int fd, struct stat *st)
{
	return fails("fstat", fd) ? -1 : fstatat(fd, "", st, AT_EMPTY_PATH);
}

/* note_written -- no more than was in the file */
static void note_written(int fd, off_t from, off_t len)
{
	void *bytes = malloc((size_t) len);
	ssize_t ret = bytes ? syscall(SYS_pread64, fd, bytes, len, from) : -1;

	if (ret < 0 || num_written == sizeof(written) / sizeof(written[0]))
		end("too much is written and not synced");
	path_of(fd, written[num_written].path);
	written[num_written].from = (uint64_t) from;
	written[num_written].len = (uint64_t) ret;
	written[num_written++].bytes = bytes;
}

int sync_file_range(int fd, off_t from, off_t len, unsigned int flags)
{
	int ret = (int) syscall(SYS_sync_file_range, fd, from, len, flags);

	if (fails(flags == SYNC_FILE_RANGE_WRITE ? "begin" : "range", fd))
		return -1;
	pthread_mutex_lock(&lock);
	if (!ret && len && flags == SYNC_FILE_RANGE_WRITE_AND_WAIT)
		note_written(fd, from, len);
	pthread_mutex_unlock(&lock);
	return ret;
}

int msync(void *addr, size_t len, int flags)
{
	char path[PATH_MAX];
	uint64_t offset;
	long ret;

	pthread_mutex_lock(&lock);
	if (!mapped((uintptr_t) addr, path, &offset))
		end("msync of no file");
	if (happens("crash", len))
		crash(path);
	ret = syscall(SYS_msync, addr, len, flags);
	save(path, offset, len);
	flush_written(path);
	if (happens("spoil", len))
		*(volatile char *) addr ^= 1;
	pthread_mutex_unlock(&lock);
	return (int) ret;
}

/* save_whole -- a file as long as it is */
static void save_whole(const char *path, off_t size)
{
	int disk;

	save(path, 0, (uint64_t) size);
	disk = on_disk(path);
	if (disk >= 0 && (ftruncate(disk, size) || close(disk)))
		end("the disk's file");
}

static void forget_unsynced(ino_t dir)
{
	for (size_t i = 0; i < num_unsynced; i++) {
		if (unsynced[i].dir == dir)
			unsynced[i--] = unsynced[--num_unsynced];
	}
}

static void note_unsynced(int dir, const char *path, bool renamed)
{
	struct stat st;

	if (fstatat(dir, path, &st, AT_EMPTY_PATH))
		end("the directory of a change");
	pthread_mutex_lock(&lock);
	forget_unsynced(st.st_ino);
	if (num_unsynced == sizeof(unsynced) / sizeof(unsynced[0]))
		end("too many directories are not synced");
	unsynced[num_unsynced].dir = st.st_ino;
	unsynced[num_unsynced++].renamed = renamed;
	pthread_mutex_unlock(&lock);
}

static int sync_file(long number, int fd)
{
	char path[PATH_MAX];
	struct stat st;

	path_of(fd, path);
	if (fstat(fd, &st))
		return -1;
	pthread_mutex_lock(&lock);
	/* An error is an answer, too: from here on it is known. */
	if (S_ISDIR(st.st_mode))
		forget_unsynced(st.st_ino);
	if (fails("fsync", fd)) {
		pthread_mutex_unlock(&lock);
		return -1;
	}
	if (!S_ISDIR(st.st_mode)) {
		if (happens("crash", size_of(path)))
			crash(path);
		save_whole(path, st.st_size);
	}
	pthread_mutex_unlock(&lock);
	return (int) syscall(number, fd);
}

int fsync(int fd)
{
	const char *accident = getenv("PMEM_CP_ACCIDENT");

	if (accident && !strncmp(accident, "slow:", 5))
		usleep((useconds_t) strtoul(accident + 5, NULL, 10) * 1000);
	return sync_file(SYS_fsync, fd);
}

int fdatasync(int fd)
{
	return sync_file(SYS_fdatasync, fd);
}

/* syncfs -- of the hidden files of copies that are open */
int syncfs(int fd)
{
	DIR *open_files = opendir("/proc/self/fd");
	const struct dirent *file;
	char path[PATH_MAX];
	size_t bytes = 0;

	if (fails("syncfs", fd))
		return -1;
	pthread_mutex_lock(&lock);
	/* It does for what was made, but nobody waits for it with what was renamed. */
	for (size_t i = 0; i < num_unsynced; i++) {
		if (unsynced[i].renamed)
			end("the directory of a renamed file is not durable behind its group");
	}
	num_unsynced = 0;
	for (int pass = 0; open_files && pass < 2; pass++) {
		rewinddir(open_files);
		while ((file = readdir(open_files))) {
			path_of(atoi(file->d_name), path);
			if (!strstr(path, ".fi_pmem_cp"))
				continue;
			bytes += size_of(path);
			if (pass && !getenv("PMEM_CP_REALTIME"))
				save_whole(path, (off_t) size_of(path));
		}
		if (!pass && happens("crash", bytes))
			kill(getpid(), SIGKILL);
	}
	if (open_files)
		closedir(open_files);
	pthread_mutex_unlock(&lock);
	fprintf(stderr, "cp_crash: all is synced\n");
	return (int) syscall(SYS_syncfs, fd);
}

struct dirent *readdir(DIR *dir)
{
	struct dirent *(*next)(DIR *) = (struct dirent * (*) (DIR *) ) dlsym(RTLD_NEXT, "readdir");

	return fails("readdir", dirfd(dir)) ? NULL : next(dir);
}

/* same -- is the file on the disk what it is here? */
static bool same(int dir, const char *name)
{
	char here[PAGE], there[PAGE];
	int fd = openat(dir, name, O_RDONLY | O_CLOEXEC), disk = on_disk(name);
	ssize_t len = -1, other;

	while (fd >= 0 && disk >= 0) {
		len = read(fd, here, sizeof(here));
		other = read(disk, there, sizeof(there));
		if (len <= 0 || other != len || memcmp(here, there, (size_t) len))
			break;
	}
	if (len == 0)
		len = -read(disk, there, 1);
	else
		len = -1;
	close(fd);
	close(disk);
	return !len;
}

int renameat(int olddir, const char *old, int newdir, const char *new)
{
	if (getenv("PMEM_CP_DISK")) {
		if (!same(olddir, old))
			end("renamed before it was durable");
		note_unsynced(newdir, "", true);
	}
	return (int) syscall(SYS_renameat2, olddir, old, newdir, new, 0);
}

int mkdirat(int dir, const char *path, mode_t mode)
{
	long ret = syscall(SYS_mkdirat, dir, path, mode);

	if (!ret)
		note_unsynced(dir, "", false);
	return (int) ret;
}

int mkdir(const char *path, mode_t mode)
{
	long ret = syscall(SYS_mkdirat, AT_FDCWD, path, mode);
	char copy[PATH_MAX];

	snprintf(copy, sizeof(copy), "%s", path);
	if (!ret)
		note_unsynced(AT_FDCWD, dirname(copy), false);
	return (int) ret;
}

static void change(int fd)
{
	char link[64], byte = 0;
	int again;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	again = open(link, O_RDWR | O_CLOEXEC);
	if (syscall(SYS_pread64, again, &byte, 1, 0L) != 1)
		end("no source to change");
	byte ^= 1;
	if (syscall(SYS_pwrite64, again, &byte, 1, 0L) != 1)
		end("no source to change");
	close(again);
}

static void accident(int fd, size_t len)
{
	pthread_mutex_lock(&lock);
	if (happens("kill", len))
		kill(getpid(), SIGKILL);
	if (happens("stop", len))
		kill(getpid(), SIGSTOP);
	if (happens("change", len))
		change(fd);
	pthread_mutex_unlock(&lock);
}

/* Up to where the disk has been asked to read the source. */
static off_t asked;

int posix_fadvise(int fd, off_t at, off_t len, int advice)
{
	if (advice == POSIX_FADV_WILLNEED && at + len > asked)
		asked = at + len;
	return (int) syscall(SYS_fadvise64, fd, at, len, advice);
}

ssize_t pread(int fd, void *buf, size_t len, off_t at)
{
	const char *ahead = getenv("PMEM_CP_ACCIDENT");

	if (ahead && !strncmp(ahead, "ahead:", 6) &&
	    at + (off_t) (strtoull(ahead + 6, NULL, 10) << 20) > asked)
		end("read before the disk was asked for it");
	accident(fd, len);
	return syscall(SYS_pread64, fd, buf, len, at);
}

ssize_t pwrite(int fd, const void *buf, size_t len, off_t at)
{
	accident(fd, len);
	return syscall(SYS_pwrite64, fd, buf, len, at);
}

__attribute__((destructor)) static void check_end(void)
{
	if (num_unsynced)
		end("ended, and the directory of a renamed file is not durable");
}
