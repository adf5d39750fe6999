# SPDX-License-Identifier: BSD-2-Clause
# local.mk -- the unit tests; %D% is this directory

TESTS = test_agent test_agent_commit test_agent_fence test_atomic test_close test_cntr test_commit \
	test_cover test_cq test_dirty test_entries test_eq test_errors test_fence test_file test_flush \
	test_flush_effect test_guard test_hint test_info test_inject test_inquiry test_key test_length test_machine test_mem \
	test_method test_offer test_op test_outage test_lost_writes test_plan test_quick test_random test_received \
	test_region test_repair test_rma_event test_send test_share test_stall test_start test_store test_tally test_threads \
	test_wire
check_PROGRAMS = $(TESTS) bench_calls bench_dirty

# What tests share, compiled once: a fake core provider, a rig that mounts the provider on it,
# and a pair of rigs.  Criterion needs help with threads.
check_LTLIBRARIES += libtesting.la
libtesting_la_SOURCES = $(testcore_sources) \
	%D%/criterion_tsan.c \
	%D%/dice.h \
	%D%/fake_core.c %D%/fake_core.h \
	%D%/fake_eq.c \
	%D%/fake_impl.h \
	%D%/fake_objects.c \
	%D%/pair.c %D%/pair.h \
	%D%/rig.c %D%/rig.h

# For all programs that name no others.  Before Criterion, of which a function is replaced.
LDADD = libtesting.la libprovider.la $(CRITERION_LIBS) $(LIBFABRIC_LIBS) -lpthread

test_agent_SOURCES = %D%/test_agent.c %D%/test_agent_closed.c %D%/test_agent_threads.c %D%/test_agent.h
test_agent_commit_SOURCES = %D%/test_agent_commit.c %D%/test_agent_faults.c %D%/test_agent_commit.h
test_agent_fence_SOURCES = %D%/test_agent_fence.c
test_atomic_SOURCES = %D%/test_atomic.c
test_close_SOURCES = %D%/test_close.c
test_cntr_SOURCES = %D%/test_cntr.c
test_commit_SOURCES = %D%/test_commit.c %D%/test_commit_refused.c %D%/test_commit.h
test_cover_SOURCES = %D%/test_cover.c %D%/test_cover_agent.c %D%/test_cover.h
test_cq_SOURCES = %D%/test_cq.c
test_dirty_SOURCES = %D%/test_dirty.c
test_entries_SOURCES = %D%/test_entries.c
test_eq_SOURCES = %D%/test_eq.c
test_errors_SOURCES = %D%/test_errors.c
test_fence_SOURCES = %D%/test_fence.c %D%/test_fence_core.c
test_file_SOURCES = %D%/test_file.c %D%/syscalls.c %D%/syscalls.h
test_flush_SOURCES = %D%/test_flush.c
test_flush_effect_SOURCES = %D%/test_flush_effect.c
test_guard_SOURCES = %D%/test_guard.c %D%/syscalls.c %D%/syscalls.h
test_hint_SOURCES = %D%/test_hint.c
test_info_SOURCES = %D%/test_info.c %D%/test_info_rdm.c %D%/test_info.h
test_inject_SOURCES = %D%/test_inject.c %D%/test_inject_open.c %D%/inject.c %D%/inject.h
test_inquiry_SOURCES = %D%/test_inquiry.c
test_key_SOURCES = %D%/test_key.c
test_length_SOURCES = %D%/test_length.c
test_machine_SOURCES = %D%/test_machine.c %D%/mem_system.c %D%/mem_system.h
test_machine_LDADD = libtesting.la libinfo.la $(CRITERION_LIBS) $(JSON_C_LIBS) $(LIBFABRIC_LIBS) -lpthread
test_mem_SOURCES = %D%/test_mem.c %D%/test_mem_files.c %D%/test_mem_input.c %D%/test_mem_own.c \
	%D%/mem_system.c %D%/mem_system.h
test_method_SOURCES = %D%/test_method.c
test_offer_SOURCES = %D%/test_offer.c
test_op_SOURCES = %D%/test_op.c
test_outage_SOURCES = %D%/test_outage.c
test_lost_writes_SOURCES = %D%/test_lost_writes.c
test_plan_SOURCES = %D%/test_plan.c
test_quick_SOURCES = %D%/test_quick.c
test_random_SOURCES = %D%/test_random.c
test_received_SOURCES = %D%/test_received.c
test_region_SOURCES = %D%/test_region.c
test_repair_SOURCES = %D%/test_repair.c
test_rma_event_SOURCES = %D%/test_rma_event.c %D%/test_rma_event_limits.c %D%/test_rma_event.h
test_send_SOURCES = %D%/test_send.c %D%/test_send_errors.c %D%/test_send.h
test_share_SOURCES = %D%/test_share.c
test_stall_SOURCES = %D%/test_stall.c
test_start_SOURCES = %D%/test_start.c
test_store_SOURCES = %D%/test_store.c
test_tally_SOURCES = %D%/test_tally.c
test_threads_SOURCES = %D%/test_threads.c
test_wire_SOURCES = %D%/test_wire.c %D%/test_wire_messages.c %D%/test_wire.h

# What is asked of the kernel and of libpmem2 is looked at on its way.
test_flush_LDFLAGS = -Wl,--wrap=msync,--wrap=madvise,--wrap=pmem2_get_flush_fn \
	-Wl,--wrap=pmem2_get_drain_fn,--wrap=pmem2_get_memcpy_fn
test_flush_effect_LDFLAGS = -Wl,--wrap=madvise
# Settings and other providers are played.
test_offer_LDFLAGS = -Wl,--wrap=fi_param_get,--wrap=fi_getinfo
test_inject_LDFLAGS = -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=mmap \
	-Wl,--wrap=eventfd,--wrap=epoll_create1,--wrap=epoll_ctl
test_start_LDFLAGS = -Wl,--wrap=pthread_create

# Not tests: what the provider's calls cost, and what it costs to remember writes.
bench_calls_SOURCES = %D%/bench_calls.c
bench_dirty_SOURCES = %D%/bench_dirty.c
bench_dirty_LDADD = libprovider.la $(LIBFABRIC_LIBS) -lpthread
