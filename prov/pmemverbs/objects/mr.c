/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mr.c -- memory registration: the attributes of the memory become part of the key
 *
 * A flush is a READ of the region, so peers that may write a region must be able to read
 * it.  That holds for regions with FI_PMEM, and in domains opened with FI_RMA_PMEM for all
 * regions, since a commit to volatile memory is a flush, too.  With
 * FI_PMEMVERBS_REMOTE_READ=explicit only the application lets them: the key says that nobody may
 * read, and then the agent makes it durable.
 *
 * The local descriptor is the core's, so the application's can be handed to the core.
 */
#include "objects/domain.h"

#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "agent/flush.h"
#include "base/log.h"
#include "base/setting.h"
#include "commit/plan.h"
#include "engine/length.h"
#include "memory/direct.h"
#include "memory/file.h"
#include "memory/guard.h"
#include "memory/detect.h"
#include "objects/cntr.h"
#include "objects/unwrap.h"

static int mr_close(struct fid *fid)
{
	struct pmv_mr *mr = pmv_container_of(fid, struct pmv_mr, mr_fid.fid);
	int ret;

	/* First: the agent uses the memory, which may be unmapped once this returns. */
	if (mr->region)
		pmv_agent_remove_region(&mr->domain->agent, mr->region);
	mr->region = NULL;
	ret = mr->core_fid ? fi_close(&mr->core_fid->fid) : 0;
	if (ret)
		return ret;
	if (mr->cntr)
		atomic_fetch_sub(&mr->cntr->users, 1);
	/* Until here the core may have used the memory. */
	pmv_guard_remove(mr->watch);
	pmv_files_close(mr->files);
	if (mr->direct)
		pmv_direct_put(mr->direct);
	atomic_fetch_sub(&mr->domain->users, 1);
	free(mr);
	return 0;
}

/* bind_cntr -- at any time: operations count of which the agent is told from now on */
static int bind_cntr(struct pmv_mr *mr, struct pmv_cntr *cntr, uint64_t flags)
{
	struct pmv_attr attr;

	if (!mr->domain->events) {
		PMV_WARN(MR, "peers' writes can't be counted: open the domain with FI_RMA_EVENT\n");
		return -FI_ENOSYS;
	}
	if (flags != FI_REMOTE_WRITE || mr->cntr || !mr->region ||
	    !pmv_key_unpack(mr->mr_fid.key, &attr) || !attr.events) {
		PMV_WARN(MR, "a region that was registered with FI_REMOTE_WRITE can have one "
			     "counter, for FI_REMOTE_WRITE\n");
		return -FI_EINVAL;
	}
	atomic_fetch_add(&cntr->users, 1);
	mr->cntr = cntr;
	atomic_store(&mr->region->remote_writes, &cntr->count);
	return 0;
}

static int mr_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct pmv_mr *mr = pmv_container_of(fid, struct pmv_mr, mr_fid.fid);
	struct fid *core_fid = pmv_unwrap_fid(bfid);

	if (bfid->fclass == FI_CLASS_CNTR)
		return bfid->ops == &pmv_cntr_fi_ops
			       ? bind_cntr(mr,
					   pmv_container_of(bfid, struct pmv_cntr, cntr_fid.fid),
					   flags)
			       : -FI_EINVAL;
	return core_fid ? fi_mr_bind(mr->core_fid, core_fid, flags) : -FI_EINVAL;
}

/* mr_control -- applications may enable a region that they have bound a counter to */
static int mr_control(struct fid *fid, int command, void *arg)
{
	struct pmv_mr *mr = pmv_container_of(fid, struct pmv_mr, mr_fid.fid);

	if (command == FI_ENABLE && mr->domain->events)
		return 0;
	return pmv_unwrap_control(fid, command, arg);
}

struct fi_ops pmv_mr_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = mr_close,
	.bind = mr_bind,
	.control = mr_control,
};

bool pmv_mr_kind(const struct pmv_domain *domain, struct fid_mr *mr_fid, struct pmv_attr *attr)
{
	struct pmv_mr *mr = pmv_container_of(mr_fid, struct pmv_mr, mr_fid);

	return mr_fid->fid.ops == &pmv_mr_fi_ops && mr->domain == domain && mr->region &&
	       (mr->region->attr.use & PMV_REGION_PMEM) && pmv_key_unpack(mr_fid->key, attr);
}

/* is_nameless -- a file in memory without a name */
static bool is_nameless(const struct pmv_mem *mem)
{
	return mem->backing == PMV_VOLATILE_FS && mem->unnamed;
}

/* detect -- what one of its parts is */
static int detect(const struct fi_mr_attr *mr_attr, size_t part, struct pmv_mem *mem)
{
	return pmv_detect(mr_attr->mr_iov[part].iov_base, mr_attr->mr_iov[part].iov_len, mem);
}

/* check_declared -- a declaration is trusted, but if it promises more than was detected, tell */
static int check_declared(const struct fi_mr_attr *mr_attr)
{
	bool told = false;
	struct pmv_mem mem;

	for (size_t i = 0; i < mr_attr->iov_count && pmv_setting.domain != PMV_NONE; i++) {
		int ret = detect(mr_attr, i, &mem);

		if (pmv_setting.domain == PMV_PAGE && mem.backing == PMV_DEVDAX) {
			PMV_WARN(MR, "FI_PMEMVERBS_DOMAIN=page: device DAX has no pages to sync\n");
			return -FI_EINVAL;
		}
		/* A library's own file is not meant by the declaration: is_found_pmem. */
		if (told || (!ret && mem.persist >= pmv_setting.domain) ||
		    (pmv_setting.commit_all && is_nameless(&mem)))
			continue;
		PMV_ALERT(MR,
			  "FI_PMEMVERBS_DOMAIN declares %s for memory where %s%s was detected "
			  "(%s); if that is not true, committed data is lost in a power failure\n",
			  pmv_setting_domain_name(pmv_setting.domain),
			  ret ? "nothing persistent" : "",
			  ret ? "" : pmv_setting_domain_name(mem.persist), mem.what);
		told = true;
	}
	return 0;
}

static int refuse(const struct iovec *iov, const struct pmv_mem *mem, int err)
{
	PMV_WARN(MR, "FI_RMA_PMEM refused for %p, %zu bytes: %s\n", iov->iov_base, iov->iov_len,
		 mem->what);
	return err;
}

/* find_persist -- the weakest domain among the parts of a region */
static int find_persist(const struct fi_mr_attr *mr_attr, enum pmv_persist *persist, int *node)
{
	struct pmv_mem mem;

	if (pmv_setting.domain_declared) {
		*persist = pmv_setting.domain;
		return check_declared(mr_attr);
	}
	*persist = PMV_WSP;
	for (size_t i = 0; i < mr_attr->iov_count; i++) {
		const struct iovec *iov = &mr_attr->mr_iov[i];
		int ret = detect(mr_attr, i, &mem);

		if (ret)
			return refuse(iov, &mem, ret);
		PMV_INFO(MR, "FI_RMA_PMEM region %p, %zu bytes: %s, %s\n", iov->iov_base,
			 iov->iov_len, pmv_setting_domain_name(mem.persist), mem.what);
		if (mem.persist < *persist)
			*persist = mem.persist;
		*node = mem.numa_node;
	}
	return 0;
}

/* not_found -- a warning, and false */
static bool not_found(const struct iovec *iov, const struct pmv_mem *mem)
{
	if (!is_nameless(mem))
		PMV_ALERT(MR,
			  "FI_PMEMVERBS_COMMIT=all does not make writes to %p, %zu bytes, durable: "
			  "%s\n",
			  iov->iov_base, iov->iov_len, mem->what);
	return false;
}

/*
 * is_found_pmem -- is it persistent memory although its owner did not say so?  Memory
 * without a file is private to the program, even if a declaration makes all FI_PMEM memory
 * persistent.  A file that is not durable deserves a warning, unless it lies in memory and
 * has no name: libraries create such files for themselves.
 */
static bool is_found_pmem(const struct fi_mr_attr *mr_attr)
{
	enum pmv_persist persist = PMV_WSP;
	struct pmv_files *files;
	struct pmv_mem mem;

	for (size_t i = 0; i < mr_attr->iov_count; i++) {
		int ret = detect(mr_attr, i, &mem);

		if (mem.backing == PMV_ANON || mem.backing == PMV_PRIVATE)
			return false;
		if (ret && !pmv_setting.domain_declared)
			return not_found(&mr_attr->mr_iov[i], &mem);
		if (mem.persist < persist)
			persist = mem.persist;
	}
	if (pmv_setting.domain_declared)
		return true;
	/* A program that asked for FI_PMEM would be refused. */
	if (pmv_files_open(mr_attr->mr_iov, mr_attr->iov_count, persist, false, &files, &mem))
		return not_found(mr_attr->mr_iov, &mem);
	pmv_files_close(files);
	return true;
}

/*
 * lands_in_cache -- inbound data that software places are in the caches, whatever the I/O
 * controller does.  promises: is durability promised for the memory?
 */
static bool lands_in_cache(const struct pmv_domain *domain, bool promises)
{
	if (pmv_setting_fills_caches())
		return true;
	if (domain->cpu_placed && promises)
		PMV_ALERT(MR, "FI_PMEMVERBS_DDIO=off is believed, although software places inbound "
			      "data here, which leaves it in the caches\n");
	return false;
}

/* may_be_written -- may somebody commit to it? */
static bool may_be_written(const struct pmv_domain *domain, uint64_t access, uint64_t flags)
{
	return (access & FI_REMOTE_WRITE) && (domain->pmem || (flags & FI_PMEM));
}

/* is_kept_secret -- may peers only read it if the application says so, and it does not? */
static bool is_kept_secret(uint64_t access)
{
	return !(access & FI_REMOTE_READ) && pmv_setting.reads_explicit;
}

/* check_secret -- such a region must not be readable all the same */
static int check_secret(const struct pmv_domain *domain)
{
	if (!pmv_core_grants_all(domain->engine.core))
		return 0;
	PMV_WARN(MR,
		 "FI_PMEMVERBS_REMOTE_READ=explicit can't be kept: libfabric's cache of regions "
		 "lets all peers read them; set FI_MR_CACHE_MAX_COUNT=0\n");
	return -FI_EOPNOTSUPP;
}

/* may_be_sent_to -- may somebody commit messages that are received in it? */
static bool may_be_sent_to(const struct pmv_domain *domain, uint64_t access, uint64_t flags)
{
	return (access & FI_RECV) && (flags & FI_PMEM) && domain->pmem && domain->keyed;
}

/* may_be_told_of -- may the application be told of writes there?  Then all of them are told of. */
static bool may_be_told_of(const struct pmv_domain *domain, uint64_t access)
{
	return (access & FI_REMOTE_WRITE) && domain->events;
}

static int describe(const struct pmv_mr *mr, const struct fi_mr_attr *mr_attr, uint64_t flags,
		    struct pmv_attr *attr, int *node)
{
	const struct pmv_domain *domain = mr->domain;
	uint64_t access = mr_attr->access;
	bool promises = (flags & FI_PMEM) &&
			((access & FI_REMOTE_WRITE) || may_be_sent_to(domain, access, flags));
	int ret;

	*node = -1;
	*attr = (struct pmv_attr){
		.persist = PMV_NONE,
		.pmem = flags & FI_PMEM,
		.ddio = lands_in_cache(domain, promises),
		.uncached = flags & FI_UNCACHED,
		.relaxed = pmv_setting.relaxed,
		.readable = access & FI_REMOTE_READ,
		.writable = access & FI_REMOTE_WRITE,
		.events = may_be_told_of(domain, access),
		.life = domain->life,
	};
	/* Nothing is promised for memory that no peer may write or send to. */
	if (!promises)
		return 0;
	if (!domain->keyed) {
		PMV_WARN(MR,
			 "FI_RMA_PMEM needs keys that the provider chooses: open the domain with "
			 "FI_MR_PROV_KEY in mr_mode\n");
		return -FI_EINVAL;
	}
	/* Whatever is declared: data are in its file once the agent has written them. */
	if (mr->direct) {
		attr->persist = PMV_PAGE;
		return 0;
	}
	ret = find_persist(mr_attr, &attr->persist, node);
	if (!pmv_setting.domain_declared)
		attr->persist = pmv_core_persist(domain->engine.core, attr->persist);
	return ret;
}

/*
 * open_files -- of a region for which durability is promised.  Without an agent nobody can
 * sync pages.
 */
static int open_files(const struct fi_mr_attr *mr_attr, enum pmv_persist persist,
		      struct pmv_files **files)
{
	struct pmv_mem mem;
	int ret;

	if (persist == PMV_PAGE && pmv_setting.agent == PMV_AGENT_OFF)
		return 0;
	ret = pmv_files_open(mr_attr->mr_iov, mr_attr->iov_count, persist,
			     pmv_setting.domain_declared, files, &mem);
	return ret ? refuse(mr_attr->mr_iov, &mem, ret) : 0;
}

static int explain_failure(int err, const struct fi_mr_attr *mr_attr, bool pmem)
{
	pmv_engine_explain(err, pmv_iov_len(mr_attr->mr_iov, mr_attr->iov_count));
	if (err == -FI_EFAULT && pmem)
		PMV_WARN(MR, "the kernel does not pin this memory for a NIC; recent ones refuse "
			     "plain files: use fi_pmemverbs_file(7), devdax, or the tcp core\n");
	if (err == -FI_EOPNOTSUPP && pmem)
		PMV_WARN(
			MR,
			"the kernel does not pin files on a DAX file system for a NIC: use devdax, "
			"or a NIC with on-demand paging and FI_VERBS_USE_ODP=1\n");
	return err;
}

/* find_direct -- is it memory of a file?  Then that is not closed before. */
static int find_direct(struct pmv_mr *mr, const struct fi_mr_attr *mr_attr)
{
	struct pmv_mem mem;
	int ret = pmv_direct_hold(mr_attr->mr_iov, mr_attr->iov_count, &mr->direct, &mem);

	if (ret)
		PMV_WARN(MR, "%p, %zu bytes, can't be registered: %s\n", mr_attr->mr_iov->iov_base,
			 mr_attr->mr_iov->iov_len, mem.what);
	return ret;
}

/* may_be_flushed -- would an RDMA FLUSH take the place of the agent there? */
static bool may_be_flushed(const struct pmv_domain *domain, const struct pmv_attr *attr)
{
	return domain->keyed && attr->pmem && attr->writable && attr->persist == PMV_DMP &&
	       attr->ddio && !attr->relaxed && !attr->events;
}

/* open_flushable -- false: nothing here can, or the kernel does not take this memory for it */
static bool open_flushable(struct pmv_mr *mr, const struct fi_mr_attr *mr_attr, uint64_t flags,
			   bool *atomic_write)
{
	const struct pmv_engine *engine = &mr->domain->engine;
	uint64_t right = pmv_engine_flush_right(engine);
	int ret;

	if (!right)
		return false;
	ret = pmv_engine_region(engine, mr_attr, flags | right | pmv_engine_atomic_write_right,
				&mr->core_fid);
	*atomic_write = !ret;
	if (ret == -FI_EOPNOTSUPP)
		ret = pmv_engine_region(engine, mr_attr, flags | right, &mr->core_fid);
	if (ret)
		PMV_INFO(MR, "%p, %zu bytes, can't be made durable by RDMA FLUSH: %s\n",
			 mr_attr->mr_iov->iov_base, mr_attr->mr_iov->iov_len, fi_strerror(-ret));
	return !ret;
}

/*
 * open_core -- the core's region.  The core's key must fit into 32 bits, as the keys of all
 * providers so far do.  libfabric since 2.2 has none for what peers can't reach.
 */
static int open_core(struct pmv_mr *mr, const struct fi_mr_attr *mr_attr, uint64_t flags,
		     struct pmv_attr *attr)
{
	struct pmv_domain *domain = mr->domain;
	uint64_t key;
	int ret = 0;

	attr->flushable = may_be_flushed(domain, attr) &&
			  open_flushable(mr, mr_attr, flags, &attr->atomic_write);
	if (!attr->flushable)
		ret = pmv_engine_region(&domain->engine, mr_attr, flags, &mr->core_fid);
	if (ret)
		return explain_failure(ret, mr_attr, attr->pmem);
	key = fi_mr_key(mr->core_fid);
	if (domain->keyed && key == FI_KEY_NOTAVAIL &&
	    !(mr_attr->access & (FI_REMOTE_READ | FI_REMOTE_WRITE)))
		key = PMV_REGION_NO_KEY;
	if (domain->keyed && key > UINT32_MAX) {
		PMV_WARN(MR, "the core's key %#llx leaves no room for attributes\n",
			 (unsigned long long) key);
		return -FI_EKEYREJECTED;
	}
	mr->mr_fid.mem_desc = fi_mr_desc(mr->core_fid);
	mr->mr_fid.key = domain->keyed ? pmv_key_pack((uint32_t) key, attr) : key;
	return 0;
}

/*
 * watch -- the memory of a region, if commits can report its loss, and if the process leaves
 * SIGBUS to the provider.  Otherwise the watch would hide the loss.
 */
static int watch(struct pmv_mr *mr, const struct fi_mr_attr *mr_attr, bool needed)
{
	int ret = 0;

	if (pmv_setting.agent == PMV_AGENT_OFF || pmv_setting.leaves_sigbus ||
	    (mr->domain->engine.core->manual_progress && !needed))
		return 0;
	for (size_t i = 0; i < mr_attr->iov_count && !ret; i++) {
		const struct iovec *iov = &mr_attr->mr_iov[i];

		if (pmv_detect_may_fault(iov->iov_base, iov->iov_len))
			ret = pmv_guard_add(&mr->watch, iov->iov_base, iov->iov_len);
	}
	return ret ? ret : pmv_files_watch(mr->files, &mr->watch);
}

/* introduce -- tell the agent of a region */
static int introduce(struct pmv_mr *mr, const struct fi_mr_attr *mr_attr,
		     const struct pmv_attr *attr, int node)
{
	struct pmv_domain *domain = mr->domain;
	struct pmv_region_attr region = {
		.key = (uint32_t) pmv_key_core(mr->mr_fid.key),
		.persist = attr->persist,
		.use = (attr->writable ? PMV_REGION_REMOTE : 0) |
		       (attr->readable ? PMV_REGION_READ : 0) |
		       (attr->pmem && domain->pmem ? PMV_REGION_PMEM : 0),
		.start = domain->engine.virt_addr ? (uintptr_t) mr_attr->mr_iov[0].iov_base : 0,
		.iov = mr_attr->mr_iov,
		.iov_count = mr_attr->iov_count,
		.files = mr->files,
		/* Nothing is promised of another one. */
		.direct = attr->persist == PMV_PAGE ? mr->direct : NULL,
		/*
		 * No transport needs it where InfiniBand does not, but for the order of writes,
		 * and where a fence can't flush.
		 */
		.needs_agent = attr->relaxed || attr->events ||
			       (attr->writable && !attr->readable) ||
			       pmv_method_of_write(attr, PMV_TRANSPORT_IB) == PMV_METHOD_AGENT,
	};
	int ret;

	/* Without an agent it is still asked where messages are received: receive_tracker.h. */
	if (pmv_setting.agent == PMV_AGENT_OFF && !(region.use & PMV_REGION_PMEM))
		return 0;
	ret = pmv_setting.agent == PMV_AGENT_OFF ? 0 : pmv_flush_init();
	if (ret) {
		PMV_WARN(MR, "libpmem2 has no way to write this processor's caches back\n");
		return ret;
	}
	if (attr->pmem)
		ret = watch(mr, mr_attr, region.needs_agent);
	region.watch = mr->watch;
	return ret ? ret : pmv_agent_add_region(&domain->agent, &region, node, &mr->region);
}

static int mr_regattr(struct fid *fid, const struct fi_mr_attr *mr_attr, uint64_t flags,
		      struct fid_mr **mr_fid)
{
	struct pmv_domain *domain = pmv_container_of(fid, struct pmv_domain, domain_fid.fid);
	struct fi_mr_attr core_attr = *mr_attr;
	uint64_t core_flags = flags & ~(FI_PMEM | FI_UNCACHED | FI_RMA_EVENT);
	struct pmv_mr *mr = calloc(1, sizeof(*mr));
	struct pmv_attr attr;
	bool known; /* to the agent */
	int ret, node;

	if (!mr)
		return -FI_ENOMEM;
	atomic_fetch_add(&domain->users, 1);
	mr->domain = domain;
	mr->writable = mr_attr->access & FI_REMOTE_WRITE;
	if (mr_attr->iov_count == 1)
		mr->memory = mr_attr->mr_iov[0];
	mr->mr_fid.fid = (struct fid){
		.fclass = FI_CLASS_MR, .context = mr_attr->context, .ops = &pmv_mr_fi_ops};
	ret = find_direct(mr, mr_attr);
	if (!ret && pmv_setting.commit_all && domain->keyed &&
	    (mr_attr->access & FI_REMOTE_WRITE) && !(flags & FI_PMEM) &&
	    (mr->direct || is_found_pmem(mr_attr)))
		flags |= FI_PMEM;
	if (!ret && may_be_written(domain, mr_attr->access, flags)) {
		if (is_kept_secret(mr_attr->access))
			ret = check_secret(domain);
		else
			core_attr.access |= FI_REMOTE_READ;
	}
	known = may_be_written(domain, mr_attr->access, flags) ||
		may_be_sent_to(domain, mr_attr->access, flags) ||
		may_be_told_of(domain, mr_attr->access);
	if (known)
		core_flags |= PMV_CORE_MR_NOCACHE;
	if (!ret)
		ret = describe(mr, &core_attr, flags, &attr, &node);
	if (!ret && !mr->direct)
		ret = open_files(mr_attr, attr.persist, &mr->files);
	if (!ret)
		ret = open_core(mr, &core_attr, core_flags, &attr);
	if (!ret && domain->keyed && known)
		ret = introduce(mr, mr_attr, &attr, node);
	if (ret) {
		mr_close(&mr->mr_fid.fid);
		return ret;
	}
	*mr_fid = &mr->mr_fid;
	return 0;
}

static int mr_regv(struct fid *fid, const struct iovec *iov, size_t count, uint64_t access,
		   uint64_t offset, uint64_t requested_key, uint64_t flags, struct fid_mr **mr_fid,
		   void *context)
{
	struct fi_mr_attr attr = {
		.mr_iov = iov,
		.iov_count = count,
		.access = access,
		.offset = offset,
		.requested_key = requested_key,
		.context = context,
	};

	return mr_regattr(fid, &attr, flags, mr_fid);
}

static int mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset,
		  uint64_t requested_key, uint64_t flags, struct fid_mr **mr_fid, void *context)
{
	struct iovec iov = {.iov_base = (void *) buf, .iov_len = len};

	return mr_regv(fid, &iov, 1, access, offset, requested_key, flags, mr_fid, context);
}

struct fi_ops_mr pmv_mr_ops = {
	.size = sizeof(struct fi_ops_mr),
	.reg = mr_reg,
	.regv = mr_regv,
	.regattr = mr_regattr,
};
