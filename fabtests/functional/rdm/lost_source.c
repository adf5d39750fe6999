/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lost_source.c -- what FI_EP_RDM does with data to be sent whose memory is lost
 *
 * Zeros in its place would arrive, and be durable.  So each call that copies the data ends in
 * SIGBUS, as it would without the provider.  Memory that peers write to is another matter: see
 * memory/guard.h.  Every call is made by a process of its own, which writes to itself.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_tagged.h>

#include "rdm_functional.h"

#define LEN 8
#define GOT_SIGBUS 7

bool commit_all;

static struct side side;
static struct fid_mr *mr;
static fi_addr_t self;
static char *lost, *there; /* pages of one region */
static void *desc;
static uint64_t key, addr; /* of `there` */
static struct fi_context2 context;

static ssize_t msg_send(void)
{
	return fi_send(side.ep, lost, LEN, desc, self, &context);
}

static ssize_t msg_sendv(void)
{
	const struct iovec iov = {lost, LEN};

	return fi_sendv(side.ep, &iov, &desc, 1, self, &context);
}

static ssize_t msg_sendmsg(void)
{
	const struct iovec iov = {lost, LEN};
	const struct fi_msg msg = {&iov, &desc, 1, self, &context, 0};

	return fi_sendmsg(side.ep, &msg, 0);
}

static ssize_t msg_inject(void)
{
	return fi_inject(side.ep, lost, LEN, self);
}

static ssize_t msg_senddata(void)
{
	return fi_senddata(side.ep, lost, LEN, desc, 1, self, &context);
}

static ssize_t msg_injectdata(void)
{
	return fi_injectdata(side.ep, lost, LEN, 1, self);
}

static ssize_t tagged_send(void)
{
	return fi_tsend(side.ep, lost, LEN, desc, self, 1, &context);
}

static ssize_t tagged_sendv(void)
{
	const struct iovec iov = {lost, LEN};

	return fi_tsendv(side.ep, &iov, &desc, 1, self, 1, &context);
}

static ssize_t tagged_sendmsg(void)
{
	const struct iovec iov = {lost, LEN};
	const struct fi_msg_tagged msg = {&iov, &desc, 1, self, 1, 0, &context, 0};

	return fi_tsendmsg(side.ep, &msg, 0);
}

static ssize_t tagged_inject(void)
{
	return fi_tinject(side.ep, lost, LEN, self, 1);
}

static ssize_t tagged_senddata(void)
{
	return fi_tsenddata(side.ep, lost, LEN, desc, 1, self, 1, &context);
}

static ssize_t tagged_injectdata(void)
{
	return fi_tinjectdata(side.ep, lost, LEN, 1, self, 1);
}

/* Its data travel in the request to the agent. */
static ssize_t rma_commit(void)
{
	const struct iovec iov = {lost, LEN};
	const struct fi_rma_iov to = {addr, LEN, key};
	const struct fi_msg_rma msg = {&iov, &desc, 1, self, &to, 1, &context, 0};

	return fi_writemsg(side.ep, &msg, FI_COMMIT_COMPLETE);
}

static ssize_t rma_inject_commit(void)
{
	const struct iovec iov = {lost, LEN};
	const struct fi_rma_iov to = {addr, LEN, key};
	const struct fi_msg_rma msg = {&iov, &desc, 1, self, &to, 1, &context, 0};

	return fi_writemsg(side.ep, &msg, FI_INJECT | FI_COMMIT_COMPLETE);
}

static ssize_t rma_inject(void)
{
	return fi_inject_write(side.ep, lost, LEN, self, addr, key);
}

static ssize_t rma_injectdata(void)
{
	return fi_inject_writedata(side.ep, lost, LEN, 1, self, addr, key);
}

static ssize_t atomic_sum(void)
{
	return fi_atomic(side.ep, lost, 1, desc, self, addr, key, FI_UINT64, FI_SUM, &context);
}

static ssize_t atomic_fetch(void)
{
	return fi_fetch_atomic(side.ep, lost, 1, desc, there, desc, self, addr, key, FI_UINT64,
			       FI_SUM, &context);
}

static ssize_t atomic_operand(void)
{
	return fi_compare_atomic(side.ep, lost, 1, desc, there, desc, there, desc, self, addr, key,
				 FI_UINT64, FI_CSWAP, &context);
}

static ssize_t atomic_compare(void)
{
	return fi_compare_atomic(side.ep, there, 1, desc, lost, desc, there, desc, self, addr, key,
				 FI_UINT64, FI_CSWAP, &context);
}

#define CALL(name)                                                                                 \
	{                                                                                          \
#name, name                                                                        \
	}

static const struct {
	const char *name;
	ssize_t (*post)(void);
} calls[] = {
	CALL(msg_send),       CALL(msg_sendv),         CALL(msg_sendmsg),
	CALL(msg_inject),     CALL(msg_senddata),      CALL(msg_injectdata),
	CALL(tagged_send),    CALL(tagged_sendv),      CALL(tagged_sendmsg),
	CALL(tagged_inject),  CALL(tagged_senddata),   CALL(tagged_injectdata),
	CALL(rma_commit),     CALL(rma_inject_commit), CALL(rma_inject),
	CALL(rma_injectdata), CALL(atomic_sum),        CALL(atomic_fetch),
	CALL(atomic_operand), CALL(atomic_compare),
};

static void on_sigbus(int signo)
{
	(void) signo;
	_exit(GOT_SIGBUS);
}

/* map -- three pages: what is written to, and behind a page between them what is going to be lost
 */
static int map(size_t page)
{
	int fd = memfd_create("source", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, 2 * (off_t) page))
		return -1;
	there = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (there == MAP_FAILED)
		return -1;
	lost = there + page;
	memset(there, 'S', 2 * page);
	return fd;
}

/* be_sender -- the exit status */
static int be_sender(size_t call)
{
	const struct options opts = {0};
	const struct settings settings = {MAP};
	size_t page = (size_t) sysconf(_SC_PAGESIZE), len;
	char name[128], receive[64];
	ssize_t ret;
	int fd = map(page);

	/* Before the provider has its handler. */
	signal(SIGBUS, on_sigbus);
	if (fd < 0 || open_side(&side, &opts, &settings, "127.0.0.1", FI_SOURCE) ||
	    side_register(&side, there, 2 * page,
			  FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE,
			  FI_RMA_PMEM, &mr))
		return 1;
	desc = fi_mr_desc(mr);
	key = fi_mr_key(mr);
	addr = (side.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) ? (uintptr_t) there : 0;
	len = sizeof(name);
	DO(fi_getname(&side.ep->fid, name, &len));
	if (fi_av_insert(side.av, name, 1, &self, 0, NULL) != 1)
		return 1;
	/* Connected, nothing is left but the data to be read. */
	DO(fi_recv(side.ep, receive, sizeof(receive), NULL, FI_ADDR_UNSPEC, &context));
	while ((ret = fi_inject(side.ep, there, LEN, self)) == -FI_EAGAIN)
		fi_cq_read(side.cq, NULL, 0);
	if (ret)
		return report("fi_inject", (int) ret);
	if (ftruncate(fd, (off_t) page))
		return 1;
	while ((ret = calls[call].post()) == -FI_EAGAIN)
		fi_cq_read(side.cq, NULL, 0);
	printf("not ok %s - returned %s\n", calls[call].name, fi_strerror((int) -ret));
	return 1;
}

int main(void)
{
	int failed = 0;

	for (size_t call = 0; call < sizeof(calls) / sizeof(calls[0]); call++) {
		int status;
		pid_t pid;

		fflush(stdout);
		pid = fork();
		if (!pid)
			exit(be_sender(call));
		if (pid < 0 || waitpid(pid, &status, 0) != pid) {
			perror("rdm_lost_source");
			return 1;
		}
		if (WIFEXITED(status) && WEXITSTATUS(status) == GOT_SIGBUS)
			printf("ok %s\n", calls[call].name);
		else
			failed++;
	}
	return failed > 0;
}
