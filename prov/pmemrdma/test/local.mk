# SPDX-License-Identifier: BSD-2-Clause
# local.mk -- the unit tests of pmemrdma, over libraries without a device; %D% is this directory

pmemrdma_tests = test_rdma_calls test_rdma_connect test_rdma_failures test_rdma_more test_rdma_post test_rdma_removed test_rdma_room
if HAVE_RDMA_FLUSH
pmemrdma_tests += test_rdma_flush_post
else
EXTRA_DIST += %D%/fake_flush.c %D%/test_rdma_flush_post.c
endif
TESTS += $(pmemrdma_tests)
check_PROGRAMS += $(pmemrdma_tests)

pmemrdma_rig = \
	%D%/fake_cm.c %D%/fake_impl.h %D%/fake_verbs.c %D%/fake_verbs.h \
	%D%/link.c %D%/link.h %D%/listener.c %D%/listener.h
if HAVE_RDMA_FLUSH
pmemrdma_rig += %D%/fake_flush.c
endif
pmemrdma_libs = libpmemrdma.la $(CRITERION_LIBS) $(LIBFABRIC_LIBS) -lpthread

test_rdma_calls_SOURCES = %D%/test_rdma_calls.c $(pmemrdma_rig)
test_rdma_calls_LDADD = $(pmemrdma_libs)
test_rdma_connect_SOURCES = %D%/test_rdma_connect.c $(pmemrdma_rig)
test_rdma_connect_LDADD = $(pmemrdma_libs)
test_rdma_connect_LDFLAGS = -Wl,--wrap=getaddrinfo
test_rdma_failures_SOURCES = %D%/test_rdma_failures.c %D%/fake_memory.c $(pmemrdma_rig)
test_rdma_failures_LDADD = $(pmemrdma_libs)
test_rdma_failures_LDFLAGS = -Wl,--wrap=malloc,--wrap=calloc,--wrap=strdup,--wrap=fi_dupinfo \
	-Wl,--wrap=eventfd,--wrap=epoll_create1,--wrap=epoll_ctl,--wrap=fcntl,--wrap=getaddrinfo
test_rdma_flush_post_SOURCES = %D%/test_rdma_flush_post.c $(pmemrdma_rig)
test_rdma_flush_post_LDADD = $(pmemrdma_libs)
test_rdma_more_SOURCES = %D%/test_rdma_more.c $(pmemrdma_rig)
test_rdma_more_LDADD = $(pmemrdma_libs)
test_rdma_post_SOURCES = %D%/test_rdma_post.c $(pmemrdma_rig)
test_rdma_post_LDADD = $(pmemrdma_libs)
test_rdma_removed_SOURCES = %D%/test_rdma_removed.c $(pmemrdma_rig)
test_rdma_removed_LDADD = $(pmemrdma_libs)
test_rdma_room_SOURCES = %D%/test_rdma_room.c $(pmemrdma_rig)
test_rdma_room_LDADD = $(pmemrdma_libs)
