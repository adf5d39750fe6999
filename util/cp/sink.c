/* SPDX-License-Identifier: BSD-2-Clause */
/* sink.c -- groups of files that become durable together; sink.h says how */
#include "sink.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "beneath.h"

/* So many files are cheaper with one syncfs than with a sync each. */
#define SYNCFS_FROM 4

static void fail(struct cp_sink *sink, unsigned int record, int err, const char *reason)
{
	sink->failed(sink->arg, record, err, reason);
}

/* tick -- the client is told that this side gets on: a sync of many files may take long */
static void tick(struct cp_sink *sink)
{
	if (!sink->over && sink->tick(sink->arg, ++sink->done))
		sink->over = true;
}

static const char *explain(int err)
{
	switch (err) {
	case EBUSY:
		return "another client is writing it";
	case ENOTSUP:
		return "what has this name is no plain file";
	default:
		return strerror(err);
	}
}

/* drop -- a file of the group that does not get its name */
static void drop(struct cp_sink *sink, struct cp_sink_file *file, int err)
{
	if (!file->ends) {
		cp_part_discard(&file->part);
		sink->refund(sink->arg, file->charged);
	}
	file->dir = -1;
	if (err)
		fail(sink, file->record, err, explain(err));
}

/* check_written -- what syncfs does not tell of: an error of this very file */
static int check_written(int fd, unsigned int flags)
{
	if (!sync_file_range(fd, 0, 0, flags))
		return 0;
	/* Not everybody may call that. */
	return (errno == ENOSYS || errno == EPERM) && !fsync(fd) ? 0 : errno;
}

/*
 * one_sync_does -- does syncfs make files durable, and tell of each error?  Not where a file system
 * lies on another one: overlayfs has its errors from there only by fsync; FUSE and network file
 * systems may not even be told to sync.
 */
static bool one_sync_does(int root)
{
	struct statfs fs;

	if (fstatfs(root, &fs))
		return false;
	switch ((unsigned long) fs.f_type) {
	case 0xEF53:     /* ext4 */
	case 0x58465342: /* XFS, except for realtime files */
	case 0x9123683E: /* btrfs */
	case 0xF2F52010: /* F2FS */
		return true;
	default:
		return false;
	}
}

/*
 * is_realtime -- XFS: syncfs does not flush the cache of the device that the data are on.  Where
 * that can't be told, it is taken to be so.
 */
static bool is_realtime(int fd)
{
	struct fsxattr attr;

	if (ioctl(fd, FS_IOC_FSGETXATTR, &attr))
		return errno != ENOTTY && errno != EOPNOTSUPP;
	return attr.fsx_xflags & FS_XFLAG_REALTIME;
}

/* begin_writing -- all of the group; of some errors only who has begun hears */
static void begin_writing(struct cp_sink *sink)
{
	for (unsigned int i = 0; i < sink->num_files; i++) {
		struct cp_sink_file *file = &sink->files[i];
		int err;

		if (file->dir < 0 || file->ends)
			continue;
		err = sync_file_range(file->part.fd, 0, 0, SYNC_FILE_RANGE_WRITE) ? errno : 0;
		if (err && err != ENOSYS && err != EPERM && err != ENOMEM)
			drop(sink, file, err);
		tick(sink);
	}
}

/* sync_files -- make the group durable; errors reach the files that they concern */
static void sync_files(struct cp_sink *sink)
{
	bool all = sink->num_files >= SYNCFS_FROM && one_sync_does(sink->root);

	if (all)
		begin_writing(sink);
	all = all && !syncfs(sink->root);
	for (unsigned int i = 0; i < sink->num_files; i++) {
		struct cp_sink_file *file = &sink->files[i];
		int err, fd = file->part.fd;

		if (file->dir < 0 || file->ends)
			continue;
		err = all && !is_realtime(fd) ? check_written(fd, SYNC_FILE_RANGE_WAIT_BEFORE)
					      : (fsync(fd) ? errno : 0);
		if (err)
			drop(sink, file, err);
		tick(sink);
	}
}

/* name_files -- of what is durable; a directory gets its time behind its last file */
static void name_files(struct cp_sink *sink)
{
	for (unsigned int i = 0; i < sink->num_files; i++) {
		struct cp_sink_file *file = &sink->files[i];
		int err;

		if (file->dir < 0)
			continue;
		err = file->ends ? cp_keep_apply(&file->keep, sink->dirs[file->dir].fd)
				 : cp_part_name(&file->part);
		if (err)
			drop(sink, file, err);
		else
			sink->dirs[file->dir].changed = true;
	}
}

static void sync_dirs(struct cp_sink *sink)
{
	for (unsigned int i = 0; i < sink->num_dirs; i++) {
		struct cp_sink_dir *dir = &sink->dirs[i];

		if (dir->changed && fsync(dir->fd))
			sink->dir_err = dir->err = errno;
		tick(sink);
	}
	for (unsigned int i = 0; i < sink->num_files; i++) {
		struct cp_sink_file *file = &sink->files[i];

		if (file->dir >= 0 && sink->dirs[file->dir].err)
			fail(sink, file->record, sink->dirs[file->dir].err, "its directory");
	}
}

static void close_all(struct cp_sink *sink)
{
	for (unsigned int i = 0; i < sink->num_files; i++)
		cp_part_close(&sink->files[i].part);
	for (unsigned int i = 0; i < sink->num_dirs; i++)
		close(sink->dirs[i].fd);
	sink->num_files = sink->num_dirs = 0;
}

/* conclude -- the group, and begin another one */
static void conclude(struct cp_sink *sink)
{
	sync_files(sink);
	name_files(sink);
	sync_dirs(sink);
	close_all(sink);
}

/* find_dir -- a directory's number, or -1 and errno */
static int find_dir(struct cp_sink *sink, const char *name)
{
	struct cp_sink_dir *dir;

	for (unsigned int i = sink->num_dirs; i-- > 0;) {
		if (!strcmp(sink->dirs[i].name, name))
			return (int) i;
	}
	if (sink->num_dirs == CP_SINK_DIRS)
		conclude(sink);
	dir = &sink->dirs[sink->num_dirs];
	dir->fd = cp_open_beneath(sink->root, name, O_RDONLY | O_DIRECTORY);
	if (dir->fd < 0 && (errno == EMFILE || errno == ENFILE) && sink->num_dirs) {
		conclude(sink);
		dir = &sink->dirs[0];
		dir->fd = cp_open_beneath(sink->root, name, O_RDONLY | O_DIRECTORY);
	}
	if (dir->fd < 0)
		return -1;
	snprintf(dir->name, sizeof(dir->name), "%s", name);
	dir->changed = false;
	dir->err = 0;
	return (int) sink->num_dirs++;
}

/* find_parent -- of a record: the directory's number, and the name there; or -1, told of */
static int find_parent(struct cp_sink *sink, unsigned int record, const char *name,
		       const char **base)
{
	char dir[CP_TEXT];
	const char *reason = cp_split_name(name, dir, base);
	int found;

	if (reason) {
		fail(sink, record, EINVAL, reason);
		return -1;
	}
	found = find_dir(sink, dir);
	if (found < 0)
		fail(sink, record, errno,
		     errno == ENOENT ? CP_NO_DIRECTORY : cp_refused_open(errno));
	return found;
}

static struct cp_sink_file *next_file(struct cp_sink *sink, unsigned int record,
				      const struct cp_record *as)
{
	struct cp_sink_file *file = &sink->files[sink->num_files++];

	file->record = record;
	file->ends = as->kind == CP_DIRECTORY_END;
	file->part.fd = -1;
	file->keep = (struct cp_keep){.flags = sink->flags, .mode = as->mode, .mtime = as->mtime};
	return file;
}

static int write_all(int fd, const char *data, uint64_t size)
{
	for (uint64_t at = 0; at < size;) {
		ssize_t ret = pwrite(fd, data + at, size - at, (off_t) at);

		if (ret < 0 && errno != EINTR)
			return errno;
		at += ret > 0 ? (uint64_t) ret : 0;
	}
	return 0;
}

/* begin_file -- its hidden file, if need be after the others were closed */
static int begin_file(struct cp_sink *sink, unsigned int number, const struct cp_record *record,
		      const char *name, struct cp_sink_file **made)
{
	for (;;) {
		const char *base;
		int dir = find_parent(sink, number, name, &base), err;
		bool first = !sink->num_files;

		if (dir < 0)
			return -1;
		*made = next_file(sink, number, record);
		(*made)->dir = dir;
		err = cp_part_create(&(*made)->part, sink->dirs[dir].fd, base, sink->flags);
		if (!err)
			return 0;
		sink->num_files--;
		if (first || (err != EMFILE && err != ENFILE)) {
			fail(sink, number, err, explain(err));
			return -1;
		}
		conclude(sink);
	}
}

static void store_file(struct cp_sink *sink, unsigned int number, const struct cp_record *record,
		       const char *name, const char *data)
{
	uint8_t digest[CP_DIGEST];
	struct cp_sink_file *file;
	char reason[128];
	int err;

	cp_digest(data, record->size, digest);
	if (memcmp(digest, record->digest, CP_DIGEST)) {
		fail(sink, number, EBADMSG, "what has arrived is not what was sent (checksum)");
		return;
	}
	err = sink->charge(sink->arg, record->size, reason, sizeof(reason));
	if (err) {
		fail(sink, number, err, reason);
		return;
	}
	if (begin_file(sink, number, record, name, &file)) {
		sink->refund(sink->arg, record->size);
		return;
	}
	file->charged = record->size;
	err = write_all(file->part.fd, data, record->size);
	if (!err)
		err = cp_keep_apply(&file->keep, file->part.fd);
	if (err)
		drop(sink, file, err);
}

static void end_directory(struct cp_sink *sink, unsigned int number, const struct cp_record *record,
			  const char *name)
{
	char parent[CP_TEXT];
	const char *base, *reason = cp_split_name(name, parent, &base);
	int dir = reason ? -1 : find_dir(sink, name);

	if (dir < 0)
		fail(sink, number, reason ? EINVAL : errno,
		     reason ? reason : cp_refused_open(errno));
	else
		next_file(sink, number, record)->dir = dir;
}

int cp_sink_store(struct cp_sink *sink, struct cp_pack *pack, unsigned int count)
{
	int ret = count > CP_STORES ? -1 : 0;

	sink->over = false;
	sink->done = 0;
	for (unsigned int i = 0; !ret && i < count; i++) {
		struct cp_record record;
		char name[CP_TEXT];
		const char *data;

		ret = cp_pack_next(pack, &record, name, &data);
		if (!ret && record.kind == CP_FILE && record.has_data)
			store_file(sink, i, &record, name, data);
		else if (!ret && record.kind == CP_DIRECTORY_END)
			end_directory(sink, i, &record, name);
		else
			ret = -1;
		tick(sink);
		ret = sink->over ? -1 : ret;
	}
	for (unsigned int i = 0; ret && i < sink->num_files; i++) {
		if (sink->files[i].dir >= 0)
			drop(sink, &sink->files[i], 0);
	}
	conclude(sink);
	return sink->over ? -1 : ret;
}

/* make_directory -- what is there may stay, if it is one */
static bool make_directory(struct cp_sink *sink, unsigned int number,
			   const struct cp_record *record, const char *name)
{
	const char *base;
	int dir = find_parent(sink, number, name, &base), err;
	struct stat st;

	if (dir < 0)
		return false;
	err = mkdirat(sink->dirs[dir].fd, base, cp_keep_begin(sink->flags, record->mode)) ? errno
											  : 0;
	if (err == EEXIST && !fstatat(sink->dirs[dir].fd, base, &st, AT_SYMLINK_NOFOLLOW))
		err = S_ISDIR(st.st_mode) ? 0 : ENOTDIR;
	if (err)
		fail(sink, number, err, strerror(err));
	return !err;
}

/* is_same -- as far as can be seen without reading it */
static bool is_same(struct cp_sink *sink, int dir, const char *base, const struct cp_record *record)
{
	struct stat st;

	return !(sink->flags & CP_RESTART) && sink->flags & CP_TIMES &&
	       !fstatat(sink->dirs[dir].fd, base, &st, AT_SYMLINK_NOFOLLOW) &&
	       S_ISREG(st.st_mode) && (uint64_t) st.st_size == record->size &&
	       (uint64_t) st.st_mtim.tv_sec * 1000000000 + (uint64_t) st.st_mtim.tv_nsec ==
		       record->mtime &&
	       (!(sink->flags & CP_MODES) || (st.st_mode & 0777) == (record->mode & 0777));
}

/*
 * sync_found -- what is there: nobody knows whether it is durable.  With one_sync a syncfs follows,
 * and an fsync of the last such file, which flushes the drive's cache; else a sync of its
 * directory. 0 or an errno.
 */
static int sync_found(struct cp_sink *sink, int dir, const char *base)
{
	int fd = cp_open_beneath(sink->dirs[dir].fd, base, O_RDONLY), err;

	if (fd < 0)
		return errno;
	if (sink->one_sync && !is_realtime(fd)) {
		err = check_written(fd, SYNC_FILE_RANGE_WRITE_AND_WAIT);
		if (!err) {
			int last = sink->found;

			sink->found = fd;
			fd = last;
		}
	} else {
		err = fsync(fd) ? errno : 0;
	}
	if (fd >= 0)
		close(fd);
	sink->dirs[dir].changed |= !sink->one_sync;
	return err;
}

/*
 * look_at -- what is to be done about a record: its character.  An error of what is there is told
 * once: such a file is wanted, or it would be taken for good the next time.
 */
static char look_at(struct cp_sink *sink, unsigned int number, const struct cp_record *record,
		    const char *name)
{
	const char *base;
	int dir, err;

	if (record->kind == CP_DIRECTORY_END)
		return CP_WANTED;
	if (record->kind == CP_DIRECTORY && !make_directory(sink, number, record, name))
		return CP_NOTHING;
	dir = find_parent(sink, number, name, &base);
	if (dir < 0)
		return CP_NOTHING;
	if (record->kind != CP_DIRECTORY)
		return is_same(sink, dir, base, record) && !sync_found(sink, dir, base) ? CP_THERE
											: CP_WANTED;
	err = sink->one_sync ? 0 : sync_found(sink, dir, base);
	if (err)
		fail(sink, number, err, strerror(err));
	return err ? CP_NOTHING : CP_MADE;
}

/*
 * sync_at_once -- what has been found.  Where nothing is left to be written, syncfs need not flush
 * the drive's cache (XFS does so only with its log).  An fsync of a file does.
 */
static int sync_at_once(struct cp_sink *sink)
{
	return syncfs(sink->root) || (sink->found >= 0 && fsync(sink->found)) ? errno : 0;
}

/* sync_there -- what has been found there, and its directories */
static void sync_there(struct cp_sink *sink, char *answer)
{
	const char durable[] = {CP_THERE, CP_MADE, 0};
	int err;

	sync_dirs(sink);
	err = sink->dir_err;
	if (strpbrk(answer, durable)) {
		if (!err && sink->one_sync)
			err = sync_at_once(sink);
		if (!err)
			err = cp_still_works(sink->root);
	}
	for (unsigned int i = 0; err && answer[i]; i++) {
		if (answer[i] == CP_THERE) {
			answer[i] = CP_WANTED;
		} else if (answer[i] == CP_MADE) {
			answer[i] = CP_NOTHING;
			fail(sink, i, err, strerror(err));
		}
	}
}

int cp_sink_offer(struct cp_sink *sink, struct cp_pack *pack, unsigned int count,
		  char answer[CP_TEXT])
{
	int ret = count > CP_OFFERS ? -1 : 0;

	memset(answer, 0, CP_TEXT);
	sink->one_sync = one_sync_does(sink->root);
	sink->found = -1;
	sink->dir_err = 0;
	sink->over = false;
	sink->done = 0;
	for (unsigned int i = 0; !ret && i < count; i++) {
		struct cp_record record;
		char name[CP_TEXT];
		const char *data;

		ret = cp_pack_next(pack, &record, name, &data);
		if (!ret && record.kind >= CP_LEFT_OUT)
			ret = -1;
		if (ret)
			break;
		answer[i] = look_at(sink, i, &record, name);
		tick(sink);
		ret = sink->over ? -1 : 0;
	}
	if (!ret)
		sync_there(sink, answer);
	if (sink->found >= 0)
		close(sink->found);
	close_all(sink);
	return ret;
}
