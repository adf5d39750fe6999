/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fio_engine.c -- fio's I/O engine libfabric-pmem: what fio calls
 *
 * This file includes fio's headers, which are under version 2 of the GPL.  Who passes on the
 * compiled module has to do so under that license.  Nothing else of pmemverbs is concerned, and the
 * module's other files know nothing of fio.
 *
 * An engine from outside shares fio's structures, whose layout is that of one version of fio.
 * check_fio() refuses all others before anything of them is used.
 *
 * With servername= a job is a client, without it a target.  fio's jobs may be processes or
 * threads, and setup() runs in fio's first process.  libfabric does not survive a fork after it was
 * used, and the client has to ask the target for its size there, so all jobs become threads.
 */
/* What fio's configure has found: its headers differ by that. */
#include "config-host.h"

#include "fio.h"
#include "optgroup.h"

#include "fio_link.h"

#define WAIT_MS 200

enum { COMMIT_WRITE, COMMIT_SYNC };

struct engine_options {
	void *pad; /* fio takes an offset of 0 for none */
	char *servername;
	char *bind;
	char *port;
	char *domain;
	unsigned int commit;
	unsigned int clients;
	unsigned int busy_wait_polling;
};

struct job {
	struct fio_client *client;
	struct fio_target *target;
	void *buffer;
	size_t buffer_len;
	struct fio_done *done; /* room for iodepth: all that is over and not yet told */
	int ready;             /* so many are over */
	int taken;             /* so many of these fio was told of by the last getevents */
};

static struct fio_option options[] = {
	{
		.name = "servername",
		.lname = "target's address",
		.type = FIO_OPT_STR_STORE,
		.off1 = offsetof(struct engine_options, servername),
		.help = "Client: the target's name or address. Without it the job is a target",
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "bind",
		.lname = "address to listen on",
		.type = FIO_OPT_STR_STORE,
		.off1 = offsetof(struct engine_options, bind),
		.help = "Target: listen on this address only",
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "port",
		.lname = "port",
		.type = FIO_OPT_STR_STORE,
		.off1 = offsetof(struct engine_options, port),
		.def = "7204",
		.help = "Port that the target listens on; one for all clients",
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "domain",
		.lname = "device",
		.type = FIO_OPT_STR_STORE,
		.off1 = offsetof(struct engine_options, domain),
		.help = "Device to use, as fi_info -p pmemverbs lists it",
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "commit",
		.lname = "what makes data durable",
		.type = FIO_OPT_STR,
		.off1 = offsetof(struct engine_options, commit),
		.def = "write",
		.help = "Client: when data are durable",
		.posval =
			{
				{
					.ival = "write",
					.oval = COMMIT_WRITE,
					.help = "A write completes when it is durable",
				},
				{
					.ival = "sync",
					.oval = COMMIT_SYNC,
					.help = "fsync and fdatasync make all earlier writes "
						"durable",
				},
			},
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "clients",
		.lname = "clients to serve",
		.type = FIO_OPT_INT,
		.off1 = offsetof(struct engine_options, clients),
		.def = "1",
		.help = "Target: ends when so many have come and gone; 0 is never",
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "busy_wait_polling",
		.lname = "spin for completions",
		.type = FIO_OPT_BOOL,
		.off1 = offsetof(struct engine_options, busy_wait_polling),
		.def = "1",
		.help = "Client: 0 sleeps until there is a completion",
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = NULL,
	},
};

/* The only symbol that fio looks up here; all others are hidden. */
extern struct ioengine_ops ioengine __attribute__((visibility("default")));

/* check_fio -- is this the fio whose headers were included? */
static int check_fio(const struct thread_data *td)
{
	if (!strcmp(fio_version_string, ENGINE_FIO_VERSION) && td->io_ops == &ioengine)
		return 0;
	log_err("libfabric-pmem was built with the sources of %s, and this is %s; build it with "
		"configure --with-fio-source\n",
		ENGINE_FIO_VERSION, fio_version_string);
	return 1;
}

/* fail -- the job ends with this; what there is to say was printed */
static int fail(struct thread_data *td, const char *what, ssize_t ret)
{
	td_verror(td, fio_errno(ret), what);
	return 1;
}

static void engine_cleanup(struct thread_data *td)
{
	struct job *job = td->io_ops_data;

	if (!job)
		return;
	td->io_ops_data = NULL;
	if (job->client)
		fio_client_close(job->client);
	if (job->target)
		fio_target_close(job->target);
	if (job->buffer)
		munmap(job->buffer, job->buffer_len);
	free(job->done);
	free(job);
}

static int setup_client(struct thread_data *td, const struct fio_place *place)
{
	struct job *job = td->io_ops_data;
	struct fio_file *f = td->files[0];
	uint64_t size;
	int ret;

	job->done = calloc(td->o.iodepth, sizeof(*job->done));
	if (!job->done)
		return fail(td, "calloc", -ENOMEM);
	ret = fio_client_open(&job->client, place);
	if (ret)
		return fail(td, "connecting", ret);
	size = fio_client_size(job->client);
	if (td->o.size > size || td->o.start_offset >= size) {
		log_err("%s: the target lends %llu bytes: size= and offset= have to lie inside\n",
			td->o.name, (unsigned long long) size);
		return fail(td, "size", -EINVAL);
	}
	if (td_max_bs(td) > fio_client_limit(job->client)) {
		log_err("%s: blocks of up to %zu bytes can be transferred\n", td->o.name,
			fio_client_limit(job->client));
		return fail(td, "blocksize", -EMSGSIZE);
	}
	f->real_file_size = size;
	return 0;
}

static int setup_target(struct thread_data *td, const struct fio_place *place)
{
	struct engine_options *o = td->eo;
	struct job *job = td->io_ops_data;
	struct fio_file *f = td->files[0];
	int ret;

	if (!td->o.size) {
		log_err("%s: size= has to say how much of %s is lent\n", td->o.name, f->file_name);
		return fail(td, "size", -EINVAL);
	}
	/* Its only I/O is to wait for clients; nothing of it is a figure. */
	td->flags |= (unsigned long long) (FIO_SYNCIO | FIO_FAKEIO | FIO_NOSTATS)
		     << TD_ENG_FLAG_SHIFT;
	f->real_file_size = td->o.size;
	ret = fio_target_open(&job->target, place,
			      strcmp(f->file_name, "malloc") ? f->file_name : NULL, td->o.size,
			      o->clients);
	return ret ? fail(td, "serving", ret) : 0;
}

static int engine_setup(struct thread_data *td)
{
	struct engine_options *o;
	struct fio_place place;
	int ret;

	if (check_fio(td))
		return 1;
	o = td->eo;
	place = (struct fio_place){
		.server = o->servername ? o->servername : o->bind,
		.port = o->port,
		.domain = o->domain,
	};
	td->o.use_thread = 1;
	if (!td->files_index) {
		add_file(td, td->o.filename ? td->o.filename : "target", 0, 0);
		td->o.nr_files = 1;
		td->o.open_files++;
	}
	if (td->files_index != 1) {
		log_err("%s: a job has one file: the target's memory\n", td->o.name);
		return fail(td, "files", -EINVAL);
	}
	td->io_ops_data = calloc(1, sizeof(struct job));
	if (!td->io_ops_data)
		return fail(td, "calloc", -ENOMEM);
	/* The file is somewhere else, and device DAX is no device to fio. */
	td->files[0]->filetype = FIO_TYPE_FILE;
	fio_file_set_size_known(td->files[0]);
	ret = o->servername ? setup_client(td, &place) : setup_target(td, &place);
	if (ret)
		engine_cleanup(td);
	return ret;
}

/* engine_iomem_alloc -- all buffers are in one region, registered once */
static int engine_iomem_alloc(struct thread_data *td, size_t len)
{
	struct job *job = td->io_ops_data;
	int ret;

	td->orig_buffer =
		mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (td->orig_buffer == MAP_FAILED) {
		td->orig_buffer = NULL;
		return 1;
	}
	job->buffer = td->orig_buffer;
	job->buffer_len = len;
	ret = job->client ? fio_client_memory(job->client, job->buffer, len) : 0;
	return ret ? fail(td, "registering buffers", ret) : 0;
}

/* engine_iomem_free -- not before the connection is closed: engine_cleanup does that */
static void engine_iomem_free(struct thread_data *td)
{
	td->orig_buffer = NULL;
}

/* forget_taken -- what fio was told of by the last getevents */
static void forget_taken(struct job *job)
{
	job->ready -= job->taken;
	memmove(job->done, job->done + job->taken, job->ready * sizeof(*job->done));
	job->taken = 0;
}

/* poll_done -- what is over goes behind what is known to be over */
static int poll_done(struct thread_data *td, int timeout_ms)
{
	struct job *job = td->io_ops_data;
	int room = (int) td->o.iodepth - job->ready, ret;

	if (!room)
		return 0;
	ret = fio_client_poll(job->client, job->done + job->ready, room, timeout_ms);
	if (ret > 0)
		job->ready += ret;
	return ret;
}

/* serve -- the only operation of a target lasts until all clients have gone */
static void serve(struct thread_data *td, struct io_u *io_u)
{
	struct job *job = td->io_ops_data;
	int ret = 0;

	while (!ret && !td->terminate &&
	       !(td->o.timeout && utime_since_now(&td->epoch) >= td->o.timeout))
		ret = fio_target_serve(job->target, WAIT_MS);
	if (ret < 0)
		io_u->error = fio_errno(ret);
	td->done = 1;
}

/* kind_of -- what is to be posted; -1: that can't be done to memory */
static int kind_of(const struct thread_data *td, const struct io_u *io_u)
{
	const struct engine_options *o = td->eo;

	if (io_u->ddir == DDIR_READ)
		return FIO_KIND_READ;
	if (io_u->ddir == DDIR_WRITE)
		return o->commit == COMMIT_WRITE || td->o.sync_io ? FIO_KIND_DURABLE
								  : FIO_KIND_WRITE;
	return ddir_sync(io_u->ddir) ? FIO_KIND_COMMIT : -1;
}

/*
 * post -- for the time being there may be no room.  If fio has something to wait for, that is
 * what it is told; else nobody but this function would look whether there is room again.
 */
static enum fio_q_status post(struct thread_data *td, struct io_u *io_u, enum fio_kind kind)
{
	struct job *job = td->io_ops_data;
	bool data = kind != FIO_KIND_COMMIT;
	size_t len = data ? io_u->xfer_buflen : 0;
	ssize_t ret;

	forget_taken(job);
	do {
		ret = fio_client_post(job->client, kind, io_u, data ? io_u->xfer_buf : job->buffer,
				      len, data ? io_u->offset : 0);
		if (!ret)
			return FIO_Q_QUEUED;
		if (ret == -EAGAIN && poll_done(td, 0) < 0)
			ret = -EIO;
		if (ret == -EAGAIN && td->cur_depth > 1)
			return FIO_Q_BUSY;
	} while (ret == -EAGAIN && !td->terminate);
	io_u->error = fio_errno(ret);
	return FIO_Q_COMPLETED;
}

static enum fio_q_status engine_queue(struct thread_data *td, struct io_u *io_u)
{
	struct job *job = td->io_ops_data;
	int kind;

	fio_ro_check(td, io_u);
	if (job->target) {
		serve(td, io_u);
		return FIO_Q_COMPLETED;
	}
	kind = kind_of(td, io_u);
	if (kind < 0)
		io_u->error = EOPNOTSUPP;
	else if (kind != FIO_KIND_COMMIT &&
		 io_u->offset + io_u->xfer_buflen > fio_client_size(job->client))
		io_u->error = EINVAL;
	else
		return post(td, io_u, kind);
	return FIO_Q_COMPLETED;
}

static int engine_getevents(struct thread_data *td, unsigned int min, unsigned int max,
			    const struct timespec *t)
{
	struct engine_options *o = td->eo;
	struct job *job = td->io_ops_data;
	int ret;

	(void) t; /* fio gives none to wait for something, and zeroes not to wait */
	forget_taken(job);
	do {
		ret = poll_done(td, o->busy_wait_polling || !min ? 0 : WAIT_MS);
		if (ret < 0)
			return -fail(td, "completions", ret);
	} while (job->ready < (int) min);
	job->taken = job->ready < (int) max ? job->ready : (int) max;
	return job->taken;
}

static struct io_u *engine_event(struct thread_data *td, int i)
{
	struct job *job = td->io_ops_data;
	struct io_u *io_u = job->done[i].context;

	io_u->error = job->done[i].err;
	return io_u;
}

static int engine_file(struct thread_data *td, struct fio_file *f)
{
	(void) td;
	(void) f;
	return 0;
}

struct ioengine_ops ioengine = {
	.name = "libfabric-pmem",
	.version = FIO_IOOPS_VERSION,
	.flags = FIO_DISKLESSIO | FIO_NODISKUTIL | FIO_NOEXTEND,
	.setup = engine_setup,
	.cleanup = engine_cleanup,
	.iomem_alloc = engine_iomem_alloc,
	.iomem_free = engine_iomem_free,
	.queue = engine_queue,
	.getevents = engine_getevents,
	.event = engine_event,
	.open_file = engine_file,
	.close_file = engine_file,
	.invalidate = engine_file,
	.options = options,
	.option_struct_size = sizeof(struct engine_options),
};
