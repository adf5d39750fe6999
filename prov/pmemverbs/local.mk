# SPDX-License-Identifier: BSD-2-Clause
# libfabric looks for providers in this directory, and in FI_PROVIDER_PATH.
providerdir = $(libdir)/libfabric
provider_LTLIBRARIES = libpmemverbs-fi.la

# From the lowest folder to the highest.
provider_sources = \
	prov/pmemverbs/base/clock.h \
	prov/pmemverbs/base/container.h \
	prov/pmemverbs/base/inline.h \
	prov/pmemverbs/base/log.c \
	prov/pmemverbs/base/log.h \
	prov/pmemverbs/base/setting.c \
	prov/pmemverbs/base/setting.h \
	prov/pmemverbs/base/signals.c \
	prov/pmemverbs/base/signals.h \
	prov/pmemverbs/base/spawn.c \
	prov/pmemverbs/base/spawn.h \
	prov/pmemverbs/base/silence.c \
	prov/pmemverbs/base/silence.h \
	prov/pmemverbs/base/table.h \
	prov/pmemverbs/memory/block_writer.c \
	prov/pmemverbs/memory/block_writer.h \
	prov/pmemverbs/memory/blocks.c \
	prov/pmemverbs/memory/blocks.h \
	prov/pmemverbs/memory/detect.c \
	prov/pmemverbs/memory/detect.h \
	prov/pmemverbs/memory/direct.c \
	prov/pmemverbs/memory/direct.h \
	prov/pmemverbs/memory/direct_file.c \
	prov/pmemverbs/memory/direct_file.h \
	prov/pmemverbs/memory/direct_path.c \
	prov/pmemverbs/memory/direct_path.h \
	prov/pmemverbs/memory/dirty.c \
	prov/pmemverbs/memory/dirty.h \
	prov/pmemverbs/memory/file.c \
	prov/pmemverbs/memory/file.h \
	prov/pmemverbs/memory/guard.c \
	prov/pmemverbs/memory/guard.h \
	prov/pmemverbs/memory/key.c \
	prov/pmemverbs/memory/key.h \
	prov/pmemverbs/memory/mapping.c \
	prov/pmemverbs/memory/mapping.h \
	prov/pmemverbs/memory/mount.c \
	prov/pmemverbs/memory/mount.h \
	prov/pmemverbs/memory/platform.c \
	prov/pmemverbs/memory/platform.h \
	prov/pmemverbs/memory/ring.c \
	prov/pmemverbs/memory/ring.h \
	prov/pmemverbs/memory/vma.c \
	prov/pmemverbs/memory/vma.h \
	prov/pmemverbs/engine/atomic.c \
	prov/pmemverbs/engine/atomic.h \
	prov/pmemverbs/engine/core.c \
	prov/pmemverbs/engine/core.h \
	prov/pmemverbs/engine/engine.c \
	prov/pmemverbs/engine/engine.h \
	prov/pmemverbs/engine/info.c \
	prov/pmemverbs/engine/info.h \
	prov/pmemverbs/engine/length.c \
	prov/pmemverbs/engine/length.h \
	prov/pmemverbs/progress/count.h \
	prov/pmemverbs/progress/op.c \
	prov/pmemverbs/progress/op.h \
	prov/pmemverbs/progress/queue.c \
	prov/pmemverbs/progress/queue.h \
	prov/pmemverbs/progress/ready.c \
	prov/pmemverbs/progress/ready.h \
	prov/pmemverbs/agent/agent.c \
	prov/pmemverbs/agent/agent.h \
	prov/pmemverbs/agent/complaint.c \
	prov/pmemverbs/agent/complaint.h \
	prov/pmemverbs/agent/direct_sync.c \
	prov/pmemverbs/agent/direct_sync.h \
	prov/pmemverbs/agent/flush.c \
	prov/pmemverbs/agent/flush.h \
	prov/pmemverbs/agent/flush_message.c \
	prov/pmemverbs/agent/flush_message.h \
	prov/pmemverbs/agent/hint.c \
	prov/pmemverbs/agent/hint.h \
	prov/pmemverbs/agent/idle.c \
	prov/pmemverbs/agent/idle.h \
	prov/pmemverbs/agent/idle_plan.c \
	prov/pmemverbs/agent/idle_plan.h \
	prov/pmemverbs/agent/kick.c \
	prov/pmemverbs/agent/kick.h \
	prov/pmemverbs/agent/link.c \
	prov/pmemverbs/agent/link.h \
	prov/pmemverbs/agent/look.c \
	prov/pmemverbs/agent/look.h \
	prov/pmemverbs/agent/mailbox.c \
	prov/pmemverbs/agent/mailbox.h \
	prov/pmemverbs/agent/pages.c \
	prov/pmemverbs/agent/pages.h \
	prov/pmemverbs/agent/receive_tracker.c \
	prov/pmemverbs/agent/receive_tracker.h \
	prov/pmemverbs/agent/receiver.c \
	prov/pmemverbs/agent/receiver.h \
	prov/pmemverbs/agent/region.c \
	prov/pmemverbs/agent/region.h \
	prov/pmemverbs/agent/rma_event.c \
	prov/pmemverbs/agent/rma_event.h \
	prov/pmemverbs/agent/sender.c \
	prov/pmemverbs/agent/sender.h \
	prov/pmemverbs/agent/queues.c \
	prov/pmemverbs/agent/queues.h \
	prov/pmemverbs/agent/service.c \
	prov/pmemverbs/agent/service.h \
	prov/pmemverbs/agent/stand_in.c \
	prov/pmemverbs/agent/stand_in.h \
	prov/pmemverbs/agent/status_query.c \
	prov/pmemverbs/agent/status_query.h \
	prov/pmemverbs/agent/syncing.c \
	prov/pmemverbs/agent/syncing.h \
	prov/pmemverbs/agent/thread.c \
	prov/pmemverbs/agent/wake.c \
	prov/pmemverbs/agent/wire.c \
	prov/pmemverbs/agent/wire.h \
	prov/pmemverbs/agent/writeback.c \
	prov/pmemverbs/agent/writeback.h \
	prov/pmemverbs/commit/answer.c \
	prov/pmemverbs/commit/answer.h \
	prov/pmemverbs/commit/flush_request.c \
	prov/pmemverbs/commit/flush_request.h \
	prov/pmemverbs/commit/group.c \
	prov/pmemverbs/commit/group.h \
	prov/pmemverbs/commit/hooks.h \
	prov/pmemverbs/commit/initiator.c \
	prov/pmemverbs/commit/initiator.h \
	prov/pmemverbs/commit/interpreter.c \
	prov/pmemverbs/commit/interpreter.h \
	prov/pmemverbs/commit/lost_writes.c \
	prov/pmemverbs/commit/lost_writes.h \
	prov/pmemverbs/commit/method.c \
	prov/pmemverbs/commit/method.h \
	prov/pmemverbs/commit/ordering.c \
	prov/pmemverbs/commit/ordering.h \
	prov/pmemverbs/commit/plan.c \
	prov/pmemverbs/commit/plan.h \
	prov/pmemverbs/commit/post.c \
	prov/pmemverbs/commit/post.h \
	prov/pmemverbs/commit/prepare.c \
	prov/pmemverbs/commit/prepare.h \
	prov/pmemverbs/commit/push.c \
	prov/pmemverbs/commit/push.h \
	prov/pmemverbs/commit/request.h \
	prov/pmemverbs/commit/run.c \
	prov/pmemverbs/commit/run.h \
	prov/pmemverbs/commit/submission.c \
	prov/pmemverbs/commit/submission.h \
	prov/pmemverbs/commit/submit.c \
	prov/pmemverbs/commit/submit.h \
	prov/pmemverbs/commit/target_event.c \
	prov/pmemverbs/commit/target_event.h \
	prov/pmemverbs/rdm/rdm.c \
	prov/pmemverbs/rdm/rdm.h \
	prov/pmemverbs/rdm/rdm_atomic.c \
	prov/pmemverbs/rdm/rdm_atomic.h \
	prov/pmemverbs/rdm/rdm_calls.c \
	prov/pmemverbs/rdm/rdm_calls.h \
	prov/pmemverbs/rdm/rdm_cq.c \
	prov/pmemverbs/rdm/rdm_cq.h \
	prov/pmemverbs/rdm/rdm_ep.c \
	prov/pmemverbs/rdm/rdm_ep.h \
	prov/pmemverbs/rdm/rdm_fence.c \
	prov/pmemverbs/rdm/rdm_fence.h \
	prov/pmemverbs/rdm/rdm_posting.c \
	prov/pmemverbs/rdm/rdm_posting.h \
	prov/pmemverbs/rdm/rdm_reach.c \
	prov/pmemverbs/rdm/rdm_reach.h \
	prov/pmemverbs/rdm/rdm_track.c \
	prov/pmemverbs/rdm/rdm_track.h \
	prov/pmemverbs/rdm/rdm_tracked.c \
	prov/pmemverbs/rdm/rdm_tracked.h \
	prov/pmemverbs/objects/atomic.c \
	prov/pmemverbs/objects/cm.c \
	prov/pmemverbs/objects/cntr.c \
	prov/pmemverbs/objects/cntr.h \
	prov/pmemverbs/objects/cq.c \
	prov/pmemverbs/objects/cq.h \
	prov/pmemverbs/objects/domain.c \
	prov/pmemverbs/objects/domain.h \
	prov/pmemverbs/objects/ep.c \
	prov/pmemverbs/objects/ep.h \
	prov/pmemverbs/objects/eq.c \
	prov/pmemverbs/objects/eq.h \
	prov/pmemverbs/objects/fabric.c \
	prov/pmemverbs/objects/fabric.h \
	prov/pmemverbs/objects/file_ops.c \
	prov/pmemverbs/objects/getinfo.c \
	prov/pmemverbs/objects/handshake.c \
	prov/pmemverbs/objects/handshake.h \
	prov/pmemverbs/objects/status_reply.c \
	prov/pmemverbs/objects/mr.c \
	prov/pmemverbs/objects/msg.c \
	prov/pmemverbs/objects/pep.c \
	prov/pmemverbs/objects/provider.c \
	prov/pmemverbs/objects/rma.c \
	prov/pmemverbs/objects/srx.c \
	prov/pmemverbs/objects/tally.c \
	prov/pmemverbs/objects/unwrap.c \
	prov/pmemverbs/objects/unwrap.h

provider_cflags = $(URING_CFLAGS) $(PMEM2_CFLAGS) $(SODIUM_CFLAGS) $(NUMA_CFLAGS) $(MOUNT_CFLAGS) -pthread
provider_libs = $(LIBFABRIC_LIBS) $(PMEM2_LIBS) $(SODIUM_LIBS) $(NUMA_LIBS) $(MOUNT_LIBS) $(URING_LIBS)

# Its objects: unit tests, which reach into them, use the same.
noinst_LTLIBRARIES = libprovider.la
libprovider_la_SOURCES = $(provider_sources)
libprovider_la_CFLAGS = $(AM_CFLAGS) $(provider_cflags) -fvisibility=hidden
libprovider_la_LIBADD = $(provider_libs)

libpmemverbs_fi_la_SOURCES =
# A thread may be left behind when the process ends: its code must not go away.
libpmemverbs_fi_la_LDFLAGS = -module -avoid-version -shared -export-dynamic -pthread -Wl,-z,nodelete
libpmemverbs_fi_la_LIBADD = libprovider.la
