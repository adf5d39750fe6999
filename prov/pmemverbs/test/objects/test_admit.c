/* SPDX-License-Identifier: BSD-2-Clause */
/* test_admit.c -- with FI_PMEMVERBS_KEYS: who is not known is refused, before anything is his */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "objects/admit.h"
#include "objects/eq.h"
#include "objects/handshake.h"
#include "objects/unwrap.h"
#include "test/support/key_dirs.h"
#include "test/support/rig.h"

#define ASKS "asks"
#define SAYS "says so"
#define LATEST PMV_HANDSHAKE_HIGHEST

/* One side: a rig with an EQ, to which its endpoint is bound, and a passive endpoint. */
struct stage {
	struct rig *rig;
	struct fid_eq *eq;
	struct fid_eq *core_eq;
	struct fid_pep *pep;
	int end; /* whose keys it has */
};

union event {
	struct fi_eq_cm_entry cm;
	char room[512];
};

static struct fid handle = {.fclass = FI_CLASS_CONNREQ};
static struct sockaddr_in here = {.sin_family = AF_INET};

static void be(const struct stage *stage)
{
	key_dirs_be(stage->end);
}

static void stage_open(struct stage *stage, int end)
{
	struct rig *rig;

	here.sin_port = htons(FAKE_PORT);
	here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	stage->end = end;
	be(stage);
	rig = rig_open(&(struct rig_options){.not_enabled = true});
	stage->rig = rig;
	accepted(pmv_eq_open(&rig->fabric.fabric_fid, &(struct fi_eq_attr){.size = 8}, &stage->eq,
			     NULL));
	accepted(pmv_pep_open(&rig->fabric.fabric_fid, rig->info, &stage->pep, NULL));
	accepted(fi_pep_bind(stage->pep, &stage->eq->fid, 0));
	accepted(fi_ep_bind(rig->ep, &stage->eq->fid, 0));
	stage->core_eq = pmv_to_eq(stage->eq)->core_fid;
}

static void stage_close(struct stage *stage)
{
	if (stage->rig->ep)
		rig_close_ep(stage->rig);
	accepted(fi_close(&stage->pep->fid));
	accepted(fi_close(&stage->eq->fid));
	pmv_handshake_forget_all(&stage->rig->fabric);
	rig_close(stage->rig);
}

/* Two sides that know each other, unless it is the stranger. */
static struct stage target, client;

static void open_both(int end)
{
	stage_open(&target, TARGET);
	stage_open(&client, end);
}

static void close_both(void)
{
	stage_close(&client);
	stage_close(&target);
}

TestSuite(admit, .init = key_dirs_make, .fini = key_dirs_remove);

static int connect_ep(void)
{
	be(&client);
	return fi_connect(client.rig->ep, &here, ASKS, sizeof(ASKS));
}

/* raise_request -- the target's core hears of what the client's has sent */
static void raise_request(const uint8_t *data, size_t len)
{
	union event event = {.cm = {.fid = pmv_unwrap_fid(&target.pep->fid)}};
	struct fi_info *info = fi_allocinfo();

	cr_assert_not_null(info);
	info->handle = &handle;
	info->dest_addr = malloc(sizeof(here));
	cr_assert_not_null(info->dest_addr);
	memcpy(info->dest_addr, &here, sizeof(here));
	info->dest_addrlen = sizeof(here);
	event.cm.info = info;
	if (len)
		memcpy(event.cm.data, data, len);
	fake_raise(target.core_eq, FI_CONNREQ, &event, sizeof(event.cm) + len);
}

static void raise_sent(void)
{
	raise_request(client.rig->fake.sent, client.rig->fake.sent_len);
}

static ssize_t read_event(struct stage *stage, uint32_t *event, union event *entry)
{
	memset(entry, 0, sizeof(*entry));
	be(stage);
	return fi_eq_read(stage->eq, event, entry, sizeof(*entry), 0);
}

/* expect_rejected -- and the application does not hear of it */
static void expect_rejected(int times)
{
	union event event;
	uint32_t what;

	cr_expect_eq(read_event(&target, &what, &event), -FI_EAGAIN);
	cr_expect_eq(target.rig->fake.rejections, times);
	cr_expect_eq(target.rig->fake.rejected, &handle);
	cr_expect_eq(target.rig->fake.rejected_len, 0, "strangers are told nothing");
	cr_expect(LIST_EMPTY(&target.rig->fabric.handshakes));
}

/* expect_request -- what the application reads of a known peer's */
static void expect_request(void)
{
	union event event;
	uint32_t what;
	ssize_t ret = read_event(&target, &what, &event);

	cr_assert_eq(ret, (ssize_t) (sizeof(event.cm) + sizeof(ASKS)), "%zd", ret);
	cr_expect_eq(what, FI_CONNREQ);
	cr_expect_str_eq((char *) event.cm.data, ASKS);
	cr_expect_eq(event.cm.info->handle, &handle);
	cr_expect_eq(target.rig->fake.rejections, 0);
	fi_freeinfo(event.cm.info);
}

/* accept_ep -- an endpoint for the request, in the place of the rig's */
static int accept_ep(void)
{
	struct rig *rig = target.rig;

	be(&target);
	rig_close_ep(rig);
	rig->info->handle = &handle;
	rig->ep = rig_ep(rig, rig->cq);
	rig->info->handle = NULL;
	accepted(fi_ep_bind(rig->ep, &target.eq->fid, 0));
	return fi_accept(rig->ep, SAYS, sizeof(SAYS));
}

/* raise_connected -- the client's core hears of an acceptance */
static void raise_connected(const uint8_t *data, size_t len)
{
	union event event = {.cm = {.fid = pmv_unwrap_fid(&client.rig->ep->fid)}};

	if (len)
		memcpy(event.cm.data, data, len);
	fake_raise(client.core_eq, FI_CONNECTED, &event, sizeof(event.cm) + len);
}

static ssize_t post(struct stage *stage)
{
	static char buf[8];

	return fi_send(stage->rig->ep, buf, sizeof(buf), NULL, 0, NULL);
}

static void expect_established(void)
{
	union event event;
	uint32_t what;
	ssize_t ret = read_event(&client, &what, &event);

	cr_assert_eq(ret, (ssize_t) (sizeof(event.cm) + sizeof(SAYS)), "%zd", ret);
	cr_expect_eq(what, FI_CONNECTED);
	cr_expect_str_eq((char *) event.cm.data, SAYS);
	cr_expect_eq(client.rig->fake.shutdowns, 0);
	cr_expect_eq(post(&client), 0);
}

/* expect_refused -- the client's application reads an error, once, and nothing else of it */
static void expect_refused(void)
{
	struct fi_eq_err_entry err = {0};
	union event event = {.cm = {.fid = pmv_unwrap_fid(&client.rig->ep->fid)}};
	uint32_t what;

	cr_assert_eq(read_event(&client, &what, &event), -FI_EAVAIL);
	cr_expect_eq(client.rig->fake.shutdowns, 1);
	cr_expect_eq(pmv_eq_trywait(pmv_to_eq(client.eq)), -FI_EAGAIN);
	cr_expect_eq(read_event(&client, &what, &event), -FI_EAVAIL);
	cr_assert_eq(fi_eq_readerr(client.eq, &err, 0), (ssize_t) sizeof(err));
	cr_expect_eq(err.fid, &client.rig->ep->fid);
	cr_expect_eq(err.err, FI_ECONNREFUSED);
	cr_expect_eq(err.prov_errno, FI_EACCES);
	cr_expect_eq(err.err_data_size, 0);
	cr_expect_eq(read_event(&client, &what, &event), -FI_EAGAIN);
	cr_expect_eq(fi_eq_readerr(client.eq, &err, 0), -FI_EAGAIN);
	/* What the core says of it then is no news. */
	event.cm.fid = pmv_unwrap_fid(&client.rig->ep->fid);
	fake_raise(client.core_eq, FI_SHUTDOWN, &event, sizeof(event.cm));
	cr_expect_eq(read_event(&client, &what, &event), -FI_EAGAIN);
	cr_expect_eq(post(&client), -FI_ENOTCONN);
	cr_expect_eq(client.rig->fake.num_posts, 0);
}

Test(admit, connects_two_who_know_each_other)
{
	open_both(CLIENT);
	accepted(connect_ep());
	cr_expect_eq(client.rig->fake.sent_len,
		     sizeof(ASKS) + PMV_HANDSHAKE_SIZE + PMV_ADMISSION_REQUEST);
	raise_sent();
	expect_request();
	accepted(accept_ep());
	cr_expect_eq(target.rig->fake.sent_len,
		     sizeof(SAYS) + PMV_HANDSHAKE_SIZE + PMV_ADMISSION_REPLY);
	cr_expect_eq(post(&target), 0, "the peer is known");
	raise_connected(target.rig->fake.sent, target.rig->fake.sent_len);
	expect_established();
	cr_expect(pmv_to_ep(client.rig->ep)->mailbox.link.connected);
	close_both();
}

static int whose(const struct stage *stage, struct fi_pmemverbs_peer *peer, size_t len)
{
	return fi_getopt(&stage->rig->ep->fid, FI_OPT_ENDPOINT, FI_OPT_PMEMVERBS_PEER, peer, &len);
}

Test(admit, tells_whose_key_was_proved)
{
	struct fi_pmemverbs_peer peer;

	key_dirs_know(TARGET, CLIENT, "may=get");
	open_both(CLIENT);
	accepted(connect_ep());
	cr_expect_eq(whose(&client, &peer, sizeof(peer)), -FI_ENODATA, "not yet");
	raise_sent();
	expect_request();
	accepted(accept_ep());
	accepted(whose(&target, &peer, sizeof(peer)));
	cr_expect_str_eq(peer.name, "peer1");
	cr_expect_str_eq(peer.rights, "may=get");
	cr_expect_eq(whose(&target, &peer, sizeof(peer) - 1), -FI_ETOOSMALL);
	raise_connected(target.rig->fake.sent, target.rig->fake.sent_len);
	expect_established();
	accepted(whose(&client, &peer, sizeof(peer)));
	cr_expect_str_eq(peer.name, "peer0");
	cr_expect_str_eq(peer.rights, "");
	close_both();
}

Test(admit, takes_its_room_from_the_applications)
{
	size_t room = 0, len = sizeof(room);
	uint8_t most[256] = {0};

	open_both(CLIENT);
	accepted(
		fi_getopt(&client.rig->ep->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &room, &len));
	cr_expect_eq(room, 256 - PMV_HANDSHAKE_SIZE - PMV_ADMISSION_REQUEST);
	be(&client);
	cr_expect_eq(fi_connect(client.rig->ep, &here, most, room + 1), -FI_EINVAL);
	cr_expect_eq(fi_connect(client.rig->ep, &here, most, room), 0);
	cr_expect_eq(client.rig->fake.sent_len, 256);
	close_both();
}

/* A peer that sends no handshake gets none, but has to be known. */
Test(admit, connects_without_a_handshake)
{
	open_both(CLIENT);
	pmv_to_domain(client.rig->domain)->keyed = false;
	accepted(connect_ep());
	cr_expect_eq(client.rig->fake.sent_len, sizeof(ASKS) + PMV_ADMISSION_REQUEST);
	raise_sent();
	expect_request();
	accepted(accept_ep());
	cr_expect_eq(target.rig->fake.sent_len, sizeof(SAYS) + PMV_ADMISSION_REPLY);
	raise_connected(target.rig->fake.sent, target.rig->fake.sent_len);
	expect_established();
	pmv_to_domain(client.rig->domain)->keyed = true;
	close_both();
}

/* say_versions -- in the place of those that a side has sent behind so much */
static void say_versions(struct stage *stage, size_t behind, int lowest, int highest)
{
	stage->rig->fake.sent[behind + 8] = (uint8_t) (highest << 4 | lowest);
}

/* connect_both -- without keys; what either side hears is of these versions */
static void connect_both(int lowest, int highest)
{
	stage_open(&target, ENDS);
	stage_open(&client, ENDS);
	cr_expect_eq(post(&client), 0);
	accepted(connect_ep());
	cr_expect_eq(client.rig->fake.sent_len, sizeof(ASKS) + PMV_HANDSHAKE_SIZE);
	say_versions(&client, sizeof(ASKS), lowest, highest);
	raise_sent();
	expect_request();
	accepted(accept_ep());
	cr_assert_eq(target.rig->fake.sent_len, sizeof(SAYS) + PMV_HANDSHAKE_SIZE);
	cr_expect_eq(target.rig->fake.sent[sizeof(SAYS) + 8], LATEST << 4 | PMV_HANDSHAKE_LOWEST);
	say_versions(&target, sizeof(SAYS), lowest, highest);
	raise_connected(target.rig->fake.sent, target.rig->fake.sent_len);
	expect_established();
}

static const struct pmv_handshake *heard(const struct stage *stage)
{
	return &pmv_to_ep(stage->rig->ep)->mailbox.link.peer;
}

Test(admit, changes_nothing_without_the_setting_nor_do_peers_with_the_next_version_too)
{
	for (int highest = LATEST; highest <= LATEST + 1; highest++) {
		connect_both(LATEST, highest);
		cr_expect(heard(&target)->known && heard(&target)->version == LATEST);
		cr_expect(heard(&client)->known && heard(&client)->version == LATEST);
		close_both();
	}
}

/* Else the side that connects would take it for a peer without pmemverbs, and say nothing. */
Test(admit, tells_a_peer_of_later_versions_its_own_and_promises_nothing)
{
	const uint8_t nothing[PMV_HANDSHAKE_SIZE - 9] = {0}; /* behind the versions */

	connect_both(LATEST + 1, LATEST + 2);
	cr_expect(!heard(&target)->known && !heard(&client)->known);
	cr_expect_arr_eq(target.rig->fake.sent + sizeof(SAYS) + 9, nothing, sizeof(nothing));
	cr_expect_eq(target.rig->fake.sent[sizeof(SAYS) + 2], 0);
	close_both();
}

Test(admit, rejects_a_stranger)
{
	open_both(STRANGER);
	accepted(connect_ep());
	raise_sent();
	expect_rejected(1);
	/* Others go on. */
	key_dirs_know(TARGET, STRANGER, "127.0.0.0/8");
	target.rig->fake.rejections = 0;
	raise_sent();
	expect_request();
	close_both();
}

Test(admit, rejects_who_proves_nothing)
{
	open_both(ENDS);
	accepted(connect_ep());
	raise_sent();
	expect_rejected(1);
	raise_request(NULL, 0);
	expect_rejected(2);
	close_both();
}

Test(admit, hands_out_no_request_that_names_no_listener)
{
	union event event = {.cm = {.fid = NULL}};
	uint32_t what;

	open_both(CLIENT);
	fake_raise(target.core_eq, FI_CONNREQ, &event, sizeof(event.cm));
	cr_expect_eq(read_event(&target, &what, &event), -FI_EAGAIN);
	close_both();
}

Test(admit, rejects_a_known_peer_from_elsewhere)
{
	open_both(CLIENT);
	key_dirs_know(TARGET, CLIENT, "192.0.2.1 ::1");
	accepted(connect_ep());
	raise_sent();
	expect_rejected(1);
	close_both();
}

Test(admit, rejects_a_request_that_was_here_before)
{
	open_both(CLIENT);
	accepted(connect_ep());
	raise_sent();
	expect_request();
	raise_sent();
	be(&target);
	pmv_handshake_take(&target.rig->fabric, &handle, NULL);
	expect_rejected(1);
	close_both();
}

/* Another process may have taken it at that port. */
Test(admit, rejects_a_request_from_before_it_listened)
{
	open_both(CLIENT);
	accepted(connect_ep());
	be(&target);
	accepted(fi_listen(target.pep));
	raise_sent();
	expect_rejected(1);
	close_both();
}

Test(admit, rejects_a_request_with_another_handshake)
{
	open_both(CLIENT);
	accepted(connect_ep());
	for (size_t i = 0; i < PMV_HANDSHAKE_SIZE; i++) {
		client.rig->fake.sent[sizeof(ASKS) + i] ^= 1;
		raise_sent();
		expect_rejected((int) i + 1);
		client.rig->fake.sent[sizeof(ASKS) + i] ^= 1;
	}
	close_both();
}

/* Whoever has sent many of them: those of others are read all the same. */
Test(admit, reads_on_behind_what_it_rejects)
{
	open_both(CLIENT);
	accepted(connect_ep());
	for (int i = 0; i < 40; i++)
		raise_request((const uint8_t *) "garbage", 7);
	raise_sent();
	for (int i = 0; i < 2; i++) {
		union event event;
		uint32_t what;

		cr_assert_eq(read_event(&target, &what, &event), -FI_EAGAIN);
	}
	cr_expect_geq(target.rig->fake.rejections, 30);
	target.rig->fake.rejections = 0;
	while (target.rig->fake.rejections < 8) {
		union event event;
		uint32_t what;
		ssize_t ret = read_event(&target, &what, &event);

		if (ret == -FI_EAGAIN)
			continue;
		cr_expect_eq(ret, (ssize_t) (sizeof(event.cm) + sizeof(ASKS)));
		fi_freeinfo(event.cm.info);
		break;
	}
	close_both();
}

Test(admit, accepts_nothing_that_was_not_admitted)
{
	open_both(CLIENT);
	cr_expect_eq(accept_ep(), -FI_EACCES);
	cr_expect_eq(target.rig->fake.accepts, 0);
	close_both();
}

Test(admit, connects_to_nobody_unknown)
{
	open_both(CLIENT);
	key_dirs_know(CLIENT, TARGET, "192.0.2.1");
	cr_expect_eq(connect_ep(), -FI_EACCES);
	key_dirs_put(CLIENT, "peers", "nonsense\n");
	cr_expect_eq(connect_ep(), -FI_EACCES);
	cr_expect_eq(client.rig->fake.connects, 0);
	close_both();
}

Test(admit, lets_nothing_be_posted_before_the_peer_is_known)
{
	static char buf[8];
	struct fi_rma_iov to = {.len = sizeof(buf), .key = KEY_MHP};
	struct iovec iov = {buf, sizeof(buf)};
	struct fi_msg_rma msg = {
		.msg_iov = &iov, .iov_count = 1, .rma_iov = &to, .rma_iov_count = 1};

	open_both(CLIENT);
	for (int connecting = 0; connecting < 2; connecting++) {
		struct fid_ep *ep = client.rig->ep;

		cr_expect_eq(post(&client), -FI_ENOTCONN);
		cr_expect_eq(fi_write(ep, buf, 8, NULL, 0, 0, KEY_MHP, NULL), -FI_ENOTCONN);
		cr_expect_eq(fi_write(ep, buf, 8, NULL, 0, 0, KEY_PLAIN, NULL), -FI_ENOTCONN);
		cr_expect_eq(fi_writemsg(ep, &msg, FI_COMMIT), -FI_ENOTCONN);
		cr_expect_eq(fi_writemsg(ep, &msg, FI_COMMIT | FI_FENCE), -FI_ENOTCONN);
		cr_expect_eq(fi_inject_write(ep, buf, 8, 0, 0, KEY_MHP), -FI_ENOTCONN);
		cr_expect_eq(fi_read(ep, buf, 8, NULL, 0, 0, KEY_MHP, NULL), -FI_ENOTCONN);
		cr_expect_eq(fi_inject(ep, buf, 8, 0), -FI_ENOTCONN);
		cr_expect_eq(fi_senddata(ep, buf, 8, NULL, 1, 0, NULL), -FI_ENOTCONN);
		cr_expect_eq(fi_atomic(ep, buf, 1, NULL, 0, 0, KEY_MHP, FI_UINT64, FI_SUM, NULL),
			     -FI_ENOTCONN);
		accepted(connecting ? 0 : connect_ep());
	}
	cr_expect_eq(client.rig->fake.num_posts, 0);
	close_both();
}

/* A false target's message would be in it before anybody has looked at the proof. */
Test(admit, gives_the_core_receives_when_the_peer_is_known)
{
	static char buf[8];

	open_both(CLIENT);
	cr_expect_eq(fi_recv(client.rig->ep, buf, sizeof(buf), NULL, 0, buf), 0);
	accepted(connect_ep());
	cr_expect_eq(fi_recv(client.rig->ep, buf, sizeof(buf), NULL, 0, buf + 1), 0);
	cr_expect_eq(client.rig->fake.num_posts, 0);
	raise_sent();
	expect_request();
	accepted(accept_ep());
	raise_connected(target.rig->fake.sent, target.rig->fake.sent_len);
	expect_established();
	cr_expect_eq(client.rig->fake.num_posts, 3, "both, and a message that was sent");
	close_both();
}

Test(admit, cancels_receives_of_a_peer_that_was_refused)
{
	static char buf[8];
	struct fi_cq_err_entry err = {0};

	open_both(CLIENT);
	cr_expect_eq(fi_recv(client.rig->ep, buf, sizeof(buf), NULL, 0, buf), 0);
	cr_expect_eq(fi_recv(client.rig->ep, buf, sizeof(buf), NULL, 0, buf + 1), 0);
	accepted(fi_cancel(&client.rig->ep->fid, buf + 1));
	cr_expect_gt(fi_cq_readerr(client.rig->cq, &err, 0), 0);
	cr_expect_eq(err.op_context, buf + 1);
	cr_expect_eq(err.err, FI_ECANCELED);
	accepted(connect_ep());
	raise_connected(NULL, 0);
	expect_refused();
	rig_close_ep(client.rig);
	cr_expect_gt(fi_cq_readerr(client.rig->cq, &err, 0), 0);
	cr_expect_eq(err.op_context, buf);
	cr_expect_eq(err.err, FI_ECANCELED);
	close_both();
}

Test(admit, refuses_a_target_that_proves_nothing)
{
	open_both(CLIENT);
	accepted(connect_ep());
	raise_connected((const uint8_t *) SAYS, sizeof(SAYS));
	expect_refused();
	close_both();
	open_both(CLIENT);
	accepted(connect_ep());
	raise_connected(NULL, 0);
	expect_refused();
	close_both();
}

Test(admit, refuses_a_target_whose_acceptance_was_changed)
{
	for (int front = 0; front < 2; front++) {
		struct fi_pmemverbs_peer peer;
		struct fake *fake;

		open_both(CLIENT);
		accepted(connect_ep());
		raise_sent();
		expect_request();
		accepted(accept_ep());
		fake = &target.rig->fake;
		/* Its handshake, and its proof. */
		fake->sent[front ? sizeof(SAYS) + 3 : fake->sent_len - 1] ^= 1;
		raise_connected(fake->sent, fake->sent_len);
		expect_refused();
		cr_expect_eq(whose(&client, &peer, sizeof(peer)), -FI_ENODATA);
		close_both();
	}
}

Test(admit, tells_nobody_of_what_was_closed)
{
	union event event;
	uint32_t what;

	open_both(CLIENT);
	accepted(connect_ep());
	raise_connected(NULL, 0);
	cr_assert_eq(read_event(&client, &what, &event), -FI_EAVAIL);
	rig_close_ep(client.rig);
	cr_expect_eq(read_event(&client, &what, &event), -FI_EAGAIN);
	close_both();
}
