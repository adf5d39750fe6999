/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_thread_start.c -- the agent's thread can't be started: nothing is promised then
 *
 * pthread_create and the log are replaced by the linker.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include <rdma/providers/fi_log.h>

#include "objects/cq.h"
#include "test/support/pair.h"

static bool fails;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *),
			  void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *),
			  void *arg);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *),
			  void *arg)
{
	return fails ? EAGAIN : __real_pthread_create(thread, attr, start, arg);
}

int __wrap_fi_log_enabled(const struct fi_provider *prov, enum fi_log_level level,
			  enum fi_log_subsys subsys);
void __wrap_fi_log(const struct fi_provider *prov, enum fi_log_level level,
		   enum fi_log_subsys subsys, const char *func, int line, const char *fmt, ...);

static unsigned int warnings; /* that it can't be started */

int __wrap_fi_log_enabled(const struct fi_provider *prov, enum fi_log_level level,
			  enum fi_log_subsys subsys)
{
	(void) prov, (void) subsys;
	return level == FI_LOG_WARN;
}

void __wrap_fi_log(const struct fi_provider *prov, enum fi_log_level level,
		   enum fi_log_subsys subsys, const char *func, int line, const char *fmt, ...)
{
	(void) prov, (void) level, (void) subsys, (void) line, (void) fmt;
	warnings += !strcmp(func, "pmv_agent_start");
}

static char memory[4096];

static int reg(struct rig *rig, struct fid_mr **mr)
{
	pmv_setting.domain_declared = true;
	pmv_setting.domain = PMV_DMP;
	return fi_mr_reg(rig->domain, memory, sizeof(memory), FI_REMOTE_WRITE, 0, 0, FI_PMEM, mr,
			 NULL);
}

static struct rig *open_target(void)
{
	pmv_setting.agent = PMV_AGENT_THREAD;
	return rig_open(NULL);
}

Test(start, registration_fails_where_a_peer_was_told_of_an_agent)
{
	struct rig *rig = open_target();
	struct pmv_agent *agent = &pmv_to_domain(rig->domain)->agent;
	struct fid_mr *mr;

	accepted(pmv_agent_promise(&pmv_to_ep(rig->ep)->domain->agent,
				   &pmv_to_ep(rig->ep)->mailbox.receiver));
	cr_expect_not(atomic_load(&agent->running), "there is nothing to do for it yet");
	fails = true;
	refused(reg(rig, &mr), FI_ENOMEM);
	cr_expect_eq(atomic_load(&agent->wanted), 0);
	fails = false;
	accepted(reg(rig, &mr));
	cr_expect(atomic_load(&agent->running));
	accepted(fi_close(&mr->fid));
	rig_close(rig);
}

Test(start, first_receive_fails_there_as_well)
{
	struct rig *rig = open_target();

	accepted(pmv_agent_promise(&pmv_to_ep(rig->ep)->domain->agent,
				   &pmv_to_ep(rig->ep)->mailbox.receiver));
	fails = true;
	refused(fi_recv(rig->ep, memory, 64, NULL, 0, NULL), FI_ENOMEM);
	cr_expect_eq(fake_receives(&rig->fake), 0);
	fails = false;
	accepted(fi_recv(rig->ep, memory, 64, NULL, 0, NULL));
	rig_close(rig);
}

Test(start, connecting_and_accepting_fail_where_memory_is_registered)
{
	struct rig *rig = open_target();
	struct fid_mr *mr;

	accepted(reg(rig, &mr));
	fails = true;
	refused(fi_connect(rig->ep, NULL, NULL, 0), FI_ENOMEM);
	pmv_to_ep(rig->ep)->mailbox.link.connected = true;
	refused(fi_accept(rig->ep, NULL, 0), FI_ENOMEM);
	cr_expect_eq(pmv_to_domain(rig->domain)->agent.promises, 0);
	accepted(fi_close(&mr->fid));
	rig_close(rig);
}

/* A registration that nobody will ask about needs no thread. */
Test(start, no_thread_is_needed_without_connections)
{
	struct rig *rig = open_target();
	struct fid_mr *mr;

	fails = true;
	accepted(reg(rig, &mr));
	accepted(fi_close(&mr->fid));
	rig_close(rig);
}

/* Over such a core nothing of its connection moves, unless somebody calls. */
Test(start, thread_is_there_for_a_plain_peer_where_the_core_moves_data_in_calls)
{
	for (int in_calls = 0; in_calls < 2; in_calls++) {
		struct rig *rig = open_target();
		struct pmv_agent *agent = &pmv_to_domain(rig->domain)->agent;
		struct fid_mr *mr;

		rig->core.manual_progress = in_calls;
		accepted(reg(rig, &mr));
		fails = true;
		accepted(fi_accept(rig->ep, NULL, 0));
		cr_expect_not(atomic_load(&agent->running));
		fails = false;
		accepted(fi_accept(rig->ep, NULL, 0));
		cr_expect_eq(atomic_load(&agent->running), in_calls);
		accepted(fi_close(&mr->fid));
		rig_close(rig);
	}
}

Test(start, thread_is_there_for_a_plain_peer_that_was_there_before_the_memory)
{
	struct rig *rig = open_target();
	struct pmv_agent *agent = &pmv_to_domain(rig->domain)->agent;
	struct fid_mr *mr;

	rig->core.manual_progress = true;
	accepted(fi_accept(rig->ep, NULL, 0));
	cr_expect_not(atomic_load(&agent->running));
	accepted(reg(rig, &mr));
	cr_expect(atomic_load(&agent->running));
	accepted(fi_close(&mr->fid));
	rig_close(rig);
}

/* Whoever sleeps until an acknowledgement comes looks each time whether the thread can be had. */
Test(start, failure_is_told_once)
{
	struct rig *rig = open_target();
	struct pmv_agent *agent = &pmv_to_domain(rig->domain)->agent;
	struct pmv_queue *queue = &pmv_to_cq(rig->cq)->queue;

	fails = true;
	for (int i = 0; i < 3; i++)
		cr_expect_not(pmv_agent_watch(agent, queue));
	cr_expect_eq(warnings, 1);
	fails = false;
	cr_expect(pmv_agent_watch(agent, queue));
	rig_close(rig);
}
