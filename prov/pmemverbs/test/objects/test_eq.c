/* SPDX-License-Identifier: BSD-2-Clause */
/* test_eq.c -- event queues: the core's events in terms of the application's objects */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "objects/eq.h"
#include "objects/handshake.h"
#include "objects/unwrap.h"
#include "test/support/rig.h"

#define CM_DATA "handshake"
#define CM_LEN (sizeof(struct fi_eq_cm_entry) + sizeof(CM_DATA))

/* A rig with an EQ, to which its endpoint is bound, and a passive endpoint. */
struct stage {
	struct rig *rig;
	struct fid_eq *eq;
	struct fid_eq *core_eq;
	struct fid_pep *pep;
	struct fid *core_ep;
	struct fid *core_pep;
};

/* What is read, with room for CM data. */
union event {
	struct fi_eq_entry entry;
	struct fi_eq_cm_entry cm;
	char room[256];
};

static void stage_open(struct stage *stage)
{
	struct rig *rig = rig_open(&(struct rig_options){.not_enabled = true});

	stage->rig = rig;
	accepted(pmv_eq_open(&rig->fabric.fabric_fid, &(struct fi_eq_attr){.size = 8}, &stage->eq,
			     NULL));
	accepted(pmv_pep_open(&rig->fabric.fabric_fid, rig->info, &stage->pep, NULL));
	accepted(fi_pep_bind(stage->pep, &stage->eq->fid, 0));
	accepted(fi_ep_bind(rig->ep, &stage->eq->fid, 0));
	stage->core_eq = pmv_to_eq(stage->eq)->core_fid;
	stage->core_ep = pmv_unwrap_fid(&rig->ep->fid);
	stage->core_pep = pmv_unwrap_fid(&stage->pep->fid);
}

static void stage_close(struct stage *stage)
{
	if (stage->rig->ep)
		rig_close_ep(stage->rig);
	if (stage->pep)
		accepted(fi_close(&stage->pep->fid));
	if (stage->eq)
		accepted(fi_close(&stage->eq->fid));
	/* the rig's fabric is not one that is closed */
	pmv_handshake_forget_all(&stage->rig->fabric);
	rig_close(stage->rig);
}

static void raise_cm(struct stage *stage, uint32_t event, struct fid *fid, struct fi_info *info)
{
	union event entry = {.cm = {.fid = fid, .info = info}};

	memcpy(entry.cm.data, CM_DATA, sizeof(CM_DATA));
	fake_raise(stage->core_eq, event, &entry, CM_LEN);
}

/* A connection request as a core makes it: it knows nothing of persistent memory. */
static struct fi_info *core_request(void)
{
	struct fi_info *info = fi_allocinfo();

	cr_assert_not_null(info);
	info->caps = FI_MSG | FI_RMA | FI_WRITE | FI_REMOTE_WRITE | FI_READ | FI_REMOTE_READ;
	info->tx_attr->caps = info->caps;
	info->tx_attr->size = 400;
	info->domain_attr->mr_mode = FI_MR_PROV_KEY | FI_MR_VIRT_ADDR;
	info->domain_attr->mr_key_size = 4;
	info->handle = (struct fid *) 0x4a4d1e;
	return info;
}

static ssize_t read_event(struct stage *stage, uint32_t *event, union event *entry, uint64_t flags)
{
	memset(entry, 0, sizeof(*entry));
	return fi_eq_read(stage->eq, event, entry, sizeof(*entry), flags);
}

static void expect_none(struct stage *stage)
{
	union event entry;
	uint32_t event;

	cr_assert_eq(read_event(stage, &event, &entry, 0), -FI_EAGAIN);
}

Test(events, of_connections_name_the_applications_endpoint)
{
	static const uint32_t events[] = {FI_CONNECTED, FI_SHUTDOWN};
	struct stage stage;
	union event entry;
	uint32_t event;

	stage_open(&stage);
	for (size_t i = 0; i < 2; i++) {
		raise_cm(&stage, events[i], stage.core_ep, NULL);
		cr_assert_eq(read_event(&stage, &event, &entry, 0), (ssize_t) CM_LEN);
		cr_expect_eq(event, events[i]);
		cr_expect_eq(entry.cm.fid, &stage.rig->ep->fid);
		cr_expect_null(entry.cm.info);
		cr_expect_str_eq((char *) entry.cm.data, CM_DATA);
		expect_none(&stage);
	}
	stage_close(&stage);
}

/* A core that would go on trying to reach a peer that has gone is told to stop. */
Test(events, that_a_peer_has_gone_end_what_is_under_way)
{
	for (int lingers = 0; lingers < 2; lingers++) {
		struct stage stage;
		union event entry;
		uint32_t event;

		stage_open(&stage);
		stage.rig->core.lingers = lingers;
		raise_cm(&stage, FI_CONNECTED, stage.core_ep, NULL);
		raise_cm(&stage, FI_SHUTDOWN, stage.core_ep, NULL);
		cr_assert_eq(read_event(&stage, &event, &entry, 0), (ssize_t) CM_LEN);
		cr_expect_eq(stage.rig->fake.shutdowns, 0);
		cr_assert_eq(read_event(&stage, &event, &entry, FI_PEEK), (ssize_t) CM_LEN);
		cr_assert_eq(read_event(&stage, &event, &entry, 0), (ssize_t) CM_LEN);
		cr_expect_eq(event, FI_SHUTDOWN);
		cr_expect_eq(stage.rig->fake.shutdowns, lingers);
		stage_close(&stage);
	}
}

Test(events, of_requests_offer_what_the_listener_was_opened_for)
{
	struct stage stage;
	union event entry;
	uint32_t event;

	stage_open(&stage);
	raise_cm(&stage, FI_CONNREQ, stage.core_pep, core_request());
	cr_assert_eq(read_event(&stage, &event, &entry, 0), (ssize_t) CM_LEN);
	cr_expect_eq(event, FI_CONNREQ);
	cr_expect_eq(entry.cm.fid, &stage.pep->fid);
	cr_expect_str_eq((char *) entry.cm.data, CM_DATA);
	cr_assert_not_null(entry.cm.info);
	cr_expect(entry.cm.info->caps & FI_PMEM);
	cr_expect(entry.cm.info->caps & FI_FENCE);
	cr_expect_eq(entry.cm.info->domain_attr->mr_key_size, 8);
	cr_expect_eq(entry.cm.info->tx_attr->size, 100);
	/* The core finds the request again by its own handle. */
	cr_expect_eq(entry.cm.info->handle, (struct fid *) 0x4a4d1e);
	fi_freeinfo(entry.cm.info);
	stage_close(&stage);
}

/* raise_versions -- with a handshake of these versions behind the application's data */
static void raise_versions(struct stage *stage, uint32_t event, struct fid *fid,
			   struct fi_info *info, uint8_t lowest, uint8_t highest)
{
	union event entry = {.cm = {.fid = fid, .info = info}};
	uint8_t *handshake = entry.cm.data + sizeof(CM_DATA);

	memcpy(entry.cm.data, CM_DATA, sizeof(CM_DATA));
	pmv_handshake_encode(handshake, &(struct pmv_handshake){.known = true});
	handshake[8] = (uint8_t) (highest << 4 | lowest);
	fake_raise(stage->core_eq, event, &entry, CM_LEN + PMV_HANDSHAKE_SIZE);
}

/* times_said -- how often that stands in the file, into which somebody writes */
static int times_said(int fd, const char *what)
{
	char text[4096] = "";
	int times = 0;

	cr_assert(pread(fd, text, sizeof(text) - 1, 0) >= 0);
	for (const char *at = text; (at = strstr(at, what)); at++)
		times++;
	return times;
}

Test(events, of_peers_of_another_version_are_told_of_by_either_side)
{
	int said = memfd_create("said", 0);
	const uint8_t v = PMV_HANDSHAKE_HIGHEST;
	struct stage stage;
	union event entry;
	uint32_t event;

	stage_open(&stage);
	cr_assert(said >= 0 && dup2(said, STDERR_FILENO) >= 0);
	/* Whoever speaks the next version speaks this one.  Others can't fill the log, however
	 * many. */
	for (int i = 0; i < 5; i++) {
		raise_versions(&stage, FI_CONNREQ, stage.core_pep, core_request(), v + (i > 1),
			       i > 1 ? v + 2 : v + i);
		cr_assert_eq(read_event(&stage, &event, &entry, 0), (ssize_t) CM_LEN);
		fi_freeinfo(entry.cm.info);
		cr_expect_eq(times_said(said, "versions 2 to 3, and here 1 to 1"), i > 1);
	}
	raise_versions(&stage, FI_CONNECTED, stage.core_ep, NULL, v + 2, v + 2);
	cr_assert_eq(read_event(&stage, &event, &entry, 0), (ssize_t) CM_LEN);
	cr_expect_str_eq((char *) entry.cm.data, CM_DATA);
	cr_expect_eq(times_said(said, "handshake has versions 3 to 3, and here 1 to 1"), 1);
	stage_close(&stage);
}

Test(events, stay_when_they_are_only_peeked_at)
{
	struct stage stage;
	union event first, second;
	uint32_t event;

	stage_open(&stage);
	raise_cm(&stage, FI_CONNREQ, stage.core_pep, core_request());
	raise_cm(&stage, FI_CONNECTED, stage.core_ep, NULL);
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(read_event(&stage, &event, &first, FI_PEEK), (ssize_t) CM_LEN);
		cr_expect_eq(event, FI_CONNREQ);
	}
	cr_assert_eq(read_event(&stage, &event, &second, 0), (ssize_t) CM_LEN);
	cr_expect_arr_eq(&first, &second, CM_LEN);
	/* Translated once: the size of the queue was divided once. */
	cr_expect_eq(second.cm.info->tx_attr->size, 100);
	fi_freeinfo(second.cm.info);
	cr_assert_eq(read_event(&stage, &event, &second, 0), (ssize_t) CM_LEN);
	cr_expect_eq(event, FI_CONNECTED);
	expect_none(&stage);
	stage_close(&stage);
}

Test(events, that_do_not_fit_wait_for_a_larger_buffer)
{
	struct stage stage;
	union event entry;
	uint32_t event;

	stage_open(&stage);
	raise_cm(&stage, FI_CONNREQ, stage.core_pep, core_request());
	for (size_t len = 0; len < sizeof(struct fi_eq_cm_entry); len += 4)
		cr_assert_eq(fi_eq_read(stage.eq, &event, &entry, len, 0), -FI_ETOOSMALL);
	cr_assert_eq(read_event(&stage, &event, &entry, 0), (ssize_t) CM_LEN);
	cr_expect_eq(entry.cm.fid, &stage.pep->fid);
	fi_freeinfo(entry.cm.info);
	expect_none(&stage);
	stage_close(&stage);
}

Test(events, lose_only_cm_data_for_which_there_is_no_room)
{
	struct stage stage;
	union event entry;
	uint32_t event;
	size_t room = sizeof(struct fi_eq_cm_entry) + 2;

	stage_open(&stage);
	raise_cm(&stage, FI_CONNECTED, stage.core_ep, NULL);
	memset(&entry, 0xa5, sizeof(entry));
	cr_assert_eq(fi_eq_read(stage.eq, &event, &entry, room, 0), (ssize_t) room);
	cr_expect_eq(entry.cm.data[1], CM_DATA[1]);
	cr_expect_eq((unsigned char) entry.room[room], 0xa5);
	expect_none(&stage);
	stage_close(&stage);
}

Test(events, of_the_application_come_back_as_they_went)
{
	struct stage stage;
	union event entry;
	struct fid strange = {.fclass = 4711, .context = &stage};
	uint32_t event;

	stage_open(&stage);
	struct fi_eq_entry in[] = {
		{.fid = &stage.rig->ep->fid, .context = &stage, .data = 1},
		{.fid = &strange, .context = NULL, .data = 2},
		{.fid = NULL, .context = &stage, .data = 3},
	};
	for (size_t i = 0; i < 3; i++) {
		cr_assert_eq(fi_eq_write(stage.eq, FI_NOTIFY, &in[i], sizeof(in[i]), 0),
			     (ssize_t) sizeof(in[i]));
		cr_assert_eq(read_event(&stage, &event, &entry, 0), (ssize_t) sizeof(in[i]));
		cr_expect_eq(event, FI_NOTIFY);
		cr_expect_arr_eq(&entry, &in[i], sizeof(in[i]));
	}
	stage_close(&stage);
}

/* Libraries wake their threads with events of a connection that they make up. */
Test(events, of_the_application_may_look_like_the_cores)
{
	struct stage stage;
	union event entry;
	uint32_t event;

	stage_open(&stage);
	struct fid *const fids[] = {&stage.rig->ep->fid, NULL};
	for (size_t i = 0; i < 2; i++) {
		struct fi_eq_cm_entry in = {.fid = fids[i]};

		cr_assert_eq(fi_eq_write(stage.eq, FI_SHUTDOWN, &in, sizeof(in), 0),
			     (ssize_t) sizeof(in));
		cr_assert_eq(read_event(&stage, &event, &entry, 0), (ssize_t) sizeof(in));
		cr_expect_eq(event, FI_SHUTDOWN);
		cr_expect_eq(entry.cm.fid, fids[i], "event %zu", i);
	}
	stage_close(&stage);
}

/* What they name need not be ours, and what they carry is not the core's. */
Test(events, of_the_application_are_neither_dropped_nor_changed)
{
	static const uint32_t events[] = {FI_CONNREQ, FI_CONNECTED, FI_SHUTDOWN};
	struct fid strange = {.fclass = 4711};
	struct stage stage;
	union event entry;
	uint32_t event;

	stage_open(&stage);
	for (size_t i = 0; i < 3; i++) {
		union event in = {.cm = {.fid = &strange}};

		memcpy(in.cm.data, CM_DATA, sizeof(CM_DATA));
		cr_assert_eq(fi_eq_write(stage.eq, events[i], &in, CM_LEN, 0), (ssize_t) CM_LEN);
		for (int peek = 1; peek >= 0; peek--) {
			cr_assert_eq(read_event(&stage, &event, &entry, peek ? FI_PEEK : 0),
				     (ssize_t) CM_LEN, "event %zu", i);
			cr_expect_eq(event, events[i]);
			cr_expect_arr_eq(&entry, &in, CM_LEN);
		}
	}
	stage_close(&stage);
}

/* Only the core knows that a connection has ended. */
Test(events, of_the_application_end_no_operation)
{
	struct stage stage;
	union event entry;
	uint32_t event;

	stage_open(&stage);
	stage.rig->core.lingers = true;
	struct fi_eq_cm_entry in = {.fid = &stage.rig->ep->fid};
	cr_assert_eq(fi_eq_write(stage.eq, FI_SHUTDOWN, &in, sizeof(in), 0), (ssize_t) sizeof(in));
	cr_assert_eq(read_event(&stage, &event, &entry, 0), (ssize_t) sizeof(in));
	cr_expect_eq(stage.rig->fake.shutdowns, 0);
	stage_close(&stage);
}

/* The address sanitizer would show an fi_info that is freed twice. */
Test(events, of_the_application_that_nobody_read_keep_what_is_the_applications)
{
	struct fi_info *info = core_request();
	struct fi_eq_cm_entry in = {.info = info};
	struct stage stage;
	union event entry;
	uint32_t event;

	stage_open(&stage);
	cr_assert_eq(fi_eq_write(stage.eq, FI_CONNREQ, &in, sizeof(in), 0), (ssize_t) sizeof(in));
	cr_assert_eq(read_event(&stage, &event, &entry, FI_PEEK), (ssize_t) sizeof(in));
	stage_close(&stage);
	cr_expect_eq(info->tx_attr->size, 400);
	fi_freeinfo(info);
}

Test(events, that_are_errors_name_the_applications_endpoint)
{
	struct stage stage;
	union event entry;
	struct fi_eq_err_entry error = {0};
	uint32_t event;
	char data[] = "why";

	stage_open(&stage);
	fake_raise_error(stage.core_eq, &(struct fi_eq_err_entry){
						.fid = stage.core_ep,
						.context = stage.core_ep->context,
						.err = FI_ECONNREFUSED,
						.prov_errno = 7,
						.err_data = data,
						.err_data_size = sizeof(data),
					});
	cr_assert_eq(read_event(&stage, &event, &entry, 0), -FI_EAVAIL);
	cr_assert_gt(fi_eq_readerr(stage.eq, &error, 0), 0);
	cr_expect_eq(error.fid, &stage.rig->ep->fid);
	cr_expect_eq(error.context, stage.rig->ep->fid.context);
	cr_expect_eq(error.err, FI_ECONNREFUSED);
	cr_expect_eq(error.prov_errno, 7);
	cr_expect_eq(error.err_data, data);
	cr_expect_eq(error.err_data_size, sizeof(data));
	cr_assert_eq(fi_eq_readerr(stage.eq, &error, 0), -FI_EAGAIN);
	expect_none(&stage);
	stage_close(&stage);
}

Test(events, that_are_errors_of_nothing_that_is_known_are_handed_on)
{
	struct stage stage;
	struct fid strange = {.fclass = 4711};
	struct fid *const fids[] = {NULL, &strange};

	stage_open(&stage);
	for (size_t i = 0; i < 2; i++) {
		struct fi_eq_err_entry error = {0};

		fake_raise_error(stage.core_eq,
				 &(struct fi_eq_err_entry){.fid = fids[i], .err = FI_EIO});
		cr_assert_gt(fi_eq_readerr(stage.eq, &error, 0), 0);
		cr_expect_eq(error.err, FI_EIO);
	}
	stage_close(&stage);
}

Test(events, before_an_error_are_read_before_it)
{
	struct stage stage;
	union event entry;
	struct fi_eq_err_entry error = {0};
	uint32_t event;

	stage_open(&stage);
	raise_cm(&stage, FI_CONNECTED, stage.core_ep, NULL);
	fake_raise_error(stage.core_eq,
			 &(struct fi_eq_err_entry){.fid = stage.core_ep, .err = FI_EIO});
	cr_assert_eq(read_event(&stage, &event, &entry, FI_PEEK), (ssize_t) CM_LEN);
	cr_assert_eq(read_event(&stage, &event, &entry, 0), (ssize_t) CM_LEN);
	cr_assert_eq(read_event(&stage, &event, &entry, 0), -FI_EAVAIL);
	cr_assert_gt(fi_eq_readerr(stage.eq, &error, 0), 0);
	expect_none(&stage);
	stage_close(&stage);
}

Test(events, are_waited_for_in_the_core, .timeout = 20)
{
	struct stage stage;
	union event entry;
	uint32_t event;

	stage_open(&stage);
	cr_expect_eq(fi_eq_sread(stage.eq, &event, &entry, sizeof(entry), 30, 0), -FI_EAGAIN);
	raise_cm(&stage, FI_CONNECTED, stage.core_ep, NULL);
	for (int peek = 1; peek >= 0; peek--) {
		cr_assert_eq(fi_eq_sread(stage.eq, &event, &entry, sizeof(entry), -1,
					 peek ? FI_PEEK : 0),
			     (ssize_t) CM_LEN);
		cr_expect_eq(entry.cm.fid, &stage.rig->ep->fid);
	}
	fake_raise_error(stage.core_eq,
			 &(struct fi_eq_err_entry){.fid = stage.core_ep, .err = FI_EIO});
	cr_expect_eq(fi_eq_sread(stage.eq, &event, &entry, sizeof(entry), -1, 0), -FI_EAVAIL);
	stage_close(&stage);
}

Test(events, that_are_kept_keep_trywait_from_promising_a_wakeup)
{
	struct stage stage;
	union event entry;
	uint32_t event;

	stage_open(&stage);
	cr_expect_eq(pmv_eq_trywait(pmv_to_eq(stage.eq)), 0);
	raise_cm(&stage, FI_CONNECTED, stage.core_ep, NULL);
	cr_expect_eq(pmv_eq_trywait(pmv_to_eq(stage.eq)), -FI_EAGAIN);
	cr_assert_eq(read_event(&stage, &event, &entry, FI_PEEK), (ssize_t) CM_LEN);
	cr_expect_eq(pmv_eq_trywait(pmv_to_eq(stage.eq)), -FI_EAGAIN);
	cr_assert_eq(read_event(&stage, &event, &entry, 0), (ssize_t) CM_LEN);
	cr_expect_eq(pmv_eq_trywait(pmv_to_eq(stage.eq)), 0);
	stage_close(&stage);
}

/* A leak of the fi_info inside shows under the address sanitizer. */
Test(events, of_what_is_closed_are_forgotten)
{
	struct stage stage;
	union event entry;
	uint32_t event;

	stage_open(&stage);
	raise_cm(&stage, FI_CONNREQ, stage.core_pep, core_request());
	cr_assert_eq(read_event(&stage, &event, &entry, FI_PEEK), (ssize_t) CM_LEN);
	accepted(fi_close(&stage.pep->fid));
	stage.pep = NULL;
	expect_none(&stage);

	raise_cm(&stage, FI_SHUTDOWN, stage.core_ep, NULL);
	cr_assert_eq(read_event(&stage, &event, &entry, FI_PEEK), (ssize_t) CM_LEN);
	rig_close_ep(stage.rig);
	expect_none(&stage);
	stage_close(&stage);
}

/* verbs of libfabric 2.1 writes an event for an endpoint that it is closing, and keeps it. */
Test(events, of_endpoints_that_are_closed_are_dropped)
{
	struct stage stage;
	union event entry;
	uint32_t event;

	stage_open(&stage);
	rig_close_ep(stage.rig);
	raise_cm(&stage, FI_SHUTDOWN, stage.core_ep, NULL);
	raise_cm(&stage, FI_CONNREQ, stage.core_pep, core_request());
	cr_assert_eq(read_event(&stage, &event, &entry, 0), (ssize_t) CM_LEN);
	cr_expect_eq(event, FI_CONNREQ);
	fi_freeinfo(entry.cm.info);
	expect_none(&stage);
	stage_close(&stage);
}

/* A listener that is not bound to the queue does not take its events with it. */
Test(events, that_nobody_read_go_with_the_queue)
{
	struct stage stage;
	struct fid_pep *pep;
	union event entry;
	uint32_t event;

	stage_open(&stage);
	accepted(pmv_pep_open(&stage.rig->fabric.fabric_fid, stage.rig->info, &pep, NULL));
	raise_cm(&stage, FI_CONNREQ, pmv_unwrap_fid(&pep->fid), core_request());
	cr_assert_eq(read_event(&stage, &event, &entry, FI_PEEK), (ssize_t) CM_LEN);
	accepted(fi_close(&pep->fid));
	stage_close(&stage);
}

/* tcp of libfabric 2.1 moves data then, of which no descriptor tells the agent's thread. */
Test(events, tell_the_agent_that_they_were_read)
{
	struct pmv_agent *agent;
	struct stage stage;
	uint64_t kicks;

	stage_open(&stage);
	agent = &pmv_to_domain(stage.rig->domain)->agent;
	/* As if there were a thread, which falls asleep just now. */
	pmv_setting.agent = PMV_AGENT_THREAD;
	stage.rig->core.manual_progress = true;
	atomic_store(&agent->asleep, true);
	pthread_mutex_lock(&agent->lock);
	expect_none(&stage);
	pthread_mutex_unlock(&agent->lock);
	cr_expect_eq(read(agent->kick_fd, &kicks, sizeof(kicks)), (ssize_t) sizeof(kicks));
	atomic_store(&agent->asleep, false);
	stage.rig->core.manual_progress = false;
	stage_close(&stage);
}

/* tcp takes errno for the reason why a connection has ended. */
static ssize_t see_errno(struct fid_eq *eq, uint32_t *event, void *buf, size_t len, uint64_t flags)
{
	(void) eq, (void) event, (void) buf, (void) len, (void) flags;
	return errno ? -FI_EOTHER : -FI_EAGAIN;
}

Test(events, are_read_without_an_errno_of_earlier_calls)
{
	union event event;
	struct stage stage;
	uint32_t what;

	stage_open(&stage);
	stage.core_eq->ops->read = see_errno;
	errno = EAGAIN;
	cr_expect_eq(fi_eq_read(stage.eq, &what, &event, sizeof(event), 0), -FI_EAGAIN);
	stage_close(&stage);
}

/* tcp would try to accept without a pause. */
Test(sread, does_not_enter_a_core_that_can_accept_nothing)
{
	struct rlimit limit, none;
	struct stage stage;
	union event entry;
	uint32_t event;

	stage_open(&stage);
	stage.rig->core.manual_progress = true;
	cr_expect_eq(fi_eq_sread(stage.eq, &event, &entry, sizeof(entry), 30, 0), -FI_EAGAIN);
	cr_expect_not(atomic_load(&pmv_to_eq(stage.eq)->warned));
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = limit;
	none.rlim_cur = 0;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	cr_expect_eq(fi_eq_sread(stage.eq, &event, &entry, sizeof(entry), 30, 0), -FI_EAGAIN);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	cr_expect(atomic_load(&pmv_to_eq(stage.eq)->warned));
	stage.rig->core.manual_progress = false;
	stage_close(&stage);
}
