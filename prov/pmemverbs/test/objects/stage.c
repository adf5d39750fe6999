/* SPDX-License-Identifier: BSD-2-Clause */
/* stage.c -- two sides that connect by tickets: stage.h */
#include "stage.h"

#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auth/ticket.h"
#include "objects/handshake.h"
#include "objects/unwrap.h"
#include "test/support/fake_impl.h"
#include "test/support/key_dirs.h"

struct stage target, client;
struct sockaddr_in here;
struct fid handle = {.fclass = FI_CLASS_CONNREQ};

void set_source(struct rig *rig, const struct sockaddr_in *addr)
{
	free(rig->info->src_addr);
	rig->info->src_addr = malloc(sizeof(*addr));
	memcpy(rig->info->src_addr, addr, sizeof(*addr));
	rig->info->src_addrlen = sizeof(*addr);
}

static void stage_open(struct stage *stage, uint16_t port)
{
	const struct sockaddr_in addr = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = port};
	struct rig *rig = rig_open(&(struct rig_options){.not_enabled = true, .tickets = true});

	stage->rig = rig;
	set_source(rig, &addr);
	accepted(pmv_eq_open(&rig->fabric.fabric_fid, &(struct fi_eq_attr){.size = 8}, &stage->eq,
			     NULL));
	accepted(pmv_pep_open(&rig->fabric.fabric_fid, rig->info, &stage->pep, NULL));
	accepted(fi_pep_bind(stage->pep, &stage->eq->fid, 0));
	accepted(fi_ep_bind(rig->ep, &stage->eq->fid, 0));
}

static void stage_close(struct stage *stage)
{
	if (stage->rig->ep)
		rig_close_ep(stage->rig);
	if (stage->pep)
		accepted(fi_close(&stage->pep->fid));
	accepted(fi_close(&stage->eq->fid));
	pmv_handshake_forget_all(&stage->rig->fabric);
	rig_close(stage->rig);
}

/* has_thread -- does this process have the one that moves tickets? */
bool has_thread(void)
{
	DIR *dir = opendir("/proc/self/task");
	char path[300], name[32] = "";
	struct dirent *entry;
	bool found = false;

	while ((entry = readdir(dir))) {
		FILE *file;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
		file = fopen(path, "r");
		if (file && fgets(name, sizeof(name), file) && !strcmp(name, "pmv-poller\n"))
			found = true;
		if (file)
			fclose(file);
	}
	closedir(dir);
	return found;
}

void stage_setup(void)
{
	size_t len = sizeof(here);

	key_dirs_make();
	key_dirs_know(CLIENT, CLIENT, "");
	key_dirs_be(CLIENT);
	stage_open(&target, 0);
	stage_open(&client, 0);
	accepted(fi_listen(target.pep));
	cr_expect(has_thread());
	accepted(fi_getname(&target.pep->fid, &here, &len));
}

void stage_teardown(void)
{
	stage_close(&client);
	stage_close(&target);
	key_dirs_remove();
}

int connect_ep(void)
{
	return fi_connect(client.rig->ep, &here, ASKS, sizeof(ASKS));
}

ssize_t read_event(struct stage *stage, uint32_t *event, union event *entry)
{
	memset(entry, 0, sizeof(*entry));
	return fi_eq_read(stage->eq, event, entry, sizeof(*entry), 0);
}

/* await_ticket -- as an application does that reads its queue until something has happened */
void await_ticket(void)
{
	union event event;
	uint32_t what;

	accepted(connect_ep());
	while (!client.rig->fake.connects) {
		cr_assert_eq(read_event(&client, &what, &event), -FI_EAGAIN);
		sched_yield();
	}
	cr_assert_eq(client.rig->fake.connects, 1);
	cr_assert_eq(client.rig->fake.sent_len, PMV_TICKET_SIZE);
}

/* raise_request -- the target's core hears of one, from there */
void raise_request(const void *data, size_t len, in_addr_t from)
{
	const struct sockaddr_in addr = {
		.sin_family = AF_INET, .sin_addr.s_addr = from, .sin_port = htons(1)};
	union event event = {.cm = {.fid = pmv_unwrap_fid(&target.pep->fid)}};
	struct fi_info *info = fi_dupinfo(client.rig->info);

	info->handle = &handle;
	info->dest_addr = malloc(sizeof(addr));
	memcpy(info->dest_addr, &addr, sizeof(addr));
	info->dest_addrlen = sizeof(addr);
	event.cm.info = info;
	if (len)
		memcpy(event.cm.data, data, len);
	fake_raise(pmv_to_eq(target.eq)->core_fid, FI_CONNREQ, &event, sizeof(event.cm) + len);
}

void raise_sent(void)
{
	raise_request(client.rig->fake.sent, client.rig->fake.sent_len, htonl(INADDR_LOOPBACK));
}

void expect_request(void)
{
	union event event;
	uint32_t what;
	ssize_t ret = read_event(&target, &what, &event);

	cr_assert_eq(ret, (ssize_t) (sizeof(event.cm) + sizeof(ASKS)), "%zd", ret);
	cr_expect_eq(what, FI_CONNREQ);
	cr_expect_str_eq((char *) event.cm.data, ASKS);
	fi_freeinfo(event.cm.info);
}

void expect_rejected(int times)
{
	union event event;
	uint32_t what;

	cr_expect_eq(read_event(&target, &what, &event), -FI_EAGAIN);
	cr_expect_eq(target.rig->fake.rejections, times);
	cr_expect_eq(target.rig->fake.rejected_len, 0);
	cr_expect(LIST_EMPTY(&target.rig->fabric.handshakes));
}

/* open_accepted -- an endpoint for the request, in the place of the rig's */
void open_accepted(void)
{
	struct rig *rig = target.rig;

	rig_close_ep(rig);
	rig->info->handle = &handle;
	rig->ep = rig_ep(rig, rig->cq);
	rig->info->handle = NULL;
	accepted(fi_ep_bind(rig->ep, &target.eq->fid, 0));
}

int accept_ep(void)
{
	open_accepted();
	return fi_accept(target.rig->ep, SAYS, sizeof(SAYS));
}

void raise_connected(const uint8_t *data, size_t len)
{
	union event event = {.cm = {.fid = pmv_unwrap_fid(&client.rig->ep->fid)}};

	if (len)
		memcpy(event.cm.data, data, len);
	fake_raise(pmv_to_eq(client.eq)->core_fid, FI_CONNECTED, &event, sizeof(event.cm) + len);
}

ssize_t post(struct stage *stage)
{
	static char buf[8];

	return fi_send(stage->rig->ep, buf, sizeof(buf), NULL, 0, NULL);
}

/* expect_error -- the client's application reads it, once, and nothing can be posted */
void expect_error(int err)
{
	struct fi_eq_err_entry entry = {0};
	union event event;
	uint32_t what;

	cr_assert_eq(fi_eq_readerr(client.eq, &entry, 0), (ssize_t) sizeof(entry));
	cr_expect_eq(entry.fid, &client.rig->ep->fid);
	cr_expect_eq(entry.err, err);
	cr_expect_eq(entry.prov_errno, FI_EACCES);
	cr_expect_eq(read_event(&client, &what, &event), -FI_EAGAIN);
	cr_expect_eq(post(&client), -FI_ENOTCONN);
	cr_expect_eq(client.rig->fake.num_posts, 0);
}

void await_error(int err)
{
	union event event;
	uint32_t what;
	ssize_t ret;

	while ((ret = read_event(&client, &what, &event)) == -FI_EAGAIN)
		sched_yield();
	cr_assert_eq(ret, -FI_EAVAIL);
	expect_error(err);
}
