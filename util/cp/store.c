/* SPDX-License-Identifier: BSD-2-Clause */
/* store.c -- files below a directory, or a device; store.h says which */
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <libpmem2.h>
#include <xxhash.h>

#include "beneath.h"

#define DIGEST_PIECE ((size_t) 16 << 20)

/*
 * Pages without memory.  Who touches a page of a file that was truncated meanwhile gets SIGBUS. The
 * provider has a handler for what it touches, and passes the others on.  This one gives the
 * page memory that belongs to nobody, and says to which client that has happened.
 */
static struct {
	atomic_uintptr_t start, end;
	atomic_bool hit;
} guards[CP_MAX_CLIENTS];

static void on_sigbus(int signo, siginfo_t *info, void *context)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
	const uintptr_t sizes[] = {4096, 1UL << 16, 1UL << 21, 1UL << 30};
	uintptr_t at = (uintptr_t) info->si_addr;
	int err = errno;

	(void) context;
	for (size_t i = 0; info->si_code > 0 && i < CP_MAX_CLIENTS; i++) {
		if (at < atomic_load(&guards[i].start) || at >= atomic_load(&guards[i].end))
			continue;
		atomic_store(&guards[i].hit, true);
		/* Some mappings can only be split at large pages. */
		for (size_t j = 0; j < sizeof(sizes) / sizeof(sizes[0]); j++) {
			uintptr_t start = at & ~(sizes[j] - 1);

			if (syscall(SYS_mmap, start, sizes[j], PROT_READ | PROT_WRITE, flags, -1,
				    0L) == (long) start) {
				errno = err;
				return;
			}
		}
	}
	/* Not ours: the process ends when the instruction is executed again, or here. */
	signal(signo, SIG_DFL);
	raise(signo);
}

int cp_store_guard(void)
{
	struct sigaction action = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO};

	return sigaction(SIGBUS, &action, NULL);
}

__attribute__((format(printf, 3, 4))) static int refuse(struct cp_object *object, int err,
							const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(object->reason, sizeof(object->reason), format, args);
	va_end(args);
	return err;
}

static int open_device(struct cp_store *store)
{
	struct pmem2_source *source = NULL;
	size_t size = 0, alignment = 0;
	int ret = pmem2_source_from_fd(&source, store->fd);

	if (!ret)
		ret = pmem2_source_size(source, &size);
	if (!ret)
		ret = pmem2_source_alignment(source, &alignment);
	pmem2_source_delete(&source);
	store->size = size;
	store->alignment = alignment;
	return ret;
}

static bool is_in_memory(int dir)
{
	struct statfs fs;

	return !fstatfs(dir, &fs) && (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC);
}

/* warn_if_closed -- files there can be got, but nothing can be put, and nobody has asked for that
 */
static void warn_if_closed(const struct cp_store *store)
{
	int fd = openat(store->fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (!getenv("FI_PMEMVERBS_DOMAIN") && is_in_memory(store->fd))
		fprintf(stderr,
			"fi_pmem_target: nothing can be put into %s: it is in memory (tmpfs), and "
			"not durable; to try things out, set FI_PMEMVERBS_DOMAIN=mhp\n",
			store->path);
	/* Other errors tell that a file system has no files without a name. */
	if (fd < 0 && (errno == EACCES || errno == EPERM || errno == EROFS || errno == ENOSPC ||
		       errno == EDQUOT))
		fprintf(stderr, "fi_pmem_target: nothing can be put into %s: %s\n", store->path,
			strerror(errno));
	if (fd >= 0)
		close(fd);
}

int cp_store_open(struct cp_store *store, const char *path)
{
	struct stat st;
	int fd;

	store->path = path;
	store->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (store->fd < 0 && errno == ENOTDIR)
		store->fd = open(path, (store->read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC);
	if (store->fd < 0 || fstat(store->fd, &st)) {
		fprintf(stderr, "fi_pmem_target: %s: %s\n", path, strerror(errno));
		return -1;
	}
	store->device = S_ISCHR(st.st_mode);
	if (store->device && !open_device(store))
		return 0;
	if (store->device || !S_ISDIR(st.st_mode)) {
		fprintf(stderr,
			"fi_pmem_target: %s is neither a directory nor a device of device "
			"DAX\n",
			path);
		return -1;
	}
	fd = cp_open_beneath(store->fd, ".", O_PATH | O_DIRECTORY);
	if (fd < 0) {
		fprintf(stderr, "fi_pmem_target: %s can't be confined (openat2, Linux 5.6): %s\n",
			path, strerror(errno));
		return -1;
	}
	close(fd);
	if (!store->read_only)
		warn_if_closed(store);
	return 0;
}

/* open_parent -- the directory that a name is in, and what it is called there */
static int open_parent(struct cp_object *object, const char *name, const char **base)
{
	char dir[CP_TEXT];
	const char *reason = cp_split_name(name, dir, base);

	if (reason)
		return refuse(object, EINVAL, "%s", reason);
	object->dir = cp_open_beneath(object->root, dir, O_RDONLY | O_DIRECTORY);
	if (object->dir >= 0)
		return 0;
	if (errno == EXDEV || errno == ELOOP)
		return refuse(object, EACCES, "%s", cp_refused_open(errno));
	return refuse(object, errno, "its directory: %s", strerror(errno));
}

static int map(struct cp_object *object, int fd, uint64_t offset, uint64_t len)
{
	const int prot = object->writing ? PROT_READ | PROT_WRITE : PROT_READ;
	uint64_t unit = object->store->device ? object->store->alignment : CP_STATE_PAGE;
	uint64_t start = offset / unit * unit, end = (offset + len + unit - 1) / unit * unit;

	if (object->num_old == CP_MAX_OPENS)
		return refuse(object, EBUSY, "connect again");
	object->map_len = end - start;
	/* With MAP_SYNC, where it is to be had, no msync is needed. */
	object->map = mmap(NULL, object->map_len, prot, MAP_SHARED_VALIDATE | MAP_SYNC, fd,
			   (off_t) start);
	if (object->map == MAP_FAILED)
		object->map = mmap(NULL, object->map_len, prot, MAP_SHARED, fd, (off_t) start);
	if (object->map == MAP_FAILED) {
		object->map = NULL;
		return refuse(object, errno, "mmap: %s", strerror(errno));
	}
	object->base = object->map + (offset - start);
	object->len = len;
	atomic_store(&guards[object->client].hit, false);
	atomic_store(&guards[object->client].start, (uintptr_t) object->map);
	atomic_store(&guards[object->client].end, (uintptr_t) object->map + object->map_len);
	return 0;
}

/*
 * unmap -- over tcp, what the peer has begun still goes to and from these addresses: to memory of
 * nobody from now on.  If there is none, the file stays there until then.
 */
static void unmap(struct cp_object *object)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;

	if (!object->map)
		return;
	object->old[object->num_old].map = object->map;
	object->old[object->num_old++].len = object->map_len;
	if (mmap(object->map, object->map_len, PROT_READ | PROT_WRITE, flags, -1, 0) != MAP_FAILED)
		atomic_store(&guards[object->client].end, 0);
	object->map = NULL;
}

/* number -- with a unit: 0, or -1 */
static int number(const char **text, uint64_t *value)
{
	static const char units[] = "KMGT";
	const char *unit;
	char *end;

	if (**text < '0' || **text > '9')
		return -1;
	errno = 0;
	*value = strtoull(*text, &end, 10);
	unit = *end ? strchr(units, *end) : NULL;
	for (const char *i = units; unit && i <= unit; i++) {
		if (*value > CP_MAX_SIZE / 1024)
			return -1;
		*value *= 1024;
	}
	*text = end + (unit != NULL);
	return errno || *value > CP_MAX_SIZE ? -1 : 0;
}

/* open_range -- part of the device; size is that of what is put, or compared with a file, or 0 */
static int open_range(struct cp_object *object, const char *name, uint64_t size)
{
	struct cp_store *store = object->store;
	uint64_t offset = 0, len = size;
	bool taken = false;

	if ((*name && number(&name, &offset)) ||
	    (*name == '+' && !size && (name++, number(&name, &len))) || *name)
		return refuse(object, EINVAL,
			      "a name here is OFFSET or, to get something, OFFSET+LENGTH");
	if (!len && offset < store->size)
		len = store->size - offset;
	if (!len || offset > store->size || len > store->size - offset)
		return refuse(object, ENOSPC, "the device has %" PRIu64 " bytes", store->size);
	pthread_mutex_lock(&store->lock);
	for (size_t i = 0; i < CP_MAX_CLIENTS; i++)
		taken |= offset < store->written[i].end && store->written[i].start < offset + len;
	if (!taken && object->writing) {
		store->written[object->client].start = offset;
		store->written[object->client].end = offset + len;
	}
	pthread_mutex_unlock(&store->lock);
	if (taken)
		return refuse(object, EBUSY, "another client is writing there");
	object->size = len;
	return map(object, store->fd, offset, len);
}

int cp_store_charge(struct cp_store *store, uint64_t size, char *reason, size_t len)
{
	uint64_t most = store->max_file;
	bool fits;

	if (size > most) {
		snprintf(reason, len, "no file may be larger than %" PRIu64 " bytes here", most);
		return EFBIG;
	}
	pthread_mutex_lock(&store->lock);
	most = store->max_total;
	fits = store->total <= most && size <= most - store->total;
	if (fits)
		store->total += size;
	pthread_mutex_unlock(&store->lock);
	if (!fits)
		snprintf(reason, len, "the target takes no more (--max-total)");
	return fits ? 0 : EDQUOT;
}

void cp_store_refund(struct cp_store *store, uint64_t size)
{
	pthread_mutex_lock(&store->lock);
	store->total -= size;
	pthread_mutex_unlock(&store->lock);
}

static int refuse_part(struct cp_object *object, int err)
{
	if (err == EBUSY)
		return refuse(object, err, "another client is writing it");
	if (err == ENOTSUP)
		return refuse(object, err, "what has this name is no plain file");
	if (err == ENOSPC || err == EDQUOT)
		return refuse(object, err, "no room there: %s", strerror(err));
	return refuse(object, err, "%s", strerror(err));
}

static int open_part(struct cp_object *object, const struct cp_message *request)
{
	const char *base;
	int err = open_parent(object, request->text, &base);

	if (err)
		return err;
	err = cp_part_open(&object->part, object->dir, base, request->size, request->mtime,
			   request->flags);
	if (err)
		return refuse_part(object, err);
	object->hidden = true;
	object->keep = (struct cp_keep){
		.flags = request->flags, .mode = request->mode, .mtime = request->mtime};
	object->size = request->size;
	return map(object, object->part.fd, 0, cp_state_at(request->size) + CP_STATE_PAGE);
}

int cp_object_put(struct cp_object *object, const struct cp_message *request)
{
	int err;

	object->writing = true;
	if (object->store->read_only)
		return refuse(object, EROFS, "the target is read-only");
	if (request->size > CP_MAX_SIZE || (object->store->device && !request->size))
		return refuse(object, EINVAL, "a file of this size can't be put there");
	err = cp_store_charge(object->store, request->size, object->reason, sizeof(object->reason));
	if (err)
		return err;
	object->charge = request->size;
	return object->store->device ? open_range(object, request->text, request->size)
				     : open_part(object, request);
}

/* open_file -- what it is before it is opened: opening a device may have effects */
static int open_file(struct cp_object *object, const char *base)
{
	int fd = cp_open_beneath(object->dir, base, O_PATH);

	if (fd >= 0 && !fstat(fd, &object->st) && !S_ISREG(object->st.st_mode)) {
		close(fd);
		return refuse(object, ENOTSUP, "%s",
			      S_ISDIR(object->st.st_mode) ? CP_IS_DIRECTORY
							  : "it is no plain file");
	}
	if (fd >= 0) {
		close(fd);
		fd = object->fd = cp_open_beneath(object->dir, base, O_RDONLY);
	}
	if (fd < 0 || fstat(fd, &object->st))
		return refuse(object, errno, "%s",
			      errno == ELOOP ? "it is a symbolic link" : strerror(errno));
	return S_ISREG(object->st.st_mode) ? 0 : refuse(object, ENOTSUP, "it is no plain file");
}

int cp_object_get(struct cp_object *object, const struct cp_message *request)
{
	const char *base;
	int err;

	object->writing = false;
	if (object->store->device)
		return open_range(object, request->text, request->size);
	err = open_parent(object, request->text, &base);
	if (!err)
		err = open_file(object, base);
	if (err)
		return err;
	object->size = (uint64_t) object->st.st_size;
	return object->size ? map(object, object->fd, 0, object->size) : 0;
}

int cp_object_digest(struct cp_object *object, uint64_t len, uint8_t *digest,
		     int (*tick)(void *arg, uint64_t done), void *arg)
{
	XXH3_state_t *hash = XXH3_createState();
	XXH128_canonical_t canonical;
	struct stat st;
	int err = hash ? 0 : refuse(object, ENOMEM, "no memory");

	if (hash)
		XXH3_128bits_reset(hash);
	for (uint64_t at = 0, part; !err && at < len; at += part) {
		part = len - at < DIGEST_PIECE ? len - at : DIGEST_PIECE;
		XXH3_128bits_update(hash, object->base + at, part);
		if (tick(arg, at + part))
			err = refuse(object, ECANCELED, "interrupted");
	}
	if (!err) {
		XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(hash));
		memcpy(digest, canonical.digest, CP_DIGEST);
	}
	XXH3_freeState(hash);
	if (atomic_load(&guards[object->client].hit))
		return refuse(object, EIO, "the file was truncated, or its medium has failed");
	if (!err && object->fd >= 0 &&
	    (fstat(object->fd, &st) || st.st_size != object->st.st_size ||
	     st.st_mtim.tv_sec != object->st.st_mtim.tv_sec ||
	     st.st_mtim.tv_nsec != object->st.st_mtim.tv_nsec))
		return refuse(object, ESTALE, "the file has changed while it was copied");
	return err;
}

bool cp_object_is_whole(const struct cp_object *object)
{
	int fd = object->hidden ? object->part.fd : object->fd;
	struct stat st;

	return fd < 0 || !object->map || (!fstat(fd, &st) && (uint64_t) st.st_size >= object->len);
}

int cp_object_finish(struct cp_object *object)
{
	int err;

	if (!object->hidden)
		return 0;
	unmap(object);
	err = cp_part_finish(&object->part, &object->keep);
	return err ? refuse_part(object, err) : 0;
}

void cp_object_forget(struct cp_object *object)
{
	if (object->hidden)
		cp_part_discard(&object->part);
}

void cp_object_close(struct cp_object *object)
{
	struct cp_object closed = {.store = object->store,
				   .client = object->client,
				   .root = object->root,
				   .dir = -1,
				   .fd = -1};

	unmap(object);
	if (object->hidden)
		cp_part_close(&object->part);
	if (object->fd >= 0)
		close(object->fd);
	if (object->dir >= 0)
		close(object->dir);
	pthread_mutex_lock(&object->store->lock);
	object->store->written[object->client].end = 0;
	object->store->total -= object->charge;
	pthread_mutex_unlock(&object->store->lock);
	closed.num_old = object->num_old;
	memcpy(closed.old, object->old, sizeof(closed.old));
	*object = closed;
}

void cp_object_release(struct cp_object *object)
{
	atomic_store(&guards[object->client].end, 0);
	while (object->num_old--)
		munmap(object->old[object->num_old].map, object->old[object->num_old].len);
	object->num_old = 0;
}
