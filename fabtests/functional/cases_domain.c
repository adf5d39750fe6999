/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cases_domain.c -- what the target declares of its memory decides whether a
 * commit can be made
 */
#include <stdlib.h>

#include <rdma/fi_ext_pmemverbs.h>

#include "functional.h"

#define ACCESS (FI_REMOTE_WRITE | FI_REMOTE_READ)

/* declared -- a region of a target that declares this of its memory */
static struct remote *declared(struct fx *fx, const char *const *environment, uint64_t access,
			       struct link **link)
{
	struct target_attr attr = {.environment = environment};
	struct target_proc *target;

	if (!is_pmemverbs(fx)) {
		skipped(fx, "declarations are pmemverbs' own");
		return NULL;
	}
	target = fx_target(fx, &attr);
	*link = target ? fx_link(fx, target, NULL) : NULL;
	/* Device DAX is refused then. */
	if (*link && !target->can_sync && !strcmp(*environment, "FI_PMEMVERBS_DOMAIN=page")) {
		skipped(fx, "the target's memory has no msync");
		return NULL;
	}
	return *link ? fx_remote(fx, target, 65536, access, FI_RMA_PMEM) : NULL;
}

/* plain_works -- what a region is good for that can't be committed to */
static int plain_works(struct fx *fx, struct link *link, struct remote *remote)
{
	unsigned char *buf = source(link, 500, 0, 0);
	struct op *op;

	return plain_at(link, PLAIN_WRITE, remote, 1000, 500, NULL) ||
			       read_at(link, remote, 1000, 500, buf, &op) || await(link, op) ||
			       expect(fx, pattern_check(buf, 500, 0, 0) != 500,
				      "the read has not read") ||
			       remote_same(fx, remote)
		       ? -1
		       : 0;
}

static int refused(struct fx *fx, struct link *link, struct remote *remote, uint64_t flags)
{
	struct write write = {.remote = remote, .len = 64, .flags = COMMIT | flags};
	struct op *op;
	ssize_t ret = post_write(link, &write, &op);

	return expect(fx, ret == -FI_EOPNOTSUPP, "a commit that nothing can make durable: %s",
		      fi_strerror((int) -ret)) ||
			       linger(link, 20) || remote_same(fx, remote)
		       ? -1
		       : 0;
}

/* is_flushed -- without an agent: by RDMA FLUSH (cases_flush.c) */
static bool is_flushed(struct fx *fx, const struct fi_pmemverbs_region *region)
{
	return region->method == FI_PMEMVERBS_FLUSH && skipped(fx, "RDMA FLUSH needs no agent");
}

static int must_refuse(struct fx *fx, const char *const *environment)
{
	struct fi_pmemverbs_region region;
	struct remote *remote;
	struct link *link;

	remote = declared(fx, environment, ACCESS, &link);
	if (!remote || query_key(fx, link, remote->key, &region) || is_flushed(fx, &region) ||
	    expect(fx, region.method == FI_PMEMVERBS_REFUSED, "query_key tells of method %d",
		   region.method))
		return -1;
	return plain_works(fx, link, remote) || refused(fx, link, remote, 0) ||
			       refused(fx, link, remote, FI_FENCE) ||
			       refused(fx, link, remote, FI_REMOTE_CQ_DATA) ||
			       refused(fx, link, remote, FI_INJECT) || plain_works(fx, link, remote)
		       ? -1
		       : 0;
}

static int must_commit_to(struct fx *fx, struct link *link, struct remote *remote,
			  enum fi_pmemverbs_domain domain, bool agent)
{
	struct fi_pmemverbs_region region;
	size_t i;

	if (query_key(fx, link, remote->key, &region) ||
	    expect(fx, region.domain == domain, "query_key tells of domain %d", region.domain) ||
	    expect(fx, region.pmem, "query_key tells of no FI_RMA_PMEM") ||
	    expect(fx, region.method != FI_PMEMVERBS_REFUSED, "query_key says that it can't") ||
	    expect(fx,
		   (region.method == FI_PMEMVERBS_AGENT || region.method == FI_PMEMVERBS_FLUSH) ==
			   agent,
		   "query_key tells of method %d", region.method))
		return -1;
	for (i = 0; i < 20; i++) {
		if (plain_at(link, PLAIN_WRITE, remote, 30000 + i * 100, 100, NULL) ||
		    commit(link, remote, i * 1000, 999, i % 2 ? FI_FENCE : 0) ||
		    remote_same(fx, remote))
			return -1;
	}
	return 0;
}

static int must_commit(struct fx *fx, const char *const *environment,
		       enum fi_pmemverbs_domain domain, bool agent)
{
	struct link *link;
	struct remote *remote = declared(fx, environment, ACCESS, &link);

	return remote ? must_commit_to(fx, link, remote, domain, agent) : -1;
}

static int declared_page(struct fx *fx)
{
	static const char *const environment[] = {"FI_PMEMVERBS_DOMAIN=page",
						  "FI_PMEMVERBS_AGENT=thread", NULL};

	return must_commit(fx, environment, FI_PMEMVERBS_PAGE, true);
}

static int declared_page_agent_off(struct fx *fx)
{
	static const char *const environment[] = {"FI_PMEMVERBS_DOMAIN=page",
						  "FI_PMEMVERBS_AGENT=off", NULL};

	return must_refuse(fx, environment);
}

/* The target goes on reading its completion queue, as applications do */
static int declared_page_agent_progress(struct fx *fx)
{
	static const char *const environment[] = {"FI_PMEMVERBS_DOMAIN=page",
						  "FI_PMEMVERBS_AGENT=progress", NULL};

	return must_commit(fx, environment, FI_PMEMVERBS_PAGE, true);
}

static int declared_dmp_ddio_on(struct fx *fx)
{
	static const char *const environment[] = {"FI_PMEMVERBS_DOMAIN=dmp", "FI_PMEMVERBS_DDIO=on",
						  "FI_PMEMVERBS_AGENT=thread", NULL};

	return must_commit(fx, environment, FI_PMEMVERBS_DMP, true);
}

static int declared_dmp_agent_off(struct fx *fx)
{
	static const char *const environment[] = {"FI_PMEMVERBS_DOMAIN=dmp", "FI_PMEMVERBS_DDIO=on",
						  "FI_PMEMVERBS_AGENT=off", NULL};

	return must_refuse(fx, environment);
}

static int declared_dmp_agent_progress(struct fx *fx)
{
	static const char *const environment[] = {"FI_PMEMVERBS_DOMAIN=dmp", "FI_PMEMVERBS_DDIO=on",
						  "FI_PMEMVERBS_AGENT=progress", NULL};

	return must_commit(fx, environment, FI_PMEMVERBS_DMP, true);
}

/* Soft RNICs and tcp write through the caches, unless declared to do otherwise */
static int declared_dmp_ddio_auto(struct fx *fx)
{
	static const char *const environment[] = {"FI_PMEMVERBS_DOMAIN=dmp",
						  "FI_PMEMVERBS_DDIO=auto",
						  "FI_PMEMVERBS_AGENT=thread", NULL};

	return must_commit(fx, environment, FI_PMEMVERBS_DMP, true);
}

static int declared_dmp_ddio_off(struct fx *fx)
{
	static const char *const environment[] = {"FI_PMEMVERBS_DOMAIN=dmp",
						  "FI_PMEMVERBS_DDIO=off", NULL};

	return must_commit(fx, environment, FI_PMEMVERBS_DMP, false);
}

static int declared_mhp(struct fx *fx)
{
	static const char *const environment[] = {"FI_PMEMVERBS_DOMAIN=mhp", NULL};

	return must_commit(fx, environment, FI_PMEMVERBS_MHP, false);
}

static int declared_wsp(struct fx *fx)
{
	static const char *const environment[] = {"FI_PMEMVERBS_DOMAIN=wsp", NULL};

	return must_commit(fx, environment, FI_PMEMVERBS_WSP, false);
}

static int declared_none(struct fx *fx)
{
	static const char *const environment[] = {"FI_PMEMVERBS_DOMAIN=none", NULL};

	return must_commit(fx, environment, FI_PMEMVERBS_NONE, false);
}

/* With relaxed ordering a READ proves nothing of writes elsewhere: the agent is needed */
static int declared_relaxed(struct fx *fx)
{
	static const char *const environment[] = {"FI_PMEMVERBS_DOMAIN=mhp",
						  "FI_PMEMVERBS_ORDERING=relaxed",
						  "FI_PMEMVERBS_AGENT=thread", NULL};

	return must_commit(fx, environment, FI_PMEMVERBS_MHP, true);
}

static int declared_relaxed_agent_off(struct fx *fx)
{
	static const char *const environment[] = {"FI_PMEMVERBS_DOMAIN=mhp",
						  "FI_PMEMVERBS_ORDERING=relaxed",
						  "FI_PMEMVERBS_AGENT=off", NULL};

	return must_refuse(fx, environment);
}

/* must_not_read -- which ends the connection */
static int must_not_read(struct fx *fx, struct link *link, struct remote *remote)
{
	unsigned char *buf = source(link, 500, 0, 0);
	struct op *op;

	return read_at(link, remote, 1000, 500, buf, &op) || await_error(link, op) ||
			       expect(fx, pattern_check(buf, 500, 0, 0) == 500,
				      "a peer has read what it must not")
		       ? -1
		       : 0;
}

/* Nobody may read it, so no READ flushes it: the agent makes it durable */
static int must_keep_secret(struct fx *fx, const char *const *environment,
			    enum fi_pmemverbs_domain domain)
{
	struct link *link;
	struct remote *remote = declared(fx, environment, FI_REMOTE_WRITE, &link);

	return remote && !must_commit_to(fx, link, remote, domain, true) &&
			       !must_not_read(fx, link, remote)
		       ? 0
		       : -1;
}

static int declared_unread_mhp(struct fx *fx)
{
	static const char *const environment[] = {"FI_PMEMVERBS_DOMAIN=mhp",
						  "FI_PMEMVERBS_REMOTE_READ=explicit",
						  "FI_PMEMVERBS_AGENT=thread", NULL};

	return must_keep_secret(fx, environment, FI_PMEMVERBS_MHP);
}

static int declared_unread_dmp(struct fx *fx)
{
	static const char *const environment[] = {
		"FI_PMEMVERBS_DOMAIN=dmp", "FI_PMEMVERBS_DDIO=off",
		"FI_PMEMVERBS_REMOTE_READ=explicit", "FI_PMEMVERBS_AGENT=thread", NULL};

	return must_keep_secret(fx, environment, FI_PMEMVERBS_DMP);
}

static int declared_unread_agent_off(struct fx *fx)
{
	static const char *const environment[] = {"FI_PMEMVERBS_DOMAIN=mhp",
						  "FI_PMEMVERBS_REMOTE_READ=explicit",
						  "FI_PMEMVERBS_AGENT=off", NULL};
	struct link *link;
	struct remote *remote = declared(fx, environment, FI_REMOTE_WRITE, &link);

	return remote && !refused(fx, link, remote, 0) && !refused(fx, link, remote, FI_FENCE) &&
			       !refused(fx, link, remote, FI_INJECT) &&
			       !must_not_read(fx, link, remote)
		       ? 0
		       : -1;
}

/* Who says that it may be read has what there is without the setting */
static int declared_read(struct fx *fx)
{
	static const char *const environment[] = {"FI_PMEMVERBS_DOMAIN=mhp",
						  "FI_PMEMVERBS_REMOTE_READ=explicit", NULL};

	return must_commit(fx, environment, FI_PMEMVERBS_MHP, false);
}

/* Memory of which nothing is known and nothing declared is not persistent */
static int undeclared_anonymous(struct fx *fx)
{
	static const char *const environment[] = {"FI_PMEMVERBS_DOMAIN=auto", NULL};
	struct target_attr attr = {.environment = environment};
	struct target_proc *target;
	struct remote remote = {0};
	int ret;

	if (!is_pmemverbs(fx))
		return skipped(fx, "other providers don't look");
	target = fx_target(fx, &attr);
	if (!target || !fx_link(fx, target, NULL))
		return -1;
	if (target->has_file)
		return skipped(fx, "the target's memory is not anonymous");
	ret = remote_try(target, &remote, 4096, FI_REMOTE_WRITE, FI_RMA_PMEM, 0, 1);
	free(remote.shadow);
	free(remote.image);
	return expect(fx, ret < 0, "anonymous memory was registered as persistent");
}

const struct test_case domain_cases[] = {
	{"declared_page", declared_page},
	{"declared_page_agent_off", declared_page_agent_off},
	{"declared_page_agent_progress", declared_page_agent_progress},
	{"declared_dmp_ddio_on", declared_dmp_ddio_on},
	{"declared_dmp_agent_off", declared_dmp_agent_off},
	{"declared_dmp_agent_progress", declared_dmp_agent_progress},
	{"declared_dmp_ddio_auto", declared_dmp_ddio_auto},
	{"declared_dmp_ddio_off", declared_dmp_ddio_off},
	{"declared_mhp", declared_mhp},
	{"declared_wsp", declared_wsp},
	{"declared_none", declared_none},
	{"declared_unread_mhp", declared_unread_mhp},
	{"declared_unread_dmp", declared_unread_dmp},
	{"declared_unread_agent_off", declared_unread_agent_off},
	{"declared_read", declared_read},
	{"declared_relaxed", declared_relaxed},
	{"declared_relaxed_agent_off", declared_relaxed_agent_off},
	{"undeclared_anonymous", undeclared_anonymous},
	{NULL, NULL},
};
