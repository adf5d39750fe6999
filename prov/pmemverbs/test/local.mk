# SPDX-License-Identifier: BSD-2-Clause
# local.mk -- the unit tests; %D% is this directory
#
# A folder has the tests of the provider's folder of that name, and a test is named after the file whose
# behaviour it tests.  whole/ has tests of the provider as a whole, support/ what tests share.

TESTS = \
	test_cancel test_fork_lock test_listener test_silence test_text_socket \
	test_admission test_keys test_noise test_replay test_ticket test_ticket_client test_ticket_link test_ticket_server \
	test_blocks test_detect test_detect_stack test_direct test_dirty test_file test_file_part test_guard test_key test_ring \
	test_info test_info_entries test_length \
	test_op test_queue test_signal test_wait \
	test_pages test_flush test_flush_effect test_agent test_chain test_complaint test_hint test_idle test_idle_plan test_status_query test_mailbox test_link test_look test_receive_tracker test_region test_region_sync \
	test_queues test_rma_event test_service test_syncing test_thread test_thread_start test_wire test_writeback \
	test_flush_request test_group test_lost_writes test_method test_ordering test_ordering_agent \
	test_plan test_post test_post_list test_prepare test_push test_rdma_flush test_run test_sample test_small test_submit \
	test_rdm_atomic test_rdm_cq test_rdm_fence test_rdm_reach \
	test_admit test_atomic test_chain_ops test_cntr test_cq test_cq_wait test_ep test_eq test_file_ops test_getinfo test_held test_metrics test_mr test_msg test_msg_errors test_pep test_status_reply test_strangers test_tally test_tickets \
	test_inject test_many_threads test_power_failures test_random_programs
check_PROGRAMS = $(TESTS) bench_calls bench_dirty

# What tests share, compiled once: a fake core provider, a rig that mounts the provider on it,
# and a pair of rigs.  Criterion needs help with threads.
check_LTLIBRARIES += libtesting.la
libtesting_la_SOURCES = $(testcore_sources) \
	%D%/support/criterion_tsan.c \
	%D%/support/dice.h %D%/support/introduce.h \
	%D%/support/fake_core.c %D%/support/fake_core.h \
	%D%/support/fake_eq.c \
	%D%/support/fake_impl.h \
	%D%/support/fake_objects.c \
	%D%/support/pair.c %D%/support/pair.h \
	%D%/support/rig.c %D%/support/rig.h \
	%D%/support/signal_pair.h
mem_system_sources = %D%/support/mem_system.c %D%/support/mem_system.h
drive_sources = %D%/support/drive.c %D%/support/drive.h
chain_sources = %D%/objects/chain.c %D%/objects/chain.h
slices_sources = %D%/agent/slices.c %D%/agent/slices.h
key_dirs_sources = %D%/support/key_dirs.c %D%/support/key_dirs.h
syscalls_sources = %D%/support/syscalls.c %D%/support/syscalls.h

# For all programs that name no others.  Before Criterion, of which a function is replaced.
LDADD = libtesting.la libprovider.la $(CRITERION_LIBS) $(LIBFABRIC_LIBS) $(SODIUM_LIBS) -lpthread

# base/
test_cancel_SOURCES = %D%/base/test_cancel.c
test_fork_lock_SOURCES = %D%/base/test_fork_lock.c
test_listener_SOURCES = %D%/base/test_listener.c %D%/support/tcp_silence.c %D%/support/tcp_silence.h
test_silence_SOURCES = %D%/base/test_silence.c
test_text_socket_SOURCES = %D%/base/test_text_socket.c

# auth/
test_admission_SOURCES = %D%/auth/test_admission.c $(key_dirs_sources)
test_keys_SOURCES = %D%/auth/test_keys.c
test_noise_SOURCES = %D%/auth/test_noise.c
test_replay_SOURCES = %D%/auth/test_replay.c
test_ticket_SOURCES = %D%/auth/test_ticket.c $(key_dirs_sources)
test_ticket_client_SOURCES = %D%/auth/test_ticket_client.c %D%/support/descriptors.h $(key_dirs_sources)
test_ticket_link_SOURCES = %D%/auth/test_ticket_link.c $(key_dirs_sources)
test_ticket_server_SOURCES = %D%/auth/test_ticket_server.c %D%/support/descriptors.h $(key_dirs_sources)

# memory/
test_detect_SOURCES = %D%/memory/test_detect.c %D%/memory/test_detect_files.c \
	%D%/memory/test_detect_dimm.c %D%/memory/test_detect_disk.c \
	%D%/memory/test_detect_input.c %D%/memory/test_detect_overlay.c \
	%D%/memory/test_detect_own.c $(mem_system_sources)
test_detect_stack_SOURCES = %D%/memory/test_detect_stack.c $(mem_system_sources)
test_blocks_SOURCES = %D%/memory/test_blocks.c
test_direct_SOURCES = %D%/memory/test_direct.c %D%/memory/test_direct_open.c $(drive_sources)
test_dirty_SOURCES = %D%/memory/test_dirty.c
test_file_SOURCES = %D%/memory/test_file.c %D%/support/descriptors.h $(syscalls_sources)
test_file_part_SOURCES = %D%/memory/test_file_part.c
test_guard_SOURCES = %D%/memory/test_guard.c $(syscalls_sources)
test_key_SOURCES = %D%/memory/test_key.c
test_ring_SOURCES = %D%/memory/test_ring.c

# engine/
test_info_SOURCES = %D%/engine/test_info.c %D%/engine/test_info_layer.c %D%/engine/test_info.h
test_info_entries_SOURCES = %D%/engine/test_info_entries.c
test_length_SOURCES = %D%/engine/test_length.c

# progress/
test_op_SOURCES = %D%/progress/test_op.c %D%/progress/test_op_errors.c
test_queue_SOURCES = %D%/progress/test_queue.c
test_signal_SOURCES = %D%/progress/test_signal.c
test_wait_SOURCES = %D%/progress/test_wait.c

# agent/
test_pages_SOURCES = %D%/agent/test_pages.c $(drive_sources)
test_flush_SOURCES = %D%/agent/test_flush.c
test_flush_effect_SOURCES = %D%/agent/test_flush_effect.c
test_agent_SOURCES = %D%/agent/test_agent.c
test_chain_SOURCES = %D%/agent/test_chain.c %D%/agent/test_chain_message.c \
	%D%/agent/test_free_list.c %D%/agent/disks.c %D%/agent/disks.h
test_complaint_SOURCES = %D%/agent/test_complaint.c
test_hint_SOURCES = %D%/agent/test_hint.c
test_idle_SOURCES = %D%/agent/test_idle.c %D%/agent/test_idle_beside.c %D%/agent/idle_scene.c %D%/agent/idle_scene.h
test_idle_plan_SOURCES = %D%/agent/test_idle_plan.c
test_status_query_SOURCES = %D%/agent/test_status_query.c
test_link_SOURCES = %D%/agent/test_link.c
test_look_SOURCES = %D%/agent/test_look.c
test_mailbox_SOURCES = %D%/agent/test_mailbox.c
test_receive_tracker_SOURCES = %D%/agent/test_receive_tracker.c
test_region_SOURCES = %D%/agent/test_region.c
test_region_sync_SOURCES = %D%/agent/test_region_sync.c
test_rma_event_SOURCES = %D%/agent/test_rma_event.c %D%/agent/test_rma_event_limits.c %D%/agent/test_rma_event.h
test_queues_SOURCES = %D%/agent/test_queues.c
test_service_SOURCES = %D%/agent/test_service.c %D%/agent/test_service_closed.c
test_thread_SOURCES = %D%/agent/test_thread.c %D%/agent/test_thread_share.c $(slices_sources)
test_syncing_SOURCES = %D%/agent/test_syncing.c %D%/agent/test_syncing_calls.c %D%/agent/test_stand_in.c \
	%D%/agent/disks.c %D%/agent/disks.h
test_thread_start_SOURCES = %D%/agent/test_thread_start.c
test_wire_SOURCES = %D%/agent/test_wire.c %D%/agent/test_wire_messages.c %D%/agent/test_wire_replies.c %D%/agent/test_wire.h
test_writeback_SOURCES = %D%/agent/test_writeback.c %D%/agent/test_writeback_stores.c $(slices_sources)

# commit/
test_flush_request_SOURCES = %D%/commit/test_flush_request.c %D%/commit/test_flush_request_faults.c \
	%D%/commit/test_flush_request.h
test_group_SOURCES = %D%/commit/test_group.c %D%/commit/test_group_agent.c %D%/commit/test_group.h
test_lost_writes_SOURCES = %D%/commit/test_lost_writes.c
test_method_SOURCES = %D%/commit/test_method.c
test_ordering_SOURCES = %D%/commit/test_ordering.c %D%/commit/test_ordering_core.c
test_ordering_agent_SOURCES = %D%/commit/test_ordering_agent.c %D%/commit/test_ordering_relaxed.c
test_plan_SOURCES = %D%/commit/test_plan.c
test_post_SOURCES = %D%/commit/test_post.c
test_post_list_SOURCES = %D%/commit/test_post_list.c
test_prepare_SOURCES = %D%/commit/test_prepare.c
test_push_SOURCES = %D%/commit/test_push.c %D%/commit/test_flush_request.h
test_push_LDFLAGS = -Wl,--wrap=clock_gettime
test_rdma_flush_SOURCES = %D%/commit/test_rdma_flush.c %D%/commit/test_rdma_flush_tail.c %D%/commit/test_rdma_flush_waits.c \
	$(chain_sources) %D%/support/flush_rig.c %D%/support/flush_rig.h
test_run_SOURCES = %D%/commit/test_run.c
test_sample_SOURCES = %D%/commit/test_sample.c
test_small_SOURCES = %D%/commit/test_small.c %D%/commit/test_small_pass.c %D%/commit/test_flush_request.h
test_submit_SOURCES = %D%/commit/test_submit.c %D%/commit/test_submit_delivery.c \
	%D%/commit/test_submit_lives.c %D%/commit/test_submit_placed.c \
	%D%/commit/test_submit_refused.c %D%/commit/test_submit.h

# rdm/
test_rdm_atomic_SOURCES = %D%/rdm/test_rdm_atomic.c
test_rdm_cq_SOURCES = %D%/rdm/test_rdm_cq.c
test_rdm_fence_SOURCES = %D%/rdm/test_rdm_fence.c
test_rdm_reach_SOURCES = %D%/rdm/test_rdm_reach.c

# objects/
test_admit_SOURCES = %D%/objects/test_admit.c $(key_dirs_sources)
test_atomic_SOURCES = %D%/objects/test_atomic.c
test_chain_ops_SOURCES = %D%/objects/test_chain_ops.c %D%/objects/test_chain_ops_commit.c \
	%D%/objects/test_chain_ops_large.c %D%/objects/test_chain_ops_refused.c $(chain_sources)
test_cntr_SOURCES = %D%/objects/test_cntr.c
test_cq_SOURCES = %D%/objects/test_cq.c
test_cq_wait_SOURCES = %D%/objects/test_cq_wait.c
test_cq_wait_LDFLAGS = -Wl,--wrap=clock_gettime -Wl,--wrap=nanosleep,--wrap=poll,--wrap=pthread_setcancelstate
test_ep_SOURCES = %D%/objects/test_ep.c
test_eq_SOURCES = %D%/objects/test_eq.c %D%/objects/test_eq_sread.c
test_file_ops_SOURCES = %D%/objects/test_file_ops.c $(drive_sources)
test_getinfo_SOURCES = %D%/objects/test_getinfo.c $(key_dirs_sources)
test_held_SOURCES = %D%/objects/test_held.c $(key_dirs_sources)
test_metrics_SOURCES = %D%/objects/test_metrics.c
test_mr_SOURCES = %D%/objects/test_mr.c $(key_dirs_sources)
test_msg_SOURCES = %D%/objects/test_msg.c %D%/objects/test_msg.h
test_msg_errors_SOURCES = %D%/objects/test_msg_errors.c %D%/objects/test_msg.h
test_pep_SOURCES = %D%/objects/test_pep.c
test_status_reply_SOURCES = %D%/objects/test_status_reply.c
test_strangers_LDFLAGS = -Wl,--wrap=nanosleep,--wrap=socket
test_strangers_SOURCES = %D%/objects/test_strangers.c %D%/support/tcp_silence.c %D%/support/tcp_silence.h
test_tally_SOURCES = %D%/objects/test_tally.c
test_tickets_SOURCES = %D%/objects/test_tickets.c %D%/objects/test_tickets_hold.c %D%/objects/stage.c \
	%D%/objects/stage.h $(key_dirs_sources)

# whole/
test_inject_SOURCES = %D%/whole/test_inject.c %D%/whole/test_inject_open.c \
	%D%/support/inject.c %D%/support/inject.h
test_many_threads_SOURCES = %D%/whole/test_many_threads.c
test_power_failures_SOURCES = %D%/whole/test_power_failures.c
test_random_programs_SOURCES = %D%/whole/test_random_programs.c

# A drive that fails.
drive_wraps = -Wl,--wrap=pmv_ring_open,--wrap=pmv_ring_write,--wrap=pwritev2,--wrap=fdatasync,--wrap=fstatfs

# What is asked of the kernel and of libpmem2 is looked at on its way.
test_flush_LDFLAGS = -Wl,--wrap=msync,--wrap=madvise,--wrap=sync_file_range,--wrap=pmem2_get_flush_fn \
	-Wl,--wrap=pmem2_get_drain_fn,--wrap=pmem2_get_memcpy_fn
test_flush_effect_LDFLAGS = -Wl,--wrap=madvise
test_direct_LDFLAGS = $(drive_wraps) -Wl,--wrap=fcntl
test_pages_LDFLAGS = $(drive_wraps)
test_file_ops_LDFLAGS = $(drive_wraps)
test_admission_LDFLAGS = -Wl,--wrap=clock_gettime,--wrap=pmv_log_alert
test_ticket_client_LDFLAGS = -Wl,--wrap=clock_gettime
test_ticket_server_LDFLAGS = -Wl,--wrap=clock_gettime,--wrap=accept4
# Settings and other providers are played.
test_getinfo_LDFLAGS = -Wl,--wrap=fi_param_get,--wrap=fi_getinfo
test_inject_LDFLAGS = -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=mmap \
	-Wl,--wrap=eventfd,--wrap=epoll_create1,--wrap=epoll_ctl,--wrap=timerfd_create
test_idle_LDFLAGS = -Wl,--wrap=clock_gettime,--wrap=poll,--wrap=ppoll,--wrap=epoll_wait,--wrap=timerfd_settime
test_service_LDFLAGS = -Wl,--wrap=pmv_region_fault_in
test_queues_LDFLAGS = -Wl,--wrap=epoll_ctl
test_keys_LDFLAGS = -Wl,--wrap=fstat,--wrap=read
test_ring_LDFLAGS = -Wl,--wrap=io_uring_queue_init,--wrap=io_uring_submit_and_wait,--wrap=nanosleep
test_region_LDFLAGS = -Wl,--wrap=pthread_cond_clockwait
test_region_sync_LDFLAGS = -Wl,--wrap=pmv_files_find,--wrap=pmv_files_cover,--wrap=pmv_files_state \
	-Wl,--wrap=pmv_files_map,--wrap=pmv_files_disk
test_syncing_LDFLAGS = -Wl,--wrap=pthread_create,--wrap=pmv_files_cover,--wrap=timerfd_settime
test_chain_LDFLAGS = -Wl,--wrap=pthread_create,--wrap=pmv_files_cover,--wrap=pmv_region_fault_in
test_chain_ops_LDFLAGS = -Wl,--wrap=getrlimit -Wl,--wrap=realloc
test_thread_start_LDFLAGS = -Wl,--wrap=pthread_create -Wl,--wrap=fi_log,--wrap=fi_log_enabled

# Not tests: what the provider's calls cost, and what it costs to remember writes.
bench_calls_SOURCES = %D%/whole/bench_calls.c %D%/whole/bench_rdm.c %D%/whole/bench_rdm.h
bench_dirty_SOURCES = %D%/memory/bench_dirty.c
bench_dirty_LDADD = libprovider.la $(LIBFABRIC_LIBS) -lpthread
