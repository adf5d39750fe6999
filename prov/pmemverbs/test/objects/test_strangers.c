/* SPDX-License-Identifier: BSD-2-Clause */
/* test_strangers.c -- who connects and asks for nothing, when few descriptors are left */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "objects/strangers.h"
#include "test/support/rig.h"
#include "test/support/tcp_silence.h"

#define MOST 160

int __wrap_nanosleep(const struct timespec *time, struct timespec *left);

static int pauses;

int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
	(void) time;
	(void) left;
	pauses++;
	return 0;
}

int __real_socket(int domain, int type, int protocol);
int __wrap_socket(int domain, int type, int protocol);

static int socket_error; /* of the kernel; 0: none */

int __wrap_socket(int domain, int type, int protocol)
{
	errno = socket_error;
	return socket_error ? -1 : __real_socket(domain, type, protocol);
}

/* A queue with a listener of our own making, and one connection to that. */
struct target {
	struct rig *rig;
	struct fid_eq *eq;
	struct fid_pep *pep;
	int peer;
};

static void listen_there(struct target *target)
{
	struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(own);
	struct fi_info *info;

	cr_assert_eq(bind(fd, (struct sockaddr *) &own, len), 0);
	cr_assert_eq(getsockname(fd, (struct sockaddr *) &own, &len), 0);
	cr_assert_eq(listen(fd, 1), 0);
	target->peer = socket(AF_INET, SOCK_STREAM, 0);
	cr_assert_eq(connect(target->peer, (struct sockaddr *) &own, len), 0);
	cr_assert_geq(accept(fd, NULL, NULL), 0);
	info = fi_dupinfo(target->rig->info);
	free(info->src_addr);
	info->src_addr = malloc(sizeof(own));
	info->src_addrlen = sizeof(own);
	memcpy(info->src_addr, &own, sizeof(own));
	accepted(pmv_pep_open(&target->rig->fabric.fabric_fid, info, &target->pep, NULL));
	fi_freeinfo(info);
	LIST_INSERT_HEAD(&pmv_to_eq(target->eq)->listeners, pmv_to_pep(&target->pep->fid),
			 next_of_eq);
	pmv_to_pep(&target->pep->fid)->listens = true;
}

static void begin(struct target *target)
{
	const struct rlimit limit = {MOST, MOST};
	struct fi_eq_attr attr = {.size = 8};

	target->rig = rig_open(NULL);
	accepted(pmv_eq_open(&target->rig->fabric.fabric_fid, &attr, &target->eq, NULL));
	listen_there(target);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void end(struct target *target)
{
	accepted(fi_close(&target->pep->fid));
	accepted(fi_close(&target->eq->fid));
	rig_close(target->rig);
}

static void use_descriptors(int count)
{
	while (open("/", O_PATH) < count - 1)
		;
}

/* has_ended -- when the connection has been silent for so long, and somebody has looked */
static bool has_ended(struct target *target, uint32_t ms)
{
	char byte;

	silent_ms = ms;
	pmv_to_eq(target->eq)->next_look_ms = 0;
	pmv_strangers_look(pmv_to_eq(target->eq));
	return recv(target->peer, &byte, 1, MSG_DONTWAIT) == 0;
}

Test(strangers, end_sooner_the_fewer_descriptors_are_left)
{
	struct target target;

	begin(&target);
	use_descriptors(MOST * 3 / 4 - 1);
	cr_expect_not(has_ended(&target, 60000), "there is room");
	use_descriptors(MOST * 3 / 4);
	cr_expect_not(has_ended(&target, 9999), "it may be slow");
	use_descriptors(MOST - MOST / 16 - 1);
	cr_expect_not(has_ended(&target, 9999));
	use_descriptors(MOST - MOST / 16);
	cr_expect_not(has_ended(&target, 999));
	cr_expect(has_ended(&target, 1000));
	end(&target);
}

Test(strangers, end_though_the_target_has_as_many_endpoints_as_it_wants)
{
	struct target target;

	begin(&target);
	use_descriptors(MOST * 3 / 4);
	cr_expect(has_ended(&target, 10000));
	end(&target);
}

Test(strangers, end_when_no_descriptor_is_left)
{
	struct target target;

	begin(&target);
	use_descriptors(MOST);
	cr_expect(has_ended(&target, 1000));
	end(&target);
}

/* Whoever waits for the queue's descriptor would be told again and again of who can't be accepted.
 */
Test(strangers, are_not_waited_for_without_a_rest_while_no_descriptor_is_left)
{
	struct target target;
	struct pmv_eq *eq;

	begin(&target);
	eq = pmv_to_eq(target.eq);
	cr_expect_eq(pmv_eq_trywait(eq), 0);
	use_descriptors(MOST);
	eq->next_count_ms = INT64_MAX;
	cr_expect_eq(pmv_eq_trywait(eq), 0);
	cr_expect_eq(pauses, 0, "the descriptors have just been counted");
	eq->next_count_ms = 0;
	for (int i = 1; i <= 3; i++) {
		cr_expect_eq(pmv_eq_trywait(eq), 0);
		cr_expect_eq(pauses, i);
	}
	close(MOST - 1);
	cr_expect_eq(pmv_eq_trywait(eq), 0);
	cr_expect_eq(pauses, 3);
	end(&target);
}

/* accept, too, fails for lack of what all processes share; a file could still be opened. */
Test(strangers, are_not_waited_for_without_a_rest_while_the_system_has_no_socket_left)
{
	static const int shortages[] = {ENFILE, ENOBUFS, ENOMEM};
	struct target target;
	struct pmv_eq *eq;

	begin(&target);
	eq = pmv_to_eq(target.eq);
	for (size_t i = 0; i < sizeof(shortages) / sizeof(*shortages); i++) {
		pauses = 0;
		eq->next_count_ms = 0;
		socket_error = shortages[i];
		cr_expect_eq(pmv_eq_trywait(eq), 0);
		cr_expect_eq(pauses, 1, "%s", strerror(shortages[i]));
		socket_error = 0;
		cr_expect_eq(pmv_eq_trywait(eq), 0);
		cr_expect_eq(pauses, 1);
	}
	/* Where that kind of socket is forbidden, a file tells. */
	eq->next_count_ms = 0;
	socket_error = EAFNOSUPPORT;
	cr_expect_eq(pmv_eq_trywait(eq), 0);
	cr_expect_eq(pauses, 1);
	use_descriptors(MOST);
	cr_expect(has_ended(&target, 1000));
	socket_error = 0;
	end(&target);
}
