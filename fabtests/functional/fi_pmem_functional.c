/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fi_pmem_functional.c -- checks that durable remote writes do what they promise
 *
 * Three kinds of processes run this program.  The server starts targets and
 * sends signals to them, and has no other part.  A target (target.c) owns the
 * memory; most cases share one, and cases that kill it, or need it to have
 * another environment, get their own.  The client, which is the initiator, runs
 * the cases and prints their results.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "functional.h"
#include "../common/stats.h"

#define MAX_CHILDREN 256

static const struct program program = {
	.name = "fi_pmem_functional",
	.summary = "Checks data and semantics of durable remote writes.\n"
		   "Anonymous memory has to be declared: FI_PMEMVERBS_DOMAIN=mhp, say.",
	.letters = "pfdsbBPMIovh",
	.operations = "run this case (may be repeated, or a comma list); list: tell the names "
		      "(default: all cases)",
};

static const struct test_case *const groups[] = {
	data_cases,        completion_cases, order_cases,   mix_cases,      error_cases,
	loss_cases,        domain_cases,     wait_cases,    sharing_cases,  agent_cases,
	agent_waits_cases, message_cases,    hostile_cases, stranger_cases, file_cases,
	event_cases,       call_cases,       chain_cases,   crowd_cases,    gone_cases,
	flush_cases,
};

/* are_for -- cases of machines that go need somebody who cuts them off */
static bool are_for(const struct test_case *group)
{
	return group != gone_cases || getenv("PMEM_GONE_CUT");
}

/* ---- the server ---- */

struct child {
	pid_t pid;
	bool was_killed; /* on the client's order */
};

struct server {
	const struct options *opts;
	int listener;
	int session;
	struct child children[MAX_CHILDREN];
	int nchildren;
};

/* set_environment -- strings NAME=VALUE, one after the other; only libfabric's names */
static void set_environment(char *strings, size_t len)
{
	char *end = strings + len;

	for (; strings < end; strings += strlen(strings) + 1) {
		if (!strncmp(strings, "FI_", 3))
			putenv(strings);
	}
}

/*
 * become_target -- the server has never called libfabric: what that finds in the
 * environment it finds now.  To run the program anew would take a second in the lab.
 */
static _Noreturn void become_target(const struct server *server, int fd, char *environment,
				    size_t len)
{
	struct options opts = *server->opts;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	set_environment(environment, len);
	close(server->listener);
	if (server->session >= 0)
		close(server->session);
	opts.target_fd = fd;
	exit(target_run(&opts) ? EXIT_FAILURE : EXIT_SUCCESS);
}

static int start_target(struct server *server, int fd, struct control_msg *msg, char *environment)
{
	size_t len = msg->len;
	pid_t pid;

	/* one place stays free: it ends the list */
	if (server->nchildren == MAX_CHILDREN - 1) {
		fprintf(stderr, "too many targets\n");
		return -1;
	}
	fflush(stdout);
	pid = fork();
	if (pid < 0) {
		perror("fork");
		return -1;
	}
	if (!pid)
		become_target(server, fd, environment, len);
	server->children[server->nchildren++].pid = pid;
	msg->arg[0] = pid;
	msg->len = 0;
	/* a client that does not wait for the answer is the session's matter */
	control_send(fd, msg, NULL);
	return 0;
}

/* greet -- a new connection says what it wants; one that does not is a stranger's */
static int greet(struct server *server)
{
	int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC);
	char environment[513] = "";
	struct control_msg msg;
	int ret = 0;

	if (fd < 0) {
		perror("accept");
		return -1;
	}
	if (control_receive(fd, &msg, environment, sizeof(environment) - 1,
			    server->opts->timeout)) {
		fprintf(stderr, "somebody has connected who is not our client\n");
	} else if (msg.command == CTL_SESSION && server->session < 0) {
		server->session = fd;
		return 0;
	} else if (msg.command == CTL_TARGET) {
		ret = start_target(server, fd, &msg, environment);
	}
	close(fd);
	return ret;
}

static int send_signal(struct server *server, struct control_msg *msg)
{
	struct child *child;

	msg->status = -1;
	for (child = server->children; child->pid; child++) {
		if (child->pid != (pid_t) msg->arg[0])
			continue;
		msg->status = kill(child->pid, (int) msg->arg[1]);
		/* On a busy machine its threads go on for a while. */
		while (msg->arg[1] == SIGSTOP && !control_is_stopped(child->pid))
			pause_ms(1);
		child->was_killed |= msg->arg[1] == SIGKILL;
	}
	return control_send(server->session, msg, NULL);
}

/* obey -- 1: the session has ended well, -1: it has not */
static int obey(struct server *server)
{
	struct control_msg msg;

	if (control_receive(server->session, &msg, NULL, 0, server->opts->timeout)) {
		fprintf(stderr, "the client has gone\n");
		return -1;
	}
	if (msg.command == CTL_SIGNAL)
		return send_signal(server, &msg);
	if (msg.command == CTL_BYE && !msg.arg[0])
		return 1;
	fprintf(stderr, "the client says that cases have failed\n");
	return -1;
}

static int serve(struct server *server)
{
	struct pollfd pfds[2] = {{.events = POLLIN}, {.events = POLLIN}};
	int wait_ms = (int) server->opts->timeout * 1000;
	int ret = 0;

	while (!ret) {
		pfds[0].fd = server->listener;
		pfds[1].fd = server->session;
		/* there is no limit to a session, only to the wait for one */
		ret = poll(pfds, 2, server->session < 0 ? wait_ms : -1);
		if (ret == 0) {
			fprintf(stderr, "no client in time\n");
			return -1;
		}
		ret = 0;
		if (pfds[0].revents)
			ret = greet(server);
		if (!ret && pfds[1].revents)
			ret = obey(server);
	}
	return ret;
}

/* await_child -- a target ends by itself when its control connection does */
static int await_child(struct child *child, uint64_t deadline)
{
	int status;
	pid_t ret;

	while ((ret = waitpid(child->pid, &status, WNOHANG)) == 0 && now_ns() < deadline)
		pause_ms(10);
	if (ret == 0) {
		fprintf(stderr, "a target (process %d) does not end\n", child->pid);
		kill(child->pid, SIGKILL);
		waitpid(child->pid, &status, 0);
		return -1;
	}
	if (!status || child->was_killed)
		return 0;
	fprintf(stderr, "a target (process %d) has ended with status %#x\n", child->pid, status);
	return -1;
}

static int await_children(struct server *server)
{
	uint64_t deadline = deadline_in(120);
	struct child *child;
	int ret = 0;

	for (child = server->children; child->pid; child++)
		ret |= await_child(child, deadline);
	return ret;
}

/* child_finds_provider -- this process stays free of libfabric, for become_target */
static bool child_finds_provider(const struct options *opts)
{
	int status = -1;
	pid_t pid = fork();

	if (!pid)
		_exit(provider_is_there(NULL, opts->provider) ? EXIT_SUCCESS : EXIT_FAILURE);
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == EXIT_SUCCESS;
}

static int run_server(const struct options *opts)
{
	struct server server = {.opts = opts, .session = -1};
	int ret;

	if (!child_finds_provider(opts))
		return -1;
	server.listener = control_listen(opts->src_addr, opts->src_port);
	if (server.listener < 0)
		return -1;
	ret = serve(&server);
	close(server.listener);
	if (await_children(&server))
		ret = -1;
	if (server.session >= 0)
		close(server.session);
	return ret == 1 ? 0 : -1;
}

/* ---- the client ---- */

static const struct test_case *find_case(const char *name)
{
	const struct test_case *test;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(groups); i++) {
		for (test = groups[i]; test->name; test++) {
			if (!strcmp(test->name, name))
				return test;
		}
	}
	return NULL;
}

static void list_cases(void)
{
	const struct test_case *test;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(groups); i++) {
		for (test = groups[i]; are_for(groups[i]) && test->name; test++)
			puts(test->name);
	}
}

/* What the watchdog has to know of the case that runs */
static struct {
	pthread_mutex_t lock;
	const char *name;
	uint64_t deadline;
} running = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void set_running(const char *name, uint64_t deadline)
{
	pthread_mutex_lock(&running.lock);
	running.name = name;
	running.deadline = deadline;
	pthread_mutex_unlock(&running.lock);
}

/*
 * watch -- cases look at the clock themselves; this is for a call into the
 * library that does not return, after which nothing can be saved
 */
static void *watch(void *arg)
{
	(void) arg;
	for (;;) {
		pause_ms(500);
		pthread_mutex_lock(&running.lock);
		if (running.name && now_ns() > running.deadline) {
			printf("not ok %s: it hangs in a call\n", running.name);
			fflush(stdout);
			_exit(EXIT_FAILURE);
		}
		pthread_mutex_unlock(&running.lock);
	}
	return NULL;
}

struct counts {
	unsigned int passed;
	unsigned int failed;
	unsigned int skipped;
};

static void print_result(struct fx *fx, const char *name, struct counts *counts)
{
	if (fx->has_failed) {
		counts->failed++;
		printf("not ok %s: %s\n", name, fx->reason);
	} else if (fx->has_skipped) {
		counts->skipped++;
		printf("skip %s: %s\n", name, fx->reason);
	} else {
		counts->passed++;
		printf("ok %s\n", name);
	}
	fflush(stdout);
}

static void close_own(struct fx *fx)
{
	unsigned int i;

	for (i = 0; i < fx->nlinks; i++)
		link_close(&fx->links[i]);
	for (i = 0; i < fx->nremotes; i++) {
		free(fx->remotes[i].shadow);
		free(fx->remotes[i].image);
	}
	for (i = 0; i < MAX_TARGETS; i++)
		target_end(&fx->own[i]);
	memset(fx->links, 0, sizeof(fx->links));
	memset(fx->remotes, 0, sizeof(fx->remotes));
	memset(fx->ops, 0, fx->nops * sizeof(*fx->ops));
	fx->nlinks = fx->nremotes = 0;
	fx->nops = 0;
}

/* renew_target -- after a case the common target has nothing open, or is replaced */
static int renew_target(struct fx *fx)
{
	struct control_msg msg = {.command = CTL_RESET};
	bool had_failed = fx->has_failed;

	if (!target_call(fx->target, &msg, NULL, 0))
		return 0;
	target_end(fx->target);
	fx->has_failed = had_failed;
	return target_start(fx, fx->target, NULL) ? 0 : -1;
}

static int run_case(struct fx *fx, const struct test_case *test, struct counts *counts)
{
	uint64_t seconds = fx->opts->timeout;
	int ret;

	fx->has_failed = fx->has_skipped = false;
	fx->deadline = deadline_in(seconds);
	set_running(test->name, deadline_in(3 * seconds));
	ret = test->run(fx);
	if (ret && !fx->has_skipped)
		failed(fx, "without a reason");
	close_own(fx);
	ret = renew_target(fx);
	set_running(NULL, 0);
	print_result(fx, test->name, counts);
	return ret;
}

static int run_selected(struct fx *fx, struct counts *counts)
{
	const struct test_case *test;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(groups); i++) {
		for (test = groups[i]; are_for(groups[i]) && test->name; test++) {
			if (options_select(fx->opts, test->name) && run_case(fx, test, counts))
				return -1;
		}
	}
	return 0;
}

/* choose_caps -- what is always needed, and the fence where the provider has one */
static void choose_caps(struct fx *fx)
{
	struct node_attr attr = {
		.caps = FI_MSG | FI_RMA | FI_RMA_PMEM,
		.threading = FI_THREAD_SAFE,
	};
	struct fi_info *info = NULL;

	fx->caps = attr.caps;
	attr.caps |= FI_FENCE;
	if (!fabric_offered(fx->opts, &attr, &info))
		fx->caps = attr.caps;
	fi_freeinfo(info);
}

static int run_session(struct fx *fx)
{
	struct control_msg msg = {.command = CTL_SESSION};
	static struct target_proc common;
	struct counts counts = {0};
	int ret;

	if (control_send(fx->session, &msg, NULL)) {
		fprintf(stderr, "the server has gone\n");
		return -1;
	}
	fx->target = target_start(fx, &common, NULL);
	ret = fx->target ? run_selected(fx, &counts) : -1;
	if (ret)
		fprintf(stderr, "no target: %s\n", fx->reason);
	target_end(&common);
	printf("%u passed, %u failed, %u skipped\n", counts.passed, counts.failed, counts.skipped);
	msg = (struct control_msg){.command = CTL_BYE, .arg = {ret || counts.failed}};
	if (control_send(fx->session, &msg, NULL)) {
		fprintf(stderr, "the server has gone\n");
		return -1;
	}
	return ret || counts.failed ? -1 : 0;
}

static int run_client(const struct options *opts)
{
	static struct fx fx = {.lock = PTHREAD_MUTEX_INITIALIZER};
	pthread_t watchdog;
	int ret;

	fx.opts = opts;
	fx.seed = opts->seed + 1;
	fx.ops = calloc(MAX_POSTED, sizeof(*fx.ops));
	if (!fx.ops || pthread_create(&watchdog, NULL, watch, NULL))
		return report("calloc or pthread_create", -FI_ENOMEM);
	fx.session = control_connect(opts->dst_addr, opts->dst_port, opts->timeout);
	if (fx.session < 0)
		return -1;
	choose_caps(&fx);
	ret = run_session(&fx);
	close(fx.session);
	pthread_cancel(watchdog);
	pthread_join(watchdog, NULL);
	free(fx.ops);
	return ret;
}

static bool selection_is_known(const struct options *opts)
{
	unsigned int i;

	for (i = 0; i < opts->nops; i++) {
		if (!find_case(opts->ops[i])) {
			fprintf(stderr, "no case '%s'; -o list tells the names\n", opts->ops[i]);
			return false;
		}
	}
	return true;
}

int main(int argc, char **argv)
{
	static struct options opts = {.iterations = 3000};
	int ret;

	if (!options_parse(&opts, &program, argc, argv))
		return opts.status;
	if (opts.nops == 1 && !strcmp(opts.ops[0], "list")) {
		list_cases();
		return EXIT_SUCCESS;
	}
	/* verbs' registration cache would grant peers every access to every region */
	setenv("FI_MR_CACHE_MAX_COUNT", "0", 1);
	signal(SIGPIPE, SIG_IGN);

	if (!selection_is_known(&opts))
		return EXIT_USAGE;
	ret = opts.dst_addr ? run_client(&opts) : run_server(&opts);
	return ret ? EXIT_FAILURE : EXIT_SUCCESS;
}
