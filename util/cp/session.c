/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * session.c -- one client of a target
 *
 * Nothing that the client sends is trusted: the store checks names and sizes, the provider and
 * the NIC let it reach the one region that was registered for it.  A wrong message ends its
 * connection, and nobody else's.
 */
#include "session.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "beneath.h"
#include "direct.h"
#include "link.h"
#include "list.h"
#include "medium.h"
#include "rights.h"
#include "sink.h"

#define WAIT_MS 500
#define ALIVE_MS 2000
/* Who says nothing that makes sense has its place for no longer. */
#define FIRST_MS 5000

struct session {
	struct cp_target *target;
	struct fi_info *info;
	unsigned int number;
	struct cp_link link;
	struct cp_rights rights;
	char forbidden[256]; /* anything, and why */
	int root;            /* what it may see of the store */
	struct cp_object object;
	struct region region;    /* the object's */
	struct cp_direct direct; /* its memory, where a NIC can't write to a mapping */
	char *room;              /* for packs, if it has asked for that */
	struct region room_region;
	struct cp_sink *sink; /* of a room that the client writes to */
	struct cp_list *list;
	int64_t said; /* when this side has said something */
	bool began;   /* a request of its has been fulfilled */
};

static void say(const struct session *session, const char *what, const char *detail)
{
	if (session->target->verbose) {
		printf("client %u: %s%s%s\n", session->number, what, *detail ? ": " : "", detail);
		fflush(stdout);
	}
}

static int send_message(struct session *session, const struct cp_message *message)
{
	session->said = connection_now_ms();
	return cp_link_send(&session->link, message, session->target->timeout_ms);
}

/* tick -- while a digest is made: the client is told that this side is there, and may go */
static int tick(void *arg, uint64_t done)
{
	struct session *session = arg;

	if (atomic_load(&session->target->stop) || cp_link_poll(&session->link, 0))
		return -1;
	if (connection_now_ms() - session->said < ALIVE_MS)
		return 0;
	return send_message(session, &(struct cp_message){.type = CP_ALIVE, .committed = done});
}

static int refuse(struct cp_message *answer, int err, const char *reason)
{
	answer->status = (uint32_t) err;
	snprintf(answer->text, sizeof(answer->text), "%s", reason);
	return err;
}

static void close_region(struct session *session)
{
	region_close(&session->region);
	cp_direct_close(&session->direct);
}

static void close_object(struct session *session)
{
	close_region(session);
	cp_object_close(&session->object);
}

/* lend_memory -- what the object's mapping is not good for */
static int lend_memory(struct session *session)
{
	struct cp_object *object = &session->object;
	struct node *node = &session->link.node;
	int ret;

	if (!object->hidden)
		return -FI_EOPNOTSUPP;
	ret = cp_direct_open(&session->direct, object->store, node, object->part.fd,
			     object->map_len, tick, session, object->size);
	return ret ? ret
		   : cp_direct_register(&session->direct, node, &session->region, object->len);
}

/* lend -- register what is open, for this client alone: each has its own domain */
static int lend(struct session *session, struct cp_message *answer)
{
	struct cp_object *object = &session->object;
	uint64_t access = object->writing ? FI_REMOTE_WRITE : FI_REMOTE_READ;
	char reason[CP_TEXT];
	int mapped, direct;

	answer->size = object->size;
	if (!object->map)
		return 0;
	mapped = region_try(&session->link.node, &session->region, object->base, object->len,
			    access, object->writing ? FI_PMEM : 0);
	if (mapped) {
		direct = lend_memory(session);
		if (direct)
			return refuse(answer, cp_direct_explain(mapped, direct, reason), reason);
	}
	object->charge = 0;
	answer->key = session->region.key;
	answer->addr = session->region.addr;
	return 0;
}

/* check_part -- is what an interrupted copy has left what its state says? */
static int check_part(struct session *session, struct cp_message *request,
		      struct cp_message *answer)
{
	struct cp_object *object = &session->object;
	uint8_t digest[CP_DIGEST];
	int err;

	if (!object->part.state.committed)
		return 0;
	err = cp_object_digest(object, object->part.state.committed, digest, tick, session);
	if (err || !memcmp(digest, object->part.state.digest, CP_DIGEST))
		return err;
	answer->flags |= CP_DAMAGED;
	cp_object_close(object);
	request->flags |= CP_RESTART;
	return cp_object_put(object, request);
}

static int put(struct session *session, struct cp_message *request, struct cp_message *answer)
{
	struct cp_object *object = &session->object;
	int err;

	/* Its memory can be read: it gets nothing that another one has left there. */
	if (!session->rights.get)
		request->flags |= CP_RESTART;
	err = cp_object_put(object, request);
	if (!err)
		err = check_part(session, request, answer);
	if (err)
		return refuse(answer, err, object->reason);
	err = lend(session, answer);
	if (err) {
		/* What an interrupted copy has left is good, and goes on another time. */
		if (!object->part.state.committed)
			cp_object_forget(object);
		return err;
	}
	answer->committed = object->part.state.committed;
	answer->sequence = object->part.state.sequence;
	memcpy(answer->digest, object->part.state.digest, CP_DIGEST);
	if (!object->hidden)
		answer->flags |= CP_IN_PLACE;
	return 0;
}

static void tell_attributes(struct cp_message *answer, const struct stat *st)
{
	answer->mode = st->st_mode;
	answer->mtime = (uint64_t) st->st_mtim.tv_sec * 1000000000 + (uint64_t) st->st_mtim.tv_nsec;
}

static int get(struct session *session, const struct cp_message *request, struct cp_message *answer)
{
	struct cp_object *object = &session->object;
	int err = cp_object_get(object, request);

	if (err)
		return refuse(answer, err, object->reason);
	tell_attributes(answer, &object->st);
	return lend(session, answer);
}

static int sum(struct session *session, const struct cp_message *request, struct cp_message *answer)
{
	struct cp_object *object = &session->object;
	int err;

	if (request->size > object->size || object->writing)
		return refuse(answer, EINVAL, "there is no such part of a file");
	err = cp_object_digest(object, request->size, answer->digest, tick, session);
	return err ? refuse(answer, err, object->reason) : 0;
}

/*
 * finish -- a put is complete.  From now on the client can't change it; so what has the
 * digest is what gets the name.
 */
static int finish(struct session *session, const struct cp_message *request,
		  struct cp_message *answer)
{
	struct cp_object *object = &session->object;
	int err;

	if (!object->writing || !session->region.mr)
		return refuse(answer, EINVAL, "there is nothing to finish");
	close_region(session);
	err = cp_object_digest(object, object->size, answer->digest, tick, session);
	if (err)
		return refuse(answer, err, object->reason);
	if (memcmp(answer->digest, request->digest, CP_DIGEST)) {
		cp_object_forget(object);
		memset(answer->digest, 0, sizeof(answer->digest));
		return refuse(answer, EBADMSG,
			      "the memory at the target does not have what was sent (checksum)");
	}
	err = cp_object_finish(object);
	if (err)
		return refuse(answer, err, object->reason);
	say(session, "complete and durable", "");
	return 0;
}

/* ---- packs ---- */

static int charge(void *arg, uint64_t size, char *reason, size_t len)
{
	struct session *session = arg;

	return cp_store_charge(&session->target->store, size, reason, len);
}

static void refund(void *arg, uint64_t size)
{
	struct session *session = arg;

	cp_store_refund(&session->target->store, size);
}

static void tell_failed(void *arg, unsigned int record, int err, const char *reason)
{
	struct cp_message message = {
		.type = CP_FAILED, .sequence = record, .status = (uint32_t) err};

	snprintf(message.text, sizeof(message.text), "%s", reason);
	say(arg, "a file is refused", reason);
	/* If that can't be sent, the answer can't either. */
	(void) send_message(arg, &message);
}

static int open_sink(struct session *session)
{
	struct cp_sink *sink = session->sink = calloc(1, sizeof(*sink));

	if (!sink)
		return ENOMEM;
	sink->charge = charge;
	sink->refund = refund;
	sink->failed = tell_failed;
	sink->tick = tick;
	sink->arg = session;
	/* Of its own: an error of the file system is told once to each opening. */
	sink->root = cp_open_beneath(session->root, ".", O_RDONLY | O_DIRECTORY);
	return sink->root < 0 ? errno : 0;
}

/* open_room -- once for each client */
static int open_room(struct session *session, const struct cp_message *request,
		     struct cp_message *answer)
{
	bool reading = request->flags & CP_READING;
	char reason[CP_TEXT];
	int err;

	if (session->target->store.device)
		return refuse(answer, EINVAL, "it serves a device, which has no directories");
	if (session->room)
		return refuse(answer, EINVAL, "there is room already");
	if (session->target->store.read_only && !reading)
		return refuse(answer, EROFS, "the target is read-only");
	err = reading ? 0
		      : cp_medium_check(&session->link.node, session->root, tick, session, reason);
	if (err)
		return refuse(answer, err, reason);
	session->room = mmap(NULL, CP_PACK_ROOM, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (session->room == MAP_FAILED)
		session->room = NULL;
	err = session->room ? (reading ? 0 : open_sink(session)) : ENOMEM;
	if (!err)
		err = -region_try(&session->link.node, &session->room_region, session->room,
				  CP_PACK_ROOM, reading ? FI_REMOTE_READ : FI_REMOTE_WRITE, 0);
	if (err)
		return refuse(answer, err, strerror(err));
	answer->addr = session->room_region.addr;
	answer->key = session->room_region.key;
	return 0;
}

/* take_pack -- an offer, or files: 0, or the peer has sent nonsense, or it is over */
static int take_pack(struct session *session, const struct cp_message *request,
		     struct cp_message *answer)
{
	struct cp_pack pack = {.memory = session->room + request->addr, .len = request->size};
	unsigned int count = (unsigned int) request->committed;
	bool offer = request->type == CP_OFFER;

	if (!session->room_region.mr || !session->sink || request->addr > CP_PACK_ROOM ||
	    request->size > CP_PACK_ROOM - request->addr || request->committed > CP_OFFERS)
		return -EPROTO;
	session->sink->flags = request->flags;
	if (offer ? cp_sink_offer(session->sink, &pack, count, answer->text)
		  : cp_sink_store(session->sink, &pack, count))
		return -EPROTO;
	say(session, offer ? "offers" : "stores", "a pack");
	return 0;
}

/* list -- what is below a directory, into the room */
static int list(struct session *session, const struct cp_message *request,
		struct cp_message *answer)
{
	struct cp_pack pack = {.memory = session->room, .len = CP_PACK_BYTES};
	struct stat st;

	if (!session->room_region.mr || session->sink)
		return refuse(answer, EINVAL, "there is no room for that");
	if (request->flags & CP_RESTART) {
		cp_list_end(session->list);
		session->list = cp_list_begin(session->root, request->text, &st);
		if (!session->list)
			return refuse(answer, errno, cp_refused_open(errno));
		tell_attributes(answer, &st);
	}
	if (!session->list)
		return refuse(answer, EINVAL, "there is nothing to list");
	answer->committed = cp_list_fill(session->list, &pack);
	answer->size = pack.used;
	return 0;
}

static void close_room(struct session *session)
{
	if (session->sink && session->sink->root >= 0)
		close(session->sink->root);
	free(session->sink);
	cp_list_end(session->list);
	if (session->room)
		munmap(session->room, CP_PACK_ROOM);
}

/* may -- this client ask for that?  What only goes on with something else was asked for before. */
static bool may(const struct session *session, const struct cp_message *request)
{
	switch (request->type) {
	case CP_PUT:
		return session->rights.put;
	case CP_GET:
	case CP_LIST:
		return session->rights.get;
	case CP_ROOM:
		return request->flags & CP_READING ? session->rights.get : session->rights.put;
	default:
		return true;
	}
}

static int answer_request(struct session *session, struct cp_message *request)
{
	struct cp_message answer = {.type = CP_ANSWER};

	if (*session->forbidden || !may(session, request)) {
		refuse(&answer, EACCES,
		       *session->forbidden ? session->forbidden
					   : "the target does not allow you that (its file peers)");
		say(session, "refused", answer.text);
		return send_message(session, &answer);
	}
	switch (request->type) {
	case CP_PUT:
	case CP_GET:
		close_object(session);
		cp_printable(strcpy(answer.text, request->text));
		say(session, request->type == CP_PUT ? "puts" : "gets", answer.text);
		*answer.text = 0;
		if (request->type == CP_PUT)
			put(session, request, &answer);
		else
			get(session, request, &answer);
		if (answer.status)
			close_object(session);
		break;
	case CP_FINISH:
		finish(session, request, &answer);
		close_object(session);
		break;
	case CP_ROOM:
		open_room(session, request, &answer);
		break;
	case CP_LIST:
		list(session, request, &answer);
		break;
	case CP_OFFER:
	case CP_STORE:
		if (take_pack(session, request, &answer)) {
			say(session, "an invalid pack", "");
			return -EPROTO;
		}
		break;
	case CP_SUM:
		sum(session, request, &answer);
		break;
	case CP_ALIVE:
		return 0;
	default:
		say(session, "an invalid message", "");
		return -EPROTO;
	}
	if (answer.status)
		say(session, "refused", answer.text);
	else
		session->began = true;
	return send_message(session, &answer);
}

static int first_ms(const struct cp_target *target)
{
	int ms = target->timeout_ms;

	return ms < FIRST_MS ? ms : FIRST_MS;
}

static int serve(struct session *session)
{
	struct cp_target *target = session->target;
	struct cp_message request;
	int64_t end = connection_now_ms() + first_ms(target), look = 0;
	int ret = 0;

	while (ret >= 0 && !atomic_load(&target->stop)) {
		ret = cp_link_receive(&session->link, &request, WAIT_MS);
		if (ret > 0) {
			ret = answer_request(session, &request);
			if (session->began)
				end = connection_now_ms() + target->timeout_ms;
		}
		if (ret >= 0 && connection_now_ms() > end) {
			say(session, "has said nothing for too long", "");
			return -FI_ETIMEDOUT;
		}
		/* Over tcp, a read of what is no longer there is never answered. */
		if (connection_now_ms() < look)
			continue;
		if (!cp_object_is_whole(&session->object)) {
			say(session, "its file was truncated", "");
			return -FI_EIO;
		}
		look = connection_now_ms() + WAIT_MS;
	}
	return ret;
}

/* find_rights -- if they can't be told, it has none, and hears why from the first answer on */
static void find_rights(struct session *session)
{
	struct cp_store *store = &session->target->store;
	struct cp_rights *rights = &session->rights;

	session->root = store->fd;
	if (cp_rights_of(rights, session->link.conn.ep, session->forbidden,
			 sizeof(session->forbidden)) &&
	    *rights->below) {
		session->root = cp_open_beneath(store->fd, rights->below, O_RDONLY | O_DIRECTORY);
		if (session->root < 0)
			snprintf(session->forbidden, sizeof(session->forbidden),
				 "%s at the target: %s", rights->below, cp_refused_open(errno));
	}
	/* Regions that are put to can be read, and a device has what was there before. */
	if (store->device && !rights->get && !*session->forbidden)
		snprintf(session->forbidden, sizeof(session->forbidden),
			 "a client that may only put can't use a device");
	session->object.root = session->root;
}

static int begin(struct session *session)
{
	struct node *parent = session->target->node;
	struct cp_link *link = &session->link;
	int ret = cp_link_open(link, parent, session->info, 0);

	/*
	 * The client waits for an answer, and the handle is freed by that.  If it was an endpoint's
	 * already, the client sees that this is closed.
	 */
	if (ret && !session->info->handle)
		return ret;
	if (ret) {
		fi_reject(parent->pep, session->info->handle, link->error.text,
			  strnlen(link->error.text, CP_REASON - 1) + 1);
		return ret;
	}
	find_rights(session);
	link->node.timeout_ms = (unsigned long) first_ms(session->target);
	return conn_accept(&link->conn, &cp_hello, sizeof(cp_hello));
}

static void *run(void *arg)
{
	struct session *session = arg;
	struct cp_target *target = session->target;
	int ret = begin(session);

	if (!ret) {
		say(session, "connected", session->rights.name);
		ret = serve(session);
	}
	/* So ends each client, also one that has done all that it wanted. */
	say(session, "gone",
	    ret == -FI_ENOTCONN && !(session->object.writing && session->region.mr)
		    ? ""
		    : session->link.error.text);
	close_object(session);
	region_close(&session->room_region);
	cp_link_close(&session->link);
	cp_object_release(&session->object);
	close_room(session);
	if (session->root >= 0 && session->root != target->store.fd)
		close(session->root);
	fi_freeinfo(session->info);
	atomic_store(&target->busy[session->number], false);
	free(session);
	atomic_fetch_sub(&target->clients, 1);
	return NULL;
}

int cp_session_start(struct cp_target *target, struct fi_info *info, unsigned int number)
{
	struct session *session = calloc(1, sizeof(*session));
	pthread_attr_t attr;
	pthread_t thread;
	int err = session ? pthread_attr_init(&attr) : ENOMEM;

	if (err) {
		free(session);
		return -err;
	}
	*session = (struct session){
		.target = target,
		.info = info,
		.number = number,
		.root = -1,
		.object = {.store = &target->store, .client = number, .dir = -1, .fd = -1},
	};
	atomic_fetch_add(&target->clients, 1);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	err = pthread_create(&thread, &attr, run, session);
	pthread_attr_destroy(&attr);
	if (err) {
		atomic_fetch_sub(&target->clients, 1);
		free(session);
	}
	return -err;
}
