/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * copy.c -- puts a file durably into a target's memory, or gets it from there
 *
 * A put keeps CP_BATCHES batches under way.  The last write of a batch commits: one
 * completion says that the whole batch is durable, and that its buffers can be used again.  A
 * state travels with each batch and says up to where the target is durable.  It tells only of
 * batches whose commit has completed, so nothing has to wait for it: if it becomes durable before
 * the batch that it travels with, it is true all the same.  The last state is about everything,
 * and is written behind everything with FI_FENCE: no byte of it is durable earlier.
 */
#include "copy.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "part.h"

#define READS (CP_BATCHES * CP_BATCH)
#define AHEAD_BYTES ((off_t) (CP_BATCHES * CP_BATCH * CP_CHUNK))
/* So much of what is got is synced at once. */
#define SYNC_BYTES ((uint64_t) 32 << 20)

struct batch {
	struct cp_op op;
	uint64_t end;
	uint8_t digest[CP_DIGEST]; /* of everything up to there */
};

struct put {
	struct cp_copy *copy;
	int fd;
	struct stat st;
	XXH3_state_t *hash;
	struct cp_state state;
	uint64_t at; /* what is read and posted */
	struct batch batches[CP_BATCHES];
	unsigned int posted, durable; /* batches, counted from the start */
};

struct get {
	struct cp_copy *copy;
	struct cp_part part;
	XXH3_state_t *hash;
	struct cp_op reads[READS];
	uint64_t start;
	uint64_t asked; /* up to where reads are posted */
	uint64_t at;    /* up to where the file is written */
};

static void digest_of(const XXH3_state_t *hash, uint8_t *digest)
{
	XXH128_canonical_t canonical;

	XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(hash));
	memcpy(digest, canonical.digest, CP_DIGEST);
}

/* read_whole -- so much of a file, into the hash as well */
static int read_whole(int fd, void *buf, size_t len, uint64_t at, XXH3_state_t *hash)
{
	for (size_t done = 0; done < len;) {
		ssize_t ret = pread(fd, (char *) buf + done, len - done, (off_t) (at + done));

		if (ret < 0 && errno == EINTR)
			continue;
		if (ret <= 0)
			return ret ? errno : ENODATA;
		done += (size_t) ret;
	}
	XXH3_128bits_update(hash, buf, len);
	return 0;
}

int cp_hash_part(struct cp_copy *copy, int fd, uint64_t len, XXH3_state_t *hash, uint8_t *digest)
{
	XXH3_128bits_reset(hash);
	for (uint64_t at = 0, part; at < len; at += part) {
		int err;

		part = len - at < CP_CHUNK ? len - at : CP_CHUNK;
		err = read_whole(fd, copy->link.data, part, at, hash);
		if (err)
			return cp_fail(copy->path, strerror(err));
		if (cp_breathe(copy, 0))
			return -1;
	}
	digest_of(hash, digest);
	return 0;
}

static void tell_resumed(struct cp_copy *copy, uint64_t at)
{
	char text[80];

	copy->resumed = copy->done = at;
	snprintf(text, sizeof(text), "going on at byte %" PRIu64 " of %" PRIu64, at, copy->size);
	if (at)
		cp_note(copy, text);
}

/* begin_put -- open it at the target, and find out whether to go on from an earlier copy */
static int begin_put(struct put *put)
{
	struct cp_copy *copy = put->copy;
	struct cp_message request = {
		.type = CP_PUT,
		.flags = copy->keep | (copy->restart ? CP_RESTART : 0),
		.size = copy->size,
		.mode = put->st.st_mode,
		.mtime = (uint64_t) put->st.st_mtim.tv_sec * 1000000000 +
			 (uint64_t) put->st.st_mtim.tv_nsec,
	};
	struct cp_message *lease = &copy->lease;
	uint8_t digest[CP_DIGEST];

	memcpy(request.text, copy->name, strlen(copy->name) + 1);
	copy->opens += 2;
	if (cp_ask(copy, &request, lease))
		return -1;
	if (lease->flags & CP_DAMAGED)
		cp_note(copy, "what an interrupted copy has left there is damaged: starting over");
	if (lease->committed > copy->size)
		return cp_fail(copy->name, "the target's answer makes no sense");
	if (cp_hash_part(copy, put->fd, lease->committed, put->hash, digest))
		return -1;
	if (lease->committed && memcmp(digest, lease->digest, CP_DIGEST)) {
		cp_note(copy, "the source is not what was copied before: starting over");
		request.flags |= CP_RESTART;
		XXH3_128bits_reset(put->hash);
		copy->opens++;
		if (cp_ask(copy, &request, lease))
			return -1;
		lease->committed = 0;
	}
	put->state = (struct cp_state){
		.sequence = lease->sequence, .size = request.size, .mtime = request.mtime};
	memcpy(put->state.digest, lease->digest, CP_DIGEST);
	put->at = put->state.committed = lease->committed;
	tell_resumed(copy, put->at);
	return 0;
}

/* write_state -- what is durable; the place that it is written from is free when its commit is done
 */
static int write_state(struct put *put, uint64_t flags, struct cp_op *op)
{
	struct cp_copy *copy = put->copy;
	struct cp_state *state = &put->state;
	uint64_t place = ++state->sequence % CP_STATES * CP_STATE_PLACE;
	struct cp_state *wire;

	if (copy->lease.flags & CP_IN_PLACE)
		return 0;
	wire = (void *) (copy->link.data + CP_DATA_ROOM - CP_STATE_PAGE + place);
	cp_state_encode(wire, state);
	return cp_post(copy, true, wire, sizeof(*wire), cp_state_at(copy->size) + place, flags, op);
}

/* retire -- the oldest batch is durable */
static void retire(struct put *put)
{
	const struct batch *batch = &put->batches[put->durable++ % CP_BATCHES];

	put->copy->done = put->state.committed = batch->end;
	memcpy(put->state.digest, batch->digest, CP_DIGEST);
}

/* put_batch -- read it, write it, and commit it with its last write */
static int put_batch(struct put *put)
{
	struct cp_copy *copy = put->copy;
	unsigned int slot = put->posted % CP_BATCHES;
	struct batch *batch = &put->batches[slot];
	char *buf = copy->link.data + slot * CP_BATCH * CP_CHUNK;
	size_t left = CP_BATCH * copy->chunk, len;
	int err, ret = 0;

	batch->op.done = false;
	do {
		len = copy->size - put->at < copy->chunk ? copy->size - put->at : copy->chunk;
		err = read_whole(put->fd, buf, len, put->at, put->hash);
		if (err == ENODATA)
			return cp_fail(copy->path, "it has become shorter while it was copied");
		if (err)
			return cp_fail(copy->path, strerror(err));
		put->at += len;
		left -= len;
		if (put->at < copy->size && left >= copy->chunk) {
			ret = cp_post(copy, true, buf, len, put->at - len, 0, NULL);
			buf += len;
			continue;
		}
		batch->end = put->at;
		digest_of(put->hash, batch->digest);
		ret = write_state(put, 0, NULL);
		if (!ret)
			ret = cp_post(copy, true, buf, len, put->at - len,
				      FI_COMMIT | FI_COMPLETION, &batch->op);
		put->posted++;
		return ret;
	} while (!ret);
	return ret;
}

/* retire_oldest -- when its commit has completed; wait for that if need be */
static int retire_oldest(struct put *put, bool wait)
{
	struct batch *oldest = &put->batches[put->durable % CP_BATCHES];

	if (put->durable == put->posted || (!oldest->op.done && !wait))
		return 0;
	if (cp_wait(put->copy, &oldest->op))
		return -1;
	retire(put);
	return 0;
}

static int put_data(struct put *put)
{
	struct cp_copy *copy = put->copy;
	struct cp_op last = {.done = copy->lease.flags & CP_IN_PLACE};

	while (put->at < copy->size) {
		bool full = put->posted - put->durable == CP_BATCHES;

		/* The disk reads the batches behind this one while it is sent. */
		posix_fadvise(put->fd, (off_t) put->at, AHEAD_BYTES, POSIX_FADV_WILLNEED);
		if (retire_oldest(put, full) || put_batch(put))
			return -1;
	}
	put->state.committed = copy->size;
	digest_of(put->hash, put->state.digest);
	if (write_state(put, FI_FENCE | FI_COMMIT | FI_COMPLETION, &last))
		return -1;
	while (put->durable < put->posted) {
		if (retire_oldest(put, true))
			return -1;
	}
	return cp_wait(copy, &last);
}

/* has_changed -- who writes to the source meanwhile shows by its time, or by its length */
static bool has_changed(const struct put *put)
{
	struct stat now;

	return fstat(put->fd, &now) || now.st_size != put->st.st_size ||
	       now.st_mtim.tv_sec != put->st.st_mtim.tv_sec ||
	       now.st_mtim.tv_nsec != put->st.st_mtim.tv_nsec;
}

static int finish_put(struct put *put)
{
	struct cp_copy *copy = put->copy;
	struct cp_message request = {.type = CP_FINISH}, answer;

	if (has_changed(put))
		return cp_fail(copy->path, "it has changed while it was copied");
	copy->moved = connection_now_ms();
	digest_of(put->hash, copy->digest);
	memcpy(request.digest, copy->digest, CP_DIGEST);
	copy->progress(copy, true);
	if (cp_ask(copy, &request, &answer))
		return -1;
	if (memcmp(answer.digest, copy->digest, CP_DIGEST))
		return cp_fail(copy->name, "the checksums differ");
	return 0;
}

int cp_copy_put(struct cp_copy *copy)
{
	struct put put = {.copy = copy, .hash = XXH3_createState()};
	int ret = -1;

	put.fd = open(copy->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (put.fd < 0 || fstat(put.fd, &put.st))
		cp_fail(copy->path, strerror(errno));
	else if (!S_ISREG(put.st.st_mode))
		cp_fail(copy->path,
			S_ISDIR(put.st.st_mode) ? CP_IS_DIRECTORY : "it is no plain file");
	else if (put.hash) {
		copy->size = (uint64_t) put.st.st_size;
		copy->done = copy->resumed = 0;
		ret = begin_put(&put) || put_data(&put) || finish_put(&put) ? -1 : 0;
	}
	if (put.fd >= 0)
		close(put.fd);
	XXH3_freeState(put.hash);
	copy->moving = copy->moving && ret;
	return ret;
}

/* open_here -- the hidden file for what is got */
static int open_here(struct get *get, int dir, bool restart)
{
	struct cp_copy *copy = get->copy;
	char *path = strdup(copy->path);
	int err = path ? cp_part_open(&get->part, dir, basename(path), copy->size,
				      copy->lease.mtime, copy->keep | (restart ? CP_RESTART : 0))
		       : ENOMEM;

	free(path);
	if (err == EBUSY)
		return cp_fail(copy->path, "another copy is writing it");
	if (err == ENOTSUP)
		return cp_fail(copy->path, "it is there, and no plain file");
	return err ? cp_fail(copy->path, strerror(err)) : 0;
}

/* begin_get -- go on from an earlier copy if its part is still that of the target's file */
static int begin_get(struct get *get, int dir)
{
	struct cp_copy *copy = get->copy;
	struct cp_message request = {.type = CP_GET}, answer;
	const struct cp_state *state = &get->part.state;
	uint8_t digest[CP_DIGEST];

	memcpy(request.text, copy->name, strlen(copy->name) + 1);
	copy->opens++;
	if (cp_ask(copy, &request, &copy->lease))
		return -1;
	copy->size = copy->lease.size;
	if (copy->size > CP_MAX_SIZE)
		return cp_fail(copy->name, "the target's answer makes no sense");
	if (open_here(get, dir, copy->restart))
		return -1;
	request = (struct cp_message){.type = CP_SUM, .size = state->committed};
	if (state->committed) {
		if (cp_hash_part(copy, get->part.fd, state->committed, get->hash, digest))
			return -1;
		if (memcmp(digest, state->digest, CP_DIGEST))
			cp_note(copy, "what an interrupted copy has left here is damaged: starting "
				      "over");
		else if (cp_ask(copy, &request, &answer))
			return -1;
		else if (memcmp(answer.digest, digest, CP_DIGEST))
			cp_note(copy, "the source is not what was copied before: starting over");
		else
			get->at = state->committed;
	}
	if (state->committed && !get->at) {
		cp_part_close(&get->part);
		XXH3_128bits_reset(get->hash);
		if (open_here(get, dir, true))
			return -1;
	}
	tell_resumed(copy, get->at);
	return 0;
}

static int write_whole(int fd, const char *buf, size_t len, uint64_t at)
{
	for (size_t done = 0; done < len;) {
		ssize_t ret = pwrite(fd, buf + done, len - done, (off_t) (at + done));

		if (ret < 0 && errno != EINTR)
			return errno;
		done += ret > 0 ? (size_t) ret : 0;
	}
	/*
	 * It has to be on the disk soon: let the disk begin.  Of some errors only who has begun
	 * hears, and not fdatasync.
	 */
	if (!sync_file_range(fd, (off_t) at, (off_t) len, SYNC_FILE_RANGE_WRITE) ||
	    errno == ENOSYS || errno == EPERM || errno == ENOMEM)
		return 0;
	return errno;
}

/* save -- the state follows what it tells of */
static int save(struct get *get)
{
	uint8_t digest[CP_DIGEST];

	digest_of(get->hash, digest);
	if (fdatasync(get->part.fd))
		return errno;
	return cp_part_save(&get->part, get->at, digest);
}

/* slot_of -- the buffer for what is at that place */
static unsigned int slot_of(const struct get *get, uint64_t at)
{
	return (unsigned int) ((at - get->start) / get->copy->chunk % READS);
}

/* ask_for_data -- as many reads as there are buffers */
static int ask_for_data(struct get *get)
{
	struct cp_copy *copy = get->copy;

	while (get->asked < copy->size && get->asked - get->at < READS * copy->chunk) {
		uint64_t left = copy->size - get->asked;
		size_t len = left < copy->chunk ? left : copy->chunk;
		unsigned int slot = slot_of(get, get->asked);

		get->reads[slot].done = false;
		if (cp_post(copy, false, copy->link.data + slot * CP_CHUNK, len, get->asked,
			    FI_COMPLETION, &get->reads[slot]))
			return -1;
		get->asked += len;
	}
	return 0;
}

static int get_data(struct get *get)
{
	struct cp_copy *copy = get->copy;
	uint64_t saved = get->at;
	int err = 0;

	get->start = get->asked = get->at;
	while (!err && get->at < copy->size) {
		unsigned int slot = slot_of(get, get->at);
		uint64_t left = copy->size - get->at;
		size_t len = left < copy->chunk ? left : copy->chunk;
		char *buf = copy->link.data + slot * CP_CHUNK;

		if (ask_for_data(get) || cp_wait(copy, &get->reads[slot]))
			return -1;
		XXH3_128bits_update(get->hash, buf, len);
		err = write_whole(get->part.fd, buf, len, get->at);
		copy->done = get->at += len;
		if (!err && get->at - saved >= SYNC_BYTES) {
			err = save(get);
			saved = get->at;
		}
	}
	return err ? cp_fail(copy->path, strerror(err)) : 0;
}

static int finish_get(struct get *get)
{
	struct cp_copy *copy = get->copy;
	struct cp_message answer;
	struct cp_message request = {.type = CP_SUM, .size = copy->size};
	const struct cp_keep keep = {
		.flags = copy->keep, .mode = copy->lease.mode, .mtime = copy->lease.mtime};
	int err;

	copy->moved = connection_now_ms();
	digest_of(get->hash, copy->digest);
	copy->progress(copy, true);
	if (cp_ask(copy, &request, &answer))
		return -1;
	if (memcmp(answer.digest, copy->digest, CP_DIGEST)) {
		cp_part_discard(&get->part);
		return cp_fail(copy->name, "the checksums differ: has it changed while it was "
					   "copied?");
	}
	err = cp_part_finish(&get->part, &keep);
	return err ? cp_fail(copy->path, strerror(err)) : 0;
}

int cp_copy_get(struct cp_copy *copy, int into)
{
	struct get get = {.copy = copy, .part = {.fd = -1}, .hash = XXH3_createState()};
	char *path = strdup(copy->path);
	int dir = -1, ret = -1;

	if (path)
		dir = into == AT_FDCWD ? open(dirname(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC)
				       : fcntl(into, F_DUPFD_CLOEXEC, 0);
	if (dir < 0)
		cp_fail(copy->path, strerror(errno));
	else if (get.hash) {
		XXH3_128bits_reset(get.hash);
		copy->done = copy->resumed = 0;
		ret = begin_get(&get, dir) || get_data(&get) || finish_get(&get) ? -1 : 0;
		if (!ret)
			cp_kept_look(&copy->kept, get.part.fd);
		cp_part_close(&get.part);
	}
	if (dir >= 0)
		close(dir);
	free(path);
	XXH3_freeState(get.hash);
	copy->moving = copy->moving && ret;
	return ret;
}
