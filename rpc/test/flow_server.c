/* SPDX-License-Identifier: BSD-2-Clause */
/* flow_server.c -- the server process of rpc_flow, and how the cases start and end it */
#include "rpc_flow.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static struct pmemrpc_server *server;

static void on_end(int signo)
{
	(void) signo;
	pmemrpc_server_stop(server);
}

static int handle(struct pmemrpc_request *request, void *context)
{
	uint64_t *counts, value;
	struct reply *reply = request->reply;
	size_t len;
	char one = 1;

	(void) context;
	counts = pmemrpc_memory(request->server, &len);
	memset(reply, 0, sizeof(*reply));
	request->reply_len = sizeof(*reply);
	if (request->op == COUNTERS)
		pmemrpc_server_counters(request->server, &reply->counters);
	if (request->op == END)
		pmemrpc_server_stop(request->server);
	if ((request->op == WAIT || request->op == END) &&
	    (write(flow_arrived[1], &one, 1) != 1 || read(flow_gate[0], &one, 1) != 1))
		return -EIO;
	value = request->sequence == 1 ? 1 : counts[request->client] + 1;
	reply->count = value;
	return pmemrpc_store(request, &counts[request->client], &value, sizeof(value));
}

int flow_serve(const char *numbers)
{
	struct sigaction action = {.sa_handler = on_end};
	struct pmemrpc_server_attr attr = {.path = flow_directory,
					   .service = flow_port,
					   .clients = 8,
					   .reply_max = sizeof(struct reply),
					   .effects_max = 64,
					   .memory = 4096,
					   .handler = handle};
	char error[256];
	int ret;

	sscanf(numbers, "%zu %u %u %u %u %u %u %d %d", &attr.ring, &attr.window, &attr.threads,
	       &attr.pool, &attr.throttle, &attr.rate, &attr.silence_ms, &flow_gate[0],
	       &flow_arrived[1]);
	/* Its parent may be killed, and would leave the port taken. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	ret = pmemrpc_server_open(&attr, &server, error, sizeof(error));
	if (ret)
		flow_die(error);
	sigaction(SIGTERM, &action, NULL);
	ret = pmemrpc_server_run(server);
	/* It may be told again. */
	signal(SIGTERM, SIG_IGN);
	pmemrpc_server_close(server);
	return ret ? EXIT_FAILURE : EXIT_SUCCESS;
}

void flow_start_server(void)
{
	char name[] = "rpc_flow", server_option[] = "--server", path[512], numbers[256];
	char *argv[] = {name, server_option, numbers, path, flow_port, NULL};
	extern char **environ;

	snprintf(path, sizeof(path), "%s/flow", flow_directory);
	snprintf(numbers, sizeof(numbers), "%u %u %u %u %u %u %u %d %d", flow_sizes.ring,
		 flow_sizes.window, flow_sizes.threads, flow_sizes.pool, flow_sizes.throttle,
		 flow_sizes.rate, flow_sizes.silence_ms, flow_gate[0], flow_arrived[1]);
	if (posix_spawn(&flow_server, "/proc/self/exe", NULL, NULL, argv, environ))
		flow_die("the server can't be started");
}

void flow_kill_server(void)
{
	kill(flow_server, SIGKILL);
	waitpid(flow_server, NULL, 0);
}

void flow_stop_server(void)
{
	int status;

	kill(flow_server, SIGTERM);
	flow_check(waitpid(flow_server, &status, 0) == flow_server && status == 0,
		   "the server has not ended as it should");
	flow_server = 0;
}

void flow_await_arrival(void)
{
	char one;

	flow_check(read(flow_arrived[0], &one, 1) == 1, "no call has come to the gate");
}

void flow_open_gate(unsigned int calls)
{
	while (calls--)
		flow_check(write(flow_gate[1], "", 1) == 1, "the gate does not open");
}
