# SPDX-License-Identifier: BSD-2-Clause
# local.mk -- the provider pmemrdma: FI_EP_MSG over librdmacm and libibverbs; %D% is this directory

provider_LTLIBRARIES += libpmemrdma-fi.la

pmemrdma_sources = \
	prov/pmemverbs/base/container.h \
	%D%/address.c %D%/address.h \
	%D%/atomic.c \
	%D%/cm.c \
	%D%/cm_data.c %D%/cm_data.h \
	%D%/cq.c %D%/cq.h \
	%D%/device.c %D%/device.h \
	%D%/domain.c %D%/domain.h \
	%D%/enable.c \
	%D%/ep.c %D%/ep.h \
	%D%/eq.c %D%/eq.h \
	%D%/establish.c \
	%D%/event.c %D%/event.h \
	%D%/fabric.c %D%/fabric.h \
	%D%/flush.h \
	%D%/getinfo.c %D%/getinfo.h \
	%D%/info.c %D%/info.h \
	%D%/mr.c \
	%D%/msg.c \
	%D%/pep.c \
	%D%/pmemrdma_post.h \
	%D%/post.c %D%/post.h \
	%D%/post_ops.c %D%/post_ops.h \
	%D%/provider.c %D%/provider.h \
	%D%/queue.c %D%/queue.h \
	%D%/rma.c \
	%D%/srx.c \
	%D%/stubs.c \
	%D%/wait.c %D%/wait.h

# What libibverbs may have, or not.
if HAVE_RDMA_FLUSH
pmemrdma_sources += %D%/flush.c
EXTRA_DIST += %D%/flush_none.c
else
pmemrdma_sources += %D%/flush_none.c
EXTRA_DIST += %D%/flush.c
endif

# Its objects: unit tests, which reach into them, use the same.
noinst_LTLIBRARIES += libpmemrdma.la
libpmemrdma_la_SOURCES = $(pmemrdma_sources)
libpmemrdma_la_CFLAGS = $(AM_CFLAGS) $(IBVERBS_CFLAGS) -pthread -fvisibility=hidden
libpmemrdma_la_LIBADD = $(LIBFABRIC_LIBS) $(IBVERBS_LIBS)

libpmemrdma_fi_la_SOURCES =
libpmemrdma_fi_la_LDFLAGS = -module -avoid-version -shared -export-dynamic -pthread
libpmemrdma_fi_la_LIBADD = libpmemrdma.la
